//! Entry points for fuzzing: invariants that must hold for any bytes. Each panics when one breaks.

use super::{Kind, Pairs, Reader, check_structure, decode_value, encode_value, value_len, walk};

/// What passes the check is skipped over the same length, and what decodes survives a round trip.
pub fn fuzz_value(data: &[u8]) {
    let checked = check_structure(data);
    if let Ok(used) = &checked {
        assert!(
            value_len(data) == Ok(*used),
            "skipping and checking agree on the length"
        );
    }
    let Ok((value, used)) = decode_value(data) else {
        return;
    };
    assert!(checked == Ok(used), "only what was checked is decoded");
    let mut encoded = Vec::new();
    encode_value(&value, &mut encoded);
    assert!(
        decode_value(&encoded) == Ok((value, encoded.len())),
        "a value survives a round trip"
    );
}

/// The sections of a message stand in order, without a gap, and their fields can be read.
pub fn fuzz_sections(data: &[u8]) {
    let Ok(index) = walk(data) else { return };
    let sections = [
        index.header,
        index.delivery_annotations,
        index.message_annotations,
        index.properties,
        index.application_properties,
        index.body,
        index.footer,
    ];
    let mut end = 0;
    for section in sections.into_iter().filter(|section| !section.is_absent()) {
        assert!(
            section.start == end && section.value > end,
            "sections stand side by side"
        );
        assert!(section.end > section.value, "no value is empty");
        end = section.end;
    }
    assert!(end as usize == data.len(), "sections fill the message");
    let _ = index.read_header(data);
    if !index.message_annotations.is_absent() {
        let map = Reader::starting_at(data, index.message_annotations.value as usize).map();
        let keys = map.map(|pairs: Pairs<'_>| pairs.flatten().map(|pair| pair.kind_of_key()));
        for key in keys.into_iter().flatten() {
            assert!(
                matches!(key, Some(Kind::Symbol | Kind::Ulong)),
                "annotation keys are legal"
            );
        }
    }
}
