//! End, close, and the handling of errors. [AMQP 2.4.3, 2.5.7, 2.7.8, 2.7.9]

use super::Connection;
use super::handshake::Phase;
use crate::base::{Now, uncount};
use crate::link::error::Violation;
use crate::link::link::Link;
use crate::link::session::{SessionState, undecided};
use crate::link::{Event, Fates, SessionHandle};
use crate::wire::performative::{Close, End, Error, Performative};

impl Connection {
    pub(super) fn handle_end(&mut self, channel_in: u16, end: End) -> Result<(), Violation> {
        let index = usize::from(channel_in);
        let Some(known) = self.channels_in.get(index).copied() else {
            return Err(Violation::NoSession {
                channel: channel_in,
            });
        };
        let Some(channel) = known else {
            return Ok(()); // it has ended already
        };
        let ending = self
            .session_at(channel)
            .is_none_or(|session| session.state == SessionState::Ending);
        if !ending {
            let event = self.undo_session(channel, end.error);
            self.seal();
            self.output
                .performative(channel, &Performative::End(Box::new(End { error: None })));
            self.events.extend(event);
        }
        if let Some(place) = self.channels_in.get_mut(index) {
            *place = None;
        }
        if let Some(place) = self.sessions.get_mut(usize::from(channel)) {
            *place = None;
        }
        Ok(())
    }

    pub(super) fn handle_close(&mut self, now: Now, close: Close) {
        self.undo_sessions();
        self.seal();
        self.stage_close(None);
        self.timers.enter_closing(now.mono, 0);
        self.phase = Phase::Closed;
        self.events.push_back(Event::Closed {
            error: close.error.map(Box::new),
        });
    }

    /// Ends the session on the peer's channel because of a violation.
    pub(super) fn fail_session(&mut self, channel_in: u16, violation: &Violation) {
        let channel = self
            .channels_in
            .get(usize::from(channel_in))
            .copied()
            .flatten();
        if let Some(channel) = channel {
            self.end_session(channel, Some(violation.error()));
        }
    }

    /// Closes the connection because of a violation.
    pub(super) fn fail(&mut self, now: Now, violation: &Violation) {
        if matches!(
            self.phase,
            Phase::Closing | Phase::Discarding | Phase::Closed
        ) {
            if violation.breaks_framing() {
                self.give_up(None);
            }
            return;
        }
        if self.phase == Phase::Sasl {
            return self.give_up(None);
        }
        self.close_with(now, Some(violation.error()), violation.breaks_framing());
    }

    /// Closes the connection without a frame: before the AMQP header there is none to send, and
    /// after a close it was sent.
    pub(super) fn give_up(&mut self, error: Option<Error>) {
        if self.phase == Phase::Closed {
            return;
        }
        let reported = matches!(self.phase, Phase::Closing | Phase::Discarding);
        self.phase = Phase::Closed;
        self.undo_sessions();
        if !reported {
            self.events.push_back(Event::Closed {
                error: error.map(Box::new),
            });
        }
    }

    /// Closes with an error or none, behind what was staged before.
    fn close_with(&mut self, now: Now, error: Option<Error>, discarding: bool) {
        if matches!(self.phase, Phase::AwaitOpen | Phase::OpenOwner) && self.client.is_none() {
            self.stage_open();
        }
        self.undo_sessions();
        self.seal();
        self.stage_close(error.clone());
        self.enter_closing(now, discarding);
        self.events.push_back(Event::Closed {
            error: error.map(Box::new),
        });
    }

    fn stage_close(&mut self, error: Option<Error>) {
        self.output.with_error(0, error, |error| {
            Performative::Close(Box::new(Close { error }))
        });
    }

    pub(super) fn end_session(&mut self, channel: u16, error: Option<Error>) {
        let Some(event) = self.undo_session(channel, error.clone()) else {
            return;
        };
        self.seal();
        self.output.with_error(channel, error, |error| {
            Performative::End(Box::new(End { error }))
        });
        self.events.push_back(event);
    }

    /// Undoes the deliveries of a session and sets it to ending; none if it was already.
    fn undo_session(&mut self, channel: u16, error: Option<Error>) -> Option<Event> {
        let session = self
            .sessions
            .get_mut(usize::from(channel))?
            .as_deref_mut()?;
        if session.state == SessionState::Ending {
            return None;
        }
        let mut fates = Fates::default();
        let handles = session.handles();
        let handles: Vec<_> = handles
            .map(|(handle, link)| (handle, session.link_handle(handle, link)))
            .collect();
        for (handle, link) in handles {
            let unfinished = session.link_mut(handle);
            let unfinished = unfinished.and_then(|state| state.take_unfinished(link));
            let unfinished = unfinished.map(|it| Event::Unfinished(Box::new(it)));
            self.events.extend(unfinished);
            let begun = session.link_mut(handle).and_then(Link::take_transaction);
            let lost = begun.map(|txn_id| Event::WorkLost { txn_id });
            self.events.extend(lost);
            let (unsent, waiting_bytes, partial_bytes) = session.drop_link(handle);
            fates.unsent.extend(unsent);
            let output = &mut self.output;
            uncount!(
                output.waiting_bytes,
                waiting_bytes,
                "bytes that waited in a session were counted"
            );
            uncount!(
                self.partial_bytes,
                partial_bytes,
                "bytes that had arrived in a session were counted"
            );
        }
        fates.unsettled = undecided(session.sent.remove_all());
        session.received.remove_all();
        session.state = SessionState::Ending;
        let error = error.map(Box::new);
        Some(Event::SessionEnded {
            session: session.handle(),
            error,
            fates,
        })
    }

    fn undo_sessions(&mut self) {
        for channel in 0..=self.channel_max {
            if usize::from(channel) >= self.sessions.len() {
                break;
            }
            let event = self.undo_session(channel, None);
            self.events.extend(event);
        }
        self.ring.clear();
        self.output.waiting_bytes = 0;
        self.partial_bytes = 0;
    }
}

/// Commands that end sessions and the connection.
impl Connection {
    /// Ends a session: its deliveries are undone, [`Event::SessionEnded`] follows.
    pub fn end(&mut self, session: SessionHandle, error: Option<Error>) {
        if self.session(session).is_some() {
            self.end_session(session.channel, error);
        }
    }

    /// Closes the connection with an error or none; what was staged before is still written first.
    pub fn close(&mut self, now: Now, error: Option<Error>) {
        match self.phase {
            Phase::Closing | Phase::Discarding | Phase::Closed => {}
            Phase::Open | Phase::AwaitOpen | Phase::OpenOwner => {
                self.close_with(now, error, false);
            }
            Phase::Header | Phase::Sasl | Phase::SaslOwner | Phase::AmqpHeader => {
                self.give_up(error);
            }
        }
    }

    /// Input: the socket is closed. [`Event::SessionEnded`] and [`Event::Closed`] follow, unless
    /// the connection was closed before.
    pub fn handle_disconnect(&mut self) {
        self.give_up(None);
        self.output.staged.clear();
    }
}
