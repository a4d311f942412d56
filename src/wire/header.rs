//! The header section. [AMQP 3.2.1]

use super::fast_path::FastFields;
use super::sections::SectionKind;
use super::writer::{
    begin_list, end, write_bool, write_descriptor, write_or_null, write_ubyte, write_uint,
};
use super::{DecodeError, Reader, codes};

/// The fields of a header section; none: absent. [AMQP 3.2.1]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HeaderFields {
    /// Field `durable`; absent means false.
    pub durable: Option<bool>,
    /// Field `priority`; absent means 4.
    pub priority: Option<u8>,
    /// Field `ttl`, in milliseconds; absent means unlimited.
    pub ttl_ms: Option<u32>,
    /// Field `first-acquirer`; absent means false.
    pub first_acquirer: Option<bool>,
    /// Field `delivery-count`; absent means 0.
    pub delivery_count: Option<u32>,
}

/// Writes a header section. [AMQP 3.2.1]
pub fn write_header(out: &mut Vec<u8>, header: &HeaderFields) {
    write_descriptor(out, SectionKind::Header.code());
    let list = begin_list(out);
    write_or_null(out, header.durable, write_bool);
    write_or_null(out, header.priority, write_ubyte);
    write_or_null(out, header.ttl_ms, write_uint);
    write_or_null(out, header.first_acquirer, write_bool);
    write_or_null(out, header.delivery_count, write_uint);
    end(out, list, 5);
}

/// Reads the header at byte `at` of a message.
pub(super) fn read(message: &[u8], at: usize) -> Result<HeaderFields, DecodeError> {
    let mut fields = Reader::starting_at(message, at).list()?;
    Ok(HeaderFields {
        durable: fields.bool()?,
        priority: fields.ubyte()?,
        ttl_ms: fields.uint()?,
        first_acquirer: fields.bool()?,
        delivery_count: fields.uint()?,
    })
}

/// A header in the form of the fast path, a short list of valid fields, and the number of its
/// bytes. None if it is encoded otherwise or invalid: then it is read as any other list is.
pub(super) fn fast_path(value: &[u8]) -> Option<(HeaderFields, usize)> {
    let (&[code, size, count], rest) = value.split_first_chunk()?;
    let size = usize::from(size).checked_sub(1)?;
    if code != codes::LIST_8 || count > 5 {
        return None;
    }
    let mut fields = FastFields::new(rest.get(..size)?, count.into());
    let durable = fields.bool().ok()?;
    if fields.is_all_null() {
        let header = HeaderFields {
            durable,
            ..HeaderFields::default()
        };
        return Some((header, 3 + size));
    }
    let header = HeaderFields {
        durable,
        priority: fields.ubyte().ok()?,
        ttl_ms: fields.uint().ok()?,
        first_acquirer: fields.bool().ok()?,
        delivery_count: fields.uint().ok()?,
    };
    fields.is_empty().then_some((header, 3 + size))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::{check_structure, walk};

    fn header() -> impl Strategy<Value = HeaderFields> {
        let uint = || proptest::option::of(prop_oneof![Just(0), 1..300_u32, any::<u32>()]);
        let all = (
            any::<Option<bool>>(),
            any::<Option<u8>>(),
            uint(),
            any::<Option<bool>>(),
            uint(),
        );
        all.prop_map(
            |(durable, priority, ttl_ms, first_acquirer, delivery_count)| HeaderFields {
                durable,
                priority,
                ttl_ms,
                first_acquirer,
                delivery_count,
            },
        )
    }

    proptest! {
        #[test]
        fn what_we_write_takes_the_fast_path(header in header()) {
            let mut section = Vec::new();
            write_header(&mut section, &header);
            let value = &section[3..];
            prop_assert_eq!(fast_path(value), Some((header, value.len())));
        }

        #[test]
        fn what_the_fast_path_reads_is_what_the_general_way_reads(header in header(), at in 0..24_usize, byte: u8) {
            let mut section = Vec::new();
            write_header(&mut section, &header);
            if let Some(changed) = section.get_mut(3 + at) {
                *changed = byte;
            }
            let value = &section[3..];
            if let Some((header, length)) = fast_path(value) {
                prop_assert_eq!(check_structure(value), Ok(length));
                let mut fields = Reader::new(value).list().unwrap();
                prop_assert_eq!(fields.bool(), Ok(header.durable));
                prop_assert_eq!(fields.ubyte(), Ok(header.priority));
                prop_assert_eq!(fields.uint(), Ok(header.ttl_ms));
                prop_assert_eq!(fields.bool(), Ok(header.first_acquirer));
                prop_assert_eq!(fields.uint(), Ok(header.delivery_count));
                prop_assert_eq!(fields.left(), 0);
            } else if let Ok(index) = walk(&section) {
                let _ = index.read_header(&section);
            }
        }
    }
}
