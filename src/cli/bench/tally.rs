//! Counters of a run.

use std::time::Instant;

use hdrhistogram::Histogram;

/// Longest latency that is distinguished, in nanoseconds: ten minutes.
const LATENCY_NANOS_MAX: u64 = 600_000_000_000;

/// Counts of one run. Times are nanoseconds since its start.
pub(super) struct Tally {
    start: Instant,
    /// The time of this turn of the loop.
    pub(super) now_nanos: u64,
    /// The time of the last progress.
    pub(super) progress_nanos: u64,
    /// The number of this run, which tells its messages from others'.
    pub(super) run: u64,
    pub(super) sent: u64,
    /// Number of publishes that the broker accepted.
    pub(super) confirmed: u64,
    /// Number of publishes with any other outcome.
    pub(super) refused: u64,
    /// Number of deliveries, redeliveries included.
    pub(super) delivered: u64,
    /// Number of messages that reached the end that the run counts.
    pub(super) finished: u64,
    pub(super) latency: Histogram<u64>,
    /// With a rate: latency from the time a message was due to its acceptance.
    pub(super) accepted: Histogram<u64>,
}

impl Tally {
    #[allow(clippy::disallowed_methods, reason = "a load generator measures time")]
    pub(super) fn start(run: u64) -> Self {
        let bounds = Histogram::new_with_max(LATENCY_NANOS_MAX, 3);
        let empty = bounds.unwrap_or_else(|_| unreachable!("the bounds are constants that fit"));
        Self {
            start: Instant::now(),
            now_nanos: 0,
            progress_nanos: 0,
            run,
            sent: 0,
            confirmed: 0,
            refused: 0,
            delivered: 0,
            finished: 0,
            latency: empty.clone(),
            accepted: empty,
        }
    }

    /// Reads the clock, once a turn and once before a batch of deliveries.
    pub(super) fn read_clock(&mut self) {
        self.now_nanos = u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
    }

    /// Counts an accepted message that was due at this time.
    pub(super) fn accept(&mut self, due_nanos: u64) {
        self.accepted
            .saturating_record(self.now_nanos.saturating_sub(due_nanos));
    }

    /// Counts a message that reached its end; `sent_nanos` is known if this run sent it.
    pub(super) fn finish(&mut self, sent_nanos: Option<u64>) {
        self.finished += 1;
        self.progress_nanos = self.now_nanos;
        if let Some(sent_nanos) = sent_nanos {
            self.latency
                .saturating_record(self.now_nanos.saturating_sub(sent_nanos));
        }
    }
}
