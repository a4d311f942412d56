//! Numbers with a unit: bytes and lengths of time.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A number of bytes: `131072`, `64KiB`, `16MiB`, `1GB`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ByteSize(pub u64);

/// Units for printing, which never rounds.
const SIZE_UNITS: [(&str, u64); 5] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
];

/// The factor of a unit of bytes, in either case: KiB, MiB, GiB and TiB, also as K, M, G and T, are
/// powers of 1,024; kB, MB, GB and TB are powers of 1,000. So it is in RabbitMQ.
fn size_factor(unit: &str) -> Option<u64> {
    Some(match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return None,
    })
}

/// The digits at the beginning of a text, and the rest.
fn split_digits(text: &str) -> (&str, &str) {
    let end = text.bytes().take_while(u8::is_ascii_digit).count();
    text.split_at_checked(end).unwrap_or((text, ""))
}

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (digits, unit) = split_digits(text.trim());
        if digits.is_empty() {
            return Err("this is not a number of bytes".to_owned());
        }
        if unit.trim() == "%" {
            return Err("this setting takes no share of the memory".to_owned());
        }
        let Some(factor) = size_factor(unit.trim()) else {
            return Err("this is not a number of bytes".to_owned());
        };
        let number: Option<u64> = digits.parse().ok();
        number
            .and_then(|number| number.checked_mul(factor))
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

/// A length of time: `500ms`, `30s`, `1m30s`, `60d`; `0` where a setting can be disabled.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Span {
    /// Its length in milliseconds.
    pub ms: u64,
}

impl Span {
    /// A span of whole seconds.
    pub const fn seconds(seconds: u64) -> Self {
        Self { ms: seconds * 1000 }
    }

    /// The same length as a standard duration.
    pub const fn duration(self) -> Duration {
        Duration::from_millis(self.ms)
    }
}

/// The units of time and their milliseconds, the longest first.
const TIME_UNITS: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

/// `d, h, m, s or ms`.
fn unit_words() -> String {
    let [others @ .., last] = TIME_UNITS.map(|(name, _)| name);
    format!("{} or {last}", others.join(", "))
}

impl FromStr for Span {
    type Err = String;

    /// Parses numbers with a unit each, the longest unit first and each at most once.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut rest = text.trim();
        if rest == "0" {
            return Ok(Self { ms: 0 });
        }
        let mut units = TIME_UNITS.iter();
        let mut ms: u64 = 0;
        loop {
            let (digits, behind) = split_digits(rest);
            let behind = behind.trim_start();
            let end = behind.bytes().take_while(u8::is_ascii_alphabetic).count();
            let (unit, left) = behind.split_at_checked(end).unwrap_or((behind, ""));
            if digits.is_empty() {
                return Err("this is not a length of time".to_owned());
            }
            if unit.is_empty() {
                return Err(format!("the unit is missing: {}", unit_words()));
            }
            let unit = unit.to_ascii_lowercase();
            if !TIME_UNITS.iter().any(|(name, _)| *name == unit) {
                return Err(format!("'{unit}' is no unit of time: {}", unit_words()));
            }
            let Some((_, factor)) = units.find(|(name, _)| *name == unit) else {
                return Err("the longest unit comes first, and each once".to_owned());
            };
            let part: Option<u64> = digits.parse().ok();
            ms = part
                .and_then(|number| number.checked_mul(*factor))
                .and_then(|part| ms.checked_add(part))
                .ok_or_else(|| "too long".to_owned())?;
            rest = left.trim_start();
            if rest.is_empty() {
                return Ok(Self { ms });
            }
        }
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.ms == 0 {
            return f.write_str("0");
        }
        let mut left = self.ms;
        for (unit, factor) in TIME_UNITS {
            if left >= factor {
                write!(f, "{}{unit}", left / factor)?;
                left %= factor;
            }
        }
        Ok(())
    }
}
