//! Routes to the broker itself, its connections and consumers.

use super::super::access::Access;
use super::super::route::{Endpoint, Method, Route};
use super::route;

/// These routes.
pub(super) const ROUTES: &[Route] = &[
    route(
        Method::Get,
        "/api/cluster-name",
        Endpoint::ClusterName,
        Access::Management,
        "The name of the broker",
    ),
    route(
        Method::Get,
        "/api/nodes",
        Endpoint::Nodes,
        Access::Monitoring,
        "The one node: `mem_used` by the process, `mem_counted` against the limit",
    ),
    route(
        Method::Get,
        "/api/nodes/{name}",
        Endpoint::Node,
        Access::Monitoring,
        "A node",
    ),
    route(
        Method::Get,
        "/api/nodes/{name}/memory",
        Endpoint::NodeMemory,
        Access::Monitoring,
        "What the memory of a node is for, in RabbitMQ's categories",
    ),
    route(
        Method::Post,
        "/api/rebalance/queues",
        Endpoint::Rebalance,
        Access::Administrator,
        "Spreads the leaders of queues over the nodes: there is one, so nothing moves",
    ),
    route(
        Method::Get,
        "/api/version",
        Endpoint::Version,
        Access::Management,
        "The version of RabbitMQ whose API this is",
    ),
    route(
        Method::Get,
        "/api/connections",
        Endpoint::Connections,
        Access::Management,
        "Connections: all for monitors, for others their own",
    ),
    route(
        Method::Get,
        "/api/connections/username/{user}",
        Endpoint::UserConnections,
        Access::Management,
        "The connections of a user",
    ),
    route(
        Method::Delete,
        "/api/connections/username/{user}",
        Endpoint::CloseUserConnections,
        Access::Management,
        "Closes the connections of a user",
    ),
    route(
        Method::Get,
        "/api/connections/{name}",
        Endpoint::Connection,
        Access::Management,
        "A connection",
    ),
    route(
        Method::Delete,
        "/api/connections/{name}",
        Endpoint::CloseConnection,
        Access::Management,
        "Closes a connection; the header X-Reason says why",
    ),
    route(
        Method::Get,
        "/api/connections/{name}/sessions",
        Endpoint::Sessions,
        Access::Management,
        "The sessions of a connection with their links (RabbitMQ 4.1)",
    ),
    route(
        Method::Get,
        "/api/connections/{name}/channels",
        Endpoint::ConnectionChannels,
        Access::Management,
        "No channels: AMQP 1.0 has sessions",
    ),
    route(
        Method::Get,
        "/api/vhosts/{vhost}/connections",
        Endpoint::VhostConnections,
        Access::Vhost,
        "The connections in a vhost",
    ),
    route(
        Method::Get,
        "/api/channels",
        Endpoint::Channels,
        Access::Management,
        "No channels: AMQP 1.0 has sessions",
    ),
    route(
        Method::Get,
        "/api/vhosts/{vhost}/channels",
        Endpoint::VhostChannels,
        Access::Vhost,
        "No channels: AMQP 1.0 has sessions",
    ),
    route(
        Method::Get,
        "/api/consumers",
        Endpoint::Consumers,
        Access::Management,
        "The consumers of all queues",
    ),
    route(
        Method::Get,
        "/api/consumers/{vhost}",
        Endpoint::VhostConsumers,
        Access::Vhost,
        "The consumers in a vhost",
    ),
];
