//! How long things are.

use crate::source::{SourceFile, rust_files};

const FILE_LINES_MAX: usize = 800;
const FUNCTION_LINES_MAX: usize = 70;

/// Functions that may be longer, each with its reason: (file, function, reason).
const LONG_FUNCTIONS: &[(&str, &str, &str)] = &[
    (
        "src/config/settings.rs",
        "default",
        "a table: one line for each setting",
    ),
    (
        "src/server/http/api.rs",
        "answer",
        "a table: one arm for each endpoint",
    ),
    (
        "tests/http/parameters.rs",
        "parameters_are_set_where_rabbitmq_sets_them_and_refused_by_name_elsewhere",
        "a table: one row for each request",
    ),
];

#[test]
fn no_file_is_longer_than_800_lines() {
    let wrong: Vec<String> = rust_files()
        .iter()
        .filter(|file| file.lines.len() > FILE_LINES_MAX)
        .map(|file| format!("{}: {} lines", file.path, file.lines.len()))
        .collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn every_function_fits_a_screen() {
    let mut wrong = Vec::new();
    let mut excused = Vec::new();
    for file in rust_files() {
        for (name, line, length) in functions(&file) {
            if length <= FUNCTION_LINES_MAX {
                continue;
            }
            match LONG_FUNCTIONS
                .iter()
                .find(|(path, long, _)| (*path, *long) == (&file.path, &name))
            {
                Some(exception) => excused.push(exception),
                None => wrong.push(format!("{}:{line}: `{name}` has {length} lines", file.path)),
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert_eq!(
        excused.len(),
        LONG_FUNCTIONS.len(),
        "an exception is no longer needed"
    );
}

/// The functions of a file as (name, first line, lines). rustfmt puts the closing brace under the
/// first letter of the function.
fn functions(file: &SourceFile) -> Vec<(String, usize, usize)> {
    let mut found = Vec::new();
    for (index, line) in file.lines.iter().enumerate() {
        let text = line.text.trim_start();
        let Some(name) = function_name(text) else {
            continue;
        };
        let end = format!("{}}}", " ".repeat(line.text.len() - text.len()));
        let last = file.lines[index..].iter().position(|line| line.text == end);
        let without_body = text.ends_with(';') || text.ends_with('}');
        if let (Some(last), false) = (last, without_body) {
            found.push((name, line.number, last + 1));
        }
    }
    found
}

/// The name of the function that a line begins, if it begins one.
fn function_name(line: &str) -> Option<String> {
    let mut words = line.split(' ').peekable();
    while let Some(word) = words.next() {
        match word {
            "fn" => {
                let name = words.next()?;
                let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                return Some(name[..end.unwrap_or(name.len())].to_owned());
            }
            "pub" | "const" | "async" => {}
            word if word.starts_with("pub(") => {}
            _ => return None,
        }
    }
    None
}

#[test]
fn functions_are_recognised_by_their_first_line() {
    let check = |line: &str, expected: Option<&str>| {
        assert_eq!(function_name(line).as_deref(), expected, "{line}");
    };
    check("fn main() {", Some("main"));
    check("pub(crate) const fn id<T>(x: T) -> T {", Some("id"));
    check("pub async fn serve(", Some("serve"));
    check("let f = fn_pointer;", None);
    check("// fn in a comment", None);
}
