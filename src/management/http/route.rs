//! Finding the route of a request.

use std::fmt;

use percent_encoding::percent_decode_str;

use crate::base::Name;
use crate::base::limits::{
    HTTP_BODY_BYTES_MAX, HTTP_DEFINITIONS_VALUES_MAX, HTTP_JSON_VALUES_MAX,
    HTTP_LARGE_BODY_BYTES_MAX, HTTP_LIST_BODY_BYTES_MAX, HTTP_PATH_NAME_BYTES_MAX,
};

use super::access::Access;
use super::table::routes;

/// The methods that some path takes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Method {
    /// Looks; HEAD too.
    Get,
    /// Makes or replaces.
    Put,
    /// Adds, or does something.
    Post,
    /// Removes.
    Delete,
}

impl Method {
    /// The method of this name; HEAD is a GET whose body is left out later.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "GET" | "HEAD" => Self::Get,
            "PUT" => Self::Put,
            "POST" => Self::Post,
            "DELETE" => Self::Delete,
            _ => return None,
        })
    }

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Put => "PUT",
            Self::Post => "POST",
            Self::Delete => "DELETE",
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a route does. The glue has one arm for each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Endpoint {
    /// The broker in figures.
    Overview,
    /// The user that asks.
    WhoAmI,
    /// The description of this API.
    OpenApi,
    /// Everything declared in the broker.
    Definitions,
    /// Declares what a file says.
    ImportDefinitions,
    /// Everything declared in a vhost.
    VhostDefinitions,
    /// Declares in a vhost what a file says.
    ImportVhostDefinitions,
    /// All queues.
    Queues,
    /// All queues, under another path.
    QueuesDetailed,
    /// The queues of a vhost.
    VhostQueues,
    /// A queue.
    Queue,
    /// Declares a queue.
    PutQueue,
    /// Deletes a queue.
    DeleteQueue,
    /// Removes the ready messages of a queue.
    PurgeQueue,
    /// Takes messages from a queue.
    GetMessages,
    /// Shows messages of a queue.
    BrowseMessages,
    /// The name of the broker.
    ClusterName,
    /// The one node.
    Nodes,
    /// A node.
    Node,
    /// What the memory of a node is for.
    NodeMemory,
    /// The settings that the broker runs with.
    Environment,
    /// What is logged.
    LogLevel,
    /// Logs something else from now on.
    PutLogLevel,
    /// Spreads the leaders of queues over the nodes.
    Rebalance,
    /// The version of RabbitMQ whose API this is.
    Version,
    /// Connections: all for monitors, for others their own.
    Connections,
    /// The connections of a user.
    UserConnections,
    /// Closes the connections of a user.
    CloseUserConnections,
    /// A connection.
    Connection,
    /// Closes a connection; the header X-Reason says why.
    CloseConnection,
    /// The sessions of a connection with their links (RabbitMQ 4.1).
    Sessions,
    /// No channels: AMQP 1.0 has sessions.
    ConnectionChannels,
    /// The connections in a vhost.
    VhostConnections,
    /// No channels: AMQP 1.0 has sessions.
    Channels,
    /// No channels: AMQP 1.0 has sessions.
    VhostChannels,
    /// The consumers of all queues.
    Consumers,
    /// The consumers in a vhost.
    VhostConsumers,
    /// The vhosts that the user may enter.
    Vhosts,
    /// A vhost.
    Vhost,
    /// Makes a vhost, or describes it anew.
    PutVhost,
    /// Deletes a vhost with all in it.
    DeleteVhost,
    /// Who may do what in a vhost.
    VhostPermissions,
    /// Topic permissions in a vhost.
    VhostTopicPermissions,
    /// All users.
    Users,
    /// Users that may enter no vhost.
    UsersWithoutPermissions,
    /// Deletes several users.
    DeleteUsers,
    /// A user.
    User,
    /// Makes or changes a user.
    PutUser,
    /// Deletes a user.
    DeleteUser,
    /// What a user may do where.
    UserPermissions,
    /// Topic permissions of a user.
    UserTopicPermissions,
    /// All permissions.
    Permissions,
    /// The permissions of a user in a vhost.
    Permission,
    /// Sets the permissions of a user in a vhost.
    PutPermissions,
    /// Takes the permissions of a user in a vhost away.
    DeletePermissions,
    /// All topic permissions.
    TopicPermissions,
    /// The topic permissions of a user in a vhost.
    TopicPermission,
    /// Restricts the routing keys of a user on a topic exchange.
    PutTopicPermissions,
    /// Lifts the restrictions of a user in a vhost.
    DeleteTopicPermissions,
    /// Lifts the restrictions of a user on an exchange.
    DeleteTopicPermission,
    /// Limits of the vhosts that the user may enter.
    VhostLimits,
    /// Limits of a vhost.
    VhostLimit,
    /// Sets a limit of a vhost.
    PutVhostLimit,
    /// Lifts a limit of a vhost.
    DeleteVhostLimit,
    /// Limits of all users.
    UserLimits,
    /// Limits of a user.
    UserLimit,
    /// Sets a limit of a user.
    PutUserLimit,
    /// Lifts a limit of a user.
    DeleteUserLimit,
    /// Parameters that are no policies: none.
    Parameters,
    /// The policies or operator policies in their general form.
    ComponentParameters,
    /// Those of a vhost.
    VhostParameters,
    /// A parameter of a vhost.
    Parameter,
    /// Sets a parameter of a vhost.
    PutParameter,
    /// Removes a parameter of a vhost.
    DeleteParameter,
    /// Attempts to log in, by protocol.
    LoginAttempts,
    /// Counts them anew.
    ResetLoginAttempts,
    /// Attempts to log in, by source.
    LoginSources,
    /// Counts them anew.
    ResetLoginSources,
    /// All global parameters.
    GlobalParameters,
    /// A global parameter.
    GlobalParameter,
    /// Sets a global parameter.
    PutGlobalParameter,
    /// Removes a global parameter.
    DeleteGlobalParameter,
    /// Whether publishers are stopped for want of memory or disk.
    HealthAlarms,
    /// The same, on this node.
    HealthLocalAlarms,
    /// Whether all vhosts work.
    HealthVhosts,
    /// Whether a port is listened on.
    HealthPort,
    /// Whether a protocol is spoken.
    HealthProtocol,
    /// Whether others need this node: there are none.
    HealthQuorum,
    /// Whether certificates expire soon.
    HealthCertificates,
    /// Whether the broker serves clients.
    HealthInService,
    /// Whether the broker serves clients.
    HealthReady,
    /// Declares a queue, publishes to it and takes the message.
    Aliveness,
    /// No feature flags: every feature is there.
    FeatureFlags,
    /// No deprecated features.
    DeprecatedFeatures,
    /// No extensions.
    Extensions,
    /// How to log in: with Basic authentication.
    Auth,
    /// Publishes a message to an exchange.
    Publish,
    /// The bindings that lead to a queue.
    QueueBindings,
    /// All exchanges.
    Exchanges,
    /// The exchanges of a vhost.
    VhostExchanges,
    /// An exchange.
    Exchange,
    /// Declares an exchange.
    PutExchange,
    /// Deletes an exchange.
    DeleteExchange,
    /// The bindings that lead from an exchange.
    BindingsFrom,
    /// The bindings that lead to an exchange.
    BindingsTo,
    /// All bindings.
    Bindings,
    /// The bindings of a vhost.
    VhostBindings,
    /// The bindings between two.
    BindingsBetween,
    /// Adds a binding.
    Bind,
    /// A binding.
    Binding,
    /// Removes a binding.
    Unbind,
    /// All policies.
    Policies,
    /// The policies of a vhost.
    VhostPolicies,
    /// A policy.
    Policy,
    /// Sets a policy.
    PutPolicy,
    /// Deletes a policy.
    DeletePolicy,
    /// All operator policies.
    OperatorPolicies,
    /// The operator policies of a vhost.
    VhostOperatorPolicies,
    /// An operator policy.
    OperatorPolicy,
    /// Sets an operator policy.
    PutOperatorPolicy,
    /// Deletes an operator policy.
    DeleteOperatorPolicy,
}

impl Endpoint {
    /// Bytes that a body may have.
    pub const fn body_bytes_max(self) -> usize {
        match self {
            Self::Publish | Self::ImportDefinitions | Self::ImportVhostDefinitions => {
                HTTP_LARGE_BODY_BYTES_MAX
            }
            Self::DeleteUsers => HTTP_LIST_BODY_BYTES_MAX,
            _ => HTTP_BODY_BYTES_MAX,
        }
    }

    /// Values that the JSON of a body may have.
    pub const fn body_values_max(self) -> usize {
        match self {
            Self::ImportDefinitions | Self::ImportVhostDefinitions => HTTP_DEFINITIONS_VALUES_MAX,
            _ => HTTP_JSON_VALUES_MAX,
        }
    }

    /// Whether its answer says something of what is declared, and so waits until that is durable.
    /// What tells how the broker is must not wait for its disk.
    pub const fn tells_declared(self) -> bool {
        !matches!(
            self,
            Self::WhoAmI
                | Self::OpenApi
                | Self::ClusterName
                | Self::Nodes
                | Self::Node
                | Self::Environment
                | Self::LogLevel
                | Self::PutLogLevel
                | Self::Version
                | Self::Connections
                | Self::UserConnections
                | Self::CloseUserConnections
                | Self::Connection
                | Self::CloseConnection
                | Self::Sessions
                | Self::ConnectionChannels
                | Self::VhostConnections
                | Self::Channels
                | Self::VhostChannels
                | Self::LoginAttempts
                | Self::ResetLoginAttempts
                | Self::LoginSources
                | Self::ResetLoginSources
                | Self::HealthAlarms
                | Self::HealthLocalAlarms
                | Self::HealthVhosts
                | Self::HealthPort
                | Self::HealthProtocol
                | Self::HealthQuorum
                | Self::HealthCertificates
                | Self::HealthInService
                | Self::HealthReady
                | Self::FeatureFlags
                | Self::DeprecatedFeatures
                | Self::Extensions
                | Self::Auth
        )
    }
}

/// One route. The table of all of them is also the description that the broker serves.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// How it is asked.
    pub method: Method,
    /// Where: segments, those in braces are parameters.
    pub path: &'static str,
    /// What it does.
    pub endpoint: Endpoint,
    /// Who may.
    pub access: Access,
    /// What it does, for people.
    pub summary: &'static str,
}

/// The parameters of a path, decoded, in its order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Params(Vec<(&'static str, Name)>);

impl Params {
    /// The parameter of this name; empty when the path has none.
    pub fn get(&self, name: &str) -> Name {
        let found = self.0.iter().find(|(known, _)| *known == name);
        found.map_or_else(|| Name::from(""), |(_, value)| value.clone())
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = &(&'static str, Name)> {
        self.0.iter()
    }
}

/// What a method and a path lead to.
#[derive(Clone, Debug)]
pub enum RouteMatch {
    /// This.
    Route(&'static Route, Params),
    /// The path is known, but not with this method; these are.
    WrongMethod(Vec<Method>),
    /// Nothing.
    Nothing,
}

/// Finds the route of a request. A slash at the end changes nothing (as RabbitMQ).
pub fn find(method: Option<Method>, path: &str) -> RouteMatch {
    let path = path.strip_suffix('/').unwrap_or(path);
    let mut others = Vec::new();
    for route in routes() {
        let Some(params) = captures(route.path, path) else {
            continue;
        };
        if Some(route.method) == method {
            return RouteMatch::Route(route, params);
        }
        others.push(route.method);
    }
    if others.is_empty() {
        return RouteMatch::Nothing;
    }
    RouteMatch::WrongMethod(others)
}

/// The parameters of a path that fits a template.
fn captures(template: &'static str, path: &str) -> Option<Params> {
    let mut params = Vec::new();
    let mut segments = path.split('/');
    for expected in template.split('/') {
        let segment = segments.next()?;
        match parameter(expected) {
            Some(name) if !segment.is_empty() || is_exchange(template, name) => {
                let value = percent_decode_str(segment).decode_utf8().ok()?;
                // No name that is kept is as long: there is no such thing.
                if value.len() > HTTP_PATH_NAME_BYTES_MAX {
                    return None;
                }
                params.push((name, Name::from(&*value)));
            }
            None if expected == segment => {}
            _ => return None,
        }
    }
    segments.next().is_none().then_some(Params(params))
}

/// Whether a parameter names an exchange: the default one has an empty name, which some clients write so.
fn is_exchange(template: &str, parameter: &str) -> bool {
    parameter == "source" || parameter == "name" && template.starts_with("/api/exchanges/")
}

/// The name of a template's segment that is a parameter.
pub(super) fn parameter(segment: &str) -> Option<&str> {
    segment.strip_prefix('{')?.strip_suffix('}')
}
