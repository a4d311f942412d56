//! What an embedder compiles who takes no feature.

use std::collections::BTreeSet;
use std::process::Command;

/// Crates in all, ours and macros included.
const CRATES_MAX: usize = 60;

#[test]
fn an_embedder_without_features_compiles_few_crates() {
    let crates = crates(&["--no-default-features"]);
    let count = crates.len();
    assert!(count <= CRATES_MAX, "{count} crates: {crates:?}");
    for name in ["axum ", "clap ", "fe2o3-amqp ", "rustls ", "serde_json "] {
        let found = crates.iter().find(|found| found.starts_with(name));
        assert_eq!(found, None, "belongs to a feature");
    }
    assert!(self::crates(&[]).len() > count, "features bring crates");
}

/// Name and version of each crate that a build takes.
fn crates(features: &[&str]) -> BTreeSet<String> {
    let tree = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--offline", "--package", "coroner"])
        .args(["--edges", "normal,build"])
        .args(["--prefix", "none"])
        .args(features)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(tree.status.success(), "{tree:?}");
    let text = String::from_utf8_lossy(&tree.stdout).into_owned();
    let lines = text.lines().filter(|line| !line.is_empty());
    let crates = lines.map(|line| line.split(' ').take(2).collect::<Vec<_>>().join(" "));
    crates.collect()
}
