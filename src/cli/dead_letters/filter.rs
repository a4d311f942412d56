//! The flags that choose dead letters: the parts of the filter of the HTTP API.

use clap::Args;
use serde_json::{Map, Value, json};

use crate::cli::api::Path;
use crate::cli::deaths::Death;

/// Which messages are meant. All flags that are given must hold; one that is given several times
/// holds if one of its values does. Those about a death look at the latest.
#[derive(Args, Clone, Default)]
pub(in crate::cli) struct FilterFlags {
    /// Only messages that died for this reason
    #[arg(long, value_parser = ["rejected", "expired", "maxlen", "delivery_limit"])]
    reason: Vec<String>,
    /// Only messages that died in this queue
    #[arg(long = "queue", value_name = "QUEUE")]
    died_in: Vec<String>,
    /// Only messages that a consumer rejected with this condition, such as app:bad-order
    #[arg(long, value_name = "CONDITION")]
    condition: Vec<String>,
    #[command(flatten)]
    more: MessageFlags,
}

/// The flags about more than reason, queue and error of a death.
#[derive(Args, Clone, Default)]
struct MessageFlags {
    /// Only messages of this group, such as 1:9c2e41aa
    #[arg(long, value_name = "GROUP")]
    group: Vec<String>,
    /// Only messages that a consumer with this container id failed on
    #[arg(long, value_name = "CONTAINER")]
    container: Vec<String>,
    /// Only messages that a consumer of this user failed on
    #[arg(long = "consumer-user", value_name = "USER")]
    user: Vec<String>,
    /// Only messages that are in the quarantine for this cause; none: that are not
    #[arg(long, value_name = "CAUSE")]
    cause: Vec<String>,
    /// Only messages that came through this exchange before they died
    #[arg(long, value_name = "EXCHANGE")]
    exchange: Vec<String>,
    /// Only messages that had this routing key before they died
    #[arg(long, value_name = "KEY")]
    routing_key: Vec<String>,
    /// Only messages with this message-id
    #[arg(long, value_name = "ID")]
    message_id: Vec<String>,
    /// Only the message at this position
    #[arg(long, value_name = "POSITION")]
    position: Vec<u64>,
    /// Only messages that died at this time or later, in milliseconds since 1970
    #[arg(long, value_name = "MS")]
    died_after: Option<i64>,
    /// Only messages that died before this time, in milliseconds since 1970
    #[arg(long, value_name = "MS")]
    died_before: Option<i64>,
    /// Only messages that were redriven (true), or never were (false)
    #[arg(long, value_name = "BOOL")]
    redriven: Option<bool>,
    /// Only messages that this JMS selector wants, such as "customer = 'c1'"
    #[arg(long, value_name = "SELECTOR")]
    selector: Option<String>,
    /// Only messages with this text in the first MiB of their body
    #[arg(long, value_name = "TEXT")]
    body_contains: Option<String>,
}

/// The states of messages in a queue.
pub(in crate::cli) const STATES: [&str; 4] = ["ready", "unacknowledged", "delayed", "dead_pending"];

/// In which state the messages are that are looked at.
#[derive(Args, Clone, Default)]
pub(in crate::cli) struct StateFlag {
    /// Messages in this state: delayed ones, those that a consumer holds, or dead ones that wait for a
    /// target [default: ready]
    #[arg(long, value_name = "STATE", value_parser = STATES)]
    state: Option<String>,
}

impl StateFlag {
    /// Adds the state to the query of a path, if it is given.
    pub(in crate::cli) fn ask(&self, path: Path) -> Path {
        match &self.state {
            Some(state) => path.query("state", state),
            None => path,
        }
    }

    /// Whether it is given.
    pub(in crate::cli) fn is_given(&self) -> bool {
        self.state.is_some()
    }
}

impl FilterFlags {
    /// Adds the filter to the query of a path.
    pub(in crate::cli) fn ask(&self, path: Path) -> Path {
        let path = self.more.ask(path);
        let lists = [
            ("reason", &self.reason),
            ("queue", &self.died_in),
            ("condition", &self.condition),
        ];
        with_lists(path, lists)
    }

    /// The filter as the field of a body.
    pub(in crate::cli) fn body(&self) -> Map<String, Value> {
        let more = &self.more;
        let parts = [
            ("reason", json!(self.reason)),
            ("queue", json!(self.died_in)),
            ("condition", json!(self.condition)),
            ("group", json!(more.group)),
            ("container", json!(more.container)),
            ("user", json!(more.user)),
            ("cause", json!(more.cause)),
            ("exchange", json!(more.exchange)),
            ("routing_key", json!(more.routing_key)),
            ("message_id", json!(more.message_id)),
            ("position", json!(more.position)),
            ("died_after", json!(more.died_after)),
            ("died_before", json!(more.died_before)),
            ("redriven", json!(more.redriven)),
            ("selector", json!(more.selector)),
            ("body_contains", json!(more.body_contains)),
        ];
        let is_empty = |value: &Value| value.as_array().is_some_and(Vec::is_empty);
        let given = parts.into_iter();
        let given = given.filter(|(_, value)| !value.is_null() && !is_empty(value));
        given
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }

    /// Whether a flag is given.
    pub(in crate::cli) fn is_any(&self) -> bool {
        let nothing = Path::of(&[]);
        self.ask(nothing.clone()) != nothing
    }

    /// Whether a flag about more than reason, queue and error of a death is given.
    pub(in crate::cli) fn asks_for_more(&self) -> bool {
        let nothing = Path::of(&[]);
        self.more.ask(nothing.clone()) != nothing
    }

    /// Whether reason, queue and error are those of a message's latest death: for messages of a broker
    /// that cannot be asked.
    pub(in crate::cli) fn means(&self, latest: Option<&Death>) -> bool {
        let has = |wanted: &[String], found: Option<&String>| {
            wanted.is_empty() || found.is_some_and(|found| wanted.contains(found))
        };
        has(&self.reason, latest.map(|death| &death.reason))
            && has(&self.died_in, latest.map(|death| &death.queue))
            && has(
                &self.condition,
                latest.and_then(|death| death.condition.as_ref()),
            )
    }

    /// Those of a command line.
    #[cfg(test)]
    pub(in crate::cli) fn of(flags: &[&str]) -> Self {
        let command = Self::augment_args(clap::Command::new("deaths").no_binary_name(true));
        let given = command.get_matches_from(flags);
        <Self as clap::FromArgMatches>::from_arg_matches(&given).expect("flags")
    }
}

impl MessageFlags {
    /// Adds this part of the filter to the query of a path.
    fn ask(&self, path: Path) -> Path {
        let lists = [
            ("group", &self.group),
            ("container", &self.container),
            ("user", &self.user),
            ("cause", &self.cause),
            ("exchange", &self.exchange),
            ("routing_key", &self.routing_key),
            ("message_id", &self.message_id),
        ];
        let mut path = with_lists(path, lists);
        for position in &self.position {
            path = path.query("position", &position.to_string());
        }
        let single = [
            ("died_after", self.died_after.map(|ms| ms.to_string())),
            ("died_before", self.died_before.map(|ms| ms.to_string())),
            ("redriven", self.redriven.map(|it| it.to_string())),
            ("selector", self.selector.clone()),
            ("body_contains", self.body_contains.clone()),
        ];
        for (name, value) in single {
            if let Some(value) = value {
                path = path.query(name, &value);
            }
        }
        path
    }
}

/// A path with each value of these parts in its query.
fn with_lists<const N: usize>(mut path: Path, lists: [(&str, &Vec<String>); N]) -> Path {
    for (name, values) in lists {
        for value in values {
            path = path.query(name, value);
        }
    }
    path
}
