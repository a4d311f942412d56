//! Readers of events that do not read, or are cut: what they are told later, and how long they are waited for.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::api::Api;
use crate::events::{PATIENCE, Stream, publish, publish_many, queue, reject, wait_for};
use crate::support::RunningBroker;
use crate::support::raw::stream_with_room;

/// Events that are kept when the readers begin: more bytes than the system takes for a client.
const KEPT: u64 = 7_000;
/// Events that come while the readers do not read.
const LATER: u64 = 2_500;
/// The most events that a reader may be behind (docs/LIMITS.md).
const BEHIND_MAX: u64 = 1_024;
/// Bytes that the system takes for a client that does not read.
const ROOM_BYTES: u32 = 64 * 1024;
/// The longest time in which a client may take nothing of an answer (docs/LIMITS.md).
const STALL_MAX: Duration = Duration::from_secs(20);
/// Streams that a user may have open.
const STREAMS: usize = 8;

/// Publishes as many messages to a queue in which they die at once.
fn expire(api: &Api<'_>, queue: &str, count: u64) {
    for begin in (0..count).step_by(500) {
        let some = u32::try_from((count - begin).min(500)).expect("few");
        publish_many(api.broker, queue, some);
    }
}

/// Reads until as many deaths were told, one by one, summed up, or as missing.
fn read_until(stream: &mut Stream, all: u64) -> (u64, u64, u64) {
    let (mut single, mut summed, mut missed) = (0, 0, 0);
    while single + summed + missed < all {
        let told = stream.next();
        match told.1.as_str() {
            "death" => single += 1,
            "summary" => summed += told.2["data"]["events"].as_u64().expect("a number"),
            "gap" => {
                assert_eq!(told.2["data"]["cause"], "behind", "{told:?}");
                missed += told.2["data"]["missed"].as_u64().expect("a number");
            }
            other => panic!("{other}: {told:?}"),
        }
    }
    (single, summed, missed)
}

/// One reader goes on after some seconds: it is told how many are missing. The others never do: their places
/// are free for others after 20 s.
#[test]
fn who_does_not_read_is_told_of_a_gap_and_is_ended_after_a_while() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    // A long name makes large events: all of them do not fit between broker and client.
    let name = "q".repeat(250);
    api.put("/api/queues/%2F/dead", &json!({"durable": true}));
    let arguments = json!({
        "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead", "x-message-ttl": 1,
    });
    let body = json!({"durable": true, "arguments": arguments});
    api.put(&format!("/api/queues/%2F/{name}"), &body);
    expire(&api, &name, KEPT);
    let kept = usize::try_from(KEPT).expect("few");
    let first = wait_for(&api, "", kept)[0]["id"].clone();
    let first = first.as_str().expect("an id");
    let begun = Instant::now();
    let slow = || {
        let (stream, head) = Stream::over(
            stream_with_room(broker.http_port, ROOM_BYTES),
            "",
            Some(first),
        );
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        stream
    };
    let mut late = slow();
    // Two places are left: to look at what is kept, and to see when there is another one.
    let never: Vec<Stream> = (2..STREAMS).map(|_| slow()).collect();
    std::thread::sleep(Duration::from_millis(500)); // until nothing more fits
    expire(&api, &name, LATER);
    wait_for(&api, "", kept + usize::try_from(LATER).expect("few"));
    std::thread::sleep(Duration::from_millis(1_500)); // a second is how long a slow reader is waited for
    let (single, summed, missed) = read_until(&mut late, KEPT - 1 + LATER);
    assert_eq!(missed, LATER - BEHIND_MAX, "{single} {summed}");
    assert_eq!(single + summed, KEPT - 1 + BEHIND_MAX);

    // What is told next, it is told as before.
    queue(&api, "work");
    publish(&api, "work", "next");
    reject(&api, "work");
    assert_eq!(late.next().2["data"]["message_id"], "next");
    // Each place of theirs is somebody else's in the end.
    let mut others = vec![Stream::begun(&broker, "", None)];
    while others.len() <= never.len() {
        let (stream, head) = Stream::open(&broker, "", None);
        if head.starts_with("HTTP/1.1 200") {
            assert!(begun.elapsed() > STALL_MAX, "too early");
            others.push(stream);
        } else {
            assert!(head.starts_with("HTTP/1.1 429"), "{head}");
            assert!(begun.elapsed() < STALL_MAX * 3, "still open");
            std::thread::sleep(Duration::from_millis(250));
        }
    }
    for ended in never {
        let told = ended.rest();
        assert!(told < KEPT, "all {told} were taken, so it was not slow");
    }
}

/// `coroner events --follow`, whose lines are read as they come.
struct Follower {
    process: Child,
    lines: mpsc::Receiver<String>,
}

impl Follower {
    fn start(broker: &RunningBroker) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_coroner"))
            .args(["events", "--follow", "--format", "json", "--url"])
            .arg(format!("http://127.0.0.1:{}", broker.http_port))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary starts");
        let stdout = process.stdout.take().expect("piped");
        let (say, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                say.send(line).ok();
            }
        });
        Self { process, lines }
    }

    /// The type of the next event, and its message-id or cause.
    fn next(&self) -> (String, Value) {
        let line = self.lines.recv_timeout(PATIENCE).expect("an event");
        let event: Value = serde_json::from_str(&line).expect("JSON");
        let data = &event["data"];
        let what = if data["cause"].is_null() {
            &data["message_id"]
        } else {
            &data["cause"]
        };
        (
            event["type"].as_str().expect("a type").to_owned(),
            what.clone(),
        )
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

#[test]
fn the_command_goes_on_after_the_broker_was_killed_and_says_what_is_missing() {
    let directory = std::env::temp_dir().join(format!("coroner-follow-{}", std::process::id()));
    let data = directory.display().to_string();
    let broker = RunningBroker::start(&["--data", &data]);
    let http = format!("127.0.0.1:{}", broker.http_port);
    let die = |broker: &RunningBroker, id: &str| {
        let api = Api { broker };
        publish(&api, "work", id);
        reject(&api, "work");
    };
    queue(&Api { broker: &broker }, "work");
    let follower = Follower::start(&broker);
    let death = |id: &str| ("coroner.death.v1".to_owned(), json!(id));
    // It begins with what is kept, so it does not matter who is first.
    for id in ["one", "two"] {
        die(&broker, id);
        assert_eq!(follower.next(), death(id));
    }
    drop(broker); // killed
    let broker = RunningBroker::start(&["--data", &data, "--http", &http]);
    die(&broker, "three");
    let gap = ("coroner.gap.v1".to_owned(), json!("restart"));
    assert_eq!(follower.next(), gap);
    for id in ["three", "four"] {
        if id == "four" {
            die(&broker, id);
        }
        assert_eq!(follower.next(), death(id));
    }
    drop(follower);
    drop(broker);
    std::fs::remove_dir_all(&directory).ok();
}
