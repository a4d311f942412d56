//! Transfers, dispositions, flow.

use bytes::Bytes;

use super::support::{
    Pair, Raw, Seen, attach_performative, credit_performative, message, names, options, receiver,
    send, sender, transfer,
};
use crate::base::Serial;
use crate::link::{Event, Options, Unsendable};
use crate::wire::performative::{
    DeliveryState, Disposition, Flow, LinkFlow, Performative, ReceiverSettleMode, Role,
    SenderSettleMode, Transfer,
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

fn delivered(raw: &mut Raw) -> Vec<Bytes> {
    let mut events = std::mem::take(&mut raw.events);
    let deliveries = Pair::deliveries(&mut events);
    deliveries
        .into_iter()
        .map(|(_, _, payload)| payload)
        .collect()
}

fn transfers(raw: &mut Raw, all: &[(Transfer, &[u8])]) -> Vec<String> {
    for (transfer, payload) in all {
        raw.payload(0, &Performative::Transfer(transfer.clone()), payload);
    }
    names(&raw.take())
}

// [AMQP 2.7.5] "aborted messages SHOULD be discarded by the recipient"
#[test]
fn aborted_deliveries_are_discarded_and_use_up_their_credit() {
    let (mut raw, link) = Raw::sending(3);
    let more = Transfer {
        more: true,
        ..transfer(0, 0)
    };
    let abort = Transfer {
        handle: 0,
        aborted: true,
        ..Transfer::default()
    };
    assert!(transfers(&mut raw, &[(more, b"half"), (abort, b"ignored")]).is_empty());
    assert_eq!(raw.server.credit(link), 2);
    assert_eq!(raw.server.partial_bytes(), 0);
    assert!(
        raw.events
            .iter()
            .any(|event| matches!(event, Event::Aborted { .. }))
    );
    assert!(transfers(&mut raw, &[(transfer(0, 1), b"whole")]).is_empty());
    assert_eq!(delivered(&mut raw), ["whole"]);
}

#[test]
fn fragments_are_joined_whatever_they_repeat() {
    let (mut raw, _) = Raw::sending(3);
    let first = Transfer {
        more: true,
        ..transfer(0, 0)
    };
    let repeats = Transfer {
        more: true,
        ..transfer(0, 0)
    };
    let bare = Transfer {
        handle: 0,
        ..Transfer::default()
    };
    let big = vec![7; 5000];
    transfers(&mut raw, &[(first, b"a"), (repeats, &big), (bare, b"c")]);
    let whole = [b"a", &big[..], b"c"].concat();
    assert_eq!(delivered(&mut raw), [whole]);
}

#[test]
fn deliveries_of_two_links_may_be_interleaved() {
    let (mut raw, _) = Raw::sending(3);
    raw.frame(0, &attach_performative(sender("two"), 1));
    let two = raw.attached();
    raw.server.set_credit(two, 3);
    raw.take();
    let more = |handle, id| Transfer {
        more: true,
        ..transfer(handle, id)
    };
    let last = |handle| Transfer {
        handle,
        ..Transfer::default()
    };
    transfers(
        &mut raw,
        &[
            (more(0, 0), b"a"),
            (more(1, 1), b"x"),
            (last(0), b"b"),
            (last(1), b"y"),
        ],
    );
    assert_eq!(delivered(&mut raw), ["ab", "xy"]);
}

#[test]
fn delivery_ids_must_be_there_and_rise() {
    let missing = Transfer {
        delivery_id: None,
        ..transfer(0, 0)
    };
    let invalid = ["end amqp:invalid-field"];
    let (mut raw, _) = Raw::sending(9);
    assert_eq!(transfers(&mut raw, &[(missing, b"x")]), invalid);
    let (mut raw, _) = Raw::sending(9);
    assert_eq!(
        transfers(&mut raw, &[(transfer(0, 5), b"x"), (transfer(0, 5), b"y")]),
        invalid
    );
    let (mut raw, _) = Raw::sending(9);
    let more = Transfer {
        more: true,
        ..transfer(0, 5)
    };
    assert_eq!(
        transfers(&mut raw, &[(more, b"x"), (transfer(0, 6), b"y")]),
        invalid
    );
    // D1 rule 3: RFC 1982 arithmetic.
    let (mut raw, _) = Raw::sending(9);
    let wrapping = [(transfer(0, u32::MAX), &b"x"[..]), (transfer(0, 0), b"y")];
    assert!(transfers(&mut raw, &wrapping).is_empty());
}

// [AMQP 2.8.18] "transfer-limit-exceeded: the peer sent more message transfers than currently allowed"
#[test]
fn a_transfer_without_credit_detaches_the_link_only() {
    let (mut raw, _) = Raw::sending(1);
    let all = [
        (transfer(0, 0), &b"x"[..]),
        (transfer(0, 1), b"y"),
        (transfer(0, 2), b"z"),
    ];
    assert_eq!(
        transfers(&mut raw, &all),
        ["detach amqp:link:transfer-limit-exceeded"]
    );
    assert_eq!(delivered(&mut raw), ["x"]);
}

// [AMQP 2.6.7] A sender may have used credit before it reads that it was taken back. An alarm did so,
// and publishers with transfers on their way were detached.
#[test]
fn transfers_under_credit_that_was_taken_back_are_taken() {
    let mut raw = Raw::begun();
    raw.frame(0, &attach_performative(sender("l"), 0));
    let link = raw.attached();
    raw.server.set_credit(link, 2);
    raw.server.set_credit(link, 0);
    raw.take();
    let sent = |id| [(transfer(0, id), &b"x"[..])];
    assert!(transfers(&mut raw, &sent(0)).is_empty());
    assert!(transfers(&mut raw, &sent(1)).is_empty());
    assert_eq!(
        transfers(&mut raw, &sent(2)),
        ["detach amqp:link:transfer-limit-exceeded"],
        "no more than was given"
    );
}

// [AMQP 2.8.17] "window-violation: the peer violated incoming window for the session"
#[test]
fn transfers_beyond_the_window_end_the_session() {
    let (mut raw, _) = Raw::sending(1000);
    for id in 0..400 {
        raw.payload(0, &Performative::Transfer(transfer(0, id)), b"x");
    }
    assert_eq!(
        names(&raw.take()),
        ["flow"],
        "the window is opened again in time"
    );
    for id in 400..801 {
        raw.payload(0, &Performative::Transfer(transfer(0, id)), b"x");
    }
    let end = names(&raw.take());
    assert_eq!(
        end.last().map(String::as_str),
        Some("end amqp:session:window-violation")
    );
}

#[test]
fn messages_beyond_the_maximum_detach_the_link_and_the_largest_passes() {
    for (size, expect) in [
        (1000, &[][..]),
        (1001, &["detach amqp:link:message-size-exceeded"]),
    ] {
        let mut raw = Raw::begun();
        raw.message_bytes_max = Some(1000);
        raw.frame(0, &attach_performative(sender("l"), 0));
        let link = raw.attached();
        raw.server.set_credit(link, 5);
        raw.take();
        let more = Transfer {
            more: true,
            ..transfer(0, 0)
        };
        let last = Transfer {
            handle: 0,
            ..Transfer::default()
        };
        let rest = vec![0; size - 500];
        assert_eq!(
            transfers(&mut raw, &[(more, &[0; 500]), (last, &rest)]),
            expect,
            "{size}"
        );
        assert_eq!(raw.server.partial_bytes(), 0);
    }
}

#[test]
fn a_message_too_large_for_the_receiver_is_given_back() {
    let mut raw = Raw::begun();
    let mut attach = receiver("l");
    attach.max_message_size = Some(10);
    raw.frame(0, &attach_performative(attach, 0));
    let link = raw.attached();
    raw.frame(0, &credit_performative(0, 5));
    let too_large = raw.server.send(link, message(1, &[0; 11]), Bytes::new);
    assert_eq!(too_large, Err(Unsendable::TooLarge { max_bytes: 10 }));
    send(&mut raw.server, link, 2, &[0; 10]);
    assert_eq!(raw.server.credit(link), 4);
}

// [AMQP 2.8.2] "settled: the sender will send all deliveries initially settled"
#[test]
fn settle_modes_are_kept() {
    let cases = [
        (SenderSettleMode::Settled, Some(true), true),
        (SenderSettleMode::Settled, Some(false), false),
        (SenderSettleMode::Unsettled, Some(true), false),
        (SenderSettleMode::Unsettled, None, true),
        (SenderSettleMode::Mixed, Some(true), true),
        (SenderSettleMode::Mixed, Some(false), true),
    ];
    for (mode, settled, fine) in cases {
        let mut raw = Raw::begun();
        let mut attach = sender("l");
        attach.snd_settle_mode = mode.clone();
        raw.frame(0, &attach_performative(attach, 0));
        let link = raw.attached();
        raw.server.set_credit(link, 5);
        raw.take();
        let seen = transfers(
            &mut raw,
            &[(
                Transfer {
                    settled,
                    ..transfer(0, 0)
                },
                b"x",
            )],
        );
        let expect: &[&str] = if fine {
            &[]
        } else {
            &["detach amqp:invalid-field"]
        };
        assert_eq!(seen, expect, "{mode:?} {settled:?}");
    }
}

#[test]
fn a_receiver_that_wants_settled_deliveries_gets_them_without_tag() {
    let mut pair = Pair::open();
    let (session, _) = pair.begin();
    let mut attach = receiver("l");
    attach.snd_settle_mode = SenderSettleMode::Settled;
    let (client, server) = pair.attach(session, attach);
    pair.client.set_credit(client, 5);
    pair.drive();
    send(&mut pair.server, server, 1, b"x");
    pair.drive();
    let got = Pair::deliveries(&mut pair.client_events);
    assert_eq!(got, [(Serial(0), true, Bytes::from_static(b"x"))]);
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
    let states = [
        None,
        Some(DeliveryState::Received {
            section_number: 0,
            section_offset: 0,
        }),
        Some(DeliveryState::Transactional {
            txn_id: Bytes::from_static(b"tx"),
            outcome: None,
        }),
    ];
    for state in states {
        let (mut raw, link) = Raw::receiving(10);
        send(&mut raw.server, link, 1, b"x");
        raw.take();
        let bad = Disposition {
            state,
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

// D1 rule 6: a message leaves only against link credit and session window. [AMQP 2.6.7]
#[test]
fn nothing_is_sent_without_credit_or_window() {
    let (mut raw, link) = Raw::receiving(2);
    send(&mut raw.server, link, 1, b"x");
    send(&mut raw.server, link, 2, b"x");
    let refused = raw.server.send(link, message(3, b"x"), Bytes::new);
    assert_eq!(refused, Err(Unsendable::NoCredit));
    assert_eq!(names(&raw.take()), ["transfer", "transfer"]);
    // Credit for more, but a window for one frame.
    let Performative::Flow(mut flow) = credit_performative(0, 10) else {
        panic!("a flow")
    };
    flow.next_incoming_id = Some(Serial(0xffff_fffe));
    flow.incoming_window = 1;
    raw.frame(0, &Performative::Flow(flow.clone()));
    let session = crate::link::SessionHandle {
        channel: 0,
        generation: 1,
    };
    assert_eq!(raw.server.session_limit(session), 3);
    send(&mut raw.server, link, 3, b"three");
    send(&mut raw.server, link, 4, b"four");
    assert_eq!(names(&raw.take()), ["transfer"]);
    assert_eq!(raw.server.unsent(link).collect::<Vec<_>>(), [4]);
    flow.next_incoming_id = Some(Serial(0xffff_ffff));
    raw.frame(0, &Performative::Flow(flow));
    assert_eq!(names(&raw.take()), ["transfer"]);
    assert!(
        raw.events
            .iter()
            .any(|event| matches!(event, Event::SessionFlow { .. }))
    );
}

// [AMQP 2.5.6] amqp10 for Node.js counts from its own first transfer-id: it is ahead of us for ever.
#[test]
fn a_peer_that_expects_a_later_transfer_has_its_window() {
    let (mut raw, link) = Raw::receiving(2);
    let Performative::Flow(mut flow) = credit_performative(0, 10) else {
        panic!("a flow")
    };
    flow.next_incoming_id = Some(Serial(3));
    flow.incoming_window = 1;
    raw.frame(0, &Performative::Flow(flow));
    send(&mut raw.server, link, 1, b"x");
    assert_eq!(names(&raw.take()), ["transfer"]);
}

// [AMQP 2.6.7] "advance the delivery-count as much as possible, consuming all link-credit"
#[test]
fn a_drain_delivers_then_uses_the_credit_up() {
    let (mut raw, link) = Raw::receiving(1);
    let Performative::Flow(mut flow) = credit_performative(0, 5) else {
        panic!("a flow")
    };
    flow.link.as_mut().unwrap().drain = true;
    raw.frame(0, &Performative::Flow(flow));
    let asked = raw.events.iter().any(|event| match event {
        Event::LinkFlow { limit, drain, .. } => *limit == 5 && *drain,
        _ => false,
    });
    assert!(asked);
    // A large one, so that the flow has to wait for its last frame.
    send(&mut raw.server, link, 1, &vec![0; 400_000]);
    send(&mut raw.server, link, 2, b"x");
    raw.server.drained(link);
    let seen = raw.take();
    let Some(Seen::Frame(_, Performative::Flow(flow), _)) = seen.last() else {
        panic!("{:?}", names(&seen))
    };
    let link_flow = flow.link.as_ref().unwrap();
    assert_eq!(
        link_flow.delivery_count,
        Some(Serial(0)),
        "0xfffffffb and five"
    );
    assert_eq!(
        (link_flow.link_credit, link_flow.available),
        (Some(0), Some(0))
    );
    assert!(link_flow.drain);
    assert_eq!(
        raw.server.send(link, message(3, b"x"), Bytes::new),
        Err(Unsendable::NoCredit)
    );
}

// [AMQP 2.7.4] echo: "the peer SHOULD send its flow state"
#[test]
fn echoes_are_answered_for_links_and_sessions() {
    let (mut raw, link) = Raw::receiving(3);
    raw.server.set_available(link, 12);
    let Performative::Flow(mut flow) = credit_performative(0, 3) else {
        panic!("a flow")
    };
    flow.echo = true;
    raw.frame(0, &Performative::Flow(flow.clone()));
    let seen = raw.take();
    let [Seen::Frame(_, Performative::Flow(answer), _)] = &seen[..] else {
        panic!("{seen:?}")
    };
    let answered = answer.link.as_ref().unwrap();
    assert_eq!(
        (answered.link_credit, answered.available),
        (Some(3), Some(12))
    );
    flow.link = None;
    raw.frame(0, &Performative::Flow(flow));
    let seen = raw.take();
    let [Seen::Frame(_, Performative::Flow(answer), _)] = &seen[..] else {
        panic!("{seen:?}")
    };
    assert_eq!(answer.link, None);
}

#[test]
fn credit_follows_the_receivers_count_even_when_it_is_late() {
    let (mut raw, link) = Raw::receiving(2);
    send(&mut raw.server, link, 1, b"x");
    // Sent before it saw the first delivery: count 0xfffffffb and credit 4, so three are left.
    raw.frame(0, &credit_performative(0, 4));
    assert_eq!(raw.server.credit(link), 3);
    raw.frame(0, &credit_performative(0, 0));
    assert_eq!(raw.server.credit(link), 0);
    let limits: Vec<u64> = raw
        .events
        .iter()
        .filter_map(|event| match event {
            Event::LinkFlow { limit, .. } => Some(*limit),
            _ => None,
        })
        .collect();
    assert_eq!(limits, [2, 4, 1]);
    raw.frame(0, &credit_performative(0, u32::MAX));
    assert_eq!(raw.server.credit(link), u32::MAX - 1);
}

#[test]
fn a_client_drains_a_server_that_has_nothing() {
    let mut pair = Pair::open();
    let (consumer, consuming) = pair.consumer(0);
    pair.client.drain(consumer, 10);
    pair.drive();
    pair.server.drained(consuming);
    pair.drive();
    let drained = pair.take_client(|event| matches!(event, Event::SenderFlow { .. }));
    assert!(
        matches!(drained, Some(Event::SenderFlow { drained: true, .. })),
        "{drained:?}"
    );
    assert_eq!(pair.client.credit(consumer), 0);
}

#[test]
fn large_messages_of_two_links_take_turns() {
    let mut pair = Pair::open_with(
        Options {
            max_frame_size: 4096,
            ..options("client")
        },
        options("server"),
    );
    let (session, _) = pair.begin();
    let mut links = Vec::new();
    for name in ["a", "b"] {
        let (client, server) = pair.attach(session, receiver(name));
        pair.client.set_credit(client, 5);
        pair.drive();
        links.push(server);
    }
    let big = vec![0; 40_000];
    send(&mut pair.server, links[0], 1, &big);
    send(&mut pair.server, links[1], 2, &big);
    let out = super::support::written(&mut pair.server, pair.now);
    let handles: Vec<u32> = super::support::seen(&out)
        .iter()
        .filter_map(|seen| match seen {
            Seen::Frame(_, Performative::Transfer(transfer), _) => Some(transfer.handle),
            _ => None,
        })
        .collect();
    assert_eq!(handles[..6], [0, 1, 0, 1, 0, 1]);
}

#[test]
fn a_slow_socket_costs_no_memory_beyond_what_was_sent() {
    let (mut raw, link) = Raw::receiving(10);
    let body = Bytes::from(vec![0; 8 * 1024 * 1024]);
    let sending = message(1, &body);
    raw.server.send(link, sending, || body.clone()).unwrap();
    let mut out = Vec::new();
    raw.server.poll_transmit(raw.now, &mut out);
    assert!(out.len() < 400 * 1024, "{}", out.len());
    assert!(raw.server.bytes_pending() > 7 * 1024 * 1024);
}

#[test]
fn a_flow_without_session_state_of_ours_is_taken_from_the_start() {
    let (mut raw, link) = Raw::receiving(0);
    let flow = Flow {
        next_incoming_id: None,
        incoming_window: 10,
        link: Some(LinkFlow {
            handle: 0,
            link_credit: Some(2),
            ..LinkFlow::default()
        }),
        ..Flow::default()
    };
    raw.frame(0, &Performative::Flow(flow));
    assert_eq!(raw.server.credit(link), 2);
}
