//! Facts of the command at hand, the LSN their record will have, and who names which record.

use std::collections::BTreeMap;

use crate::base::{Lsn, Now, Position, QueueId, uncount};
use crate::broker::death_counts::DeathCount;
use crate::broker::queue::Gone;
use crate::broker::{Body, Effects, Fact, Facts, Record};
use crate::message::{Message, Route};

/// A record that carries so many bytes of messages is ended before the next one is touched.
const RECORD_BYTES: usize = 1024 * 1024;

/// Facts that one death looks back at for the numbers of the one before, which are those of its own.
const DIED_LOOKED_BACK: usize = 8;

/// Collects the facts of one command or tick; they become one record (more, if they are long).
#[derive(Debug)]
pub(super) struct Recorder {
    next: Lsn,
    facts: Facts,
    /// The record being made names a body already.
    names_body: bool,
    /// Bytes of bodies and envelopes in it, about.
    carried_bytes: usize,
    /// A record of this command is ended already.
    has_ended: bool,
    /// The last record with a fact that is not about messages one by one.
    topology: Lsn,
    /// The last record that took a message out of the journal which lives on in a queue that does not
    /// keep it.
    unkept: Lsn,
    /// Messages that name the record being made: their envelopes or bodies are in it.
    named: u32,
    /// Records that more than one message names, and how many do. All others are named by one.
    shared: BTreeMap<Lsn, u32>,
    released: Vec<Lsn>,
}

impl Recorder {
    pub(super) fn new() -> Self {
        Self {
            next: Lsn(1),
            facts: Facts::new(),
            names_body: false,
            carried_bytes: 0,
            has_ended: false,
            topology: Lsn(0),
            unkept: Lsn(0),
            named: 0,
            shared: BTreeMap::new(),
            released: Vec::new(),
        }
    }

    /// What to wait for: the last record of this command, or nothing if it has no facts so far.
    pub(super) fn lsn(&self) -> Lsn {
        match (self.facts.is_empty(), self.has_ended) {
            (false, _) => self.next,
            (true, true) => Lsn(self.next.0 - 1),
            (true, false) => Lsn(0),
        }
    }

    /// The last LSN that was given to a record.
    pub(super) const fn last(&self) -> Lsn {
        Lsn(self.next.0 - 1)
    }

    /// The LSN that names the body of a message that is about to enter with it, and how the record says
    /// so; 0 if the record being made names another one, and carries this one as well.
    pub(super) const fn name_body(&mut self) -> (Lsn, Body) {
        if std::mem::replace(&mut self.names_body, true) {
            (Lsn(0), Body::Carried)
        } else {
            (self.next, Body::Named)
        }
    }

    /// The envelope of one more message is in the record being made: its LSN.
    pub(super) const fn name_envelope(&mut self) -> Lsn {
        self.named += 1;
        self.next
    }

    /// How many facts there are: where an insertion will stand that is not complete yet.
    pub(super) fn len(&self) -> usize {
        self.facts.len()
    }

    /// The last record with a fact about topology, policies or purges; 0: none so far.
    pub(super) const fn topology(&self) -> Lsn {
        self.topology
    }

    /// What to wait for before a settlement is confirmed: the record that it makes. A dead letter that
    /// its queue does not keep makes none, but it must not come back where it died either.
    pub(super) fn settlement(&self) -> Lsn {
        self.lsn().max(self.unkept)
    }

    /// A kept message goes on, with the record being made, to a queue that does not keep it.
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

    /// Adds that a message is another one.
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

    /// Counts what the record carries of one more message.
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
        if let Some(failure) = message.last_failure() {
            self.carried_bytes += failure.evidence.bytes();
        }
    }

    /// A message is gone. Told to the journal if that knows it; what it names may go.
    pub(super) fn push_gone(&mut self, queue: QueueId, position: Position, gone: &Gone) {
        if gone.durable {
            if self.facts.len() == 1 {
                self.facts.reserve(2); // it moved, as a rule for a death, which is told behind this
            }
            self.push(Fact::Removed {
                queue,
                position,
                body: gone.body,
            });
        }
        self.unname(gone.envelope);
        if gone.body != gone.envelope {
            self.unname(gone.body);
        }
    }

    /// So many more messages name a record.
    pub(super) fn share(&mut self, name: Lsn, more: u32) {
        if name == self.next {
            self.named += more;
        } else if name > Lsn(0) && more > 0 {
            *self.shared.entry(name).or_insert(1) += more;
        }
    }

    /// One message less names a record; the last one lets it go.
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

    /// One message less names a record that was left out of the journal.
    pub(super) fn forget(&mut self, name: Lsn) {
        match self.shared.get_mut(&name) {
            Some(count) if *count > 2 => *count -= 1,
            _ => {
                self.shared.remove(&name);
            }
        }
    }

    /// Ends a record that carries much, so that none becomes too long for the journal. Call it
    /// where what follows need not become true together with what came before.
    pub(super) fn cut(&mut self, now: Now, effects: &mut Effects) {
        if self.carried_bytes >= RECORD_BYTES {
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

    /// Goes on with LSNs from here.
    pub(super) fn resume_at(&mut self, first: Lsn) {
        self.next = first;
    }

    /// Goes on behind a record read from the journal.
    pub(super) fn resume_after(&mut self, lsn: Lsn) {
        self.next = Lsn(self.next.0.max(lsn.0 + 1));
    }
}
