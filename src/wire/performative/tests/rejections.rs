//! Errors of consumers that reject, as they may come. [AMQP 3.4.2, 2.8.14]

use rstest::rstest;

use super::super::{DeliveryState, codes};
use crate::wire::{self, Value, encode_value};

/// A client that says little or wrongly why it rejects ended its connection. rhea writes what its users give it.
#[rstest]
#[case::no_condition(Value::Null, "")]
#[case::a_string(Value::string("app:bad"), "app:bad")]
#[case::a_symbol(Value::Symbol("app:bad".into()), "app:bad")]
#[case::a_number(Value::Uint(7), "")]
#[case::no_symbol(Value::string("schl\u{fc}ssel"), "")]
fn a_rejection_counts_whatever_its_error_is(#[case] condition: Value, #[case] expect: &str) {
    let mut bytes = Vec::new();
    wire::write_descriptor(&mut bytes, codes::REJECTED);
    let rejected = wire::begin_list(&mut bytes);
    wire::write_descriptor(&mut bytes, codes::ERROR);
    let error = wire::begin_list(&mut bytes);
    encode_value(&condition, &mut bytes);
    wire::write_symbol(&mut bytes, "because");
    wire::end(&mut bytes, error, 2);
    wire::end(&mut bytes, rejected, 1);
    let Ok(DeliveryState::Rejected { error }) = DeliveryState::decode(&bytes) else {
        panic!("{bytes:?}")
    };
    let error = error.map(|error| (error.condition.clone(), error.description.clone()));
    let expect = (expect.into(), Some("because".to_owned()));
    assert_eq!(error, Some(expect));
}

#[test]
fn an_error_that_says_nothing_at_all_is_none() {
    let mut bytes = Vec::new();
    wire::write_descriptor(&mut bytes, codes::REJECTED);
    let rejected = wire::begin_list(&mut bytes);
    wire::write_descriptor(&mut bytes, codes::ERROR);
    let error = wire::begin_list(&mut bytes);
    wire::end(&mut bytes, error, 0);
    wire::end(&mut bytes, rejected, 1);
    let decoded = DeliveryState::decode(&bytes);
    assert!(matches!(
        decoded,
        Ok(DeliveryState::Rejected { error: None })
    ));
}
