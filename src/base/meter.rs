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
    /// A step of a selector: a term, or a character compared with a pattern.
    Term,
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
            Self::Bytes16 => 4,
        }
    }
}

/// Estimated time that is left of one hold of a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Meter {
    left_ns: u64,
}

impl Default for Meter {
    fn default() -> Self {
        Self {
            left_ns: BATCH_NS_MAX,
        }
    }
}

impl Meter {
    /// Counts so many steps.
    pub const fn charge(&mut self, step: Step, count: usize) {
        self.charge_ns(step.ns().saturating_mul(count as u64));
    }

    /// Counts an estimated time.
    pub const fn charge_ns(&mut self, ns: u64) {
        self.left_ns = self.left_ns.saturating_sub(ns);
    }

    /// What was counted since it began, in nanoseconds.
    pub const fn spent_ns(&self) -> u64 {
        BATCH_NS_MAX - self.left_ns
    }

    /// Whether nothing is left: no further command is begun.
    pub const fn is_used_up(&self) -> bool {
        self.left_ns == 0
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
