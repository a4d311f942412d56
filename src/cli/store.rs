//! `coroner store`: a look at the data directory of a broker that is stopped.

use std::collections::BTreeMap;
use std::fmt::{Arguments, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::{Arg, ArgMatches, Command};

use super::{EXIT_FAILURE, EXIT_USAGE, complain};
use crate::base::{Millis, Name, Now, Seed};
use crate::broker::{Options, Restoring};
use crate::record;
use crate::store::{Depth, Disk, FileDisk, Inspection, Missing, Restored, StoreError, StoreReport};

/// The `store` command.
pub(super) fn command() -> Command {
    let directory = || {
        Arg::new("directory")
            .value_name("DIR")
            .required(true)
            .help("The data directory; no broker may be using it")
    };
    Command::new("store")
        .about("Looks at the data directory of a stopped broker; changes nothing in it")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(
            Command::new("info")
                .about("Lists its queues and its segments with what is live in them")
                .arg(directory()),
        )
        .subcommand(
            Command::new("check")
                .about("Reads every byte; says what is damaged and what a start would do")
                .arg(directory()),
        )
}

/// Runs the command. A check that finds damage ends with 1.
pub(super) fn run(matches: &ArgMatches) -> ExitCode {
    let Some((name, matches)) = matches.subcommand() else {
        return EXIT_USAGE.into();
    };
    let Some(directory) = matches.get_one::<String>("directory") else {
        return EXIT_USAGE.into();
    };
    let is_check = name == "check";
    let depth = if is_check {
        Depth::Everything
    } else {
        Depth::Start
    };
    let disk = FileDisk::enter(Path::new(directory), Missing::Refuse).map_err(StoreError::from);
    let found = match disk.and_then(|disk| look(&disk, depth)) {
        Ok(found) => found,
        Err(error) => {
            complain(&error);
            return EXIT_FAILURE.into();
        }
    };
    say(&if is_check {
        found.check()
    } else {
        found.info()
    });
    if is_check && found.is_damaged() {
        return EXIT_FAILURE.into();
    }
    ExitCode::SUCCESS
}

/// What lies in a directory.
struct Found {
    report: StoreReport,
    /// Vhost, queue, messages that wait, dead letters that wait for a target.
    queues: Vec<(Name, Name, u64, u64)>,
    /// Records that are no records of a broker of this version.
    unreadable: u64,
    /// Bodies that are named and not there.
    missing: u64,
}

fn look<D: Disk>(disk: &D, depth: Depth) -> Result<Found, StoreError> {
    let mut inspection = Inspection::new(disk, depth)?;
    let mut vhosts: BTreeMap<Name, Restoring> = BTreeMap::new();
    let mut unreadable = 0;
    let begin = |name: &Name| {
        // Times do not matter: nothing expires here.
        let now = Now::new(Millis::NEVER, crate::base::Timestamp(0));
        Restoring::new(Options::new(name.clone(), Seed(0)), now, now.wall, 0)
    };
    inspection.replay(|restored| {
        let (Restored::Block { lsn, payload } | Restored::Facts { lsn, payload }) = restored else {
            return;
        };
        match record::decode(lsn, payload) {
            Ok((name, record)) => {
                let vhost = vhosts.entry(name.clone());
                vhost.or_insert_with(|| begin(&name)).record(&record);
            }
            Err(_) => unreadable += 1,
        }
    })?;
    let mut missing = 0;
    let mut queues = Vec::new();
    for (name, vhost) in &mut vhosts {
        for body in vhost.bodies() {
            missing += u64::from(!inspection.retain(body));
        }
        queues.extend(vhost.core().queues().map(|queue| {
            let (ready, pending) = (queue.messages.ready(), queue.pending.len());
            (name.clone(), queue.name.clone(), ready, pending)
        }));
    }
    Ok(Found {
        report: inspection.report(),
        queues,
        unreadable,
        missing,
    })
}

impl Found {
    fn is_damaged(&self) -> bool {
        let report = &self.report;
        let lost = self.unreadable + self.missing;
        lost > 0 || !report.damage.is_empty() || !report.unreadable.is_empty()
    }

    fn info(&self) -> String {
        let mut lines = Lines::default();
        let report = &self.report;
        match report.version {
            Some(version) => lines.add(format_args!("format {version}")),
            None => lines.add(format_args!("format not said")),
        }
        lines.add(format_args!("stopped in order: {}", report.closed));
        for (vhost, queue, ready, pending) in &self.queues {
            lines.add(format_args!(
                "vhost {vhost} queue {queue}: {ready} messages, {pending} dead letters that wait"
            ));
        }
        let (blocks, from) = (report.checkpoint_blocks, report.replay_from);
        lines.add(format_args!(
            "a start restores {blocks} checkpoint blocks and replays {} facts, from record {from} on",
            report.facts
        ));
        let data: u64 = report
            .segments
            .iter()
            .map(|segment| segment.data_bytes)
            .sum();
        let live: u64 = report
            .segments
            .iter()
            .map(|segment| segment.live_bytes)
            .sum();
        let percent = (live * 100).checked_div(data).unwrap_or(0);
        let segments = report.segments.len();
        lines.add(format_args!(
            "{segments} segments, {data} bytes, {percent} percent live"
        ));
        for segment in &report.segments {
            lines.add(format_args!(
                "  {} records {} to {}, {} bytes, {} live, rewritten {} times",
                segment.file,
                segment.first,
                segment.last,
                segment.data_bytes,
                segment.live_bytes,
                segment.generation
            ));
        }
        lines.text
    }

    fn check(&self) -> String {
        let mut lines = Lines::default();
        let report = &self.report;
        for file in &report.unreadable {
            lines.add(format_args!(
                "damage: {file}: its header cannot be read; a start sets it aside"
            ));
        }
        for damage in &report.damage {
            lines.add(format_args!(
                "damage: {} bytes {} to {}: what came after record {} had been durable",
                damage.file, damage.from, damage.to, damage.after
            ));
        }
        if self.unreadable > 0 {
            lines.add(format_args!(
                "damage: {} records cannot be read",
                self.unreadable
            ));
        }
        if self.missing > 0 {
            lines.add(format_args!(
                "damage: {} messages without bytes",
                self.missing
            ));
        }
        if let Some(cut) = &report.cut {
            lines.add(format_args!(
                "a start cuts {} at byte {}: what follows record {} was never confirmed",
                cut.file, cut.offset, cut.after
            ));
        }
        for file in &report.leftovers {
            lines.add(format_args!(
                "a start removes {file}: nothing in it is needed"
            ));
        }
        if !self.is_damaged() {
            lines.add(format_args!("no damage"));
        }
        lines.text
    }
}

#[derive(Default)]
struct Lines {
    text: String,
}

impl Lines {
    fn add(&mut self, line: Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{line}");
    }
}

#[allow(clippy::print_stdout, reason = "the command line talks to people")]
fn say(text: &str) {
    print!("{text}");
}
