//! Sums of counters of several vhosts.

use super::counters::{ByReason, Counters, Drops, Redriven, Settled};
use crate::base::Millis;
use crate::deaths::Reason;

impl Counters {
    /// Adds those of another vhost, field by field.
    pub(crate) fn absorb(&mut self, other: &Self) {
        self.published += other.published;
        self.accepted += other.accepted;
        self.presettled += other.presettled;
        self.unheard += other.unheard;
        self.unroutable += other.unroutable;
        self.unroutable_presettled += other.unroutable_presettled;
        self.refused += other.refused;
        self.refused_presettled += other.refused_presettled;
        self.delivered += other.delivered;
        self.redelivered += other.redelivered;
        self.timed_out += other.timed_out;
        self.settled.absorb(other.settled);
        self.dead.absorb(other.dead);
        self.dead_lettered.absorb(other.dead_lettered);
        self.quarantined.absorb(&other.quarantined);
        self.with_condition += other.with_condition;
        self.copies_refused += other.copies_refused;
        self.annotations_ignored += other.annotations_ignored;
        self.drops.absorb(&other.drops);
        self.redriven.absorb(other.redriven);
        self.queues = self.queues.plus(other.queues);
        self.sessions += other.sessions;
    }
}

impl Settled {
    const fn absorb(&mut self, other: Self) {
        self.accepted += other.accepted;
        self.released += other.released;
        self.rejected += other.rejected;
        self.modified += other.modified;
        self.presettled += other.presettled;
    }
}

impl ByReason {
    fn absorb(&mut self, other: Self) {
        for reason in Reason::ALL {
            self.add_some(reason, other.of(reason));
        }
    }
}

impl Drops {
    fn absorb(&mut self, other: &Self) {
        for kind in other.kinds() {
            self.add(Millis::default(), kind.reason, kind.cause, kind.count);
        }
    }
}

impl Redriven {
    const fn absorb(&mut self, other: Self) {
        self.moved += other.moved;
        self.discarded += other.discarded;
        self.skipped += other.skipped;
        self.accepted += other.accepted;
        self.died_again += other.died_again;
        self.gone += other.gone;
    }
}
