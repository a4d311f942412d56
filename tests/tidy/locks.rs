//! The order of locks: every lock has a rank, and the table of ranks is told.

use std::fs;

use crate::source::{root, rust_files};

/// Where ranked locks are made of others.
const RANKED: &str = "src/base/locks.rs";
/// Locks without a rank: the disk that tests simulate, whose operations take no other lock.
const UNRANKED: &[&str] = &["src/store/sim_disk.rs"];
/// The one lock that is held across an await, where it is kept and made.
const ASYNC: &str = "tokio::sync::Mutex";
/// What a lock without a rank looks like.
const BARE: &[&str] = &[
    "parking_lot::",
    "std::sync::Mutex",
    "std::sync::RwLock",
    "sync::{Mutex",
    "Mutex<",
    "RwLock<",
    "Mutex::",
    "RwLock::",
    "Condvar::",
];

#[test]
fn every_lock_has_its_rank() {
    let mut wrong = Vec::new();
    let mut ranked = 0;
    for file in rust_files() {
        let path = file.path.as_str();
        if !path.starts_with("src/") || path == RANKED || UNRANKED.contains(&path) {
            continue;
        }
        for line in file.code() {
            let code = line.text.replace(ASYNC, "");
            ranked += code.matches("Ranked").count();
            let code = code.replace("RankedMutex", "").replace("RankedRwLock", "");
            let code = code.replace("RankedCondvar", "");
            if BARE.iter().any(|bare| code.contains(bare)) {
                wrong.push(file.quote(line));
            }
        }
    }
    assert!(ranked > 40, "the locks were not found");
    assert!(
        wrong.is_empty(),
        "locks of base/locks.rs, please:\n{}",
        wrong.join("\n")
    );
}

/// The rows of the table are the ranks of the code, in their order, each used where the row says.
#[test]
fn the_table_of_locks_is_the_order_of_the_code() {
    let read = |path: &str| fs::read_to_string(root().join(path)).expect("it is in the tree");
    let code = read(RANKED);
    let ranks = code.split_once("    ranks! {").expect("the ranks").1;
    let ranks = ranks.split_once("\n    }").expect("the end of the ranks").0;
    let is_name = |line: &&str| !line.is_empty() && !line.starts_with("///");
    let ranks: Vec<&str> = ranks.lines().map(str::trim).filter(is_name).collect();
    let page = read("docs/ARCHITECTURE.md");
    let section = page.split_once("\n## Locks\n").expect("the section").1;
    let section = section.split("\n## ").next().unwrap_or_default();
    let mut rows = Vec::new();
    for row in section.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row
            .split('|')
            .map(|cell| cell.trim().trim_matches('`'))
            .collect();
        let (name, place) = (cells[1], cells[2]);
        let place = read(&format!("src/{place}"));
        assert!(place.contains(&format!("rank::{name},")), "{row}");
        rows.push(format!("{name},"));
    }
    assert_eq!(rows, ranks);
}
