//! Looking through the messages of a queue for those that a filter means: in slices, so that no
//! hold of the core's lock is long, those on disk too.

use std::sync::Arc;

use tokio::sync::{Semaphore, SemaphorePermit};

use super::api::Call;
use super::work::failed;
use crate::base::limits::{HTTP_SCANS_MAX, HTTP_STREAMS_MAX, SCAN_SLICE};
use crate::base::{Name, Position};
use crate::broker::queue::MessageState;
use crate::management::http::Failure;
use crate::node::ShownMessage;
use crate::search::{DeathFilter, Verdict};
use crate::server::yielding::give_way;
use crate::server::{Store, Vhost};

/// Permits for looking through whole queues, which takes seconds: other long work goes on beside.
static SCANS: Semaphore = Semaphore::const_new(HTTP_SCANS_MAX);

/// Permits for exports and imports, which last as long as their client takes.
static STREAMS: Semaphore = Semaphore::const_new(HTTP_STREAMS_MAX);

/// A permit to export or import messages, if there is one.
pub(super) fn turn_now() -> Result<SemaphorePermit<'static>, Failure> {
    let turn = STREAMS.try_acquire();
    turn.map_err(|_| {
        Failure::too_many(format!(
            "{HTTP_STREAMS_MAX} exports and imports run, which is as many as may at a time"
        ))
    })
}

/// A permit to look through a whole queue.
async fn turn() -> Result<SemaphorePermit<'static>, Failure> {
    let turn = SCANS.acquire().await;
    turn.map_err(|_| Failure::unavailable("stopping"))
}

/// Runs such work beside the tasks that move messages, once there is a permit.
pub(super) async fn scanning<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let turn = turn().await?;
    let done = tokio::task::spawn_blocking(move || {
        let done = work();
        // Inside the work, so that a client that goes away does not let more run at once.
        drop(turn);
        done
    });
    let failed = |_| Err(Failure::unavailable("the work failed, the log says why"));
    done.await.unwrap_or_else(failed)
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
        call: &Call<'_>,
        queue: Name,
        (state, from): (MessageState, Position),
        filter: DeathFilter,
    ) -> Result<Self, Failure> {
        Ok(Self {
            vhost: call.vhost()?,
            store: call.shared.node.store.clone(),
            queue,
            state,
            filter,
            next: Some(from),
            scanned: 0,
        })
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
    pub(super) fn slice(&mut self, found_max: usize) -> Result<Option<Vec<ShownMessage>>, Failure> {
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
        let piece = piece.map_err(failed)?;
        self.next = piece.next;
        let mut found = Vec::new();
        for seen in piece.messages {
            if found.len() == found_max {
                self.next = Some(seen.position);
                break;
            }
            self.scanned += 1;
            if self.is_meant(&seen)? {
                found.push(seen);
            }
        }
        Ok(Some(found))
    }

    fn is_meant(&self, seen: &ShownMessage) -> Result<bool, Failure> {
        let candidate = seen.candidate();
        match self.filter.verdict(&candidate) {
            Verdict::Matches => Ok(true),
            Verdict::Differs => Ok(false),
            Verdict::NeedsBody => {
                let body = seen.message.blob().zip(self.store.as_ref());
                let bytes = DeathFilter::body_bytes(&candidate);
                let begin = body.and_then(|(body, store)| store.read_beginning(**body, bytes));
                let missing =
                    || Failure::unavailable("a message cannot be read back from the journal now");
                let begin = begin.ok_or_else(missing)?;
                Ok(self.filter.is_in(&candidate, &begin))
            }
        }
    }
}

/// Checks that the filter names no users but the one that asks, unless that one may see all.
pub(super) fn may_ask_for_users(call: &Call<'_>, filter: &DeathFilter) -> Result<(), Failure> {
    let own = &call.identity.name;
    let other = filter.users().iter().find(|user| *user != own);
    match other {
        Some(other) if !call.identity.is_monitor() => Err(Failure::not_authorised(format!(
            "the filter's 'user' is '{other}': without the tag monitoring or administrator one may \
             ask for one's own name only"
        ))),
        _ => Ok(()),
    }
}
