//! What an operator sees of a broker: metrics, health, signals, logs.
#![allow(
    clippy::disallowed_methods,
    reason = "tests start processes and read clocks"
)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use coroner::metrics::Detail;
use coroner::{Broker, Settings};
use fe2o3_amqp::sasl_profile::SaslProfile;
use fe2o3_amqp::{Connection, Receiver, Sender, Session};

/// The value of a sample of the text form.
fn sample(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().parse().ok()
}

#[tokio::test]
async fn metrics_tell_what_happened_to_a_message_that_was_rejected() {
    let settings = Settings {
        amqp: Vec::new(),
        auto_create: vec!["#".to_owned()],
        in_memory: true,
        ..Settings::default()
    };
    let broker = Broker::builder().settings(settings).start().await.unwrap();
    let mut connection = Connection::builder()
        .container_id("test")
        .sasl_profile(SaslProfile::Plain {
            username: "guest".into(),
            password: "guest".into(),
        })
        .open_with_stream(broker.connect())
        .await
        .unwrap();
    let mut session = Session::begin(&mut connection).await.unwrap();
    let mut sender = Sender::attach(&mut session, "s", "work").await.unwrap();
    sender.send("bad").await.unwrap().accepted_or("").unwrap();
    let mut receiver = Receiver::attach(&mut session, "r", "work").await.unwrap();
    let delivery = receiver.recv::<String>().await.unwrap();
    let open = broker.metrics(Detail::Queues);
    receiver.reject(&delivery, None).await.unwrap();
    sender.send("good").await.unwrap().accepted_or("").unwrap();
    let text = broker.metrics(Detail::Vhosts);
    let check =
        |text: &str, name: &str, expect| assert_eq!(sample(text, name), Some(expect), "{name}");
    check(&open, "coroner_connections", 1);
    check(&open, "coroner_sessions{vhost=\"/\"}", 1);
    check(&open, "coroner_links{role=\"publisher\"}", 1);
    check(&open, "coroner_links{role=\"consumer\"}", 1);
    check(
        &open,
        "coroner_queue_messages{vhost=\"/\",queue=\"work\",state=\"held\"}",
        1,
    );
    check(&text, "coroner_messages_published_total{vhost=\"/\"}", 2);
    let rejected = "coroner_delivery_outcomes_total{vhost=\"/\",outcome=\"rejected\"}";
    check(&text, rejected, 1);
    let dead = "coroner_dead_letters_total{vhost=\"/\",queue=\"work\",reason=\"rejected\",\
                outcome=\"dropped\"}";
    check(&text, dead, 1);
    let dropped = "coroner_messages_dropped_total{vhost=\"/\",reason=\"rejected\",\
                   cause=\"no_dead_letter_exchange\"}";
    check(&text, dropped, 1);
    connection.close().await.unwrap();
    broker.stop().await;
}
