//! Setup: from the settings to a registry and to the options of node and gateways.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::access::{
    Mechanisms, Password, Permissions, SECRET_BYTES, Salts, Secret, Tag, User, UserLimits,
};
use crate::base::{Gauge, Name, Seed};
use crate::broker;
use crate::broker::arguments::OnUndeliverable;
use crate::broker::event::{EventNumbers, EventWriter};
use crate::broker::names::TEMPORARY_PREFIX;
use crate::broker::queue::BLOCK_SHIFT_MAX;
use crate::broker::registry::{DEFAULT_VHOST, Registry, RegistryFact, VhostSpec, check_name};
use crate::config::{
    ANY_VHOST, DeathEvidence, Settings, SyncSetting, UndeliverableSetting, UserEntry, UserTagsEntry,
};
use crate::deaths::EvidenceLevel;
use crate::gateway::{Environment, GatewayOptions};
use crate::link::{Identity, LinkOptions};
#[cfg(feature = "http")]
use crate::management::http::write_event;
use crate::message::KeyRule;
use crate::node::{Node, NodeParts};
use crate::store::{self, GroupCommit, SyncPolicy};
use crate::wire::performative::{Symbol, Value, fields};

use super::clock::SystemClock;
use super::errors::StartError;
use super::{BrokerDisk, SpillTarget, Store};

/// Memory budget for each slot of a block, in bytes, below which blocks are smaller.
const BUDGET_OF_SLOT_BYTES: u64 = 16 * 1024;
/// The product and version that `--announce-rabbitmq` announces. A client that knows this version
/// takes `x-delivery-count` for the number of all returns: see [`GatewayOptions::counts_returns`].
const RABBITMQ: (&str, &str) = ("RabbitMQ", "4.0.5");
/// Capabilities that every `open` offers. [surface 5]
const CAPABILITIES: [&str; 2] = ["LINK_PAIR_V1_0", "ANONYMOUS-RELAY"];
/// The capability that tells that `x-opt-delivery-time` of a publisher counts; Qpid JMS looks for
/// it.
const DELAYED_DELIVERY: &str = "DELAYED_DELIVERY";
/// Capabilities that JMS clients look for, with subscriptions: consumers share them, and client ids
/// are of one connection only.
const JMS_CAPABILITIES: [&str; 2] = ["SHARED-SUBS", "sole-connection-for-container"];
/// The capability of property filters. [AMQP Filter Expressions 4.1]
const PROPERTY_FILTERS: &str = "AMQP_FILTEX_PROP_V1_0";
/// The capability of SQL filters. [AMQP Filter Expressions 6.1]
const SQL_FILTERS: &str = "AMQP_FILTEX_SQL_V1_0";

/// What the settings name and the registry does not have, or has otherwise: vhosts, users with
/// their passwords, tags, permissions; `guest` if it is wanted and they name no user. What they do
/// not name is left as it is.
pub(super) fn missing(
    settings: &Settings,
    registry: &Registry,
    is_fresh: bool,
    wants_guest: bool,
) -> Result<Vec<RegistryFact>, StartError> {
    let mut facts = Vec::new();
    let named = settings.vhosts().filter(|name| {
        // Like guest, a default vhost that no setting names stays deleted.
        is_fresh || *name != DEFAULT_VHOST || settings.vhost.iter().any(|named| named == name)
    });
    let named: Vec<Name> = named.map(Name::from).collect();
    for name in named.iter().cloned() {
        check_name(&name)?;
        if registry.vhost(&name).is_none() {
            let spec = VhostSpec::default();
            facts.push(RegistryFact::VhostSet { name, spec });
        }
    }
    for entry in settings.users(wants_guest) {
        check_name(&Name::from(&*entry.name))?;
        facts.extend(user(settings, &entry, registry));
    }
    let known = registry.vhosts().map(|(name, _)| name.clone());
    let vhosts: BTreeSet<Name> = known.chain(named).collect();
    for entry in settings.users(wants_guest) {
        let mut entries = settings.permission.iter();
        if entries.any(|permission| permission.user == entry.name) {
            continue;
        }
        for vhost in &vhosts {
            facts.extend(permissions(
                registry,
                vhost,
                &entry.name,
                Permissions::all()?,
            ));
        }
    }
    for entry in &settings.permission {
        let given = Permissions::new(&entry.configure, &entry.write, &entry.read)?;
        let here = |vhost: &&Name| entry.vhost == ANY_VHOST || **vhost == *entry.vhost;
        for vhost in vhosts.iter().filter(here) {
            facts.extend(permissions(registry, vhost, &entry.user, given.clone()));
        }
    }
    Ok(facts)
}

/// A user as configured, unless it exists with this password and these tags. An existing user keeps
/// its tags if the settings name none.
fn user(settings: &Settings, entry: &UserEntry, registry: &Registry) -> Option<RegistryFact> {
    let tags = || settings.tags(&entry.name).into_iter().map(Tag::from_word);
    let mut user = match registry.user(&entry.name) {
        Some(known) => known.clone(),
        None => User {
            name: Name::from(&*entry.name),
            password: None,
            tags: tags().collect(),
            loopback_only: false,
            limits: UserLimits::default(),
        },
    };
    let is_named = |given: &UserTagsEntry| given.user == entry.name;
    let is_tagged =
        !settings.user_tags.iter().any(is_named) || tags().eq(user.tags.iter().cloned());
    let password = user.password.as_ref();
    let is_known = password.is_some_and(|password| password.hash.verify(entry.password.as_bytes()));
    if is_known && is_tagged {
        return None;
    }
    if !is_known {
        user.password = Some(hash(&entry.password));
    }
    if !is_tagged {
        user.tags = tags().collect();
    }
    Some(RegistryFact::UserSet(Box::new(user)))
}

/// Logs the users of the settings when a broker starts: tags permit over HTTP what permissions
/// forbid.
pub(super) fn say_users(settings: &Settings, registry: &Registry) {
    for entry in settings.users(false) {
        let Some(user) = registry.user(&entry.name) else {
            continue;
        };
        let tags: Vec<&str> = user.tags.iter().map(Tag::as_str).collect();
        let tags = if tags.is_empty() {
            "none".to_owned()
        } else {
            tags.join(",")
        };
        let entries = settings.permission.iter();
        let own = entries.filter(|permission| permission.user == entry.name);
        let vhosts: Vec<&str> = own.map(|permission| &*permission.vhost).collect();
        let permissions = if vhosts.is_empty() {
            "everything in every vhost".to_owned()
        } else {
            format!("as set in {}", vhosts.join(","))
        };
        tracing::info!(user = entry.name, tags, permissions, "user of the settings");
    }
}

/// Permissions as configured, unless they exist.
fn permissions(
    registry: &Registry,
    vhost: &Name,
    user: &str,
    given: Permissions,
) -> Option<RegistryFact> {
    let known = registry.permissions(vhost, user);
    if known.is_some_and(|known| **known == given) {
        return None;
    }
    Some(RegistryFact::PermissionsSet {
        vhost: vhost.clone(),
        user: Name::from(user),
        permissions: given,
    })
}

/// An empty registry with the settings' options.
pub(super) fn registry(settings: &Settings) -> Registry {
    let loopback_users = settings.loopback_user.iter();
    Registry::new(
        Name::from(&*settings.default_vhost),
        loopback_users.map(|name| Name::from(&**name)),
    )
}

/// Hashes a password for a user. Takes about 30 ms: not for a thread that serves connections.
pub(super) fn hash(password: &str) -> Password {
    Password::new(salts(), password)
}

fn salts() -> Salts {
    Salts {
        hash: random(),
        scram: random(),
    }
}

/// Options of the journal as configured. A segment has room for the largest message.
pub(super) fn store_options(settings: &Settings) -> store::StoreOptions {
    let largest = settings
        .max_message_size
        .0
        .saturating_mul(2)
        .saturating_add(1 << 20);
    let segment_bytes = settings.segment_size.0.max(largest);
    store::StoreOptions {
        segment_bytes: u32::try_from(segment_bytes).unwrap_or(u32::MAX),
        sync: match settings.sync {
            SyncSetting::Always => SyncPolicy::Always,
            SyncSetting::Interval => SyncPolicy::Interval {
                every_ms: settings.sync_interval.ms,
            },
            SyncSetting::Never => SyncPolicy::Never,
        },
        ..store::StoreOptions::default()
    }
}

/// The wait of commits for more records, as configured.
pub(super) const fn group_commit(settings: &Settings) -> GroupCommit {
    match settings.commit_delay.ms {
        0 => GroupCommit::new(GroupCommit::DELAY_US_DEFAULT),
        ms => GroupCommit::always(ms * 1_000),
    }
}

/// Where messages beyond the memory budget are evicted to, as configured.
fn paging_place(settings: &Settings, store: Option<Arc<Store>>) -> SpillTarget {
    // A restart leaves messages on disk until their turn comes, whatever the budget is by now.
    if let Some(store) = store {
        return SpillTarget::Journal(store);
    }
    if settings.memory_budget.0 == 0 {
        return SpillTarget::Nowhere;
    }
    let directory = settings
        .spill_dir
        .clone()
        .unwrap_or_else(std::env::temp_dir);
    match BrokerDisk::visit(&directory) {
        Ok(disk) => SpillTarget::Spilled(store::Spill::new(disk, seed().0)),
        Err(error) => {
            let directory = directory.display();
            tracing::warn!(%directory, %error, "messages beyond the budget stay in memory");
            SpillTarget::Nowhere
        }
    }
}

/// A node with the content of a data directory.
pub(super) fn node(
    settings: &Settings,
    registry: Registry,
    store: Option<Arc<Store>>,
    (seed, clock, kept): (Seed, SystemClock, Gauge),
) -> Node<BrokerDisk> {
    let options = options(settings, &registry, seed);
    let environment = Environment::new(registry, options).counted_by(&kept);
    tell_budget(settings);
    Node::new(NodeParts {
        clock: Arc::new(clock),
        environment,
        spill_target: paging_place(settings, store.clone()),
        store,
        memory_budget_bytes: settings.budget_in_force(),
        message_bytes_max: settings.max_message_size.0,
        core_options: core_options(settings, &Name::default(), (seed, &kept)),
        kept,
        default_queue_type: Name::from(settings.default_queue_type.to_string()),
    })
}

/// Says in the log if the memory budget is less than the setting.
pub(super) fn tell_budget(settings: &Settings) {
    let in_force = settings.budget_in_force();
    let (budget, limit) = (settings.memory_budget.0, settings.memory_limit.0);
    if in_force != budget {
        tracing::warn!(
            memory_budget = budget,
            memory_limit = limit,
            in_force,
            "memory-budget is more than half of memory-limit: messages leave memory at that half, \
             before publishers are stopped"
        );
    }
}

/// Size of the blocks that are evicted together, as a power of 2: smaller if little memory is given
/// to messages.
fn block_shift(settings: &Settings) -> u32 {
    if settings.memory_budget.0 == 0 {
        return BLOCK_SHIFT_MAX;
    }
    let slots = settings.budget_in_force() / BUDGET_OF_SLOT_BYTES;
    slots.max(1).ilog2().min(BLOCK_SHIFT_MAX)
}

/// A random seed for the hash tables of one broker.
pub(super) fn seed() -> Seed {
    Seed(u64::from_ne_bytes(random()))
}

/// A new prefix for names of temporary queues: names of an earlier start must not match these
/// queues.
fn temporary_prefix() -> String {
    format!("{TEMPORARY_PREFIX}{:032x}-", u128::from_ne_bytes(random()))
}

/// Options of a vhost's core.
pub(super) fn core_options(
    settings: &Settings,
    vhost: &Name,
    (seed, kept): (Seed, &Gauge),
) -> broker::CoreOptions {
    broker::CoreOptions {
        unsettled_max: settings.unsettled_max,
        queues_per_message_max: settings.queues_per_message_max,
        journal: settings.data_directory().is_some(),
        block_shift: block_shift(settings),
        undeliverable: undeliverable(settings),
        consumer_timeout_ms: settings.consumer_timeout.ms,
        delivery_times: !settings.strict,
        message_groups: !settings.strict,
        kept: kept.clone(),
        events: EventNumbers::of(u64::from_ne_bytes(random())),
        event_writer: event_writer(settings),
        ..broker::CoreOptions::new(vhost.clone(), seed)
    }
}

/// Writes events as messages, if they come as such.
#[cfg(feature = "http")]
fn event_writer(settings: &Settings) -> Option<EventWriter> {
    (settings.event_exchange).then_some(write_event as EventWriter)
}

/// Without the feature that writes JSON the setting is refused.
#[cfg(not(feature = "http"))]
const fn event_writer(_: &Settings) -> Option<EventWriter> {
    None
}

/// What happens to dead letters without a target, as configured.
pub(super) fn undeliverable(settings: &Settings) -> broker::Undeliverable {
    broker::Undeliverable {
        choice: match settings.undeliverable() {
            UndeliverableSetting::Drop => OnUndeliverable::Drop,
            UndeliverableSetting::Quarantine => OnUndeliverable::Quarantine,
        },
        length_max: settings.quarantine_max_length,
        bytes_max: settings.quarantine_max_bytes.0,
    }
}

/// Random bytes from the system. If it has none the broker does not start: nothing here would be
/// secret.
#[allow(
    clippy::disallowed_methods,
    reason = "secrets, salts and seeds are made here, at the edge"
)]
pub(crate) fn random<const BYTES: usize>() -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    if let Err(error) = getrandom::fill(&mut bytes) {
        panic!("the system gives no random bytes: {error}");
    }
    bytes
}

/// A random secret, kept in the memory of this broker only.
fn secret() -> Secret {
    Secret(random::<SECRET_BYTES>())
}

/// The idle timeout of connections, in milliseconds; 0: none.
pub(super) fn idle_time_out_ms(settings: &Settings) -> u32 {
    u32::try_from(settings.idle_timeout.ms).unwrap_or(u32::MAX)
}

/// The settings of gateways, as configured.
fn options(settings: &Settings, registry: &Registry, seed: Seed) -> GatewayOptions {
    let u32 = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    let anonymous_user = registry.user(&settings.anonymous_user);
    let anonymous_user = anonymous_user.map(|user| user.name.clone());
    let enabled = settings.sasl_mechanism.iter();
    let enabled = enabled.filter_map(|name| name.to_string().parse().ok());
    let mechanisms = Mechanisms {
        enabled: enabled.collect(),
        plain_without_tls: settings.plain_without_tls,
        has_anonymous: anonymous_user.is_some(),
        takes_tokens: settings.oauth2_jwks.is_some(),
    };
    let idle = idle_time_out_ms(settings);
    let link = LinkOptions {
        identity: identity(settings),
        allow_plain_amqp: !settings.require_sasl,
        max_frame_size: u32(settings.max_frame_size.0),
        channel_max: settings.channel_max,
        idle_time_out_ms: (idle > 0).then_some(idle),
        handshake_ms: settings.handshake_timeout.ms,
        partial_bytes_max: settings.max_message_size.0.saturating_mul(2),
        ..LinkOptions::default()
    };
    GatewayOptions {
        link,
        node: Name::from(&*settings.node_name),
        anonymous_user,
        mechanisms,
        secret: secret(),
        message_bytes_max: settings.max_message_size.0,
        death_evidence: match settings.evidence() {
            DeathEvidence::None => EvidenceLevel::None,
            DeathEvidence::Error => EvidenceLevel::Error,
            DeathEvidence::Full => EvidenceLevel::Full,
        },
        key_rule: if settings.strict {
            KeyRule::Strict
        } else {
            KeyRule::Specification
        },
        delivery_times: !settings.strict,
        subscriptions: !settings.strict,
        link_recovery: !settings.strict,
        transaction_timeout_ms: settings.transaction_timeout.ms,
        transaction_bytes_max: settings.transaction_max_bytes.0,
        auto_create: settings.auto_create.clone(),
        temporary_prefix: temporary_prefix(),
        counts_returns: settings.announce_rabbitmq,
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
    let text = |text: &str| Value::String(text.to_owned());
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
    let delayed = Some(DELAYED_DELIVERY).filter(|_| !settings.strict);
    let jms = JMS_CAPABILITIES.into_iter().filter(|_| !settings.strict);
    let filters = [PROPERTY_FILTERS, SQL_FILTERS];
    let further = delayed.into_iter().chain(filters).chain(jms);
    Identity {
        container_id: settings.node_name.clone(),
        offered_capabilities: CAPABILITIES.into_iter().map(Symbol::from).collect(),
        offered_if_desired: further.map(Symbol::from).collect(),
        properties: Some(fields(properties)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Qpid JMS desires delayed delivery, and delays messages only where it is offered. Others see
    /// what a RabbitMQ offers.
    #[test]
    fn what_rabbitmq_4_0_does_not_have_is_offered_to_those_that_desire_it() {
        for strict in [false, true] {
            let settings = Settings {
                strict,
                ..Settings::default()
            };
            let identity = identity(&settings);
            for (further, expect) in [
                (DELAYED_DELIVERY, !strict),
                (PROPERTY_FILTERS, true),
                (SQL_FILTERS, true),
                ("SHARED-SUBS", !strict),
                ("sole-connection-for-container", !strict),
            ] {
                let further = Symbol::from(further);
                assert_eq!(identity.offered_if_desired.contains(&further), expect);
                assert!(!identity.offered_capabilities.contains(&further));
            }
        }
    }
}
