//! One link of a session.

use std::collections::VecDeque;

use bytes::Bytes;

use super::error::Violation;
use super::payload::{Gathered, Payload};
use super::{Expected, LinkHandle, Sending, TagsTold, Unfinished};
use crate::base::{Name, Serial, uncount};
use crate::wire::performative::{
    AttachFields, DeliveryTag, LinkFlow, ReceiverSettleMode, ResumableTag, ResumePoint, Role,
    SenderSettleMode, TAGGED_TRANSFER_BYTES_MAX, TRANSFER_BYTES_MAX, Transfer,
};

/// The state of a link at the engine's end. [AMQP 2.6.3, 2.6.4]
///
/// ```text
///  peer's attach --> Asked --accept--> Attached --peer's detach, answered--> (gone)
///                      |                  |
///                      '--refuse--> Detaching <-- our detach
///                                         '--peer's detach--> (gone)
///  our attach --> Asking --peer's attach--> Attached
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LinkState {
    /// The peer attached and waits for the owner's answer.
    Asked,
    /// The engine attached and waits for the peer's answer.
    Asking,
    /// Both ends have attached.
    Attached,
    /// The engine detached; frames of the peer are ignored until its detach.
    Detaching,
}

/// One link of a session.
#[derive(Debug)]
pub(super) struct Link {
    /// The link's name, shared with the owner.
    pub(super) name: Name,
    /// The engine's role.
    pub(super) role: Role,
    pub(super) state: LinkState,
    pub(super) generation: u32,
    /// The peer's handle; none before its attach.
    pub(super) handle_in: Option<u32>,
    pub(super) snd_settle_mode: SenderSettleMode,
    pub(super) rcv_settle_mode: ReceiverSettleMode,
    /// The exact fields of the peer's attach, until it is answered.
    pub(super) asked: Option<Box<AttachFields>>,
    /// Largest message, in bytes: the peer's limit where the engine sends, the engine's where it
    /// receives; 0: none.
    pub(super) message_bytes_max: u64,
    /// Deliveries of the link so far, as both ends count them. [AMQP 2.6.7]
    pub(super) delivery_count: Serial,
    /// Number of deliveries that may follow.
    pub(super) credit: u32,
    /// Credit that was withdrawn: the peer may have used it before it read the flow.
    pub(super) revoked: u32,
    /// Whether the receiver wants unused credit used up (drain).
    pub(super) drain: bool,
    /// Whether the next flow asks for an answer or reports a drain.
    pub(super) flow_due: bool,
    /// Where the engine receives: the incomplete delivery, if any.
    pub(super) partial: Option<Partial>,
    /// Where the engine receives: whether the link outlives its connection. Its deliveries are told with
    /// their tags.
    pub(super) is_resumable: bool,
    /// Where the engine receives: which other deliveries are told with their tags.
    pub(super) tags: TagsTold,
    /// Where the engine receives: the delivery that the peer may resume in the middle, if any.
    pub(super) expected: Option<Box<Expected>>,
    /// Whether the peer may only resume deliveries until it attaches again, since it was not told all
    /// that are unsettled. [AMQP 2.7.3]
    pub(super) only_resumes: bool,
    /// How the peer's closing detach is answered.
    pub(super) closing: Closing,
    /// The state that only a sending link has.
    pub(super) sender: Sender,
}

/// How a link answers that the peer closes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Closing {
    /// The engine does, at once.
    ByEngine,
    /// The engine does, when the owner says so.
    ByOwner,
    /// The peer closed it, and the owner has not answered yet.
    Owed,
}

/// The state of a link where the engine sends.
#[derive(Debug, Default)]
pub(super) struct Sender {
    /// Messages taken since the attach, drained credit included: the base of cumulative limits.
    pub(super) taken: u64,
    /// Messages that wait to be encoded; of the first some frames may be encoded.
    pub(super) waiting: VecDeque<QueuedMessage>,
    /// Whether the link is in the ring of those with messages to send.
    pub(super) in_ring: bool,
    /// How many messages wait for credit, as the next flow tells.
    pub(super) available: u32,
    /// A flow that arrived before the attach was answered.
    pub(super) early_flow: Option<(LinkFlow, bool)>,
}

/// An incomplete delivery. [AMQP 2.6.14]
#[derive(Debug)]
pub(super) struct Partial {
    pub(super) delivery_id: Serial,
    pub(super) message_format: u32,
    pub(super) settled: bool,
    pub(super) second: bool,
    pub(super) tag: DeliveryTag,
    /// Whether the sender resumes it: all that is kept is its state, so its payload is ignored. [AMQP
    /// 2.6.13, 2.7.5]
    pub(super) resumed: bool,
    /// Whether the sender resumes it in the middle: a part of it had arrived before the link was attached.
    pub(super) is_continued: bool,
    /// Whether only a part of what it resumes had arrived, and no more follows.
    pub(super) is_in_part: bool,
    /// Bytes that are still to come a second time.
    repeated_bytes: u64,
    gathered: Gathered,
    /// Payload bytes so far, those taken out included.
    pub(super) bytes: u64,
    /// Payload bytes that are not taken out.
    held_bytes: u64,
    /// Payload bytes so far when it was last reported.
    told_bytes: u64,
    /// Whether the owner wants it only when it is complete.
    is_kept: bool,
    /// The transaction that it is a part of: the first that one of its transfers names.
    pub(super) txn_id: Option<Box<[u8]>>,
}

/// A message that waits to be encoded frame by frame.
#[derive(Debug)]
pub(super) struct QueuedMessage {
    pub(super) token: u64,
    pub(super) settled: bool,
    pub(super) message_format: u32,
    /// Its delivery-tag, if the engine did not choose it.
    pub(super) tag: Option<Box<ResumableTag>>,
    /// Its bytes in memory that are not encoded, no part empty.
    parts: VecDeque<Bytes>,
    /// Number of bytes in `parts`.
    here_bytes: usize,
    /// Its delivery-id, once its first frame was encoded.
    pub(super) delivery_id: Option<Serial>,
    /// Whether the peer is told that it is released, once it has a delivery-id.
    pub(super) is_released: bool,
    /// The number by which further bytes are asked for, if they are not in memory.
    pub(super) stream: Option<u64>,
    /// Number of bytes that are still to be supplied.
    to_come: u64,
    /// Whether some of them were asked for.
    is_asked: bool,
}

impl Link {
    pub(super) fn new(name: Name, role: Role, state: LinkState, generation: u32) -> Self {
        Self {
            name,
            role,
            state,
            generation,
            handle_in: None,
            snd_settle_mode: SenderSettleMode::Mixed,
            rcv_settle_mode: ReceiverSettleMode::First,
            asked: None,
            message_bytes_max: 0,
            delivery_count: Serial(0),
            credit: 0,
            revoked: 0,
            drain: false,
            flow_due: false,
            partial: None,
            is_resumable: false,
            tags: TagsTold::None,
            expected: None,
            only_resumes: false,
            closing: Closing::ByEngine,
            sender: Sender::default(),
        }
    }

    /// Counts one delivery against the credit.
    #[inline]
    pub(super) fn count_delivery(&mut self) {
        self.delivery_count = self.delivery_count.plus(1);
        match self.credit.checked_sub(1) {
            Some(left) => self.credit = left,
            None => uncount!(
                self.revoked,
                1,
                "a delivery has credit, or had it before it was revoked"
            ),
        }
    }

    /// Applies the credit that a receiver gives. [AMQP 2.6.7]
    ///
    /// "link-credit_snd := delivery-count_rcv + link-credit_rcv - delivery-count_snd."
    pub(super) fn take_credit(&mut self, flow: &LinkFlow, initial: Serial) {
        let count = flow.delivery_count.unwrap_or(initial);
        // Signed: rhea counts from 0 whatever the initial-delivery-count is, so it may be ahead.
        let in_flight = self.delivery_count.distance_from(count).cast_signed();
        let credit = i64::from(flow.link_credit.unwrap_or(0)) - i64::from(in_flight);
        self.credit = u32::try_from(credit.max(0)).unwrap_or(u32::MAX);
        self.drain = flow.drain;
    }

    /// Messages that may be taken since the attach, as a cumulative number.
    pub(super) const fn limit(&self) -> u64 {
        self.sender.taken + self.credit as u64
    }

    /// The link's fields of a flow.
    pub(super) fn flow(&self, handle: u32) -> LinkFlow {
        let sends = self.role == Role::Sender;
        // A receiver that has not seen the sender's attach does not know the delivery-count.
        let knows_count = sends || self.state != LinkState::Asking;
        LinkFlow {
            handle,
            delivery_count: knows_count.then_some(self.delivery_count),
            link_credit: Some(self.credit),
            // Where the owner does not tell it is 0: without the field the recordings of RabbitMQ do not hold.
            available: sends.then_some(self.sender.available),
            drain: self.drain,
            acquires: false,
        }
    }

    /// The transaction of the message that has begun to arrive, if it is of one.
    pub(super) fn take_transaction(&mut self) -> Option<Box<[u8]>> {
        self.partial.as_mut()?.txn_id.take()
    }

    /// The delivery that has begun to arrive, if the sender may resume it.
    pub(super) fn take_unfinished(&mut self, handle: LinkHandle) -> Option<Unfinished> {
        let partial = self.partial.as_mut().filter(|_| self.is_resumable)?;
        partial.unfinished(handle)
    }

    /// Whether a delivery that begins is one that had begun before: how many bytes have arrived of it, and how
    /// many of them come again; none for others. [AMQP 2.6.13]
    pub(super) fn resumes(
        &self,
        transfer: &Transfer,
        payload: &[u8],
    ) -> Result<Option<(u64, u64)>, Violation> {
        let expected = self.expected.as_deref();
        let expected = expected.filter(|expected| transfer.resume && expected.tag == transfer.tag);
        let Some(expected) = expected.filter(|_| !is_state_only(transfer, payload)) else {
            return Ok(None);
        };
        let Expected { bytes, point, .. } = *expected;
        let again = match transfer.resumes_at.as_deref() {
            Some(at) if *at == ResumePoint::default() => bytes,
            Some(at) if at.section_number == point.section_number && at <= &point => {
                point.section_offset - at.section_offset
            }
            Some(at) => {
                return Err(Violation::ResumePoint {
                    section: at.section_number,
                    offset: at.section_offset,
                    arrived: bytes,
                    at_section: point.section_number,
                    at_offset: point.section_offset,
                });
            }
            None if expected.begins(transfer, payload) => bytes,
            None => 0,
        };
        Ok(Some((bytes, again)))
    }

    /// Drops the waiting messages of a link that ends: returns the tokens of those not begun, and
    /// the bytes not encoded.
    pub(super) fn clear(&mut self) -> (Vec<u64>, u64) {
        self.credit = 0;
        self.partial = None;
        self.expected = None;
        let waiting = std::mem::take(&mut self.sender.waiting);
        let bytes = waiting.iter().map(QueuedMessage::bytes_left).sum();
        let unsent = waiting
            .iter()
            .filter(|waiting| waiting.delivery_id.is_none());
        (unsent.map(|waiting| waiting.token).collect(), bytes)
    }
}

/// Whether a resumed delivery is sent for its state alone, as one that is whole at both ends. [AMQP 2.7.5]
fn is_state_only(transfer: &Transfer, payload: &[u8]) -> bool {
    let says_nothing = transfer.resumes_at.is_none() && payload.is_empty();
    transfer.resume && says_nothing && !transfer.more && !transfer.aborted
}

impl Expected {
    /// Whether a sender that does not say where it resumes begins anew: with the bytes that the message
    /// begins with.
    fn begins(&self, transfer: &Transfer, payload: &[u8]) -> bool {
        let compared = self.beginning.len().min(payload.len());
        let is_long = transfer.more || payload.len() as u64 >= self.bytes;
        is_long && compared > 0 && payload.get(..compared) == self.beginning.get(..compared)
    }
}

impl Partial {
    /// Estimated memory of a fragment without its bytes, in bytes.
    const PIECE_BYTES: u64 = 64;

    pub(super) fn new(transfer: &Transfer, delivery_id: Serial, second: bool) -> Self {
        Self {
            delivery_id,
            message_format: transfer.message_format.unwrap_or(0),
            settled: false,
            second,
            tag: transfer.tag,
            resumed: transfer.resume,
            is_continued: false,
            is_in_part: false,
            repeated_bytes: 0,
            gathered: Gathered::default(),
            bytes: 0,
            held_bytes: 0,
            told_bytes: 0,
            is_kept: false,
            txn_id: None,
        }
    }

    /// A delivery of which this many bytes have arrived before, of which some come again.
    pub(super) fn continued(self, bytes: u64, repeated_bytes: u64) -> Self {
        Self {
            resumed: false,
            is_continued: true,
            repeated_bytes,
            bytes,
            told_bytes: bytes,
            ..self
        }
    }

    /// What is new of a fragment.
    pub(super) fn new_bytes(&mut self, mut payload: Bytes) -> Bytes {
        if self.repeated_bytes > 0 {
            let repeated = self.repeated_bytes.min(payload.len() as u64);
            self.repeated_bytes -= repeated;
            drop(payload.split_to(usize::try_from(repeated).unwrap_or(payload.len())));
        }
        payload
    }

    /// Checks that a delivery that ends has more bytes than had arrived before.
    pub(super) const fn check_complete(&self) -> Result<(), Violation> {
        let bytes = self.repeated_bytes;
        if bytes > 0 {
            return Err(Violation::ResumedShort { bytes });
        }
        Ok(())
    }

    /// What has arrived of it if the sender may resume it: not if it is ignored, settled, or of a transaction.
    pub(super) fn unfinished(&mut self, link: LinkHandle) -> Option<Unfinished> {
        let is_plain = !self.settled && self.txn_id.is_none() && !self.tag.as_slice().is_empty();
        if self.resumed || !is_plain || self.bytes == 0 {
            return None;
        }
        self.gathered.seal();
        Some(Unfinished {
            link,
            tag: self.tag,
            rest: self.gathered.sealed().to_vec(),
        })
    }

    /// Adds a fragment, unless the delivery is ignored.
    pub(super) fn push(&mut self, payload: Bytes) {
        if self.resumed {
            return;
        }
        self.bytes += payload.len() as u64;
        self.held_bytes += payload.len() as u64;
        self.gathered.push(payload);
    }

    /// Bytes that it counts against the connection's budget.
    pub(super) fn cost(&self) -> u64 {
        self.held_bytes + self.gathered.pieces() as u64 * Self::PIECE_BYTES
    }

    /// Whether `part_bytes` more have arrived since it was last reported, so that it is to be
    /// reported again.
    pub(super) fn is_part(&mut self, part_bytes: u64) -> bool {
        let is_part = !self.is_kept && self.bytes - self.told_bytes >= part_bytes;
        if is_part {
            self.told_bytes = self.bytes;
            self.gathered.seal();
        }
        is_part
    }

    /// The fragments not taken out, as of the last report.
    pub(super) fn told(&self) -> &[Bytes] {
        self.gathered.sealed()
    }

    /// Takes the fragments out.
    pub(super) fn take(&mut self) -> Vec<Bytes> {
        self.held_bytes = 0;
        std::mem::take(&mut self.gathered).into_pieces()
    }

    /// Stops reporting it before it is complete.
    pub(super) const fn keep(&mut self) {
        self.is_kept = true;
    }

    /// The whole payload with its last fragment.
    pub(super) fn finish(self, last: Bytes) -> Payload {
        self.gathered.finish(last)
    }
}

impl QueuedMessage {
    /// A message whose bare bytes are in `bare`, in parts.
    pub(super) fn new(
        sending: &Sending<'_>,
        settled: bool,
        bare: impl IntoIterator<Item = Bytes>,
    ) -> Self {
        let prefix = Bytes::copy_from_slice(sending.prefix);
        let parts = std::iter::once(prefix).chain(bare);
        let parts: VecDeque<Bytes> = parts.filter(|part| !part.is_empty()).collect();
        Self {
            token: sending.token,
            settled,
            message_format: sending.message_format,
            tag: sending.tag.cloned().map(Box::new),
            here_bytes: parts.iter().map(Bytes::len).sum(),
            parts,
            delivery_id: None,
            is_released: false,
            stream: None,
            to_come: 0,
            is_asked: false,
        }
    }

    /// A message whose bare bytes, of this number, are supplied later.
    pub(super) fn streamed(
        sending: &Sending<'_>,
        settled: bool,
        (stream, bare_bytes): (u64, u64),
    ) -> Self {
        Self {
            stream: Some(stream),
            to_come: bare_bytes,
            ..Self::new(sending, settled, [])
        }
    }

    /// Bytes of its frames in front of the payload, at most.
    pub(super) const fn head_bytes_max(&self) -> usize {
        match self.tag {
            None => TRANSFER_BYTES_MAX,
            Some(_) => TAGGED_TRANSFER_BYTES_MAX,
        }
    }

    /// Number of bytes that are not encoded yet.
    pub(super) fn bytes_left(&self) -> u64 {
        self.bytes_here() as u64 + self.to_come
    }

    /// Number of bytes not encoded yet that are in memory.
    pub(super) const fn bytes_here(&self) -> usize {
        self.here_bytes
    }

    /// Notes that more of its bytes are needed; returns the number to ask for them by, unless that
    /// was done.
    pub(super) fn ask(&mut self) -> Option<u64> {
        self.stream
            .filter(|_| !std::mem::replace(&mut self.is_asked, true))
    }

    /// Adds more of its bytes, at least one.
    pub(super) fn supply(&mut self, bytes: Bytes) {
        self.is_asked = false;
        uncount!(
            self.to_come,
            bytes.len() as u64,
            "bytes that are supplied were to come"
        );
        self.here_bytes += bytes.len();
        self.parts.push_back(bytes);
    }

    /// Appends the next `count` bytes to `out`, as far as they are in memory.
    pub(super) fn write(&mut self, out: &mut Vec<u8>, mut count: usize) {
        while count > 0
            && let Some(mut part) = self.parts.pop_front()
        {
            let taken = part.split_to(count.min(part.len()));
            out.extend_from_slice(&taken);
            count -= taken.len();
            self.here_bytes -= taken.len();
            if !part.is_empty() {
                self.parts.push_front(part);
            }
        }
    }
}
