//! The source tree as text: which files there are, and which of their lines are tests.

use std::fs;
use std::path::{Path, PathBuf};

/// Folders with Rust code.
const CODE: &[&str] = &["src", "tests", "examples", "benches", "fuzz"];

/// Folders and files that people read or machines run.
const EVERYTHING: &[&str] = &[
    "src", "tests", "examples", "benches", "fuzz", "docs", "interop", ".ci",
];

/// Folders with things that are made, not written; so are those whose name begins with `.venv`.
const MADE: &[&str] = &[
    "target",
    "node_modules",
    "__pycache__",
    "corpus",
    "artifacts",
];

pub struct SourceFile {
    /// Relative to the repository, with `/` between folders.
    pub path: String,
    pub lines: Vec<Line>,
}

pub struct Line {
    /// From 1.
    pub number: usize,
    pub text: String,
    pub is_test: bool,
}

impl SourceFile {
    /// Where a line stands and what it is, for whoever reads that it is wrong.
    pub fn quote(&self, line: &Line) -> String {
        format!("{}:{}: {}", self.path, line.number, line.text.trim())
    }

    /// The lines that are neither tests nor comments.
    pub fn code(&self) -> impl Iterator<Item = &Line> {
        self.lines
            .iter()
            .filter(|line| !line.is_test && !line.is_comment())
    }
}

impl Line {
    pub fn is_comment(&self) -> bool {
        self.text.trim_start().starts_with("//")
    }
}

/// All Rust files.
pub fn rust_files() -> Vec<SourceFile> {
    let files: Vec<SourceFile> = CODE
        .iter()
        .flat_map(|folder| walk(&root().join(folder)))
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .map(|path| read(&path))
        .collect();
    assert!(
        files.len() > 10,
        "the source tree was not found at {}",
        root().display()
    );
    files
}

/// All files of text, Rust or not, as (path, content).
pub fn text_files() -> Vec<(String, String)> {
    let top = fs::read_dir(root())
        .expect("the repository can be listed")
        .map(|entry| entry.expect("the repository can be listed").path())
        .filter(|path| path.is_file() && !path.ends_with(".git"));
    EVERYTHING
        .iter()
        .flat_map(|folder| walk(&root().join(folder)))
        .chain(top)
        .filter_map(|path| Some((relative(&path), fs::read_to_string(&path).ok()?)))
        .collect()
}

/// The repository.
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn relative(path: &Path) -> String {
    let path = path.strip_prefix(root()).expect("inside the repository");
    path.to_string_lossy().replace('\\', "/")
}

/// The files below a folder, sorted; a folder that does not exist has none.
fn walk(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries {
            let path = entry.expect("a folder can be listed").path();
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            if !path.is_dir() {
                found.push(path);
            } else if !MADE.contains(&name.as_str()) && !name.starts_with(".venv") {
                folders.push(path);
            }
        }
    }
    found.sort();
    found
}

fn read(path: &Path) -> SourceFile {
    let text =
        fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let path = relative(path);
    let all_tests = !path.starts_with("src/")
        || path.contains("/tests/")
        || path.ends_with("/tests.rs")
        || path.ends_with("_tests.rs");
    let mut inside: Option<String> = None; // the line that ends the test module
    let mut lines: Vec<Line> = Vec::new();
    for (index, text) in text.lines().enumerate() {
        let after_attribute = lines
            .last()
            .is_some_and(|line| line.text.trim_start().starts_with("#[cfg(test)]"));
        if inside.is_none() && after_attribute && text.ends_with('{') {
            let indentation = text.len() - text.trim_start().len();
            inside = Some(format!("{}}}", " ".repeat(indentation)));
        }
        let is_test = all_tests || inside.is_some() || after_attribute;
        if inside.as_deref() == Some(text) {
            inside = None;
        }
        lines.push(Line {
            number: index + 1,
            text: text.to_owned(),
            is_test,
        });
    }
    SourceFile { path, lines }
}
