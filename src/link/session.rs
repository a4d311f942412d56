//! One session of a connection.

use super::error::Violation;
use super::link::{Closing, Link, LinkState, Partial};
use super::output::Output;
use super::receiving::Receiving;
use super::unsettled::{OfLink, Unsettled};
use super::{Fates, LinkHandle, SessionHandle};
use crate::base::{Name, Serial, invariant, limits, uncount};
use crate::wire::frame::FrameKind;
use crate::wire::performative::{
    DeliveryState, Disposition, Flow, LinkFlow, Role, TRANSFER_BYTES_MAX,
};

/// The state of a session at the engine's end. [AMQP 2.5.5]
///
/// ```text
///  peer's begin, answered --> Mapped --peer's end, answered--> (gone)
///                               '--our end--> Ending --peer's end--> (gone)
///  our begin --> Beginning --peer's begin--> Mapped
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SessionState {
    /// The engine began and waits for the peer's answer.
    Beginning,
    /// Both ends have begun.
    Mapped,
    /// The engine ended it; frames of the peer are discarded until its end.
    Ending,
}

/// One session: two windows, two unsettled sets, its links. [AMQP 2.5.6]
#[derive(Debug)]
pub(super) struct Session {
    pub(super) channel: u16,
    pub(super) generation: u32,
    pub(super) state: SessionState,
    pub(super) channel_in: Option<u16>,
    /// Transfer-id of the next transfer frame to the peer.
    pub(super) next_outgoing_id: Serial,
    /// Number of transfer frames that the peer accepts.
    pub(super) remote_incoming_window: u32,
    /// Transfer-id of the next transfer frame from the peer.
    pub(super) next_incoming_id: Serial,
    /// Number of transfer frames that the peer may still send.
    pub(super) incoming_window: u32,
    incoming_window_max: u32,
    /// Highest handle that the peer accepts.
    pub(super) remote_handle_max: u32,
    /// Delivery-id of the next delivery to the peer.
    pub(super) next_delivery_id: Serial,
    /// Delivery-id of the last delivery from the peer.
    pub(super) last_received_id: Option<Serial>,
    /// Messages taken by `send` since begin.
    pub(super) taken: u64,
    /// Number of these of which no frame was encoded.
    pub(super) waiting: u32,
    /// Links by the engine's handle.
    pub(super) links: Vec<Option<Box<Link>>>,
    /// The engine's handle by the peer's.
    handles_in: Vec<Option<u32>>,
    pub(super) sent: Unsettled<SentDelivery>,
    pub(super) received: Unsettled<Received>,
    /// Deliveries to the peer that were unsettled when their links were ended: the engine's handle of the link,
    /// and their first and last ids. Until the peer answers the detach it may say what became of them.
    dropped: Vec<(u32, Serial, Serial)>,
    /// Dispositions to send, in order, adjacent ranges joined.
    pub(super) dispositions: Vec<Disposition>,
    /// Whether a flow without a link is to be sent.
    pub(super) flow_due: bool,
    /// Links with a flow to send, by the engine's handle.
    flows_due: Vec<u32>,
    /// Whether it is in the connection's list of sessions to flush.
    pub(super) in_dirty: bool,
}

/// A delivery to the peer that is unsettled.
#[derive(Clone, Copy, Debug)]
pub(super) struct SentDelivery {
    /// The engine's handle of its link.
    pub(super) handle: u32,
    pub(super) token: u64,
    /// Whether its outcome was reported and waits for `settle_sent`.
    pub(super) decided: bool,
}

/// A delivery from the peer that is unsettled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Received {
    /// The engine's handle of its link.
    pub(super) handle: u32,
    /// Whether the sender settles it, after the receiver's outcome.
    pub(super) second: bool,
    /// Whether the outcome was sent.
    pub(super) decided: bool,
}

impl OfLink for SentDelivery {
    fn handle(&self) -> u32 {
        self.handle
    }
}

impl OfLink for Received {
    fn handle(&self) -> u32 {
        self.handle
    }
}

/// First ids and the incoming window of a session.
#[derive(Clone, Copy, Debug)]
pub(super) struct SessionStart {
    pub(super) outgoing_id: Serial,
    pub(super) delivery_id: Serial,
    pub(super) incoming_window: u32,
}

impl Session {
    pub(super) fn new(
        channel: u16,
        generation: u32,
        state: SessionState,
        start: SessionStart,
    ) -> Self {
        Self {
            channel,
            generation,
            state,
            channel_in: None,
            next_outgoing_id: start.outgoing_id,
            remote_incoming_window: 0,
            next_incoming_id: Serial(0),
            incoming_window: start.incoming_window,
            incoming_window_max: start.incoming_window,
            remote_handle_max: 0,
            next_delivery_id: start.delivery_id,
            last_received_id: None,
            taken: 0,
            waiting: 0,
            links: Vec::new(),
            handles_in: Vec::new(),
            sent: Unsettled::new(),
            received: Unsettled::new(),
            dropped: Vec::new(),
            dispositions: Vec::new(),
            flow_due: false,
            flows_due: Vec::new(),
            in_dirty: false,
        }
    }

    pub(super) const fn handle(&self) -> SessionHandle {
        SessionHandle {
            channel: self.channel,
            generation: self.generation,
        }
    }

    pub(super) const fn link_handle(&self, handle: u32, link: &Link) -> LinkHandle {
        LinkHandle {
            channel: self.channel,
            handle,
            generation: link.generation,
        }
    }

    /// Estimated memory of its tables and itself, in bytes.
    pub(super) fn tables_bytes(&self) -> usize {
        let links = self.links.capacity() * size_of::<Option<Box<Link>>>();
        let dispositions = self.dispositions.capacity() * size_of::<Disposition>();
        let unsettled = self.sent.table_bytes() + self.received.table_bytes();
        size_of::<Self>() + links + dispositions + unsettled
    }

    /// Messages that may be taken since begin: those taken, and room in the peer's window that no
    /// waiting message will use. Deliveries whose ids are half the number space apart could not be
    /// told from each other, so nothing is sent then.
    pub(super) fn limit(&self) -> u64 {
        let room = self.remote_incoming_window.saturating_sub(self.waiting);
        let too_far = self.sent.span_to(self.next_delivery_id) > u32::MAX / 4;
        self.taken + if too_far { 0 } else { u64::from(room) }
    }
}

/// The links of a session.
impl Session {
    pub(super) fn link(&self, handle: u32) -> Option<&Link> {
        self.links.get(handle as usize)?.as_deref()
    }

    pub(super) fn link_mut(&mut self, handle: u32) -> Option<&mut Link> {
        self.links.get_mut(handle as usize)?.as_deref_mut()
    }

    /// The owner's handle of a link.
    pub(super) fn named_link(&self, handle: u32) -> Option<LinkHandle> {
        let link = self.link(handle)?;
        Some(self.link_handle(handle, link))
    }

    /// The engine's handle for the peer's.
    pub(super) fn handle_for(&self, handle_in: u32) -> Option<u32> {
        self.handles_in.get(handle_in as usize).copied().flatten()
    }

    /// All links, in the order of their handles.
    pub(super) fn links_mut(&mut self) -> impl Iterator<Item = &mut Link> {
        self.links.iter_mut().filter_map(Option::as_deref_mut)
    }

    /// The engine's handles, in order.
    pub(super) fn handles(&self) -> impl Iterator<Item = (u32, &Link)> {
        let links = (0..).zip(&self.links);
        links.filter_map(|(handle, link)| Some((handle, link.as_deref()?)))
    }

    /// The link of this name and role that is attached or attaching: a link is keyed by both, so
    /// that a sender and a receiver may have one name. [AMQP 2.6.1]
    pub(super) fn named(&self, name: &str, role: &Role) -> Option<u32> {
        let mut links = self.handles();
        let found = links.find(|(_, link)| {
            *link.name == *name && link.role == *role && link.state != LinkState::Detaching
        });
        found.map(|(handle, _)| handle)
    }

    /// Adds a link: at the wanted handle if that is free, otherwise at the lowest free one, if the
    /// peer accepts it.
    pub(super) fn add_link(&mut self, link: Link, wanted: u32) -> Option<u32> {
        let free = |handle: &u32| self.link(*handle).is_none();
        let lowest = || (0..=self.remote_handle_max).find(free);
        let wanted = (wanted <= self.remote_handle_max).then_some(wanted);
        let handle = wanted.filter(free).or_else(lowest)?;
        let index = handle as usize;
        if self.links.len() <= index {
            self.links.resize_with(index + 1, || None);
        }
        let handle_in = link.handle_in;
        *self.links.get_mut(index)? = Some(Box::new(link));
        if let Some(handle_in) = handle_in {
            self.map_handle(handle_in, handle);
        }
        Some(handle)
    }

    /// Whether all handles that the peer accepts are in use, and one of them by a link that the peer has closed
    /// and that the owner has not answered yet.
    pub(super) fn awaits_handle(&self) -> bool {
        let is_used = |handle| self.link(handle).is_some();
        let mut closed = self.handles().map(|(_, link)| link.closing);
        self.state == SessionState::Mapped
            && self.links.len() > self.remote_handle_max as usize
            && closed.any(|closing| closing == Closing::Owed)
            && (0..=self.remote_handle_max).all(is_used)
    }

    /// Notes the peer's handle of a link; the caller checked it against handle-max.
    pub(super) fn map_handle(&mut self, handle_in: u32, handle: u32) {
        let index = handle_in as usize;
        if self.handles_in.len() <= index {
            self.handles_in.resize(index + 1, None);
        }
        if let Some(place) = self.handles_in.get_mut(index) {
            *place = Some(handle);
        }
        if let Some(link) = self.link_mut(handle) {
            link.handle_in = Some(handle_in);
        }
    }

    /// Removes a link that both ends detached.
    pub(super) fn remove_link(&mut self, handle: u32) {
        let Some(link) = self.links.get_mut(handle as usize).and_then(Option::take) else {
            return invariant!(broken, "a link that is forgotten is there");
        };
        self.dropped.retain(|(dropped, ..)| *dropped != handle);
        self.unmap_handle(link.handle_in);
    }

    /// Forgets the peer's handle of a link that it has closed and that is not answered yet: it may give the
    /// handle to another one.
    pub(super) fn owe_detach(&mut self, handle: u32) {
        let Some(link) = self.link_mut(handle) else {
            return invariant!(broken, "a link that the peer closes is there");
        };
        (link.state, link.closing) = (LinkState::Detaching, Closing::Owed);
        link.name = Name::default();
        let handle_in = link.handle_in.take();
        self.unmap_handle(handle_in);
    }

    fn unmap_handle(&mut self, handle_in: Option<u32>) {
        let index = handle_in.map(|handle_in| handle_in as usize);
        if let Some(place) = index.and_then(|index| self.handles_in.get_mut(index)) {
            *place = None;
        }
    }

    /// Undoes the deliveries of a link that ends; the second result is the number of waiting bytes
    /// dropped, the third that of incomplete deliveries.
    pub(super) fn clear_link(&mut self, handle: u32) -> (Fates, u64, u64) {
        let Some(link) = self.link_mut(handle) else {
            return (Fates::default(), 0, 0);
        };
        let partial_bytes = link.partial.as_ref().map_or(0, Partial::cost);
        let (unsent, waiting_bytes) = link.clear();
        let role = link.role.clone();
        uncount!(
            self.waiting,
            u32::try_from(unsent.len()).unwrap_or(u32::MAX),
            "messages that were not begun were counted as waiting"
        );
        let unsettled = if role == Role::Sender {
            let ids = self.sent.ids_of(handle);
            self.dropped
                .extend(ids.map(|(first, last)| (handle, first, last)));
            undecided(self.sent.remove_link(handle))
        } else {
            self.received.remove_link(handle);
            Vec::new()
        };
        (Fates { unsettled, unsent }, waiting_bytes, partial_bytes)
    }
}

impl Session {
    /// Whether there may be a delivery among these whose link was ended.
    pub(super) fn has_dropped(&self, first: Serial, last: Serial) -> bool {
        let mut dropped = self.dropped.iter();
        dropped.any(|(_, begin, end)| !last.before(*begin) && !end.before(first))
    }
}

/// Ending a session.
impl Session {
    /// Drops a link with its session: returns tokens not begun, waiting bytes, bytes of incomplete
    /// deliveries.
    pub(super) fn drop_link(&mut self, handle: u32) -> (Vec<u64>, u64, u64) {
        let Some(link) = self.link_mut(handle) else {
            return (Vec::new(), 0, 0);
        };
        let partial_bytes = link.partial.as_ref().map_or(0, Partial::cost);
        let (unsent, waiting_bytes) = link.clear();
        self.remove_link(handle);
        (unsent, waiting_bytes, partial_bytes)
    }
}

/// Frames that are sent once a turn.
impl Session {
    /// Queues a disposition; it is joined with the one before if it continues it.
    pub(super) fn queue_disposition(
        &mut self,
        role: Role,
        id: Serial,
        settled: bool,
        state: &DeliveryState,
    ) {
        queue_dispositions(&mut self.dispositions, role, (id, id), settled, state);
    }

    /// Has a flow of the link sent at the end of the turn.
    pub(super) fn queue_flow(&mut self, handle: u32) {
        if let Some(link) = self.link_mut(handle)
            && !link.flow_due
        {
            link.flow_due = true;
            self.flows_due.push(handle);
        }
    }

    /// Counts transfer frames of the peer against the incoming window. [AMQP 2.5.6]
    pub(super) fn count_incoming(&mut self, frames: u32) -> Result<(), Violation> {
        let Some(left) = self.incoming_window.checked_sub(frames) else {
            return Err(Violation::WindowExceeded);
        };
        self.incoming_window = left;
        self.next_incoming_id = self.next_incoming_id.plus(frames);
        self.flow_due |= left <= self.incoming_window_max / 2;
        Ok(())
    }

    /// The accounting of incoming deliveries on this link.
    pub(super) fn receiving(&mut self, handle: u32) -> Option<Receiving<'_>> {
        let Self {
            links,
            received,
            last_received_id,
            ..
        } = self;
        Some(Receiving {
            link: links.get_mut(handle as usize)?.as_deref_mut()?,
            handle,
            received,
            last_received_id,
        })
    }

    /// Counts a transfer frame to the peer against its window.
    pub(super) fn count_outgoing(&mut self) {
        self.next_outgoing_id = self.next_outgoing_id.plus(1);
        uncount!(
            self.remote_incoming_window,
            1,
            "a frame goes out within the peer's window"
        );
    }

    /// Applies the peer's window. [AMQP 2.5.6]
    ///
    /// "remote-incoming-window = next-incoming-id_flow + incoming-window_flow -
    /// next-outgoing-id_endpoint"
    ///
    /// A peer that expects a transfer-id beyond the engine's (amqp10 for Node.js takes delivery-ids
    /// for them) has all of its window, and more: that is the result of the sum.
    /// The next-incoming-id is the peer's next-outgoing-id, which may have passed transfers that were lost.
    pub(super) fn take_window(&mut self, flow: &Flow, initial: Serial) {
        self.next_incoming_id = flow.next_outgoing_id;
        let next = flow.next_incoming_id.unwrap_or(initial);
        let window = flow.incoming_window;
        self.remote_incoming_window = if self.next_outgoing_id.before(next) {
            window.saturating_add(next.distance_from(self.next_outgoing_id))
        } else {
            window.saturating_sub(self.next_outgoing_id.distance_from(next))
        };
    }

    /// Whether there is something to flush.
    pub(super) fn has_pending(&self) -> bool {
        self.flow_due || !self.flows_due.is_empty() || !self.dispositions.is_empty()
    }

    /// Stages dispositions, then flows, which then have the ids behind all earlier transfers.
    pub(super) fn flush(&mut self, output: &mut Output) {
        for disposition in self.dispositions.drain(..) {
            stage_disposition(output, self.channel, disposition);
        }
        let mut kept = Vec::new();
        for handle in std::mem::take(&mut self.flows_due) {
            let Some(link) = self.link_mut(handle).filter(|link| link.flow_due) else {
                continue;
            };
            if !link.sender.waiting.is_empty() {
                // The delivery-count would run ahead of the deliveries.
                kept.push(handle);
                continue;
            }
            link.flow_due = false;
            let flow = link.flow(handle);
            if link.state != LinkState::Detaching {
                self.stage_flow(output, Some(flow));
            }
        }
        self.flows_due = kept;
        if self.flow_due {
            self.stage_flow(output, None);
        }
    }

    fn stage_flow(&mut self, output: &mut Output, link: Option<LinkFlow>) {
        self.incoming_window = self.incoming_window_max;
        self.flow_due = false;
        let flow = Flow {
            next_incoming_id: self.channel_in.map(|_| self.next_incoming_id),
            incoming_window: self.incoming_window,
            next_outgoing_id: self.next_outgoing_id,
            outgoing_window: u32::MAX,
            link,
            echo: false,
        };
        let staged = output.frame(FrameKind::Amqp, self.channel, |out| flow.write(out));
        debug_assert!(staged.is_ok(), "a flow fits the smallest frame");
    }
}

/// The tokens of deliveries whose outcome was not reported: each token is reported once.
pub(super) fn undecided(sent: Vec<SentDelivery>) -> Vec<u64> {
    let undecided = sent.into_iter().filter(|sent| !sent.decided);
    undecided.map(|sent| sent.token).collect()
}

/// Queues a disposition for a range; it is joined with the one before if it continues it.
pub(super) fn queue_dispositions(
    queue: &mut Vec<Disposition>,
    role: Role,
    (first, last): (Serial, Serial),
    settled: bool,
    state: &DeliveryState,
) {
    if let Some(before) = queue.last_mut()
        && before.last.plus(1) == first
        && before.settled == settled
        && before.role == role
        && before.state.as_ref() == Some(state)
    {
        before.last = last;
        return;
    }
    queue.push(Disposition {
        role,
        first,
        last,
        settled,
        state: Some(state.clone()),
    });
}

/// Stages a disposition; if its state is too large for the peer, with the bare outcome.
fn stage_disposition(output: &mut Output, channel: u16, mut disposition: Disposition) {
    let write = |disposition: &Disposition, output: &mut Output| {
        output.frame(FrameKind::Amqp, channel, |out| disposition.write(out))
    };
    if write(&disposition, output).is_ok() {
        return;
    }
    match &mut disposition.state {
        Some(DeliveryState::Rejected { error }) => *error = None,
        Some(DeliveryState::Modified {
            message_annotations,
            ..
        }) => *message_annotations = None,
        _ => {}
    }
    let staged = write(&disposition, output);
    debug_assert!(staged.is_ok(), "a bare outcome fits the smallest frame");
}

/// Whether a message of this length is encoded at once, in one frame.
pub(super) const fn goes_at_once(bytes: usize, frame_bytes_max: usize) -> bool {
    bytes <= limits::SEND_AT_ONCE_BYTES_MAX && bytes + TRANSFER_BYTES_MAX <= frame_bytes_max
}
