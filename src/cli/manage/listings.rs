//! Commands that list objects: one table of listings, with the columns of rabbitmqctl.

use clap::{Arg, ArgAction, ArgMatches, Command};
use serde_json::Value;

use super::columns::Seen;
use super::described;
use crate::cli::api::{Api, Path};
use crate::cli::exit::Failure;
use crate::cli::output::{Column, Output, pick};

/// A listing of the table.
pub(super) struct Listing {
    /// Name of the command: `list_` and the objects.
    pub(super) name: &'static str,
    about: &'static str,
    /// The path in the API.
    of: Of,
    /// The default columns.
    columns: &'static [&'static str],
    example: &'static str,
}

/// The path of a listing in the API.
#[derive(Clone, Copy)]
enum Of {
    /// At this path, for the whole broker.
    Broker(&'static str),
    /// At this path and below it by vhost, in pages, filtered by name.
    Paged(&'static str),
    /// At this path and below it by vhost.
    Vhost(&'static str),
    /// At this path of a vhost; for all vhosts at the path itself.
    InVhost(&'static str),
    /// At this path of a user.
    User(&'static str),
    /// Limits at this path, or those of one user or vhost.
    LimitsOfUser(&'static str),
    /// At this path of a connection.
    Connection(&'static str),
}

/// All listings, in the order of the help.
pub(super) const LISTINGS: &[Listing] = &[
    Listing {
        name: "list_queues",
        about: "Lists queues",
        of: Of::Paged("queues"),
        columns: &[
            "name",
            "type",
            "state",
            "messages_ready",
            "messages_unacknowledged",
            "messages",
            "consumers",
            "policy",
        ],
        example: "list_queues name messages arguments --name '\\.dlq$'",
    },
    Listing {
        name: "list_exchanges",
        about: "Lists exchanges",
        of: Of::Paged("exchanges"),
        columns: &["name", "type", "durable", "internal", "policy"],
        example: "list_exchanges name type arguments",
    },
    Listing {
        name: "list_bindings",
        about: "Lists bindings",
        of: Of::Vhost("bindings"),
        columns: &[
            "source_name",
            "source_kind",
            "destination_name",
            "destination_kind",
            "routing_key",
            "arguments",
        ],
        example: "list_bindings -p orders",
    },
    Listing {
        name: "list_policies",
        about: "Lists policies",
        of: Of::Vhost("policies"),
        columns: &[
            "vhost",
            "name",
            "pattern",
            "apply-to",
            "definition",
            "priority",
        ],
        example: "list_policies --all-vhosts",
    },
    Listing {
        name: "list_redrives",
        about: "Lists redrives, which move dead letters back",
        of: Of::Vhost("redrives"),
        columns: &[
            "id",
            "queue",
            "state",
            "cause",
            "by",
            "counts.moved",
            "outcome.accepted",
            "outcome.died_again",
            "outcome.outstanding",
            "counts.left",
            "outcome.gone",
        ],
        example: "list_redrives --all-vhosts",
    },
    Listing {
        name: "list_operator_policies",
        about: "Lists operator policies",
        of: Of::Vhost("operator-policies"),
        columns: &[
            "vhost",
            "name",
            "pattern",
            "apply-to",
            "definition",
            "priority",
        ],
        example: "list_operator_policies",
    },
    Listing {
        name: "list_connections",
        about: "Lists connections",
        of: Of::Paged("connections"),
        columns: &["name", "user", "vhost", "peer_host", "peer_port", "state"],
        example: "list_connections pid user state",
    },
    Listing {
        name: "list_sessions",
        about: "Lists the sessions of a connection with their links",
        of: Of::Connection("sessions"),
        columns: &["channel_number", "incoming_links", "outgoing_links"],
        example: "list_sessions '127.0.0.1:51234 -> 127.0.0.1:5672' --format json",
    },
    Listing {
        name: "list_consumers",
        about: "Lists consumers",
        of: Of::Vhost("consumers"),
        columns: &[
            "queue_name",
            "connection_name",
            "consumer_tag",
            "ack_required",
            "prefetch_count",
            "active",
        ],
        example: "list_consumers -p orders",
    },
    Listing {
        name: "list_users",
        about: "Lists users",
        of: Of::Broker("users"),
        columns: &["user", "tags"],
        example: "list_users",
    },
    Listing {
        name: "list_vhosts",
        about: "Lists vhosts",
        of: Of::Broker("vhosts"),
        columns: &["name", "description", "tags", "default_queue_type"],
        example: "list_vhosts name",
    },
    Listing {
        name: "list_permissions",
        about: "Lists the permissions in a vhost",
        of: Of::InVhost("permissions"),
        columns: &["user", "configure", "write", "read"],
        example: "list_permissions -p orders",
    },
    Listing {
        name: "list_topic_permissions",
        about: "Lists the topic permissions in a vhost",
        of: Of::InVhost("topic-permissions"),
        columns: &["user", "exchange", "write", "read"],
        example: "list_topic_permissions -p orders",
    },
    Listing {
        name: "list_user_permissions",
        about: "Lists the permissions of a user",
        of: Of::User("permissions"),
        columns: &["vhost", "configure", "write", "read"],
        example: "list_user_permissions alice",
    },
    Listing {
        name: "list_user_topic_permissions",
        about: "Lists the topic permissions of a user",
        of: Of::User("topic-permissions"),
        columns: &["vhost", "exchange", "write", "read"],
        example: "list_user_topic_permissions alice",
    },
    Listing {
        name: "list_vhost_limits",
        about: "Lists the limits of vhosts",
        of: Of::Vhost("vhost-limits"),
        columns: &["vhost", "limits"],
        example: "list_vhost_limits --all-vhosts",
    },
    Listing {
        name: "list_user_limits",
        about: "Lists the limits of users",
        of: Of::LimitsOfUser("user-limits"),
        columns: &["user", "limits"],
        example: "list_user_limits --of alice",
    },
    Listing {
        name: "list_parameters",
        about: "Lists runtime parameters",
        of: Of::Broker("parameters"),
        columns: &["vhost", "component", "name", "value"],
        example: "list_parameters",
    },
    Listing {
        name: "list_global_parameters",
        about: "Lists global parameters",
        of: Of::Broker("global-parameters"),
        columns: &["name", "value"],
        example: "list_global_parameters",
    },
];

/// Columns of rabbitmqctl with another name in the API: (listing, column, path in the object).
const OTHER_NAMES: &[(&str, &str, &str)] = &[
    ("list_bindings", "source_name", "source"),
    ("list_bindings", "destination_name", "destination"),
    ("list_bindings", "destination_kind", "destination_type"),
    ("list_users", "user", "name"),
    ("list_consumers", "queue_name", "queue.name"),
    (
        "list_consumers",
        "connection_name",
        "channel_details.connection_name",
    ),
    ("list_vhost_limits", "limits", "value"),
    ("list_user_limits", "limits", "value"),
];

/// The listing of that name.
pub(super) fn find(name: &str) -> Option<&'static Listing> {
    LISTINGS.iter().find(|listing| listing.name == name)
}

/// The command of a listing.
pub(super) fn command(listing: &Listing) -> Command {
    arguments(Command::new(listing.name), listing)
}

/// The command `list queues` and the like, as in rabbitmqadmin.
pub(super) fn group() -> Command {
    let commands = LISTINGS.iter().map(|listing| {
        let objects = listing.name.trim_start_matches("list_");
        super::with_other_spelling(arguments(Command::new(objects), listing))
    });
    Command::new("list")
        .about("Lists objects: 'list queues' is list_queues")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands(commands)
}

fn arguments(command: Command, listing: &Listing) -> Command {
    let command = described(command.about(listing.about), &[listing.example]);
    let whose = |id: &'static str, name: &'static str, help: &'static str| {
        Arg::new(id).value_name(name).required(true).help(help)
    };
    let all = || {
        Arg::new("all-vhosts")
            .long("all-vhosts")
            .action(ArgAction::SetTrue)
            .help("Those of every vhost")
    };
    let command = match listing.of {
        Of::Broker(_) => command,
        Of::Paged(_) => command.arg(all()).arg(
            Arg::new("name")
                .long("name")
                .value_name("REGEX")
                .help("Only those whose names this regular expression matches"),
        ),
        Of::Vhost(_) | Of::InVhost(_) => command.arg(all()),
        Of::User(_) => command.arg(whose("whose", "USERNAME", "Name of the user")),
        Of::LimitsOfUser(_) => command.arg(
            Arg::new("of")
                .long("of")
                .value_name("USERNAME")
                .help("Only those of this user"),
        ),
        Of::Connection(_) => command.arg(whose("whose", "CONNECTION", "Name of the connection")),
    };
    command.arg(
        Arg::new("column")
            .value_name("COLUMN")
            .num_args(0..)
            .help(format!(
                "Columns: names of fields in the API, with dots into objects [default: {}]",
                listing.columns.join(" ")
            )),
    )
}

impl Listing {
    fn column(&self, name: &str) -> Column {
        let other = OTHER_NAMES
            .iter()
            .find(|(list, column, _)| *list == self.name && *column == name);
        Column {
            shown: name.to_owned(),
            path: other.map_or(name, |(_, _, path)| *path).to_owned(),
        }
    }

    /// The path of the request.
    fn path(&self, matches: &ArgMatches, api: &Api) -> Path {
        let text = |id: &str| matches.get_one::<String>(id).map_or("", String::as_str);
        let is_everywhere = || matches.get_flag("all-vhosts");
        match self.of {
            Of::Broker(place) => Path::of(&[place]),
            // Connections are listed for all vhosts, unless one was named.
            Of::Paged("connections") => match api.settings().vhost_given() {
                Some(vhost) if !is_everywhere() => Path::of(&["vhosts", vhost, "connections"]),
                _ => Path::of(&["connections"]),
            },
            Of::Paged(place) | Of::Vhost(place) | Of::InVhost(place) if is_everywhere() => {
                Path::of(&[place])
            }
            Of::Paged(place) | Of::Vhost(place) => Path::of(&[place, api.vhost()]),
            Of::InVhost(place) => Path::of(&["vhosts", api.vhost(), place]),
            Of::User(place) => Path::of(&["users", text("whose"), place]),
            Of::LimitsOfUser(place) => match text("of") {
                "" => Path::of(&[place]),
                user => Path::of(&[place, user]),
            },
            Of::Connection(place) => Path::of(&["connections", text("whose"), place]),
        }
    }
}

/// Prints a list.
pub(super) fn run(
    listing: &Listing,
    matches: &ArgMatches,
    api: &Api,
    out: Output,
) -> Result<(), Failure> {
    let named: Vec<&str> = matches
        .get_many::<String>("column")
        .map(|names| names.flat_map(|names| names.split(',')).collect())
        .unwrap_or_default();
    let are_named = !named.is_empty();
    let names = if are_named { &named } else { listing.columns };
    let columns: Vec<Column> = names.iter().map(|name| listing.column(name)).collect();
    let mut seen = Seen::new(listing.name, listing.columns, &columns);
    let mut path = listing.path(matches, api);
    let mut found = Vec::new();
    if let Of::Paged(_) = listing.of {
        if let Some(pattern) = matches.get_one::<String>("name") {
            path = path.query("name", pattern).query("use_regex", "true");
        }
        // Of hundreds of thousands of objects only the shown fields are kept.
        let is_whole = out.is_json() && !are_named;
        api.each(&path, |mut object| {
            complete(listing, &mut object);
            seen.look(&object);
            found.push(if is_whole {
                object
            } else {
                narrowed(&object, &columns)
            });
        })?;
    } else {
        found = api.list(&path)?;
        for object in &mut found {
            complete(listing, object);
            seen.look(object);
        }
    }
    seen.check()?;
    out.objects(found, &columns, are_named)
}

/// All objects of a listing that belong to no single object, in every vhost.
pub(super) fn everywhere(listing: &Listing, api: &Api) -> Result<Vec<Value>, Failure> {
    let mut found = match listing.of {
        Of::Paged(place) => {
            let mut found = Vec::new();
            api.each(&Path::of(&[place]), |object| found.push(object))?;
            found
        }
        Of::Broker(place) | Of::Vhost(place) | Of::InVhost(place) | Of::LimitsOfUser(place) => {
            api.list(&Path::of(&[place]))?
        }
        Of::User(_) | Of::Connection(_) => Vec::new(),
    };
    for object in &mut found {
        complete(listing, object);
    }
    Ok(found)
}

/// Prints the objects of [`everywhere`], with the vhost in front where there is one.
pub(super) fn print(listing: &Listing, found: Vec<Value>, out: Output) -> Result<(), Failure> {
    let names = listing.columns.iter().copied();
    let in_vhosts = found.iter().any(|object| object.get("vhost").is_some());
    let vhost = (in_vhosts && !listing.columns.contains(&"vhost")).then_some("vhost");
    let columns: Vec<Column> = vhost
        .into_iter()
        .chain(names)
        .map(|name| listing.column(name))
        .collect();
    out.objects(found, &columns, true)
}

/// The object with only the fields of the columns.
fn narrowed(object: &Value, columns: &[Column]) -> Value {
    let field = |column: &Column| Some((column.path.clone(), pick(object, &column.path)?.clone()));
    Value::Object(columns.iter().filter_map(field).collect())
}

/// Adds fields that rabbitmqctl shows and the API leaves out: that the source of each binding is an
/// exchange, and the name that `close_connection` takes for a connection, which is a process in
/// RabbitMQ.
fn complete(listing: &Listing, object: &mut Value) {
    let Some(fields) = object.as_object_mut() else {
        return;
    };
    match listing.name {
        "list_bindings" => {
            fields.insert("source_kind".to_owned(), "exchange".into());
        }
        "list_connections" => {
            let name = fields.get("name").cloned().unwrap_or_default();
            fields.entry("pid").or_insert(name);
        }
        _ => {}
    }
}

/// Runs `list OBJECTS`.
pub(super) fn run_group(matches: &ArgMatches, api: &Api, out: Output) -> Result<(), Failure> {
    let found = matches
        .subcommand()
        .and_then(|(objects, matches)| Some((find(&format!("list_{objects}"))?, matches)));
    let (listing, matches) = found.ok_or_else(|| Failure::usage("list what?"))?;
    run(listing, matches, api, out)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // The column was empty: the API of RabbitMQ does not have it either.
    #[test]
    fn the_pid_of_a_connection_is_what_closes_it() {
        let check = |mut object: Value, expect: &str| {
            let listing = find("list_connections").unwrap();
            complete(listing, &mut object);
            assert_eq!(object["pid"], expect);
        };
        check(json!({"name": "a -> b"}), "a -> b");
        check(json!({"name": "a -> b", "pid": "<1.2.3>"}), "<1.2.3>");
    }
}
