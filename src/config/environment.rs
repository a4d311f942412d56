//! Settings from environment variables: also values in files, items of a list one by one, and
//! variables with the prefix that are not settings.

use std::collections::BTreeMap;
use std::ffi::OsString;

use serde_json::Value;

use super::error::ConfigError;
use super::load::{ENVIRONMENT, Given, given, nearest_setting};
use super::table::{Key, SettingSyntax, find};

/// The prefix of Coroner's environment variables.
const PREFIX: &str = "CORONER_";
/// The variable with the path of the configuration file; not a setting.
const FILE_VARIABLE: &str = "CORONER_CONFIG";
/// Suffix of variables with the path of a file that has the value: how secrets come into
/// containers.
const IN_FILE: &str = "_FILE";
/// The largest file with the value of one setting, in bytes: a value, not a book.
const VALUE_FILE_BYTES_MAX: usize = 64 * 1024;

/// The content of the environment.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// The settings that were given.
    pub given: Vec<Given>,
    /// Variables with the prefix that are not settings, a sentence each. Never with a value: it may
    /// be a password.
    pub warnings: Vec<String>,
}

/// The number of a list's item that one variable gives: `CORONER_USER_2` gives the second item.
type Item = Option<u32>;

/// The values collected for one setting.
#[derive(Default)]
struct Collected {
    origins: Vec<String>,
    items: BTreeMap<Item, (String, Vec<Value>)>,
}

/// Reads the settings among environment variables (name, value).
///
/// When a value is not UTF-8, cannot be read from its file, or is given twice.
pub fn from_environment(
    variables: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Environment, ConfigError> {
    let mut collected: BTreeMap<&str, (&'static Key, Collected)> = BTreeMap::new();
    let (mut injected, mut warnings) = (Vec::new(), Vec::new());
    for (variable, value) in variables {
        let Some(variable) = variable.to_str().filter(|name| name.starts_with(PREFIX)) else {
            continue;
        };
        if variable == FILE_VARIABLE {
            continue;
        }
        let Some(value) = value.to_str() else {
            return Err(unusable(variable, "its value is not UTF-8".to_owned()));
        };
        let Some((key, item, in_file)) = setting(variable) else {
            if is_injected(variable, value) {
                injected.push(variable.to_owned());
            } else {
                warnings.push(stranger(variable));
            }
            continue;
        };
        let text = if in_file {
            value_in_file(variable, value)?
        } else {
            value.to_owned()
        };
        let texts = texts(key, item, in_file, &text).map_err(|why| unusable(variable, why))?;
        let (_, entry) = collected
            .entry(key.name)
            .or_insert_with(|| (key, Collected::default()));
        if let Some((earlier, _)) = entry.items.get(&item) {
            let why = format!("{earlier} says the same setting");
            return Err(unusable(variable, why));
        }
        entry.origins.push(variable.to_owned());
        entry.items.insert(item, (variable.to_owned(), texts));
    }
    if !injected.is_empty() {
        injected.sort_unstable();
        warnings.push(format!(
            "{} do not set anything: they look like what Kubernetes or Docker tells of a service \
             (in Kubernetes 'enableServiceLinks: false' leaves them out)",
            injected.join(", ")
        ));
    }
    warnings.sort_unstable();
    let given = collected
        .into_values()
        .map(|(key, collected)| together(key, collected));
    Ok(Environment {
        given: given.collect(),
        warnings,
    })
}

/// The setting that a variable gives, which item of it, and whether the value is in a file.
fn setting(variable: &str) -> Option<(&'static Key, Item, bool)> {
    let name = variable.strip_prefix(PREFIX)?;
    let alone = |name: &str| find(&name.to_lowercase().replace('_', "-"));
    let item = |name: &str| {
        let (list, number) = name.rsplit_once('_')?;
        let key = alone(list).filter(|key| key.shape == SettingSyntax::List)?;
        Some((key, Some(number.parse().ok()?)))
    };
    let whole = |name: &str| alone(name).map(|key| (key, None)).or_else(|| item(name));
    let in_file = || whole(name.strip_suffix(IN_FILE)?).map(|(key, item)| (key, item, true));
    whole(name)
        .map(|(key, item)| (key, item, false))
        .or_else(in_file)
}

/// The values in a text: one, the items of a list between commas or in a JSON array, or the lines
/// of a file.
fn texts(key: &Key, item: Item, in_file: bool, text: &str) -> Result<Vec<Value>, String> {
    let trimmed = text.trim();
    if key.shape != SettingSyntax::List || item.is_some() {
        return Ok(vec![Value::from(text)]);
    }
    // An IPv6 address begins like an array, but is not one.
    if let Some(inside) = trimmed.strip_prefix('[') {
        match serde_json::from_str(trimmed) {
            Ok(Value::Array(items)) => return Ok(items),
            Err(error) if inside.trim_start().starts_with(['"', ']', '[', '{']) => {
                return Err(format!("this is no JSON array: {error}"));
            }
            _ => {}
        }
    }
    let items: Vec<&str> = if in_file {
        text.lines().collect()
    } else {
        text.split(',').collect()
    };
    let items = items.into_iter().map(str::trim);
    let items = items.filter(|item| !(item.is_empty() && (in_file || trimmed.is_empty())));
    Ok(items.map(Value::from).collect())
}

/// One setting from all values that were found for it.
fn together(key: &'static Key, collected: Collected) -> Given {
    let mut origins = collected.origins;
    origins.sort_unstable();
    let origin = format!("{ENVIRONMENT}{}", origins.join(", "));
    let values = collected.items.into_values().flat_map(|(_, values)| values);
    if key.shape == SettingSyntax::List {
        return Given::list(key, values.collect(), origin);
    }
    let texts = values.filter_map(|value| value.as_str().map(str::to_owned));
    given(key, texts.collect(), origin)
}

/// The content of the file that a variable names, without the end of its last line.
fn value_in_file(variable: &str, path: &str) -> Result<String, ConfigError> {
    #[allow(
        clippy::disallowed_methods,
        reason = "this is the loader: it reads the file that it is told to read"
    )]
    let read = || {
        use std::io::Read;
        let mut text = String::new();
        let bytes = u64::try_from(VALUE_FILE_BYTES_MAX).unwrap_or(u64::MAX);
        let file = std::fs::File::open(path)?;
        file.take(bytes.saturating_add(1))
            .read_to_string(&mut text)?;
        std::io::Result::Ok(text)
    };
    let mut text =
        read().map_err(|error| unusable(variable, format!("cannot read '{path}': {error}")))?;
    if text.len() > VALUE_FILE_BYTES_MAX {
        let why = format!("'{path}' has more than {VALUE_FILE_BYTES_MAX} bytes");
        return Err(unusable(variable, why));
    }
    let end = text.trim_end_matches(['\n', '\r']).len();
    text.truncate(end);
    Ok(text)
}

fn unusable(variable: &str, why: String) -> ConfigError {
    ConfigError::Variable {
        variable: variable.to_owned(),
        why,
    }
}

/// Whether a variable is one that Kubernetes and Docker set in containers that run beside a
/// service.
fn is_injected(variable: &str, value: &str) -> bool {
    let addresses = ["tcp://", "udp://", "sctp://"];
    variable.ends_with("_SERVICE_HOST")
        || variable.ends_with("_SERVICE_PORT")
        || variable.contains("_SERVICE_PORT_")
        || addresses.iter().any(|prefix| value.starts_with(prefix))
        || ["_TCP", "_UDP", "_SCTP"].iter().any(|protocol| {
            let part = |(_, end): (&str, &str)| ["", "_ADDR", "_PORT", "_PROTO"].contains(&end);
            variable.contains("_PORT_") && variable.rsplit_once(protocol).is_some_and(part)
        })
}

fn stranger(variable: &str) -> String {
    let name = variable
        .trim_start_matches(PREFIX)
        .to_lowercase()
        .replace('_', "-");
    let hint = match nearest_setting(&name) {
        Some(key) => format!("did you mean {}?", key.variable()),
        None => "'coroner serve --help' lists all settings".to_owned(),
    };
    format!("environment variable {variable} is no setting of this broker; {hint}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Settings, load};

    fn environment(variables: &[(&str, &str)]) -> Result<Environment, ConfigError> {
        let variables = variables.iter();
        from_environment(variables.map(|(name, value)| (name.into(), value.into())))
    }

    fn settings(variables: &[(&str, &str)]) -> Settings {
        let environment = environment(variables).unwrap();
        assert_eq!(environment.warnings, Vec::<String>::new());
        load(environment.given).unwrap()
    }

    #[test]
    fn items_of_a_list_are_separated_by_commas_or_numbered_or_a_json_array() {
        let vhosts = |variables: &[(&str, &str)]| settings(variables).vhost;
        assert_eq!(vhosts(&[("CORONER_VHOST", "a, b")]), ["a", "b"]);
        assert_eq!(
            vhosts(&[("CORONER_VHOST", r#"["a,b", "c"]"#)]),
            ["a,b", "c"]
        );
        assert_eq!(
            vhosts(&[
                ("CORONER_VHOST_10", "e"),
                ("CORONER_VHOST_2", "c,d"),
                ("CORONER_VHOST", "a,b"),
            ]),
            ["a", "b", "c,d", "e"]
        );
        assert_eq!(vhosts(&[("CORONER_VHOST", "")]), Vec::<String>::new());
        let listens = settings(&[("CORONER_AMQP", "[::1]:5672,[::1]:5673")]).amqp;
        assert_eq!(listens.len(), 2);
    }

    /// `["a,b"` was taken for the two vhosts `["a` and `b"`.
    #[test]
    fn a_json_array_that_is_broken_is_refused_with_its_variable() {
        for broken in [
            r#"["a,b""#,
            r#"[ "a", "b" "#,
            r#"["a" "b"]"#,
            r#"["a",]"#,
            "[]x",
        ] {
            let error = environment(&[("CORONER_VHOST", broken)])
                .unwrap_err()
                .to_string();
            assert!(error.contains("CORONER_VHOST"), "{error}");
            assert!(error.contains("this is no JSON array: "), "{error}");
        }
    }

    #[test]
    fn a_password_with_a_comma_is_told_where_it_goes() {
        let found = environment(&[("CORONER_USER", "me:s3cret,more")]).unwrap();
        let error = load(found.given).unwrap_err().to_string();
        assert!(error.contains("CORONER_USER_1"), "{error}");
        assert!(!error.contains("s3cret"), "{error}");
    }

    #[test]
    fn a_variable_that_ends_in_file_names_a_file_with_the_value() {
        let folder = std::env::temp_dir().join(format!("coroner-values-{}", std::process::id()));
        #[allow(clippy::disallowed_methods, reason = "a test makes its folder")]
        std::fs::create_dir_all(&folder).unwrap();
        let path = |name: &str, text: &str| {
            let path = folder.join(name);
            #[allow(clippy::disallowed_methods, reason = "a test writes its files")]
            std::fs::write(&path, text).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let users = path("users", "me:pass,word\n\nyou:other\r\n");
        let found = settings(&[
            ("CORONER_USER_FILE", &users),
            ("CORONER_USER_1_FILE", &path("one", "first: x \n")),
            ("CORONER_NODE_NAME_FILE", &path("name", "n\n")),
        ]);
        let names = found.user.iter().map(ToString::to_string);
        assert_eq!(
            names.collect::<Vec<_>>(),
            ["me:pass,word", "you:other", "first: x "]
        );
        assert_eq!(found.node_name, "n");
        let twice = [("CORONER_USER", "a:b"), ("CORONER_USER_FILE", &users)];
        let error = environment(&twice).unwrap_err().to_string();
        assert!(error.contains("CORONER_USER says the same"), "{error}");
        let missing = folder.join("missing").to_str().unwrap().to_owned();
        let error = environment(&[("CORONER_USER_FILE", &missing)]).unwrap_err();
        assert!(error.to_string().contains("cannot read '"), "{error}");
        let large = path("large", &"x".repeat(VALUE_FILE_BYTES_MAX + 1));
        let error = environment(&[("CORONER_USER_FILE", &large)]).unwrap_err();
        assert!(
            error.to_string().contains("more than 65536 bytes"),
            "{error}"
        );
        #[allow(clippy::disallowed_methods, reason = "a test takes its folder away")]
        std::fs::remove_dir_all(&folder).unwrap();
    }

    // A pod beside a service named 'coroner' did not start: its variables have our prefix.
    #[test]
    fn what_kubernetes_injects_is_one_warning_and_no_setting() {
        let found = environment(&[
            ("CORONER_SERVICE_HOST", "10.0.0.1"),
            ("CORONER_SERVICE_PORT", "5672"),
            ("CORONER_SERVICE_PORT_AMQP", "5672"),
            ("CORONER_PORT", "tcp://10.0.0.1:5672"),
            ("CORONER_PORT_5672_TCP", "tcp://10.0.0.1:5672"),
            ("CORONER_PORT_5672_TCP_ADDR", "10.0.0.1"),
            ("CORONER_PORT_5672_TCP_PORT", "5672"),
            ("CORONER_PORT_5672_TCP_PROTO", "tcp"),
            ("CORONER_HTTP_SERVICE_HOST", "10.0.0.2"),
        ])
        .unwrap();
        assert!(found.given.is_empty());
        assert_eq!(found.warnings.len(), 1, "{:?}", found.warnings);
        assert!(
            found
                .warnings
                .iter()
                .any(|text| text.contains("Kubernetes"))
        );
    }

    #[test]
    fn an_unknown_variable_is_a_warning_with_the_nearest_name_and_without_its_value() {
        let found = environment(&[
            ("CORONER_CHANEL_MAX", "1"),
            ("CORONER_SECRET_SAUCE", "s3cret"),
            ("OTHER", "x"),
        ])
        .unwrap();
        assert!(found.given.is_empty());
        assert_eq!(
            found.warnings,
            [
                "environment variable CORONER_CHANEL_MAX is no setting of this broker; did you mean \
                 CORONER_CHANNEL_MAX?",
                "environment variable CORONER_SECRET_SAUCE is no setting of this broker; 'coroner serve \
                 --help' lists all settings",
            ]
        );
    }

    #[test]
    fn switches_take_the_words_that_people_use() {
        for word in ["1", "yes", "TRUE", "True", "on", "true"] {
            assert!(settings(&[("CORONER_STRICT", word)]).strict, "{word}");
        }
        for word in ["0", "no", "FALSE", "off", "false"] {
            let variables = [("CORONER_REQUIRE_SASL", word)];
            assert!(!settings(&variables).require_sasl, "{word}");
        }
        let given = environment(&[("CORONER_STRICT", "maybe")]).unwrap().given;
        let error = load(given).unwrap_err().to_string();
        assert!(error.contains("it takes true or false"), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn a_value_that_is_not_utf8_is_an_error_only_where_it_is_ours() {
        use std::os::unix::ffi::OsStringExt;
        let odd = || OsString::from_vec(vec![0xff]);
        let found = from_environment([("OTHER".into(), odd()), (odd(), odd())]);
        assert!(found.is_ok_and(|found| found.given.is_empty()));
        let error = from_environment([("CORONER_LOG".into(), odd())]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "environment variable CORONER_LOG: its value is not UTF-8"
        );
    }
}
