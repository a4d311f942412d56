//! Values by key, as a sorted list that is made at once. A `BTreeMap` is some 10 kB of program for each pair
//! of types.

use crate::base::order::sort_by;

/// See the documentation of the module.
#[derive(Clone, Debug)]
pub struct Sorted<K, V>(Vec<(K, V)>);

impl<K: Ord, V> Sorted<K, V> {
    /// These rows, sorted; of several with one key the last counts.
    pub(crate) fn of(mut rows: Vec<(K, V)>) -> Self {
        if !rows.is_sorted_by(|a, b| a.0 < b.0) {
            rows.reverse();
            sort_by(&mut rows, |a, b| a.0.cmp(&b.0));
            rows.dedup_by(|a, b| a.0 == b.0);
        }
        Self(rows)
    }

    fn find(&self, key: &K) -> Option<usize> {
        self.0.binary_search_by(|(known, _)| known.cmp(key)).ok()
    }

    /// The value of a key.
    pub(super) fn get(&self, key: &K) -> Option<&V> {
        self.0.get(self.find(key)?).map(|(_, value)| value)
    }

    /// The value of a key, to be changed.
    pub(super) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let place = self.find(key)?;
        self.0.get_mut(place).map(|(_, value)| value)
    }

    /// The rows, in the order of their keys.
    pub(super) fn rows(&self) -> &[(K, V)] {
        &self.0
    }

    /// All values, to be changed.
    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.0.iter_mut().map(|(_, value)| value)
    }

    /// Keeps the rows that are wanted.
    pub(super) fn retain(&mut self, wanted: impl Fn(&K) -> bool) {
        self.0.retain(|(key, _)| wanted(key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_by_key_and_of_one_key_the_last_counts() {
        let check = |rows: Vec<(u8, char)>, sorted: &[(u8, char)]| {
            assert_eq!(Sorted::of(rows).rows(), sorted);
        };
        check(vec![(1, 'a'), (2, 'b')], &[(1, 'a'), (2, 'b')]);
        check(vec![(2, 'b'), (1, 'a'), (2, 'c')], &[(1, 'a'), (2, 'c')]);
        check(vec![(1, 'a'), (1, 'b'), (1, 'c')], &[(1, 'c')]);
        let mut some = Sorted::of(vec![(3, 'c'), (1, 'a'), (2, 'b')]);
        some.retain(|key| *key != 2);
        assert_eq!((some.get(&3), some.get(&2)), (Some(&'c'), None));
        *some.get_mut(&1).unwrap() = 'z';
        assert_eq!(some.rows(), [(1, 'z'), (3, 'c')]);
    }
}
