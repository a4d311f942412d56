//! Where the effective settings of a queue come from.

use super::arguments::QueueArguments;
use super::policy::{EffectiveSettings, Policy, Rule};

/// The settings of a queue with and without each of the rules that set them. Which rule set a value
/// is found by leaving rules out, so that the order of precedence is written down only in
/// [`EffectiveSettings::of`].
#[derive(Debug)]
pub struct Origins {
    all: EffectiveSettings,
    without_operator: EffectiveSettings,
    without_policy: EffectiveSettings,
    plain: EffectiveSettings,
    policy: Option<Rule>,
    operator: Option<Rule>,
}

impl Origins {
    /// The origins for a queue with these arguments, under a policy and an operator policy.
    pub fn of(
        arguments: &QueueArguments,
        policy: Option<&Policy>,
        operator: Option<&Policy>,
    ) -> Self {
        let plain = QueueArguments::of_type(arguments.queue_type);
        Self {
            all: EffectiveSettings::of(arguments, policy, operator),
            without_operator: EffectiveSettings::of(arguments, policy, None),
            without_policy: EffectiveSettings::of(arguments, None, operator),
            plain: EffectiveSettings::of(&plain, None, None),
            policy: policy.map(|policy| Rule::Policy(policy.name.clone())),
            operator: operator.map(|policy| Rule::OperatorPolicy(policy.name.clone())),
        }
    }

    /// What set a value; none: nothing did, it is the default. Of two rules that set the same value
    /// it is that of the argument or of the policy.
    pub fn rule_of<T: PartialEq>(&self, value: impl Fn(&EffectiveSettings) -> T) -> Option<Rule> {
        let all = value(&self.all);
        if all != value(&self.without_operator) {
            return self.operator.clone();
        }
        if all != value(&self.without_policy) {
            return self.policy.clone();
        }
        (all != value(&self.plain)).then_some(Rule::Argument)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Name;
    use crate::broker::arguments::{QueueProperties, QueueType};
    use crate::broker::policy::PolicySpec;
    use crate::wire::Value;

    fn policy(operator: bool, definition: &[(&str, Value)]) -> Policy {
        let definition = definition.iter();
        let definition = definition.map(|(key, value)| (Name::from(*key), value.clone()));
        let spec = PolicySpec {
            name: Name::from(if operator { "bounds" } else { "keep" }),
            pattern: ".*",
            priority: 0,
            apply_to: "all",
            definition: definition.collect(),
        };
        Policy::new(operator, spec).unwrap()
    }

    fn arguments(given: &[(&str, Value)]) -> QueueArguments {
        let given = given.iter();
        let given: Vec<_> = given
            .map(|(key, value)| (Name::from(*key), value.clone()))
            .collect();
        let properties = QueueProperties {
            durable: true,
            exclusive: false,
            auto_delete: false,
        };
        QueueArguments::parse(&Name::from("q"), properties, &given).unwrap()
    }

    #[test]
    fn each_value_is_traced_to_the_rule_without_which_it_would_be_another() {
        let number = Value::Ulong;
        let given = arguments(&[
            ("x-queue-type", Value::String("quorum".to_owned())),
            ("x-max-length", number(10)),
            ("x-message-ttl", number(5_000)),
        ]);
        let keep = policy(
            false,
            &[("max-length", number(20)), ("message-ttl", number(1_000))],
        );
        let bounds = policy(true, &[("max-length", number(20)), ("expires", number(7))]);
        let origins = Origins::of(&given, Some(&keep), Some(&bounds));
        let rule = |found: Option<Rule>| found.map(|rule| rule.words().to_string());
        let length = origins.rule_of(|settings| settings.max_length);
        assert_eq!(
            rule(length).as_deref(),
            Some("argument"),
            "the smallest is the argument's"
        );
        let ttl = origins.rule_of(|settings| settings.message_ttl_ms);
        assert_eq!(rule(ttl).as_deref(), Some("policy keep"));
        let expires = origins.rule_of(|settings| settings.expires_ms);
        assert_eq!(rule(expires).as_deref(), Some("operator-policy bounds"));
        // The limit of 20 comes with the type of the queue.
        assert_eq!(given.queue_type, QueueType::Quorum);
        assert_eq!(origins.rule_of(|settings| settings.delivery_limit), None);
        assert_eq!(origins.all.delivery_limit, Some(20));
    }
}
