//! What must not stand in the code.

use crate::source::{Line, SourceFile, rust_files, text_files};

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
    let mut files = rust_files();
    files.retain(|file| file.path.starts_with("src/"));
    let code = files.iter().flat_map(|file| all(file, file.code()));
    check(code, |text| {
        PANICKING.iter().any(|call| text.contains(call))
    });
}

#[test]
fn nothing_is_left_unfinished() {
    let files = rust_files();
    let lines = files.iter().flat_map(|file| all(file, file.lines.iter()));
    check(lines, |text| {
        UNFINISHED.iter().any(|word| text.contains(word))
    });
}

#[test]
fn code_is_ascii() {
    let files = rust_files();
    let lines = files.iter().flat_map(|file| all(file, file.lines.iter()));
    check(lines, |text| !text.is_ascii());
}

fn all<'a>(
    file: &'a SourceFile,
    lines: impl Iterator<Item = &'a Line>,
) -> impl Iterator<Item = (&'a SourceFile, &'a Line)> {
    lines.map(move |line| (file, line))
}

/// Fails with every line that is wrong.
fn check<'a>(
    lines: impl Iterator<Item = (&'a SourceFile, &'a Line)>,
    is_wrong: impl Fn(&str) -> bool,
) {
    let wrong = lines.filter(|(_, line)| is_wrong(&line.text));
    let wrong: Vec<String> = wrong.map(|(file, line)| file.quote(line)).collect();
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
