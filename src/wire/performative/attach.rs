//! Attach: the terminus bytes that are echoed, and the broker's answer. [AMQP 2.7.3]

use std::borrow::Cow;

use bytes::Bytes;

use super::composite::write_fields;
use super::unsettled::write_unsettled;
use super::{
    Attach, Fields, PerformativeError, ReceiverSettleMode, Role, SenderSettleMode, Source, Symbol,
    TargetArchetype, UnsettledDelivery, codes, composite, symbols, terminus, write_symbols,
};
use crate::base::Serial;
use crate::base::limits::{
    ATTACH_IGNORED_BYTES_MAX, LINK_PROPERTIES_BYTES_MAX, TERMINUS_BYTES_MAX,
    UNSETTLED_MAP_BYTES_MAX,
};
use crate::wire::{self, DecodeError, Reader, write_or_null};

/// Index of the field `source`; `target` follows.
const SOURCE: u32 = 5;
const TARGET: u32 = 6;
/// Index of the field `unsettled`.
const UNSETTLED: u32 = 7;
/// Index of the field `properties`.
const PROPERTIES: u32 = 13;
/// The encoding of null.
const NULL: u8 = 0x40;

/// The name of a field, its number of bytes, and the number allowed.
pub type TooLong = (&'static str, usize, usize);

/// What the typed attach does not have: which fields were given, and the exact bytes of the
/// termini.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AttachFields {
    /// The snd-settle-mode, if it was given.
    pub snd_settle_mode: Option<SenderSettleMode>,
    /// The rcv-settle-mode, if it was given.
    pub rcv_settle_mode: Option<ReceiverSettleMode>,
    /// The encoded source; empty: null or absent. If it is the one that the broker offers, without
    /// the fields that it does not keep.
    pub source: Bytes,
    /// The encoded target, likewise.
    pub target: Bytes,
    /// Why source and target of the typed attach are missing although they were given: they could
    /// not be decoded, and the link is to be refused with `amqp:decode-error` and this description.
    pub unreadable: Option<String>,
    /// A field that is too long, and was therefore not read.
    pub too_long: Option<TooLong>,
}

impl AttachFields {
    /// Decodes an attach. Unreadable fields that are not needed (properties, capabilities) are
    /// dropped, and so are fields of a terminus that are not kept; unreadable termini are noted.
    pub(super) fn decode(body: &[u8]) -> Result<(Attach, Self), PerformativeError> {
        wire::check_structure(body)?;
        let mut list = Reader::new(body).described()?.value.list()?;
        list.skip(2)?;
        let receives = list.bool()?;
        let modes = (list.ubyte()?, list.ubyte()?);
        let given = [
            list.raw()?.unwrap_or_default(),
            list.raw()?.unwrap_or_default(),
        ];
        let (dropped, too_long) = overlong(&mut list, given)?;
        // A field that is too long is not echoed either.
        let [source, target] = given.map(|raw| {
            if raw.len() > TERMINUS_BYTES_MAX {
                &[]
            } else {
                raw
            }
        });
        let (kept_source, kept_target) = (terminus::kept(source)?, terminus::kept(target)?);
        let body = if kept_source.is_some() || kept_target.is_some() || !dropped.is_empty() {
            let body = terminus::replaced(body, |index| match index {
                _ if dropped.contains(&index) => Some(vec![NULL]),
                SOURCE => kept_source.clone(),
                TARGET => kept_target.clone(),
                _ => None,
            })?;
            Cow::Owned(body)
        } else {
            Cow::Borrowed(body)
        };
        let (mut attach, unreadable) = Attach::decode(&body)?;
        if let Some(asked) = &mut attach.source {
            terminus::note_lifetime(source, asked)?;
        }
        if let Some(TargetArchetype::Target(asked)) = attach.target.as_deref_mut() {
            terminus::note_target_lifetime(target, asked)?;
        }
        // The peer's own terminus is echoed as it is.
        let echoed = |ours: bool, given: &[u8], kept: Option<Vec<u8>>| match kept {
            Some(kept) if ours => Bytes::from(kept),
            _ => Bytes::copy_from_slice(given),
        };
        let offers_source = receives == Some(true);
        let fields = Self {
            snd_settle_mode: modes.0.map(|_| attach.snd_settle_mode.clone()),
            rcv_settle_mode: modes.1.map(|_| attach.rcv_settle_mode.clone()),
            source: echoed(offers_source, source, kept_source),
            target: echoed(!offers_source, target, kept_target),
            unreadable,
            too_long,
        };
        Ok((attach, fields))
    }
}

/// The fields of an attach (by index) that are longer than is read, given its termini and the list behind
/// them, and what the peer is told about them.
fn overlong(
    list: &mut wire::Fields<'_>,
    [source, target]: [&[u8]; 2],
) -> Result<(Vec<u32>, Option<TooLong>), DecodeError> {
    let mut fields = vec![
        (SOURCE, "source", source.len()),
        (TARGET, "target", target.len()),
    ];
    for index in 7..=13 {
        let bytes = list.raw()?.map_or(0, <[u8]>::len);
        let name = if index == UNSETTLED {
            "unsettled"
        } else {
            "properties"
        };
        fields.push((index, name, bytes));
    }
    let (mut dropped, mut told) = (Vec::new(), None);
    for (index, name, bytes) in fields {
        let max = match index {
            SOURCE | TARGET => TERMINUS_BYTES_MAX,
            PROPERTIES => LINK_PROPERTIES_BYTES_MAX,
            UNSETTLED => UNSETTLED_MAP_BYTES_MAX,
            _ => ATTACH_IGNORED_BYTES_MAX,
        };
        if bytes > max {
            dropped.push(index);
            if matches!(index, SOURCE | TARGET | PROPERTIES | UNSETTLED) {
                told = told.or(Some((name, bytes, max)));
            }
        }
    }
    Ok((dropped, told))
}

/// A terminus in the answer to an attach.
#[derive(Clone, PartialEq, Debug, Default)]
pub enum Terminus<T> {
    /// The terminus is null.
    Absent,
    /// The bytes that the peer sent, without fields that are not kept. The default.
    #[default]
    Echo,
    /// The peer's source with default-outcome released, and with the four outcomes of
    /// [AMQP 3.4] if it named none. For sources only; as `Echo` for targets.
    EchoWithOutcomes,
    /// The same, with what is in force of how long it is kept.
    EchoWithLifetime(TerminusLifetime),
    /// The peer's target if it has an address, otherwise null. For targets only; as `Echo` for
    /// sources.
    EchoIfAddressed,
    /// This terminus, encoded.
    Given(Box<T>),
}

/// How long a terminus is kept. [AMQP 3.5.3]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TerminusLifetime {
    /// What of it outlives the broker: 0 (nothing) or 2 (its unsettled state). [AMQP 3.5.5]
    pub durable: u32,
    /// When its time begins.
    pub expiry_policy: &'static str,
    /// How long it is kept from then on, in seconds.
    pub timeout_s: u32,
}

/// The answer to an attach. The engine adds name, handle, role, settle modes and delivery-count.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct AttachAnswer {
    /// The source to answer with.
    pub source: Terminus<Source>,
    /// The target to answer with.
    pub target: Terminus<TargetArchetype>,
    /// On a receiving link: whether it outlives its connection. Its deliveries are reported with their
    /// delivery-tags, and those that are resumed are reported. [AMQP 2.6.13]
    pub is_resumable: bool,
    /// The deliveries of the link that are not settled, from before it was attached. As many are told as
    /// fit into a frame.
    pub unsettled: Vec<UnsettledDelivery>,
    /// On a receiving link: the largest message that is accepted, in bytes, enforced by the engine.
    /// On a sending link the peer's is repeated. Default: absent, no limit.
    pub max_message_size: Option<u64>,
    /// On a sending link: messages are sent settled, whatever the peer asked for.
    pub sends_settled: bool,
    /// The offered-capabilities, absent if empty.
    pub offered_capabilities: Vec<Symbol>,
    /// The link's properties, if any.
    pub properties: Option<Fields>,
}

/// The fields of the answering attach that the engine adds.
#[derive(Clone, Debug)]
pub struct AttachFrame<'a> {
    /// The link's name.
    pub name: &'a str,
    /// The engine's handle.
    pub handle: u32,
    /// The engine's role.
    pub role: Role,
    /// Settle mode of the sender; absent as the peer had it.
    pub snd_settle_mode: Option<SenderSettleMode>,
    /// Settle mode of the receiver; absent as the peer had it.
    pub rcv_settle_mode: Option<ReceiverSettleMode>,
    /// The initial delivery-count, on a sending link.
    pub initial_delivery_count: Option<Serial>,
    /// How many of the answer's unsettled deliveries are written, the first ones.
    pub unsettled: usize,
    /// The fields of the peer's attach.
    pub peer: &'a AttachFields,
}

impl AttachFrame<'_> {
    /// Writes the attach that answers the peer's.
    pub fn write(&self, out: &mut Vec<u8>, answer: &AttachAnswer) -> Result<(), DecodeError> {
        wire::write_descriptor(out, codes::ATTACH);
        let compound = wire::begin_list(out);
        wire::write_string(out, self.name);
        wire::write_uint(out, self.handle);
        wire::write_bool(out, self.role == Role::Receiver);
        let mode = self.snd_settle_mode.as_ref().map(SenderSettleMode::code);
        write_or_null(out, mode, wire::write_ubyte);
        let mode = self.rcv_settle_mode.as_ref().map(ReceiverSettleMode::code);
        write_or_null(out, mode, wire::write_ubyte);
        match &answer.source {
            Terminus::Absent => wire::write_null(out),
            Terminus::Echo | Terminus::EchoIfAddressed => echo(out, &self.peer.source),
            Terminus::EchoWithOutcomes => {
                write_source_with_outcomes(out, &self.peer.source, None)?;
            }
            Terminus::EchoWithLifetime(lifetime) => {
                write_source_with_outcomes(out, &self.peer.source, Some(lifetime))?;
            }
            Terminus::Given(source) => composite::write(out, &**source),
        }
        match &answer.target {
            Terminus::Absent => wire::write_null(out),
            Terminus::EchoIfAddressed if !has_address(&self.peer.target) => wire::write_null(out),
            Terminus::Echo
            | Terminus::EchoWithOutcomes
            | Terminus::EchoWithLifetime(..)
            | Terminus::EchoIfAddressed => {
                echo(out, &self.peer.target);
            }
            Terminus::Given(target) => {
                target.write(out);
            }
        }
        let unsettled = answer.unsettled.get(..self.unsettled);
        write_unsettled(out, unsettled.unwrap_or_default());
        let is_incomplete = self.unsettled < answer.unsettled.len();
        write_or_null(out, is_incomplete.then_some(true), wire::write_bool);
        let count = self.initial_delivery_count.map(|count| count.0);
        write_or_null(out, count, wire::write_uint);
        write_or_null(out, answer.max_message_size, wire::write_ulong);
        let capabilities = symbols(&answer.offered_capabilities);
        write_or_null(out, capabilities.as_deref(), write_symbols);
        wire::write_null(out);
        write_or_null(out, answer.properties.as_ref(), write_fields);
        wire::end(out, compound, 14);
        Ok(())
    }
}

/// Whether an encoded terminus has an address.
fn has_address(encoded: &[u8]) -> bool {
    let described = Reader::new(encoded).described();
    let list = described.and_then(|mut described| described.value.list());
    list.and_then(|mut list| list.raw())
        .is_ok_and(|address| address.is_some())
}

fn echo(out: &mut Vec<u8>, encoded: &[u8]) {
    if encoded.is_empty() {
        wire::write_null(out);
    } else {
        out.extend_from_slice(encoded);
    }
}

/// The outcomes that every source of the broker supports. [AMQP 3.4]
const OUTCOMES: [&str; 4] = [
    "amqp:accepted:list",
    "amqp:rejected:list",
    "amqp:released:list",
    "amqp:modified:list",
];

/// Writes a source again, field by field, except default-outcome (8) and outcomes (9), and durable (1),
/// expiry-policy (2) and timeout (3) if they are given. [AMQP 3.5.3]
fn write_source_with_outcomes(
    out: &mut Vec<u8>,
    source: &[u8],
    lifetime: Option<&TerminusLifetime>,
) -> Result<(), DecodeError> {
    let mut described = Reader::new(source).described()?;
    let mut list = described.value.list()?;
    wire::write_descriptor(out, codes::SOURCE);
    let compound = wire::begin_list(out);
    for index in 0..8 {
        let given = list.raw()?.unwrap_or_default();
        match (index, lifetime) {
            (1, Some(kept)) => wire::write_uint(out, kept.durable),
            (2, Some(kept)) => wire::write_symbol(out, kept.expiry_policy),
            (3, Some(kept)) => wire::write_uint(out, kept.timeout_s),
            _ => echo(out, given),
        }
    }
    list.skip(1)?;
    super::DeliveryState::Released.write(out);
    if let Some(outcomes) = list.raw()? {
        out.extend_from_slice(outcomes);
    } else {
        let outcomes = OUTCOMES.map(Symbol::from);
        write_symbols(out, &outcomes);
    }
    let capabilities = list.raw()?;
    echo(out, capabilities.unwrap_or_default());
    wire::end(out, compound, 11);
    Ok(())
}
