//! Looking up some properties or annotations of a message among many, in bounded time however many
//! and large they are.

use crate::base::limits::{PROPERTIES_LOOKED_AT_BYTES, PROPERTIES_LOOKED_AT_MAX};
use crate::wire::{Pair, Pairs};

/// How far a lookup went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LookedAt {
    /// Number of pairs that were passed.
    pub pairs: usize,
    /// Bytes of their names, and of the values that were wanted.
    pub bytes: usize,
    /// Whether nothing wanted can be behind them: all were passed, or everything wanted was found.
    pub is_complete: bool,
}

impl LookedAt {
    /// The result where there is nothing to look through.
    pub(super) const NOTHING: Self = Self {
        pairs: 0,
        bytes: 0,
        is_complete: true,
    };
}

/// Visits the encoded values of pairs whose name is wanted, until `found` returns that everything
/// was found. Pairs behind `limits::PROPERTIES_LOOKED_AT_MAX` pairs, or behind
/// `limits::PROPERTIES_LOOKED_AT_BYTES` of names and wanted values, are not examined; other values
/// are skipped whatever their size.
pub(super) fn look<'a>(
    pairs: Pairs<'a>,
    name_of: impl Fn(&Pair<'a>) -> Option<&'a str>,
    is_wanted: impl Fn(&str) -> bool,
    mut found: impl FnMut(&'a str, &'a [u8]) -> bool,
) -> LookedAt {
    let mut passed = LookedAt::NOTHING;
    for pair in pairs.flatten() {
        passed.bytes += pair.key.len();
        passed.is_complete = false;
        if passed.pairs == PROPERTIES_LOOKED_AT_MAX || passed.bytes > PROPERTIES_LOOKED_AT_BYTES {
            return passed;
        }
        passed.pairs += 1;
        if let Some(name) = name_of(&pair).filter(|name| is_wanted(name)) {
            passed.bytes += pair.value.len();
            if passed.bytes > PROPERTIES_LOOKED_AT_BYTES {
                return passed;
            }
            if found(name, pair.value) {
                break;
            }
        }
    }
    passed.is_complete = true;
    passed
}
