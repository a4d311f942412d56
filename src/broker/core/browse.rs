//! A look at messages that changes nothing.

use std::sync::Arc;

use super::Core;
use super::paging::wanted;
use crate::base::Position;
use crate::broker::queue::{Queue, State};
use crate::broker::reply::{Browsed, BrowsedMessage, Content};

impl Core {
    /// Up to `count` messages of a queue in one state, by place, from a place on; nothing if there is
    /// no such queue.
    pub fn browse(
        &self,
        queue: &str,
        state: State,
        from: Position,
        count: usize,
    ) -> Option<Browsed> {
        let queue = self.queue(queue)?;
        let mut from = from;
        let places = std::iter::from_fn(|| {
            let position = queue.messages.find(state, from)?;
            from = Position(position.0 + 1);
            Some(position)
        });
        let messages = places.take(count).filter_map(|at| browsed(queue, at));
        Some(Browsed {
            queue: queue.id,
            messages: messages.collect(),
        })
    }
}

fn browsed(queue: &Queue, position: Position) -> Option<BrowsedMessage> {
    if let Some(slot) = queue.messages.slot(position) {
        return Some(BrowsedMessage {
            position,
            content: Content::Here(Arc::clone(&slot.message), Arc::clone(&slot.route)),
            failures: slot.failures,
            acquired: slot.acquired,
        });
    }
    let card = queue.messages.card(position)?;
    Some(BrowsedMessage {
        position,
        failures: card.failures,
        acquired: card.acquired,
        content: Content::OnDisk(wanted(position, card)),
    })
}
