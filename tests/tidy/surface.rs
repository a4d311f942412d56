//! The public items of the crate are those that `docs/PUBLIC_ITEMS.txt` lists.

use std::collections::BTreeSet;
use std::path::Path;

use crate::source::{Line, SourceFile, rust_files};

/// Where the list is kept.
const LIST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/PUBLIC_ITEMS.txt");
/// Set it to write the list anew.
const WRITE: &str = "CORONER_WRITE_PUBLIC_ITEMS";

#[test]
fn public_items_are_those_that_are_listed() {
    let found = items();
    assert!(found.contains("Broker::publisher()") && found.contains("Outcome::Accepted"));
    let text = found.iter().map(|item| format!("{item}\n"));
    let text: String = text.collect();
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(LIST, &text).expect("the list can be written");
    }
    let listed = std::fs::read_to_string(LIST).unwrap_or_default();
    let listed: BTreeSet<String> = listed.lines().map(str::to_owned).collect();
    let new: Vec<_> = found.difference(&listed).collect();
    let gone: Vec<_> = listed.difference(&found).collect();
    assert!(
        new.is_empty() && gone.is_empty(),
        "public items that are new: {new:#?}, and gone: {gone:#?}; if that is meant, {WRITE}=1 cargo \
         test --test tidy writes {LIST}, and CHANGELOG.md tells of it"
    );
}

/// What `lib.rs` exports, with its methods, fields and variants.
fn items() -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let lib = std::fs::read_to_string(root.join("src/lib.rs")).expect("lib.rs is there");
    let files = rust_files();
    let mut items = BTreeSet::new();
    let mut within = "";
    let mut statement = String::new();
    let mut hidden = false;
    for line in lib.lines() {
        match line.trim() {
            "#[doc(hidden)]" => hidden = true,
            "}" if line == "}" => within = "",
            line if line.starts_with("pub mod ") && line.ends_with('{') => {
                within = line.trim_start_matches("pub mod ").trim_end_matches(" {");
            }
            line if line.starts_with("pub use ") || !statement.is_empty() => {
                statement.push_str(line);
                if line.ends_with(';') {
                    if !hidden {
                        export(&statement, within, &files, &mut items);
                    }
                    hidden = false;
                    statement.clear();
                }
            }
            line if line.ends_with(';') => hidden = false,
            _ => {}
        }
    }
    items
}

/// Adds what a `pub use MODULE::..::{NAMES};` exports.
fn export(statement: &str, within: &str, files: &[SourceFile], items: &mut BTreeSet<String>) {
    let path = statement.trim_start_matches("pub use ");
    let path = path.trim_start_matches("crate::").trim_end_matches(';');
    let (module, rest) = path.split_once("::").expect("a path");
    let names = rest.rsplit("::").next().unwrap_or(rest);
    let names = names.trim_matches(['{', '}']).split(',');
    for name in names.map(str::trim).filter(|name| !name.is_empty()) {
        let shown = if within.is_empty() {
            name.to_owned()
        } else {
            format!("{within}::{name}")
        };
        let found = files
            .iter()
            .filter(|file| file.path.starts_with(&format!("src/{module}/")))
            .flat_map(|file| parts(&file.lines, name));
        items.extend(found.map(|part| format!("{shown}{part}")));
        // Defined by a macro, perhaps.
        items.insert(shown);
    }
}

/// What a file says of a type: nothing where it is defined, `::method()`, `::field`, `::Variant`.
fn parts(lines: &[Line], name: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let (mut inside, mut hidden) = (None, false);
    for line in lines.iter().filter(|line| !line.is_test) {
        let line = line.text.as_str();
        if line == "}" {
            inside = None;
        } else if let Some(block) = block(line, name) {
            if block != Block::Impl {
                parts.push(String::new());
            }
            inside = line.ends_with('{').then_some(block);
        } else if let Some(block) = inside {
            let Some(member) = line.strip_prefix("    ") else {
                continue;
            };
            if member.trim() == "#[doc(hidden)]" || member.trim() == "#[cfg(test)]" {
                hidden = true;
            } else if let Some(part) = part(block, member)
                && !std::mem::take(&mut hidden)
            {
                parts.push(part);
            }
        }
    }
    parts
}

#[derive(Clone, Copy, PartialEq)]
enum Block {
    Struct,
    Enum,
    Impl,
}

/// What of a type begins in this line.
fn block(line: &str, name: &str) -> Option<Block> {
    let kinds = [
        ("pub struct ", Block::Struct),
        ("pub enum ", Block::Enum),
        ("impl ", Block::Impl),
    ];
    kinds.into_iter().find_map(|(prefix, block)| {
        let rest = line.strip_prefix(prefix)?.strip_prefix(name)?;
        let ends = rest.starts_with(['<', ' ', '(', ';', '{']);
        (ends && !rest.contains(" for ")).then_some(block)
    })
}

fn part(block: Block, member: &str) -> Option<String> {
    let word = |text: &str| -> String {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        text.chars().take_while(|c| is_word(*c)).collect()
    };
    match block {
        Block::Enum => {
            let is_variant = member.starts_with(|c: char| c.is_ascii_uppercase());
            is_variant.then(|| format!("::{}", word(member)))
        }
        Block::Struct => Some(format!("::{}", word(member.strip_prefix("pub ")?))),
        Block::Impl => {
            let member = member.strip_prefix("pub ")?;
            let member = member.trim_start_matches("const ");
            let member = member.trim_start_matches("async ");
            match member.strip_prefix("fn ") {
                Some(method) => Some(format!("::{}()", word(method))),
                None => Some(format!("::{}", word(member))),
            }
        }
    }
}
