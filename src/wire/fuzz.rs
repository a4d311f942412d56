//! Entry points for fuzzing: each checks invariants that hold for any bytes, and panics when one
//! does not.

use super::{
    BodyWalk, Pairs, Reader, ValueKind, check_structure, decode_value, encode_value, value_len,
    walk, walk_head,
};

/// Checks that a value that passes the check is skipped over the same length, and that one that
/// decodes survives a round trip.
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

/// Checks that a message that is found in pieces is one as a whole, with the same body.
fn check_pieces(data: &[u8]) {
    let Some(head) = walk_head(data) else { return };
    let body = data.get(head.body.start as usize..).unwrap_or_default();
    let piece = 1 + body.len() % 5;
    let mut walked = BodyWalk::default();
    if body.chunks(piece).any(|bytes| walked.push(bytes).is_err()) {
        return;
    }
    let Ok(end) = walked.finish() else { return };
    let whole = walk(data).map(|index| (index.body.start, u64::from(index.body.end)));
    let start = head.body.start;
    assert!(
        whole == Ok((start, u64::from(start) + end)),
        "both walks find the same body"
    );
}

/// Checks that the sections of a message are in order, without a gap, and that their fields can be
/// read.
pub fn fuzz_sections(data: &[u8]) {
    check_pieces(data);
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
                matches!(key, Some(ValueKind::Symbol | ValueKind::Ulong)),
                "annotation keys are legal"
            );
        }
    }
}
