//! Looking for bytes in the body of a message, in linear time.

use std::borrow::Cow;

use bytes::Bytes;

use crate::base::limits::FILTER_BODY_BYTES_MAX;
use crate::message::Message;
use crate::wire::Reader;

/// A text to look for, with the table that keeps the search linear (Knuth, Morris, Pratt).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Needle {
    bytes: Box<[u8]>,
    /// For each length of a beginning: the length of its longest end that is a beginning, too.
    borders: Box<[u32]>,
}

impl Needle {
    /// A text to look for, which must not be empty.
    pub(super) fn new(text: &str) -> Self {
        let bytes: Box<[u8]> = text.as_bytes().into();
        let mut borders = vec![0_u32; bytes.len()];
        let mut matched = 0_usize;
        for place in 1..bytes.len() {
            matched = step(&bytes, &borders, matched, bytes.get(place).copied());
            if let Some(border) = borders.get_mut(place) {
                *border = u32::try_from(matched).unwrap_or(0);
            }
        }
        Self {
            bytes,
            borders: borders.into(),
        }
    }

    /// Whether the bytes contain it.
    pub(super) fn is_in(&self, bytes: &[u8]) -> bool {
        let mut matched = 0;
        for byte in bytes {
            matched = step(&self.bytes, &self.borders, matched, Some(*byte));
            if matched == self.bytes.len() {
                return true;
            }
        }
        self.bytes.is_empty()
    }
}

/// The length of the beginning that matches up to and with this byte. A whole match is not gone on
/// from.
fn step(needle: &[u8], borders: &[u32], mut matched: usize, byte: Option<u8>) -> usize {
    loop {
        if needle.get(matched).copied() == byte {
            return matched + 1;
        }
        let Some(shorter) = matched.checked_sub(1).and_then(|last| borders.get(last)) else {
            return 0;
        };
        matched = *shorter as usize;
    }
}

/// The beginning of the body that filters look through; none if it is not in memory.
pub(super) fn beginning(message: &Message) -> Option<Cow<'_, [u8]>> {
    if message.blob().is_some() {
        return None;
    }
    if message.rest().is_empty() {
        return Some(payload(message.body()));
    }
    // The parts begin where the body does.
    let mut joined = Vec::new();
    for part in message.rest() {
        let room = FILTER_BODY_BYTES_MAX.saturating_sub(joined.len());
        joined.extend_from_slice(part.get(..room).unwrap_or(part));
    }
    Some(Cow::Owned(payload(&joined).into_owned()))
}

/// The bytes of encoded body sections in which a text is looked for: the data of several data
/// sections joined, so that a text is found over their bounds; all else as it is encoded.
pub(super) fn payload(body: &[u8]) -> Cow<'_, [u8]> {
    let body = body.get(..FILTER_BODY_BYTES_MAX).unwrap_or(body);
    let mut reader = Reader::new(body);
    let is_single = reader.raw().is_ok_and(|first| first.len() == body.len());
    if is_single {
        return Cow::Borrowed(body);
    }
    let mut joined = Vec::with_capacity(body.len());
    let mut reader = Reader::new(body);
    while !reader.is_empty() {
        let rest = reader.rest();
        // A section that is cut, at the end, is looked through as it is.
        let Ok(section) = reader.raw() else {
            joined.extend_from_slice(rest);
            break;
        };
        let data = Reader::new(section).described();
        match data.and_then(|mut section| section.value.binary()) {
            Ok(data) => joined.extend_from_slice(data),
            Err(_) => joined.extend_from_slice(section),
        }
    }
    Cow::Owned(joined)
}

/// The body in the beginning of a streamed message's bare bytes.
pub(super) fn streamed<'a>(message: &Message, bare: &'a [u8]) -> Cow<'a, [u8]> {
    payload(bare.get(message.body_start()..).unwrap_or_default())
}

/// Bytes of the body that are looked through, for the estimate of the time that takes.
pub(super) fn looked_at_bytes(message: &Message) -> usize {
    let parts: usize = message.rest().iter().map(Bytes::len).sum();
    (message.body().len() + parts).min(FILTER_BODY_BYTES_MAX)
}
