//! Hash maps with a hasher whose seed is an argument: the same seed gives the same run.

use foldhash::fast::FixedState;

/// Seed of every hasher of one broker; random in the server, fixed in tests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Seed(pub u64);

impl Seed {
    /// The hasher state for this seed.
    pub fn hasher(self) -> FixedState {
        FixedState::with_seed(self.0)
    }
}

/// A hash map with a seeded hasher. Made with `Map::with_hasher(seed.hasher())`; never to be
/// iterated where order can be seen (clippy: `iter_over_hash_type`).
#[allow(
    clippy::disallowed_types,
    reason = "this is the alias that the ban points to"
)]
pub type Map<K, V> = std::collections::HashMap<K, V, FixedState>;

/// A hash set with a seeded hasher.
#[allow(
    clippy::disallowed_types,
    reason = "this is the alias that the ban points to"
)]
pub type Set<K> = std::collections::HashSet<K, FixedState>;
