//! Browsing: listing messages of a queue without changing them.

use std::sync::Arc;

use super::Core;
use super::paging::wanted;
use crate::base::Position;
use crate::base::limits::BROWSED_BLOCKS_MAX;
use crate::broker::queue::{MessageState, Queue};
use crate::broker::reply::{Browsed, BrowsedMessage, Content};

/// Bytes of messages on disk that one listing reads at most; one message is always read.
const READ_BYTES_MAX: u64 = 8 * 1024 * 1024;

impl Core {
    /// Up to `count` messages of a queue in one state, by position, from a position on, fewer where
    /// many bytes must be read or many blocks are passed that have none. None if the queue does not
    /// exist.
    pub fn browse(
        &self,
        queue: &str,
        state: MessageState,
        from: Position,
        count: usize,
    ) -> Option<Browsed> {
        let queue = self.queue(queue)?;
        let (mut messages, mut read_bytes) = (Vec::new(), 0);
        let mut blocks_left = count.saturating_add(BROWSED_BLOCKS_MAX);
        let mut next = Some(from);
        while let Some(from) = next.filter(|_| messages.len() < count) {
            let position = match queue.messages.find_among(state, from, &mut blocks_left) {
                Ok(Some(position)) => position,
                Ok(None) => {
                    next = None;
                    break;
                }
                Err(place) => {
                    next = Some(place);
                    break;
                }
            };
            if let Some((message, bytes)) = browsed(queue, position) {
                read_bytes += bytes;
                if read_bytes > READ_BYTES_MAX && !messages.is_empty() {
                    next = Some(position);
                    break;
                }
                messages.push(message);
            }
            next = Some(Position(position.0 + 1));
        }
        Some(Browsed {
            queue: queue.id,
            messages,
            next,
        })
    }
}

/// A message for the listing, and how many bytes must be read to show it.
fn browsed(queue: &Queue, position: Position) -> Option<(BrowsedMessage, u64)> {
    if let Some(slot) = queue.messages.slot(position) {
        let message = BrowsedMessage {
            position,
            content: Content::Here(Arc::clone(&slot.message), Arc::clone(&slot.route)),
            arrived: slot.arrived,
            failures: slot.failures,
            acquired: slot.acquired,
        };
        return Some((message, 0));
    }
    let disk_ref = queue.messages.disk_ref(position)?;
    let bytes = disk_ref.size_bytes.into();
    let message = BrowsedMessage {
        position,
        arrived: disk_ref.arrived,
        failures: disk_ref.failures,
        acquired: disk_ref.acquired,
        content: Content::OnDisk(wanted(position, &disk_ref)),
    };
    Some((message, bytes))
}
