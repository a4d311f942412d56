use proptest::prelude::*;

use super::hex;
use crate::wire::{
    DecodeError, Descriptor, Fields, Pairs, Reader, ValueKind, begin_list, begin_map, end,
    write_bool, write_or_null, write_string, write_symbol, write_uint, write_ulong,
};

/// [AMQP 1.4] "if the trailing elements of the list are null, they may be omitted".
#[test]
fn absent_fields_at_the_end_read_as_null() {
    let mut list = Vec::new();
    let compound = begin_list(&mut list);
    write_or_null(&mut list, None, write_bool);
    write_uint(&mut list, 300);
    write_string(&mut list, "text");
    end(&mut list, compound, 3);
    let mut fields = Reader::new(&list).list().unwrap();
    assert_eq!(fields.left(), 3);
    assert_eq!(fields.bool(), Ok(None));
    assert_eq!(fields.uint(), Ok(Some(300)));
    assert_eq!(fields.string(), Ok(Some("text")));
    assert_eq!(
        (fields.symbol(), fields.binary(), fields.value()),
        (Ok(None), Ok(None), Ok(None))
    );
    let mut skipped = Reader::new(&list).list().unwrap();
    assert_eq!(skipped.skip(2), Ok(()));
    assert_eq!(skipped.string(), Ok(Some("text")));
    assert_eq!(skipped.skip(9), Ok(()));
}

#[test]
fn wrong_type_names_the_place_from_the_outermost_byte() {
    let bytes = hex("40 c0 08 02 c0 04 01 a10161 40");
    let mut outer = Reader::starting_at(&bytes, 1).list().unwrap();
    let inner = outer.raw().unwrap().unwrap();
    assert_eq!(inner, hex("c0 04 01 a10161"));
    let mut reader = Reader::starting_at(&bytes, 4);
    let error = reader
        .list()
        .and_then(|mut inner| inner.uint())
        .unwrap_err();
    assert_eq!(
        error,
        DecodeError::Type {
            at: 7,
            expected: "uint",
            found: "string"
        }
    );
    assert_eq!(error.to_string(), "expected uint at byte 7, found string");
    let moved = DecodeError::Type {
        at: 10,
        expected: "uint",
        found: "string",
    };
    assert_eq!(error.moved_by(3), moved);
}

#[test]
fn values_without_a_list_end_with_an_error() {
    let mut out = Vec::new();
    write_ulong(&mut out, 1);
    let mut fields = Fields::bare(&out);
    assert_eq!(fields.ulong(), Ok(Some(1)));
    assert!(fields.is_empty());
    assert_eq!(fields.ulong(), Err(DecodeError::Truncated { at: 2 }));
}

#[test]
fn descriptors_are_ulongs_or_symbols() {
    let read = |text: &str| {
        let bytes = hex(text);
        Reader::new(&bytes)
            .described()
            .map(|described| match described.descriptor {
                Descriptor::Code(code) => code.to_string(),
                Descriptor::Symbol(name) => name.to_owned(),
            })
    };
    assert_eq!(read("00 5370 45"), Ok("112".to_owned()));
    assert_eq!(read("00 80 0000000000000070 45"), Ok("112".to_owned()));
    assert_eq!(read("00 a3 02 6162 45"), Ok("ab".to_owned()));
    assert_eq!(
        read("00 a1 02 6162 45"),
        Err(DecodeError::Type {
            at: 1,
            expected: "ulong",
            found: "string"
        })
    );
    assert_eq!(read("00 5370"), Err(DecodeError::Truncated { at: 3 }));
}

#[test]
fn pairs_give_keys_and_values_in_place() {
    let mut map = Vec::new();
    let compound = begin_map(&mut map);
    write_symbol(&mut map, "a");
    write_uint(&mut map, 0);
    write_ulong(&mut map, 7);
    write_string(&mut map, "v");
    write_string(&mut map, "s");
    write_bool(&mut map, true);
    end(&mut map, compound, 6);
    let pairs = Reader::new(&map).map().unwrap();
    assert_eq!(Pairs::bare(pairs.rest(), pairs.left()).count(), 3);
    let [a, seven, s] = &pairs.map(Result::unwrap).collect::<Vec<_>>()[..] else {
        panic!("three pairs");
    };
    assert_eq!(
        (a.symbol_key(), a.kind_of_key(), a.value),
        (Some("a"), Some(ValueKind::Symbol), &[0x43][..])
    );
    assert_eq!((seven.ulong_key(), seven.symbol_key()), (Some(7), None));
    assert_eq!((s.string_key(), s.key_type()), (Some("s"), "string"));
}

#[test]
fn broken_pair_ends_the_map() {
    let mut pairs = Pairs::bare(&[0xa3, 1, b'a'], 4);
    assert_eq!(pairs.next(), Some(Err(DecodeError::Truncated { at: 3 })));
    assert_eq!(pairs.next(), None);
}

proptest! {
    /// The quick way of reading a described list says nothing else than the usual one.
    #[test]
    fn short_list_is_what_is_read_in_steps(
        descriptor: u8, size in 0..40_u8, count: u8, rest in proptest::collection::vec(any::<u8>(), 0..40),
    ) {
        let mut bytes = vec![0, 0x53, descriptor, 0xc0, size, count];
        bytes.extend(rest);
        let quick = Reader::short_list(&bytes).map(|(code, mut fields, end)| {
            (code, end, fields.left(), fields.at(), fields.raw())
        });
        let mut reader = Reader::new(&bytes);
        let slow = reader.described().and_then(|mut described| {
            let mut fields = described.value.list()?;
            Ok((described.descriptor, reader.at(), fields.left(), fields.at(), fields.raw()))
        });
        let slow = slow.map(|(descriptor, end, left, at, first)| match descriptor {
            Descriptor::Code(code) => (code, end, left, at, first),
            Descriptor::Symbol(_) => unreachable!("it is a number"),
        });
        prop_assert_eq!(quick, slow.ok());
    }
}
