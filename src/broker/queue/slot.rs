//! One message in one queue: what is kept of it, what it is, and what it leaves to be done.

use std::sync::Arc;

use super::disk_refs::DiskRef;
use crate::base::limits::MESSAGE_COPY_BYTES_MAX;
use crate::base::{HolderId, Lsn, Millis};
use crate::message::{Message, Route};

/// What a slot is. No state at all means gone.
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
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MessageState {
    /// Waits for a consumer.
    Ready = 0,
    /// With a consumer.
    Held = 1,
    /// Dead; its copy is not yet in a target.
    Dying = 2,
    /// Reserved: waits for its delivery time.
    Delayed = 3,
}

/// One message in one queue. Kept small: a queue of a million holds a million of these.
#[derive(Debug)]
pub struct Slot {
    /// The message.
    pub message: Arc<Message>,
    /// Exchange and keys it came by.
    pub route: Arc<Route>,
    /// When it arrived in this queue.
    pub arrived: Millis,
    /// Its own end of life, whatever the queue's ttl.
    pub deadline: Millis,
    /// The journal's record in which its envelope stands; 0 if it is not in the journal.
    pub envelope: Lsn,
    /// The record that names its bare bytes; 0 if they have no name of their own.
    pub body: Lsn,
    /// Who holds it, when held.
    pub holder: HolderId,
    /// Bytes of its bare message.
    pub size_bytes: u32,
    /// Failed deliveries in this queue.
    pub failures: u32,
    /// Returns in this queue.
    pub acquired: u32,
    /// The journal knows it.
    pub durable: bool,
}

impl Slot {
    /// Bytes in memory: of its bare message, without those that are on disk all the same, of its
    /// annotations as received, and of routing keys that are its own.
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

    /// Bytes of its bare message that are on disk all the same, less those that are in memory beside
    /// it: see [`Slot::resident_bytes`].
    #[inline]
    pub(super) fn apart_bytes(&self) -> i64 {
        i64::from(self.size_bytes) - i64::from(self.resident_bytes())
    }

    /// What stays of it while it is out of memory, its envelope being in that record.
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
        }
    }
}

/// What a message that was taken out leaves to be done.
#[derive(Clone, Copy, Debug)]
pub struct Gone {
    /// The record in which its envelope stands; 0: none.
    pub envelope: Lsn,
    /// The record that names its bare bytes; 0: none.
    pub body: Lsn,
    /// The journal knows it.
    pub durable: bool,
    /// Bytes of its bare message.
    pub size_bytes: u32,
    /// Bytes that it had in memory: see [`Slot::resident_bytes`].
    pub resident_bytes: u32,
    /// It was in memory.
    pub was_resident: bool,
    pub(super) deadline: Millis,
}

impl Gone {
    /// Bytes of its bare message that were not in memory, less those that were beside it.
    pub(super) fn apart_bytes(&self) -> i64 {
        i64::from(self.size_bytes) - i64::from(self.resident_bytes)
    }

    /// The records that it named, each once.
    pub fn names(&self) -> impl Iterator<Item = Lsn> + use<> {
        names(self.envelope, self.body)
    }
}

/// The records of an envelope and a body that a message names, each once.
pub fn names(envelope: Lsn, body: Lsn) -> impl Iterator<Item = Lsn> {
    let body = Some(body).filter(|body| *body != envelope);
    [Some(envelope), body]
        .into_iter()
        .flatten()
        .filter(|name| *name > Lsn(0))
}
