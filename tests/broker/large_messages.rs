//! Large durable messages: neither their way in nor their way out takes their size in memory.
#![allow(
    clippy::disallowed_methods,
    reason = "tests start processes and use directories"
)]
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::RunningBroker;
use crate::support::raw::{
    BEGIN, CLOSE, DETACH, DISPOSITION, FLOW, Raw, TRANSFER, binary, described, frame, list,
    performative, transfer, truth, uint,
};

const MESSAGE_BYTES: usize = 8 << 20;
const PUBLISHERS: u32 = 8;
const MESSAGES_EACH: u32 = 2;
/// All messages together take 128 MiB. A debug build takes 40 MiB for itself, and a start reads a
/// segment of 33 MiB at once.
#[cfg(target_os = "linux")]
const MEMORY_KIB_MAX: u64 = 112 * 1024;
/// Longest wait for an alarm to be raised or cleared.
const ALARM_WAIT_MAX: Duration = Duration::from_secs(30);
/// Bytes of a frame that the broker takes, without its performative.
const FRAME_BYTES: usize = 120_000;

fn directory(name: &str) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::remove_dir_all(&directory).ok();
    directory
}

/// A body that no other number has.
fn body(number: u32) -> Vec<u8> {
    let first = usize::try_from(number).expect("a small number");
    let bytes = (first..first + MESSAGE_BYTES).map(|at| u8::try_from(at % 251).expect("a byte"));
    bytes.collect()
}

/// Header durable and one section of data.
fn message(number: u32) -> Vec<u8> {
    let header = described(0x70, &list(&[truth(true)]));
    [header, described(0x75, &binary(&body(number)))].concat()
}

/// Sends the frames of a message, at most so many.
fn send(raw: &mut Raw, id: u32, message: &[u8], frames: usize) {
    let count = message.len().div_ceil(FRAME_BYTES);
    for (number, bytes) in (1..).zip(message.chunks(FRAME_BYTES)).take(frames) {
        let transfer = transfer(0, id, false, number < count);
        raw.send(&frame(0, 0, &[&transfer[..], bytes].concat()));
    }
}

/// Sends the frames behind the first so many.
fn send_rest(raw: &mut Raw, id: u32, message: &[u8], sent: usize) {
    let count = message.len().div_ceil(FRAME_BYTES);
    for (number, bytes) in (1..).zip(message.chunks(FRAME_BYTES)).skip(sent) {
        let transfer = transfer(0, id, false, number < count);
        raw.send(&frame(0, 0, &[&transfer[..], bytes].concat()));
    }
}

/// The payload of a transfer frame.
fn payload(frame: &[u8]) -> &[u8] {
    let size = match frame[3] {
        0xc0 => 5 + usize::from(frame[4]),
        _ => 8 + u32::from_be_bytes([frame[4], frame[5], frame[6], frame[7]]) as usize,
    };
    &frame[size..]
}

/// Waits for a whole message; its body.
fn receive(raw: &mut Raw) -> Vec<u8> {
    let begin = [
        &[0x00, 0x53, 0x75, 0xb0][..],
        &u32::try_from(MESSAGE_BYTES).expect("small").to_be_bytes(),
    ]
    .concat();
    let mut bytes = Vec::new();
    let mut start = None;
    loop {
        bytes.extend_from_slice(payload(&raw.wait_for(TRANSFER).body));
        start = start.or_else(|| {
            let found = bytes.windows(begin.len()).position(|part| part == begin);
            found.map(|at| at + begin.len())
        });
        if let Some(start) = start
            && bytes.len() >= start + MESSAGE_BYTES
        {
            return bytes.split_off(start);
        }
    }
}

/// The most memory a process has taken, in KiB.
#[cfg(target_os = "linux")]
fn memory_kib(broker: &RunningBroker) -> u64 {
    let path = format!("/proc/{}/status", broker.process_id());
    let status = std::fs::read_to_string(path).expect("the broker runs");
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let word = line.and_then(|line| line.split_whitespace().nth(1));
    word.and_then(|kib| kib.parse().ok()).expect("a number")
}

#[test]
fn many_large_messages_pass_through_little_memory_and_a_kill() {
    let data = directory("large-messages").display().to_string();
    let broker = RunningBroker::start(&["--data", &data]);
    let port = broker.port;
    Raw::declare(port, "large");
    let publishers = (0..PUBLISHERS).map(|publisher| {
        thread::spawn(move || {
            let mut raw = Raw::begun(port);
            raw.attach_sender(0, "large");
            raw.wait_for(FLOW);
            for id in 0..MESSAGES_EACH {
                let all = message(publisher * MESSAGES_EACH + id);
                send(&mut raw, id, &all, usize::MAX);
                let outcome = raw.wait_for(DISPOSITION);
                let is_accepted = outcome.body.windows(3).any(|part| part == [0, 0x53, 0x24]);
                assert!(is_accepted, "{outcome:x?}");
            }
        })
    });
    let publishers: Vec<_> = publishers.collect();
    for publisher in publishers {
        publisher.join().expect("all are accepted");
    }
    // One is on its way when the broker is killed.
    let mut raw = Raw::begun(port);
    raw.attach_sender(0, "large");
    raw.wait_for(FLOW);
    send(&mut raw, 0, &message(99), 40);
    // Frames are read in order: who answers this has read those.
    raw.begin(1);
    raw.wait_for(BEGIN);
    #[cfg(target_os = "linux")]
    {
        let kib = memory_kib(&broker);
        assert!(kib < MEMORY_KIB_MAX, "publishing took {kib} KiB");
    }
    drop(broker);

    let broker = RunningBroker::start(&["--data", &data]);
    let mut raw = Raw::begun(broker.port);
    raw.attach_receiver(0, "large");
    let mut missing: Vec<u32> = (0..PUBLISHERS * MESSAGES_EACH).collect();
    for count in 0..PUBLISHERS * MESSAGES_EACH {
        raw.credit(0, 0xffff_fffb_u32.wrapping_add(count), 1);
        let received = receive(&mut raw);
        let found = missing.iter().position(|number| body(*number) == received);
        missing.remove(found.expect("a message that was sent, once"));
        let accepted = described(0x24, &list(&[]));
        let fields = [truth(true), uint(count), uint(count), truth(true), accepted];
        raw.send(&frame(0, 0, &performative(DISPOSITION, &fields)));
    }
    raw.credit(
        0,
        0xffff_fffb_u32.wrapping_add(PUBLISHERS * MESSAGES_EACH),
        1,
    );
    let more = raw.next(Duration::from_millis(500));
    assert!(
        more.is_none_or(|came| came.code != TRANSFER),
        "nothing else"
    );
    #[cfg(target_os = "linux")]
    {
        let kib = memory_kib(&broker);
        assert!(kib < MEMORY_KIB_MAX, "consuming took {kib} KiB");
    }
}

/// The status of the memory alarm, as the HTTP API tells it.
fn has_alarm(broker: &RunningBroker) -> bool {
    let mut stream = TcpStream::connect(("127.0.0.1", broker.http_port)).expect("HTTP");
    // guest:guest
    let request =
        b"GET /api/nodes?columns=mem_alarm HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
        authorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n\r\n";
    stream.write_all(request).expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.contains("\"mem_alarm\""), "{answer}");
    answer.contains("\"mem_alarm\":true")
}

fn wait_for_alarm(broker: &RunningBroker, raised: bool) {
    let end = Instant::now() + ALARM_WAIT_MAX;
    while has_alarm(broker) != raised {
        assert!(Instant::now() < end, "the alarm is not {raised}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// What had arrived of a message was more than the limit, so that an alarm stood, in which it was not read on:
/// for good.
#[test]
fn a_message_of_more_than_the_memory_limit_arrives_and_the_alarm_ends() {
    let directory = directory("large-above-limit");
    let data = directory.to_str().expect("a path");
    let broker = RunningBroker::start(&["--data", data, "--memory-limit=256KiB"]);
    Raw::declare(broker.port, "large");
    let mut raw = Raw::begun(broker.port);
    raw.attach_sender(0, "large");
    raw.wait_for(FLOW);
    let message = message(1);
    // So much is kept in memory; what follows is streamed to the journal.
    send(&mut raw, 0, &message, 2);
    wait_for_alarm(&broker, true);
    send_rest(&mut raw, 0, &message, 2);
    raw.wait_for(DISPOSITION);
    wait_for_alarm(&broker, false);
    std::fs::remove_dir_all(&directory).ok();
}

/// The same of messages whose peers send no more of them: each is given up, and the others go on.
#[test]
fn messages_that_never_end_are_given_up_when_they_keep_the_alarm_up() {
    let directory = directory("large-never-ends");
    let data = directory.to_str().expect("a path");
    let broker = RunningBroker::start(&["--data", data, "--memory-limit=512KiB"]);
    Raw::declare(broker.port, "large");
    let message = message(1);
    let stalled: Vec<Raw> = (0..3)
        .map(|_| {
            let mut raw = Raw::begun(broker.port);
            raw.attach_sender(0, "large");
            raw.wait_for(FLOW);
            send(&mut raw, 0, &message, 2);
            raw
        })
        .collect();
    wait_for_alarm(&broker, true);
    wait_for_alarm(&broker, false);
    let mut raw = Raw::begun(broker.port);
    raw.attach_sender(0, "large");
    raw.wait_for(FLOW);
    raw.publish(0, 0, false, b"small");
    raw.wait_for(DISPOSITION);
    let mut given_up = 0;
    for mut raw in stalled {
        while let Some(came) = raw.next(Duration::from_millis(100)) {
            if came.code == DETACH {
                assert!(came.says("took too long to arrive"), "{came:?}");
                given_up += 1;
            }
        }
    }
    assert!(given_up > 0, "none was given up");
    std::fs::remove_dir_all(&directory).ok();
}

/// Parts of messages too small for a permit, and frames that had begun, were given up by nobody: many peers
/// with a little each kept an alarm up for good.
#[test]
fn many_small_parts_of_messages_are_given_up_when_they_keep_the_alarm_up() {
    const PART_BYTES: usize = 50_000;
    const PEERS: usize = 60;
    let broker = RunningBroker::start(&["--in-memory", "--memory-limit=3MiB"]);
    Raw::declare(broker.port, "parts");
    let part = vec![b'.'; PART_BYTES];
    let section = [0x00, 0x53, 0x75, 0xb0, 0x00, 0x98, 0x96, 0x80];
    let first = frame(
        0,
        0,
        &[&transfer(0, 0, false, true), &section[..], &part].concat(),
    );
    // All have credit before there is an alarm.
    let mut stalled: Vec<Raw> = (0..PEERS)
        .map(|_| {
            let mut raw = Raw::begun(broker.port);
            raw.attach_sender(0, "parts");
            raw.wait_for(FLOW);
            raw
        })
        .collect();
    for (number, raw) in stalled.iter_mut().enumerate() {
        // A whole frame of a message, or most of a frame.
        let left = if number % 2 == 0 { 0 } else { 1_000 };
        raw.send(&first[..first.len() - left]);
    }
    wait_for_alarm(&broker, true);
    wait_for_alarm(&broker, false);
    let mut raw = Raw::begun(broker.port);
    raw.attach_sender(0, "parts");
    raw.wait_for(FLOW);
    raw.publish(0, 0, false, b"small");
    raw.wait_for(DISPOSITION);
    let mut given_up = [0, 0];
    for mut raw in stalled {
        while let Some(came) = raw.next(Duration::from_millis(20)) {
            let place = [DETACH, CLOSE].iter().position(|code| *code == came.code);
            if let Some(place) = place
                && came.says("took too long to arrive")
            {
                given_up[place] += 1;
            }
        }
    }
    assert!(given_up.iter().all(|count| *count > 0), "{given_up:?}");
}
