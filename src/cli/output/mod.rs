//! The output of commands: tables for people, JSON, CSV or TSV for programs.
//!
//! Promises: text from a broker cannot steer a terminal; a program never sees headings or
//! confirmations in its JSON.

mod pick;
mod table;
mod width;

use std::fmt::{Display, Write as _};
use std::io::{IsTerminal, Write};

use clap::ValueEnum;
use serde_json::{Map, Value};

use super::exit::{Failure, written};
pub(super) use pick::{pick, whole_number};

/// A form of output.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub(super) enum Format {
    /// Aligned columns
    #[default]
    #[value(alias = "pretty_table")]
    Table,
    /// JSON, whole objects unless columns are named
    #[value(aliases = ["raw_json", "pretty_json"])]
    Json,
    /// Comma-separated values
    Csv,
    /// Tab-separated values
    Tsv,
}

/// One column of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Column {
    /// The column's heading.
    pub(super) shown: String,
    /// The path of the value in an object: names with dots between.
    pub(super) path: String,
}

/// The format and options of the output.
#[derive(Clone, Copy, Debug)]
pub(super) struct Output {
    /// The format; none: the one that suits the reader.
    format: Option<Format>,
    is_quiet: bool,
    has_headings: bool,
}

impl Output {
    /// Prints to standard output in this format; without one, in that which suits the reader.
    pub(super) fn new(format: Option<Format>, is_quiet: bool, has_headings: bool) -> Self {
        Self {
            format,
            is_quiet,
            has_headings,
        }
    }

    /// Whether the format is JSON.
    pub(super) fn is_json(self) -> bool {
        self.format == Some(Format::Json)
    }

    /// Whether values are separated for programs, without any words.
    pub(super) fn is_separated(self) -> bool {
        matches!(self.format, Some(Format::Csv | Format::Tsv))
    }

    /// The format of a list: by default aligned for a terminal, and rabbitmqctl's, with tabs, for a
    /// script.
    fn of_lists(self) -> Format {
        let is_looked_at = || !self.is_quiet && std::io::stdout().is_terminal();
        self.format.unwrap_or_else(|| {
            if is_looked_at() {
                Format::Table
            } else {
                Format::Tsv
            }
        })
    }

    /// Whether only the requested data is wanted.
    pub(super) fn is_quiet(self) -> bool {
        self.is_quiet
    }

    /// Confirms what was done; for people only.
    pub(super) fn done(self, text: impl Display) -> Result<(), Failure> {
        if self.is_quiet || self.format.is_some_and(|format| format != Format::Table) {
            return Ok(());
        }
        print(&format!("{}\n", printable_lines(&text.to_string())))
    }

    /// Prints objects: in JSON with these columns, or completely if `columns` were not named.
    pub(super) fn objects(
        self,
        objects: Vec<Value>,
        columns: &[Column],
        are_named: bool,
    ) -> Result<(), Failure> {
        if self.is_json() {
            let shown = if are_named {
                objects
                    .iter()
                    .map(|object| narrowed(object, columns))
                    .collect()
            } else {
                objects
            };
            return print_json(&Value::Array(shown));
        }
        let cells = |object: &Value| -> Vec<Value> {
            let cell = |column: &Column| pick(object, &column.path).cloned();
            columns
                .iter()
                .map(|column| cell(column).unwrap_or(Value::Null))
                .collect()
        };
        let headings: Vec<&str> = columns.iter().map(|column| column.shown.as_str()).collect();
        let rows: Vec<Vec<Value>> = objects.iter().map(cells).collect();
        self.rows(self.of_lists(), &headings, &rows)
    }

    /// Prints the fields of one object, a line each.
    pub(super) fn fields(self, object: &Value) -> Result<(), Failure> {
        if self.is_json() {
            return print_json(object);
        }
        let fields = object.as_object().into_iter().flatten();
        let rows: Vec<Vec<Value>> = fields
            .map(|(name, value)| vec![Value::String(name.clone()), value.clone()])
            .collect();
        self.rows(self.format.unwrap_or_default(), &["name", "value"], &rows)
    }

    fn rows(self, format: Format, headings: &[&str], rows: &[Vec<Value>]) -> Result<(), Failure> {
        let headings = Some(headings).filter(|_| self.has_headings);
        match format {
            Format::Csv => print_data(&table::separated(headings, rows, table::Separator::Comma)),
            Format::Tsv => print(&table::separated(headings, rows, table::Separator::Tab)),
            Format::Table | Format::Json => print(&table::aligned(headings, rows)),
        }
    }
}

/// An object with only these columns.
fn narrowed(object: &Value, columns: &[Column]) -> Value {
    let field = |column: &Column| {
        let value = pick(object, &column.path).cloned().unwrap_or(Value::Null);
        (column.shown.clone(), value)
    };
    Value::Object(columns.iter().map(field).collect::<Map<_, _>>())
}

/// A text in one line that cannot steer a terminal: control characters become escapes.
pub(super) fn printable(text: &str) -> String {
    escaped(text, |_| false)
}

/// The same, keeping its lines.
pub(super) fn printable_lines(text: &str) -> String {
    escaped(text, |c| c == '\n')
}

fn escaped(text: &str, is_kept: impl Fn(char) -> bool) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        if steers(character) && !is_kept(character) {
            safe.extend(character.escape_default());
        } else {
            safe.push(character);
        }
    }
    safe
}

/// Whether a terminal interprets a character instead of showing it: controls, and marks that change
/// the direction of text.
fn steers(character: char) -> bool {
    let turns = matches!(character, '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    character.is_control() || turns
}

/// Prints a JSON value.
pub(super) fn print_json(value: &Value) -> Result<(), Failure> {
    print(&format!("{}\n", printable_json(&format!("{value:#}"))))
}

/// JSON with the same values, in which what would steer a terminal is written as an escape: serde writes
/// ASCII's controls so, but neither those beyond nor marks of direction.
pub(super) fn printable_json(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        // Controls of ASCII stand between values alone: ends of lines.
        if steers(character) && (!character.is_ascii() || character == '\u{7f}') {
            // Writing to a string cannot fail.
            let _ = write!(safe, "\\u{:04x}", u32::from(character));
        } else {
            safe.push(character);
        }
    }
    safe
}

/// Prints data for programs as they are; on a terminal without what would steer it.
pub(super) fn print_data(text: &str) -> Result<(), Failure> {
    if std::io::stdout().is_terminal() {
        print(&printable_lines(text))
    } else {
        print(text)
    }
}

/// Prints a text as it is.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    written(write_out(text.as_bytes()))
}

fn write_out(bytes: &[u8]) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_steers_a_terminal_is_printed() {
        let check = |text: &str, safe: &str| assert_eq!(printable(text), safe);
        check("plain \u{e9}", "plain \u{e9}");
        check("a\u{1b}[2Jb", "a\\u{1b}[2Jb");
        check("a\nb\tc", "a\\nb\\tc");
        check("a\u{202e}b", "a\\u{202e}b");
        assert_eq!(printable_lines("a\nb\r"), "a\nb\\r");
    }

    /// `--format json` printed U+009B, which many terminals read as the begin of a command.
    #[test]
    fn json_that_is_printed_has_the_same_values_and_nothing_that_steers_a_terminal() {
        let value = serde_json::json!({"a\u{9b}31m": "\u{7f}\u{202e}\u{1b}[2J\n\u{e9}"});
        let text = printable_json(&format!("{value:#}"));
        assert!(text.chars().all(|c| c == '\n' || !steers(c)), "{text:?}");
        assert_eq!(serde_json::from_str::<Value>(&text).ok(), Some(value));
    }
}
