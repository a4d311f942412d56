//! Progress in the log while a long journal is read, so that the start does not seem to hang.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use crate::node::recover::ReadingProgress;

/// Time of reading before the first line, and between two lines.
const PAUSE: Duration = Duration::from_secs(1);
/// Bytes of a MiB.
const MIB: u64 = 1 << 20;

/// Logs the progress of reading, once a second until it is dropped.
pub(super) struct Telling {
    _until_dropped: Option<Sender<()>>,
}

/// Starts logging the progress.
pub(super) fn tell(progress: Arc<ReadingProgress>) -> Telling {
    let (sender, receiver) = channel();
    let named = thread::Builder::new().name("start".to_owned());
    let started = named.spawn(move || {
        say_until_dropped(&receiver, PAUSE, |seconds| {
            let (records, bytes) = progress.so_far();
            let mib = bytes / MIB;
            tracing::info!(records, mib, seconds, "reading the journal");
        });
    });
    Telling {
        // Without a thread nothing is logged; the start goes on.
        _until_dropped: started.is_ok().then_some(sender),
    }
}

/// Calls `say` after each pause, with the whole seconds since the beginning.
fn say_until_dropped(dropped: &Receiver<()>, pause: Duration, mut say: impl FnMut(u64)) {
    let mut waited = Duration::ZERO;
    while dropped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
        waited += pause;
        say(waited.as_secs());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_hears_of_a_long_start_until_it_ends() {
        let (sender, receiver) = channel();
        let mut kept = Some(sender);
        let mut said = 0;
        say_until_dropped(&receiver, Duration::from_millis(1), |_| {
            said += 1;
            if said == 3 {
                kept = None;
            }
        });
        assert_eq!(said, 3);
        let (sender, receiver) = channel();
        drop(sender);
        say_until_dropped(&receiver, PAUSE, |_| panic!("a short start is not told of"));
    }
}
