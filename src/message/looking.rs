//! Looking for some properties or annotations of a message among many: in bounded time, however many
//! and large they are.

use crate::base::limits::{PROPERTIES_LOOKED_AT_BYTES, PROPERTIES_LOOKED_AT_MAX};
use crate::wire::{Pair, Pairs};

/// How far a look went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LookedAt {
    /// Pairs that were passed.
    pub pairs: usize,
    /// Bytes of their names, and of the values that were wanted.
    pub bytes: usize,
    /// Nothing wanted can stand behind them: all were passed, or all that is wanted was found.
    pub is_complete: bool,
}

impl LookedAt {
    /// There was nothing to look at.
    pub(super) const NOTHING: Self = Self {
        pairs: 0,
        bytes: 0,
        is_complete: true,
    };
}

/// Shows the encoded values of pairs whose name is wanted, until `found` says that it has all. What
/// stands behind `limits::PROPERTIES_LOOKED_AT_MAX` pairs, or behind
/// `limits::PROPERTIES_LOOKED_AT_BYTES` of names and wanted values, is not looked at; other values are
/// passed over whatever their size.
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
