//! The kinds of objects that can be declared and deleted by `key=value`: one table, with the keys
//! of rabbitmqadmin.

/// A kind of object that can be declared or deleted.
pub(super) struct Declarable {
    /// The kind's name.
    pub(super) name: &'static str,
    /// A description for the help.
    pub(super) about: &'static str,
    /// Segments of its path; `{key}` is replaced by the value of a key.
    pub(super) place: &'static [&'static str],
    /// The keys that it has.
    pub(super) keys: &'static [Key],
    /// An example of declaring one.
    pub(super) declared: &'static str,
    /// An example of deleting one.
    pub(super) deleted: &'static str,
}

/// A key of a kind.
pub(super) struct Key {
    /// The key's name, as in the API.
    pub(super) name: &'static str,
    /// The syntax of its value.
    pub(super) shape: ValueSyntax,
    /// Whether it must be given.
    pub(super) need: Need,
    /// The meaning, for the help.
    pub(super) help: &'static str,
}

/// The syntax of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ValueSyntax {
    /// A text, as it is.
    Text,
    /// `true` or `false`, nothing else.
    Switch,
    /// An integer, in digits.
    Integer,
    /// A JSON object.
    Object,
    /// Any JSON value.
    Json,
}

/// When a key must be given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Need {
    /// Always: it names the object.
    Always,
    /// To declare the object.
    Declaring,
    /// Never; this JSON is the default.
    Default(&'static str),
    /// Never; by default it is left out.
    Optional,
}

const fn key(name: &'static str, shape: ValueSyntax, need: Need, help: &'static str) -> Key {
    Key {
        name,
        shape,
        need,
        help,
    }
}

const VHOST: Key = key(
    "vhost",
    ValueSyntax::Text,
    Need::Optional,
    "vhost, in place of that of -p",
);
const ARGUMENTS: Key = key(
    "arguments",
    ValueSyntax::Object,
    Need::Default("{}"),
    "arguments, as a JSON object",
);
const DURABLE: Key = key(
    "durable",
    ValueSyntax::Switch,
    Need::Default("true"),
    "whether it outlives a restart",
);
const AUTO_DELETE: Key = key(
    "auto_delete",
    ValueSyntax::Switch,
    Need::Default("false"),
    "whether it goes with the last that uses it",
);
const LIMIT: Key = key(
    "value",
    ValueSyntax::Integer,
    Need::Declaring,
    "the limit; -1 lifts it",
);

const fn named(help: &'static str) -> Key {
    key("name", ValueSyntax::Text, Need::Always, help)
}

const POLICY_KEYS: &[Key] = &[
    named("name of the policy"),
    key(
        "pattern",
        ValueSyntax::Text,
        Need::Declaring,
        "regular expression over names",
    ),
    key(
        "definition",
        ValueSyntax::Object,
        Need::Declaring,
        "keys and values, as a JSON object",
    ),
    key(
        "priority",
        ValueSyntax::Integer,
        Need::Default("0"),
        "the highest that matches applies",
    ),
    key(
        "apply-to",
        ValueSyntax::Text,
        Need::Default("\"all\""),
        "all, queues, classic_queues, quorum_queues, streams or exchanges",
    ),
    VHOST,
];

/// All kinds of objects.
pub(super) const KINDS: &[Declarable] = &[
    Declarable {
        name: "queue",
        about: "a queue",
        place: &["queues", "{vhost}", "{name}"],
        keys: &[
            named("name of the queue"),
            DURABLE,
            AUTO_DELETE,
            key(
                "type",
                ValueSyntax::Text,
                Need::Optional,
                "classic or quorum; the same as queue_type",
            ),
            ARGUMENTS,
            VHOST,
        ],
        declared: r#"queue name=orders arguments='{"x-dead-letter-exchange":"my-dlx"}'"#,
        deleted: "queue name=orders",
    },
    Declarable {
        name: "exchange",
        about: "an exchange",
        place: &["exchanges", "{vhost}", "{name}"],
        keys: &[
            named("name of the exchange"),
            key(
                "type",
                ValueSyntax::Text,
                Need::Declaring,
                "direct, fanout, topic, headers or x-local-random",
            ),
            DURABLE,
            AUTO_DELETE,
            key(
                "internal",
                ValueSyntax::Switch,
                Need::Default("false"),
                "whether clients may not publish to it",
            ),
            ARGUMENTS,
            VHOST,
        ],
        declared: "exchange name=my-dlx type=fanout",
        deleted: "exchange name=my-dlx",
    },
    Declarable {
        name: "binding",
        about: "a binding",
        place: &[
            "bindings",
            "{vhost}",
            "e",
            "{source}",
            "{destination_type}",
            "{destination}",
        ],
        keys: &[
            key(
                "source",
                ValueSyntax::Text,
                Need::Always,
                "exchange that messages come from",
            ),
            key(
                "destination",
                ValueSyntax::Text,
                Need::Always,
                "queue or exchange that they go to",
            ),
            key(
                "destination_type",
                ValueSyntax::Text,
                Need::Default("\"queue\""),
                "queue or exchange",
            ),
            key(
                "routing_key",
                ValueSyntax::Text,
                Need::Optional,
                "binding key; none is the empty one",
            ),
            ARGUMENTS,
            key(
                "properties_key",
                ValueSyntax::Text,
                Need::Optional,
                "to delete one of several: its name in the API",
            ),
            VHOST,
        ],
        declared: "binding source=my-dlx destination=orders.dlq routing_key=orders",
        deleted: "binding source=my-dlx destination=orders.dlq routing_key=orders",
    },
    Declarable {
        name: "vhost",
        about: "a virtual host",
        place: &["vhosts", "{name}"],
        keys: &[
            named("name of the vhost"),
            key(
                "description",
                ValueSyntax::Text,
                Need::Optional,
                "what it is for",
            ),
            key(
                "tags",
                ValueSyntax::Text,
                Need::Optional,
                "tags with commas between",
            ),
            key(
                "default_queue_type",
                ValueSyntax::Text,
                Need::Optional,
                "type of queues declared without one",
            ),
        ],
        declared: "vhost name=shop",
        deleted: "vhost name=shop",
    },
    Declarable {
        name: "user",
        about: "a user, or replaces one",
        place: &["users", "{name}"],
        keys: &[
            named("name of the user"),
            key("password", ValueSyntax::Text, Need::Optional, "password"),
            key(
                "password_hash",
                ValueSyntax::Text,
                Need::Optional,
                "salted hash as exported, in its place",
            ),
            key(
                "hashing_algorithm",
                ValueSyntax::Text,
                Need::Optional,
                "how that hash was made",
            ),
            key(
                "tags",
                ValueSyntax::Text,
                Need::Default("\"\""),
                "tags with commas between",
            ),
        ],
        declared: "user name=alice password=s3cret tags=monitoring",
        deleted: "user name=alice",
    },
    Declarable {
        name: "permission",
        about: "what a user may do in a vhost",
        place: &["permissions", "{vhost}", "{user}"],
        keys: &[
            key("user", ValueSyntax::Text, Need::Always, "name of the user"),
            key(
                "configure",
                ValueSyntax::Text,
                Need::Declaring,
                "names to declare, as a regular expression",
            ),
            key(
                "write",
                ValueSyntax::Text,
                Need::Declaring,
                "names to publish to, likewise",
            ),
            key(
                "read",
                ValueSyntax::Text,
                Need::Declaring,
                "names to consume from, likewise",
            ),
            VHOST,
        ],
        declared: "permission vhost=shop user=alice configure='^$' write='.*' read='.*'",
        deleted: "permission vhost=shop user=alice",
    },
    Declarable {
        name: "policy",
        about: "a policy",
        place: &["policies", "{vhost}", "{name}"],
        keys: POLICY_KEYS,
        declared: r#"policy name=DLX pattern='.*' definition='{"dead-letter-exchange":"my-dlx"}' apply-to=queues"#,
        deleted: "policy name=DLX",
    },
    Declarable {
        name: "operator_policy",
        about: "an operator policy",
        place: &["operator-policies", "{vhost}", "{name}"],
        keys: POLICY_KEYS,
        declared: r#"operator_policy name=limits pattern='.*' definition='{"max-length":1000}'"#,
        deleted: "operator_policy name=limits",
    },
    Declarable {
        name: "parameter",
        about: "a runtime parameter",
        place: &["parameters", "{component}", "{vhost}", "{name}"],
        keys: &[
            key(
                "component",
                ValueSyntax::Text,
                Need::Always,
                "name of the component",
            ),
            named("name of the parameter"),
            key(
                "value",
                ValueSyntax::Json,
                Need::Declaring,
                "its value, as JSON",
            ),
            VHOST,
        ],
        declared: "parameter component=shop name=colour value='\"red\"'",
        deleted: "parameter component=shop name=colour",
    },
    Declarable {
        name: "vhost_limit",
        about: "a limit of a vhost",
        place: &["vhost-limits", "{vhost}", "{name}"],
        keys: &[named("max-connections or max-queues"), LIMIT, VHOST],
        declared: "vhost_limit vhost=shop name=max-queues value=100",
        deleted: "vhost_limit vhost=shop name=max-queues",
    },
    Declarable {
        name: "user_limit",
        about: "a limit of a user",
        place: &["user-limits", "{user}", "{name}"],
        keys: &[
            key("user", ValueSyntax::Text, Need::Always, "name of the user"),
            named("max-connections or max-channels"),
            LIMIT,
        ],
        declared: "user_limit user=alice name=max-connections value=10",
        deleted: "user_limit user=alice name=max-connections",
    },
];

impl Declarable {
    /// The key of that name; `-` and `_` are equivalent.
    pub(super) fn key(&self, name: &str) -> Option<&'static Key> {
        let name = match (self.name, name) {
            ("queue", "queue_type" | "queue-type") => "type",
            (_, name) => name,
        };
        let plain = |name: &str| name.replace('-', "_");
        self.keys.iter().find(|key| plain(key.name) == plain(name))
    }

    /// Whether a key is in the path, so that the body does not repeat it.
    pub(super) fn is_in_place(&self, key: &str) -> bool {
        let mark = format!("{{{key}}}");
        self.place.iter().any(|segment| **segment == mark)
    }
}
