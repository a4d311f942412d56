//! What the integration tests share: the real binary on a free port, and programs run with a
//! time limit.
#![allow(dead_code, reason = "each test binary uses a part of it")]
#![allow(
    clippy::disallowed_methods,
    reason = "tests start processes, threads and clocks"
)]
#![allow(clippy::expect_used, reason = "a test fails by panicking")]

#[cfg(not(feature = "internals"))]
compile_error!(
    "these tests look inside: `cargo test` without `-p coroner`, or with `--features internals`"
);

pub mod mutator;
pub mod raw;
pub mod tokens;

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Longest time a broker may take from its start to the line that names its port, on a machine
/// that has much else to do.
const START_MAX: Duration = Duration::from_mins(1);

/// How often a running program is asked whether it has ended.
const POLL: Duration = Duration::from_millis(20);

/// Names the program that is measured, in place of the one that cargo built with the tests: a release build,
/// while the tests themselves are not optimised.
const MEASURED_PROGRAM: &str = "CORONER_TEST_PROGRAM";

/// The program that brokers and loads are started from.
pub fn program() -> PathBuf {
    let measured = std::env::var_os(MEASURED_PROGRAM);
    measured.map_or_else(|| env!("CARGO_BIN_EXE_coroner").into(), PathBuf::from)
}

/// Whether [`program`] is optimised: it is then held to times and memory that another need not keep.
pub fn is_optimised() -> bool {
    !cfg!(debug_assertions) || std::env::var_os(MEASURED_PROGRAM).is_some()
}

/// `coroner serve` on a free port of the loopback address; killed when dropped.
pub struct RunningBroker {
    process: Child,
    /// The port its AMQP listener bound.
    pub port: u16,
    /// The port its HTTP listener bound.
    pub http_port: u16,
    /// The port its listener for AMQP over TLS bound, if it has one.
    pub amqps_port: Option<u16>,
    /// The port its listener for AMQP over WebSocket bound, if it has one.
    pub websocket_port: Option<u16>,
}

impl RunningBroker {
    /// Starts `coroner serve --amqp 127.0.0.1:0 --http 127.0.0.1:0` with `arguments` behind it, the
    /// latter unless they have one; in memory, unless they name a data directory.
    ///
    /// Panics with what the broker printed if it does not say within a minute where it listens.
    pub fn start(arguments: &[&str]) -> Self {
        Self::start_with(Command::new(program()), arguments)
    }

    /// The same, where the process may have so many files open.
    pub fn start_with_open_files(limit: u32, arguments: &[&str]) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -n \"$0\" && exec \"$@\"", &limit.to_string()]);
        command.arg(program());
        Self::start_with(command, arguments)
    }

    fn start_with(mut command: Command, arguments: &[&str]) -> Self {
        let chosen = |argument: &&str| ["--data", "--in-memory"].contains(argument);
        let in_memory = (!arguments.iter().any(chosen)).then_some("--in-memory");
        // Settings of whoever runs the tests, and the tests' own, are not the broker's.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("CORONER_") {
                command.env_remove(name);
            }
        }
        let any_port = (!arguments.contains(&"--http")).then_some("--http=127.0.0.1:0");
        let mut process = command
            .args(["serve", "--amqp", "127.0.0.1:0"])
            .args(any_port)
            .args(arguments)
            .args(in_memory)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let (say, heard) = mpsc::channel();
        forward_lines(process.stdout.take().expect("piped"), say.clone());
        forward_lines(process.stderr.take().expect("piped"), say);
        let deadline = Instant::now() + START_MAX;
        let mut printed = Vec::new();
        let (mut amqp_port, mut amqps_port, mut websocket_port) = (None, None, None);
        while let Ok(line) = heard.recv_timeout(deadline.saturating_duration_since(Instant::now()))
        {
            amqp_port = amqp_port.or_else(|| listening_port("amqp", &line));
            amqps_port = amqps_port.or_else(|| listening_port("amqps", &line));
            websocket_port = websocket_port.or_else(|| listening_port("websocket", &line));
            if let (Some(port), Some(http_port)) = (amqp_port, listening_port("http", &line)) {
                return Self {
                    process,
                    port,
                    http_port,
                    amqps_port,
                    websocket_port,
                };
            }
            printed.push(line);
        }
        process.kill().ok();
        process.wait().ok();
        panic!(
            "no listening port within {START_MAX:?}; printed:\n{}",
            printed.join("\n")
        );
    }

    /// The id of the broker's process.
    pub fn process_id(&self) -> u32 {
        self.process.id()
    }

    /// Whether the broker is still running: a conformance run must not bring it down.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(None))
    }
}

impl Drop for RunningBroker {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// The port in a line such as `listening amqp 127.0.0.1:40123`.
fn listening_port(protocol: &str, line: &str) -> Option<u16> {
    let (_, address) = line.split_once(&format!("listening {protocol} "))?;
    address
        .split_whitespace()
        .next()?
        .rsplit(':')
        .next()?
        .parse()
        .ok()
}

/// Reads a stream to its end on a thread of its own, so that the program never blocks on a
/// full pipe; a receiver that has gone away only means that nobody wants the lines any more.
fn forward_lines(stream: impl Read + Send + 'static, say: mpsc::Sender<String>) {
    thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            say.send(line).ok();
        }
    });
}

/// Runs a program to its end and returns what it printed.
///
/// Panics if it cannot be started or is still running after `limit` (it is killed then).
pub fn run_to_end(command: &mut Command, limit: Duration) -> Output {
    let mut process = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
    let stdout = collect(process.stdout.take().expect("piped"));
    let stderr = collect(process.stderr.take().expect("piped"));
    let deadline = Instant::now() + limit;
    let status = loop {
        if let Some(status) = process.try_wait().expect("a child can be waited for") {
            break status;
        }
        if Instant::now() > deadline {
            process.kill().ok();
            process.wait().ok();
            panic!("{command:?} still running after {limit:?}");
        }
        thread::sleep(POLL);
    };
    Output {
        status,
        stdout: stdout.join().expect("the reader ends"),
        stderr: stderr.join().expect("the reader ends"),
    }
}

fn collect(mut stream: impl Read + Send + 'static) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).ok();
        bytes
    })
}

/// A path inside the repository.
pub fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}
