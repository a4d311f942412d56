//! Wake-ups of the journal's thread.

use std::time::Duration;

use crate::base::Lsn;
use crate::base::locks::{RankedCondvar, RankedMutex, before_waking, rank};
use crate::store::Wake;

/// Wakes the thread that writes the journal; called by connections that append a record or wait for
/// one.
#[derive(Debug, Default)]
pub(crate) struct JournalWaker {
    state: RankedMutex<rank::JournalWake, WakeState>,
    condition: RankedCondvar,
}

#[derive(Clone, Copy, Debug, Default)]
struct WakeState {
    /// Whether there is something to do.
    first: bool,
    /// Whether enough waits for a commit.
    full: bool,
    stop: bool,
    /// The highest LSN whose durability somebody waits for.
    awaited: Lsn,
    /// The thread is not woken for LSNs up to this one.
    expected: Lsn,
}

impl JournalWaker {
    /// Notes that something waits to be written, or that somebody waits until an LSN is durable.
    pub(crate) fn wake(&self, wake: Wake, awaited: Lsn) {
        before_waking::<rank::Core>();
        let mut state = self.state.lock();
        if wake == Wake::No && awaited <= state.awaited {
            return;
        }
        state.first = true;
        state.full |= wake == Wake::Full;
        state.awaited = state.awaited.max(awaited);
        if wake != Wake::No || awaited > state.expected {
            self.condition.notify_one();
        }
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        self.state.lock().stop = true;
        self.condition.notify_one();
    }

    /// The highest LSN whose durability anybody has waited for.
    pub(crate) fn awaited(&self) -> Lsn {
        self.state.lock().awaited
    }

    /// Waits until there is something to do, at most this long; returns whether to stop.
    pub(crate) fn wait(&self, at_most: Duration) -> bool {
        let mut state = self.state.lock();
        if !state.first && !state.stop {
            self.condition.wait_for(&mut state, at_most);
        }
        (state.first, state.full) = (false, false);
        state.stop
    }

    /// Waits, at most this long, until enough waits for a commit, somebody waits for an LSN above
    /// `awaited`, or the thread is to stop. Returns whether to stop.
    pub(crate) fn wait_for_more(&self, at_most: Duration, awaited: Lsn) -> bool {
        let mut state = self.state.lock();
        state.expected = awaited;
        let patient =
            |state: &mut WakeState| !state.full && !state.stop && state.awaited <= awaited;
        self.condition.wait_while_for(&mut state, patient, at_most);
        state.expected = Lsn(0);
        state.full = false;
        state.stop
    }
}
