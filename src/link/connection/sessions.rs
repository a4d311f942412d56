//! Begin. [AMQP 2.5.1, 2.7.2]

use super::Connection;
use super::handshake::Phase;
use crate::base::Serial;
use crate::link::error::Violation;
use crate::link::session::{Session, SessionStart, SessionState};
use crate::link::{Event, SessionHandle};
use crate::wire::performative::{Begin, Handle, Performative};

impl Connection {
    /// The session of the peer's channel; none if it is ending, when everything but the peer's end
    /// is discarded, or has ended: some clients end a session before they are done with its links. Of channels
    /// below the highest that had a session it is not kept which never had one.
    pub(super) fn session_in(
        &mut self,
        channel_in: u16,
    ) -> Result<Option<&mut Session>, Violation> {
        let no_session = Violation::NoSession {
            channel: channel_in,
        };
        let Some(known) = self.channels_in.get(usize::from(channel_in)).copied() else {
            return Err(no_session);
        };
        let Some(channel) = known else {
            return Ok(None);
        };
        let session = self.session_at(channel).ok_or(no_session)?;
        Ok(Some(session).filter(|session| session.state != SessionState::Ending))
    }

    pub(super) fn handle_begin(&mut self, channel_in: u16, begin: &Begin) -> Result<(), Violation> {
        let max = self.channel_max;
        if channel_in > max {
            return Err(Violation::Channel {
                channel: channel_in,
                max,
            });
        }
        if self
            .channels_in
            .get(usize::from(channel_in))
            .copied()
            .flatten()
            .is_some()
        {
            return Err(Violation::ChannelInUse {
                channel: channel_in,
            });
        }
        let (channel, answers) = if let Some(channel) = begin.remote_channel {
            (self.begun_by_us(channel)?, true)
        } else {
            let channel = self.add_session(channel_in, SessionState::Mapped);
            let in_use = Violation::ChannelInUse {
                channel: channel_in,
            };
            (channel.ok_or(in_use)?, false)
        };
        let index = usize::from(channel_in);
        if self.channels_in.len() <= index {
            self.channels_in.resize(index + 1, None);
        }
        if let Some(place) = self.channels_in.get_mut(index) {
            *place = Some(channel);
        }
        let Some(session) = self.session_at(channel) else {
            return Ok(());
        };
        session.channel_in = Some(channel_in);
        session.next_incoming_id = Serial(begin.next_outgoing_id);
        session.remote_incoming_window = begin.incoming_window;
        session.remote_handle_max = begin.handle_max.0;
        if session.state == SessionState::Beginning {
            session.state = SessionState::Mapped;
        }
        let ending = session.state == SessionState::Ending;
        let handle = session.handle();
        if !answers {
            self.stage_begin(channel, Some(channel_in));
        }
        if !ending {
            self.events
                .push_back(Event::SessionBegun { session: handle });
        }
        Ok(())
    }

    /// The session that the engine began on this channel and that waits for the peer's answer.
    fn begun_by_us(&mut self, channel: u16) -> Result<u16, Violation> {
        let session = self.session_at(channel);
        let waits = session.is_some_and(|session| session.channel_in.is_none());
        if waits {
            Ok(channel)
        } else {
            Err(Violation::NoSession { channel })
        }
    }

    /// Adds a session on the wanted channel, or on the lowest free one.
    fn add_session(&mut self, wanted: u16, state: SessionState) -> Option<u16> {
        let generation = self.generation();
        let sessions = &mut self.sessions;
        let free = |channel: &u16| {
            sessions
                .get(usize::from(*channel))
                .is_none_or(Option::is_none)
        };
        let wanted = Some(wanted).filter(free);
        let channel = wanted.or_else(|| (0..=self.channel_max).find(free))?;
        let start = SessionStart {
            outgoing_id: self.options.initial_outgoing_id,
            delivery_id: self.options.initial_delivery_id,
            incoming_window: self.options.incoming_window,
        };
        let session = Session::new(channel, generation, state, start);
        let index = usize::from(channel);
        if sessions.len() <= index {
            sessions.resize_with(index + 1, || None);
        }
        *sessions.get_mut(index)? = Some(Box::new(session));
        Some(channel)
    }

    fn stage_begin(&mut self, channel: u16, remote_channel: Option<u16>) {
        let begin = Begin {
            remote_channel,
            next_outgoing_id: self.options.initial_outgoing_id.0,
            incoming_window: self.options.incoming_window,
            outgoing_window: u32::MAX,
            handle_max: Handle(self.options.handle_max),
        };
        self.output
            .performative(channel, &Performative::Begin(Box::new(begin)));
    }

    /// Client: begins a session, if a channel is free and the connection is open.
    pub fn begin(&mut self) -> Option<SessionHandle> {
        if self.phase != Phase::Open {
            return None;
        }
        let channel = self.add_session(0, SessionState::Beginning)?;
        self.stage_begin(channel, None);
        self.session_at(channel).map(|session| session.handle())
    }
}
