//! The unsettled deliveries of one direction of a session.

use std::collections::VecDeque;
use std::ops::Range;

use crate::base::Serial;

/// Deliveries by delivery-id, in the order of their ids. [AMQP 2.6.12]
///
/// ```text
///  front                                   back
///  | 7 A | 8 - | 9 C | 10 D | 13 - | 14 F |        - settled, waits for its turn to be dropped
/// ```
///
/// Ids usually have no gaps, then a delivery is found by its distance from the front; otherwise by
/// binary search. Settled entries are dropped when they reach the front, and all of them when they
/// outnumber the others, so memory follows the number of unsettled deliveries. A range given by a
/// peer is clamped to the ids in the table before anything is iterated.
#[derive(Debug)]
pub(super) struct Unsettled<T> {
    entries: VecDeque<(Serial, Option<T>)>,
    live: usize,
    /// Number of unsettled deliveries of each link, by the engine's handle; the only such count.
    by_link: Vec<u32>,
}

/// An entry that belongs to a link.
pub(super) trait OfLink {
    /// The engine's handle of the link.
    fn handle(&self) -> u32;
}

/// What happens to a visited delivery.
pub(super) enum Fate {
    /// It stays in the table.
    Kept,
    /// It is removed from the table.
    Taken,
    /// It is not one of those that are looked for; the visit ends.
    Beyond,
}

impl<T: OfLink> Unsettled<T> {
    pub(super) const fn new() -> Self {
        Self {
            entries: VecDeque::new(),
            live: 0,
            by_link: Vec::new(),
        }
    }

    /// Number of unsettled deliveries.
    #[cfg(test)]
    const fn len(&self) -> usize {
        self.live
    }

    /// Memory of the entries, in bytes.
    pub(super) fn table_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<(Serial, Option<T>)>()
            + self.by_link.capacity() * size_of::<u32>()
    }

    /// Adds a delivery, whose id comes after all others.
    #[inline]
    pub(super) fn push(&mut self, id: Serial, delivery: T) {
        let handle = delivery.handle() as usize;
        match self.by_link.get_mut(handle) {
            Some(count) => *count += 1,
            None => self.count_first(handle),
        }
        self.entries.push_back((id, Some(delivery)));
        self.live += 1;
    }

    /// Counts the first delivery of a link beyond those that had any.
    #[cold]
    fn count_first(&mut self, handle: usize) {
        self.by_link.resize(handle + 1, 0);
        if let Some(count) = self.by_link.get_mut(handle) {
            *count = 1;
        }
    }

    /// Counts a delivery as settled.
    #[inline]
    fn uncount(live: &mut usize, by_link: &mut [u32], delivery: &T) {
        *live -= 1;
        if let Some(count) = by_link.get_mut(delivery.handle() as usize) {
            *count -= 1;
        }
    }

    /// Number of unsettled deliveries of this link.
    pub(super) fn of_link(&self, handle: u32) -> u32 {
        self.by_link.get(handle as usize).copied().unwrap_or(0)
    }

    /// The distance of `id` from the oldest unsettled delivery.
    pub(super) fn span_to(&self, id: Serial) -> u32 {
        let front = self.entries.front();
        front.map_or(0, |(front, _)| id.distance_from(*front))
    }

    /// The unsettled delivery with this id.
    pub(super) fn get_mut(&mut self, id: Serial) -> Option<&mut T> {
        let index = self.range(id, id).next()?;
        self.at(index)
    }

    /// The unsettled delivery at an index of a [`range`](Self::range).
    #[inline]
    pub(super) fn at(&mut self, index: usize) -> Option<&mut T> {
        self.entries.get_mut(index)?.1.as_mut()
    }

    /// The id at an index of a [`range`](Self::range).
    pub(super) fn id(&self, index: usize) -> Serial {
        self.entries.get(index).map_or(Serial(0), |entry| entry.0)
    }

    /// The indexes of `first..=last`, clamped to those in the table; valid until
    /// [`tidy`](Self::tidy).
    #[inline]
    pub(super) fn range(&self, first: Serial, last: Serial) -> Range<usize> {
        let Some((front, _)) = self.entries.front() else {
            return 0..0;
        };
        if last.before(*front) || last.before(first) {
            return 0..0;
        }
        let start = if first.before(*front) {
            0
        } else {
            self.index_from(first.distance_from(*front), *front)
        };
        let end = if first == last {
            start + usize::from(self.entries.get(start).is_some_and(|entry| entry.0 == last))
        } else {
            self.index_from(last.distance_from(*front).saturating_add(1), *front)
        };
        start..end
    }

    /// The first index whose id is at least `distance` after the front.
    #[inline]
    fn index_from(&self, distance: u32, front: Serial) -> usize {
        let guess = distance as usize;
        if let Some((id, _)) = self.entries.get(guess)
            && id.distance_from(front) == distance
        {
            return guess;
        }
        self.entries
            .partition_point(|(id, _)| id.distance_from(front) < distance)
    }

    /// Removes the delivery at an index; [`tidy`](Self::tidy) must be called after the last one.
    pub(super) fn take(&mut self, index: usize) -> Option<T> {
        let delivery = self.entries.get_mut(index)?.1.take()?;
        Self::uncount(&mut self.live, &mut self.by_link, &delivery);
        Some(delivery)
    }

    /// Visits the unsettled deliveries at these indexes of a [`range`](Self::range), in order,
    /// until `visit` ends it, and removes those for which it says so; [`tidy`](Self::tidy) must be
    /// called afterwards. Returns the index behind the last one visited.
    #[inline]
    pub(super) fn visit(
        &mut self,
        range: Range<usize>,
        mut visit: impl FnMut(Serial, &mut T) -> Fate,
    ) -> usize {
        let (mut next, end) = (range.start, range.end.min(self.entries.len()));
        for (id, entry) in self.entries.range_mut(next.min(end)..end) {
            match entry.as_mut().map_or(Fate::Kept, |entry| visit(*id, entry)) {
                Fate::Kept => {}
                Fate::Taken => {
                    if let Some(delivery) = entry.take() {
                        Self::uncount(&mut self.live, &mut self.by_link, &delivery);
                    }
                }
                Fate::Beyond => break,
            }
            next += 1;
        }
        next
    }

    /// Removes one delivery and returns it.
    pub(super) fn remove(&mut self, id: Serial) -> Option<T> {
        let index = self.range(id, id).next()?;
        let delivery = self.take(index);
        self.tidy();
        delivery
    }

    /// Removes all deliveries and returns them, in order.
    pub(super) fn remove_all(&mut self) -> Vec<T> {
        (self.live, self.by_link) = (0, Vec::new());
        self.entries.drain(..).filter_map(|(_, it)| it).collect()
    }

    /// The first and the last id of a link's deliveries; none: it has none.
    pub(super) fn ids_of(&self, handle: u32) -> Option<(Serial, Serial)> {
        if self.of_link(handle) == 0 {
            return None;
        }
        let is_its = |(_, entry): &&(Serial, Option<T>)| {
            entry.as_ref().is_some_and(|it| it.handle() == handle)
        };
        let (first, _) = self.entries.iter().find(is_its)?;
        let (last, _) = self.entries.iter().rev().find(is_its)?;
        Some((*first, *last))
    }

    /// Removes the deliveries of a link and returns them, in order. If it has none, those of other
    /// links are not examined.
    pub(super) fn remove_link(&mut self, handle: u32) -> Vec<T> {
        let mut removed = Vec::new();
        if self.of_link(handle) == 0 {
            return removed;
        }
        for (_, entry) in &mut self.entries {
            if entry.as_ref().is_some_and(|it| it.handle() == handle)
                && let Some(delivery) = entry.take()
            {
                Self::uncount(&mut self.live, &mut self.by_link, &delivery);
                removed.push(delivery);
            }
        }
        self.tidy();
        removed
    }

    /// Drops settled entries.
    pub(super) fn tidy(&mut self) {
        let mut entries = self.entries.iter();
        let first = entries.position(|(_, delivery)| delivery.is_some());
        self.entries.drain(..first.unwrap_or(self.entries.len()));
        if self.entries.len() > 64 && self.entries.len() > 4 * self.live {
            self.entries.retain(|(_, delivery)| delivery.is_some());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl OfLink for u32 {
        fn handle(&self) -> u32 {
            *self % 2
        }
    }

    fn filled(first: u32, count: u32) -> Unsettled<u32> {
        let mut unsettled = Unsettled::new();
        for n in 0..count {
            unsettled.push(Serial(first).plus(n), n);
        }
        unsettled
    }

    fn check(unsettled: &Unsettled<u32>, first: u32, last: u32, expect: Range<usize>) {
        let range = unsettled.range(Serial(first), Serial(last));
        assert_eq!(range.len(), expect.len(), "{first}..={last}");
        assert!(
            range.is_empty() || range == expect,
            "{first}..={last}: {range:?}"
        );
    }

    #[test]
    fn ranges_of_a_peer_are_clamped_across_the_wrap() {
        let unsettled = filled(u32::MAX - 2, 6);
        check(&unsettled, u32::MAX - 2, 2, 0..6);
        check(&unsettled, u32::MAX - 100, 1000, 0..6);
        check(&unsettled, u32::MAX, 0, 2..4);
        check(&unsettled, 2, 0x7fff_0000, 5..6);
        check(&unsettled, 3, 9, 0..0);
        check(&unsettled, 0, u32::MAX, 0..0);
        check(&unsettled, 1, 1, 4..5);
        check(&Unsettled::new(), 0, 5, 0..0);
    }

    #[test]
    fn gaps_are_found_by_halving() {
        let mut unsettled = filled(10, 3);
        unsettled.push(Serial(20), 3);
        unsettled.push(Serial(25), 4);
        check(&unsettled, 13, 19, 0..0);
        check(&unsettled, 12, 20, 2..4);
        check(&unsettled, 15, 15, 0..0);
        check(&unsettled, 20, 40, 3..5);
        assert_eq!(unsettled.remove(Serial(25)), Some(4));
        assert_eq!(unsettled.remove(Serial(25)), None);
    }

    #[test]
    fn one_delivery_held_for_long_keeps_no_memory_for_the_settled_ones() {
        let mut unsettled = filled(0, 1);
        for id in 1..100_000 {
            unsettled.push(Serial(id), id);
            assert_eq!(unsettled.remove(Serial(id)), Some(id));
        }
        assert_eq!(unsettled.len(), 1);
        assert!(unsettled.entries.len() <= 65);
        assert_eq!(unsettled.get_mut(Serial(0)), Some(&mut 0));
    }

    #[test]
    fn deliveries_are_counted_by_link_whichever_way_they_go() {
        let mut unsettled = filled(0, 10);
        let counts = |unsettled: &Unsettled<u32>| [0, 1, 7].map(|link| unsettled.of_link(link));
        assert_eq!(counts(&unsettled), [5, 5, 0]);
        unsettled.remove(Serial(3));
        unsettled.take(4);
        unsettled.visit(6..8, |_, _| Fate::Taken);
        unsettled.tidy();
        assert_eq!(counts(&unsettled), [3, 3, 0]);
        assert_eq!(unsettled.remove_link(1), [1, 5, 9]);
        assert_eq!(unsettled.remove_link(1), [0_u32; 0]);
        assert_eq!((counts(&unsettled), unsettled.len()), ([3, 0, 0], 3));
        assert_eq!(unsettled.remove_all(), [0, 2, 8]);
        assert_eq!((counts(&unsettled), unsettled.len()), ([0, 0, 0], 0));
    }
}
