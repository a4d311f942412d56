//! How do I run a broker inside my program or my tests?
//!
//! ```text
//! cargo run --example embed
//! ```
#![allow(clippy::print_stdout, reason = "an example prints")]

use std::error::Error;

use coroner::{Broker, Settings};
use fe2o3_amqp::sasl_profile::SaslProfile;
use fe2o3_amqp::types::messaging::Message;
use fe2o3_amqp::{Connection, Receiver, Sender, Session};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // Queues named by a bare address that begins with "jobs" are created when they are used.
    let auto_create = vec!["jobs.#".to_owned()];
    let settings = Settings {
        amqp: Vec::new(),
        auto_create,
        ..Settings::default()
    };
    let broker = Broker::builder()
        .settings(settings)
        .listen("127.0.0.1:0".parse()?)
        .start()
        .await?;
    println!("others may connect to {:?}", broker.addresses());

    // We need no socket: the stream leads to the same engine.
    let guest = SaslProfile::Plain {
        username: "guest".into(),
        password: "guest".into(),
    };
    let mut connection = Connection::builder()
        .container_id("embed")
        .sasl_profile(guest)
        .open_with_stream(broker.connect())
        .await?;
    let mut session = Session::begin(&mut connection).await?;

    let mut sender = Sender::attach(&mut session, "out", "jobs.new").await?;
    sender
        .send(Message::from("dig".to_owned()))
        .await?
        .accepted_or("not accepted")?;
    let mut receiver = Receiver::attach(&mut session, "in", "jobs.new").await?;
    let delivery = receiver.recv::<String>().await?;
    println!("received: {}", delivery.body());
    receiver.accept(&delivery).await?;

    println!("{}", broker.stats());
    connection.close().await?;
    broker.stop().await;
    Ok(())
}
