//! The frame trace: target `coroner::frames`, level TRACE. While it is off it costs one comparison
//! for each frame read and for each write. Payloads are not printed, only their length.

use tracing::{Level, enabled, trace};

use crate::wire::frame::{FrameHeader, FrameKind};
use crate::wire::performative;

/// Traces one frame from the peer.
pub(super) fn received(frame: &[u8]) {
    if enabled!(target: "coroner::frames", Level::TRACE) {
        trace_frames("<-", frame);
    }
}

/// Traces the frames in `bytes`, which may begin with a protocol header.
pub(super) fn sent(bytes: &[u8]) {
    if enabled!(target: "coroner::frames", Level::TRACE) {
        trace_frames("->", bytes);
    }
}

fn trace_frames(direction: &str, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let (line, used) = describe(bytes);
        trace!(target: "coroner::frames", "{direction} {line}");
        bytes = bytes.get(used..).unwrap_or_default();
    }
}

/// One line about the frame or protocol header at the front of `bytes`, and its length.
fn describe(bytes: &[u8]) -> (String, usize) {
    if bytes.starts_with(b"AMQP") {
        let header = bytes.get(..8).unwrap_or(bytes);
        return (format!("header {header:02x?}"), header.len());
    }
    let Ok(Some(header)) = FrameHeader::parse(bytes, bytes.len()) else {
        return (
            format!("{} bytes that are no frame", bytes.len()),
            bytes.len(),
        );
    };
    let body = bytes.get(header.body..header.size).unwrap_or_default();
    let text = match header.kind {
        _ if body.is_empty() => "heartbeat".to_owned(),
        // SASL frames may contain passwords.
        FrameKind::Sasl => "sasl".to_owned(),
        FrameKind::Amqp => performative::describe(body),
    };
    (format!("{} {text}", header.channel), header.size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_name_frames_and_hide_what_is_in_sasl() {
        let check = |bytes: &[u8], expect: &str| assert_eq!(describe(bytes).0, expect);
        check(
            b"AMQP\x00\x01\x00\x00",
            "header [41, 4d, 51, 50, 00, 01, 00, 00]",
        );
        check(&[0, 0, 0, 8, 2, 0, 0, 0], "0 heartbeat");
        check(&[0, 0, 0, 9, 2, 1, 0, 0, 1], "0 sasl");
        check(&[1, 2, 3], "3 bytes that are no frame");
        check(
            &[
                0, 0, 0, 20, 2, 0, 0, 5, 0, 0x53, 0x14, 0xc0, 2, 1, 0x43, 1, 2, 3, 4, 5,
            ],
            "5 transfer [uint 0] + 5 bytes",
        );
    }
}
