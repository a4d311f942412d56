//! Messages of a header and one data section, which are read without a table of sections.

use super::sections::SectionKind;
use super::{HeaderFields, codes, header};

const HEADER: u8 = SectionKind::Header as u8;
const DATA: u8 = SectionKind::Data as u8;

/// A message of a header and one data section, or of the latter alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlainMessage {
    /// The fields of its header; all absent without one.
    pub header: HeaderFields,
    /// Offset at which its data section begins: the bare message.
    pub bare: usize,
}

impl PlainMessage {
    /// Reads such a message if both sections have the usual encoding and are shorter than 4 GiB
    /// together. None for any other message: [`walk`](super::walk) reads all, and agrees on this
    /// one.
    pub fn read(message: &[u8]) -> Option<Self> {
        let bare = match message {
            [
                codes::DESCRIBED,
                codes::SMALL_ULONG,
                HEADER,
                codes::LIST_8,
                size,
                ..,
            ] => 5 + usize::from(*size),
            _ => 0,
        };
        if !is_data(message.get(bare..)?) || u32::try_from(message.len()).is_err() {
            return None;
        }
        let header = match message.get(3..bare) {
            Some(list) => header::fast_path(list)?.0,
            None => HeaderFields::default(),
        };
        Some(Self { header, bare })
    }
}

/// Whether these bytes are exactly one data section.
fn is_data(bytes: &[u8]) -> bool {
    let [codes::DESCRIBED, codes::SMALL_ULONG, DATA, code, value @ ..] = bytes else {
        return false;
    };
    match (*code, value) {
        (codes::BINARY_8, [length, data @ ..]) => data.len() == usize::from(*length),
        (codes::BINARY_32, [a, b, c, d, data @ ..]) => {
            data.len() == u32::from_be_bytes([*a, *b, *c, *d]) as usize
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;
    use crate::wire::{walk, write_binary, write_descriptor, write_header};

    fn message(header: Option<HeaderFields>, data: &[u8]) -> Vec<u8> {
        let mut message = Vec::new();
        if let Some(header) = header {
            write_header(&mut message, &header);
        }
        write_descriptor(&mut message, SectionKind::Data.code());
        write_binary(&mut message, data);
        message
    }

    fn durable() -> HeaderFields {
        HeaderFields {
            durable: Some(true),
            ..HeaderFields::default()
        }
    }

    #[rstest]
    #[case::nothing_in_it(None, 0)]
    #[case::short(Some(durable()), 255)]
    #[case::long(Some(durable()), 256)]
    #[case::a_ttl(Some(HeaderFields { ttl_ms: Some(7_000), ..durable() }), 70_000)]
    fn a_header_and_data_are_plain(#[case] header: Option<HeaderFields>, #[case] length: usize) {
        let message = message(header, &vec![7; length]);
        let plain = PlainMessage::read(&message).unwrap();
        assert_eq!(plain.header, header.unwrap_or_default());
        assert_eq!(plain.bare == 0, header.is_none());
    }

    proptest! {
        #[test]
        fn what_is_read_as_plain_is_what_it_is(
            flags: (bool, Option<bool>, Option<u8>, Option<u32>),
            length in prop_oneof![0..20_usize, 250..260_usize],
            at in 0..40_usize, byte: Option<u8>, cut in 0..2_usize, more in 0..2_usize,
        ) {
            let (with_header, durable, priority, ttl_ms) = flags;
            let header = HeaderFields { durable, priority, ttl_ms, ..HeaderFields::default() };
            let mut message = message(with_header.then_some(header), &vec![0; length]);
            if let (Some(changed), Some(byte)) = (message.get_mut(at), byte) {
                *changed = byte;
            }
            message.truncate(message.len() - cut);
            message.extend(vec![0; more]);
            if let Some(plain) = PlainMessage::read(&message) {
                let index = walk(&message).unwrap();
                prop_assert_eq!(index.read_header(&message), Ok(plain.header));
                prop_assert_eq!(index.bare as usize, plain.bare);
                let body = index.body;
                prop_assert_eq!((body.start as usize, body.end as usize), (plain.bare, message.len()));
                for absent in [
                    index.delivery_annotations, index.message_annotations, index.properties,
                    index.application_properties, index.footer,
                ] {
                    prop_assert!(absent.is_absent());
                }
            }
        }
    }
}
