//! What the rest of the broker asks of a journal, wherever it lies.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use super::buffer::{Reservation, Wake};
use super::error::ReadError;
use crate::base::Lsn;

/// How a store is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoreState {
    /// Well.
    Open,
    /// The disk has no room for another segment: publishers must stop, consumers go on. Ends by
    /// itself when there is room.
    Full,
    /// A write or sync failed: nothing is confirmed any more.
    Poisoned,
}

/// Takes records of type `R`: opaque, structured until they are written, in the order of their LSNs.
/// What is durable never becomes less. Knows nothing of queues.
pub trait Journal<R> {
    /// Reserves LSNs for the records of a batch of commands. Call it where their order is decided
    /// (under the core's lock), and [`Journal::fill`] it before that lock goes.
    fn reserve(&self) -> Reservation;

    /// Appends the records of a batch, each a list of facts that become true together, under LSNs
    /// of its reservation, in order. Facts that name a body must come after it.
    fn fill(&self, reservation: Reservation, records: impl IntoIterator<Item = (Lsn, R)>) -> Wake;

    /// Elision: takes a record back while it is not written. `None` when it is too late, or when a
    /// running checkpoint has seen it. Nothing else may name it.
    fn withdraw(&self, lsn: Lsn) -> Option<R>;

    /// Lets a body go: no facts name it any more once those of `after` are durable. After this it
    /// is never named again. Not for a withdrawn record.
    fn release(&self, body: Lsn, after: Lsn);

    /// The LSN up to which everything is as safe as the sync policy promises. Never falls.
    fn durable_lsn(&self) -> Lsn;

    /// How the store is.
    fn state(&self) -> StoreState;

    /// Reads records back, in the order of `lsns`: the payload of facts, or a body whole. What lies
    /// close together is read together, so sorted and neighbouring LSNs cost little.
    fn read_batch(&self, lsns: &[Lsn]) -> Vec<Result<Bytes, ReadError>>;
}

/// A journal that forgets: whatever it is given counts as durable at once, and is gone. Messages
/// live in memory only.
#[derive(Debug, Default)]
pub struct Forgetful {
    last: AtomicU64,
}

impl<R> Journal<R> for Forgetful {
    fn reserve(&self) -> Reservation {
        Reservation::from(Lsn(self.last.load(Ordering::Acquire) + 1))
    }

    fn fill(&self, _reservation: Reservation, records: impl IntoIterator<Item = (Lsn, R)>) -> Wake {
        for (lsn, _record) in records {
            self.last.fetch_max(lsn.0, Ordering::AcqRel);
        }
        Wake::No
    }

    fn withdraw(&self, _lsn: Lsn) -> Option<R> {
        None
    }

    fn release(&self, _body: Lsn, _after: Lsn) {}

    fn durable_lsn(&self) -> Lsn {
        Lsn(self.last.load(Ordering::Acquire))
    }

    fn state(&self) -> StoreState {
        StoreState::Open
    }

    fn read_batch(&self, lsns: &[Lsn]) -> Vec<Result<Bytes, ReadError>> {
        let unknown = |lsn: &Lsn| Err(ReadError::Unknown(*lsn));
        lsns.iter().map(unknown).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_forgotten_counts_as_durable() {
        let journal = Forgetful::default();
        let reservation = Journal::<&str>::reserve(&journal);
        let lsn = reservation.first();
        journal.fill(reservation, [(lsn, "a"), (Lsn(lsn.0 + 6), "b")]);
        assert_eq!(Journal::<&str>::durable_lsn(&journal), Lsn(7));
        assert_eq!(Journal::<&str>::reserve(&journal).first(), Lsn(8));
    }
}
