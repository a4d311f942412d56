//! Large messages in parts.

use bytes::Bytes;

use super::support::{Pair, Raw, message, names, options, receiver, send, transfer};
use crate::link::{Event, LinkHandle, LinkOptions, Unsendable};
use crate::wire::performative::{Performative, Transfer};

/// A server that wants to be told of every ten bytes, with a link to it.
fn told() -> (Raw, LinkHandle) {
    let options = LinkOptions {
        allow_plain_amqp: true,
        part_bytes: 10,
        ..options("server")
    };
    Raw::open_with(options).begin().sends(3)
}

/// Sends the parts of one delivery; the server tells of them as they come.
fn arrive(raw: &mut Raw, delivery_id: u32, parts: &[&[u8]], mut told: impl FnMut(&mut Raw)) {
    for (number, part) in (1..).zip(parts) {
        let transfer = Transfer {
            more: number < parts.len(),
            ..transfer(0, delivery_id)
        };
        raw.payload(0, &Performative::Transfer(transfer), part);
        while let Some(index) = raw
            .events
            .iter()
            .position(|event| matches!(event, Event::Partial { .. }))
        {
            raw.events.remove(index);
            told(raw);
        }
    }
}

fn payload(raw: &mut Raw) -> Bytes {
    let mut events = std::mem::take(&mut raw.events);
    Pair::deliveries(&mut events).remove(0).2
}

#[test]
fn what_is_taken_out_in_parts_is_missing_from_the_delivery_and_costs_nothing() {
    let (mut raw, link) = told();
    let mut taken = Vec::new();
    arrive(
        &mut raw,
        0,
        &[b"first", b" second", b" third", b"!"],
        |raw| {
            assert_eq!(raw.server.partial(link).concat(), b"first second");
            taken.extend(raw.server.take_partial(link));
            assert_eq!(raw.server.partial_bytes(), 0);
        },
    );
    assert_eq!(taken.concat(), b"first second");
    assert_eq!(payload(&mut raw), " third!");
    assert_eq!(raw.server.partial_bytes(), 0);
}

#[test]
fn what_is_kept_is_not_told_of_again() {
    let (mut raw, link) = told();
    let mut count = 0;
    let parts: &[&[u8]] = &[b"0123456789", b"0123456789", b"end"];
    arrive(&mut raw, 0, parts, |_| count += 1);
    assert_eq!(count, 2, "undecided: told of each time");
    assert_eq!(payload(&mut raw), "01234567890123456789end");
    arrive(&mut raw, 1, parts, |raw| {
        count += 1;
        raw.server.keep_partial(link);
    });
    assert_eq!(count, 3);
    assert_eq!(payload(&mut raw), "01234567890123456789end");
}

#[test]
fn nothing_is_told_of_small_messages_or_where_nobody_wants_to_know() {
    let (mut raw, _) = told();
    arrive(&mut raw, 0, &[b"small", b"one"], |_| panic!("it is small"));
    let (mut raw, _) = Raw::sending(3);
    let parts: &[&[u8]] = &[b"0123456789", b"0123456789"];
    arrive(&mut raw, 0, parts, |_| panic!("nobody asked"));
}

#[test]
fn a_stream_asks_for_its_bytes_as_they_are_sent_and_keeps_its_turn() {
    let mut pair = Pair::open_with(
        LinkOptions {
            max_frame_size: 512,
            ..options("client")
        },
        options("server"),
    );
    let (session, _) = pair.begin();
    let (client, server) = pair.attach(session, receiver("in"));
    pair.client.set_credit(client, 2);
    pair.drive();
    let body: Vec<u8> = (0..3_000)
        .map(|at| u8::try_from(at % 251).unwrap())
        .collect();
    let head = message(1, b"");
    let streamed = pair
        .server
        .send_stream(server, head, (7, body.len() as u64));
    assert_eq!(streamed, Ok(()));
    send(&mut pair.server, server, 2, b"behind it");
    let third = pair.server.send_stream(server, head, (8, 1));
    assert_eq!(third, Err(Unsendable::NoCredit));
    let mut given = 0;
    let sizes = [100, 1, 900, 999, 1_000];
    for size in sizes {
        pair.drive();
        assert!(Pair::deliveries(&mut pair.client_events).is_empty());
        assert_eq!(pair.server.poll_wanting(), Some((server, 7)));
        assert_eq!(pair.server.poll_wanting(), None, "it asks once");
        pair.server
            .supply(server, 6, Bytes::from_static(b"of another"));
        let bytes = Bytes::copy_from_slice(&body[given..given + size]);
        pair.server.supply(server, 7, bytes);
        given += size;
    }
    pair.drive();
    let payloads = Pair::deliveries(&mut pair.client_events);
    let payloads: Vec<_> = payloads
        .iter()
        .map(|(_, _, payload)| &payload[..])
        .collect();
    assert_eq!(payloads, [&body[..], b"behind it"]);
    assert_eq!(pair.server.bytes_pending(), 0);
}

#[test]
fn a_stream_goes_with_its_link() {
    let (mut raw, link) = Raw::receiving(3);
    let streamed = raw.server.send_stream(link, message(1, b""), (1, 1 << 30));
    assert_eq!(streamed, Ok(()));
    assert!(names(&raw.take()).is_empty());
    raw.server.detach(link, true, None);
    raw.server.supply(link, 1, Bytes::from_static(b"late"));
    assert_eq!(names(&raw.take()), ["detach"]);
    assert_eq!(raw.server.bytes_pending(), 0);
}
