//! The journal's thread: sleeps until something is to be committed.

use std::io;
use std::thread::JoinHandle;
use std::time::Duration;

use super::BrokerDisk;
use crate::node::committer::{Committer, CommitterStep};

/// Starts the thread. It ends when its store's waker says so, after writing what waits, or when the
/// store fails.
pub(super) fn start(committer: Committer<BrokerDisk>) -> io::Result<JoinHandle<()>> {
    let thread = std::thread::Builder::new().name("journal".to_owned());
    thread.spawn(move || run(committer))
}

fn run(mut committer: Committer<BrokerDisk>) {
    let store = std::sync::Arc::clone(committer.store());
    let mut more = false;
    loop {
        let patience_ms = if more { 0 } else { committer.patience_ms() };
        let stop = store
            .journal_waker()
            .wait(Duration::from_millis(patience_ms));
        while let CommitterStep::Join {
            at_most_us,
            awaited,
        } = committer.poll()
        {
            let at_most = Duration::from_micros(at_most_us);
            if store.journal_waker().wait_for_more(at_most, awaited) {
                break;
            }
        }
        match committer.commit() {
            Ok(again) => more = again,
            // The store has logged the error; nothing is confirmed any more.
            Err(_) => return,
        }
        if stop && !more {
            // The store has logged the error.
            let _ = committer.close();
            return;
        }
    }
}
