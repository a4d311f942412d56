//! The state behind the lock of a vhost, and the distribution of effects to connections.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use crate::base::{ConnectionId, Lsn, Name, Table, invariant};
use crate::broker::names::QUARANTINE;
use crate::broker::{Core, Effect, Effects, LogEvent, Memory};
use crate::deaths::Reason;
use crate::gateway::Batch;
use crate::node::outbox::Outbox;
use crate::node::stats::LockHolds;

#[derive(Debug)]
pub(super) struct VhostState {
    pub(super) core: Core,
    pub(super) effects: Effects,
    pub(super) peers: Table<ConnectionId, AttachedConnection>,
    /// Connections with staged effects.
    pub(super) touched: Vec<ConnectionId>,
    /// Tasks to wake once the lock is released.
    pub(super) wakers: Vec<Waker>,
    pub(super) holds: LockHolds,
    /// Memory of the messages when the pager was last told.
    pub(super) memory: Memory,
    /// See [`super::Vhost::longest_estimate_ns`].
    #[cfg(test)]
    pub(super) longest_estimate_ns: u64,
}

#[derive(Debug)]
pub(super) struct AttachedConnection {
    pub(super) outbox: Arc<Outbox>,
    pub(super) staged: VecDeque<Effect>,
}

impl VhostState {
    #[cfg(test)]
    pub(super) fn note_estimate(&mut self) {
        let spent_ns = self.effects.meter.spent_ns();
        self.longest_estimate_ns = self.longest_estimate_ns.max(spent_ns);
    }

    /// The outboxes of all connections, in the order of their ids.
    pub(super) fn outboxes(&self) -> Vec<Arc<Outbox>> {
        let peers = self.peers.iter();
        let mut outboxes: Vec<(ConnectionId, Arc<Outbox>)> = peers
            .map(|(id, peer)| (id, Arc::clone(&peer.outbox)))
            .collect();
        outboxes.sort_by_key(|(id, _)| *id);
        outboxes.into_iter().map(|(_, outbox)| outbox).collect()
    }

    /// Gives each connection its effects: those of this batch's connection directly, the others
    /// through their outboxes, all in the core's order. Returns the last LSN that one of them waits
    /// for.
    pub(super) fn distribute(&mut self, mut own: Option<&mut Batch>) -> Lsn {
        let Self {
            effects,
            peers,
            touched,
            wakers,
            ..
        } = self;
        let mut awaited = Lsn(0);
        for (connection, effect) in effects.outgoing.drain(..) {
            awaited = awaited.max(effect.awaits());
            match &mut own {
                Some(batch) if batch.connection() == connection => batch.push_effect(effect),
                _ => {
                    let Some(peer) = peers.get_mut(&connection) else {
                        // The connection is closed, and its consumers with it.
                        let is_delivery = effect.delivery().is_some();
                        invariant!(!is_delivery, "who gets a delivery is there");
                        continue;
                    };
                    if peer.staged.is_empty() {
                        touched.push(connection);
                    }
                    peer.staged.push_back(effect);
                }
            }
        }
        for connection in touched.drain(..) {
            if let Some(peer) = peers.get_mut(&connection) {
                wakers.extend(peer.outbox.push(&mut peer.staged));
            }
        }
        awaited
    }
}

/// Writes an event of the core to the log.
pub(super) fn log(vhost: &Name, event: &LogEvent) {
    match event {
        LogEvent::Dropped {
            queue,
            reason,
            cause,
            count,
        } => {
            // The words are those of the metrics.
            let (reason, cause) = (reason.map_or("none", Reason::as_str), cause.as_str());
            tracing::warn!(%vhost, %queue, reason, cause, count, "messages dropped");
        }
        LogEvent::Quarantined {
            queue,
            reason,
            cause,
            count,
        } => {
            let (reason, cause) = (reason.map_or("none", Reason::as_str), cause.as_str());
            let to = QUARANTINE;
            tracing::warn!(%vhost, %queue, reason, cause, count, to, "messages quarantined");
        }
        LogEvent::Warned {
            kind,
            name,
            warning,
        } => tracing::warn!(%vhost, %kind, %name, "{warning}"),
        LogEvent::ConsumerTimedOut {
            queue,
            by,
            timeout_ms,
        } => {
            let text = |text: Option<&Name>| text.map_or("", Name::as_str).to_owned();
            let container = text(by.as_ref().and_then(|by| by.container.as_ref()));
            let link = text(by.as_ref().and_then(|by| by.link.as_ref()));
            let address = text(by.as_ref().and_then(|by| by.address.as_ref()));
            tracing::warn!(
                %vhost, %queue, container, link, address, timeout_ms,
                "a consumer held deliveries for too long: it gets no more until it settles them"
            );
        }
        LogEvent::Cycle { path } => {
            let path: Vec<&str> = path.iter().map(|name| &**name).collect();
            tracing::warn!(%vhost, path = path.join(" -> "), "a dead letter went in a circle");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{ConsumerId, PublisherId, Seed};
    use crate::broker::recovery::Recovered;
    use crate::broker::{CoreOptions, PublishOutcome};

    /// The commit of a transaction came 20 ms late under little load, since nobody was said to wait for it.
    #[test]
    fn whoever_is_told_with_a_record_is_said_to_wait_for_it() {
        let core = Core::new(CoreOptions::new(Name::from("/"), Seed(1)));
        let mut state = VhostState {
            core,
            effects: Effects::new(),
            peers: Table::new(Seed(1)),
            touched: Vec::new(),
            wakers: Vec::new(),
            holds: LockHolds::new(),
            memory: Memory::default(),
            longest_estimate_ns: 0,
        };
        let publisher = PublisherId(1);
        let waiting = [
            |lsn| Effect::Published {
                publisher: PublisherId(1),
                token: 1,
                outcome: PublishOutcome::Accepted,
                lsn,
            },
            |lsn| Effect::Settled {
                consumer: ConsumerId(1),
                token: 1,
                took: true,
                lsn,
            },
            |lsn| Effect::Committed {
                token: 1,
                refused: None,
                lsn,
            },
            |lsn| Effect::Recovered {
                consumer: ConsumerId(1),
                recovered: Box::<Recovered>::default(),
                lsn,
            },
            |lsn| Effect::PublisherEnded {
                publisher: PublisherId(1),
                lsn,
            },
        ];
        for (number, effect) in (1..).zip(waiting) {
            let at_once = Effect::PublisherStolen { publisher };
            let outgoing = &mut state.effects.outgoing;
            outgoing.extend([effect(Lsn(number)), at_once].map(|it| (ConnectionId(1), it)));
            assert_eq!(state.distribute(None), Lsn(number));
        }
    }
}
