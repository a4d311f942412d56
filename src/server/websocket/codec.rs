//! Frames of a WebSocket, as the server reads and writes them [RFC 6455 5]: the bytes of binary
//! messages pass through as they come, so that no message is ever collected, however large.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::base::limits::WEBSOCKET_CONTROL_BYTES_MAX;
use crate::base::uncount;

const CONTINUATION: u8 = 0x0;
const TEXT: u8 = 0x1;
const BINARY: u8 = 0x2;
const CLOSE: u8 = 0x8;
const PING: u8 = 0x9;
const PONG: u8 = 0xa;
/// The bits of the first byte: the last frame of a message, and three that no extension gave a
/// meaning.
const FIN: u8 = 0x80;
const RESERVED: u8 = 0x70;
/// The bit of the second byte that says that the payload is masked, which a client's always is.
const MASKED: u8 = 0x80;
/// Lengths from here on stand in two bytes more, and those above 65,535 in eight.
const LENGTH_IN_2: u8 = 126;
const LENGTH_IN_8: u8 = 127;
/// Bytes of a head: two, the length, the mask.
const HEAD_BYTES_MAX: usize = 14;

/// Why a WebSocket is closed. [RFC 6455 7.4.1]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CloseCode {
    Normal = 1000,
    ProtocolError = 1002,
    /// AMQP is binary.
    Unacceptable = 1003,
}

/// What the peer's bytes say next.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Read {
    /// So many bytes of a binary message were written to the output.
    Data(usize),
    /// A ping with this payload, to be answered with the same.
    Ping(Bytes),
    /// The peer closes.
    Close,
    /// It is to be closed: the peer did what it must not.
    Broken(CloseCode, &'static str),
    /// More bytes are needed.
    Incomplete,
}

/// The frame whose payload comes.
#[derive(Clone, Copy, Debug)]
struct Frame {
    opcode: u8,
    mask: [u8; 4],
    /// Bytes of the payload that did not come yet.
    left: u64,
    /// Where in the mask the next byte is.
    at: usize,
}

/// Reads frames of a client.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    frame: Option<Frame>,
    /// Whether a binary message goes on: its last frame did not come.
    in_message: bool,
}

impl Decoder {
    /// Takes the next frame, or a piece of one, from the input; what it has of a binary message goes into
    /// `output`, which must not be empty.
    pub(super) fn read(&mut self, input: &mut BytesMut, output: &mut [u8]) -> Read {
        loop {
            let Some(frame) = &mut self.frame else {
                match self.begin(input) {
                    Ok(true) => continue,
                    Ok(false) => return Read::Incomplete,
                    Err((code, why)) => return Read::Broken(code, why),
                }
            };
            if frame.opcode >= CLOSE {
                let whole = usize::try_from(frame.left).unwrap_or(usize::MAX);
                if input.len() < whole {
                    return Read::Incomplete;
                }
                let mut payload = input.split_to(whole);
                frame.unmask(&mut payload);
                let opcode = frame.opcode;
                self.frame = None;
                match opcode {
                    PING => return Read::Ping(payload.freeze()),
                    CLOSE => return Read::Close,
                    _ => continue, // a pong that nobody asked for
                }
            }
            if frame.left == 0 {
                self.frame = None;
                continue;
            }
            let left = usize::try_from(frame.left).unwrap_or(usize::MAX);
            let count = left.min(input.len()).min(output.len());
            if count == 0 {
                return Read::Incomplete;
            }
            let (Some(from), Some(to)) = (input.get(..count), output.get_mut(..count)) else {
                return Read::Incomplete;
            };
            to.copy_from_slice(from);
            frame.unmask(to);
            input.advance(count);
            return Read::Data(count);
        }
    }

    /// Reads the head of a frame; whether it is all there.
    fn begin(&mut self, input: &mut BytesMut) -> Result<bool, (CloseCode, &'static str)> {
        let (Some(first), Some(second)) = (input.first().copied(), input.get(1).copied()) else {
            return Ok(false);
        };
        let (fin, opcode) = (first & FIN != 0, first & 0x0f);
        let broken = |why| Err((CloseCode::ProtocolError, why));
        if first & RESERVED != 0 {
            return broken("a reserved bit is set, and no extension was agreed on");
        }
        if second & MASKED == 0 {
            return broken("a client's frame is not masked");
        }
        match opcode {
            CONTINUATION if !self.in_message => return broken("a continuation of no message"),
            BINARY if self.in_message => return broken("a message begins within a message"),
            TEXT => {
                let why = "a text message: AMQP needs binary ones";
                return Err((CloseCode::Unacceptable, why));
            }
            CLOSE | PING | PONG if !fin => return broken("a control frame in pieces"),
            CONTINUATION | BINARY | CLOSE | PING | PONG => {}
            _ => return broken("an unknown opcode"),
        }
        let short = second & !MASKED;
        let length_bytes = match short {
            LENGTH_IN_2 => 2,
            LENGTH_IN_8 => 8,
            _ => 0,
        };
        let Some(mut rest) = input.get(2..2 + length_bytes + 4) else {
            return Ok(false);
        };
        let left = match short {
            LENGTH_IN_2 => u64::from(rest.get_u16()),
            LENGTH_IN_8 => rest.get_u64(),
            short => u64::from(short),
        };
        if left > i64::MAX as u64 {
            return broken("a length of more than 63 bits");
        }
        if opcode >= CLOSE && left > WEBSOCKET_CONTROL_BYTES_MAX as u64 {
            return broken("a control frame of more than 125 bytes");
        }
        let mut mask = [0; 4];
        rest.copy_to_slice(&mut mask);
        input.advance(2 + length_bytes + 4);
        if opcode < CLOSE {
            self.in_message = !fin;
        }
        self.frame = Some(Frame {
            opcode,
            mask,
            left,
            at: 0,
        });
        Ok(true)
    }
}

impl Frame {
    /// Removes the mask from the next bytes.
    fn unmask(&mut self, bytes: &mut [u8]) {
        uncount!(
            self.left,
            bytes.len() as u64,
            "bytes that are unmasked are of their frame"
        );
        let mut mask = self.mask;
        mask.rotate_left(self.at);
        self.at = (self.at + bytes.len()) % mask.len();
        for chunk in bytes.chunks_mut(mask.len()) {
            for (byte, mask) in chunk.iter_mut().zip(mask) {
                *byte ^= mask;
            }
        }
    }
}

/// Writes a whole binary message.
pub(super) fn write_binary(payload: &[u8], output: &mut BytesMut) {
    write_head(BINARY, payload.len(), output);
    output.extend_from_slice(payload);
}

/// Writes the answer to a ping.
pub(super) fn write_pong(payload: &[u8], output: &mut BytesMut) {
    write_head(PONG, payload.len(), output);
    output.extend_from_slice(payload);
}

/// Writes a close, with its reason for people.
pub(super) fn write_close(code: CloseCode, why: &str, output: &mut BytesMut) {
    write_head(CLOSE, 2 + why.len(), output);
    output.put_u16(code as u16);
    output.extend_from_slice(why.as_bytes());
}

fn write_head(opcode: u8, length: usize, output: &mut BytesMut) {
    output.reserve(HEAD_BYTES_MAX + length);
    output.put_u8(FIN | opcode);
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(short), _) if short < LENGTH_IN_2 => output.put_u8(short),
        (_, Ok(medium)) => {
            output.put_u8(LENGTH_IN_2);
            output.put_u16(medium);
        }
        _ => {
            output.put_u8(LENGTH_IN_8);
            output.put_u64(length as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

    fn frame(first: u8, payload: &[u8]) -> BytesMut {
        let mut bytes = BytesMut::new();
        write_head(first & 0x0f, payload.len(), &mut bytes);
        bytes[0] = first;
        bytes[1] |= MASKED;
        bytes.extend_from_slice(&MASK);
        let masked = payload.iter().zip(MASK.into_iter().cycle());
        bytes.extend(masked.map(|(byte, mask)| byte ^ mask));
        bytes
    }

    /// What a decoder makes of bytes that come in pieces of this size: the data, and what ended it.
    fn read_all(bytes: &[u8], piece: usize) -> (Vec<u8>, Vec<Read>) {
        let (mut decoder, mut input) = (Decoder::default(), BytesMut::new());
        let (mut data, mut others) = (Vec::new(), Vec::new());
        for piece in bytes.chunks(piece) {
            input.extend_from_slice(piece);
            loop {
                let mut output = [0; 7];
                match decoder.read(&mut input, &mut output) {
                    Read::Data(count) => data.extend_from_slice(&output[..count]),
                    Read::Incomplete => break,
                    broken @ Read::Broken(..) => {
                        others.push(broken);
                        return (data, others);
                    }
                    other => others.push(other),
                }
            }
        }
        (data, others)
    }

    /// The example of RFC 6455 5.7.
    #[test]
    fn a_masked_frame_of_the_specification_is_read() {
        let bytes = [
            0x82, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58,
        ];
        assert_eq!(read_all(&bytes, 1), (b"Hello".to_vec(), vec![]));
    }

    #[test]
    fn control_frames_come_between_the_frames_of_a_message() {
        let mut bytes = frame(BINARY, b"AM");
        bytes.extend_from_slice(&frame(FIN | PING, b"?"));
        bytes.extend_from_slice(&frame(FIN | PONG, b"unasked"));
        bytes.extend_from_slice(&frame(FIN | CONTINUATION, b"QP"));
        bytes.extend_from_slice(&frame(FIN | CLOSE, &[]));
        let told = vec![Read::Ping(Bytes::from_static(b"?")), Read::Close];
        assert_eq!(read_all(&bytes, 3), (b"AMQP".to_vec(), told));
    }

    #[test]
    fn what_a_client_must_not_send_closes_with_its_code() {
        let protocol = CloseCode::ProtocolError;
        let mut unmasked = BytesMut::new();
        write_binary(b"x", &mut unmasked);
        let mut twice = frame(BINARY, b"a");
        twice.extend_from_slice(&frame(FIN | BINARY, b"b"));
        let mut huge = frame(FIN | BINARY, &vec![0; 70_000]);
        huge[2] = 0x80;
        let cases = [
            (frame(FIN | TEXT, b"hi"), CloseCode::Unacceptable),
            (unmasked, protocol),
            (frame(FIN | 0x40 | BINARY, b"x"), protocol),
            (frame(FIN | CONTINUATION, b"x"), protocol),
            (twice, protocol),
            (frame(PING, b"x"), protocol),
            (frame(FIN | PING, &[0; 126]), protocol),
            (frame(FIN | 0x3, b"x"), protocol),
            (huge, protocol),
        ];
        for (bytes, code) in cases {
            let (_, told) = read_all(&bytes, bytes.len());
            assert!(
                matches!(told.as_slice(), [Read::Broken(found, _)] if *found == code),
                "{told:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn messages_of_any_length_in_any_pieces_are_the_same_bytes(
            messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..6),
            piece in 1..400_usize,
        ) {
            let frames = messages.iter().map(|message| frame(FIN | BINARY, message));
            let bytes: Vec<u8> = frames.flatten().collect();
            prop_assert_eq!(read_all(&bytes, piece), (messages.concat(), vec![]));
        }

        #[test]
        fn no_bytes_make_the_decoder_panic_or_go_on_for_ever(
            bytes in prop::collection::vec(any::<u8>(), 0..400),
            piece in 1..64_usize,
        ) {
            let (data, _) = read_all(&bytes, piece);
            prop_assert!(data.len() <= bytes.len());
        }

        #[test]
        fn what_is_written_has_the_length_it_says(length in 0..140_000_usize) {
            let mut bytes = BytesMut::new();
            write_binary(&vec![7; length], &mut bytes);
            let head = match length { 0..126 => 2, 126..65_536 => 4, _ => 10 };
            prop_assert_eq!(bytes.len(), head + length);
        }
    }
}
