//! The type [`Message`] and its route.

use std::sync::Arc;

use bytes::Bytes;

use super::annotations::{self, Edited};
use super::looking::{LookedAt, look};
use super::storage::Storage;
use super::{KeyRule, MessageError};
use crate::base::{Name, Timestamp};
use crate::deaths::{History, LastFailure, Redrives};
use crate::wire::{
    Fields, Pair, Pairs, PlainMessage, PropertyField, Reader, Section, SectionIndex, Value,
    decode_value, walk,
};

/// Estimated memory of a routing key without its text, in bytes.
const KEY_OVERHEAD_BYTES: usize = 40;

/// The exchange and keys that a message was published with.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Route {
    /// The exchange's name, "" for the default exchange.
    pub exchange: Name,
    /// The routing keys: the first key, then CC. Never empty.
    pub keys: Arc<[Name]>,
}

impl Route {
    /// Estimated memory of its keys, in bytes.
    pub fn key_bytes(&self) -> u32 {
        let bytes: usize = self
            .keys
            .iter()
            .map(|key| key.len() + KEY_OVERHEAD_BYTES)
            .sum();
        u32::try_from(bytes).unwrap_or(u32::MAX)
    }

    /// The first routing key, which `x-routing-key` shows.
    pub fn first_key(&self) -> &str {
        self.keys.first().map_or("", Name::as_str)
    }
}

/// One message: immutable, shared as `Arc<Message>`. A dead letter shares the bytes of the message
/// that died.
///
/// ```text
/// storage    [ client's annotation pairs | properties | application-properties | body | footer ]
///              unless `edited` replaces    ^ bare       ^ ends.properties ...
///              them
/// ```
///
/// Received bytes already have this order, so one copy takes them all. Header and delivery
/// annotations are not kept as bytes: the broker writes its own header.
#[derive(Clone, Debug)]
pub struct Message {
    pub(super) storage: Storage,
    /// Offset of the bare message in the storage.
    pub(super) bare: u32,
    /// Ends of its sections, from the beginning of the bare message.
    pub(super) ends: Ends,
    /// Number of keys and values in front of the bare message.
    pub(super) annotation_count: u32,
    /// The client's annotations, once they differ from those in the storage.
    pub(super) edited: Option<Arc<Edited>>,
    pub(super) history: Option<Arc<History>>,
    /// The last failed delivery in the queue where it is; none if there was none.
    pub(super) last_failure: Option<Arc<LastFailure>>,
    pub(super) durable: Option<bool>,
    pub(super) priority: Option<u8>,
    pub(super) ttl_ms: Option<u32>,
    pub(super) carried_delivery_count: u32,
    /// The latest redrives; none if it was never redriven. Without it the allocation of a shared
    /// message would need padding: mimalloc is slower when it is no power of two, by 100
    /// instructions for each message.
    pub(super) redrives: Option<Arc<Redrives>>,
}

/// Ends of the sections of a bare message; each begins where the one before it ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Ends {
    pub(super) properties: u32,
    pub(super) application_properties: u32,
    pub(super) body: u32,
}

impl Ends {
    pub(super) fn of(index: &SectionIndex) -> Self {
        let end_or = |section: Section, before: u32| {
            if section.is_absent() {
                before
            } else {
                section.end - index.bare
            }
        };
        let properties = end_or(index.properties, 0);
        let application_properties = end_or(index.application_properties, properties);
        let body = end_or(index.body, application_properties);
        Self {
            properties,
            application_properties,
            body,
        }
    }
}

impl Message {
    /// Makes a message from the payload of a transfer. [AMQP 3.2]
    ///
    /// Delivery annotations end here, as do annotations reserved for the broker and the header
    /// fields first-acquirer and delivery-count. The payload is kept as it is: a small one should
    /// be an allocation of its own, or it keeps the read buffer alive.
    pub fn from_transfer(payload: Bytes, keys: KeyRule) -> Result<Self, MessageError> {
        if let Some(plain) = PlainMessage::read(&payload) {
            return Ok(Self::from_plain(payload, plain));
        }
        let index = walk(&payload)?;
        let header = index.read_header(&payload)?;
        let annotations = annotations::take(&payload, &index, keys)?;
        let storage = Storage::received(payload, annotations.start);
        Ok(Self {
            bare: annotations.length,
            ends: Ends::of(&index),
            annotation_count: annotations.count,
            edited: annotations.edited,
            storage,
            history: None,
            last_failure: None,
            durable: header.durable,
            priority: header.priority,
            ttl_ms: header.ttl_ms,
            carried_delivery_count: 0,
            redrives: None,
        })
    }

    /// Makes a message without annotations and properties.
    fn from_plain(payload: Bytes, plain: PlainMessage) -> Self {
        let PlainMessage { header, bare } = plain;
        let body = u32::try_from(payload.len() - bare).unwrap_or(u32::MAX);
        Self {
            bare: 0,
            ends: Ends {
                body,
                ..Ends::default()
            },
            annotation_count: 0,
            edited: None,
            storage: Storage::received(payload, bare),
            history: None,
            last_failure: None,
            durable: header.durable,
            priority: header.priority,
            ttl_ms: header.ttl_ms,
            carried_delivery_count: 0,
            redrives: None,
        }
    }

    /// The dead letter: this message with its history after a death and the delivery-count it died
    /// with, without ttl. [dead-lettering part 3]
    #[must_use]
    pub fn died(&self, history: Arc<History>, delivery_count: u32) -> Self {
        let mut dead = self.clone();
        dead.die(history, delivery_count);
        dead
    }

    /// Makes this message the dead letter: see [`Message::died`].
    pub fn die(&mut self, history: Arc<History>, delivery_count: u32) {
        self.history = Some(history);
        self.last_failure = None;
        self.ttl_ms = None;
        self.carried_delivery_count = delivery_count;
    }

    /// The message as a redrive brings it back: its deaths stay told, and its delivery counts begin
    /// anew. [evidence part 6]
    #[must_use]
    pub fn redriven(&self, history: Option<Arc<History>>, redrives: Arc<Redrives>) -> Self {
        Self {
            history,
            redrives: Some(redrives),
            last_failure: None,
            carried_delivery_count: 0,
            ..self.clone()
        }
    }

    /// Its latest redrives; none if it was never redriven.
    #[inline]
    pub const fn redrives(&self) -> Option<&Arc<Redrives>> {
        self.redrives.as_ref()
    }

    /// The number of the job that moved it last, if it did not die since.
    pub fn outstanding_job(&self) -> Option<u64> {
        let redrives = self.redrives.as_ref()?;
        let died = self
            .history
            .as_ref()
            .is_some_and(|it| it.died_since_redrive());
        (!died).then(|| redrives.latest().job_number)
    }

    /// Replaces the record of the last failed delivery of a message that goes on waiting.
    pub fn fail(&mut self, failure: Arc<LastFailure>) {
        self.last_failure = Some(failure);
    }

    /// The bare message and the footer, as received; of a streamed message
    /// ([`blob`](Message::blob)) or one kept in parts ([`rest`](Message::rest)) only the sections
    /// in front of its body.
    pub fn bare(&self) -> &[u8] {
        self.storage
            .as_slice()
            .get(self.bare as usize..)
            .unwrap_or_default()
    }

    /// The bare message and the footer as a shared slice; a small message and one in parts are
    /// copied for it.
    pub fn bare_bytes(&self) -> Bytes {
        self.storage.bytes_from(self.bare as usize)
    }

    /// Length of the bare message and the footer, in bytes, which `max-length-bytes` counts.
    #[inline]
    pub fn bare_len(&self) -> usize {
        self.storage.len().saturating_sub(self.bare as usize)
    }

    /// Bytes of the bare message in front of its body.
    pub const fn body_start(&self) -> usize {
        self.ends.application_properties as usize
    }

    /// Where in the bare message a receiver goes on that has all in front of this byte of this of its sections;
    /// earlier where that is not known. Returns the section, the offset in it, and that in the bare message.
    /// [AMQP 3.4.1]
    pub fn bare_point(&self, section: u32, offset: u64) -> (u32, u64, usize) {
        let Ends {
            properties,
            application_properties,
            body,
        } = self.ends;
        // Sections of a body behind its first one are not looked for.
        let sections = [
            (0, properties),
            (properties, application_properties),
            (application_properties, body),
        ];
        let sections = sections.into_iter().filter(|(start, end)| start < end);
        let mut last = (0, 0, 0);
        for (number, (start, end)) in (0..).zip(sections) {
            last = (number, 0, start as usize);
            if number == section {
                let length = end - start;
                let within = u32::try_from(offset).unwrap_or(length).min(length);
                return (number, within.into(), (start + within) as usize);
            }
        }
        last
    }

    /// The encoded body sections, as received.
    pub fn body(&self) -> &[u8] {
        self.section(self.ends.application_properties, self.ends.body)
    }

    /// Header durable; false if absent. [AMQP 3.2.1]
    #[inline]
    pub fn durable(&self) -> bool {
        self.durable.unwrap_or(false)
    }

    /// Header priority. [AMQP 3.2.1]
    pub const fn priority(&self) -> Option<u8> {
        self.priority
    }

    /// Header ttl, in milliseconds. [AMQP 3.2.1]
    #[inline]
    pub const fn ttl_ms(&self) -> Option<u32> {
        self.ttl_ms
    }

    /// Header delivery-count that it had at its last death; 0 when published.
    #[inline]
    pub const fn carried_delivery_count(&self) -> u32 {
        self.carried_delivery_count
    }

    /// Its death history; none if it never died.
    #[inline]
    pub const fn history(&self) -> Option<&Arc<History>> {
        self.history.as_ref()
    }

    /// Its last failed delivery in the queue where it is; none if there was none.
    #[inline]
    pub fn last_failure(&self) -> Option<&LastFailure> {
        self.last_failure.as_deref()
    }

    /// A field of the properties section, if it is there and can be read. [AMQP 3.2.4]
    pub fn property(&self, field: PropertyField) -> Option<Value> {
        self.property_field(field)?.value().ok()?
    }

    /// Property to, if it is a string. [AMQP 3.2.4]
    pub fn to(&self) -> Option<&str> {
        self.property_field(PropertyField::To)?.string().ok()?
    }

    /// Property subject. [AMQP 3.2.4]
    pub fn subject(&self) -> Option<&str> {
        self.property_field(PropertyField::Subject)?.string().ok()?
    }

    /// Property reply-to, if it is a string. [AMQP 3.2.4]
    pub fn reply_to(&self) -> Option<&str> {
        self.property_field(PropertyField::ReplyTo)?.string().ok()?
    }

    /// Property user-id. [AMQP 3.2.4]
    #[inline]
    pub fn user_id(&self) -> Option<&[u8]> {
        if self.ends.properties == 0 {
            return None;
        }
        self.property_field(PropertyField::UserId)?.binary().ok()?
    }

    /// Property absolute-expiry-time. [AMQP 3.2.4]
    #[inline]
    pub fn absolute_expiry_time(&self) -> Option<Timestamp> {
        if self.ends.properties == 0 {
            return None;
        }
        let field = self.property_field(PropertyField::AbsoluteExpiryTime);
        field?.timestamp().ok()?.map(Timestamp)
    }

    /// Whether it belongs to a group: property group-id is a string that is not empty. [AMQP 3.2.4]
    #[inline]
    pub fn has_group(&self) -> bool {
        self.ends.properties != 0 && self.has_group_in_properties()
    }

    fn has_group_in_properties(&self) -> bool {
        // As most clients write the section: its descriptor, a short list, its size, its count.
        let bare = self.bare();
        if let [0x00, 0x53, 0x73, 0xc0, _, count, ..] = bare
            && usize::from(*count) <= PropertyField::GroupId as usize
        {
            return false;
        }
        self.group_id().is_some()
    }

    /// Property group-id as encoded, without checking it; none if it is absent, empty or no string.
    /// [AMQP 3.2.4]
    pub fn group_id(&self) -> Option<&[u8]> {
        let encoded = self.property_field(PropertyField::GroupId)?.raw().ok()??;
        let id = Reader::new(encoded).string_bytes().ok()?;
        (!id.is_empty()).then_some(id)
    }

    /// Whether it is the last of its group: property group-sequence is the highest number, -1 in JMS.
    pub fn ends_group(&self) -> bool {
        let sequence = self.property(PropertyField::GroupSequence);
        sequence == Some(Value::Uint(u32::MAX))
    }

    /// The value of an application property. [AMQP 3.2.5]
    pub fn application_property(&self, name: &str) -> Option<Value> {
        let mut pairs = self.application_pairs()?.flatten();
        let pair = pairs.find(|pair| pair.string_key() == Some(name))?;
        decode_value(pair.value).ok().map(|(value, _)| value)
    }

    /// Visits the application properties whose name is wanted, within the bounds of a lookup;
    /// returns how many were passed. [AMQP 3.2.5]
    pub fn visit_application_properties<'a>(
        &'a self,
        is_wanted: impl Fn(&str) -> bool,
        mut found: impl FnMut(&'a str, Value),
    ) -> usize {
        let looked = self.look_for_properties(is_wanted, |name, value| {
            if let Ok((value, _)) = decode_value(value) {
                found(name, value);
            }
            false
        });
        looked.pairs
    }

    /// Visits the encoded values of application properties whose name is wanted, within the bounds
    /// of a lookup, until `found` returns that everything was found. [AMQP 3.2.5]
    pub fn look_for_properties<'a>(
        &'a self,
        is_wanted: impl Fn(&str) -> bool,
        found: impl FnMut(&'a str, &'a [u8]) -> bool,
    ) -> LookedAt {
        let pairs = self.application_pairs();
        pairs.map_or(LookedAt::NOTHING, |pairs| {
            look(pairs, Pair::string_key, is_wanted, found)
        })
    }

    /// Length of the properties section, in bytes.
    pub const fn properties_len(&self) -> usize {
        self.ends.properties as usize
    }

    fn application_pairs(&self) -> Option<Pairs<'_>> {
        let section = self.section(self.ends.properties, self.ends.application_properties);
        Reader::new(section).described().ok()?.value.map().ok()
    }

    /// The annotations that clients sent: the publisher's, with those of `modified` merged in.
    pub(super) fn client_annotations(&self) -> Pairs<'_> {
        if let Some(edited) = &self.edited {
            return Pairs::bare(&edited.pairs, edited.count);
        }
        let pairs = self.storage.as_slice().get(..self.bare as usize);
        Pairs::bare(pairs.unwrap_or_default(), self.annotation_count)
    }

    /// The fields of the properties section, from `field` on.
    fn property_field(&self, field: PropertyField) -> Option<Fields<'_>> {
        if self.ends.properties == 0 {
            return None;
        }
        let section = self.section(0, self.ends.properties);
        let mut fields = Reader::new(section).described().ok()?.value.list().ok()?;
        fields.skip(field as u32).ok()?;
        Some(fields)
    }

    fn section(&self, start: u32, end: u32) -> &[u8] {
        self.bare()
            .get(start as usize..end as usize)
            .unwrap_or_default()
    }
}
