//! `interop/known_differences.toml` says the whole truth about where Coroner differs.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::repository;
use crate::vectors::{json_files, scenario_files, vectors};

/// Rows of the table of differences that a vector or a case may name.
const ROWS: std::ops::RangeInclusive<i64> = 1..=21;

#[test]
fn every_vector_that_differs_is_listed_with_its_rows() {
    let list = list();
    let listed = section(&list, "vectors");
    let files = json_files(&vectors().join("ours"));
    let names: BTreeSet<String> = files.iter().map(|file| stem(file)).collect();
    let listed_names: BTreeSet<String> = listed.keys().cloned().collect();
    assert_eq!(
        listed_names, names,
        "left: listed; right: vectors with an expectation of ours"
    );
    for file in files {
        let expectation = json(&file);
        let rows: Vec<i64> = expectation["rows"]
            .as_array()
            .expect("rows is a list")
            .iter()
            .map(|row| row.as_i64().expect("a row is a number"))
            .collect();
        assert_eq!(rows_of(&listed[&stem(&file)]), rows, "{}", file.display());
    }
}

#[test]
fn every_further_scenario_that_differs_names_its_rows() {
    let folder = repository("interop/vectors-more");
    let listed = json(&folder.join("ours.json"));
    for (name, ours) in listed.as_object().expect("ours.json is an object") {
        assert!(
            folder.join(format!("{name}.json")).exists(),
            "no scenario {name}"
        );
        let rows = ours["rows"].as_array().expect("rows are a list");
        let known = |row: &Value| row.as_i64().is_some_and(|row| ROWS.contains(&row));
        assert!(
            !rows.is_empty() && rows.iter().all(known),
            "{name}: {rows:?}"
        );
    }
}

#[test]
fn every_scenario_that_is_not_run_is_listed_with_its_reason() {
    let list = list();
    let listed: BTreeSet<String> = section(&list, "skipped").keys().cloned().collect();
    let skipped: BTreeSet<String> = scenario_files()
        .iter()
        .filter(|file| {
            let requires = json(file)["scenario"]["requires"].clone();
            let requires = requires.as_array().cloned().unwrap_or_default();
            requires.iter().any(|need| need == "amqp091")
        })
        .map(|file| stem(file))
        .collect();
    assert_eq!(
        listed, skipped,
        "left: listed; right: what the scenarios ask for"
    );
}

#[test]
fn every_listed_case_exists_in_the_recordings_and_names_its_rows() {
    let list = list();
    for (name, file) in [
        ("behaviour", "amqp-behaviour-recordings.json"),
        ("skipped_behaviour", "amqp-behaviour-recordings.json"),
        ("management", "management-recordings.json"),
    ] {
        let recordings = json(&vectors().join("recordings").join(file));
        let titles: BTreeSet<&str> = recordings
            .as_array()
            .expect("a list of cases")
            .iter()
            .filter_map(|case| case["title"].as_str())
            .collect();
        for (title, difference) in section(&list, name) {
            assert!(
                titles.contains(title.as_str()),
                "{file} has no case `{title}`"
            );
            let explained = match difference {
                toml::Value::String(reason) => reason.len() > 10,
                _ => difference.get("why").is_some() || !rows_of(&difference["rows"]).is_empty(),
            };
            assert!(explained, "{name}: `{title}` has neither rows nor a reason");
        }
    }
}

fn list() -> toml::Table {
    let path = repository("interop/known_differences.toml");
    let text = fs::read_to_string(path).expect("the list can be read");
    text.parse().expect("the list is TOML")
}

fn section<'a>(list: &'a toml::Table, name: &str) -> &'a toml::Table {
    list.get(name)
        .and_then(toml::Value::as_table)
        .unwrap_or_else(|| panic!("no section {name}"))
}

fn rows_of(value: &toml::Value) -> Vec<i64> {
    let rows: Vec<i64> = value
        .as_array()
        .expect("rows are a list")
        .iter()
        .map(|row| row.as_integer().expect("a row is a number"))
        .collect();
    assert!(
        rows.iter().all(|row| ROWS.contains(row)),
        "{rows:?} are not all rows of {ROWS:?}"
    );
    rows
}

fn stem(file: &Path) -> String {
    file.file_stem()
        .expect("a file has a name")
        .to_string_lossy()
        .into_owned()
}

fn json(file: &Path) -> Value {
    let text =
        fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}
