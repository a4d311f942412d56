//! Looking through the messages of a queue for those that a filter means: in slices, so that no
//! hold of the core's lock is long, those on disk too.

use std::sync::Arc;

use thiserror::Error;

use super::admin::internal;
use super::yielding::give_way;
use super::{Store, Vhost};
use crate::base::limits::SCAN_SLICE;
use crate::base::{Name, Position};
use crate::broker::queue::MessageState;
use crate::management::Refusal;
use crate::message::Message;
use crate::node::ShownMessage;
use crate::search::{DeathFilter, Verdict};

/// Why a queue cannot be looked through.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub(super) enum ScanError {
    /// Its vhost does not answer any more.
    #[error("the vhost failed")]
    VhostFailed,
    /// The journal does not give the body of a message.
    #[error("a message cannot be read back from the journal now")]
    Unreadable,
}

impl From<ScanError> for Refusal {
    fn from(error: ScanError) -> Self {
        internal(error.to_string())
    }
}

/// A queue that is being looked through.
pub(super) struct Scan {
    vhost: Arc<Vhost>,
    store: Option<Arc<Store>>,
    queue: Name,
    state: MessageState,
    filter: DeathFilter,
    /// Where it goes on; none: it is through.
    next: Option<Position>,
    /// Messages that were looked at.
    scanned: u64,
}

impl Scan {
    /// A scan of the messages in one state, from a position on.
    pub(super) fn new(
        (vhost, store): (Arc<Vhost>, Option<Arc<Store>>),
        queue: Name,
        (state, from): (MessageState, Position),
        filter: DeathFilter,
    ) -> Self {
        Self {
            vhost,
            store,
            queue,
            state,
            filter,
            next: Some(from),
            scanned: 0,
        }
    }

    /// Where it goes on; none: it is through.
    pub(super) const fn next(&self) -> Option<Position> {
        self.next
    }

    /// Goes on at this position, in front of what it saw.
    pub(super) const fn go_back(&mut self, position: Position) {
        self.next = Some(position);
    }

    /// Number of messages that were looked at.
    pub(super) const fn scanned(&self) -> u64 {
        self.scanned
    }

    /// The messages that the filter means among the next few, at most `found_max`; none: the queue
    /// is through. Blocks on the disk, and yields the processor first.
    pub(super) fn slice(
        &mut self,
        found_max: usize,
    ) -> Result<Option<Vec<ShownMessage>>, ScanError> {
        give_way();
        let Some(from) = self.next else {
            return Ok(None);
        };
        let (from, count) = match self.filter.positions() {
            None if self.filter.is_empty() => (from, found_max.min(SCAN_SLICE)),
            // Few of them may be meant.
            None => (from, SCAN_SLICE),
            Some(positions) => {
                let place = positions.partition_point(|position| *position < from.0);
                let Some(position) = positions.get(place) else {
                    self.next = None;
                    return Ok(Some(Vec::new()));
                };
                (Position(*position), 1)
            }
        };
        let piece = self.vhost.browse(&self.queue, self.state, from, count);
        let piece = piece.map_err(|_| ScanError::VhostFailed)?;
        self.next = piece.next;
        let mut found = Vec::new();
        for seen in piece.messages {
            if found.len() == found_max {
                self.next = Some(seen.position);
                break;
            }
            self.scanned += 1;
            if is_meant(&self.filter, &seen, self.store.as_deref())? {
                found.push(seen);
            }
        }
        Ok(Some(found))
    }
}

/// A message with its bare bytes, read back if they were streamed. Blocks.
pub(super) fn whole(
    store: Option<&Store>,
    message: &Arc<Message>,
) -> Result<Arc<Message>, ScanError> {
    let Some(body) = message.blob() else {
        return Ok(Arc::clone(message));
    };
    let bare = store.and_then(|store| store.read_body(**body));
    let whole = bare.and_then(|bare| message.filled(&bare));
    whole.map(Arc::new).ok_or(ScanError::Unreadable)
}

/// Whether a filter means a message. Reads the beginning of a body that is only on disk: blocks.
pub(super) fn is_meant(
    filter: &DeathFilter,
    seen: &ShownMessage,
    store: Option<&Store>,
) -> Result<bool, ScanError> {
    match filter.verdict(&seen.candidate()) {
        Verdict::Matches => Ok(true),
        Verdict::Differs => Ok(false),
        Verdict::NeedsBody => {
            let body = seen.message.blob().zip(store);
            let bytes = DeathFilter::body_bytes(&seen.message);
            let begin = body.and_then(|(body, store)| store.read_beginning(**body, bytes));
            let begin = begin.ok_or(ScanError::Unreadable)?;
            Ok(filter.is_in(&seen.message, &begin))
        }
    }
}
