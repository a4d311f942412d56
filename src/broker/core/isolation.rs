//! Who holds a message that may have cost a connection gets nothing else of its queue: the next
//! connection that is lost tells which it was. [evidence part 5, poison isolation]

use super::Core;
use super::clients::Clients;
use crate::base::limits::ISOLATED_LINKS_MAX;
use crate::base::{ConnectionId, ConsumerId, Position, QueueId, SessionId, invariant};
use crate::broker::queue::Queue;

impl Core {
    /// Whether the deliveries of a consumer whose connection was lost become suspects, rather than
    /// failed: the connection held more than one of the queue. It is asked for one consumer after
    /// the other.
    pub(super) fn suspects_of(
        &mut self,
        connection: ConnectionId,
        (queue, held): (QueueId, u32),
    ) -> bool {
        let settings = self.queues.get(&queue).map(|queue| &queue.settings);
        if !settings.is_some_and(|settings| settings.poison_isolation) {
            return false;
        }
        let other = self.clients.holder(connection, queue).is_some();
        let Some(connection) = self.clients.connections.get_mut(&connection) else {
            invariant!(broken, "a consumer has a connection");
            return false;
        };
        if other {
            connection.isolated.insert(queue);
        }
        held > 1 || other || connection.isolated.contains(&queue)
    }

    /// Forgets that a message was suspected, as its consumer settles it.
    pub(super) fn clear_suspect(&mut self, queue: QueueId, position: Position) {
        if let Some(queue) = self.queues.get_mut(&queue)
            && !queue.selecting.is_empty()
        {
            queue.selecting.clear(position);
        }
    }
}

impl Clients {
    /// The session that has to settle something before a consumer may have this message; none: it
    /// may have it now. A suspect is for a connection that holds nothing of the queue, and who holds
    /// one gets nothing.
    pub(super) fn awaited(
        &self,
        queue: &mut Queue,
        consumer: ConsumerId,
        position: Position,
    ) -> Option<SessionId> {
        let suspects = queue.selecting.suspects()?;
        let connection = self.consumers.get(&consumer)?.connection;
        if let Some(holder) = suspects.holder(&queue.messages, connection) {
            return self.consumers.get(&holder).map(|holder| holder.session);
        }
        if !suspects.has(position) {
            return None;
        }
        let holds = |consumer: &ConsumerId| self.holds_of(*consumer, queue.id);
        let holder = Some(consumer).filter(holds);
        let holder = holder.or_else(|| self.holder(connection, queue.id))?;
        self.consumers.get(&holder).map(|holder| holder.session)
    }

    /// A consumer of a connection that holds deliveries of a queue. With very many links nobody is
    /// looked for: then each link is on its own.
    fn holder(&self, connection: ConnectionId, queue: QueueId) -> Option<ConsumerId> {
        let sessions = &self.connections.get(&connection)?.sessions;
        let sessions = || sessions.iter().filter_map(|id| self.sessions.get(id));
        let links: usize = sessions().map(|session| session.consumers.len()).sum();
        if links > ISOLATED_LINKS_MAX {
            return None;
        }
        let mut links = sessions().flat_map(|session| session.consumers.iter().copied());
        links.find(|consumer| self.holds_of(*consumer, queue))
    }

    fn holds_of(&self, consumer: ConsumerId, queue: QueueId) -> bool {
        let consumer = self.consumers.get(&consumer);
        consumer.is_some_and(|it| it.queue == queue && it.held > 0 && !it.browses)
    }

    /// Notes that a consumer waits until a session settles something.
    pub(super) fn block_by(&mut self, id: ConsumerId, session: SessionId) {
        let Some(consumer) = self.consumers.get_mut(&id) else {
            return invariant!(broken, "who may not have a message is there");
        };
        consumer.is_apart = true;
        let Some(session) = self.sessions.get_mut(&session) else {
            return invariant!(broken, "who holds a message has a session");
        };
        session.block(id);
    }
}
