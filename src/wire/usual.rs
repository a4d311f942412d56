//! The fields of a list in the form in which nearly everybody writes them, read with few steps.

use super::codes;

/// Fields one after the other: absent ones at the end read as null. Each answers nothing where it is
/// written otherwise or wrong: then the list is read as any other is, by [`Fields`](super::Fields).
#[derive(Clone, Copy, Debug)]
pub(super) struct Usual<'a> {
    bytes: &'a [u8],
    left: u32,
}

impl<'a> Usual<'a> {
    pub(super) const fn new(bytes: &'a [u8], left: u32) -> Self {
        Self { bytes, left }
    }

    /// Whether no byte is left.
    pub(super) const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Whether no field is left.
    pub(super) const fn is_done(&self) -> bool {
        self.left == 0
    }

    #[inline]
    pub(super) fn bool(&mut self) -> Option<Option<bool>> {
        match self.code()? {
            codes::NULL => Some(None),
            codes::TRUE => Some(Some(true)),
            codes::FALSE => Some(Some(false)),
            _ => None,
        }
    }

    #[inline]
    pub(super) fn ubyte(&mut self) -> Option<Option<u8>> {
        match self.code()? {
            codes::NULL => Some(None),
            codes::UBYTE => self.take().map(|[number]| Some(number)),
            _ => None,
        }
    }

    #[inline]
    pub(super) fn uint(&mut self) -> Option<Option<u32>> {
        match self.code()? {
            codes::NULL => Some(None),
            codes::UINT_0 => Some(Some(0)),
            codes::SMALL_UINT => self.take().map(|[number]| Some(number.into())),
            codes::UINT => self.take().map(|bytes| Some(u32::from_be_bytes(bytes))),
            _ => None,
        }
    }

    /// Passes a short binary.
    #[inline]
    pub(super) fn binary(&mut self) -> Option<()> {
        match self.code()? {
            codes::NULL => Some(()),
            codes::BINARY_8 => {
                let [length] = self.take()?;
                self.bytes = self.bytes.get(usize::from(length)..)?;
                Some(())
            }
            _ => None,
        }
    }

    /// The type code of the next field; that of null if there is none.
    #[inline]
    fn code(&mut self) -> Option<u8> {
        let Some(left) = self.left.checked_sub(1) else {
            return Some(codes::NULL);
        };
        self.left = left;
        self.take().map(|[code]| code)
    }

    #[inline]
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.bytes.split_first_chunk()?;
        self.bytes = rest;
        Some(*taken)
    }
}
