//! Work of requests that takes long: beside the tasks that move messages, some pieces at a time.

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::base::limits::HTTP_ASIDE_MAX;
use crate::management::http::Failure;

/// Who may work now.
static TURNS: Semaphore = Semaphore::const_new(HTTP_ASIDE_MAX);

/// Does work that takes long beside the tasks that move messages, once it is its turn.
pub(super) async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let turn = turn().await?;
    let done = tokio::task::spawn_blocking(move || {
        let done = work();
        // Here, so that a client that goes away does not let more run at once.
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
