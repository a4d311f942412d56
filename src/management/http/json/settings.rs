//! JSON of a queue's effective settings: what counts, what set it, and what that beats.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::value::to_json;
use crate::base::Name;
use crate::broker::QueueDetails;
use crate::broker::arguments::QueueType;
use crate::broker::definition::{KEYS, Subject};
use crate::broker::names::{QUARANTINE, QUARANTINE_IGNORES};
use crate::broker::policy::{EffectiveSettings, Policies, Policy, Rule};
use crate::wire;

/// Settings that only arguments have.
const OF_ARGUMENTS: [&str; 2] = ["max-priority", "single-active-consumer"];
/// Settings for which a queue without any rule has a value: it is the default, or the broker's setting.
const WITH_DEFAULT: [&str; 3] = ["delivery-limit", "max-length", "max-length-bytes"];

/// A value that is given, and what gives it.
type Given<'a> = (Rule, &'a wire::Value);

/// `[{key, value, rule, beats: [{value, rule}]}]` of what somebody set, and of limits that are there by
/// default.
pub fn settings(
    effective: &EffectiveSettings,
    details: &QueueDetails,
    policies: &Policies,
) -> Value {
    let info = &details.info;
    let of = |operator| policies.of_queue(operator, &info.name, details.queue_type);
    let (user, operator) = (of(false), of(true));
    let of_queues = KEYS.iter().filter(|key| key.subject == Subject::Queues);
    let keys = of_queues.map(|key| key.name).chain(OF_ARGUMENTS);
    let keys = keys.filter(|key| info.name != QUARANTINE || !QUARANTINE_IGNORES.contains(key));
    let told = keys.filter_map(|key| {
        let argument = argument(&info.arguments, key).map(|value| (Rule::Argument, value));
        let user = user.and_then(|policy| given(policy, false, key));
        let operator = operator.and_then(|policy| given(policy, true, key));
        // A retry is set by a policy before an argument, as in RabbitMQ.
        let first = if key.starts_with("delayed-retry-") {
            [operator, user, argument]
        } else {
            [operator, argument, user]
        };
        let given: Vec<Given<'_>> = first.into_iter().flatten().collect();
        setting(key, effective, &given)
    });
    told.collect()
}

fn argument<'a>(arguments: &'a [(Name, wire::Value)], key: &str) -> Option<&'a wire::Value> {
    let found = arguments
        .iter()
        .find(|(name, _)| name.strip_prefix("x-") == Some(key));
    found.map(|(_, value)| value)
}

fn given<'a>(policy: &'a Policy, operator: bool, key: &str) -> Option<Given<'a>> {
    let (_, value) = policy.given.iter().find(|(name, _)| &**name == key)?;
    let name = policy.name.clone();
    let rule = if operator {
        Rule::OperatorPolicy(name)
    } else {
        Rule::Policy(name)
    };
    Some((rule, value))
}

/// One setting: the first that gives the value that counts gives it. Where several values were joined, or
/// the value means that there is none, it is the first at all.
fn setting(key: &str, effective: &EffectiveSettings, given: &[Given<'_>]) -> Option<Value> {
    let counts = value_of(effective, key);
    let Some(first) = given.first() else {
        let value = counts.filter(|_| WITH_DEFAULT.contains(&key))?;
        let rule = if key == "delivery-limit" && effective.queue_type == QueueType::Quorum {
            "the default of quorum queues"
        } else {
            "the broker"
        };
        return Some(json!({"key": key, "value": value, "rule": rule, "beats": []}));
    };
    let is_winner = |(_, value): &&Given<'_>| Some(to_json(value)) == counts;
    let winner = given.iter().find(is_winner).unwrap_or(first);
    let value = counts.unwrap_or_else(|| to_json(winner.1));
    let beaten = given.iter().filter(|(rule, _)| *rule != winner.0);
    let beaten =
        beaten.map(|(rule, value)| json!({"value": to_json(value), "rule": &*rule.words()}));
    Some(json!({
        "key": key,
        "value": value,
        "rule": &*winner.0.words(),
        "beats": beaten.collect::<Vec<_>>(),
    }))
}

/// The value that counts; none: there is none, or it is made of several settings.
fn value_of(effective: &EffectiveSettings, key: &str) -> Option<Value> {
    let text = |name: &Option<Name>| name.as_deref().map(|name| Cow::Owned(name.to_owned()));
    let word = |word: &'static str| Some(Cow::Borrowed(word));
    let text: Option<Cow<'static, str>> = match key {
        "dead-letter-exchange" => text(&effective.dead_letter_exchange),
        "dead-letter-routing-key" => text(&effective.dead_letter_routing_key),
        "dead-letter-strategy" => word(effective.dead_letter_strategy.as_str()),
        "on-undeliverable" => effective
            .on_undeliverable
            .and_then(|one| word(one.as_str())),
        "overflow" => word(effective.overflow.as_str()),
        _ => None,
    };
    if let Some(text) = text {
        return Some(json!(text));
    }
    let retry = effective.delayed_retry.map(|retry| retry.bounds_ms());
    let number = match key {
        "max-length" => effective.max_length,
        "max-length-bytes" => effective.max_length_bytes,
        "message-ttl" => effective.message_ttl_ms,
        "expires" => effective.expires_ms,
        "delivery-limit" => effective.delivery_limit.map(u64::from),
        "max-priority" => effective.max_priority.map(u64::from),
        "consumer-timeout" => effective.consumer_timeout_ms,
        "delayed-retry-min" => retry.map(|(min_ms, _)| min_ms),
        "delayed-retry-max" => retry.map(|(_, max_ms)| max_ms),
        "single-active-consumer" => return Some(json!(effective.single_active_consumer)),
        "poison-isolation" => return Some(json!(effective.poison_isolation)),
        _ => None,
    };
    number.map(|number| json!(number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{Now, Seed};
    use crate::broker::policy::PolicySpec;
    use crate::broker::{Command, Core, CoreOptions, Effects, QueueCommand, TopologyCommand};
    use crate::wire::Value as Wire;

    fn text(text: &str) -> Wire {
        Wire::String(text.into())
    }

    fn policy(operator: bool, name: &str, definition: &[(&str, Wire)]) -> Command {
        let definition = definition.iter();
        let spec = PolicySpec {
            name: Name::from(name),
            pattern: "^q$",
            priority: 0,
            apply_to: "queues",
            definition: definition
                .map(|(key, value)| (Name::from(*key), value.clone()))
                .collect(),
        };
        let policy = Box::new(Policy::new(operator, spec).unwrap());
        Command::Topology(TopologyCommand::PolicySet { operator, policy })
    }

    /// A queue `q` with two policies.
    fn core() -> Core {
        let mut core = Core::new(CoreOptions::new(Name::from("v"), Seed(1)));
        let mine = [
            ("dead-letter-exchange", text("a")),
            ("max-length", Wire::Long(5)),
            ("delayed-retry-type", text("all")),
            ("delayed-retry-min", Wire::Long(1000)),
        ];
        let net = [
            ("max-length", Wire::Long(7)),
            ("dead-letter-exchange", text("c")),
        ];
        let declare = Command::Queue(QueueCommand::Declare {
            connection: None,
            name: Name::from("q"),
            durable: true,
            exclusive: false,
            auto_delete: false,
            arguments: vec![
                (Name::from("x-dead-letter-exchange"), text("b")),
                (Name::from("x-queue-type"), text("quorum")),
                (Name::from("x-delayed-retry-type"), text("failed")),
                (Name::from("x-message-ttl"), Wire::Long(60_000)),
            ],
        });
        for command in [
            policy(false, "mine", &mine),
            policy(true, "net", &net),
            declare,
        ] {
            core.apply(Now::default(), command, &mut Effects::new());
        }
        core
    }

    #[test]
    fn each_setting_says_what_set_it_and_what_that_beats() {
        let core = core();
        let queue = core.queue("q").unwrap();
        let told = settings(&queue.settings, &queue.details(), core.policies());
        let beaten = |value: Value, rule: &str| json!({"value": value, "rule": rule});
        let one = |key: &str, value: Value, rule: &str, beats: &[Value]| json!({"key": key, "value": value, "rule": rule, "beats": beats});
        let expected = [
            one(
                "dead-letter-exchange",
                json!("c"),
                "operator-policy net",
                &[
                    beaten(json!("b"), "argument"),
                    beaten(json!("a"), "policy mine"),
                ],
            ),
            one("delayed-retry-min", json!(1000), "policy mine", &[]),
            one(
                "delayed-retry-type",
                json!("all"),
                "policy mine",
                &[beaten(json!("failed"), "argument")],
            ),
            one(
                "delivery-limit",
                json!(20),
                "the default of quorum queues",
                &[],
            ),
            one(
                "max-length",
                json!(5),
                "policy mine",
                &[beaten(json!(7), "operator-policy net")],
            ),
            one("message-ttl", json!(60_000), "argument", &[]),
        ];
        assert_eq!(told, json!(expected));
    }
}
