//! Peers that make the broker keep what is no message body: all of it counts as memory.

use std::io::Write;
use std::time::{Duration, Instant};

use crate::cost::Meter;
use crate::support::RunningBroker;
use crate::support::raw::{self, Raw, transfer};
use crate::under_attack;

/// Largest part of a message in one frame.
const PART_BYTES: usize = 100_000;

/// Sends a message in frames, settled; false when the broker takes no more.
fn publish_parts(raw: &mut Raw, id: u32, message: &[u8]) -> bool {
    let count = message.chunks(PART_BYTES).count();
    message
        .chunks(PART_BYTES)
        .enumerate()
        .all(|(number, part)| {
            let frame = [&transfer(0, id, true, number + 1 < count), part].concat();
            raw.stream.write_all(&raw::frame(0, 0, &frame)).is_ok()
        })
}

/// A message with one annotation of this length.
fn annotated(length: usize) -> Vec<u8> {
    let value = "x".repeat(length);
    let annotations = raw::map(&[raw::symbol("x-opt-long"), raw::text(&value)]);
    let body = raw::described(0x75, &raw::binary(b"a"));
    [raw::described(0x72, &annotations), body].concat()
}

/// They were in no budget: 788 MB under a limit of 256 MiB, without an alarm.
#[test]
fn messages_of_annotations_count_and_stop_publishers() {
    // Without the canary: the alarm is to stop all publishers.
    let broker = RunningBroker::start(&["--memory-limit=128MiB", "--memory-budget=1GiB"]);
    let meter = Meter::start(&broker);
    Raw::declare(broker.port, "annotated");
    let mut raw = Raw::begun(broker.port);
    raw.attach_sender(0, "annotated");
    raw.wait_for(raw::FLOW);
    let wait = Some(Duration::from_secs(2));
    raw.stream.set_write_timeout(wait).expect("a socket");
    let message = annotated(8_000_000);
    let taken = (0..100).take_while(|id| publish_parts(&mut raw, *id, &message));
    let taken = taken.count();
    assert!((10..60).contains(&taken), "{taken} messages were taken");
    let cost = meter.stop();
    println!("{cost}");
    assert!(cost.peak_mib < 400, "{cost}");
    assert!(cost.mem_used_mib >= 100, "{cost}");
}

/// 16 unfinished messages made those of others wait for 28 s.
#[test]
fn others_do_not_wait_for_messages_that_never_end() {
    under_attack(&[], |broker| {
        Raw::declare(broker.port, "unfinished");
        let part = vec![b'.'; PART_BYTES];
        let section = [0x00, 0x53, 0x75, 0xb0, 0x00, 0x98, 0x96, 0x80];
        let _stalled: Vec<Raw> = (0..16)
            .map(|_| {
                let mut raw = Raw::begun(broker.port);
                raw.attach_sender(0, "unfinished");
                raw.wait_for(raw::FLOW);
                let first = [&transfer(0, 0, false, true), &section[..], &part].concat();
                raw.send(&raw::frame(0, 0, &first));
                raw
            })
            .collect();
        let mut raw = Raw::begun(broker.port);
        raw.attach_sender(0, "unfinished");
        raw.wait_for(raw::FLOW);
        let start = Instant::now();
        let body = raw::described(0x75, &raw::binary(&vec![b'.'; 5_000_000]));
        for id in 0..2 {
            assert!(publish_parts(&mut raw, id, &body));
        }
        raw.publish(0, 2, false, b"last");
        raw.wait_for(raw::DISPOSITION);
        let waited = start.elapsed();
        assert!(waited < Duration::from_secs(6), "waited {waited:?}");
    });
}
