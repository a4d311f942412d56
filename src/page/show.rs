//! Values as the page shows them. What comes from messages and peers is [`Text`], which cannot be
//! shown without its control characters being made visible.

use std::fmt::{self, Display, Write as _};

use askama::filters::HtmlSafe;
use askama::{FastWritable, Values};
use chrono::{DateTime, SecondsFormat, Utc};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// A text of somebody else. Shown with its control characters, and those that change the order of
/// what is read, as visible characters.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Text(String);

/// The characters that are encoded in a query: all but the unreserved ones. [RFC 3986 2.3]
const QUERY: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

impl Text {
    /// A text that is shown.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text as it is, for fields of forms.
    pub fn raw(&self) -> &str {
        &self.0
    }

    /// The text in the query of a link.
    pub fn query(&self) -> String {
        encoded(&self.0)
    }

    /// The text as a word of a shell.
    pub fn shell(&self) -> String {
        shell(&self.0)
    }

    /// Whether there is nothing to show.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A text in a query or in a segment of a path. Not inlined: most links have some.
#[inline(never)]
pub fn encoded(text: &str) -> String {
    utf8_percent_encode(text, QUERY).to_string()
}

/// A text as one word of a shell (`bash`, `zsh`, `dash` where it has no control characters).
pub fn shell(text: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "-._/:=@%+,".contains(char);
    if !text.is_empty() && text.chars().all(is_plain) && !text.starts_with('-') {
        return text.to_owned();
    }
    if !text
        .chars()
        .any(|char| char.is_control() || is_unseen(char))
    {
        return format!("'{}'", text.replace('\'', "'\\''"));
    }
    let mut word = "$'".to_owned();
    for char in text.chars() {
        // Writing to a string cannot fail.
        let _ = match char {
            '\'' | '\\' => write!(word, "\\{char}"),
            _ if char.is_control() || is_unseen(char) => {
                let mut bytes = [0; 4];
                let bytes = char.encode_utf8(&mut bytes).bytes();
                bytes
                    .into_iter()
                    .try_for_each(|byte| write!(word, "\\x{byte:02x}"))
            }
            _ => word.write_char(char),
        };
    }
    word.push('\'');
    word
}

/// Whether a character shows nothing, or changes the order of what is read.
const fn is_unseen(char: char) -> bool {
    matches!(
        char,
        '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

/// Writes a character so that it is seen.
fn write_visible(f: &mut dyn fmt::Write, char: char) -> fmt::Result {
    match char {
        '\0'..='\x1f' => f.write_char(char::from_u32(0x2400 + u32::from(char)).unwrap_or(' ')),
        '\x7f' => f.write_char('\u{2421}'),
        _ if char.is_control() || is_unseen(char) => write!(f, "<U+{:04X}>", u32::from(char)),
        _ => f.write_char(char),
    }
}

impl Text {
    fn write(&self, f: &mut dyn fmt::Write) -> fmt::Result {
        self.0.chars().try_for_each(|char| write_visible(f, char))
    }
}

/// A text, a number, or a truth, of somebody else: the value of a setting.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Scalar(pub Text);

impl Scalar {
    fn write(&self, f: &mut dyn fmt::Write) -> fmt::Result {
        self.0.write(f)
    }
}

/// A text of several lines, which stay lines.
#[derive(Clone, Default, Debug)]
pub struct Lines(pub String);

impl Lines {
    fn write(&self, f: &mut dyn fmt::Write) -> fmt::Result {
        self.0.chars().try_for_each(|char| match char {
            '\n' | '\t' => f.write_char(char),
            _ => write_visible(f, char),
        })
    }
}

/// A number of things, its digits grouped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Count(pub u64);

impl Count {
    /// Whether there are none.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl Count {
    fn write(self, f: &mut dyn fmt::Write) -> fmt::Result {
        let digits = self.0.to_string();
        let first = match digits.len() % 3 {
            0 => 3,
            more => more,
        };
        let (head, rest) = digits.split_at(first.min(digits.len()));
        f.write_str(head)?;
        for (index, digit) in rest.chars().enumerate() {
            if index % 3 == 0 {
                f.write_char(',')?;
            }
            f.write_char(digit)?;
        }
        Ok(())
    }
}

/// A rate: how often something happens in a second.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Rate(pub f64);

impl Rate {
    /// How often in a minute.
    #[must_use]
    pub const fn a_minute(self) -> Self {
        Self(self.0 * 60.0)
    }
}

impl Rate {
    fn write(self, f: &mut dyn fmt::Write) -> fmt::Result {
        let rate = self.0;
        if rate >= 100.0 {
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a rate is positive and far below 2^53"
            )]
            return Count(rate.round() as u64).write(f);
        }
        if rate > 0.0 {
            write!(f, "{rate:.1}")
        } else {
            f.write_str("0")
        }
    }
}

/// A number of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Bytes(pub u64);

impl Bytes {
    #[allow(clippy::cast_precision_loss, reason = "shown to one digit")]
    fn write(self, f: &mut dyn fmt::Write) -> fmt::Result {
        let units = ["KiB", "MiB", "GiB", "TiB"];
        let mut size = self.0 as f64;
        let mut unit = "B";
        for larger in units {
            if size < 1024.0 {
                break;
            }
            (size, unit) = (size / 1024.0, larger);
        }
        if unit == "B" {
            write!(f, "{} B", self.0)
        } else {
            write!(f, "{size:.1} {unit}")
        }
    }
}

/// A time, if it is known: an element `time` with the time of UTC, which the script turns into
/// local time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct When(pub Option<i64>);

impl When {
    fn write(&self, f: &mut dyn fmt::Write) -> fmt::Result {
        let Some(time) = self.0.and_then(DateTime::<Utc>::from_timestamp_millis) else {
            return f.write_str("-");
        };
        let exact = time.to_rfc3339_opts(SecondsFormat::Millis, true);
        let shown = time.format("%Y-%m-%d %H:%M:%S UTC");
        write!(
            f,
            "<time datetime=\"{exact}\" title=\"{shown}\">{shown}</time>"
        )
    }
}

/// Shows values as `write` writes them, to templates without `fmt::Arguments`: each place of a template
/// would make its own.
macro_rules! shown {
    ($($Type:ty),*) => {$(
        impl Display for $Type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.write(f)
            }
        }

        impl FastWritable for $Type {
            fn write_into(&self, f: &mut dyn fmt::Write, _: &dyn Values) -> askama::Result<()> {
                Ok(self.write(f)?)
            }
        }
    )*};
}

shown!(Text, Scalar, Lines, Count, Rate, Bytes, When);

// These have digits and constants only.
impl HtmlSafe for Count {}
impl HtmlSafe for Rate {}
impl HtmlSafe for Bytes {}
impl HtmlSafe for When {}

/// How long ago something was, or how long it lasts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    ms: i64,
}

impl Span {
    /// The time between two moments, in milliseconds since 1970.
    pub const fn between(from: i64, to: i64) -> Self {
        Self {
            ms: to.saturating_sub(from),
        }
    }
}

impl Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.ms.max(0) / 1_000;
        match seconds {
            0..60 => write!(f, "{seconds} s"),
            60..3_600 => write!(f, "{} min", seconds / 60),
            3_600..86_400 => write!(f, "{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
            _ => write!(f, "{} d {} h", seconds / 86_400, seconds % 86_400 / 3_600),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_seen_is_made_visible() {
        let check = |text: &str, shown: &str| assert_eq!(Text::new(text).to_string(), shown);
        check("orders.dlq", "orders.dlq");
        check("a\nb\tc\0\x7f", "a\u{240a}b\u{2409}c\u{2400}\u{2421}");
        check("\u{202e}evil", "<U+202E>evil");
        check("\u{9b}31m", "<U+009B>31m");
        assert_eq!(Lines("a\r\n\tb".to_owned()).to_string(), "a\u{240d}\n\tb");
    }

    #[test]
    fn numbers_are_grouped_and_times_are_of_utc() {
        let check = |number: u64, shown: &str| assert_eq!(Count(number).to_string(), shown);
        check(0, "0");
        check(999, "999");
        check(1_000, "1,000");
        check(123_456, "123,456");
        check(u64::MAX, "18,446,744,073,709,551,615");
        assert_eq!(Rate(0.04).a_minute().to_string(), "2.4");
        assert_eq!(Rate(1234.6).to_string(), "1,235");
        assert_eq!(Bytes(1536).to_string(), "1.5 KiB");
        let shown = When(Some(1_763_744_920_123)).to_string();
        assert_eq!(
            shown,
            "<time datetime=\"2025-11-21T17:08:40.123Z\" \
             title=\"2025-11-21 17:08:40 UTC\">2025-11-21 17:08:40 UTC</time>"
        );
        assert_eq!(When(None).to_string(), "-");
        assert_eq!(Span::between(0, 7_500_000).to_string(), "2 h 5 min");
    }

    #[test]
    fn a_word_of_a_shell_is_one_word() {
        let check = |text: &str, word: &str| assert_eq!(shell(text), word);
        check("orders.dlq", "orders.dlq");
        check("", "''");
        check("-x", "'-x'");
        check("it's $HOME", "'it'\\''s $HOME'");
        check("a\nb'", "$'a\\x0ab\\''");
    }
}
