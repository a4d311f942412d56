//! `contrib/coroner.toml`, all settings with their meanings and defaults, is made of the table and
//! compared with it.
#![allow(
    clippy::disallowed_methods,
    reason = "the tests read and write the file"
)]

use std::fmt::Write;

use serde_json::Value;

use super::load::{fields, from_toml, load};
use super::settings::Settings;
use super::table::{HEADINGS, TABLE};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/contrib/coroner.toml");
const WIDTH: usize = 100;
const HEAD: &str = "\
# Settings of `coroner serve --config FILE`, each with what it means and its default. Take the # away
# in front of a setting to change it. Each may also stand in the environment (max-frame-size is
# CORONER_MAX_FRAME_SIZE) or on the command line (--max-frame-size), which win over this file.
#
# Sizes are numbers of bytes, or \"64KiB\", \"1GiB\" (1,024s), \"512MB\" (1,000s); the two under Memory also
# take a share of the memory, \"40%\". Times are \"500ms\", \"1m30s\", \"12h\", \"60d\".
#
# Passwords stand here in clear: the file should be readable by the broker's user only.
#
# This file is made of the settings themselves: `CORONER_WRITE_DOCS=1 cargo test --lib config::`.
";

/// The text of the file.
fn sample() -> String {
    let defaults = fields(&Settings::default());
    let mut text = HEAD.to_owned();
    for key in TABLE {
        if let Some((heading, _)) = HEADINGS.iter().find(|(_, first)| *first == key.name) {
            let _ = write!(text, "\n# ---- {heading}\n");
        }
        text.push('\n');
        wrapped(&mut text, key.help);
        let value = match defaults.get(key.name) {
            None | Some(Value::Null) => {
                text.push_str("# Nothing by default.\n");
                format!("\"{}\"", key.value_name)
            }
            Some(value) => value.to_string(),
        };
        let _ = writeln!(text, "#{} = {value}", key.name);
    }
    text
}

fn wrapped(text: &mut String, help: &str) {
    let mut line = String::from("#");
    for word in help.split_whitespace() {
        if line.len() + 1 + word.len() > WIDTH {
            let _ = writeln!(text, "{line}");
            line.truncate(1);
        }
        line.push(' ');
        line.push_str(word);
    }
    let end = if line.ends_with('.') { "" } else { "." };
    let _ = writeln!(text, "{line}{end}");
}

#[test]
fn the_file_of_settings_in_contrib_is_made_of_the_table() {
    let made = sample();
    if std::env::var_os("CORONER_WRITE_DOCS").is_some() {
        std::fs::write(PATH, &made).unwrap();
    }
    let kept = std::fs::read_to_string(PATH).unwrap_or_default();
    assert!(
        kept == made,
        "contrib/coroner.toml is out of date: CORONER_WRITE_DOCS=1 cargo test --lib config::"
    );
}

#[test]
fn the_file_of_settings_without_its_hashes_is_the_defaults() {
    let settings = sample();
    let is_setting = |line: &&str| line.starts_with('#') && !line.starts_with("# ") && *line != "#";
    let lines = settings.lines().filter(is_setting);
    let lines: Vec<&str> = lines.map(|line| line.trim_start_matches('#')).collect();
    assert_eq!(lines.len(), TABLE.len());
    let all = from_toml("c.toml", &lines.join("\n"));
    assert!(all.is_ok(), "{all:?}");
    let defaults = fields(&Settings::default());
    let has_default = |line: &&str| {
        let name = line.split(' ').next().unwrap_or_default();
        defaults.get(name).is_some_and(|value| !value.is_null())
    };
    let lines: Vec<&str> = lines.into_iter().filter(has_default).collect();
    let given = from_toml("c.toml", &lines.join("\n")).unwrap();
    assert_eq!(load(given).unwrap(), Settings::default());
}

#[test]
fn every_heading_begins_at_a_setting_in_the_order_of_the_table() {
    let place = |name: &str| TABLE.iter().position(|key| key.name == name);
    let places: Vec<_> = HEADINGS.iter().map(|(_, first)| place(first)).collect();
    assert!(places.iter().all(Option::is_some), "{places:?}");
    assert!(places.is_sorted(), "{places:?}");
    assert_eq!(places.first(), Some(&Some(0)));
}
