//! The tokens of a selector.

use super::SelectorError;
use super::program::{Dialect, Field};
use super::sql;

/// One token and its position.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Token {
    pub(super) kind: TokenKind,
    /// Its position, in characters from 1.
    pub(super) at: usize,
}

#[derive(Clone, PartialEq, Debug)]
pub(super) enum TokenKind {
    /// A name; also a reserved word, which the parser recognises whatever its case.
    Word(String),
    /// An application property of an SQL filter.
    Property(String),
    /// A field of a section that an SQL filter names.
    Field(Field),
    Text(String),
    Bytes(Vec<u8>),
    Exact(i64),
    Approximate(f64),
    Open,
    Close,
    Comma,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Plus,
    Minus,
    Times,
    Divide,
    /// `%`, which only SQL filters have.
    Remainder,
    End,
}

impl TokenKind {
    /// The token as an error message shows it.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Word(word) | Self::Property(word) => format!("'{word}'"),
            Self::Field(_) => "a field of a section".to_owned(),
            Self::Bytes(bytes) => format!("{} bytes", bytes.len()),
            Self::Text(text) => format!("the string '{text}'"),
            Self::Exact(number) => format!("the number {number}"),
            Self::Approximate(number) => format!("the number {number}"),
            Self::End => "the end".to_owned(),
            Self::Open => "'('".to_owned(),
            Self::Close => "')'".to_owned(),
            Self::Comma => "','".to_owned(),
            Self::Equal => "'='".to_owned(),
            Self::NotEqual => "'<>'".to_owned(),
            Self::Less => "'<'".to_owned(),
            Self::LessOrEqual => "'<='".to_owned(),
            Self::Greater => "'>'".to_owned(),
            Self::GreaterOrEqual => "'>='".to_owned(),
            Self::Plus => "'+'".to_owned(),
            Self::Minus => "'-'".to_owned(),
            Self::Times => "'*'".to_owned(),
            Self::Divide => "'/'".to_owned(),
            Self::Remainder => "'%'".to_owned(),
        }
    }
}

/// Splits a selector or an SQL filter into tokens. The last one is [`TokenKind::End`].
pub(super) fn tokens(text: &str, dialect: Dialect) -> Result<Vec<Token>, SelectorError> {
    let mut scanner = Scanner {
        dialect,
        rest: text,
        at: 1,
        tokens: Vec::new(),
    };
    while scanner.token()? {}
    let at = scanner.at;
    scanner.tokens.push(Token {
        kind: TokenKind::End,
        at,
    });
    Ok(scanner.tokens)
}

struct Scanner<'a> {
    dialect: Dialect,
    rest: &'a str,
    at: usize,
    tokens: Vec<Token>,
}

impl<'a> Scanner<'a> {
    /// Reads one more token; false at the end.
    fn token(&mut self) -> Result<bool, SelectorError> {
        let blank = self.prefix(char::is_whitespace);
        self.take(blank.len());
        let at = self.at;
        let Some(first) = self.rest.chars().next() else {
            return Ok(false);
        };
        let is_sql = self.dialect == Dialect::Sql;
        let kind = match first {
            '\'' => self.text('\'')?,
            '"' if is_sql => self.text('"')?,
            '[' if is_sql => TokenKind::Property(self.bracketed()?),
            '0'..='9' => self.number()?,
            '.' if !is_sql && self.digit_at(1) => self.number()?,
            c if is_sql && c.is_ascii_alphabetic() => self.sql_name()?,
            c if !is_sql && starts_name(c) => TokenKind::Word(self.name()),
            _ => self
                .operator()
                .ok_or(SelectorError::Character { found: first, at })?,
        };
        self.tokens.push(Token { kind, at });
        Ok(true)
    }

    fn prefix(&self, wanted: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !wanted(c)).unwrap_or(self.rest.len());
        self.rest.get(..end).unwrap_or_default()
    }

    /// Skips this many bytes, which end with a character.
    fn take(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.at += taken.chars().count();
        self.rest = rest;
        taken
    }

    fn digit_at(&self, index: usize) -> bool {
        let byte = self.rest.as_bytes().get(index);
        byte.is_some_and(u8::is_ascii_digit)
    }

    fn name(&mut self) -> String {
        let name = self.prefix(continues_name);
        self.take(name.len()).to_owned()
    }

    /// Reads a name of an SQL filter: a word, a property, or a section with one of its fields.
    fn sql_name(&mut self) -> Result<TokenKind, SelectorError> {
        let at = self.at;
        let in_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let section = self.prefix(|c| c.is_ascii_alphabetic() || matches!(c, '_' | '-'));
        let behind = self.rest.get(section.len()..).unwrap_or_default();
        if !behind.starts_with('.') {
            let name = self.prefix(in_name);
            return sql::word(self.take(name.len()), at);
        }
        self.take(section.len() + 1);
        let name = if self.rest.starts_with('[') {
            self.bracketed()?
        } else {
            let name = self.prefix(in_name);
            self.take(name.len()).to_owned()
        };
        sql::member(section, &name, at)
    }

    /// Reads a name in brackets; doubled ones stand for one.
    fn bracketed(&mut self) -> Result<String, SelectorError> {
        let at = self.at;
        let mut name = String::new();
        self.take(1);
        loop {
            let part = self.prefix(|c| !matches!(c, '[' | ']'));
            name.push_str(self.take(part.len()));
            match self.rest.as_bytes() {
                [b']', b']', ..] | [b'[', b'[', ..] => {
                    let both = self.take(2);
                    name.push_str(both.get(..1).unwrap_or_default());
                }
                [b']', ..] => {
                    self.take(1);
                    return Ok(name);
                }
                _ => return Err(SelectorError::OpenName { at }),
            }
        }
    }

    /// Reads a string in these quotes; a doubled quote stands for one.
    fn text(&mut self, quote: char) -> Result<TokenKind, SelectorError> {
        let at = self.at;
        let mut text = String::new();
        self.take(1);
        loop {
            let part = self.prefix(|c| c != quote);
            text.push_str(self.take(part.len()));
            if self.rest.is_empty() {
                return Err(SelectorError::OpenString { at });
            }
            self.take(1);
            if !self.rest.starts_with(quote) {
                return Ok(TokenKind::Text(text));
            }
            self.take(1);
            text.push(quote);
        }
    }

    /// Reads a number as Java writes it: decimal, hexadecimal or octal with an optional `L`, or
    /// with a fraction or an exponent and an optional `F` or `D`. Those of SQL filters have no suffixes,
    /// and hexadecimal ones are bytes.
    fn number(&mut self) -> Result<TokenKind, SelectorError> {
        let at = self.at;
        let mut end = self.prefix(|c| c.is_ascii_alphanumeric() || c == '.').len();
        let is_hex = self.rest.starts_with("0x") || self.rest.starts_with("0X");
        let signed = |rest: &str, end: usize| {
            let exponent = rest
                .get(..end)
                .is_some_and(|text| text.ends_with(['e', 'E']));
            let sign = rest
                .get(end..)
                .is_some_and(|rest| rest.starts_with(['+', '-']));
            exponent && sign
        };
        if !is_hex && signed(self.rest, end) {
            let behind = self.rest.get(end + 1..).unwrap_or_default();
            let more = behind.find(|c: char| !c.is_ascii_alphanumeric());
            end += 1 + more.unwrap_or(behind.len());
        }
        let text = self.take(end);
        let read = match self.dialect {
            Dialect::Jms => read_number(text),
            Dialect::Sql => sql::read_number(text),
        };
        read.ok_or_else(|| SelectorError::Number {
            text: text.to_owned(),
            at,
        })
    }

    fn operator(&mut self) -> Option<TokenKind> {
        let (kind, bytes) = match self.rest.as_bytes() {
            [b'<', b'>', ..] | [b'!', b'=', ..] => (TokenKind::NotEqual, 2),
            [b'<', b'=', ..] => (TokenKind::LessOrEqual, 2),
            [b'>', b'=', ..] => (TokenKind::GreaterOrEqual, 2),
            [b'<', ..] => (TokenKind::Less, 1),
            [b'>', ..] => (TokenKind::Greater, 1),
            [b'=', ..] => (TokenKind::Equal, 1),
            [b'(', ..] => (TokenKind::Open, 1),
            [b')', ..] => (TokenKind::Close, 1),
            [b',', ..] => (TokenKind::Comma, 1),
            [b'+', ..] => (TokenKind::Plus, 1),
            [b'-', ..] => (TokenKind::Minus, 1),
            [b'*', ..] => (TokenKind::Times, 1),
            [b'/', ..] => (TokenKind::Divide, 1),
            [b'%', ..] if self.dialect == Dialect::Sql => (TokenKind::Remainder, 1),
            _ => return None,
        };
        self.take(bytes);
        Some(kind)
    }
}

/// Whether a character can begin a name: a Java identifier, which also has `$` and `_`. Dots and
/// dashes are not part of one, but `amqp.` names and vendors' property names have them and nothing
/// else could be meant.
fn starts_name(c: char) -> bool {
    c.is_alphabetic() || c == '_' || c == '$'
}

fn continues_name(c: char) -> bool {
    starts_name(c) || c.is_numeric() || c == '.'
}

fn read_number(text: &str) -> Option<TokenKind> {
    let whole = text.strip_suffix(['l', 'L']).unwrap_or(text);
    let hex = whole
        .strip_prefix("0x")
        .or_else(|| whole.strip_prefix("0X"));
    if let Some(digits) = hex {
        return u64::from_str_radix(digits, 16)
            .ok()
            .map(|number| TokenKind::Exact(number.cast_signed()));
    }
    if whole.bytes().all(|byte| byte.is_ascii_digit()) {
        let radix = if whole.len() > 1 && whole.starts_with('0') {
            8
        } else {
            10
        };
        return i64::from_str_radix(whole, radix).ok().map(TokenKind::Exact);
    }
    let fraction = text.strip_suffix(['f', 'F', 'd', 'D']).unwrap_or(text);
    let plain = |c: char| c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '+' | '-');
    let number: f64 = fraction
        .chars()
        .all(plain)
        .then(|| fraction.parse().ok())??;
    number.is_finite().then_some(TokenKind::Approximate(number))
}
