//! Gauges: sums of bytes, to which objects add their memory for as long as they exist.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering as Memory};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};

use super::invariant::{uncount, uncount_atomic};
use super::locks::{RankedMutex, before_waking, rank};

/// A sum of bytes. A [`Charge`] adds to it and subtracts its part when it is dropped.
#[derive(Clone, Debug, Default)]
pub struct Gauge {
    sum: Arc<Sum>,
    /// Whether its growth wakes no task: see [`Gauge::under_lock`].
    is_quiet: bool,
}

#[derive(Debug)]
struct Sum {
    bytes: AtomicU64,
    /// The waiting task is woken when the sum is above this.
    wake_above_bytes: AtomicU64,
    waiting: RankedMutex<rank::Gauge, Option<Waker>>,
}

impl Default for Sum {
    fn default() -> Self {
        Self {
            bytes: AtomicU64::new(0),
            wake_above_bytes: AtomicU64::new(u64::MAX),
            waiting: RankedMutex::default(),
        }
    }
}

impl Sum {
    fn subtract(&self, bytes: u64) {
        uncount_atomic!(
            self.bytes,
            bytes,
            Memory::Relaxed,
            "bytes that are taken away were added"
        );
    }
}

/// A part of a [`Gauge`], subtracted when dropped.
#[derive(Debug)]
pub struct Charge {
    gauge: Gauge,
    bytes: u64,
}

/// The charge of a shared object: its bytes are charged once, however many share it, until the last
/// of them drops it. A clone of the object is another object and not charged yet.
#[derive(Default)]
pub struct Account(OnceLock<Charge>);

impl Gauge {
    /// The current sum, in bytes.
    pub fn bytes(&self) -> u64 {
        self.sum.bytes.load(Memory::Relaxed)
    }

    /// The same sum for charges under a lock: their growth wakes no task. The holder of the lock
    /// calls [`Gauge::wake_if_due`] afterwards.
    #[must_use]
    pub fn under_lock(&self) -> Self {
        Self {
            sum: Arc::clone(&self.sum),
            is_quiet: true,
        }
    }

    /// Wakes the task that waits for growth, if the sum is above its bound.
    pub fn wake_if_due(&self) {
        if self.bytes() > self.sum.wake_above_bytes.load(Memory::SeqCst) {
            self.wake();
        }
    }

    /// Adds this many bytes for as long as the charge is kept.
    pub fn charge(&self, bytes: u64) -> Charge {
        self.add(bytes);
        Charge {
            gauge: self.clone(),
            bytes,
        }
    }

    /// Ready once the sum is above this many bytes. Only one task may wait.
    pub fn poll_above(&self, context: &mut Context<'_>, bytes: u64) -> Poll<()> {
        *self.sum.waiting.lock() = Some(context.waker().clone());
        self.sum.wake_above_bytes.store(bytes, Memory::SeqCst);
        // It may have grown in between: both accesses are sequentially consistent, so either that
        // is seen here or the bound there.
        if self.sum.bytes.load(Memory::SeqCst) <= bytes {
            return Poll::Pending;
        }
        self.sum.wake_above_bytes.store(u64::MAX, Memory::SeqCst);
        Poll::Ready(())
    }

    /// Replaces `before` bytes by `after` bytes, for an object that lives as long as the gauge.
    pub fn change(&self, before: u64, after: u64) {
        match after.checked_sub(before) {
            Some(0) => {}
            Some(more) => self.add(more),
            None => self.sum.subtract(before - after),
        }
    }

    fn add(&self, bytes: u64) {
        let before = self.sum.bytes.fetch_add(bytes, Memory::SeqCst);
        let sum = before.saturating_add(bytes);
        if !self.is_quiet && sum > self.sum.wake_above_bytes.load(Memory::SeqCst) {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        self.sum.wake_above_bytes.store(u64::MAX, Memory::SeqCst);
        let waiting = self.sum.waiting.lock().take();
        if let Some(waiting) = waiting {
            before_waking::<rank::Core>();
            waiting.wake();
        }
    }
}

impl Charge {
    /// Sets the charge to this many bytes.
    pub fn set(&mut self, bytes: u64) {
        self.gauge.change(self.bytes, bytes);
        self.bytes = bytes;
    }
}

impl Charge {
    /// The gauge that it is a part of.
    pub const fn gauge(&self) -> &Gauge {
        &self.gauge
    }

    /// Adds this many bytes.
    pub fn grow(&mut self, bytes: u64) {
        self.set(self.bytes.saturating_add(bytes));
    }

    /// Subtracts this many bytes.
    pub fn shrink(&mut self, bytes: u64) {
        let mut rest = self.bytes;
        uncount!(rest, bytes, "bytes that are taken away were charged");
        self.set(rest);
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.gauge.sum.subtract(self.bytes);
    }
}

impl Account {
    /// Charges the bytes of the object, unless that was done before; returns whether it was done
    /// now.
    pub fn open(&self, gauge: &Gauge, bytes: impl FnOnce() -> u64) -> bool {
        let mut is_new = false;
        self.0.get_or_init(|| {
            is_new = true;
            gauge.charge(bytes())
        });
        is_new
    }
}

impl Clone for Account {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// Memory of a shared text of this length, in bytes: two counters are in front of it, and the
/// allocator gives whole blocks.
pub const fn shared_text_bytes(length: usize) -> u64 {
    (length + 16).next_multiple_of(16) as u64
}

/// All accounts are equal: what is charged does not distinguish objects.
impl PartialEq for Account {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Account {}

impl PartialOrd for Account {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Account {
    fn cmp(&self, _: &Self) -> Ordering {
        Ordering::Equal
    }
}

impl Hash for Account {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0.get().map_or(0, |charge| charge.bytes);
        write!(f, "{bytes} bytes charged")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Memory::Relaxed);
        }
    }

    #[test]
    fn who_waits_for_growth_is_woken_once_by_what_passes_its_bound() {
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        let mut context = Context::from_waker(&waker);
        let gauge = Gauge::default();
        let mut charge = gauge.charge(50);
        assert!(gauge.poll_above(&mut context, 100).is_pending());
        charge.set(100);
        assert_eq!(woken.0.load(Memory::Relaxed), 0);
        charge.set(20);
        let other = gauge.charge(81);
        assert_eq!(woken.0.load(Memory::Relaxed), 1);
        assert!(gauge.poll_above(&mut context, 100).is_ready());
        charge.set(200);
        assert_eq!(woken.0.load(Memory::Relaxed), 1);
        drop(other);
    }

    /// Who waited was woken under the core's lock when a queue or a binding was charged.
    #[test]
    fn growth_under_a_lock_wakes_nobody_until_it_is_said_that_the_lock_is_free() {
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        let mut context = Context::from_waker(&waker);
        let gauge = Gauge::default();
        let quiet = gauge.under_lock();
        assert!(gauge.poll_above(&mut context, 100).is_pending());
        let charge = quiet.charge(100);
        gauge.wake_if_due();
        assert_eq!(woken.0.load(Memory::Relaxed), 0, "not enough");
        let other = charge.gauge().charge(1);
        assert_eq!(woken.0.load(Memory::Relaxed), 0, "the lock is held");
        gauge.wake_if_due();
        gauge.wake_if_due();
        assert_eq!(woken.0.load(Memory::Relaxed), 1, "once");
        assert_eq!(gauge.bytes(), 101);
        drop((charge, other));
        assert_eq!(gauge.bytes(), 0);
    }

    #[test]
    fn what_many_share_is_charged_once_until_the_last_is_gone() {
        let gauge = Gauge::default();
        let shared = Arc::new(Account::default());
        assert!(shared.open(&gauge, || 100));
        let other = Arc::clone(&shared);
        assert!(!other.open(&gauge, || 100));
        let copy = (*shared).clone();
        assert!(copy.open(&gauge, || 7));
        assert_eq!(gauge.bytes(), 107);
        drop(shared);
        assert_eq!(gauge.bytes(), 107);
        drop((other, copy));
        assert_eq!(gauge.bytes(), 0);
    }

    #[test]
    fn a_charge_rises_and_falls_with_what_it_stands_for() {
        let gauge = Gauge::default();
        let (mut one, two) = (gauge.charge(10), gauge.charge(5));
        one.set(1_000);
        assert_eq!(gauge.bytes(), 1_005);
        one.set(0);
        drop(two);
        assert_eq!(gauge.bytes(), 0);
    }
}
