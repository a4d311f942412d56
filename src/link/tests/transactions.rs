//! What belongs to a transaction: posts, provisional outcomes, credit. [AMQP 4.4]

use bytes::Bytes;

use super::support::{Pair, Raw, credit_performative, names, send, transfer};
use super::transfers::transfers;
use crate::base::Serial;
use crate::link::{Event, LinkHandle};
use crate::wire::performative::{
    DeliveryState, Detach, Disposition, Flow, Handle, LinkFlow, Performative, Role, Transfer,
};

fn in_transaction(txn_id: &'static [u8], outcome: Option<&DeliveryState>) -> DeliveryState {
    let outcome = outcome.map(|outcome| {
        let mut encoded = Vec::new();
        outcome.write(&mut encoded);
        Bytes::from(encoded)
    });
    DeliveryState::Transactional {
        txn_id: Bytes::from_static(txn_id),
        outcome,
    }
}

fn said(raw: &mut Raw, (first, last): (u32, u32), settled: bool, state: DeliveryState) {
    raw.frame(
        0,
        &Performative::Disposition(Disposition {
            role: Role::Receiver,
            first: Serial(first),
            last: Serial(last),
            settled,
            state: Some(state),
        }),
    );
}

/// Tokens of the outcomes that came, and whether they were settled.
fn outcomes(raw: &mut Raw) -> Vec<(u64, bool)> {
    let found = Pair::outcomes(&mut raw.events).into_iter();
    found.map(|(token, _, settled)| (token, settled)).collect()
}

/// A receiver with so many deliveries, whose tokens are their ids.
fn holding(count: u32) -> (Raw, LinkHandle) {
    let (mut raw, link) = Raw::receiving(count);
    for token in 0..count {
        send(&mut raw.server, link, token.into(), b"x");
    }
    raw.take();
    (raw, link)
}

// [AMQP 4.4.1] A state in any frame; other states in a transfer say nothing.
#[test]
fn a_delivery_belongs_to_the_transaction_that_one_of_its_frames_names() {
    let (mut raw, _) = Raw::sending(10);
    let named = |id: u32, more: bool, txn_id: Option<&[u8]>| Transfer {
        more,
        txn_id: txn_id.map(Box::from),
        ..transfer(0, id)
    };
    let all = [
        (named(0, false, Some(b"a")), &b"whole"[..]),
        (named(1, true, None), b"in "),
        (named(1, false, Some(b"b")), b"two"),
        (named(2, true, Some(b"c")), b"in "),
        (named(2, true, Some(b"c")), b"two"),
        (named(2, false, None), b"!"),
        (named(3, false, None), b"none"),
    ];
    assert!(transfers(&mut raw, &all).is_empty());
    let mut posted = Vec::new();
    raw.events.retain(|event| {
        let Event::Posted(post) = event else {
            return true;
        };
        posted.push((post.txn_id.to_vec(), post.arrived.payload.clone().joined()));
        false
    });
    let expected = [("a", "whole"), ("b", "in two"), ("c", "in two!")];
    let expected = expected.map(|(txn, text)| (txn.as_bytes().to_vec(), Bytes::from(text)));
    assert_eq!(posted, expected);
    assert_eq!(Pair::deliveries(&mut raw.events).len(), 1);
    let two = [
        (named(4, true, Some(b"a")), &b"x"[..]),
        (named(4, false, Some(b"b")), b"y"),
    ];
    assert_eq!(transfers(&mut raw, &two), ["detach amqp:invalid-field"]);
}

// [AMQP 4.3] "all or nothing": what is dropped of a transaction is told.
#[test]
fn a_message_of_a_transaction_that_its_link_or_session_drops_is_told() {
    let named = |id, more, txn_id: Option<&[u8]>| Transfer {
        more,
        txn_id: txn_id.map(Box::from),
        ..transfer(0, id)
    };
    let lost = |raw: &mut Raw| -> Vec<Vec<u8>> {
        raw.events
            .extend(std::iter::from_fn(|| raw.server.poll_event()));
        let events = std::mem::take(&mut raw.events);
        let lost = events.into_iter().filter_map(|event| match event {
            Event::WorkLost { txn_id } => Some(txn_id.to_vec()),
            _ => None,
        });
        lost.collect()
    };
    for by_session in [false, true] {
        let (mut raw, link) = Raw::sending(10);
        let begun = [(named(0, true, Some(b"a")), &b"begun"[..])];
        assert!(transfers(&mut raw, &begun).is_empty());
        assert_eq!(lost(&mut raw), [b""; 0]);
        if by_session {
            let unattached = [(
                Transfer {
                    handle: 9,
                    ..transfer(0, 1)
                },
                &b"x"[..],
            )];
            let seen = transfers(&mut raw, &unattached);
            assert_eq!(seen, ["end amqp:session:unattached-handle"]);
        } else {
            raw.server.detach(link, true, None);
        }
        assert_eq!(lost(&mut raw), [b"a"]);
        let late = [
            (named(0, false, None), &b"its rest"[..]),
            (named(1, false, Some(b"b")), b"whole"),
            (named(2, false, None), b"none"),
        ];
        transfers(&mut raw, &late);
        assert_eq!(lost(&mut raw), [b"b"], "session {by_session}");
    }
    let (mut raw, _) = Raw::sending(10);
    let two = [
        (named(0, true, Some(b"a")), &b"x"[..]),
        (named(0, false, Some(b"b")), b"y"),
    ];
    assert_eq!(transfers(&mut raw, &two), ["detach amqp:invalid-field"]);
    assert_eq!(lost(&mut raw), [b"a", b"b"]);
}

// [AMQP 4.3] The same of an outcome: its delivery may go to another consumer, and the rest must not be done.
#[test]
fn an_outcome_of_a_transaction_whose_delivery_went_with_its_link_or_session_is_told() {
    let lost = |raw: &mut Raw| -> usize {
        raw.events
            .extend(std::iter::from_fn(|| raw.server.poll_event()));
        let events = std::mem::take(&mut raw.events);
        let is_lost =
            |event: &&Event| matches!(event, Event::WorkLost { txn_id } if **txn_id == *b"t");
        events.iter().filter(is_lost).count()
    };
    let accepted = || in_transaction(b"t", Some(&DeliveryState::Accepted));
    let (mut raw, link) = holding(3);
    said(&mut raw, (0, 0), true, accepted());
    assert_eq!(lost(&mut raw), 0);
    raw.server.detach(link, true, None);
    said(&mut raw, (0, 0), true, accepted());
    assert_eq!(lost(&mut raw), 0, "that was settled before");
    said(&mut raw, (1, 2), false, DeliveryState::Accepted);
    assert_eq!(lost(&mut raw), 0, "that is of no transaction");
    said(&mut raw, (2, 2), false, accepted());
    assert_eq!(lost(&mut raw), 1);
    said(&mut raw, (0, 9), true, accepted());
    assert_eq!(lost(&mut raw), 1);
    // The peer knows now that the link is gone.
    raw.frame(
        0,
        &Performative::Detach(Box::new(Detach {
            handle: Handle(0),
            closed: true,
            error: None,
        })),
    );
    said(&mut raw, (0, 9), true, accepted());
    assert_eq!(lost(&mut raw), 0);
    let (mut raw, _) = holding(1);
    let unattached = [(
        Transfer {
            handle: 9,
            ..transfer(0, 1)
        },
        &b"x"[..],
    )];
    transfers(&mut raw, &unattached);
    said(&mut raw, (0, 0), true, accepted());
    assert_eq!(lost(&mut raw), 1, "its session was ended");
}

// [AMQP 4.4.2] An outcome in a transaction is told as often as it is said: the owner compares the ids.
#[test]
fn provisional_outcomes_are_told_until_they_are_settled() {
    let (mut raw, link) = holding(3);
    let accepted = in_transaction(b"t", Some(&DeliveryState::Accepted));
    said(&mut raw, (0, 1), false, accepted.clone());
    assert_eq!(outcomes(&mut raw), [(0, false), (1, false)]);
    said(&mut raw, (0, 2), true, accepted.clone());
    assert_eq!(outcomes(&mut raw), [(0, true), (1, true), (2, true)]);
    said(&mut raw, (0, 2), true, accepted);
    assert!(outcomes(&mut raw).is_empty(), "they are gone");
    assert!(!raw.server.reopen_sent(link, Serial(0)));
}

// [AMQP 4.4.2] "the deliveries will still be live"
#[test]
fn a_reopened_delivery_takes_another_outcome() {
    let (mut raw, link) = holding(1);
    let accepted = in_transaction(b"t", Some(&DeliveryState::Accepted));
    said(&mut raw, (0, 0), false, accepted);
    outcomes(&mut raw);
    said(&mut raw, (0, 0), false, DeliveryState::Released);
    assert!(outcomes(&mut raw).is_empty(), "it has one");
    assert!(raw.server.reopen_sent(link, Serial(0)));
    said(&mut raw, (0, 0), false, DeliveryState::Released);
    assert_eq!(outcomes(&mut raw), [(0, false)]);
}

// [AMQP 4.5.6] "outcome": without one it is as if settled without.
#[test]
fn a_state_without_an_outcome_has_the_default_outcome() {
    let (mut raw, _) = holding(1);
    said(&mut raw, (0, 0), true, in_transaction(b"t", None));
    let (_, state, _) = Pair::outcomes(&mut raw.events).remove(0);
    let released = in_transaction(b"t", Some(&DeliveryState::Released));
    assert_eq!(state, released);
}

// [AMQP 4.4.3] Credit for deliveries in a transaction is not offered.
#[test]
fn a_flow_that_names_a_transaction_ends_its_link() {
    let (mut raw, _) = Raw::receiving(0);
    let Performative::Flow(flow) = credit_performative(0, 1) else {
        panic!("a flow");
    };
    let link = flow.link.map(|link| LinkFlow {
        acquires: true,
        ..link
    });
    raw.frame(0, &Performative::Flow(Flow { link, ..flow }));
    assert_eq!(names(&raw.take()), ["detach amqp:not-implemented"]);
}

// [AMQP 4.2] Only a coordinator says `declared`: a receiver of messages does not.
#[test]
fn declared_is_no_outcome_of_a_message() {
    let (mut raw, _) = holding(1);
    let txn_id = Bytes::from_static(b"t");
    said(&mut raw, (0, 0), true, DeliveryState::Declared { txn_id });
    assert_eq!(names(&raw.take()), ["end amqp:invalid-field"]);
}

// [AMQP 4.5.8] A transactional state need not have an outcome.
#[test]
fn a_delivery_that_joins_a_transaction_undecided_is_decided_later() {
    let (mut raw, _) = holding(1);
    said(&mut raw, (0, 0), false, in_transaction(b"tx", None));
    assert_eq!(outcomes(&mut raw), []);
    let accepted = in_transaction(b"tx", Some(&DeliveryState::Accepted));
    said(&mut raw, (0, 0), false, accepted);
    assert_eq!(outcomes(&mut raw), [(0, false)]);
}
