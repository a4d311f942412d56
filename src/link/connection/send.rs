//! Outgoing messages: encoded at once when small, otherwise frame by frame as the socket takes
//! them.

use std::collections::VecDeque;

use bytes::Bytes;

use super::{Connection, LinkContext, mark_dirty};
use crate::base::{invariant, uncount};
use crate::link::LinkHandle;
use crate::link::link::{Link, LinkState, QueuedMessage};
use crate::link::session::{SentDelivery, Session, goes_at_once};
use crate::wire::performative::{
    DeliveryState, FirstTransfer, ResumableTag, Role, SenderSettleMode, TRANSFER_BYTES_MAX,
    write_tagged_transfer, write_transfer,
};

/// A message to send: `prefix` and `bare` together are its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Sending<'a> {
    /// Returned in [`Event::Outcome`](crate::link::Event::Outcome) and
    /// [`Fates`](crate::link::Fates).
    pub token: u64,
    /// Whether to send it settled (always on a link with snd-settle-mode settled, never on one with
    /// unsettled).
    pub settled: bool,
    /// The message format, 0 for AMQP messages.
    pub message_format: u32,
    /// The sections made for this delivery: header and annotations.
    pub prefix: &'a [u8],
    /// The bare message, sent unchanged.
    pub bare: &'a [u8],
    /// Its delivery-tag on a link that outlives its connection; none: the engine chooses one.
    pub tag: Option<&'a ResumableTag>,
}

/// Why a message cannot be sent; it was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unsendable {
    /// The link is not attached, or is a receiving one.
    #[error("the link is not attached")]
    NotAttached,
    /// The receiver's credit is used up.
    #[error("the link has no credit")]
    NoCredit,
    /// The message is larger than the receiver's max-message-size, in bytes.
    #[error("the message is larger than the receiver's maximum of {max_bytes} bytes")]
    TooLarge {
        /// The receiver's max-message-size, in bytes.
        max_bytes: u64,
    },
}

impl Connection {
    /// Sends a message. A small one is copied into the output at once; `owner` is asked for the
    /// bare bytes of one that has to wait or takes many frames.
    pub fn send(
        &mut self,
        handle: LinkHandle,
        sending: Sending<'_>,
        owner: impl FnOnce() -> Bytes,
    ) -> Result<(), Unsendable> {
        let Some(LinkContext {
            session,
            output,
            ring,
            ..
        }) = self.find(handle)
        else {
            return Err(Unsendable::NotAttached);
        };
        let window_open = session.remote_incoming_window > 0;
        let Some(link) = session.link_mut(handle.handle) else {
            return Err(Unsendable::NotAttached);
        };
        let bytes = sending.prefix.len() + sending.bare.len();
        let settled = admit(link, &sending, bytes as u64)?;
        link.count_delivery();
        link.sender.taken += 1;
        let in_turn = link.sender.waiting.is_empty() && sending.tag.is_none();
        if window_open && in_turn && goes_at_once(bytes, output.frame_bytes_max) {
            session.taken += 1;
            let Sending {
                token,
                message_format,
                ..
            } = sending;
            let first = begin_delivery(session, handle.handle, token, message_format, settled);
            output.staged.reserve(TRANSFER_BYTES_MAX + bytes);
            write_transfer(
                &mut output.staged,
                session.channel,
                handle.handle,
                Some(&first),
                false,
                bytes,
            );
            output.staged.extend_from_slice(sending.prefix);
            output.staged.extend_from_slice(sending.bare);
            session.count_outgoing();
            self.counters.transfers_out += 1;
            return Ok(());
        }
        let waiting = QueuedMessage::new(&sending, settled, [owner()]);
        wait(session, handle, waiting, ring);
        output.waiting_bytes += bytes as u64;
        Ok(())
    }

    /// Appends one frame of the message whose turn it is to `out`; false if no link may send.
    pub(super) fn transmit_waiting(&mut self, out: &mut Vec<u8>) -> bool {
        let Some((channel, handle)) = self.ring.pop_front() else {
            return false;
        };
        let frame_bytes_max = self.output.frame_bytes_max;
        let session = self.sessions.get_mut(usize::from(channel));
        let Some(session) = session.and_then(Option::as_deref_mut) else {
            return true;
        };
        let window_open = session.remote_incoming_window > 0;
        let Some(link) = session.link_mut(handle) else {
            return true; // it went while it was in the ring
        };
        link.sender.in_ring = false;
        if !window_open {
            // The link is put back when the window opens.
            return true;
        }
        let Some(mut waiting) = link.sender.waiting.pop_front() else {
            return true;
        };
        let room = frame_bytes_max.saturating_sub(waiting.head_bytes_max());
        let left = waiting.bytes_left();
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(room);
        if count > waiting.bytes_here() {
            // The link is put back when the bytes are supplied.
            let asked = waiting.ask();
            link.sender.waiting.push_front(waiting);
            let handle = session.named_link(handle);
            self.wanting.extend(handle.zip(asked));
            return true;
        }
        let mut first = None;
        if waiting.delivery_id.is_none() {
            first = Some(begin_waiting(session, handle, &mut waiting));
            if waiting.is_released {
                mark_dirty(&mut self.dirty, session);
            }
        }
        let more = (count as u64) < left;
        match (&first, &waiting.tag) {
            (Some(first), Some(tag)) => {
                write_tagged_transfer(out, channel, (first, tag), more, count);
            }
            _ => write_transfer(out, channel, handle, first.as_ref(), more, count),
        }
        waiting.write(out, count);
        session.count_outgoing();
        let waiting_bytes = &mut self.output.waiting_bytes;
        uncount!(*waiting_bytes, count as u64, "what waited was counted");
        self.counters.transfers_out += 1;
        let Some(link) = session.link_mut(handle) else {
            invariant!(broken, "a link that sends is there");
            return true;
        };
        if more {
            link.sender.waiting.push_front(waiting);
        }
        if !link.sender.waiting.is_empty() {
            link.sender.in_ring = true;
            self.ring.push_back((channel, handle));
        }
        true
    }

    /// Puts the links of a session whose window opened back into the ring.
    pub(super) fn resume(&mut self, channel: u16) {
        let session = self.sessions.get_mut(usize::from(channel));
        let Some(session) = session.and_then(Option::as_deref_mut) else {
            return;
        };
        if session.remote_incoming_window == 0 {
            return;
        }
        let handles: Vec<u32> = session.handles().map(|(handle, _)| handle).collect();
        for handle in handles {
            let Some(link) = session.link_mut(handle) else {
                continue;
            };
            if !link.sender.waiting.is_empty() && !link.sender.in_ring {
                link.sender.in_ring = true;
                self.ring.push_back((channel, handle));
            }
        }
    }
}

/// Queues a message in its link.
pub(super) fn wait(
    session: &mut Session,
    handle: LinkHandle,
    waiting: QueuedMessage,
    ring: &mut VecDeque<(u16, u32)>,
) {
    let window_open = session.remote_incoming_window > 0;
    let channel = session.channel;
    session.taken += 1;
    session.waiting += 1;
    let Some(link) = session.link_mut(handle.handle) else {
        return invariant!(broken, "a link that takes a message is there");
    };
    link.sender.waiting.push_back(waiting);
    // With the window closed the link joins when it opens.
    let joins = window_open && !link.sender.in_ring;
    link.sender.in_ring |= joins;
    if joins {
        ring.push_back((channel, handle.handle));
    }
}

/// Whether a link can take a message now, and whether it is sent settled.
pub(super) fn admit(link: &Link, sending: &Sending<'_>, bytes: u64) -> Result<bool, Unsendable> {
    if link.state != LinkState::Attached || link.role != Role::Sender {
        return Err(Unsendable::NotAttached);
    }
    if link.credit == 0 {
        return Err(Unsendable::NoCredit);
    }
    let max_bytes = link.message_bytes_max;
    if max_bytes > 0 && bytes > max_bytes {
        return Err(Unsendable::TooLarge { max_bytes });
    }
    Ok(match link.snd_settle_mode {
        SenderSettleMode::Settled => true,
        SenderSettleMode::Unsettled => false,
        SenderSettleMode::Mixed => sending.settled,
    })
}

/// Begins a delivery that waited.
fn begin_waiting(session: &mut Session, handle: u32, waiting: &mut QueuedMessage) -> FirstTransfer {
    uncount!(session.waiting, 1, "what waited was counted");
    let QueuedMessage {
        token,
        message_format,
        settled,
        is_released,
        ..
    } = *waiting;
    let begun = begin_delivery(session, handle, token, message_format, settled);
    waiting.delivery_id = Some(begun.delivery_id);
    if is_released {
        let state = &DeliveryState::Released;
        session.queue_disposition(Role::Sender, begun.delivery_id, false, state);
    }
    begun
}

/// Assigns a delivery its id and adds it to the unsettled ones.
fn begin_delivery(
    session: &mut Session,
    handle: u32,
    token: u64,
    message_format: u32,
    settled: bool,
) -> FirstTransfer {
    let delivery_id = session.next_delivery_id;
    session.next_delivery_id = delivery_id.plus(1);
    if !settled {
        let sent = SentDelivery {
            handle,
            token,
            decided: false,
        };
        session.sent.push(delivery_id, sent);
    }
    FirstTransfer {
        handle,
        delivery_id,
        message_format,
        settled,
    }
}
