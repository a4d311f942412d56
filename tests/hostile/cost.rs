//! What an attack costs: memory as the system counts it, memory as the broker counts it, and the time
//! that somebody else had to wait.

use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::support::{RunningBroker, is_optimised};

/// Longest a message of the canary may take beside any attack.
fn round_trip_max() -> Duration {
    // Code that is not optimised takes ten times as long, and other tests run beside it.
    Duration::from_millis(if is_optimised() { 200 } else { 10_000 })
}

/// How often memory is looked at. The broker counts its own every 100 ms.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Longest wait for the broker to say what it counts.
const ANSWER_MAX: Duration = Duration::from_mins(1);

const MIB: u64 = 1024 * 1024;

/// So much memory comes and goes with threads, buffers and the allocator.
fn slack_mib() -> u64 {
    if is_optimised() { 6 } else { 10 }
}

/// So much comes and goes between two looks of the broker at what it counts.
const COUNTED_SLACK_MIB: u64 = 12;

/// What an attack cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cost {
    /// The most resident memory the process ever had, in MiB.
    pub peak_mib: u64,
    /// By how much resident memory had grown since the attack began when it was largest, in MiB.
    pub growth_mib: u64,
    /// By how much `mem_used` of `/api/nodes`, which the system counts, had grown by then, in MiB.
    pub mem_used_mib: u64,
    /// By how much `mem_counted` of `/api/nodes`, which the broker counts and stops publishers by, had
    /// grown by then, in MiB.
    pub counted_mib: u64,
    /// The slowest message of the canary.
    pub slowest: Duration,
}

impl Cost {
    /// Fails if the canary waited too long.
    pub fn check_canary(&self) {
        let Self { slowest, .. } = self;
        assert!(*slowest < round_trip_max(), "the canary waited {slowest:?}");
    }

    /// Fails if `mem_used` is more than 10 percent away from the growth of resident memory, or what the
    /// broker counts more than `percent`, and more than the slack of each.
    pub fn check_counted_within(&self, percent: u64) {
        let Self {
            growth_mib,
            mem_used_mib,
            counted_mib,
            ..
        } = *self;
        for (name, seen_mib, percent, slack_mib) in [
            ("mem_used", mem_used_mib, 10, slack_mib()),
            ("mem_counted", counted_mib, percent, COUNTED_SLACK_MIB),
        ] {
            let off = growth_mib.abs_diff(seen_mib);
            assert!(
                off <= slack_mib.max(growth_mib * percent / 100),
                "memory grew by {growth_mib} MiB, but {name} by {seen_mib} MiB"
            );
        }
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            peak_mib,
            growth_mib,
            mem_used_mib,
            counted_mib,
            slowest,
        } = self;
        let slowest_ms = slowest.as_secs_f64() * 1e3;
        write!(
            f,
            "{peak_mib} MiB | {growth_mib} MiB | {mem_used_mib} MiB | {counted_mib} MiB | {slowest_ms:.1} ms"
        )
    }
}

/// Looks at a broker's memory beside an attack.
pub struct Meter {
    stop: Sender<()>,
    thread: JoinHandle<Cost>,
}

impl Meter {
    /// Begins: memory grows from here.
    pub fn start(broker: &RunningBroker) -> Self {
        let process_id = broker.process_id();
        let mut node = Node::connect(broker.http_port);
        let (stop, stopped) = mpsc::channel();
        let (resident_first, first) = (resident(process_id), node.memory());
        let thread = thread::spawn(move || {
            let mut cost = Cost::default();
            let mut largest = 0;
            loop {
                let is_over = stopped.recv_timeout(LOOK_INTERVAL) != Err(RecvTimeoutError::Timeout);
                // An attack that ends at once is looked at after that. What the broker counts is up
                // to 100 ms old: near the largest it is asked again.
                let before = resident(process_id);
                if before + MIB > largest {
                    let now = node.memory();
                    let after = resident(process_id);
                    // Memory comes and goes while the broker answers.
                    let seen = now.used.clamp(before.min(after), before.max(after));
                    if seen > largest {
                        largest = seen;
                        cost.growth_mib = seen.saturating_sub(resident_first) / MIB;
                        cost.mem_used_mib = now.used.saturating_sub(first.used) / MIB;
                    }
                    let counted = now.counted.saturating_sub(first.counted) / MIB;
                    cost.counted_mib = counted.max(cost.counted_mib);
                }
                if is_over {
                    cost.peak_mib = memory(process_id, "VmHWM:") / MIB;
                    return cost;
                }
            }
        });
        Self { stop, thread }
    }

    /// Ends.
    pub fn stop(self) -> Cost {
        drop(self.stop);
        self.thread.join().expect("the broker answers")
    }
}

/// Resident memory of a process, in bytes.
fn resident(process_id: u32) -> u64 {
    memory(process_id, "VmRSS:")
}

/// A line of a process' status, in bytes.
fn memory(process_id: u32, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process_id}/status"));
    let status = status.expect("a running process");
    let line = status.lines().find(|line| line.starts_with(name));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kib.expect("a number of KiB") * 1024
}

/// One connection to the HTTP API, made before the attack: who takes all the others does not keep
/// this one out.
pub struct Node {
    stream: BufReader<TcpStream>,
}

impl Node {
    pub fn connect(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("the broker listens");
        stream.set_nodelay(true).expect("a socket");
        stream.set_read_timeout(Some(ANSWER_MAX)).expect("a socket");
        let stream = BufReader::new(stream);
        Self { stream }
    }

    /// `mem_used` and `mem_counted`.
    pub fn memory(&mut self) -> Memory {
        // guest:guest
        let request =
            b"GET /api/nodes?columns=mem_used,mem_counted HTTP/1.1\r\nhost: localhost\r\n\
            authorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n\r\n";
        self.stream.get_mut().write_all(request).expect("a request");
        let mut length = 0;
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line).expect("an answer");
            assert!(!line.is_empty(), "the broker ended the connection");
            if line == "\r\n" {
                break;
            }
            let line = line.to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().expect("a length");
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).expect("a body");
        let nodes: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
        let field = |name: &str| {
            nodes[0][name]
                .as_u64()
                .unwrap_or_else(|| panic!("no {name}"))
        };
        Memory {
            used: field("mem_used"),
            counted: field("mem_counted"),
        }
    }
}

/// The memory of a broker, as it tells it, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// What the process takes.
    pub used: u64,
    /// What the broker counts against its limit.
    pub counted: u64,
}
