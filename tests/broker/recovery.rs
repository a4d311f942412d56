//! Link recovery as a client library does it. [AMQP 2.6.13]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use coroner::{Broker, Settings};
use fe2o3_amqp::connection::ConnectionHandle;
use fe2o3_amqp::link::ReceiverAttachExchange;
use fe2o3_amqp::sasl_profile::SaslProfile;
use fe2o3_amqp::types::definitions::ReceiverSettleMode;
use fe2o3_amqp::types::messaging::{Source, TerminusExpiryPolicy};
use fe2o3_amqp::{Connection, Delivery, Receiver, Sender, Session};

async fn connect(broker: &Broker) -> ConnectionHandle<()> {
    Connection::builder()
        .container_id("gateway-7")
        .sasl_profile(SaslProfile::Plain {
            username: "guest".into(),
            password: "guest".into(),
        })
        .open_with_stream(broker.connect())
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_of_fe2o3_that_moves_to_another_connection_gets_what_it_held_and_has_not_settled()
 {
    let settings = Settings {
        auto_create: vec!["#".to_owned()],
        in_memory: true,
        amqp: Vec::new(),
        ..Settings::default()
    };
    let broker = Broker::builder().settings(settings).start().await.unwrap();
    let mut first = connect(&broker).await;
    let mut session = Session::begin(&mut first).await.unwrap();
    let mut sender = Sender::attach(&mut session, "s", "q").await.unwrap();
    for body in ["a", "b", "c", "d"] {
        sender.send(body).await.unwrap().accepted_or("").unwrap();
    }
    let source = Source::builder()
        .address("q")
        .expiry_policy(TerminusExpiryPolicy::ConnectionClose)
        .timeout(60_u32);
    let mut receiver = Receiver::builder()
        .name("in")
        .source(source.build())
        .receiver_settle_mode(ReceiverSettleMode::Second)
        .credit_mode(fe2o3_amqp::link::receiver::CreditMode::Manual)
        .attach(&mut session)
        .await
        .unwrap();
    receiver.set_credit(3).await.unwrap();
    let mut held: Vec<Delivery<String>> = Vec::new();
    for _ in 0..3 {
        held.push(receiver.recv().await.unwrap());
    }
    receiver.accept(&held[0]).await.unwrap();
    // It is settled before the link goes: its receiver was not told so, or was.
    let mut second = connect(&broker).await;
    let mut session = Session::begin(&mut second).await.unwrap();
    let exchange = receiver.detach_then_resume_on_session(&session).await;
    // It names nothing that it has not settled, so it gets it as new. [AMQP 2.6.13]
    let is_complete = matches!(exchange, Ok(ReceiverAttachExchange::Complete));
    assert!(is_complete, "{exchange:?}");
    drop(first);
    receiver.set_credit(4).await.unwrap();
    let mut bodies = Vec::new();
    for _ in 0..3 {
        let delivery: Delivery<String> = receiver.recv().await.unwrap();
        receiver.accept(&delivery).await.unwrap();
        bodies.push(delivery.body().clone());
    }
    assert_eq!(bodies, ["b", "c", "d"], "two once more, and what is new");
    receiver.close().await.unwrap();
    let mut other = Receiver::attach(&mut session, "other", "q").await.unwrap();
    let more = tokio::time::timeout(
        std::time::Duration::from_millis(300),
        other.recv::<String>(),
    );
    assert!(more.await.is_err(), "each was accepted once");
    broker.stop().await;
}
