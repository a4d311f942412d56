//! Sums of counters of several vhosts.

use super::counters::{ByReason, Counters, Drops, Redriven, Settled};
use crate::base::Millis;
use crate::deaths::Reason;

impl Counters {
    /// Adds those of another vhost, field by field: a new one does not compile until it is added here.
    pub(crate) fn absorb(&mut self, other: &Self) {
        let Self {
            published,
            accepted,
            presettled,
            unheard,
            unroutable,
            unroutable_presettled,
            refused,
            refused_presettled,
            delivered,
            redelivered,
            timed_out,
            settled,
            dead,
            dead_lettered,
            quarantined,
            with_condition,
            copies_refused,
            annotations_ignored,
            drops,
            redriven,
            queues,
            sessions,
        } = other;
        self.published += published;
        self.accepted += accepted;
        self.presettled += presettled;
        self.unheard += unheard;
        self.unroutable += unroutable;
        self.unroutable_presettled += unroutable_presettled;
        self.refused += refused;
        self.refused_presettled += refused_presettled;
        self.delivered += delivered;
        self.redelivered += redelivered;
        self.timed_out += timed_out;
        self.settled.absorb(*settled);
        self.dead.absorb(*dead);
        self.dead_lettered.absorb(*dead_lettered);
        self.quarantined.absorb(quarantined);
        self.with_condition += with_condition;
        self.copies_refused += copies_refused;
        self.annotations_ignored += annotations_ignored;
        self.drops.absorb(drops);
        self.redriven.absorb(*redriven);
        self.queues = self.queues.plus(*queues);
        self.sessions += sessions;
    }
}

impl Settled {
    const fn absorb(&mut self, other: Self) {
        let Self {
            accepted,
            released,
            rejected,
            modified,
            presettled,
        } = other;
        self.accepted += accepted;
        self.released += released;
        self.rejected += rejected;
        self.modified += modified;
        self.presettled += presettled;
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
        let Self {
            moved,
            discarded,
            skipped,
            accepted,
            died_again,
            gone,
        } = other;
        self.moved += moved;
        self.discarded += discarded;
        self.skipped += skipped;
        self.accepted += accepted;
        self.died_again += died_again;
        self.gone += gone;
    }
}
