//! Metering of the work under a lock in estimated time, by which a batch is ended early.

use std::cell::Cell;
use std::ops::ControlFlow;

use super::limits::{BATCH_COMMANDS_MAX, BATCH_NS_MAX, ROUTING_STEPS_MAX};

/// A kind of work, with the estimated cost of one unit on the machine of `docs/PERFORMANCE.md`.
/// Ordinary messages are not metered: a batch of as many commands as are allowed takes no longer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// A message that a queue touched besides the one of the command.
    Message,
    /// A command about topology, a consumer, a policy or a request: it looks up, compares, copies.
    Command,
    /// Looking up a routing key in an exchange.
    Key,
    /// A node of a topic exchange that a word of a key reached.
    Node,
    /// A copy of a message that entered one of several queues.
    Entry,
    /// A binding or another object copied or compared for a listing.
    Object,
    /// A property of a message passed while looking for another.
    Pair,
    /// A step of a selector: a value, or an operation on values.
    Term,
    /// A character of a text compared with a pattern.
    Char,
    /// Bytes of a text compared or copied, in units of 16.
    Bytes16,
}

impl Step {
    /// The cost of one unit, in nanoseconds.
    pub const fn ns(self) -> u64 {
        match self {
            Self::Message => BATCH_NS_MAX / BATCH_COMMANDS_MAX as u64,
            Self::Command => 4_000,
            Self::Key => 100,
            Self::Node | Self::Pair => 40,
            Self::Entry => 750,
            Self::Object => 300,
            Self::Term => 10,
            Self::Char => 3,
            Self::Bytes16 => 4,
        }
    }
}

/// The work that may be done under one hold of a lock before others get it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HoldBudget {
    /// Number of commands, or of due messages.
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

/// Adds up the estimated time of the work under one hold of a lock.
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
    /// A meter for one hold with this budget.
    pub const fn new(budget: HoldBudget) -> Self {
        Self {
            spent_ns: 0,
            budget_ns: budget.ns,
        }
    }

    /// Adds the cost of this many units.
    pub const fn charge(&mut self, step: Step, count: usize) {
        self.charge_ns(step.ns().saturating_mul(count as u64));
    }

    /// Adds an estimated time, in nanoseconds.
    pub const fn charge_ns(&mut self, ns: u64) {
        self.spent_ns = self.spent_ns.saturating_add(ns);
    }

    /// The time added so far, in nanoseconds.
    pub const fn spent_ns(&self) -> u64 {
        self.spent_ns
    }

    /// Whether the time is used up, so that no further command is begun.
    pub const fn is_used_up(&self) -> bool {
        self.spent_ns >= self.budget_ns
    }
}

/// Counts the steps of routing one message: a bounded number, with their estimated time.
#[derive(Debug)]
pub struct Steps {
    left: Cell<usize>,
    ns: Cell<u64>,
}

impl Default for Steps {
    fn default() -> Self {
        Self {
            left: Cell::new(ROUTING_STEPS_MAX),
            ns: Cell::new(0),
        }
    }
}

impl Steps {
    /// Counts this many steps; breaks off if fewer are left.
    pub fn take(&self, step: Step, count: usize) -> ControlFlow<()> {
        let added = step
            .ns()
            .saturating_mul(count.min(ROUTING_STEPS_MAX) as u64);
        self.ns.set(self.ns.get() + added);
        if let Some(left) = self.left.get().checked_sub(count + 1) {
            self.left.set(left + 1);
            return ControlFlow::Continue(());
        }
        self.left.set(0);
        ControlFlow::Break(())
    }

    /// Whether there were more steps than allowed.
    pub const fn are_used_up(&self) -> bool {
        self.left.get() == 0
    }

    /// The estimated time of the steps, in nanoseconds.
    pub const fn ns(&self) -> u64 {
        self.ns.get()
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
