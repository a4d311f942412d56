//! Facts of the command at hand, and the LSN their record will have.

use crate::base::{Lsn, Now};
use crate::broker::{Effects, Fact, Record};

/// Collects the facts of one command or tick; they become one record.
#[derive(Debug)]
pub(super) struct Recorder {
    next: Lsn,
    facts: Vec<Fact>,
}

impl Recorder {
    pub(super) fn new() -> Self {
        Self {
            next: Lsn(1),
            facts: Vec::new(),
        }
    }

    /// The LSN of the record being made, whether or not it will have facts.
    pub(super) const fn next(&self) -> Lsn {
        self.next
    }

    /// What to wait for: the record being made, or nothing if it has no facts so far.
    pub(super) fn lsn(&self) -> Lsn {
        if self.facts.is_empty() {
            Lsn(0)
        } else {
            self.next
        }
    }

    /// Adds a fact.
    pub(super) fn push(&mut self, fact: Fact) {
        self.facts.push(fact);
    }

    /// Ends the record, if there are facts.
    pub(super) fn finish(&mut self, now: Now, effects: &mut Effects) {
        if self.facts.is_empty() {
            return;
        }
        let facts = std::mem::take(&mut self.facts);
        effects.records.push(Record {
            lsn: self.next,
            wall: now.wall,
            facts,
        });
        self.next = Lsn(self.next.0 + 1);
    }

    /// Goes on behind a record read from the journal.
    pub(super) fn resume_after(&mut self, lsn: Lsn) {
        self.next = Lsn(self.next.0.max(lsn.0 + 1));
    }
}
