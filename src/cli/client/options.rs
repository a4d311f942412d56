//! Options for the node of a broker: by its whole address, or by names of queues and exchanges.

use clap::Args;

use crate::base::Name;
use crate::cli::exit::Failure;

/// Where messages go to.
#[derive(Args, Clone, Debug)]
#[group(id = "target", required = true, multiple = true)]
pub(super) struct To {
    /// Address as the broker knows it: '/queues/orders', or a name on other brokers
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["queue", "exchange"])]
    address: Option<String>,
    /// Queue
    #[arg(long, conflicts_with = "exchange")]
    queue: Option<String>,
    /// Exchange
    #[arg(long)]
    exchange: Option<String>,
    /// Routing key
    #[arg(long, visible_alias = "routing-key", requires = "exchange")]
    key: Option<String>,
}

/// Where messages come from.
#[derive(Args, Clone, Debug)]
#[group(id = "source", required = true, multiple = false)]
pub(super) struct From {
    /// Queue
    queue: Option<String>,
    /// Address as the broker knows it, in place of a queue
    #[arg(long, value_name = "ADDRESS")]
    address: Option<String>,
}

impl To {
    /// The address of the target.
    pub(super) fn address(&self) -> Result<String, Failure> {
        match (&self.address, &self.queue, &self.exchange, &self.key) {
            (Some(address), ..) => Ok(address.clone()),
            (None, Some(queue), ..) => Ok(format!("/queues/{}", encoded(queue))),
            (None, None, Some(exchange), None) => Ok(format!("/exchanges/{}", encoded(exchange))),
            (None, None, Some(exchange), Some(key)) => {
                Ok(format!("/exchanges/{}/{}", encoded(exchange), encoded(key)))
            }
            _ => Err(Failure::usage("where to? --queue, --exchange or --address")),
        }
    }
}

impl From {
    /// The address of the source.
    pub(super) fn address(&self) -> Result<String, Failure> {
        match (&self.address, &self.queue) {
            (Some(address), _) => Ok(address.clone()),
            (None, Some(queue)) => Ok(format!("/queues/{}", encoded(queue))),
            _ => Err(Failure::usage("where from? a queue or --address")),
        }
    }
}

fn encoded(name: &str) -> String {
    Name::from(name).percent_encoded()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_have_the_addresses_of_version_2() {
        let check = |queue: Option<&str>, exchange: Option<&str>, key: Option<&str>, expected| {
            let to = To {
                address: None,
                queue: queue.map(str::to_owned),
                exchange: exchange.map(str::to_owned),
                key: key.map(str::to_owned),
            };
            assert_eq!(to.address().unwrap(), expected);
        };
        check(Some("a/b c"), None, None, "/queues/a%2Fb%20c");
        check(None, Some("x"), None, "/exchanges/x");
        check(None, Some("x"), Some("a.b"), "/exchanges/x/a.b");
    }
}
