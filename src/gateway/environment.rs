//! What all gateways of one broker share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::audit::AuditLog;
use super::counters::OpenLinks;
use super::foreign::ForeignPeers;
use super::pattern::NamePatterns;
use super::seats::Seats;
use super::streaming_body::Bodies;
use crate::access::{Attempts, LoginError, LoginGuard, LoginWay, Mechanisms, Peer, Secret};
use crate::base::locks::{RankedMutex, RankedRwLock, rank};
use crate::base::{Gauge, Millis, Name, Seed};
use crate::broker::registry::{Registry, RegistryFact};
use crate::deaths::EvidenceLevel;
use crate::link::LinkOptions;
use crate::message::KeyRule;

/// Characters of a refused user's name that are logged.
const USER_LOGGED_CHARS: usize = 64;

/// How gateways behave.
#[derive(Clone, Debug)]
pub struct GatewayOptions {
    /// The link engine's options.
    pub link: LinkOptions,
    /// The broker's name, for management answers.
    pub node: Name,
    /// User of peers without a login; none: they are refused.
    pub anonymous_user: Option<Name>,
    /// SASL mechanisms; what the peer is offered of them takes the place of `link.mechanisms`.
    pub mechanisms: Mechanisms,
    /// Random bytes that nobody else has.
    pub secret: Secret,
    /// Largest message that is taken, in bytes.
    pub message_bytes_max: u64,
    /// How much evidence of deaths receivers get that do not say.
    pub death_evidence: EvidenceLevel,
    /// Which annotation keys publishers may send.
    pub key_rule: KeyRule,
    /// Patterns of bare names that are queues, created when missing; default none.
    pub auto_create: Vec<String>,
    /// What names of temporary queues begin with; no two starts of a broker have the same.
    pub temporary_prefix: String,
    /// `x-delivery-count` of messages in quorum queues counts every return, as a RabbitMQ before 4.3 does,
    /// and not only those that failed.
    pub counts_returns: bool,
    /// Bytes assigned to a connection and not yet written.
    pub outbox_bytes: u64,
    /// Seed of hashers.
    pub seed: Seed,
}

/// What all gateways of one broker share: the registry, the options, the next id.
#[derive(Debug)]
pub struct Environment {
    /// Held for a look only.
    registry: RankedRwLock<rank::Registry, Arc<Registry>>,
    /// Where its memory is counted, and what was counted last: written under its lock.
    registry_kept: (Gauge, AtomicU64),
    /// Rises with each change of the registry.
    generation: AtomicU64,
    /// How gateways behave.
    pub options: GatewayOptions,
    /// The idle-time-out of connections from now on, in milliseconds; 0: none. It begins as the
    /// link's options say.
    idle_time_out_ms: AtomicU32,
    /// Links attached now.
    pub open_links: OpenLinks,
    /// Who may try to log in.
    pub guard: RankedMutex<rank::LoginGuard, LoginGuard>,
    /// What was tried, for operators to look at and set back.
    pub attempts: RankedMutex<rank::LoginAttempts, Attempts>,
    /// What users asked for, and whether they may.
    pub audit: AuditLog,
    pub(super) foreign: ForeignPeers,
    pub(super) auto_create: NamePatterns,
    pub(super) seats: Arc<Seats>,
    /// Where large bodies are streamed; none: nowhere.
    pub(super) bodies: Option<Arc<dyn Bodies>>,
    /// Messages that are being streamed.
    pub(super) streaming: Arc<AtomicU32>,
    ids: AtomicU64,
}

impl Environment {
    /// The idle-time-out that a new connection announces.
    pub fn idle_time_out_ms(&self) -> Option<u32> {
        let idle = self.idle_time_out_ms.load(Ordering::Relaxed);
        (idle > 0).then_some(idle)
    }

    /// Another one for connections from now on; 0: none.
    pub fn set_idle_time_out_ms(&self, idle: u32) {
        self.idle_time_out_ms.store(idle, Ordering::Relaxed);
    }

    /// An environment around a registry.
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
            seats: Arc::default(),
            bodies: None,
            streaming: Arc::default(),
            ids: AtomicU64::new(1),
        }
    }

    /// The same; what its registry takes is counted there.
    #[must_use]
    pub fn counted_by(self, gauge: &Gauge) -> Self {
        let bytes = self.registry().kept_bytes();
        gauge.change(0, bytes);
        Self {
            registry_kept: (gauge.clone(), AtomicU64::new(bytes)),
            ..self
        }
    }

    /// The same; bodies of large durable messages are streamed to these.
    #[must_use]
    pub fn with_bodies(self, bodies: Option<Arc<dyn Bodies>>) -> Self {
        Self { bodies, ..self }
    }

    /// Vhosts, users and permissions as they are now.
    pub fn registry(&self) -> Arc<Registry> {
        Arc::clone(&self.registry.read())
    }

    /// Makes facts about the registry true, all at once. Connections see them from their next
    /// operation on.
    pub fn change_registry(&self, facts: impl IntoIterator<Item = RegistryFact>) {
        let mut registry = self.registry.write();
        let changed = Arc::make_mut(&mut registry);
        for fact in facts {
            changed.apply(fact);
        }
        let (gauge, counted) = &self.registry_kept;
        let bytes = changed.kept_bytes();
        gauge.change(counted.swap(bytes, Ordering::Relaxed), bytes);
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Rises with each change of the registry.
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Connections that are open in a vhost.
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

    /// Ends a second of the lines about who may not: what had none is told by number.
    pub fn tell_rest(&self) {
        let refusals = self.guard.lock().take_unsaid();
        if refusals > 0 {
            tracing::warn!(refusals, "more logins were refused");
        }
        self.audit.tell_rest();
    }

    /// A number that was not given before.
    pub fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }
}
