//! Message annotations as encoded pairs: names reserved for the broker, legal keys, merging.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use super::looking::look;
use super::{Message, MessageError};
use crate::base::limits::{MERGED_ANNOTATIONS_BYTES_MAX, MODIFIED_ANNOTATIONS_BYTES_MAX};
use crate::base::{Account, Gauge};
use crate::deaths;
use crate::wire::{Pair, Pairs, Reader, SectionIndex, Value, check_annotations, decode_value};

/// Estimated memory of edited annotations without their bytes, in bytes.
const EDITED_OVERHEAD_BYTES: usize = 64;
pub(super) const EXCHANGE: &str = "x-exchange";
pub(super) const ROUTING_KEY: &str = "x-routing-key";
pub(super) const DELIVERY_COUNT: &str = "x-delivery-count";
pub(super) const ACQUIRED_COUNT: &str = "x-acquired-count";
pub(super) const SUSPECT: &str = "x-opt-suspect";

/// The annotation keys that publishers and consumers may send.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum KeyRule {
    /// Every symbol and ulong, as the specification says. [AMQP 3.2.10] The default.
    #[default]
    Specification,
    /// Only symbols that begin with `x-`, as `RabbitMQ` (`strict` mode).
    Strict,
}

impl KeyRule {
    /// Checks the annotation map of a `modified` outcome before it goes to the core.
    pub fn check_modified(self, annotations: &[u8]) -> Result<(), MessageError> {
        check_annotations(annotations)?;
        for pair in Reader::new(annotations).map()? {
            self.check(&pair?)?;
        }
        Ok(())
    }

    /// Checks one key, whose type is known to be legal.
    pub(super) fn check(self, pair: &Pair<'_>) -> Result<(), MessageError> {
        let allowed = match self {
            Self::Specification => true,
            Self::Strict => pair.symbol_key().is_some_and(|key| key.starts_with("x-")),
        };
        if allowed {
            return Ok(());
        }
        let (key, _) = decode_value(pair.key)?;
        Err(MessageError::AnnotationKey {
            key: key.to_string(),
        })
    }
}

/// Whether an annotation is reserved for the broker: it is not accepted from clients.
pub(super) fn is_the_brokers(pair: &Pair<'_>) -> bool {
    pair.symbol_key().is_some_and(|key| {
        matches!(
            key,
            EXCHANGE | ROUTING_KEY | DELIVERY_COUNT | ACQUIRED_COUNT | SUSPECT
        ) || deaths::ANNOTATIONS.contains(&key)
    })
}

/// The annotations of a received message, and where those to keep are.
#[derive(Debug)]
pub(super) struct Taken {
    /// Offset in the payload of the bytes to keep: annotation pairs, then the bare message.
    pub(super) start: usize,
    /// Length of these pairs, in bytes.
    pub(super) length: u32,
    /// Number of keys and values in these pairs.
    pub(super) count: u32,
    /// The client's annotations instead, if some of those received are reserved for the broker.
    pub(super) edited: Option<Arc<Edited>>,
}

/// Annotation pairs of a client that differ from those received, without a map around them.
#[derive(Debug)]
pub(super) struct Edited {
    /// Encoded keys and values, alternating.
    pub(super) pairs: Box<[u8]>,
    /// Number of keys and values.
    pub(super) count: u32,
    /// The gauge that their memory is charged to.
    pub(super) account: Account,
}

impl Edited {
    pub(super) fn new(pairs: Box<[u8]>, count: u32) -> Arc<Self> {
        let account = Account::default();
        Arc::new(Self {
            pairs,
            count,
            account,
        })
    }
}

/// Checks the message annotations of a payload that was walked, and finds those to keep: usually
/// all, and then they are right in front of the bare message.
pub(super) fn take(
    payload: &[u8],
    index: &SectionIndex,
    keys: KeyRule,
) -> Result<Taken, MessageError> {
    let bare = index.bare as usize;
    let mut taken = Taken {
        start: bare,
        length: 0,
        count: 0,
        edited: None,
    };
    if index.message_annotations.is_absent() {
        return Ok(taken);
    }
    let pairs = Reader::starting_at(payload, index.message_annotations.value as usize).map()?;
    let mut any_of_the_broker = false;
    for pair in pairs.clone() {
        let pair = pair?;
        keys.check(&pair)?;
        any_of_the_broker |= is_the_brokers(&pair);
    }
    if any_of_the_broker {
        let kept = pairs.flatten().filter(|pair| !is_the_brokers(pair));
        taken.edited = Some(collect(kept));
    } else {
        let length = pairs.rest().len();
        taken.start = bare - length;
        taken.length = u32::try_from(length).unwrap_or(index.bare);
        taken.count = pairs.left();
    }
    Ok(taken)
}

/// Merges two sets of pairs: those of `modified` replace pairs with the same key, the last of
/// several counts, names reserved for the broker are ignored.
pub(super) fn merge(pairs: Pairs<'_>, modified: Pairs<'_>) -> Arc<Edited> {
    let changes = modified.flatten().filter(|pair| !is_the_brokers(pair));
    let changes = changes
        .map(|pair| (Key::of(&pair), pair))
        .collect::<BTreeMap<_, _>>();
    let kept = pairs
        .flatten()
        .filter(|pair| !changes.contains_key(&Key::of(pair)));
    collect(kept.chain(changes.values().copied()))
}

fn collect<'a>(all: impl Iterator<Item = Pair<'a>>) -> Arc<Edited> {
    let (mut pairs, mut count) = (Vec::new(), 0);
    for pair in all {
        pairs.extend_from_slice(pair.key);
        pairs.extend_from_slice(pair.value);
        count += 2;
    }
    Edited::new(pairs.into(), count)
}

/// The merged annotations of the last `modified` outcome: one outcome for many messages usually
/// gives all of them the same, which they share.
#[derive(Debug, Default)]
pub struct Merging {
    /// The outcome's annotation map: kept, so that its allocation is not reused and mistaken for
    /// it.
    modified: Bytes,
    /// The pairs that the last message had before, if they are few.
    before: Option<Box<[u8]>>,
    merged: Option<Arc<Edited>>,
    /// Bytes of encoded pairs that the outcome gave to messages so far, each message counted.
    given_bytes: u64,
}

/// Length of pairs up to which they are compared with those of the message before, in bytes.
const COMPARED_BYTES_MAX: usize = 4 * 1024;

impl Merging {
    /// Continues with an outcome, or begins with another one. Outcomes are told apart by the
    /// address of their bytes.
    fn turn_to(&mut self, modified: &Bytes) {
        let is_same =
            self.modified.as_ptr() == modified.as_ptr() && self.modified.len() == modified.len();
        if !is_same {
            *self = Self {
                modified: modified.clone(),
                ..Self::default()
            };
        }
    }

    /// The merged annotations; none if they cannot be read, are larger than a message may keep, or
    /// the outcome has given the most that it may to others.
    fn merge(&mut self, before: Pairs<'_>, modified: &Bytes) -> Option<Arc<Edited>> {
        self.turn_to(modified);
        if self.given_bytes > MODIFIED_ANNOTATIONS_BYTES_MAX {
            return None;
        }
        let is_known = self.before.as_deref() == Some(before.rest());
        let known = self.merged.as_ref().filter(|_| is_known);
        let merged = if let Some(merged) = known {
            Arc::clone(merged)
        } else {
            let changes = Reader::new(modified).map().ok()?;
            let both = before.rest().len() + changes.rest().len();
            if both > MERGED_ANNOTATIONS_BYTES_MAX {
                return None;
            }
            let few = before.rest().len() <= COMPARED_BYTES_MAX;
            self.before = few.then(|| before.rest().into());
            merge(before, changes)
        };
        self.given_bytes += merged.pairs.len() as u64;
        self.merged = Some(Arc::clone(&merged));
        Some(merged)
    }
}

/// A key by its meaning: the same symbol or number can be encoded in several ways.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Key<'a> {
    Symbol(&'a str),
    Ulong(u64),
    /// Not legal, so never found after the checks: stands for its encoding.
    Other(&'a [u8]),
}

impl<'a> Key<'a> {
    fn of(pair: &Pair<'a>) -> Self {
        let symbol = pair.symbol_key().map(Key::Symbol);
        let key = symbol.or_else(|| pair.ulong_key().map(Key::Ulong));
        key.unwrap_or(Key::Other(pair.key))
    }
}

impl Message {
    /// This message with the annotations of a `modified` outcome merged in: an encoded map that
    /// passed [`KeyRule::check_modified`]. Names reserved for the broker are ignored. None if the
    /// map cannot be read, if both together are larger than `limits::MERGED_ANNOTATIONS_BYTES_MAX`,
    /// or if this outcome gave others more than `limits::MODIFIED_ANNOTATIONS_BYTES_MAX` already.
    #[must_use]
    pub fn with_annotations(&self, modified: &Bytes, merging: &mut Merging) -> Option<Self> {
        let merged = merging.merge(self.client_annotations(), modified)?;
        Some(Self {
            edited: Some(merged),
            ..self.clone()
        })
    }

    /// Charges the memory of what messages share besides their bytes: edited annotations and
    /// histories. Each once, for as long as any message has it.
    #[inline]
    pub fn charge(&self, gauge: &Gauge) {
        if self.edited.is_some() || self.history.is_some() || self.redrives.is_some() {
            self.charge_shared(gauge);
        }
    }

    /// Charges the memory of its last failure, once for all that share it: to be called where a
    /// message gets one, and where it is paged in.
    #[inline]
    pub fn charge_failure(&self, gauge: &Gauge) {
        if let Some(failure) = &self.last_failure {
            failure.charge(gauge);
        }
    }

    fn charge_shared(&self, gauge: &Gauge) {
        if let Some(edited) = &self.edited {
            let bytes = || (edited.pairs.len() + EDITED_OVERHEAD_BYTES) as u64;
            edited.account.open(gauge, bytes);
        }
        if let Some(history) = &self.history {
            history.charge(gauge);
        }
        if let Some(redrives) = &self.redrives {
            redrives.charge(gauge);
        }
    }

    /// Bytes in memory in front of the bare message, the annotations as received; and bytes of
    /// edited annotations, shared or not.
    pub fn annotation_bytes(&self) -> usize {
        self.edited.as_ref().map_or(0, |edited| edited.pairs.len()) + self.bare as usize
    }

    /// Bytes in memory in front of the bare message: the annotations as received.
    #[inline]
    pub const fn front_bytes(&self) -> u32 {
        self.bare
    }

    /// Whether it has annotations of clients at all: without any there are no
    /// [`directions`](Message::directions).
    pub fn has_client_annotations(&self) -> bool {
        let edited = self.edited.as_ref().map(|edited| edited.count);
        edited.unwrap_or(self.annotation_count) > 0
    }

    /// Visits the message annotations whose name is wanted: those of the latest death, then the
    /// publisher's. A headers exchange with `any-with-x` sees these: without `x-exchange` and
    /// `x-routing-key`, which are added on delivery, and within the bounds of
    /// [`look`](super::looking). Returns how many were passed.
    pub fn visit_annotations<'a>(
        &'a self,
        is_wanted: impl Fn(&str) -> bool,
        mut found: impl FnMut(&'a str, Value),
    ) -> usize {
        if let Some(history) = self.history() {
            for name in deaths::ANNOTATIONS {
                if let Some(value) = is_wanted(name).then(|| history.annotation(name)).flatten() {
                    found(name, value);
                }
            }
        }
        if let Some(redrives) = self.redrives() {
            for name in deaths::ANNOTATIONS {
                if let Some(value) = is_wanted(name).then(|| redrives.annotation(name)).flatten() {
                    found(name, value);
                }
            }
        }
        let pairs = self.client_annotations();
        let looked = look(pairs, Pair::symbol_key, is_wanted, |name, value| {
            if let Ok((value, _)) = decode_value(value) {
                found(name, value);
            }
            false
        });
        looked.pairs
    }
}
