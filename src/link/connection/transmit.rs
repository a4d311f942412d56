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
