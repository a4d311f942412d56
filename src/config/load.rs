//! Layers defaults, file, environment and flags into [`Settings`]. The only place that reads a
//! configuration file.

use std::collections::BTreeMap;
use std::path::PathBuf;

use figment::error::Kind;
use figment::providers::{Format, Serialized, Toml};
use figment::value::{Dict, Map, Value};
use figment::{Figment, Metadata, Profile, Provider};

use super::error::ConfigError;
use super::settings::Settings;
use super::table::{Key, Shape, TABLE, find};

/// The prefix of our environment variables.
const PREFIX: &str = "CORONER_";
/// Names the configuration file, so it is no setting of its own.
const FILE_VARIABLE: &str = "CORONER_CONFIG";

/// One setting as somebody gave it.
#[derive(Clone, Debug)]
pub struct Given {
    key: &'static Key,
    value: Value,
    origin: String,
}

impl Provider for Given {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.origin.clone())
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        let dict = Dict::from([(self.key.name.to_owned(), self.value.clone())]);
        Ok(Map::from([(Profile::Default, dict)]))
    }
}

/// Puts layers over the defaults: a later layer wins.
pub fn load(layers: impl IntoIterator<Item = Given>) -> Result<Settings, ConfigError> {
    let mut figment = Figment::from(Serialized::defaults(Settings::default()));
    for given in layers {
        figment = figment.merge(given);
    }
    let settings: Settings = figment
        .extract()
        .map_err(|error| explain(&figment, &error))?;
    match settings.problem() {
        Some((name, why)) => Err(bad_value(&figment, name, why)),
        None => Ok(settings),
    }
}

/// Name and printed default of every setting, for help texts.
pub fn default_texts() -> Vec<(String, String)> {
    let tables = Serialized::defaults(Settings::default())
        .data()
        .unwrap_or_default();
    let entries = tables.into_values().flatten();
    entries.map(|(name, value)| (name, plain(&value))).collect()
}

/// The names of the settings in which two differ.
pub fn changed(old: &Settings, new: &Settings) -> Vec<&'static str> {
    let values = |settings: &Settings| {
        let tables = Serialized::defaults(settings).data().unwrap_or_default();
        tables.into_values().flatten().collect::<BTreeMap<_, _>>()
    };
    let (old, new) = (values(old), values(new));
    let value = |values: &BTreeMap<String, Value>, name: &str| values.get(name).map(plain);
    let names = TABLE.iter().map(|key| key.name);
    let differs = |name: &&'static str| value(&old, name) != value(&new, name);
    names.filter(differs).collect()
}

/// A value without quotes and brackets.
fn plain(value: &Value) -> String {
    match value {
        Value::String(_, text) => text.clone(),
        Value::Array(_, values) => values
            .iter()
            .filter_map(Value::as_str)
            .collect::<Vec<_>>()
            .join(", "),
        Value::Empty(..) => String::new(),
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

fn from_toml(path: &str, text: &str) -> Result<Vec<Given>, ConfigError> {
    let tables = Toml::string(text)
        .data()
        .map_err(|error| ConfigError::NotToml {
            path: path.to_owned(),
            why: error.kind.to_string(),
        })?;
    let origin = format!("in file {path}");
    let entries = tables.into_values().flatten();
    entries
        .map(|(name, value)| match find(&name) {
            Some(key) => Ok(Given {
                key,
                value,
                origin: origin.clone(),
            }),
            None => Err(unknown(&name, &show(&value), &origin)),
        })
        .collect()
}

/// The settings among environment variables (name, value).
pub fn from_environment(
    variables: impl IntoIterator<Item = (String, String)>,
) -> Result<Vec<Given>, ConfigError> {
    let ours = variables
        .into_iter()
        .filter(|(name, _)| name.starts_with(PREFIX));
    ours.filter(|(name, _)| name != FILE_VARIABLE)
        .map(|(variable, text)| {
            let name = variable
                .trim_start_matches(PREFIX)
                .to_lowercase()
                .replace('_', "-");
            let origin = format!("environment variable {variable}");
            let Some(key) = find(&name) else {
                return Err(unknown(&name, &format!("\"{text}\""), &origin));
            };
            let texts = match key.shape {
                Shape::List => text.split(',').map(str::trim).map(str::to_owned).collect(),
                _ => vec![text],
            };
            Ok(given(key, texts, origin))
        })
        .collect()
}

/// Where durable data goes if nothing else says so: `coroner-data` in the user's state directory.
///
/// # Errors
/// When these variables do not tell where that is.
pub fn from_state_directory(
    variables: impl IntoIterator<Item = (String, String)>,
) -> Result<Given, ConfigError> {
    let (mut state, mut home) = (None, None);
    for (name, value) in variables {
        // The specification of the directories has relative ones ignored.
        let path = PathBuf::from(value);
        match name.as_str() {
            "XDG_STATE_HOME" if path.is_absolute() => state = Some(path),
            "HOME" if path.is_absolute() => home = Some(path.join(".local/state")),
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

fn given(key: &'static Key, texts: Vec<String>, origin: String) -> Given {
    let value = match key.shape {
        Shape::List => Value::from(texts),
        shape => one_value(shape, texts.into_iter().next_back().unwrap_or_default()),
    };
    Given { key, value, origin }
}

/// A text that does not fit its shape stays text: then the refusal can show it.
fn one_value(shape: Shape, text: String) -> Value {
    match shape {
        Shape::Integer => text
            .parse::<u64>()
            .map_or_else(|_| Value::from(text), Value::from),
        Shape::Switch => text
            .parse::<bool>()
            .map_or_else(|_| Value::from(text), Value::from),
        Shape::Text | Shape::List => Value::from(text),
    }
}

/// Turns figment's error into ours.
fn explain(figment: &Figment, error: &figment::Error) -> ConfigError {
    let name = error.path.first().map_or("", String::as_str);
    let why = match &error.kind {
        Kind::InvalidType(actual, expected) | Kind::InvalidValue(actual, expected) => {
            format!("found {actual}, expected {expected}")
        }
        kind => kind.to_string(),
    };
    bad_value(figment, name, why)
}

fn bad_value(figment: &Figment, name: &str, why: String) -> ConfigError {
    let origin = figment
        .find_metadata(name)
        .map_or("default", |metadata| metadata.name.as_ref());
    let value = match name {
        "user" => "***".to_owned(),
        _ => figment
            .find_value(name)
            .map_or_else(|_| "?".to_owned(), |value| show(&value)),
    };
    ConfigError::BadValue {
        name: name.to_owned(),
        value,
        origin: origin.to_owned(),
        why,
        takes: find(name).map_or("another value", |key| key.takes),
    }
}

fn unknown(name: &str, value: &str, origin: &str) -> ConfigError {
    let nearest = TABLE
        .iter()
        .map(|key| (distance(name, key.name), key.name))
        .min();
    let hint = match nearest {
        Some((steps, nearest)) if steps <= 3 => format!("did you mean '{nearest}'?"),
        _ => "'coroner serve --help' lists all settings".to_owned(),
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
        Value::String(_, text) => format!("\"{text}\""),
        Value::Char(_, char) => format!("\"{char}\""),
        Value::Bool(_, bool) => bool.to_string(),
        Value::Num(_, num) => num
            .to_u128()
            .map(|number| number.to_string())
            .or_else(|| num.to_i128().map(|number| number.to_string()))
            .unwrap_or_else(|| num.to_f64().unwrap_or(f64::NAN).to_string()),
        Value::Array(_, values) => {
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
        Value::Dict(..) => "{...}".to_owned(),
        Value::Empty(..) => "nothing".to_owned(),
    }
}

/// Levenshtein distance between two short names, in single-character edits.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (cell, y) in row.iter_mut().skip(1).zip(b.bytes()) {
            let above = *cell;
            left = (left + 1)
                .min(above + 1)
                .min(diagonal + usize::from(x != y));
            diagonal = above;
            *cell = left;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(name: &str, value: &str) -> Result<Vec<Given>, ConfigError> {
        from_environment([(name.to_owned(), value.to_owned())])
    }

    fn flag(name: &str, value: &str) -> Given {
        from_flag(find(name).unwrap(), vec![value.to_owned()])
    }

    #[test]
    fn durable_data_goes_to_the_state_directory_of_the_user() {
        let check = |variables: &[(&str, &str)], expect: Option<&str>| {
            let variables = variables.iter();
            let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
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
        let settings = Serialized::defaults(Settings::default()).data().unwrap();
        let mut fields: Vec<&str> = settings
            .values()
            .flat_map(|dict| dict.keys().map(String::as_str))
            .collect();
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
        layers.extend(environment("CORONER_CHANNEL_MAX", "2").unwrap());
        layers.extend(environment("CORONER_NODE_NAME", "variable").unwrap());
        layers.push(flag("channel-max", "3"));
        let settings = load(layers).unwrap();
        assert_eq!(settings.channel_max, 3);
        assert_eq!(settings.node_name, "variable");
        assert_eq!(settings.log, "a");
        assert_eq!(settings.vhosts().collect::<Vec<_>>(), ["/", "v"]);
    }

    #[test]
    fn lists_in_the_environment_are_separated_by_commas() {
        let settings = load(environment("CORONER_VHOST", "a, b").unwrap()).unwrap();
        assert_eq!(settings.vhost, ["a", "b"]);
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
        let stranger = text(flag("permission", "nobody / .* .* .*"));
        assert!(stranger.contains("there is no user 'nobody'"), "{stranger}");
    }

    #[test]
    fn unknown_settings_are_refused_with_the_nearest_name() {
        let error = environment("CORONER_CHANEL_MAX", "1")
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            "unknown setting 'chanel-max' = \"1\" (environment variable CORONER_CHANEL_MAX); did \
             you mean 'channel-max'?"
        );
        let error = from_toml("c.toml", "colour = 'red'")
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            "unknown setting 'colour' = \"red\" (in file c.toml); 'coroner serve --help' lists all \
             settings"
        );
    }
}
