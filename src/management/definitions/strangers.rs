//! What stands in definitions and is not taken over: it is named, never a reason to refuse them, since
//! each version of RabbitMQ exports other fields.

use serde_json::{Map, Value as Json};

use super::super::http::Fields;
use super::import::{Item, OF_A_BROKER, OF_A_VHOST, OPERATOR_POLICY, Problem, VHOST_LIMITS};
use crate::base::nearest;

/// What an export says of itself; of one vhost, its own fields too, which the vhost that it is imported
/// into keeps as they are.
const DESCRIBING: [&str; 13] = [
    "rabbit_version",
    "rabbitmq_version",
    "product_name",
    "product_version",
    "rabbitmq_definition_format",
    "original_cluster_name",
    "original_vhost_name",
    "explanation",
    "name",
    "description",
    "tags",
    "default_queue_type",
    "metadata",
];
/// Characters of a name that is not known that an answer repeats, at most.
const NAME_CHARS_MAX: usize = 64;
/// Names that one item repeats, at most.
const NAMES_MAX: usize = 10;

/// The fields of the items of a section that are read, or say nothing that an import could lose.
fn known(section: &str) -> &'static [&'static str] {
    match section {
        "users" => &[
            "name",
            "password",
            "password_hash",
            "hashing_algorithm",
            "tags",
            "limits",
        ],
        "vhosts" => &[
            "name",
            "description",
            "tags",
            "default_queue_type",
            "metadata",
            "limits",
        ],
        "permissions" => &["user", "vhost", "configure", "write", "read"],
        "topic_permissions" => &["user", "vhost", "exchange", "write", "read"],
        "global_parameters" => &["name", "value"],
        "parameters" => &["vhost", "component", "name", "value"],
        "policies" => &[
            "vhost",
            "name",
            "pattern",
            "definition",
            "priority",
            "apply-to",
        ],
        "exchanges" => &[
            "vhost",
            "name",
            "type",
            "durable",
            "auto_delete",
            "internal",
            "arguments",
            "user_who_performed_action",
        ],
        "queues" => &[
            "vhost",
            "name",
            "type",
            "durable",
            "auto_delete",
            "arguments",
        ],
        "bindings" => &[
            "source",
            "vhost",
            "destination",
            "destination_type",
            "routing_key",
            "arguments",
            "properties_key",
        ],
        _ => &[],
    }
}

/// An object in an item, and the fields of it that are read.
type Inner = (&'static str, &'static [&'static str]);

/// The objects in an item all fields of which are known.
fn inner(section: &str, fields: &Fields) -> &'static [Inner] {
    let component = fields.get("component").and_then(Json::as_str);
    match (section, component) {
        ("users", _) => &[("limits", &["max-connections", "max-channels"])],
        ("vhosts", _) => &[
            ("metadata", &["description", "tags", "default_queue_type"]),
            ("limits", &["max-connections", "max-queues"]),
        ],
        ("parameters", Some(VHOST_LIMITS)) => &[("value", &["max-connections", "max-queues"])],
        ("parameters", Some(OPERATOR_POLICY)) => {
            &[("value", &["pattern", "definition", "priority", "apply-to"])]
        }
        _ => &[],
    }
}

/// Whether a value says that there is nothing, so that nothing is lost with it.
fn is_nothing(value: &Json) -> bool {
    match value {
        Json::Null | Json::Bool(false) => true,
        Json::String(text) => text.is_empty(),
        Json::Array(items) => items.is_empty(),
        Json::Object(fields) => fields.is_empty(),
        Json::Bool(true) | Json::Number(_) => false,
    }
}

/// The sections that are not imported.
pub(super) fn sections(
    definitions: &Map<String, Json>,
    is_of_a_vhost: bool,
) -> impl Iterator<Item = Item> {
    let all = || {
        let sections = OF_A_BROKER.iter().chain(OF_A_VHOST);
        sections.map(|(section, _)| *section)
    };
    let given = definitions.iter().filter(|(_, value)| !is_nothing(value));
    given.filter_map(move |(name, _)| {
        let of_a_broker = OF_A_BROKER.iter().any(|(section, _)| section == name);
        let why = if of_a_broker && is_of_a_vhost {
            "it belongs to a whole broker, and is not imported into one vhost".to_owned()
        } else if all().any(|section| section == name) || DESCRIBING.contains(&name.as_str()) {
            return None;
        } else {
            format!("it is not known{}", meant(name, all()))
        };
        let what = format!("section '{}'", cut(name));
        Some(Item::new(what, Err(Problem::Unsupported(why))))
    })
}

/// The fields of an item that are not imported, as one more item; none if all are.
pub(super) fn of_item(section: &str, fields: &Fields, read: &[Item]) -> Option<Item> {
    let mut names = Vec::new();
    let mut add = |fields: &Fields, of: &str, known: &[&str]| {
        let strange = fields.names().filter(|name| {
            let value = fields.get(name);
            !known.contains(name) && value.is_some_and(|value| !is_nothing(value))
        });
        names.extend(strange.map(|name| {
            let meant = meant(name, known.iter().copied());
            format!("'{of}{}'{meant}", cut(name))
        }));
    };
    add(fields, "", known(section));
    for (name, known) in inner(section, fields) {
        if let Some(Json::Object(inside)) = fields.get(name) {
            let inside = Fields::from_map(inside.clone());
            add(&inside, &format!("{name}."), known);
        }
    }
    let what = read.first()?.what.clone();
    let why = match names.as_slice() {
        [] => return None,
        [one] => format!("the field {one} is not supported"),
        all => {
            let shown = all.iter().take(NAMES_MAX).map(String::as_str);
            let shown = shown.collect::<Vec<_>>().join(", ");
            match all.len().saturating_sub(NAMES_MAX) {
                0 => format!("the fields {shown} are not supported"),
                more => format!("the fields {shown} and {more} more are not supported"),
            }
        }
    };
    Some(Item::new(what, Err(Problem::Unsupported(why))))
}

fn meant<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let meant = nearest(name, known);
    meant.map_or_else(String::new, |meant| format!(" (did you mean '{meant}'?)"))
}

fn cut(name: &str) -> String {
    name.chars().take(NAME_CHARS_MAX).collect()
}
