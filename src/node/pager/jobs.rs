//! Job queues of threads that may block.

use std::collections::VecDeque;
use std::time::Duration;

use crate::base::locks::{RankedCondvar, RankedMutex, before_waking, rank};

/// The next job of a thread.
pub(crate) enum NextJob<T> {
    Job(T),
    /// No job came in time.
    Nothing,
    /// The broker stops.
    End,
}

/// The job queue of a thread. Bounded by what the cores ask for at the same time.
#[derive(Debug)]
pub(crate) struct Jobs<T> {
    state: RankedMutex<rank::PagerJobs, (VecDeque<T>, bool)>,
    condition: RankedCondvar,
}

impl<T> Default for Jobs<T> {
    fn default() -> Self {
        Self {
            state: RankedMutex::new((VecDeque::new(), false)),
            condition: RankedCondvar::default(),
        }
    }
}

impl<T> Jobs<T> {
    pub(crate) fn push(&self, jobs: impl IntoIterator<Item = T>) {
        let mut jobs = jobs.into_iter().peekable();
        if jobs.peek().is_some() {
            before_waking::<rank::Core>();
            self.state.lock().0.extend(jobs);
            self.condition.notify_one();
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.state.lock().0.len()
    }

    pub(crate) fn stop(&self) {
        self.state.lock().1 = true;
        self.condition.notify_all();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.state.lock().1
    }

    /// Waits for this time, less if the broker stops.
    pub(crate) fn pause(&self, at_most: Duration) {
        let mut state = self.state.lock();
        if !state.1 {
            self.condition.wait_for(&mut state, at_most);
        }
    }

    /// The next job, if there is one: for callers that must not wait.
    #[cfg(test)]
    pub(crate) fn try_next(&self) -> Option<T> {
        self.state.lock().0.pop_front()
    }

    /// The next job; waits for it, at most this long.
    pub(crate) fn next(&self, at_most: Option<Duration>) -> NextJob<T> {
        let mut state = self.state.lock();
        if state.0.is_empty() && !state.1 {
            match at_most {
                Some(at_most) => {
                    self.condition.wait_for(&mut state, at_most);
                }
                None => self.condition.wait(&mut state),
            }
        }
        if state.1 {
            return NextJob::End;
        }
        state.0.pop_front().map_or(NextJob::Nothing, NextJob::Job)
    }
}
