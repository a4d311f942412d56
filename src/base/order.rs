//! Sorting by one piece of code for all types: the sort of the standard library is some 10 kB of program for
//! each type that it sorts.

use std::cmp::Ordering;

/// Sorts as `sort_by` does; what compares alike stays in its order.
pub(crate) fn sort_by<T>(items: &mut Vec<T>, compare: impl Fn(&T, &T) -> Ordering) {
    let by_number = |a: usize, b: usize| match (items.get(a), items.get(b)) {
        (Some(a), Some(b)) => compare(a, b),
        _ => Ordering::Equal,
    };
    let order = order(items.len(), &by_number);
    let mut unsorted: Vec<Option<T>> = items.drain(..).map(Some).collect();
    let sorted = order.iter();
    items.extend(sorted.filter_map(|number| unsorted.get_mut(*number)?.take()));
}

/// Sorts, and leaves one of those that compare alike.
pub(crate) fn sort_and_dedup<T: Ord>(items: &mut Vec<T>) {
    sort_by(items, T::cmp);
    items.dedup();
}

/// The numbers from 0 in the order that their items have.
fn order(items: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..items).collect();
    order.sort_by(|a, b| compare(*a, *b));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_compares_alike_stays_in_its_order() {
        let mut items = vec![(2, 'a'), (1, 'b'), (2, 'c'), (1, 'd'), (0, 'e')];
        sort_by(&mut items, |a, b| a.0.cmp(&b.0));
        assert_eq!(items, [(0, 'e'), (1, 'b'), (1, 'd'), (2, 'a'), (2, 'c')]);
        sort_and_dedup(&mut items);
        assert_eq!(items.len(), 5);
        let mut items = vec![3, 1, 3, 2, 1];
        sort_and_dedup(&mut items);
        assert_eq!(items, [1, 2, 3]);
    }
}
