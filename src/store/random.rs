//! A pseudo-random generator with a seed.

/// Pseudo-random numbers from a seed (splitmix64): the same on every machine. For seeds of segments
/// and for simulated disks; no secret depends on it.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// The next number, of 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `limit`, 0 if that is 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.draw().checked_rem(limit).unwrap_or(0)
    }

    /// The same for lengths.
    pub fn below_usize(&mut self, limit: usize) -> usize {
        usize::try_from(self.below(limit as u64)).unwrap_or(0)
    }
}
