//! Long work of requests, on threads that may block, some pieces at a time.

use std::sync::{Arc, OnceLock};

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::base::limits::HTTP_ASIDE_MAX;
use crate::management::http::Failure;

/// Permits for such work.
static TURNS: Semaphore = Semaphore::const_new(HTTP_ASIDE_MAX);

/// Runs long work beside the tasks that move messages, once there is a permit.
pub(super) async fn aside<T: Send + Sync + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let done = Arc::new(OnceLock::new());
    let place = Arc::clone(&done);
    run(Box::new(move || {
        let _ = place.set(work());
    }))
    .await?;
    let done = Arc::into_inner(done).and_then(OnceLock::into_inner);
    done.unwrap_or_else(|| Err(failed()))
}

/// Runs work of any kind: a task of each kind would be much code.
async fn run(work: Box<dyn FnOnce() + Send>) -> Result<(), Failure> {
    let turn = turn().await?;
    let done = tokio::task::spawn_blocking(move || {
        work();
        // Inside the work, so that a client that goes away does not let more run at once.
        drop(turn);
    });
    done.await.map_err(|_| failed())
}

fn failed() -> Failure {
    Failure::unavailable("the work failed, the log says why")
}

async fn turn() -> Result<SemaphorePermit<'static>, Failure> {
    let turn = TURNS.acquire().await;
    turn.map_err(|_| Failure::unavailable("stopping"))
}
