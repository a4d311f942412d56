//! Commands about the state of the broker.

use clap::Args;
use serde_json::{Map, Value, json};

use super::Task;
use crate::cli::api::{Api, Path};
use crate::cli::exit::{Failure, FailureKind};
use crate::cli::output::{self, Output, pick, printable};

/// Shows what the broker is, how long it runs and what it holds
#[derive(Args)]
pub(super) struct Status {}

/// Shows everything the broker says of itself
#[derive(Args)]
pub(super) struct Overview {}

/// Shows who we are to the broker
#[derive(Args)]
#[command(name = "whoami")]
pub(super) struct WhoAmI {}

/// Ends with 0 if the broker runs and lets us in
#[derive(Args)]
pub(super) struct CheckRunning {}

/// Ends with 0 if nothing is short: memory, disk
#[derive(Args)]
pub(super) struct CheckAlarms {}

/// The same for the node that was asked
#[derive(Args)]
pub(super) struct CheckLocalAlarms {}

/// Ends with 0 if the broker listens on a port
#[derive(Args)]
pub(super) struct CheckPortListener {
    /// The port
    #[arg(value_name = "PORT")]
    listener: u16,
}

/// Ends with 0 if the broker listens for a protocol
#[derive(Args)]
pub(super) struct CheckProtocolListener {
    /// amqp, amqps, http or https
    #[arg(value_name = "PROTOCOL")]
    protocol: String,
}

/// Ends with 0 unless certificates of the broker end soon
#[derive(Args)]
pub(super) struct CheckCertificateExpiration {
    /// How long they have to last
    #[arg(long, value_name = "NUMBER", default_value_t = 4)]
    within: u32,
    /// In days, weeks, months or years
    #[arg(long, default_value = "weeks")]
    unit: String,
}

/// Ends with 0 if all vhosts are in service
#[derive(Args)]
pub(super) struct CheckVirtualHosts {}

/// Ends with 0 if the broker works, without a login: for probes
#[derive(Args)]
pub(super) struct Health {}

/// Lines of `status`: name, and field of the overview.
const OF_BROKER: &[(&str, &str)] = &[
    ("product", "product_name"),
    ("version", "product_version"),
    ("node", "node"),
    ("connections", "object_totals.connections"),
    ("queues", "object_totals.queues"),
    ("exchanges", "object_totals.exchanges"),
    ("consumers", "object_totals.consumers"),
    ("messages", "queue_totals.messages"),
    ("messages_ready", "queue_totals.messages_ready"),
    (
        "messages_unacknowledged",
        "queue_totals.messages_unacknowledged",
    ),
];

/// Lines of `status`: name, and field of the node.
const OF_NODE: &[(&str, &str)] = &[
    ("process_id", "os_pid"),
    ("uptime_ms", "uptime"),
    ("memory_bytes", "mem_used"),
    ("memory_counted_bytes", "mem_counted"),
    ("memory_alarm", "mem_alarm"),
    ("disk_free_bytes", "disk_free"),
    ("disk_alarm", "disk_free_alarm"),
];

impl Task for Status {
    const NAME: &'static str = "status";
    const EXAMPLES: &'static [&'static str] = &["status", "status --format json"];

    fn run(self, api: &Api, out: Output) -> Result<(), Failure> {
        let overview = api.get(&Path::of(&["overview"]))?;
        // Users without the tag monitoring cannot list nodes: then those lines are left out.
        let nodes = match api.list(&Path::of(&["nodes"])) {
            Err(failure) if failure.kind != FailureKind::NoPermission => return Err(failure),
            nodes => nodes.unwrap_or_default(),
        };
        let node = nodes.first().unwrap_or(&Value::Null);
        let of_broker = OF_BROKER
            .iter()
            .map(|(name, path)| (name, pick(&overview, path)));
        let of_node = OF_NODE.iter().map(|(name, path)| (name, pick(node, path)));
        let mut fields = Map::new();
        for (name, value) in of_broker.chain(of_node) {
            fields.extend(value.map(|value| ((*name).to_owned(), value.clone())));
        }
        let listeners = overview.get("listeners").and_then(Value::as_array);
        let listeners: Vec<String> = listeners
            .into_iter()
            .flatten()
            .filter_map(listener)
            .collect();
        fields.insert("listeners".to_owned(), json!(listeners));
        out.fields(&Value::Object(fields))
    }
}

/// A listener as text: `amqp 127.0.0.1:5672`.
fn listener(value: &Value) -> Option<String> {
    let text = |name: &str| value.get(name)?.as_str();
    Some(format!(
        "{} {}:{}",
        text("protocol")?,
        text("ip_address")?,
        value.get("port")?
    ))
}

impl Task for Overview {
    const NAME: &'static str = "overview";
    const EXAMPLES: &'static [&'static str] = &["overview --format json"];

    fn run(self, api: &Api, out: Output) -> Result<(), Failure> {
        out.fields(&api.get(&Path::of(&["overview"]))?)
    }
}

impl Task for WhoAmI {
    const NAME: &'static str = "whoami";
    const EXAMPLES: &'static [&'static str] = &["whoami"];

    fn run(self, api: &Api, out: Output) -> Result<(), Failure> {
        out.fields(&api.get(&Path::of(&["whoami"]))?)
    }
}

impl Task for Health {
    const NAME: &'static str = "health";
    const EXAMPLES: &'static [&'static str] =
        &["health", "health --url https://broker.example:15671"];

    fn run(self, api: &Api, out: Output) -> Result<(), Failure> {
        api.health()?;
        out.done(format_args!("{} works", api.settings().endpoint))
    }
}

impl Task for CheckRunning {
    const NAME: &'static str = "check_running";
    const EXAMPLES: &'static [&'static str] = &["check_running --quiet && echo it runs"];

    fn run(self, api: &Api, out: Output) -> Result<(), Failure> {
        let overview = api.get(&Path::of(&["overview"]))?;
        let text = |name: &str| overview.get(name).and_then(Value::as_str).unwrap_or("?");
        let (product, version) = (text("product_name"), text("product_version"));
        out.done(format_args!(
            "{product} {version} runs at {}",
            api.settings().endpoint
        ))
    }
}

/// Requests a health check. A failed one is answered with 503, and the reason.
fn check(segments: &[&str], api: &Api, out: Output, fine: &str) -> Result<(), Failure> {
    let mut path = vec!["health", "checks"];
    path.extend_from_slice(segments);
    let Some(said) = api.check(&Path::of(&path))? else {
        return out.done(fine);
    };
    if out.is_json() {
        output::print_json(&said)?;
    }
    let reason = said.get("reason").and_then(Value::as_str);
    let reason = printable(reason.unwrap_or("it gave no reason"));
    let endpoint = &api.settings().endpoint;
    let what = format!("{endpoint}: the check did not pass: {reason}");
    let failure = Failure::new(FailureKind::Data, what);
    let details = details(&said);
    Err(if details.is_empty() {
        failure
    } else {
        failure.advise(details.join("\n  "))
    })
}

/// The details of a check besides its reason, a line each: which alarms, certificates, vhosts,
/// listeners.
fn details(said: &Value) -> Vec<String> {
    let listed = |name: &str| {
        said.get(name)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
    };
    let alarms = listed("alarms").map(|alarm| {
        let (resource, node) = (shown(alarm, "resource"), shown(alarm, "node"));
        format!("{resource} alarm on node {node}")
    });
    let certificates = listed("expired").flat_map(|listener| {
        let (protocol, port) = (shown(listener, "protocol"), shown(listener, "port"));
        [
            ("certfile", "certfile_expires_on"),
            ("cacertfile", "cacertfile_expires_on"),
        ]
        .into_iter()
        .filter_map(move |(file, expires)| {
            let times = listener.get(expires)?.as_array()?;
            let times: Vec<String> = times.iter().map(plain).collect();
            let (file, times) = (shown(listener, file), times.join(", "));
            let line = format!("{protocol} at port {port}: {file} ends on {times}");
            (!times.is_empty()).then_some(line)
        })
    });
    let vhosts = listed("virtual-hosts").map(|vhost| format!("vhost {}", plain(vhost)));
    let missing = said.get("missing").map(|missing| {
        let there: Vec<String> = listed("ports")
            .chain(listed("protocols"))
            .map(plain)
            .collect();
        format!(
            "missing: {}; there are: {}",
            plain(missing),
            there.join(", ")
        )
    });
    alarms
        .chain(certificates)
        .chain(vhosts)
        .chain(missing)
        .collect()
}

/// A field as text.
fn shown(object: &Value, name: &str) -> String {
    object.get(name).map(plain).unwrap_or_default()
}

/// A value as text that cannot steer a terminal.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => printable(text),
        other => printable(&other.to_string()),
    }
}

impl Task for CheckAlarms {
    const NAME: &'static str = "check_alarms";
    const EXAMPLES: &'static [&'static str] = &["check_alarms"];

    fn run(self, api: &Api, out: Output) -> Result<(), Failure> {
        check(&["alarms"], api, out, "no alarms")
    }
}

impl Task for CheckLocalAlarms {
    const NAME: &'static str = "check_local_alarms";
    const EXAMPLES: &'static [&'static str] = &["check_local_alarms"];

    fn run(self, api: &Api, out: Output) -> Result<(), Failure> {
        check(&["local-alarms"], api, out, "no alarms")
    }
}

impl Task for CheckPortListener {
    const NAME: &'static str = "check_port_listener";
    const EXAMPLES: &'static [&'static str] = &["check_port_listener 5672"];

    fn run(self, api: &Api, out: Output) -> Result<(), Failure> {
        let port = self.listener.to_string();
        check(
            &["port-listener", &port],
            api,
            out,
            &format!("port {port} is listened on"),
        )
    }
}

impl Task for CheckProtocolListener {
    const NAME: &'static str = "check_protocol_listener";
    const EXAMPLES: &'static [&'static str] = &["check_protocol_listener amqps"];

    fn run(self, api: &Api, out: Output) -> Result<(), Failure> {
        let fine = format!("{} is listened for", self.protocol);
        check(&["protocol-listener", &self.protocol], api, out, &fine)
    }
}

impl Task for CheckCertificateExpiration {
    const NAME: &'static str = "check_certificate_expiration";
    const EXAMPLES: &'static [&'static str] =
        &["check_certificate_expiration --within 2 --unit months"];

    fn run(self, api: &Api, out: Output) -> Result<(), Failure> {
        let (within, unit) = (self.within.to_string(), &self.unit);
        let fine = format!("no certificate ends within {within} {unit}");
        check(&["certificate-expiration", &within, unit], api, out, &fine)
    }
}

impl Task for CheckVirtualHosts {
    const NAME: &'static str = "check_virtual_hosts";
    const EXAMPLES: &'static [&'static str] = &["check_virtual_hosts"];

    fn run(self, api: &Api, out: Output) -> Result<(), Failure> {
        check(&["virtual-hosts"], api, out, "all vhosts are in service")
    }
}
