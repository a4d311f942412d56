//! What was done under a lock, in estimated time: what ends a batch early.

use super::limits::{BATCH_COMMANDS_MAX, BATCH_NS_MAX};

/// One kind of work with what a unit of it takes, about, on the machine of `docs/PERFORMANCE.md`.
/// Ordinary messages are not measured: a batch of as many commands as are allowed takes no longer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// A message that a queue touched beyond the one it was asked about.
    Message,
    /// A command about topology, a consumer, a policy or a request: it looks up, compares, copies.
    Command,
    /// A routing key looked up in an exchange.
    Key,
    /// A node of a topic exchange reached by a word of a key.
    Node,
    /// A copy of a message that entered one of several queues.
    Entry,
    /// A binding or another object copied or compared for somebody who asked.
    Object,
    /// A property of a message passed while looking for another.
    Pair,
    /// A step of a selector: a value, or what is made of values.
    Term,
    /// A character of a text compared with a pattern.
    Char,
    /// Bytes of a text compared or copied, in units of 16.
    Bytes16,
}

impl Step {
    /// What one takes, in nanoseconds.
    pub const fn ns(self) -> u64 {
        match self {
            Self::Message => BATCH_NS_MAX / BATCH_COMMANDS_MAX as u64,
            Self::Command => 4_000,
            Self::Key => 100,
            Self::Node | Self::Pair => 40,
            Self::Entry => 400,
            Self::Object => 300,
            Self::Term => 10,
            Self::Char => 3,
            Self::Bytes16 => 4,
        }
    }
}

/// What may be done under one hold of a lock: then others have their turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HoldBudget {
    /// Commands, or messages that are due.
    pub commands: usize,
    /// Estimated time, in nanoseconds.
    pub ns: u64,
}

/// [`BATCH_COMMANDS_MAX`] and [`BATCH_NS_MAX`]; only simulations have less.
impl Default for HoldBudget {
    fn default() -> Self {
        Self {
            commands: BATCH_COMMANDS_MAX,
            ns: BATCH_NS_MAX,
        }
    }
}

/// Estimated time of the work under one hold of a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Meter {
    spent_ns: u64,
    budget_ns: u64,
}

impl Default for Meter {
    fn default() -> Self {
        Self::new(HoldBudget::default())
    }
}

impl Meter {
    /// A meter for one hold.
    pub const fn new(budget: HoldBudget) -> Self {
        Self {
            spent_ns: 0,
            budget_ns: budget.ns,
        }
    }

    /// Counts so many steps.
    pub const fn charge(&mut self, step: Step, count: usize) {
        self.charge_ns(step.ns().saturating_mul(count as u64));
    }

    /// Counts an estimated time.
    pub const fn charge_ns(&mut self, ns: u64) {
        self.spent_ns = self.spent_ns.saturating_add(ns);
    }

    /// What was counted since it began, in nanoseconds.
    pub const fn spent_ns(&self) -> u64 {
        self.spent_ns
    }

    /// Whether the time is used up: no further command is begun.
    pub const fn is_used_up(&self) -> bool {
        self.spent_ns >= self.budget_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_meter_ends_with_its_time_and_not_before() {
        let mut meter = Meter::default();
        meter.charge(Step::Message, BATCH_COMMANDS_MAX - 1);
        assert!(!meter.is_used_up());
        meter.charge(Step::Message, 2);
        assert!(meter.is_used_up());
        let mut meter = Meter::default();
        meter.charge(Step::Command, usize::MAX);
        assert!(meter.is_used_up(), "it does not wrap around");
    }
}
