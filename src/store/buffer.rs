//! The buffer of records that wait to be written: structured records in LSN order, behind a short
//! lock.
//!
//! ```text
//!  append -> | facts | gone | piece | commit | reserved ...... | facts | -> next
//!              ^ take (the writer) stops here -+ until it is filled
//!              + amend: settled before it was written
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use bytes::Bytes;

use super::format::Checkpoint;
use super::options::{COMMIT_BYTES, COMMIT_BYTES_MAX};
use crate::base::{Lsn, uncount};

/// LSNs in one reservation; unused ones are returned.
const RESERVED_LSNS: u64 = 1 << 20;

/// The content of a record. It is encoded on the writer's thread, not where it is appended.
pub trait Payload: Send + 'static {
    /// Estimated number of bytes that [`Payload::encode`] will write; decides when a commit is
    /// worth it.
    fn size_hint(&self) -> usize;
    /// The part of it that is messages; the rest is the record's own.
    fn carried_bytes(&self) -> usize {
        0
    }
    /// Whether later records may refer to it.
    fn body(&self) -> Body;
    /// What the record encoded before leaves behind: records that follow one another have much in
    /// common.
    type Before: Default + Send;
    /// Appends the encoded bytes, which do not depend on what was encoded before.
    fn encode_after(&self, before: &mut Self::Before, out: &mut Vec<u8>);
    /// Whether a record behind it may tell all of it; as a rule none does.
    fn may_be_told(&self) -> bool {
        false
    }
    /// Whether it need not be written if the record written next is `next`, which tells all of it.
    fn is_told_by(&self, next: &Self) -> bool {
        let _ = next;
        false
    }
    /// Appends the encoded bytes of a record that stands alone.
    fn encode(&self, out: &mut Vec<u8>) {
        self.encode_after(&mut Self::Before::default(), out);
    }
}

/// Records that are gone behind one of which is asked whether the next that is left tells all of it.
const GONE_BEHIND: usize = 16;

/// Whether later records can refer to a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Body {
    /// It has a body: it is kept until its LSN is released.
    Carried,
    /// It has no body: it is kept until a checkpoint covers it.
    None,
}

/// Whether the writer's thread has to be woken after an append.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wake {
    /// No: it is running or will wake by itself.
    No,
    /// Wake it: this is the first record that waits.
    First,
    /// Wake it: [`COMMIT_BYTES`] wait, or 512 KiB while much arrives, so it may be time to commit.
    Full,
}

/// LSNs for the records of one batch of commands. Nothing behind them is written before it is
/// filled, so it must be held for one batch only.
#[derive(PartialEq, Eq, Debug)]
#[must_use = "nothing is written behind a reservation until it is filled"]
pub struct Reservation {
    first: Lsn,
}

impl Reservation {
    /// The first LSN to use; LSNs are used in order.
    pub const fn first(&self) -> Lsn {
        self.first
    }
}

/// Whether anything is left of a record that was changed while it waited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Amended {
    /// It still has facts.
    Kept,
    /// It has no facts any more: it is not written.
    Empty,
}

/// A reservation that is being filled.
#[derive(Debug)]
pub struct Appending<'a, P> {
    buffer: &'a mut Buffer<P>,
    /// The LSN behind the last one of the reservation.
    end: Lsn,
    /// The next LSN that may be used.
    free: Lsn,
    /// Index of its next record in the buffer.
    at: usize,
    wake: Wake,
    elided: u64,
    payload_bytes: u64,
}

impl From<Lsn> for Reservation {
    fn from(first: Lsn) -> Self {
        Self { first }
    }
}

/// The result of filling a reservation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Filled {
    /// Whether to wake the writer.
    pub wake: Wake,
    /// Number of records that were elided.
    pub elided: u64,
    /// Bytes of messages that were appended.
    pub payload_bytes: u64,
}

/// One record that waits.
#[derive(Debug)]
pub(super) enum Slot<P> {
    /// The record was elided before it was written.
    Gone,
    /// The next record that is left tells all of it, and is taken with it: see [`Payload::is_told_by`].
    Told,
    Facts(P),
    Piece(Bytes),
    Body {
        pieces: Box<[Lsn]>,
        bytes: Bytes,
    },
    Block(P),
    End(Checkpoint),
}

/// The amount that waits to be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Backlog {
    /// Number of records.
    pub records: u64,
    /// Estimated bytes of these records.
    pub bytes: usize,
    /// The part of `bytes` that is messages.
    pub carried_bytes: usize,
}

/// The backlog as of the last release of the buffer's lock: connections read it in every turn,
/// without the lock.
#[derive(Debug, Default)]
pub(super) struct SharedBacklog {
    records: AtomicU64,
    bytes: AtomicUsize,
    carried_bytes: AtomicUsize,
}

impl SharedBacklog {
    pub fn load(&self) -> Backlog {
        Backlog {
            records: self.records.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            carried_bytes: self.carried_bytes.load(Ordering::Relaxed),
        }
    }
}

/// A checkpoint that is being made.
#[derive(Debug)]
pub(super) struct Running {
    pub checkpoint: Checkpoint,
    /// Blocks it wrote itself; released if it is abandoned.
    pub own: Vec<Lsn>,
    /// Whether all is copied.
    pub copied: bool,
    /// The LSN of the end record once it is appended.
    pub end: Option<Lsn>,
}

#[derive(Debug)]
pub(super) struct Buffer<P> {
    slots: VecDeque<(Lsn, Slot<P>)>,
    /// The LSN that is assigned next.
    next: Lsn,
    /// The writer has taken everything up to this LSN.
    taken: Lsn,
    /// The first LSNs of reservations that are not filled, rising.
    reserved: Vec<Lsn>,
    /// `(record, from)`, by record: it has what the one at `from`, elided since, was to make durable, and
    /// perhaps what some between them were.
    carries: VecDeque<(Lsn, Lsn)>,
    pub waiting_bytes: usize,
    /// The part of the waiting bytes that is messages.
    waiting_carried_bytes: usize,
    pub waiting_records: u64,
    /// The same figures, for readers without the lock.
    backlog: Arc<SharedBacklog>,
    /// Bytes of all records ever appended.
    pub arrived_bytes: u64,
    /// Number of waiting bytes at which the writer is woken next.
    told_at: usize,
    /// `(after, body)`: the body may be released once `after` is durable.
    pub releases: VecDeque<(Lsn, Lsn)>,
    /// Bodies that are being read, or were at the last check.
    pub pinned: BTreeMap<Lsn, Vec<Weak<Lsn>>>,
    /// Bodies to be released once nobody reads them.
    pub held_back: Vec<Lsn>,
    pub running: Option<Running>,
}

/// Records taken for writing.
#[derive(Debug)]
pub(super) struct Batch<P> {
    pub slots: VecDeque<(Lsn, Slot<P>)>,
    /// An LSN for the commit record that closes the batch; when it is written, everything up to it
    /// is.
    pub commit_record: Lsn,
}

impl<P: Payload> Buffer<P> {
    pub fn new(first: Lsn) -> Self {
        Self {
            slots: VecDeque::new(),
            next: first,
            taken: Lsn(first.0.saturating_sub(1)),
            reserved: Vec::new(),
            carries: VecDeque::new(),
            waiting_bytes: 0,
            waiting_carried_bytes: 0,
            waiting_records: 0,
            backlog: Arc::default(),
            arrived_bytes: 0,
            told_at: COMMIT_BYTES,
            releases: VecDeque::new(),
            pinned: BTreeMap::new(),
            held_back: Vec::new(),
            running: None,
        }
    }

    /// No record from now on has a lower LSN: an open reservation may be filled with lower ones
    /// than the next, and returns what it does not use.
    pub fn first_open(&self) -> Lsn {
        let open = self.reserved.first().copied();
        open.map_or(self.next, |open| open.min(self.next))
    }

    pub fn push(&mut self, slot: Slot<P>) -> (Lsn, Wake) {
        let lsn = self.next;
        self.next = Lsn(lsn.0 + 1);
        let wake = self.count(&slot);
        self.slots.push_back((lsn, slot));
        self.show_backlog();
        (lsn, wake)
    }

    /// The backlog, which can be read without the lock.
    pub fn backlog(&self) -> Arc<SharedBacklog> {
        Arc::clone(&self.backlog)
    }

    /// Publishes the backlog after a change.
    fn show_backlog(&self) {
        let shared = &self.backlog;
        shared
            .records
            .store(self.waiting_records, Ordering::Relaxed);
        shared.bytes.store(self.waiting_bytes, Ordering::Relaxed);
        let carried_bytes = self.waiting_carried_bytes;
        shared.carried_bytes.store(carried_bytes, Ordering::Relaxed);
    }

    /// Reserves LSNs, and one before them for a commit record.
    pub fn reserve(&mut self) -> Reservation {
        let first = Lsn(self.next.0 + 1);
        self.next = Lsn(first.0 + RESERVED_LSNS);
        self.reserved.push(first);
        first.into()
    }

    /// Fills a reservation; unused LSNs become a gap, or are returned.
    pub fn fill<T>(
        &mut self,
        reservation: &Reservation,
        append: impl FnOnce(&mut Appending<'_, P>) -> T,
    ) -> (T, Filled) {
        let first = reservation.first;
        let end = Lsn(first.0 + RESERVED_LSNS);
        self.reserved.retain(|open| *open != first);
        let at = self.slots.partition_point(|(lsn, _)| *lsn < first);
        let mut appending = Appending {
            buffer: self,
            end,
            free: first,
            at,
            wake: Wake::No,
            elided: 0,
            payload_bytes: 0,
        };
        let result = append(&mut appending);
        let Appending {
            free,
            wake,
            elided,
            payload_bytes,
            ..
        } = appending;
        if self.next == end {
            let unused = if free == first {
                Lsn(first.0 - 1)
            } else {
                free
            };
            self.next = unused.max(Lsn(self.taken.0 + 1));
        }
        self.show_backlog();
        let filled = Filled {
            wake,
            elided,
            payload_bytes,
        };
        (result, filled)
    }

    /// Takes all that waits before the first open reservation. `spare` is an empty deque to reuse.
    pub fn take(&mut self, spare: VecDeque<(Lsn, Slot<P>)>) -> Batch<P> {
        let batch = match self.reserved.first() {
            Some(open) => {
                let commit_record = Lsn(open.0 - 1);
                let count = self.slots.partition_point(|(lsn, _)| *lsn < commit_record);
                let mut slots = spare;
                slots.extend(self.slots.drain(..count));
                Batch {
                    slots,
                    commit_record,
                }
            }
            None if self.slots.is_empty() => Batch {
                slots: spare,
                commit_record: Lsn(self.next.0 - 1),
            },
            None => Batch {
                slots: std::mem::replace(&mut self.slots, spare),
                commit_record: self.take_lsn(),
            },
        };
        self.taken = self.taken.max(batch.commit_record);
        let rest = self.slots.iter().map(|(_, slot)| slot);
        let (mut bytes, mut carried_bytes, mut records) = (0, 0, 0);
        for slot in rest.filter(|slot| slot.is_left()) {
            bytes += slot.size_hint();
            carried_bytes += slot.carried_bytes();
            records += 1;
        }
        self.waiting_bytes = bytes;
        self.waiting_carried_bytes = carried_bytes;
        self.waiting_records = records;
        self.show_backlog();
        self.told_at = COMMIT_BYTES;
        batch
    }

    /// Notes that a record has what an earlier one, that waits too, was to make durable.
    fn carry(&mut self, from: Lsn, record: Lsn) {
        let find = |carries: &VecDeque<(Lsn, Lsn)>, record| {
            carries.binary_search_by_key(&record, |(record, _)| *record)
        };
        // What was carried once may be carried on.
        let from = match find(&self.carries, from) {
            Ok(at) => self.carries.get(at).map_or(from, |(_, from)| *from),
            Err(_) => from,
        };
        match find(&self.carries, record) {
            Ok(at) => {
                if let Some((_, first)) = self.carries.get_mut(at) {
                    *first = from.min(*first);
                }
            }
            Err(at) => self.carries.insert(at, (record, from)),
        }
    }

    /// What of all that is written, up to this LSN, may be confirmed: not a record of which another one
    /// that is not written yet has the content.
    pub fn confirmable(&mut self, written: Lsn) -> Lsn {
        while let Some((record, _)) = self.carries.front()
            && *record <= written
        {
            self.carries.pop_front();
        }
        let carried = self.carries.iter().map(|(_, from)| *from).min();
        match carried {
            Some(from) if from <= written => Lsn(from.0 - 1),
            _ => written,
        }
    }

    /// Bodies whose release is durable up to `synced`, about `max` at most, and whether these are
    /// all: without those that are still read.
    pub fn due_releases(&mut self, synced: Lsn, max: usize) -> (Vec<Lsn>, bool) {
        let mut due = Vec::new();
        let pinned = &mut self.pinned;
        let mut is_read = |body: &Lsn| {
            let Some(readers) = pinned.get_mut(body) else {
                return false;
            };
            readers.retain(|reader| reader.strong_count() > 0);
            let is_read = !readers.is_empty();
            if !is_read {
                pinned.remove(body);
            }
            is_read
        };
        due.extend(self.held_back.extract_if(.., |body| !is_read(body)));
        let mut all = true;
        while let Some((_, body)) = self.releases.pop_front_if(|(after, _)| *after <= synced) {
            if is_read(&body) {
                self.held_back.push(body);
            } else {
                due.push(body);
            }
            if due.len() >= max {
                all = false;
                break;
            }
        }
        (due, all)
    }

    /// No record has this LSN or a higher one yet.
    pub const fn next_lsn(&self) -> Lsn {
        self.next
    }

    /// Assigns an LSN to a record that does not wait in the buffer.
    pub fn take_lsn(&mut self) -> Lsn {
        let lsn = self.next;
        self.next = Lsn(lsn.0 + 1);
        lsn
    }

    /// Notes that a checkpoint has read the current state.
    pub fn saw(&mut self) {
        // LSNs that reservations of others may still use are excluded: their records were not read.
        let newest = self.slots.back().map_or(Lsn(0), |(lsn, _)| *lsn);
        let newest = newest.max(self.taken);
        if let Some(running) = &mut self.running {
            running.checkpoint.seen = running.checkpoint.seen.max(newest);
        }
    }

    /// Whether the next record that is left tells all of one, and no other can come between them.
    fn is_told(&self, number: usize) -> bool {
        let Some((lsn, Slot::Facts(payload))) = self.slots.get(number) else {
            return false; // others are never told
        };
        if !payload.may_be_told() {
            return false;
        }
        let mut behind = self.slots.range(number + 1..).take(GONE_BEHIND);
        let Some((next, Slot::Facts(telling))) = behind.find(|(_, slot)| slot.is_left()) else {
            return false;
        };
        let comes_between = |open: &Lsn| lsn < open && open <= next;
        payload.is_told_by(telling) && !self.reserved.iter().any(comes_between)
    }

    /// Leaves out a record that waits.
    fn leave_out(&mut self, number: usize, as_what: Slot<P>) {
        if let Some((_, slot)) = self.slots.get_mut(number) {
            *slot = as_what;
        }
        uncount!(self.waiting_records, 1, "a record that waits was counted");
    }

    /// Estimated bytes of a record that waits, and the part of it that is messages.
    fn sizes(&self, number: usize) -> (usize, usize) {
        let slot = self.slots.get(number).map(|(_, slot)| slot);
        slot.map_or((0, 0), |slot| (slot.size_hint(), slot.carried_bytes()))
    }

    fn count(&mut self, slot: &Slot<P>) -> Wake {
        let bytes = slot.size_hint();
        self.waiting_bytes += bytes;
        self.waiting_carried_bytes += slot.carried_bytes();
        self.arrived_bytes += bytes as u64;
        self.waiting_records += 1;
        if self.waiting_bytes >= self.told_at {
            // Elision may bring the backlog back to the same size many times.
            self.told_at = if self.waiting_bytes < COMMIT_BYTES_MAX {
                COMMIT_BYTES_MAX
            } else {
                usize::MAX
            };
            Wake::Full
        } else if self.waiting_records == 1 {
            Wake::First
        } else {
            Wake::No
        }
    }
}

impl<P: Payload> Appending<'_, P> {
    /// Appends a record of facts.
    #[inline]
    pub fn push(&mut self, lsn: Lsn, payload: P) {
        assert!(
            self.free <= lsn && lsn < self.end,
            "records use the LSNs of their reservation in order"
        );
        self.free = Lsn(lsn.0 + 1);
        let slot = Slot::Facts(payload);
        self.wake = self.wake.or(self.buffer.count(&slot));
        if self.at == self.buffer.slots.len() {
            self.buffer.slots.push_back((lsn, slot));
        } else {
            self.buffer.slots.insert(self.at, (lsn, slot));
        }
        self.at += 1;
    }

    /// Whether a record may still be changed: the writer has not taken it, and no running checkpoint
    /// has read it.
    #[inline]
    pub fn is_open(&self, lsn: Lsn) -> bool {
        let copied = self.buffer.running.as_ref();
        lsn > self.buffer.taken && copied.is_none_or(|run| lsn > run.checkpoint.seen)
    }

    /// Elision: changes a record of facts that is not written yet, unless a running checkpoint has
    /// read it. None if it is too late.
    pub fn amend<T>(&mut self, lsn: Lsn, change: impl FnOnce(&mut P) -> (T, Amended)) -> Option<T> {
        if !self.is_open(lsn) {
            return None;
        }
        let buffer = &mut *self.buffer;
        let number = buffer.slots.binary_search_by_key(&lsn, |(lsn, _)| *lsn);
        let number = number.ok()?;
        let (_, slot) = buffer.slots.get_mut(number)?;
        let Slot::Facts(payload) = slot else {
            return None;
        };
        let before = (payload.size_hint(), payload.carried_bytes());
        let (result, amended) = change(payload);
        let after = match amended {
            Amended::Kept if buffer.is_told(number) => {
                buffer.leave_out(number, Slot::Told);
                self.elided += 1;
                (0, 0)
            }
            Amended::Kept => buffer.sizes(number),
            Amended::Empty => {
                buffer.leave_out(number, Slot::Gone);
                self.elided += 1;
                (0, 0)
            }
        };
        buffer.waiting_bytes += after.0;
        uncount!(
            buffer.waiting_bytes,
            before.0,
            "bytes of a record that is amended were waiting"
        );
        buffer.waiting_carried_bytes += after.1;
        uncount!(
            buffer.waiting_carried_bytes,
            before.1,
            "bytes that a record carries were waiting"
        );
        Some(result)
    }

    /// Notes that a record of this reservation has what an earlier one that is amended was to make durable:
    /// that one is confirmed with it, and not before.
    pub fn carry(&mut self, from: Lsn, record: Lsn) {
        self.buffer.carry(from, record);
    }

    /// Counts bytes of messages that were appended.
    pub const fn count_payload(&mut self, bytes: u64) {
        self.payload_bytes += bytes;
    }

    /// Leaves out a record without facts. Its LSN counts as written with the others.
    pub fn skip(&mut self, lsn: Lsn) {
        self.use_up_to(lsn);
        self.elided += 1;
        if self.buffer.waiting_records == 0 {
            self.wake = self.wake.or(Wake::First);
        }
    }

    /// Notes that LSNs are in use whose records are in one before them.
    pub fn use_up_to(&mut self, lsn: Lsn) {
        self.free = self.free.max(Lsn(lsn.0 + 1));
    }

    /// Releases a body, see [`super::Journal::release`].
    pub fn release(&mut self, body: Lsn, after: Lsn) {
        self.buffer.releases.push_back((after, body));
    }
}

impl Wake {
    /// The more urgent of both.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Full, _) | (_, Self::Full) => Self::Full,
            (Self::First, _) | (_, Self::First) => Self::First,
            _ => Self::No,
        }
    }
}

impl<P: Payload> Slot<P> {
    /// Whether there is something to write.
    pub fn is_left(&self) -> bool {
        !matches!(self, Self::Gone | Self::Told)
    }

    /// Whether a record behind it tells all of it, or may do so.
    pub fn may_be_told(&self) -> bool {
        match self {
            Self::Told => true,
            Self::Facts(payload) => payload.may_be_told(),
            _ => false,
        }
    }

    fn size_hint(&self) -> usize {
        match self {
            Self::Gone | Self::Told => 0,
            Self::Facts(payload) | Self::Block(payload) => payload.size_hint(),
            Self::Piece(bytes) => bytes.len(),
            Self::Body { pieces, bytes } => bytes.len() + pieces.len() * 8,
            Self::End(checkpoint) => checkpoint.blocks.len() * 8,
        }
    }

    fn carried_bytes(&self) -> usize {
        match self {
            Self::Gone | Self::Told | Self::End(_) => 0,
            Self::Facts(payload) | Self::Block(payload) => payload.carried_bytes(),
            Self::Piece(bytes) | Self::Body { bytes, .. } => bytes.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Word(&'static str);

    impl Payload for Word {
        fn size_hint(&self) -> usize {
            self.0.len()
        }
        fn body(&self) -> Body {
            Body::None
        }
        type Before = ();
        fn encode_after(&self, (): &mut (), out: &mut Vec<u8>) {
            out.extend_from_slice(self.0.as_bytes());
        }
    }

    fn fill(buffer: &mut Buffer<Word>, reservation: &Reservation, word: &'static str) {
        let lsn = reservation.first();
        buffer.fill(reservation, |appending| appending.push(lsn, Word(word)));
    }

    fn taken(buffer: &mut Buffer<Word>) -> (Vec<&'static str>, u64) {
        let batch = buffer.take(VecDeque::new());
        let words = batch.slots.iter().filter_map(|(_, slot)| match slot {
            Slot::Facts(word) => Some(word.0),
            _ => None,
        });
        (words.collect(), batch.commit_record.0)
    }

    #[test]
    fn nothing_behind_an_open_reservation_is_taken() {
        let mut buffer = Buffer::new(Lsn(1));
        buffer.push(Slot::Facts(Word("a")));
        let first = buffer.reserve();
        let second = buffer.reserve();
        buffer.push(Slot::Facts(Word("d")));
        assert_eq!(taken(&mut buffer), (vec!["a"], first.first().0 - 1));
        assert_eq!(buffer.waiting_records, 1);
        fill(&mut buffer, &second, "c");
        assert_eq!(taken(&mut buffer).0, Vec::<&str>::new());
        fill(&mut buffer, &first, "b");
        let (words, commit_record) = taken(&mut buffer);
        assert_eq!(words, ["b", "c", "d"]);
        assert_eq!(buffer.next, Lsn(commit_record + 1));
    }

    /// A checkpoint that began behind an open reservation covered what came after it under the LSNs
    /// that were given back: a kill then lost confirmed messages.
    #[test]
    fn a_checkpoint_begins_before_what_open_reservations_may_give_back() {
        let mut buffer = Buffer::new(Lsn(1));
        let open = buffer.reserve();
        let begin = buffer.first_open();
        let lsn = open.first();
        fill(&mut buffer, &open, "a");
        let (later, _) = buffer.push(Slot::Facts(Word("b")));
        assert!(begin <= lsn && begin <= later);
        assert_eq!(buffer.first_open(), buffer.next);
    }

    #[test]
    fn what_a_reservation_does_not_use_is_given_back() {
        let mut buffer = Buffer::new(Lsn(1));
        let unused = buffer.reserve();
        buffer.fill(&unused, |_| ());
        assert_eq!(buffer.next, Lsn(1));
        let used = buffer.reserve();
        fill(&mut buffer, &used, "a");
        assert_eq!(buffer.next, Lsn(3));
        let open = buffer.reserve();
        // The writer uses the LSN before it for its commit record.
        assert_eq!(taken(&mut buffer), (vec!["a"], 3));
        buffer.fill(&open, |_| ());
        assert_eq!(buffer.next, Lsn(4));
    }
}
