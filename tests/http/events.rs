//! What happens, as events: lines of those that are kept, and streams that go on. [evidence part 10]

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::api::Api;
use crate::support::RunningBroker;

/// Time in which something has to be told.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// The header by which lines are asked for.
const LINES: &str = "accept: application/jsonl\r\n";

/// Declares `NAME`, whose dead letters go to `dead`.
pub(crate) fn queue(api: &Api<'_>, name: &str) {
    api.put("/api/queues/%2F/dead", &json!({"durable": true}));
    let arguments = json!({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"});
    let body = json!({"durable": true, "arguments": arguments});
    api.put(&format!("/api/queues/%2F/{name}"), &body);
}

/// Rejects all messages of a queue.
pub(crate) fn reject(api: &Api<'_>, queue: &str) {
    let body = json!({"count": 1_000, "ackmode": "reject_requeue_false", "encoding": "auto"});
    let path = format!("/api/queues/%2F/{queue}/get");
    assert_eq!(api.ask("POST", &path, &body).0, 200);
}

pub(crate) fn publish(api: &Api<'_>, queue: &str, id: &str) {
    let body = json!({
        "properties": {"delivery_mode": 2, "message_id": id, "headers": {"traceparent": "00-ab-cd-01"}},
        "routing_key": queue, "payload": "secret", "payload_encoding": "string",
    });
    let path = "/api/exchanges/%2F/amq.default/publish";
    assert_eq!(api.ask("POST", path, &body).0, 200);
}

/// The events that are kept, as this user sees them.
fn kept(api: &Api<'_>, user: &str, query: &str) -> Vec<Value> {
    let path = format!("/api/events{query}");
    let (status, text) = api.send_with(user, ("GET", &path), LINES, "");
    assert_eq!(status, 200, "{text}");
    let lines = text.lines().map(serde_json::from_str);
    lines.map(|line| line.expect("an object")).collect()
}

/// Waits until as many events are kept.
pub(crate) fn wait_for(api: &Api<'_>, query: &str, count: usize) -> Vec<Value> {
    let begun = Instant::now();
    loop {
        let events = kept(api, "guest", query);
        if events.len() >= count {
            assert_eq!(events.len(), count, "{events:?}");
            return events;
        }
        assert!(begun.elapsed() < PATIENCE, "{events:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// An open stream.
pub(crate) struct Stream(BufReader<TcpStream>);

/// An event of a stream: its id, its name, its data.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Told(pub(crate) String, pub(crate) String, pub(crate) Value);

impl Told {
    fn number(&self) -> u64 {
        let digits = self.0.rsplit('-').next().expect("a number");
        digits.parse().expect("a number")
    }
}

impl Stream {
    /// Opens a stream behind this id; returns the status too.
    pub(crate) fn open(broker: &RunningBroker, query: &str, last: Option<&str>) -> (Self, String) {
        let stream = TcpStream::connect(("127.0.0.1", broker.http_port)).expect("HTTP");
        Self::over(stream, query, last)
    }

    /// The same over a connection.
    pub(crate) fn over(mut stream: TcpStream, query: &str, last: Option<&str>) -> (Self, String) {
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let login = STANDARD.encode("guest:guest");
        let last = last.map_or_else(String::new, |id| format!("last-event-id: {id}\r\n"));
        let head = format!(
            "GET /api/events{query} HTTP/1.1\r\nhost: localhost\r\nauthorization: Basic {login}\r\n{last}\r\n"
        );
        stream.write_all(head.as_bytes()).expect("a request");
        let mut reader = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(reader.read_line(&mut head).expect("a head") > 0);
        }
        (Self(reader), head)
    }

    pub(crate) fn begun(broker: &RunningBroker, query: &str, last: Option<&str>) -> Self {
        let (mut stream, head) = Self::open(broker, query, last);
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        assert!(head.contains("text/event-stream"), "{head}");
        // The beginning names the place, so that everything behind it is told.
        let mut line = String::new();
        while !line.starts_with("id:") {
            line.clear();
            stream.0.read_line(&mut line).expect("a beginning");
        }
        stream
    }

    /// Reads what is left; the number of events in it.
    ///
    /// Panics if it goes on.
    pub(crate) fn rest(mut self) -> u64 {
        let mut count = 0;
        let mut line = String::new();
        // A connection that was cut is an end too.
        while self.0.read_line(&mut line).is_ok_and(|read| read > 0) {
            assert!(!line.starts_with(':'), "it waits for further events");
            count += u64::from(line.starts_with("event: death"));
            line.clear();
        }
        count
    }

    /// The next event.
    pub(crate) fn next(&mut self) -> Told {
        let mut told = Told(String::new(), String::new(), Value::Null);
        loop {
            let mut line = String::new();
            assert!(self.0.read_line(&mut line).expect("a line") > 0, "{told:?}");
            let line = line.trim_end_matches(['\r', '\n']);
            match line.split_once(": ") {
                Some(("id", id)) => id.clone_into(&mut told.0),
                Some(("event", event)) => event.clone_into(&mut told.1),
                Some(("data", data)) => told.2 = serde_json::from_str(data).expect("JSON"),
                _ if line.is_empty() && told.2 != Value::Null => return told,
                _ => {}
            }
        }
    }
}

#[test]
fn a_death_is_told_with_what_is_known_of_it_and_never_with_its_body() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    queue(&api, "work");
    api.put("/api/queues/%2F/loose", &json!({"durable": true}));
    publish(&api, "work", "order-1");
    reject(&api, "work");
    publish(&api, "loose", "order-2");
    reject(&api, "loose");
    publish(&api, "loose", "order-3");
    assert_eq!(
        api.send("DELETE", "/api/queues/%2F/loose/contents", "").0,
        204
    );

    let events = wait_for(&api, "", 3);
    assert!(
        events
            .iter()
            .all(|event| !event.to_string().contains("secret"))
    );
    let death = &events[0];
    assert_eq!(death["specversion"], "1.0");
    assert_eq!(death["type"], "coroner.death.v1");
    assert_eq!(death["source"], "/vhosts/%2F/queues/work");
    assert_eq!(death["subject"], "order-1");
    assert!(
        death["time"]
            .as_str()
            .is_some_and(|time| time.ends_with('Z'))
    );
    let data = &death["data"];
    for (field, expected) in [
        ("queue", json!("work")),
        ("reason", json!("rejected")),
        ("count", json!(1)),
        ("exchange", json!("")),
        ("routing_keys", json!(["work"])),
        ("outcome", json!("dead_lettered")),
        ("targets", json!(["dead"])),
        ("rule", json!("argument")),
        ("message_id", json!("order-1")),
        ("traceparent", json!("00-ab-cd-01")),
        ("position", json!(0)),
    ] {
        assert_eq!(data[field], expected, "{field} of {death}");
    }
    assert!(
        data["group"]
            .as_str()
            .is_some_and(|group| group.starts_with("1:"))
    );
    assert!(data["size_bytes"].as_u64().is_some_and(|bytes| bytes > 6));

    check_drops(&events);
    for (query, count) in [
        ("?type=dropped", 2),
        ("?type=death", 2),
        ("?queue=work", 1),
        ("?reason=expired", 0),
        ("?vhost=%2F&reason=rejected", 2),
    ] {
        assert_eq!(kept(&api, "guest", query).len(), count, "{query}");
    }
    let since = events[1]["id"].as_str().expect("an id");
    assert_eq!(kept(&api, "guest", &format!("?since={since}")), events[2..]);
}

/// One that died without a dead-letter exchange, and one that was purged.
fn check_drops(events: &[Value]) {
    let dropped = &events[1]["data"];
    assert_eq!(events[1]["type"], "coroner.death.v1");
    assert_eq!(dropped["outcome"], "dropped");
    assert_eq!(dropped["cause"], "no_dead_letter_exchange");
    assert_eq!(
        (&dropped["count"], &dropped["message_id"]),
        (&json!(1), &json!("order-2"))
    );
    assert_eq!(events[2]["type"], "coroner.dropped.v1");
    assert_eq!(events[2]["data"]["cause"], "purged");
    assert_eq!(events[2]["data"]["messages"], 1);
}

#[test]
fn a_stream_that_is_cut_goes_on_without_gap_or_double() {
    const DEATHS: usize = 60;
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    queue(&api, "work");
    publish(&api, "work", "before");
    reject(&api, "work");
    wait_for(&api, "", 1);
    let mut stream = Stream::begun(&broker, "?vhost=%2F", None);
    let mut seen: Vec<Told> = Vec::new();
    for number in 0..DEATHS {
        publish(&api, "work", &format!("m{number}"));
        if number % 10 == 9 {
            reject(&api, "work");
        }
        if number % 20 == 19 {
            // Cut while some are under way; those that were read are known by their last id.
            seen.push(stream.next());
            seen.push(stream.next());
            let last = seen.last().expect("an event").0.clone();
            stream = Stream::begun(&broker, "?vhost=%2F", Some(&last));
        }
    }
    while seen.len() < DEATHS {
        seen.push(stream.next());
    }
    let ids: Vec<&Value> = seen
        .iter()
        .map(|told| &told.2["data"]["message_id"])
        .collect();
    let expected: Vec<Value> = (0..DEATHS).map(|n| json!(format!("m{n}"))).collect();
    assert_eq!(ids, expected.iter().collect::<Vec<_>>());
    assert!(
        seen.iter()
            .all(|told| told.1 == "death" && told.2["id"] == *told.0)
    );
}

#[test]
fn numbers_rise_across_a_restart_which_begins_with_a_gap() {
    let directory = std::env::temp_dir().join(format!("coroner-events-{}", std::process::id()));
    let data = directory.display().to_string();
    let before = {
        let broker = RunningBroker::start(&["--data", &data]);
        let api = Api { broker: &broker };
        queue(&api, "work");
        let mut stream = Stream::begun(&broker, "", None);
        publish(&api, "work", "one");
        reject(&api, "work");
        stream.next()
        // Killed here.
    };
    let broker = RunningBroker::start(&["--data", &data]);
    let api = Api { broker: &broker };
    publish(&api, "work", "two");
    reject(&api, "work");
    wait_for(&api, "?type=death", 1);
    let mut stream = Stream::begun(&broker, "", Some(&before.0));
    let gap = stream.next();
    assert_eq!(
        (gap.1.as_str(), &gap.2["data"]["cause"]),
        ("gap", &json!("restart"))
    );
    let after = stream.next();
    assert_eq!(after.2["data"]["message_id"], "two");
    assert!(after.number() > before.number(), "{before:?} {after:?}");
    let missed = api.send("GET", "/metrics", "").1;
    assert!(missed.contains("coroner_events_missed_total 1"), "{missed}");
    drop(broker);
    std::fs::remove_dir_all(&directory).ok();
}

#[test]
fn who_asks_for_a_message_that_left_is_told_where_it_went() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    queue(&api, "work");
    for id in ["one", "two", "three"] {
        publish(&api, "work", id);
    }
    let body = json!({"count": 1, "ackmode": "reject_requeue_false", "encoding": "auto"});
    assert_eq!(api.ask("POST", "/api/queues/%2F/work/get", &body).0, 200);
    let discarded = api.send("DELETE", "/api/queues/%2F/work/messages/1", "");
    assert_eq!(discarded.0, 204, "{}", discarded.1);
    let body = json!({"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"});
    assert_eq!(api.ask("POST", "/api/queues/%2F/work/get", &body).0, 200);
    for (position, went) in [
        (0, "(rejected), and went to 'dead'"),
        (1, "it was dropped (discarded)"),
        (2, "it was consumed, died"),
    ] {
        let path = format!("/api/queues/%2F/work/messages/{position}/explain");
        let (status, text) = api.send("GET", &path, "");
        assert_eq!(status, 404, "{text}");
        assert!(text.contains(went), "{position}: {text}");
    }
}

/// One that monitors sees that something died, and not why: it may not read the queue.
#[test]
fn who_may_not_read_a_queue_is_told_neither_error_nor_consumer() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    for (user, tags) in [
        ("watch", "monitoring"),
        ("reader", "management"),
        ("other", "management"),
    ] {
        api.put(
            &format!("/api/users/{user}"),
            &json!({"password": user, "tags": tags}),
        );
    }
    let rights = json!({"configure": "", "write": "", "read": ".*"});
    api.put("/api/permissions/%2F/reader", &rights);
    queue(&api, "work");
    publish(&api, "work", "one");
    reject_with_error(&broker, "work");
    wait_for(&api, "", 1);
    let seen_by = |user| kept(&api, user, "")[0]["data"].clone();
    assert!(seen_by("guest")["by"].is_object(), "{}", seen_by("guest"));
    let reader = seen_by("reader");
    assert!(
        reader["by"].is_object() && reader["by"]["user"].is_null(),
        "{reader}"
    );
    assert_eq!(reader["error"]["condition"], "app:bad");
    let watch = seen_by("watch");
    assert_eq!(watch["reason"], "rejected");
    assert!(watch["by"].is_null() && watch["error"].is_null(), "{watch}");
    assert!(kept(&api, "other", "").is_empty());
    for (user, query, status) in [
        ("other", "?vhost=%2F", 401),
        ("reader", "?vhost=none", 404),
        ("reader", "?typ=death", 400),
    ] {
        let path = format!("/api/events{query}");
        let (answered, text) = api.send_as(user, "GET", &path, "");
        assert_eq!(answered, status, "{query}: {text}");
    }
}

#[test]
fn a_user_has_eight_streams_and_the_next_is_told_to_try_later() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    let mut open: Vec<Stream> = (0..8).map(|_| Stream::begun(&broker, "", None)).collect();
    let (_, head) = Stream::open(&broker, "", None);
    assert!(head.starts_with("HTTP/1.1 429"), "{head}");
    assert!(head.to_lowercase().contains("retry-after:"), "{head}");
    open.pop();
    let begun = Instant::now();
    while !Stream::open(&broker, "", None)
        .1
        .starts_with("HTTP/1.1 200")
    {
        assert!(begun.elapsed() < PATIENCE, "a place that was left is free");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(api.send("GET", "/api/whoami", "").0, 200);
}

/// A line feed would begin another field of an event stream: names of queues have none, ids may.
#[test]
fn names_with_line_feeds_and_control_characters_break_no_stream() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    let name = "bad\u{1}\"data: {}\u{2028}";
    let encoded = "bad%01%22data%3A%20%7B%7D%E2%80%A8";
    queue(&api, encoded);
    let mut stream = Stream::begun(&broker, "", None);
    publish(&api, name, "id\n\nevent: forged\ndata: {}\n\n");
    reject(&api, encoded);
    let told = stream.next();
    assert_eq!(told.1, "death");
    assert_eq!(told.2["data"]["queue"], name);
    assert_eq!(told.2["subject"], "id\n\nevent: forged\ndata: {}\n\n");
    assert_eq!(told.2["source"], format!("/vhosts/%2F/queues/{encoded}"));
}

/// Above a thousand a second a stream is told numbers; nothing is lost from the count.
#[test]
fn what_is_too_much_for_a_second_is_summed_up() {
    const DEATHS: u64 = 5_000;
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    queue(&api, "work");
    let admin = api.send("GET", "/api/whoami", "");
    assert_eq!(admin.0, 200);
    for _ in 0..DEATHS / 1_000 {
        publish_many(&broker, "work", 1_000);
    }
    let mut stream = Stream::begun(&broker, "?type=death", None);
    // All die at once: a ttl that is set now.
    let policy =
        json!({"pattern": "^work$", "definition": {"message-ttl": 1}, "apply-to": "queues"});
    api.put("/api/policies/%2F/ttl", &policy);
    let (mut single, mut summed) = (0, 0);
    while single + summed < DEATHS {
        let told = stream.next();
        match told.1.as_str() {
            "death" => single += 1,
            "summary" => {
                assert_eq!(
                    told.2["data"]["counts"]["death"]["expired"],
                    told.2["data"]["events"]
                );
                summed += told.2["data"]["events"].as_u64().expect("a number");
            }
            other => panic!("{other}: {told:?}"),
        }
    }
    assert_eq!(single + summed, DEATHS);
    assert!(single >= 1_000 && summed > 0, "{single} {summed}");
}

/// Rejects a message as a consumer that says why.
fn reject_with_error(broker: &RunningBroker, queue: &str) {
    use crate::support::raw::{
        self, DISPOSITION, Raw, TRANSFER, described, list, symbol, truth, uint,
    };
    let mut raw = Raw::begun(broker.port);
    raw.attach_receiver(0, queue);
    raw.credit(0, 0, 1);
    raw.wait_for(TRANSFER);
    let error = described(0x1d, &list(&[symbol("app:bad"), raw::text("no price")]));
    let rejected = described(0x25, &list(&[error]));
    let fields = [truth(true), uint(0), uint(0), truth(true), rejected];
    raw.perform(DISPOSITION, &fields);
    std::thread::sleep(Duration::from_millis(200)); // before the connection ends
}

/// Publishes many small messages over AMQP.
pub(crate) fn publish_many(broker: &RunningBroker, queue: &str, count: u32) {
    use crate::support::raw::{DISPOSITION, FLOW, Raw};
    let mut raw = Raw::begun(broker.port);
    raw.attach_sender(0, queue);
    raw.wait_for(FLOW);
    for id in 0..count {
        // The window of the session is smaller than all of them.
        let is_last_of_some = id % 100 == 99;
        raw.publish(0, id, !is_last_of_some, b"x");
        if is_last_of_some {
            raw.wait_for(DISPOSITION);
        }
    }
}
