//! Bytes that no honest peer sends.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::support::{
    Raw, at, attach_performative, names, open_performative, options, receiver, sender, transfer,
};
use crate::base::{Serial, limits};
use crate::link::{Event, LinkOptions, fuzz_connection, fuzz_frame};
use crate::wire::frame::Protocol;
use crate::wire::performative::{
    DeliveryState, Disposition, Fields, Flow, LinkFlow, Performative, Role, Symbol, Transfer, Value,
};

/// One frame of type AMQP on channel 0 around a body.
fn framed(body: &[u8]) -> Vec<u8> {
    let size = u32::try_from(body.len() + 8).unwrap();
    let mut frame = size.to_be_bytes().to_vec();
    frame.extend_from_slice(&[2, 0, 0, 0]);
    frame.extend_from_slice(body);
    frame
}

/// What a server that is open answers to bytes.
fn answer(bytes: &[u8]) -> Vec<String> {
    let mut raw = Raw::open();
    raw.bytes(bytes);
    names(&raw.take())
}

// [AMQP 2.4.3] "an error ... is reported by a close with the error"
#[test]
fn broken_frames_close_the_connection_with_the_right_condition() {
    let framing = ["close amqp:connection:framing-error"];
    assert_eq!(answer(&[0, 0, 0, 7, 2, 0, 0, 0]), framing);
    assert_eq!(answer(&[0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0]), framing);
    assert_eq!(answer(&[0, 0, 0, 8, 1, 0, 0, 0]), framing);
    assert_eq!(answer(&[0, 0, 0, 8, 2, 9, 0, 0]), framing);
    assert_eq!(answer(&[0, 0, 0, 9, 2, 1, 0, 0, 0x40]), framing);
    let decoding = ["close amqp:decode-error"];
    assert_eq!(answer(&framed(&[0x40])), decoding);
    assert_eq!(answer(&framed(&[0, 0x53, 0x1f, 0x45])), decoding);
    assert_eq!(answer(&framed(&[0, 0x53, 0x13, 0x45])), decoding);
    assert_eq!(answer(&framed(&[0, 0x53, 0x15, 0xc0, 0xff, 1])), decoding);
    assert_eq!(answer(&framed(&[0, 0x53, 0x17, 0x45, 1, 2, 3])), decoding);
}

// Engine rule 1: before any serde call, one structural check. 14 bytes once took 3.8 GiB elsewhere.
#[test]
fn length_and_count_bombs_take_no_memory() {
    let bombs: [&[u8]; 6] = [
        &[0, 0x53, 0x10, 0xd0, 0, 0, 0, 4, 0xff, 0xff, 0xff, 0xff],
        &[0, 0x53, 0x11, 0xd0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1],
        &[
            0, 0x53, 0x12, 0xc0, 9, 1, 0xb1, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0,
        ],
        &[
            0, 0x53, 0x18, 0xf0, 0, 0, 0, 5, 0xff, 0xff, 0xff, 0xff, 0x40,
        ],
        &[
            0, 0x53, 0x10, 0xc0, 13, 1, 0xf0, 0, 0, 0, 5, 0xff, 0xff, 0xff, 0xff, 0x45,
        ],
        &[
            0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0x10, 0xd1, 0, 0, 0, 4, 0x7f, 0xff, 0xff, 0xff,
        ],
    ];
    for bomb in bombs {
        for before_open in [true, false] {
            let mut raw = if before_open {
                let mut raw = Raw::new(LinkOptions {
                    allow_plain_amqp: true,
                    ..options("server")
                });
                raw.bytes(&Protocol::Amqp.header());
                raw.take();
                raw
            } else {
                Raw::open()
            };
            raw.bytes(&framed(bomb));
            let last = names(&raw.take()).pop();
            assert_eq!(
                last.as_deref(),
                Some("close amqp:decode-error"),
                "{bomb:02x?}"
            );
        }
    }
}

// Engine rule 1: a nested value of 12 kB once overflowed the stack elsewhere.
#[test]
fn depth_bombs_are_refused_before_any_decoder_recurses() {
    for (open, close) in [(&[0xc0, 0xff, 1][..], &[][..]), (&[0, 0x53, 1], &[0x40])] {
        let mut nested = Vec::new();
        for _ in 0..20_000 {
            nested.extend_from_slice(open);
        }
        nested.extend_from_slice(close);
        let mut body = vec![0, 0x53, 0x18, 0xd0];
        body.extend_from_slice(&u32::try_from(nested.len() + 4).unwrap().to_be_bytes());
        body.extend_from_slice(&[0, 0, 0, 1]);
        body.extend_from_slice(&nested);
        assert_eq!(answer(&framed(&body)), ["close amqp:decode-error"]);
    }
}

// Engine rule 2: ranges are clamped to the unsettled window, never iterated.
#[test]
fn a_disposition_of_all_ids_costs_no_more_than_what_is_unsettled() {
    let (mut raw, link) = Raw::receiving(10);
    super::support::send(&mut raw.server, link, 1, b"x");
    raw.take();
    let range = |first, last, settled| {
        Performative::Disposition(Disposition {
            role: Role::Receiver,
            first: Serial(first),
            last: Serial(last),
            settled,
            state: Some(DeliveryState::Accepted),
        })
    };
    for _ in 0..10_000 {
        raw.frame(0, &range(0, u32::MAX, true));
        raw.frame(0, &range(1, 0x7fff_ffff, true));
    }
    assert!(
        !raw.events
            .iter()
            .any(|event| matches!(event, Event::Settled { .. }))
    );
    raw.frame(0, &range(0x9000_0000, 0x0fff_ffff, true));
    let outcomes = raw
        .events
        .iter()
        .filter(|event| matches!(event, Event::Settled { .. }));
    assert_eq!(outcomes.count(), 1);
    assert_eq!(names(&raw.take()), [""; 0]);
}

// Engine rule 5: a peer that makes us answer and never reads is not read any more.
#[test]
fn answers_that_nobody_reads_stop_the_reading() {
    let mut raw = Raw::begun();
    let attach = attach_performative(sender("l"), 0);
    let detach = Performative::Detach(Box::new(crate::wire::performative::Detach {
        handle: crate::wire::performative::Handle(0),
        closed: true,
        error: None,
    }));
    for _ in 0..20_000 {
        raw.frame(0, &attach);
        raw.frame(0, &detach);
        raw.events.clear();
        if !raw.server.wants_input() {
            break;
        }
    }
    assert!(!raw.server.wants_input());
    let bound = limits::CONTROL_BYTES_MAX as u64;
    assert!(
        raw.server.bytes_pending() < bound + 4096,
        "{}",
        raw.server.bytes_pending()
    );
    raw.take();
    assert!(raw.server.wants_input());
}

/// A peer that read nothing, so that we could not read either, never counted as silent: it stayed for
/// as long as it liked.
#[test]
fn a_peer_that_neither_reads_nor_lets_us_read_is_silent() {
    let mut raw = Raw::begun();
    let attach = attach_performative(sender("l"), 0);
    let detach = Performative::Detach(Box::new(crate::wire::performative::Detach {
        handle: crate::wire::performative::Handle(0),
        closed: true,
        error: None,
    }));
    while raw.server.wants_input() {
        raw.frame(0, &attach);
        raw.frame(0, &detach);
        raw.events.clear();
    }
    let due = raw.server.next_deadline().unwrap();
    assert_eq!(due.0, 60_000, "twice what we announced");
    raw.server.note_unread(at(1_000));
    raw.server.handle_timeout(at(60_999));
    assert!(!raw.server.is_closing(), "it took some of our answers then");
    raw.server.handle_timeout(at(61_000));
    assert!(raw.server.is_closing());
}

#[test]
fn partial_deliveries_are_bounded_for_the_whole_connection() {
    let mut raw = Raw::open_with(LinkOptions {
        allow_plain_amqp: true,
        partial_bytes_max: 100_000,
        ..options("server")
    });
    raw.frame(0, &super::support::begin_performative());
    let mut refused = 0;
    for handle in 0..100 {
        raw.frame(
            0,
            &attach_performative(sender(&format!("l{handle}")), handle),
        );
        let link = raw.attached();
        raw.server.set_credit(link, 1);
        let first = Transfer {
            more: true,
            ..transfer(handle, handle)
        };
        raw.payload(0, &Performative::Transfer(first), &[0; 10_000]);
        assert!(
            raw.server.partial_bytes() <= 110_200,
            "{}",
            raw.server.partial_bytes()
        );
        let frames = names(&raw.take());
        let refusal = "detach amqp:resource-limit-exceeded".to_owned();
        refused += usize::from(frames.contains(&refusal));
    }
    assert!(refused > 80, "{refused}");
}

// A fragment of one byte must not keep a read buffer of many alive, nor cost an allocation.
#[test]
fn tiny_fragments_are_gathered_and_cost_their_bytes() {
    let (mut raw, _) = Raw::sending(1);
    let more = Transfer {
        more: true,
        ..transfer(0, 0)
    };
    for _ in 0..1000 {
        raw.payload(0, &Performative::Transfer(more.clone()), b"x");
        raw.take();
    }
    assert_eq!(raw.server.partial_bytes(), 1_000 + 64);
}

#[test]
fn garbage_before_sasl_is_answered_with_our_header_and_nothing_is_kept() {
    for garbage in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        b"AMQP\x02\x01\x00\x00",
        b"\x16\x03\x01\x02",
    ] {
        let mut raw = Raw::new(options("server"));
        raw.bytes(garbage);
        assert_eq!(names(&raw.take()), ["header Sasl"], "{garbage:02x?}");
        assert!(raw.server.is_closed() && raw.input.is_empty());
    }
}

#[test]
fn garbage_in_place_of_sasl_closes_without_a_word() {
    let frames: [&[u8]; 4] = [
        &[0, 0, 0x20, 1, 2, 1, 0, 0],
        &[0, 0, 0, 8, 2, 1, 0, 0],
        &[0, 0, 0, 12, 2, 1, 0, 0, 0, 0x53, 0x41, 0x45],
        &[0, 0, 0, 12, 2, 0, 0, 0, 0, 0x53, 0x10, 0x45],
    ];
    for frame in frames {
        let mut raw = Raw::new(options("server"));
        raw.bytes(&Protocol::Sasl.header());
        raw.bytes(frame);
        assert_eq!(names(&raw.take()), ["header Sasl", "sasl"], "{frame:02x?}");
        assert!(raw.server.is_closed());
        let closed = raw
            .events
            .iter()
            .any(|event| matches!(event, Event::Closed { .. }));
        assert!(closed);
    }
}

// Engine rule 8: a peer that sends its handshake byte by byte is closed when the time is up.
#[test]
fn a_slow_handshake_ends_at_its_deadline() {
    let mut raw = Raw::new(options("server"));
    for (n, byte) in (0..).zip(Protocol::Sasl.header()) {
        raw.now = at(n * 1000);
        raw.bytes(&[byte]);
    }
    let deadline = raw.server.next_deadline().unwrap();
    assert_eq!(deadline.0, 10_000);
    raw.server.handle_timeout(at(9_999));
    assert!(raw.server.wants_input());
    raw.server.handle_timeout(at(10_000));
    raw.take();
    assert!(raw.server.is_closed());
}

#[test]
fn handles_and_channels_at_their_limits_are_served_and_beyond_refused() {
    let mut raw = Raw::begun();
    for handle in 0..=255 {
        raw.frame(
            0,
            &attach_performative(sender(&format!("l{handle}")), handle),
        );
    }
    assert_eq!(raw.take().len(), 256);
    raw.frame(0, &attach_performative(sender("one more"), 256));
    assert_eq!(names(&raw.take()), ["end amqp:connection:framing-error"]);
    let mut raw = Raw::open();
    for channel in 0..=63 {
        raw.frame(channel, &super::support::begin_performative());
    }
    assert_eq!(raw.take().len(), 64);
    raw.frame(64, &super::support::begin_performative());
    assert_eq!(names(&raw.take()), ["close amqp:connection:framing-error"]);
}

// serde_amqp 0.18, which read attaches once, cannot decode an array of maps.
#[test]
fn an_attach_with_an_array_of_maps_is_served() {
    let mut attach = sender("l");
    attach.properties = Some(Fields::from_iter([(Symbol::from("k"), Value::Uint(7))]));
    let mut frame = Vec::new();
    crate::wire::performative::encode(&mut frame, &attach_performative(attach, 0));
    // Replaces the value (smalluint 7) by an array of one map, and fixes the sizes around it.
    let at = frame
        .windows(5)
        .position(|bytes| bytes == [0xa3, 1, b'k', 0x52, 7])
        .unwrap();
    let array = [0xe0, 9, 1, 0xc1, 6, 2, 0xa3, 1, b'a', 0x52, 7];
    frame.splice(at + 3..at + 5, array);
    frame[4] += 9;
    let map = at - 3;
    assert_eq!(frame[map], 0xc1);
    frame[map + 1] += 9;
    let mut raw = Raw::begun();
    raw.bytes(&framed(&frame));
    assert_eq!(names(&raw.take()), ["attach"]);
    let (array, _) = crate::wire::decode_value(&array).unwrap();
    let kept = raw.events.iter().any(|event| match event {
        Event::Attached { attach, .. } => {
            attach
                .properties
                .as_ref()
                .and_then(|fields| fields.get("k"))
                == Some(&array)
        }
        _ => false,
    });
    assert!(kept, "{:?}", raw.events);
}

#[test]
fn a_flood_of_flows_that_ask_for_an_answer_is_answered_once() {
    let (mut raw, _) = Raw::receiving(1);
    let flow = Performative::Flow(Flow {
        incoming_window: 5,
        outgoing_window: 5,
        link: Some(LinkFlow {
            handle: 0,
            link_credit: Some(1),
            ..LinkFlow::default()
        }),
        echo: true,
        ..Flow::default()
    });
    for _ in 0..1000 {
        raw.frame(0, &flow);
    }
    assert_eq!(names(&raw.take()), ["flow"]);
}

/// A small generator, so that the mutations are the same on each run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 11).unwrap()
    }
}

#[test]
fn mutated_conversations_break_no_invariant() {
    let conversation = conversation();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for round in 0..3_000 {
        let mut data = conversation.clone();
        data[0] = u8::try_from(random.next() % 256).unwrap();
        for _ in 0..=random.next() % 6 {
            let at = 1 + random.next() % (data.len() - 1);
            match random.next() % 4 {
                0 => data[at] = u8::try_from(random.next() % 256).unwrap(),
                1 => data[at] ^= 1 << (random.next() % 8),
                2 => data.truncate(at.max(2)),
                _ => {
                    let copy = data[at..(at + 30).min(data.len())].to_vec();
                    data.extend_from_slice(&copy);
                }
            }
        }
        let result = catch_unwind(AssertUnwindSafe(|| {
            fuzz_connection(&data);
            fuzz_frame(&data[1..]);
        }));
        assert!(result.is_ok(), "round {round}: {data:02x?}");
    }
}

/// What an honest peer says from the open on, one of each performative.
fn conversation() -> Vec<u8> {
    let mut out = vec![1];
    let mut push = |performative: &Performative, payload: &[u8]| {
        let mut body = Vec::new();
        crate::wire::performative::encode(&mut body, performative);
        body.extend_from_slice(payload);
        out.extend_from_slice(&framed(&body));
    };
    push(&open_performative(), &[]);
    push(&super::support::begin_performative(), &[]);
    push(&attach_performative(sender("s"), 0), &[]);
    push(&attach_performative(receiver("r"), 1), &[]);
    push(&super::support::credit_performative(1, 5), &[]);
    push(&Performative::Transfer(transfer(0, 0)), b"message");
    push(
        &Performative::Transfer(Transfer {
            more: true,
            ..transfer(0, 1)
        }),
        b"mess",
    );
    push(&Performative::Transfer(transfer(0, 1)), b"age");
    let disposition = Disposition {
        role: Role::Receiver,
        first: Serial(0),
        last: Serial(2),
        settled: true,
        state: Some(DeliveryState::Modified {
            delivery_failed: Some(true),
            undeliverable_here: None,
            message_annotations: Some(bytes::Bytes::from_static(b"\xc1\x06\x02\xa3\x01k\x52\x01")),
        }),
    };
    push(&Performative::Disposition(disposition), &[]);
    push(
        &Performative::End(Box::new(crate::wire::performative::End { error: None })),
        &[],
    );
    out
}

#[test]
fn the_conversation_that_is_mutated_is_right() {
    let mut raw = Raw::new(LinkOptions {
        allow_plain_amqp: true,
        ..options("server")
    });
    raw.bytes(&Protocol::Amqp.header());
    raw.bytes(&conversation()[1..]);
    let names = names(&raw.take());
    assert_eq!(
        names.last().map(String::as_str),
        Some("end"),
        "{names:?} {:?}",
        raw.events
    );
}
