//! The structural check that precedes all decoding.

use super::codes::{self, Shape, shape};
use super::{DecodeError, Reader, ValueKind};
use crate::base::limits::VALUE_DEPTH_MAX;

/// Elements of arrays that take no bytes at all (null, true, uint 0, the empty list ...): one input
/// may have as many as it has bytes, and this many more. An array of them costs memory, not bytes.
const ZERO_WIDTH_ELEMENTS_MAX: usize = 255;

/// Checks the value at the front of `input` and returns how many bytes it takes. [AMQP 1.2]
///
/// Afterwards it is certain: every length lies inside its parent, every count is justified by bytes,
/// nothing is nested deeper than [`VALUE_DEPTH_MAX`], every type code is known, maps are paired,
/// strings are UTF-8 and symbols ASCII. Nothing is allocated and nothing recurses.
///
/// Choice: an array constructor may carry one descriptor, a symbol or a ulong; the other kinds that
/// the grammar allows are reserved and in no use.
pub fn check_structure(input: &[u8]) -> Result<usize, DecodeError> {
    check_with::<false>(input, &mut 0)
}

/// Checks the values that fill `input`, one behind the other, as [`check_structure`] does, and that
/// there are at most `values_max`, those in lists, maps and arrays counted: decoding makes no more.
pub fn check_values(input: &[u8], values_max: usize) -> Result<(), DecodeError> {
    let (mut at, mut left) = (0, values_max);
    while let Some(rest) = input.get(at..).filter(|rest| !rest.is_empty()) {
        let used = check_with::<true>(rest, &mut left);
        at += used.map_err(|error| match error {
            DecodeError::TooManyValues { .. } => DecodeError::TooManyValues { max: values_max },
            error => error,
        })?;
    }
    Ok(())
}

fn check_with<const COUNTS: bool>(
    input: &[u8],
    values_left: &mut usize,
) -> Result<usize, DecodeError> {
    let mut check = Check::<COUNTS> {
        input,
        at: 0,
        zero_width_left: input.len() + ZERO_WIDTH_ELEMENTS_MAX,
        values_left: *values_left,
    };
    if let Some(outermost) = check.element(input.len(), None)? {
        check.outermost(outermost)?;
    }
    *values_left = check.values_left;
    Ok(check.at)
}

/// Checks that `input` is exactly one annotation map with legal keys. [AMQP 3.2.10]
pub fn check_annotations(input: &[u8]) -> Result<(), DecodeError> {
    let used = check_structure(input)?;
    if used < input.len() {
        return Err(DecodeError::BytesLeft { at: used });
    }
    check_annotation_keys(Reader::new(input))
}

/// Checks the keys of an annotation map whose structure is known to be right.
pub(super) fn check_annotation_keys(mut map: Reader<'_>) -> Result<(), DecodeError> {
    for pair in map.map()? {
        let pair = pair?;
        if !matches!(
            pair.kind_of_key(),
            Some(ValueKind::Symbol | ValueKind::Ulong)
        ) {
            return Err(DecodeError::AnnotationKey {
                at: pair.at,
                found: pair.key_type(),
            });
        }
    }
    Ok(())
}

/// Number of bytes that the value at the front of `input` takes, without looking inside.
pub fn value_len(input: &[u8]) -> Result<usize, DecodeError> {
    let mut reader = Reader::new(input);
    reader.raw()?;
    Ok(reader.at())
}

/// A compound value whose elements are being checked.
#[derive(Clone, Copy, Default)]
struct Level {
    /// Offset at which it begins.
    start: usize,
    /// Offset behind its last byte.
    end: usize,
    /// Number of elements still to come.
    left: u32,
    /// The constructor of all elements in an array; in lists and maps each has its own.
    element: Option<u8>,
    /// Whether it has a size of its own that the elements must fill (a described value has none).
    sized: bool,
}

/// The check of one value; `COUNTS`: it also counts values against a limit.
struct Check<'a, const COUNTS: bool> {
    input: &'a [u8],
    at: usize,
    zero_width_left: usize,
    values_left: usize,
}

impl<const COUNTS: bool> Check<'_, COUNTS> {
    /// Checks all elements of a compound value. Usually they are scalars: the stack of levels is
    /// made only for the first that is not.
    fn outermost(&mut self, mut level: Level) -> Result<(), DecodeError> {
        while let Some(left) = level.left.checked_sub(1) {
            level.left = left;
            if let Some(opened) = self.element(level.end, level.element)? {
                return self.levels(level, opened);
            }
        }
        self.check_end(&level)
    }

    /// Checks that the elements of a compound value fill it.
    const fn check_end(&self, level: &Level) -> Result<(), DecodeError> {
        if level.sized && self.at != level.end {
            return Err(DecodeError::BytesLeft { at: self.at });
        }
        Ok(())
    }

    /// Checks the rest of a compound value and of one that was opened in it, with the open levels
    /// on a stack of fixed size.
    fn levels(&mut self, outermost: Level, opened: Level) -> Result<(), DecodeError> {
        let mut levels = [Level::default(); VALUE_DEPTH_MAX];
        levels[0] = outermost;
        let mut depth = 1;
        let mut opened = Some(opened);
        loop {
            if let Some(level) = opened.take() {
                let free = levels.get_mut(depth);
                *free.ok_or(DecodeError::TooDeep { at: level.start })? = level;
                depth += 1;
            }
            let Some(level) = depth.checked_sub(1).and_then(|top| levels.get_mut(top)) else {
                return Ok(());
            };
            if let Some(left) = level.left.checked_sub(1) {
                level.left = left;
                opened = self.element(level.end, level.element)?;
            } else {
                let level = *level;
                self.check_end(&level)?;
                depth -= 1;
            }
        }
    }

    /// Checks one element: skips a scalar, opens a level for a compound.
    fn element(
        &mut self,
        end: usize,
        constructor: Option<u8>,
    ) -> Result<Option<Level>, DecodeError> {
        let start = self.at;
        if COUNTS {
            let left = self.values_left.checked_sub(1);
            self.values_left = left.ok_or(DecodeError::TooManyValues { max: 0 })?;
        }
        let code = match constructor {
            Some(code) => code,
            None => self.bytes::<1>(end)?[0],
        };
        match shape(code).ok_or(DecodeError::UnknownCode { at: start, code })? {
            Shape::Fixed(width) => self.fixed(start, end, code, width).map(|()| None),
            Shape::Variable(width) => {
                let len = self.number(end, width)?;
                self.variable(start, end, code, len).map(|()| None)
            }
            Shape::Compound(width) => self.compound(start, end, code, width),
            Shape::Array(width) => self.array(start, end, width).map(Some),
            Shape::Described => Ok(Some(Level {
                start,
                end,
                left: 2,
                element: None,
                sized: false,
            })),
        }
    }

    fn fixed(
        &mut self,
        start: usize,
        end: usize,
        code: u8,
        width: usize,
    ) -> Result<(), DecodeError> {
        if code == codes::BOOLEAN && self.bytes::<1>(end)?[0] > 1 {
            return Err(DecodeError::Invalid {
                at: start,
                expected: "boolean",
            });
        } else if code != codes::BOOLEAN {
            self.skip(end, width)?;
        }
        Ok(())
    }

    fn variable(
        &mut self,
        start: usize,
        end: usize,
        code: u8,
        len: usize,
    ) -> Result<(), DecodeError> {
        let from = self.at;
        self.skip(end, len)?;
        let content = self.input.get(from..self.at).unwrap_or_default();
        match code {
            codes::STRING_8 | codes::STRING_32 if std::str::from_utf8(content).is_err() => {
                Err(DecodeError::NotUtf8 { at: start })
            }
            codes::SYMBOL_8 | codes::SYMBOL_32 if !content.is_ascii() => {
                Err(DecodeError::NotAscii { at: start })
            }
            _ => Ok(()),
        }
    }

    fn compound(
        &mut self,
        start: usize,
        end: usize,
        code: u8,
        width: usize,
    ) -> Result<Option<Level>, DecodeError> {
        let (end, count) = self.size_and_count(start, end, width)?;
        if count as usize > end - self.at {
            return Err(DecodeError::Count { at: start, count });
        }
        if matches!(code, codes::MAP_8 | codes::MAP_32) && count % 2 == 1 {
            return Err(DecodeError::OddMap { at: start });
        }
        // An empty one is no deeper than a `list0`, which takes no level: how a value is encoded
        // must not decide whether it is too deep.
        if count == 0 && self.at == end {
            return Ok(None);
        }
        Ok(Some(Level {
            start,
            end,
            left: count,
            element: None,
            sized: true,
        }))
    }

    fn array(&mut self, start: usize, end: usize, width: usize) -> Result<Level, DecodeError> {
        let (end, count) = self.size_and_count(start, end, width)?;
        let mut at = self.at;
        let mut code = self.bytes::<1>(end)?[0];
        if code == codes::DESCRIBED {
            self.descriptor(end)?;
            at = self.at;
            code = self.bytes::<1>(end)?[0];
        }
        let width = match shape(code) {
            None | Some(Shape::Described) => return Err(DecodeError::UnknownCode { at, code }),
            Some(Shape::Fixed(width) | Shape::Variable(width)) => width,
            Some(Shape::Compound(width) | Shape::Array(width)) => 2 * width,
        };
        let too_many = DecodeError::Count { at: start, count };
        let level = Level {
            start,
            end,
            left: count,
            element: Some(code),
            sized: true,
        };
        match (end - self.at).checked_div(width) {
            Some(elements_max) if count as usize > elements_max => Err(too_many),
            Some(_) => Ok(level),
            None => {
                // The elements are their constructor: only the size is left to check.
                let left = self.zero_width_left.checked_sub(count as usize);
                self.zero_width_left = left.ok_or(too_many)?;
                Ok(Level { left: 0, ..level })
            }
        }
    }

    /// Checks the descriptor in an array's constructor.
    fn descriptor(&mut self, end: usize) -> Result<(), DecodeError> {
        let at = self.at;
        let code = self.input.get(at).copied().unwrap_or_default();
        if matches!(
            codes::kind(code),
            Some(ValueKind::Symbol | ValueKind::Ulong)
        ) {
            return self.element(end, None).map(drop);
        }
        let (expected, found) = ("ulong or symbol as descriptor", codes::type_name(code));
        Err(DecodeError::Type {
            at,
            expected,
            found,
        })
    }

    /// Reads size and count of a compound value or array; returns its end and its count.
    fn size_and_count(
        &mut self,
        start: usize,
        end: usize,
        width: usize,
    ) -> Result<(usize, u32), DecodeError> {
        let size = self.number(end, width)?;
        if size > end - self.at {
            return Err(self.beyond(start, end));
        }
        let inner_end = self.at + size;
        let count = self.number(inner_end, width)?;
        Ok((inner_end, u32::try_from(count).unwrap_or(u32::MAX)))
    }

    /// Reads a length or count of one or four bytes.
    fn number(&mut self, end: usize, width: usize) -> Result<usize, DecodeError> {
        if width == 1 {
            Ok(self.bytes::<1>(end)?[0] as usize)
        } else {
            Ok(u32::from_be_bytes(self.bytes::<4>(end)?) as usize)
        }
    }

    fn bytes<const N: usize>(&mut self, end: usize) -> Result<[u8; N], DecodeError> {
        let bytes = self
            .input
            .get(self.at..end)
            .and_then(<[u8]>::first_chunk::<N>)
            .copied();
        let bytes = bytes.ok_or_else(|| self.beyond(self.at, end))?;
        self.at += N;
        Ok(bytes)
    }

    fn skip(&mut self, end: usize, len: usize) -> Result<(), DecodeError> {
        if len > end - self.at {
            return Err(self.beyond(self.at, end));
        }
        self.at += len;
        Ok(())
    }

    /// The error for missing bytes: the input ends, or only the enclosing value.
    fn beyond(&self, at: usize, end: usize) -> DecodeError {
        if end == self.input.len() {
            DecodeError::Truncated { at }
        } else {
            DecodeError::BeyondParent { at }
        }
    }
}
