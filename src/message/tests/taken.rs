use bytes::Bytes;
use proptest::prelude::*;

use super::{bytes, hex, message};
use crate::base::Timestamp;
use crate::base::limits::MESSAGE_COPY_BYTES_MAX;
use crate::message::{KeyRule, Message, MessageError, fuzz_message};
use crate::wire::{DecodeError, PropertyField, Value};

/// [AMQP 3.2] "The bare message ... is ... immutable": every combination of sections.
#[test]
fn bare_bytes_are_those_received_for_every_combination_of_sections() {
    let sections = [
        "005370c0020141",
        "005371c10502a3017840",
        "005372c10502a3017840",
        "005373c0050240a1017a",
        "005374c10502a1017840",
        "005375a0026d31",
        "005378c10502a3017840",
    ];
    for combination in 1..1_u32 << sections.len() {
        let chosen = |from: usize| {
            let sections = sections.iter().enumerate().skip(from);
            let chosen = sections.filter(|(i, _)| combination >> i & 1 == 1);
            chosen.map(|(_, section)| *section).collect::<String>()
        };
        let message = message(&chosen(0));
        assert_eq!(hex(message.bare()), chosen(3));
        assert_eq!(message.bare_len(), chosen(3).len() / 2);
        assert_eq!(&message.bare_bytes()[..], message.bare());
        let body = if combination >> 5 & 1 == 1 {
            sections[5]
        } else {
            ""
        };
        assert_eq!(hex(message.body()), body);
        let annotations = combination >> 2 & 1;
        assert_eq!(message.client_annotations().count(), annotations as usize);
        fuzz_message(&bytes(&chosen(0)));
    }
}

#[test]
fn empty_payload_and_garbage_are_no_messages() {
    let refused =
        |payload: &str| Message::from_transfer(bytes(payload), KeyRule::Specification).unwrap_err();
    assert_eq!(refused(""), MessageError::Decode(DecodeError::EmptyMessage));
    assert_eq!(
        refused("abcd"),
        MessageError::Decode(DecodeError::NoSection { at: 0 })
    );
    assert!(matches!(
        refused("005370c00301 5201"),
        MessageError::Decode(DecodeError::Type { .. })
    ));
}

#[test]
fn a_received_message_keeps_its_bytes_unless_much_in_front_of_them_is_not_kept() {
    // Delivery annotations end here.
    let annotations = |len: usize| {
        let front = [0, 0x53, 0x71, 0xc1, 0, 2, 0xa3, 1, b'a', 0xa0, 0];
        let mut section = [&front[..], &vec![7; len]].concat();
        (section[4], section[10]) = (u8::try_from(len + 6).unwrap(), u8::try_from(len).unwrap());
        section
    };
    let small = [0, 0x53, 0x75, 0xa0, 1, 7].to_vec();
    let large = [&[0, 0x53, 0x75, 0xb0, 0, 0, 0x40, 0][..], &[7; 16_384]].concat();
    assert!(large.len() > MESSAGE_COPY_BYTES_MAX);
    for (front, body, kept) in [
        (annotations(0), &small, true),
        (annotations(53), &small, true),
        (annotations(54), &small, false),
        (annotations(54), &large, true),
    ] {
        let payload = Bytes::from([&front[..], body].concat());
        let bare = payload.slice(front.len()..);
        let message = Message::from_transfer(payload, KeyRule::Specification).unwrap();
        assert_eq!(message.bare(), bare);
        assert_eq!(message.bare().as_ptr() == bare.as_ptr(), kept);
        assert_eq!(message.bare_bytes().as_ptr() == bare.as_ptr(), kept);
    }
}

#[test]
fn properties_are_read_when_asked_for() {
    let with_all = message(
        "005373 c02509 5301 a0026775 a102746f a1047375626a a10172 5302 a30163 a30165 \
         83000000000000012c 005377 40",
    );
    assert_eq!(
        with_all.property(PropertyField::MessageId),
        Some(Value::Ulong(1))
    );
    assert_eq!(with_all.user_id(), Some(&b"gu"[..]));
    assert_eq!(with_all.to(), Some("to"));
    assert_eq!(with_all.subject(), Some("subj"));
    assert_eq!(with_all.reply_to(), Some("r"));
    assert_eq!(
        with_all.property(PropertyField::CorrelationId),
        Some(Value::Ulong(2))
    );
    assert_eq!(with_all.absolute_expiry_time(), Some(Timestamp(300)));
    assert_eq!(with_all.property(PropertyField::CreationTime), None);
    let without = message("005377 40");
    assert_eq!(
        (without.to(), without.user_id(), without.subject()),
        (None, None, None)
    );
    let odd = message("005373 c00403 404043 005377 40");
    assert_eq!(
        (odd.to(), odd.property(PropertyField::To)),
        (None, Some(Value::Uint(0)))
    );
}

#[test]
fn application_properties_are_found_by_name() {
    let message = message("005374 c10d04 a10161 a1026f6e a10162 5601 005377 40");
    assert_eq!(message.application_property("a"), Some(Value::string("on")));
    assert_eq!(message.application_property("b"), Some(Value::Bool(true)));
    assert_eq!(message.application_property("c"), None);
    assert_eq!(super::message("005377 40").application_property("a"), None);
}

proptest! {
    #[test]
    fn garbage_breaks_no_invariant(bytes in any::<Vec<u8>>()) {
        fuzz_message(&bytes);
    }

    #[test]
    fn a_changed_byte_breaks_no_invariant(at in 0..60_usize, byte: u8) {
        let payload = bytes(
            "005370c0020141 005371c10502a3017840 005372c10502a3017840 005373c0050240a1017a \
             005374c10502a1017840 005375a0026d31 005378c10502a3017840",
        );
        let mut payload = payload.to_vec();
        if let Some(old) = payload.get_mut(at) {
            *old = byte;
        }
        fuzz_message(&payload);
    }
}
