//! The loader: layers defaults, file, environment and flags into [`Settings`]. The only place that
//! reads a configuration file.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::error::ConfigError;
use super::settings::Settings;
use super::system_memory;
use super::table::{Key, SHARES_OF_MEMORY, SettingSyntax, TABLE, find};
use crate::base::nearest;

/// Beginning of the origin of a setting from the environment.
pub(super) const ENVIRONMENT: &str = "environment variable ";

/// One setting with its value and its origin.
#[derive(Clone, Debug)]
pub struct Given {
    key: &'static Key,
    value: Value,
    origin: String,
}

impl Given {
    /// A list with all its items.
    pub(super) fn list(key: &'static Key, items: Vec<Value>, origin: String) -> Self {
        let value = Value::Array(items);
        Self { key, value, origin }
    }
}

/// Applies layers to the defaults: a later layer wins.
pub fn load(layers: impl IntoIterator<Item = Given>) -> Result<Settings, ConfigError> {
    let layers = layers.into_iter().map(|given| (given.key.name, given));
    let mut given: BTreeMap<&str, Given> = layers.collect();
    for (name, given) in &mut given {
        let taken = share_of_memory(name, &given.value, system_memory::total);
        let taken = taken.map_err(|why| bad_value(name, &given.value, Some(given), why))?;
        given.value = taken.unwrap_or_else(|| given.value.clone());
    }
    let defaults = fields(&Settings::default());
    let mut values = defaults.clone();
    for (name, given) in &given {
        // Each is tried alone over the defaults, to find the one that is invalid.
        let mut alone = defaults.clone();
        alone.insert((*name).to_owned(), given.value.clone());
        read(alone).map_err(|why| bad_value(name, &given.value, Some(given), why))?;
        values.insert((*name).to_owned(), given.value.clone());
    }
    let refuse = |name: &str, why| {
        let value = values.get(name).unwrap_or(&Value::Null);
        bad_value(name, value, given.get(name), why)
    };
    let settings = read(values.clone()).map_err(|why| refuse("", why))?;
    match settings.problem() {
        Some((name, why)) => Err(refuse(name, why)),
        None => Ok(settings),
    }
}

/// The bytes of a share of the memory such as `40%`, if the text is one and the setting takes it.
fn share_of_memory(
    name: &str,
    value: &Value,
    memory: impl FnOnce() -> Option<u64>,
) -> Result<Option<Value>, String> {
    let share = value
        .as_str()
        .and_then(|text| text.trim().strip_suffix('%'));
    let Some(share) = share.filter(|_| SHARES_OF_MEMORY.contains(&name)) else {
        return Ok(None);
    };
    let percent: Option<u64> = share.trim().parse().ok();
    let Some(percent) = percent.filter(|percent| (1..=100).contains(percent)) else {
        return Err("a share of the memory is from 1% to 100%".to_owned());
    };
    let Some(total) = memory() else {
        return Err("this system does not say how much memory it has".to_owned());
    };
    Ok(Some(Value::from(total / 100 * percent)))
}

/// Settings as (name, value), in the form that [`read`] takes.
pub(super) fn fields(settings: &Settings) -> Map<String, Value> {
    match serde_json::to_value(settings) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

/// The opposite of [`fields`]; the error says what is wrong.
fn read(values: Map<String, Value>) -> Result<Settings, String> {
    Settings::deserialize(Value::Object(values)).map_err(|error| {
        let why = error.to_string();
        let found = ["invalid type: ", "invalid value: "];
        let found = found.iter().find_map(|prefix| why.strip_prefix(prefix));
        found.map(|rest| format!("found {rest}")).unwrap_or(why)
    })
}

/// Settings as (name, value), to be shown: passwords are left out.
pub fn shown(settings: &Settings) -> Map<String, Value> {
    let mut fields = fields(settings);
    if let Some(Value::Array(users)) = fields.get_mut("user") {
        for (shown, user) in users.iter_mut().zip(&settings.user) {
            *shown = Value::String(format!("{}:***", user.name));
        }
    }
    fields
}

/// Name and printed default of every setting, for help texts.
pub fn default_texts() -> Vec<(String, String)> {
    let entries = fields(&Settings::default()).into_iter();
    entries.map(|(name, value)| (name, plain(&value))).collect()
}

/// The names of the settings that differ.
pub fn changed(old: &Settings, new: &Settings) -> Vec<&'static str> {
    let (old, new) = (fields(old), fields(new));
    let names = TABLE.iter().map(|key| key.name);
    names
        .filter(|name| old.get(*name) != new.get(*name))
        .collect()
}

/// A value without quotes and brackets.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(values) => values
            .iter()
            .filter_map(Value::as_str)
            .collect::<Vec<_>>()
            .join(", "),
        Value::Null => String::new(),
        other => show(other),
    }
}

/// The settings of a TOML file.
pub fn from_file(path: &str) -> Result<Vec<Given>, ConfigError> {
    #[allow(
        clippy::disallowed_methods,
        reason = "this is the loader: the one file config reads"
    )]
    let text = std::fs::read_to_string(path).map_err(|error| ConfigError::Unreadable {
        path: path.to_owned(),
        why: error.to_string(),
    })?;
    from_toml(path, &text)
}

pub(super) fn from_toml(path: &str, text: &str) -> Result<Vec<Given>, ConfigError> {
    let entries: BTreeMap<String, toml::Spanned<toml::Value>> =
        toml::from_str(text).map_err(|error| {
            // Not its whole text: that shows the line, which may have a password.
            let line = error.span().map_or(1, |span| line_of(text, span.start));
            ConfigError::NotToml {
                path: path.to_owned(),
                why: format!("line {line}: {}", error.message().trim_end()),
            }
        })?;
    let entries = entries.into_iter().map(|(name, value)| {
        let line = line_of(text, value.span().start);
        let origin = format!("in file {path}, line {line}");
        let value = from_toml_value(value.into_inner());
        match find(&name) {
            // A single text where a list is expected is its only item.
            Some(key) if key.shape == SettingSyntax::List && value.is_string() => {
                Ok(Given::list(key, vec![value], origin))
            }
            Some(key) => Ok(Given { key, value, origin }),
            None => Err(unknown(&name, &show(&value), &origin)),
        }
    });
    entries.collect()
}

/// The number of the line with this byte, from 1.
fn line_of(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count()
}

/// A table or a time is not a setting: it stays an object, which every setting refuses.
fn from_toml_value(value: toml::Value) -> Value {
    match value {
        toml::Value::String(text) => Value::from(text),
        toml::Value::Integer(number) => Value::from(number),
        toml::Value::Float(number) => Value::from(number),
        toml::Value::Boolean(switch) => Value::from(switch),
        toml::Value::Array(values) => values.into_iter().map(from_toml_value).collect(),
        toml::Value::Datetime(_) | toml::Value::Table(_) => Value::Object(Map::new()),
    }
}

/// The default directory of durable data: `coroner-data` in the user's state directory.
///
/// When these variables do not name it.
pub fn from_state_directory(
    variables: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Given, ConfigError> {
    let (mut state, mut home) = (None, None);
    for (name, value) in variables {
        // The specification says that relative paths are to be ignored.
        let path = PathBuf::from(value);
        match name.to_str() {
            Some("XDG_STATE_HOME") if path.is_absolute() => state = Some(path),
            Some("HOME") if path.is_absolute() => home = Some(path.join(".local/state")),
            _ => {}
        }
    }
    let (Some(key), Some(state)) = (find("data"), state.or(home)) else {
        return Err(ConfigError::NoStateDirectory);
    };
    let directory = state.join("coroner-data").display().to_string();
    let origin = "the user's state directory".to_owned();
    Ok(given(key, vec![directory], origin))
}

/// The setting of a command line flag, with the texts of all its occurrences.
pub fn from_flag(key: &'static Key, texts: Vec<String>) -> Given {
    given(key, texts, format!("flag --{}", key.name))
}

pub(super) fn given(key: &'static Key, texts: Vec<String>, origin: String) -> Given {
    let value = match key.shape {
        SettingSyntax::List => Value::from(texts),
        shape => one_value(shape, texts.into_iter().next_back().unwrap_or_default()),
    };
    Given { key, value, origin }
}

/// Parses a value by its shape. A text that does not fit stays text, so that the refusal can show
/// it.
fn one_value(shape: SettingSyntax, text: String) -> Value {
    match shape {
        SettingSyntax::Integer => text
            .parse::<u64>()
            .map_or_else(|_| Value::from(text), Value::from),
        SettingSyntax::Switch => match text.trim().to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" | "1" => Value::from(true),
            "false" | "no" | "off" | "0" => Value::from(false),
            _ => Value::from(text),
        },
        SettingSyntax::Text | SettingSyntax::List => Value::from(text),
    }
}

fn bad_value(name: &str, value: &Value, given: Option<&Given>, why: String) -> ConfigError {
    let shown = match name {
        "user" => "***".to_owned(),
        _ => show(value),
    };
    let why = match value {
        Value::Array(items) if items.len() > 1 && is_in_environment(given) => {
            let variable = find(name).map(Key::variable).unwrap_or_default();
            format!(
                "{why} (commas separate items: one with a comma in it goes into {variable}_1 or a \
                 JSON array)"
            )
        }
        _ => why,
    };
    ConfigError::BadValue {
        name: name.to_owned(),
        value: shown,
        origin: given.map_or("default", |given| &given.origin).to_owned(),
        why,
        takes: find(name).map_or("another value", |key| key.takes),
    }
}

fn is_in_environment(given: Option<&Given>) -> bool {
    given.is_some_and(|given| given.origin.starts_with(ENVIRONMENT))
}

/// The known setting nearest to this name.
pub(super) fn nearest_setting(name: &str) -> Option<&'static Key> {
    nearest(name, TABLE.iter().map(|key| key.name)).and_then(find)
}

fn unknown(name: &str, value: &str, origin: &str) -> ConfigError {
    let hint = match nearest_setting(name) {
        Some(key) => format!("did you mean '{}'?", key.name),
        None => "'coroner serve --help' lists all settings".to_owned(),
    };
    let (name, value, origin) = (name.to_owned(), value.to_owned(), origin.to_owned());
    ConfigError::Unknown {
        name,
        value,
        origin,
        hint,
    }
}

/// A value as one would write it.
fn show(value: &Value) -> String {
    match value {
        Value::String(text) => format!("\"{text}\""),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Array(values) => {
            // Texts only one level deep: settings are never nested deeper.
            let shown: Vec<String> = values
                .iter()
                .map(|value| match value.as_str() {
                    Some(text) => format!("\"{text}\""),
                    None => "...".to_owned(),
                })
                .collect();
            format!("[{}]", shown.join(", "))
        }
        Value::Object(_) => "{...}".to_owned(),
        Value::Null => "nothing".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ByteSize;

    fn environment(name: &str, value: &str) -> Vec<Given> {
        let found = crate::config::from_environment([(name.into(), value.into())]);
        found.unwrap().given
    }

    fn flag(name: &str, value: &str) -> Given {
        from_flag(find(name).unwrap(), vec![value.to_owned()])
    }

    #[test]
    fn durable_data_goes_to_the_state_directory_of_the_user() {
        let check = |variables: &[(&str, &str)], expect: Option<&str>| {
            let variables = variables.iter();
            let own = |(name, value): &(&str, &str)| (OsString::from(name), OsString::from(value));
            let given = from_state_directory(variables.map(own));
            let settings = given.and_then(|given| load([given]));
            let found = settings.map(|settings| settings.data);
            let expect = expect.map(|path| Some(PathBuf::from(path)));
            assert_eq!(found, expect.ok_or(ConfigError::NoStateDirectory));
        };
        check(&[("HOME", "/h")], Some("/h/.local/state/coroner-data"));
        check(
            &[("HOME", "/h"), ("XDG_STATE_HOME", "/s")],
            Some("/s/coroner-data"),
        );
        check(
            &[("XDG_STATE_HOME", "s"), ("HOME", "/h")],
            Some("/h/.local/state/coroner-data"),
        );
        check(&[("XDG_STATE_HOME", ""), ("HOME", "")], None);
        check(&[], None);
    }

    #[test]
    fn table_and_settings_name_the_same_settings() {
        let settings = fields(&Settings::default());
        let mut fields: Vec<&str> = settings.keys().map(String::as_str).collect();
        let mut keys: Vec<&str> = TABLE.iter().map(|key| key.name).collect();
        fields.sort_unstable();
        keys.sort_unstable();
        assert_eq!(fields, keys);
    }

    #[test]
    fn defaults_are_valid() {
        assert_eq!(load([]).unwrap(), Settings::default());
    }

    #[test]
    fn flag_beats_environment_beats_file() {
        let mut layers = from_toml(
            "c.toml",
            "channel-max = 1\nnode-name = 'file'\nvhost = ['v']\nlog = 'a'",
        )
        .unwrap();
        layers.extend(environment("CORONER_CHANNEL_MAX", "2"));
        layers.extend(environment("CORONER_NODE_NAME", "variable"));
        layers.push(flag("channel-max", "3"));
        let settings = load(layers).unwrap();
        assert_eq!(settings.channel_max, 3);
        assert_eq!(settings.node_name, "variable");
        assert_eq!(settings.log, "a");
        assert_eq!(settings.vhosts().collect::<Vec<_>>(), ["/", "v"]);
    }

    /// A budget that is never reached lets messages that are read back keep the alarm up.
    #[test]
    fn the_memory_budget_is_at_most_half_of_the_memory_limit() {
        let in_force = |budget, limit| {
            let settings = Settings {
                memory_budget: ByteSize(budget),
                memory_limit: ByteSize(limit),
                ..Settings::default()
            };
            settings.budget_in_force()
        };
        for ((budget, limit), expected) in [
            ((100, 1_000), 100),
            ((500, 1_000), 500),
            ((501, 1_000), 500),
            ((5_000, 1_000), 500),
            ((100, 1), 1),
            // None of either, as asked for.
            ((100, 0), 100),
            ((0, 1_000), 0),
        ] {
            assert_eq!(in_force(budget, limit), expected, "{budget} {limit}");
        }
        let settings = Settings::default();
        assert_eq!(settings.budget_in_force(), settings.memory_budget.0);
    }

    #[test]
    fn a_share_is_of_the_memory_that_the_process_may_take() {
        let share = |name, text: &str| share_of_memory(name, &Value::from(text), || Some(1000));
        assert_eq!(share("memory-limit", "40%"), Ok(Some(Value::from(400))));
        assert_eq!(share("memory-limit", "400"), Ok(None));
        assert_eq!(share("segment-size", "40%"), Ok(None));
        for bad in ["0%", "101%", "-1%", "%", "x%"] {
            assert!(share("memory-budget", bad).is_err(), "{bad}");
        }
        assert!(share_of_memory("memory-limit", &Value::from("40%"), || None).is_err());
        let settings = load([flag("memory-limit", "50%")]).unwrap();
        assert!(settings.memory_limit.0 > 1 << 20, "{settings:?}");
        let refused = load([flag("segment-size", "40%")]).unwrap_err().to_string();
        assert!(
            refused.contains("takes no share of the memory"),
            "{refused}"
        );
    }

    #[test]
    fn a_single_text_in_a_file_is_a_list_of_one() {
        let layers = from_toml("c.toml", "vhost = 'a,b'\nauto-create = ['#']").unwrap();
        assert_eq!(load(layers).unwrap().vhost, ["a,b"]);
    }

    #[test]
    fn bad_values_are_refused_with_name_value_origin_and_what_is_right() {
        let text = |given| load([given]).unwrap_err().to_string();
        assert_eq!(
            text(flag("max-frame-size", "300")),
            "setting 'max-frame-size' = \"300\" (flag --max-frame-size): this is outside its \
             range; it takes a number of bytes from 512 to 4294967295 such as 131072 or 128KiB"
        );
        assert_eq!(
            text(flag("channel-max", "many")),
            "setting 'channel-max' = \"many\" (flag --channel-max): found string \"many\", \
             expected u16; it takes a number from 0 to 65535"
        );
        assert_eq!(
            text(flag("amqp", "5672")),
            "setting 'amqp' = [\"5672\"] (flag --amqp): the port is missing; it takes ADDR:PORT \
             such as 127.0.0.1:5672; port 0 lets the system choose"
        );
        let secret = text(flag("user", "password-only"));
        assert!(!secret.contains("password-only"), "{secret}");
        for (name, value) in [
            ("permission", "nobody / .* .* .*"),
            ("user-tags", "nobody=monitoring"),
        ] {
            let stranger = text(flag(name, value));
            assert!(stranger.contains("there is no user 'nobody'"), "{stranger}");
        }
    }

    #[test]
    fn unknown_settings_are_refused_with_the_nearest_name() {
        let error = from_toml("c.toml", "chanel-max = 1")
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            "unknown setting 'chanel-max' = 1 (in file c.toml, line 1); did you mean 'channel-max'?"
        );
        let error = from_toml("c.toml", "colour = 'red'")
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            "unknown setting 'colour' = \"red\" (in file c.toml, line 1); 'coroner serve --help' lists all \
             settings"
        );
    }

    #[test]
    fn what_is_wrong_in_a_file_is_told_with_its_line_and_without_passwords() {
        let text = |file: &str| {
            let given = from_toml("c.toml", file).and_then(load);
            given.unwrap_err().to_string()
        };
        assert_eq!(
            text("# ours\nlog = 'a'\nchannel-max = 70000\n"),
            "setting 'channel-max' = 70000 (in file c.toml, line 3): found integer `70000`, \
             expected u16; it takes a number from 0 to 65535"
        );
        let nested = text("[channel-max]\nmost = 3");
        assert!(
            nested.starts_with("setting 'channel-max' = {...} (in file c.toml, line 1): found map"),
            "{nested}"
        );
        let when = text("log = 2026-11-22");
        assert!(
            when.contains("line 1): found map, expected a string"),
            "{when}"
        );
        let broken = text("strict = true\nuser = ['me:secret\n");
        assert!(
            broken.starts_with("configuration file 'c.toml' is not valid TOML: line 2: "),
            "{broken}"
        );
        assert!(!broken.contains("secret"), "{broken}");
    }

    #[test]
    fn the_first_of_two_layers_may_be_bad_when_the_second_is_right() {
        let layers = [flag("channel-max", "many"), flag("channel-max", "3")];
        assert_eq!(load(layers).unwrap().channel_max, 3);
    }
}
