//! Commands for definitions: everything but messages, as one JSON file that a RabbitMQ reads too.

use std::io::{Read, Write, stdin};
use std::path::{Path as FilePath, PathBuf};

use clap::{ArgMatches, Args, Command, FromArgMatches, ValueEnum};
use serde_json::Value;

use super::{Task, confirm, described, parse_object};
use crate::cli::api::{Api, Path};
use crate::cli::exit::{Failure, FailureKind};
use crate::cli::lint::{Definitions, FailOn, warn_of_rest};
use crate::cli::output::{self, Output};
use crate::cli::warn;
use crate::lint::OWN_KEYS;

/// Exports users, vhosts, permissions, policies, queues, exchanges and bindings as JSON
///
/// Everything, or with -p what belongs to one vhost. Password hashes stand in it: keep it safe.
#[derive(Args)]
pub(super) struct ExportDefinitions {
    /// File to write; '-' is standard output
    #[arg(default_value = "-")]
    file: PathBuf,
    /// Who will import it: rabbitmq leaves out, and names, the users that could not log in there and the
    /// policy keys that it would refuse
    #[arg(long = "for", value_enum, default_value_t = Importer::Coroner)]
    importer: Importer,
}

/// Who imports definitions.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Importer {
    Coroner,
    Rabbitmq,
}

/// Imports definitions that this broker or a RabbitMQ exported; adds to what is there
#[derive(Args)]
pub(super) struct ImportDefinitions {
    /// File to read; '-' is standard input
    #[arg(default_value = "-")]
    file: PathBuf,
    /// Imports nothing if 'lint' would find something as bad as this after the import
    #[arg(long, value_enum, value_name = "SEVERITY")]
    fail_on: Option<FailOn>,
}

/// Prefix of the names of hash algorithms that RabbitMQ has.
const RABBITMQ_HASHES: &str = "rabbit_password_hashing_";

/// The path of all definitions, or of those of the named vhost.
fn path(api: &Api) -> Path {
    match api.settings().vhost_given() {
        Some(vhost) => Path::of(&["definitions", vhost]),
        None => Path::of(&["definitions"]),
    }
}

fn is_standard(file: &FilePath) -> bool {
    file == FilePath::new("-")
}

/// Whether a file is another name of standard output. It is not opened anew: that would cut a file
/// that the shell appends to.
fn is_standard_output(file: &FilePath) -> bool {
    let names = ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];
    names.iter().any(|name| file == FilePath::new(name))
}

impl Task for ExportDefinitions {
    const NAME: &'static str = "export_definitions";
    const EXAMPLES: &'static [&'static str] = &[
        "export_definitions broker.json",
        "export_definitions -p orders orders.json",
        "export_definitions --for rabbitmq broker.json",
    ];

    fn run(self, api: &Api, out: Output) -> Result<(), Failure> {
        let mut definitions = api.get(&path(api))?;
        let strangers = strangers_to_rabbitmq(&definitions);
        if !strangers.is_empty() {
            let names = strangers.join(", ");
            if self.importer == Importer::Rabbitmq {
                leave_out(&mut definitions, &strangers);
                warn(&format!(
                    "left out, since RabbitMQ cannot check their passwords (Argon2id): {names}; make \
                     them there anew"
                ));
            } else {
                warn(&format!(
                    "RabbitMQ would import these users and let none of them in, since it cannot check \
                     their passwords (Argon2id): {names}; --for rabbitmq leaves them out"
                ));
            }
        }
        if self.importer == Importer::Rabbitmq {
            for left in leave_out_keys(&mut definitions) {
                warn(&format!("left out, since RabbitMQ would refuse it: {left}"));
            }
        }
        let text = format!("{definitions:#}\n");
        if is_standard(&self.file) || is_standard_output(&self.file) {
            return output::print(&output::printable_json(&text));
        }
        let file = self.file.display();
        write(&self.file, &text).map_err(|error| {
            Failure::new(FailureKind::Output, format!("cannot write {file}: {error}"))
        })?;
        out.done(format_args!("definitions written to {file}"))
    }
}

/// Users with a password hash that only Coroner can check.
fn strangers_to_rabbitmq(definitions: &Value) -> Vec<String> {
    let users = definitions.get("users").and_then(Value::as_array);
    let text = |user: &Value, key| user.get(key).and_then(Value::as_str).map(str::to_owned);
    let strangers = users.into_iter().flatten().filter(|user| {
        let algorithm = text(user, "hashing_algorithm");
        algorithm.is_some_and(|algorithm| !algorithm.starts_with(RABBITMQ_HASHES))
    });
    strangers.filter_map(|user| text(user, "name")).collect()
}

/// Removes users and their permissions from definitions.
fn leave_out(definitions: &mut Value, names: &[String]) {
    for (list, key) in [
        ("users", "name"),
        ("permissions", "user"),
        ("topic_permissions", "user"),
    ] {
        if let Some(Value::Array(items)) = definitions.get_mut(list) {
            items.retain(|item| {
                let name = item.get(key).and_then(Value::as_str);
                !name.is_some_and(|name| names.iter().any(|left| left == name))
            });
        }
    }
}

/// Removes policy keys that only Coroner has, and policies that set nothing else; returns which.
fn leave_out_keys(definitions: &mut Value) -> Vec<String> {
    let mut left = Vec::new();
    for (list, definition) in [
        ("policies", "/definition"),
        ("parameters", "/value/definition"),
    ] {
        let Some(Value::Array(policies)) = definitions.get_mut(list) else {
            continue;
        };
        policies.retain_mut(|policy| {
            let name = policy.get("name").and_then(Value::as_str);
            let name = name.unwrap_or_default().to_owned();
            let Some(Value::Object(keys)) = policy.pointer_mut(definition) else {
                return true; // another parameter
            };
            let before = keys.len();
            for key in OWN_KEYS {
                if keys.remove(key).is_some() {
                    left.push(format!("key '{key}' of policy '{name}'"));
                }
            }
            let is_empty = keys.is_empty() && before > 0;
            if is_empty {
                left.push(format!("policy '{name}', which sets nothing else"));
            }
            !is_empty
        });
    }
    left
}

/// Whether a file is a name of something that is open already.
fn is_descriptor(file: &FilePath) -> bool {
    let folders = ["/dev/fd", "/proc/self/fd"];
    let is_in = |folder| file.parent() == Some(FilePath::new(folder));
    folders.into_iter().any(is_in) || file == FilePath::new("/dev/stderr")
}

/// Writes a file: a regular one, which only its owner may read, completely or not at all. Where a
/// symbolic link leads, the file there is replaced, not the link; devices and pipes are written to.
#[allow(
    clippy::disallowed_methods,
    reason = "the command line writes what it was asked to"
)]
fn write(file: &FilePath, text: &str) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = std::fs::OpenOptions::new();
    options.write(true).mode(0o600);
    let place = match std::fs::metadata(file) {
        Ok(found) if !found.is_file() => return options.open(file)?.write_all(text.as_bytes()),
        // What a shell has opened goes on where it was.
        Ok(_) if is_descriptor(file) => {
            return options.append(true).open(file)?.write_all(text.as_bytes());
        }
        Ok(_) => std::fs::canonicalize(file)?,
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        // A link to what is not there yet makes it.
        Err(_) if file.is_symlink() => {
            return options.create(true).open(file)?.write_all(text.as_bytes());
        }
        Err(_) => file.to_owned(),
    };
    let mut beside = place.as_os_str().to_owned();
    beside.push(format!(".{}.part", std::process::id()));
    let mut part = options.create_new(true).open(&beside)?;
    let moved = part.write_all(text.as_bytes());
    let moved = moved.and_then(|()| std::fs::rename(&beside, &place));
    if moved.is_err() {
        // What is left of it helps nobody; the error says what went wrong.
        let _ = std::fs::remove_file(&beside);
    }
    moved
}

impl Task for ImportDefinitions {
    const NAME: &'static str = "import_definitions";
    const EXAMPLES: &'static [&'static str] = &[
        "import_definitions broker.json",
        "import_definitions < broker.json",
        "import_definitions broker.json --fail-on error",
    ];

    fn run(self, api: &Api, out: Output) -> Result<(), Failure> {
        let file = self.file.display();
        let text = read(&self.file).map_err(|error| {
            Failure::new(
                FailureKind::NotFound,
                format!("cannot read {file}: {error}"),
            )
        })?;
        let definitions = parse_object("the file", &text)?;
        let check = |fail_on| Definitions::check(&definitions, api, fail_on);
        let report = self.fail_on.map(check).transpose()?;
        let answer = api.post(&path(api), &definitions);
        if let Some(report) = report {
            warn_of_rest(report, answer.as_ref().unwrap_or(&Value::Null));
        }
        let answer = answer?;
        confirm(out, &answer, format_args!("definitions imported"))?;
        // Coroner lists the items that it left out; RabbitMQ has no such list.
        if out.is_json() && !answer.is_null() {
            return output::print_json(&answer);
        }
        let items = answer.get("not_supported").and_then(Value::as_array);
        for item in items.into_iter().flatten() {
            let text = |name| item.get(name).and_then(Value::as_str);
            let text = match (item.as_str(), text("item"), text("reason")) {
                (Some(text), ..) => text.to_owned(),
                (None, Some(item), Some(reason)) => format!("{item}: {reason}"),
                _ => item.to_string(),
            };
            out.done(format_args!("not supported: {text}"))?;
        }
        Ok(())
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "the command line reads what it was asked to"
)]
pub(in crate::cli) fn read(file: &FilePath) -> std::io::Result<String> {
    if !is_standard(file) {
        return std::fs::read_to_string(file);
    }
    let mut text = String::new();
    stdin().lock().read_to_string(&mut text)?;
    Ok(text)
}

/// The commands `definitions export` and `definitions import`.
pub(super) fn group() -> Command {
    Command::new("definitions")
        .about("Exports or imports users, vhosts, policies, queues, exchanges and bindings")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(described(
            ExportDefinitions::augment_args(Command::new("export")),
            &["definitions export broker.json"],
        ))
        .subcommand(described(
            ImportDefinitions::augment_args(Command::new("import")),
            &["definitions import broker.json"],
        ))
}

/// Runs one of these commands.
pub(super) fn run_group(matches: &ArgMatches, api: &Api, out: Output) -> Result<(), Failure> {
    let wrong = |error: clap::Error| Failure::usage(error.to_string());
    match matches.subcommand() {
        Some(("export", matches)) => ExportDefinitions::from_arg_matches(matches)
            .map_err(wrong)?
            .run(api, out),
        Some((_, matches)) => ImportDefinitions::from_arg_matches(matches)
            .map_err(wrong)?
            .run(api, out),
        None => Err(Failure::usage("definitions export or definitions import?")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A temporary file was renamed over whatever was there: as root, `/dev/null` became a file.
    #[test]
    #[allow(clippy::disallowed_methods, reason = "it is about files")]
    fn links_are_followed_devices_written_to_and_files_replaced() {
        let folder = std::env::temp_dir().join(format!("coroner-write-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let at = |name: &str| folder.join(name);
        let read = |name: &str| std::fs::read_to_string(at(name)).unwrap();
        let link = |to: &FilePath, name: &str| std::os::unix::fs::symlink(to, at(name)).unwrap();

        write(&at("new"), "one").unwrap();
        write(&at("new"), "two").unwrap();
        assert_eq!(read("new"), "two");

        link(&at("new"), "link");
        write(&at("link"), "three").unwrap();
        assert_eq!(read("new"), "three");
        assert!(at("link").is_symlink());

        link(&at("missing"), "dangling");
        write(&at("dangling"), "four").unwrap();
        assert_eq!(read("missing"), "four");
        assert!(at("dangling").is_symlink());

        link(FilePath::new("/dev/null"), "device");
        write(&at("device"), "five").unwrap();
        assert!(at("device").is_symlink());
        assert!(!std::fs::metadata(at("device")).unwrap().is_file());

        // What is open goes on where it was.
        let mut opened = std::fs::File::create(at("opened")).unwrap();
        opened.write_all(b"before ").unwrap();
        let number = std::os::fd::AsRawFd::as_raw_fd(&opened);
        write(&PathBuf::from(format!("/dev/fd/{number}")), "behind").unwrap();
        assert_eq!(read("opened"), "before behind");

        assert!(write(&folder, "six").is_err(), "a directory");
        let left = std::fs::read_dir(&folder).unwrap();
        let left = left.filter(|entry| {
            let name = entry.as_ref().unwrap().file_name();
            name.to_string_lossy().ends_with(".part")
        });
        assert_eq!(left.count(), 0);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn keys_that_rabbitmq_would_refuse_are_left_out_by_name() {
        let mut definitions = json!({
            "policies": [
                {"name": "both", "definition": {"max-length": 1, "on-undeliverable": "drop"}},
                {"name": "theirs", "definition": {"max-length": 1}},
                {"name": "ours", "definition": {"on-undeliverable": "drop"}},
            ],
            "parameters": [
                {"component": "vhost-limits", "name": "limits", "value": {"max-queues": 1}},
                {"component": "operator_policy", "name": "net", "value": {
                    "pattern": ".*",
                    "definition": {"on-undeliverable": "quarantine", "expires": 1},
                }},
            ],
        });
        let left = leave_out_keys(&mut definitions);
        let expected = [
            "key 'on-undeliverable' of policy 'both'",
            "key 'on-undeliverable' of policy 'ours'",
            "policy 'ours', which sets nothing else",
            "key 'on-undeliverable' of policy 'net'",
        ];
        assert_eq!(left, expected);
        let kept = json!({
            "policies": [
                {"name": "both", "definition": {"max-length": 1}},
                {"name": "theirs", "definition": {"max-length": 1}},
            ],
            "parameters": [
                {"component": "vhost-limits", "name": "limits", "value": {"max-queues": 1}},
                {"component": "operator_policy", "name": "net", "value": {
                    "pattern": ".*", "definition": {"expires": 1},
                }},
            ],
        });
        assert_eq!(definitions, kept);
    }
}
