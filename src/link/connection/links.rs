//! Attach and detach. [AMQP 2.6.3 to 2.6.6, 2.7.3, 2.7.7]

use super::handshake::Phase;
use super::{Connection, LinkContext};
use crate::base::limits::LINK_NAME_BYTES_MAX;
use crate::base::uncount;
use crate::base::{Name, Serial};
use crate::link::error::Violation;
use crate::link::link::{Closing, Link, LinkState};
use crate::link::session::Session;
use crate::link::{Event, Fates, LinkHandle, SessionHandle, TagsTold};
use crate::wire::frame::FrameKind;
use crate::wire::performative::{
    Attach, AttachAnswer, AttachFields, AttachFrame, Detach, Error, Handle, Performative,
    ReceiverSettleMode, Role, SenderSettleMode, Terminus,
};

impl Connection {
    pub(super) fn handle_attach(
        &mut self,
        channel_in: u16,
        attach: Box<Attach>,
        fields: Box<AttachFields>,
    ) -> Result<(), Violation> {
        let max = self.options.handle_max;
        let generation = self.generation();
        let initial_delivery_count = self.options.initial_delivery_count;
        let Some(session) = self.session_in(channel_in)? else {
            return Ok(());
        };
        let handle_in = attach.handle.0;
        if handle_in > max {
            return Err(Violation::Handle {
                handle: handle_in,
                max,
            });
        }
        check_name(&attach.name)?;
        if session.handle_for(handle_in).is_some() {
            return Err(Violation::HandleInUse { handle: handle_in });
        }
        if let Some(handle) = asked_by_us(session, &attach) {
            session.map_handle(handle_in, handle);
            let channel = session.channel;
            self.handle_attach_answer(channel, handle, attach);
            return Ok(());
        }
        let role = other(&attach.role);
        let stolen = session.named(&attach.name, &role);
        let mut link = Link::new(
            Name::from(attach.name.as_str()),
            role.clone(),
            LinkState::Asked,
            generation,
        );
        link.handle_in = Some(handle_in);
        negotiate(&mut link, &attach, &fields, initial_delivery_count);
        link.asked = Some(fields);
        let channel = session.channel;
        let handle = session.add_link(link, handle_in);
        let handle = handle.ok_or(Violation::Handle {
            handle: handle_in,
            max,
        })?;
        let session_handle = session.handle();
        let link = LinkHandle {
            channel,
            handle,
            generation,
        };
        if let Some(old) = stolen {
            self.fail_link(channel, old, &Violation::Stolen);
            if self.link(link).is_none() {
                return Ok(()); // the old one could not even be refused, which ended the session
            }
        }
        if let Some(violation) = self.refusal(link, &attach) {
            self.refuse_attach(link, violation.error());
            return Ok(());
        }
        self.events.push_back(Event::Attached {
            link,
            session: session_handle,
            role,
            attach,
        });
        Ok(())
    }

    /// The violation in an attach that the owner need not decide on, if any.
    fn refusal(&self, link: LinkHandle, attach: &Attach) -> Option<Violation> {
        let asked = self.link(link)?.asked.as_ref()?;
        if let Some((field, bytes, max)) = asked.too_long {
            return Some(Violation::FieldTooLong { field, bytes, max });
        }
        if let Some(text) = asked.unreadable.clone() {
            return Some(Violation::AttachUnreadable { text });
        }
        let count_missing = attach.role == Role::Sender && attach.initial_delivery_count.is_none();
        count_missing.then_some(Violation::InitialDeliveryCount)
    }

    /// Handles the server's answer to an attach.
    fn handle_attach_answer(&mut self, channel: u16, handle: u32, attach: Box<Attach>) {
        let sessions = self.sessions.get_mut(usize::from(channel));
        let Some(session) = sessions.and_then(Option::as_deref_mut) else {
            return;
        };
        let Some(link) = session.link_mut(handle) else {
            return;
        };
        if link.state != LinkState::Asking {
            return;
        }
        link.state = LinkState::Attached;
        if link.role == Role::Receiver {
            link.delivery_count = Serial(attach.initial_delivery_count.unwrap_or(0));
        } else {
            link.message_bytes_max = attach.max_message_size.unwrap_or(0);
        }
        let generation = link.generation;
        if link.credit > 0 {
            session.queue_flow(handle);
            super::mark_dirty(&mut self.dirty, session);
        }
        let link = LinkHandle {
            channel,
            handle,
            generation,
        };
        self.events
            .push_back(Event::AttachAnswered { link, attach });
    }

    pub(super) fn handle_detach(
        &mut self,
        channel_in: u16,
        detach: Detach,
    ) -> Result<(), Violation> {
        let Some(session) = self.session_in(channel_in)? else {
            return Ok(());
        };
        // A superfluous detach does no harm, and clients send it when both sides detach at once.
        let Some(handle) = session.handle_for(detach.handle.0) else {
            return Ok(());
        };
        let channel = session.channel;
        let Some(link) = session.link(handle) else {
            return Ok(());
        };
        let (state, closing) = (link.state, link.closing);
        let link = session.link_handle(handle, link);
        if state == LinkState::Asked && !self.stage_refusal(link) {
            self.end_unanswerable(link);
            return Ok(());
        }
        let mut is_owed = false;
        if state == LinkState::Detaching {
            if detach.closed {
                self.events.push_back(Event::DetachAnswered { link });
            }
        } else {
            if !detach.closed {
                self.tell_unfinished(link);
            }
            let fates = self.undo_link(channel, handle);
            self.seal();
            let Detach { closed, error, .. } = detach;
            let error = error.map(Box::new);
            is_owed = closed && error.is_none() && closing == Closing::ByOwner;
            if !is_owed {
                self.stage_detach(channel, handle, closed, None);
            }
            self.events.push_back(Event::Detached {
                link,
                closed,
                by_peer: true,
                error,
                fates,
            });
        }
        match self.session_at(channel) {
            Some(session) if is_owed => session.owe_detach(handle),
            Some(session) => session.remove_link(handle),
            None => {}
        }
        Ok(())
    }

    /// Whether an attach has to wait until the owner answers that the peer closed another link of its session:
    /// all handles that the peer takes are in use, and that one is about to be free.
    pub(super) fn attach_waits(&self) -> bool {
        let channel_in = self.attach_waits.filter(|_| self.phase == Phase::Open);
        let channel = channel_in.and_then(|channel| self.channels_in.get(usize::from(channel)));
        let session = channel
            .copied()
            .flatten()
            .and_then(|channel| self.sessions.get(usize::from(channel)));
        let session = session.and_then(Option::as_deref);
        session.is_some_and(Session::awaits_handle)
    }

    /// Leaves it to the owner to answer that the peer closes a link, with [`Connection::answer_close`].
    pub fn hold_close(&mut self, link: LinkHandle) {
        if let Some(LinkContext { session, .. }) = self.find(link)
            && let Some(link) = session.link_mut(link.handle)
        {
            link.closing = Closing::ByOwner;
        }
    }

    /// Answers that the peer closed a link, of [`Connection::hold_close`].
    pub fn answer_close(&mut self, link: LinkHandle) {
        let closing = self.link(link).map(|link| link.closing);
        if closing != Some(Closing::Owed) {
            return; // its session ended
        }
        self.stage_detach(link.channel, link.handle, true, None);
        if let Some(session) = self.session_at(link.channel) {
            session.remove_link(link.handle);
        }
    }

    /// Detaches a link because of a violation.
    pub(super) fn fail_link(&mut self, channel: u16, handle: u32, violation: &Violation) {
        let Some(session) = self.session_at(channel) else {
            return;
        };
        if let Some(link) = session.link(handle) {
            let link = session.link_handle(handle, link);
            self.detach(link, true, Some(violation.error()));
        }
    }

    /// Reports the delivery that has begun on a link, if the peer may resume it.
    fn tell_unfinished(&mut self, handle: LinkHandle) {
        if let Some(LinkContext {
            session, events, ..
        }) = self.find(handle)
            && let Some(link) = session.link_mut(handle.handle)
            && let Some(unfinished) = link.take_unfinished(handle)
        {
            events.push_back(Event::Unfinished(Box::new(unfinished)));
        }
    }

    /// Undoes the deliveries of a link.
    fn undo_link(&mut self, channel: u16, handle: u32) -> Fates {
        let Some(session) = self.session_at(channel) else {
            return Fates::default();
        };
        let begun = session.link_mut(handle).and_then(Link::take_transaction);
        let (fates, waiting_bytes, partial_bytes) = session.clear_link(handle);
        uncount!(
            self.output.waiting_bytes,
            waiting_bytes,
            "bytes that waited on a link were counted"
        );
        uncount!(
            self.partial_bytes,
            partial_bytes,
            "bytes that had arrived on a link were counted"
        );
        if let Some(txn_id) = begun {
            self.events.push_back(Event::WorkLost { txn_id });
        }
        fates
    }

    fn stage_detach(&mut self, channel: u16, handle: u32, closed: bool, error: Option<Error>) {
        self.output.with_error(channel, error, |error| {
            let handle = Handle(handle);
            Performative::Detach(Box::new(Detach {
                handle,
                closed,
                error,
            }))
        });
    }

    /// Stages an attach with the engine's terminus null: "If the link is refused, the terminus is
    /// null and a detach follows." [AMQP 2.6.3] False if even that is too large for the peer.
    fn stage_refusal(&mut self, handle: LinkHandle) -> bool {
        let answer = match self.link(handle).map(|link| link.role.clone()) {
            Some(Role::Sender) => AttachAnswer {
                source: Terminus::Absent,
                ..Default::default()
            },
            _ => AttachAnswer {
                target: Terminus::Absent,
                ..Default::default()
            },
        };
        let bare = AttachAnswer {
            source: Terminus::Absent,
            target: Terminus::Absent,
            ..Default::default()
        };
        self.stage_answer(handle, answer).is_ok() || self.stage_answer(handle, bare).is_ok()
    }

    /// Stages the attach that answers the peer's.
    fn stage_answer(
        &mut self,
        handle: LinkHandle,
        mut answer: AttachAnswer,
    ) -> Result<(), Violation> {
        let Some(LinkContext {
            session, output, ..
        }) = self.find(handle)
        else {
            return Ok(());
        };
        let Some(link) = session.link_mut(handle.handle) else {
            return Ok(());
        };
        let fields = link.asked.as_deref().cloned().unwrap_or_default();
        let sends = link.role == Role::Sender;
        if sends {
            if answer.sends_settled {
                link.snd_settle_mode = SenderSettleMode::Settled;
            }
            answer.max_message_size = Some(link.message_bytes_max).filter(|bytes| *bytes > 0);
        } else {
            link.message_bytes_max = answer.max_message_size.unwrap_or(0);
        }
        let mut frame = AttachFrame {
            name: &link.name,
            handle: handle.handle,
            role: link.role.clone(),
            snd_settle_mode: if sends {
                Some(link.snd_settle_mode.clone())
            } else {
                fields.snd_settle_mode.clone()
            },
            rcv_settle_mode: if sends {
                fields.rcv_settle_mode.clone()
            } else {
                Some(link.rcv_settle_mode.clone())
            },
            initial_delivery_count: sends.then_some(link.delivery_count),
            unsettled: answer.unsettled.len(),
            peer: &fields,
        };
        let mut result = Ok(());
        while let Err(violation) = output.frame(FrameKind::Amqp, handle.channel, |out| {
            result = frame.write(out, &answer);
        }) {
            if frame.unsettled == 0 {
                return Err(violation);
            }
            frame.unsettled /= 2;
        }
        let only_resumes = frame.unsettled < answer.unsettled.len();
        (link.is_resumable, link.only_resumes) = (answer.is_resumable, only_resumes);
        result.map_err(|error| Violation::AttachUnreadable {
            text: error.to_string(),
        })
    }
}

/// Commands for links.
impl Connection {
    /// Client: attaches a link. The engine chooses handle and initial delivery-count.
    pub fn attach(&mut self, session: SessionHandle, mut attach: Attach) -> Option<LinkHandle> {
        let generation = self.generation();
        let initial_delivery_count = self.options.initial_delivery_count;
        if self.phase != Phase::Open || self.session(session).is_none() {
            return None;
        }
        let session = self.session_at(session.channel)?;
        let role = attach.role.clone();
        let mut link = Link::new(
            Name::from(attach.name.as_str()),
            role,
            LinkState::Asking,
            generation,
        );
        link.snd_settle_mode = attach.snd_settle_mode.clone();
        link.rcv_settle_mode = attach.rcv_settle_mode.clone();
        link.delivery_count = initial_delivery_count;
        if link.role == Role::Receiver {
            link.message_bytes_max = attach.max_message_size.unwrap_or(0);
        }
        let handle = session.add_link(link, 0)?;
        attach.handle = Handle(handle);
        attach.initial_delivery_count =
            (attach.role == Role::Sender).then_some(initial_delivery_count.0);
        let channel = session.channel;
        let attach = Performative::Attach(Box::new(attach), Box::default());
        self.output.performative(channel, &attach);
        Some(LinkHandle {
            channel,
            handle,
            generation,
        })
    }

    /// Accepts an attach. On a receiving link the owner gives credit afterwards; on a sending one
    /// the peer's flow follows as an event. If the answer does not fit a frame of the peer's the link is
    /// refused, and [`Event::Detached`] follows.
    pub fn accept_attach(&mut self, link: LinkHandle, answer: AttachAnswer) {
        let asked = self
            .link(link)
            .is_some_and(|link| link.state == LinkState::Asked);
        if !asked {
            return;
        }
        if let Err(violation) = self.stage_answer(link, answer) {
            // Its owner believes that it is attached, and has to learn that it is not.
            return self.detach(link, true, Some(violation.error()));
        }
        let Some(LinkContext { session, .. }) = self.find(link) else {
            return;
        };
        let Some(state) = session.link_mut(link.handle) else {
            return;
        };
        state.state = LinkState::Attached;
        state.asked = None;
        if let Some((flow, echo)) = state.sender.early_flow.take() {
            self.handle_credit(link, &flow, echo);
        }
    }

    /// Where the engine receives: which messages are told with their delivery-tags from now on.
    pub fn tell_tags(&mut self, link: LinkHandle, tags: TagsTold) {
        if let Some(LinkContext { session, .. }) = self.find(link)
            && let Some(state) = session.link_mut(link.handle)
        {
            state.tags = tags;
        }
    }

    /// Refuses an attach: it is answered with a null terminus and a detach with the error.
    /// Frames for the link are ignored until the peer's detach. [AMQP 2.6.3]
    pub fn refuse_attach(&mut self, link: LinkHandle, error: Error) {
        let asked = self
            .link(link)
            .is_some_and(|link| link.state == LinkState::Asked);
        if !asked {
            return;
        }
        if !self.stage_refusal(link) {
            return self.end_unanswerable(link);
        }
        self.stage_detach(link.channel, link.handle, true, Some(error));
        if let Some(LinkContext { session, .. }) = self.find(link)
            && let Some(link) = session.link_mut(link.handle)
        {
            link.state = LinkState::Detaching;
            link.asked = None;
            link.name = Name::default(); // it is said, and this stays until the peer's detach
        }
    }

    /// Ends the session of a link whose attach cannot even be refused: its name does not fit a frame.
    fn end_unanswerable(&mut self, link: LinkHandle) {
        let max_bytes = self.output.frame_bytes_max;
        let violation = Violation::FrameTooSmall { max_bytes };
        self.end_session(link.channel, Some(violation.error()));
    }

    /// Detaches a link: its unsettled deliveries are undone, [`Event::Detached`] follows.
    pub fn detach(&mut self, link: LinkHandle, closed: bool, error: Option<Error>) {
        match self.link(link).map(|link| link.state) {
            None | Some(LinkState::Detaching) => return,
            Some(LinkState::Asked) => {
                if !self.stage_refusal(link) {
                    return self.end_unanswerable(link);
                }
            }
            Some(LinkState::Asking | LinkState::Attached) => {}
        }
        let fates = self.undo_link(link.channel, link.handle);
        self.seal();
        self.stage_detach(link.channel, link.handle, closed, error.clone());
        if let Some(LinkContext {
            session, events, ..
        }) = self.find(link)
            && let Some(state) = session.link_mut(link.handle)
        {
            state.state = LinkState::Detaching;
            state.asked = None;
            if state.handle_in.is_some() {
                state.name = Name::default(); // both know its handle, and this stays until the peer's detach
            }
            let error = error.map(Box::new);
            events.push_back(Event::Detached {
                link,
                closed,
                by_peer: false,
                error,
                fates,
            });
        }
    }
}

fn check_name(name: &str) -> Result<(), Violation> {
    let bytes = name.len();
    if bytes > LINK_NAME_BYTES_MAX {
        return Err(Violation::LinkName { bytes });
    }
    Ok(())
}

/// The link that the peer's attach answers: a link is keyed by name and role.
fn asked_by_us(session: &Session, attach: &Attach) -> Option<u32> {
    let role = other(&attach.role);
    let mut links = session.handles();
    let found = links.find(|(_, link)| {
        let is_asked = link.handle_in.is_none() && link.closing != Closing::Owed;
        is_asked && link.role == role && *link.name == *attach.name
    });
    found.map(|(handle, _)| handle)
}

fn other(role: &Role) -> Role {
    match role {
        Role::Sender => Role::Receiver,
        Role::Receiver => Role::Sender,
    }
}

/// Sets settle modes, limits and counts of a link that the peer attached.
fn negotiate(link: &mut Link, attach: &Attach, fields: &AttachFields, initial: Serial) {
    link.rcv_settle_mode = fields
        .rcv_settle_mode
        .clone()
        .unwrap_or(ReceiverSettleMode::First);
    if link.role == Role::Receiver {
        link.snd_settle_mode = attach.snd_settle_mode.clone();
        link.delivery_count = Serial(attach.initial_delivery_count.unwrap_or(0));
        return;
    }
    // Choice: as RabbitMQ, the engine sends settled when asked to, otherwise unsettled, never
    // mixed.
    link.snd_settle_mode = match &attach.snd_settle_mode {
        SenderSettleMode::Settled => SenderSettleMode::Settled,
        _ => SenderSettleMode::Unsettled,
    };
    link.delivery_count = initial;
    link.message_bytes_max = attach.max_message_size.unwrap_or(0);
}
