//! What the process takes, and each thing in it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::support::raw::OPEN;
use crate::support::{RunningBroker, program, run_to_end};
use crate::{SOON, allow_open_files, open, opening};

/// What has just been freed goes back to the system within this, if it has nothing else to do.
const SETTLE: Duration = Duration::from_millis(1_500);
/// Longest run of the load generator.
const LOAD_MAX: Duration = Duration::from_mins(5);
/// The budgets, in bytes. Idle, the program's pages have the rest of 12 MB in a release build.
const IDLE_BYTES_MAX: u64 = 6_000_000;
const CONNECTION_BYTES_MAX: u64 = 20_000;
const TLS_CONNECTION_BYTES_MAX: u64 = 60_000;
const QUEUE_BYTES_MAX: u64 = 3_000;
const MESSAGE_BYTES_MAX: u64 = 100 + 300;
const MESSAGE_ON_DISK_BYTES_MAX: u64 = 150;
const CONNECTIONS: u64 = 1_000;
const QUEUES: u64 = 10_000;
const MESSAGES: u64 = 200_000;
/// On disk: enough that what the journal takes for itself counts little.
const DURABLE_MESSAGES: u64 = 1_000_000;

/// Resident memory of a process that is its own, in bytes: without pages of its program file, which
/// the system shares, reads ahead and takes back as it likes.
fn resident_bytes(process_id: u32) -> u64 {
    status_bytes(process_id, "RssAnon:")
}

/// One of the figures that the system has about a process, in bytes.
fn status_bytes(process_id: u32, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process_id}/status"));
    let status = status.expect("a running process");
    let line = status.lines().find(|line| line.starts_with(name));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kib.expect("a number of KiB") * 1024
}

/// What each of `count` things takes that `make` makes, where `bytes_max` are allowed.
fn bytes_each<T>(
    broker: &RunningBroker,
    bytes_max: u64,
    count: u64,
    make: impl FnOnce() -> T,
) -> (u64, T) {
    thread::sleep(SETTLE);
    let before = resident_bytes(broker.process_id());
    let made = make();
    let each = || resident_bytes(broker.process_id()).saturating_sub(before) / count;
    (settled(bytes_max, each), made)
}

/// A figure of memory. What is above `bytes_max` is looked at again: a machine with much else to do
/// takes longer to give back what was freed.
fn settled(bytes_max: u64, figure: impl Fn() -> u64) -> u64 {
    let end = Instant::now() + SOON;
    loop {
        thread::sleep(SETTLE);
        let bytes = figure();
        if bytes <= bytes_max || Instant::now() > end {
            return bytes;
        }
    }
}

/// Says the figure and judges it.
fn judge(what: &str, bytes: u64, bytes_max: u64) {
    println!("{what}: {bytes} bytes (at most {bytes_max})");
    assert!(
        bytes <= bytes_max,
        "{what}: {bytes} bytes, more than {bytes_max}"
    );
}

/// Runs `coroner bench` against a broker.
fn load(broker: &RunningBroker, arguments: &[&str]) {
    let mut command = Command::new(program());
    command.args(["bench", "--url", &format!("127.0.0.1:{}", broker.port)]);
    let output = run_to_end(command.args(arguments), LOAD_MAX);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
}

#[test]
#[cfg_attr(debug_assertions, ignore = "the budget is that of an optimised build")]
fn idle_broker_takes_at_most_6_mb_beside_its_program_at_first_and_later_starts() {
    let directory = std::env::temp_dir().join(format!("coroner-scale-idle-{}", std::process::id()));
    let path = directory.to_str().expect("a path");
    let starts = [
        ("idle, in memory", vec!["--in-memory"]),
        ("idle, first start", vec!["--data", path]),
        ("idle, later start", vec!["--data", path]),
    ];
    for (what, arguments) in starts {
        let broker = RunningBroker::start(&arguments);
        let idle = settled(IDLE_BYTES_MAX, || resident_bytes(broker.process_id()));
        let program = status_bytes(broker.process_id(), "RssFile:");
        println!("pages of the program and its libraries: {program} bytes");
        judge(what, idle, IDLE_BYTES_MAX);
    }
    std::fs::remove_dir_all(&directory).expect("its data");
}

#[test]
#[cfg_attr(debug_assertions, ignore = "the budget is that of an optimised build")]
fn idle_connection_takes_at_most_20_kb() {
    allow_open_files();
    let broker = RunningBroker::start(&["--idle-timeout", "10m"]);
    // The first login hashes a password, which takes memory of its own.
    drop(open(broker.port));
    let connect = || -> Vec<_> { (0..CONNECTIONS).map(|_| open(broker.port)).collect() };
    let (bytes, _connections) = bytes_each(&broker, CONNECTION_BYTES_MAX, CONNECTIONS, connect);
    judge("an idle connection", bytes, CONNECTION_BYTES_MAX);
}

#[test]
#[cfg_attr(debug_assertions, ignore = "the budget is that of an optimised build")]
fn idle_connection_over_tls_takes_at_most_60_kb() {
    allow_open_files();
    let directory = std::env::temp_dir().join(format!("coroner-scale-tls-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    let client = certificates(&directory);
    let file = |name: &str| directory.join(name).display().to_string();
    let (certificate, key) = (file("cert.pem"), file("key.pem"));
    let broker = RunningBroker::start(&[
        "--idle-timeout",
        "10m",
        "--amqps",
        "127.0.0.1:0",
        "--tls-certificate",
        &certificate,
        "--tls-key",
        &key,
    ]);
    std::fs::remove_dir_all(&directory).expect("they are read");
    let port = broker.amqps_port.expect("it was asked for");
    drop(open_over_tls(port, &client));
    let connect = || -> Vec<_> {
        let numbers = 0..CONNECTIONS;
        numbers.map(|_| open_over_tls(port, &client)).collect()
    };
    let bytes_max = TLS_CONNECTION_BYTES_MAX;
    let (bytes, _connections) = bytes_each(&broker, bytes_max, CONNECTIONS, connect);
    judge("an idle connection over TLS", bytes, bytes_max);
}

#[test]
#[cfg_attr(debug_assertions, ignore = "the budget is that of an optimised build")]
fn idle_queue_takes_at_most_3_kb() {
    let broker = RunningBroker::start(&[]);
    let queues = QUEUES.to_string();
    // One round of the same before, so that only queues are new.
    load(&broker, &["--messages", "1000"]);
    let declare = || {
        load(
            &broker,
            &[
                "--queues",
                &queues,
                "--consumers",
                "0",
                "--messages",
                "1",
                "--keep",
            ],
        );
    };
    let (bytes, ()) = bytes_each(&broker, QUEUE_BYTES_MAX, QUEUES, declare);
    judge("an idle queue", bytes, QUEUE_BYTES_MAX);
}

#[test]
#[cfg_attr(debug_assertions, ignore = "the budget is that of an optimised build")]
fn queued_message_takes_its_size_and_at_most_300_bytes() {
    let broker = RunningBroker::start(&[]);
    load(&broker, &["--messages", "1000"]);
    let messages = MESSAGES.to_string();
    let publish = || {
        load(
            &broker,
            &["--consumers", "0", "--messages", &messages, "--keep"],
        );
    };
    let (bytes, ()) = bytes_each(&broker, MESSAGE_BYTES_MAX, MESSAGES, publish);
    let what = "a queued message of 100 bytes, in memory";
    judge(what, bytes, MESSAGE_BYTES_MAX);
}

#[test]
#[cfg_attr(debug_assertions, ignore = "the budget is that of an optimised build")]
fn queued_message_on_disk_takes_few_bytes_there_and_in_memory() {
    let directory = std::env::temp_dir().join(format!("coroner-scale-{}", std::process::id()));
    let path = directory.to_str().expect("a path");
    let broker = RunningBroker::start(&["--data", path, "--memory-budget", "4MiB"]);
    load(&broker, &["--durable", "--messages", "1000"]);
    let messages = DURABLE_MESSAGES.to_string();
    let publish = || {
        let durable = ["--durable", "--size", "1024", "--queue-type", "quorum"];
        let kept = ["--consumers", "0", "--messages", &messages, "--keep"];
        load(&broker, &[durable, kept].concat());
    };
    let bytes_max = MESSAGE_ON_DISK_BYTES_MAX;
    let (bytes, ()) = bytes_each(&broker, bytes_max, DURABLE_MESSAGES, publish);
    let files = std::fs::read_dir(&directory).expect("its data");
    let on_disk: u64 = files
        .filter_map(|file| file.ok()?.metadata().ok())
        .map(|file| file.len())
        .sum();
    drop(broker);
    std::fs::remove_dir_all(&directory).expect("its data");
    judge("a message of 1 KiB on disk, in memory", bytes, bytes_max);
    // With segments that are prepared and still empty.
    let on_disk = on_disk / DURABLE_MESSAGES;
    judge("a message of 1 KiB on disk, there", on_disk, 1_024 + 300);
}

/// The most that was resident since it was asked last, in bytes, pages of the program included.
fn most_resident_bytes(process_id: u32) -> u64 {
    let most = status_bytes(process_id, "VmHWM:");
    // "5" resets it.
    std::fs::write(format!("/proc/{process_id}/clear_refs"), "5").expect("a process of ours");
    most
}

#[test]
#[cfg_attr(debug_assertions, ignore = "the budget is that of an optimised build")]
fn backlog_with_a_small_memory_budget_stays_small_published_started_and_drained() {
    let directory = std::env::temp_dir().join(format!("coroner-backlog-{}", std::process::id()));
    let path = directory.to_str().expect("a path");
    let arguments = ["--data", path, "--memory-budget", "4MiB"];
    let messages = MESSAGES.to_string();
    let judge_phase = |phase: &str, broker: &RunningBroker| {
        let most = most_resident_bytes(broker.process_id());
        judge(
            &format!("{MESSAGES} of 1 KiB on disk, {phase}"),
            most,
            64_000_000,
        );
    };
    let broker = RunningBroker::start(&arguments);
    let durable = ["--durable", "--size", "1024", "--queue-type", "quorum"];
    let kept = ["--consumers", "0", "--messages", &messages, "--keep"];
    load(&broker, &[durable, kept].concat());
    judge_phase("publishing", &broker);
    drop(broker); // killed
    let broker = RunningBroker::start(&arguments);
    judge_phase("starting", &broker);
    load(
        &broker,
        &[
            "--use-existing",
            "--producers",
            "0",
            "--messages",
            &messages,
        ],
    );
    judge_phase("draining", &broker);
    drop(broker);
    std::fs::remove_dir_all(&directory).expect("its data");
}

/// Writes a certificate and its key; a client that trusts it.
fn certificates(directory: &Path) -> Arc<ClientConfig> {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]);
    let made = made.expect("a certificate");
    let write = |name: &str, label: &str, der: &[u8]| {
        let body = BASE64.encode(der);
        let text = format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n");
        std::fs::write(directory.join(name), text).expect("a file");
    };
    write("cert.pem", "CERTIFICATE", made.cert.der());
    write("key.pem", "PRIVATE KEY", &made.key_pair.serialize_der());
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).expect("a certificate");
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions();
    let builder = builder.expect("versions").with_root_certificates(roots);
    Arc::new(builder.with_no_client_auth())
}

fn open_over_tls(
    port: u16,
    client: &Arc<ClientConfig>,
) -> StreamOwned<ClientConnection, TcpStream> {
    let name = ServerName::try_from("localhost").expect("a name");
    let client = ClientConnection::new(Arc::clone(client), name).expect("a client");
    let stream = TcpStream::connect(("127.0.0.1", port)).expect("the broker listens");
    let mut stream = StreamOwned::new(client, stream);
    stream.write_all(&opening()).expect("a connection");
    let mut answer = Vec::new();
    let opened = [0x00, 0x53, OPEN];
    while !answer.windows(opened.len()).any(|part| part == opened) {
        let mut chunk = [0; 4096];
        let count = stream.read(&mut chunk).expect("an answer");
        assert!(count > 0, "closed before it was open");
        answer.extend_from_slice(&chunk[..count]);
    }
    stream
}
