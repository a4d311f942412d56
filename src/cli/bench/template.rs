//! A message that is encoded once, and stamped for each time it is sent.

use super::codec::{Item, code, patch, write_frame};

/// Bytes of the stamp at the end of each body: number of the run, and time of sending.
pub(super) const STAMP_BYTES: usize = 16;

const NANOS_PER_MILLI: u64 = 1_000_000;

/// The properties of a run's messages.
#[derive(Clone, Copy)]
pub(super) struct MessageShape {
    /// Size of the data section, in bytes.
    pub(super) size_bytes: usize,
    pub(super) durable: bool,
    /// Whether messages are sent settled.
    pub(super) settled: bool,
    /// The number of this run, which tells its messages from others'.
    pub(super) run: u64,
    pub(super) life: Option<Life>,
}

/// The time to live of a run's messages, or how long they wait.
#[derive(Clone, Copy)]
pub(super) enum Life {
    /// This many milliseconds each.
    Each(u32),
    /// All to the same moment, this many milliseconds after the run began.
    Until(u32),
    /// They live on, and are delivered this many milliseconds after their arrival.
    Delayed(u32),
}

impl Life {
    /// The time to live, in milliseconds, of a message sent `nanos` after the run began; none: it lives
    /// on.
    fn ttl_millis(self, nanos: u64) -> Option<u32> {
        match self {
            Self::Each(millis) => Some(millis),
            Self::Until(millis) => {
                let gone = u32::try_from(nanos / NANOS_PER_MILLI).unwrap_or(u32::MAX);
                Some(millis.saturating_sub(gone))
            }
            Self::Delayed(_) => None,
        }
    }

    /// When such a message expires, or is delivered, in nanoseconds after the run began.
    pub(super) fn due_nanos(self, sent_nanos: u64) -> u64 {
        match self {
            Self::Each(millis) | Self::Delayed(millis) => {
                sent_nanos + u64::from(millis) * NANOS_PER_MILLI
            }
            Self::Until(millis) => sent_nanos.max(u64::from(millis) * NANOS_PER_MILLI),
        }
    }
}

/// All frames of one message, with the offsets of the parts that differ between messages.
///
/// ```text
/// frame header | transfer: handle, delivery-id, delivery-tag, ... | sections ... run | nanos
///                                  ^ ID_AT      ^ TAG_AT                               ^ the end
/// ```
pub(super) struct Template {
    bytes: Vec<u8>,
    /// Offset at which each frame ends.
    ends: Vec<usize>,
    life: Option<Life>,
    /// Offset of the time to live, if there is one.
    ttl_at: usize,
}

/// Offsets within a transfer frame as [`transfer`] writes it: the frame header, descriptor, list
/// and handle come before the id; its code and that of the tag between the two.
const ID_AT: usize = 8 + 3 + 3 + 1 + 1;
const TAG_AT: usize = ID_AT + 4 + 2;
/// Offset of the time to live within a message: the header's descriptor, list and its code come
/// before it, and the fields durable and priority.
const TTL_AT: usize = 3 + 3 + 1 + 1 + 1;
/// Capacity for the frame header and the performative of each frame, in bytes.
const TRANSFER_BYTES: usize = 64;

impl Template {
    pub(super) fn new(shape: &MessageShape, frame_bytes_max: usize) -> Self {
        let message = message(shape);
        let chunks = message.chunks(frame_bytes_max - TRANSFER_BYTES);
        let count = chunks.len();
        let mut template = Self {
            bytes: Vec::new(),
            ends: Vec::with_capacity(count),
            life: shape.life,
            ttl_at: 0,
        };
        for (index, chunk) in chunks.enumerate() {
            write_frame(&mut template.bytes, 0, |out| {
                let fields = transfer(shape, index == 0, index + 1 < count);
                Item::Described(code::TRANSFER, fields).write(out);
                if index == 0 {
                    template.ttl_at = out.len() + TTL_AT;
                }
                out.extend_from_slice(chunk);
            });
            template.ends.push(template.bytes.len());
        }
        template
    }

    /// Number of frames of the message, each one transfer of the session's window.
    pub(super) fn frames(&self) -> usize {
        self.ends.len()
    }

    /// Makes it delivery `id`, sent `nanos` after the run began.
    pub(super) fn stamp(&mut self, id: u32, nanos: u64) {
        patch(&mut self.bytes, ID_AT, id);
        patch(&mut self.bytes, TAG_AT, id);
        if let Some(ttl_millis) = self.life.and_then(|life| life.ttl_millis(nanos)) {
            patch(&mut self.bytes, self.ttl_at, ttl_millis);
        }
        if let Some(stamp) = self.bytes.last_chunk_mut::<8>() {
            *stamp = nanos.to_be_bytes();
        }
    }

    /// Appends `count` frames from the `first`.
    pub(super) fn write(&self, first: usize, count: usize, out: &mut Vec<u8>) {
        let end = |frames: usize| frames.checked_sub(1).and_then(|last| self.ends.get(last));
        let start = end(first).copied().unwrap_or(0);
        let end = end(first + count).copied().unwrap_or(start);
        out.extend_from_slice(self.bytes.get(start..end).unwrap_or_default());
    }
}

/// When a message of this run was sent, in nanoseconds since the run began: read from the last
/// bytes of its last frame.
pub(super) fn stamp(payload: &[u8], run: u64) -> Option<u64> {
    let (rest, nanos) = payload.split_last_chunk::<8>()?;
    let sender = rest.last_chunk::<8>()?;
    (u64::from_be_bytes(*sender) == run).then_some(u64::from_be_bytes(*nanos))
}

fn transfer(shape: &MessageShape, first: bool, more: bool) -> Vec<Item<'static>> {
    let mut fields = vec![Item::Uint(0)];
    if first {
        // The largest id reserves all four bytes.
        fields.extend([Item::Uint(u32::MAX), Item::Binary(&[0; 4]), Item::Uint(0)]);
    } else {
        fields.extend([Item::Null, Item::Null, Item::Null]);
    }
    fields.push(Item::Bool(shape.settled));
    if more {
        fields.push(Item::Bool(true));
    }
    fields
}

/// The sections: header, annotations where a message is to wait, and data.
fn message(shape: &MessageShape) -> Vec<u8> {
    let mut out = Vec::with_capacity(shape.size_bytes + TRANSFER_BYTES);
    let mut header = vec![Item::Bool(shape.durable)];
    if shape.life.is_some_and(|life| life.ttl_millis(0).is_some()) {
        // The largest number reserves all four bytes.
        header.extend([Item::Null, Item::Uint(u32::MAX)]);
    }
    Item::Described(code::HEADER, header).write(&mut out);
    if let Some(Life::Delayed(millis)) = shape.life {
        let delay = (Item::Symbol("x-opt-delivery-delay"), Item::Uint(millis));
        let annotations = Box::new(Item::Map(vec![delay]));
        Item::Section(code::MESSAGE_ANNOTATIONS, annotations).write(&mut out);
    }
    let mut body = vec![b'.'; shape.size_bytes];
    let run_at = body.len().saturating_sub(STAMP_BYTES);
    let run = body
        .get_mut(run_at..)
        .into_iter()
        .flatten()
        .zip(shape.run.to_be_bytes());
    run.for_each(|(byte, new)| *byte = new);
    Item::Section(code::DATA, Box::new(Item::Binary(&body))).write(&mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::super::codec::{Performative, split_frame, uint};
    use super::*;

    #[test]
    fn a_message_carries_its_id_and_stamp_in_one_frame_or_many() {
        for (size_bytes, transfers) in [(16, 1), (100, 1), (2_000, 5)] {
            let shape = MessageShape {
                size_bytes,
                durable: true,
                settled: false,
                run: 77,
                life: None,
            };
            let mut template = Template::new(&shape, 512);
            assert_eq!(template.frames(), transfers, "{size_bytes}");
            let mut out = Vec::new();
            template.stamp(0x0102_0304, 99);
            template.write(0, 1, &mut out);
            template.write(1, transfers - 1, &mut out);
            let (mut at, mut frames, mut last) = (0, 0, &[][..]);
            while let Some((body, taken)) = split_frame(&out[at..]).unwrap() {
                let transfer = Performative::read(body).unwrap().unwrap();
                assert!(taken <= 512);
                if frames == 0 {
                    assert_eq!(uint(transfer.fields.field(1)), Some(0x0102_0304));
                    let tag = transfer.fields.field(2).unwrap();
                    assert_eq!(tag, [0xa0, 4, 1, 2, 3, 4]);
                }
                (at, frames, last) = (at + taken, frames + 1, transfer.payload);
            }
            assert_eq!((at, frames), (out.len(), transfers));
            assert_eq!(stamp(last, 77), Some(99));
            assert_eq!(stamp(last, 78), None, "another run's");
        }
    }

    #[test]
    fn a_message_that_waits_says_how_long_and_lives_on() {
        let life = Life::Delayed(12_000);
        let shape = MessageShape {
            size_bytes: 100,
            durable: true,
            settled: false,
            run: 77,
            life: Some(life),
        };
        let mut template = Template::new(&shape, 512);
        template.stamp(1, 5);
        let mut out = Vec::new();
        template.write(0, 1, &mut out);
        let (body, _) = split_frame(&out).unwrap().unwrap();
        let transfer = Performative::read(body).unwrap().unwrap();
        let message = crate::message::Message::from_transfer(
            transfer.payload.to_vec().into(),
            crate::message::KeyRule::Specification,
        );
        let message = message.unwrap();
        let asked = message.directions().delivery_time().unwrap();
        let expected = crate::message::DeliveryTime::After(12_000);
        assert_eq!((asked, message.ttl_ms()), (Some(expected), None));
        assert_eq!(life.due_nanos(5), 12_000 * NANOS_PER_MILLI + 5);
        assert_eq!(stamp(transfer.payload, 77), Some(5));
    }

    #[test]
    fn a_message_lives_so_long_or_until_a_moment_all_have_in_common() {
        let second = 1_000 * NANOS_PER_MILLI;
        for (life, sent, ttl, due) in [
            (Life::Each(300), 5 * second, 300, 5 * second + 300_000_000),
            (Life::Until(6_000), 5 * second, 1_000, 6 * second),
            (Life::Until(6_000), 7 * second, 0, 7 * second),
        ] {
            let shape = MessageShape {
                size_bytes: 100,
                durable: true,
                settled: false,
                run: 77,
                life: Some(life),
            };
            let mut template = Template::new(&shape, 512);
            template.stamp(1, sent);
            let mut out = Vec::new();
            template.write(0, 1, &mut out);
            let (body, _) = split_frame(&out).unwrap().unwrap();
            let transfer = Performative::read(body).unwrap().unwrap();
            let header = Performative::read(transfer.payload).unwrap().unwrap();
            assert_eq!(header.code, code::HEADER);
            assert_eq!(uint(header.fields.field(2)), Some(ttl));
            assert_eq!(life.due_nanos(sent), due);
        }
    }
}
