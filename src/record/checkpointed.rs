//! Messages of a checkpoint, about 8 bytes each: encoded as differences to the message before.
//!
//! ```text
//! flags: u8, position: varint, arrived: zigzag, envelope: zigzag,
//! body: zigzag difference to the envelope, if flag BODY; size: varint; ttl: varint, if flag TTL;
//! redrive: varint, if flag MOVED
//! ```
//!
//! A varint has 7 bits in each byte, the lowest first, and the highest bit set but in the last.

use super::RecordError;
use crate::base::{Lsn, Position, Timestamp};
use crate::broker::CheckpointedMessage;

/// Flag: a time to live follows.
const TTL: u8 = 1;
/// Flag: the body is in another record than the envelope, whose LSN follows.
const BODY: u8 = 2;
/// Flag: the body has no LSN of its own.
const NO_BODY: u8 = 4;
/// Flag: the redrive that moved it follows.
const MOVED: u8 = 8;

const ERROR: RecordError = RecordError::Field("messages of a checkpoint");

pub(super) fn encode(messages: &[CheckpointedMessage]) -> Vec<u8> {
    let mut out = Vec::with_capacity(messages.len() * 10);
    let mut before = BEGIN;
    for message in messages {
        let mut flags = 0;
        flags |= if message.ttl_ms.is_some() { TTL } else { 0 };
        flags |= if message.moved_by > 0 { MOVED } else { 0 };
        flags |= match message.body {
            Lsn(0) => NO_BODY,
            body if body == message.envelope => 0,
            _ => BODY,
        };
        out.push(flags);
        write(&mut out, message.position.0.wrapping_sub(before.position.0));
        let arrived = message.arrived.0.wrapping_sub(before.arrived.0);
        write(&mut out, zigzag(arrived));
        let envelope = message.envelope.0.wrapping_sub(before.envelope.0);
        write(&mut out, zigzag(envelope.cast_signed()));
        if flags & BODY != 0 {
            let body = message.body.0.wrapping_sub(message.envelope.0);
            write(&mut out, zigzag(body.cast_signed()));
        }
        write(&mut out, message.size_bytes.into());
        if let Some(ttl_ms) = message.ttl_ms {
            write(&mut out, ttl_ms);
        }
        if message.moved_by > 0 {
            write(&mut out, message.moved_by.into());
        }
        before = *message;
    }
    out
}

pub(super) fn decode(mut bytes: &[u8]) -> Result<Vec<CheckpointedMessage>, RecordError> {
    let mut messages = Vec::new();
    let mut before = BEGIN;
    while let Some((&flags, rest)) = bytes.split_first() {
        bytes = rest;
        let position = Position(before.position.0.wrapping_add(read(&mut bytes)?));
        let arrived = before.arrived.0.wrapping_add(unzigzag(read(&mut bytes)?));
        let envelope = unzigzag(read(&mut bytes)?);
        let envelope = Lsn(before.envelope.0.wrapping_add_signed(envelope));
        let body = match flags & (BODY | NO_BODY) {
            0 => envelope,
            BODY => Lsn(envelope.0.wrapping_add_signed(unzigzag(read(&mut bytes)?))),
            _ => Lsn(0),
        };
        let size_bytes = u32::try_from(read(&mut bytes)?).map_err(|_| ERROR)?;
        let ttl_ms = match flags & TTL {
            0 => None,
            _ => Some(read(&mut bytes)?),
        };
        let moved_by = match flags & MOVED {
            0 => 0,
            _ => u32::try_from(read(&mut bytes)?).map_err(|_| ERROR)?,
        };
        before = CheckpointedMessage {
            position,
            arrived: Timestamp(arrived),
            ttl_ms,
            size_bytes,
            envelope,
            body,
            moved_by,
        };
        messages.push(before);
    }
    Ok(messages)
}

/// The message that the first one is encoded against.
const BEGIN: CheckpointedMessage = CheckpointedMessage {
    position: Position(0),
    arrived: Timestamp(0),
    ttl_ms: None,
    size_bytes: 0,
    envelope: Lsn(0),
    body: Lsn(0),
    moved_by: 0,
};

const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

const fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}

fn write(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(low_bits(value) | 0x80);
        value >>= 7;
    }
    out.push(low_bits(value));
}

fn low_bits(value: u64) -> u8 {
    u8::try_from(value & 0x7f).unwrap_or(0)
}

fn read(bytes: &mut &[u8]) -> Result<u64, RecordError> {
    let mut value = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let (&byte, rest) = bytes.split_first().ok_or(ERROR)?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(ERROR)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checkpointed(position: u64, arrived: i64, envelope: u64, body: u64) -> CheckpointedMessage {
        CheckpointedMessage {
            position: Position(position),
            arrived: Timestamp(arrived),
            ttl_ms: position.is_multiple_of(2).then_some(position),
            size_bytes: 1024,
            envelope: Lsn(envelope),
            body: Lsn(body),
            moved_by: if position == 300 { 70_000 } else { 0 },
        }
    }

    #[test]
    fn messages_come_back_as_they_were() {
        let messages = [
            checkpointed(0, i64::MIN, 7, 7),
            checkpointed(1, 1_700_000_000_000, 8, 2),
            checkpointed(2, 1_699_999_999_999, 3, 0),
            checkpointed(300, 1_699_999_999_999, 9, 3),
            checkpointed(u64::MAX, -1, u64::MAX, 1),
        ];
        assert_eq!(decode(&encode(&messages)).unwrap(), messages);
    }

    #[test]
    fn neighbours_take_eight_bytes() {
        let messages: Vec<_> = (1..=1000)
            .map(|n| CheckpointedMessage {
                ttl_ms: None,
                ..checkpointed(n, 1_700_000_000_000, n, n)
            })
            .collect();
        assert!(encode(&messages).len() < 8 * 1000);
    }

    #[test]
    fn bytes_that_end_early_or_say_too_much_are_an_error() {
        let whole = encode(&[checkpointed(300, 5, 600, 1)]);
        for end in 1..whole.len() {
            assert!(decode(&whole[..end]).is_err(), "{end}");
        }
        assert!(decode(&[0xff; 12]).is_err());
    }
}
