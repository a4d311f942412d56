//! What clients see of a disk that fails, is full, or waits.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fe2o3_amqp::connection::ConnectionHandle;
use fe2o3_amqp::sasl_profile::SaslProfile;
use fe2o3_amqp::types::definitions::SenderSettleMode;
use fe2o3_amqp::types::messaging::{Header, Message, Outcome};
use fe2o3_amqp::{Connection, Receiver, Sender, Session};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

use super::moody_disk::{FREE, SYNC_FAILS, SYNC_WAITS};
use crate::access::Peer;
use crate::config::{ByteSize, Settings};
use crate::server::{Broker, Stats};
use crate::store::StoreState;

/// Longer than anything takes that does happen.
const LONG: Duration = Duration::from_secs(20);
/// Something that is to wait is given so long to show that it does not.
const MOMENT: Duration = Duration::from_millis(300);

/// A data directory of a test, and the moods of its disk.
struct Data {
    directory: PathBuf,
}

impl Data {
    fn new(name: &str) -> Self {
        let name = format!("coroner-{name}-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::remove_dir_all(&directory).ok();
        std::fs::create_dir_all(&directory).unwrap();
        Self { directory }
    }

    fn mood(&self, name: &str, text: &str) {
        std::fs::write(self.directory.join(name), text).unwrap();
    }

    fn no_mood(&self, name: &str) {
        std::fs::remove_file(self.directory.join(name)).unwrap();
    }

    async fn broker(&self) -> Broker {
        let settings = Settings {
            amqp: Vec::new(),
            auto_create: vec!["#".to_owned()],
            data: Some(self.directory.clone()),
            disk_free_limit: ByteSize(1_000),
            ..Settings::default()
        };
        Broker::builder().settings(settings).start().await.unwrap()
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.directory).ok();
    }
}

async fn connect(broker: &Broker) -> ConnectionHandle<()> {
    let connection = Connection::builder()
        .container_id("test")
        .sasl_profile(SaslProfile::Plain {
            username: "guest".into(),
            password: "guest".into(),
        })
        .open_with_stream(broker.connect());
    connection.await.unwrap()
}

fn message(body: &str, durable: bool) -> Message<fe2o3_amqp::types::messaging::AmqpValue<String>> {
    let header = Header {
        durable,
        ..Header::default()
    };
    Message::builder()
        .header(header)
        .value(body.to_owned())
        .build()
}

async fn send(sender: &mut Sender, body: &str, durable: bool) {
    let sent = tokio::time::timeout(LONG, sender.send(message(body, durable)));
    let outcome = sent.await.expect(body).unwrap();
    assert!(
        matches!(outcome, Outcome::Accepted(_)),
        "{body}: {outcome:?}"
    );
}

async fn receive(receiver: &mut Receiver) -> String {
    let received = tokio::time::timeout(LONG, receiver.recv::<String>());
    let delivery = received.await.unwrap().unwrap();
    receiver.accept(&delivery).await.unwrap();
    delivery.body().clone()
}

async fn until(broker: &Broker, is: impl Fn(&Stats) -> bool) {
    let waits = async {
        while !is(&broker.stats()) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let waited = tokio::time::timeout(LONG, waits).await;
    assert!(waited.is_ok(), "{}", broker.stats());
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_sync_ends_confirmations_and_a_new_start_has_all_that_was_confirmed() {
    let data = Data::new("sync-fails");
    let broker = data.broker().await;
    let mut connection = connect(&broker).await;
    let mut session = Session::begin(&mut connection).await.unwrap();
    let mut sender = Sender::attach(&mut session, "s", "q").await.unwrap();
    send(&mut sender, "confirmed", true).await;
    data.mood(SYNC_FAILS, "");
    let doubtful = tokio::time::timeout(MOMENT, sender.send(message("doubtful", true)));
    assert!(doubtful.await.is_err(), "it is never accepted");
    let poisoned = |stats: &Stats| stats.alarms.journal == Some(StoreState::Poisoned);
    until(&broker, poisoned).await;
    let stats = broker.stats();
    assert!(stats.alarms.is_any(), "publishers are stopped");
    assert!(stats.to_string().contains("journal=Poisoned"), "{stats}");
    // Consumers go on, though what they settle is not kept either.
    let mut receiver = Receiver::attach(&mut session, "r", "q").await.unwrap();
    assert_eq!(receive(&mut receiver).await, "confirmed");
    // The disk recovers, the journal does not: nobody knows what is on the device.
    data.no_mood(SYNC_FAILS);
    let late = tokio::time::timeout(MOMENT, sender.send(message("late", true)));
    assert!(late.await.is_err(), "it is never accepted");
    broker.stop().await;

    let broker = data.broker().await;
    let mut connection = connect(&broker).await;
    let mut session = Session::begin(&mut connection).await.unwrap();
    let mut receiver = Receiver::attach(&mut session, "r", "q").await.unwrap();
    assert_eq!(receive(&mut receiver).await, "confirmed");
    let mut sender = Sender::attach(&mut session, "s", "q").await.unwrap();
    send(&mut sender, "new", true).await;
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_needs_no_journal_does_not_wait_for_it() {
    let data = Data::new("sync-waits");
    let broker = data.broker().await;
    let mut connection = connect(&broker).await;
    let mut session = Session::begin(&mut connection).await.unwrap();
    let mut sender = Sender::attach(&mut session, "s", "q").await.unwrap();
    send(&mut sender, "first", true).await;
    let settled = Sender::builder()
        .name("settled")
        .target("q")
        .sender_settle_mode(SenderSettleMode::Settled);
    let mut settled = settled.attach(&mut session).await.unwrap();
    let mut receiver = Receiver::attach(&mut session, "r", "q").await.unwrap();
    assert_eq!(receive(&mut receiver).await, "first");

    data.mood(SYNC_WAITS, "");
    let durable = sender
        .send_batchable(message("durable", true))
        .await
        .unwrap();
    let mut durable = std::pin::pin!(durable);
    let waited = tokio::time::timeout(MOMENT, &mut durable).await;
    assert!(waited.is_err(), "accepted means synced");
    // Deliveries do not wait, nor do messages that are settled or not durable.
    assert_eq!(receive(&mut receiver).await, "durable");
    send(&mut sender, "not durable", false).await;
    assert_eq!(receive(&mut receiver).await, "not durable");
    settled.send(message("settled", true)).await.unwrap();
    assert_eq!(receive(&mut receiver).await, "settled");

    data.no_mood(SYNC_WAITS);
    let outcome = tokio::time::timeout(LONG, durable).await.unwrap().unwrap();
    assert!(matches!(outcome, Outcome::Accepted(_)), "{outcome:?}");
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn low_disk_stops_publishers_until_there_is_room() {
    let data = Data::new("low-disk");
    let broker = data.broker().await;
    let mut connection = connect(&broker).await;
    let mut session = Session::begin(&mut connection).await.unwrap();
    let mut sender = Sender::attach(&mut session, "s", "q").await.unwrap();
    send(&mut sender, "first", true).await;
    data.mood(FREE, "999");
    until(&broker, |stats| stats.alarms.disk_free_alarm).await;
    let mut late = Sender::attach(&mut session, "late", "q").await.unwrap();
    let waited = tokio::time::timeout(MOMENT, late.send(message("second", true)));
    assert!(waited.await.is_err(), "no credit");
    let mut receiver = Receiver::attach(&mut session, "r", "q").await.unwrap();
    assert_eq!(receive(&mut receiver).await, "first");
    data.no_mood(FREE);
    until(&broker, |stats| !stats.alarms.is_any()).await;
    send(&mut sender, "third", true).await;
    broker.stop().await;
}

/// Asks the HTTP API; the answer, headers included.
async fn ask(broker: &Broker, method: &str, path: &str, body: &str) -> String {
    let (mut near, far) = tokio::io::duplex(64 * 1024);
    let router = crate::server::http::router(broker.shared());
    let entrance = (crate::server::http::Entrance::default(), &**broker.shared());
    let served = crate::server::http::serve(router, far, Peer::IN_PROCESS, entrance);
    let length = body.len();
    let request = format!(
        "{method} /api/{path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\
         authorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    let asks = async {
        near.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        near.read_to_string(&mut answer).await.unwrap();
        answer
    };
    tokio::join!(served, asks).1
}

/// What is declared over HTTP, and where it is seen then.
const DECLARED: [(&str, &str, &str); 9] = [
    ("queues/%2F/new", r#"{"durable":true}"#, "queues/%2F/new"),
    ("queues/%2F/other", r#"{"durable":true}"#, "queues/%2F"),
    (
        "exchanges/%2F/new",
        r#"{"durable":true}"#,
        "exchanges/%2F/new",
    ),
    (
        "policies/%2F/new",
        r#"{"pattern":"x","definition":{"max-length":1}}"#,
        "policies/%2F/new",
    ),
    ("vhosts/new", "", "vhosts/new"),
    (
        "users/new",
        r#"{"password_hash":"","tags":""}"#,
        "users/new",
    ),
    (
        "permissions/%2F/guest",
        r#"{"configure":".*","write":".*","read":".*"}"#,
        "permissions/%2F/guest",
    ),
    (
        "vhost-limits/%2F/max-queues",
        r#"{"value":99}"#,
        "vhost-limits/%2F",
    ),
    ("global-parameters/new", r#"{"value":1}"#, "definitions"),
];

#[tokio::test(flavor = "multi_thread")]
async fn no_http_answer_tells_what_a_crash_would_undo() {
    let data = Data::new("http-waits");
    let broker = Arc::new(data.broker().await);
    data.mood(SYNC_WAITS, "");
    let mut waiting = JoinSet::new();
    let mut spawn = |method: &'static str, path: &'static str, body: &'static str| {
        let broker = Arc::clone(&broker);
        waiting.spawn(async move { (path, ask(&broker, method, path, body).await) });
    };
    let declared = || broker.shared().node.store.as_ref().unwrap().declared();
    for (path, body, _) in DECLARED {
        let before = declared();
        spawn("PUT", path, body);
        until(&broker, |_| declared() > before).await;
    }
    spawn(
        "POST",
        "definitions/%2F",
        r#"{"exchanges":[{"name":"i","type":"topic","durable":true}]}"#,
    );
    let health = ask(&broker, "GET", "health/checks/alarms", "");
    let health = tokio::time::timeout(LONG, health).await.unwrap();
    assert!(health.starts_with("HTTP/1.1 200"), "{health}");
    for (_, _, seen) in DECLARED {
        spawn("GET", seen, "");
    }
    // That it is not there is an answer, too.
    spawn("DELETE", "queues/%2F/nothing", "");
    spawn("GET", "queues/%2F/nothing", "");
    let early = tokio::time::timeout(MOMENT, waiting.join_next()).await;
    assert!(early.is_err(), "{early:?}");
    data.no_mood(SYNC_WAITS);
    while let Some(answered) = waiting.join_next().await {
        let (path, answer) = answered.unwrap();
        let expected = if path.ends_with("nothing") {
            "HTTP/1.1 404"
        } else {
            "HTTP/1.1 20"
        };
        assert!(answer.starts_with(expected), "{path}: {answer}");
        assert!(!answer.contains("warning:"), "{path}: {answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_journal_does_not_hide_what_is_declared_but_warns_of_it() {
    let data = Data::new("http-warns");
    let broker = data.broker().await;
    // A segment is open then: what fails is the sync of records, not the making of a segment.
    let kept = ask(&broker, "PUT", "queues/%2F/kept", r#"{"durable":true}"#).await;
    assert!(kept.starts_with("HTTP/1.1 201"), "{kept}");
    data.mood(SYNC_FAILS, "");
    let refused = ask(&broker, "PUT", "queues/%2F/new", r#"{"durable":true}"#).await;
    assert!(refused.starts_with("HTTP/1.1 500"), "{refused}");
    let seen = ask(&broker, "GET", "queues/%2F/new", "").await;
    assert!(seen.starts_with("HTTP/1.1 200"), "{seen}");
    assert!(seen.contains("warning: 199"), "{seen}");
}
