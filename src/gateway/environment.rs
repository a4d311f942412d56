//! The environment that all gateways of one broker share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::audit::AuditLog;
use super::counters::OpenLinks;
use super::foreign::ForeignPeers;
use super::pattern::NamePatterns;
use super::resumable::ResumableLinks;
use super::seats::Seats;
use super::streaming_body::Bodies;
use crate::access::{Attempts, LoginError, LoginGuard, LoginWay, Mechanisms, Peer, Secret};
use crate::base::locks::{RankedMutex, RankedRwLock, rank};
use crate::base::{Gauge, Millis, Name, Seed};
use crate::broker::Core;
use crate::broker::registry::{Registry, RegistryFact};
use crate::deaths::EvidenceLevel;
use crate::link::LinkOptions;
use crate::message::KeyRule;

/// Characters of a refused user's name that are logged, at most.
const USER_LOGGED_CHARS: usize = 64;

/// Settings of gateways.
#[derive(Clone, Debug)]
pub struct GatewayOptions {
    /// The link engine's options.
    pub link: LinkOptions,
    /// The broker's name in management answers.
    pub node: Name,
    /// User of peers that do not log in; none: they are refused.
    pub anonymous_user: Option<Name>,
    /// The SASL mechanisms that are enabled; `link.mechanisms` is replaced by those offered to a
    /// peer.
    pub mechanisms: Mechanisms,
    /// Random secret of this broker.
    pub secret: Secret,
    /// Size of the largest message that is accepted, in bytes.
    pub message_bytes_max: u64,
    /// How much evidence of deaths a receiver gets that does not ask for a level.
    pub death_evidence: EvidenceLevel,
    /// Which annotation keys publishers may send.
    pub key_rule: KeyRule,
    /// Whether publishers may say when their messages are delivered.
    pub delivery_times: bool,
    /// Whether receivers may subscribe: exchanges as sources, topics, durable and shared
    /// subscriptions, client ids of one connection only.
    pub subscriptions: bool,
    /// Whether links of publishers may outlive their connection. [AMQP 2.6.13]
    pub link_recovery: bool,
    /// Time from the declaration of a transaction to its discharge, in milliseconds.
    pub transaction_timeout_ms: u64,
    /// Bytes of one transaction before it is committed.
    pub transaction_bytes_max: u64,
    /// Patterns of bare names that are queues, declared when they do not exist; default none.
    pub auto_create: Vec<String>,
    /// Prefix of the names of temporary queues; different at each start of a broker.
    pub temporary_prefix: String,
    /// Whether `x-delivery-count` of messages in quorum queues counts every return, as in a
    /// RabbitMQ before 4.3, and not only failed deliveries.
    pub counts_returns: bool,
    /// Bound of the bytes that are assigned to a connection and not yet written.
    pub outbox_bytes: u64,
    /// Seed of hash tables.
    pub seed: Seed,
}

/// What all gateways of one broker share: the registry, the settings, the next id.
#[derive(Debug)]
pub struct Environment {
    /// The registry; the lock is held only to clone the `Arc`.
    registry: RankedRwLock<rank::Registry, Arc<Registry>>,
    /// The gauge of the registry's memory, and the bytes charged last: written under the registry's
    /// lock.
    registry_kept: (Gauge, AtomicU64),
    /// Number of changes of the registry so far.
    generation: AtomicU64,
    /// Settings of gateways.
    pub options: GatewayOptions,
    /// The idle timeout of new connections, in milliseconds; 0: none. Its first value is that of
    /// the link's options.
    idle_time_out_ms: AtomicU32,
    /// Numbers of attached links.
    pub open_links: OpenLinks,
    /// Limits failed logins by address and user.
    pub guard: RankedMutex<rank::LoginGuard, LoginGuard>,
    /// Login attempts, for operators to list and reset.
    pub attempts: RankedMutex<rank::LoginAttempts, Attempts>,
    /// The audit log of users' requests.
    pub audit: AuditLog,
    pub(super) foreign: ForeignPeers,
    pub(super) auto_create: NamePatterns,
    /// Links of publishers that outlive their connections.
    pub(super) resumable: ResumableLinks,
    pub(super) seats: Arc<Seats>,
    /// The journal, where large bodies are streamed to; none: they are kept in memory.
    pub(super) bodies: Option<Arc<dyn Bodies>>,
    /// Number of messages that are being streamed in.
    pub(super) streaming: Arc<AtomicU32>,
    ids: AtomicU64,
}

impl Environment {
    /// The idle timeout that a new connection announces, in milliseconds; none: it announces none.
    pub fn idle_time_out_ms(&self) -> Option<u32> {
        let idle = self.idle_time_out_ms.load(Ordering::Relaxed);
        (idle > 0).then_some(idle)
    }

    /// Sets the idle timeout of new connections, in milliseconds; 0: none.
    pub fn set_idle_time_out_ms(&self, idle: u32) {
        self.idle_time_out_ms.store(idle, Ordering::Relaxed);
    }

    /// An environment with this registry.
    pub fn new(registry: Registry, options: GatewayOptions) -> Self {
        let auto_create = NamePatterns::new(&options.auto_create);
        Self {
            registry: RankedRwLock::new(Arc::new(registry)),
            registry_kept: (Gauge::default(), AtomicU64::new(0)),
            generation: AtomicU64::new(1),
            guard: RankedMutex::new(LoginGuard::new(options.seed, options.secret.clone())),
            idle_time_out_ms: AtomicU32::new(options.link.idle_time_out_ms.unwrap_or(0)),
            options,
            open_links: OpenLinks::default(),
            attempts: RankedMutex::default(),
            audit: AuditLog::default(),
            foreign: ForeignPeers::default(),
            auto_create,
            resumable: ResumableLinks::default(),
            seats: Arc::default(),
            bodies: None,
            streaming: Arc::default(),
            ids: AtomicU64::new(1),
        }
    }

    /// The same, with the memory of the registry charged to this gauge.
    #[must_use]
    pub fn counted_by(self, gauge: &Gauge) -> Self {
        let bytes = self.registry().kept_bytes();
        gauge.change(0, bytes);
        Self {
            registry_kept: (gauge.clone(), AtomicU64::new(bytes)),
            ..self
        }
    }

    /// The same, with bodies of large durable messages streamed to these.
    #[must_use]
    pub fn with_bodies(self, bodies: Option<Arc<dyn Bodies>>) -> Self {
        Self { bodies, ..self }
    }

    /// The current vhosts, users and permissions.
    pub fn registry(&self) -> Arc<Registry> {
        Arc::clone(&self.registry.read())
    }

    /// Applies facts to the registry, all at once. Connections see them from their next operation
    /// on.
    pub fn change_registry(&self, facts: impl IntoIterator<Item = RegistryFact>) {
        let mut registry = self.registry.write();
        let changed = Arc::make_mut(&mut registry);
        let mut gone = Vec::new();
        for fact in facts {
            if let RegistryFact::VhostDeleted { .. } | RegistryFact::UserDeleted { .. } = &fact {
                gone.push(fact.clone());
            }
            changed.apply(fact);
        }
        let (gauge, counted) = &self.registry_kept;
        let bytes = changed.kept_bytes();
        gauge.change(counted.swap(bytes, Ordering::Relaxed), bytes);
        self.generation.fetch_add(1, Ordering::Release);
        drop(registry);
        for fact in gone {
            self.resumable.forget_of(&fact);
        }
    }

    /// Forgets the links whose time is over that outlived their connections. To be called now and then:
    /// they take memory until then. Returns those that the journal has: vhost and number.
    pub fn expire_links(&self, now: Millis) -> Vec<(Name, u64)> {
        self.resumable.expire(now)
    }

    /// Takes over the links of a vhost that outlived the broker before. Returns the numbers of those that
    /// are not kept any more: newer ones have their names.
    pub fn restore_links(&self, now: Millis, core: &Core) -> Vec<u64> {
        self.resumable.restore_all((now, self.kept()), core)
    }

    /// Whether there is a journal.
    pub(super) const fn has_journal(&self) -> bool {
        self.bodies.is_some()
    }

    /// A number that rises with each change of the registry.
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Number of connections that are open in a vhost.
    pub fn connections_in(&self, vhost: &str) -> u64 {
        self.seats.in_vhost(vhost)
    }

    /// Where memory is counted that is no message.
    pub(super) const fn kept(&self) -> &Gauge {
        &self.registry_kept.0
    }

    /// Counts what became of a login, and logs refusals: a few each second, never a password. That a
    /// proof was wrong counts when it is judged: [`LoginGuard::charge`].
    pub fn note_login(
        &self,
        now: Millis,
        peer: &Peer,
        (way, user): (LoginWay, &str),
        verdict: Result<(), LoginError>,
    ) {
        let mut guard = self.guard.lock();
        let refusals = guard.note_result(now, way, verdict);
        drop(guard);
        let mut attempts = self.attempts.lock();
        attempts.note(way, peer.address.ip(), user, verdict.is_ok());
        drop(attempts);
        if verdict.is_err() {
            self.audit.begin();
        }
        if let (Err(error), Some(refusals)) = (verdict, refusals) {
            let address = peer.address;
            let user: String = user.chars().take(USER_LOGGED_CHARS).collect();
            let mechanism = way.as_str();
            tracing::warn!(%error, ?user, %address, mechanism, refusals, "login refused");
        }
    }

    /// Ends a second of refusals in the log: those without a line of their own are logged as a
    /// number.
    pub fn tell_rest(&self) {
        let refusals = self.guard.lock().take_unsaid();
        if refusals > 0 {
            tracing::warn!(refusals, "more logins were refused");
        }
        self.audit.tell_rest();
    }

    /// A new number, unique in this broker.
    pub fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }
}
