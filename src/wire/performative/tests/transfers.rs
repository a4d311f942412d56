//! Transfers, and what their states say.

use super::super::{DeliveryTag, Performative, ResumePoint, Transfer, decode, encode};
use super::{described, list, survives, symbol};
use crate::base::Serial;
use crate::wire::Value;

// [AMQP 4.4.1]
#[test]
fn a_transfer_in_a_transaction_survives_a_round_trip() {
    survives(&Performative::Transfer(Transfer {
        delivery_id: Some(Serial(1)),
        tag_bytes: Some(3),
        tag: DeliveryTag::new(b"tag").unwrap(),
        txn_id: Some(Box::from(*b"txn")),
        ..Transfer::default()
    }));
}

// [AMQP 2.6.13, 3.4.1]
#[test]
fn where_a_resumed_delivery_goes_on_is_read_from_its_first_transfer_only() {
    let resumed = Transfer {
        delivery_id: Some(Serial(1)),
        tag_bytes: Some(3),
        tag: DeliveryTag::new(b"tag").unwrap(),
        resume: true,
        resumes_at: Some(Box::new(ResumePoint {
            section_number: 3,
            section_offset: 70_000,
        })),
        ..Transfer::default()
    };
    survives(&Performative::Transfer(resumed.clone()));
    let mut out = Vec::new();
    let anew = Transfer {
        resume: false,
        ..resumed
    };
    encode(&mut out, &Performative::Transfer(anew));
    let Ok((Performative::Transfer(read), _)) = decode(&out) else {
        panic!("a transfer");
    };
    assert_eq!(
        read.resumes_at, None,
        "only a delivery that is resumed has one"
    );
    let incomplete = described(0x23, vec![Value::Uint(1)]);
    let mut fields = vec![Value::Uint(0), Value::Uint(1)];
    fields.extend(std::iter::repeat_n(Value::Null, 5));
    fields.extend([incomplete, Value::Bool(true)]);
    assert!(decode(&list(0x14, &fields)).is_err(), "no section-offset");
}

// [AMQP 4.4.1, 4.4.3] What is no transactional-state in a transfer, and no `txn-id` in a flow, is not looked at;
// a transactional-state without an id is an error.
#[test]
fn other_states_and_properties_are_skipped() {
    let transfer = |state: Value| {
        let mut fields = vec![Value::Uint(0), Value::Uint(1)];
        fields.extend(std::iter::repeat_n(Value::Null, 5));
        fields.push(state);
        decode(&list(0x14, &fields))
    };
    for state in [Value::Uint(3), described(0x24, Vec::new()), Value::Null] {
        let Ok((Performative::Transfer(transfer), _)) = transfer(state) else {
            panic!("a transfer");
        };
        assert_eq!(transfer.txn_id, None);
    }
    assert!(transfer(described(0x34, Vec::new())).is_err());
    assert!(transfer(described(0x34, vec![Value::Null])).is_err());
    let flow = |properties: Value| {
        let mut fields = vec![Value::Null, Value::Uint(1), Value::Uint(0), Value::Uint(1)];
        fields.push(Value::Uint(0));
        fields.extend(std::iter::repeat_n(Value::Null, 5));
        fields.push(properties);
        decode(&list(0x13, &fields))
    };
    for properties in [
        Value::Null,
        Value::Uint(1),
        Value::Map(vec![(symbol("x"), Value::Null)]),
    ] {
        let Ok((Performative::Flow(flow), _)) = flow(properties) else {
            panic!("a flow");
        };
        assert!(!flow.link.unwrap().acquires);
    }
}
