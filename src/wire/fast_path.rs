//! Reading of list fields in the encoding that nearly all peers use, in few steps.

use super::codes;

/// A field in another encoding, or an invalid one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct NotFast;

/// Fields one after the other: absent ones at the end read as null. Where one is [`NotFast`] the
/// list is read by [`Fields`](super::Fields) instead.
#[derive(Clone, Copy, Debug)]
pub(super) struct FastFields<'a> {
    bytes: &'a [u8],
    left: u32,
}

impl<'a> FastFields<'a> {
    pub(super) const fn new(bytes: &'a [u8], left: u32) -> Self {
        Self { bytes, left }
    }

    /// Whether no byte is left.
    pub(super) const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Whether only fields of null are left, and no other byte.
    #[inline]
    pub(super) fn is_all_null(&self) -> bool {
        self.bytes.len() == self.left as usize && self.bytes.iter().all(|code| *code == codes::NULL)
    }

    /// Whether no field is left.
    pub(super) const fn is_done(&self) -> bool {
        self.left == 0
    }

    #[inline]
    pub(super) fn bool(&mut self) -> Result<Option<bool>, NotFast> {
        match self.code()? {
            codes::NULL => Ok(None),
            codes::TRUE => Ok(Some(true)),
            codes::FALSE => Ok(Some(false)),
            _ => Err(NotFast),
        }
    }

    #[inline]
    pub(super) fn ubyte(&mut self) -> Result<Option<u8>, NotFast> {
        match self.code()? {
            codes::NULL => Ok(None),
            codes::UBYTE => self.take().map(|[number]| Some(number)),
            _ => Err(NotFast),
        }
    }

    #[inline]
    pub(super) fn uint(&mut self) -> Result<Option<u32>, NotFast> {
        match self.code()? {
            codes::NULL => Ok(None),
            codes::UINT_0 => Ok(Some(0)),
            codes::SMALL_UINT => self.take().map(|[number]| Some(number.into())),
            codes::UINT => self.take().map(|bytes| Some(u32::from_be_bytes(bytes))),
            _ => Err(NotFast),
        }
    }

    /// Reads a short binary.
    #[inline]
    pub(super) fn binary(&mut self) -> Result<Option<&'a [u8]>, NotFast> {
        match self.code()? {
            codes::NULL => Ok(None),
            codes::BINARY_8 => {
                let [length] = self.take()?;
                let (binary, rest) = self.bytes.split_at_checked(length.into()).ok_or(NotFast)?;
                self.bytes = rest;
                Ok(Some(binary))
            }
            _ => Err(NotFast),
        }
    }

    /// The type code of the next field; that of null if there is none.
    #[inline]
    fn code(&mut self) -> Result<u8, NotFast> {
        let Some(left) = self.left.checked_sub(1) else {
            return Ok(codes::NULL);
        };
        self.left = left;
        self.take().map(|[code]| code)
    }

    #[inline]
    fn take<const N: usize>(&mut self) -> Result<[u8; N], NotFast> {
        let (taken, rest) = self.bytes.split_first_chunk().ok_or(NotFast)?;
        self.bytes = rest;
        Ok(*taken)
    }
}
