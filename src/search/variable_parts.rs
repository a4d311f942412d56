//! Removing from a text what varies from one message to the next: addresses, ids, times, numbers.
//!
//! Each kind is replaced in a pass of its own, in a fixed order, by one character from outside of
//! all texts, which counts as a letter where the bounds of words matter. So nothing that a pass left
//! is found by it again, and doing it twice equals once. Every pass takes linear time.

use super::dates::date_or_time;
use super::networks::{address, digits_of_hardware};
use crate::base::limits::{GROUP_TEXT_BYTES_MAX, GROUP_TEXT_CHARS_MAX};

/// The characters that stand for what was replaced, with what people read.
const REPLACED: [(char, &str); 7] = [
    (URL, "<url>"),
    (EMAIL, "<email>"),
    (UUID, "<uuid>"),
    (TIME, "<time>"),
    (IP, "<ip>"),
    (QUOTED, "<q>"),
    (NUMBER, "<n>"),
];
const URL: char = '\u{e000}';
const EMAIL: char = '\u{e001}';
const UUID: char = '\u{e002}';
const TIME: char = '\u{e003}';
const IP: char = '\u{e004}';
const QUOTED: char = '\u{e005}';
const NUMBER: char = '\u{e006}';

/// Characters of the scheme of a URL, at most.
const SCHEME_CHARS_MAX: usize = 24;
/// Digits of a hexadecimal number that has no `0x` in front, at least.
const HEX_DIGITS_MIN: usize = 8;
/// Digits behind a letter that are a number, at least: fewer belong to a name, as in `Int32`.
const GLUED_DIGITS_MIN: usize = 3;
/// Lengths of the parts of a UUID. [RFC 9562 4]
const UUID_PARTS: [usize; 5] = [8, 4, 4, 4, 12];
/// Quotation marks: what opens, what closes, and whether it is also an apostrophe or a mark within
/// names, so that it opens and closes only beside what is not a letter.
const QUOTES: [(char, char, bool); 8] = [
    ('"', '"', false),
    ('\'', '\'', true),
    ('`', '`', true),
    ('\u{201c}', '\u{201d}', false),
    ('\u{201e}', '\u{201c}', false),
    ('\u{2018}', '\u{2019}', true),
    ('\u{ab}', '\u{bb}', false),
    ('\u{300c}', '\u{300d}', false),
];

/// Says where what begins at a place ends, if anything does.
type Find<'a> = dyn Fn(&Text<'_>, usize) -> Option<usize> + 'a;

/// A text without its variable parts, at most `limits::GROUP_TEXT_CHARS_MAX` characters of it.
pub(super) fn without_variable_parts(text: &str) -> String {
    shown(&stripped_chars(clean(text)))
}

/// A cleaned text with one character for each part that varies.
pub(super) fn stripped_chars(mut text: Vec<char>) -> Vec<char> {
    let passes: [(char, &Find<'_>); 6] = [
        (URL, &url),
        (EMAIL, &email),
        (UUID, &uuid),
        (TIME, &date_or_time),
        (IP, &address),
        (NUMBER, &hexadecimal),
    ];
    for (word, find) in passes {
        text = replaced(&text, word, find);
    }
    let quotes = Quotes::of(&Text(&text));
    text = replaced(&text, QUOTED, &|text, at| quotes.end(text, at));
    replaced(&text, NUMBER, &number)
}

/// A text in which places are looked at, none behind its end.
pub(super) struct Text<'a>(&'a [char]);

impl Text<'_> {
    /// The character at a place; NUL, which no text has, behind the end.
    pub(super) fn at(&self, place: usize) -> char {
        self.0.get(place).copied().unwrap_or('\0')
    }

    /// The character in front of a place; NUL in front of the first.
    pub(super) fn before(&self, place: usize) -> char {
        place.checked_sub(1).map_or('\0', |place| self.at(place))
    }

    /// Whether no word goes on over the beginning at this place.
    pub(super) fn begins(&self, place: usize) -> bool {
        !is_word(self.before(place))
    }

    /// Whether no word goes on over the end at this place.
    pub(super) fn ends(&self, place: usize) -> bool {
        !is_word(self.at(place))
    }

    /// The end of the characters of a kind that begin at a place.
    pub(super) fn run(&self, from: usize, is_of_kind: impl Fn(char) -> bool) -> usize {
        let mut end = from;
        while self.0.get(end).is_some_and(|c| is_of_kind(*c)) {
            end += 1;
        }
        end
    }

    /// The end of digits that begin at a place, if there are so many of them and no more.
    pub(super) fn digits(&self, from: usize, min: usize, max: usize) -> Option<usize> {
        let end = (from..=from + max).find(|place| !self.at(*place).is_ascii_digit())?;
        (end - from >= min).then_some(end)
    }

    /// The end of a word at a place, in ASCII and whatever its case.
    pub(super) fn word(&self, from: usize, word: &str) -> Option<usize> {
        let mut end = from;
        for c in word.chars() {
            if !self.at(end).eq_ignore_ascii_case(&c) {
                return None;
            }
            end += 1;
        }
        Some(end)
    }
}

/// Whether a character belongs to a word; what was replaced does.
fn is_word(c: char) -> bool {
    c.is_alphanumeric() || is_replaced(c)
}

fn is_replaced(c: char) -> bool {
    (URL..=NUMBER).contains(&c)
}

/// Whether it is a digit, of any script.
fn is_digit(c: char) -> bool {
    c.is_ascii_digit() || (!c.is_ascii() && c.is_numeric())
}

/// The beginning of a text: blanks of all kinds as one, what is not visible left out, and what an
/// earlier removal wrote as what it stands for.
fn clean(text: &str) -> Vec<char> {
    let text = text
        .get(..text.floor_char_boundary(GROUP_TEXT_BYTES_MAX))
        .unwrap_or(text);
    let mut out: Vec<char> = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let removed = REPLACED.iter().find(|(_, shown)| rest.starts_with(shown));
        if let Some((word, shown)) = removed {
            out.push(*word);
            rest = rest.get(shown.len()..).unwrap_or_default();
            continue;
        }
        rest = rest.get(c.len_utf8()..).unwrap_or_default();
        if c.is_whitespace() {
            if out.last().is_some_and(|last| *last != ' ') {
                out.push(' ');
            }
        } else if !c.is_control() && !is_invisible(c) && !is_replaced(c) {
            out.push(c);
        }
    }
    if out.last() == Some(&' ') {
        out.pop();
    }
    out
}

/// Whether it only turns the direction of writing, joins, or marks an order of bytes.
const fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// The text as people read it, cut to its bound.
fn shown(text: &[char]) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.iter().take(GROUP_TEXT_CHARS_MAX) {
        match REPLACED.iter().find(|(word, _)| word == c) {
            Some((_, shown)) => out.push_str(shown),
            None => out.push(*c),
        }
    }
    out.truncate(out.trim_end().len());
    out
}

/// The text with one character for each part that is found; `find` says where the one that begins
/// at a place ends.
fn replaced(text: &[char], word: char, find: &Find<'_>) -> Vec<char> {
    let seen = Text(text);
    let mut out = Vec::with_capacity(text.len());
    let mut place = 0;
    while place < text.len() {
        match find(&seen, place) {
            Some(end) if end > place => {
                out.push(word);
                place = end;
            }
            _ => {
                out.push(seen.at(place));
                place += 1;
            }
        }
    }
    out
}

/// A URL with a scheme and `://`; punctuation at its end is not part of it. [RFC 3986]
fn url(text: &Text<'_>, from: usize) -> Option<usize> {
    let is_letter = |c: char| c.is_ascii_alphabetic();
    if !is_letter(text.at(from)) || is_letter(text.before(from)) {
        return None;
    }
    let scheme = |place: &usize| {
        let c = text.at(*place);
        !(c.is_ascii_alphanumeric() || matches!(c, '+' | '.' | '-'))
    };
    let begin = text.word((from..from + SCHEME_CHARS_MAX).find(scheme)?, "://")?;
    let is_part = |c: char| {
        !c.is_whitespace()
            && !is_replaced(c)
            && !matches!(c, '"' | '\'' | '`' | '<' | '>' | '|' | '\\' | '^')
            && !QUOTES
                .iter()
                .any(|(open, close, _)| c == *open || c == *close)
    };
    let mut end = text.run(begin, is_part);
    let is_punctuation = |c| matches!(c, '.' | ',' | ';' | ':' | '!' | '?' | ')' | ']' | '}');
    while end > begin && is_punctuation(text.before(end)) {
        end -= 1;
    }
    (end > begin).then_some(end)
}

/// An e-mail address.
fn email(text: &Text<'_>, from: usize) -> Option<usize> {
    let is_local = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '%' | '+' | '-');
    let is_domain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
    if is_local(text.before(from)) {
        return None;
    }
    let at = text.run(from, is_local);
    if at == from || text.at(at) != '@' {
        return None;
    }
    let mut end = text.run(at + 1, is_domain);
    while matches!(text.before(end), '.' | '-') {
        end -= 1;
    }
    let has_dot = (at + 1..end).any(|place| text.at(place) == '.');
    has_dot.then_some(end)
}

fn uuid(text: &Text<'_>, from: usize) -> Option<usize> {
    if !text.begins(from) {
        return None;
    }
    let mut end = from;
    for (index, digits) in UUID_PARTS.into_iter().enumerate() {
        if index > 0 {
            end = text.word(end, "-")?;
        }
        let part = end..end + digits;
        if !part.clone().all(|place| text.at(place).is_ascii_hexdigit()) {
            return None;
        }
        end = part.end;
    }
    text.ends(end).then_some(end)
}

/// A number in hexadecimal: with `0x`, of eight digits and more with letters and digits among them,
/// or the six pairs of a hardware address. One without letters is a number like others.
fn hexadecimal(text: &Text<'_>, from: usize) -> Option<usize> {
    if !text.begins(from) {
        return None;
    }
    if let Some(end) = digits_of_hardware(text, from) {
        return Some(end);
    }
    let is_hex = |c: char| c.is_ascii_hexdigit();
    if let Some(begin) = text.word(from, "0x") {
        let end = text.run(begin, is_hex);
        return (end > begin && text.ends(end)).then_some(end);
    }
    let end = text.run(from, is_hex);
    let has = |is_kind: fn(&char) -> bool| (from..end).any(|place| is_kind(&text.at(place)));
    let is_long = end - from >= HEX_DIGITS_MIN && text.ends(end);
    let fits = is_long && has(char::is_ascii_digit) && has(char::is_ascii_alphabetic);
    fits.then_some(end)
}

/// A number with a sign, and groups or decimals. A few digits behind a letter belong to a name.
fn number(text: &Text<'_>, from: usize) -> Option<usize> {
    let before = text.before(from);
    let is_signed = matches!(text.at(from), '-' | '+')
        && matches!(before, '\0' | ' ' | '(' | '[' | '=' | ':' | ',');
    let begin = from + usize::from(is_signed);
    let mut end = text.run(begin, is_digit);
    if end == begin || is_digit(before) {
        return None;
    }
    if before.is_alphabetic() {
        return (end - begin >= GLUED_DIGITS_MIN).then_some(end);
    }
    while matches!(text.at(end), '.' | ',') && is_digit(text.at(end + 1)) {
        end = text.run(end + 1, is_digit);
    }
    Some(end)
}

/// Where quotations of each kind end at last: what opens behind that closes nowhere, so that no
/// place is looked at twice for nothing.
struct Quotes {
    last: [usize; QUOTES.len()],
}

impl Quotes {
    fn of(text: &Text<'_>) -> Self {
        let last = |close: char, is_apostrophe: bool| {
            let places = (0..text.0.len()).rev();
            let mut closing = places.filter(|place| closes(text, *place, close, is_apostrophe));
            closing.next().unwrap_or(0)
        };
        Self {
            last: QUOTES.map(|(_, close, is_apostrophe)| last(close, is_apostrophe)),
        }
    }

    /// The end of the quotation that opens at a place.
    fn end(&self, text: &Text<'_>, from: usize) -> Option<usize> {
        let kinds = QUOTES.iter().zip(self.last);
        for ((open, close, is_apostrophe), last) in kinds {
            if text.at(from) != *open || last <= from {
                continue;
            }
            if *is_apostrophe && !text.begins(from) {
                continue;
            }
            let mut places = from + 1..=last;
            let end = places.find(|place| closes(text, *place, *close, *is_apostrophe))?;
            return Some(end + 1);
        }
        None
    }
}

/// Whether a quotation closes at a place: not behind a backslash.
fn closes(text: &Text<'_>, place: usize, close: char, is_apostrophe: bool) -> bool {
    text.at(place) == close
        && text.before(place) != '\\'
        && (!is_apostrophe || text.ends(place + 1))
}
