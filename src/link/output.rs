//! Output: frames that were encoded and not handed out yet.

use super::error::Violation;
use crate::base::limits;
use crate::wire::frame::{self, FrameKind};
use crate::wire::performative::{Error, Performative, encode};

/// Staged frames, in the order in which they will be sent.
#[derive(Debug)]
pub(super) struct Output {
    /// Whole frames (and protocol headers).
    pub(super) staged: Vec<u8>,
    /// Bytes of `staged` that are not transfers: they grow with a peer that causes answers and does
    /// not read them.
    control_bytes: usize,
    /// Payload bytes of messages that wait to be encoded.
    pub(super) waiting_bytes: u64,
    /// Largest frame that the peer accepts, in bytes.
    pub(super) frame_bytes_max: usize,
}

impl Output {
    pub(super) fn new() -> Self {
        Self {
            staged: Vec::new(),
            control_bytes: 0,
            waiting_bytes: 0,
            frame_bytes_max: limits::HANDSHAKE_FRAME_BYTES_MAX,
        }
    }

    /// Whether so many bytes wait that nothing more may be read.
    pub(super) const fn is_full(&self) -> bool {
        self.control_bytes > limits::CONTROL_BYTES_MAX
    }

    /// Appends the staged bytes to `out`.
    pub(super) fn take_staged(&mut self, out: &mut Vec<u8>) {
        self.control_bytes = 0;
        if out.is_empty() {
            std::mem::swap(out, &mut self.staged);
        } else {
            out.extend_from_slice(&self.staged);
            self.staged.clear();
        }
    }

    /// Stages bytes that are not a frame.
    pub(super) fn raw(&mut self, bytes: &[u8]) {
        self.staged.extend_from_slice(bytes);
        self.control_bytes += bytes.len();
    }

    /// Stages a frame, unless it is larger than the peer accepts.
    pub(super) fn frame(
        &mut self,
        kind: FrameKind,
        channel: u16,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), Violation> {
        let start = self.staged.len();
        let max_bytes = self.frame_bytes_max;
        write_frame(&mut self.staged, kind, channel, write);
        let size = self.staged.len() - start;
        if size > max_bytes {
            self.staged.truncate(start);
            return Err(Violation::FrameTooSmall { max_bytes });
        }
        self.control_bytes += size;
        Ok(())
    }

    /// Stages a performative that is known to be small.
    pub(super) fn performative(&mut self, channel: u16, performative: &Performative) {
        let staged = self.frame(FrameKind::Amqp, channel, |out| encode(out, performative));
        debug_assert!(staged.is_ok(), "{performative:?} is small");
    }

    /// Stages a performative with an error. If it is too large for the peer it goes without the
    /// error's info, then without its description.
    pub(super) fn with_error(
        &mut self,
        channel: u16,
        mut error: Option<Error>,
        make: impl Fn(Option<Error>) -> Performative,
    ) {
        loop {
            let performative = make(error.clone());
            if self
                .frame(FrameKind::Amqp, channel, |out| encode(out, &performative))
                .is_ok()
            {
                return;
            }
            // Each round leaves something out, so this ends.
            let Some(large) = &mut error else { return };
            if large.info.take().is_none() && large.description.take().is_none() {
                error = None;
            }
        }
    }
}

/// Appends one frame to `out`.
pub(super) fn write_frame(
    out: &mut Vec<u8>,
    kind: FrameKind,
    channel: u16,
    write: impl FnOnce(&mut Vec<u8>),
) {
    let frame_start = frame::begin_frame(out, kind, channel);
    write(out);
    frame::end_frame(out, frame_start);
}
