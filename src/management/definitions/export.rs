//! Export: from plain data to a definitions object.

use std::collections::BTreeSet;

use serde_json::{Map, Value as Json, json};

use super::super::http::json::topology;
use super::super::http::json::value::arguments;
use super::import::{OPERATOR_POLICY, VHOST_LIMITS};
use crate::access::{User, UserLimits};
use crate::base::Name;
use crate::broker::binding::Binding;
use crate::broker::exchange::ExchangeSpec;
use crate::broker::names::{QUARANTINE, RESERVED_PREFIX};
use crate::broker::policy::Policies;
use crate::broker::registry::{Registry, VhostSpec};
use crate::broker::subscription;
use crate::broker::{Destination, QueueInfo};

/// The version of RabbitMQ with this format: its importers check it.
const RABBITMQ_VERSION: &str = "4.0.5";
/// The algorithm that is written for users without a password.
const NO_PASSWORD_ALGORITHM: &str = "rabbit_password_hashing_sha256";

/// The content of a vhost.
#[derive(Clone, Debug, Default)]
pub struct VhostParts {
    /// The vhost's name.
    pub name: Name,
    /// Policies and operator policies.
    pub policies: Policies,
    /// All exchanges; an export leaves the predeclared ones out.
    pub exchanges: Vec<ExchangeSpec>,
    /// All queues with their properties.
    pub queues: Vec<QueueInfo>,
    /// All bindings; an export leaves those of the default exchange out.
    pub bindings: Vec<Binding>,
}

/// The data of the broker itself.
#[derive(Clone, Copy, Debug)]
pub struct Broker<'a> {
    /// Vhosts, users, permissions and global parameters.
    pub registry: &'a Registry,
    /// The name of the broker.
    pub node: &'a str,
    /// The broker's version.
    pub version: &'a str,
    /// Type of queues in vhosts that name none.
    pub default_queue_type: &'a str,
}

/// The definitions of a broker.
pub fn broker(of: Broker<'_>, vhosts: &[VhostParts]) -> Json {
    let Broker { registry, node, .. } = of;
    let mut all = header(of, "cluster");
    put(&mut all, "original_cluster_name", json!(node));
    let explanation = format!("Definitions of cluster '{node}'");
    put(&mut all, "explanation", json!(explanation));
    put(&mut all, "users", registry.users().map(user).collect());
    let described = registry.vhosts();
    let described = described.map(|(name, vhost)| {
        let mut described = metadata(of, &vhost.spec);
        put(&mut described, "name", json!(&**name));
        described
    });
    put(&mut all, "vhosts", described.collect());
    put(&mut all, "permissions", permissions(registry));
    put(&mut all, "topic_permissions", topic_permissions(registry));
    let global = registry.global_parameters();
    let global = global.map(|(name, value)| {
        let value: Json = serde_json::from_str(value).unwrap_or(Json::Null);
        json!({ "name": &**name, "value": value })
    });
    put(&mut all, "global_parameters", global.collect());
    let mut objects = Map::new();
    for parts in vhosts {
        for (kind, listed) in objects_of(of, parts) {
            let all = objects.entry(kind).or_insert_with(|| json!([]));
            let Json::Array(all) = all else { continue };
            all.extend(listed.into_iter().map(|mut object| {
                put(&mut object, "vhost", json!(&*parts.name));
                object
            }));
        }
    }
    merge(all, objects)
}

/// The definitions of one vhost, without the vhost's name in each item.
pub fn vhost(of: Broker<'_>, parts: &VhostParts) -> Json {
    let mut all = header(of, "single_virtual_host");
    let name = &parts.name;
    put(&mut all, "original_vhost_name", json!(&**name));
    let explanation = format!("Definitions of virtual host '{name}'");
    put(&mut all, "explanation", json!(explanation));
    if let Some(vhost) = of.registry.vhost(name)
        && let Json::Object(described) = metadata(of, &vhost.spec)
    {
        all = merge(all, described);
    }
    let objects = objects_of(of, parts).into_iter();
    let objects = objects.map(|(kind, listed)| (kind.to_owned(), Json::Array(listed)));
    merge(all, objects.collect())
}

fn header(of: Broker<'_>, format: &str) -> Json {
    json!({
        "rabbit_version": RABBITMQ_VERSION,
        "rabbitmq_version": RABBITMQ_VERSION,
        "product_name": "Coroner",
        "product_version": of.version,
        "rabbitmq_definition_format": format,
    })
}

fn user(user: &User) -> Json {
    let (hash, algorithm) = match &user.password {
        Some(password) => password.to_text(),
        None => (String::new(), NO_PASSWORD_ALGORITHM),
    };
    let tags: Vec<&str> = user.tags.iter().map(crate::access::Tag::as_str).collect();
    let UserLimits {
        connections_max,
        sessions_max,
    } = user.limits;
    let mut limits = json!({});
    for (name, limit) in [
        ("max-connections", connections_max),
        ("max-channels", sessions_max),
    ] {
        if let Some(limit) = limit {
            put(&mut limits, name, json!(limit));
        }
    }
    json!({
        "name": &*user.name,
        "password_hash": hash,
        "hashing_algorithm": algorithm,
        "tags": tags,
        "limits": limits,
    })
}

fn metadata(of: Broker<'_>, spec: &VhostSpec) -> Json {
    let tags: Vec<&str> = spec.tags.iter().map(|tag| &**tag).collect();
    let kind = spec.default_queue_type.as_deref();
    let kind = kind.unwrap_or(of.default_queue_type);
    json!({
        "description": spec.description,
        "tags": tags,
        "default_queue_type": kind,
        "metadata": {
            "description": spec.description,
            "tags": tags,
            "default_queue_type": kind,
        },
    })
}

fn permissions(registry: &Registry) -> Json {
    let vhosts = registry.vhosts();
    let all = vhosts.flat_map(|(name, vhost)| {
        vhost.permissions().map(move |(user, permissions)| {
            json!({
                "user": &**user,
                "vhost": &**name,
                "configure": permissions.configure.as_str(),
                "write": permissions.write.as_str(),
                "read": permissions.read.as_str(),
            })
        })
    });
    all.collect()
}

fn topic_permissions(registry: &Registry) -> Json {
    let mut all = Vec::new();
    for (name, vhost) in registry.vhosts() {
        for (user, topics) in vhost.topic_permissions() {
            all.extend(topics.iter().map(|(exchange, permissions)| {
                json!({
                    "user": &**user,
                    "vhost": &**name,
                    "exchange": &**exchange,
                    "write": permissions.write.as_str(),
                    "read": permissions.read.as_str(),
                })
            }));
        }
    }
    Json::Array(all)
}

/// The content of a vhost, by kind, without the vhost's name.
fn objects_of(of: Broker<'_>, parts: &VhostParts) -> Vec<(&'static str, Vec<Json>)> {
    let without_vhost = |mut object: Json| {
        if let Json::Object(fields) = &mut object {
            for name in ["vhost", "properties_key", "user_who_performed_action"] {
                fields.remove(name);
            }
        }
        object
    };
    let policy = |policy| without_vhost(topology::policy("", policy));
    let mut parameters: Vec<Json> = (parts.policies.list(true))
        .map(|operator| {
            let mut value = policy(operator);
            let name = json!(&*operator.name);
            if let Json::Object(fields) = &mut value {
                fields.remove("name");
            }
            json!({ "component": OPERATOR_POLICY, "name": name, "value": value })
        })
        .collect();
    let limits = of
        .registry
        .vhost(&parts.name)
        .map(|vhost| vhost.spec.limits);
    let limits = limits.unwrap_or_default();
    let limits = [
        ("max-connections", limits.connections_max),
        ("max-queues", limits.queues_max),
    ];
    let limits: Map<String, Json> = (limits.into_iter())
        .filter_map(|(name, limit)| Some((name.to_owned(), json!(limit?))))
        .collect();
    if !limits.is_empty() {
        parameters.push(json!({ "component": VHOST_LIMITS, "name": "limits", "value": limits }));
    }
    let own = |name: &str| !name.is_empty() && !name.starts_with(RESERVED_PREFIX);
    let exchanges = parts.exchanges.iter().filter(|spec| own(&spec.name));
    let queues = parts.queues.iter().filter(|queue| is_exported(queue));
    let left_out: BTreeSet<&Name> = (parts.queues.iter().filter(|queue| !is_exported(queue)))
        .map(|queue| &queue.name)
        .collect();
    let leads_out = |bound: &Binding| match &bound.destination {
        Destination::Queue(queue) => left_out.contains(queue),
        Destination::Exchange(_) => false,
    };
    let bindings = parts.bindings.iter();
    let bindings = bindings.filter(|bound| !bound.source.is_empty() && !leads_out(bound));
    vec![
        ("parameters", parameters),
        ("policies", parts.policies.list(false).map(policy).collect()),
        ("queues", queues.map(queue).collect()),
        (
            "exchanges",
            exchanges
                .map(|spec| without_vhost(topology::exchange("", spec, None)))
                .collect(),
        ),
        (
            "bindings",
            bindings
                .map(|bound| without_vhost(topology::binding("", bound)))
                .collect(),
        ),
    ]
}

/// Whether a queue would be the same elsewhere: not one that goes with a connection or its consumers, nor
/// the quarantine, which each broker declares itself.
fn is_exported(queue: &QueueInfo) -> bool {
    let is_volatile = !queue.durable && subscription::is_name(&queue.name);
    !queue.exclusive && !is_volatile && queue.name != QUARANTINE
}

fn queue(queue: &QueueInfo) -> Json {
    json!({
        "name": &*queue.name,
        "durable": queue.durable,
        "auto_delete": queue.auto_delete,
        "arguments": arguments(&queue.arguments),
    })
}

fn put(object: &mut Json, name: &str, value: Json) {
    if let Json::Object(fields) = object {
        fields.insert(name.to_owned(), value);
    }
}

fn merge(mut object: Json, more: Map<String, Json>) -> Json {
    if let Json::Object(fields) = &mut object {
        fields.extend(more);
    }
    object
}
