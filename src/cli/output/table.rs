//! Rows of values as text.

use serde_json::Value;

use super::printable;
use super::width::width;

/// Spaces between columns.
const GAP: &str = "  ";

/// The separator of values for programs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Separator {
    /// A comma, as in RFC 4180: values are quoted where needed.
    Comma,
    /// A tab: tabs and line ends inside values are escaped.
    Tab,
}

/// Columns as wide as their widest value; numbers are aligned to the right.
pub(super) fn aligned(headings: Option<&[&str]>, rows: &[Vec<Value>]) -> String {
    let heading = headings.map(|names| names.iter().map(|name| printable(name)).collect());
    let cells = rows.iter().map(|row| row.iter().map(cell).collect());
    let lines: Vec<Vec<String>> = heading.into_iter().chain(cells).collect();
    let count = lines.iter().map(Vec::len).max().unwrap_or(0);
    let widest = |column: usize| {
        let texts = lines.iter().filter_map(|line| line.get(column));
        texts.map(|text| width(text)).max().unwrap_or(0)
    };
    let is_number = |column: usize| {
        let mut values = rows.iter().filter_map(|row| row.get(column));
        !rows.is_empty() && values.all(|value| value.is_number() || value.is_null())
    };
    let shapes: Vec<(usize, bool)> = (0..count).map(|at| (widest(at), is_number(at))).collect();
    let mut text = String::new();
    for line in &lines {
        let padded: Vec<String> = line.iter().zip(&shapes).map(padded).collect();
        text.push_str(padded.join(GAP).trim_end());
        text.push('\n');
    }
    text
}

fn padded((text, &(widest, is_number)): (&String, &(usize, bool))) -> String {
    let room = " ".repeat(widest.saturating_sub(width(text)));
    if is_number {
        room + text
    } else {
        format!("{text}{room}")
    }
}

/// One line for each row.
pub(super) fn separated(
    headings: Option<&[&str]>,
    rows: &[Vec<Value>],
    separator: Separator,
) -> String {
    let heading = headings.map(|names| names.iter().map(|&name| name.to_owned()).collect());
    let cells = rows.iter().map(|row| row.iter().map(plain).collect());
    let mut text = String::new();
    for line in heading.into_iter().chain(cells) {
        let line: Vec<String> = line;
        let (fields, between): (Vec<String>, _) = match separator {
            Separator::Comma => (line.iter().map(|field| quoted(field)).collect(), ","),
            Separator::Tab => (line.iter().map(|field| printable(field)).collect(), "\t"),
        };
        text.push_str(&fields.join(between));
        text.push('\n');
    }
    text
}

/// A field of CSV. [RFC 4180 2]
fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

/// A value for people.
fn cell(value: &Value) -> String {
    printable(&plain(value))
}

/// A value as text: texts bare, lists of texts with commas, anything else as JSON.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) if items.iter().all(Value::is_string) => {
            let texts: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
            texts.join(",")
        }
        Value::Array(items) if items.is_empty() => String::new(),
        Value::Object(fields) if fields.is_empty() => String::new(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rows() -> Vec<Vec<Value>> {
        vec![
            vec![json!("a,\"b"), json!(5), json!(["x", "y"])],
            vec![json!("\u{1b}c"), json!(1000), json!({"k": 1})],
        ]
    }

    #[test]
    fn people_see_aligned_columns() {
        let text = aligned(Some(&["name", "messages", "more"]), &rows());
        let expected =
            "name     messages  more\na,\"b            5  x,y\n\\u{1b}c      1000  {\"k\":1}\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn columns_stay_aligned_behind_wide_characters_and_combining_marks() {
        let rows = ["\u{65e5}\u{672c}", "e\u{301}t\u{e9}", "abcd"];
        let rows: Vec<_> = rows.map(|name| vec![json!(name), json!("x")]).to_vec();
        let text = aligned(None, &rows);
        assert_eq!(text, "\u{65e5}\u{672c}  x\ne\u{301}t\u{e9}   x\nabcd  x\n");
    }

    #[test]
    fn programs_see_separated_fields() {
        let text = separated(Some(&["name", "n", "more"]), &rows(), Separator::Comma);
        assert_eq!(
            text,
            "name,n,more\n\"a,\"\"b\",5,\"x,y\"\n\u{1b}c,1000,\"{\"\"k\"\":1}\"\n"
        );
        let text = separated(None, &[vec![json!("a\tb"), json!(true)]], Separator::Tab);
        assert_eq!(text, "a\\tb\ttrue\n");
    }
}
