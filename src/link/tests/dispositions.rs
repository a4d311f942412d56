//! Dispositions: ranges, confirmations, the second settle mode.

use bytes::Bytes;

use super::support::{
    Pair, Raw, Seen, credit_performative, names, receiver, send, sender, transfer,
};
use super::transfers::transfers;
use crate::base::Serial;
use crate::link::{Event, SessionHandle};
use crate::wire::performative::{
    DeliveryState, Disposition, Performative, ReceiverSettleMode, ResumePoint, Role, Transfer,
};

fn disposition(role: Role, first: u32, last: u32, settled: bool) -> Disposition {
    let (first, last) = (Serial(first), Serial(last));
    Disposition {
        role,
        first,
        last,
        settled,
        state: Some(DeliveryState::Accepted),
    }
}

#[test]
fn outgoing_dispositions_leave_in_ranges() {
    let (mut raw, link) = Raw::sending(100);
    for id in 0..10 {
        raw.payload(0, &Performative::Transfer(transfer(0, id)), b"x");
    }
    for id in 0..10 {
        let state = if id == 5 {
            DeliveryState::Released
        } else {
            DeliveryState::Accepted
        };
        raw.server.settle_received(link, Serial(id), &state);
    }
    let seen = raw.take();
    let ranges = seen.iter().map(|seen| match seen {
        Seen::Frame(_, Performative::Disposition(it), _) => (it.first.0, it.last.0, it.settled),
        other => panic!("{other:?}"),
    });
    let ranges: Vec<_> = ranges.collect();
    assert_eq!(ranges, [(0, 4, true), (5, 5, true), (6, 9, true)]);
}

// [AMQP 2.6.12] settled: "the delivery ... is settled at the sender"
#[test]
fn an_unsettled_outcome_is_answered_with_a_settled_one() {
    let (mut raw, link) = Raw::receiving(10);
    for token in 0..3 {
        send(&mut raw.server, link, token, b"x");
    }
    raw.take();
    raw.frame(
        0,
        &Performative::Disposition(disposition(Role::Receiver, 0, 2, false)),
    );
    // The same once more changes nothing.
    raw.frame(
        0,
        &Performative::Disposition(disposition(Role::Receiver, 0, 2, false)),
    );
    let mut events = std::mem::take(&mut raw.events);
    let outcomes = Pair::outcomes(&mut events);
    assert_eq!(outcomes.len(), 3);
    assert!(outcomes.iter().all(|(_, _, settled)| !settled));
    for id in 0..3 {
        raw.server
            .settle_sent(link, Serial(id), &DeliveryState::Accepted);
    }
    let seen = raw.take();
    let expect = Performative::Disposition(disposition(Role::Sender, 0, 2, true));
    assert_eq!(seen, [Seen::Frame(0, expect, Bytes::new())]);
}

#[test]
fn dispositions_of_unknown_deliveries_are_ignored_and_bad_states_end_the_session() {
    let (mut raw, link) = Raw::receiving(10);
    send(&mut raw.server, link, 1, b"x");
    raw.take();
    raw.frame(
        0,
        &Performative::Disposition(disposition(Role::Receiver, 4000, 4000, false)),
    );
    assert!(raw.take().is_empty());
    let mut declared = Vec::new();
    let txn_id = Bytes::from_static(b"tx");
    DeliveryState::Declared { txn_id }.write(&mut declared);
    let transactional = DeliveryState::Transactional {
        txn_id: Bytes::from_static(b"tx"),
        outcome: Some(declared.into()),
    };
    let (mut raw, link) = Raw::receiving(10);
    send(&mut raw.server, link, 1, b"x");
    raw.take();
    let bad = Disposition {
        state: Some(transactional),
        ..disposition(Role::Receiver, 0, 0, true)
    };
    raw.frame(0, &Performative::Disposition(bad));
    assert_eq!(names(&raw.take()), ["end amqp:invalid-field"]);
    let lost = raw.events.iter().any(|event| match event {
        Event::SessionEnded { fates, .. } => fates.unsettled == [1],
        _ => false,
    });
    assert!(lost);
}

// [AMQP 3.4.1] [AMQP 3.5.3] "default-outcome": for what was settled before it reached an outcome. Both
// ended the session, as in RabbitMQ; `received` is what a client says that resumes later.
#[test]
fn what_is_settled_without_an_outcome_takes_the_default_outcome_and_received_changes_nothing() {
    let received = DeliveryState::Received(ResumePoint::default());
    for state in [None, Some(received)] {
        let (mut raw, link) = Raw::receiving(10);
        send(&mut raw.server, link, 1, b"x");
        raw.take();
        let told = |settled| Disposition {
            state: state.clone(),
            ..disposition(Role::Receiver, 0, 0, settled)
        };
        raw.frame(0, &Performative::Disposition(told(false)));
        assert!(raw.take().is_empty());
        assert!(Pair::outcomes(&mut std::mem::take(&mut raw.events)).is_empty());
        raw.frame(0, &Performative::Disposition(told(true)));
        assert!(raw.take().is_empty());
        let outcomes = Pair::outcomes(&mut std::mem::take(&mut raw.events));
        assert_eq!(outcomes, [(1, DeliveryState::Released, true)]);
    }
}

// [AMQP 2.6.12] What was decided before keeps its outcome when it is settled without one.
#[test]
fn default_outcome_replaces_no_outcome_that_was_told() {
    let (mut raw, link) = Raw::receiving(10);
    send(&mut raw.server, link, 1, b"x");
    raw.take();
    raw.frame(
        0,
        &Performative::Disposition(disposition(Role::Receiver, 0, 0, false)),
    );
    let settled = Disposition {
        state: None,
        ..disposition(Role::Receiver, 0, 0, true)
    };
    raw.frame(0, &Performative::Disposition(settled));
    assert!(raw.take().is_empty());
    let outcomes = Pair::outcomes(&mut std::mem::take(&mut raw.events));
    assert_eq!(outcomes, [(1, DeliveryState::Accepted, false)]);
}

// [AMQP 2.8.3] "second: the receiver will only settle after sending the disposition to the sender and
// receiving a disposition indicating settlement of the delivery from the sender"
#[test]
fn second_settle_mode_takes_three_steps_both_ways() {
    let mut pair = Pair::open();
    let (session, _) = pair.begin();
    let mut attach = sender("up");
    attach.rcv_settle_mode = ReceiverSettleMode::Second;
    let (publisher, publishing) = pair.attach(session, attach);
    pair.server.set_credit(publishing, 5);
    pair.drive();
    send(&mut pair.client, publisher, 1, b"x");
    pair.drive();
    let [(id, ..)] = Pair::deliveries(&mut pair.server_events)[..] else {
        panic!("one")
    };
    pair.server
        .settle_received(publishing, id, &DeliveryState::Accepted);
    pair.drive();
    let outcomes = Pair::outcomes(&mut pair.client_events);
    assert_eq!(outcomes, [(1, DeliveryState::Accepted, false)]);
    pair.client
        .settle_sent(publisher, id, &DeliveryState::Accepted);
    pair.drive();
    assert!(
        pair.take_server(|event| matches!(event, Event::SenderSettled { .. }))
            .is_some()
    );

    let mut attach = receiver("down");
    attach.rcv_settle_mode = ReceiverSettleMode::Second;
    let (consumer, consuming) = pair.attach(session, attach);
    pair.client.set_credit(consumer, 5);
    pair.drive();
    send(&mut pair.server, consuming, 2, b"y");
    pair.drive();
    let [(id, ..)] = Pair::deliveries(&mut pair.client_events)[..] else {
        panic!("one")
    };
    pair.client
        .settle_received(consumer, id, &DeliveryState::Released);
    pair.drive();
    let outcomes = Pair::outcomes(&mut pair.server_events);
    assert_eq!(outcomes, [(2, DeliveryState::Released, false)]);
    pair.server
        .settle_sent(consuming, id, &DeliveryState::Released);
    pair.drive();
    assert!(
        pair.take_client(|event| matches!(event, Event::SenderSettled { .. }))
            .is_some()
    );
    // [AMQP 2.7.5] "it is illegal to set this field to second" on a link with first
    let (mut raw, _) = Raw::sending(5);
    let second = Some(ReceiverSettleMode::Second);
    let asks = Transfer {
        rcv_settle_mode: second,
        ..transfer(0, 0)
    };
    assert_eq!(
        transfers(&mut raw, &[(asks, b"x")]),
        ["detach amqp:invalid-field"]
    );
}

// [AMQP 2.7.6] "state: Communicates the state of all the deliveries referenced by this disposition";
// [AMQP 2.6.12] the receiver settles what is not settled.
#[test]
fn a_sender_that_releases_what_it_sent_leaves_it_to_the_receiver_to_settle() {
    let (mut raw, link) = Raw::receiving(10);
    let session = SessionHandle {
        channel: 0,
        generation: 1,
    };
    for token in 0..5 {
        send(&mut raw.server, link, token, b"x");
    }
    raw.take();
    raw.frame(
        0,
        &Performative::Disposition(disposition(Role::Receiver, 1, 1, false)),
    );
    raw.server.release_sent(session, |token| token < 4);
    let released = |first, last| {
        let state = Some(DeliveryState::Released);
        let frame = Disposition {
            state,
            ..disposition(Role::Sender, first, last, false)
        };
        Seen::Frame(0, Performative::Disposition(frame), Bytes::new())
    };
    // Of the second one the receiver has told an outcome before.
    assert_eq!(raw.take(), [released(0, 0), released(2, 3)]);
    raw.frame(
        0,
        &Performative::Disposition(disposition(Role::Receiver, 0, 4, true)),
    );
    let outcomes = Pair::outcomes(&mut std::mem::take(&mut raw.events));
    let settled = outcomes.iter().filter(|(.., settled)| *settled);
    assert_eq!(
        settled.count(),
        4,
        "the receiver settles them: {outcomes:?}"
    );
    assert!(raw.take().is_empty());
}

/// What waits for the window has no delivery-id that a disposition could name.
#[test]
fn what_waits_to_be_sent_is_released_behind_its_transfer() {
    let (mut raw, link) = Raw::receiving(10);
    let Performative::Flow(mut flow) = credit_performative(0, 10) else {
        panic!("a flow")
    };
    flow.next_incoming_id = Some(Serial(0xffff_fffc));
    flow.incoming_window = 1;
    raw.frame(0, &Performative::Flow(flow.clone()));
    let session = SessionHandle {
        channel: 0,
        generation: 1,
    };
    for token in 0..3 {
        send(&mut raw.server, link, token, b"x");
    }
    assert_eq!(names(&raw.take()), ["transfer"]);
    raw.server.release_sent(session, |token| token == 1);
    assert!(raw.take().is_empty());
    flow.next_incoming_id = Some(Serial(0xffff_fffd));
    flow.incoming_window = 10;
    raw.frame(0, &Performative::Flow(flow));
    assert_eq!(names(&raw.take()), ["transfer", "transfer", "disposition"]);
}
