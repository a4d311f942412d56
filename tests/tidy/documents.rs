//! What documents name is there: the links they have, and the paths they show as code.

use std::path::{Path, PathBuf};

use crate::source::{root, text_files};

/// Folders whose files documents name from the top of the repository.
const TOPS: &[&str] = &[
    ".ci", "benches", "contrib", "docs", "examples", "fuzz", "interop", "src", "tests",
];

/// Documents that are not about this tree: recordings, and a report to another project.
const OF_OTHERS: &[&str] = &["interop/vectors/", "docs/upstream/"];

/// Paths with a part that stands for many.
const PATTERNS: &[&str] = &[
    "docs/clients/CLIENT.md",
    "tests/fixtures/records-vN",
    "tests/fixtures/registry-vN",
    "tests/fixtures/store-vN",
];

#[test]
fn every_link_in_a_document_leads_to_a_file() {
    check(|document, text| {
        let targets = text.split("](").skip(1).filter_map(|rest| {
            let target = rest.split(')').next()?.split('#').next()?;
            let inside = !target.is_empty() && !target.contains("://") && !target.contains(' ');
            inside.then(|| target.to_owned())
        });
        let folder = folder_of(document);
        targets
            .filter(|target| !folder.join(target).exists())
            .collect()
    });
}

#[test]
fn every_path_in_a_document_is_in_the_tree() {
    check(|document, text| {
        let words = text.split('`').skip(1).step_by(2);
        let words = words.flat_map(str::split_whitespace);
        let paths = words.filter(|word| is_path(word) && !PATTERNS.contains(word));
        let missing = paths.filter(|path| {
            let places = [root(), root().join("src"), folder_of(document)];
            !places.iter().any(|place| place.join(path).exists())
        });
        missing.map(str::to_owned).collect()
    });
}

/// Whether a word is a path in this tree: it begins with a folder at the top or with a module.
fn is_path(word: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    let Some((first, rest)) = word.split_once('/') else {
        return false;
    };
    let is_module = || !["", ".", ".."].contains(&first) && root().join("src").join(first).is_dir();
    !rest.is_empty() && word.chars().all(plain) && (TOPS.contains(&first) || is_module())
}

fn folder_of(document: &str) -> PathBuf {
    let document = root().join(document);
    document.parent().map_or_else(root, Path::to_owned)
}

/// Fails with all that a look at each document found to be missing.
fn check(missing: impl Fn(&str, &str) -> Vec<String>) {
    let mut documents = text_files();
    documents.retain(|(path, _)| {
        let is_markdown = Path::new(path).extension().is_some_and(|end| end == "md");
        is_markdown && !OF_OTHERS.iter().any(|folder| path.starts_with(folder))
    });
    assert!(documents.len() > 10, "the documents were not found");
    let wrong: Vec<String> = documents
        .iter()
        .flat_map(|(path, text)| {
            let missing = missing(path, text);
            missing
                .into_iter()
                .map(move |what| format!("{path}: there is no {what}"))
        })
        .collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
