//! Browsing the messages of a queue, evicted ones included.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::vhost::{Failed, Vhost};
use crate::base::{Millis, Now, Position, Timestamp};
use crate::broker::queue::MessageState;
use crate::broker::{BrowsedMessage, Content};
use crate::message::{Message, Route};
use crate::search::Candidate;
use crate::store::Disk;

/// A message as it is shown.
#[derive(Debug)]
pub(crate) struct ShownMessage {
    pub(crate) position: Position,
    pub(crate) message: Arc<Message>,
    pub(crate) route: Arc<Route>,
    /// When it arrived in this queue.
    pub(crate) arrived: Millis,
    /// Failed deliveries in this queue.
    pub(crate) failures: u32,
    /// Requeues in this queue.
    pub(crate) acquired: u32,
}

impl ShownMessage {
    /// When it arrived in this queue, by the wall clock.
    pub(crate) fn arrived_at(&self, now: Now) -> Timestamp {
        let age_ms = i64::try_from(now.mono.since(self.arrived)).unwrap_or(i64::MAX);
        Timestamp(now.wall.0.saturating_sub(age_ms))
    }

    /// The message as filters and groups see it.
    pub(crate) fn candidate(&self) -> Candidate<'_> {
        Candidate {
            position: self.position,
            message: &self.message,
            route: &self.route,
            failures: self.failures,
        }
    }
}

/// A page of a queue's messages.
#[derive(Debug)]
pub(crate) struct Piece {
    /// The messages, by position. Those that were removed between the listing and the reading are
    /// missing.
    pub(crate) messages: Vec<ShownMessage>,
    /// The position at which the next page begins, which may be empty; none: this is the last page.
    pub(crate) next: Option<Position>,
}

impl<D: Disk> Vhost<D> {
    /// Up to `count` messages of a queue in one state from a position on. Reads the disk, outside
    /// the lock: may block.
    pub(crate) fn browse(
        &self,
        queue: &str,
        state: MessageState,
        from: Position,
        count: usize,
    ) -> Result<Piece, Failed> {
        let Some(browsed) = self.look(|core| core.browse(queue, state, from, count))? else {
            return Ok(Piece {
                messages: Vec::new(),
                next: None,
            });
        };
        let next = browsed.next;
        let wanted = browsed.messages.iter().filter_map(|m| match &m.content {
            Content::OnDisk(wanted) => Some(wanted.clone()),
            Content::Here(..) => None,
        });
        let read = self
            .pager()
            .glance(browsed.queue, wanted.collect())
            .messages;
        let mut read: BTreeMap<_, _> = read
            .into_iter()
            .map(|(position, message, route)| (position, (message, route)))
            .collect();
        let seen = |browsed: BrowsedMessage| {
            let (message, route) = match browsed.content {
                Content::Here(message, route) => (message, route),
                Content::OnDisk(wanted) => read.remove(&wanted.position)?,
            };
            Some(ShownMessage {
                position: browsed.position,
                message,
                route,
                arrived: browsed.arrived,
                failures: browsed.failures,
                acquired: browsed.acquired,
            })
        };
        let messages = browsed.messages.into_iter().filter_map(seen).collect();
        Ok(Piece { messages, next })
    }
}
