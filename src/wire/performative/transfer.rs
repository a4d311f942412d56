//! Transfer. [AMQP 2.7.5]

use bytes::Bytes;

use super::{DeliveryState, DeliveryTag, ReceiverSettleMode, ResumePoint, codes};
use crate::base::Serial;
use crate::base::limits::DELIVERY_TAG_BYTES_MAX;
use crate::wire::fast_path::{FastFields, NotFast};
use crate::wire::frame::FRAME_HEADER_BYTES;
use crate::wire::{self, DecodeError, Fields, Reader};

/// One frame of a message. [AMQP 2.7.5]
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Transfer {
    /// The sender's handle of the link.
    pub handle: u32,
    /// Its delivery-id in the session; required in the first frame.
    pub delivery_id: Option<Serial>,
    /// Length of its delivery-tag in bytes; required in the first frame.
    pub tag_bytes: Option<usize>,
    /// Its delivery-tag; empty if there is none, or one that is too long. The engine uses delivery-ids
    /// instead, but on links that outlive their connection.
    pub tag: DeliveryTag,
    /// Format of the message; required in the first frame, 0 if it is not given.
    pub message_format: Option<u32>,
    /// Whether the sender wants no outcome; the first frame that says so counts.
    pub settled: Option<bool>,
    /// Whether more frames of the delivery follow.
    pub more: bool,
    /// Overrides the link's mode for this delivery.
    pub rcv_settle_mode: Option<ReceiverSettleMode>,
    /// Whether it resumes a delivery from before the link was attached. [AMQP 2.6.13]
    pub resume: bool,
    /// Where the message goes on with this transfer, if it is resumed and its state says so. [AMQP 3.4.1]
    pub resumes_at: Option<Box<ResumePoint>>,
    /// Whether the delivery is aborted; its payload is ignored.
    pub aborted: bool,
    /// The transaction that it is a part of, if its state says so. [AMQP 4.4.1]
    pub txn_id: Option<Box<[u8]>>,
}

/// The fields that nearly all transfers have, and no other.
#[derive(Clone, Copy, Debug)]
struct CommonFields<'a> {
    handle: u32,
    delivery_id: Option<Serial>,
    tag: Option<&'a [u8]>,
    message_format: Option<u32>,
    settled: Option<bool>,
    more: bool,
}

impl<'a> CommonFields<'a> {
    /// Reads a transfer with only the most common fields, in the form of the fast path.
    #[inline]
    fn read(mut list: FastFields<'a>) -> Result<Self, NotFast> {
        let common = Self {
            handle: list.uint()?.ok_or(NotFast)?,
            delivery_id: list.uint()?.map(Serial),
            tag: list.binary()?,
            message_format: list.uint()?,
            settled: list.bool()?,
            more: list.bool()?.unwrap_or(false),
        };
        list.is_done().then_some(common).ok_or(NotFast)
    }
}

impl From<CommonFields<'_>> for Transfer {
    fn from(common: CommonFields<'_>) -> Self {
        Self {
            handle: common.handle,
            delivery_id: common.delivery_id,
            tag_bytes: common.tag.map(<[u8]>::len),
            tag: common.tag.and_then(DeliveryTag::new).unwrap_or_default(),
            message_format: common.message_format,
            settled: common.settled,
            more: common.more,
            ..Self::default()
        }
    }
}

impl Transfer {
    /// Reads the fields of a transfer. Hints are skipped, and so are states, which are not
    /// negotiated in transfers, but for the transaction that one names, and where a resumed message goes on.
    pub(super) fn read(list: Fields<'_>) -> Result<Self, DecodeError> {
        match CommonFields::read(FastFields::new(list.rest(), list.left())) {
            Ok(common) => Ok(common.into()),
            Err(NotFast) => Self::general(list),
        }
    }

    fn general(mut list: Fields<'_>) -> Result<Self, DecodeError> {
        let handle = super::fields::required(list.uint()?, "handle of transfer")?;
        let delivery_id = list.uint()?.map(Serial);
        let tag = list.binary()?;
        let message_format = list.uint()?;
        let settled = list.bool()?;
        let more = list.bool()?.unwrap_or(false);
        let rcv_settle_mode = match list.ubyte()? {
            None => None,
            Some(0) => Some(ReceiverSettleMode::First),
            Some(1) => Some(ReceiverSettleMode::Second),
            Some(_) => {
                return Err(DecodeError::Invalid {
                    at: 0,
                    expected: "rcv-settle-mode of transfer",
                });
            }
        };
        let state = list.raw()?;
        let txn_id = match state {
            Some(state) => transaction_of(state)?,
            None => None,
        };
        let resume = list.bool()?.unwrap_or(false);
        let resumes_at = match state.filter(|_| resume) {
            Some(state) => point_of(state)?.map(Box::new),
            None => None,
        };
        let aborted = list.bool()?.unwrap_or(false);
        Ok(Self {
            handle,
            delivery_id,
            tag_bytes: tag.map(<[u8]>::len),
            tag: tag.and_then(DeliveryTag::new).unwrap_or_default(),
            message_format,
            settled,
            more,
            rcv_settle_mode,
            resume,
            resumes_at,
            aborted,
            txn_id,
        })
    }

    /// Appends its encoding. (The broker's transfers are written by [`write_transfer`]; this is for
    /// tests of the engine.)
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let optional = |out: &mut Vec<u8>, value: Option<u32>| match value {
            Some(value) => wire::write_uint(out, value),
            None => wire::write_null(out),
        };
        let flag = |out: &mut Vec<u8>, value: Option<bool>| match value {
            Some(value) => wire::write_bool(out, value),
            None => wire::write_null(out),
        };
        wire::write_descriptor(out, codes::TRANSFER);
        let compound = wire::begin_list(out);
        wire::write_uint(out, self.handle);
        optional(out, self.delivery_id.map(|id| id.0));
        match self.tag_bytes {
            None => wire::write_null(out),
            Some(bytes) if bytes == self.tag.as_slice().len() => {
                wire::write_binary(out, self.tag.as_slice());
            }
            Some(bytes) => wire::write_binary(out, &vec![0; bytes]),
        }
        optional(out, self.message_format);
        flag(out, self.settled);
        wire::write_bool(out, self.more);
        match self.rcv_settle_mode {
            None => wire::write_null(out),
            Some(ReceiverSettleMode::First) => wire::write_ubyte(out, 0),
            Some(ReceiverSettleMode::Second) => wire::write_ubyte(out, 1),
        }
        match (&self.txn_id, &self.resumes_at) {
            (None, None) => wire::write_null(out),
            (None, Some(point)) => DeliveryState::Received(**point).write(out),
            (Some(txn_id), _) => {
                let txn_id = Bytes::copy_from_slice(txn_id);
                let state = DeliveryState::Transactional {
                    txn_id,
                    outcome: None,
                };
                state.write(out);
            }
        }
        wire::write_bool(out, self.resume);
        wire::write_bool(out, self.aborted);
        wire::end(out, compound, 10);
    }
}

/// The id of the transaction that a transfer's state names; any other state is not looked at.
fn transaction_of(state: &[u8]) -> Result<Option<Box<[u8]>>, DecodeError> {
    let Ok(mut described) = Reader::new(state).described() else {
        return Ok(None);
    };
    if codes::number(described.descriptor) != codes::TRANSACTIONAL_STATE {
        return Ok(None);
    }
    let txn_id = described.value.list()?.binary()?;
    super::fields::required(txn_id, "txn-id of transfer").map(|id| Some(Box::from(id)))
}

/// The place that a transfer's state names; any other state is not looked at.
fn point_of(state: &[u8]) -> Result<Option<ResumePoint>, DecodeError> {
    let Ok(described) = Reader::new(state).described() else {
        return Ok(None);
    };
    if codes::number(described.descriptor) != codes::RECEIVED {
        return Ok(None);
    }
    match DeliveryState::read(described)? {
        DeliveryState::Received(point) => Ok(Some(point)),
        _ => Ok(None),
    }
}

/// A frame with a complete delivery and only the most common fields, in the most common encoding: a
/// size of one byte, only the performative in front of the payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WholeTransfer {
    /// The channel of the frame.
    pub channel: u16,
    /// The sender's handle of the link.
    pub handle: u32,
    /// Its delivery-id in the session.
    pub delivery_id: Serial,
    /// Format of the message.
    pub message_format: u32,
    /// Whether the sender wants no outcome.
    pub settled: bool,
    /// Offset of the payload in the frame, in bytes.
    pub payload: usize,
    /// Length of the frame, in bytes.
    pub size: usize,
}

impl WholeTransfer {
    /// Reads the frame at the front of `bytes`. None if it is incomplete, larger than `size_max`,
    /// or not such a frame: then it is read as any other is, and [`decode`](super::decode()) has
    /// the same result.
    #[inline(always)]
    #[allow(
        clippy::inline_always,
        reason = "nearly every transfer is such a frame"
    )]
    pub fn parse(bytes: &[u8], size_max: usize) -> Option<Self> {
        let &[
            s0,
            s1,
            s2,
            s3,
            2,
            0,
            c0,
            c1,
            0,
            0x53,
            code,
            0xc0,
            list,
            count,
        ] = bytes.first_chunk::<TRANSFER_HEAD_BYTES>()?
        else {
            return None;
        };
        let size = u32::from_be_bytes([s0, s1, s2, s3]) as usize;
        let payload = TRANSFER_HEAD_BYTES - 1 + usize::from(list);
        if code != TRANSFER_CODE || size > size_max.min(bytes.len()) || payload > size {
            return None;
        }
        let fields = bytes.get(TRANSFER_HEAD_BYTES..payload)?;
        let transfer = CommonFields::read(FastFields::new(fields, count.into())).ok()?;
        let has_tag = transfer
            .tag
            .is_some_and(|tag| tag.len() <= DELIVERY_TAG_BYTES_MAX);
        let delivery_id = transfer.delivery_id.filter(|_| !transfer.more && has_tag)?;
        Some(Self {
            channel: u16::from_be_bytes([c0, c1]),
            handle: transfer.handle,
            delivery_id,
            message_format: transfer.message_format.unwrap_or(0),
            settled: transfer.settled.unwrap_or(false),
            payload,
            size,
        })
    }
}

/// The fields of the first frame of a delivery. [AMQP 2.7.5]
#[derive(Clone, Copy, Debug)]
pub struct FirstTransfer {
    /// The engine's handle of the link.
    pub handle: u32,
    /// Its delivery-id in the session, which is its delivery-tag too unless it is settled.
    pub delivery_id: Serial,
    /// Format of the message.
    pub message_format: u32,
    /// Whether no outcome is wanted.
    pub settled: bool,
}

/// The delivery-tag of a delivery on a link that outlives its connection. [AMQP 2.6.13]
#[derive(Clone, PartialEq, Debug)]
pub struct ResumableTag {
    /// The tag, unique among the unsettled deliveries of the link.
    pub tag: DeliveryTag,
    /// The state of a delivery from before the link was attached, which this resumes; none: it is a new
    /// one.
    pub resumed: Option<DeliveryState>,
}

/// Bytes of a frame header and the output of [`write_transfer`], at most.
pub const TRANSFER_BYTES_MAX: usize = 48;

/// Bytes of frame header, descriptor, and the head of the list of fields.
const TRANSFER_HEAD_BYTES: usize = FRAME_HEADER_BYTES + 3 + 3;

/// Bytes of the most common frame header and performative: see [`FirstTransfer::fast_frame`].
const FAST_TRANSFER_BYTES: usize = TRANSFER_HEAD_BYTES + 14;

/// The descriptor's number, in one byte.
const TRANSFER_CODE: u8 = 0x14;
const _: () = assert!(TRANSFER_CODE as u64 == codes::TRANSFER);

impl FirstTransfer {
    /// Frame header and performative of the most common delivery: unsettled, in one frame, of
    /// format 0, on the first link, with a delivery-id of more than one byte.
    #[inline]
    fn fast_frame(
        &self,
        channel: u16,
        more: bool,
        payload_bytes: usize,
    ) -> Option<[u8; FAST_TRANSFER_BYTES]> {
        let is_fast = !more && !self.settled && self.message_format == 0 && self.handle == 0;
        if !is_fast || self.delivery_id.0 <= 0xff {
            return None;
        }
        let size = u32::try_from(FAST_TRANSFER_BYTES + payload_bytes).unwrap_or(u32::MAX);
        let [s0, s1, s2, s3] = size.to_be_bytes();
        let [c0, c1] = channel.to_be_bytes();
        let [i0, i1, i2, i3] = self.delivery_id.0.to_be_bytes();
        Some([
            s0,
            s1,
            s2,
            s3,
            2,
            0,
            c0,
            c1,
            0,
            0x53,
            TRANSFER_CODE,
            0xc0,
            15,
            5,
            0x43,
            0x70,
            i0,
            i1,
            i2,
            i3,
            0xa0,
            4,
            i0,
            i1,
            i2,
            i3,
            0x43,
            0x42,
        ])
    }
}

/// Bytes of a frame header and the output of [`write_tagged_transfer`], at most: states of a few bytes are
/// written.
pub const TAGGED_TRANSFER_BYTES_MAX: usize = 128;

/// Writes the frame header and the performative of the first frame of a delivery with a tag of its own,
/// whose payload of `payload_bytes` follows.
pub fn write_tagged_transfer(
    out: &mut Vec<u8>,
    channel: u16,
    (first, tag): (&FirstTransfer, &ResumableTag),
    more: bool,
    payload_bytes: usize,
) {
    let start = out.len();
    let [c0, c1] = channel.to_be_bytes();
    out.extend_from_slice(&[0, 0, 0, 0, 2, 0, c0, c1]);
    wire::write_descriptor(out, codes::TRANSFER);
    let compound = wire::begin_list(out);
    wire::write_uint(out, first.handle);
    wire::write_uint(out, first.delivery_id.0);
    wire::write_binary(out, tag.tag.as_slice());
    wire::write_uint(out, first.message_format);
    wire::write_bool(out, first.settled);
    wire::write_bool(out, more);
    let mut count = 6;
    if let Some(state) = &tag.resumed {
        wire::write_null(out);
        state.write(out);
        wire::write_bool(out, true);
        count = 9;
    }
    wire::end(out, compound, count);
    let head_bytes = out.len() - start;
    let size = u32::try_from(head_bytes + payload_bytes).unwrap_or(u32::MAX);
    if let Some(place) = out.get_mut(start..start + size_of::<u32>()) {
        place.copy_from_slice(&size.to_be_bytes());
    }
    debug_assert!(
        head_bytes <= TAGGED_TRANSFER_BYTES_MAX,
        "the constant covers every transfer with a tag"
    );
}

/// Bytes and number of the fields of a transfer: known before they are written, so that nothing has
/// to be patched.
fn transfer_fields(handle: u32, first: Option<&FirstTransfer>, more: bool) -> (u8, u8) {
    let handle_bytes = wire::uint_len(handle);
    match first {
        Some(first) => {
            let tag_bytes = if first.settled { 2 } else { 6 };
            let id_bytes = wire::uint_len(first.delivery_id.0);
            let rest_bytes = wire::uint_len(first.message_format) + 1 + u8::from(more);
            let field_bytes = handle_bytes + id_bytes + tag_bytes + rest_bytes;
            (field_bytes, 5 + u8::from(more))
        }
        None if more => (handle_bytes + 5, 6),
        None => (handle_bytes, 1),
    }
}

/// Writes the frame header and the performative of a frame whose payload of `payload_bytes` follows.
/// Without `first` it continues a delivery.
pub fn write_transfer(
    out: &mut Vec<u8>,
    channel: u16,
    handle: u32,
    first: Option<&FirstTransfer>,
    more: bool,
    payload_bytes: usize,
) {
    if let Some(first) = first
        && let Some(frame) = first.fast_frame(channel, more, payload_bytes)
    {
        out.extend_from_slice(&frame);
        return;
    }
    let start = out.len();
    let (field_bytes, count) = transfer_fields(handle, first, more);
    let size = TRANSFER_HEAD_BYTES + usize::from(field_bytes) + payload_bytes;
    let [s0, s1, s2, s3] = u32::try_from(size).unwrap_or(u32::MAX).to_be_bytes();
    let [c0, c1] = channel.to_be_bytes();
    // A list in its one-byte form: at most 40 bytes, so neither size nor count overflows.
    let list_bytes = 1 + field_bytes;
    let head: [u8; TRANSFER_HEAD_BYTES] = [
        s0,
        s1,
        s2,
        s3,
        2,
        0,
        c0,
        c1,
        0,
        0x53,
        TRANSFER_CODE,
        0xc0,
        list_bytes,
        count,
    ];
    out.extend_from_slice(&head);
    wire::write_uint(out, handle);
    if let Some(first) = first {
        wire::write_uint(out, first.delivery_id.0);
        let [i0, i1, i2, i3] = first.delivery_id.0.to_be_bytes();
        if first.settled {
            wire::write_binary(out, &[]);
        } else {
            out.extend_from_slice(&[0xa0, 4, i0, i1, i2, i3]);
        }
        wire::write_uint(out, first.message_format);
        wire::write_bool(out, first.settled);
    } else if more {
        out.extend_from_slice(&[0x40, 0x40, 0x40, 0x40]);
    }
    if more {
        wire::write_bool(out, true);
    }
    debug_assert_eq!(
        out.len() - start + payload_bytes,
        size,
        "the frame is as long as it says"
    );
    debug_assert!(
        out.len() - start <= TRANSFER_BYTES_MAX,
        "the constant covers every transfer"
    );
    debug_assert!(
        out.len() - start > FRAME_HEADER_BYTES,
        "a transfer follows its frame header"
    );
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::Reader;
    use crate::wire::frame::FrameHeader;
    use crate::wire::performative::{Performative, decode};

    fn transfer() -> impl Strategy<Value = Transfer> {
        let uint = || prop_oneof![Just(0), 1..300_u32, any::<u32>()];
        let id = proptest::option::of(uint());
        let format = proptest::option::of(uint());
        let flags = (any::<Option<bool>>(), any::<bool>());
        let tag = proptest::option::weighted(0.9, 0..36_usize);
        let link = (uint(), tag);
        (link, id, format, flags).prop_map(
            |((handle, tag_bytes), id, message_format, (settled, more))| Transfer {
                handle,
                delivery_id: id.map(Serial),
                tag_bytes,
                message_format,
                settled,
                more,
                ..Transfer::default()
            },
        )
    }

    /// The list of a transfer, shortened to so many fields.
    fn list(transfer: &Transfer, count: u8) -> Vec<u8> {
        let mut out = Vec::new();
        transfer.write(&mut out);
        out[5] = count;
        out
    }

    proptest! {
        #[test]
        fn a_frame_that_is_read_as_a_whole_delivery_says_the_same_as_when_it_is_decoded(
            transfer in transfer(), count in 0..=10_u8, at in 0..40_usize, byte: Option<u8>,
            cut in 0..3_usize,
        ) {
            let mut frame = vec![0, 0, 0, 0, 2, 0, 1, 2];
            frame.extend(list(&transfer, count));
            frame.extend_from_slice(b"payload");
            frame[3] = u8::try_from(frame.len()).unwrap();
            let has_tag = transfer.tag_bytes.is_some_and(|bytes| bytes <= 32);
            let is_fast = byte.is_none() && (3..=6).contains(&count) && cut == 0 && has_tag;
            if let (Some(changed), Some(byte)) = (frame.get_mut(at), byte) {
                *changed = byte;
            }
            frame.truncate(frame.len() - cut);
            let whole = WholeTransfer::parse(&frame, 100);
            if is_fast && transfer.delivery_id.is_some() && (count < 6 || !transfer.more) {
                prop_assert!(whole.is_some());
            }
            if let Some(whole) = whole {
                let header = FrameHeader::parse(&frame, 100).unwrap().unwrap();
                prop_assert_eq!((header.size, header.channel), (whole.size, whole.channel));
                let body = &frame[header.body..header.size];
                let (performative, used) = decode(body).unwrap();
                prop_assert_eq!(header.body + used, whole.payload);
                let Performative::Transfer(transfer) = performative else {
                    panic!("{performative:?}");
                };
                let expect = Transfer {
                    handle: whole.handle,
                    delivery_id: Some(whole.delivery_id),
                    tag_bytes: transfer.tag_bytes.filter(|bytes| *bytes <= 32),
                    tag: transfer.tag,
                    message_format: transfer.message_format,
                    settled: transfer.settled,
                    ..Transfer::default()
                };
                prop_assert_eq!(&transfer, &expect);
                prop_assert_eq!(transfer.message_format.unwrap_or(0), whole.message_format);
                prop_assert_eq!(transfer.settled.unwrap_or(false), whole.settled);
            }
        }

        #[test]
        fn what_the_fast_path_reads_is_what_the_general_way_reads(
            transfer in transfer(), count in 0..=10_u8, at in 6..30_usize, byte: Option<u8>,
        ) {
            let mut list = list(&transfer, count);
            if let (Some(changed), Some(byte)) = (list.get_mut(at), byte) {
                *changed = byte;
            }
            let fields = Reader::new(&list[3..]).list().unwrap();
            let fast_path = CommonFields::read(FastFields::new(fields.rest(), fields.left()));
            if byte.is_none() && (1..=6).contains(&count) {
                prop_assert!(fast_path.is_ok());
            }
            if let Ok(fast_path) = fast_path {
                prop_assert_eq!(Transfer::general(fields), Ok(fast_path.into()));
            }
        }
    }
}
