//! Publishers and consumers within the process, against a whole broker.

use std::error::Error as _;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use super::{AmqpError, Delivery, LinkError, Message, Outcome};
use crate::base::limits::EMBEDDED_CREDIT_MAX;
use crate::config::{ByteSize, Settings};
use crate::server::{Broker, Builder};
use crate::wire::Value;

async fn broker_with(queues: &[(&str, &[(&str, Value)])]) -> Broker {
    start(Broker::builder(), queues).await
}

async fn start(builder: Builder, queues: &[(&str, &[(&str, Value)])]) -> Broker {
    let broker = builder.start().await.unwrap();
    for (queue, arguments) in queues {
        let declared = broker.admin().declare_queue("/", queue, arguments).await;
        declared.unwrap();
    }
    broker
}

/// Whether a future is not ready now.
async fn waits<T>(future: std::pin::Pin<&mut impl Future<Output = T>>) -> bool {
    let mut future = future;
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_pending())).await
}

fn dead_letters_to(queue: &str) -> [(&'static str, Value); 2] {
    [
        ("x-dead-letter-exchange", Value::string("")),
        ("x-dead-letter-routing-key", Value::string(queue)),
    ]
}

/// A larger credit was made smaller without a word, and none became one.
#[tokio::test]
async fn credit_that_cannot_be_is_refused_with_its_bound() {
    let broker = broker_with(&[("q", &[])]).await;
    let open = |credit| broker.consumer("/queues/q").credit(credit).open();
    for messages in [0, EMBEDDED_CREDIT_MAX + 1, u32::MAX] {
        let refused = open(messages).await.err();
        let max = EMBEDDED_CREDIT_MAX;
        assert_eq!(refused, Some(LinkError::Credit { messages, max }));
        let text = refused.map(|error| error.to_string()).unwrap_or_default();
        let expect = format!("a consumer has from 1 to 10000 messages of credit, not {messages}");
        assert_eq!(text, expect);
    }
    assert!(open(EMBEDDED_CREDIT_MAX).await.is_ok() && open(1).await.is_ok());
}

#[tokio::test]
async fn what_is_published_in_process_is_consumed_as_it_was() {
    let broker = broker_with(&[("q", &[])]).await;
    let publisher = broker.publisher("/queues/q").open().await.unwrap();
    let message = Message::new("dig")
        .subject("garden")
        .message_id("m-1")
        .content_type("text/plain")
        .priority(7)
        .annotation("x-from", Value::Uint(3))
        .property("depth", Value::Int(-2));
    assert_eq!(publisher.publish(message).await, Ok(Outcome::Accepted));
    let large = vec![7; 600_000];
    let accepted = publisher.publish(large.clone()).await;
    assert_eq!(accepted, Ok(Outcome::Accepted));

    let mut consumer = broker.consumer("/queues/q").open().await.unwrap();
    let first = consumer.next().await.unwrap();
    assert_eq!(
        (first.body(), first.subject()),
        (&b"dig"[..], Some("garden"))
    );
    assert_eq!(first.message_id(), Some(Value::string("m-1")));
    assert_eq!(first.property("depth"), Some(Value::Int(-2)));
    assert_eq!(first.annotation("x-from"), Some(&Value::Uint(3)));
    assert_eq!((first.priority(), first.is_durable()), (Some(7), true));
    assert_eq!((first.delivery_count(), first.deaths()), (0, &[][..]));
    first.accept();
    let second = consumer.next().await.unwrap();
    assert_eq!(second.body(), large);
    second.accept();
    broker.stop().await;
}

#[tokio::test]
async fn a_rejected_message_arrives_with_its_history_as_data() {
    let dead = dead_letters_to("morgue");
    let broker = broker_with(&[("jobs", &dead), ("morgue", &[])]).await;
    let publisher = broker.publisher("/queues/jobs").open().await.unwrap();
    let message = Message::new("x").ttl(Duration::from_mins(10));
    publisher.publish(message).await.unwrap();
    let mut jobs = broker.consumer("/queues/jobs").open().await.unwrap();
    let error = AmqpError::new("app:broken", "no spade");
    jobs.next().await.unwrap().reject(Some(error));
    let mut morgue = broker.consumer("/queues/morgue").open().await.unwrap();
    let dead = morgue.next().await.unwrap();
    let [death] = dead.deaths() else {
        panic!("one death: {dead:?}")
    };
    assert_eq!(
        (&*death.queue, &*death.reason, death.count),
        ("jobs", "rejected", 1)
    );
    assert_eq!(
        (&*death.exchange, &death.routing_keys[..]),
        ("", &["jobs".to_owned()][..])
    );
    assert_eq!(death.first_time, death.last_time);
    assert!(death.first_time.elapsed().unwrap() < Duration::from_mins(1));
    dead.accept();
    broker.stop().await;
}

#[tokio::test]
async fn credit_is_never_overrun() {
    let broker = broker_with(&[("q", &[])]).await;
    let publisher = broker.publisher("/queues/q").open().await.unwrap();
    for number in 0..20_u8 {
        publisher.publish(vec![number]).await.unwrap();
    }
    let mut consumer = broker.consumer("/queues/q").credit(3).open().await.unwrap();
    let mut held = Vec::new();
    for expect in 0..20_u8 {
        let delivery = consumer.next().await.unwrap();
        assert_eq!(delivery.body(), [expect]);
        held.push(delivery);
        if held.len() == 3 {
            // A publish and its outcome take longer than a message that would come.
            publisher.publish("later").await.unwrap();
            assert!(waits(pin!(consumer.next())).await, "a fourth one");
            held.remove(0).accept();
        }
    }
    held.into_iter().for_each(Delivery::accept);
    broker.stop().await;
}

#[tokio::test]
async fn a_consumer_that_is_dropped_gives_its_messages_back() {
    let broker = broker_with(&[("q", &[])]).await;
    let publisher = broker.publisher("/queues/q").open().await.unwrap();
    for body in ["a", "b", "c"] {
        publisher.publish(body).await.unwrap();
    }
    let mut first = broker.consumer("/queues/q").open().await.unwrap();
    let kept = first.next().await.unwrap();
    drop(first);
    let mut second = broker.consumer("/queues/q").open().await.unwrap();
    let mut bodies = Vec::new();
    for _ in 0..3 {
        let delivery = second.next().await.unwrap();
        bodies.push(delivery.body().to_vec());
        delivery.accept();
    }
    assert_eq!(bodies, [b"a", b"b", b"c"]);
    // Too late: somebody else has had it.
    kept.accept();
    broker.stop().await;
}

#[tokio::test]
async fn a_delivery_that_is_dropped_undecided_comes_again_and_counts_as_failed() {
    let broker = broker_with(&[("q", &[])]).await;
    let publisher = broker.publisher("/queues/q").open().await.unwrap();
    publisher.publish("x").await.unwrap();
    let mut consumer = broker.consumer("/queues/q").open().await.unwrap();
    drop(consumer.next().await.unwrap());
    let again = consumer.next().await.unwrap();
    assert_eq!(again.delivery_count(), 1);
    again.release();
    assert_eq!(consumer.next().await.unwrap().delivery_count(), 1);
    broker.stop().await;
}

#[tokio::test]
async fn a_publisher_in_an_alarm_waits_until_it_is_over() {
    let settings = Settings {
        amqp: Vec::new(),
        http: crate::config::HttpListen::Off,
        in_memory: true,
        memory_budget: ByteSize(0),
        memory_limit: ByteSize(1 << 20),
        ..Settings::default()
    };
    let broker = start(
        Broker::builder().settings(settings),
        &[("q", &[]), ("other", &[])],
    )
    .await;
    let publisher = broker.publisher("/queues/q").open().await.unwrap();
    let mut consumer = broker.consumer("/queues/q").credit(1).open().await.unwrap();
    publisher.publish(vec![1; 2 << 20]).await.unwrap();
    while !broker.stats().alarms.is_any() {
        tokio::task::yield_now().await;
    }
    // What it had credit for, it may still send.
    let mut sent = 0;
    let waiting = loop {
        let mut publish = Box::pin(publisher.publish("x"));
        let first = waits(publish.as_mut()).await;
        assert!(first, "nothing has run yet");
        roundtrip(&broker).await;
        if waits(publish.as_mut()).await {
            break publish;
        }
        sent += 1;
        assert!(sent < 10_000, "there is an alarm");
    };
    assert!(broker.stats().alarms.is_any());
    consumer.next().await.unwrap().accept();
    assert_eq!(waiting.await, Ok(Outcome::Accepted));
    broker.stop().await;
}

/// As long as a connection takes to do something.
async fn roundtrip(broker: &Broker) {
    drop(broker.consumer("/queues/other").open().await.unwrap());
}

#[tokio::test]
async fn what_nobody_is_bound_for_is_released_and_what_is_refused_is_rejected_with_its_error() {
    let full = [
        ("x-max-length", Value::Long(1)),
        ("x-overflow", Value::string("reject-publish")),
    ];
    let broker = broker_with(&[("full", &full)]).await;
    let nowhere = broker.publisher("/exchanges/amq.direct/none").open().await;
    let released = nowhere.unwrap().publish("x").await;
    assert_eq!(released, Ok(Outcome::Released));
    let publisher = broker.publisher("/queues/full").open().await.unwrap();
    publisher.publish("x").await.unwrap();
    let Ok(Outcome::Rejected(Some(error))) = publisher.publish("y").await else {
        panic!("rejected")
    };
    assert_eq!(error.condition, "amqp:resource-limit-exceeded");
    let info = ("queue".to_owned(), Value::string("full"));
    assert_eq!(error.info.first(), Some(&info));
    broker.stop().await;
}

#[tokio::test]
async fn errors_are_data_with_a_source() {
    let broker = broker_with(&[("q", &[])]).await;
    let refused = broker.consumer("/queues/none").open().await.unwrap_err();
    let LinkError::Refused(error) = &refused else {
        panic!("{refused:?}")
    };
    assert_eq!(error.condition, "amqp:not-found");
    assert_eq!(refused.source().unwrap().to_string(), error.to_string());
    let vhost = broker.consumer("/queues/q").vhost("none").open().await;
    assert!(matches!(vhost, Err(LinkError::Refused(_))), "{vhost:?}");

    let mut consumer = broker.consumer("/queues/q").open().await.unwrap();
    broker.admin().delete_queue("/", "q").await.unwrap();
    let ended = consumer.next().await.unwrap_err();
    let LinkError::Ended(error) = &ended else {
        panic!("{ended:?}")
    };
    assert_eq!(error.condition, "amqp:resource-deleted");
    let publisher = broker.publisher("").anonymous().open().await.unwrap();
    broker.stop().await;
    assert_eq!(publisher.publish("x").await, Err(LinkError::Stopped));
}

#[tokio::test]
async fn a_consumer_in_process_and_one_over_amqp_share_a_queue() {
    use fe2o3_amqp::sasl_profile::SaslProfile;
    use fe2o3_amqp::types::messaging::Body;
    use fe2o3_amqp::types::primitives as theirs;
    use fe2o3_amqp::{Connection, Receiver, Session};
    let broker = broker_with(&[("q", &[])]).await;
    let guest = SaslProfile::Plain {
        username: "guest".into(),
        password: "guest".into(),
    };
    let connection = Connection::builder().container_id("c").sasl_profile(guest);
    let opened = connection.open_with_stream(broker.connect()).await;
    let mut connection = opened.unwrap();
    let mut session = Session::begin(&mut connection).await.unwrap();
    let mut other = Receiver::attach(&mut session, "r", "/queues/q")
        .await
        .unwrap();
    let mut own = broker.consumer("/queues/q").credit(1).open().await.unwrap();
    let publisher = broker.publisher("/queues/q").open().await.unwrap();
    publisher.publish("a").await.unwrap();
    publisher.publish("b").await.unwrap();
    let theirs = other.recv::<Body<theirs::Value>>();
    let (ours, theirs) = tokio::join!(own.next(), theirs);
    other.accept(&theirs.unwrap()).await.unwrap();
    ours.unwrap().accept();
    connection.close().await.unwrap();
    broker.stop().await;
}
