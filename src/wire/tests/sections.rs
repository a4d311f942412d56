use proptest::prelude::*;
use rstest::rstest;

use super::hex;
use crate::wire::{DecodeError, HeaderFields, Section, fuzz_sections, walk};

/// The length of each section: header, delivery-annotations, message-annotations, properties,
/// application-properties, body, footer; and where the bare message begins.
fn check(message: &str, lengths: [u32; 7], bare: u32) {
    let bytes = hex(message);
    let index = walk(&bytes).unwrap();
    let length = |section: Section| section.end - section.start;
    let found = [
        index.header,
        index.delivery_annotations,
        index.message_annotations,
        index.properties,
        index.application_properties,
        index.body,
        index.footer,
    ];
    assert_eq!(found.map(length), lengths, "{message}");
    assert_eq!(index.bare, bare, "{message}");
    fuzz_sections(&bytes);
}

/// [AMQP 3.2] "Zero or one header. ... The body consists of one of the following three choices"
#[rstest]
#[case::data("005375 a0026d31", [0, 0, 0, 0, 0, 7, 0], 0)]
#[case::several_data("005375 a001aa 005375 a001bb", [0, 0, 0, 0, 0, 12, 0], 0)]
#[case::several_sequences("005376 45 005376 45", [0, 0, 0, 0, 0, 8, 0], 0)]
#[case::value("005377 40", [0, 0, 0, 0, 0, 4, 0], 0)]
#[case::no_body("005370 45", [4, 0, 0, 0, 0, 0, 0], 4)]
#[case::only_footer("005378 c10100", [0, 0, 0, 0, 0, 0, 6], 0)]
#[case::all(
    "005370 45 005371 c10100 005372 c10100 005373 45 005374 c10100 005377 40 005378 c10100",
    [4, 6, 6, 4, 6, 4, 6],
    16
)]
#[case::long_descriptor("00 80 0000000000000075 a000", [0, 0, 0, 0, 0, 12, 0], 0)]
#[case::symbolic_descriptor("00 a3 10 616d71703a646174613a62696e617279 a000", [0, 0, 0, 0, 0, 21, 0], 0)]
fn sections_are_found(#[case] message: &str, #[case] lengths: [u32; 7], #[case] bare: u32) {
    check(message, lengths, bare);
}

#[rstest]
#[case::empty("", DecodeError::EmptyMessage)]
#[case::garbage("ffff", DecodeError::NoSection { at: 0 })]
#[case::no_descriptor("40", DecodeError::NoSection { at: 0 })]
#[case::a_performative("005314 45", DecodeError::NoSection { at: 0 })]
#[case::garbage_behind("005377 40 40", DecodeError::NoSection { at: 4 })]
#[case::header_twice("005370 45 005370 45", DecodeError::SectionOrder { at: 4, section: "amqp:header:list" })]
#[case::header_late("005377 40 005370 45", DecodeError::SectionOrder { at: 4, section: "amqp:header:list" })]
#[case::two_values("005377 40 005377 40", DecodeError::SectionOrder { at: 4, section: "amqp:amqp-value:*" })]
#[case::mixed_body("005375 a000 005376 45", DecodeError::SectionOrder { at: 5, section: "amqp:amqp-sequence:list" })]
#[case::header_no_list("005370 c10100", DecodeError::Type { at: 3, expected: "list", found: "map" })]
#[case::data_no_binary("005375 a10161", DecodeError::Type { at: 3, expected: "binary", found: "string" })]
#[case::annotations_no_map("005372 45", DecodeError::Type { at: 3, expected: "map", found: "list" })]
#[case::string_annotation_key("005372 c10502 a10161 40", DecodeError::AnnotationKey { at: 6, found: "string" })]
#[case::symbol_property_key(
    "005374 c10502 a30161 40",
    DecodeError::Type { at: 6, expected: "string as application property key", found: "symbol" }
)]
#[case::truncated_value("005377 a105", DecodeError::Truncated { at: 5 })]
#[case::no_value("005377", DecodeError::Truncated { at: 3 })]
fn what_is_no_message_is_refused(#[case] message: &str, #[case] expect: DecodeError) {
    assert_eq!(walk(&hex(message)), Err(expect));
}

/// [AMQP 3.2.1] durable, priority, ttl, first-acquirer, delivery-count.
#[test]
fn header_fields_are_read_and_absent_ones_are_none() {
    let read = |message: &str| {
        let bytes = hex(message);
        walk(&bytes).and_then(|index| index.read_header(&bytes))
    };
    let all = HeaderFields {
        durable: Some(true),
        priority: Some(7),
        ttl_ms: Some(60_000),
        first_acquirer: Some(false),
        delivery_count: Some(3),
    };
    assert_eq!(read("005370 c00c05 41 5007 700000ea60 42 5203"), Ok(all));
    let ttl = HeaderFields {
        ttl_ms: Some(0),
        ..HeaderFields::default()
    };
    assert_eq!(read("005370 c00403 40 40 43"), Ok(ttl));
    assert_eq!(read("005377 40"), Ok(HeaderFields::default()));
    assert_eq!(
        read("005370 c00301 5201"),
        Err(DecodeError::Type {
            at: 6,
            expected: "boolean",
            found: "uint"
        })
    );
}

proptest! {
    #[test]
    fn garbage_breaks_no_invariant(bytes in any::<Vec<u8>>()) {
        fuzz_sections(&bytes);
    }

    #[test]
    fn a_changed_byte_breaks_no_invariant(at in 0..60_usize, byte: u8) {
        let mut bytes = hex(
            "005370 c00c05 41 5007 700000ea60 42 5203 005371 c10502 a30161 40 \
             005372 c10502 a30161 40 005373 45 005374 c10502 a10161 40 005377 c00201 40 005378 c10100",
        );
        if let Some(old) = bytes.get_mut(at) {
            *old = byte;
        }
        fuzz_sections(&bytes);
    }
}
