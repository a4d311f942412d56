//! The interface of a journal to the rest of the broker, whatever it is stored on.

use bytes::Bytes;

use super::buffer::{Appending, Payload, Reservation, Wake};
use super::error::ReadError;
use crate::base::Lsn;

/// The state of a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum StoreState {
    /// It works normally.
    Open,
    /// The disk has no room for another segment: publishers must stop, consumers go on. Ends by
    /// itself when there is room.
    Full,
    /// A write or sync failed: nothing is confirmed any more.
    Poisoned,
}

/// Takes records of type `R`: opaque, structured until they are written, in the order of their
/// LSNs. What is durable stays durable. Knows nothing of queues.
pub trait Journal<R> {
    /// Reserves LSNs for the records of a batch of commands. To be called where their order is
    /// decided (under the core's lock); [`Journal::fill`] must follow before that lock is released.
    fn reserve(&self) -> Reservation;

    /// Appends the records of a batch, each a list of facts that become durable together, under
    /// LSNs of its reservation, in order. Facts that refer to a body must come after it.
    fn fill(&self, reservation: Reservation, records: impl IntoIterator<Item = (Lsn, R)>) -> Wake
    where
        R: Payload,
    {
        let records = records.into_iter();
        let append = |appending: &mut Appending<'_, R>| {
            for (lsn, record) in records {
                appending.push(lsn, record);
            }
        };
        self.fill_with(reservation, append).1
    }

    /// The same, and may change records that are not written yet: a message that is settled by then
    /// need not be written. [`Appending::amend`]
    fn fill_with<T>(
        &self,
        reservation: Reservation,
        append: impl FnOnce(&mut Appending<'_, R>) -> T,
    ) -> (T, Wake)
    where
        R: Payload;

    /// Releases a body: no facts refer to it any more once those of `after` are durable. After this
    /// call it must never be referred to again. Not for a record that was elided.
    fn release(&self, body: Lsn, after: Lsn);

    /// The LSN up to which everything is as safe as the sync policy promises. Never falls.
    fn durable_lsn(&self) -> Lsn;

    /// The state of the store.
    fn state(&self) -> StoreState;

    /// Reads records back, in the order of `lsns`: the payload of facts, or a whole body.
    /// Neighbouring records are read together, so sorted and neighbouring LSNs cost little.
    fn read_batch(&self, lsns: &[Lsn]) -> Vec<Result<Bytes, ReadError>>;
}
