//! Numbers with a unit: bytes and lengths of time.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A number of bytes: `131072`, `64KiB`, `16MiB`, `2GiB`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ByteSize(pub u64);

const SIZE_UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (digits, factor) = SIZE_UNITS
            .iter()
            .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)))
            .unwrap_or((text, 1));
        let number: u64 = digits
            .trim_end()
            .parse()
            .map_err(|_| "this is not a number of bytes".to_owned())?;
        number
            .checked_mul(factor)
            .map(Self)
            .ok_or_else(|| "this is too large".to_owned())
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = SIZE_UNITS
            .iter()
            .find(|(_, factor)| self.0 > 0 && self.0.is_multiple_of(*factor));
        match unit {
            Some((name, factor)) => write!(f, "{}{name}", self.0 / factor),
            None => write!(f, "{}", self.0),
        }
    }
}

/// A length of time: `500ms`, `30s`, `5m`; `0` where a setting can be switched off.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Span {
    /// Milliseconds.
    pub ms: u64,
}

impl Span {
    /// A span of whole seconds.
    pub const fn seconds(seconds: u64) -> Self {
        Self { ms: seconds * 1000 }
    }

    /// The same as a standard duration.
    pub const fn duration(self) -> Duration {
        Duration::from_millis(self.ms)
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "0" {
            return Ok(Self { ms: 0 });
        }
        let (digits, factor) = [("ms", 1), ("s", 1000), ("m", 60_000)]
            .iter()
            .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)))
            .ok_or_else(|| "the unit is missing".to_owned())?;
        let number: u64 = digits
            .trim_end()
            .parse()
            .map_err(|_| "this is not a length of time".to_owned())?;
        number
            .checked_mul(factor)
            .map(|ms| Self { ms })
            .ok_or_else(|| "too long".to_owned())
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ms {
            0 => f.write_str("0"),
            ms if ms.is_multiple_of(60_000) => write!(f, "{}m", ms / 60_000),
            ms if ms.is_multiple_of(1000) => write!(f, "{}s", ms / 1000),
            ms => write!(f, "{ms}ms"),
        }
    }
}
