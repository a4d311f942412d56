//! `docs/LIMITS.md` has every bound, with the value that the code has.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use coroner::config::{TABLE, default_texts};

use crate::source::{root, rust_files};

const PAGE: &str = "docs/LIMITS.md";
/// Whose public constants must all stand on the page.
const LIMITS: &str = "src/base/limits.rs";

/// A row of the page.
struct Row {
    /// A constant, or a setting with `--` in front.
    name: String,
    /// Where the constant is.
    file: String,
    value: String,
    setting: String,
    /// What the peer is told.
    told: String,
}

#[test]
fn every_bound_stands_on_the_page_of_limits() {
    let listed: BTreeSet<String> = rows()
        .into_iter()
        .filter(|row| row.file == LIMITS)
        .map(|row| row.name)
        .collect();
    let missing: Vec<String> = Constants::of(LIMITS)
        .definitions
        .into_keys()
        .filter(|name| !listed.contains(name))
        .map(|name| format!("{PAGE} has no row for `{name}` of {LIMITS}"))
        .collect();
    assert!(missing.is_empty(), "\n{}", missing.join("\n"));
}

#[test]
fn the_page_of_limits_has_the_values_of_the_code() {
    let defaults: BTreeMap<String, String> = default_texts().into_iter().collect();
    let mut files = BTreeMap::new();
    let mut seen = BTreeSet::new();
    let mut wrong = Vec::new();
    let rows = rows();
    assert!(rows.len() > 50, "the rows were not found");
    for row in &rows {
        let Row { name, file, .. } = row;
        if !seen.insert((name, file)) {
            wrong.push(format!("`{name}` has two rows"));
        }
        let Some(shown) = quantity(&row.value) else {
            wrong.push(format!(
                "`{name}`: '{}' begins with no number and unit",
                row.value
            ));
            continue;
        };
        let settings = [name, &row.setting].map(|text| text.strip_prefix("--"));
        for setting in settings.into_iter().flatten() {
            let known = TABLE.iter().any(|key| key.name == setting);
            match defaults.get(setting).and_then(|text| quantity(text)) {
                Some(value) if known && value == shown => {}
                Some(value) => wrong.push(format!("--{setting} is {value}, not {shown}")),
                None => wrong.push(format!("there is no setting --{setting} with a number")),
            }
        }
        if !name.starts_with("--") {
            let constants = files
                .entry(file)
                .or_insert_with(|| Constants::of(file.as_str()));
            match constants.value(name) {
                Some(value) if value == shown => {}
                Some(value) => wrong.push(format!("`{name}` is {value}, not {shown}")),
                None => wrong.push(format!("{file} has no constant `{name}`")),
            }
        }
    }
    assert!(wrong.is_empty(), "{PAGE}:\n{}", wrong.join("\n"));
}

/// A bound that nothing asks for is none, and a condition that nothing can send is told to nobody.
#[test]
fn every_bound_is_asked_for_and_what_is_told_can_be_sent() {
    let files = rust_files();
    let code: Vec<(&str, String)> = files
        .iter()
        .filter(|file| file.path.starts_with("src/"))
        .map(|file| {
            let lines = file.code().map(|line| line.text.as_str());
            (file.path.as_str(), lines.collect::<Vec<_>>().join("\n"))
        })
        .collect();
    let conditions: String = code
        .iter()
        .filter(|(path, _)| path.starts_with("src/wire/performative"))
        .map(|(_, text)| text.as_str())
        .collect();
    let mut wrong = Vec::new();
    for Row {
        name, file, told, ..
    } in rows()
    {
        let is_constant = !name.starts_with("--");
        let uses = |(path, text): &(&str, String)| {
            let count = text.matches(&*name).count();
            count > usize::from(*path == file)
        };
        if is_constant && !code.iter().any(uses) {
            wrong.push(format!("nothing asks for `{name}`"));
        }
        let quoted = told.split('`').skip(1).step_by(2);
        let conditioned = quoted.filter(|text| text.starts_with("amqp:"));
        for condition in conditioned.filter(|text| !conditions.contains(&format!("\"{text}\""))) {
            wrong.push(format!("`{name}`: there is no condition {condition}"));
        }
    }
    assert!(wrong.is_empty(), "{PAGE}:\n{}", wrong.join("\n"));
}

/// The rows of all tables, without their headings.
fn rows() -> Vec<Row> {
    let page = fs::read_to_string(root().join(PAGE)).expect("the page is there");
    let cells = page.lines().filter(|line| line.starts_with("| "));
    cells
        .map(|line| line.split('|').map(str::trim).collect::<Vec<_>>())
        .filter(|cells| !["bound", "---"].contains(&cells[1]))
        .map(|cells| {
            assert_eq!(cells.len(), 6, "four columns: {cells:?}");
            let mut names = cells[1].split('`').skip(1).step_by(2).map(str::to_owned);
            Row {
                name: names.next().expect("a row begins with a name"),
                file: names.next().unwrap_or_else(|| LIMITS.to_owned()),
                value: cells[2].to_owned(),
                setting: cells[3].trim_matches('`').to_owned(),
                told: cells[4].to_owned(),
            }
        })
        .collect()
}

/// A number and its unit at the front of a text, in bytes, milliseconds or as it stands: `8 KiB`,
/// `16MiB`, `65,535 deliveries`, `30s`.
fn quantity(text: &str) -> Option<u128> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != ',');
    let (number, rest) = text.split_at(digits.unwrap_or(text.len()));
    let number: u128 = number.replace(',', "").parse().ok()?;
    let unit = rest.split_whitespace().next().unwrap_or_default();
    let factor = match unit {
        "KiB" => 1 << 10,
        "MB" => 1_000_000,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "s" => 1_000,
        "min" | "m" => 60_000,
        "days" => 86_400_000,
        _ => 1,
    };
    Some(number * factor)
}

/// The constants of a file: what stands behind the `=` of each.
struct Constants {
    definitions: BTreeMap<String, String>,
    /// Those of its folder and of the shared file, which it may name.
    around: BTreeMap<String, String>,
}

impl Constants {
    fn of(file: &str) -> Self {
        let path = root().join(file);
        let definitions = definitions_of(&path);
        let folder = path.parent().expect("a file in a folder");
        let folder = fs::read_dir(folder).expect("the folder of a file can be listed");
        let beside = folder.map(|entry| entry.expect("an entry").path());
        let beside = beside.filter(|path| path.extension().is_some_and(|end| end == "rs"));
        let around = beside.chain([root().join(LIMITS)]);
        Self {
            definitions,
            around: around.flat_map(|path| definitions_of(&path)).collect(),
        }
    }

    /// The value of a constant: a number, or a time in milliseconds.
    fn value(&self, name: &str) -> Option<u128> {
        let definition = self.definitions.get(name)?;
        let value = self.evaluate(definition);
        assert!(
            value.is_some(),
            "`{name} = {definition}` cannot be evaluated here: sums and products of numbers, other \
             constants of its file and Duration::from_* can"
        );
        value
    }

    /// Sums of products of numbers, of names and of shifts between two of them.
    fn evaluate(&self, text: &str) -> Option<u128> {
        let text = text.trim();
        if let Some((left, right)) = text.rsplit_once(" + ") {
            return Some(self.evaluate(left)? + self.evaluate(right)?);
        }
        if let Some((left, right)) = text.split_once(" << ") {
            return Some(self.evaluate(left)? << self.evaluate(right)?);
        }
        if let Some((left, right)) = text.rsplit_once(" * ") {
            return Some(self.evaluate(left)? * self.evaluate(right)?);
        }
        for (call, factor) in [("millis", 1), ("secs", 1_000), ("mins", 60_000)] {
            let call = format!("Duration::from_{call}(");
            let inner = text.strip_prefix(&call).and_then(|it| it.strip_suffix(')'));
            if let Some(inner) = inner {
                return Some(self.evaluate(inner)? * factor);
            }
        }
        let text = text.split(" as ").next().unwrap_or(text);
        let named = || {
            let own = self.definitions.get(text);
            self.evaluate(own.or_else(|| self.around.get(text))?)
        };
        text.replace('_', "").parse().ok().or_else(named)
    }
}

/// The constants that a file defines.
fn definitions_of(path: &Path) -> BTreeMap<String, String> {
    let text = fs::read_to_string(path);
    let text = text.unwrap_or_else(|error| panic!("{PAGE} names {}: {error}", path.display()));
    let definitions = text.split("const ").skip(1).filter_map(|rest| {
        let (head, value) = rest.split(';').next()?.split_once('=')?;
        let (name, _) = head.split_once(':')?;
        let is_name = name
            .chars()
            .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
        is_name.then(|| (name.to_owned(), value.trim().to_owned()))
    });
    definitions.collect()
}
