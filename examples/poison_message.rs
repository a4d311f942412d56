//! A consumer cannot read a message. Where does it go, and how do I find out why?
//!
//! ```text
//! cargo run -- serve
//! cargo run --example poison_message
//! ```
#![allow(clippy::print_stdout, reason = "an example prints")]

mod common;

use std::collections::BTreeMap;

use coroner::wire::Value as Argument;
use fe2o3_amqp::types::definitions::{AmqpError, Error};
use fe2o3_amqp::types::messaging::annotations::AnnotationKey;
use fe2o3_amqp::types::messaging::{Message, MessageAnnotations};
use fe2o3_amqp::types::primitives::Value;
use fe2o3_amqp::{Connection, Receiver, Sender, Session};

const WORK: &str = "tasks";
const DEAD: &str = "tasks.dead";

#[tokio::main]
async fn main() -> common::Result<()> {
    common::declare_queue(DEAD, &[])?;
    let to_dead_queue = [
        ("x-dead-letter-exchange", Argument::string("")),
        ("x-dead-letter-routing-key", Argument::string(DEAD)),
    ];
    common::declare_queue(WORK, &to_dead_queue)?;
    let mut connection = Connection::open("poison", common::broker_url().as_str()).await?;
    let mut session = Session::begin(&mut connection).await?;

    let mut sender = Sender::attach(&mut session, "sender", format!("/queues/{WORK}")).await?;
    let poison = Message::from("{ this is no order".to_owned());
    sender
        .send(poison)
        .await?
        .accepted_or("the order was not accepted")?;
    sender.close().await?;

    let mut consumer = Receiver::attach(&mut session, "worker", format!("/queues/{WORK}")).await?;
    let delivery = consumer.recv::<String>().await?;
    let cause = Error::new(AmqpError::DecodeError, Some("not JSON".to_owned()), None);
    consumer.reject(&delivery, cause).await?;
    consumer.close().await?;

    let mut undertaker = common::receive_dead_letters(&mut session, DEAD, "list").await?;
    let delivery = undertaker.recv::<String>().await?;
    println!("dead letter: {}", delivery.body());
    let annotations = delivery.message().message_annotations.as_ref();
    for death in deaths(annotations.ok_or("a dead letter has annotations")?)? {
        println!("  {death}");
    }
    undertaker.accept(&delivery).await?;
    undertaker.close().await?;

    session.end().await?;
    connection.close().await?;
    Ok(())
}

/// One line for each entry of the history, newest first.
fn deaths(annotations: &MessageAnnotations) -> common::Result<Vec<String>> {
    let Some(Value::List(entries)) = annotations.0.get(&"x-opt-deaths" as &dyn AnnotationKey)
    else {
        return Err("no x-opt-deaths".into());
    };
    Ok(entries.iter().map(describe).collect())
}

/// The fields of an entry in alphabetical order.
fn describe(entry: &Value) -> String {
    let Value::Map(fields) = entry else {
        return format!("{entry:?}");
    };
    let fields: BTreeMap<String, String> = fields
        .iter()
        .map(|(key, value)| (text(key), text(value)))
        .collect();
    let fields: Vec<String> = fields
        .iter()
        .map(|(key, value)| format!("{key}: {value}"))
        .collect();
    fields.join(", ")
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text:?}"),
        Value::Symbol(symbol) => symbol.0.clone(),
        Value::Ulong(number) => number.to_string(),
        Value::Timestamp(time) => format!("{} ms", time.milliseconds()),
        other => format!("{other:?}"),
    }
}
