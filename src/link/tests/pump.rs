//! Two engines pumped against each other.

use super::support::{Pair, options, receiver, send, sender};
use crate::base::Serial;
use crate::link::{Event, LinkOptions};
use crate::wire::performative::DeliveryState;

#[test]
fn messages_go_both_ways_and_their_outcomes_come_back() {
    let mut pair = Pair::open();
    let (publisher, publishing) = pair.publisher(10);
    for token in 0..3 {
        send(&mut pair.client, publisher, token, b"hello");
    }
    pair.drive();
    let got = Pair::deliveries(&mut pair.server_events);
    assert_eq!(got.len(), 3);
    assert_eq!(pair.server.credit(publishing), 7);
    for (id, settled, payload) in got {
        assert!(!settled);
        assert_eq!(&payload[..], b"hello");
        pair.server
            .settle_received(publishing, id, &DeliveryState::Accepted);
    }
    pair.drive();
    let outcomes = Pair::outcomes(&mut pair.client_events);
    let expect: Vec<_> = (0..3)
        .map(|token| (token, DeliveryState::Accepted, true))
        .collect();
    assert_eq!(outcomes, expect);

    let (consumer, consuming) = pair.consumer(2);
    send(&mut pair.server, consuming, 7, b"to you");
    pair.drive();
    let got = Pair::deliveries(&mut pair.client_events);
    assert_eq!(got.len(), 1);
    pair.client
        .settle_received(consumer, got[0].0, &DeliveryState::Released);
    pair.drive();
    let outcomes = Pair::outcomes(&mut pair.server_events);
    assert_eq!(outcomes, [(7, DeliveryState::Released, true)]);
}

// [AMQP 2.6.14] "large messages that do not fit in a single frame are split over many transfers"
#[test]
fn large_messages_take_many_frames_at_every_frame_size() {
    for frame_size in [512, 1024, 4096, 131_072] {
        let small = || LinkOptions {
            max_frame_size: frame_size,
            ..options("small")
        };
        let mut pair = Pair::open_with(small(), small());
        let bytes: Vec<u8> = (0..1_000_000_u32).map(|n| n.to_le_bytes()[0]).collect();
        let (publisher, _) = pair.publisher(10);
        let (_, consuming) = pair.consumer(10);
        send(&mut pair.client, publisher, 1, &bytes);
        send(&mut pair.client, publisher, 2, b"small");
        send(&mut pair.server, consuming, 3, &bytes);
        pair.drive();
        let at_server = Pair::deliveries(&mut pair.server_events);
        assert_eq!(at_server.len(), 2, "{frame_size}");
        assert_eq!(&at_server[0].2[..], &bytes[..]);
        assert_eq!(&at_server[1].2[..], b"small");
        let at_client = Pair::deliveries(&mut pair.client_events);
        assert_eq!(&at_client[0].2[..], &bytes[..]);
        assert_eq!(
            (pair.client.bytes_pending(), pair.server.bytes_pending()),
            (0, 0)
        );
        assert_eq!(pair.server.partial_bytes(), 0);
    }
}

// [AMQP 2.8.10] "delivery-ids, transfer-ids and delivery-counts use RFC-1982 arithmetic"
#[test]
fn all_counters_wrap() {
    let start = || LinkOptions {
        initial_outgoing_id: Serial(0xffff_fff0),
        initial_delivery_count: Serial(0xffff_fff1),
        initial_delivery_id: Serial(0xffff_fff2),
        incoming_window: 7,
        ..options("wraps")
    };
    let mut pair = Pair::open_with(start(), start());
    let (publisher, publishing) = pair.publisher(5);
    let (consumer, consuming) = pair.consumer(5);
    for round in 0..100_u64 {
        send(&mut pair.client, publisher, round, b"up");
        send(&mut pair.server, consuming, round, b"down");
        pair.drive();
        let [(up, ..)] = Pair::deliveries(&mut pair.server_events)[..] else {
            panic!("one")
        };
        let [(down, ..)] = Pair::deliveries(&mut pair.client_events)[..] else {
            panic!("one")
        };
        pair.server
            .settle_received(publishing, up, &DeliveryState::Accepted);
        pair.client
            .settle_received(consumer, down, &DeliveryState::Accepted);
        pair.server.set_credit(publishing, 5);
        pair.client.set_credit(consumer, 5);
        pair.drive();
        assert_eq!(Pair::outcomes(&mut pair.client_events).len(), 1, "{round}");
        assert_eq!(Pair::outcomes(&mut pair.server_events).len(), 1, "{round}");
    }
}

#[test]
fn a_sender_and_a_receiver_of_one_name_live_side_by_side() {
    let mut pair = Pair::open();
    let (session, _) = pair.begin();
    let (_, first) = pair.attach(session, sender("pair"));
    let (_, second) = pair.attach(session, receiver("pair"));
    assert_ne!(first, second);
    assert!(
        pair.take_client(|event| matches!(event, Event::Detached { .. }))
            .is_none()
    );
}
