//! Deliveries that are settled when sent. The core holds them until the driver has written them:
//! those never written are requeued.

use std::collections::{BTreeSet, VecDeque};

use super::Gateway;
use super::links::{Link, LinkKind};
use super::work::Work;
use crate::base::limits::SETTLE_RUN_MAX;
use crate::base::{ConsumerId, Position, invariant};
use crate::broker::{Command, DropCause, Outcome, SettleRun};
use crate::link::LinkHandle;

/// How much of the last output the driver wrote.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Written {
    /// None of it.
    Nothing,
    /// A part of it.
    Part,
    /// All of it.
    All,
}

/// The deliveries of one connection that are settled when sent.
#[derive(Debug, Default)]
pub(super) struct Presettled {
    /// Links with such deliveries that the engine has and the driver has not.
    links: Vec<LinkHandle>,
    /// Deliveries in the output that the driver was handed last.
    handed: Vec<(ConsumerId, Position)>,
}

impl Gateway {
    /// Notes such a delivery that the engine took.
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

    /// Notes that deliveries encoded completely are with the driver now.
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

    /// Settles all deliveries that the driver was handed, which are written or will be.
    pub(super) fn settle_handed(&mut self) {
        let handed = std::mem::take(&mut self.presettled.handed);
        self.settle_written(&handed);
    }

    fn settle_written(&mut self, written: &[(ConsumerId, Position)]) {
        // In runs, so that the core's lock is held for a bounded number of messages.
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

    /// Settles the deliveries of a link that is detached while its connection stays: what the
    /// engine has encoded is still written.
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

    /// Handles the loss of the socket: unwritten deliveries are requeued, those that may have
    /// arrived are dropped.
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
