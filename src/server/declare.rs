//! Declaring queues, exchanges and bindings, for programs that embed the broker.

use super::admin::Admin;
use crate::base::Name;
use crate::broker::{Command, Destination, QueueCommand, Reply, TopologyCommand};
use crate::management::Refusal;
use crate::wire::Value;

impl Admin {
    /// Declares a durable queue, with arguments such as `x-dead-letter-exchange`; it may exist
    /// already, with the same. Ready once it is durable; returns whether it was created.
    ///
    /// 400: an argument is invalid. 404: there is no such vhost. 409: it exists with other
    /// arguments.
    pub async fn declare_queue(
        &self,
        vhost: &str,
        name: &str,
        arguments: &[(&str, Value)],
    ) -> Result<bool, Refusal> {
        let declare = QueueCommand::Declare {
            connection: None,
            name: Name::from(name),
            durable: true,
            exclusive: false,
            auto_delete: false,
            arguments: named(arguments),
        };
        let reply = self.apply(vhost, Command::Queue(declare)).await?;
        Ok(matches!(reply, Reply::QueueDeclared { created: true, .. }))
    }

    /// Deletes a queue with its messages; returns the number of ready ones.
    ///
    /// 404: there is no such vhost.
    pub async fn delete_queue(&self, vhost: &str, name: &str) -> Result<u64, Refusal> {
        let delete = QueueCommand::Delete {
            connection: None,
            name: Name::from(name),
            if_unused: false,
            if_empty: false,
        };
        match self.apply(vhost, Command::Queue(delete)).await? {
            Reply::QueueDeleted { messages, .. } => Ok(messages),
            _ => Ok(0),
        }
    }

    /// Declares a durable exchange of a kind: `direct`, `fanout`, `topic`, `headers` or
    /// `x-local-random`. Ready once it is durable; returns whether it was created.
    ///
    /// 400: an argument is invalid. 404: there is no such vhost. 409: it exists with other
    /// properties.
    pub async fn declare_exchange(
        &self,
        vhost: &str,
        name: &str,
        kind: &str,
        arguments: &[(&str, Value)],
    ) -> Result<bool, Refusal> {
        let declare = TopologyCommand::ExchangeDeclare {
            name: Name::from(name),
            kind: Name::from(kind),
            durable: true,
            auto_delete: false,
            internal: false,
            arguments: named(arguments),
        };
        let reply = self.apply(vhost, Command::Topology(declare)).await?;
        Ok(matches!(
            reply,
            Reply::ExchangeDeclared { created: true, .. }
        ))
    }

    /// Binds a queue to an exchange by a key, or by arguments if the exchange's kind needs them.
    /// Ready once it is durable.
    ///
    /// 404: there is no such vhost, exchange or queue.
    pub async fn bind_queue(
        &self,
        vhost: &str,
        (exchange, key): (&str, &str),
        queue: &str,
        arguments: &[(&str, Value)],
    ) -> Result<(), Refusal> {
        let bind = TopologyCommand::Bind {
            connection: None,
            source: Name::from(exchange),
            destination: Destination::Queue(Name::from(queue)),
            key: Name::from(key),
            arguments: named(arguments),
        };
        self.apply(vhost, Command::Topology(bind)).await?;
        Ok(())
    }
}

fn named(arguments: &[(&str, Value)]) -> Vec<(Name, Value)> {
    let arguments = arguments.iter();
    arguments
        .map(|(name, value)| (Name::from(*name), value.clone()))
        .collect()
}
