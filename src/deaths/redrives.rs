//! Redrives of one message: who brought it back, when, from where and to where. [evidence part 6]

use std::sync::Arc;

use super::HistoryError;
use super::journal::{name, number, time};
use crate::base::limits::MESSAGE_REDRIVES_MAX;
use crate::base::{Account, Gauge, Name, Timestamp, shared_text_bytes};
use crate::wire::{
    Fields, Value, begin_list, begin_map, decode_value, end, write_string, write_symbol,
    write_timestamp, write_ulong,
};

/// The name of the annotation.
pub(super) const REDRIVES: &str = "x-opt-redrives";
/// Keys and values of one redrive in the annotation.
const PAIRS: usize = 14;
/// Estimated memory of a redrive without its names, in bytes.
const REDRIVE_BYTES: usize = 96;

/// One move of a message by a redrive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Redrive {
    /// Its number among the redrives of this message, from 1.
    pub number: u64,
    /// The id of the job, as whoever made it chose it.
    pub job: Name,
    /// The number of the job in its vhost, never used again.
    pub job_number: u64,
    /// The user that made the job.
    pub by: Name,
    /// The queue that the message was in.
    pub from: Name,
    /// The queue or exchange that it was sent to.
    pub to: Name,
    /// Wall-clock time of the move.
    pub time: Timestamp,
    /// Deaths of the message until then.
    pub deaths: u64,
}

/// The latest redrives of one message, newest first; never empty.
#[derive(Clone, Debug)]
pub struct Redrives {
    list: Vec<Arc<Redrive>>,
    /// The gauge that its memory is charged to.
    account: Account,
}

impl PartialEq for Redrives {
    fn eq(&self, other: &Self) -> bool {
        self.list == other.list
    }
}

impl Eq for Redrives {}

impl Redrives {
    /// The redrives after one more, whose number follows from those before. The oldest beyond the
    /// limit is forgotten.
    pub fn after(before: Option<&Self>, redrive: Redrive) -> Self {
        let older = before.map_or(&[][..], Self::list);
        let number = older.first().map_or(0, |newest| newest.number) + 1;
        let newest = Arc::new(Redrive { number, ..redrive });
        let older = older.iter().take(MESSAGE_REDRIVES_MAX - 1).cloned();
        Self {
            list: std::iter::once(newest).chain(older).collect(),
            account: Account::default(),
        }
    }

    /// The redrives, newest first.
    pub fn list(&self) -> &[Arc<Redrive>] {
        &self.list
    }

    /// The latest redrive.
    pub fn latest(&self) -> &Redrive {
        let Some(latest) = self.list.first() else {
            unreachable!("a list of redrives begins with one");
        };
        latest
    }

    /// Estimated memory, in bytes.
    pub fn about_bytes(&self) -> usize {
        let texts = |one: &Redrive| {
            [&one.job, &one.by, &one.from, &one.to]
                .iter()
                .map(|text| usize::try_from(shared_text_bytes(text.len())).unwrap_or(usize::MAX))
                .sum::<usize>()
        };
        let each = self.list.iter().map(|one| REDRIVE_BYTES + texts(one));
        each.sum()
    }

    /// Charges its memory to the gauge, once for all messages that share it.
    pub fn charge(&self, gauge: &Gauge) {
        self.account.open(gauge, || self.about_bytes() as u64);
    }

    /// Appends the annotation, key and value.
    pub fn write_annotation(&self, out: &mut Vec<u8>) {
        write_symbol(out, REDRIVES);
        self.write(out);
    }

    fn write(&self, out: &mut Vec<u8>) {
        let list = begin_list(out);
        for one in &self.list {
            let map = begin_map(out);
            write_symbol(out, "number");
            write_ulong(out, one.number);
            for (key, text) in [
                ("job", &one.job),
                ("by", &one.by),
                ("from", &one.from),
                ("to", &one.to),
            ] {
                write_symbol(out, key);
                write_string(out, text);
            }
            write_symbol(out, "time");
            write_timestamp(out, one.time.0);
            write_symbol(out, "deaths");
            write_ulong(out, one.deaths);
            end(out, map, PAIRS);
        }
        end(out, list, self.list.len());
    }

    /// The value of the annotation of this name, as headers exchanges see it; none for other names.
    pub fn annotation(&self, name: &str) -> Option<Value> {
        if name != REDRIVES {
            return None;
        }
        let mut encoded = Vec::new();
        self.write(&mut encoded);
        decode_value(&encoded).ok().map(|(value, _)| value)
    }

    /// Appends the stored form.
    pub fn encode(&self, out: &mut Vec<u8>) {
        write_ulong(out, self.list.len() as u64);
        for one in &self.list {
            write_ulong(out, one.number);
            write_string(out, &one.job);
            write_ulong(out, one.job_number);
            write_string(out, &one.by);
            write_string(out, &one.from);
            write_string(out, &one.to);
            write_timestamp(out, one.time.0);
            write_ulong(out, one.deaths);
        }
    }

    /// Reads the stored form; all of `input` must belong to it.
    pub fn decode(input: &[u8]) -> Result<Self, HistoryError> {
        let mut fields = Fields::bare(input);
        let count = number(&mut fields, "number of redrives")?;
        let mut list = Vec::new();
        for _ in 0..count {
            list.push(Arc::new(Redrive {
                number: number(&mut fields, "number of a redrive")?,
                job: name(&mut fields, "job of a redrive")?,
                job_number: number(&mut fields, "job of a redrive")?,
                by: name(&mut fields, "user of a redrive")?,
                from: name(&mut fields, "source of a redrive")?,
                to: name(&mut fields, "target of a redrive")?,
                time: time(&mut fields, "time of a redrive")?,
                deaths: number(&mut fields, "deaths until a redrive")?,
            }));
        }
        if list.is_empty() || !fields.is_empty() {
            return Err(HistoryError::Field("length of the redrives"));
        }
        Ok(Self {
            list,
            account: Account::default(),
        })
    }
}

/// The last message that was redriven: messages with the same redrives before it, moved in the same
/// millisecond by the same job, share the list.
#[derive(Debug, Default)]
pub struct RecentlyRedriven(Option<Made>);

#[derive(Debug)]
struct Made {
    before: Option<Arc<Redrives>>,
    after: Arc<Redrives>,
}

impl RecentlyRedriven {
    /// The redrives of a message after one more.
    pub fn after(&mut self, before: Option<&Arc<Redrives>>, redrive: Redrive) -> Arc<Redrives> {
        if let Some(made) = &self.0 {
            let is_same = match (&made.before, before) {
                (Some(one), Some(other)) => Arc::ptr_eq(one, other),
                (None, None) => true,
                _ => false,
            };
            let latest = made.after.latest();
            let number = latest.number;
            if is_same
                && *latest
                    == (Redrive {
                        number,
                        ..redrive.clone()
                    })
            {
                return Arc::clone(&made.after);
            }
        }
        let after = Arc::new(Redrives::after(before.map(|it| &**it), redrive));
        self.0 = Some(Made {
            before: before.cloned(),
            after: Arc::clone(&after),
        });
        after
    }
}
