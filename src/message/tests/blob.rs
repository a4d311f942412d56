//! Messages whose bodies were streamed.

use std::sync::Arc;

use bytes::Bytes;

use super::{bytes, hex, message, prefix, rejected, route};
use crate::base::Lsn;
use crate::message::{BareLengths, KeyRule, Message};
use crate::wire::{PropertyField, walk, walk_head};

/// Header durable, annotation x-opt-a, properties with a message-id, an application property, data.
const WHOLE: &str = "005370c0020141 005372c10d02a307782d6f70742d61a10161 005373c00401a10169 \
    005374c10702a1016ba10176 005375a003616263";

fn blob(payload: &str) -> Message {
    let payload = bytes(payload);
    let index = walk_head(&payload).unwrap();
    let whole = walk(&payload).unwrap();
    let lengths = BareLengths {
        body: whole.body.end - whole.bare,
        whole: u32::try_from(payload.len()).unwrap() - whole.bare,
    };
    let head = payload.slice(..index.body.start as usize);
    let rule = KeyRule::Specification;
    Message::from_head(&head, &index, lengths, Arc::new(Lsn(7)), rule).unwrap()
}

#[test]
fn a_blob_shows_all_but_its_body() {
    let (whole, blob) = (message(WHOLE), blob(WHOLE));
    assert_eq!(blob.blob().map(|body| **body), Some(Lsn(7)));
    assert!(blob.is_hollow() && blob.durable());
    assert_eq!(blob.bare_len(), whole.bare_len());
    let came_by = route("x", &["k"]);
    assert_eq!(
        prefix(&blob, &came_by, 1, 2),
        prefix(&whole, &came_by, 1, 2)
    );
    let property = PropertyField::MessageId;
    assert_eq!(blob.property(property), whole.property(property));
    assert_eq!(
        blob.application_property("k"),
        whole.application_property("k")
    );
    assert!(whole.bare().starts_with(blob.bare()));
    assert_eq!(blob.apart_bytes(), whole.bare_len() - blob.bare().len());
    assert_eq!((whole.apart_bytes(), whole.blob()), (0, None));
}

#[test]
fn it_is_whole_again_with_its_bare_bytes() {
    let whole = message(WHOLE);
    let filled = blob(WHOLE).filled(&whole.bare_bytes()).unwrap();
    assert_eq!(hex(filled.bare()), hex(whole.bare()));
    let came_by = route("x", &["k"]);
    assert_eq!(
        prefix(&filled, &came_by, 0, 0),
        prefix(&whole, &came_by, 0, 0)
    );
    assert_eq!(hex(filled.body()), hex(whole.body()));
    assert!(blob(WHOLE).filled(&Bytes::from_static(b"less")).is_none());
}

#[test]
fn an_envelope_and_the_beginning_of_a_body_give_it_back() {
    let whole = message(WHOLE);
    let died = blob(WHOLE).died(rejected(), 3);
    let mut envelope = Vec::new();
    died.encode_envelope(&mut envelope);
    let length = u32::try_from(whole.bare_len()).unwrap();
    let hollow = Message::decode_hollow(&envelope, length).unwrap();
    let head_bytes = died.bare().len();
    let beginning = &whole.bare()[..=head_bytes];
    let read = hollow
        .filled_with_blob(beginning, Arc::new(Lsn(7)))
        .unwrap();
    let came_by = route("", &["dead"]);
    assert_eq!(prefix(&read, &came_by, 0, 0), prefix(&died, &came_by, 0, 0));
    assert_eq!(
        (read.bare(), read.bare_len()),
        (died.bare(), died.bare_len())
    );
    assert_eq!(read.blob(), died.blob());
    let short = &beginning[..head_bytes - 1];
    assert!(hollow.filled_with_blob(short, Arc::new(Lsn(7))).is_none());
}
