//! What must not stand in the code.

use std::collections::BTreeSet;

use crate::source::{Line, SourceFile, root, rust_files, text_files};

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

/// Words that older versions had of their own, and what the field says: no identifier has one as a part.
const PRIVATE: &[(&[&str], &str)] = &[
    (&["bell"], "journal waker"),
    (&["burial"], "awaiting page-in"),
    (&["burials"], "awaiting page-in"),
    (&["bury"], "await page-in"),
    (&["card"], "disk ref"),
    (&["cards"], "disk refs"),
    (&["come", "back"], "page in, or requeue"),
    (&["desk"], "connection handle"),
    (&["desks"], "connection handles"),
    (&["floor"], "layer"),
    (&["give", "back"], "requeue"),
    (&["has", "out"], "has evicted"),
    (&["is", "out"], "is evicted"),
    (&["lane"], "subqueue"),
    (&["lanes"], "subqueues"),
    (&["lend"], "acquire, or pin"),
    (&["rooms"], "modules"),
    (&["rung"], "woken"),
    (&["shelf"], "checkpointed"),
    (&["shelved"], "checkpointed"),
    (&["shelves"], "checkpointed"),
    (&["trash"], "deferred free"),
    (&["usual"], "fast path"),
    (&["write", "ahead"], "stream; write-ahead is the log"),
    (&["written", "ahead"], "streamed; write-ahead is the log"),
];

/// An identifier of more words is a sentence.
const SENTENCE_WORDS: usize = 5;

/// Identifiers that are not ours.
const OF_OTHERS: &[&str] = &["floor_char_boundary"];

/// Words that a doc comment has at least: fewer repeat the name of what they document.
const DOC_WORDS_MIN: usize = 3;

#[test]
fn nothing_outside_tests_unwraps() {
    let mut files = rust_files();
    files.retain(|file| file.path.starts_with("src/"));
    let code = files.iter().flat_map(|file| all(file, file.code()));
    check(code, |text| {
        PANICKING.iter().any(|call| text.contains(call))
    });
}

/// A counter that falls below 0 without a word is a large one from then on.
#[test]
fn atomic_counters_are_counted_down_by_the_macro_that_speaks() {
    let mut files = rust_files();
    files.retain(|file| file.path.starts_with("src/") && file.path != "src/base/invariant.rs");
    let code = files.iter().flat_map(|file| all(file, file.code()));
    check(code, |text| text.contains(".fetch_sub("));
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

#[test]
fn private_words_do_not_come_back_as_identifiers() {
    let files = rust_files();
    let files = files
        .iter()
        .filter(|file| file.path != "tests/tidy/words.rs");
    let mut wrong = Vec::new();
    for file in files {
        for line in file.lines.iter().filter(|line| !line.is_comment()) {
            let names = identifiers(&line.text).filter(|name| !OF_OTHERS.contains(name));
            for name in names {
                let parts = parts(name);
                if parts.len() > SENTENCE_WORDS {
                    continue; // the name of a test, which is a sentence
                }
                wrong.extend(PRIVATE.iter().filter_map(|(word, better)| {
                    let is_there = parts.windows(word.len()).any(|part| part == *word);
                    is_there.then(|| format!("`{name}`, better: {better}: {}", file.quote(line)))
                }));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert_eq!(parts("HTTPBody2_of_Lane"), ["http", "body", "of", "lane"]);
}

/// Not in `cli`, where doc comments are help texts. A heading of methods, above an `impl`, may be short.
#[test]
fn doc_comments_say_more_than_a_name_does() {
    let mut files = rust_files();
    files.retain(|file| file.path.starts_with("src/") && !file.path.starts_with("src/cli/"));
    let mut seen = 0;
    let mut wrong = Vec::new();
    for file in &files {
        let mut rest = file.lines.as_slice();
        while let [line, behind @ ..] = rest {
            let docs = rest.iter().take_while(|line| doc(line).is_some()).count();
            if docs == 0 {
                rest = behind;
                continue;
            }
            rest = rest.get(docs..).unwrap_or_default();
            seen += 1;
            let item = rest.iter().map(|line| line.text.trim_start());
            let mut item = item.skip_while(|text| text.starts_with("#["));
            let is_heading = item.next().is_some_and(|text| text.starts_with("impl"));
            if docs == 1 && !is_heading && !line.is_test && doc(line).is_some_and(says_little) {
                wrong.push(file.quote(line));
            }
        }
    }
    assert!(seen > 1_000, "the doc comments were not found");
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert!(says_little("Its name.") && !says_little("Its name, not empty."));
    assert!(!says_little("`GET /api/users`."));
}

/// The text of a line of a doc comment.
fn doc(line: &Line) -> Option<&str> {
    line.text.trim_start().strip_prefix("///")
}

/// Whether a doc comment has a word or two, and neither code nor a link, such as a route or a section.
fn says_little(text: &str) -> bool {
    text.split_whitespace().count() < DOC_WORDS_MIN && !text.contains(['`', '['])
}

#[test]
fn every_term_of_the_glossary_is_in_the_code() {
    let glossary = root().join("docs/GLOSSARY.md");
    let glossary = std::fs::read_to_string(glossary).expect("the glossary");
    let files = rust_files();
    let names: BTreeSet<&str> = files
        .iter()
        .flat_map(|file| file.lines.iter().filter(|line| !line.is_comment()))
        .flat_map(|line| identifiers(&line.text))
        .collect();
    let mut terms = 0;
    let mut wrong = Vec::new();
    for row in glossary.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = row.trim_matches(['|', ' ']).split(" | ").collect();
        let [term, _, _, places] = cells[..] else {
            wrong.push(format!("not a row of four cells: {row}"));
            continue;
        };
        if term == "Term" || term.starts_with("---") {
            continue;
        }
        terms += 1;
        let mut places = places.split('`').skip(1).step_by(2).peekable();
        if places.peek().is_none() {
            wrong.push(format!("{term}: names nothing in the code"));
        }
        wrong.extend(places.filter_map(|place| {
            let is_there = if place.contains('/') {
                root().join(place).exists()
            } else {
                place.split("::").all(|name| names.contains(name))
            };
            (!is_there).then(|| format!("{term}: `{place}` is not in the code"))
        }));
    }
    assert!(terms > 50, "the glossary has {terms} terms");
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// The identifiers of a line that are no part of a string.
fn identifiers(line: &str) -> impl Iterator<Item = &str> {
    let outside = line.split('"').step_by(2);
    outside.flat_map(|text| {
        let ends = |c: char| !c.is_ascii_alphanumeric() && c != '_';
        text.split(ends).filter(|name| !name.is_empty())
    })
}

/// The words of an identifier, in lower case.
fn parts(name: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    let mut before = '_';
    let letters: Vec<char> = name.chars().collect();
    for (index, &letter) in letters.iter().enumerate() {
        let next_is_lower = letters.get(index + 1).is_some_and(char::is_ascii_lowercase);
        let begins = letter.is_ascii_uppercase() && (before.is_ascii_lowercase() || next_is_lower);
        if letter.is_ascii_alphabetic() {
            match parts.last_mut() {
                Some(part) if before.is_ascii_alphabetic() && !begins => {
                    part.push(letter.to_ascii_lowercase());
                }
                _ => parts.push(letter.to_ascii_lowercase().to_string()),
            }
        }
        before = letter;
    }
    parts
}
