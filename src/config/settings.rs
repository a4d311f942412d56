//! The settings of a broker, typed, with their defaults and the checks across them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::base::limits;

use super::values::{
    ByteSize, DeathEvidence, HttpListen, ListenAddress, LogFormat, PermissionEntry, QueueType,
    SaslMechanism, Span, SyncSetting, TlsLoginFrom, UiSetting, UndeliverableSetting, UserEntry,
    UserTagsEntry,
};

/// The largest message that the journal can store, in bytes: a segment must have room for it.
const STORED_MESSAGE_BYTES_MAX: u64 = 1 << 30;
/// The user of a new broker, and its password, if no user is named.
pub(crate) const GUEST: &str = "guest";
/// The tag of the first user.
const ADMINISTRATOR: &str = "administrator";
/// The longest time that a commit may wait for further records, in milliseconds.
const COMMIT_DELAY_MS_MAX: u64 = 1_000;
/// The largest segment of the journal, in bytes: offsets in it are 32 bits wide, with room to
/// spare.
const SEGMENT_BYTES_MAX: u64 = 1 << 30;
/// The registered port of AMQP over TLS.
const AMQPS_PORT: u16 = 5671;
/// In a permission: every vhost.
pub const ANY_VHOST: &str = "*";

/// All settings. [`Settings::default`] is the one source of defaults; the meaning of each setting
/// is in `config::TABLE` only.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "cli", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "cli", serde(rename_all = "kebab-case", deny_unknown_fields))]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
#[allow(
    missing_docs,
    reason = "each field is described in config::TABLE, under its own name"
)]
pub struct Settings {
    pub amqp: Vec<ListenAddress>,
    pub http: HttpListen,
    pub http_connections_max: u32,
    pub http_host: Vec<String>,
    pub ui: UiSetting,
    pub event_exchange: bool,
    pub metrics_login: bool,
    pub metrics_queues_max: u32,
    pub amqps: Vec<ListenAddress>,
    pub https: Vec<ListenAddress>,
    pub websocket: Vec<ListenAddress>,
    pub websocket_origin: Vec<String>,
    pub tls_certificate: Option<PathBuf>,
    pub tls_key: Option<PathBuf>,
    pub tls_client_ca: Option<PathBuf>,
    pub tls_client_required: bool,
    pub tls_login_from: TlsLoginFrom,
    pub data: Option<PathBuf>,
    pub in_memory: bool,
    pub sync: SyncSetting,
    pub sync_interval: Span,
    pub commit_delay: Span,
    pub checkpoint_after: ByteSize,
    pub disk_free_limit: ByteSize,
    pub segment_size: ByteSize,
    pub definitions: Option<PathBuf>,
    pub default_vhost: String,
    pub vhost: Vec<String>,
    pub user: Vec<UserEntry>,
    pub user_tags: Vec<UserTagsEntry>,
    pub permission: Vec<PermissionEntry>,
    pub loopback_user: Vec<String>,
    pub anonymous_user: String,
    pub require_sasl: bool,
    pub sasl_mechanism: Vec<SaslMechanism>,
    pub plain_without_tls: bool,
    pub oauth2_jwks: Option<String>,
    pub oauth2_https_ca: Option<PathBuf>,
    pub oauth2_resource_server_id: Option<String>,
    pub oauth2_issuer: Option<String>,
    pub oauth2_verify_aud: bool,
    pub oauth2_scope_prefix: Option<String>,
    pub oauth2_additional_scopes_key: Option<String>,
    pub oauth2_preferred_username_claims: Vec<String>,
    pub max_message_size: ByteSize,
    pub max_frame_size: ByteSize,
    pub channel_max: u16,
    pub idle_timeout: Span,
    pub handshake_timeout: Span,
    pub connections_max: u32,
    pub unsettled_max: u32,
    pub queues_per_message_max: u32,
    pub outbox_bytes: ByteSize,
    pub memory_budget: ByteSize,
    pub spill_dir: Option<PathBuf>,
    pub memory_limit: ByteSize,
    pub default_queue_type: QueueType,
    pub auto_create: Vec<String>,
    pub strict: bool,
    pub death_evidence: Option<DeathEvidence>,
    pub on_undeliverable: Option<UndeliverableSetting>,
    pub quarantine_max_length: u64,
    pub quarantine_max_bytes: ByteSize,
    pub consumer_timeout: Span,
    pub transaction_timeout: Span,
    pub transaction_max_bytes: ByteSize,
    pub node_name: String,
    pub announce_product: String,
    pub announce_version: String,
    pub announce_rabbitmq: bool,
    pub workers: u16,
    pub shutdown_timeout: Span,
    pub log: String,
    pub log_format: LogFormat,
    pub frame_trace: bool,
    pub stats_interval: Span,
    /// The interval of samples for rates, `collect-statistics-interval`.
    pub collect_statistics_interval: Span,
}

/// All mechanisms, the strongest first.
const SASL_MECHANISMS: [SaslMechanism; 7] = [
    SaslMechanism::External,
    SaslMechanism::ScramSha512,
    SaslMechanism::ScramSha256,
    SaslMechanism::Plain,
    SaslMechanism::OAuthBearer,
    SaslMechanism::XOAuth2,
    SaslMechanism::Anonymous,
];

impl Default for Settings {
    #[allow(clippy::too_many_lines, reason = "a table: one line for each setting")]
    fn default() -> Self {
        Self {
            amqp: "127.0.0.1:5672".parse().into_iter().collect(),
            http: HttpListen::Auto,
            http_connections_max: 256,
            http_host: Vec::new(),
            ui: UiSetting::On,
            event_exchange: false,
            metrics_login: false,
            metrics_queues_max: 1_000,
            amqps: Vec::new(),
            https: Vec::new(),
            websocket: Vec::new(),
            websocket_origin: Vec::new(),
            tls_certificate: None,
            tls_key: None,
            tls_client_ca: None,
            tls_client_required: false,
            tls_login_from: TlsLoginFrom::CommonName,
            data: None,
            in_memory: false,
            sync: SyncSetting::Always,
            sync_interval: Span::seconds(1),
            commit_delay: Span { ms: 0 },
            checkpoint_after: ByteSize(64 << 20),
            disk_free_limit: ByteSize(50_000_000),
            segment_size: ByteSize(32 << 20),
            definitions: None,
            default_vhost: "/".to_owned(),
            vhost: Vec::new(),
            user: Vec::new(),
            user_tags: Vec::new(),
            permission: Vec::new(),
            loopback_user: vec!["guest".to_owned()],
            anonymous_user: "guest".to_owned(),
            require_sasl: true,
            sasl_mechanism: SASL_MECHANISMS.to_vec(),
            plain_without_tls: false,
            oauth2_jwks: None,
            oauth2_https_ca: None,
            oauth2_resource_server_id: None,
            oauth2_issuer: None,
            oauth2_verify_aud: true,
            oauth2_scope_prefix: None,
            oauth2_additional_scopes_key: None,
            oauth2_preferred_username_claims: Vec::new(),
            max_message_size: ByteSize(limits::MESSAGE_BYTES_DEFAULT),
            max_frame_size: ByteSize(limits::FRAME_BYTES_DEFAULT.into()),
            channel_max: limits::CHANNEL_MAX_DEFAULT,
            idle_timeout: Span::seconds(30),
            handshake_timeout: Span::seconds(10),
            connections_max: 10_000,
            unsettled_max: limits::UNSETTLED_MAX,
            queues_per_message_max: limits::ROUTED_QUEUES_MAX,
            outbox_bytes: ByteSize(limits::OUTBOX_BYTES_MAX),
            memory_budget: ByteSize(128 << 20),
            spill_dir: None,
            memory_limit: ByteSize(2 << 30),
            default_queue_type: QueueType::Classic,
            auto_create: Vec::new(),
            strict: false,
            death_evidence: None,
            on_undeliverable: None,
            quarantine_max_length: limits::QUARANTINE_LENGTH_DEFAULT,
            quarantine_max_bytes: ByteSize(limits::QUARANTINE_BYTES_DEFAULT),
            consumer_timeout: Span::seconds(1_800),
            transaction_timeout: Span::seconds(60),
            transaction_max_bytes: ByteSize(limits::TRANSACTION_BYTES_DEFAULT),
            node_name: "coroner@localhost".to_owned(),
            announce_product: "Coroner".to_owned(),
            announce_version: env!("CARGO_PKG_VERSION").to_owned(),
            announce_rabbitmq: false,
            workers: 0,
            shutdown_timeout: Span::seconds(5),
            log: "info".to_owned(),
            log_format: LogFormat::Text,
            frame_trace: false,
            stats_interval: Span::seconds(60),
            collect_statistics_interval: Span::seconds(5),
        }
    }
}

impl Settings {
    /// The directory of durable data; none if messages are to live in memory.
    pub fn data_directory(&self) -> Option<&Path> {
        self.data.as_deref().filter(|_| !self.in_memory)
    }

    /// The memory that messages may take before the newest leave it, in bytes; 0: they stay. A budget
    /// above the limit would never be reached: messages that are read back would keep the memory alarm
    /// up, and nothing that publishers wait for would ever leave.
    pub(crate) const fn budget_in_force(&self) -> u64 {
        let (budget, limit) = (self.memory_budget.0, self.memory_limit.0);
        let most = limit / limits::MEMORY_BUDGET_PART;
        if budget == 0 || limit == 0 || budget <= most {
            budget
        } else if most == 0 {
            1 // 0 is no budget
        } else {
            most
        }
    }

    fn problem_with_transactions(&self) -> Option<(&'static str, String)> {
        if self.transaction_timeout.ms == 0 {
            let why = "no transaction could ever be discharged".to_owned();
            return Some(("transaction-timeout", why));
        }
        if !(1..=limits::TRANSACTIONS_USER_BYTES_MAX).contains(&self.transaction_max_bytes.0) {
            let why = format!(
                "a transaction takes 1 to {} bytes, which is what all of one user may take",
                limits::TRANSACTIONS_USER_BYTES_MAX
            );
            return Some(("transaction-max-bytes", why));
        }
        None
    }

    /// The first setting that is invalid by itself or in combination with another: its name and
    /// what is wrong.
    pub fn problem(&self) -> Option<(&'static str, String)> {
        let frame = u64::from(limits::FRAME_BYTES_MIN)..=u64::from(u32::MAX);
        if !frame.contains(&self.max_frame_size.0) {
            return Some(("max-frame-size", "this is outside its range".to_owned()));
        }
        if self.max_message_size.0 == 0 {
            return Some(("max-message-size", "no message is that small".to_owned()));
        }
        if self.data_directory().is_some() && self.max_message_size.0 > STORED_MESSAGE_BYTES_MAX {
            let why = "with a data directory messages have at most 1GiB".to_owned();
            return Some(("max-message-size", why));
        }
        if self.segment_size.0 > SEGMENT_BYTES_MAX {
            return Some(("segment-size", "it is at most 1GiB".to_owned()));
        }
        if self.sync == SyncSetting::Interval && self.sync_interval.ms == 0 {
            let why = "an interval takes some time; --sync always syncs each commit".to_owned();
            return Some(("sync-interval", why));
        }
        if self.commit_delay.ms > COMMIT_DELAY_MS_MAX {
            let why = "publishers would wait longer than a second".to_owned();
            return Some(("commit-delay", why));
        }
        if self.unsettled_max == 0 {
            return Some((
                "unsettled-max",
                "nothing could ever be delivered".to_owned(),
            ));
        }
        if !(1..=limits::ROUTED_QUEUES_MAX).contains(&self.queues_per_message_max) {
            let why = format!(
                "a message goes to 1 to {} queues",
                limits::ROUTED_QUEUES_MAX
            );
            return Some(("queues-per-message-max", why));
        }
        if let Some(problem) = self.problem_with_transactions() {
            return Some(problem);
        }
        if self.connections_max == 0 {
            return Some(("connections-max", "nobody could ever connect".to_owned()));
        }
        if self.http_connections_max == 0 {
            let why = "nobody could ever connect; --http off switches HTTP off".to_owned();
            return Some(("http-connections-max", why));
        }
        if self.handshake_timeout.ms == 0 {
            return Some((
                "handshake-timeout",
                "a handshake needs some time".to_owned(),
            ));
        }
        if self.idle_timeout.ms > u64::from(u32::MAX) {
            return Some(("idle-timeout", "this is too long".to_owned()));
        }
        if self.node_name.is_empty() {
            return Some(("node-name", "it is empty".to_owned()));
        }
        self.quarantine_problem()
            .or_else(|| self.tls_problem())
            .or_else(|| self.oauth2_problem())
            .or_else(|| self.name_problem())
            .or_else(|| self.user_tags_problem())
            .or_else(|| self.permission_problem())
    }

    fn quarantine_problem(&self) -> Option<(&'static str, String)> {
        let limits = [
            ("quarantine-max-length", self.quarantine_max_length),
            ("quarantine-max-bytes", self.quarantine_max_bytes.0),
        ];
        let (name, _) = limits.into_iter().find(|(_, limit)| *limit == 0)?;
        let why = "nothing could ever be kept; --on-undeliverable drop switches the quarantine off";
        Some((name, why.to_owned()))
    }

    fn tls_problem(&self) -> Option<(&'static str, String)> {
        let (certificate, key) = (self.tls_certificate.is_some(), self.tls_key.is_some());
        let missing = |name, what: &str| Some((name, format!("it needs {what}")));
        match (certificate, key) {
            (true, false) => return missing("tls-certificate", "tls-key beside it"),
            (false, true) => return missing("tls-key", "tls-certificate beside it"),
            (false, false) if !self.amqps.is_empty() => {
                return missing("amqps", "tls-certificate and tls-key");
            }
            (false, false) if !self.https.is_empty() => {
                return missing("https", "tls-certificate and tls-key");
            }
            (false, false) if self.tls_client_ca.is_some() => {
                return missing("tls-client-ca", "tls-certificate and tls-key");
            }
            _ => {}
        }
        if self.tls_client_required && self.tls_client_ca.is_none() {
            return missing("tls-client-required", "tls-client-ca to verify them");
        }
        None
    }

    fn oauth2_problem(&self) -> Option<(&'static str, String)> {
        let needs = |name, what: &str| Some((name, format!("it needs {what}")));
        let Some(jwks) = &self.oauth2_jwks else {
            let given = [
                ("oauth2-https-ca", self.oauth2_https_ca.is_some()),
                (
                    "oauth2-resource-server-id",
                    self.oauth2_resource_server_id.is_some(),
                ),
                ("oauth2-issuer", self.oauth2_issuer.is_some()),
                ("oauth2-verify-aud", !self.oauth2_verify_aud),
                ("oauth2-scope-prefix", self.oauth2_scope_prefix.is_some()),
                (
                    "oauth2-additional-scopes-key",
                    self.oauth2_additional_scopes_key.is_some(),
                ),
                (
                    "oauth2-preferred-username-claims",
                    !self.oauth2_preferred_username_claims.is_empty(),
                ),
            ];
            let (name, _) = given.into_iter().find(|(_, is_given)| *is_given)?;
            return needs(name, "oauth2-jwks: without it no tokens are taken");
        };
        if jwks.is_empty() {
            return Some((
                "oauth2-jwks",
                "it names neither a file nor a URL".to_owned(),
            ));
        }
        if let Some(rest) = jwks.strip_prefix("http://")
            && !is_loopback(rest)
        {
            let why = "keys are fetched over https, or over http from this machine only";
            return Some(("oauth2-jwks", why.to_owned()));
        }
        let id = self.oauth2_resource_server_id.as_deref();
        if id.is_none_or(str::is_empty) {
            let why = "oauth2-resource-server-id, the name of this broker in tokens";
            return needs("oauth2-jwks", why);
        }
        let key = self.oauth2_additional_scopes_key.as_deref();
        if key.is_some_and(|key| key.split('.').any(str::is_empty)) {
            let why = "a name in it is empty".to_owned();
            return Some(("oauth2-additional-scopes-key", why));
        }
        let mut claims = self.oauth2_preferred_username_claims.iter();
        if claims.any(String::is_empty) {
            let why = "a name is empty".to_owned();
            return Some(("oauth2-preferred-username-claims", why));
        }
        None
    }

    /// What stands in front of the scopes of this broker: as set, or else its name and a dot.
    pub(crate) fn oauth2_scope_prefix(&self) -> String {
        match (&self.oauth2_scope_prefix, &self.oauth2_resource_server_id) {
            (Some(prefix), _) => prefix.clone(),
            (None, Some(id)) => format!("{id}."),
            (None, None) => String::new(),
        }
    }

    /// The addresses for AMQP over TLS: as set; otherwise, with a certificate, port 5671 of each
    /// address of AMQP without TLS.
    pub fn amqps_addresses(&self) -> Vec<ListenAddress> {
        if self.amqps.is_empty() && self.tls_certificate.is_some() {
            let hosts: BTreeSet<_> = self.amqp.iter().map(ListenAddress::host).collect();
            let beside = |host: &str| ListenAddress::new(host, AMQPS_PORT);
            return hosts.into_iter().map(beside).collect();
        }
        self.amqps.clone()
    }

    fn name_problem(&self) -> Option<(&'static str, String)> {
        if self.default_vhost.is_empty() {
            return Some(("default-vhost", "the name is empty".to_owned()));
        }
        if self.vhost.iter().any(String::is_empty) {
            return Some(("vhost", "a name is empty".to_owned()));
        }
        let bad = self.auto_create.iter().find(|pattern| {
            let words = || pattern.split('.');
            pattern.is_empty()
                || pattern.starts_with('/')
                || words().any(|word| word.len() > 1 && word.contains(['*', '#']))
        });
        bad.map(|pattern| {
            (
                "auto-create",
                format!("'{pattern}' is not a pattern of names"),
            )
        })
    }

    fn user_tags_problem(&self) -> Option<(&'static str, String)> {
        for (index, entry) in self.user_tags.iter().enumerate() {
            let name = &entry.user;
            if !self.users(true).any(|user| user.name == *name) {
                return Some(("user-tags", format!("there is no user '{name}'")));
            }
            let mut earlier = self.user_tags.iter().take(index);
            if earlier.any(|other| other.user == *name) {
                return Some(("user-tags", format!("the user '{name}' has tags already")));
            }
        }
        None
    }

    fn permission_problem(&self) -> Option<(&'static str, String)> {
        for entry in &self.permission {
            if !self.users(true).any(|user| user.name == entry.user) {
                return Some(("permission", format!("there is no user '{}'", entry.user)));
            }
            let known = entry.vhost == ANY_VHOST || self.vhosts().any(|name| name == entry.vhost);
            if !known {
                return Some(("permission", format!("there is no vhost '{}'", entry.vhost)));
            }
        }
        None
    }

    /// How much evidence of deaths a receiver gets that does not ask for a level: by default the
    /// error, and none where RabbitMQ's rules are kept.
    pub fn evidence(&self) -> DeathEvidence {
        let unset = if self.strict {
            DeathEvidence::None
        } else {
            DeathEvidence::Error
        };
        self.death_evidence.unwrap_or(unset)
    }

    /// What happens to dead letters without a target, unless their queue sets it: by default they
    /// are quarantined, and dropped where RabbitMQ's rules are kept.
    pub fn undeliverable(&self) -> UndeliverableSetting {
        let unset = if self.strict {
            UndeliverableSetting::Drop
        } else {
            UndeliverableSetting::Quarantine
        };
        self.on_undeliverable.unwrap_or(unset)
    }

    /// The default vhost and all others, each once.
    pub fn vhosts(&self) -> impl Iterator<Item = &str> {
        let others = self.vhost.iter().enumerate().filter(|(index, name)| {
            **name != self.default_vhost && !self.vhost.iter().take(*index).any(|n| n == *name)
        });
        std::iter::once(self.default_vhost.as_str()).chain(others.map(|(_, name)| name.as_str()))
    }

    /// The tags that a user of the settings is created with. Over HTTP they permit what
    /// `permission` forbids, so they must be named; only the first user needs none, unless it is
    /// restricted.
    pub fn tags(&self, user: &str) -> Vec<&str> {
        let entry = self.user_tags.iter().find(|entry| entry.user == user);
        if let Some(entry) = entry {
            return entry.tags.iter().map(String::as_str).collect();
        }
        let is_first = self
            .users(true)
            .next()
            .is_some_and(|first| first.name == user);
        let is_restricted = self.permission.iter().any(|entry| entry.user == user);
        if self.user_tags.is_empty() && is_first && !is_restricted {
            return vec![ADMINISTRATOR];
        }
        Vec::new()
    }

    /// The users to create if missing: those that are named; without any, `guest` where `is_fresh`,
    /// so that a deleted guest stays so.
    pub fn users(&self, is_fresh: bool) -> impl Iterator<Item = UserEntry> {
        let guest = UserEntry {
            name: GUEST.to_owned(),
            password: GUEST.to_owned(),
        };
        let guest = Some(guest).filter(|_| is_fresh && self.user.is_empty());
        self.user.iter().cloned().chain(guest)
    }
}

/// Whether the host in front of a path, behind `http://`, is this machine.
fn is_loopback(rest: &str) -> bool {
    let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    if authority.contains('@') {
        return false;
    }
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    let address: Option<std::net::IpAddr> = host.parse().ok();
    host.eq_ignore_ascii_case("localhost") || address.is_some_and(|address| address.is_loopback())
}
