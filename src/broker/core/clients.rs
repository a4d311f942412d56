//! Connections, sessions and consumers, and how much each may be assigned.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::recovery::Terms;
use crate::base::{
    ConnectionId, ConsumerId, HolderId, Name, Position, QueueId, Seed, SessionId, Table, invariant,
    uncount,
};
use crate::broker::queue::Queue;
use crate::deaths::Evidence;

/// All clients of the vhost, by their ids.
#[derive(Debug)]
pub(super) struct Clients {
    pub(super) connections: Table<ConnectionId, Connection>,
    pub(super) sessions: Table<SessionId, Session>,
    pub(super) consumers: Table<ConsumerId, Consumer>,
    /// Consumers whose queue was deleted and whose links have not yet reported their detach. What was
    /// assigned to them counts against their sessions until it was sent or returned unsent.
    ended: BTreeMap<ConsumerId, SessionId>,
    unsettled_max: u32,
}

#[derive(Debug)]
pub(super) struct Connection {
    /// Its client id.
    pub(super) client: Name,
    pub(super) limit_bytes: u64,
    assigned_bytes: u64,
    pub(super) sessions: Vec<SessionId>,
    pub(super) exclusive_queues: BTreeSet<QueueId>,
    /// Queues of which several links held deliveries when it was lost: those are suspects.
    pub(super) isolated: BTreeSet<QueueId>,
    /// Consumers with credit that wait until the connection may be assigned more bytes.
    blocked: Vec<ConsumerId>,
}

#[derive(Debug)]
pub(super) struct Session {
    pub(super) connection: ConnectionId,
    pub(super) limit: u64,
    assigned: u64,
    unsettled: u32,
    pub(super) consumers: Vec<ConsumerId>,
    /// The session's consumers in [`Clients::ended`], at most one per link handle.
    ended: Vec<ConsumerId>,
    /// Consumers with credit that wait because the window is closed or too much is unsettled; or,
    /// of all sessions of the connection, until something held here is settled.
    blocked: Vec<ConsumerId>,
}

#[derive(Debug)]
pub(super) struct Consumer {
    pub(super) connection: ConnectionId,
    pub(super) session: SessionId,
    pub(super) queue: QueueId,
    /// The holder of its deliveries: itself, or the consumer that its link had first.
    pub(super) holder: HolderId,
    /// How its link outlives its connection; none: not at all.
    pub(super) recovery: Option<Box<Terms>>,
    pub(super) settled: bool,
    /// It takes what is ready and detaches, see
    /// [`Consume::passing`](super::super::Consume::passing).
    pub(super) passing: bool,
    /// It gets copies and takes nothing; its queue does not count it among its consumers.
    pub(super) browses: bool,
    pub(super) priority: i32,
    pub(super) limit: u64,
    pub(super) assigned: u64,
    /// Number of unsettled deliveries that it holds, or of copies if it browses.
    pub(super) held: u32,
    /// Number of unsettled deliveries that it held for too long, which others may have now. It gets
    /// no more until it has settled them.
    pub(super) timed_out: u32,
    /// Whether the log was told that it held deliveries for too long.
    pub(super) is_timeout_told: bool,
    /// How long it may hold a delivery, in milliseconds; 0: any time; none: as its queue says.
    pub(super) timeout_ms: Option<u32>,
    /// Whether it is in its queue's ring of consumers to serve.
    pub(super) waiting: bool,
    /// Its identity, for the history of messages that die by its outcome.
    pub(super) evidence: Option<Arc<Evidence>>,
    /// Whether it is in the `blocked` list of its connection.
    pub(super) blocked: bool,
    /// Whether it waits until its connection has settled something of its queue, since a message is
    /// to be delivered alone.
    pub(super) is_apart: bool,
}

impl Consumer {
    /// How long it may hold a delivery of its queue, in milliseconds; none: any time.
    pub(super) fn timeout_of(&self, queue: &Queue) -> Option<u32> {
        let timeout_ms = self.timeout_ms.or_else(|| queue.settings.timeout_ms());
        timeout_ms.filter(|timeout_ms| *timeout_ms > 0)
    }

    /// Whether its own credit allows one more message.
    pub(super) const fn has_credit(&self) -> bool {
        self.assigned < self.limit
    }
}

/// A consumer that messages are assigned to, and what they count against: looked up once for several.
pub(super) struct Taker<'a> {
    pub(super) consumer: &'a mut Consumer,
    session: &'a mut Session,
    connection: &'a mut Connection,
    unsettled_max: u32,
}

/// Why a consumer cannot be assigned a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NoRoom {
    /// Its credit is used up, or it does not exist any more.
    Credit,
    /// The session's window is closed or too many of its deliveries are unsettled.
    Session,
    /// The connection has too many bytes that are not written yet.
    Connection,
}

/// The holder id of a consumer's deliveries, unless its link held some before it.
pub(super) const fn holder(consumer: ConsumerId) -> HolderId {
    HolderId(consumer.0)
}

impl Clients {
    pub(super) fn new(seed: Seed, unsettled_max: u32) -> Self {
        Self {
            connections: Table::new(seed),
            sessions: Table::new(seed),
            consumers: Table::new(seed),
            ended: BTreeMap::new(),
            unsettled_max,
        }
    }

    pub(super) fn connect(&mut self, id: ConnectionId, client: Name, limit_bytes: u64) {
        let connection = Connection {
            client,
            limit_bytes,
            assigned_bytes: 0,
            sessions: Vec::new(),
            exclusive_queues: BTreeSet::new(),
            isolated: BTreeSet::new(),
            blocked: Vec::new(),
        };
        self.connections.insert(id, connection);
    }

    /// The ids of all connections, in order.
    pub(super) fn connection_ids(&self) -> Vec<ConnectionId> {
        let mut ids: Vec<_> = self.connections.iter().map(|(id, _)| id).collect();
        ids.sort_unstable();
        ids
    }

    pub(super) fn begin(&mut self, id: SessionId, connection: ConnectionId, limit: u64) {
        if let Some(owner) = self.connections.get_mut(&connection) {
            owner.sessions.push(id);
        } else {
            invariant!(broken, "a session begins on a connection that is there");
        }
        let session = Session {
            connection,
            limit,
            assigned: 0,
            unsettled: 0,
            consumers: Vec::new(),
            ended: Vec::new(),
            blocked: Vec::new(),
        };
        self.sessions.insert(id, session);
    }

    pub(super) fn attach(&mut self, id: ConsumerId, consumer: Consumer) {
        if let Some(session) = self.sessions.get_mut(&consumer.session) {
            session.consumers.push(id);
            session.unsettled += consumer.held;
        } else {
            invariant!(broken, "a consumer attaches in a session that is there");
        }
        self.consumers.insert(id, consumer);
    }

    /// Removes the first consumer from a session and returns it.
    pub(super) fn pop_consumer(&mut self, id: SessionId) -> Option<ConsumerId> {
        let consumers = &mut self.sessions.get_mut(&id)?.consumers;
        (!consumers.is_empty()).then(|| consumers.remove(0))
    }

    /// Removes a consumer; its unsettled deliveries no longer count against its session.
    pub(super) fn detach(&mut self, id: ConsumerId) -> Option<Consumer> {
        let consumer = self.consumers.remove(&id)?;
        if let Some(session) = self.sessions.get_mut(&consumer.session) {
            uncount!(
                session.unsettled,
                consumer.held + consumer.timed_out,
                "a session counts what its consumers hold or held for too long"
            );
            session.consumers.retain(|other| *other != id);
        } else {
            invariant!(broken, "a consumer that detaches has a session");
        }
        Some(consumer)
    }

    /// Removes a consumer whose queue was deleted; it stays in [`Clients::ended`] until its link detaches.
    pub(super) fn end(&mut self, id: ConsumerId) -> Option<Consumer> {
        let consumer = self.detach(id)?;
        if let Some(session) = self.sessions.get_mut(&consumer.session) {
            session.ended.push(id);
            self.ended.insert(id, consumer.session);
        }
        Some(consumer)
    }

    /// Forgets an ended consumer whose link has detached: no delivery of it is returned any more.
    pub(super) fn forget_ended(&mut self, id: ConsumerId) {
        if let Some(session) = self.ended.remove(&id)
            && let Some(session) = self.sessions.get_mut(&session)
        {
            session.ended.retain(|other| *other != id);
        }
    }

    pub(super) fn remove_session(&mut self, id: SessionId) {
        let session = self.sessions.remove(&id);
        for consumer in session.into_iter().flat_map(|session| session.ended) {
            self.ended.remove(&consumer);
        }
    }

    /// Checks whether a message may be assigned to a consumer now.
    pub(super) fn room(&self, id: ConsumerId) -> Result<(), NoRoom> {
        let consumer = self.consumers.get(&id);
        let Some(consumer) = consumer.filter(|consumer| consumer.has_credit()) else {
            return Err(NoRoom::Credit);
        };
        let session = self.sessions.get(&consumer.session);
        let connection = self.connections.get(&consumer.connection);
        match (session, connection) {
            (Some(session), _) if !session.has_room(self.unsettled_max) => Err(NoRoom::Session),
            (Some(_), Some(connection)) if connection.has_room() => Ok(()),
            (Some(_), Some(_)) => Err(NoRoom::Connection),
            _ => {
                invariant!(broken, "a consumer has a session and a connection");
                Err(NoRoom::Credit)
            }
        }
    }

    /// Checks whether a delivery that a consumer holds may be sent to it again now: it is unsettled already.
    pub(super) fn room_again(&mut self, id: ConsumerId) -> Result<(), NoRoom> {
        self.taker(id).ok_or(NoRoom::Credit)?.room_again()
    }

    /// Number of messages that a session was assigned.
    #[cfg(test)]
    pub(super) fn assigned(&self, id: SessionId) -> u64 {
        self.sessions.get(&id).map_or(0, |session| session.assigned)
    }

    /// Whether as much is unsettled in a consumer's session as may be: it gets no more until it settles, which it
    /// may do only when it was told that everything was sent.
    pub(super) fn is_full(&self, id: ConsumerId) -> bool {
        let consumer = self.consumers.get(&id);
        let session = consumer.and_then(|consumer| self.sessions.get(&consumer.session));
        session.is_some_and(|session| session.unsettled >= self.unsettled_max)
    }

    /// Counts a message of this size against a consumer, its session and its connection, if each
    /// has anything left of its limit: one message always fits, whatever its size.
    pub(super) fn assign(
        &mut self,
        id: ConsumerId,
        size_bytes: u32,
    ) -> Result<&mut Consumer, NoRoom> {
        let mut taker = self.taker(id).ok_or(NoRoom::Credit)?;
        taker.take(size_bytes)?;
        Ok(taker.consumer)
    }

    /// Counts a delivery that is sent again to a consumer, which holds it already.
    pub(super) fn assign_again(
        &mut self,
        id: ConsumerId,
        size_bytes: u32,
    ) -> Result<&mut Consumer, NoRoom> {
        let taker = self.taker(id).ok_or(NoRoom::Credit)?;
        taker.room_again()?;
        taker.connection.assigned_bytes += u64::from(size_bytes);
        taker.session.assigned += 1;
        taker.consumer.assigned += 1;
        Ok(taker.consumer)
    }

    /// A consumer whose turn it is, with its session and its connection.
    #[inline]
    pub(super) fn taker(&mut self, id: ConsumerId) -> Option<Taker<'_>> {
        let Some(consumer) = self.consumers.get_mut(&id) else {
            invariant!(broken, "a consumer whose turn it is is there");
            return None;
        };
        let session = self.sessions.get_mut(&consumer.session);
        let connection = self.connections.get_mut(&consumer.connection);
        let (Some(session), Some(connection)) = (session, connection) else {
            invariant!(
                broken,
                "a consumer whose turn it is has a session and a connection"
            );
            return None;
        };
        Some(Taker {
            consumer,
            session,
            connection,
            unsettled_max: self.unsettled_max,
        })
    }

    /// Takes back an assignment that was never sent, as if it had not been made, and returns the
    /// consumer's session. The connection's bytes stay counted: the gateway gives them back with all
    /// else that it has finished with.
    pub(super) fn unassign(&mut self, id: ConsumerId) -> Option<SessionId> {
        let session_id = if let Some(consumer) = self.consumers.get_mut(&id) {
            uncount!(consumer.assigned, 1, "what comes back was assigned");
            consumer.session
        } else {
            *self.ended.get(&id)?
        };
        let Some(session) = self.sessions.get_mut(&session_id) else {
            invariant!(broken, "who gets an assignment taken back has a session");
            return None;
        };
        uncount!(
            session.assigned,
            1,
            "what comes back was assigned in its session"
        );
        Some(session_id)
    }

    /// Whether consumers wait for a delivery to be settled in the session of this one.
    pub(super) fn is_release_awaited(&self, id: ConsumerId) -> bool {
        let consumer = self.consumers.get(&id);
        let session = consumer.and_then(|consumer| self.sessions.get(&consumer.session));
        session.is_some_and(|session| !session.blocked.is_empty())
    }

    /// Counts deliveries as settled. Returns their session if consumers of it waited for this: they
    /// are to be woken.
    #[inline]
    pub(super) fn release(&mut self, id: ConsumerId, deliveries: u32) -> Option<SessionId> {
        let Some(consumer) = self.consumers.get_mut(&id) else {
            invariant!(broken, "who settles is there");
            return None;
        };
        uncount!(consumer.held, deliveries, "what a consumer settles it held");
        let id = consumer.session;
        let Some(session) = self.sessions.get_mut(&id) else {
            invariant!(broken, "who settles has a session");
            return None;
        };
        uncount!(
            session.unsettled,
            deliveries,
            "what is settled was unsettled in its session"
        );
        (!session.blocked.is_empty()).then_some(id)
    }

    /// Counts a delivery as held for too long: it stays unsettled.
    pub(super) fn time_out(&mut self, id: ConsumerId) -> Option<&mut Consumer> {
        let consumer = self.consumers.get_mut(&id)?;
        uncount!(
            consumer.held,
            1,
            "what a consumer held for too long it held"
        );
        consumer.timed_out += 1;
        Some(consumer)
    }

    /// Counts a delivery as settled that a consumer held for too long: how many such are left, and
    /// its session. None: there was none.
    pub(super) fn release_timed_out(
        &mut self,
        id: ConsumerId,
        position: Position,
    ) -> Option<(u32, SessionId)> {
        let consumer = self.consumers.get_mut(&id)?;
        consumer.timed_out = consumer.timed_out.checked_sub(1)?;
        if let Some(terms) = &mut consumer.recovery {
            terms.settle_late(position);
        }
        let (left, id) = (consumer.timed_out, consumer.session);
        if let Some(session) = self.sessions.get_mut(&id) {
            uncount!(
                session.unsettled,
                1,
                "what was held for too long was unsettled in its session"
            );
        } else {
            invariant!(broken, "who settles has a session");
        }
        Some((left, id))
    }

    /// Notes that a consumer with credit is blocked by its session or connection; it is woken when
    /// there is room.
    pub(super) fn block(&mut self, id: ConsumerId, why: NoRoom) {
        let Some(consumer) = self.consumers.get_mut(&id) else {
            return invariant!(broken, "who found no room is there");
        };
        match why {
            NoRoom::Credit => {}
            NoRoom::Session => {
                if let Some(session) = self.sessions.get_mut(&consumer.session) {
                    session.block(id);
                }
            }
            NoRoom::Connection => {
                if let Some(connection) = self.connections.get_mut(&consumer.connection)
                    && !std::mem::replace(&mut consumer.blocked, true)
                {
                    connection.blocked.push(id);
                }
            }
        }
    }

    /// Takes the consumers that wait for the session's window.
    pub(super) fn take_blocked_by_session(&mut self, id: SessionId) -> Vec<ConsumerId> {
        self.sessions
            .get_mut(&id)
            .map_or_else(Vec::new, |s| std::mem::take(&mut s.blocked))
    }

    /// Takes the consumers that wait for the connection's limit of bytes.
    pub(super) fn take_blocked_by_connection(&mut self, id: ConnectionId) -> Vec<ConsumerId> {
        let connection = self.connections.get_mut(&id);
        let blocked = connection.map_or_else(Vec::new, |c| std::mem::take(&mut c.blocked));
        for consumer in &blocked {
            if let Some(consumer) = self.consumers.get_mut(consumer) {
                consumer.blocked = false;
            }
        }
        blocked
    }
}

impl Taker<'_> {
    /// Whether each of them has anything left of its limit.
    #[inline]
    fn room(&self) -> Result<(), NoRoom> {
        if !self.consumer.has_credit() {
            Err(NoRoom::Credit)
        } else if !self.session.has_room(self.unsettled_max) {
            Err(NoRoom::Session)
        } else if !self.connection.has_room() {
            Err(NoRoom::Connection)
        } else {
            Ok(())
        }
    }

    /// The same for a delivery that the consumer holds: it does not become one more that is unsettled.
    fn room_again(&self) -> Result<(), NoRoom> {
        if !self.consumer.has_credit() {
            Err(NoRoom::Credit)
        } else if !self.session.has_window() {
            Err(NoRoom::Session)
        } else if !self.connection.has_room() {
            Err(NoRoom::Connection)
        } else {
            Ok(())
        }
    }

    /// Counts a message of this size against each of them, if all have anything left of their limits: one
    /// message always fits, whatever its size.
    #[inline]
    pub(super) fn take(&mut self, size_bytes: u32) -> Result<(), NoRoom> {
        self.room()?;
        self.connection.assigned_bytes += u64::from(size_bytes);
        self.session.assigned += 1;
        self.consumer.assigned += 1;
        self.session.unsettled += 1;
        self.consumer.held += 1;
        Ok(())
    }
}

impl Session {
    /// Notes a consumer that waits; there are about as many as handles in a session.
    pub(super) fn block(&mut self, consumer: ConsumerId) {
        if !self.blocked.contains(&consumer) {
            self.blocked.push(consumer);
        }
    }

    const fn has_room(&self, unsettled_max: u32) -> bool {
        self.has_window() && self.unsettled < unsettled_max
    }

    const fn has_window(&self) -> bool {
        self.assigned < self.limit
    }
}

impl Connection {
    const fn has_room(&self) -> bool {
        self.assigned_bytes < self.limit_bytes
    }
}
