//! Reading of items of each kind.

use serde_json::Value as Json;

use super::super::administration::{Change, NewPassword, UserChange, VhostChange};
use super::super::http::{Failure, Fields};
use super::import::{ImportStep, Item, OPERATOR_POLICY, Problem, Reading, StandIn, VHOST_LIMITS};
use crate::access::{Password, Tag, UserLimits};
use crate::base::Name;
use crate::broker::definition::{KEYS, unrecognised};
use crate::broker::exchange::{ALTERNATE_EXCHANGE, ExchangeKind};
use crate::broker::policy::PolicySpec;
use crate::broker::registry::VhostLimits;
use crate::broker::{Command, Destination, Policy, QueueCommand, TopologyCommand};
use crate::wire::Value;

/// The algorithm of a hash without a named one (as RabbitMQ).
const DEFAULT_ALGORITHM: &str = "rabbit_password_hashing_sha256";
/// Prefixes of policy keys of plugins and other versions of RabbitMQ: mirrored queues, federation,
/// sharding, shovels, streams, delayed retries, time-outs of consumers.
const POLICY_KEYS_OF_OTHERS: [&str; 10] = [
    "ha-",
    "federation-",
    "shard",
    "routing-key",
    "shovel",
    "stream-",
    "delayed-retry-",
    "consumer-",
    "quorum-",
    "message-interceptor",
];
/// The queue types of this broker.
const QUEUE_TYPES: [&str; 2] = ["classic", "quorum"];

type Read<T> = Result<T, Problem>;

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        Self::Wrong(failure.reason)
    }
}

/// A mandatory text field.
pub(super) fn name(fields: &Fields, field: &str) -> Read<Name> {
    let text = fields.text(field)?;
    let missing = || Problem::Wrong(format!("the field '{field}' is missing"));
    text.map(Name::from).ok_or_else(missing)
}

pub(super) fn user(_: &mut Reading, fields: &Fields) -> Vec<Item> {
    let read = || -> Read<ImportStep> {
        let limits = object(fields, "limits")?;
        let password = match (fields.text("password_hash")?, fields.text("password")?) {
            (Some("") | None, None) => NewPassword::None,
            (Some(hash), None) => {
                let algorithm = fields
                    .text("hashing_algorithm")?
                    .unwrap_or(DEFAULT_ALGORITHM);
                let hash = Password::from_text(hash, algorithm);
                NewPassword::Hash(hash.map_err(|error| Problem::Wrong(error.to_string()))?)
            }
            (_, Some(password)) => NewPassword::Clear(password.to_owned()),
        };
        Ok(ImportStep::Change(Change::UserPut {
            name: name(fields, "name")?,
            user: UserChange {
                password,
                tags: Some(
                    words(fields, "tags")?
                        .iter()
                        .map(|w| Tag::from_word(w))
                        .collect(),
                ),
                limits: Some(UserLimits {
                    connections_max: user_limit(&limits, "max-connections")?,
                    sessions_max: user_limit(&limits, "max-channels")?,
                }),
            },
        }))
    };
    vec![Item::new(
        format!("user '{}'", shown(fields, "name")),
        read(),
    )]
}

pub(super) fn vhost(_: &mut Reading, fields: &Fields) -> Vec<Item> {
    let what = format!("vhost '{}'", shown(fields, "name"));
    let mut unsupported = None;
    let mut read = || -> Read<ImportStep> {
        let metadata = object(fields, "metadata")?;
        let either = |field: &str| -> Read<Option<String>> {
            let text = fields.text(field)?.or(metadata.text(field)?);
            Ok(text.map(str::to_owned))
        };
        let tags = if fields.get("tags").is_some() {
            words(fields, "tags")?
        } else {
            words(&metadata, "tags")?
        };
        let mut default_queue_type = either("default_queue_type")?.map(Name::from);
        if let Some(kind) = &default_queue_type
            && *kind != "undefined"
            && !QUEUE_TYPES.contains(&&**kind)
        {
            unsupported = Some(format!("default_queue_type '{kind}' is not supported"));
            default_queue_type = None;
        }
        Ok(ImportStep::Change(Change::VhostPut {
            name: name(fields, "name")?,
            vhost: VhostChange {
                description: either("description")?,
                tags: Some(tags.into_iter().map(Name::from).collect()),
                default_queue_type,
                creator: None,
            },
        }))
    };
    let step = read();
    let mut items = vec![Item::new(what.clone(), step)];
    items.extend(limits_of_vhost(fields));
    items.extend(unsupported.map(|why| Item::new(what, Err(Problem::Unsupported(why)))));
    items
}

/// The limits that stand in a vhost; an export of RabbitMQ has them as a parameter.
fn limits_of_vhost(fields: &Fields) -> Option<Item> {
    let what = format!("limits of vhost '{}'", shown(fields, "name"));
    let step = match fields.get("limits")? {
        Json::Object(limits) if limits.is_empty() => return None,
        Json::Array(limits) if limits.is_empty() => return None,
        Json::Object(limits) => name(fields, "name")
            .and_then(|vhost| vhost_limits(vhost, &Fields::from_map(limits.clone()))),
        _ => Err(Problem::Unsupported("they are not an object".to_owned())),
    };
    Some(Item::new(what, step))
}

fn vhost_limits(vhost: Name, value: &Fields) -> Read<ImportStep> {
    let limits = VhostLimits {
        connections_max: limit(value, "max-connections")?,
        queues_max: limit(value, "max-queues")?,
    };
    Ok(ImportStep::Change(Change::VhostLimitsPut { vhost, limits }))
}

pub(super) fn permission(reading: &mut Reading, fields: &Fields) -> Vec<Item> {
    let read = || -> Read<ImportStep> {
        let pattern = |field| name(fields, field).map(|pattern| pattern.to_string());
        Ok(ImportStep::Change(Change::PermissionsPut {
            vhost: reading.vhost(fields)?,
            user: name(fields, "user")?,
            patterns: [pattern("configure")?, pattern("write")?, pattern("read")?],
        }))
    };
    let (user, vhost) = (shown(fields, "user"), shown_vhost(reading, fields));
    vec![Item::new(
        format!("permissions of user '{user}' in vhost '{vhost}'"),
        read(),
    )]
}

pub(super) fn topic_permission(reading: &mut Reading, fields: &Fields) -> Vec<Item> {
    let read = || -> Read<ImportStep> {
        let pattern = |field| name(fields, field).map(|pattern| pattern.to_string());
        Ok(ImportStep::Change(Change::TopicPermissionsPut {
            vhost: reading.vhost(fields)?,
            user: name(fields, "user")?,
            exchange: name(fields, "exchange")?,
            patterns: [pattern("write")?, pattern("read")?],
        }))
    };
    let (user, vhost) = (shown(fields, "user"), shown_vhost(reading, fields));
    let exchange = shown(fields, "exchange");
    vec![Item::new(
        format!("topic permissions of '{user}' in '{vhost}' on exchange '{exchange}'"),
        read(),
    )]
}

pub(super) fn global_parameter(_: &mut Reading, fields: &Fields) -> Vec<Item> {
    let read = || -> Read<ImportStep> {
        let value = fields.get("value").unwrap_or(&Json::Null);
        Ok(ImportStep::Change(Change::GlobalParameterPut {
            name: name(fields, "name")?,
            value: value.to_string(),
        }))
    };
    vec![Item::new(
        format!("global parameter '{}'", shown(fields, "name")),
        read(),
    )]
}

/// Operator policies and limits of vhosts are parameters; others belong to plugins.
pub(super) fn parameter(reading: &mut Reading, fields: &Fields) -> Vec<Item> {
    let (component, called) = (shown(fields, "component"), shown(fields, "name"));
    let what = format!("parameter '{called}' of component '{component}'");
    let read = |reading: &Reading| -> Read<(Name, Fields)> {
        Ok((reading.vhost(fields)?, object(fields, "value")?))
    };
    let (vhost, value) = match read(reading) {
        Ok(read) => read,
        Err(problem) => return one(what, Err(problem)),
    };
    match &*component {
        OPERATOR_POLICY => policy_items(&vhost, true, &Name::from(&*called), &value),
        VHOST_LIMITS => one(what, vhost_limits(vhost, &value)),
        _ => one(
            what,
            Err(Problem::Unsupported(format!(
                "parameters of '{component}' are not supported"
            ))),
        ),
    }
}

pub(super) fn policy(reading: &mut Reading, fields: &Fields) -> Vec<Item> {
    let read = || Ok((reading.vhost(fields)?, name(fields, "name")?));
    match read() {
        Ok((vhost, called)) => policy_items(&vhost, false, &called, fields),
        Err(problem) => one(format!("policy '{}'", shown(fields, "name")), Err(problem)),
    }
}

/// Whether RabbitMQ, with a plugin or in another version, has this policy key, which is unknown
/// here. A key that none has is an error, in RabbitMQ too: a policy with a typing error protects
/// nothing.
fn is_of_others(key: &str) -> bool {
    POLICY_KEYS_OF_OTHERS
        .iter()
        .any(|begin| key.starts_with(begin))
}

/// A policy without its unknown keys, and an item for each of these.
fn policy_items(vhost: &Name, operator: bool, called: &Name, fields: &Fields) -> Vec<Item> {
    let kind = if operator {
        "operator policy"
    } else {
        "policy"
    };
    let what = format!("{kind} '{called}' in vhost '{vhost}'");
    let definition = match fields.arguments("definition") {
        Ok(definition) => definition,
        Err(failure) => return one(what, Err(failure.into())),
    };
    let known = |name: &str| KEYS.iter().any(|key| key.name == name);
    let (definition, unknown): (Vec<_>, Vec<_>) =
        definition.into_iter().partition(|(key, _)| known(key));
    let mut items: Vec<Item> = unknown
        .iter()
        .map(|(key, _)| {
            let problem = if is_of_others(key) {
                Problem::Unsupported(format!("the key '{key}' is not supported"))
            } else {
                Problem::Wrong(format!("the key '{key}': {}", unrecognised(key)))
            };
            Item::new(what.clone(), Err(problem))
        })
        .collect();
    if definition.is_empty() && !unknown.is_empty() {
        if let Some(first) = items.first_mut()
            && unknown.iter().all(|(key, _)| is_of_others(key))
        {
            first.stand_in = policy_stand_in(vhost, operator, called, fields).map(Box::new);
        }
        return items;
    }
    let read = || -> Read<ImportStep> {
        let spec = PolicySpec {
            name: called.clone(),
            pattern: fields.text("pattern")?.unwrap_or_default(),
            priority: fields.integer("priority")?.unwrap_or_default(),
            apply_to: fields.text("apply-to")?.unwrap_or("all"),
            definition,
        };
        let policy = spec.check_kept().and_then(|()| Policy::new(operator, spec));
        let policy = policy.map_err(|error| Problem::Wrong(error.to_string()))?;
        let policy = Box::new(policy);
        Ok(command(
            vhost,
            Command::Topology(TopologyCommand::PolicySet { operator, policy }),
        ))
    };
    items.push(Item::new(what, read()));
    items
}

/// A policy that sets nothing, in place of one whose keys are all unknown: it is applied where it has the
/// highest priority, and the others are not. None: it would be refused with a known key, too.
fn policy_stand_in(
    vhost: &Name,
    operator: bool,
    called: &Name,
    fields: &Fields,
) -> Option<StandIn> {
    // A policy must set something to be one.
    let nothing = (Name::from("target-group-size"), Value::Long(1));
    let spec = PolicySpec {
        name: called.clone(),
        pattern: fields.text("pattern").ok()?.unwrap_or_default(),
        priority: fields.integer("priority").ok()?.unwrap_or_default(),
        apply_to: fields.text("apply-to").ok()?.unwrap_or("all"),
        definition: vec![nothing],
    };
    spec.check_kept().ok()?;
    let mut policy = Policy::new(operator, spec).ok()?;
    policy.given.clear();
    let policy = Box::new(policy);
    Some(StandIn {
        vhost: vhost.clone(),
        kind: Name::from("policy"),
        command: Command::Topology(TopologyCommand::PolicySet { operator, policy }),
    })
}

pub(super) fn exchange(reading: &mut Reading, fields: &Fields) -> Vec<Item> {
    let what = format!(
        "exchange '{}' in vhost '{}'",
        shown(fields, "name"),
        shown_vhost(reading, fields)
    );
    let mut stand_in = None;
    let mut read = |reading: &mut Reading| -> Read<ImportStep> {
        let (vhost, called) = (reading.vhost(fields)?, name(fields, "name")?);
        let kind = name(fields, "type")?;
        let is_known = ExchangeKind::parse(&kind).is_ok();
        let arguments = if is_known {
            fields.arguments("arguments")?
        } else {
            let mut arguments = fields.arguments("arguments").unwrap_or_default();
            arguments.retain(|(key, _)| &**key == ALTERNATE_EXCHANGE);
            arguments
        };
        let declare = Command::Topology(TopologyCommand::ExchangeDeclare {
            name: called.clone(),
            // Where a stranger routes to is not in its keys alone.
            kind: if is_known {
                kind.clone()
            } else {
                Name::from(ExchangeKind::Headers.as_str())
            },
            durable: fields.flag("durable", true)?,
            auto_delete: fields.flag("auto_delete", false)?,
            internal: fields.flag("internal", false)?,
            arguments,
        });
        if is_known {
            return Ok(command(&vhost, declare));
        }
        reading.left_out.insert((vhost.clone(), false, called));
        let why = format!("exchanges of type '{kind}' are not supported");
        stand_in = Some(StandIn {
            vhost,
            kind,
            command: declare,
        });
        Err(Problem::Unsupported(why))
    };
    let step = read(reading);
    vec![standing_in(what, step, stand_in)]
}

pub(super) fn queue(reading: &mut Reading, fields: &Fields) -> Vec<Item> {
    let what = format!(
        "queue '{}' in vhost '{}'",
        shown(fields, "name"),
        shown_vhost(reading, fields)
    );
    let mut stand_in = None;
    let mut read = |reading: &mut Reading| -> Read<ImportStep> {
        let (vhost, called) = (reading.vhost(fields)?, name(fields, "name")?);
        let arguments = fields.arguments("arguments")?;
        let kind = arguments.iter().find(|(key, _)| *key == "x-queue-type");
        let kind = match kind {
            Some((_, Value::String(kind))) => Some(kind.as_str()),
            Some(_) => None,
            // Beside the argument it says the same.
            None => fields.get("type").and_then(Json::as_str),
        };
        let unknown = kind.filter(|kind| !QUEUE_TYPES.contains(kind));
        let unknown = unknown.map(str::to_owned);
        let declare = Command::Queue(QueueCommand::Declare {
            connection: None,
            name: called.clone(),
            durable: fields.flag("durable", true)?,
            exclusive: false,
            auto_delete: fields.flag("auto_delete", false)?,
            arguments: if unknown.is_none() {
                arguments
            } else {
                Vec::new()
            },
        });
        let Some(kind) = unknown else {
            return Ok(command(&vhost, declare));
        };
        reading.left_out.insert((vhost.clone(), true, called));
        let why = format!("queues of type '{kind}' are not supported");
        stand_in = Some(StandIn {
            vhost,
            kind: Name::from(&*kind),
            command: declare,
        });
        Err(Problem::Unsupported(why))
    };
    let step = read(reading);
    vec![standing_in(what, step, stand_in)]
}

pub(super) fn binding(reading: &mut Reading, fields: &Fields) -> Vec<Item> {
    let what = format!(
        "binding from '{}' to {} '{}' in vhost '{}'",
        shown(fields, "source"),
        shown(fields, "destination_type"),
        shown(fields, "destination"),
        shown_vhost(reading, fields),
    );
    let mut stand_in = None;
    let mut read = || -> Read<ImportStep> {
        let (vhost, source) = (reading.vhost(fields)?, name(fields, "source")?);
        let destination = name(fields, "destination")?;
        let to_queue = match fields.text("destination_type")? {
            Some("queue") => true,
            Some("exchange") => false,
            _ => {
                let why = "the field 'destination_type' must be queue or exchange".to_owned();
                return Err(Problem::Wrong(why));
            }
        };
        let is_left_out = |is_queue: bool, called: &Name| {
            let end = (vhost.clone(), is_queue, called.clone());
            reading.left_out.contains(&end)
        };
        let ends = [(false, &source), (to_queue, &destination)];
        let left_out = ends
            .iter()
            .find(|(is_queue, called)| is_left_out(*is_queue, called));
        let left_out = left_out.map(|(_, called)| (*called).clone());
        let bind = Command::Topology(TopologyCommand::Bind {
            connection: None,
            source,
            destination: if to_queue {
                Destination::Queue(destination)
            } else {
                Destination::Exchange(destination)
            },
            key: name(fields, "routing_key")?,
            arguments: if left_out.is_some() {
                Vec::new()
            } else {
                fields.arguments("arguments")?
            },
        });
        let Some(left_out) = left_out else {
            return Ok(command(&vhost, bind));
        };
        let why = format!("'{left_out}' was not imported");
        stand_in = Some(StandIn {
            vhost,
            kind: Name::from("binding"),
            command: bind,
        });
        Err(Problem::Unsupported(why))
    };
    let step = read();
    vec![standing_in(what, step, stand_in)]
}

fn standing_in(what: String, step: Read<ImportStep>, stand_in: Option<StandIn>) -> Item {
    Item {
        stand_in: stand_in.map(Box::new),
        ..Item::new(what, step)
    }
}

fn one(what: String, step: Read<ImportStep>) -> Vec<Item> {
    vec![Item::new(what, step)]
}

fn command(vhost: &Name, command: Command) -> ImportStep {
    ImportStep::Command(vhost.clone(), Box::new(command))
}

/// The vhost of an item, for messages.
fn shown_vhost(reading: &Reading, fields: &Fields) -> String {
    let vhost = reading.vhost(fields);
    vhost.map_or_else(|_| String::new(), |vhost| vhost.to_string())
}

/// A text as it is, for messages.
fn shown(fields: &Fields, field: &str) -> String {
    let text = fields.get(field).and_then(Json::as_str);
    text.unwrap_or_default().to_owned()
}

/// Reads an object; an empty array counts as an empty one (as RabbitMQ).
fn object(fields: &Fields, field: &str) -> Read<Fields> {
    match fields.get(field) {
        None => Ok(Fields::default()),
        Some(Json::Object(object)) => Ok(Fields::from_map(object.clone())),
        Some(Json::Array(items)) if items.is_empty() => Ok(Fields::default()),
        Some(_) => Err(Problem::Wrong(format!(
            "the field '{field}' must be an object"
        ))),
    }
}

/// Reads words: an array of texts, or one text with commas (as older versions of RabbitMQ).
fn words(fields: &Fields, field: &str) -> Read<Vec<String>> {
    let wrong = || Problem::Wrong(format!("the field '{field}' must be an array of texts"));
    match fields.get(field) {
        None => Ok(Vec::new()),
        Some(Json::String(text)) => {
            let words = text
                .split(',')
                .map(str::trim)
                .filter(|word| !word.is_empty());
            Ok(words.map(str::to_owned).collect())
        }
        Some(Json::Array(items)) => {
            let words = items.iter().map(|item| item.as_str().map(str::to_owned));
            words.collect::<Option<_>>().ok_or_else(wrong)
        }
        Some(_) => Err(wrong()),
    }
}

/// Reads a limit; a negative one means none (as RabbitMQ).
fn limit(fields: &Fields, field: &str) -> Read<Option<u64>> {
    let limit = fields.integer(field)?;
    Ok(limit.and_then(|limit| u64::try_from(limit).ok()))
}

/// Reads a limit of a user.
fn user_limit(fields: &Fields, field: &str) -> Read<Option<u32>> {
    let limit = limit(fields, field)?.map(u32::try_from).transpose();
    let max = u32::MAX;
    limit.map_err(|_| Problem::Wrong(format!("the field '{field}' is larger than {max}")))
}
