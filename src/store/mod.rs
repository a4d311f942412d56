//! Floor 4: where journal records go. What is in them is the broker's business: a record is opaque
//! here, and stays structured until it is written.
//!
//! Promises: records are kept in the order of their LSNs; what is durable never becomes less.
//! Never: no routing, no knowledge of queues.

use crate::base::Lsn;

/// Takes records of type `R`.
pub trait Journal<R> {
    /// Takes a record. LSNs rise, gaps are allowed.
    fn append(&mut self, lsn: Lsn, record: R);

    /// Records up to this one survive a crash, as far as this journal can promise it. Never falls.
    fn durable_lsn(&self) -> Lsn;
}

/// A journal that forgets: whatever it is given counts as durable at once, and is gone. Messages
/// live in memory only.
#[derive(Clone, Copy, Debug, Default)]
pub struct Forgetful {
    last: Lsn,
}

impl<R> Journal<R> for Forgetful {
    fn append(&mut self, lsn: Lsn, _record: R) {
        assert!(lsn > self.last, "LSNs rise");
        self.last = lsn;
    }

    fn durable_lsn(&self) -> Lsn {
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_forgotten_counts_as_durable() {
        let mut journal = Forgetful::default();
        assert_eq!(Journal::<&str>::durable_lsn(&journal), Lsn(0));
        journal.append(Lsn(1), "a");
        journal.append(Lsn(7), "b");
        assert_eq!(Journal::<&str>::durable_lsn(&journal), Lsn(7));
    }
}
