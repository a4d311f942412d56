//! Patterns of LIKE: `%` stands for any characters, `_` for one.

use super::SelectorError;

/// A pattern, taken apart.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Pattern(Vec<Piece>);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Piece {
    Char(char),
    One,
    Any,
}

impl Pattern {
    pub(super) fn new(pattern: &str, escape: Option<char>) -> Result<Self, SelectorError> {
        let bad = || SelectorError::Escape {
            pattern: pattern.to_owned(),
        };
        let mut pieces = Vec::with_capacity(pattern.len());
        let mut chars = pattern.chars();
        while let Some(c) = chars.next() {
            pieces.push(match c {
                c if Some(c) == escape => {
                    let escaped = chars.next().ok_or_else(bad)?;
                    if !matches!(escaped, '%' | '_') && Some(escaped) != escape {
                        return Err(bad());
                    }
                    Piece::Char(escaped)
                }
                '%' => Piece::Any,
                '_' => Piece::One,
                c => Piece::Char(c),
            });
        }
        Ok(Self(pieces))
    }

    /// Whether a text has this form. The last `%` that was passed is the only place to go back to,
    /// so that this takes at most the product of both lengths.
    pub(super) fn matches(&self, text: &str) -> bool {
        let (mut pieces, mut rest) = (self.0.as_slice(), text.chars());
        let mut back = None;
        loop {
            let mut ahead = rest.clone();
            match (pieces.split_first(), ahead.next()) {
                (Some((Piece::Any, behind)), _) => {
                    pieces = behind;
                    back = Some((behind, rest.clone()));
                    continue;
                }
                (None, None) => return true,
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
