//! Messages of which one may have cost a connection: each is delivered alone. [evidence part 5,
//! poison isolation]
//!
//! ```text
//!   connection lost, held > 1 --> suspect --alone on a connection--> settled: no suspect any more
//!                                    ^                |
//!                                    +-- charged <----+ connection lost again
//! ```

use std::collections::{BTreeMap, BTreeSet};

use super::messages::Messages;
use super::slot::MessageState;
use crate::base::limits::SUSPECTS_MAX;
use crate::base::{ConnectionId, ConsumerId, HolderId, Position};

/// Whether a message is in its queue, and not dead.
fn is_live(messages: &Messages, position: Position) -> bool {
    let live = [
        MessageState::Ready,
        MessageState::Held,
        MessageState::Delayed,
    ];
    live.into_iter().any(|state| messages.is(position, state))
}

/// The suspects of one queue, by their positions, and where one is delivered.
#[derive(Debug, Default)]
pub struct Suspects {
    /// What left the queue may still be here, until it is looked at as the first.
    positions: BTreeSet<Position>,
    /// The suspect that a connection got last, and its consumer; it may be settled by now.
    delivered: BTreeMap<ConnectionId, (ConsumerId, HolderId, Position)>,
}

impl Suspects {
    /// Adds a message; false if there are as many as may be.
    pub(super) fn add(&mut self, position: Position) -> bool {
        self.positions.len() < SUSPECTS_MAX && self.positions.insert(position)
            || self.positions.contains(&position)
    }

    /// Forgets a message that a consumer settled, or one that left.
    pub(super) fn remove(&mut self, position: Position) {
        self.positions.remove(&position);
    }

    /// Forgets the first one if it has left the queue; whether any is left.
    pub(super) fn prune(&mut self, messages: &Messages) -> bool {
        if let Some(first) = self.positions.first().copied()
            && !is_live(messages, first)
        {
            self.positions.pop_first();
        }
        !self.positions.is_empty()
    }

    /// Forgets all that have left the queue.
    pub(super) fn retain_live(&mut self, messages: &Messages) {
        self.positions
            .retain(|position| is_live(messages, *position));
    }

    /// How many there are, those counted that left unseen.
    pub fn len(&self) -> usize {
        self.positions.len()
    }

    /// Whether a message is suspected.
    pub fn has(&self, position: Position) -> bool {
        self.positions.contains(&position)
    }

    /// Notes that a connection gets one.
    pub fn deliver(&mut self, position: Position, to: (ConnectionId, ConsumerId, HolderId)) {
        self.delivered.insert(to.0, (to.1, to.2, position));
    }

    /// The consumer of a connection that holds a suspect.
    pub fn holder(&mut self, messages: &Messages, connection: ConnectionId) -> Option<ConsumerId> {
        let (consumer, holder, position) = *self.delivered.get(&connection)?;
        let slot = messages.slot_if(position, MessageState::Held);
        if slot.is_some_and(|slot| slot.holder == holder) {
            return Some(consumer);
        }
        self.delivered.remove(&connection);
        None
    }
}
