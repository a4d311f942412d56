use rstest::rstest;

use super::hex;
use crate::base::limits::VALUE_DEPTH_MAX;
use crate::wire::{
    DecodeError, check_annotations, check_structure, decode_value, encode_value, value_len,
};

fn refused(encoded: &str, expect: &DecodeError) {
    let bytes = hex(encoded);
    assert_eq!(check_structure(&bytes).as_ref(), Err(expect), "{encoded}");
    assert_eq!(decode_value(&bytes).as_ref(), Err(expect), "{encoded}");
}

#[rstest]
#[case::nothing("", DecodeError::Truncated { at: 0 })]
#[case::half_a_uint("70 0000", DecodeError::Truncated { at: 1 })]
#[case::string_without_its_text("a1 05 6162", DecodeError::Truncated { at: 2 })]
#[case::reserved_code("3f", DecodeError::UnknownCode { at: 0, code: 0x3f })]
#[case::unknown_code_in_list("c0 02 01 57", DecodeError::UnknownCode { at: 3, code: 0x57 })]
#[case::list_larger_than_input("d0 ffffffff 00000000", DecodeError::Truncated { at: 0 })]
#[case::list_too_small_for_its_count("c0 00 00", DecodeError::BeyondParent { at: 2 })]
#[case::inner_list_beyond_outer("c0 04 01 c0 09 01 40 40 40 40 40 40 40 40 40 40", DecodeError::BeyondParent { at: 3 })]
#[case::element_beyond_list("c0 02 01 70 00000000", DecodeError::BeyondParent { at: 4 })]
#[case::bytes_after_the_last_element("c0 03 01 40 40", DecodeError::BytesLeft { at: 4 })]
#[case::more_elements_than_bytes("d0 00000005 ffffffff 40", DecodeError::Count { at: 0, count: u32::MAX })]
#[case::odd_map("c1 02 01 40", DecodeError::OddMap { at: 0 })]
#[case::string_not_utf8("a1 01 ff", DecodeError::NotUtf8 { at: 0 })]
#[case::symbol_not_ascii("a3 02 c3a9", DecodeError::NotAscii { at: 0 })]
#[case::boolean_of_two("56 02", DecodeError::Invalid { at: 0, expected: "boolean" })]
#[case::array_without_constructor("e0 01 00", DecodeError::Truncated { at: 3 })]
#[case::array_of_many_nulls("f0 00000005 ffffffff 40", DecodeError::Count { at: 0, count: u32::MAX })]
#[case::array_of_many_uints("f0 00000009 00000002 70 00000000", DecodeError::Count { at: 0, count: 2 })]
#[case::array_with_bytes_left("e0 04 01 50 01 02", DecodeError::BytesLeft { at: 5 })]
#[case::array_described_twice("e0 08 01 00 5301 00 5302 40", DecodeError::UnknownCode { at: 6, code: 0 })]
fn broken_structure_is_refused(#[case] encoded: &str, #[case] expect: DecodeError) {
    refused(encoded, &expect);
}

/// Many small arrays of elements without bytes must not add up to more memory than one may take.
#[test]
fn arrays_of_nothing_share_one_budget() {
    let array = hex("e0 02 ff 40");
    let many = |n: usize| {
        let size = u32::try_from(4 + 4 * n).unwrap().to_be_bytes();
        let count = u32::try_from(n).unwrap().to_be_bytes();
        [&[0xd0], &size[..], &count, &array.repeat(n)].concat()
    };
    assert_eq!(check_structure(&many(1)), Ok(13));
    assert!(matches!(
        check_structure(&many(1000)),
        Err(DecodeError::Count { count: 255, .. })
    ));
}

#[test]
fn nesting_is_bounded() {
    let nested = |depth: usize| {
        let mut value = vec![0x40];
        for _ in 0..depth {
            let size = u32::try_from(value.len() + 4).unwrap().to_be_bytes();
            value = [&[0xd0], &size[..], &[0, 0, 0, 1], &value].concat();
        }
        value
    };
    assert!(decode_value(&nested(VALUE_DEPTH_MAX)).is_ok());
    assert!(matches!(
        check_structure(&nested(VALUE_DEPTH_MAX + 1)),
        Err(DecodeError::TooDeep { .. })
    ));
}

/// The story: the fuzzer found an array of `list0` at the depth limit, which came out of encoding
/// with wide empty lists and was then too deep.
#[test]
fn an_empty_list_takes_no_level_however_it_is_encoded() {
    let mut value = hex("e0 02 02 45"); // an array of two list0
    for _ in 0..VALUE_DEPTH_MAX - 1 {
        let size = u32::try_from(value.len() + 4).unwrap().to_be_bytes();
        value = [&[0xd0], &size[..], &[0, 0, 0, 1], &value].concat();
    }
    let (decoded, _) = decode_value(&value).unwrap();
    let mut encoded = Vec::new();
    encode_value(&decoded, &mut encoded);
    assert_eq!(decode_value(&encoded), Ok((decoded, encoded.len())));
}

/// The story: 12 kB of descriptors in descriptors overflowed the stack of another decoder.
#[test]
fn a_long_chain_of_descriptors_is_refused_and_can_be_skipped() {
    let chain = [vec![0; 12_000], vec![0x40; 12_001]].concat();
    assert!(matches!(
        check_structure(&chain),
        Err(DecodeError::TooDeep { .. })
    ));
    assert_eq!(value_len(&chain), Ok(24_001));
}

#[test]
fn annotation_keys_are_symbols_or_ulongs() {
    assert_eq!(
        check_annotations(&hex("c1 08 04 a30161 40 5301 40")),
        Ok(())
    );
    assert_eq!(
        check_annotations(&hex("c1 05 02 a10161 40")),
        Err(DecodeError::AnnotationKey {
            at: 3,
            found: "string"
        })
    );
    assert!(check_annotations(&hex("45")).is_err());
    assert_eq!(
        check_annotations(&hex("c1 01 00 40")),
        Err(DecodeError::BytesLeft { at: 3 })
    );
}
