//! Delayed retries: how long a message that comes back waits in its queue. [evidence part 5]

use std::fmt;

use super::argument_value::{integer, show, text};
use super::arguments::DURATION_MS_MAX;
use crate::base::{Position, QueueId, Seed};
use crate::wire::Value;

/// Which messages wait when they come back.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum RetryType {
    /// None of them.
    #[default]
    Disabled,
    /// All of them.
    All,
    /// Those whose delivery-count rose.
    Failed,
    /// Those whose delivery-count did not rise.
    Returned,
}

impl RetryType {
    const ALL: [Self; 4] = [Self::Disabled, Self::All, Self::Failed, Self::Returned];

    /// The word of `x-delayed-retry-type` and of the policy key `delayed-retry-type`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Disabled => "disabled",
            Self::All => "all",
            Self::Failed => "failed",
            Self::Returned => "returned",
        }
    }

    const fn covers(self, has_failed: bool) -> bool {
        match self {
            Self::Disabled => false,
            Self::All => true,
            Self::Failed => has_failed,
            Self::Returned => !has_failed,
        }
    }

    fn read(value: &Value) -> Result<Self, String> {
        let found = text(value).and_then(|text| Self::ALL.iter().find(|one| one.as_str() == text));
        found.copied().ok_or_else(|| {
            let words = Self::ALL.map(Self::as_str).join(", ");
            format!("must be one of {words}, not {}", show(Some(value)))
        })
    }
}

/// What each delay is the last one multiplied by: from 1 to `MULTIPLIER_MAX`.
#[derive(Clone, Copy, Debug)]
pub struct Multiplier(f64);

/// Largest multiplier of delays.
const MULTIPLIER_MAX: f64 = 100.0;

/// Longest delay of delays that multiply, unless another one is given: a day, in milliseconds.
const MULTIPLIED_MS_MAX: u64 = 24 * 60 * 60 * 1000;

/// It is never "not a number".
impl Eq for Multiplier {}

impl PartialEq for Multiplier {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_bits() == other.0.to_bits()
    }
}

impl Multiplier {
    fn read(value: &Value) -> Result<Self, String> {
        let whole = integer(value).and_then(|number| u32::try_from(number).ok());
        let number = match value {
            Value::Double(bits) => Some(f64::from_bits(*bits)),
            Value::Float(bits) => Some(f32::from_bits(*bits).into()),
            _ => whole.map(f64::from),
        };
        let in_range = number.filter(|number| (1.0..=MULTIPLIER_MAX).contains(number));
        in_range.map(Self).ok_or_else(|| {
            let shown = number.map_or_else(|| show(Some(value)), |number| number.to_string());
            format!("must be a number from 1 to {MULTIPLIER_MAX}, not {shown}")
        })
    }

    /// It to the power of a whole number, in multiplications of which each gives the same
    /// everywhere.
    fn to_power(self, mut exponent: u32) -> f64 {
        let (mut result, mut square) = (1.0, self.0);
        while exponent > 0 {
            if exponent % 2 == 1 {
                result *= square;
            }
            square *= square;
            exponent /= 2;
        }
        result
    }
}

/// The keys about delayed retries that arguments or one policy set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RetryKeys {
    /// `delayed-retry-type`.
    pub kind: Option<RetryType>,
    /// `delayed-retry-min`, in milliseconds, at least 1.
    pub min_ms: Option<u64>,
    /// `delayed-retry-max`, in milliseconds, at least 1.
    pub max_ms: Option<u64>,
    /// `delayed-retry-multiplier`.
    pub multiplier: Option<Multiplier>,
    /// `delayed-retry-jitter`, in percent, at most 100.
    pub jitter_percent: Option<u8>,
}

impl RetryKeys {
    /// Reads `delayed-retry-type`; the error lists the accepted words.
    pub(super) fn read_type(&mut self, value: &Value) -> Result<(), String> {
        RetryType::read(value).map(|kind| self.kind = Some(kind))
    }

    /// Reads `delayed-retry-min`; the error names the bounds.
    pub(super) fn read_min(&mut self, value: &Value) -> Result<(), String> {
        read_ms(value).map(|ms| self.min_ms = Some(ms))
    }

    /// Reads `delayed-retry-max`; the error names the bounds.
    pub(super) fn read_max(&mut self, value: &Value) -> Result<(), String> {
        read_ms(value).map(|ms| self.max_ms = Some(ms))
    }

    /// Reads `delayed-retry-multiplier`; the error names the bounds.
    pub(super) fn read_multiplier(&mut self, value: &Value) -> Result<(), String> {
        Multiplier::read(value).map(|multiplier| self.multiplier = Some(multiplier))
    }

    /// Reads `delayed-retry-jitter`; the error names the bounds.
    pub(super) fn read_jitter(&mut self, value: &Value) -> Result<(), String> {
        let number = integer(value).and_then(|number| u8::try_from(number).ok());
        let percent = number.filter(|percent| *percent <= 100).ok_or_else(|| {
            let shown = show(Some(value));
            format!("must be an integer of percent from 0 to 100, not {shown}")
        })?;
        self.jitter_percent = Some(percent);
        Ok(())
    }

    /// Checks that the longest delay is not below the shortest; the error says so.
    pub(super) fn check_max(&self) -> Result<(), String> {
        match (self.min_ms, self.max_ms) {
            (Some(min_ms), Some(max_ms)) if max_ms < min_ms => Err(format!(
                "must not be below delayed-retry-min, which is {min_ms}, and is {max_ms}"
            )),
            _ => Ok(()),
        }
    }

    /// Whether it switches delays on and lacks the shortest one.
    pub(super) fn lacks_min(&self) -> bool {
        self.kind.is_some_and(|kind| kind != RetryType::Disabled) && self.min_ms.is_none()
    }
}

/// Reads a delay: at least a millisecond.
fn read_ms(value: &Value) -> Result<u64, String> {
    let number = integer(value).and_then(|number| u64::try_from(number).ok());
    let in_range = number.filter(|ms| (1..=DURATION_MS_MAX).contains(ms));
    in_range.ok_or_else(|| {
        let shown = show(Some(value));
        format!("must be an integer of milliseconds from 1 to {DURATION_MS_MAX}, not {shown}")
    })
}

/// How messages that come back to a queue wait, where they do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DelayedRetry {
    kind: RetryType,
    min_ms: u64,
    max_ms: u64,
    multiplier: Option<Multiplier>,
    jitter_percent: u8,
}

/// What the jitter of a delay is drawn from, so that the same delay is drawn again.
#[derive(Clone, Copy, Debug)]
pub struct Draw {
    /// The seed of the vhost.
    pub seed: Seed,
    /// The queue that the message is in.
    pub queue: QueueId,
    /// Its position in that queue.
    pub position: Position,
}

impl DelayedRetry {
    /// The shortest and the longest delay, in milliseconds.
    pub const fn bounds_ms(&self) -> (u64, u64) {
        (self.min_ms, self.max_ms)
    }

    /// The delays of a queue by its arguments, its policy and its operator policy; none if there
    /// are none. A policy's type beats the argument's and the smaller of both times counts, as in
    /// RabbitMQ; the operator replaces the type, raises the shortest delay and lowers the longest.
    pub(super) fn of(
        arguments: &RetryKeys,
        user: &RetryKeys,
        operator: &RetryKeys,
    ) -> Option<Self> {
        let first = [operator, user, arguments];
        let kind = first.iter().find_map(|keys| keys.kind).unwrap_or_default();
        let smaller = |times: [Option<u64>; 2]| times.into_iter().flatten().min();
        let min_ms = smaller([arguments.min_ms, user.min_ms]).max(operator.min_ms)?;
        if kind == RetryType::Disabled {
            return None;
        }
        let multiplier = first.iter().find_map(|keys| keys.multiplier);
        let longest_ms = if multiplier.is_some() {
            MULTIPLIED_MS_MAX.max(min_ms)
        } else {
            min_ms
        };
        let max_ms = smaller([arguments.max_ms, user.max_ms]).unwrap_or(longest_ms);
        let max_ms = max_ms.max(operator.min_ms.unwrap_or(0));
        let max_ms = operator.max_ms.map_or(max_ms, |lower| lower.min(max_ms));
        let jitter_percent = first.iter().find_map(|keys| keys.jitter_percent);
        Some(Self {
            kind,
            min_ms,
            max_ms,
            multiplier,
            jitter_percent: jitter_percent.unwrap_or(0),
        })
    }

    /// Whether a multiplier is set that changes nothing.
    pub const fn never_grows(&self) -> bool {
        self.multiplier.is_some() && self.max_ms <= self.min_ms
    }

    /// How long a message waits that came back after so many failures in its queue, in
    /// milliseconds; none if it does not. `has_failed`: its delivery-count rose now.
    pub fn delay_ms(&self, has_failed: bool, failures: u32, draw: Draw) -> Option<u64> {
        if !self.kind.covers(has_failed) {
            return None;
        }
        let number = failures.max(1);
        let delay_ms = match self.multiplier {
            None => self.min_ms.saturating_mul(number.into()).min(self.max_ms),
            Some(multiplier) => {
                let factor = multiplier.to_power(number - 1);
                scaled(self.min_ms, factor, self.max_ms)
            }
        };
        Some(delay_ms - self.cut_ms(delay_ms, draw.number(number)))
    }

    /// What the jitter takes from a delay: the share that a number of 53 bits gives.
    fn cut_ms(&self, delay_ms: u64, drawn: u64) -> u64 {
        let share = u128::from(drawn) * u128::from(self.jitter_percent) / 100;
        let cut = (u128::from(delay_ms) * share) >> DRAWN_BITS;
        u64::try_from(cut).unwrap_or(delay_ms).min(delay_ms - 1)
    }
}

/// Bits of a drawn number.
const DRAWN_BITS: u32 = 53;

impl Draw {
    /// A number of [`DRAWN_BITS`] bits for the delay of this number.
    fn number(self, number: u32) -> u64 {
        let parts = [self.queue.0, self.position.0, number.into()];
        let mixed = parts
            .iter()
            .fold(mixed(self.seed.0), |state, part| mixed(state ^ part));
        mixed >> (u64::BITS - DRAWN_BITS)
    }
}

/// Spreads each bit of a number over all others (the finalizer of `SplitMix64`).
const fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// A time multiplied by a factor from 1, to the nearest millisecond, at most `max_ms`.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "times are below 2^53 milliseconds, and the product is compared before it is cut"
)]
fn scaled(min_ms: u64, factor: f64, max_ms: u64) -> u64 {
    let product = (min_ms as f64 * factor).round();
    if product >= max_ms as f64 {
        max_ms
    } else {
        product as u64
    }
}

/// As RabbitMQ shows it, then what it does not have.
impl fmt::Display for DelayedRetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind.as_str();
        write!(f, "{kind} (min: {}ms, max: {}ms)", self.min_ms, self.max_ms)?;
        if let Some(multiplier) = self.multiplier {
            write!(f, ", multiplier: {}", multiplier.0)?;
        }
        if self.jitter_percent > 0 {
            write!(f, ", jitter: {}%", self.jitter_percent)?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "tests/delay.rs"]
mod tests;
