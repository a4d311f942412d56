//! Reading evicted messages back. May block on the disk.

use super::{Pager, SpillTarget};
use crate::base::{Lsn, Position, QueueId};
use crate::broker::{BodyLook, PageIn, PagedIn, Wanted};
use crate::node::store::Store;
use crate::record::{self, RecordRead};
use crate::search::DeathFilter;
use crate::store::{Disk, Journal, ReadError};

impl<D: Disk> Pager<D> {
    /// The messages of a queue, for browsing. Those removed meanwhile are missing.
    pub(crate) fn glance(&self, queue: QueueId, wanted: Vec<Wanted>) -> PagedIn {
        let block = Position(0); // of many blocks
        let load = PageIn {
            queue,
            block,
            wanted,
        };
        self.read(&load, |_, _| ())
    }

    /// Whether a body on disk has the text that a redrive looks for; false also where it cannot be
    /// read, which is logged.
    pub(crate) fn look_into(&self, look: &BodyLook) -> bool {
        let SpillTarget::Journal(store) = &self.place else {
            return false; // bodies of others are in memory
        };
        let Some(body) = look.message.blob() else {
            return false;
        };
        let begin = store.read_beginning(**body, DeathFilter::body_bytes(&look.message));
        begin.is_some_and(|begin| look.filter.is_in(&look.message, &begin))
    }

    /// Reads the block that a vhost asked for; calls `failed` for each record that cannot be read.
    pub(crate) fn read(&self, load: &PageIn, failed: impl Fn(Lsn, &ReadError)) -> PagedIn {
        let names = record::records_of(load);
        let read = match &self.place {
            SpillTarget::Journal(store) => read_records(store, &names),
            SpillTarget::Spilled(spill) => {
                let read = names.iter().map(|name| spill.read(*name));
                read.map(|read| read.map(RecordRead::Whole)).collect()
            }
            SpillTarget::Nowhere => Vec::new(),
        };
        let whole = |(name, read): (Lsn, Result<RecordRead, ReadError>)| {
            let read = read.inspect_err(|error| failed(name, error)).ok();
            read.map(|found| (name, found))
        };
        let loaded = record::loaded(load, names.into_iter().zip(read).filter_map(whole));
        if let SpillTarget::Journal(store) = &self.place {
            for body in loaded
                .messages
                .iter()
                .filter_map(|(_, message, _)| message.blob())
            {
                store.journal().pin(body);
            }
        }
        loaded
    }
}

/// Reads records, but of streamed bodies only the first piece.
fn read_records<D: Disk>(store: &Store<D>, names: &[Lsn]) -> Vec<Result<RecordRead, ReadError>> {
    let journal = store.journal();
    let (blob, whole): (Vec<Lsn>, Vec<Lsn>) =
        names.iter().partition(|name| journal.is_in_pieces(**name));
    let mut whole = journal.read_batch(&whole).into_iter();
    let mut blob = blob.into_iter().peekable();
    let read = names.iter().map(|name| {
        if blob.next_if_eq(name).is_none() {
            let read = whole.next().unwrap_or(Err(ReadError::Unknown(*name)));
            return read.map(RecordRead::Whole);
        }
        let beginning = journal.read_piece(*name, 0)?;
        beginning
            .map(RecordRead::Beginning)
            .ok_or(ReadError::Damaged(*name))
    });
    read.collect()
}
