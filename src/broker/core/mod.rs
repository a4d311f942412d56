//! The machine: one vhost's queues, exchanges, policies and consumers.

use crate::base::{Millis, Name, Now, Seed};
use crate::broker::{Command, Effects, Reply};

/// How a core is made.
#[derive(Clone, Debug)]
pub struct Options {
    /// Name of the vhost.
    pub vhost: Name,
    /// Seed of its hashers.
    pub seed: Seed,
    /// Deliveries a session may hold unsettled; default [`crate::base::limits::UNSETTLED_MAX`].
    pub unsettled_max: u32,
}

impl Options {
    /// Defaults for a vhost.
    pub fn new(vhost: Name, seed: Seed) -> Self {
        Self {
            vhost,
            seed,
            unsettled_max: crate::base::limits::UNSETTLED_MAX,
        }
    }
}

/// Whether a tick left work undone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum More {
    /// Call again soon.
    Yes,
    /// Until the next command or deadline there is nothing to do.
    No,
}

/// One vhost. See the room's story.
#[derive(Debug)]
pub struct Core {
    options: Options,
}

impl Core {
    /// An empty vhost with its predeclared exchanges.
    pub fn new(options: Options) -> Self {
        Self { options }
    }

    /// The vhost's name.
    pub fn vhost(&self) -> &Name {
        &self.options.vhost
    }

    /// Handles one command. Never fails, never waits: what is refused is in the reply. Call
    /// [`Core::tick`] when [`Core::has_work`] afterwards: long work is done in slices.
    pub fn apply(&mut self, _now: Now, _command: Command, _effects: &mut Effects) -> Reply {
        Reply::None
    }

    /// Fires what is due and goes on with sliced work, about `budget` messages of it.
    pub fn tick(&mut self, _now: Now, _budget: usize, _effects: &mut Effects) -> More {
        More::No
    }

    /// Whether sliced work waits for a tick.
    pub fn has_work(&self) -> bool {
        false
    }

    /// When the next message or queue is due.
    pub fn next_deadline(&self) -> Option<Millis> {
        None
    }
}
