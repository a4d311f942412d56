use bytes::Bytes;
use proptest::prelude::*;
use rstest::rstest;

use super::hex;
use crate::wire::{Array, DecodeError, Value, ValueKind, decode_value, encode_value, fuzz_value};

fn check(value: &Value, encoded: &str) {
    let mut out = Vec::new();
    encode_value(value, &mut out);
    assert_eq!(out, hex(encoded), "encoding {value}");
    assert_eq!(decode_value(&out), Ok((value.clone(), out.len())));
}

/// [AMQP 1.6] "the most compact encoding": the ones that `RabbitMQ` and Proton write.
#[rstest]
#[case(Value::Null, "40")]
#[case(Value::Bool(true), "41")]
#[case(Value::Bool(false), "42")]
#[case(Value::Uint(0), "43")]
#[case(Value::Uint(255), "52 ff")]
#[case(Value::Uint(256), "70 00000100")]
#[case(Value::Ulong(0), "44")]
#[case(Value::Ulong(1), "53 01")]
#[case(Value::Ulong(256), "80 0000000000000100")]
#[case(Value::Ubyte(5), "50 05")]
#[case(Value::Ushort(258), "60 0102")]
#[case(Value::Byte(-1), "51 ff")]
#[case(Value::Short(-2), "61 fffe")]
#[case(Value::Int(-1), "54 ff")]
#[case(Value::Int(128), "71 00000080")]
#[case(Value::Long(-9), "55 f7")]
#[case(Value::Long(-129), "81 ffffffffffffff7f")]
#[case(Value::Float(1.5_f32.to_bits()), "72 3fc00000")]
#[case(Value::Double(1.5_f64.to_bits()), "82 3ff8000000000000")]
#[case(Value::Decimal32([1, 2, 3, 4]), "74 01020304")]
#[case(Value::Decimal64([1; 8]), "84 0101010101010101")]
#[case(Value::Decimal128([1; 16]), "94 01010101010101010101010101010101")]
#[case(Value::Char(0x41), "73 00000041")]
#[case(Value::Timestamp(1_600_000_000_000), "83 00000174876e8000")]
#[case(Value::Uuid([2; 16]), "98 02020202020202020202020202020202")]
#[case(Value::Binary(Bytes::from_static(&[0, 255])), "a0 02 00ff")]
#[case(Value::string("caf\u{e9}"), "a1 05 636166c3a9")]
#[case(Value::symbol("sy"), "a3 02 7379")]
#[case(Value::List(vec![]), "45")]
#[case(Value::List(vec![Value::Uint(1), Value::string("z")]), "c0 06 02 5201 a1017a")]
#[case(Value::Map(vec![]), "c1 01 00")]
#[case(Value::Map(vec![(Value::string("in"), Value::Uint(3))]), "c1 07 02 a102696e 5203")]
#[case(Value::Described(Box::new((Value::Ulong(0x75), Value::Null))), "00 5375 40")]
fn values_have_the_most_compact_encoding(#[case] value: Value, #[case] encoded: &str) {
    check(&value, encoded);
}

/// The arrays are those of `vectors/body-value-arrays.json`.
#[rstest]
#[case(ValueKind::Symbol, vec![Value::symbol("a"), Value::symbol("b")], "e0 0c 02 b3 00000001 61 00000001 62")]
#[case(ValueKind::Ulong, vec![Value::Ulong(1), Value::Ulong(2)], "e0 12 02 80 0000000000000001 0000000000000002")]
#[case(ValueKind::String, vec![], "e0 02 00 b1")]
#[case(
    ValueKind::Map,
    vec![Value::Map(vec![(Value::symbol("a"), Value::string("b"))]), Value::Map(vec![])],
    "e0 18 02 d1 0000000a 00000002 a30161 a10162 00000004 00000000"
)]
#[case(ValueKind::Boolean, vec![Value::Bool(true)], "e0 03 01 56 01")]
#[case(ValueKind::List, vec![Value::List(vec![Value::Null])], "e0 0b 01 d0 00000005 00000001 40")]
fn arrays_have_one_wide_constructor(
    #[case] kind: ValueKind,
    #[case] elements: Vec<Value>,
    #[case] encoded: &str,
) {
    check(&Value::Array(Array::new(kind, elements).unwrap()), encoded);
}

#[test]
fn array_with_described_constructor_keeps_its_descriptor() {
    let array = Array::new(ValueKind::Uint, vec![Value::Uint(7)]).unwrap();
    check(
        &Value::Array(array.described_by(Value::symbol("d"))),
        "e0 0a 01 00 a30164 70 00000007",
    );
}

#[test]
fn compound_values_grow_to_four_byte_sizes_when_they_must() {
    let strings = |n: usize| Value::List(vec![Value::string("12345678"); n]);
    let mut out = Vec::new();
    encode_value(&strings(25), &mut out);
    assert_eq!(out[..3], [0xc0, 251, 25]);
    out.clear();
    encode_value(&strings(26), &mut out);
    assert_eq!(out[..9], hex("d0 00000108 0000001a"));
    assert_eq!(decode_value(&out), Ok((strings(26), out.len())));
    out.clear();
    encode_value(&Value::List(vec![Value::Null; 256]), &mut out);
    assert_eq!(out[..9], hex("d0 00000104 00000100"));
}

#[test]
fn wide_encodings_of_small_values_are_read_too() {
    for (encoded, value) in [
        ("70 00000000", Value::Uint(0)),
        ("80 0000000000000001", Value::Ulong(1)),
        ("81 ffffffffffffffff", Value::Long(-1)),
        ("71 00000001", Value::Int(1)),
        ("56 01", Value::Bool(true)),
        ("b1 00000001 61", Value::string("a")),
        ("b3 00000001 61", Value::symbol("a")),
        ("d0 00000004 00000000", Value::List(vec![])),
        ("c0 01 00", Value::List(vec![])),
        (
            "d1 00000006 00000002 43 40",
            Value::Map(vec![(Value::Uint(0), Value::Null)]),
        ),
        ("f0 00000009 00000001 70 00000007", {
            Value::Array(Array::new(ValueKind::Uint, vec![Value::Uint(7)]).unwrap())
        }),
        ("e0 05 03 53 01 02 03", {
            let ulongs = (1..=3).map(Value::Ulong).collect();
            Value::Array(Array::new(ValueKind::Ulong, ulongs).unwrap())
        }),
    ] {
        let bytes = hex(encoded);
        assert_eq!(decode_value(&bytes), Ok((value, bytes.len())), "{encoded}");
    }
}

#[test]
fn elements_of_another_type_make_no_array() {
    assert_eq!(Array::new(ValueKind::Uint, vec![Value::Ulong(1)]), None);
    assert_eq!(Array::new(ValueKind::Described, vec![]), None);
}

/// [AMQP 1.6.23] "A map in which there exist two identical key values is invalid."
#[test]
fn map_with_a_key_twice_is_refused() {
    let twice = hex("c1 0c 04 a30161 40 b300000001 61 40");
    assert_eq!(
        decode_value(&twice),
        Err(DecodeError::DuplicateKey { at: 0 })
    );
}

#[test]
fn integers_of_every_type_are_numbers() {
    for value in [
        Value::Ubyte(7),
        Value::Ushort(7),
        Value::Uint(7),
        Value::Ulong(7),
    ] {
        assert_eq!(
            (value.as_u64(), value.as_i64(), value.is_integer()),
            (Some(7), Some(7), true)
        );
    }
    for value in [
        Value::Byte(-7),
        Value::Short(-7),
        Value::Int(-7),
        Value::Long(-7),
    ] {
        assert_eq!(
            (value.as_u64(), value.as_i64(), value.is_integer()),
            (None, Some(-7), true)
        );
    }
    let large = Value::Ulong(u64::MAX);
    assert_eq!(
        (large.as_u64(), large.as_i64(), large.is_integer()),
        (Some(u64::MAX), None, true)
    );
    assert!(!Value::Timestamp(1).is_integer() && !Value::string("1").is_integer());
}

#[test]
fn values_name_their_type_and_content_in_errors() {
    let shown = |value: Value| value.to_string();
    assert_eq!(shown(Value::string("abc")), "string 'abc'");
    assert_eq!(shown(Value::Long(-5)), "long -5");
    assert_eq!(shown(Value::List(vec![Value::Null])), "list of 1");
    assert_eq!(
        shown(Value::symbol("x".repeat(200))).len(),
        "symbol ''...".len() + 100
    );
}

/// Any value, nested a few levels deep.
fn any_value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<u8>().prop_map(Value::Ubyte),
        any::<u16>().prop_map(Value::Ushort),
        any::<u32>().prop_map(Value::Uint),
        any::<u64>().prop_map(Value::Ulong),
        any::<i8>().prop_map(Value::Byte),
        any::<i16>().prop_map(Value::Short),
        any::<i32>().prop_map(Value::Int),
        any::<i64>().prop_map(Value::Long),
        any::<u32>().prop_map(Value::Float),
        any::<u64>().prop_map(Value::Double),
        any::<i64>().prop_map(Value::Timestamp),
        any::<[u8; 16]>().prop_map(Value::Uuid),
        proptest::collection::vec(any::<u8>(), 0..300).prop_map(|b| Value::Binary(b.into())),
        "\\PC{0,20}".prop_map(Value::String),
        "[ -~]{0,20}".prop_map(Value::Symbol),
    ];
    scalar.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::List),
            proptest::collection::btree_map(inner.clone(), inner.clone(), 0..4)
                .prop_map(|pairs| Value::Map(pairs.into_iter().collect())),
            proptest::collection::vec(any::<u32>().prop_map(Value::Uint), 0..5)
                .prop_map(|uints| Value::Array(Array::new(ValueKind::Uint, uints).unwrap())),
            (inner.clone(), inner).prop_map(|pair| Value::Described(Box::new(pair))),
        ]
    })
}

proptest! {
    #[test]
    fn every_value_survives_a_round_trip(value in any_value(), trailing in any::<Vec<u8>>()) {
        let mut out = Vec::new();
        encode_value(&value, &mut out);
        let used = out.len();
        out.extend(trailing);
        prop_assert_eq!(decode_value(&out), Ok((value, used)));
    }

    #[test]
    fn no_bytes_break_an_invariant(value in any_value(), at in any::<usize>(), byte: u8) {
        let mut out = Vec::new();
        encode_value(&value, &mut out);
        fuzz_value(&out[..at % out.len()]);
        let at = at % out.len();
        out[at] = byte;
        fuzz_value(&out);
    }

    #[test]
    fn garbage_breaks_no_invariant(bytes in any::<Vec<u8>>()) {
        fuzz_value(&bytes);
    }
}
