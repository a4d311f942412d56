//! The load generator's own small AMQP codec. [AMQP 1.6, 2.3]
//!
//! It shares nothing with the broker on purpose: a mistake in `wire` must not hide here, and the
//! generator must cost less than what it measures.

use super::BenchError;

/// Performatives and SASL frames the generator speaks. [AMQP 2.7, 5.3.3]
pub(super) mod code {
    pub(in crate::cli::bench) const OPEN: u8 = 0x10;
    pub(in crate::cli::bench) const BEGIN: u8 = 0x11;
    pub(in crate::cli::bench) const ATTACH: u8 = 0x12;
    pub(in crate::cli::bench) const FLOW: u8 = 0x13;
    pub(in crate::cli::bench) const TRANSFER: u8 = 0x14;
    pub(in crate::cli::bench) const DISPOSITION: u8 = 0x15;
    pub(in crate::cli::bench) const DETACH: u8 = 0x16;
    pub(in crate::cli::bench) const END: u8 = 0x17;
    pub(in crate::cli::bench) const CLOSE: u8 = 0x18;
    pub(in crate::cli::bench) const ACCEPTED: u8 = 0x24;
    pub(in crate::cli::bench) const REJECTED: u8 = 0x25;
    pub(in crate::cli::bench) const ERROR: u8 = 0x1d;
    pub(in crate::cli::bench) const RELEASED: u8 = 0x26;
    pub(in crate::cli::bench) const MODIFIED: u8 = 0x27;
    pub(in crate::cli::bench) const SOURCE: u8 = 0x28;
    pub(in crate::cli::bench) const TARGET: u8 = 0x29;
    pub(in crate::cli::bench) const SASL_INIT: u8 = 0x41;
    pub(in crate::cli::bench) const HEADER: u8 = 0x70;
    pub(in crate::cli::bench) const MESSAGE_ANNOTATIONS: u8 = 0x72;
    pub(in crate::cli::bench) const PROPERTIES: u8 = 0x73;
    pub(in crate::cli::bench) const DATA: u8 = 0x75;
    pub(in crate::cli::bench) const VALUE: u8 = 0x77;
}

/// Bytes before a frame's body. [AMQP 2.3.1]
pub(super) const FRAME_HEADER_BYTES: usize = 8;

/// A value the generator writes.
pub(super) enum Item<'a> {
    Null,
    Bool(bool),
    Ubyte(u8),
    Uint(u32),
    Text(&'a str),
    Symbol(&'a str),
    Binary(&'a [u8]),
    /// A described list: performative, terminus, outcome, section.
    Described(u8, Vec<Self>),
    /// A described value that is not a list.
    Section(u8, Box<Self>),
    Map(Vec<(Self, Self)>),
}

impl Item<'_> {
    /// Appends the shortest encoding, as common clients do.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Null => out.push(0x40),
            Self::Bool(flag) => out.push(if *flag { 0x41 } else { 0x42 }),
            Self::Ubyte(number) => out.extend([0x50, *number]),
            Self::Uint(0) => out.push(0x43),
            Self::Uint(number) => {
                if let Ok(small) = u8::try_from(*number) {
                    out.extend([0x52, small]);
                } else {
                    out.push(0x70);
                    out.extend(number.to_be_bytes());
                }
            }
            Self::Text(text) => write_bytes(out, 0xa1, text.as_bytes()),
            Self::Symbol(text) => write_bytes(out, 0xa3, text.as_bytes()),
            Self::Binary(bytes) => write_bytes(out, 0xa0, bytes),
            Self::Described(descriptor, fields) => {
                out.extend([0x00, 0x53, *descriptor]);
                let mut body = Vec::new();
                for field in fields {
                    field.write(&mut body);
                }
                write_compound(out, 0xc0, fields.len(), &body);
            }
            Self::Section(descriptor, value) => {
                out.extend([0x00, 0x53, *descriptor]);
                value.write(out);
            }
            Self::Map(pairs) => {
                let mut body = Vec::new();
                for (key, value) in pairs {
                    key.write(&mut body);
                    value.write(&mut body);
                }
                write_compound(out, 0xc1, pairs.len() * 2, &body);
            }
        }
    }
}

/// The distance from a code with a one-byte size to that with a four-byte size.
const WIDE: u8 = 0x10;

fn write_bytes(out: &mut Vec<u8>, code: u8, bytes: &[u8]) {
    if let Ok(size) = u8::try_from(bytes.len()) {
        out.extend([code, size]);
    } else {
        out.push(code + WIDE);
        out.extend(length(bytes.len()).to_be_bytes());
    }
    out.extend_from_slice(bytes);
}

fn write_compound(out: &mut Vec<u8>, code: u8, count: usize, body: &[u8]) {
    if let (Ok(count), Ok(size)) = (u8::try_from(count), u8::try_from(body.len() + 1)) {
        out.extend([code, size, count]);
    } else {
        out.push(code + WIDE);
        out.extend(length(body.len() + 4).to_be_bytes());
        out.extend(length(count).to_be_bytes());
    }
    out.extend_from_slice(body);
}

/// Overwrites four bytes at `at` with a big-endian number.
pub(super) fn patch(out: &mut [u8], at: usize, number: u32) {
    let place = out.get_mut(at..at + 4).into_iter().flatten();
    place
        .zip(number.to_be_bytes())
        .for_each(|(byte, new)| *byte = new);
}

/// A length in the four bytes of AMQP.
pub(super) fn length(size: usize) -> u32 {
    u32::try_from(size).unwrap_or(u32::MAX)
}

/// Appends one frame: `kind` 0 is AMQP, 1 is SASL; the channel is always 0.
pub(super) fn write_frame(out: &mut Vec<u8>, kind: u8, body: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend([0, 0, 0, 0, 2, kind, 0, 0]);
    body(out);
    let size = length(out.len() - at);
    patch(out, at, size);
}

/// Appends one frame with a performative alone.
pub(super) fn write_performative(out: &mut Vec<u8>, kind: u8, code: u8, fields: Vec<Item<'_>>) {
    write_frame(out, kind, |out| Item::Described(code, fields).write(out));
}

/// Splits one complete frame off `input`: its body, and the number of its bytes. None while bytes
/// are missing.
pub(super) fn split_frame(input: &[u8]) -> Result<Option<(&[u8], usize)>, BenchError> {
    let Some((header, _)) = input.split_first_chunk::<FRAME_HEADER_BYTES>() else {
        return Ok(None);
    };
    let [a, b, c, d, doff, ..] = *header;
    let size = u32::from_be_bytes([a, b, c, d]) as usize;
    let start = usize::from(doff) * 4;
    if start < FRAME_HEADER_BYTES || size < start {
        return Err(BenchError::Malformed("a frame header"));
    }
    if input.len() < size {
        return Ok(None);
    }
    Ok(input.get(start..size).map(|body| (body, size)))
}

/// A performative: its code, its fields and the payload behind it.
pub(super) struct Performative<'a> {
    pub(super) code: u8,
    pub(super) fields: Fields<'a>,
    pub(super) payload: &'a [u8],
}

impl<'a> Performative<'a> {
    /// Reads a frame body; none for an empty frame.
    pub(super) fn read(body: &'a [u8]) -> Result<Option<Self>, BenchError> {
        if body.is_empty() {
            return Ok(None);
        }
        let [0x00, 0x53, code, ..] = *body else {
            return Err(BenchError::Malformed("a performative's descriptor"));
        };
        let list = body.get(3..).unwrap_or_default();
        let size = value_len(list).ok_or(BenchError::Malformed("a performative"))?;
        let (list, payload) = list.split_at(size);
        Ok(Some(Self {
            code,
            fields: Fields::of_list(list),
            payload,
        }))
    }
}

/// The fields of a list, or the keys and values of a map, one after another.
#[derive(Clone)]
pub(super) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    /// The fields of an encoded list or map; anything else has none.
    pub(super) fn of_list(encoded: &'a [u8]) -> Self {
        let skip = match encoded.first() {
            Some(0xc0 | 0xc1) => 3,
            Some(0xd0 | 0xd1) => 9,
            _ => encoded.len(),
        };
        Self {
            rest: encoded.get(skip..).unwrap_or_default(),
        }
    }

    /// The `index`-th field from here, encoded.
    pub(super) fn field(&self, index: usize) -> Option<&'a [u8]> {
        self.clone().nth(index)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let size = value_len(self.rest)?;
        let (field, rest) = self.rest.split_at(size);
        self.rest = rest;
        Some(field)
    }
}

/// Length of the encoded value at the start of `bytes`; none when it is incomplete.
fn value_len(bytes: &[u8]) -> Option<usize> {
    // A descriptor is itself one undescribed value, so two steps are enough.
    let (described, bytes) = match bytes {
        [0x00, rest @ ..] => {
            let descriptor = plain_len(rest)?;
            (1 + descriptor, rest.get(descriptor..)?)
        }
        _ => (0, bytes),
    };
    let size = plain_len(bytes)?;
    (bytes.len() >= size).then_some(described + size)
}

/// The same for a value without a descriptor, by the class of its code. [AMQP 1.6.27]
fn plain_len(bytes: &[u8]) -> Option<usize> {
    Some(match bytes.first()? >> 4 {
        0x4 => 1,
        0x5 => 2,
        0x6 => 3,
        0x7 => 5,
        0x8 => 9,
        0x9 => 17,
        0xa | 0xc | 0xe => 2 + usize::from(*bytes.get(1)?),
        0xb | 0xd | 0xf => {
            let [_, a, b, c, d, ..] = *bytes else {
                return None;
            };
            5 + u32::from_be_bytes([a, b, c, d]) as usize
        }
        _ => return None,
    })
}

/// Reads a uint or ulong of any width.
pub(super) fn number(field: Option<&[u8]>) -> Option<u64> {
    Some(match *field? {
        [0x43 | 0x44] => 0,
        [0x50 | 0x52 | 0x53, small] => u64::from(small),
        [0x60, a, b] => u64::from(u16::from_be_bytes([a, b])),
        [0x70, a, b, c, d] => u64::from(u32::from_be_bytes([a, b, c, d])),
        [0x80, ref wide @ ..] => u64::from_be_bytes(*wide.first_chunk()?),
        _ => return None,
    })
}

/// Reads a uint; none when it is null, missing or not one.
pub(super) fn uint(field: Option<&[u8]>) -> Option<u32> {
    number(field).and_then(|number| u32::try_from(number).ok())
}

/// Whether a field is true; null and missing are false.
pub(super) fn truth(field: Option<&[u8]>) -> bool {
    matches!(field, Some([0x41] | [0x56, 1]))
}

/// Reads the text of a string or symbol.
pub(super) fn text(field: Option<&[u8]>) -> Option<&str> {
    match field? {
        [0xa1 | 0xa3, _, rest @ ..] | [0xb1 | 0xb3, _, _, _, _, rest @ ..] => {
            std::str::from_utf8(rest).ok()
        }
        _ => None,
    }
}

/// The descriptor code of a described value.
pub(super) fn descriptor(field: Option<&[u8]>) -> Option<u8> {
    match *field? {
        [0x00, 0x53, code, ..] => Some(code),
        _ => None,
    }
}

/// The list or value under a descriptor.
pub(super) fn described(field: Option<&[u8]>) -> Option<&[u8]> {
    match field? {
        [0x00, 0x53, _, rest @ ..] => Some(rest),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_performative_reads_back() {
        let mut out = Vec::new();
        write_frame(&mut out, 0, |out| {
            let fields = vec![
                Item::Uint(7),
                Item::Null,
                Item::Text("name"),
                Item::Described(code::SOURCE, vec![Item::Bool(true)]),
                Item::Binary(b"tag"),
            ];
            Item::Described(code::TRANSFER, fields).write(out);
            out.extend(b"payload");
        });
        assert_eq!(
            split_frame(&out[..out.len() - 1]).unwrap(),
            None,
            "a frame cut short"
        );
        let (body, size) = split_frame(&out).unwrap().unwrap();
        assert_eq!(size, out.len());
        let transfer = Performative::read(body).unwrap().unwrap();
        assert_eq!(transfer.code, code::TRANSFER);
        assert_eq!(uint(transfer.fields.field(0)), Some(7));
        assert_eq!(uint(transfer.fields.field(1)), None);
        assert_eq!(text(transfer.fields.field(2)), Some("name"));
        let source = transfer.fields.field(3);
        assert_eq!(descriptor(source), Some(code::SOURCE));
        assert!(truth(Fields::of_list(described(source).unwrap()).field(0)));
        assert_eq!(transfer.fields.count(), 5);
        assert_eq!(transfer.payload, b"payload");
    }

    #[test]
    fn values_cut_short_or_unknown_are_no_values() {
        for bytes in [
            &[][..],
            &[0xa1],
            &[0xa1, 5, b'x'],
            &[0x70, 0, 0],
            &[0x00, 0x53],
            &[0xb0, 0xff],
        ] {
            assert_eq!(value_len(bytes), None, "{bytes:02x?}");
        }
    }
}
