//! Commands for policies and operator policies.

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use serde_json::json;

use super::{Task, confirm, parse_object};
use crate::cli::api::{Api, Path};
use crate::cli::exit::Failure;
use crate::cli::output::Output;

/// Sets a policy: gives keys to all queues or exchanges whose names match
///
/// The policy with the highest priority that matches applies, alone. It takes effect at once, also
/// on what exists. Arguments given at declaration win over it, except that of two limits the
/// smaller one holds.
#[derive(Args)]
pub(super) struct SetPolicy {
    #[command(flatten)]
    policy: Policy,
}

/// Sets an operator policy: limits that lie over the policies of users
#[derive(Args)]
pub(super) struct SetOperatorPolicy {
    #[command(flatten)]
    policy: Policy,
}

/// Removes a policy
#[derive(Args)]
pub(super) struct ClearPolicy {
    /// Name of the policy
    name: String,
}

/// Removes an operator policy
#[derive(Args)]
pub(super) struct ClearOperatorPolicy {
    /// Name of the operator policy
    name: String,
}

// No documentation comment: it would replace those of the commands.
#[derive(Args)]
struct Policy {
    /// Name of the policy; one of that name is replaced
    name: String,
    /// Regular expression; it matches where it is found in a name
    pattern: String,
    /// Keys and values, as a JSON object
    definition: String,
    /// Of several policies that match, the one with the highest number applies
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    priority: i64,
    /// What it applies to
    #[arg(long, value_enum, default_value = "all")]
    apply_to: ApplyTo,
}

/// What a policy applies to.
#[derive(Clone, Copy, ValueEnum)]
#[value(rename_all = "snake_case")]
enum ApplyTo {
    /// Queues and exchanges
    All,
    /// Queues of every type
    Queues,
    /// Classic queues
    ClassicQueues,
    /// Quorum queues
    QuorumQueues,
    /// Streams
    Streams,
    /// Exchanges
    Exchanges,
}

impl Policy {
    fn set(self, kind: &str, words: &str, api: &Api, out: Output) -> Result<(), Failure> {
        let definition = parse_object("the definition", &self.definition)?;
        let apply_to = self.apply_to.to_possible_value();
        let body = json!({
            "pattern": self.pattern,
            "definition": definition,
            "priority": self.priority,
            "apply-to": apply_to.as_ref().map(PossibleValue::get_name),
        });
        let answer = api.put(&Path::of(&[kind, api.vhost(), &self.name]), &body)?;
        let (name, vhost, pattern) = (self.name, api.vhost(), self.pattern);
        let text = format!("{words} '{name}' set for pattern '{pattern}' in vhost '{vhost}'");
        confirm(out, &answer, text)
    }
}

fn clear(name: &str, kind: &str, words: &str, api: &Api, out: Output) -> Result<(), Failure> {
    let vhost = api.vhost();
    let answer = api.delete(&Path::of(&[kind, vhost, name]))?;
    confirm(
        out,
        &answer,
        format_args!("{words} '{name}' cleared in vhost '{vhost}'"),
    )
}

impl Task for SetPolicy {
    const NAME: &'static str = "set_policy";
    const EXAMPLES: &'static [&'static str] = &[
        r#"set_policy DLX ".*" '{"dead-letter-exchange":"my-dlx"}' --apply-to queues"#,
        r#"set_policy -p orders --priority 7 TTL "^orders" '{"message-ttl":60000}'"#,
    ];

    fn run(self, api: &Api, out: Output) -> Result<(), Failure> {
        self.policy.set("policies", "policy", api, out)
    }
}

impl Task for SetOperatorPolicy {
    const NAME: &'static str = "set_operator_policy";
    const EXAMPLES: &'static [&'static str] =
        &[r#"set_operator_policy limits "^q" '{"max-length":1000}' --apply-to queues"#];

    fn run(self, api: &Api, out: Output) -> Result<(), Failure> {
        self.policy
            .set("operator-policies", "operator policy", api, out)
    }
}

impl Task for ClearPolicy {
    const NAME: &'static str = "clear_policy";
    const EXAMPLES: &'static [&'static str] = &["clear_policy DLX", "clear_policy -p orders TTL"];

    fn run(self, api: &Api, out: Output) -> Result<(), Failure> {
        clear(&self.name, "policies", "policy", api, out)
    }
}

impl Task for ClearOperatorPolicy {
    const NAME: &'static str = "clear_operator_policy";
    const EXAMPLES: &'static [&'static str] = &["clear_operator_policy limits"];

    fn run(self, api: &Api, out: Output) -> Result<(), Failure> {
        clear(&self.name, "operator-policies", "operator policy", api, out)
    }
}
