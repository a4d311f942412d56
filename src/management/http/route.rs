//! Routing of requests.

use std::fmt;

use percent_encoding::percent_decode_str;

use crate::base::Name;
use crate::base::limits::{
    HTTP_BODY_BYTES_MAX, HTTP_DEFINITIONS_VALUES_MAX, HTTP_JSON_VALUES_MAX,
    HTTP_LARGE_BODY_BYTES_MAX, HTTP_LIST_BODY_BYTES_MAX, HTTP_PATH_NAME_BYTES_MAX,
};

use super::access::Access;
use super::table::routes;

/// The methods of HTTP that routes have.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Method {
    /// Reads an object or a listing; HEAD too.
    Get,
    /// Creates or replaces an object.
    Put,
    /// Adds an object, or starts an action.
    Post,
    /// Deletes an object.
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

    /// The method's name.
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

/// The operation of a route. The server has one match arm for each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Endpoint {
    /// Shows the broker's totals and rates.
    Overview,
    /// Shows the authenticated user.
    WhoAmI,
    /// The description of this API.
    OpenApi,
    /// Exports the definitions of the broker.
    Definitions,
    /// Imports definitions into the broker.
    ImportDefinitions,
    /// Exports the definitions of a vhost.
    VhostDefinitions,
    /// Imports definitions into a vhost.
    ImportVhostDefinitions,
    /// Looks at the topology for what will go wrong with dead letters.
    Lint,
    /// The same for one vhost.
    LintVhost,
    /// The same for one vhost after definitions that are not imported.
    LintDefinitions,
    /// The same for the vhosts of definitions that are not imported.
    LintAllDefinitions,
    /// Draws where the dead letters of a vhost go.
    Graph,
    /// Lists all queues.
    Queues,
    /// Lists all queues, under another path.
    QueuesDetailed,
    /// Lists the queues of a vhost.
    VhostQueues,
    /// Shows a queue.
    Queue,
    /// Declares a queue.
    PutQueue,
    /// Deletes a queue.
    DeleteQueue,
    /// Drops the ready messages of a queue.
    PurgeQueue,
    /// Takes messages from a queue.
    GetMessages,
    /// Shows messages of a queue without taking them.
    BrowseMessages,
    /// Drops one ready message of a queue.
    DiscardMessage,
    /// Makes delayed messages of a queue ready.
    RetryDelayed,
    /// Exports messages of a queue as lines of JSON.
    ExportMessages,
    /// Imports messages into a queue from lines of JSON.
    ImportMessages,
    /// Counts the messages of a queue by what they have in common.
    Groups,
    /// Writes a note on a group of dead letters.
    PutGroupNote,
    /// Removes a note on a group of dead letters.
    DeleteGroupNote,
    /// Explains a message of a queue.
    ExplainMessage,
    /// Tells what happens.
    Events,
    /// Shows the name of the broker.
    ClusterName,
    /// Lists the nodes: there is one.
    Nodes,
    /// Shows a node.
    Node,
    /// Shows how a node's memory is used.
    NodeMemory,
    /// Shows the settings that the broker runs with.
    Environment,
    /// Shows the level of the log.
    LogLevel,
    /// Sets the level of the log until the broker ends.
    PutLogLevel,
    /// Rebalances queue leaders: there is nothing to do on one node.
    Rebalance,
    /// Shows the version of RabbitMQ with this API.
    Version,
    /// Lists connections: monitors see all, others their own.
    Connections,
    /// Lists the connections of a user.
    UserConnections,
    /// Closes the connections of a user.
    CloseUserConnections,
    /// Shows a connection.
    Connection,
    /// Closes a connection; the header X-Reason gives the reason.
    CloseConnection,
    /// Lists the sessions of a connection with their links (RabbitMQ 4.1).
    Sessions,
    /// Lists no channels: AMQP 1.0 has sessions.
    ConnectionChannels,
    /// Lists the connections in a vhost.
    VhostConnections,
    /// Lists no channels: AMQP 1.0 has sessions.
    Channels,
    /// Lists no channels: AMQP 1.0 has sessions.
    VhostChannels,
    /// Lists the consumers of all queues.
    Consumers,
    /// Lists the consumers in a vhost.
    VhostConsumers,
    /// Lists the vhosts that the user may access.
    Vhosts,
    /// Shows a vhost.
    Vhost,
    /// Creates a vhost, or changes its description.
    PutVhost,
    /// Deletes a vhost with its content.
    DeleteVhost,
    /// Lists the permissions in a vhost.
    VhostPermissions,
    /// Lists the topic permissions in a vhost.
    VhostTopicPermissions,
    /// Lists all users.
    Users,
    /// Lists users without permissions in any vhost.
    UsersWithoutPermissions,
    /// Deletes several users.
    DeleteUsers,
    /// Shows a user.
    User,
    /// Creates or changes a user.
    PutUser,
    /// Deletes a user.
    DeleteUser,
    /// Lists the permissions of a user.
    UserPermissions,
    /// Lists the topic permissions of a user.
    UserTopicPermissions,
    /// Lists all permissions.
    Permissions,
    /// Shows the permissions of a user in a vhost.
    Permission,
    /// Sets the permissions of a user in a vhost.
    PutPermissions,
    /// Removes the permissions of a user in a vhost.
    DeletePermissions,
    /// Lists all topic permissions.
    TopicPermissions,
    /// Shows the topic permissions of a user in a vhost.
    TopicPermission,
    /// Restricts the routing keys of a user on a topic exchange.
    PutTopicPermissions,
    /// Removes the restrictions of a user in a vhost.
    DeleteTopicPermissions,
    /// Removes the restrictions of a user on an exchange.
    DeleteTopicPermission,
    /// Lists the limits of the vhosts that the user may access.
    VhostLimits,
    /// Shows the limits of a vhost.
    VhostLimit,
    /// Sets a limit of a vhost.
    PutVhostLimit,
    /// Removes a limit of a vhost.
    DeleteVhostLimit,
    /// Lists the limits of all users.
    UserLimits,
    /// Shows the limits of a user.
    UserLimit,
    /// Sets a limit of a user.
    PutUserLimit,
    /// Removes a limit of a user.
    DeleteUserLimit,
    /// Lists parameters that are not policies: none.
    Parameters,
    /// Lists the policies or operator policies as parameters.
    ComponentParameters,
    /// Lists those of a vhost.
    VhostParameters,
    /// Shows a parameter of a vhost.
    Parameter,
    /// Sets a parameter of a vhost.
    PutParameter,
    /// Deletes a parameter of a vhost.
    DeleteParameter,
    /// Shows login attempts by protocol.
    LoginAttempts,
    /// Resets the counts of login attempts by protocol.
    ResetLoginAttempts,
    /// Shows login attempts by source address.
    LoginSources,
    /// Resets the counts of login attempts by source address.
    ResetLoginSources,
    /// Lists all global parameters.
    GlobalParameters,
    /// Shows a global parameter.
    GlobalParameter,
    /// Sets a global parameter.
    PutGlobalParameter,
    /// Deletes a global parameter.
    DeleteGlobalParameter,
    /// Checks that no alarm of memory or disk is in effect.
    HealthAlarms,
    /// Checks the same on this node.
    HealthLocalAlarms,
    /// Checks that all vhosts work.
    HealthVhosts,
    /// Checks that a port is listened on.
    HealthPort,
    /// Checks that a protocol is served.
    HealthProtocol,
    /// Checks whether other nodes need this one: there are none.
    HealthQuorum,
    /// Checks whether certificates expire soon.
    HealthCertificates,
    /// Checks that the broker serves clients.
    HealthInService,
    /// Checks that the broker serves clients.
    HealthReady,
    /// Declares a queue, publishes to it and takes the message.
    Aliveness,
    /// Lists no feature flags: every feature is enabled.
    FeatureFlags,
    /// Lists no deprecated features.
    DeprecatedFeatures,
    /// Lists no extensions.
    Extensions,
    /// Shows how to log in: with Basic authentication.
    Auth,
    /// Publishes a message to an exchange.
    Publish,
    /// Lists the bindings that lead to a queue.
    QueueBindings,
    /// Lists all exchanges.
    Exchanges,
    /// Lists the exchanges of a vhost.
    VhostExchanges,
    /// Shows an exchange.
    Exchange,
    /// Declares an exchange.
    PutExchange,
    /// Deletes an exchange.
    DeleteExchange,
    /// Lists the bindings from an exchange.
    BindingsFrom,
    /// Lists the bindings to an exchange.
    BindingsTo,
    /// Lists all bindings.
    Bindings,
    /// Lists the bindings of a vhost.
    VhostBindings,
    /// Lists the bindings between an exchange and a queue or exchange.
    BindingsBetween,
    /// Adds a binding.
    Bind,
    /// Shows a binding.
    Binding,
    /// Removes a binding.
    Unbind,
    /// Lists all policies.
    Policies,
    /// Lists the policies of a vhost.
    VhostPolicies,
    /// Shows a policy.
    Policy,
    /// Sets a policy.
    PutPolicy,
    /// Deletes a policy.
    DeletePolicy,
    /// Lists all operator policies.
    OperatorPolicies,
    /// Lists the operator policies of a vhost.
    VhostOperatorPolicies,
    /// Shows an operator policy.
    OperatorPolicy,
    /// Sets an operator policy.
    PutOperatorPolicy,
    /// Deletes an operator policy.
    DeleteOperatorPolicy,
    /// Lists all redrives.
    Redrives,
    /// Lists the redrives of a vhost.
    VhostRedrives,
    /// Shows a redrive.
    Redrive,
    /// Makes a redrive.
    PutRedrive,
    /// Says what a redrive would do, and changes nothing.
    DryRunRedrive,
    /// Pauses a redrive.
    PauseRedrive,
    /// Resumes a redrive.
    ResumeRedrive,
    /// Cancels a redrive.
    CancelRedrive,
    /// Forgets a redrive that is over.
    DeleteRedrive,
}

impl Endpoint {
    /// Bytes that a body may have, at most.
    pub const fn body_bytes_max(self) -> usize {
        match self {
            Self::Publish
            | Self::ImportDefinitions
            | Self::ImportVhostDefinitions
            | Self::LintDefinitions
            | Self::LintAllDefinitions => HTTP_LARGE_BODY_BYTES_MAX,
            Self::DeleteUsers => HTTP_LIST_BODY_BYTES_MAX,
            _ => HTTP_BODY_BYTES_MAX,
        }
    }

    /// Values that the JSON of a body may have, at most.
    pub const fn body_values_max(self) -> usize {
        match self {
            Self::ImportDefinitions
            | Self::ImportVhostDefinitions
            | Self::LintDefinitions
            | Self::LintAllDefinitions => HTTP_DEFINITIONS_VALUES_MAX,
            _ => HTTP_JSON_VALUES_MAX,
        }
    }

    /// Whether its answer shows declared objects, and is therefore held back until they are
    /// durable. Answers about the state of the broker must not wait for its disk.
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

/// One route. The table of all of them is also the source of the description that the broker
/// serves.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// The method of the request.
    pub method: Method,
    /// The path: segments, those in braces are parameters.
    pub path: &'static str,
    /// The operation that it stands for.
    pub endpoint: Endpoint,
    /// The tags and permissions that it requires.
    pub access: Access,
    /// A sentence for the documentation.
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

    /// All parameters with their names.
    pub(super) fn iter(&self) -> impl Iterator<Item = &(&'static str, Name)> {
        self.0.iter()
    }
}

/// The result of looking up a method and a path.
#[derive(Clone, Debug)]
pub enum RouteMatch {
    /// The route, with the parameters of the path.
    Route(&'static Route, Params),
    /// The path exists with these methods only.
    WrongMethod(Vec<Method>),
    /// The path does not exist.
    Nothing,
}

/// Finds the route of a request. A trailing slash is ignored (as RabbitMQ).
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
                // No kept name is as long: such an object does not exist.
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

/// Whether a parameter names an exchange: the default one has an empty name, which some clients put
/// into the path.
fn is_exchange(template: &str, parameter: &str) -> bool {
    parameter == "source" || parameter == "name" && template.starts_with("/api/exchanges/")
}

/// The name of a template's segment that is a parameter.
pub(super) fn parameter(segment: &str) -> Option<&str> {
    segment.strip_prefix('{')?.strip_suffix('}')
}
