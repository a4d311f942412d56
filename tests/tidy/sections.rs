//! Which sections of the AMQP 1.0 specification are named by tests.

use std::collections::BTreeMap;

use crate::source::rust_files;

/// Sections that must have at least one test.
const COVERED: &[&str] = &[
    "1.4", "1.6.23", "2.2", "2.3.1", "2.4.1", "2.4.3", "2.4.5", "2.5.1", "2.5.7", "2.6.1", "2.6.3",
    "2.6.7", "2.6.12", "2.6.14", "2.7.4", "2.7.5", "2.7.6", "2.8.10", "2.8.17", "2.8.18", "3.2",
    "3.2.1", "5.3",
];

#[test]
fn the_sections_that_matter_have_tests() {
    let mut table: BTreeMap<Vec<u32>, (String, usize)> = BTreeMap::new();
    for file in rust_files() {
        for line in file.lines.iter().filter(|line| line.is_test) {
            for section in sections(&line.text) {
                let key = section
                    .split('.')
                    .filter_map(|part| part.parse().ok())
                    .collect();
                table
                    .entry(key)
                    .or_insert_with(|| (section.to_owned(), 0))
                    .1 += 1;
            }
        }
    }
    for (section, mentions) in table.values() {
        println!("[AMQP {section}] {mentions}");
    }
    let missing: Vec<&str> = COVERED
        .iter()
        .copied()
        .filter(|section| !table.values().any(|(covered, _)| covered == section))
        .collect();
    assert!(
        missing.is_empty(),
        "no test names these sections: {}",
        missing.join(", ")
    );
}

/// The sections of the tags in a line, such as `2.6.7` in `[AMQP 2.6.7]`.
fn sections(line: &str) -> impl Iterator<Item = &str> {
    line.split("[AMQP ").skip(1).filter_map(|rest| {
        let (section, _) = rest.split_once(']')?;
        section
            .chars()
            .all(|c| c.is_ascii_digit() || c == '.')
            .then_some(section)
    })
}
