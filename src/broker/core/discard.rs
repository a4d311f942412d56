//! Discarding one message of a queue because somebody asked for it.

use super::{Core, Turn};
use crate::base::{ConnectionId, Name, Position};
use crate::broker::queue::MessageState;
use crate::broker::{DropCause, Error, Reply};

/// How a message is described that a consumer has not settled.
const HELD: &str = "held by a consumer";

impl Core {
    /// Drops the ready message at a position, in memory or on disk: it does not die.
    pub(super) fn queue_discard(
        &mut self,
        turn: &mut Turn<'_>,
        connection: Option<ConnectionId>,
        name: &Name,
        position: Position,
    ) -> Result<Reply, Error> {
        let id = self
            .find_queue(connection, name)?
            .ok_or_else(|| Self::missing_queue(name))?;
        let queue = self
            .queues
            .get(&id)
            .ok_or_else(|| Self::missing_queue(name))?;
        if !queue.messages.is(position, MessageState::Ready) {
            let queue_name = name.clone();
            let states = [
                (MessageState::Held, HELD),
                (MessageState::Dying, "a dead letter that waits for a target"),
                (MessageState::Delayed, "delayed"),
            ];
            let mut states = states.into_iter();
            let found = states.find(|(state, _)| queue.messages.is(position, *state));
            return Err(match found {
                Some((_, state)) => Error::NotReady {
                    queue: queue_name,
                    position,
                    state,
                },
                None => Error::NoMessage {
                    queue: queue_name,
                    position,
                },
            });
        }
        let reserved = queue.selecting.reserved();
        if reserved.is_some_and(|reserved| reserved.holder(position).is_some()) {
            // Since before a start: it is acquired for its link once it is read back.
            return Err(Error::NotReady {
                queue: name.clone(),
                position,
                state: HELD,
            });
        }
        let why = (None, DropCause::Discarded);
        self.remove_dropped(turn, id, position, MessageState::Ready, why);
        Ok(Reply::Purged {
            messages: 1,
            lsn: self.recorder.lsn(),
        })
    }
}
