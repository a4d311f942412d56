//! The table of all settings, with their meanings and values: the one source for flags, environment
//! variables, file keys, `--help` and error messages.

/// The syntax of a setting's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SettingSyntax {
    /// A single text.
    Text,
    /// Several texts: a flag may be repeated, a file has an array, the environment commas, numbered
    /// variables or a JSON array.
    List,
    /// An integer, in digits.
    Integer,
    /// `true` or `false`, also as `yes`, `on` and `1`; the flag alone means `true`.
    Switch,
}

/// One setting of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key {
    /// The setting's name: `--NAME`, `CORONER_NAME` with `_` for `-`, `NAME = ...` in the file.
    pub name: &'static str,
    /// The syntax of its value.
    pub shape: SettingSyntax,
    /// Placeholder for the value in `--help`.
    pub value_name: &'static str,
    /// The values it takes, for error messages.
    pub takes: &'static str,
    /// The meaning, for `--help` and the documentation.
    pub help: &'static str,
}

impl Key {
    /// The environment variable of this setting.
    pub fn variable(&self) -> String {
        format!("CORONER_{}", self.name.replace('-', "_").to_uppercase())
    }
}

/// The setting of that name.
pub fn find(name: &str) -> Option<&'static Key> {
    TABLE.iter().find(|key| key.name == name)
}

const fn key(
    name: &'static str,
    shape: SettingSyntax,
    value_name: &'static str,
    takes: &'static str,
    help: &'static str,
) -> Key {
    Key {
        name,
        shape,
        value_name,
        takes,
        help,
    }
}

/// The settings that also take a share of the memory, such as 40%.
pub(super) const SHARES_OF_MEMORY: [&str; 2] = ["memory-budget", "memory-limit"];

const SIZE: &str = "a number of bytes such as 131072, 64KiB, 512MB or 2GiB";
const MEMORY: &str =
    "a number of bytes such as 512MB or 2GiB, or a share of the memory such as 40%";
const SWITCH: &str = "true or false";

/// The headings that the settings stand under in `--help` and in `contrib/coroner.toml`, each with the
/// first setting below it, in the order of [`TABLE`].
pub const HEADINGS: &[(&str, &str)] = &[
    ("Listening", "amqp"),
    ("TLS", "tls-certificate"),
    ("Users and logins", "user"),
    ("Tokens of OAuth 2", "oauth2-jwks"),
    ("Data on disk", "data"),
    ("Memory", "memory-budget"),
    ("Vhosts and queues", "definitions"),
    ("Limits and time-outs", "max-message-size"),
    ("Announced to clients", "node-name"),
    ("Threads, logs and statistics", "workers"),
];

/// Every setting, in the order of `--help`.
pub const TABLE: &[Key] = &[
    key(
        "amqp",
        SettingSyntax::List,
        "ADDR:PORT",
        "ADDR:PORT such as 127.0.0.1:5672; port 0 lets the system choose",
        "Listen for AMQP 1.0 here; repeatable. Port 0 lets the system choose: the port is printed",
    ),
    key(
        "amqps",
        SettingSyntax::List,
        "ADDR:PORT",
        "ADDR:PORT such as 0.0.0.0:5671; port 0 lets the system choose",
        "Listen for AMQP 1.0 over TLS here; repeatable. Without it, a certificate alone opens port \
         5671 beside each --amqp",
    ),
    key(
        "http",
        SettingSyntax::Text,
        "ADDR:PORT",
        "ADDR:PORT such as 127.0.0.1:15672, auto, or off; port 0 lets the system choose",
        "Serve the HTTP API here; off switches it off; auto is 127.0.0.1:15672, or nowhere when \
         another process has that",
    ),
    key(
        "https",
        SettingSyntax::List,
        "ADDR:PORT",
        "ADDR:PORT such as 0.0.0.0:15671; port 0 lets the system choose",
        "Serve the HTTP API over TLS here; repeatable",
    ),
    key(
        "websocket",
        SettingSyntax::List,
        "ADDR:PORT",
        "ADDR:PORT such as 0.0.0.0:15673; port 0 lets the system choose",
        "Listen for AMQP 1.0 over WebSocket (subprotocol amqp) here, at any path; repeatable. The ports of the \
         HTTP API have it at /amqp, over TLS too",
    ),
    key(
        "websocket-origin",
        SettingSyntax::List,
        "ORIGIN",
        "an origin such as https://app.example, or * for all",
        "Origin of web pages whose scripts may open a WebSocket, beside pages of this broker's own host; \
         * lets all; repeatable",
    ),
    key(
        "http-host",
        SettingSyntax::List,
        "NAME",
        "a host name such as broker.example",
        "Name under which HTTP clients may ask over a loopback address, beside localhost and IP \
         addresses: what a proxy on this machine sends as Host; repeatable",
    ),
    key(
        "ui",
        SettingSyntax::Text,
        "on|off",
        "on or off",
        "Serve the page for browsers at /ui/ beside the HTTP API; off serves the API alone",
    ),
    key(
        "event-exchange",
        SettingSyntax::Switch,
        "BOOL",
        SWITCH,
        "Publish each event as a message to the internal topic exchange amq.coroner.event of its vhost, in the \
         record of what it tells; docs/EVENTS.md",
    ),
    key(
        "tls-certificate",
        SettingSyntax::Text,
        "FILE",
        "a PEM file",
        "PEM file with the certificate of this broker, then those that lead to its authority. \
         Loaded again when it changes",
    ),
    key(
        "tls-key",
        SettingSyntax::Text,
        "FILE",
        "a PEM file",
        "PEM file with the private key of the certificate. Loaded again when it changes",
    ),
    key(
        "tls-client-ca",
        SettingSyntax::Text,
        "FILE",
        "a PEM file",
        "PEM file with the authorities of client certificates: clients may show one, and log in by \
         it (SASL EXTERNAL). Loaded again when it changes",
    ),
    key(
        "tls-client-required",
        SettingSyntax::Switch,
        "BOOL",
        SWITCH,
        "Refuse TLS clients that show no certificate",
    ),
    key(
        "tls-login-from",
        SettingSyntax::Text,
        "FIELD",
        "common-name or subject-alternative-name",
        "Which field of a client certificate is the user's name: common-name or \
         subject-alternative-name",
    ),
    key(
        "user",
        SettingSyntax::List,
        "NAME:PASSWORD",
        "NAME:PASSWORD",
        "A user; repeatable. The first one given replaces the default user, who is not made beside users \
         of definitions either",
    ),
    key(
        "user-tags",
        SettingSyntax::List,
        "NAME=TAG,...",
        "NAME=TAG,TAG such as ops=monitoring,policymaker (in the environment spaces between tags): a \
         user that exists, and no tag or several",
        "What a user may do over HTTP; repeatable: administrator, monitoring, policymaker, \
         management. Without any, the first user is administrator unless --permission names it, all \
         others have no tag",
    ),
    key(
        "permission",
        SettingSyntax::List,
        "ENTRY",
        "USER VHOST CONFIGURE WRITE READ: a user and a vhost that exist (* for every vhost), then \
         three regular expressions",
        "'USER VHOST CONFIGURE WRITE READ': names that a user may declare, publish to and consume \
         from in a vhost (* for every vhost), as regular expressions; repeatable. A user without \
         any entry may do everything everywhere",
    ),
    key(
        "loopback-user",
        SettingSyntax::List,
        "NAME",
        "names of users",
        "A user that may log in from a loopback address only; repeatable",
    ),
    key(
        "anonymous-user",
        SettingSyntax::Text,
        "NAME",
        "the name of a user, or nothing",
        "User that SASL ANONYMOUS logs in as; ANONYMOUS is not offered when there is no such user",
    ),
    key(
        "require-sasl",
        SettingSyntax::Switch,
        "BOOL",
        SWITCH,
        "Refuse connections that begin without SASL instead of taking them as anonymous",
    ),
    key(
        "sasl-mechanism",
        SettingSyntax::List,
        "NAME",
        "EXTERNAL, SCRAM-SHA-512, SCRAM-SHA-256, PLAIN, OAUTHBEARER, XOAUTH2 or ANONYMOUS",
        "A way to log in that is offered where it can be; repeatable",
    ),
    key(
        "plain-without-tls",
        SettingSyntax::Switch,
        "BOOL",
        SWITCH,
        "Also take passwords in clear (PLAIN) from other machines without TLS, where anybody on the \
         way can read them",
    ),
    key(
        "oauth2-jwks",
        SettingSyntax::Text,
        "FILE|URL",
        "a file, an https:// URL, or an http:// URL of this machine",
        "Take access tokens (JWT) that are signed with one of these public keys, a JSON Web Key Set. Loaded \
         again at a SIGHUP, and for a token with an unknown key; docs/OAUTH2.md",
    ),
    key(
        "oauth2-https-ca",
        SettingSyntax::Text,
        "FILE",
        "a PEM file",
        "PEM file with the authorities that the server of the keys is verified by, instead of the system's",
    ),
    key(
        "oauth2-resource-server-id",
        SettingSyntax::Text,
        "ID",
        "the name of this broker in tokens, such as rabbitmq",
        "The name of this broker in tokens, such as rabbitmq: in their aud, and in front of its scopes",
    ),
    key(
        "oauth2-issuer",
        SettingSyntax::Text,
        "URL",
        "the issuer as it stands in tokens",
        "Take tokens only whose iss is this; without it, of every issuer that signs with these keys",
    ),
    key(
        "oauth2-verify-aud",
        SettingSyntax::Switch,
        "BOOL",
        SWITCH,
        "Take tokens only whose aud contains the resource-server-id",
    ),
    key(
        "oauth2-scope-prefix",
        SettingSyntax::Text,
        "PREFIX",
        "the beginning of this broker's scopes, perhaps nothing",
        "What stands in front of each scope of this broker; without it, the resource-server-id and a dot",
    ),
    key(
        "oauth2-additional-scopes-key",
        SettingSyntax::Text,
        "CLAIM",
        "the name of a claim, dots between names of nested ones",
        "A claim that has scopes, too, beside scope; a dot leads into a nested one",
    ),
    key(
        "oauth2-preferred-username-claims",
        SettingSyntax::List,
        "CLAIM",
        "names of claims",
        "A claim that has the user's name, the preferred first; behind them come sub and client_id; \
         repeatable",
    ),
    key(
        "data",
        SettingSyntax::Text,
        "DIR",
        "a directory",
        "Directory for durable data. If none is named: coroner-data in the user's state directory \
         (XDG_STATE_HOME, else ~/.local/state)",
    ),
    key(
        "in-memory",
        SettingSyntax::Switch,
        "BOOL",
        SWITCH,
        "Keep nothing: all is gone when the process ends, whatever data directory is configured",
    ),
    key(
        "sync",
        SettingSyntax::Text,
        "POLICY",
        "always, interval or never",
        "When accepted messages are on the device: always before the answer; at each interval, or \
         when the system likes, which a power cut may undo",
    ),
    key(
        "sync-interval",
        SettingSyntax::Text,
        "TIME",
        "a length of time such as 1s or 200ms",
        "How often to sync under --sync interval",
    ),
    key(
        "commit-delay",
        SettingSyntax::Text,
        "TIME",
        "a length of time up to 1s such as 20ms, or 0",
        "Let each commit wait so long for more to join it: fewer writes, later answers; 0 waits \
         0.2 ms, and only under load",
    ),
    key(
        "checkpoint-after",
        SettingSyntax::Text,
        "SIZE",
        SIZE,
        "Write a checkpoint each time so much was written, so that a start reads little",
    ),
    key(
        "segment-size",
        SettingSyntax::Text,
        "SIZE",
        SIZE,
        "Size of the journal's files; larger if the largest message needs more",
    ),
    key(
        "disk-free-limit",
        SettingSyntax::Text,
        "BYTES",
        SIZE,
        "Publishers get no credit while less than this is free on the disk of the data directory; \
         0 is off",
    ),
    key(
        "spill-dir",
        SettingSyntax::Text,
        "DIR",
        "a directory",
        "Where messages beyond the memory budget go when there is no data directory; by default \
         the system's directory for temporary files",
    ),
    key(
        "memory-budget",
        SettingSyntax::Text,
        "BYTES",
        MEMORY,
        "Memory for waiting messages; those beyond it, the newest first, are on disk until it is \
         their turn. At most half of memory-limit is used. 0 keeps all in memory",
    ),
    key(
        "memory-limit",
        SettingSyntax::Text,
        "BYTES",
        MEMORY,
        "Publishers get no credit while messages take more memory than this; 0 is off",
    ),
    key(
        "definitions",
        SettingSyntax::Text,
        "FILE",
        "a file that RabbitMQ or GET /api/definitions exported",
        "Import this definitions file at the start, before anybody may connect",
    ),
    key(
        "default-vhost",
        SettingSyntax::Text,
        "NAME",
        "the name of a vhost",
        "Vhost of clients whose open.hostname is not 'vhost:NAME'",
    ),
    key(
        "vhost",
        SettingSyntax::List,
        "NAME",
        "names of vhosts",
        "A vhost beside the default one; repeatable",
    ),
    key(
        "default-queue-type",
        SettingSyntax::Text,
        "TYPE",
        "classic or quorum",
        "Type of a queue that is declared without x-queue-type: classic or quorum",
    ),
    key(
        "auto-create",
        SettingSyntax::List,
        "PATTERN",
        "names of queues, * for one word and # for any words between dots; not beginning with /",
        "A bare address that matches this pattern names a queue, which is created when missing; \
         '*' is one word between dots, '#' any number; repeatable",
    ),
    key(
        "strict",
        SettingSyntax::Switch,
        "BOOL",
        SWITCH,
        "Refuse annotation keys without 'x-' as RabbitMQ does; the specification allows them",
    ),
    key(
        "death-evidence",
        SettingSyntax::Text,
        "LEVEL",
        "none, error or full",
        "What receivers get of the evidence of deaths that do not say by x-opt-death-evidence: \
         none, error (condition and description) or full; by default error, with strict none",
    ),
    key(
        "on-undeliverable",
        SettingSyntax::Text,
        "CHOICE",
        "drop or quarantine",
        "What becomes of dead letters that their dead-letter exchange takes nowhere, unless an argument or \
         policy says: drop, or quarantine (kept in amq.quarantine); by default quarantine, with strict drop",
    ),
    key(
        "quarantine-max-length",
        SettingSyntax::Integer,
        "NUMBER",
        "a number from 1 to 18446744073709551615",
        "Messages in the quarantine of a vhost at most: the oldest go first",
    ),
    key(
        "quarantine-max-bytes",
        SettingSyntax::Text,
        "BYTES",
        "a number of bytes above 0 such as 268435456 or 256MiB",
        "Bytes of messages in the quarantine of a vhost at most: the oldest go first",
    ),
    key(
        "consumer-timeout",
        SettingSyntax::Text,
        "TIME",
        "a length of time such as 30m or 90s; 0 switches it off",
        "How long a consumer of a quorum queue may hold a delivery, unless its attach, an argument or a \
         policy says; then the message goes back; 0: any time",
    ),
    key(
        "transaction-timeout",
        SettingSyntax::Text,
        "TIME",
        "a length of time above 0 such as 60s or 500ms",
        "Time from the declaration of a transaction to its discharge; then it is rolled back",
    ),
    key(
        "transaction-max-bytes",
        SettingSyntax::Text,
        "BYTES",
        "a number of bytes from 1 to 201326592 such as 67108864 or 64MiB",
        "Bytes of messages and outcomes in one transaction at most; it is rolled back beyond that",
    ),
    key(
        "max-message-size",
        SettingSyntax::Text,
        "BYTES",
        "a number of bytes above 0 such as 16777216 or 16MiB",
        "Largest message that is taken",
    ),
    key(
        "max-frame-size",
        SettingSyntax::Text,
        "BYTES",
        "a number of bytes from 512 to 4294967295 such as 131072 or 128KiB",
        "Largest frame that is taken",
    ),
    key(
        "channel-max",
        SettingSyntax::Integer,
        "NUMBER",
        "a number from 0 to 65535",
        "Highest channel number of a connection: one less than its sessions",
    ),
    key(
        "connections-max",
        SettingSyntax::Integer,
        "NUMBER",
        "a number from 1 to 4294967295",
        "Connections at most, fewer where too few files may be open; more are dropped as they arrive",
    ),
    key(
        "http-connections-max",
        SettingSyntax::Integer,
        "NUMBER",
        "a number from 1 to 4294967295",
        "HTTP connections at most, three quarters of them from one address; more are served /health only",
    ),
    key(
        "unsettled-max",
        SettingSyntax::Integer,
        "NUMBER",
        "a number from 1 to 4294967295",
        "Deliveries a session may hold unsettled before it gets no more",
    ),
    key(
        "queues-per-message-max",
        SettingSyntax::Integer,
        "NUMBER",
        "a number from 1 to 16384",
        "Queues that one message is routed to at most; it enters all of them in one step, during which other \
         clients of its vhost wait: 200 us for about 300 queues",
    ),
    key(
        "outbox-bytes",
        SettingSyntax::Text,
        "BYTES",
        SIZE,
        "Bytes assigned to one connection and not yet written; at least one message always fits",
    ),
    key(
        "idle-timeout",
        SettingSyntax::Text,
        "TIME",
        "a length of time such as 30s or 500ms, at most 49 days; 0 switches it off",
        "A peer that is silent for longer than this is gone (announced as idle-time-out); 0 is off",
    ),
    key(
        "handshake-timeout",
        SettingSyntax::Text,
        "TIME",
        "a length of time above 0 such as 10s or 500ms",
        "Time from connecting to a complete open",
    ),
    key(
        "shutdown-timeout",
        SettingSyntax::Text,
        "TIME",
        "a length of time such as 5s or 500ms",
        "Time that clients get to answer the close at shutdown",
    ),
    key(
        "node-name",
        SettingSyntax::Text,
        "NAME",
        "a name",
        "Name of this broker: its container id and the leader of its queues",
    ),
    key(
        "announce-product",
        SettingSyntax::Text,
        "NAME",
        "a name",
        "Product announced in open.properties",
    ),
    key(
        "announce-version",
        SettingSyntax::Text,
        "VERSION",
        "a version",
        "Version announced in open.properties",
    ),
    key(
        "announce-rabbitmq",
        SettingSyntax::Switch,
        "BOOL",
        SWITCH,
        "Announce product RabbitMQ 4.0.5, for clients that refuse anything else; ours are then \
         under the keys coroner_product and coroner_version",
    ),
    key(
        "workers",
        SettingSyntax::Integer,
        "NUMBER",
        "a number from 0 to 65535",
        "Worker threads; 0 is one less than there are processors, at least one",
    ),
    key(
        "log",
        SettingSyntax::Text,
        "FILTER",
        "a filter such as info, debug or warn,coroner::server=debug",
        "What is logged: a level, or levels per module",
    ),
    key(
        "log-format",
        SettingSyntax::Text,
        "FORMAT",
        "text or json",
        "How log lines look: text, or one JSON object each",
    ),
    key(
        "frame-trace",
        SettingSyntax::Switch,
        "BOOL",
        SWITCH,
        "Log every frame in both directions (bodies are left out)",
    ),
    key(
        "stats-interval",
        SettingSyntax::Text,
        "TIME",
        "a length of time such as 60s; 0 switches it off",
        "How often a line of statistics is logged at the level debug, if anything changed; 0 is off",
    ),
    key(
        "collect-statistics-interval",
        SettingSyntax::Text,
        "TIME",
        "a length of time such as 5s; 0 switches it off",
        "The time over which the HTTP API's rates are measured; 0: all rates are 0",
    ),
    key(
        "metrics-login",
        SettingSyntax::Switch,
        "BOOL",
        SWITCH,
        "Answer /metrics only to users with the tag monitoring or administrator",
    ),
    key(
        "metrics-queues-max",
        SettingSyntax::Integer,
        "NUMBER",
        "a number from 0 to 4294967295",
        "Queues of a vhost that metrics name, those declared first; all others are summed as 'other'",
    ),
];
