//! Long work of requests, on threads that may block, some pieces at a time.

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::base::limits::HTTP_ASIDE_MAX;
use crate::management::http::Failure;

/// Permits for such work.
static TURNS: Semaphore = Semaphore::const_new(HTTP_ASIDE_MAX);

/// Runs long work beside the tasks that move messages, once there is a permit.
pub(super) async fn aside<T: Send + 'static>(
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

async fn turn() -> Result<SemaphorePermit<'static>, Failure> {
    let turn = TURNS.acquire().await;
    turn.map_err(|_| Failure::unavailable("stopping"))
}
