//! Timers: handshake, heartbeats, the peer's silence, the wait for a close. [AMQP 2.4.5]

use super::Connection;
use super::handshake::Phase;
use crate::base::{Millis, Now, limits};
use crate::link::error::Violation;
use crate::wire::frame;

/// Times of the last input and output, and the timers that follow from them.
#[derive(Debug)]
pub(super) struct Timers {
    /// End of the handshake, then of the wait for the peer's close.
    pub(super) phase_end: Millis,
    pub(super) last_received: Millis,
    pub(super) last_sent: Millis,
    /// Time that the peer may be silent, in milliseconds; none: for ever.
    patience_ms: Option<u64>,
    /// Time without output after which an empty frame is sent, in milliseconds: half of the peer's
    /// idle-time-out.
    heartbeat_ms: Option<u64>,
}

impl Timers {
    pub(super) const fn new(now: Millis, handshake_ms: u64) -> Self {
        Self {
            phase_end: now.plus(handshake_ms),
            last_received: now,
            last_sent: now,
            patience_ms: None,
            heartbeat_ms: None,
        }
    }

    pub(super) fn set_peer_idle(&mut self, idle_ms: Option<u32>) {
        self.heartbeat_ms = idle_ms.map(|ms| u64::from(ms / 2));
    }

    pub(super) fn enter_open(&mut self, now: Millis, patience_ms: Option<u64>) {
        self.phase_end = Millis::NEVER;
        self.patience_ms = patience_ms;
        self.last_received = now;
    }

    pub(super) fn enter_closing(&mut self, now: Millis, wait_ms: u64) {
        self.phase_end = now.plus(wait_ms);
        self.patience_ms = None;
        self.heartbeat_ms = None;
    }

    fn silence_end(&self) -> Option<Millis> {
        Some(self.last_received.plus(self.patience_ms?))
    }

    fn heartbeat_at(&self) -> Option<Millis> {
        Some(self.last_sent.plus(self.heartbeat_ms?))
    }
}

impl Connection {
    pub(super) fn deadline(&self) -> Option<Millis> {
        if self.phase == Phase::Closed {
            return None;
        }
        let phase_end = Some(self.timers.phase_end).filter(|end| *end != Millis::NEVER);
        let open = self.phase == Phase::Open;
        let silence_end = self.timers.silence_end().filter(|_| open);
        let heartbeat_at = self.timers.heartbeat_at().filter(|_| open);
        [phase_end, silence_end, heartbeat_at]
            .into_iter()
            .flatten()
            .min()
    }

    /// Handles the timers that are due: heartbeats, the idle and the handshake timeout.
    pub fn handle_timeout(&mut self, now: Now) {
        let at = now.mono;
        if at >= self.timers.phase_end {
            self.give_up(None);
        }
        if self.phase != Phase::Open {
            return;
        }
        if self.attach_waits() {
            self.note_unread(now); // for the owner, which may wait for a full disk
        }
        if self.timers.silence_end().is_some_and(|end| at >= end) {
            let ms = at.since(self.timers.last_received);
            return self.fail(now, &Violation::Silent { ms });
        }
        if self
            .timers
            .heartbeat_at()
            .is_some_and(|heartbeat| at >= heartbeat)
        {
            if self.output.staged.is_empty() {
                frame::write_heartbeat(&mut self.output.staged);
            }
            // The peer does not read what is staged; another heartbeat would not help.
            self.timers.last_sent = at;
        }
    }

    /// Notes that bytes may have arrived that the owner does not read for now: the peer does not
    /// count as silent. While the engine's own answers block reading, that holds as long as the
    /// peer takes some of them.
    pub fn note_unread(&mut self, now: Now) {
        self.timers.last_received = now.mono;
    }

    /// Notes that bytes have arrived.
    pub(super) fn note_received(&mut self, now: Now) {
        self.timers.last_received = now.mono;
    }

    /// Starts the wait for the peer's close.
    pub(super) fn enter_closing(&mut self, now: Now, discarding: bool) {
        let wait_ms = if discarding {
            limits::DISCARD_MS
        } else {
            limits::CLOSE_WAIT_MS
        };
        self.phase = if discarding {
            Phase::Discarding
        } else {
            Phase::Closing
        };
        self.timers.enter_closing(now.mono, wait_ms);
    }
}
