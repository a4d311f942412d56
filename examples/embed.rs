//! How do I run a broker inside my program or my tests, and use it without a client?
//!
//! ```text
//! cargo run --example embed
//! ```
#![allow(clippy::print_stdout, reason = "an example prints")]

use std::error::Error;

use coroner::settings::ByteSize;
use coroner::{AmqpError, Broker, Message, Outcome, Value};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let broker = Broker::builder()
        .listen("127.0.0.1:0".parse()?)
        .with(|settings| settings.max_message_size = ByteSize(1 << 20))
        .start()
        .await?;
    println!("others may connect to {:?}", broker.addresses());

    let admin = broker.admin();
    let dead_letters = [
        ("x-dead-letter-exchange", Value::string("")),
        ("x-dead-letter-routing-key", Value::string("morgue")),
    ];
    admin.declare_queue("/", "jobs", &dead_letters).await?;
    admin.declare_queue("/", "morgue", &[]).await?;

    // We need no socket and no AMQP client.
    let publisher = broker.publisher("/queues/jobs").open().await?;
    for job in ["dig", "bury"] {
        let outcome = publisher.publish(Message::new(job)).await?;
        assert_eq!(outcome, Outcome::Accepted);
    }
    let mut jobs = broker.consumer("/queues/jobs").credit(10).open().await?;
    let job = jobs.next().await?;
    println!("received: {}", String::from_utf8_lossy(job.body()));
    job.accept();
    let error = AmqpError::new("app:no-spade", "the spade is lost");
    jobs.next().await?.reject(Some(error));

    let mut morgue = broker.consumer("/queues/morgue").open().await?;
    let dead = morgue.next().await?;
    for death in dead.deaths() {
        println!(
            "died in {}: {}, {} times",
            death.queue, death.reason, death.count
        );
    }
    dead.accept();

    println!("{}", broker.stats());
    broker.stop().await;
    Ok(())
}
