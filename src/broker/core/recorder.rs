//! The recorder: collects the facts of a command, knows the LSN of their record, and counts
//! references to records.

use std::collections::BTreeMap;

use super::consumer_links::acquired;
use crate::base::{Lsn, Name, Now, Position, QueueId, uncount};
use crate::broker::death_counts::DeathCount;
use crate::broker::queue::Gone;
use crate::broker::recovery::Acquisition;
use crate::broker::redrive::{RedriveFact, RedriveOutcome};
use crate::broker::{Body, Effects, Fact, Facts, Record};
use crate::message::{Message, Route};

/// Bytes of messages after which a record is ended before the next message is touched.
const RECORD_BYTES: usize = 1024 * 1024;

/// Facts that one death looks back at for the numbers of the one before, which are those of its own.
const DIED_LOOKED_BACK: usize = 8;

/// Collects the facts of one command or tick; they become one record (more, if they are long).
#[derive(Debug)]
pub(super) struct Recorder {
    next: Lsn,
    facts: Facts,
    /// Whether the record being made names a body already.
    names_body: bool,
    /// Estimated bytes of bodies and envelopes in the record being made.
    carried_bytes: usize,
    /// Whether a record of this command was ended already.
    has_ended: bool,
    /// Whether the record is not to be ended, however long: it is a transaction.
    is_whole: bool,
    /// The last record with a fact that does not concern a single message.
    topology: Lsn,
    /// The last record that removed a message from the journal although it lives on, in a queue
    /// that the journal does not keep.
    unkept: Lsn,
    /// References to the record being made: messages with their envelope or body in it.
    named: u32,
    /// Records that more than one message refers to, with the number of references. All others have
    /// one.
    shared: BTreeMap<Lsn, u32>,
    released: Vec<Lsn>,
}

/// References that move with the bodies of messages.
pub(super) struct Moving<'a> {
    recorder: &'a mut Recorder,
    /// Records that are kept for such messages alone, with the number of references.
    kept: BTreeMap<Lsn, u32>,
}

impl Moving<'_> {
    /// The body of a message with this envelope is in another record now. A record that has both is
    /// referred to once.
    pub(super) fn rename(&mut self, envelope: Lsn, (from, to): (Lsn, Lsn)) {
        if envelope != from {
            self.forget(from);
        }
        if envelope != to {
            match self.kept.get_mut(&to) {
                Some(count) => *count += 1,
                None => self.recorder.share(to, 1),
            }
        }
    }

    /// Drops one reference to a record that was left out of the journal, or has not this body any more.
    fn forget(&mut self, name: Lsn) {
        if let Some(count) = self.kept.get_mut(&name) {
            uncount!(*count, 1, "who no longer names a kept record did name it");
            return;
        }
        match self.recorder.shared.get_mut(&name) {
            Some(count) if *count > 2 => *count -= 1,
            _ => {
                self.recorder.shared.remove(&name);
            }
        }
    }

    /// Ends it: what no message refers to after all is released.
    pub(super) fn finish(self) {
        for (name, count) in self.kept {
            match count {
                0 => self.recorder.released.push(name),
                1 => {} // as all others
                more => {
                    self.recorder.shared.insert(name, more);
                }
            }
        }
    }
}

impl Recorder {
    pub(super) fn new() -> Self {
        Self {
            next: Lsn(1),
            facts: Facts::new(),
            names_body: false,
            carried_bytes: 0,
            has_ended: false,
            is_whole: false,
            topology: Lsn(0),
            unkept: Lsn(0),
            named: 0,
            shared: BTreeMap::new(),
            released: Vec::new(),
        }
    }

    /// The record to wait for: the last one of this command; 0 if it has no facts so far.
    #[inline]
    pub(super) fn lsn(&self) -> Lsn {
        match (self.facts.is_empty(), self.has_ended) {
            (false, _) => self.next,
            (true, true) => Lsn(self.next.0 - 1),
            (true, false) => Lsn(0),
        }
    }

    /// The LSN of the record that is being made.
    pub(super) const fn making(&self) -> Lsn {
        self.next
    }

    /// The LSN that was last given to a record.
    pub(super) const fn last(&self) -> Lsn {
        Lsn(self.next.0 - 1)
    }

    /// The LSN that names the body of a message about to enter with the record, and how the record
    /// says so; 0 if the record names another body already, or is a transaction, and has to carry
    /// this one as well.
    #[inline]
    pub(super) const fn name_body(&mut self) -> (Lsn, Body) {
        // What a transaction puts in is not named: a death before it is written would take the body
        // into its own record, and a crash between both would leave the rest of the transaction.
        if std::mem::replace(&mut self.names_body, true) || self.is_whole {
            (Lsn(0), Body::Carried)
        } else {
            (self.next, Body::Named)
        }
    }

    /// Counts one more envelope in the record being made, and returns its LSN.
    #[inline]
    pub(super) const fn name_envelope(&mut self) -> Lsn {
        self.named += 1;
        self.next
    }

    /// Number of facts so far: the index at which an incomplete insertion will be put.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.facts.len()
    }

    /// The last record with a fact about topology, policies or purges; 0: none so far.
    pub(super) const fn topology(&self) -> Lsn {
        self.topology
    }

    /// The record to wait for before a settlement is confirmed: its own. A dead letter in a queue
    /// that the journal does not keep makes none; then it is the record that removed it from the
    /// queue where it died, so that it cannot reappear there.
    pub(super) fn settlement(&self) -> Lsn {
        self.lsn().max(self.unkept)
    }

    /// Notes that a message leaves the journal with the record being made, for a queue that the
    /// journal does not keep.
    pub(super) const fn note_unkept(&mut self) {
        self.unkept = self.next;
    }

    /// Adds a fact.
    #[inline]
    pub(super) fn push(&mut self, fact: Fact) {
        if !fact.is_of_one_message() {
            self.topology = self.next;
        }
        self.facts.push(fact);
    }

    /// Adds that a message was acquired for a link; returns the LSN of the record that says so.
    pub(super) fn push_acquired(&mut self, queue: QueueId, of: (u64, Acquisition)) -> Lsn {
        let fact = acquired(&mut self.facts, queue, of);
        self.facts.extend(fact);
        self.next
    }

    /// Adds how many deaths a queue counts, or tells it in place of what the deaths before said.
    pub(super) fn push_died(&mut self, queue: QueueId, count: DeathCount) {
        let known = self.facts.iter_mut().rev().take(DIED_LOOKED_BACK);
        for fact in known {
            if let Fact::Died {
                queue: known,
                count: before,
            } = fact
                && *known == queue
                && before.is_of_same(&count)
            {
                *before = count;
                return;
            }
        }
        self.facts.push(Fact::Died { queue, count });
    }

    /// Adds what is known of the messages that a redrive moved, or tells it in place of what was said
    /// before.
    pub(super) fn push_learned(&mut self, job: u64, settled: (Name, u64), outcome: RedriveOutcome) {
        let known = self.facts.iter_mut().rev().take(DIED_LOOKED_BACK);
        for fact in known {
            if let Fact::Redrive(RedriveFact::Learned {
                job: known,
                settled: (target, before),
                outcome: told,
            }) = fact
                && *known == job
                && *target == settled.0
            {
                (*before, *told) = (settled.1, outcome);
                return;
            }
        }
        self.facts.push(Fact::Redrive(RedriveFact::Learned {
            job,
            settled,
            outcome,
        }));
    }

    /// Adds an insertion in front of what followed from it.
    pub(super) fn push_insertion(&mut self, at: usize, fact: Fact) {
        if let Fact::Inserted {
            body,
            message,
            route,
            ..
        } = &fact
        {
            self.carry(*body, message, route);
        }
        if at == self.facts.len() {
            self.facts.push(fact);
        } else {
            self.facts.insert(at, fact);
        }
    }

    /// Adds a changed message.
    pub(super) fn push_change(&mut self, fact: Fact) {
        if let Fact::Changed {
            body,
            message,
            route,
            ..
        } = &fact
        {
            self.carry(*body, message, route);
        }
        self.facts.push(fact);
    }

    /// Counts the bytes of one more message in the record.
    #[inline]
    fn carry(&mut self, body: Body, message: &Message, route: &Route) {
        if !matches!(body, Body::At(_)) {
            self.carried_bytes += message.bare_len();
        }
        self.carried_bytes += message.annotation_bytes();
        if route.keys.len() > 1 {
            self.carried_bytes += route.key_bytes() as usize;
        }
        if let Some(history) = message.history() {
            self.carried_bytes += history.about_bytes();
        }
        if let Some(redrives) = message.redrives() {
            self.carried_bytes += redrives.about_bytes();
        }
        if let Some(failure) = message.last_failure() {
            self.carried_bytes += failure.evidence.bytes();
        }
    }

    /// Handles a removed message: adds a fact if the journal has it, and drops its references.
    #[inline]
    pub(super) fn push_gone(&mut self, queue: QueueId, position: Position, gone: &Gone) {
        if gone.durable {
            if self.facts.len() == 1 {
                self.facts.reserve(2); // it moved, as a rule for a death, which is told behind this
            }
            // A transaction undoes nothing that was recorded before it: its record may be lost.
            let body = if self.is_whole { Lsn(0) } else { gone.body };
            self.push(Fact::Removed {
                queue,
                position,
                body,
            });
        }
        self.unname(gone.envelope);
        if gone.body != gone.envelope {
            self.unname(gone.body);
        }
    }

    /// Counts further references to a record.
    pub(super) fn share(&mut self, name: Lsn, more: u32) {
        if name == self.next {
            self.named += more;
        } else if name > Lsn(0) && more > 0 {
            *self.shared.entry(name).or_insert(1) += more;
        }
    }

    /// Drops one reference to a record; the record is released with the last one.
    #[inline]
    pub(super) fn unname(&mut self, name: Lsn) {
        if name > Lsn(0) {
            self.unname_record(name);
        }
    }

    fn unname_record(&mut self, name: Lsn) {
        if name == self.next {
            uncount!(self.named, 1, "who no longer names a record did name it");
            return;
        }
        match self.shared.get_mut(&name) {
            Some(count) if *count > 2 => *count -= 1,
            Some(_) => {
                self.shared.remove(&name);
            }
            None => self.released.push(name),
        }
    }

    /// Begins to move references from records whose bodies are elsewhere now. No message referred to
    /// those that are `kept`, as far as was known.
    pub(super) fn move_references(&mut self, kept: Vec<Lsn>) -> Moving<'_> {
        Moving {
            recorder: self,
            kept: kept.into_iter().map(|name| (name, 0)).collect(),
        }
    }

    /// Whether the record has so many bytes that it is to be ended.
    pub(super) const fn is_long(&self) -> bool {
        self.carried_bytes >= RECORD_BYTES && !self.is_whole
    }

    /// Keeps all facts from now on in one record, or no longer.
    pub(super) const fn keep_whole(&mut self, is_whole: bool) {
        self.is_whole = is_whole;
    }

    /// Ends a record with many bytes, so that none becomes too long for the journal. Called where
    /// the following facts need not become durable together with the earlier ones.
    #[inline]
    pub(super) fn cut(&mut self, now: Now, effects: &mut Effects) {
        if self.is_long() {
            self.end_record(now, effects);
            self.has_ended = true;
        }
    }

    /// Ends the record, if there are facts, and the command.
    #[inline]
    pub(super) fn finish(&mut self, now: Now, effects: &mut Effects) {
        self.end_record(now, effects);
        self.has_ended = false;
        if !self.released.is_empty() {
            effects.released.append(&mut self.released);
        }
    }

    #[inline]
    fn end_record(&mut self, now: Now, effects: &mut Effects) {
        (self.names_body, self.carried_bytes) = (false, 0);
        let named = std::mem::take(&mut self.named);
        if !self.facts.is_empty() {
            self.push_record(named, now, effects);
        }
    }

    fn push_record(&mut self, named: u32, now: Now, effects: &mut Effects) {
        let facts = std::mem::take(&mut self.facts);
        effects.records.push(Record {
            lsn: self.next,
            wall: now.wall,
            facts,
            named: named > 0,
        });
        if named > 1 {
            self.shared.insert(self.next, named);
        }
        self.next = Lsn(self.next.0 + 1);
    }

    /// Continues with LSNs from this one on.
    pub(super) fn resume_at(&mut self, first: Lsn) {
        self.next = first;
    }

    /// Continues with LSNs behind a record that was read from the journal.
    pub(super) fn resume_after(&mut self, lsn: Lsn) {
        self.next = Lsn(self.next.0.max(lsn.0 + 1));
    }
}
