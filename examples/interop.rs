//! Does the fe2o3-amqp client do what the other clients of `interop/run` do?
//!
//! Prints `ok SCENARIO` for each of connect, declare, publish, consume, reject and history, or
//! `fail SCENARIO REASON`. `interop/run` calls it with the port of its broker.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "an example prints and looks at the clock"
)]

mod common;

use std::fmt::Debug;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use coroner::wire::Value as Argument;
use fe2o3_amqp::connection::ConnectionHandle;
use fe2o3_amqp::session::SessionHandle;
use fe2o3_amqp::types::messaging::annotations::AnnotationKey;
use fe2o3_amqp::types::messaging::{
    ApplicationProperties, Header, Message, MessageAnnotations, MessageId, Properties,
};
use fe2o3_amqp::types::primitives::{Array, OrderedMap, Symbol, Value};
use fe2o3_amqp::{Connection, Receiver, Sender, Session};

const SOURCE: &str = "interop-fe2o3-amqp";
const DEAD: &str = "interop-fe2o3-amqp-dead";
const LIMIT: Duration = Duration::from_secs(10);

struct Peer {
    connection: ConnectionHandle<()>,
    session: SessionHandle<()>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let mut scenario = "connect";
    match tokio::time::timeout(LIMIT, all(&mut scenario)).await {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => {
            println!("fail {scenario} {error}");
            ExitCode::FAILURE
        }
        Err(_) => {
            println!("fail {scenario} nothing came for {LIMIT:?}");
            ExitCode::FAILURE
        }
    }
}

async fn all(scenario: &mut &'static str) -> common::Result<()> {
    let mut connection = Connection::open("interop", common::broker_url().as_str()).await?;
    let session = Session::begin(&mut connection).await?;
    let mut peer = Peer {
        connection,
        session,
    };
    done(scenario, "declare");

    common::declare_queue(DEAD, &[])?;
    let to_dead_queue = [
        ("x-dead-letter-exchange", Argument::string("")),
        ("x-dead-letter-routing-key", Argument::string(DEAD)),
    ];
    common::declare_queue(SOURCE, &to_dead_queue)?;
    done(scenario, "publish");

    publish(&mut peer).await?;
    done(scenario, "consume");

    let mut receiver =
        Receiver::attach(&mut peer.session, "in", format!("/queues/{SOURCE}")).await?;
    consume(&mut receiver).await?;
    done(scenario, "reject");

    let delivery = receiver.recv::<String>().await?;
    equal("message-id", message_id(delivery.message()), Some("bad"))?;
    receiver.reject(&delivery, None).await?;
    receiver.close().await?;
    done(scenario, "history");

    history(&mut peer).await?;
    println!("ok history");
    peer.session.end().await?;
    peer.connection.close().await?;
    Ok(())
}

fn done(scenario: &mut &'static str, next: &'static str) {
    println!("ok {scenario}");
    *scenario = next;
}

async fn publish(peer: &mut Peer) -> common::Result<()> {
    let mut sender = Sender::attach(&mut peer.session, "out", format!("/queues/{SOURCE}")).await?;
    for text in ["good", "bad"] {
        let message = Message::builder()
            .header(Header {
                durable: true,
                ttl: Some(60_000),
                ..Header::default()
            })
            .properties(Properties::builder().message_id(text.to_owned()).build())
            .application_properties(ApplicationProperties::builder().insert("n", 7_i64).build())
            .value(text.to_owned())
            .build();
        sender.send(message).await?.accepted_or("not accepted")?;
    }
    Ok(sender.close().await?)
}

async fn consume(receiver: &mut Receiver) -> common::Result<()> {
    let delivery = receiver.recv::<String>().await?;
    let message = delivery.message();
    equal("message-id", message_id(message), Some("good"))?;
    equal("body", message.body.as_str(), "good")?;
    equal(
        "durable",
        message.header.as_ref().map(|header| header.durable),
        Some(true),
    )?;
    let properties = message
        .application_properties
        .as_ref()
        .ok_or("no application-properties")?;
    equal(
        "n",
        format!("{:?}", properties.0.get("n")).as_str(),
        "Some(Long(7))",
    )?;
    Ok(receiver.accept(&delivery).await?)
}

async fn history(peer: &mut Peer) -> common::Result<()> {
    let mut receiver = common::receive_dead_letters(&mut peer.session, DEAD, "list").await?;
    let delivery = receiver.recv::<String>().await?;
    let message = delivery.message();
    equal("message-id", message_id(message), Some("bad"))?;
    equal("body", message.body.as_str(), "bad")?;
    equal(
        "ttl",
        message.header.as_ref().and_then(|header| header.ttl),
        None,
    )?;
    let annotations = message
        .message_annotations
        .as_ref()
        .ok_or("no annotations")?;
    for (what, value) in [("queue", SOURCE), ("reason", "rejected"), ("exchange", "")] {
        for when in ["first", "last"] {
            let name = format!("x-{when}-death-{what}");
            let observed = annotation(annotations, &name);
            equal(&name, observed, Some(&Value::String(value.to_owned())))?;
        }
    }
    deaths(annotation(annotations, "x-opt-deaths"))?;
    receiver.accept(&delivery).await?;
    Ok(receiver.close().await?)
}

/// One entry, field by field and type by type.
fn deaths(annotation: Option<&Value>) -> common::Result<()> {
    let Some(Value::List(entries)) = annotation else {
        return Err(format!("x-opt-deaths is {annotation:?}").into());
    };
    let [Value::Map(entry)] = &entries[..] else {
        return Err(format!("x-opt-deaths is {entries:?}").into());
    };
    equal("number of fields", entry.len(), 8)?;
    let string = |text: &str| Value::String(text.to_owned());
    equal("queue", field(entry, "queue"), Some(&string(SOURCE)))?;
    equal(
        "reason",
        field(entry, "reason"),
        Some(&Value::Symbol(Symbol::from("rejected"))),
    )?;
    equal("count", field(entry, "count"), Some(&Value::Ulong(1)))?;
    equal("exchange", field(entry, "exchange"), Some(&string("")))?;
    let keys = Value::Array(Array(vec![string(SOURCE)]));
    equal("routing-keys", field(entry, "routing-keys"), Some(&keys))?;
    equal("ttl", field(entry, "ttl"), Some(&Value::Uint(60_000)))?;
    equal(
        "first-time",
        field(entry, "first-time"),
        field(entry, "last-time"),
    )?;
    let Some(Value::Timestamp(last)) = field(entry, "last-time") else {
        return Err("last-time is no timestamp".into());
    };
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)?
        .as_millis();
    let age_ms = i128::try_from(now)? - i128::from(last.milliseconds());
    equal("last-time is now", (-5_000..60_000).contains(&age_ms), true)
}

fn field<'a>(entry: &'a OrderedMap<Value, Value>, name: &str) -> Option<&'a Value> {
    entry.get(&Value::Symbol(Symbol::from(name)))
}

fn annotation<'a>(annotations: &'a MessageAnnotations, name: &str) -> Option<&'a Value> {
    annotations.0.get(&name as &dyn AnnotationKey)
}

fn message_id(message: &Message<String>) -> Option<&str> {
    match message.properties.as_ref()?.message_id.as_ref()? {
        MessageId::String(id) => Some(id),
        _ => None,
    }
}

fn equal<T: PartialEq + Debug + Copy>(what: &str, observed: T, expected: T) -> common::Result<()> {
    if observed == expected {
        return Ok(());
    }
    Err(format!("{what}: {observed:?} instead of {expected:?}").into())
}
