//! Consuming within the process.

use tokio::sync::mpsc;

use super::engine::{Command, Deliveries, End};
use super::{Delivery, LinkError};
use crate::base::limits::EMBEDDED_CREDIT_MAX;
use crate::server::Broker;
use crate::wire::performative::Role;

/// Undecided messages that a consumer may have, by default.
const CREDIT_DEFAULT: u32 = 100;

/// Builds a [`Consumer`]; see [`Broker::consumer`].
#[derive(Debug)]
#[must_use = "a builder does nothing until it is opened"]
pub struct ConsumerBuilder<'a> {
    broker: &'a Broker,
    address: String,
    vhost: String,
    credit: u32,
}

impl Broker {
    /// Consumes within the process, from `/queues/NAME`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use coroner::{AmqpError, Broker, Value};
    ///
    /// let broker = Broker::builder().start().await?;
    /// let admin = broker.admin();
    /// let dead = [
    ///     ("x-dead-letter-exchange", Value::string("")),
    ///     ("x-dead-letter-routing-key", Value::string("morgue")),
    /// ];
    /// admin.declare_queue("/", "jobs", &dead).await?;
    /// admin.declare_queue("/", "morgue", &[]).await?;
    /// broker.publisher("/queues/jobs").open().await?.publish("dig").await?;
    ///
    /// let mut jobs = broker.consumer("/queues/jobs").credit(10).open().await?;
    /// let job = jobs.next().await?;
    /// assert_eq!(job.body(), b"dig");
    /// job.reject(Some(AmqpError::new("app:no-spade", "the spade is lost")));
    ///
    /// let mut morgue = broker.consumer("/queues/morgue").open().await?;
    /// let dead = morgue.next().await?;
    /// assert_eq!((&*dead.deaths()[0].queue, &*dead.deaths()[0].reason), ("jobs", "rejected"));
    /// dead.accept();
    /// # broker.stop().await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn consumer(&self, address: impl Into<String>) -> ConsumerBuilder<'_> {
        ConsumerBuilder {
            broker: self,
            address: address.into(),
            vhost: "/".to_owned(),
            credit: CREDIT_DEFAULT,
        }
    }
}

impl ConsumerBuilder<'_> {
    /// Sets the vhost. Default: `/`.
    pub fn vhost(mut self, name: impl Into<String>) -> Self {
        self.vhost = name.into();
        self
    }

    /// Sets how many messages it may have undecided, from 1 to 10,000; those that
    /// [`Consumer::next`] has not returned yet count, too. Default: 100. Others are refused by
    /// [`Self::open`].
    pub fn credit(mut self, messages: u32) -> Self {
        self.credit = messages;
        self
    }

    /// Begins to consume. Must be called within the tokio runtime.
    ///
    /// When there is no such vhost or queue, or another consumer has it exclusively, or the credit
    /// is out of range.
    pub async fn open(self) -> Result<Consumer, LinkError> {
        if !(1..=EMBEDDED_CREDIT_MAX).contains(&self.credit) {
            return Err(LinkError::Credit {
                messages: self.credit,
                max: EMBEDDED_CREDIT_MAX,
            });
        }
        let (commands, receiver) = mpsc::channel(1);
        let (deliveries, arriving) = mpsc::channel(self.credit as usize + 1);
        let (settle, settled) = mpsc::unbounded_channel();
        let end = End {
            role: Role::Receiver,
            address: Some(self.address),
            credit: self.credit,
        };
        let deliveries = Deliveries {
            out: deliveries,
            settle,
            settled,
        };
        end.open(self.broker, &self.vhost, receiver, Some(deliveries))
            .await?;
        Ok(Consumer {
            arriving,
            _open: commands,
        })
    }
}

/// Consumes from one queue. When it is dropped, all undecided messages are requeued, to their old
/// positions.
#[derive(Debug)]
pub struct Consumer {
    arriving: mpsc::Receiver<Result<Delivery, LinkError>>,
    /// The engine's task ends when this is dropped.
    _open: mpsc::Sender<Command>,
}

impl Consumer {
    /// The next message, as soon as there is one.
    ///
    /// # Errors
    /// When the broker ended the link: the queue was deleted, for example.
    pub async fn next(&mut self) -> Result<Delivery, LinkError> {
        let next = self.arriving.recv().await;
        next.unwrap_or(Err(LinkError::Stopped))
    }
}
