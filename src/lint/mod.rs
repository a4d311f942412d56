//! Layer 8: the linter: what will go wrong with dead letters, found in the topology before a message
//! dies.
//!
//! Promises: where dead letters go is asked of the functions by which messages die and are routed;
//! a finding that claims a fate carries a witness, a message that met it in a core of its own. Never:
//! no sockets, no clock, no lock of a running broker: it reads a copy of the topology.
//!
//! Read first: [`Sandbox`], [`lint`], [`Rule`].

mod behind;
mod budget;
mod finding;
mod graph;
mod keys;
mod map;
mod report;
mod rules;
mod sandbox;
mod sorted;
#[cfg(test)]
mod tests;
mod topology;
mod witness;

pub use finding::{Finding, Rule, Severity, Subject, Witness};
pub use graph::{Figures, Graph};
pub use report::{Report, Silence, counted, not_looked_at, sarif, text};
pub use rules::OWN_KEYS;
pub use sandbox::Sandbox;
pub use sorted::Sorted;
pub use topology::{NotRead, PARAMETER, Topology, Unknown};

use std::collections::BTreeMap;

use self::budget::Budget;
use self::map::Map;
use self::rules::Loop;
use crate::base::Name;
use crate::base::limits;
use crate::base::order::{sort_and_dedup, sort_by};
use crate::broker::Core;

/// Who is to run the topology.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Target {
    /// This broker runs it.
    #[default]
    Coroner,
    /// A RabbitMQ 4 runs it: what it does otherwise, or does not know, is a finding.
    Rabbitmq,
}

/// What was found in a topology.
#[derive(Debug)]
pub(crate) struct Found {
    /// The worst first, then by rule and object.
    pub(crate) findings: Vec<Finding>,
    /// How many are silenced, and not among them.
    pub(crate) silenced: usize,
    /// How many were too many.
    pub(crate) left_out: usize,
    /// What it takes too long to look at.
    pub(crate) not_looked_at: Vec<NotRead>,
}

/// Looks at a topology.
pub(crate) fn lint(sandbox: &mut Sandbox, target: Target, silences: &[Silence]) -> Found {
    lint_within(sandbox, target, silences, Budget::default())
}

/// Looks at a topology, as far as the budget goes.
fn lint_within(
    sandbox: &mut Sandbox,
    target: Target,
    silences: &[Silence],
    budget: Budget,
) -> Found {
    let map = Map::draw(sandbox, target, budget);
    let loops = rules::find_loops(sandbox.core(), &map);
    let mut found = find(sandbox.core(), (&map, &loops), target, silences);
    witness::testify(sandbox, &mut found.findings);
    found
}

/// What was found, counted.
#[derive(Debug)]
pub(crate) struct Counted {
    /// How many findings of each rule there are.
    pub(crate) by_rule: Vec<(Rule, u64)>,
    /// The rules that each queue breaks, by their numbers.
    pub(crate) by_queue: BTreeMap<Name, Vec<Rule>>,
}

/// How many findings of each rule there are, and which of them are about each queue; no witness is tried.
pub(crate) fn count(sandbox: &Sandbox, silences: &[Silence]) -> Counted {
    let core = sandbox.core();
    let map = Map::draw(sandbox, Target::Coroner, Budget::default());
    let loops = rules::find_loops(core, &map);
    let findings = find(core, (&map, &loops), Target::Coroner, silences).findings;
    let counts = Rule::ALL.into_iter().map(|rule| {
        let of_rule = findings.iter().filter(|finding| finding.rule == rule);
        (rule, of_rule.count() as u64)
    });
    let by_rule = counts.filter(|(_, count)| *count > 0).collect();
    let mut by_queue: BTreeMap<Name, Vec<Rule>> = BTreeMap::new();
    for finding in findings {
        if let Subject::Queue(queue) = finding.subject {
            by_queue.entry(queue).or_default().push(finding.rule);
        }
    }
    for rules in by_queue.values_mut() {
        sort_and_dedup(rules);
    }
    Counted { by_rule, by_queue }
}

/// What the rules find on a map; no witness is tried.
fn find(core: &Core, (map, loops): (&Map, &[Loop]), target: Target, silences: &[Silence]) -> Found {
    let mut findings = rules::all(core, map, loops, target);
    sort_by(&mut findings, |a, b| a.order().cmp(&b.order()));
    findings.dedup_by(|a, b| a.order() == b.order());
    let all = findings.len();
    findings.retain(|finding| !silences.iter().any(|silence| silence.covers(finding)));
    let silenced = all - findings.len();
    rules::leave_causes_out(core, map, loops, &mut findings);
    let told = findings.len();
    findings.truncate(limits::LINT_FINDINGS_MAX);
    Found {
        silenced,
        left_out: told - findings.len(),
        not_looked_at: map.budget.not_looked_at(core.vhost()),
        findings,
    }
}
