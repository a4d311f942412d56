//! Eviction of blocks from memory, and paging them in before they are needed.
//!
//! ```text
//!            PageOut               Spilled
//!   here ---------------> out <----------------- spilling <--- here, with transient messages
//!     ^                    | effect Load
//!     +------ Loaded ------+
//! ```
//!
//! An evicted block holds no message that a consumer holds. Ready and dead messages in it are
//! counted, expire and are dropped as in memory; what needs their bytes waits until the block is
//! paged in.

use std::collections::VecDeque;
use std::sync::Arc;

use super::death::Dying;
use super::work::{SLICE, Work};
use super::{Core, Turn};
use crate::base::{Gauge, Lsn, Position, QueueId, invariant, uncount};
use crate::broker::queue::{AfterPageIn, DiskRef, Eviction, Gone, MessageState, Usage};
use crate::broker::{DropCause, PageIn, PagedIn, Spill, Wanted};
use crate::deaths::Reason;
use crate::message::{Message, Route};

/// Blocks that are being read back at the same time, at most.
const LOADS_MAX: usize = 32;
/// Blocks ahead of the consumers of a queue that are kept in memory or read back early.
const READ_AHEAD_BLOCKS: usize = 4;
/// Blocks examined under one hold of the lock to find some that can be evicted. Usually more than
/// those that wait for the journal: they are the newest, so they are examined first.
const EVICTION_ATTEMPTS: usize = 256;
/// Length at which the list of full blocks is first cleared of those that no longer exist.
const FULL_MIN: usize = 64;

/// Messages in memory and on disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Memory {
    /// Messages in memory, and bytes of their bare messages.
    pub resident: Usage,
    /// Messages on disk only, and bytes of their bare messages.
    pub evicted: Usage,
    /// Annotations, histories and evidence that messages in memory have or share, in bytes.
    pub shared_bytes: u64,
    /// Number of blocks read back so far.
    pub loads: u64,
}

impl Memory {
    /// Estimated memory of all messages, in bytes.
    pub const fn bytes(&self) -> u64 {
        self.resident_bytes() + self.disk_ref_bytes()
    }

    /// Estimated memory of the messages in memory, in bytes: what eviction can free.
    pub const fn resident_bytes(&self) -> u64 {
        self.resident.memory_bytes() + self.shared_bytes
    }

    /// Estimated memory of the disk refs of evicted messages, in bytes.
    pub const fn disk_ref_bytes(&self) -> u64 {
        self.evicted.messages * DISK_REF_BYTES
    }
}

/// Bytes of a message in memory, its annotations as received included.
fn resident_bytes_of(message: &Message) -> u64 {
    (message.bare_len() - message.apart_bytes()) as u64 + u64::from(message.front_bytes())
}

/// Estimated memory of a disk ref, in bytes.
const DISK_REF_BYTES: u64 = 24;

/// The blocks that can be evicted, and those that are being paged in.
#[derive(Debug, Default)]
pub(super) struct Paging {
    pub(super) resident: Usage,
    evicted: Usage,
    /// The gauge of annotations, histories and evidence that messages share.
    pub(super) shared: Gauge,
    /// Full blocks that can be evicted: queue and a position in it, newest last.
    full: VecDeque<(QueueId, Position)>,
    /// Length of `full` at which it is next cleared of blocks that no longer exist.
    prune_at: usize,
    loading: usize,
    /// Blocks to be read back once fewer others are being read.
    waiting: VecDeque<(QueueId, Position)>,
    loads: u64,
}

impl Paging {
    /// Counts a message that was removed.
    pub(super) fn removed(&mut self, gone: &Gone) {
        if gone.was_resident {
            self.resident.subtract(gone.resident_bytes);
        } else {
            self.evicted.subtract(gone.size_bytes);
        }
    }

    /// Counts a change of many messages of a queue: usage in memory and on disk, before and after.
    pub(super) fn change(&mut self, before: (Usage, Usage), after: (Usage, Usage)) {
        for (total, before, after) in [
            (&mut self.resident, before.0, after.0),
            (&mut self.evicted, before.1, after.1),
        ] {
            total.messages += after.messages;
            uncount!(
                total.messages,
                before.messages,
                "messages of a queue were counted"
            );
            total.bytes += after.bytes;
            uncount!(total.bytes, before.bytes, "bytes of a queue were counted");
        }
    }
}

impl Core {
    /// Number and bytes of messages in memory and on disk.
    pub fn memory(&self) -> Memory {
        Memory {
            resident: self.memory.resident,
            evicted: self.memory.evicted,
            shared_bytes: self.memory.shared.bytes(),
            loads: self.memory.loads,
        }
    }

    /// The gauge of annotations, histories and evidence that messages share; it can be read without
    /// the lock.
    pub fn shared_memory(&self) -> Gauge {
        self.memory.shared.clone()
    }

    /// Notes that the block of this position can be evicted from now on.
    pub(super) fn mark_evictable(&mut self, id: QueueId, place: Position) {
        let queue = self.queues.get_mut(&id);
        let Some(block) = queue.and_then(|queue| queue.messages.list(place)) else {
            return;
        };
        let full = &mut self.memory.full;
        full.push_back((id, block));
        if full.len() < self.memory.prune_at.max(FULL_MIN) {
            return;
        }
        let queues = &self.queues;
        full.retain(|(id, place)| {
            let queue = queues.get(id);
            queue.is_some_and(|queue| queue.messages.is_block_resident(*place))
        });
        self.memory.prune_at = 2 * self.memory.full.len();
    }

    /// Evicts blocks until about this many bytes are free, the newest first: consumers need them
    /// last, and their memory is still in the processor's cache for the messages that follow.
    pub(super) fn page_out(&mut self, turn: &mut Turn<'_>, bytes: u64, written: Lsn, spill: bool) {
        let mut freed = 0;
        let mut kept = Vec::new();
        for _ in 0..EVICTION_ATTEMPTS {
            if freed >= bytes {
                break;
            }
            let Some(block) = self.memory.full.pop_back() else {
                break;
            };
            match self.evict(turn, block, written, (Lsn(0), spill)) {
                Some(bytes) => freed += bytes,
                None => kept.push(block), // still listed
            }
        }
        let full = &mut self.memory.full;
        if freed > 0 {
            full.extend(kept.into_iter().rev());
        } else {
            // The blocks that could not be evicted are examined last next time.
            for block in kept {
                full.push_front(block);
            }
        }
    }

    /// Evicts one block; returns the bytes that are free or will be, none if it cannot be evicted
    /// now.
    fn evict(
        &mut self,
        turn: &mut Turn<'_>,
        (id, block): (QueueId, Position),
        written: Lsn,
        (spilled, spill): (Lsn, bool),
    ) -> Option<u64> {
        let Some(queue) = self.queues.get_mut(&id) else {
            return Some(0);
        };
        let read_ahead_blocks = if queue.consumers.is_empty() {
            0
        } else {
            READ_AHEAD_BLOCKS
        };
        let before = queue.messages.usage();
        match queue
            .messages
            .evict(block, read_ahead_blocks, written, spilled)
        {
            Eviction::Gone => return Some(0),
            Eviction::NotNow => return None,
            Eviction::Evicted(garbage) => turn.effects.garbage.push(garbage),
            Eviction::Spill(slots) if spill => {
                let messages: Vec<_> = slots
                    .into_iter()
                    .map(|(place, slot)| (place, slot.message.clone(), slot.route.clone()))
                    .collect();
                let bytes = messages
                    .iter()
                    .map(|(_, message, _)| resident_bytes_of(message));
                let usage = Usage {
                    messages: messages.len() as u64,
                    bytes: bytes.sum(),
                };
                let queue = id;
                turn.effects.spills.push(Spill {
                    queue,
                    block,
                    messages,
                });
                return Some(usage.memory_bytes());
            }
            Eviction::Spill(_) => {
                queue.messages.end_spill(block);
                queue.messages.list(block);
                return None;
            }
        }
        let after = queue.messages.usage();
        self.memory.change(before, after);
        Some(before.0.memory_bytes() - after.0.memory_bytes())
    }

    /// Continues with a block after its spilling ended or failed.
    pub(super) fn spilled(
        &mut self,
        turn: &mut Turn<'_>,
        (id, block): (QueueId, Position),
        lsn: Lsn,
        written: Lsn,
    ) {
        let queue = self.queues.get_mut(&id);
        let untouched = queue.is_some_and(|queue| queue.messages.end_spill(block));
        let removed = untouched
            && lsn > Lsn(0)
            && self
                .evict(turn, (id, block), written, (lsn, false))
                .is_some();
        let queue = self.queues.get(&id).filter(|_| removed);
        let disk_refs = queue
            .into_iter()
            .flat_map(|queue| queue.messages.disk_refs(block));
        let named = disk_refs
            .filter(|(_, disk_ref)| disk_ref.envelope == lsn)
            .count();
        let named = u32::try_from(named).unwrap_or(u32::MAX);
        if let Some(more) = named.checked_sub(1) {
            self.recorder.share(lsn, more);
        } else {
            self.recorder.unname(lsn);
        }
        if !removed {
            self.mark_evictable(id, block);
        }
    }

    /// Asks for the blocks that consumers of a queue will need next.
    pub(super) fn read_ahead(&mut self, turn: &mut Turn<'_>, id: QueueId) {
        let Some(queue) = self.queues.get_mut(&id) else {
            return;
        };
        if !queue.messages.has_evicted() {
            return;
        }
        // The head block is kept in memory also without consumers.
        let read_ahead_blocks = if queue.consumers.is_empty() {
            1
        } else {
            READ_AHEAD_BLOCKS
        };
        for block in queue.messages.begin_loads(read_ahead_blocks) {
            self.load(turn, (id, block));
        }
    }

    pub(super) fn load(&mut self, turn: &mut Turn<'_>, (id, block): (QueueId, Position)) {
        if self.memory.loading >= LOADS_MAX {
            self.memory.waiting.push_back((id, block));
            return;
        }
        let Some(queue) = self.queues.get(&id) else {
            return; // deleted while it waited for others to be read
        };
        let disk_refs = queue.messages.disk_refs(block);
        let wanted = disk_refs.map(|(position, disk_ref)| wanted(position, &disk_ref));
        self.memory.loading += 1;
        turn.effects.loads.push(PageIn {
            queue: id,
            block,
            wanted: wanted.collect(),
        });
    }

    /// Takes in a block that was read back. Messages that could not be read are dropped.
    pub(super) fn paged_in(&mut self, turn: &mut Turn<'_>, paged_in: PagedIn) {
        let PagedIn {
            queue: id,
            block,
            messages,
        } = paged_in;
        uncount!(self.memory.loading, 1, "a block that comes was asked for");
        self.memory.loads += 1;
        // Some may be of queues that were deleted while they waited: nobody would ask for those behind them.
        while self.memory.loading < LOADS_MAX
            && let Some(next) = self.memory.waiting.pop_front()
        {
            self.load(turn, next);
        }
        self.page_in(turn, (id, block), messages);
        if let Some(queue) = self.queues.get_mut(&id) {
            queue.selecting.paged_in();
            if !queue.awaiting_page_in.is_empty()
                && !std::mem::replace(&mut queue.is_awaiting_page_in, true)
            {
                self.work.push_back(Work::AfterPageIn(id));
            }
        }
        self.mark_evictable(id, block);
        self.schedule(id);
        self.wake_redrives_behind_load(id);
    }

    fn page_in(
        &mut self,
        turn: &mut Turn<'_>,
        (id, block): (QueueId, Position),
        messages: Vec<(Position, Arc<Message>, Arc<Route>)>,
    ) {
        let Some(queue) = self
            .queues
            .get(&id)
            .filter(|q| q.messages.is_evicted(block))
        else {
            return; // deleted or emptied meanwhile
        };
        let live = queue
            .messages
            .disk_refs(block)
            .map(|(position, _)| position);
        let mut read = messages.iter().map(|(position, ..)| *position).peekable();
        let mut lost = Vec::new();
        for position in live {
            while read.next_if(|other| *other < position).is_some() {}
            if read.peek() != Some(&position) {
                lost.push(position);
            }
        }
        for position in lost {
            self.drop_damaged(turn, id, position);
        }
        let Some(queue) = self.queues.get_mut(&id) else {
            return invariant!(broken, "a queue that is paged in is there");
        };
        let disk_refs = queue.messages.disk_refs(block);
        let spilled: Vec<Lsn> = disk_refs
            .filter(|(_, disk_ref)| !disk_ref.durable)
            .map(|(_, disk_ref)| disk_ref.envelope)
            .collect();
        let before = queue.messages.usage();
        for (_, message, _) in &messages {
            message.charge(&self.memory.shared);
            message.charge_failure(&self.memory.shared);
        }
        let mut read = messages.iter();
        if self.options.message_groups && read.any(|(_, message, _)| message.has_group()) {
            queue.keep_groups(self.options.seed);
        }
        queue.messages.page_in(block, messages);
        self.memory.change(before, queue.messages.usage());
        for name in spilled {
            self.recorder.unname(name);
        }
    }

    fn drop_damaged(&mut self, turn: &mut Turn<'_>, id: QueueId, position: Position) {
        let Some(queue) = self.queues.get(&id) else {
            return invariant!(broken, "a queue that is paged in is there");
        };
        let waiting = [MessageState::Ready, MessageState::Delayed];
        let state = waiting
            .into_iter()
            .find(|state| queue.messages.is(position, *state))
            .unwrap_or(MessageState::Dying);
        let reason = queue.pending.entry(position).map(|pending| pending.reason);
        let why = (reason, DropCause::Damaged);
        self.remove_dropped(turn, id, position, state, why);
    }

    /// Handles the death of a message that is marked as dead. Deaths of one queue keep their order.
    pub(super) fn die_in_turn(
        &mut self,
        turn: &mut Turn<'_>,
        id: QueueId,
        position: Position,
        reason: Reason,
    ) {
        let queue = self.queues.get(&id);
        let is_queue_awaiting = queue
            .is_some_and(|queue| !queue.awaiting_page_in.is_empty() && queue.settings.keeps_dead());
        if is_queue_awaiting {
            self.await_page_in(turn, id, position, AfterPageIn::Die(reason));
        } else {
            self.die_here(turn, id, position, reason);
        }
    }

    fn die_here(&mut self, turn: &mut Turn<'_>, id: QueueId, position: Position, reason: Reason) {
        let (queue, from) = (id, MessageState::Dying);
        let dying = Dying {
            queue,
            position,
            from,
            reason,
            evidence: None,
        };
        self.die(turn, dying);
    }

    /// Puts a dead message behind the others that wait for their block to be paged in.
    pub(super) fn await_page_in(
        &mut self,
        turn: &mut Turn<'_>,
        id: QueueId,
        position: Position,
        after_page_in: AfterPageIn,
    ) {
        let Some(queue) = self.queues.get_mut(&id) else {
            return; // deleted since the death was put on the work list
        };
        if !queue.messages.is(position, MessageState::Dying) {
            return; // dropped meanwhile, since its block could not be read back
        }
        if !queue.messages.is_evicted(position) && queue.messages.slot(position).is_none() {
            invariant!(fatal, "a dead message is in memory or on disk");
        }
        queue.awaiting_page_in.push_back((position, after_page_in));
        if let Some(block) = queue.messages.begin_load(position) {
            self.load(turn, (id, block));
        }
    }

    /// Whether this dead message waits for its block to be paged in.
    pub(super) fn is_awaiting_page_in(&self, (id, position): (QueueId, Position)) -> bool {
        let queue = self.queues.get(&id);
        queue.is_some_and(|queue| queue.messages.is_evicted(position))
    }

    /// Handles dead messages whose blocks were paged in, in order, up to the first that is not.
    pub(super) fn after_page_in_slice(&mut self, turn: &mut Turn<'_>, id: QueueId) {
        if let Some(queue) = self.queues.get_mut(&id) {
            queue.is_awaiting_page_in = false;
        }
        for _ in 0..SLICE {
            let Some(queue) = self.queues.get_mut(&id) else {
                return;
            };
            let Some(&(position, after_page_in)) = queue.awaiting_page_in.front() else {
                break;
            };
            if queue.messages.is(position, MessageState::Dying)
                && queue.messages.is_evicted(position)
            {
                if let Some(block) = queue.messages.begin_load(position) {
                    self.load(turn, (id, block));
                }
                self.go_on_dying(id);
                return;
            }
            queue.awaiting_page_in.pop_front();
            turn.budget = turn.budget.saturating_sub(1);
            match after_page_in {
                AfterPageIn::Die(reason) => self.die_here(turn, id, position, reason),
                AfterPageIn::Retry(room_in) => {
                    self.retry(turn, (id, position), room_in);
                    if let Some(target) = room_in {
                        self.schedule(target);
                    }
                }
            }
        }
        self.go_on_dying(id);
        if let Some(queue) = self.queues.get_mut(&id)
            && !queue.awaiting_page_in.is_empty()
            && !std::mem::replace(&mut queue.is_awaiting_page_in, true)
        {
            self.work.push_back(Work::AfterPageIn(id));
        }
    }

    /// Lets more messages die, now that fewer wait for their blocks to be paged in.
    fn go_on_dying(&mut self, id: QueueId) {
        self.schedule(id);
        if self.queues.get(&id).is_some_and(|q| q.retry_from.is_some()) {
            self.work.push_back(Work::Retry(id));
        }
    }
}

/// Where the bytes of an evicted message are read.
pub(super) fn wanted(position: Position, disk_ref: &DiskRef) -> Wanted {
    Wanted {
        position,
        envelope: disk_ref.envelope,
        body: disk_ref.body,
    }
}
