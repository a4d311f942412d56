//! Input: frames from the peer.

use bytes::{Buf, Bytes, BytesMut};

use super::Connection;
use super::handshake::Phase;
use crate::base::{Now, limits};
use crate::link::error::{Scope, Violation};
use crate::link::trace;
use crate::wire::frame::{FrameHeader, FrameKind};
use crate::wire::performative::{Performative, decode};

/// Input methods.
impl Connection {
    /// Handles the complete frames at the front of `input` that may be read now; the rest stays. To
    /// be called again with the rest after answers (see [`wants_input`](Self::wants_input)).
    pub fn handle_bytes(&mut self, now: Now, input: &mut BytesMut) {
        if input.len() > self.leftover {
            self.counters.bytes_in += (input.len() - self.leftover) as u64;
            self.note_received(now);
        }
        while self.takes_frames()
            && !self.part_due
            && (self.receive_run(input) || self.handle_one(now, input))
        {}
        if matches!(self.phase, Phase::Discarding | Phase::Closed) {
            input.clear();
        }
        self.leftover = input.len();
    }

    /// Handles one header or frame; false if none is complete, or the first cannot be taken yet.
    fn handle_one(&mut self, now: Now, input: &mut BytesMut) -> bool {
        if input.is_empty() || self.phase == Phase::Discarding {
            return false;
        }
        if self.phase.awaits_header() {
            return self.handle_header(input);
        }
        let size_max = if self.phase == Phase::Sasl {
            self.options.sasl_frame_bytes_max
        } else if self.phase.is_handshake() {
            limits::HANDSHAKE_FRAME_BYTES_MAX
        } else {
            self.options.max_frame_size as usize
        };
        let header = match FrameHeader::parse(input, size_max) {
            Ok(Some(header)) if header.size <= input.len() => header,
            Ok(_) => return false,
            Err(error) => {
                input.clear();
                self.fail(now, &error.into());
                return true;
            }
        };
        self.counters.frames_in += 1;
        trace::received(input.get(..header.size).unwrap_or_default());
        if self.phase == Phase::Sasl {
            let frame = input.split_to(header.size);
            self.handle_sasl(header, &frame);
        } else if header.kind == FrameKind::Sasl {
            input.advance(header.size);
            self.fail(now, &Violation::WrongLayer);
        } else if header.body == header.size {
            input.advance(header.size);
        } else {
            return self.handle_amqp(now, header, input);
        }
        true
    }

    /// Handles the AMQP frame at the front of `input`; false if it is left for later. The payload of a small message is copied
    /// into an allocation of its own, which the message keeps; any other is split off.
    fn handle_amqp(&mut self, now: Now, header: FrameHeader, input: &mut BytesMut) -> bool {
        let body = input.get(header.body..header.size).unwrap_or_default();
        let (performative, used) = match decode(body) {
            Ok(decoded) => decoded,
            Err(error) => {
                input.advance(header.size);
                self.fail(now, &error.into());
                return true;
            }
        };
        if matches!(performative, Performative::Attach(..)) {
            self.attach_waits = Some(header.channel);
            if self.attach_waits() {
                return false;
            }
            self.attach_waits = None;
        }
        let payload_bytes = header.size - header.body - used;
        let payload = match &performative {
            Performative::Transfer(transfer)
                if transfer.more || payload_bytes > limits::MESSAGE_COPY_BYTES_MAX =>
            {
                input.advance(header.body + used);
                input.split_to(payload_bytes).freeze()
            }
            Performative::Transfer(_) => {
                let payload = Bytes::copy_from_slice(body.get(used..).unwrap_or_default());
                input.advance(header.size);
                payload
            }
            _ => {
                input.advance(header.size);
                Bytes::new()
            }
        };
        let channel = header.channel;
        if let Err(violation) = self.handle_performative(now, channel, performative, payload) {
            match violation.scope() {
                Scope::Connection => self.fail(now, &violation),
                // Violations that end only a link are handled where the link is known.
                Scope::Session | Scope::Link => self.fail_session(channel, &violation),
            }
        }
        true
    }

    fn handle_performative(
        &mut self,
        now: Now,
        channel: u16,
        performative: Performative,
        payload: Bytes,
    ) -> Result<(), Violation> {
        match self.phase {
            Phase::Closing => {
                if matches!(performative, Performative::Close(_)) {
                    self.phase = Phase::Closed;
                }
                return Ok(());
            }
            Phase::AwaitOpen if !matches!(performative, Performative::Open(_)) => {
                let performative = performative.name();
                return Err(Violation::BeforeOpen { performative });
            }
            _ => {}
        }
        match performative {
            Performative::Open(open) => self.handle_open(now, open),
            Performative::Begin(begin) => self.handle_begin(channel, &begin),
            Performative::Attach(attach, fields) => self.handle_attach(channel, attach, fields),
            Performative::Flow(flow) => self.handle_flow(channel, &flow),
            Performative::Transfer(transfer) => self.handle_transfer(channel, &transfer, payload),
            Performative::Disposition(disposition) => self.handle_disposition(channel, disposition),
            Performative::Detach(detach) => self.handle_detach(channel, *detach),
            Performative::End(end) => self.handle_end(channel, *end),
            Performative::Close(close) => {
                self.handle_close(now, *close);
                Ok(())
            }
        }
    }
}
