//! Deliveries that are settled by being sent. The core holds them until the driver has written them:
//! what was never written goes back to its queue.

use std::collections::{BTreeSet, VecDeque};

use super::Gateway;
use super::links::{Link, LinkKind};
use super::work::Work;
use crate::base::limits::SETTLE_RUN_MAX;
use crate::base::{ConsumerId, Position, invariant};
use crate::broker::{Command, DropCause, Outcome, SettleRun};
use crate::link::LinkHandle;

/// What the driver wrote of the output that it was handed last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Written {
    /// Nothing.
    Nothing,
    /// Not all of it.
    Part,
    /// All.
    All,
}

/// The deliveries of one connection that are settled by being sent.
#[derive(Debug, Default)]
pub(super) struct Presettled {
    /// Links with deliveries that the engine has and the driver has not.
    links: Vec<LinkHandle>,
    /// In the output that the driver was handed last.
    handed: Vec<(ConsumerId, Position)>,
}

impl Gateway {
    /// The engine took one.
    pub(super) fn note_presettled(&mut self, handle: LinkHandle, token: u64) {
        if let Some(Link {
            kind: LinkKind::Consumer(consumer),
            ..
        }) = self.links.by_handle(handle)
        {
            if consumer.unwritten.is_empty() {
                self.presettled.links.push(handle);
            }
            consumer.unwritten.push_back(token);
        }
    }

    /// What was encoded to its end is with the driver now.
    pub(super) fn hand_presettled(&mut self) {
        let mut links = std::mem::take(&mut self.presettled.links);
        links.retain(|handle| {
            let Some(Link {
                kind: LinkKind::Consumer(consumer),
                ..
            }) = self.links.by_handle(*handle)
            else {
                return false;
            };
            let waiting = self.link.waiting(*handle);
            let Some(encoded) = consumer.unwritten.len().checked_sub(waiting) else {
                invariant!(broken, "what waits in a link was given to it");
                return true;
            };
            let tokens = consumer.unwritten.drain(..encoded);
            let handed = tokens.filter_map(|token| self.sent.remove(token));
            self.presettled.handed.extend(handed);
            !consumer.unwritten.is_empty()
        });
        self.presettled.links = links;
    }

    /// All that the driver was handed is written, or will be: the core may forget it.
    pub(super) fn settle_handed(&mut self) {
        let handed = std::mem::take(&mut self.presettled.handed);
        self.settle_written(&handed);
    }

    fn settle_written(&mut self, written: &[(ConsumerId, Position)]) {
        // The core's lock is held for a bounded number of messages.
        for same in written.chunk_by(|(a, _), (b, _)| a == b) {
            for run in same.chunks(SETTLE_RUN_MAX) {
                let Some(&(consumer, _)) = run.first() else {
                    continue;
                };
                let positions = run.iter().map(|(_, position)| *position).collect();
                let outcome = Outcome::Accepted;
                self.batch.push(Work::Settle(SettleRun {
                    consumer,
                    positions,
                    outcome,
                }));
            }
        }
    }

    /// A link goes, its connection stays: what the engine has encoded is still written.
    pub(super) fn settle_leaving(&mut self, tokens: VecDeque<u64>, unsent: &[u64]) {
        self.settle_handed();
        if tokens.is_empty() {
            return;
        }
        let unsent: BTreeSet<u64> = unsent.iter().copied().collect();
        let encoded = tokens.into_iter().filter(|token| !unsent.contains(token));
        let encoded: Vec<_> = encoded
            .filter_map(|token| self.sent.remove(token))
            .collect();
        self.settle_written(&encoded);
    }

    /// The socket is gone: what was not written comes back, what may have arrived is dropped.
    pub(super) fn undo_presettled(&mut self, written: Written) {
        let handed = std::mem::take(&mut self.presettled.handed);
        match written {
            Written::All => self.settle_written(&handed),
            Written::Nothing => handed.into_iter().for_each(|one| self.return_one(one)),
            Written::Part => handed.into_iter().for_each(|one| self.lose_one(one)),
        }
        for handle in std::mem::take(&mut self.presettled.links) {
            let begun = self.link.begun(handle);
            let Some(Link {
                kind: LinkKind::Consumer(consumer),
                ..
            }) = self.links.by_handle(handle)
            else {
                continue;
            };
            for token in std::mem::take(&mut consumer.unwritten) {
                let Some(one) = self.sent.remove(token) else {
                    continue;
                };
                if Some(token) == begun {
                    self.lose_one(one);
                } else {
                    self.return_one(one);
                }
            }
        }
    }

    fn return_one(&mut self, (consumer, position): (ConsumerId, Position)) {
        let command = Command::ReturnUnsent { consumer, position };
        self.batch.push(Work::Command(command));
    }

    fn lose_one(&mut self, (consumer, position): (ConsumerId, Position)) {
        let cause = DropCause::ConnectionLost;
        self.batch.push(Work::Command(Command::Discard {
            consumer,
            position,
            cause,
        }));
    }
}
