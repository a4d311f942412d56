//! Output: frames to the peer.

use super::Connection;
use crate::base::{Now, limits};
use crate::link::trace;

impl Connection {
    /// Appends frames to `out` until it holds about `base::limits::TRANSMIT_BYTES_MAX` bytes, and
    /// returns whether something was appended. To be called when earlier bytes were written
    /// (messages of many frames are encoded only then), so that a slow peer costs no memory.
    ///
    /// The order of a turn is fixed: staged frames, in the order of the commands; frames of large
    /// messages, in turns; dispositions; flows, which thereby report everything before them. A
    /// detach, an end and a close seal what was before them: see `seal`.
    pub fn poll_transmit(&mut self, now: Now, out: &mut Vec<u8>) -> bool {
        let start = out.len();
        self.output.take_staged(out);
        out.reserve(self.waiting_room(out.len()));
        while out.len() < limits::TRANSMIT_BYTES_MAX && self.transmit_waiting(out) {}
        self.seal();
        self.output.take_staged(out);
        let appended = out.len() > start;
        if appended {
            self.timers.last_sent = now.mono;
            self.counters.bytes_out += (out.len() - start) as u64;
            trace::sent(out.get(start..).unwrap_or_default());
        }
        appended
    }

    /// How many bytes of frames the messages that wait may add to this many, as far as the window of the
    /// session whose turn it is lets them: room that is made at once, since a buffer that grows frame by
    /// frame is copied each time.
    fn waiting_room(&self, gathered: usize) -> usize {
        let frame_bytes = self.output.frame_bytes_max;
        let session = self.ring.front().map(|(channel, _)| usize::from(*channel));
        let session = session.and_then(|channel| self.sessions.get(channel)?.as_deref());
        let window = session.map_or(0, |session| session.remote_incoming_window as usize);
        let waiting = usize::try_from(self.output.waiting_bytes).unwrap_or(usize::MAX);
        // The frames' own bytes are few beside their messages, most of which are large.
        waiting
            .saturating_add(limits::SEND_AT_ONCE_BYTES_MAX)
            .min(window.saturating_mul(frame_bytes))
            .min(limits::TRANSMIT_BYTES_MAX.saturating_sub(gathered) + frame_bytes)
    }

    /// Stages dispositions and flows, so that they are sent before whatever is staged next.
    pub(super) fn seal(&mut self) {
        for channel in std::mem::take(&mut self.dirty) {
            let session = self.sessions.get_mut(usize::from(channel));
            let Some(session) = session.and_then(Option::as_deref_mut) else {
                continue;
            };
            session.in_dirty = false;
            session.flush(&mut self.output);
            super::mark_dirty(&mut self.dirty, session);
        }
    }
}
