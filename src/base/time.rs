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

/// The low half of a [`Millis`]: for ages below 2^32 milliseconds, 49 days, where room is scarce.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stamp(u32);

impl Stamp {
    /// The stamp of a moment.
    #[inline]
    pub const fn of(moment: Millis) -> Self {
        Self((moment.0 & 0xffff_ffff) as u32)
    }

    /// Milliseconds since it, if that is not longer ago than 49 days.
    pub const fn age_ms(self, now: Millis) -> u32 {
        Self::of(now).0.wrapping_sub(self.0)
    }
}

/// Milliseconds of wall-clock time since 1970-01-01T00:00:00Z, as an AMQP `timestamp`. Used in
/// histories, time stamps of the journal and filters that ask for it only, never into a deadline.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_right_where_the_low_half_begins_again() {
        let age = |then: u64, now: u64| Stamp::of(Millis(then)).age_ms(Millis(now));
        assert_eq!(age(5, 12), 7);
        assert_eq!(age(0xffff_fffe, 0x1_0000_0003), 5);
        assert_eq!(age(7, 7 + 0xffff_ffff), u32::MAX);
    }
}
