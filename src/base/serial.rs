//! Serial number arithmetic. [RFC 1982]

use std::cmp::Ordering;

/// A 32-bit serial number of AMQP: delivery-id, transfer-id, delivery-count [AMQP 2.8.10, RFC 1982].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Serial(pub u32);

impl Serial {
    /// `self + n`, wrapping.
    #[must_use]
    pub const fn plus(self, n: u32) -> Self {
        Self(self.0.wrapping_add(n))
    }

    /// `self - other` modulo 2^32: how far `self` is ahead of `other`.
    pub const fn distance_from(self, other: Self) -> u32 {
        self.0.wrapping_sub(other.0)
    }

    /// Order of RFC 1982; numbers exactly 2^31 apart count as smaller on both sides.
    pub const fn compare(self, other: Self) -> Ordering {
        match self.0.wrapping_sub(other.0) {
            0 => Ordering::Equal,
            1..0x8000_0000 => Ordering::Greater,
            _ => Ordering::Less,
        }
    }

    /// Whether `self` comes before `other`.
    pub const fn before(self, other: Self) -> bool {
        matches!(self.compare(other), Ordering::Less)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serial_numbers_wrap_near_two_to_the_32() {
        assert!(Serial(u32::MAX).before(Serial(0)));
        assert!(Serial(u32::MAX - 3).before(Serial(2)));
        assert!(!Serial(0).before(Serial(u32::MAX)));
        assert_eq!(Serial(2).distance_from(Serial(u32::MAX)), 3);
        assert_eq!(Serial(u32::MAX).plus(2), Serial(1));
    }
}
