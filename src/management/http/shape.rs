//! The query parameters and the answer of each route, for the API's description.

use super::route::{Endpoint, Method};

/// The name and JSON type of a field that is always present.
pub type Field = (&'static str, &'static str);

/// The answer of a route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// 200 with an object with these fields.
    Object(&'static [Field]),
    /// 200 with an array of such objects; a page of them if `page` is given.
    List(&'static [Field]),
    /// 200 with a text.
    Text,
    /// 200 with lines of JSON, an object each.
    Lines,
    /// 200 with events: a stream, or lines of JSON.
    Events,
    /// 201 when an object was created, otherwise 204; no body.
    Stored,
    /// 201 with the location of the new object; no body.
    Created,
    /// 204; no body.
    Done,
}

const NAMED: &[Field] = &[("name", "string")];
const STATUS: &[Field] = &[("status", "string")];
const BINDING: &[Field] = &[
    ("source", "string"),
    ("vhost", "string"),
    ("destination", "string"),
    ("destination_type", "string"),
    ("routing_key", "string"),
    ("arguments", "object"),
    ("properties_key", "string"),
];
const EXCHANGE: &[Field] = &[
    ("name", "string"),
    ("vhost", "string"),
    ("type", "string"),
    ("durable", "boolean"),
    ("auto_delete", "boolean"),
    ("internal", "boolean"),
    ("arguments", "object"),
    ("message_stats", "object"),
];
/// A queue by itself; the last two are not told of it in listings.
const QUEUE_ALONE: &[Field] = &[
    ("name", "string"),
    ("vhost", "string"),
    ("node", "string"),
    ("type", "string"),
    ("state", "string"),
    ("durable", "boolean"),
    ("auto_delete", "boolean"),
    ("exclusive", "boolean"),
    ("arguments", "object"),
    ("consumers", "integer"),
    ("messages", "integer"),
    ("messages_ready", "integer"),
    ("messages_unacknowledged", "integer"),
    ("messages_dead_pending", "integer"),
    ("messages_delayed", "integer"),
    ("delayed_retry", "string"),
    ("message_bytes", "integer"),
    ("memory", "integer"),
    ("effective_policy_definition", "object"),
    ("message_stats", "object"),
    ("dead_letters", "object"),
    ("consumer_details", "array"),
    ("settings", "array"),
];
/// A queue in a listing.
const QUEUE: &[Field] = match QUEUE_ALONE.split_last_chunk::<2>() {
    Some((listed, _)) => listed,
    None => &[],
};
const POLICY: &[Field] = &[
    ("vhost", "string"),
    ("name", "string"),
    ("pattern", "string"),
    ("apply-to", "string"),
    ("definition", "object"),
    ("priority", "integer"),
];
const REDRIVE: &[Field] = &[
    ("id", "string"),
    ("vhost", "string"),
    ("queue", "string"),
    ("state", "string"),
    ("settled", "boolean"),
    ("by", "string"),
    ("created_at", "integer"),
    ("rate_now", "number"),
    ("batch", "integer"),
    ("counts", "object"),
    ("outcome", "object"),
    ("targets", "array"),
    ("target", "object"),
];
const DRY_RUN: &[Field] = &[
    ("matched", "integer"),
    ("scanned", "integer"),
    ("complete", "boolean"),
    ("targets", "array"),
    ("skipped", "object"),
    ("sample", "array"),
    ("warnings", "array"),
];
const PARAMETER: &[Field] = &[
    ("component", "string"),
    ("vhost", "string"),
    ("name", "string"),
    ("value", "object"),
];
const MESSAGE: &[Field] = &[
    ("payload_bytes", "integer"),
    ("redelivered", "boolean"),
    ("exchange", "string"),
    ("routing_key", "string"),
    ("message_count", "integer"),
    ("properties", "object"),
    ("payload", "string"),
    ("payload_encoding", "string"),
    ("amqp", "object"),
];
const GROUPS: &[Field] = &[
    ("by", "string"),
    ("groups", "array"),
    ("other", "object"),
    ("matched", "integer"),
    ("scanned", "integer"),
    ("complete", "boolean"),
    ("as_of", "integer"),
];
const EXPLANATION: &[Field] = &[
    ("as_of", "integer"),
    ("life", "array"),
    ("now", "object"),
    ("next", "array"),
];
const CONNECTION: &[Field] = &[
    ("name", "string"),
    ("node", "string"),
    ("user", "string"),
    ("vhost", "string"),
    ("protocol", "string"),
    ("state", "string"),
    ("channels", "integer"),
    ("client_properties", "object"),
    ("connected_at", "integer"),
    ("peer_host", "string"),
    ("peer_port", "integer"),
    ("ssl", "boolean"),
    ("recv_oct", "integer"),
    ("send_oct", "integer"),
];
const LOGIN_ATTEMPTS: &[Field] = &[
    ("protocol", "string"),
    ("auth_attempts", "integer"),
    ("auth_attempts_failed", "integer"),
    ("auth_attempts_succeeded", "integer"),
];
const LOGIN_SOURCES: &[Field] = &[
    ("remote_address", "string"),
    ("username", "string"),
    ("protocol", "string"),
    ("auth_attempts", "integer"),
    ("auth_attempts_failed", "integer"),
    ("auth_attempts_succeeded", "integer"),
];
const SESSION: &[Field] = &[
    ("channel_number", "integer"),
    ("incoming_links", "array"),
    ("outgoing_links", "array"),
];
const CONSUMER: &[Field] = &[
    ("queue", "object"),
    ("consumer_tag", "string"),
    ("ack_required", "boolean"),
    ("active", "boolean"),
    ("exclusive", "boolean"),
    ("channel_details", "object"),
];
const VHOST: &[Field] = &[
    ("name", "string"),
    ("description", "string"),
    ("tags", "array"),
    ("default_queue_type", "string"),
    ("messages", "integer"),
    ("message_stats", "object"),
];
const USER: &[Field] = &[
    ("name", "string"),
    ("password_hash", "string"),
    ("hashing_algorithm", "string"),
    ("tags", "array"),
    ("limits", "object"),
];
const PERMISSION: &[Field] = &[
    ("user", "string"),
    ("vhost", "string"),
    ("configure", "string"),
    ("write", "string"),
    ("read", "string"),
];
const TOPIC_PERMISSION: &[Field] = &[
    ("user", "string"),
    ("vhost", "string"),
    ("exchange", "string"),
    ("write", "string"),
    ("read", "string"),
];
const OVERVIEW: &[Field] = &[
    ("management_version", "string"),
    ("rabbitmq_version", "string"),
    ("product_name", "string"),
    ("product_version", "string"),
    ("cluster_name", "string"),
    ("node", "string"),
    ("queue_totals", "object"),
    ("object_totals", "object"),
    ("message_stats", "object"),
    ("churn_rates", "object"),
    ("exchange_types", "array"),
];
const DEFINITIONS: &[Field] = &[
    ("rabbitmq_version", "string"),
    ("queues", "array"),
    ("exchanges", "array"),
    ("bindings", "array"),
    ("policies", "array"),
];
const LINT: &[Field] = &[
    ("findings", "array"),
    ("errors", "integer"),
    ("warnings", "integer"),
    ("infos", "integer"),
    ("silenced", "integer"),
    ("left_out", "integer"),
    ("not_read", "array"),
];
const GRAPH: &[Field] = &[
    ("vhost", "string"),
    ("as_of", "integer"),
    ("nodes", "array"),
    ("edges", "array"),
    ("left_out", "object"),
];
const VHOST_LIMITS: &[Field] = &[("vhost", "string"), ("value", "object")];
const USER_LIMITS: &[Field] = &[("user", "string"), ("value", "object")];
const NODE: &[Field] = &[
    ("name", "string"),
    ("type", "string"),
    ("running", "boolean"),
    ("uptime", "integer"),
    ("mem_used", "integer"),
    ("mem_counted", "integer"),
    ("mem_limit", "integer"),
    ("mem_alarm", "boolean"),
    ("disk_free_alarm", "boolean"),
];

impl Endpoint {
    /// Whether it answers with the linter's report.
    const fn is_lint(self) -> bool {
        matches!(
            self,
            Self::Lint | Self::LintVhost | Self::LintDefinitions | Self::LintAllDefinitions
        )
    }

    /// The answer to this method when the request succeeds.
    pub const fn answer(self, method: Method) -> Answer {
        match method {
            Method::Delete => return Answer::Done,
            Method::Put => return Answer::Stored,
            Method::Get | Method::Post => {}
        }
        match self {
            Self::Bind => Answer::Created,
            Self::Version => Answer::Text,
            Self::GetMessages => Answer::List(MESSAGE),
            Self::Publish | Self::BrowseMessages | Self::Groups => Answer::Object(self.few()),
            Self::ExplainMessage => Answer::Object(EXPLANATION),
            _ if self.is_lint() => Answer::Object(LINT),
            Self::Graph => Answer::Object(GRAPH),
            Self::ExportMessages => Answer::Lines,
            Self::Events => Answer::Events,
            Self::Overview => Answer::Object(OVERVIEW),
            Self::ClusterName | Self::GlobalParameter => Answer::Object(NAMED),
            Self::Nodes => Answer::List(NODE),
            Self::Node => Answer::Object(NODE),
            _ if self.is_alone() => Answer::Object(self.few()),
            Self::Queues | Self::QueuesDetailed | Self::VhostQueues => Answer::List(QUEUE),
            Self::Queue => Answer::Object(QUEUE_ALONE),
            Self::Exchanges | Self::VhostExchanges => Answer::List(EXCHANGE),
            Self::Exchange => Answer::Object(EXCHANGE),
            Self::Binding => Answer::Object(BINDING),
            Self::Bindings
            | Self::VhostBindings
            | Self::QueueBindings
            | Self::BindingsFrom
            | Self::BindingsTo
            | Self::BindingsBetween => Answer::List(BINDING),
            Self::Policy | Self::OperatorPolicy => Answer::Object(POLICY),
            Self::Policies
            | Self::VhostPolicies
            | Self::OperatorPolicies
            | Self::VhostOperatorPolicies => Answer::List(POLICY),
            Self::Parameters | Self::ComponentParameters | Self::VhostParameters => {
                Answer::List(PARAMETER)
            }
            Self::Parameter => Answer::Object(PARAMETER),
            Self::LoginAttempts => Answer::List(LOGIN_ATTEMPTS),
            Self::LoginSources => Answer::List(LOGIN_SOURCES),
            Self::Connection => Answer::Object(CONNECTION),
            Self::Connections | Self::UserConnections | Self::VhostConnections => {
                Answer::List(CONNECTION)
            }
            Self::Sessions => Answer::List(SESSION),
            Self::Consumers | Self::VhostConsumers => Answer::List(CONSUMER),
            Self::Vhost => Answer::Object(VHOST),
            Self::Vhosts => Answer::List(VHOST),
            Self::User => Answer::Object(USER),
            Self::Users | Self::UsersWithoutPermissions => Answer::List(USER),
            Self::Permission => Answer::Object(PERMISSION),
            Self::Permissions | Self::VhostPermissions | Self::UserPermissions => {
                Answer::List(PERMISSION)
            }
            Self::TopicPermission
            | Self::TopicPermissions
            | Self::VhostTopicPermissions
            | Self::UserTopicPermissions => Answer::List(TOPIC_PERMISSION),
            Self::GlobalParameters => Answer::List(NAMED),
            _ if self.is_check() => Answer::Object(STATUS),
            Self::Definitions | Self::VhostDefinitions => Answer::Object(DEFINITIONS),
            Self::VhostLimits | Self::VhostLimit => Answer::List(VHOST_LIMITS),
            Self::UserLimits | Self::UserLimit => Answer::List(USER_LIMITS),
            _ if self.is_empty() => Answer::List(&[]),
            _ => self.of_redrives(),
        }
    }

    /// The answers of redrives. The others only put, delete or import.
    const fn of_redrives(self) -> Answer {
        match self {
            Self::Redrive => Answer::Object(REDRIVE),
            Self::Redrives | Self::VhostRedrives => Answer::List(REDRIVE),
            Self::DryRunRedrive => Answer::Object(DRY_RUN),
            _ => Answer::Done,
        }
    }

    /// Whether it answers with an object that no other route has.
    const fn is_alone(self) -> bool {
        matches!(
            self,
            Self::WhoAmI
                | Self::Auth
                | Self::NodeMemory
                | Self::Environment
                | Self::LogLevel
                | Self::Publish
                | Self::BrowseMessages
                | Self::Groups
                | Self::ImportMessages
                | Self::OpenApi
        )
    }

    /// The fields of such an object.
    const fn few(self) -> &'static [Field] {
        match self {
            Self::WhoAmI => &[("name", "string"), ("tags", "array")],
            Self::Auth => &[("oauth_enabled", "boolean")],
            Self::NodeMemory => &[("memory", "object")],
            Self::Environment => &[("settings", "object")],
            Self::Publish => &[("routed", "boolean")],
            Self::BrowseMessages => &[("messages", "array")],
            Self::Groups => GROUPS,
            Self::OpenApi => &[("openapi", "string"), ("paths", "object")],
            Self::ImportMessages => &[("imported", "integer"), ("skipped", "integer")],
            _ => &[("level", "string")],
        }
    }

    /// Whether it lists objects that this broker never has.
    const fn is_empty(self) -> bool {
        matches!(
            self,
            Self::Channels
                | Self::VhostChannels
                | Self::ConnectionChannels
                | Self::DeprecatedFeatures
                | Self::FeatureFlags
                | Self::Extensions
        )
    }

    /// Whether it is a health check.
    const fn is_check(self) -> bool {
        matches!(
            self,
            Self::HealthAlarms
                | Self::HealthLocalAlarms
                | Self::HealthVhosts
                | Self::HealthPort
                | Self::HealthProtocol
                | Self::HealthQuorum
                | Self::HealthCertificates
                | Self::HealthInService
                | Self::HealthReady
                | Self::Aliveness
        )
    }

    /// The parameters of the query, with their meaning.
    pub fn query(self) -> impl Iterator<Item = &'static (&'static str, &'static str)> {
        let looked_at = match self {
            Self::BrowseMessages | Self::Groups | Self::ExportMessages => LOOK_QUERY,
            _ => &[],
        };
        self.query_alone().iter().chain(looked_at)
    }

    /// The same without what says which messages are looked at.
    const fn query_alone(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::BrowseMessages => BROWSE_QUERY,
            Self::Groups => GROUPS_QUERY,
            Self::ExplainMessage => &[
                (
                    "condition",
                    "the condition of the error that a consumer would give",
                ),
                ("description", "the description of that error"),
            ],
            Self::ExportMessages => &[],
            Self::Events => EVENTS_QUERY,
            _ if self.is_lint() => &[(
                "for",
                "rabbitmq: also what a RabbitMQ refuses or does otherwise",
            )],
            Self::Graph => &[
                (
                    "around",
                    "a queue: only what its dead letters come from or go to",
                ),
                (
                    "hops",
                    "over how many deaths around it, 0 to 16; 2 unless given",
                ),
                ("format", "json, dot, mermaid or svg; json unless given"),
            ],
            Self::ImportDefinitions | Self::ImportVhostDefinitions => &[(
                "fail-on",
                "error, warning or info: imports nothing if the linter would find something as bad then",
            )],
            Self::DeleteQueue => &[
                ("if-empty", "true: only without messages"),
                ("if-unused", "true: only without consumers"),
            ],
            Self::DeleteExchange => &[("if-unused", "true: only without bindings")],
            Self::Overview
            | Self::Queue
            | Self::Exchange
            | Self::Vhost
            | Self::Connection
            | Self::Node => &[("columns", "the fields that are wanted")],
            _ => match self.answer(Method::Get) {
                Answer::List(_) => LISTING_QUERY,
                _ => &[],
            },
        }
    }
}

const EVENTS_QUERY: &[(&str, &str)] = &[
    ("vhost", "in this vhost"),
    (
        "type",
        "death, dead-lettered, dropped, quarantined, redriven, redrive or consumer-timeout",
    ),
    ("queue", "in this queue"),
    ("reason", "of deaths for this reason"),
    (
        "since",
        "behind the event of this id or number; as the header Last-Event-ID, which counts for more",
    ),
    (
        "follow",
        "true: lines go on with what happens; an event stream always does",
    ),
];

const LISTING_QUERY: &[(&str, &str)] = &[
    (
        "page",
        "the number of a page, from 1: an object with the page's items",
    ),
    ("page_size", "items of a page, 1 to 500; 100 unless given"),
    (
        "name",
        "with page: part of the name, or a regular expression",
    ),
    ("use_regex", "true: name is a regular expression"),
    ("sort", "the field to sort by; dots lead into fields"),
    ("sort_reverse", "true: the other way round"),
    (
        "columns",
        "the fields that are wanted, with commas between them",
    ),
];
/// Which messages of a queue are looked at.
const LOOK_QUERY: &[(&str, &str)] = &[
    (
        "from",
        "the position to begin at: next of the answer before",
    ),
    (
        "state",
        "ready (unless given), unacknowledged, delayed or dead_pending",
    ),
    (
        "reason",
        "died for this reason; as all parts of the filter of its latest death, and given again for one of several",
    ),
    ("queue", "died in this queue"),
    ("condition", "the consumer gave this condition"),
    ("group", "has this fingerprint"),
    ("container", "a consumer with this container id"),
    ("user", "a consumer of this user"),
    (
        "cause",
        "is in the quarantine for this cause; none: is not there",
    ),
    ("exchange", "came through this exchange before it died"),
    ("routing_key", "had this routing key before it died"),
    ("message_id", "has this message-id"),
    ("position", "is at this position"),
    (
        "died_after",
        "died at this time or later, in milliseconds since 1970",
    ),
    ("died_before", "died before this time"),
    ("redriven", "true: was redriven; false: never was"),
    (
        "selector",
        "this JMS selector wants it; an answer may then have few messages or none, and a next",
    ),
    (
        "body_contains",
        "has this text in the first MiB of its body",
    ),
];
const BROWSE_QUERY: &[(&str, &str)] = &[
    ("count", "messages at most: 50 unless given, 10000 at most"),
    ("encoding", "of payloads: auto (unless given) or base64"),
    ("truncate", "bytes of a payload that are shown"),
];
const GROUPS_QUERY: &[(&str, &str)] = &[(
    "by",
    "group (unless given), reason, queue, condition, exchange, container, user or cause",
)];
