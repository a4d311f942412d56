//! Warnings about policies that are set, and about queues and exchanges that are declared.

use super::{Core, Turn};
use crate::base::limits::{BATCH_NS_MAX, MISSPELLED_LOOKED_AT_MAX};
use crate::base::{HoldBudget, Meter, Name, nearest};
use crate::broker::arguments::KNOWN as QUEUE_ARGUMENTS;
use crate::broker::definition::{Subject, key};
use crate::broker::exchange::{ALTERNATE_EXCHANGE, ExchangeSpec};
use crate::broker::policy::ApplyTo;
use crate::broker::queue::Queue;
use crate::broker::router::DEFAULT_EXCHANGE;
use crate::broker::{Declared, LogEvent, ObjectKind, Policy, Warning};
use crate::wire::Value;

/// Warns of unknown arguments whose name is nearly that of a known one.
fn misspelled(
    given: &[(Name, Value)],
    known: &'static [&'static str],
) -> impl Iterator<Item = Warning> {
    let unknown = given.iter().filter(|(name, _)| !known.contains(&&**name));
    let looked_at = unknown.take(MISSPELLED_LOOKED_AT_MAX);
    looked_at.filter_map(|(name, _)| {
        Some(Warning::Misspelled {
            setting: name.clone(),
            nearest: nearest(name, known.iter().copied())?,
        })
    })
}

/// A meter for following the dead letters of one queue, for half of a hold.
pub(super) fn cycle_meter() -> Meter {
    Meter::new(HoldBudget {
        ns: BATCH_NS_MAX / 2,
        ..HoldBudget::default()
    })
}

impl Turn<'_> {
    /// Logs the warnings about an object.
    pub(super) fn warn(&mut self, kind: ObjectKind, name: &Name, warnings: &[Warning]) {
        let events = warnings.iter().map(|warning| LogEvent::Warned {
            kind,
            name: name.clone(),
            warning: warning.clone(),
        });
        self.effects.log.extend(events);
    }
}

impl Core {
    /// The warnings that apply now to an existing policy, operator policy, queue or exchange.
    pub fn warnings_of(&self, declared: &Declared) -> Vec<Warning> {
        let warnings = match declared {
            Declared::Policy { operator, name } => {
                let policy = self.policies.get(*operator, name);
                policy.map(|policy| self.policy_warnings(policy))
            }
            Declared::Queue(name) => {
                let queue = self.queue(name);
                queue.map(|queue| self.queue_warnings(queue, &mut cycle_meter()))
            }
            Declared::Exchange(name) => {
                let exchange = self.router.exchange_named(name);
                exchange.map(|exchange| self.exchange_warnings(&exchange.spec))
            }
        };
        warnings.unwrap_or_default()
    }

    pub(super) fn policy_warnings(&self, policy: &Policy) -> Vec<Warning> {
        let definition = &policy.definition;
        let mut warnings = Vec::new();
        if policy.apply_to == ApplyTo::Streams {
            warnings.push(Warning::NoEffect {
                setting: Name::from("apply-to"),
                why: "there are no streams here",
            });
        }
        for (setting, _) in &policy.given {
            let why = match key(setting).map(|key| key.subject) {
                Some(Subject::Nothing) => "there is nothing here that it could change",
                Some(Subject::Queues) if policy.apply_to == ApplyTo::Exchanges => {
                    "it is about queues, and the policy applies to exchanges"
                }
                Some(Subject::Exchanges) if !policy.apply_to.covers_exchanges() => {
                    "it is about exchanges, and the policy does not apply to them"
                }
                _ => continue,
            };
            let setting = setting.clone();
            warnings.push(Warning::NoEffect { setting, why });
        }
        if policy.apply_to.covers_queues() {
            let (exchange, routing_key) = (
                &definition.dead_letter_exchange,
                &definition.dead_letter_routing_key,
            );
            let setting = "dead-letter-exchange";
            warnings.extend(self.target_warning(setting, exchange.as_ref(), routing_key.as_ref()));
            if exchange.is_none() && routing_key.is_some() {
                let setting = Name::from("dead-letter-routing-key");
                warnings.push(Warning::KeyWithoutExchange { setting });
            }
        }
        if policy.apply_to.covers_exchanges() {
            let exchange = definition.alternate_exchange.as_ref();
            warnings.extend(self.target_warning("alternate-exchange", exchange, None));
        }
        warnings
    }

    /// The meter takes what following the dead letters of the queue costs.
    pub(super) fn queue_warnings(&self, queue: &Queue, meter: &mut Meter) -> Vec<Warning> {
        let exchange = queue.arguments.dead_letter_exchange.as_ref();
        let routing_key = queue.settings.dead_letter_routing_key.as_ref();
        let warning = self.target_warning("x-dead-letter-exchange", exchange, routing_key);
        let given = queue.arguments.echoed();
        let misspelled = misspelled(given, &QUEUE_ARGUMENTS);
        let lacks_min = queue.arguments.delayed_retry.lacks_min();
        let is_off = lacks_min && queue.settings.delayed_retry.is_none();
        let off = is_off.then(|| Warning::NoEffect {
            setting: Name::from("x-delayed-retry-type"),
            why: "x-delayed-retry-min is missing",
        });
        let cycle = self.cycle_through(queue, meter);
        let warnings = warning.into_iter().chain(misspelled).chain(off);
        warnings.chain(cycle).collect()
    }

    pub(super) fn exchange_warnings(&self, spec: &ExchangeSpec) -> Vec<Warning> {
        let exchange = spec.alternate_exchange().ok().flatten();
        let warning = self.target_warning("alternate-exchange", exchange.as_ref(), None);
        let misspelled = misspelled(&spec.arguments, &[ALTERNATE_EXCHANGE]);
        warning.into_iter().chain(misspelled).collect()
    }

    /// Warns if messages for this exchange reach no queue under the current topology.
    fn target_warning(
        &self,
        setting: &str,
        exchange: Option<&Name>,
        routing_key: Option<&Name>,
    ) -> Option<Warning> {
        let (setting, exchange) = (Name::from(setting), exchange?.clone());
        let id = if exchange.is_empty() {
            DEFAULT_EXCHANGE
        } else {
            match self.router.exchange_named(&exchange) {
                Some(found) => found.id,
                None => return Some(Warning::ExchangeMissing { setting, exchange }),
            }
        };
        if self.router.leads_anywhere(id, routing_key) {
            return None;
        }
        let key = routing_key.cloned();
        Some(Warning::NothingBound {
            setting,
            exchange,
            key,
        })
    }
}
