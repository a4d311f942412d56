//! The two clocks of the broker: monotonic and wall clock.

/// Milliseconds on a monotonic clock (boot time, counting while suspended). Every deadline is of
/// this kind.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Millis(pub u64);

impl Millis {
    /// A deadline that never comes.
    pub const NEVER: Self = Self(u64::MAX);

    /// Adds a duration in milliseconds, stopping at [`Millis::NEVER`].
    #[must_use]
    pub const fn plus(self, duration_ms: u64) -> Self {
        Self(self.0.saturating_add(duration_ms))
    }

    /// Milliseconds since `earlier`, 0 if that is in the future.
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// Milliseconds of wall-clock time since 1970-01-01T00:00:00Z, as an AMQP `timestamp`. Used in
/// histories and time stamps of the journal only, never into a deadline.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Timestamp(pub i64);

/// The moment at which a command is handled: the first argument of every state machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Now {
    /// Monotonic time, for deadlines.
    pub mono: Millis,
    /// Wall-clock time, for histories.
    pub wall: Timestamp,
}

impl Now {
    /// A moment from the readings of both clocks.
    pub const fn new(mono: Millis, wall: Timestamp) -> Self {
        Self { mono, wall }
    }
}
