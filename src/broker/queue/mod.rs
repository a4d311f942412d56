//! One queue: its messages, its consumers, its waiting dead letters and its counters.
//!
//! Promises: exact limits and deadlines; a message keeps its position for life. Never: no routing,
//! no knowledge of other queues beyond the ids of those whose dead letters wait for it.

mod block;
mod browsers;
mod column;
mod consumers;
mod deferred_free;
mod delayed;
mod disk_refs;
mod evidence;
mod groups;
mod messages;
mod pending;
mod reserved;
mod returned;
mod rings;
mod selecting;
mod slot;
mod slot_pool;
mod subqueue;
mod suspects;
mod timeouts;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use crate::base::limits::QUEUE_OVERHEAD_BYTES;
use crate::base::{
    Charge, ConnectionId, Gauge, Millis, Name, Now, Position, QueueId, Seed, shared_text_bytes,
};
use crate::broker::argument_value::kept_bytes;
use crate::broker::arguments::{Overflow, QueueArguments, QueueProperties, QueueType};
use crate::broker::counters::QueueCounters;
use crate::broker::policy::EffectiveSettings;
use crate::broker::reply::{DeadLetterTo, QueueDetails, QueueInfo};
use crate::deaths::{Reason, Recent};
use crate::message::{Message, Route};

pub use block::{BLOCK_SHIFT_MAX, BLOCK_SLOTS};
pub use browsers::{Browsers, Sight};
pub use consumers::Consumers;
pub use deferred_free::{DeferredFree, Garbage};
pub use delayed::{Delay, DelayedSpan, Due};
pub use disk_refs::DiskRef;
use evidence::LastEvidence;
use groups::Groups;
pub use messages::{Eviction, Messages, next_subqueue, subqueue};
pub use pending::{AfterPageIn, Pending, PendingSet, Waiter};
pub use reserved::Reserved;
pub use selecting::{Choice, Selecting};
pub use slot::{Gone, MessageState, Slot, names};
pub use subqueue::Usage;
pub use timeouts::Timeouts;

/// Dead messages of a queue that wait for their blocks to be paged in, at most: memory stays
/// bounded however many die at once.
const AWAITING_PAGE_IN_MAX: usize = 4 * BLOCK_SLOTS;

/// How the length of a queue changed since its limit was last enforced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Growth {
    /// Not at all, or it became shorter.
    None,
    /// A message entered or was requeued, or the limit was changed.
    Grown,
    /// The queue was read from the journal. How many of its dead letters began to wait only with
    /// the last drops is not known any more: only the ready ones are held to the limit.
    Restored,
}

/// A queue of one vhost.
#[derive(Debug)]
pub struct Queue {
    /// The queue's id, never reused.
    pub id: QueueId,
    /// The queue's name, unique in its vhost.
    pub name: Name,
    /// Whether the journal keeps it.
    pub durable: bool,
    /// Whether it was declared as durable; an exclusive queue is so in name only.
    pub declared_durable: bool,
    /// Whether it is deleted when its last consumer detaches.
    pub auto_delete: bool,
    /// The connection it belongs to; none if it is not exclusive.
    pub exclusive: Option<ConnectionId>,
    /// The arguments of its declaration.
    pub arguments: QueueArguments,
    /// The effective settings, from arguments and policies.
    pub settings: EffectiveSettings,
    /// The messages in it, by position.
    pub messages: Messages,
    /// The consumers attached to it.
    pub consumers: Consumers,
    /// Those consumers that have a selector, and the browsers.
    pub selecting: Selecting,
    /// How long its consumers may hold a delivery.
    pub timeouts: Timeouts,
    /// Dead letters that wait in it for a target.
    pub pending: PendingSet,
    /// Dead letters, of this and other queues, that wait for room in it.
    pub waiters: BTreeSet<Waiter>,
    /// Dead messages whose blocks must be paged in first, in the order they died.
    pub awaiting_page_in: VecDeque<(Position, AfterPageIn)>,
    /// Whether an item of work for `awaiting_page_in` is on the worklist.
    pub is_awaiting_page_in: bool,
    /// What was counted in it since it was declared.
    pub counters: QueueCounters,
    /// The time of its last use, from which `x-expires` counts.
    pub unused_since: Millis,
    /// Its deadline in the core's index; [`Millis::NEVER`] if none.
    pub registered: Millis,
    /// Whether it is on the core's worklist to be served.
    pub scheduled: bool,
    /// The next position of a pass over its waiting dead letters; none: no pass is under way.
    pub retry_from: Option<Position>,
    /// How its length changed since its limit was last enforced.
    pub growth: Growth,
    /// The route of its last dead letter, shared by the next one if equal.
    pub last_way: Option<Arc<Route>>,
    /// The death history of its last dead letter, shared by the next one if equal.
    pub last_death: Recent,
    /// The evidence of the last death, shared by the next one if equal.
    pub last_evidence: LastEvidence,
    /// It counts deaths that the journal was not told of yet.
    pub has_unwritten_deaths: bool,
    /// Its memory, without what is in it.
    kept: Option<Charge>,
}

impl Queue {
    /// A new, empty queue with blocks of `1 << block_shift` slots.
    pub fn new(
        now: Now,
        id: QueueId,
        name: Name,
        arguments: QueueArguments,
        settings: EffectiveSettings,
        block_shift: u32,
    ) -> Self {
        Self {
            id,
            name,
            durable: false,
            declared_durable: false,
            auto_delete: false,
            exclusive: None,
            messages: Messages::new(settings.queue_type, settings.max_priority, block_shift),
            consumers: Consumers::new(settings.single_active_consumer),
            selecting: Selecting::default(),
            timeouts: Timeouts::default(),
            pending: PendingSet::default(),
            waiters: BTreeSet::new(),
            awaiting_page_in: VecDeque::new(),
            is_awaiting_page_in: false,
            counters: QueueCounters::default(),
            unused_since: now.mono,
            registered: Millis::NEVER,
            scheduled: false,
            growth: Growth::None,
            retry_from: None,
            last_way: None,
            last_death: Recent::default(),
            last_evidence: LastEvidence::default(),
            has_unwritten_deaths: false,
            kept: None,
            arguments,
            settings,
        }
    }

    /// Charges its memory, without its messages, to the gauge for as long as it exists. Of messages
    /// that wait for their time or for a target their places in the index are charged, too, of consumers
    /// and browsers that look through it their places in its subqueues, and the room that it keeps for
    /// messages while it is empty.
    pub fn charge(&mut self, gauge: &Gauge) {
        let texts = shared_text_bytes(self.name.len()) + kept_bytes(self.arguments.echoed());
        let subqueues = self.messages.subqueues_bytes();
        self.kept = Some(gauge.charge(QUEUE_OVERHEAD_BYTES + subqueues + texts));
        let looker = self.messages.places_bytes();
        self.selecting.charge_places(gauge, looker);
        self.messages.charge(gauge);
        self.pending.charge(gauge);
    }

    /// Notes a message that enters, which may have a group.
    #[inline]
    pub fn note_group(&mut self, message: &Message, seed: Option<Seed>) {
        if let Some(seed) = seed
            && message.has_group()
        {
            self.keep_groups(seed);
        }
    }

    /// Begins to keep message groups, as a message with a group-id is in it. A single active consumer
    /// gets all messages anyway.
    #[cold]
    #[inline(never)]
    pub fn keep_groups(&mut self, seed: Seed) {
        if !self.selecting.has_groups() && !self.consumers.is_single_active() {
            let gauge = self.kept.as_ref().map(Charge::gauge);
            self.selecting.keep_groups(Groups::new(seed, gauge));
        }
    }

    /// The properties of its declaration, without the arguments.
    pub const fn properties(&self) -> QueueProperties {
        QueueProperties {
            durable: self.declared_durable,
            exclusive: self.exclusive.is_some(),
            auto_delete: self.auto_delete,
        }
    }

    /// Whether one more message of this size would be over a limit.
    pub fn would_overflow(&self, size_bytes: u32) -> bool {
        let (count, bytes) = self.length();
        self.over(count + 1, bytes + u64::from(size_bytes))
    }

    /// Whether one more message of this size would be refused, unless a consumer waits for it.
    #[inline]
    pub fn refuses(&self, size_bytes: u32) -> bool {
        self.has_limits() && self.would_overflow(size_bytes) && self.refuses_when_full()
    }

    /// Whether one of several messages would be refused, with these bytes together.
    pub fn refuses_all(&self, more: u64, more_bytes: u64) -> bool {
        let (count, bytes) = self.length();
        self.over(count + more, bytes + more_bytes) && self.refuses_when_full()
    }

    /// The same as [`Queue::refuses`] once a ready message of this size has left it.
    pub fn refuses_in_place_of(&self, size_bytes: u32) -> bool {
        let (count, bytes) = self.length();
        let left = bytes.saturating_sub(size_bytes.into());
        self.over(count, left + u64::from(size_bytes)) && self.refuses_when_full()
    }

    /// Whether it refuses what would be over a limit, rather than pushing out other messages.
    #[inline]
    fn refuses_when_full(&self) -> bool {
        self.settings.overflow != Overflow::DropHead || self.is_full_of_pending()
    }

    /// Whether it is over a limit, as far as that is to be enforced.
    #[inline]
    pub fn overflows(&self) -> bool {
        let (count, bytes) = match self.growth {
            Growth::None => return false,
            Growth::Grown => self.length(),
            Growth::Restored => self.waiting(),
        };
        self.over(count, bytes)
    }

    /// For how many of these messages it has room, by their mean size where bytes are limited; none: it has
    /// no limit.
    pub fn room(&self, going: Usage) -> Option<u64> {
        let (count, bytes) = self.length();
        let by_length = self.settings.max_length;
        let by_length = by_length.map(|max| max.saturating_sub(count));
        let by_bytes = self.settings.max_length_bytes.filter(|_| going.bytes > 0);
        let by_bytes = by_bytes.map(|max| {
            let free = u128::from(max.saturating_sub(bytes));
            let fit = free * u128::from(going.messages) / u128::from(going.bytes);
            u64::try_from(fit).unwrap_or(u64::MAX)
        });
        by_length.into_iter().chain(by_bytes).min()
    }

    /// Number and bytes of messages that count towards the limits, waiting dead letters included.
    fn length(&self) -> (u64, u64) {
        let (count, bytes) = self.waiting();
        (count + self.pending.len(), bytes + self.pending.bytes())
    }

    /// Number and bytes of messages that are ready or wait for their time.
    #[inline]
    fn waiting(&self) -> (u64, u64) {
        let delayed = self.messages.delayed().usage();
        let count = self.messages.ready() + delayed.messages;
        (count, self.messages.ready_bytes() + delayed.bytes)
    }

    /// Whether the waiting dead letters alone fill a limit.
    pub fn is_full_of_pending(&self) -> bool {
        let count = self
            .settings
            .max_length
            .is_some_and(|max| self.pending.len() >= max);
        let bytes = self
            .settings
            .max_length_bytes
            .is_some_and(|max| self.pending.bytes() >= max);
        !self.pending.is_empty() && (count || bytes)
    }

    /// Whether the number of its messages or their bytes are limited.
    #[inline]
    pub const fn has_limits(&self) -> bool {
        self.settings.max_length.is_some() || self.settings.max_length_bytes.is_some()
    }

    fn over(&self, count: u64, bytes: u64) -> bool {
        self.settings.max_length.is_some_and(|max| count > max)
            || self
                .settings
                .max_length_bytes
                .is_some_and(|max| bytes > max)
    }

    /// Whether so many dead messages wait for their blocks to be paged in that no more may die for
    /// now.
    #[inline]
    pub fn awaits_enough_page_ins(&self) -> bool {
        self.awaiting_page_in.len() >= AWAITING_PAGE_IN_MAX
    }

    /// When a message expires: by its own deadline or by the queue's ttl.
    #[inline]
    pub fn deadline_of(&self, slot: &Slot) -> Millis {
        slot.expires_at(self.settings.message_ttl_ms)
    }

    /// When a message expires that arrived at this time and has this deadline of its own.
    #[inline]
    pub fn deadline(&self, arrived: Millis, own: Millis) -> Millis {
        slot::expires_at((arrived, own), self.settings.message_ttl_ms)
    }

    /// Why a message that comes back to it dies; none: it is requeued. `failures` are its failed
    /// deliveries with this one. `delivery_limit` is before `expired`. (`maxlen` comes last: the
    /// queue grew.)
    #[inline]
    pub fn dies_on_return(
        &self,
        now: Now,
        (failed, failures): (bool, u32),
        deadline: Option<Millis>,
    ) -> Option<Reason> {
        let limit = self.settings.delivery_limit;
        if failed && limit.is_some_and(|limit| failures > limit) {
            Some(Reason::DeliveryLimit)
        } else if deadline.is_some_and(|deadline| deadline <= now.mono) {
            Some(Reason::Expired)
        } else {
            None
        }
    }

    /// When the next message expires or the queue itself does.
    #[inline]
    pub fn next_deadline(&mut self) -> Millis {
        let messages = self.messages.deadline(self.settings.message_ttl_ms);
        messages.min(self.expiry())
    }

    /// When the queue is deleted because it was not used. [dead-lettering part 1: `expires`]
    #[inline]
    pub fn expiry(&self) -> Millis {
        match self.settings.expires_ms {
            Some(expires_ms) if self.consumers.is_empty() => self.unused_since.plus(expires_ms),
            _ => Millis::NEVER,
        }
    }

    /// Whether the journal keeps a message that enters.
    #[inline]
    pub fn keeps(&self, message_is_durable: bool) -> bool {
        self.durable && (message_is_durable || self.settings.queue_type == QueueType::Quorum)
    }

    /// The positions of ready messages that links held when the broker ended: they are not acquired yet, and
    /// nobody else's.
    pub fn reserved(&self) -> Vec<Position> {
        let reserved = self.selecting.reserved().into_iter();
        let reserved = reserved.flat_map(Reserved::positions);
        reserved
            .filter(|position| self.messages.is(*position, MessageState::Ready))
            .collect()
    }

    /// Messages in these states that a redrive moved here and learns of, by its number.
    pub fn marks(&self, states: &[MessageState]) -> BTreeMap<u32, u64> {
        let mut marks = BTreeMap::new();
        for state in states {
            let mut from = Position(0);
            while let Some(position) = self.messages.find(*state, from) {
                from = Position(position.0 + 1);
                let disk_ref = self.messages.disk_ref(position);
                if let Some(mark) = disk_ref.map(|found| found.moved_by).filter(|it| *it > 0) {
                    *marks.entry(mark).or_default() += 1;
                }
            }
        }
        marks
    }

    /// Describes the queue with its counters.
    pub fn details(&self) -> QueueDetails {
        let live_bytes = self.messages.live_bytes();
        let (here, on_disk) = self.messages.usage();
        QueueDetails {
            info: self.info(),
            counters: self.counters.clone(),
            queue_type: self.settings.queue_type,
            live_bytes,
            durable: self.messages.durable(),
            ready_high: self.messages.ready_high(),
            memory_bytes: here.memory_bytes(),
            on_disk,
            delivery_limit: self.settings.delivery_limit,
            delayed: self.messages.delayed().usage(),
            delayed_span: self.messages.delayed().span(),
            delayed_retry: self.settings.delayed_retry,
            consumer_timeout_ms: self.settings.timeout_ms(),
            suspects: self.selecting.suspected(),
            message_groups: self.selecting.groups_kept(),
            dead_letter_to: self.dead_letter_to(),
        }
    }

    fn dead_letter_to(&self) -> Option<DeadLetterTo> {
        let settings = &self.settings;
        Some(DeadLetterTo {
            exchange: settings.dead_letter_exchange.clone()?,
            routing_key: settings.dead_letter_routing_key.clone(),
            rule: settings.dead_letter_rule.clone()?,
        })
    }

    /// Describes the queue.
    pub fn info(&self) -> QueueInfo {
        QueueInfo {
            id: self.id,
            name: self.name.clone(),
            kind: self.settings.queue_type.as_str(),
            durable: self.declared_durable,
            exclusive: self.exclusive.is_some(),
            auto_delete: self.auto_delete,
            arguments: self.arguments.echoed().to_vec(),
            messages_ready: self.messages.ready(),
            messages_unacknowledged: self.messages.held(),
            messages_dead_pending: self.pending.len(),
            messages_delayed: self.messages.delayed().usage().messages,
            ready_bytes: self.messages.ready_bytes(),
            consumer_count: self.consumers.len() as u64,
        }
    }
}
