//! From settings to a registry and to the options of the gateways.

use crate::access::{PasswordHash, Permissions, RABBIT_SALT_BYTES, Tag, User, UserLimits};
use crate::base::{Name, Seed};
use crate::broker::registry::Registry;
use crate::config::{ANY_VHOST, Settings, SyncSetting};
use crate::gateway::Options;
use crate::link::{Identity, Options as LinkOptions};
use crate::message::KeyRule;
use crate::store::{self, SyncPolicy};
use crate::wire::performative::{FieldValue, Symbol, fields};

use super::errors::StartError;

/// What `--announce-rabbitmq` announces.
const RABBITMQ: (&str, &str) = ("RabbitMQ", "4.0.5");
/// Capabilities of every `open`. [surface 5]
const CAPABILITIES: [&str; 2] = ["LINK_PAIR_V1_0", "ANONYMOUS-RELAY"];

/// Vhosts, users and permissions as configured.
pub(super) fn registry(settings: &Settings) -> Result<Registry, StartError> {
    let mut registry = Registry::new();
    for vhost in settings.vhosts() {
        registry.add_vhost(Name::from(vhost))?;
    }
    registry.set_default_vhost(&Name::from(&*settings.default_vhost))?;
    if settings.default_vhost != crate::broker::registry::DEFAULT_VHOST {
        registry.remove_vhost(&Name::from(crate::broker::registry::DEFAULT_VHOST))?;
    }
    for entry in &settings.user {
        registry.set_user(User {
            name: Name::from(&*entry.name),
            password: Some(PasswordHash::rabbit_sha256(salt(), entry.password.as_bytes()).into()),
            tags: vec![Tag::Administrator],
            loopback_only: settings.loopback_user.contains(&entry.name),
            limits: UserLimits::default(),
        })?;
        if !settings
            .permission
            .iter()
            .any(|permission| permission.user == entry.name)
        {
            for vhost in settings.vhosts() {
                let (vhost, user) = (Name::from(vhost), Name::from(&*entry.name));
                registry.set_permissions(&vhost, &user, Permissions::all()?)?;
            }
        }
    }
    for entry in &settings.permission {
        let permissions = Permissions::new(&entry.configure, &entry.write, &entry.read)?;
        let here = |vhost: &&str| entry.vhost == ANY_VHOST || entry.vhost == *vhost;
        for vhost in settings.vhosts().filter(here) {
            let (vhost, user) = (Name::from(vhost), Name::from(&*entry.user));
            registry.set_permissions(&vhost, &user, permissions.clone())?;
        }
    }
    Ok(registry)
}

#[allow(
    clippy::disallowed_methods,
    reason = "salts are made here, at the edge"
)]
fn salt() -> [u8; RABBIT_SALT_BYTES] {
    let random = uuid::Uuid::new_v4().into_bytes();
    random.first_chunk().copied().unwrap_or_default()
}

/// Sizes and rules of the journal as configured. A segment has room for the largest message.
pub(super) fn store_options(settings: &Settings) -> store::Options {
    let default = store::Options::default();
    let largest = settings
        .max_message_size
        .0
        .saturating_mul(2)
        .saturating_add(1 << 20);
    let largest = u32::try_from(largest).unwrap_or(u32::MAX);
    store::Options {
        segment_bytes: default.segment_bytes.max(largest),
        sync: match settings.sync {
            SyncSetting::Always => SyncPolicy::Always,
            SyncSetting::Interval => SyncPolicy::Interval {
                every_ms: settings.sync_interval.ms,
            },
            SyncSetting::Never => SyncPolicy::Never,
        },
        ..default
    }
}

/// A seed nobody can guess, for the hashers of one broker.
#[allow(
    clippy::disallowed_methods,
    reason = "seeds are made here, at the edge"
)]
pub(super) fn seed() -> Seed {
    Seed(uuid::Uuid::new_v4().as_u64_pair().1)
}

/// What names of temporary queues begin with: those of an earlier start must not mean these.
#[allow(clippy::disallowed_methods, reason = "ids are made here, at the edge")]
fn temporary_prefix() -> String {
    format!("amq.gen-{}-", uuid::Uuid::new_v4().simple())
}

/// How gateways behave as configured.
pub(super) fn options(settings: &Settings, seed: Seed) -> Options {
    let u32 = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    let anonymous_user = settings.anonymous().map(Name::from);
    let mut mechanisms = vec!["PLAIN".to_owned()];
    mechanisms.extend(anonymous_user.is_some().then(|| "ANONYMOUS".to_owned()));
    let idle = u32(settings.idle_timeout.ms);
    let link = LinkOptions {
        identity: identity(settings),
        mechanisms,
        allow_plain_amqp: !settings.require_sasl,
        max_frame_size: u32(settings.max_frame_size.0),
        channel_max: settings.channel_max,
        idle_time_out_ms: (idle > 0).then_some(idle),
        handshake_ms: settings.handshake_timeout.ms,
        partial_bytes_max: settings.max_message_size.0.saturating_mul(2),
        ..LinkOptions::default()
    };
    Options {
        link,
        node: Name::from(&*settings.node_name),
        anonymous_user,
        message_bytes_max: settings.max_message_size.0,
        key_rule: if settings.strict {
            KeyRule::Strict
        } else {
            KeyRule::Specification
        },
        auto_create: settings.auto_create.clone(),
        temporary_prefix: temporary_prefix(),
        outbox_bytes: settings.outbox_bytes.0.max(1),
        seed,
    }
}

fn identity(settings: &Settings) -> Identity {
    let own = (&*settings.announce_product, &*settings.announce_version);
    let (product, version) = if settings.announce_rabbitmq {
        RABBITMQ
    } else {
        own
    };
    let text = |text: &str| FieldValue::String(text.to_owned());
    let mut properties = vec![
        ("node", text(&settings.node_name)),
        ("cluster_name", text(&settings.node_name)),
        ("copyright", text("the Coroner contributors")),
        ("information", text("an AMQP 1.0 broker; MIT OR Apache-2.0")),
        ("platform", text("Rust")),
        ("product", text(product)),
        ("version", text(version)),
    ];
    if settings.announce_rabbitmq {
        properties.push(("coroner_product", text(own.0)));
        properties.push(("coroner_version", text(own.1)));
    }
    Identity {
        container_id: settings.node_name.clone(),
        offered_capabilities: CAPABILITIES.map(Symbol::from).to_vec(),
        properties: Some(fields(properties)),
    }
}
