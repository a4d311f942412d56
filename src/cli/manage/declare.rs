//! The commands `declare` and `delete`, in the syntax of rabbitmqadmin: `declare queue name=q
//! durable=true`, or with flags, `declare queue --name q --durable true`.

use std::collections::BTreeMap;

use clap::{Arg, ArgMatches, Command};
use serde_json::{Map, Value};

use super::kinds::{Declarable, KINDS, Key, Need, ValueSyntax};
use super::{confirm, described, parse_json, parse_object, with_other_spelling};
use crate::cli::api::{Api, Path};
use crate::cli::exit::{Failure, FailureKind};
use crate::cli::output::Output;

/// Keys whose flags have another meaning: credentials and vhost. They are given as `key=value`.
const WITHOUT_FLAG: [&str; 4] = ["vhost", "user", "password", "username"];

/// Values by key.
type Values = BTreeMap<&'static str, Value>;

/// The action on an object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Deed {
    Declare,
    Delete,
}

/// The command `declare`.
pub(super) fn declare_command() -> Command {
    Command::new("declare")
        .about("Declares a queue, an exchange, a binding and other objects by key=value")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands(KINDS.iter().map(|kind| command(kind, Deed::Declare)))
}

/// The command `delete`.
pub(super) fn delete_command() -> Command {
    Command::new("delete")
        .about("Deletes a queue, an exchange, a binding and other objects by key=value")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands(KINDS.iter().map(|kind| command(kind, Deed::Delete)))
}

fn command(kind: &'static Declarable, deed: Deed) -> Command {
    let (about, example) = match deed {
        Deed::Declare => (
            format!("Declares {}", kind.about),
            format!("declare {}", kind.declared),
        ),
        Deed::Delete => (
            format!("Deletes {}", kind.about),
            format!("delete {}", kind.deleted),
        ),
    };
    let keys = || kind.keys.iter().filter(|key| is_asked_for(kind, key, deed));
    let lines: Vec<String> = keys().map(|key| line(key, deed)).collect();
    let mut command = Command::new(kind.name).about(about).arg(
        Arg::new("pair")
            .value_name("KEY=VALUE")
            .num_args(0..)
            .help(format!("Keys and values:\n{}", lines.join("\n"))),
    );
    for key in keys().filter(|key| !WITHOUT_FLAG.contains(&key.name)) {
        let flag = Arg::new(key.name)
            .long(key.name.replace('_', "-"))
            .value_name("VALUE")
            .allow_hyphen_values(key.shape == ValueSyntax::Integer)
            .help(format!("The same as {}=VALUE", key.name));
        command = command.arg(flag);
    }
    with_other_spelling(described(command, &[example.as_str()]))
}

/// Whether an action takes a key: deleting takes those that name the object.
fn is_asked_for(kind: &Declarable, key: &Key, deed: Deed) -> bool {
    let names_a_binding = ["routing_key", "arguments", "properties_key"].contains(&key.name);
    match deed {
        Deed::Declare => key.name != "properties_key",
        Deed::Delete => kind.is_in_place(key.name) || (kind.name == "binding" && names_a_binding),
    }
}

fn line(key: &Key, deed: Deed) -> String {
    let need = match key.need {
        Need::Always => " (needed)".to_owned(),
        Need::Declaring if deed == Deed::Declare => " (needed)".to_owned(),
        Need::Default(text) => format!(" [default: {}]", text.trim_matches('"')),
        Need::Declaring | Need::Optional => String::new(),
    };
    format!("{}: {}{need}", key.name, key.help)
}

/// Runs the command `declare`.
pub(super) fn declare(matches: &ArgMatches, api: &Api, out: Output) -> Result<(), Failure> {
    let (kind, mut values) = read(matches, api, Deed::Declare)?;
    let place = place(kind, &values)?;
    if kind.name == "queue" {
        let queue_type = values.remove("type");
        let arguments = values.get_mut("arguments").and_then(Value::as_object_mut);
        if let (Some(queue_type), Some(arguments)) = (queue_type, arguments) {
            arguments.insert("x-queue-type".to_owned(), queue_type);
        }
    }
    let in_body = values.iter().filter(|(name, _)| !kind.is_in_place(name));
    let body = in_body.map(|(&name, value)| (name.to_owned(), value.clone()));
    let body = Value::Object(body.collect::<Map<_, _>>());
    let answer = if kind.name == "binding" {
        api.post(&place, &body)?
    } else {
        api.put(&place, &body)?
    };
    confirm(
        out,
        &answer,
        format_args!("{} declared", in_words(kind, &values)),
    )
}

/// Runs the command `delete`.
pub(super) fn delete(matches: &ArgMatches, api: &Api, out: Output) -> Result<(), Failure> {
    let (kind, values) = read(matches, api, Deed::Delete)?;
    let answer = if kind.name == "binding" {
        let key = binding_key(kind, &values, api)?;
        api.delete(&Path::of(&with(&segments(kind, &values)?, &key)))?
    } else {
        api.delete(&place(kind, &values)?)?
    };
    confirm(
        out,
        &answer,
        format_args!("{} deleted", in_words(kind, &values)),
    )
}

fn with<'a>(segments: &'a [String], last: &'a str) -> Vec<&'a str> {
    segments.iter().map(String::as_str).chain([last]).collect()
}

/// The properties key of the binding with this routing key and arguments.
fn binding_key(kind: &Declarable, values: &Values, api: &Api) -> Result<String, Failure> {
    if let Some(Value::String(key)) = values.get("properties_key") {
        return Ok(key.clone());
    }
    let routing_key = values
        .get("routing_key")
        .and_then(Value::as_str)
        .unwrap_or("");
    let arguments = values.get("arguments").and_then(Value::as_object);
    let wanted = |binding: &Value| {
        let arguments_match = match arguments {
            Some(given) if !given.is_empty() => {
                binding.get("arguments").and_then(Value::as_object) == Some(given)
            }
            _ => true,
        };
        binding.get("routing_key").and_then(Value::as_str) == Some(routing_key) && arguments_match
    };
    let mut found = api.list(&place(kind, values)?)?;
    found.retain(wanted);
    let keys = found
        .iter()
        .filter_map(|binding| binding.get("properties_key")?.as_str());
    match keys.collect::<Vec<_>>().as_slice() {
        [key] => Ok((*key).to_owned()),
        [] => {
            let what = format!("there is no such binding with routing key '{routing_key}'");
            Err(Failure::new(FailureKind::NotFound, what)
                .advise("coroner list_bindings shows them all"))
        }
        several => {
            let what = format!(
                "{} bindings have routing key '{routing_key}'",
                several.len()
            );
            let advice = format!(
                "add arguments=..., or properties_key= one of: {}",
                several.join(" ")
            );
            Err(Failure::new(FailureKind::Data, what).advise(advice))
        }
    }
}

/// Parses the kind and the values of its keys.
fn read(
    matches: &ArgMatches,
    api: &Api,
    deed: Deed,
) -> Result<(&'static Declarable, Values), Failure> {
    let found = matches
        .subcommand()
        .and_then(|(name, matches)| Some((KINDS.iter().find(|kind| kind.name == name)?, matches)));
    let (kind, matches) = found.ok_or_else(|| Failure::usage("nothing was named"))?;
    let mut values = Values::new();
    for pair in matches.get_many::<String>("pair").into_iter().flatten() {
        let (name, text) = pair.split_once('=').ok_or_else(|| {
            Failure::usage(format!("'{pair}' is not KEY=VALUE"))
                .advise(format!("for example: coroner declare {}", kind.declared))
        })?;
        take(kind, name, text, deed, &mut values)?;
    }
    for key in kind.keys {
        let given = matches.try_get_one::<String>(key.name).ok().flatten();
        if let Some(text) = given {
            take(kind, key.name, text, deed, &mut values)?;
        }
    }
    for key in kind.keys.iter().filter(|key| is_asked_for(kind, key, deed)) {
        let is_needed =
            key.need == Need::Always || (key.need == Need::Declaring && deed == Deed::Declare);
        match key.need {
            _ if values.contains_key(key.name) => {}
            Need::Default(json) => {
                values.insert(key.name, parse_json(key.name, json)?);
            }
            _ if key.name == "vhost" => {
                values.insert("vhost", api.vhost().into());
            }
            _ if is_needed => {
                return Err(Failure::usage(format!(
                    "{}=... is missing: {}",
                    key.name, key.help
                )));
            }
            _ => {}
        }
    }
    Ok((kind, values))
}

/// Parses one value.
fn take(
    kind: &Declarable,
    name: &str,
    text: &str,
    deed: Deed,
    values: &mut Values,
) -> Result<(), Failure> {
    let key = kind
        .key(name)
        .filter(|key| is_asked_for(kind, key, deed))
        .ok_or_else(|| {
            let keys = kind.keys.iter().filter(|key| is_asked_for(kind, key, deed));
            let names: Vec<&str> = keys.map(|key| key.name).collect();
            Failure::usage(format!("'{name}' is no key here"))
                .advise(format!("keys: {}", names.join(" ")))
        })?;
    let what = |takes: &str| Failure::usage(format!("{name} takes {takes}, not '{text}'"));
    let value = match key.shape {
        ValueSyntax::Text => Value::String(text.to_owned()),
        ValueSyntax::Switch => Value::Bool(text.parse().map_err(|_| what("true or false"))?),
        ValueSyntax::Integer => text
            .parse::<i64>()
            .map_err(|_| what("a whole number"))?
            .into(),
        ValueSyntax::Object => parse_object(name, text)?,
        ValueSyntax::Json => parse_json(name, text)?,
    };
    match values.insert(key.name, value) {
        None => Ok(()),
        Some(_) => Err(Failure::usage(format!("{} is given twice", key.name))),
    }
}

fn place(kind: &Declarable, values: &Values) -> Result<Path, Failure> {
    let segments = segments(kind, values)?;
    Ok(Path::of(
        &segments.iter().map(String::as_str).collect::<Vec<_>>(),
    ))
}

/// The segments of the path, with values in place of their keys.
fn segments(kind: &Declarable, values: &Values) -> Result<Vec<String>, Failure> {
    let segment = |part: &&str| {
        let Some(name) = part
            .strip_prefix('{')
            .and_then(|part| part.strip_suffix('}'))
        else {
            return Ok((*part).to_owned());
        };
        let text = values.get(name).and_then(Value::as_str).unwrap_or_default();
        match (name, text) {
            ("destination_type", "queue" | "q") => Ok("q".to_owned()),
            ("destination_type", "exchange" | "e") => Ok("e".to_owned()),
            ("destination_type", other) => Err(Failure::usage(format!(
                "destination_type is queue or exchange, not '{other}'"
            ))),
            _ => Ok(text.to_owned()),
        }
    };
    kind.place.iter().map(segment).collect()
}

/// The object's name in a confirmation.
fn in_words(kind: &Declarable, values: &Values) -> String {
    let text = |name: &str| values.get(name).and_then(Value::as_str).unwrap_or_default();
    match kind.name {
        "binding" => format!(
            "binding from '{}' to '{}'",
            text("source"),
            text("destination")
        ),
        "permission" => format!("permission of user '{}'", text("user")),
        name => format!("{} '{}'", name.replace('_', " "), text("name")),
    }
}
