//! Deaths of the last minute, by queue and reason.
//!
//! Promises: bounded memory, nothing for queues in which no message ever died. Pure: the server decides
//! when to sample.

use std::collections::BTreeMap;

use super::rates::OBJECTS_MAX;
use crate::base::QueueId;

/// Pieces of the minute: six that are over, and the one that runs.
const PIECES: usize = 7;
/// How long a piece is, at least, in milliseconds; a longer interval of samples makes it as long.
const PIECE_MS: u32 = 10_000;

/// How often messages died in the last minute, in each queue.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LastMinute {
    /// How long each piece is, the one that runs first.
    pieces_ms: [u32; PIECES],
    /// Whether a new piece began with the last sample.
    has_turned: bool,
    queues: BTreeMap<QueueId, Deaths>,
}

/// The deaths in one queue, by reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Deaths {
    /// All that were counted.
    counts: [u64; 4],
    /// Those of each piece.
    pieces: [[u32; 4]; PIECES],
}

impl LastMinute {
    /// Begins a sample behind another one, after this time; none: this is the first one.
    pub fn behind(before: &Self, interval_ms: Option<u32>) -> Self {
        let [running, ..] = before.pieces_ms;
        let has_turned = running >= PIECE_MS;
        let mut pieces_ms = before.pieces_ms;
        if has_turned {
            pieces_ms.rotate_right(1);
            pieces_ms[0] = 0;
        }
        pieces_ms[0] = pieces_ms[0].saturating_add(interval_ms.unwrap_or(0));
        Self {
            pieces_ms,
            has_turned,
            queues: BTreeMap::new(),
        }
    }

    /// Adds what a queue counted so far. A queue that is not in `before` had counted nothing, unless
    /// this is the first sample.
    pub fn add(&mut self, before: &Self, queue: QueueId, counts: [u64; 4]) {
        if counts == [0; 4] || self.queues.len() >= OBJECTS_MAX {
            return;
        }
        let known = before.queues.get(&queue);
        let is_guess = known.is_none() && before.queues.len() >= OBJECTS_MAX;
        let known = known.copied().unwrap_or_default();
        let mut pieces = known.pieces;
        if self.has_turned {
            pieces.rotate_right(1);
            pieces[0] = [0; 4];
        }
        if self.covered_ms() > 0 && !is_guess {
            let both = counts.iter().zip(known.counts);
            for (died, (now, earlier)) in pieces[0].iter_mut().zip(both) {
                let more = u32::try_from(now.saturating_sub(earlier)).unwrap_or(u32::MAX);
                *died = died.saturating_add(more);
            }
        }
        self.queues.insert(queue, Deaths { counts, pieces });
    }

    /// Deaths a second, by reason; none: nothing was sampled yet, or for less than a sample.
    pub fn rates(&self, queue: QueueId) -> Option<[f64; 4]> {
        let covered_ms = self.covered_ms();
        if covered_ms == 0 {
            return None;
        }
        let deaths = self.queues.get(&queue).copied().unwrap_or_default();
        let mut rates = [0.0; 4];
        for piece in deaths.pieces {
            for (rate, died) in rates.iter_mut().zip(piece) {
                *rate += f64::from(died);
            }
        }
        let covered_s = f64::from(covered_ms) / 1000.0;
        Some(rates.map(|died| died / covered_s))
    }

    fn covered_ms(&self) -> u32 {
        let pieces = self.pieces_ms.iter();
        pieces.fold(0, |sum: u32, piece| sum.saturating_add(*piece))
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "exact quotients")]
mod tests {
    use super::*;

    const QUEUE: QueueId = QueueId(7);

    fn next(before: &LastMinute, interval_ms: Option<u32>, rejected: u64) -> LastMinute {
        let mut sample = LastMinute::behind(before, interval_ms);
        sample.add(before, QUEUE, [rejected, 0, 0, 0]);
        sample
    }

    #[test]
    fn a_rate_is_of_the_last_minute_and_gone_behind_it() {
        let first = next(&LastMinute::default(), None, 100);
        assert_eq!(first.rates(QUEUE), None, "nobody knows how long that took");
        let mut sample = next(&first, Some(5_000), 110);
        assert_eq!(sample.rates(QUEUE), Some([2.0, 0.0, 0.0, 0.0]));
        assert_eq!(sample.rates(QueueId(8)), Some([0.0; 4]));
        for _ in 0..11 {
            sample = next(&sample, Some(5_000), 110);
        }
        assert_eq!(sample.rates(QUEUE), Some([10.0 / 60.0, 0.0, 0.0, 0.0]));
        for _ in 0..3 {
            sample = next(&sample, Some(5_000), 110);
        }
        assert_eq!(sample.rates(QUEUE), Some([0.0; 4]));
        // Never more than the minute and the piece that runs.
        assert!(sample.covered_ms() <= 75_000, "{}", sample.covered_ms());
    }

    #[test]
    fn a_queue_without_deaths_takes_nothing_and_one_that_is_gone_is_forgotten() {
        let none = next(&LastMinute::default(), Some(5_000), 0);
        assert!(none.queues.is_empty());
        let some = next(&none, Some(5_000), 5);
        assert_eq!(some.rates(QUEUE), Some([0.5, 0.0, 0.0, 0.0]));
        let gone = LastMinute::behind(&some, Some(5_000));
        assert_eq!(gone.rates(QUEUE), Some([0.0; 4]));
    }
}
