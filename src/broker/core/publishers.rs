//! Publishers that are ended when the queue whose address they publish to is deleted, as in
//! `RabbitMQ`: from their first message on.

use std::collections::{BTreeMap, BTreeSet};

use super::work::{SLICE, Work};
use super::{Core, Turn};
use crate::base::{ConnectionId, Lsn, Name, PublisherId, QueueId};
use crate::broker::{Effect, PublisherNews};

/// Publishers and the queues they publish to, indexed both ways.
#[derive(Debug, Default)]
pub(super) struct Publishers {
    by_queue: BTreeSet<(QueueId, ConnectionId, PublisherId)>,
    queues: BTreeMap<(ConnectionId, PublisherId), QueueId>,
}

impl Publishers {
    fn follow(&mut self, queue: QueueId, connection: ConnectionId, publisher: PublisherId) {
        self.leave(connection, publisher);
        self.by_queue.insert((queue, connection, publisher));
        self.queues.insert((connection, publisher), queue);
    }

    pub(super) fn leave(&mut self, connection: ConnectionId, publisher: PublisherId) {
        if let Some(queue) = self.queues.remove(&(connection, publisher)) {
            self.by_queue.remove(&(queue, connection, publisher));
        }
    }

    /// Forgets one publisher of a closed connection; false if there is none.
    pub(super) fn leave_one(&mut self, connection: ConnectionId) -> bool {
        let all = (connection, PublisherId(0))..=(connection, PublisherId(u64::MAX));
        let Some((&(_, publisher), _)) = self.queues.range(all).next() else {
            return false;
        };
        self.leave(connection, publisher);
        true
    }

    /// Takes one of the publishers that follow a queue.
    fn pop(&mut self, queue: QueueId) -> Option<(ConnectionId, PublisherId)> {
        let first = (queue, ConnectionId(0), PublisherId(0));
        let &(of, connection, publisher) = self.by_queue.range(first..).next()?;
        if of != queue {
            return None;
        }
        self.leave(connection, publisher);
        Some((connection, publisher))
    }
}

impl Core {
    pub(super) fn publisher_follow(
        &mut self,
        connection: ConnectionId,
        publisher: PublisherId,
        queue: &Name,
    ) {
        if let Some(queue) = self.names.get(queue) {
            self.publishers.follow(*queue, connection, publisher);
        }
    }

    /// Tells some of the publishers that follow a queue that it was deleted, after the outcomes of
    /// their messages.
    pub(super) fn end_publishers(&mut self, turn: &mut Turn<'_>, queue: QueueId, lsn: Lsn) {
        for _ in 0..SLICE {
            let Some((connection, publisher)) = self.publishers.pop(queue) else {
                return;
            };
            let end = Effect::PublisherEnded { publisher, lsn };
            turn.effects.outgoing.push((connection, end));
            turn.budget = turn.budget.saturating_sub(1);
        }
        self.work.push_back(Work::EndPublishers(queue, lsn));
    }
}

impl Turn<'_> {
    /// Passes what one connection tells another of its publisher; nobody hears it if that is gone.
    pub(super) fn tell_publisher(
        &mut self,
        connection: ConnectionId,
        publisher: PublisherId,
        news: PublisherNews,
    ) {
        let effect = match news {
            PublisherNews::Stolen => Effect::PublisherStolen { publisher },
            PublisherNews::Published {
                token,
                outcome,
                lsn,
            } => Effect::Published {
                publisher,
                token,
                outcome,
                lsn,
            },
        };
        self.effects.outgoing.push((connection, effect));
    }
}
