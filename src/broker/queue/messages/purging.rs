//! Removing all ready messages at once.

use super::{Messages, pack};
use crate::base::{Millis, Position, invariant, uncount};
use crate::broker::queue::deferred_free::DeferredFree;
use crate::broker::queue::slot::MessageState;
use crate::broker::queue::subqueue::Usage;

impl Messages {
    /// Removes all ready messages but those at these positions; returns their number.
    /// Those that wait for their time are removed with them, and counted. Also returns the positions of the
    /// messages that stay and that the journal keeps, in order.
    pub fn purge_but(
        &mut self,
        spared: &[Position],
        deferred_free: &mut DeferredFree,
    ) -> (u64, Vec<Position>) {
        // In a state that no purge looks at, so that it goes by whole blocks all the same.
        let aside = spared.iter().copied();
        let aside: Vec<_> = aside
            .filter(|position| self.kill(*position, MessageState::Ready))
            .collect();
        let count = self.purge(deferred_free);
        let kept = self.count_durable();
        for position in aside {
            if !self.turn(position, MessageState::Dying, MessageState::Ready) {
                invariant!(fatal, "a message that was set aside is there");
            }
            let deadline = self.disk_ref(position).map(|found| found.deadline);
            if let Some(deadline) = deadline.filter(|deadline| *deadline != Millis::NEVER) {
                self.timers.insert((deadline, position));
            }
        }
        (count, kept)
    }

    fn purge(&mut self, deferred_free: &mut DeferredFree) -> u64 {
        let delayed = self.delayed.take();
        let usage = delayed.usage();
        delayed.scrap(deferred_free);
        let count = std::mem::take(&mut self.ready) + usage.messages;
        uncount!(
            self.others,
            usage.messages,
            "messages that wait were counted"
        );
        uncount!(
            self.live_bytes,
            std::mem::take(&mut self.ready_bytes) + usage.bytes,
            "messages that are ready or wait are among those that live"
        );
        for subqueue in &mut self.subqueues {
            subqueue.purge(deferred_free);
        }
        deferred_free.timers(std::mem::take(&mut self.timers));
        count
    }

    /// Counts the messages that the journal keeps anew, after all ready ones were removed: their positions.
    fn count_durable(&mut self) -> Vec<Position> {
        let (mut durable, mut kept) = (Usage::default(), Vec::new());
        if self.durable.messages == 0 {
            return kept;
        }
        for (index, subqueue) in self.subqueues.iter().enumerate() {
            let left = subqueue.places_in([MessageState::Held, MessageState::Dying]);
            for (place, block, at) in left {
                let size_bytes = match block.slot(at) {
                    Some(slot) => slot.durable.then_some(slot.size_bytes),
                    None => (block.disk_ref(at))
                        .filter(|disk_ref| disk_ref.durable)
                        .map(|disk_ref| disk_ref.size_bytes),
                };
                if let Some(size_bytes) = size_bytes {
                    durable.add(size_bytes);
                    kept.push(pack(index, place));
                }
            }
        }
        self.durable = durable;
        kept
    }
}
