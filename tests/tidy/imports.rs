//! Modules stand in layers and import strictly downwards.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::{SourceFile, rust_files};

/// The layer of each module, as in docs/ARCHITECTURE.md.
const LAYERS: &[(&str, u8)] = &[
    ("base", 0),
    ("wire", 1),
    ("config", 1),
    ("deaths", 2),
    ("message", 3),
    ("access", 3),
    ("filter", 4),
    ("link", 4),
    ("store", 4),
    ("search", 5),
    ("broker", 6),
    ("management", 7),
    ("record", 7),
    ("metrics", 7),
    ("gateway", 8),
    ("lint", 8),
    ("page", 8),
    ("node", 9),
    ("server", 10),
    ("sim", 10),
    ("cli", 11),
];

/// What a module may not import though its layer would allow it: (module, from, reason).
const STRANGERS: &[(&str, &str, &str)] = &[
    ("access", "wire", "users and permissions are plain data"),
    ("access", "deaths", "users and permissions are plain data"),
    (
        "broker",
        "link",
        "link and broker have never heard of each other",
    ),
    ("broker", "config", "the core gets its options as arguments"),
    ("broker", "store", "facts leave the core as effects"),
    ("deaths", "config", "a history has no settings"),
    ("link", "config", "the engine gets its options as arguments"),
    ("link", "deaths", "a link carries bytes"),
    ("link", "message", "a link carries bytes"),
    ("link", "access", "the engine asks, the gateway decides"),
    ("message", "config", "a message has no settings"),
    ("search", "config", "bounds of a search are fixed"),
    ("search", "link", "a search looks at messages in queues"),
    ("search", "store", "a search is told what a body has"),
    (
        "sim",
        "config",
        "the simulator is told everything by its seed",
    ),
    ("sim", "server", "the simulator replaces it"),
    ("store", "wire", "the journal holds opaque records"),
    ("store", "deaths", "the journal holds opaque records"),
    ("store", "message", "the journal holds opaque records"),
    ("store", "config", "the store gets its options as arguments"),
];

/// All the core may know of the protocol: what a value is. Arguments and annotations are values.
const WIRE_IN_BROKER: &[&str] = &["Symbol", "Value"];

/// Crates and modules with an outside: (path, modules that may use it).
const OUTSIDE: &[(&str, &[&str])] = &[
    ("tokio::", &["server", "cli"]),
    ("std::net::Tcp", &["server", "cli"]),
    ("std::fs", &["config", "server", "store", "cli"]),
    ("std::thread", &["server", "store"]),
    ("clap::", &["cli"]),
    ("toml::", &["config", "cli"]),
    // The clients of the command line share nothing with the broker.
    ("serde_amqp::", &["cli"]),
    ("getrandom::", &["server"]),
    ("uuid::", &["server", "cli"]),
    // Its formats of times; the page asks no clock.
    ("chrono::", &["server", "cli", "page"]),
];

#[test]
fn every_module_imports_from_lower_layers_only() {
    let mut wrong = Vec::new();
    for file in rust_files().iter().filter(|file| module(file).is_some()) {
        let here = module(file).expect("filtered");
        let Some(layer) = layer(here) else {
            wrong.push(format!(
                "{}: module `{here}` has no layer in {}",
                file.path,
                file!()
            ));
            continue;
        };
        for (line, imported) in imported_modules(file) {
            let place = format!("{}:{line}: `{here}` imports `{imported}`", file.path);
            match self::layer(&imported) {
                _ if imported == here => {}
                None => wrong.push(format!("{place}, which has no layer")),
                Some(other) if other >= layer => {
                    wrong.push(format!("{place}: layer {layer} may not see layer {other}"));
                }
                Some(_) => wrong.extend(
                    STRANGERS
                        .iter()
                        .filter(|(module, from, _)| (*module, *from) == (here, imported.as_str()))
                        .map(|(_, _, reason)| format!("{place}: {reason}")),
                ),
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn the_core_knows_values_and_nothing_else_of_the_protocol() {
    let mut wrong = Vec::new();
    for file in rust_files()
        .iter()
        .filter(|file| module(file) == Some("broker"))
    {
        for line in file.code() {
            for rest in line.text.split("crate::wire::").skip(1) {
                let names = match rest.strip_prefix('{') {
                    Some(group) => top_level_names(group),
                    None => vec![first_name(rest)],
                };
                wrong.extend(
                    names
                        .iter()
                        .filter(|name| !WIRE_IN_BROKER.contains(&name.as_str()))
                        .map(|name| format!("{}:{}: wire::{name}", file.path, line.number)),
                );
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// Modules whose files must not import one another in a circle.
const WITHOUT_CIRCLES: &[&str] = &["node", "server"];

#[test]
fn files_of_node_and_server_import_one_another_in_no_circle() {
    for here in WITHOUT_CIRCLES {
        let imports = imports_within(here);
        let mut left: BTreeSet<&String> = imports.keys().collect();
        // Takes away what imports nothing that is left, until nothing changes.
        loop {
            let free: Vec<&String> = left
                .iter()
                .filter(|file| imports[**file].iter().all(|other| !left.contains(other)))
                .copied()
                .collect();
            if free.is_empty() {
                break;
            }
            for file in free {
                left.remove(file);
            }
        }
        let circle: Vec<String> = left
            .iter()
            .map(|file| format!("{file} -> {:?}", imports[*file]))
            .collect();
        assert!(circle.is_empty(), "{here}: \n{}", circle.join("\n"));
    }
}

/// The modules directly within one, each with those of them that it imports. Tests do not count.
fn imports_within(here: &str) -> BTreeMap<String, BTreeSet<String>> {
    let within = format!("src/{here}/");
    let files: Vec<(String, SourceFile)> = rust_files()
        .into_iter()
        .filter_map(|file| {
            let rest = file.path.strip_prefix(&within)?;
            let name = rest.split('/').next()?.trim_end_matches(".rs").to_owned();
            let is_test = rest.ends_with("tests.rs") || rest.contains("tests/");
            (name != "mod" && name != "tests" && !is_test).then_some((name, file))
        })
        .collect();
    let names: BTreeSet<String> = files.iter().map(|(name, _)| name.clone()).collect();
    let mut imports: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (name, file) in files {
        let is_at_the_top = file.path.matches('/').count() == 2;
        let imported = imports.entry(name.clone()).or_default();
        let code = file
            .lines
            .iter()
            .take_while(|line| !line.text.starts_with("#[cfg(test)]"))
            .filter(|line| !line.is_comment());
        for line in code {
            for prefix in [
                Some(format!("crate::{here}::")),
                is_at_the_top.then(|| "super::".to_owned()),
            ]
            .into_iter()
            .flatten()
            {
                for rest in line.text.split(&prefix).skip(1) {
                    let found = match rest.strip_prefix('{') {
                        Some(group) => top_level_names(group),
                        None => vec![first_name(rest)],
                    };
                    imported.extend(
                        found
                            .into_iter()
                            .filter(|found| *found != name && names.contains(found)),
                    );
                }
            }
        }
    }
    imports
}

#[test]
fn no_path_climbs_out_of_its_room() {
    let mut wrong = Vec::new();
    for file in rust_files().iter().filter(|file| module(file).is_some()) {
        let depth = file.path.matches('/').count() - usize::from(file.path.ends_with("mod.rs"));
        for line in file.lines.iter().filter(|line| !line.is_comment()) {
            // A test module at the bottom is one step deeper.
            let steps = line.text.matches("super::").count();
            if steps > 1 && line.text.contains("super::super::") && steps >= depth {
                wrong.push(format!("{}:{}: write `crate::`", file.path, line.number));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn only_the_outer_modules_touch_the_outside() {
    let mut wrong = Vec::new();
    for file in rust_files() {
        let Some(here) = module(&file) else { continue };
        for line in file.code() {
            for (path, modules) in OUTSIDE {
                if uses(&line.text, path) && !modules.contains(&here) {
                    let place = format!("{}:{}", file.path, line.number);
                    wrong.push(format!(
                        "{place}: `{path}` belongs to {}",
                        modules.join(", ")
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn imports_are_found_in_every_form() {
    let check = |code: &str, expected: &[&str]| {
        assert_eq!(modules_in(code), expected, "{code}");
    };
    check("use crate::base::Millis;", &["base"]);
    check("use crate::{base, wire::Value};", &["base", "wire"]);
    check("let x = crate::link::Engine::new();", &["link"]);
    check(
        "pub(crate) fn f(x: &crate::base::Name) -> crate::wire::Value {",
        &["base", "wire"],
    );
    check("use crate::broker::{Core, Effect};", &["broker"]);
    check("pub(crate) struct X;", &[]);
}

/// The module a file of `src` lies in; `lib.rs` and `main.rs` lie in none.
fn module(file: &SourceFile) -> Option<&str> {
    let (module, _) = file.path.strip_prefix("src/")?.split_once('/')?;
    Some(module)
}

fn layer(module: &str) -> Option<u8> {
    LAYERS
        .iter()
        .find(|(name, _)| *name == module)
        .map(|(_, layer)| *layer)
}

/// The modules named by `crate::` paths, each with its line. A group over several lines is put
/// together first.
fn imported_modules(file: &SourceFile) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut group: Option<(usize, String)> = None;
    for line in file.lines.iter().filter(|line| !line.is_comment()) {
        let (number, text) = match group.take() {
            Some((number, begun)) => (number, format!("{begun} {}", line.text.trim())),
            None => (line.number, line.text.clone()),
        };
        let open = text.find("crate::{").is_some_and(|start| {
            let group = &text[start..];
            group.matches('{').count() > group.matches('}').count()
        });
        if open {
            group = Some((number, text));
        } else {
            found.extend(modules_in(&text).into_iter().map(|module| (number, module)));
        }
    }
    found
}

fn modules_in(code: &str) -> Vec<String> {
    code.split("crate::")
        .skip(1)
        .flat_map(|rest| match rest.strip_prefix('{') {
            Some(group) => top_level_names(group),
            None => vec![first_name(rest)],
        })
        .filter(|name| name.starts_with(|c: char| c.is_ascii_lowercase()))
        .collect()
}

/// The first names of `a, b::{c, d}, e}`.
fn top_level_names(group: &str) -> Vec<String> {
    let mut names = Vec::new();
    let (mut depth, mut start) = (0_i32, 0);
    for (index, character) in group.char_indices() {
        match character {
            '{' => depth += 1,
            '}' if depth == 0 => {
                names.push(first_name(group[start..index].trim()));
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                names.push(first_name(group[start..index].trim()));
                start = index + 1;
            }
            _ => {}
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

fn first_name(path: &str) -> String {
    path.chars()
        .take_while(|c| c.is_ascii_alphanumeric() || *c == '_')
        .collect()
}

/// Whether a line names a path, not merely a longer word that ends like it.
fn uses(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        !line[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_' || c == '"')
    })
}
