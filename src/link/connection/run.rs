//! Incoming transfers in runs: complete deliveries of one link, one behind the other. [AMQP 2.6.12]

use bytes::{Buf, BytesMut};

use super::handshake::Phase;
use super::{Connection, mark_dirty};
use crate::base::limits;
use crate::link::link::LinkState;
use crate::link::receiving::Receiving;
use crate::link::session::{Session, SessionState};
use crate::link::{Event, LinkHandle, Payload, trace};
use crate::wire::performative::{Role, WholeTransfer};

/// A link on which complete deliveries arrive.
struct Run<'a> {
    receiving: Receiving<'a>,
    /// Whether it takes messages that were sent unsettled, and settled ones.
    takes: [bool; 2],
    /// Number of transfer frames that the peer may still send.
    window: u32,
    /// Number of frames taken.
    frames: u32,
}

impl Connection {
    /// Takes the deliveries at the front of `input` as long as they are complete, small, on one
    /// link, and valid; false if there is none. Everything else is read frame by frame, with the
    /// same effect for such deliveries.
    pub(super) fn receive_run(&mut self, input: &mut BytesMut) -> bool {
        let size_max = self.options.max_frame_size as usize;
        let first = WholeTransfer::parse(input, size_max).filter(|_| self.phase == Phase::Open);
        let Some(first) = first else { return false };
        let channel = self.channels_in.get(usize::from(first.channel));
        let channel = channel.copied().flatten();
        let session = channel.and_then(|channel| self.sessions.get_mut(usize::from(channel)));
        let Some(session) = session.and_then(Option::as_deref_mut) else {
            return false;
        };
        let Some((named, mut run)) = Run::begin(session, first.handle) else {
            return false;
        };
        let mut taken = 0;
        let mut next = Some(first);
        while let Some(transfer) = next
            && let Some(frame) = input.get(taken..taken + transfer.size)
            && let Some(payload) = frame.get(transfer.payload..)
            && run.take(&transfer, payload.len())
        {
            trace::received(frame);
            taken += transfer.size;
            self.events.push_back(Event::Delivery {
                link: named,
                delivery_id: transfer.delivery_id,
                settled: transfer.settled,
                message_format: transfer.message_format,
                payload: Payload::Whole(Box::<[u8]>::from(payload).into()),
            });
            let rest = input.get(taken..).unwrap_or_default();
            let one =
                |next: &WholeTransfer| (next.channel, next.handle) == (first.channel, first.handle);
            next = WholeTransfer::parse(rest, size_max).filter(one);
        }
        let frames = run.frames;
        if frames == 0 {
            return false;
        }
        let counted = session.count_incoming(frames);
        debug_assert!(counted.is_ok(), "no more were taken than the window has");
        mark_dirty(&mut self.dirty, session);
        self.counters.frames_in += u64::from(frames);
        self.counters.transfers_in += u64::from(frames);
        input.advance(taken);
        true
    }
}

impl<'a> Run<'a> {
    /// The link with this handle of the peer's, unless it is detaching, or in the middle of a
    /// delivery.
    fn begin(session: &'a mut Session, handle_in: u32) -> Option<(LinkHandle, Self)> {
        if session.state == SessionState::Ending {
            return None;
        }
        let handle = session.handle_for(handle_in)?;
        let named = session.named_link(handle)?;
        let window = session.incoming_window;
        let receiving = session.receiving(handle)?;
        let link = &receiving.link;
        let takes =
            link.state == LinkState::Attached && link.role == Role::Receiver && !link.is_resumable;
        let in_mode = |settled| link.check_settled(settled).is_ok() && !link.tags.tells(settled);
        let in_modes = [false, true].map(in_mode);
        let run = (takes && link.partial.is_none()).then_some(Self {
            takes: in_modes,
            receiving,
            window,
            frames: 0,
        });
        Some((named, run?))
    }

    /// Takes a delivery, unless it needs a closer look.
    #[inline]
    fn take(&mut self, transfer: &WholeTransfer, payload_bytes: usize) -> bool {
        let Self {
            receiving,
            takes: [unsettled, settled],
            window,
            ..
        } = self;
        let takes = if transfer.settled {
            *settled
        } else {
            *unsettled
        };
        let link = &receiving.link;
        let Ok(second) = link.is_second(None) else {
            return false;
        };
        if *window == 0
            || payload_bytes > limits::MESSAGE_COPY_BYTES_MAX
            || link.check_size(payload_bytes as u64).is_err()
            || !takes
            || receiving.begin(transfer.delivery_id).is_err()
        {
            return false;
        }
        receiving.finish(transfer.delivery_id, transfer.settled, second);
        *window -= 1;
        self.frames += 1;
        true
    }
}
