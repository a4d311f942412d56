//! How do I deliver a message later, each after a delay of its own?
//!
//! A queue that nobody consumes from holds the message for its time to live; dead lettering then
//! moves it to the queue where it is awaited. Messages expire exactly, at any position: a short
//! delay does not wait behind a long one.
//!
//! ```text
//! cargo run -- serve
//! cargo run --example delayed_messages
//! ```
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "an example prints and looks at the clock"
)]

mod common;

use std::time::Instant;

use coroner::wire::Value as Argument;
use fe2o3_amqp::types::messaging::{Header, Message};
use fe2o3_amqp::{Connection, Sender, Session};

const WAITING: &str = "reminders.waiting";
const DUE: &str = "reminders.due";

#[tokio::main]
async fn main() -> common::Result<()> {
    common::declare_queue(DUE, &[])?;
    let to_due = [
        ("x-dead-letter-exchange", Argument::string("")),
        ("x-dead-letter-routing-key", Argument::string(DUE)),
    ];
    common::declare_queue(WAITING, &to_due)?;
    let mut connection = Connection::open("delayed", common::broker_url().as_str()).await?;
    let mut session = Session::begin(&mut connection).await?;

    let begun = Instant::now();
    let mut sender = Sender::attach(&mut session, "sender", format!("/queues/{WAITING}")).await?;
    for delay_ms in [4000, 500, 1500] {
        let message = Message::builder()
            .header(Header {
                ttl: Some(delay_ms),
                ..Header::default()
            })
            .value(format!("sent with a delay of {delay_ms} ms"))
            .build();
        sender
            .send(message)
            .await?
            .accepted_or("a reminder was not accepted")?;
    }
    sender.close().await?;

    let mut receiver = common::receive_dead_letters(&mut session, DUE, "none").await?;
    for _ in 0..3 {
        let delivery = receiver.recv::<String>().await?;
        println!(
            "after {:4} ms: {}",
            begun.elapsed().as_millis(),
            delivery.body()
        );
        receiver.accept(&delivery).await?;
    }
    receiver.close().await?;

    session.end().await?;
    connection.close().await?;
    Ok(())
}
