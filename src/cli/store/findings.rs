//! The findings in a data directory, as text and as JSON.

use std::fmt::{Arguments, Display, Write};

use serde::Serialize;

use crate::cli::output::printable;

/// Damage that is listed one by one; the rest is a number.
const TOLD_MAX: usize = 100;

/// The content of a data directory, and what a start would do with it.
#[derive(Debug, Default, Serialize)]
pub(super) struct Findings {
    /// The format version in the file `FORMAT`.
    pub(super) format_version: Option<u32>,
    /// Whether the last run stopped in order.
    pub(super) stopped_in_order: bool,
    /// Wall-clock time of the last commit, in milliseconds since 1970.
    pub(super) last_commit_ms: Option<i64>,
    pub(super) vhosts: Vec<Vhost>,
    pub(super) segments: Vec<Segment>,
    /// Bytes of headers and records in all segments.
    pub(super) data_bytes: u64,
    /// Estimated bytes of these that are still needed.
    pub(super) live_bytes: u64,
    /// What a start would do.
    pub(super) start: Start,
    /// The damage that was found.
    pub(super) damage: Vec<Damage>,
    /// Number of damages beyond those listed.
    pub(super) damage_not_listed: u64,
}

/// One vhost, as a start would restore it.
#[derive(Debug, Serialize)]
pub(super) struct Vhost {
    pub(super) name: String,
    pub(super) queues: Vec<Queue>,
    pub(super) exchanges: usize,
    pub(super) bindings: usize,
    pub(super) policies: usize,
    pub(super) messages: u64,
    pub(super) messages_dead_pending: u64,
    pub(super) message_bytes: u64,
}

/// One queue of a vhost.
#[derive(Debug, Serialize)]
pub(super) struct Queue {
    pub(super) name: String,
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    /// Number of ready messages.
    pub(super) messages: u64,
    /// Number of dead letters that wait for a target.
    pub(super) messages_dead_pending: u64,
    /// Bytes of the ready bare messages.
    pub(super) message_bytes: u64,
}

/// One segment of the journal.
#[derive(Debug, Serialize)]
pub(super) struct Segment {
    pub(super) file: String,
    pub(super) first_record: u64,
    pub(super) last_record: u64,
    pub(super) data_bytes: u64,
    pub(super) live_bytes: u64,
    pub(super) live_records: u64,
    pub(super) sealed: bool,
    pub(super) rewritten: u32,
}

/// What a start would do.
#[derive(Debug, Default, Serialize)]
pub(super) struct Start {
    pub(super) checkpoint_blocks: usize,
    pub(super) replays_from_record: u64,
    pub(super) replays_facts: u64,
    /// Where it would cut the journal, since what follows was never confirmed.
    pub(super) cuts: Option<Cut>,
    /// Files that it would remove, since nothing in them is needed.
    pub(super) removes: Vec<String>,
    /// Files that it would rename, since their headers cannot be read.
    pub(super) sets_aside: Vec<String>,
    /// Number of missing bodies: their messages would be dropped.
    pub(super) lost_bodies: u64,
}

/// Where a start would cut the journal.
#[derive(Debug, Serialize)]
pub(super) struct Cut {
    pub(super) file: String,
    pub(super) offset: u64,
    pub(super) after_record: u64,
}

/// One case of damage.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub(super) enum Damage {
    /// A header cannot be read.
    Header { file: String },
    /// Bytes are not records, and were some.
    Stretch(Records),
    /// Records before a file are missing: the end of the one before it, or whole files.
    Missing(Records),
    /// The end of a checkpoint cannot be read.
    Checkpoint(Records),
    /// A block of the checkpoint cannot be read.
    Block(Records),
    /// The log ends before what had been durable.
    End(Records),
    /// A record with a right checksum has content that is never written.
    Record { record: u64, why: String },
    /// A message's bytes are missing, or are not its bytes.
    Body { record: u64, why: &'static str },
    /// A record refers to a queue that was never declared.
    Queue { queue: u64, record: u64 },
}

/// Records that are lost.
#[derive(Debug, Serialize)]
pub(super) struct Records {
    pub(super) file: String,
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) after_record: u64,
    /// The first good record behind them, if it is known.
    pub(super) before_record: Option<u64>,
    /// All of this in a sentence.
    #[serde(skip)]
    pub(super) told: String,
}

impl Findings {
    /// Adds a case of damage.
    pub(super) fn add(&mut self, damage: Damage) {
        if self.damage.len() < TOLD_MAX {
            self.damage.push(damage);
        } else {
            self.damage_not_listed += 1;
        }
    }

    /// Whether anything is damaged.
    pub(super) fn is_damaged(&self) -> bool {
        !self.damage.is_empty()
    }

    /// One JSON object on one line.
    pub(super) fn json(&self) -> String {
        // Plain data with texts for keys can always be written.
        let mut text = serde_json::to_string(self).unwrap_or_default();
        text.push('\n');
        text
    }

    /// The text of `store info`.
    pub(super) fn info(&self) -> String {
        let mut lines = Lines::default();
        match self.format_version {
            Some(version) => lines.add(format_args!("format {version}")),
            None => lines.add(format_args!("format not said")),
        }
        lines.add(format_args!("stopped in order: {}", self.stopped_in_order));
        for vhost in &self.vhosts {
            lines.vhost(vhost);
        }
        self.restored(&mut lines);
        let percent = (self.live_bytes * 100)
            .checked_div(self.data_bytes)
            .unwrap_or(0);
        let (segments, data) = (self.segments.len(), self.data_bytes);
        lines.add(format_args!(
            "{segments} segments, {data} bytes, {percent} percent live"
        ));
        for segment in &self.segments {
            lines.add(format_args!(
                "  {} records {} to {}, {} bytes, {} live, rewritten {} times",
                segment.file,
                segment.first_record,
                segment.last_record,
                segment.data_bytes,
                segment.live_bytes,
                segment.rewritten
            ));
        }
        lines.text
    }

    /// The text of `store check`: damage, and what a start would do.
    pub(super) fn check(&self) -> String {
        let mut lines = Lines::default();
        for damage in &self.damage {
            lines.add(format_args!("damage: {damage}"));
        }
        if self.damage_not_listed > 0 {
            lines.add(format_args!("damage: {} more", self.damage_not_listed));
        }
        self.restored(&mut lines);
        let start = &self.start;
        if let Some(cut) = &start.cuts {
            lines.add(format_args!(
                "a start cuts {} at byte {}: what follows record {} was never confirmed",
                cut.file, cut.offset, cut.after_record
            ));
        }
        for file in &start.removes {
            lines.add(format_args!(
                "a start removes {file}: nothing in it is needed"
            ));
        }
        for file in &start.sets_aside {
            lines.add(format_args!(
                "a start sets {file} aside: its header cannot be read"
            ));
        }
        if start.lost_bodies > 0 {
            lines.add(format_args!(
                "a start drops what {} bodies belonged to",
                start.lost_bodies
            ));
        }
        if !self.is_damaged() {
            lines.add(format_args!("no damage"));
        }
        lines.text
    }

    fn restored(&self, lines: &mut Lines) {
        let start = &self.start;
        let messages: u64 = self.vhosts.iter().map(|vhost| vhost.messages).sum();
        let pending = self.vhosts.iter().map(|vhost| vhost.messages_dead_pending);
        lines.add(format_args!(
            "a start restores {messages} messages and {} dead letters that wait, from {} checkpoint \
             blocks and {} facts, from record {} on",
            pending.sum::<u64>(),
            start.checkpoint_blocks,
            start.replays_facts,
            start.replays_from_record
        ));
    }
}

impl Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Header { file } => write!(f, "{file}: its header cannot be read"),
            Self::Stretch(records)
            | Self::Missing(records)
            | Self::Checkpoint(records)
            | Self::Block(records)
            | Self::End(records) => f.write_str(&records.told),
            Self::Record { record, why } => write!(f, "record {record}: {why}"),
            Self::Body { record, why } => write!(f, "the message of record {record}: {why}"),
            Self::Queue { queue, record } => write!(
                f,
                "record {record} speaks of queue {queue}, whose declaration is lost"
            ),
        }
    }
}

#[derive(Default)]
struct Lines {
    text: String,
}

impl Lines {
    /// Adds a line, without what would steer a terminal: it repeats names.
    fn add(&mut self, line: Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{}", printable(&line.to_string()));
    }

    fn vhost(&mut self, vhost: &Vhost) {
        self.add(format_args!(
            "vhost {}: {} queues, {} exchanges, {} bindings, {} policies, {} messages of {} bytes, \
             {} dead letters that wait",
            vhost.name,
            vhost.queues.len(),
            vhost.exchanges,
            vhost.bindings,
            vhost.policies,
            vhost.messages,
            vhost.message_bytes,
            vhost.messages_dead_pending
        ));
        for queue in &vhost.queues {
            self.add(format_args!(
                "vhost {} queue {}: {} messages, {} dead letters that wait",
                vhost.name, queue.name, queue.messages, queue.messages_dead_pending
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Lines;

    /// `coroner store info` printed names of queues as they are.
    #[test]
    fn names_in_findings_steer_no_terminal_and_begin_no_line() {
        let mut lines = Lines::default();
        lines.add(format_args!("queue {}", "\u{1b}[31m\u{202e}\nq"));
        assert_eq!(lines.text, "queue \\u{1b}[31m\\u{202e}\\nq\n");
    }
}
