//! Patterns of LIKE: `%` stands for any characters, `_` for one.

use super::SelectorError;
use super::program::Dialect;
use crate::base::limits::LIKE_CHARS_MAX;
use crate::base::{Meter, Step};

/// A parsed pattern.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Pattern(Vec<Piece>);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Piece {
    Char(char),
    One,
    Any,
}

impl Pattern {
    /// Parses a pattern. Selectors escape wildcards and the escape character, SQL filters any
    /// character.
    pub(super) fn new(
        pattern: &str,
        escape: Option<char>,
        dialect: Dialect,
    ) -> Result<Self, SelectorError> {
        let bad = || SelectorError::Escape {
            pattern: pattern.to_owned(),
        };
        let mut pieces = Vec::with_capacity(pattern.len());
        let mut chars = pattern.chars();
        while let Some(c) = chars.next() {
            pieces.push(match c {
                c if Some(c) == escape => {
                    let escaped = chars.next().ok_or_else(bad)?;
                    let is_special = matches!(escaped, '%' | '_') || Some(escaped) == escape;
                    if dialect == Dialect::Jms && !is_special {
                        return Err(bad());
                    }
                    Piece::Char(escaped)
                }
                '%' => Piece::Any,
                '_' => Piece::One,
                c => Piece::Char(c),
            });
        }
        if pieces.len() > LIKE_CHARS_MAX {
            return Err(SelectorError::PatternTooLong {
                chars: pieces.len(),
                max: LIKE_CHARS_MAX,
            });
        }
        // Several `%` in a row mean the same as one.
        pieces.dedup_by(|a, b| *a == Piece::Any && *b == Piece::Any);
        Ok(Self(pieces))
    }

    /// Whether a text matches. The last `%` that was passed is the only position to backtrack to,
    /// so this takes at most the product of both lengths, and usually about the length of the text.
    /// Each step is charged; when the meter is used up it does not match.
    pub(super) fn matches(&self, text: &str, meter: &mut Meter) -> bool {
        let (mut pieces, mut rest) = (self.0.as_slice(), text.chars());
        let mut back = None;
        loop {
            meter.charge(Step::Char, 1);
            if meter.is_used_up() {
                return false;
            }
            let mut ahead = rest.clone();
            match (pieces.split_first(), ahead.next()) {
                (Some((Piece::Any, [])), _) | (None, None) => return true,
                (Some((Piece::Any, behind)), _) => {
                    pieces = behind;
                    back = Some((behind, rest.clone()));
                    continue;
                }
                (Some((Piece::One, behind)), Some(_)) => {
                    (pieces, rest) = (behind, ahead);
                    continue;
                }
                (Some((Piece::Char(wanted), behind)), Some(found)) if *wanted == found => {
                    (pieces, rest) = (behind, ahead);
                    continue;
                }
                _ => {}
            }
            let Some((behind, mut from)) = back.take() else {
                return false;
            };
            if from.next().is_none() {
                return false;
            }
            (pieces, rest) = (behind, from.clone());
            back = Some((behind, from));
        }
    }
}
