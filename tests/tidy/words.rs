//! What must not stand in the code.

use crate::source::{rust_files, text_files};

/// Calls that panic on what others sent; tests may use them.
const PANICKING: &[&str] = &[".unwrap()", ".expect(\""];

/// Marks of unfinished work.
const UNFINISHED: &[&str] = &[
    concat!("to", "do!"),
    concat!("db", "g!"),
    concat!("unimple", "mented!"),
    concat!("FIX", "ME"),
    concat!("TO", "DO"),
    concat!("XX", "X"),
];

/// Places that exist on one machine only, and hosts that a mirror replaces.
const ELSEWHERE: &[&str] = &[
    concat!("/wo", "rk/wt"),
    concat!("/wo", "rk/main"),
    concat!("/wo", "rk/shared"),
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
    concat!("registry", ".npmjs"),
    concat!("files.python", "hosted"),
    concat!("py", "pi.org/simple"),
    concat!("proxy.", "golang.org"),
    concat!("static.", "crates.io"),
];

#[test]
fn nothing_outside_tests_unwraps() {
    let mut wrong = Vec::new();
    for file in rust_files()
        .iter()
        .filter(|file| file.path.starts_with("src/"))
    {
        for line in file.code() {
            if PANICKING.iter().any(|call| line.text.contains(call)) {
                wrong.push(format!(
                    "{}:{}: {}",
                    file.path,
                    line.number,
                    line.text.trim()
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn nothing_is_left_unfinished() {
    let mut wrong = Vec::new();
    for file in rust_files() {
        for line in &file.lines {
            if UNFINISHED.iter().any(|word| line.text.contains(word)) {
                wrong.push(format!(
                    "{}:{}: {}",
                    file.path,
                    line.number,
                    line.text.trim()
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn code_is_ascii() {
    let mut wrong = Vec::new();
    for file in rust_files() {
        for line in file.lines.iter().filter(|line| !line.text.is_ascii()) {
            wrong.push(format!(
                "{}:{}: {}",
                file.path,
                line.number,
                line.text.trim()
            ));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn no_file_names_a_place_of_one_machine() {
    let mut wrong = Vec::new();
    for (path, text) in text_files() {
        for (index, line) in text.lines().enumerate() {
            if let Some(word) = ELSEWHERE.iter().find(|word| line.contains(**word)) {
                wrong.push(format!("{path}:{}: {word}", index + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
