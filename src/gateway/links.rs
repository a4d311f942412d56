//! The links of one connection, indexed by the engine's handle and by the core's id.

use std::collections::VecDeque;
use std::sync::Arc;

use super::coordinator::Controller;
use super::counters::Counted;
use super::environment::Environment;
use super::publisher::Publisher;
use super::resumable::{ConsumerLifetime, Resumable};
use super::subscriptions::Subscription;
use crate::base::limits::LINK_OVERHEAD_BYTES;
#[cfg(test)]
use crate::base::plant::{Plant, is_planted};
use crate::base::{ConsumerId, Map, Name, Position, PublisherId, Seed, Serial, invariant, uncount};
use crate::broker::recovery::Acquisition;
use crate::deaths::{Encoding, Evidence, EvidenceLevel};
use crate::link::{LinkHandle, SessionHandle};
use crate::wire::performative::{DeliveryState, ResumePoint};

/// Id of a link in the core: its slot in the low bits, a number that is never reused above.
///
/// ```text
/// | 63 ..................... 16 | 15 ........... 0 |
/// |   from Environment::next_id |  slot in `Links` |
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LinkId(pub(super) u64);

/// Bits of a [`LinkId`] that hold the slot.
const SLOT_BITS: u32 = 16;
/// Links of one connection at most.
pub(super) const LINKS_MAX: usize = 1 << SLOT_BITS;

impl LinkId {
    const fn slot(self) -> usize {
        (self.0 & ((1 << SLOT_BITS) - 1)) as usize
    }

    pub(super) const fn consumer(self) -> ConsumerId {
        ConsumerId(self.0)
    }

    pub(super) const fn publisher(self) -> PublisherId {
        PublisherId(self.0)
    }
}

/// One link of the connection.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) id: LinkId,
    pub(super) handle: LinkHandle,
    pub(super) session: SessionHandle,
    pub(super) name: Name,
    pub(super) kind: LinkKind,
    /// Bytes of its texts.
    kept_bytes: u64,
    _counted: Counted,
}

/// The purpose of a link.
#[derive(Debug)]
pub(super) enum LinkKind {
    /// The peer publishes.
    Publisher(Box<Publisher>),
    /// The peer consumes.
    Consumer(Box<Consumer>),
    /// The peer declares and discharges transactions.
    Controller(Controller),
    /// The peer sends management requests.
    Request(PairHalf),
    /// The peer receives management answers.
    Response(PairHalf),
    /// The peer sends tokens to `$cbs`.
    PutToken(PairHalf),
    /// The peer is told what became of tokens.
    TokenStatus(PairHalf),
}

impl LinkKind {
    /// What outlives the connection of a publisher's link, if anything does.
    pub(super) fn resumable(&mut self) -> Option<&mut Resumable> {
        match self {
            Self::Publisher(publisher) => publisher.resumable.as_deref_mut(),
            Self::Consumer(_)
            | Self::Controller(_)
            | Self::Request(_)
            | Self::Response(_)
            | Self::PutToken(_)
            | Self::TokenStatus(_) => None,
        }
    }

    /// Takes the unwritten deliveries of a consumer whose deliveries are settled when sent, if it
    /// is one.
    pub(super) fn take_presettled(&mut self) -> Option<VecDeque<u64>> {
        match self {
            Self::Consumer(consumer) if consumer.settled => {
                Some(std::mem::take(&mut consumer.unwritten))
            }
            _ => None,
        }
    }
}

/// A consuming link, as the broker keeps it.
#[derive(Debug)]
pub(super) struct Consumer {
    /// Whether deliveries are settled when sent.
    pub(super) settled: bool,
    /// Whether `x-delivery-count` counts every return: see [`GatewayOptions::counts_returns`].
    ///
    /// [`GatewayOptions::counts_returns`]: super::environment::GatewayOptions::counts_returns
    pub(super) counts_returns: bool,
    /// Deliveries settled when sent that the engine has and the driver has not: tokens, oldest
    /// first.
    pub(super) unwritten: VecDeque<u64>,
    /// Encoding of the death history, and the level of evidence.
    pub(super) deaths: (Encoding, EvidenceLevel),
    /// Outcomes that the core has to confirm before they are answered, oldest first.
    pub(super) answers: VecDeque<(Serial, DeliveryState)>,
    /// The consumer's identity, shared by all deaths by an outcome without an error.
    pub(super) evidence: Arc<Evidence>,
    /// The subscription that it is of; none: it consumes from a queue.
    pub(super) subscription: Option<Box<Subscription>>,
    /// How its link outlives its connection; none: not at all.
    pub(super) lifetime: Option<ConsumerLifetime>,
    /// Whether the core was asked how many messages wait for credit, and the answer is not told yet.
    pub(super) echo_due: bool,
    /// The delivery of which a part had arrived when the link ended, and where it goes on.
    pub(super) begun: Option<Box<(Acquisition, ResumePoint)>>,
}

/// One half of a management pair.
#[derive(Debug)]
pub(super) struct PairHalf {
    /// On the request half: credit that the peer has left, in messages.
    pub(super) address: Option<String>,
    /// On the response half: number of answers still to be sent.
    pub(super) credit: u32,
    /// On the response half: answers on their way.
    pub(super) pending: u32,
}

/// All links of one connection.
#[derive(Debug)]
pub(super) struct Links {
    slots: Vec<Option<Link>>,
    free: Vec<usize>,
    by_handle: Map<LinkHandle, usize>,
    /// Slot of the link that was last looked up by handle: usually it is looked up again.
    last: usize,
    /// Bytes of the texts of all links.
    texts_bytes: u64,
}

impl Links {
    pub(super) fn new(seed: Seed) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            by_handle: Map::with_hasher(seed.hasher()),
            last: 0,
            texts_bytes: 0,
        }
    }

    /// Adds a link; none when there are [`LINKS_MAX`] already.
    pub(super) fn add(
        &mut self,
        environment: &Environment,
        (handle, session): (LinkHandle, SessionHandle),
        (name, kept_bytes): (Name, u64),
        kind: LinkKind,
    ) -> Option<LinkId> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if self.slots.len() < LINKS_MAX => {
                self.slots.push(None);
                self.slots.len() - 1
            }
            None => return None,
        };
        let id = LinkId((environment.next_id() << SLOT_BITS) | slot as u64);
        self.by_handle.insert(handle, slot);
        self.texts_bytes += kept_bytes;
        if let Some(place) = self.slots.get_mut(slot) {
            *place = Some(Link {
                id,
                handle,
                session,
                name,
                kept_bytes,
                _counted: environment.open_links.count(&kind),
                kind,
            });
        }
        Some(id)
    }

    /// The link with this handle.
    #[inline]
    pub(super) fn by_handle(&mut self, handle: LinkHandle) -> Option<&mut Link> {
        let last = self.slots.get(self.last).and_then(Option::as_ref);
        if last.is_none_or(|link| link.handle != handle) {
            self.find(handle)?;
        }
        self.slots.get_mut(self.last)?.as_mut()
    }

    /// What outlives the connection of the publisher's link with this handle, if anything does.
    pub(super) fn resumable(&mut self, handle: LinkHandle) -> Option<&mut Resumable> {
        self.by_handle(handle)?.kind.resumable()
    }

    /// Looks up the slot of a handle and remembers it as the last one.
    #[inline(never)]
    fn find(&mut self, handle: LinkHandle) -> Option<()> {
        self.last = *self.by_handle.get(&handle)?;
        Some(())
    }

    /// The link with this id, unless it is detached.
    #[inline]
    pub(super) fn by_id(&mut self, id: LinkId) -> Option<&mut Link> {
        self.slots
            .get_mut(id.slot())?
            .as_mut()
            .filter(|link| link.id == id)
    }

    #[inline]
    pub(super) fn consumer(&mut self, id: ConsumerId) -> Option<(LinkHandle, &mut Consumer)> {
        match self.by_id(LinkId(id.0))? {
            Link {
                handle,
                kind: LinkKind::Consumer(consumer),
                ..
            } => Some((*handle, consumer)),
            _ => None,
        }
    }

    #[inline]
    pub(super) fn publisher(&mut self, id: PublisherId) -> Option<(LinkHandle, &mut Publisher)> {
        match self.by_id(LinkId(id.0))? {
            Link {
                handle,
                kind: LinkKind::Publisher(publisher),
                ..
            } => Some((*handle, publisher)),
            _ => None,
        }
    }

    /// Removes a link and returns it.
    pub(super) fn remove(&mut self, handle: LinkHandle) -> Option<Link> {
        let slot = self.by_handle.remove(&handle)?;
        let Some(link) = self.slots.get_mut(slot).and_then(Option::take) else {
            invariant!(broken, "a link that has a handle is there");
            return None;
        };
        self.free.push(slot);
        uncount!(
            self.texts_bytes,
            link.kept_bytes,
            "texts of a link were counted"
        );
        Some(link)
    }

    /// Bytes of the texts of all links.
    pub(super) const fn texts_bytes(&self) -> u64 {
        self.texts_bytes
    }

    /// Estimated memory of all links, in bytes.
    pub(super) fn kept_bytes(&self) -> u64 {
        self.texts_bytes + self.by_handle.len() as u64 * LINK_OVERHEAD_BYTES
    }

    /// Removes all links of a session and returns them.
    pub(super) fn remove_session(&mut self, session: SessionHandle) -> Vec<Link> {
        let of_session = self.iter().filter(|link| link.session == session);
        let handles: Vec<LinkHandle> = of_session.map(|link| link.handle).collect();
        let links = handles.into_iter();
        links.filter_map(|handle| self.remove(handle)).collect()
    }

    /// All links, read-only.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Link> {
        self.slots.iter().flatten()
    }

    /// All links, in the order of their slots.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Link> {
        self.slots.iter_mut().flatten()
    }
}

/// Deliveries that are sent and not settled, by the token that the engine has for each.
///
/// ```text
/// | 63 ........................ 32 | 31 ........... 0 |
/// |   how often the slot was freed |  slot in `SentDeliveries`  |
/// ```
///
/// A removed token finds nothing, also when its slot is used again: removing it twice has no
/// effect.
#[derive(Debug, Default)]
pub(super) struct SentDeliveries {
    entries: Vec<SentEntry>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct SentEntry {
    consumer: ConsumerId,
    position: Position,
    /// Number of times the slot was freed.
    generation: u32,
}

impl SentDeliveries {
    /// The token of deliveries that are settled when sent.
    pub(super) const SETTLED: u64 = u64::MAX;

    /// Memory of the table, in bytes.
    pub(super) fn table_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<SentEntry>() + self.free.capacity() * size_of::<u32>()
    }

    /// Adds a delivery and returns its token; the engine holds far less than 2^32 deliveries.
    #[inline]
    pub(super) fn insert(&mut self, consumer: ConsumerId, position: Position) -> u64 {
        if let Some(slot) = self.free.pop()
            && let Some(entry) = self.entries.get_mut(slot as usize)
        {
            entry.consumer = consumer;
            entry.position = position;
            return u64::from(entry.generation) << 32 | u64::from(slot);
        }
        self.entries.push(SentEntry {
            consumer,
            position,
            generation: 0,
        });
        (self.entries.len() - 1) as u64
    }

    /// The delivery with this token, if there is one.
    pub(super) fn get(&self, token: u64) -> Option<(ConsumerId, Position)> {
        let (generation, slot) = ((token >> 32) as u32, (token & 0xffff_ffff) as u32);
        let entry = self.entries.get(slot as usize)?;
        (entry.generation == generation).then_some((entry.consumer, entry.position))
    }

    /// Removes the delivery with this token, if there is one.
    #[inline]
    pub(super) fn remove(&mut self, token: u64) -> Option<(ConsumerId, Position)> {
        let (generation, slot) = ((token >> 32) as u32, (token & 0xffff_ffff) as u32);
        let entry = self.entries.get_mut(slot as usize)?;
        if entry.generation != generation {
            return None;
        }
        entry.generation = generation.wrapping_add(1);
        self.free.push(slot);
        #[cfg(test)]
        if generation > 0 && is_planted(Plant::TokenReused) {
            let beside = self.entries.get(slot as usize ^ 1)?;
            return Some((beside.consumer, beside.position));
        }
        Some((entry.consumer, entry.position))
    }

    /// Panics if a slot is free twice, so that two deliveries would share it.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let mut free = self.free.clone();
        free.sort_unstable();
        free.dedup();
        assert_eq!(free.len(), self.free.len(), "freed twice");
    }
}
