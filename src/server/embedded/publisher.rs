//! Publishing from within the process.

use tokio::sync::{mpsc, oneshot};

use super::engine::{Command, End};
use super::{AmqpError, LinkError, Message};
use crate::base::limits::EMBEDDED_WAITING_MAX;
use crate::server::Broker;
use crate::wire::performative::{DeliveryState, Role};

/// The outcome of a published message.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// Each queue that it was routed to has it, as safe as the settings promise: a durable message
    /// in a durable queue is in the journal.
    Accepted,
    /// A queue did not take it: a full queue that refuses, for example.
    Rejected(Option<AmqpError>),
    /// It was routed to no queue.
    Released,
    /// The peer wants it changed. This broker does not answer so.
    Modified {
        /// Whether the attempt counts as failed.
        delivery_failed: bool,
        /// Whether it must not be sent here again.
        undeliverable_here: bool,
    },
}

impl Outcome {
    pub(super) fn of(state: &DeliveryState) -> Self {
        match state {
            DeliveryState::Accepted => Self::Accepted,
            DeliveryState::Rejected { error } => {
                Self::Rejected(error.as_deref().map(AmqpError::of))
            }
            DeliveryState::Modified {
                delivery_failed,
                undeliverable_here,
                ..
            } => Self::Modified {
                delivery_failed: delivery_failed.unwrap_or(false),
                undeliverable_here: undeliverable_here.unwrap_or(false),
            },
            // The engine settles with terminal outcomes only.
            _ => Self::Released,
        }
    }
}

/// Builds a [`Publisher`]; see [`Broker::publisher`].
#[derive(Debug)]
#[must_use = "a builder does nothing until it is opened"]
pub struct PublisherBuilder<'a> {
    broker: &'a Broker,
    address: Option<String>,
    vhost: String,
}

impl Broker {
    /// Publishes from within the process: to `/queues/NAME`, to `/exchanges/NAME/KEY`, or to any other
    /// address that AMQP clients may name.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use coroner::{Broker, Message, Outcome};
    ///
    /// let broker = Broker::builder().start().await?;
    /// broker.admin().declare_queue("/", "jobs", &[]).await?;
    /// let publisher = broker.publisher("/queues/jobs").open().await?;
    /// let outcome = publisher.publish(Message::new("dig").subject("garden")).await?;
    /// assert_eq!(outcome, Outcome::Accepted);
    /// # broker.stop().await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn publisher(&self, address: impl Into<String>) -> PublisherBuilder<'_> {
        PublisherBuilder {
            broker: self,
            address: Some(address.into()),
            vhost: "/".to_owned(),
        }
    }
}

impl PublisherBuilder<'_> {
    /// Sets the vhost. Default: `/`.
    pub fn vhost(mut self, name: impl Into<String>) -> Self {
        self.vhost = name.into();
        self
    }

    /// Without an address: each message has one, set by [`Message::to`].
    pub fn anonymous(mut self) -> Self {
        self.address = None;
        self
    }

    /// Begins to publish. Must be called within the tokio runtime.
    ///
    /// # Errors
    /// When there is no such vhost, queue or exchange.
    pub async fn open(self) -> Result<Publisher, LinkError> {
        let (commands, receiver) = mpsc::channel(EMBEDDED_WAITING_MAX);
        let end = End {
            role: Role::Sender,
            address: self.address,
            credit: 0,
        };
        end.open(self.broker, &self.vhost, receiver, None).await?;
        Ok(Publisher { commands })
    }
}

/// Publishes to one address. Clones share its link, which is detached when the last one is dropped.
#[derive(Clone, Debug)]
pub struct Publisher {
    commands: mpsc::Sender<Command>,
}

impl Publisher {
    /// Publishes a message and waits for its outcome, and first for credit: in an alarm as long as
    /// that lasts. May be called again meanwhile; messages are sent in the order of the calls.
    ///
    /// When the broker ended the link, or the message is too large. Then it is not known whether it
    /// was accepted, except with [`LinkError::TooLarge`].
    pub async fn publish(&self, message: impl Into<Message>) -> Result<Outcome, LinkError> {
        let (outcome, told) = oneshot::channel();
        let publish = Command::Publish {
            message: message.into().encode(),
            outcome,
        };
        let sent = self.commands.send(publish).await;
        sent.map_err(|_| LinkError::Stopped)?;
        told.await.unwrap_or(Err(LinkError::Stopped))
    }
}
