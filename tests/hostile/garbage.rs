//! Bytes that are no AMQP, or hardly.

use std::time::Duration;

use crate::support::mutator::{Mutator, corpus};
use crate::support::raw::{self, Raw};
use crate::under_attack;

/// How long an answer to garbage is waited for, before the next connection.
const GLANCE: Duration = Duration::from_millis(5);
/// What nobody but the memory of this test bounds: a broker that does nothing takes about 20 MiB.
const MEMORY_MAX_MIB: u64 = 200;

#[test]
fn mutated_conversations_hurt_nobody() {
    let inputs = corpus("connection");
    let mut mutator = Mutator::new(1, &inputs);
    let cost = under_attack(&[], |broker| {
        for _ in 0..400 {
            let mut raw = Raw::connect(broker.port);
            // The first byte is for the fuzz target only.
            raw.send(mutator.input().get(1..).unwrap_or_default());
            raw.next(GLANCE);
        }
    });
    assert!(cost.peak_mib < MEMORY_MAX_MIB);
}

#[test]
fn mutated_frames_after_login_hurt_nobody() {
    let inputs = corpus("frame");
    let mut mutator = Mutator::new(2, &inputs);
    let cost = under_attack(&[], |broker| {
        for _ in 0..100 {
            let mut raw = Raw::begun(broker.port);
            for _ in 0..8 {
                raw.send(&raw::frame(0, 0, &mutator.input()));
            }
            raw.next(GLANCE);
        }
    });
    assert!(cost.peak_mib < MEMORY_MAX_MIB);
}

#[test]
fn random_bytes_hurt_nobody() {
    let inputs = [vec![0; 512]];
    let mut mutator = Mutator::new(3, &inputs);
    under_attack(&[], |broker| {
        for count in 0..200 {
            let noise: Vec<u8> = (0..512)
                .map(|_| u8::try_from(mutator.below(256)).expect("a byte"))
                .collect();
            let mut raw = if count % 4 == 0 {
                Raw::authenticated(broker.port)
            } else {
                Raw::connect(broker.port)
            };
            raw.send(&noise);
            raw.next(GLANCE);
        }
    });
}

/// Frames whose lengths, counts or depth promise more than they hold. [AMQP 1.6, 2.3.1]
fn bombs() -> Vec<(&'static str, Vec<u8>)> {
    let body = |bytes: &[u8]| raw::frame(0, 0, bytes);
    let deep = |open: &[u8], depth: usize| {
        let levels = open.repeat(depth);
        body(&[&[0x00, 0x53, 0x10], &levels[..]].concat())
    };
    vec![
        ("a frame of 4 GiB", vec![0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0]),
        ("a frame of 7 bytes", vec![0, 0, 0, 7, 2, 0, 0, 0]),
        ("a frame without an end to its header", {
            vec![0, 0, 0, 8, 0xff, 0, 0, 0]
        }),
        (
            "a list of 2^32 nulls",
            body(&[0x00, 0x53, 0x10, 0xd0, 0, 0, 0, 4, 0xff, 0xff, 0xff, 0xff]),
        ),
        (
            "an array of 2^32 empty lists",
            body(&[
                0x00, 0x53, 0x10, 0xc0, 12, 1, 0xf0, 0, 0, 0, 5, 0xff, 0xff, 0xff, 0xff, 0x45,
            ]),
        ),
        (
            "a string of 4 GiB",
            body(&[0x00, 0x53, 0x10, 0xc0, 6, 1, 0xb1, 0xff, 0xff, 0xff, 0xff]),
        ),
        ("two thousand descriptors", deep(&[0x00], 2_000)),
        ("a thousand lists in lists", deep(&[0xc0, 0xff, 1], 1_000)),
        (
            "a thousand arrays in arrays",
            deep(&[0xf0, 0, 0, 0xff, 0xff, 0, 0, 0, 1], 800),
        ),
    ]
}

#[test]
fn bombs_are_refused_before_they_cost_memory() {
    let cost = under_attack(&[], |broker| {
        for (name, bomb) in bombs() {
            let mut before = Raw::connect(broker.port);
            before.send(raw::SASL_HEADER);
            before.send(&bomb);
            assert!(
                before.is_closed_within(raw::ANSWER_MAX),
                "{name} before login"
            );
            let mut after = Raw::begun(broker.port);
            after.send(&bomb);
            let close = after.wait_for(raw::CLOSE);
            assert!(
                close.says("amqp:connection:framing-error") || close.says("amqp:decode-error"),
                "{name}: {close:x?}"
            );
        }
    });
    assert!(cost.peak_mib < MEMORY_MAX_MIB);
}
