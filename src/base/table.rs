//! A table by id for objects that are looked up many times for each message.

use std::hash::Hash;

use super::{Map, Seed};

/// Number of cached slots, indexed by a few bits of the id; a power of 2.
const NEAR: usize = 64;

/// An id that a [`Table`] can have as its key.
pub trait Id: Copy + Eq + Hash {
    /// The id's number.
    fn number(self) -> u64;
}

/// A map by id. The entry that was last changed, added or looked up to be changed is found without
/// hashing: the same few queues, consumers and connections are looked up many times for each
/// message.
///
/// ```text
///   near    [ place | place | ... ]      by bits of the id; a guess that is checked
///               |
///   rows    [ id, value | free | id, value | ... ]
///   places  id -> place                  when the guess was wrong
/// ```
#[derive(Debug)]
pub struct Table<K, V> {
    rows: Vec<Option<(K, V)>>,
    free: Vec<usize>,
    places: Map<K, usize>,
    near: [usize; NEAR],
}

impl<K: Id, V> Table<K, V> {
    /// An empty table.
    pub fn new(seed: Seed) -> Self {
        Self {
            rows: Vec::new(),
            free: Vec::new(),
            places: Map::with_hasher(seed.hasher()),
            near: [0; NEAR],
        }
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The value of an id.
    #[inline]
    pub fn get(&self, id: &K) -> Option<&V> {
        match self.rows.get(self.guess(*id)) {
            Some(Some((found, value))) if found == id => Some(value),
            _ => self.look_up(id),
        }
    }

    /// The value of an id, mutable.
    #[inline]
    pub fn get_mut(&mut self, id: &K) -> Option<&mut V> {
        let place = self.guess(*id);
        if matches!(self.rows.get(place), Some(Some((found, _))) if found == id) {
            // Known to be there: in a branch of its own the compiler asks for that no second time.
            return self.rows.get_mut(place)?.as_mut().map(|row| &mut row.1);
        }
        self.find(id)
    }

    #[cold]
    fn look_up(&self, id: &K) -> Option<&V> {
        let row = self.rows.get(*self.places.get(id)?)?;
        row.as_ref().map(|row| &row.1)
    }

    #[cold]
    fn find(&mut self, id: &K) -> Option<&mut V> {
        let place = *self.places.get(id)?;
        self.remember(*id, place);
        self.rows.get_mut(place)?.as_mut().map(|row| &mut row.1)
    }

    /// Whether there is a value for an id.
    pub fn contains_key(&self, id: &K) -> bool {
        self.get(id).is_some()
    }

    /// Sets the value of an id; returns the one it had before.
    pub fn insert(&mut self, id: K, value: V) -> Option<V> {
        if let Some(known) = self.get_mut(&id) {
            return Some(std::mem::replace(known, value));
        }
        let place = self.free.pop().unwrap_or(self.rows.len());
        let row = Some((id, value));
        match self.rows.get_mut(place) {
            Some(free) => *free = row,
            None => self.rows.push(row),
        }
        self.places.insert(id, place);
        self.remember(id, place);
        None
    }

    /// Removes the value of an id and returns it.
    pub fn remove(&mut self, id: &K) -> Option<V> {
        let place = self.places.remove(id)?;
        let row = self.rows.get_mut(place)?.take()?;
        self.free.push(place);
        if self.places.is_empty() {
            (self.rows, self.free) = (Vec::new(), Vec::new());
        }
        Some(row.1)
    }

    /// All ids with their values, in the order of slots, which depends on the insertions and
    /// removals before.
    pub fn iter(&self) -> impl Iterator<Item = (K, &V)> {
        self.rows.iter().flatten().map(|(id, value)| (*id, value))
    }

    #[inline]
    fn guess(&self, id: K) -> usize {
        self.near.get(index(id)).copied().unwrap_or_default()
    }

    #[inline]
    fn remember(&mut self, id: K, place: usize) {
        if let Some(near) = self.near.get_mut(index(id)) {
            *near = place;
        }
    }
}

/// The index in the cache: numbers rise by one, or by one above a few low bits with another
/// meaning.
#[inline]
fn index<K: Id>(id: K) -> usize {
    let number = id.number();
    usize::try_from((number ^ (number >> 16)) % NEAR as u64).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::base::QueueId;

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Insert(u64, u32),
        Remove(u64),
        Change(u64, u32),
    }

    /// Ids that share their place among the near ones with others.
    fn any_step() -> impl Strategy<Value = Step> {
        let id = prop_oneof![
            0..8_u64,
            (0..4_u64).prop_map(|n| n * 64),
            (0..4_u64).prop_map(|n| n << 16)
        ];
        prop_oneof![
            (id.clone(), any::<u32>()).prop_map(|(id, value)| Step::Insert(id, value)),
            id.clone().prop_map(Step::Remove),
            (id, any::<u32>()).prop_map(|(id, value)| Step::Change(id, value)),
        ]
    }

    proptest! {
        #[test]
        fn table_is_a_map(steps in proptest::collection::vec(any_step(), 1..200)) {
            let mut table = Table::new(Seed(7));
            let mut model = BTreeMap::new();
            for step in steps {
                match step {
                    Step::Insert(id, value) => {
                        prop_assert_eq!(table.insert(QueueId(id), value), model.insert(id, value));
                    }
                    Step::Remove(id) => {
                        prop_assert_eq!(table.remove(&QueueId(id)), model.remove(&id));
                    }
                    Step::Change(id, value) => {
                        let known = table.get_mut(&QueueId(id));
                        prop_assert_eq!(known.is_some(), model.contains_key(&id));
                        if let (Some(known), Some(wanted)) = (known, model.get_mut(&id)) {
                            (*known, *wanted) = (value, value);
                        }
                    }
                }
                prop_assert_eq!(table.len(), model.len());
                for id in (0..8).chain([64, 128, 192, 1 << 16, 2 << 16, 3 << 16]) {
                    prop_assert_eq!(table.get(&QueueId(id)), model.get(&id));
                }
            }
            let mut all: Vec<_> = table.iter().map(|(id, value)| (id.0, *value)).collect();
            all.sort_unstable();
            prop_assert_eq!(all, model.into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn places_are_used_again() {
        let mut table = Table::new(Seed(7));
        for id in 0..1_000 {
            table.insert(QueueId(id), id);
            assert!(id == 0 || table.remove(&QueueId(id - 1)).is_some());
        }
        assert_eq!((table.len(), table.rows.len()), (1, 2));
    }
}
