//! Sums of bytes that things add to for as long as they are there.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// A sum of bytes. What adds to it takes its part away when it is freed, wherever that is.
#[derive(Clone, Debug, Default)]
pub struct Gauge(Arc<AtomicU64>);

/// A part of a [`Gauge`], taken away when dropped.
#[derive(Debug)]
pub struct Charge {
    gauge: Gauge,
    bytes: u64,
}

/// The place in a shared thing where its bytes are charged: once, however many share it, and until
/// the last of them lets it go. A copy of the thing is another thing and not charged yet.
#[derive(Default)]
pub struct Account(OnceLock<Charge>);

impl Gauge {
    /// The sum now.
    pub fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Adds so many bytes for as long as the charge is kept.
    pub fn charge(&self, bytes: u64) -> Charge {
        self.0.fetch_add(bytes, Ordering::Relaxed);
        Charge {
            gauge: self.clone(),
            bytes,
        }
    }
}

impl Charge {
    /// Makes it so many bytes.
    pub fn set(&mut self, bytes: u64) {
        let change = bytes.wrapping_sub(self.bytes);
        if change != 0 {
            self.gauge.0.fetch_add(change, Ordering::Relaxed);
            self.bytes = bytes;
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.gauge.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Account {
    /// Charges the bytes of the thing, unless that was done; whether it is done now.
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

/// What is charged is no part of what a thing says.
impl PartialEq for Account {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Account {}

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
    use super::*;

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
