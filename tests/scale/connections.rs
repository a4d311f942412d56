//! Many connections, and more than there are file descriptors for.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::support::RunningBroker;
use crate::support::raw::{AMQP_HEADER, DISPOSITION, Raw, SASL_HEADER};
use crate::{SOON, allow_open_files, open, try_open};

/// Nothing has to come within this.
const A_WHILE: Duration = Duration::from_millis(500);
/// Most of one processor that a broker may use while nothing can be accepted.
const IDLE_SHARE_MAX: f64 = 0.2;

/// A data directory that goes with the test.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let name = format!("coroner-scale-{name}-{}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

/// Publishes durable messages and waits until each is confirmed.
fn publish(raw: &mut Raw, first: u32, count: u32, body_bytes: usize) {
    for id in first..first + count {
        raw.publish(0, id, false, &vec![b'.'; body_bytes]);
        raw.wait_for(DISPOSITION);
    }
}

/// Whether a new connection is served: the broker answers the protocol header.
fn is_served(port: u16, within: Duration) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else {
        return false;
    };
    stream.set_read_timeout(Some(within)).expect("a socket");
    stream.write_all(SASL_HEADER).ok();
    let mut answer = [0; 8];
    stream.read_exact(&mut answer).is_ok() && answer == *SASL_HEADER
}

fn is_served_soon(port: u16) -> bool {
    let deadline = Instant::now() + SOON;
    while Instant::now() < deadline {
        if is_served(port, A_WHILE) {
            return true;
        }
    }
    false
}

/// The status of an HTTP request.
fn http_status(port: u16, path: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("HTTP");
    stream.set_read_timeout(Some(SOON)).expect("a socket");
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer.split(' ').nth(1).unwrap_or_default().to_owned()
}

/// Time that a process used the processors, in clock ticks (of 10 ms).
fn processor_ticks(process_id: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{process_id}/stat"));
    let stat = stat.expect("a running process");
    let after_name = stat.rsplit(") ").next().expect("fields");
    let fields: Vec<&str> = after_name.split(' ').collect();
    let number = |index: usize| fields[index].parse::<u64>().expect("a number");
    // utime and stime, the 14th and 15th of all fields.
    number(11) + number(12)
}

#[test]
#[cfg_attr(debug_assertions, ignore = "takes an optimised build")]
fn ten_thousand_connections_are_served_and_one_more_is_not() {
    if allow_open_files() < 11_000 {
        println!("not shown here: fewer than 11,000 files may be open");
        return;
    }
    let mut broker = RunningBroker::start(&["--idle-timeout", "10m"]);
    let begun = Instant::now();
    let mut connections: Vec<Raw> = (0..10_000).map(|_| open(broker.port)).collect();
    println!("10,000 connections opened in {:?}", begun.elapsed());
    assert!(
        !is_served(broker.port, A_WHILE),
        "connections-max is 10,000"
    );
    for number in [0, 5_000, 9_999] {
        connections[number].begin(0);
        connections[number].wait_for(crate::support::raw::BEGIN);
    }
    drop(connections);
    assert!(is_served_soon(broker.port), "there is room again");
    assert!(broker.is_alive());
}

#[test]
fn with_1024_descriptors_the_rest_is_refused_and_those_that_are_there_work() {
    allow_open_files();
    let data = Directory::new("descriptors");
    let path = data.0.to_str().expect("a path");
    let arguments = [
        "--data",
        path,
        "--segment-size",
        "1MiB",
        "--idle-timeout",
        "10m",
    ];
    let arguments = [&arguments[..], &["--max-message-size", "64KiB"]].concat();
    let mut broker = RunningBroker::start_with_open_files(1_024, &arguments);
    Raw::declare(broker.port, "q");
    let mut publisher = Raw::begun(broker.port);
    publisher.attach_sender(0, "q");
    publish(&mut publisher, 0, 1, 100);
    let all = (0..1_024).map_while(|_| try_open(broker.port));
    let mut connections: Vec<Raw> = all.collect();
    assert!(
        (700..1_000).contains(&connections.len()),
        "{}",
        connections.len()
    );
    let refused = (0..100)
        .filter(|_| !is_served(broker.port, A_WHILE))
        .count();
    assert_eq!(refused, 100, "while there is no room");
    // The journal still opens files, and people still look.
    publish(&mut publisher, 1, 64, 60_000);
    assert_eq!(http_status(broker.http_port, "/health"), "200");
    for connection in connections.iter_mut().step_by(100) {
        connection.begin(0);
        connection.wait_for(crate::support::raw::BEGIN);
    }
    connections.truncate(600);
    assert!(is_served_soon(broker.port), "there is room again");
    assert!(broker.is_alive());
}

#[test]
fn without_a_free_descriptor_connections_wait_and_nothing_spins() {
    let mut broker = RunningBroker::start(&[]);
    Raw::declare(broker.port, "q");
    let mut publisher = Raw::begun(broker.port);
    publisher.attach_sender(0, "q");
    let process = i32::try_from(broker.process_id())
        .ok()
        .and_then(Pid::from_raw);
    let limit = |current: u64| {
        let maximum = rustix::process::getrlimit(Resource::Nofile).maximum;
        let current = Some(current);
        prlimit(process, Resource::Nofile, Rlimit { current, maximum }).expect("our own child");
    };
    // Fewer than it has open already.
    limit(4);
    let mut waiting = TcpStream::connect(("127.0.0.1", broker.port)).expect("the system takes it");
    waiting.write_all(AMQP_HEADER).expect("a socket");
    waiting.set_read_timeout(Some(A_WHILE)).expect("a socket");
    let mut answer = [0; 8];
    assert!(
        waiting.read_exact(&mut answer).is_err(),
        "there is no descriptor"
    );
    let ticks = processor_ticks(broker.process_id());
    let begun = Instant::now();
    thread::sleep(Duration::from_secs(2));
    #[allow(clippy::cast_precision_loss, reason = "few ticks")]
    let used = (processor_ticks(broker.process_id()) - ticks) as f64 / 100.0;
    let share = used / begun.elapsed().as_secs_f64();
    assert!(
        share < IDLE_SHARE_MAX,
        "{share} of a processor while nothing can be accepted"
    );
    publish(&mut publisher, 0, 10, 100);
    limit(1_024);
    waiting.set_read_timeout(Some(SOON)).expect("a socket");
    waiting.read_exact(&mut answer).expect("it is served now");
    assert!(broker.is_alive());
}

/// Wake-ups a second of a broker that has nothing to do, over all its threads.
const IDLE_WAKE_UPS_MAX: f64 = 2.0;
/// How long that is counted for.
const COUNTED: Duration = Duration::from_secs(10);
/// Longest time until a broker that was busy counts as idle, on a busy machine.
const IDLE_AFTER: Duration = Duration::from_secs(45);

/// Times that the threads of a process gave up their processor to wait for something.
fn wake_ups(process_id: u32) -> u64 {
    let threads = std::fs::read_dir(format!("/proc/{process_id}/task")).expect("it runs");
    let threads = threads.map(|thread| thread.expect("an entry").path().join("status"));
    let counts = threads.map(|status| {
        // A thread may end in between.
        let status = std::fs::read_to_string(status).unwrap_or_default();
        let line = status.lines().find(|line| line.starts_with("voluntary_"));
        line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok())
            .unwrap_or(0)
    });
    counts.sum()
}

#[test]
fn a_broker_with_nothing_to_do_sleeps_and_is_there_at_once() {
    let directory = Directory::new("idle");
    let data = directory.0.display().to_string();
    let broker = RunningBroker::start(&["--data", &data]);
    Raw::declare(broker.port, "q");
    let mut publisher = Raw::begun(broker.port);
    publisher.attach_sender(0, "q");
    publish(&mut publisher, 0, 100, 100);
    let deadline = Instant::now() + IDLE_AFTER;
    // Each second, so that it is seen as soon as it has been idle for so long.
    let mut seen = VecDeque::from([(Instant::now(), wake_ups(broker.process_id()))]);
    let rate = loop {
        thread::sleep(Duration::from_secs(1));
        let (now, count) = (Instant::now(), wake_ups(broker.process_id()));
        seen.push_back((now, count));
        let &(begun, before) = seen.front().expect("the first one");
        let counted = now - begun;
        if counted < COUNTED {
            continue;
        }
        #[allow(clippy::cast_precision_loss, reason = "few wake-ups")]
        let rate = count.saturating_sub(before) as f64 / counted.as_secs_f64();
        if rate <= IDLE_WAKE_UPS_MAX || now > deadline {
            break rate;
        }
        seen.pop_front();
    };
    println!("an idle broker: {rate:.1} wake-ups a second (at most {IDLE_WAKE_UPS_MAX})");
    assert!(rate <= IDLE_WAKE_UPS_MAX, "{rate} wake-ups a second");
    let begun = Instant::now();
    publish(&mut publisher, 100, 1, 100);
    let answered = begun.elapsed();
    assert!(answered < Duration::from_secs(2), "{answered:?} to wake up");
}
