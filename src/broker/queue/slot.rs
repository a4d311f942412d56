//! A slot: one message in one queue, its state, and what its removal leaves to be done.

use std::sync::Arc;

use super::disk_refs::DiskRef;
use crate::base::limits::MESSAGE_COPY_BYTES_MAX;
use crate::base::{HolderId, Lsn, Millis, Stamp};
use crate::message::{Message, Route};

/// The state of a message in a queue. A slot without a state is empty.
///
/// ```text
///              assign            settle
///   +--> Ready ------> Held -----------------> gone
///   |      |            | |                     ^
///   |      | expire,    | | reject,             |
///   |      | overflow   | | expire, limit       |
///   |      +-----> Dying <+                     |
///   |                |  moved or dropped        |
///   |                +--------------------------+
///   +------------------- return
///
///   Held --return later--> Delayed --it is its time--> Ready
/// ```
///
/// Like a ready message a delayed one can expire, overflow and be purged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MessageState {
    /// It waits for a consumer.
    Ready = 0,
    /// A consumer holds it and has not settled it.
    Held = 1,
    /// It is dead, and no target has its copy yet.
    Dying = 2,
    /// It waits until it is its time, and is ready then.
    Delayed = 3,
}

impl MessageState {
    /// All states, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::Ready, Self::Held, Self::Dying, Self::Delayed];
}

/// One message in one queue. Kept small: a queue of a million messages has a million of these.
#[derive(Debug)]
pub struct Slot {
    /// The message, shared with other queues.
    pub message: Arc<Message>,
    /// Exchange and routing keys it was published with.
    pub route: Arc<Route>,
    /// When it arrived in this queue.
    pub arrived: Millis,
    /// When its own time to live ends, whatever the queue's ttl; [`Millis::NEVER`] without one.
    pub deadline: Millis,
    /// The LSN of the journal record with its envelope; 0 if it is not in the journal.
    pub envelope: Lsn,
    /// The LSN of the record with its bare bytes; 0 if they have no record of their own.
    pub body: Lsn,
    /// The consumer that holds it, while it is held.
    pub holder: HolderId,
    /// Since when, while it is held.
    pub held_since: Stamp,
    /// Size of its bare message, in bytes.
    pub size_bytes: u32,
    /// Failed deliveries in this queue.
    pub failures: u32,
    /// Requeues in this queue.
    pub acquired: u32,
    /// Whether the journal keeps it.
    pub durable: bool,
    /// The redrive that moved it here and learns what becomes of it; 0: none.
    pub moved_by: u32,
}

impl Slot {
    /// When it expires in a queue with this ttl for all its messages.
    #[inline]
    pub fn expires_at(&self, queue_ttl_ms: Option<u64>) -> Millis {
        expires_at((self.arrived, self.deadline), queue_ttl_ms)
    }

    /// Bytes in memory: of its bare message, without those that are on disk only, of its
    /// annotations as received, and of routing keys that it does not share.
    #[inline]
    pub fn resident_bytes(&self) -> u32 {
        let mut resident_bytes = self.size_bytes;
        if self.size_bytes as usize > MESSAGE_COPY_BYTES_MAX {
            let apart_bytes = u32::try_from(self.message.apart_bytes()).unwrap_or(u32::MAX);
            resident_bytes = resident_bytes.saturating_sub(apart_bytes);
        }
        resident_bytes = resident_bytes.saturating_add(self.message.front_bytes());
        if self.route.keys.len() > 1 {
            resident_bytes = resident_bytes.saturating_add(self.route.key_bytes());
        }
        resident_bytes
    }

    /// Bytes of its bare message that are on disk only, minus those in memory besides it: see
    /// [`Slot::resident_bytes`].
    #[inline]
    pub(super) fn apart_bytes(&self) -> i64 {
        i64::from(self.size_bytes) - i64::from(self.resident_bytes())
    }

    /// Its disk ref, which stays when it is evicted; `envelope` is the record with its envelope.
    pub(super) fn disk_ref(&self, envelope: Lsn) -> DiskRef {
        DiskRef {
            arrived: self.arrived,
            deadline: self.deadline,
            envelope,
            body: self.body,
            size_bytes: self.size_bytes,
            failures: self.failures,
            acquired: self.acquired,
            durable: self.durable,
            moved_by: self.moved_by,
        }
    }
}

/// When a message expires that arrived at a time and has a deadline of its own, in a queue with this ttl.
#[inline]
pub(super) fn expires_at((arrived, own): (Millis, Millis), queue_ttl_ms: Option<u64>) -> Millis {
    let by_queue = queue_ttl_ms.map(|ttl_ms| arrived.plus(ttl_ms));
    by_queue.map_or(own, |by_queue| by_queue.min(own))
}

/// What a removed message leaves to be done.
#[derive(Clone, Copy, Debug)]
pub struct Gone {
    /// The LSN of the record with its envelope; 0: none.
    pub envelope: Lsn,
    /// The LSN of the record with its bare bytes; 0: none.
    pub body: Lsn,
    /// Whether the journal keeps it.
    pub durable: bool,
    /// Size of its bare message, in bytes.
    pub size_bytes: u32,
    /// Bytes that it took in memory: see [`Slot::resident_bytes`].
    pub resident_bytes: u32,
    /// Whether it was in memory.
    pub was_resident: bool,
    /// The redrive that learns what becomes of it; 0: none.
    pub moved_by: u32,
    pub(super) deadline: Millis,
}

impl Gone {
    /// Bytes of its bare message that were on disk only, minus those in memory besides it.
    pub(super) fn apart_bytes(&self) -> i64 {
        i64::from(self.size_bytes) - i64::from(self.resident_bytes)
    }

    /// The LSNs that it referred to, each once.
    pub fn names(&self) -> impl Iterator<Item = Lsn> + use<> {
        names(self.envelope, self.body)
    }
}

/// The LSNs of an envelope and a body that a message refers to, each once.
pub fn names(envelope: Lsn, body: Lsn) -> impl Iterator<Item = Lsn> {
    let body = Some(body).filter(|body| *body != envelope);
    [Some(envelope), body]
        .into_iter()
        .flatten()
        .filter(|name| *name > Lsn(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A queue of a million messages has a million of these.
    #[test]
    fn the_mark_of_a_redrive_and_the_time_of_holding_take_no_room_in_a_slot() {
        assert_eq!(size_of::<Slot>(), 80);
    }
}
