//! How many requests look through queues at a time, and what their users may ask for.

use tokio::sync::{Semaphore, SemaphorePermit};

use super::api::Call;
use crate::base::limits::HTTP_SCANS_MAX;
use crate::base::{Name, Position};
use crate::broker::queue::MessageState;
use crate::management::http::Failure;
use crate::search::DeathFilter;
use crate::server::scan::{Scan, ScanError};
use crate::server::streams::StreamPlace;

impl From<ScanError> for Failure {
    fn from(error: ScanError) -> Self {
        Self::unavailable(error.to_string())
    }
}

impl Call<'_> {
    /// A scan of the messages of a queue in one state, from a position on.
    pub(super) fn scan(
        &self,
        queue: Name,
        place: (MessageState, Position),
        filter: DeathFilter,
    ) -> Result<Scan, Failure> {
        let store = self.shared.node.store.clone();
        let filter = if self.identity.is_monitor() {
            filter
        } else {
            filter.with_users_by_token(self.identity.grant.is_some())
        };
        Ok(Scan::new((self.vhost()?, store), queue, place, filter))
    }

    /// A place for an export or import of its user, if there is one: it lasts as long as its client
    /// takes.
    pub(super) fn message_stream(&self) -> Result<StreamPlace, Failure> {
        let who = (&self.identity.name, self.identity.grant.is_some());
        StreamPlace::take(&self.shared.message_streams, who).map_err(Failure::too_many)
    }
}

/// Permits for looking through whole queues, which takes seconds: other long work goes on beside.
static SCANS: Semaphore = Semaphore::const_new(HTTP_SCANS_MAX);

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
