//! Frames and protocol headers. [AMQP 2.2, 2.3]
//!
//! ```text
//!  byte 0        4      5      6         8              4 * data offset           size
//!  | size (u32) | doff | type | channel | extended header (skipped) | performative | payload |
//! ```

use thiserror::Error;

use crate::base::invariant;

/// Length of a frame header without extension, in bytes; the smallest size of a frame. [AMQP 2.3.1]
pub const FRAME_HEADER_BYTES: usize = 8;

/// Length of a protocol header, in bytes. [AMQP 2.2]
pub const PROTOCOL_HEADER_BYTES: usize = 8;

/// The protocol that a protocol header announces. [AMQP 2.2, 5.2, 5.3]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocol {
    /// AMQP itself, without a layer.
    Amqp,
    /// The SASL layer, before AMQP.
    Sasl,
}

impl Protocol {
    /// The eight bytes that announce it, in version 1.0.0.
    pub const fn header(self) -> [u8; PROTOCOL_HEADER_BYTES] {
        match self {
            Self::Amqp => *b"AMQP\x00\x01\x00\x00",
            Self::Sasl => *b"AMQP\x03\x01\x00\x00",
        }
    }

    /// The protocol that `header` announces, if it is one of these.
    pub fn parse(header: &[u8]) -> Option<Self> {
        [Self::Amqp, Self::Sasl]
            .into_iter()
            .find(|protocol| protocol.header() == header)
    }
}

/// The kind of performative in a frame. [AMQP 2.3.1, 5.3.1]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameKind {
    /// A performative of the transport, or none (an empty frame keeps a connection alive).
    Amqp,
    /// A performative of the SASL layer; the channel is ignored.
    Sasl,
}

/// The fixed part of a frame. [AMQP 2.3.1]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameHeader {
    /// Length of the whole frame, in bytes.
    pub size: usize,
    /// Offset at which the performative begins, in bytes; not beyond `size`.
    pub body: usize,
    /// The kind of performative in it.
    pub kind: FrameKind,
    /// The sender's channel number.
    pub channel: u16,
}

/// Why a frame header is invalid: `amqp:connection:framing-error`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum FrameError {
    /// The frame is larger than agreed.
    #[error("frame of {size} bytes is larger than the maximum of {max}")]
    TooLarge {
        /// The frame's size, in bytes.
        size: usize,
        /// The largest size agreed, in bytes.
        max: usize,
    },
    /// The frame is smaller than its own header.
    #[error("frame size {size} is smaller than a frame header")]
    TooSmall {
        /// The frame's size, in bytes.
        size: usize,
    },
    /// The data offset points into the header or beyond the frame.
    #[error("data offset {doff} does not fit a frame of {size} bytes")]
    DataOffset {
        /// The offset, in words of four bytes.
        doff: u8,
        /// The frame's size, in bytes.
        size: usize,
    },
    /// The type is neither AMQP nor SASL.
    #[error("unknown frame type {kind}")]
    Kind {
        /// The frame's type.
        kind: u8,
    },
}

impl FrameHeader {
    /// Reads the header at the front of `bytes`; none if it has not arrived completely. A frame
    /// larger than `size_max` is refused before its body has arrived.
    pub fn parse(bytes: &[u8], size_max: usize) -> Result<Option<Self>, FrameError> {
        let Some(&[s0, s1, s2, s3, doff, kind, c0, c1]) = bytes.first_chunk() else {
            return Ok(None);
        };
        let size = u32::from_be_bytes([s0, s1, s2, s3]) as usize;
        if size < FRAME_HEADER_BYTES {
            return Err(FrameError::TooSmall { size });
        }
        if size > size_max {
            return Err(FrameError::TooLarge {
                size,
                max: size_max,
            });
        }
        let body = usize::from(doff) * 4;
        if body < FRAME_HEADER_BYTES || body > size {
            return Err(FrameError::DataOffset { doff, size });
        }
        let kind = match kind {
            0 => FrameKind::Amqp,
            1 => FrameKind::Sasl,
            kind => return Err(FrameError::Kind { kind }),
        };
        let channel = u16::from_be_bytes([c0, c1]);
        Ok(Some(Self {
            size,
            body,
            kind,
            channel,
        }))
    }
}

/// A frame that was begun and is not ended yet.
#[derive(Debug)]
#[must_use = "a frame that was begun must be finished with `end_frame`"]
pub struct FrameStart(usize);

/// Writes a frame header; write the body, then call [`end_frame`].
pub fn begin_frame(out: &mut Vec<u8>, kind: FrameKind, channel: u16) -> FrameStart {
    let start = out.len();
    let [c0, c1] = channel.to_be_bytes();
    let kind = match kind {
        FrameKind::Amqp => 0,
        FrameKind::Sasl => 1,
    };
    out.extend_from_slice(&[0, 0, 0, 0, 2, kind, c0, c1]);
    FrameStart(start)
}

/// Fills in the size of the frame.
#[allow(
    clippy::needless_pass_by_value,
    reason = "a mark is used up by the end of its frame"
)]
pub fn end_frame(out: &mut [u8], frame_start: FrameStart) {
    invariant!(
        out.len() >= frame_start.0 + FRAME_HEADER_BYTES,
        "a frame that ends has a header"
    );
    let size = u32::try_from(out.len().saturating_sub(frame_start.0)).unwrap_or(u32::MAX);
    if let Some(place) = out.get_mut(frame_start.0..frame_start.0 + 4) {
        place.copy_from_slice(&size.to_be_bytes());
    }
}

/// Writes an empty frame, the heartbeat. [AMQP 2.4.5]
pub fn write_heartbeat(out: &mut Vec<u8>) {
    let frame_start = begin_frame(out, FrameKind::Amqp, 0);
    end_frame(out, frame_start);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], expect: Result<Option<FrameHeader>, FrameError>) {
        assert_eq!(FrameHeader::parse(bytes, 512), expect, "{bytes:02x?}");
    }

    // [AMQP 2.3.1] "SIZE: Bytes 0-3 of the frame header contain the frame size. This is an unsigned
    // 32-bit integer that MUST contain the total frame size of the frame header, extended header,
    // and frame body. The frame is malformed if the size is less than the size of the frame header."
    #[test]
    fn frame_headers_are_checked_before_their_body_arrives() {
        let header = |size, body, kind, channel| FrameHeader {
            size,
            body,
            kind,
            channel,
        };
        check(&[], Ok(None));
        check(&[0, 0, 0, 8, 2, 0, 0], Ok(None));
        check(
            &[0, 0, 0, 8, 2, 0, 0, 7],
            Ok(Some(header(8, 8, FrameKind::Amqp, 7))),
        );
        check(
            &[0, 0, 0, 12, 3, 1, 1, 0],
            Ok(Some(header(12, 12, FrameKind::Sasl, 256))),
        );
        check(
            &[0, 0, 0, 7, 2, 0, 0, 0],
            Err(FrameError::TooSmall { size: 7 }),
        );
        check(
            &[0, 0, 2, 1, 2, 0, 0, 0],
            Err(FrameError::TooLarge {
                size: 513,
                max: 512,
            }),
        );
        check(&[255, 255, 255, 255, 2, 0, 0, 0], {
            Err(FrameError::TooLarge {
                size: 0xffff_ffff,
                max: 512,
            })
        });
        check(
            &[0, 0, 0, 8, 1, 0, 0, 0],
            Err(FrameError::DataOffset { doff: 1, size: 8 }),
        );
        check(
            &[0, 0, 0, 8, 3, 0, 0, 0],
            Err(FrameError::DataOffset { doff: 3, size: 8 }),
        );
        check(&[0, 0, 0, 8, 2, 2, 0, 0], Err(FrameError::Kind { kind: 2 }));
    }

    #[test]
    fn written_frames_are_read_back() {
        let mut out = vec![0xaa];
        let frame_start = begin_frame(&mut out, FrameKind::Sasl, 3);
        out.extend_from_slice(b"body");
        end_frame(&mut out, frame_start);
        check(&out[1..], {
            Ok(Some(FrameHeader {
                size: 12,
                body: 8,
                kind: FrameKind::Sasl,
                channel: 3,
            }))
        });
    }
}
