//! What one world is tried with, as a seed says or a replay command.

use std::fmt;

use crate::base::Random;

/// What may go wrong in a world. Each can be switched off, to find out what it takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// Connections are cut, seen late, or stand still.
    Cut,
    /// The node dies, or the power fails.
    Crash,
    /// The disk fails at some operation.
    Disk,
    /// The disk is full for a while.
    Full,
    /// The wall clock jumps.
    Clock,
    /// Little memory: messages leave it and come back.
    Memory,
    /// Policies come and go.
    Policy,
    /// Queues are purged, deleted and declared again.
    Queues,
    /// Consumers whose deliveries are sent settled.
    Settled,
    /// Some messages are so large that they are written while they arrive.
    Large,
    /// Redrives are started, steered and forgotten.
    Redrives,
    /// Links outlive their connections.
    Resume,
    /// Some consumers only browse.
    Browse,
    /// Some messages are published and settled in transactions.
    Transactions,
    /// Some messages belong to groups.
    Groups,
    /// Some consumers have selectors.
    Selectors,
    /// Some consumers subscribe to an exchange.
    Subscriptions,
    /// Queues have a single active consumer, priorities or a limit in bytes.
    Arguments,
    /// Some messages are to be delivered later.
    Scheduled,
    /// Messages and dead letters go through exchanges of several types and an alternate one; some messages have
    /// more keys than one.
    Routes,
    /// Some queues are deleted when nobody has used them for a while.
    Expires,
    /// What consumers hold for too long goes back. See [`Trial::times_out`].
    Timeouts,
}

impl Fault {
    pub(super) const ALL: [Self; 22] = [
        Self::Cut,
        Self::Crash,
        Self::Disk,
        Self::Full,
        Self::Clock,
        Self::Memory,
        Self::Policy,
        Self::Queues,
        Self::Settled,
        Self::Large,
        Self::Redrives,
        Self::Resume,
        Self::Browse,
        Self::Transactions,
        Self::Groups,
        Self::Selectors,
        Self::Subscriptions,
        Self::Arguments,
        Self::Scheduled,
        Self::Routes,
        Self::Expires,
        Self::Timeouts,
    ];

    /// Those that happen of themselves.
    pub(super) const HAPPENING: usize = Self::ALL.len() - 11;

    const fn bit(self) -> u32 {
        1 << self as u32
    }
}

/// One world to try.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Trial {
    pub(super) seed: u64,
    pub(super) steps: u64,
    pub(super) clients: usize,
    /// The faults that may happen, as bits.
    pub(super) faults: u32,
}

impl Trial {
    /// The world of a seed; which faults there are follows from it too.
    pub(super) fn of(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x0007_41a1);
        let mut faults = 0;
        for fault in Fault::ALL {
            let has = match fault {
                Fault::Large => random.one_in(5), // it takes long
                // These came later: the other draws are as they were.
                Fault::Resume => Random::new(seed ^ 0x0007_41a2).one_in(2),
                Fault::Browse => Random::new(seed ^ 0x0007_41a3).one_in(3),
                Fault::Transactions => Random::new(seed ^ 0x0007_41a4).one_in(2),
                Fault::Groups => Random::new(seed ^ 0x0007_41a5).one_in(2),
                Fault::Selectors => Random::new(seed ^ 0x0007_41a6).one_in(3),
                Fault::Subscriptions => Random::new(seed ^ 0x0007_41a7).one_in(3),
                Fault::Arguments => Random::new(seed ^ 0x0007_41a8).one_in(3),
                Fault::Scheduled => Random::new(seed ^ 0x0007_41a9).one_in(3),
                Fault::Routes => Random::new(seed ^ 0x0007_41aa).one_in(3),
                Fault::Expires => Random::new(seed ^ 0x0007_41ab).one_in(4),
                Fault::Timeouts => Random::new(seed ^ 0x0007_41ac).one_in(2),
                _ => !random.one_in(3),
            };
            if has {
                faults |= fault.bit();
            }
        }
        Self {
            seed,
            steps: 800 + random.below(2400),
            clients: 1 + usize::try_from(random.below(5)).unwrap(),
            faults,
        }
    }

    pub(super) const fn has(self, fault: Fault) -> bool {
        self.faults & fault.bit() != 0
    }

    /// Whether a queue may be gone when a message for it comes.
    pub(super) const fn loses_queues(self) -> bool {
        self.has(Fault::Queues) || self.has(Fault::Expires)
    }

    /// Whether deliveries time out: not where links outlive their connections, of which a client then hears in
    /// ways that ours does not know. Who has which group is not checked there: a consumer that is late has none.
    pub(super) const fn times_out(self) -> bool {
        self.has(Fault::Timeouts) && !self.has(Fault::Resume)
    }

    pub(super) const fn with(self, fault: Fault) -> Self {
        Self {
            faults: self.faults | fault.bit(),
            ..self
        }
    }

    pub(super) const fn without(self, fault: Fault) -> Self {
        Self {
            faults: self.faults & !fault.bit(),
            ..self
        }
    }
}

/// As it is given to repeat it.
impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            seed,
            steps,
            clients,
            faults,
        } = self;
        write!(f, "{seed},{steps},{clients},{faults}")
    }
}
