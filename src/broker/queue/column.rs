//! A compact column of small numbers, most of which are equal or close to each other.

/// A column that uses no more bytes for each number than the largest needs, and none if all are
/// equal.
#[derive(Debug, Default)]
pub(super) enum Column {
    /// No number was set yet.
    #[default]
    Unset,
    /// All numbers are equal to this one.
    Same(u32),
    /// All numbers are below 2^16.
    Narrow(Vec<u16>),
    Wide(Vec<u32>),
}

impl Column {
    /// The number at an index; unspecified if it was never set.
    pub(super) fn get(&self, index: usize) -> u32 {
        match self {
            Self::Unset => 0,
            Self::Same(value) => *value,
            Self::Narrow(values) => values.get(index).copied().map_or(0, u32::from),
            Self::Wide(values) => values.get(index).copied().unwrap_or(0),
        }
    }

    /// Sets the number at an index below `len`, where `capacity` numbers are expected in all.
    pub(super) fn put(&mut self, index: usize, value: u32, (len, capacity): (usize, usize)) {
        let before = match self {
            Self::Unset => {
                *self = Self::Same(value);
                return;
            }
            Self::Same(same) if *same == value => return,
            Self::Same(same) => *same,
            Self::Narrow(_) | Self::Wide(_) => 0,
        };
        let capacity = capacity.max(len);
        let fits = before.max(value) <= u16::MAX.into();
        let holds_it = match self {
            Self::Wide(_) => true,
            Self::Narrow(_) => fits,
            Self::Unset | Self::Same(_) => false,
        };
        if !holds_it {
            let values = (0..len).map(|index| self.get(index));
            *self = if fits {
                let narrow = values.map(|value| u16::try_from(value).unwrap_or(u16::MAX));
                Self::Narrow(collect(narrow, capacity))
            } else {
                Self::Wide(collect(values, capacity))
            };
        }
        match self {
            Self::Narrow(values) => {
                set(values, index, u16::try_from(value).unwrap_or(u16::MAX), len);
            }
            Self::Wide(values) => set(values, index, value, len),
            Self::Unset | Self::Same(_) => {}
        }
    }

    /// Heap memory of the column, in bytes.
    #[cfg(test)]
    pub(super) fn heap_bytes(&self) -> usize {
        match self {
            Self::Unset | Self::Same(_) => 0,
            Self::Narrow(values) => values.capacity() * size_of::<u16>(),
            Self::Wide(values) => values.capacity() * size_of::<u32>(),
        }
    }
}

/// The values, with this capacity.
fn collect<T>(values: impl Iterator<Item = T>, capacity: usize) -> Vec<T> {
    let mut all = Vec::with_capacity(capacity);
    all.extend(values);
    all
}

fn set<T: Copy + Default>(values: &mut Vec<T>, index: usize, value: T, len: usize) {
    if values.len() < len {
        values.resize(len, T::default());
    }
    if let Some(place) = values.get_mut(index) {
        *place = value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_comes_back_whatever_was_put_before_and_behind_it() {
        let check = |values: &[u32], heap_bytes: usize| {
            let mut column = Column::default();
            for (index, value) in values.iter().enumerate() {
                column.put(index, *value, (index + 1, values.len()));
            }
            let found: Vec<u32> = (0..values.len()).map(|index| column.get(index)).collect();
            assert_eq!(found, values);
            assert_eq!(column.heap_bytes(), heap_bytes, "{values:?}");
            let last = values.len() - 1;
            column.put(0, 5, (values.len(), values.len()));
            assert_eq!((column.get(0), column.get(last)), (5, values[last]));
        };
        check(&[7, 7, 7, 7], 0);
        check(&[u32::MAX, u32::MAX], 0);
        check(&[7, 7, 8, 7], 8);
        check(&[0, 65_535, 3], 6);
        check(&[7, 7, 65_536, 1], 16);
        check(&[1, 2, 65_536, 3], 16);
        check(&[65_536, 2], 8);
    }
}
