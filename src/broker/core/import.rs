//! Putting an imported message into a queue, with the history that it brings.

use std::sync::Arc;

use super::admission::{Arrival, Offered, size_bytes};
use super::{Core, Turn};
use crate::base::{Lsn, Name};
use crate::broker::memo::ImportLine;
use crate::broker::{Error, Reply};
use crate::message::{Message, Route};

impl Core {
    /// Puts a message into a queue, beside exchanges and bindings. It pushes nothing out: a full
    /// queue refuses it. A line of an import is put there once, however often it is sent.
    pub(super) fn queue_import(
        &mut self,
        turn: &mut Turn<'_>,
        name: &Name,
        (message, route): (Arc<Message>, Arc<Route>),
        line: Option<ImportLine>,
    ) -> Result<Reply, Error> {
        let id = self
            .find_queue(None, name)?
            .ok_or_else(|| Self::missing_queue(name))?;
        if let Some(line) = &line
            && let Some(lsn) = self.imported_by(turn.now, id, line)?
        {
            return Ok(Reply::ImportKnown { lsn });
        }
        let full = || Error::QueueFull { name: name.clone() };
        let queue = self.queues.get(&id);
        if queue.is_some_and(|queue| queue.would_overflow(size_bytes(&message))) {
            return Err(full());
        }
        let mut insertion = self.insertion(Lsn(0));
        // A dead letter has no time to live of its own.
        let arrival = if message.history().is_some() {
            Arrival::dead(message, route)
        } else {
            Arrival::new(turn.now, message, route)
        };
        let offered = self.offer(turn, id, arrival, &mut insertion);
        self.record(insertion);
        match offered {
            Offered::Taken { durable } => {
                if let Some(line) = line {
                    self.note_imported(turn.now, id, (line, durable));
                }
                let lsn = self.recorder.lsn();
                Ok(Reply::Imported { lsn })
            }
            Offered::TakenToDie { .. } | Offered::Refused | Offered::Gone => Err(full()),
        }
    }
}
