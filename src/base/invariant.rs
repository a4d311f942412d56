//! Invariants: claims that always hold, and what happens when one is broken all the same.
//!
//! Debug builds, and so all tests and simulations, panic. Release builds count it, log it once for
//! each place, and go on, unless going on could lose or double a message: then they panic, too, and
//! the vhost fails that owns the state (`invariant!` has both
//! forms).

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of broken invariants since the process began.
static BROKEN: AtomicU64 = AtomicU64::new(0);

/// A place in the source that is reached only if an invariant is broken.
#[derive(Debug)]
pub struct Place {
    file: &'static str,
    line: u32,
    /// The claim that should hold.
    claim: &'static str,
    count: AtomicU64,
}

impl Place {
    /// A place in the source, and the claim that should hold there.
    pub const fn new(file: &'static str, line: u32, claim: &'static str) -> Self {
        Self {
            file,
            line,
            claim,
            count: AtomicU64::new(0),
        }
    }

    /// Counts that it was reached, and logs it the first time; returns whether it was the first.
    pub fn report(&self) -> bool {
        BROKEN.fetch_add(1, Ordering::Relaxed);
        let is_first = self.count.fetch_add(1, Ordering::Relaxed) == 0;
        if is_first {
            tracing::error!(
                place = %format_args!("{}:{}", self.file, self.line),
                "an invariant is broken, which is a defect of the broker; further times here are \
                 only counted: {}",
                self.claim
            );
        }
        is_first
    }

    /// How often it was reached.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, .. } = self;
        write!(f, "broken invariant at {file}:{line}: {}", self.claim)
    }
}

/// Number of broken invariants since the process began.
pub fn broken_total() -> u64 {
    BROKEN.load(Ordering::Relaxed)
}

/// Reports a broken invariant after which work can go on.
#[cold]
#[inline(never)]
pub fn broken(place: &Place) {
    place.report();
    #[cfg(any(debug_assertions, test))]
    panic!("{place}");
}

/// Reports a broken invariant after which work must not go on: the core's panic fails its vhost,
/// and nothing of the batch is told to clients.
#[cold]
#[inline(never)]
pub fn fatal(place: &Place) -> ! {
    place.report();
    panic!("{place}");
}

/// States an invariant.
///
/// - `invariant!(condition, "claim")`: the condition holds; if not, it is reported and work goes on.
/// - `invariant!(broken, "claim")`: this line is not reached, as in the `else` of a `let`.
/// - `invariant!(fatal, "claim")`: the same where going on could lose or double a message.
///
/// The last is for what a vhost's core does, since a panic there is caught and fails the vhost.
macro_rules! invariant {
    (broken, $claim:literal) => {{
        static PLACE: $crate::base::invariant::Place =
            $crate::base::invariant::Place::new(file!(), line!(), $claim);
        $crate::base::invariant::broken(&PLACE)
    }};
    (fatal, $claim:literal) => {{
        static PLACE: $crate::base::invariant::Place =
            $crate::base::invariant::Place::new(file!(), line!(), $claim);
        $crate::base::invariant::fatal(&PLACE)
    }};
    ($holds:expr, $claim:literal) => {
        if !$holds {
            $crate::base::invariant::invariant!(broken, $claim);
        }
    };
}

/// Subtracts from a counter what was added to it before: it never falls below 0.
macro_rules! uncount {
    ($counter:expr, $by:expr, $claim:literal) => {
        match $counter.checked_sub($by) {
            Some(rest) => $counter = rest,
            None => {
                $counter = 0;
                $crate::base::invariant::invariant!(broken, $claim);
            }
        }
    };
}

/// Subtracts from an atomic counter what was added to it before, with the ordering that is given, and
/// returns what it was before: it never stays below 0.
macro_rules! uncount_atomic {
    ($counter:expr, $by:expr, $ordering:expr, $claim:literal) => {{
        let (counter, by) = (&$counter, $by);
        let before = counter.fetch_sub(by, $ordering);
        if before < by {
            // What is missing comes back before it is told, which panics in tests.
            counter.fetch_add(by - before, $ordering);
            $crate::base::invariant::invariant!(broken, $claim);
        }
        before
    }};
}

pub(crate) use {invariant, uncount, uncount_atomic};

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    fn panic_of(work: impl FnOnce() + std::panic::UnwindSafe) -> String {
        let panic = catch_unwind(work).unwrap_err();
        panic.downcast_ref::<String>().cloned().unwrap_or_default()
    }

    #[test]
    fn broken_invariant_panics_in_tests_and_names_its_place() {
        let text = panic_of(|| invariant!(broken, "a queue of the work list is there"));
        assert!(text.contains("src/base/invariant.rs:"), "{text}");
        assert!(
            text.ends_with("a queue of the work list is there"),
            "{text}"
        );
        let text = panic_of(|| invariant!(1 + 1 == 3, "sums are right"));
        assert!(text.ends_with("sums are right"), "{text}");
        let text = panic_of(|| invariant!(fatal, "a message is once in a queue"));
        assert!(text.ends_with("a message is once in a queue"), "{text}");
    }

    #[test]
    fn invariant_that_holds_says_nothing() {
        let mut counter = 3_u64;
        invariant!(counter == 3, "it is three"); // it would panic
        uncount!(counter, 2, "two were counted");
        assert_eq!(counter, 1);
    }

    #[test]
    fn counter_that_would_fall_below_zero_breaks_an_invariant() {
        let text = panic_of(|| {
            let mut counter = 1_u32;
            uncount!(counter, 2, "what is settled was counted");
            assert_eq!(counter, 0, "in release builds");
        });
        assert!(text.ends_with("what is settled was counted"), "{text}");
    }

    #[test]
    fn atomic_counter_that_would_fall_below_zero_breaks_an_invariant_and_is_zero() {
        let counter = AtomicU64::new(3);
        let before = uncount_atomic!(counter, 2, Ordering::Relaxed, "two were counted");
        assert_eq!((before, counter.load(Ordering::Relaxed)), (3, 1));
        let text = panic_of(|| {
            uncount_atomic!(
                counter,
                5,
                Ordering::Relaxed,
                "what is given back was counted"
            );
        });
        assert!(text.ends_with("what is given back was counted"), "{text}");
        assert_eq!(counter.load(Ordering::Relaxed), 0, "not 2^64 - 4");
    }

    /// What release builds do: a place is counted each time and told once.
    #[test]
    fn place_is_counted_each_time_and_told_once() {
        static PLACE: Place = Place::new("src/somewhere.rs", 7, "nothing comes here");
        let before = broken_total();
        assert!(PLACE.report(), "told");
        assert!(!PLACE.report() && !PLACE.report(), "only counted");
        assert_eq!(PLACE.count(), 3);
        assert!(broken_total() >= before + 3);
        let text = PLACE.to_string();
        assert_eq!(
            text,
            "broken invariant at src/somewhere.rs:7: nothing comes here"
        );
    }
}
