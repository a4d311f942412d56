//! The pages of an operator: what is there as a table, what can be done with it as forms.

use askama::Template;

use super::frame::Frame;
use super::show::{Lines, Text};

/// A button that changes something.
#[derive(Clone, Debug)]
pub struct Act {
    /// Path and query of the action.
    pub path: String,
    pub label: &'static str,
    /// The command that does the same.
    pub command: String,
}

/// A cell of a table.
#[derive(Clone, Default, Debug)]
pub struct Cell {
    pub text: Text,
    pub link: Option<String>,
    pub is_number: bool,
    pub act: Option<Act>,
}

impl Cell {
    /// A cell with a text.
    pub fn text(text: &str) -> Self {
        Self {
            text: Text::new(text),
            ..Self::default()
        }
    }

    /// A cell with a number, or something that has its digits under one another.
    pub fn number(number: &str) -> Self {
        Self {
            is_number: true,
            ..Self::text(number)
        }
    }

    /// A cell with a button; none: the user may not.
    pub fn act(act: Option<Act>) -> Self {
        Self {
            act,
            ..Self::default()
        }
    }
}

/// A table, with the names of its columns.
#[derive(Clone, Default, Debug)]
pub struct Table {
    pub title: &'static str,
    pub heads: Vec<&'static str>,
    pub rows: Vec<Vec<Cell>>,
    /// Rows that are not shown.
    pub left_out: u64,
}

/// A field of a form.
#[derive(Clone, Debug)]
pub struct Field {
    pub name: &'static str,
    pub label: &'static str,
    pub kind: Kind,
    pub value: Text,
}

/// What somebody can enter in a field.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Kind {
    Line,
    Lines,
    Password,
    /// One of these.
    Choice(Vec<Text>),
    /// Something that is on, or not.
    Switch,
}

impl Field {
    /// A line of text. Not inlined: forms have dozens of fields.
    #[inline(never)]
    pub fn line(name: &'static str, label: &'static str) -> Self {
        Self {
            name,
            label,
            kind: Kind::Line,
            value: Text::default(),
        }
    }

    /// One of a few words.
    pub fn choice(name: &'static str, label: &'static str, words: &[&str]) -> Self {
        Self {
            kind: Kind::Choice(words.iter().map(|word| Text::new(*word)).collect()),
            ..Self::line(name, label)
        }
    }

    /// The same field of another kind.
    #[must_use]
    #[inline(never)]
    pub fn of(self, kind: Kind) -> Self {
        Self { kind, ..self }
    }

    /// The same field with a value in it.
    #[must_use]
    #[inline(never)]
    pub fn with(self, value: &str) -> Self {
        Self {
            value: Text::new(value),
            ..self
        }
    }
}

/// A form, and the command that does the same.
#[derive(Clone, Debug)]
pub struct Form {
    pub title: &'static str,
    /// Path and query of its action.
    pub path: String,
    pub fields: Vec<Field>,
    pub button: &'static str,
    pub command: String,
}

/// Forms as they are shown, below what they change.
#[derive(Template)]
#[template(path = "forms.html")]
pub struct ShownForms<'a> {
    pub forms: &'a [Form],
    /// The session's token.
    pub token: &'a str,
}

/// A page of an operator.
#[derive(Template, Debug)]
#[template(path = "operator.html")]
pub struct Operator {
    pub frame: Frame,
    pub figures: Vec<(&'static str, String)>,
    pub tables: Vec<Table>,
    pub forms: Vec<Form>,
    /// Messages that were taken from a queue, as JSON.
    pub taken: Option<Lines>,
}

impl Operator {
    /// The forms beneath the tables.
    pub fn shown_forms(&self) -> ShownForms<'_> {
        let (forms, token) = (&self.forms, &self.frame.token);
        ShownForms { forms, token }
    }
}
