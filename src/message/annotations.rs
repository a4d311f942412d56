//! Message annotations as encoded pairs: which belong to the broker, which keys are legal, merging.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use super::looking::look;
use super::{Message, MessageError};
use crate::base::limits::{
    CC_BYTES_MAX, CC_KEYS_MAX, MERGED_ANNOTATIONS_BYTES_MAX, MODIFIED_ANNOTATIONS_BYTES_MAX,
};
use crate::base::{Account, Gauge, Name, check_routing_key};
use crate::deaths;
use crate::wire::{
    Pair, Pairs, Reader, SectionIndex, Value, ValueKind, check_annotations, decode_value,
};

/// Memory of annotations kept apart beside their bytes, in bytes.
const EDITED_OVERHEAD_BYTES: usize = 64;
/// The annotation with further routing keys. [dead-lettering part 9 row 5]
const CC: &str = "x-cc";
/// Bytes of a wrong value that an error shows.
const SHOWN_BYTES_MAX: usize = 256;
pub(super) const EXCHANGE: &str = "x-exchange";
pub(super) const ROUTING_KEY: &str = "x-routing-key";
pub(super) const DELIVERY_COUNT: &str = "x-delivery-count";
pub(super) const ACQUIRED_COUNT: &str = "x-acquired-count";

/// Which annotation keys a publisher or a consumer may send.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum KeyRule {
    /// Every symbol and ulong, as the specification says. [AMQP 3.2.10]
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

    /// Checks one key whose type is known to be legal.
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

/// Whether an annotation is the broker's to write: under these names nothing is taken from clients.
pub(super) fn is_the_brokers(pair: &Pair<'_>) -> bool {
    pair.symbol_key().is_some_and(|key| {
        matches!(
            key,
            EXCHANGE | ROUTING_KEY | DELIVERY_COUNT | ACQUIRED_COUNT
        ) || deaths::ANNOTATIONS.contains(&key)
    })
}

/// The annotations of a received message: where the kept ones are.
#[derive(Debug)]
pub(super) struct Taken {
    /// Where the kept bytes of the payload begin: annotation pairs, then the bare message.
    pub(super) start: usize,
    /// Length of these pairs, in bytes.
    pub(super) length: u32,
    /// How many keys and values they are.
    pub(super) count: u32,
    /// The client's annotations instead, if some of what was received belongs to the broker.
    pub(super) edited: Option<Arc<Edited>>,
}

/// Annotation pairs of a client, without a map around them.
#[derive(Debug)]
pub(super) struct Edited {
    /// Encoded keys and values by turns.
    pub(super) pairs: Box<[u8]>,
    /// How many keys and values.
    pub(super) count: u32,
    /// Where their memory is counted.
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

/// Checks the message annotations of a payload that was walked, and finds those to keep: as a rule
/// all, and then they stand right before the bare message.
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

/// Merges two sets of pairs: what `modified` brings replaces what has the same key, its last pair
/// counts, names of the broker are ignored.
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

/// The last annotations that a `modified` outcome gave a message: one that is about many messages
/// gives as a rule all the same, and those share them.
#[derive(Debug, Default)]
pub struct Merging {
    /// What the outcome brings: kept, so that no other one is taken for it.
    modified: Bytes,
    /// The pairs that a message had before, if they are few.
    before: Option<Box<[u8]>>,
    merged: Option<Arc<Edited>>,
    /// Encoded pairs that it gave to messages so far, each counted, in bytes.
    given_bytes: u64,
}

/// Pairs up to this length are compared with those of the message before, in bytes.
const COMPARED_BYTES_MAX: usize = 4 * 1024;

impl Merging {
    /// Goes on with an outcome, or begins with another one. Outcomes are told apart by the place of
    /// their bytes.
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

    /// The annotations merged; nothing if they cannot be read, or are larger than a message may keep,
    /// or the outcome gave so much to others that it may give no more.
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
    /// Not legal, so never met behind the checks: stands for its encoding.
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
    /// passed [`KeyRule::check_modified`]. Names of the broker are ignored. None if the map cannot be
    /// read, if both together are larger than `limits::MERGED_ANNOTATIONS_BYTES_MAX`, or if this
    /// outcome gave others more than `limits::MODIFIED_ANNOTATIONS_BYTES_MAX` already.
    #[must_use]
    pub fn with_annotations(&self, modified: &Bytes, merging: &mut Merging) -> Option<Self> {
        let merged = merging.merge(self.client_annotations(), modified)?;
        Some(Self {
            edited: Some(merged),
            ..self.clone()
        })
    }

    /// Counts the memory of what messages share that is not their bytes: annotations that are others
    /// than those received, and histories. Each once, for as long as any message has it.
    #[inline]
    pub fn charge(&self, gauge: &Gauge) {
        if self.edited.is_some() || self.history.is_some() {
            self.charge_shared(gauge);
        }
    }

    /// Counts the memory of its last failure, once for all that share it: a message that has one is
    /// charged for it where it gets it, and where it comes back into memory.
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
    }

    /// Bytes in memory in front of the bare message, the annotations as received; and bytes of
    /// annotations kept apart from those, shared or not.
    pub fn annotation_bytes(&self) -> usize {
        self.edited.as_ref().map_or(0, |edited| edited.pairs.len()) + self.bare as usize
    }

    /// Bytes in memory in front of the bare message: the annotations as received.
    #[inline]
    pub const fn front_bytes(&self) -> u32 {
        self.bare
    }

    /// Whether it has annotations of clients at all: without any, [`Message::cc`] is empty.
    pub fn may_have_cc(&self) -> bool {
        let edited = self.edited.as_ref().map(|edited| edited.count);
        edited.unwrap_or(self.annotation_count) > 0
    }

    /// The CC keys: annotation `x-cc`, empty if absent. More than `limits::CC_KEYS_MAX` keys or
    /// `limits::CC_BYTES_MAX` bytes are refused before any is looked at.
    pub fn cc(&self) -> Result<Vec<Name>, MessageError> {
        let Some(value) = self.client_annotation(CC) else {
            return Ok(Vec::new());
        };
        let mut reader = Reader::new(value);
        if reader.kind() != Some(ValueKind::List) {
            return Err(MessageError::Cc {
                found: shown(value),
            });
        }
        let mut list = reader.list()?;
        let keys = list.left() as usize;
        if keys > CC_KEYS_MAX {
            return Err(MessageError::CcKeys { keys });
        }
        if value.len() > CC_BYTES_MAX {
            let bytes = value.len();
            return Err(MessageError::CcBytes { bytes });
        }
        let other = |()| MessageError::Cc {
            found: "a list with other elements".to_owned(),
        };
        let keys = (0..keys).map(|_| {
            let key = list.string().ok().flatten().ok_or(()).map_err(other)?;
            check_routing_key(key).map_err(MessageError::CcKey)?;
            Ok(Name::from(key))
        });
        keys.collect()
    }

    /// Shows the message annotations whose name is wanted: those of the latest death, then the
    /// publisher's. What a headers exchange with `any-with-x` sees: not `x-exchange` and
    /// `x-routing-key`, which are added on delivery, and only as far as they are looked at. Returns how
    /// many were passed.
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
        let pairs = self.client_annotations();
        let looked = look(pairs, Pair::symbol_key, is_wanted, |name, value| {
            if let Ok((value, _)) = decode_value(value) {
                found(name, value);
            }
            false
        });
        looked.pairs
    }

    /// The encoded value of an annotation that a client sent.
    fn client_annotation(&self, name: &str) -> Option<&[u8]> {
        let pairs = self.client_annotations();
        if pairs.left() == 0 {
            return None;
        }
        let mut pairs = pairs.flatten();
        let pair = pairs.find(|pair| pair.symbol_key() == Some(name))?;
        Some(pair.value)
    }
}

/// A value as an error shows it: a large one by its type only.
fn shown(value: &[u8]) -> String {
    let small = Some(value).filter(|value| value.len() <= SHOWN_BYTES_MAX);
    let decoded = small.and_then(|value| decode_value(value).ok());
    decoded.map_or_else(
        || {
            format!(
                "a {} of {} bytes",
                Reader::new(value).type_name(),
                value.len()
            )
        },
        |(value, _)| value.to_string(),
    )
}
