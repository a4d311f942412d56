//! Entry points for fuzzing: each checks invariants that hold for any bytes, and panics when one
//! does not.

use bytes::BytesMut;

use super::{Connection, Event, Identity, LinkOptions};
use crate::base::{Millis, Now, Timestamp, limits};
use crate::wire::frame::{FrameHeader, Protocol};
use crate::wire::performative::{
    AttachAnswer, DeliveryState, Performative, Role, decode, describe, encode,
};
use crate::wire::sasl::{SaslCode, SaslFrame};

/// Checks frame headers and bodies: what can be decoded can be encoded, and decodes to the same
/// again.
pub fn fuzz_frame(data: &[u8]) {
    let _ = FrameHeader::parse(data, limits::FRAME_BYTES_DEFAULT as usize);
    let _ = describe(data);
    if let Ok(sasl) = SaslFrame::decode(data) {
        let mut encoded = Vec::new();
        sasl.encode(&mut encoded);
    }
    let Ok((performative, used)) = decode(data) else {
        return;
    };
    assert!(used <= data.len(), "no more is used than is there");
    let mut encoded = Vec::new();
    encode(&mut encoded, &performative);
    // An attach keeps bytes besides its typed form, and an unknown state is not repeated.
    let exact = matches!(
        performative,
        Performative::Flow(_) | Performative::Transfer(_) | Performative::Open(_)
    );
    if exact {
        let again = decode(&encoded);
        assert!(
            again == Ok((performative, encoded.len())),
            "a performative survives a round trip"
        );
    }
}

/// Checks a whole connection fed with any bytes; the first byte says how far its handshake is.
/// Nothing panics, memory is bounded, output consists of whole frames, and the connection ends.
pub fn fuzz_connection(data: &[u8]) {
    let Some((start, data)) = data.split_first() else {
        return;
    };
    let mut fuzzed = Fuzzed::new(start & 3);
    let piece = usize::from(start >> 2).max(1) * 8;
    for bytes in data.chunks(piece) {
        fuzzed.input.extend_from_slice(bytes);
        fuzzed.turn();
    }
    fuzzed.connection.handle_disconnect();
    fuzzed.turn();
    assert!(
        fuzzed.connection.is_closed(),
        "a connection without a socket is closed"
    );
    assert!(
        fuzzed.connection.bytes_pending() == 0 && fuzzed.connection.partial_bytes() == 0,
        "nothing is left of it"
    );
}

/// A connection in the server role with an owner that accepts everything.
struct Fuzzed {
    connection: Connection,
    input: BytesMut,
    now: u64,
    ended: bool,
}

impl Fuzzed {
    /// `depth`: 0 before anything, 1 after SASL, 2 after open, 3 after begin and two attaches.
    fn new(depth: u8) -> Self {
        let options = LinkOptions {
            identity: Identity {
                container_id: "fuzz".to_owned(),
                ..Identity::default()
            },
            allow_plain_amqp: depth > 0,
            partial_bytes_max: 64 * 1024,
            ..LinkOptions::default()
        };
        let mut fuzzed = Self {
            connection: Connection::server(now(0), options),
            input: BytesMut::new(),
            now: 0,
            ended: false,
        };
        if depth > 0 {
            fuzzed.input.extend_from_slice(&Protocol::Amqp.header());
        }
        if depth > 1 {
            fuzzed.input.extend_from_slice(OPEN);
        }
        if depth > 2 {
            fuzzed.input.extend_from_slice(BEGIN_AND_ATTACHES);
        }
        fuzzed.turn();
        assert!(!fuzzed.ended, "the beginning is right");
        fuzzed
    }

    fn turn(&mut self) {
        self.now += 7;
        loop {
            self.connection.handle_bytes(now(self.now), &mut self.input);
            let mut any = false;
            while let Some(event) = self.connection.poll_event() {
                any = true;
                self.answer(&event);
            }
            if !any {
                break;
            }
        }
        self.connection.handle_timeout(now(self.now));
        let mut out = Vec::new();
        self.connection.poll_transmit(now(self.now), &mut out);
        check_output(&out);
        // The small messages of one turn, flows and answers.
        assert!(out.len() < 4 * 1024 * 1024, "output is bounded");
        // The largest message that may arrive in fragments.
        assert!(
            self.connection.partial_bytes() <= 128 * 1024,
            "partial deliveries are bounded"
        );
    }

    fn answer(&mut self, event: &Event) {
        assert!(!self.ended, "nothing follows the last event");
        match event {
            Event::SaslInit { .. } | Event::SaslResponse { .. } => {
                self.connection.sasl_outcome(SaslCode::Ok);
            }
            Event::Opened(_) => self.connection.open(now(self.now)),
            Event::Attached { link, role, .. } => {
                let answer = AttachAnswer {
                    max_message_size: Some(64 * 1024),
                    ..AttachAnswer::default()
                };
                self.connection.accept_attach(*link, answer);
                if *role == Role::Receiver {
                    self.connection.set_credit(*link, 100);
                }
            }
            Event::LinkFlow { link, drain, .. } => {
                for token in 0..4 {
                    let sending = super::Sending {
                        token,
                        settled: false,
                        message_format: 0,
                        prefix: b"prefix",
                        bare: b"bare",
                        tag: None,
                    };
                    let _ = self
                        .connection
                        .send(*link, sending, || bytes::Bytes::from_static(b"bare"));
                }
                if *drain {
                    self.connection.drained(*link, u64::MAX);
                }
            }
            Event::Delivery {
                link, delivery_id, ..
            } => {
                self.connection
                    .settle_received(*link, *delivery_id, &DeliveryState::Accepted);
            }
            Event::Outcome {
                link,
                delivery_id,
                state,
                ..
            } => {
                self.connection.settle_sent(*link, *delivery_id, state);
            }
            Event::Closed { .. } => self.ended = true,
            _ => {}
        }
    }
}

/// Checks that output consists of protocol headers and whole frames.
fn check_output(mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let used = if bytes.starts_with(b"AMQP") {
            8
        } else {
            let header = FrameHeader::parse(bytes, limits::FRAME_BYTES_DEFAULT as usize);
            header
                .ok()
                .flatten()
                .map_or(usize::MAX, |header| header.size)
        };
        assert!(used <= bytes.len(), "only whole frames are written");
        bytes = bytes.get(used..).unwrap_or_default();
    }
}

fn now(ms: u64) -> Now {
    Now::new(Millis(ms), Timestamp(0))
}

/// The frame `open(container-id="f")`.
const OPEN: &[u8] = b"\x00\x00\x00\x11\x02\x00\x00\x00\x00\x53\x10\xc0\x04\x01\xa1\x01f";

/// begin; attach "s" as sender on handle 0; attach "r" as receiver on handle 1; flow with credit 9
const BEGIN_AND_ATTACHES: &[u8] = b"\
    \x00\x00\x00\x16\x02\x00\x00\x00\x00\x53\x11\xc0\x09\x05\x40\x43\x52\xff\x52\xff\x52\xff\
    \x00\x00\x00\x20\x02\x00\x00\x00\x00\x53\x12\xc0\x13\x0a\xa1\x01s\x43\x42\x40\x40\
    \x00\x53\x28\x45\x00\x53\x29\x45\x40\x40\x43\
    \x00\x00\x00\x1e\x02\x00\x00\x00\x00\x53\x12\xc0\x11\x07\xa1\x01r\x52\x01\x41\x40\x40\
    \x00\x53\x28\x45\x00\x53\x29\x45\
    \x00\x00\x00\x1a\x02\x00\x00\x00\x00\x53\x13\xc0\x0d\x08\x40\x52\xff\x43\x52\xff\
    \x52\x01\x40\x52\x09\x40";
