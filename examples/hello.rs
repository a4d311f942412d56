//! How do I publish a message and get it back?
//!
//! ```text
//! cargo run -- serve
//! cargo run --example hello
//! ```
#![allow(clippy::print_stdout, reason = "an example prints")]

mod common;

use fe2o3_amqp::types::messaging::{Message, Outcome};
use fe2o3_amqp::{Connection, Receiver, Sender, Session};

const QUEUE: &str = "hello";

#[tokio::main]
async fn main() -> common::Result<()> {
    common::declare_queue(QUEUE, &[])?;
    let mut connection = Connection::open("hello", common::broker_url().as_str()).await?;
    let mut session = Session::begin(&mut connection).await?;

    let address = format!("/queues/{QUEUE}");
    let mut sender = Sender::attach(&mut session, "sender", address.as_str()).await?;
    let message = Message::from("hello, world".to_owned());
    match sender.send(message).await? {
        Outcome::Accepted(_) => println!("published and accepted"),
        other => return Err(format!("not accepted: {other:?}").into()),
    }
    sender.close().await?;

    let mut receiver = Receiver::attach(&mut session, "receiver", address.as_str()).await?;
    let delivery = receiver.recv::<String>().await?;
    println!("received: {}", delivery.body());
    receiver.accept(&delivery).await?;
    receiver.close().await?;

    session.end().await?;
    connection.close().await?;
    Ok(())
}
