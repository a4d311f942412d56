//! Routes to the node and to health checks.

use chrono::DateTime;
use serde_json::{Map, Value, json};

use super::api::Call;
use super::reply::Reply;
use crate::base::Timestamp;
use crate::management::http::json::overview;
use crate::management::http::{Failure, Listing};
use crate::server::descriptors::open_files;
use crate::server::memory::resident_bytes;

/// Units of time for the expiry of certificates, in milliseconds (as RabbitMQ counts them).
const TIME_UNITS: [(&str, i64); 4] = [
    ("days", DAY_MS),
    ("weeks", 7 * DAY_MS),
    ("months", 365 * DAY_MS / 12),
    ("years", 365 * DAY_MS),
];
const DAY_MS: i64 = 86_400_000;

fn ok() -> Reply {
    Reply::Json(json!({ "status": "ok" }))
}

fn unhealthy(reason: &str, more: &Value) -> Reply {
    let mut body = json!({ "status": "failed", "reason": reason });
    if let (Value::Object(body), Value::Object(more)) = (&mut body, more) {
        body.extend(more.clone());
    }
    Reply::Unhealthy(body)
}

/// `GET /api/health/checks/alarms` and `local-alarms`: memory and disk.
pub(super) fn alarms(call: &Call<'_>) -> Reply {
    let mut raised: Vec<Value> = Vec::new();
    let node = &call.shared.settings.node_name;
    let alarms = call.shared.node.alarms.alarms();
    if !alarms.is_any() {
        return ok();
    }
    if alarms.memory_alarm {
        raised.push(json!({ "node": node, "resource": "memory" }));
    }
    if alarms.disk_free_alarm {
        raised.push(json!({ "node": node, "resource": "disk" }));
    }
    if raised.is_empty() {
        raised.push(json!({ "node": node, "resource": "journal" }));
    }
    let reason = "There are alarms in effect in the cluster";
    unhealthy(reason, &json!({ "alarms": raised }))
}

/// `GET /api/health/checks/virtual-hosts`: every core works.
pub(super) fn virtual_hosts(call: &Call<'_>) -> Reply {
    let failed = call.shared.node.vhosts.all();
    let failed = failed.iter().filter(|vhost| vhost.failed());
    let failed: Vec<&str> = failed.map(|vhost| vhost.name().as_str()).collect();
    if failed.is_empty() {
        return ok();
    }
    let reason = "Some virtual hosts are down";
    unhealthy(reason, &json!({ "virtual-hosts": failed }))
}

/// `GET /api/health/checks/port-listener/PORT`.
pub(super) fn port_listener(call: &Call<'_>) -> Result<Reply, Failure> {
    let port = call.params.get("port");
    let port: u16 = port
        .parse()
        .map_err(|_| Failure::bad_request("Invalid port"))?;
    let listeners = call.shared.addresses.listeners();
    if listeners.iter().any(|listener| listener.port == port) {
        return Ok(Reply::Json(json!({ "status": "ok", "port": port })));
    }
    let ports: Vec<u16> = listeners.iter().map(|listener| listener.port).collect();
    let more = json!({ "missing": port, "ports": ports });
    Ok(unhealthy("No active listener", &more))
}

/// `GET /api/health/checks/protocol-listener/PROTOCOL`.
pub(super) fn protocol_listener(call: &Call<'_>) -> Reply {
    let asked = call.params.get("protocol");
    let protocol = match &*asked {
        "amqp10" | "amqp1.0" => "amqp",
        "amqps" | "amqps10" | "amqps1.0" => "amqp/ssl",
        other => other,
    };
    let listeners = call.shared.addresses.listeners();
    let protocols: Vec<&str> = listeners.iter().map(|listener| listener.protocol).collect();
    if protocols.contains(&protocol) {
        return Reply::Json(json!({ "status": "ok", "protocol": protocol }));
    }
    let more = json!({ "missing": protocol, "protocols": protocols });
    unhealthy("No active listener", &more)
}

/// `GET /api/health/checks/node-is-quorum-critical`: there is one node.
pub(super) fn quorum_critical() -> Reply {
    Reply::Json(json!({ "status": "ok", "reason": "single node cluster" }))
}

/// `GET /api/health/checks/certificate-expiration/WITHIN/UNIT`.
pub(super) fn certificate_expiration(call: &Call<'_>) -> Result<Reply, Failure> {
    let within: Result<i64, _> = call.params.get("within").parse();
    let within = within.map_err(|_| Failure::bad_request("Invalid expiration value."))?;
    let unit = call.params.get("unit").to_lowercase();
    let unit = TIME_UNITS.iter().find(|(name, _)| *name == unit);
    let (_, unit_ms) = unit.ok_or_else(|| {
        Failure::bad_request(
            "Time unit not recognised. Supported units: days, weeks, months, years.",
        )
    })?;
    let now = call.shared.clock.now().wall;
    let before = Timestamp(now.0.saturating_add(within.saturating_mul(*unit_ms)));
    let Some(tls) = &call.shared.tls else {
        return Ok(ok());
    };
    let ending = tls.ending(before);
    if ending.is_empty() {
        return Ok(ok());
    }
    let (certificate, authorities) = tls.certificate_files();
    let listeners = call.shared.addresses.listeners();
    let secure = listeners.iter().filter(|listener| listener.is_secure());
    let expired = secure.map(|listener| {
        json!({
            "node": call.shared.settings.node_name,
            "protocol": listener.protocol,
            "interface": listener.address.to_string(),
            "port": listener.port,
            "certfile": certificate.display().to_string(),
            "cacertfile": authorities.map(|file| file.display().to_string()),
            "certfile_expires_on": in_words(&ending.certificate),
            "cacertfile_expires_on": in_words(&ending.authorities),
        })
    });
    let expired: Value = expired.collect();
    Ok(unhealthy(
        "Certificates expiring",
        &json!({ "expired": expired }),
    ))
}

/// Times in RabbitMQ's format for these answers, in UTC.
fn in_words(times: &[Timestamp]) -> Vec<String> {
    let times = times
        .iter()
        .filter_map(|time| DateTime::from_timestamp_millis(time.0));
    times
        .map(|time| time.format("%Y-%m-%d %H:%M:%S").to_string())
        .collect()
}

/// `GET /api/health/checks/is-in-service` and `ready-to-serve-clients`.
pub(super) fn in_service(call: &Call<'_>) -> Reply {
    if call.shared.is_stopping() {
        return unhealthy("the broker is stopping", &json!({}));
    }
    ok()
}

/// `GET /api/nodes`.
pub(super) fn nodes(call: &Call<'_>) -> Result<Reply, Failure> {
    Listing::parse(&call.query)?
        .answer(vec![node_json(call)])
        .map(Reply::Json)
}

/// `GET /api/nodes/NAME`.
pub(super) fn node(call: &Call<'_>) -> Result<Reply, Failure> {
    if *call.params.get("name") != *call.shared.settings.node_name {
        return Err(Failure::not_found());
    }
    let listing = Listing::parse(&call.query)?;
    Ok(Reply::Json(listing.project(node_json(call))))
}

/// Categories of memory that RabbitMQ has, and Coroner does not have or does not distinguish.
const NO_MEMORY: [&str; 22] = [
    "connection_readers",
    "connection_writers",
    "connection_channels",
    "queue_procs",
    "quorum_queue_procs",
    "quorum_queue_dlx_procs",
    "stream_queue_procs",
    "stream_queue_replica_reader_procs",
    "stream_queue_coordinator_procs",
    "plugins",
    "metadata_store",
    "other_proc",
    "metrics",
    "mgmt_db",
    "mnesia",
    "quorum_ets",
    "metadata_store_ets",
    "other_ets",
    "msg_index",
    "code",
    "atom",
    "reserved_unallocated",
];

/// `GET /api/nodes/NAME/memory`: messages and topology are `binary`, memory of connections is
/// `connection_other`, uncounted memory of the process is `allocated_unused`.
pub(super) fn node_memory(call: &Call<'_>) -> Result<Reply, Failure> {
    if *call.params.get("name") != *call.shared.settings.node_name {
        return Err(Failure::not_found());
    }
    let board = &call.shared.node.alarms;
    let connections = board.connections().bytes();
    // The alarms are as of the last check: connections may take more by now.
    let counted = board.alarms().memory_used_bytes.max(connections);
    let process = resident_bytes().unwrap_or(counted);
    let mut memory: Map<String, Value> = NO_MEMORY
        .iter()
        .map(|name| ((*name).to_owned(), json!(0)))
        .collect();
    for (name, value) in [
        ("connection_other", json!(connections)),
        ("binary", json!(counted.saturating_sub(connections))),
        ("allocated_unused", json!(process.saturating_sub(counted))),
        ("other_system", json!(0)),
        ("strategy", json!("rss")),
        (
            "total",
            json!({ "erlang": counted, "rss": process, "allocated": process }),
        ),
    ] {
        memory.insert(name.to_owned(), value);
    }
    Ok(Reply::Json(json!({ "memory": memory })))
}

fn node_json(call: &Call<'_>) -> Value {
    let shared = call.shared;
    let alarms = shared.node.alarms.alarms();
    let (settings, live) = (&shared.settings, shared.live.read());
    let data = settings.data_directory();
    let data = data.map_or_else(String::new, |data| data.display().to_string());
    let mut node = json!({
        "name": settings.node_name,
        "type": "disc",
        "running": true,
        "being_drained": false,
        "os_pid": std::process::id().to_string(),
        "uptime": shared.uptime_ms(),
        "processors": std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        // The memory of the process, as in RabbitMQ; that of the alarm is in another field.
        "mem_used": resident_bytes().unwrap_or(alarms.memory_used_bytes),
        "mem_counted": alarms.memory_used_bytes,
        "mem_limit": live.memory_limit.0,
        "mem_alarm": alarms.memory_alarm,
        "disk_free": alarms.disk_free_bytes,
        "disk_free_limit": live.disk_free_limit.0,
        "disk_free_alarm": alarms.disk_free_alarm,
        "partitions": [],
        "rates_mode": overview::rates_mode(live.collect_statistics_interval.ms > 0),
        "exchange_types": overview::exchange_types(),
        "auth_mechanisms": [],
        "applications": [{
            "name": "coroner",
            "description": "Coroner",
            "version": env!("CARGO_PKG_VERSION"),
        }],
        "contexts": [],
        "config_files": [],
        "log_files": [],
        "enabled_plugins": [],
        "db_dir": data,
        "sockets_used": shared.connection_counts().open,
    });
    // Left out where the system does not tell it or sets no limit: rabbitmqadmin does not accept
    // null for a number.
    let (open, open_max) = open_files();
    for (name, count) in [("fd_used", open), ("fd_total", open_max)] {
        if let (Some(node), Some(count)) = (node.as_object_mut(), count) {
            node.insert(name.to_owned(), json!(count));
        }
    }
    node
}

/// `GET /api/cluster-name`.
pub(super) fn cluster_name(call: &Call<'_>) -> Reply {
    Reply::Json(json!({ "name": call.shared.settings.node_name }))
}

/// `GET /api/version`.
pub(super) fn version() -> Reply {
    Reply::Json(json!(overview::RABBITMQ_VERSION))
}
