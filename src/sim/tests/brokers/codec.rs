//! Frames of the simulated clients: written and read field by field, without the broker's types for
//! performatives.

use bytes::{Bytes, BytesMut};

use super::client::{Role, Subscribed};
use super::payload::URGENT_ABOVE;
use super::points::{end_of, received, received_up_to};
use super::resuming::{Recovery, tag_of};
use crate::wire::frame::{FrameHeader, FrameKind, begin_frame, end_frame};
use crate::wire::{self, Descriptor, Fields, Reader};

/// What a delivery came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    Accepted,
    Released,
    Rejected,
    Modified { failed: bool, here: bool },
}

/// A state of a delivery that the broker tells.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum State {
    Outcome(Outcome),
    /// A transaction with this id.
    Declared(Vec<u8>),
    /// In a transaction.
    Provisional,
}

/// How a delivery is sent.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Sent<'a> {
    pub(super) settled: bool,
    pub(super) resume: bool,
    /// Where it goes on, if it says so: section and offset.
    pub(super) at: Option<(u32, u64)>,
    /// In this transaction.
    pub(super) transaction: Option<&'a [u8]>,
}

/// A transfer of the broker.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) handle: u32,
    pub(super) id: Option<u32>,
    pub(super) tag: Vec<u8>,
    pub(super) settled: bool,
    pub(super) resumed: bool,
    /// Where it goes on, if it says so: section and offset.
    pub(super) at: Option<(u32, u64)>,
    pub(super) more: bool,
    pub(super) payload: Vec<u8>,
}

/// An attach of the broker.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) name: String,
    pub(super) handle: u32,
    /// The broker's end receives.
    pub(super) receives: bool,
    /// It has no terminus for the client's end.
    pub(super) is_refused: bool,
    /// How long it is kept after its connection.
    pub(super) timeout_s: Option<u32>,
    /// It outlives the broker, too.
    pub(super) durable: bool,
    /// The delivery-tags of its map.
    pub(super) unsettled: Vec<Vec<u8>>,
    /// Of those that have arrived in part: tag, section and offset where they go on.
    pub(super) begun: Vec<(Vec<u8>, u32, u64)>,
    pub(super) is_incomplete: bool,
    pub(super) count: Option<u32>,
}

/// An attach of a client.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attaching<'a> {
    pub(super) name: &'a str,
    pub(super) handle: u32,
    pub(super) role: &'a Role,
    pub(super) address: &'a str,
    pub(super) settled: bool,
    /// It is to outlive its connection.
    pub(super) recovery: Option<&'a Recovery>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct FlowState {
    pub(super) next_incoming: Option<u32>,
    pub(super) window: u32,
    /// Handle, delivery-count, credit.
    pub(super) link: Option<(u32, Option<u32>, Option<u32>)>,
}

/// A frame of the broker.
#[derive(Debug)]
pub(super) enum Frame {
    Mechanisms,
    SaslOutcome(u8),
    Heartbeat,
    Open,
    Begin {
        next: u32,
        window: u32,
    },
    Attach(Answered),
    Flow(FlowState),
    Transfer(Incoming),
    Disposition {
        by_receiver: bool,
        ids: (u32, u32),
        settled: bool,
        state: Option<State>,
    },
    Detach {
        handle: u32,
        /// Why, if there was an error.
        condition: Option<String>,
    },
    End,
    Close,
}

fn write(
    out: &mut Vec<u8>,
    kind: FrameKind,
    code: u64,
    fields: impl FnOnce(&mut Vec<u8>) -> usize,
) {
    let frame_start = begin_frame(out, kind, 0);
    list(out, code, fields);
    end_frame(out, frame_start);
}

pub(super) fn list(out: &mut Vec<u8>, code: u64, fields: impl FnOnce(&mut Vec<u8>) -> usize) {
    wire::write_descriptor(out, code);
    let list = wire::begin_list(out);
    let count = fields(out);
    wire::end(out, list, count);
}

pub(super) fn sasl_init(out: &mut Vec<u8>, plain: bool) {
    write(out, FrameKind::Sasl, 0x41, |out| {
        let (mechanism, response): (_, &[u8]) = if plain {
            ("PLAIN", b"\0guest\0guest")
        } else {
            ("ANONYMOUS", b"")
        };
        wire::write_symbol(out, mechanism);
        wire::write_binary(out, response);
        2
    });
}

pub(super) fn open(out: &mut Vec<u8>, container: &str, frame_bytes: usize) {
    write(out, FrameKind::Amqp, 0x10, |out| {
        wire::write_string(out, container);
        wire::write_null(out);
        wire::write_uint(out, u32::try_from(frame_bytes).unwrap());
        3
    });
}

pub(super) fn begin(out: &mut Vec<u8>, window: u32) {
    write(out, FrameKind::Amqp, 0x11, |out| {
        wire::write_null(out);
        wire::write_uint(out, 0);
        wire::write_uint(out, window);
        wire::write_uint(out, 1000);
        4
    });
}

pub(super) fn end(out: &mut Vec<u8>) {
    write(out, FrameKind::Amqp, 0x17, |_| 0);
}

pub(super) fn close(out: &mut Vec<u8>) {
    write(out, FrameKind::Amqp, 0x18, |_| 0);
}

/// An attach: of a publisher to an address, of a consumer from one, whose deliveries are `settled` or
/// confirmed in a second step; of one half of a pair.
pub(super) fn attach(out: &mut Vec<u8>, attaching: &Attaching<'_>) {
    let Attaching {
        name,
        handle,
        role,
        settled,
        recovery,
        ..
    } = *attaching;
    let consumes = !role.sends();
    let is_half = matches!(role, Role::Requests | Role::Answers);
    let second = matches!(role, Role::Consumer { second: true, .. });
    write(out, FrameKind::Amqp, 0x12, |out| {
        wire::write_string(out, name);
        wire::write_uint(out, handle);
        wire::write_bool(out, consumes);
        wire::write_ubyte(
            out,
            if consumes || is_half {
                u8::from(settled)
            } else {
                2
            },
        );
        wire::write_ubyte(out, u8::from(second || recovery.is_some() && !consumes));
        write_terminus(out, 0x28, attaching, consumes);
        if *role == Role::Coordinator {
            list(out, 0x30, |_| 0);
        } else {
            write_terminus(out, 0x29, attaching, !consumes);
        }
        if let Some(recovery) = recovery {
            write_unsettled(out, recovery);
        } else {
            wire::write_null(out);
            wire::write_null(out);
        }
        if consumes && !is_half {
            return 9;
        }
        wire::write_uint(out, 0);
        if !is_half {
            return 10;
        }
        (0..3).for_each(|_| wire::write_null(out));
        let map = wire::begin_map(out);
        wire::write_symbol(out, "paired");
        wire::write_bool(out, true);
        wire::end(out, map, 2);
        14
    });
}

/// A source or target: the client's own end has no address.
fn write_terminus(out: &mut Vec<u8>, code: u64, attaching: &Attaching<'_>, is_named: bool) {
    list(out, code, |out| {
        if !is_named {
            return 0;
        }
        wire::write_string(out, attaching.address);
        if let Role::Consumer {
            subscribed: Some(subscribed),
            selects,
            ..
        } = attaching.role
        {
            return write_subscription(out, *subscribed, *selects);
        }
        if matches!(attaching.role, Role::Consumer { browses: true, .. }) {
            (0..5).for_each(|_| wire::write_null(out));
            wire::write_symbol(out, "copy");
            return 7;
        }
        let selects = matches!(attaching.role, Role::Consumer { selects: true, .. });
        if let Some(recovery) = attaching.recovery {
            wire::write_uint(out, if recovery.durable { 2 } else { 0 });
            wire::write_symbol(out, "connection-close");
            wire::write_uint(out, recovery.timeout_s);
        } else if selects {
            (0..3).for_each(|_| wire::write_null(out));
        } else {
            return 1;
        }
        if !selects {
            return 4;
        }
        (0..3).for_each(|_| wire::write_null(out));
        write_selector(out);
        8
    });
}

fn write_selector(out: &mut Vec<u8>) {
    let map = wire::begin_map(out);
    wire::write_symbol(out, "urgent");
    wire::write_descriptor(out, SELECTOR_FILTER);
    wire::write_string(out, &format!("JMSPriority > {URGENT_ABOVE}"));
    wire::end(out, map, 2);
}

/// What follows the address of a subscription; the number of fields.
fn write_subscription(out: &mut Vec<u8>, subscribed: Subscribed, selects: bool) -> usize {
    if subscribed.is_durable() {
        wire::write_uint(out, 2);
        wire::write_symbol(out, "never");
    } else {
        wire::write_uint(out, 0);
        wire::write_symbol(out, "link-detach");
    }
    (0..4).for_each(|_| wire::write_null(out));
    if selects {
        write_selector(out);
    } else {
        wire::write_null(out);
    }
    (0..2).for_each(|_| wire::write_null(out));
    if subscribed.is_shared() {
        wire::write_symbol(out, "shared");
    } else {
        wire::write_null(out);
    }
    11
}

/// The descriptor of a selector. [Apache's registry of filters]
const SELECTOR_FILTER: u64 = 0x0000_468c_0000_0004;

/// The map of what is not settled, every other one if that is to be incomplete.
fn write_unsettled(out: &mut Vec<u8>, recovery: &Recovery) {
    let every = if recovery.is_incomplete { 2 } else { 1 };
    let map = wire::begin_map(out);
    let mut count = 0;
    for (message, open) in recovery.open.iter().step_by(every) {
        wire::write_binary(out, &tag_of(*message));
        if open.told {
            list(out, 0x24, |_| 0);
        } else {
            wire::write_null(out);
        }
        count += 2;
    }
    if let Some((tag, payload)) = &recovery.begun {
        let (section, offset) = end_of(payload);
        wire::write_binary(out, tag);
        received(out, (section, offset));
        count += 2;
    }
    let begun = recovery.begun.as_ref().map(|(tag, _)| tag);
    let held = recovery.held.iter().step_by(every);
    for (tag, held) in held.filter(|(tag, _)| Some(*tag) != begun) {
        wire::write_binary(out, tag);
        match &held.outcome {
            Some(outcome) => write_outcome(out, outcome),
            None => wire::write_null(out),
        }
        count += 2;
    }
    wire::end(out, map, count);
    wire::write_bool(out, recovery.is_incomplete);
}

pub(super) fn detach(out: &mut Vec<u8>, handle: u32, closed: bool) {
    write(out, FrameKind::Amqp, 0x16, |out| {
        wire::write_uint(out, handle);
        wire::write_bool(out, closed);
        2
    });
}

/// A flow: next-incoming-id and next-outgoing-id, the window; of a link its handle, delivery-count,
/// credit, and whether it drains.
pub(super) fn flow(
    out: &mut Vec<u8>,
    (incoming, outgoing): (u32, u32),
    window: u32,
    link: Option<(u32, u32, u32, bool)>,
) {
    write(out, FrameKind::Amqp, 0x13, |out| {
        wire::write_uint(out, incoming);
        wire::write_uint(out, window);
        wire::write_uint(out, outgoing);
        wire::write_uint(out, 1000);
        let Some((handle, count, credit, drain)) = link else {
            return 4;
        };
        wire::write_uint(out, handle);
        wire::write_uint(out, count);
        wire::write_uint(out, credit);
        wire::write_null(out);
        wire::write_bool(out, drain);
        9
    });
}

/// What a frame may have in front of its payload, in bytes.
const FRONT_BYTES: usize = 60;

/// Frames of a message of so many bytes.
pub(super) fn frames_of(bytes: usize, frame_bytes: usize) -> usize {
    bytes.div_ceil(frame_bytes - FRONT_BYTES).max(1)
}

/// Writes a delivery in as many frames as it takes, and tells how many.
pub(super) fn transfer(
    out: &mut Vec<u8>,
    (handle, id, tag): (u32, u32, &[u8]),
    payload: &[u8],
    sent: &Sent<'_>,
    frame_bytes: usize,
) -> u32 {
    let mut chunks: Vec<&[u8]> = payload.chunks(frame_bytes - FRONT_BYTES).collect();
    if chunks.is_empty() {
        chunks.push(&[]);
    }
    for (number, chunk) in chunks.iter().enumerate() {
        let frame_start = begin_frame(out, FrameKind::Amqp, 0);
        list(out, 0x14, |out| {
            wire::write_uint(out, handle);
            if number == 0 {
                wire::write_uint(out, id);
                wire::write_binary(out, tag);
                wire::write_uint(out, 0);
                wire::write_bool(out, sent.settled);
            } else {
                (0..4).for_each(|_| wire::write_null(out));
            }
            wire::write_bool(out, number + 1 < chunks.len());
            if !sent.resume && sent.transaction.is_none() {
                return 6;
            }
            wire::write_null(out);
            match (sent.transaction, sent.at) {
                (Some(id), _) => in_transaction(out, id, None),
                (None, Some(at)) if number == 0 => received(out, at),
                (None, _) => wire::write_null(out),
            }
            wire::write_bool(out, sent.resume);
            9
        });
        out.extend_from_slice(chunk);
        end_frame(out, frame_start);
    }
    u32::try_from(chunks.len()).unwrap()
}

pub(super) fn disposition(
    out: &mut Vec<u8>,
    (first, last): (u32, u32),
    outcome: &Outcome,
    settled: bool,
) {
    write(out, FrameKind::Amqp, 0x15, |out| {
        wire::write_bool(out, true);
        wire::write_uint(out, first);
        wire::write_uint(out, last);
        wire::write_bool(out, settled);
        write_outcome(out, outcome);
        5
    });
}

/// A consumer settles deliveries in a transaction.
pub(super) fn disposition_in(
    out: &mut Vec<u8>,
    (first, last): (u32, u32),
    outcome: &Outcome,
    transaction: &[u8],
) {
    write(out, FrameKind::Amqp, 0x15, |out| {
        wire::write_bool(out, true);
        wire::write_uint(out, first);
        wire::write_uint(out, last);
        wire::write_bool(out, true);
        in_transaction(out, transaction, Some(outcome));
        5
    });
}

fn in_transaction(out: &mut Vec<u8>, id: &[u8], outcome: Option<&Outcome>) {
    list(out, 0x34, |out| {
        wire::write_binary(out, id);
        let Some(outcome) = outcome else { return 1 };
        write_outcome(out, outcome);
        2
    });
}

/// The message that declares a transaction.
pub(super) fn declare() -> Vec<u8> {
    let mut out = Vec::new();
    wire::write_descriptor(&mut out, 0x77);
    list(&mut out, 0x31, |_| 0);
    out
}

/// The message that discharges one.
pub(super) fn discharge(id: &[u8], fails: bool) -> Vec<u8> {
    let mut out = Vec::new();
    wire::write_descriptor(&mut out, 0x77);
    list(&mut out, 0x32, |out| {
        wire::write_binary(out, id);
        wire::write_bool(out, fails);
        2
    });
    out
}

fn write_outcome(out: &mut Vec<u8>, outcome: &Outcome) {
    match outcome {
        Outcome::Accepted => list(out, 0x24, |_| 0),
        Outcome::Released => list(out, 0x26, |_| 0),
        Outcome::Rejected => list(out, 0x25, |out| {
            list(out, 0x1d, |out| {
                wire::write_symbol(out, "sim:refused");
                wire::write_string(out, "the simulated consumer does not want it");
                2
            });
            1
        }),
        Outcome::Modified { failed, here } => list(out, 0x27, |out| {
            wire::write_bool(out, *failed);
            wire::write_bool(out, *here);
            2
        }),
    }
}

/// A publisher settles a delivery whose outcome it was told.
pub(super) fn settle_sent(out: &mut Vec<u8>, id: u32) {
    write(out, FrameKind::Amqp, 0x15, |out| {
        wire::write_bool(out, false);
        wire::write_uint(out, id);
        wire::write_null(out);
        wire::write_bool(out, true);
        4
    });
}

/// The next whole frame.
pub(super) fn next_frame(
    input: &mut BytesMut,
    frame_bytes: usize,
) -> Result<Option<Frame>, String> {
    let header = FrameHeader::parse(input, frame_bytes).map_err(|error| error.to_string())?;
    let Some(header) = header.filter(|header| header.size <= input.len()) else {
        return Ok(None);
    };
    let frame = input.split_to(header.size).freeze();
    if header.channel != 0 {
        return Err(format!("a frame on channel {}", header.channel));
    }
    let body = frame.slice(header.body..);
    if body.is_empty() {
        return Ok(Some(Frame::Heartbeat));
    }
    read(&body)
        .map(Some)
        .map_err(|error| format!("{error} in {body:?}"))
}

fn read(body: &Bytes) -> Result<Frame, wire::DecodeError> {
    let mut reader = Reader::new(body);
    let mut described = reader.described()?;
    let payload = reader.rest().to_vec();
    let Descriptor::Code(code) = described.descriptor else {
        panic!("a descriptor by name: {body:?}");
    };
    let mut list = described.value.list()?;
    Ok(match code {
        0x40 => Frame::Mechanisms,
        0x44 => Frame::SaslOutcome(list.ubyte()?.unwrap_or(u8::MAX)),
        0x10 => Frame::Open,
        0x11 => {
            list.skip(1)?;
            let next = list.uint()?.unwrap_or_default();
            let window = list.uint()?.unwrap_or_default();
            Frame::Begin { next, window }
        }
        0x12 => attach_of(&mut list)?,
        0x13 => {
            let next_incoming = list.uint()?;
            let window = list.uint()?.unwrap_or_default();
            list.skip(2)?;
            let handle = list.uint()?;
            let (count, credit) = (list.uint()?, list.uint()?);
            Frame::Flow(FlowState {
                next_incoming,
                window,
                link: handle.map(|handle| (handle, count, credit)),
            })
        }
        0x14 => transfer_of(&mut list, payload)?,
        0x15 => disposition_of(&mut list)?,
        0x16 => {
            let handle = list.uint()?.unwrap_or_default();
            list.skip(1)?;
            let condition = match list.raw()? {
                Some(error) => {
                    let mut fields = Reader::new(error).described()?.value.list()?;
                    fields.symbol()?.map(str::to_owned)
                }
                None => None,
            };
            Frame::Detach { handle, condition }
        }
        0x17 => Frame::End,
        0x18 => Frame::Close,
        code => panic!("a frame 0x{code:02x}"),
    })
}

fn attach_of(list: &mut Fields<'_>) -> Result<Frame, wire::DecodeError> {
    let name = list.string()?.unwrap_or_default().to_owned();
    let handle = list.uint()?.unwrap_or_default();
    let receives = list.bool()?.unwrap_or_default();
    list.skip(2)?;
    let (source, target) = (list.described()?, list.described()?);
    let terminus = if receives { target } else { source };
    let (is_refused, mut timeout_s, mut durable) = (terminus.is_none(), None, false);
    if let Some(mut terminus) = terminus {
        let mut fields = terminus.value.list()?;
        fields.skip(1)?;
        durable = fields.uint()?.is_some_and(|durable| durable > 0);
        fields.skip(1)?;
        timeout_s = fields.uint()?;
    }
    let (mut unsettled, mut begun) = (Vec::new(), Vec::new());
    if let Some(map) = list.raw()? {
        for pair in Reader::new(map).map()? {
            let pair = pair?;
            let tag = Reader::new(pair.key).binary()?.to_vec();
            let at = received_up_to(pair.value)?;
            begun.extend(at.map(|(section, offset)| (tag.clone(), section, offset)));
            unsettled.push(tag);
        }
    }
    Ok(Frame::Attach(Answered {
        name,
        handle,
        receives,
        is_refused,
        timeout_s,
        durable,
        unsettled,
        begun,
        is_incomplete: list.bool()?.unwrap_or_default(),
        count: list.uint()?,
    }))
}

fn transfer_of(list: &mut Fields<'_>, payload: Vec<u8>) -> Result<Frame, wire::DecodeError> {
    let handle = list.uint()?.unwrap_or_default();
    let id = list.uint()?;
    let tag = list.binary()?.unwrap_or_default().to_vec();
    list.skip(1)?;
    let settled = list.bool()?.unwrap_or_default();
    let more = list.bool()?.unwrap_or_default();
    list.skip(1)?;
    let at = match list.raw()? {
        Some(state) => received_up_to(state)?,
        None => None,
    };
    let resumed = list.bool()?.unwrap_or_default();
    Ok(Frame::Transfer(Incoming {
        handle,
        id,
        tag,
        settled,
        resumed,
        at,
        more,
        payload,
    }))
}

fn disposition_of(list: &mut Fields<'_>) -> Result<Frame, wire::DecodeError> {
    let by_receiver = list.bool()?.unwrap_or_default();
    let first = list.uint()?.unwrap_or_default();
    let last = list.uint()?.unwrap_or(first);
    let settled = list.bool()?.unwrap_or_default();
    let state = match list.described()? {
        None => None,
        Some(mut state) => Some(match state.descriptor {
            Descriptor::Code(0x24) => State::Outcome(Outcome::Accepted),
            Descriptor::Code(0x25) => State::Outcome(Outcome::Rejected),
            Descriptor::Code(0x26) => State::Outcome(Outcome::Released),
            Descriptor::Code(0x33) => {
                let id = state.value.list()?.binary()?.unwrap_or_default();
                State::Declared(id.to_vec())
            }
            Descriptor::Code(0x34) => State::Provisional,
            Descriptor::Code(0x27) => {
                let mut fields = state.value.list()?;
                State::Outcome(Outcome::Modified {
                    failed: fields.bool()?.unwrap_or_default(),
                    here: fields.bool()?.unwrap_or_default(),
                })
            }
            other => panic!("a state {other:?}"),
        }),
    };
    Ok(Frame::Disposition {
        by_receiver,
        ids: (first, last),
        settled,
        state,
    })
}

/// A request to the management node, with a body if it declares a queue.
pub(super) fn request(id: u64, method: &str, path: &str) -> Vec<u8> {
    let mut out = Vec::new();
    list(&mut out, 0x73, |out| {
        wire::write_ulong(out, id);
        wire::write_null(out);
        wire::write_string(out, path);
        wire::write_string(out, method);
        wire::write_string(out, "$me");
        5
    });
    wire::write_descriptor(&mut out, 0x77);
    if method == "PUT" {
        let map = wire::begin_map(&mut out);
        wire::write_string(&mut out, "durable");
        wire::write_bool(&mut out, true);
        wire::end(&mut out, map, 2);
    } else {
        wire::write_null(&mut out);
    }
    out
}

/// The request that an answer is for, and its status.
pub(super) fn read_answer(payload: &[u8]) -> Result<(u64, String), String> {
    let text = |error: wire::DecodeError| format!("{error} in an answer");
    let mut described = Reader::new(payload).described().map_err(text)?;
    if described.descriptor != Descriptor::Code(0x73) {
        return Err("an answer without properties".to_owned());
    }
    let mut fields = described.value.list().map_err(text)?;
    fields.skip(3).map_err(text)?;
    let status = fields
        .string()
        .map_err(text)?
        .unwrap_or_default()
        .to_owned();
    fields.skip(1).map_err(text)?;
    let id = fields.ulong().map_err(text)?;
    Ok((id.ok_or("an answer to nothing")?, status))
}
