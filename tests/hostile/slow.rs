//! Peers that do too little: they never finish, never read, never settle.

use std::io::{Read, Write};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::links::ask;
use crate::support::raw::{self, Raw, transfer};
use crate::support::{program, run_to_end};
use crate::under_attack;

/// Longest a load may take.
const LOAD_MAX: Duration = Duration::from_mins(5);

/// [AMQP 2.4.1]: `open` is the first frame; who does not get there is dropped.
#[test]
fn handshakes_that_never_end_are_dropped() {
    let cost = under_attack(&["--handshake-timeout=1s"], |broker| {
        let beginnings = [
            &[][..],
            b"AMQP",
            raw::SASL_HEADER,
            b"AMQP\x03\x01\x00\x00\x00\x00",
        ];
        let mut slow: Vec<Raw> = (0..100)
            .map(|count| {
                let mut raw = Raw::connect(broker.port);
                raw.send(beginnings[count % beginnings.len()]);
                raw
            })
            .collect();
        slow.push(Raw::authenticated(broker.port));
        for raw in &mut slow {
            raw.send(&[0]);
            assert!(raw.is_closed_within(raw::ANSWER_MAX));
        }
    });
    assert!(cost.peak_mib < 200);
}

/// Its own outcomes and echoed flows pile up until the broker stops reading it.
#[test]
fn a_peer_that_writes_and_never_reads_is_not_buffered_without_bound() {
    let cost = under_attack(&[], |broker| {
        Raw::declare(broker.port, "deaf");
        let mut raw = Raw::begun(broker.port);
        raw.attach_sender(0, "deaf");
        raw.wait_for(raw::FLOW);
        raw.stream
            .set_write_timeout(Some(Duration::from_secs(2)))
            .expect("a socket");
        let echo = [
            raw::uint(0xffff_fffc),
            raw::uint(9),
            raw::uint(0),
            raw::uint(9),
            raw::null(),
            raw::null(),
            raw::null(),
            raw::null(),
            raw::null(),
            raw::truth(true),
        ];
        let flow = raw::frame(0, 0, &raw::performative(raw::FLOW, &echo));
        let flows = flow.repeat(1_000);
        for _ in 0..1_000 {
            if raw.stream.write_all(&flows).is_err() {
                break;
            }
        }
    });
    assert!(cost.peak_mib < 200);
}

/// How long an attack goes on while memory is looked at: what must not grow has time to.
const WATCHED: Duration = Duration::from_secs(2);

/// A reader with all the credit in the world that does not read, before `messages` of 100 bytes.
fn reader_stops(messages: u32) -> u64 {
    let cost = under_attack(&[], |broker| {
        fill(broker.port, messages, "100");
        let mut raw = Raw::begun(broker.port);
        raw.attach_receiver(0, "hostile-0");
        raw.credit(0, 0xffff_fffb, 0x7fff_ffff);
        raw.wait_for(raw::TRANSFER);
        thread::sleep(WATCHED);
    });
    cost.peak_mib
}

#[test]
fn a_reader_that_stops_is_not_read_ahead_for() {
    assert!(reader_stops(20_000) < 200);
}

#[test]
#[ignore = "takes an optimised build"]
fn a_reader_that_stops_before_a_million_is_not_read_ahead_for() {
    assert!(reader_stops(1_000_000) < 700);
}

/// An empty frame: all that a peer has to send to be there.
const HEARTBEAT: &[u8] = b"\0\0\0\x08\x02\0\0\0";
const DEAF_PEERS: usize = 30;
/// Longest until they are gone: twice the idle time-out of 2 s, `limits::SOCKET_DROP_MS`, and time to look.
const DEAF_MAX: Duration = Duration::from_secs(25);

/// A consumer with all the credit in the world and little room.
fn little_reader(port: u16) -> Raw {
    let mut raw = Raw::begun_with_little_room(port);
    raw.attach_receiver(0, "hostile-0");
    raw.credit(0, 0xffff_fffb, 0x7fff_ffff);
    raw.wait_for(raw::TRANSFER);
    raw
}

/// Peers that sent heartbeats and read nothing stayed for good, each with its output and with messages
/// that others would have read.
#[test]
fn peers_that_beat_and_do_not_read_are_gone_and_one_that_reads_slowly_is_not() {
    let cost = under_attack(&["--idle-timeout=2s"], |broker| {
        let (port, http) = (broker.port, broker.http_port);
        fill(port, 6_000, "10000");
        let mut deaf: Vec<Raw> = (0..DEAF_PEERS).map(|_| little_reader(port)).collect();
        let mut slow = little_reader(port);
        let consumers = || {
            let path = "/api/queues/%2F/hostile-0?columns=consumers,messages";
            let answer = ask(http, "GET", path);
            assert!(answer.contains("\"messages\":6000"), "{answer}");
            let (_, count) = answer.split_once("\"consumers\":").expect("a number");
            let digits = count.chars().take_while(char::is_ascii_digit);
            digits
                .collect::<String>()
                .parse::<usize>()
                .expect("a number")
        };
        assert!(consumers() > 1, "the last of them has had no time yet");
        let begun = Instant::now();
        let mut room = vec![0; 32 * 1024];
        while consumers() > 1 {
            assert!(begun.elapsed() < DEAF_MAX, "{} are there", consumers());
            for raw in &mut deaf {
                // Those that are gone take none.
                let _ = raw.stream.write_all(HEARTBEAT);
            }
            slow.send(HEARTBEAT);
            assert!(slow.stream.read(&mut room).is_ok_and(|count| count > 0));
            thread::sleep(Duration::from_millis(100));
        }
        assert!(
            begun.elapsed() > Duration::from_secs(3),
            "they had their time"
        );
    });
    assert!(cost.peak_mib < 300, "{cost}");
}

/// Twice `limits::PARTIAL_BYTES_MAX`, since a part keeps the read buffer it came in, and a little.
const PARTS_MAX_MIB: u64 = 600;
/// How far what the broker counts may be from the growth of resident memory, in percent.
const PARTS_PERCENT: u64 = 30;

/// Publishers that each send a part of a message of 10 MB and then nothing more.
fn partial_publishers(publishers: usize, part_bytes: usize, percent: u64) -> u64 {
    let cost = under_attack(&[], |broker| {
        Raw::declare(broker.port, "parts");
        let part = vec![b'.'; 60_000];
        let stalled: Vec<Raw> = (0..publishers)
            .map(|_| {
                let mut raw = Raw::begun(broker.port);
                raw.attach_sender(0, "parts");
                let section = [0x00, 0x53, 0x75, 0xb0, 0x00, 0x98, 0x96, 0x80];
                let first = [&transfer(0, 0, false, true), &section[..], &part].concat();
                raw.send(&raw::frame(0, 0, &first));
                let more = [&transfer(0, 0, false, true), &part[..]].concat();
                let more = raw::frame(0, 0, &more);
                // The broker may stop reading, or close: then this one has sent what it could.
                let wait = Some(Duration::from_millis(5));
                raw.stream.set_write_timeout(wait).expect("a socket");
                let count = part_bytes / part.len();
                let _ = (1..count).try_for_each(|_| raw.stream.write_all(&more));
                raw
            })
            .collect();
        thread::sleep(WATCHED);
        drop(stalled);
    });
    cost.check_counted_within(percent);
    cost.peak_mib
}

#[test]
fn parts_of_messages_are_bounded_over_all_connections() {
    assert!(partial_publishers(40, 9_000_000, PARTS_PERCENT) < PARTS_MAX_MIB);
}

#[test]
#[ignore = "takes an optimised build"]
fn a_thousand_publishers_of_10_mb_are_bounded() {
    // What was given up is free before the allocator has given it back.
    assert!(partial_publishers(1_000, 9_000_000, 45) < PARTS_MAX_MIB);
}

/// Fills the queue `hostile-0`.
pub fn fill(port: u16, messages: u32, size: &str) {
    let url = format!("127.0.0.1:{port}");
    let output = run_to_end(
        Command::new(program())
            .args(["bench", "--url", &url, "--queue-prefix", "hostile-"])
            .args(["--consumers", "0", "--keep", "--size", size])
            .args(["--messages", &messages.to_string()]),
        LOAD_MAX,
    );
    assert!(output.status.success(), "{output:?}");
}
