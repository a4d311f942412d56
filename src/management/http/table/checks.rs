//! Routes to health checks, to the broker's features, and to login attempts.

use super::super::access::Access;
use super::super::route::{Endpoint, Method, Route};
use super::route;

/// The routes of this file.
pub(super) const ROUTES: &[Route] = &[
    route(
        Method::Get,
        "/api/health/checks/alarms",
        Endpoint::HealthAlarms,
        Access::Management,
        "Whether publishers are stopped for want of memory or disk",
    ),
    route(
        Method::Get,
        "/api/health/checks/local-alarms",
        Endpoint::HealthLocalAlarms,
        Access::Management,
        "The same, on this node",
    ),
    route(
        Method::Get,
        "/api/health/checks/virtual-hosts",
        Endpoint::HealthVhosts,
        Access::Management,
        "Whether all vhosts work",
    ),
    route(
        Method::Get,
        "/api/health/checks/port-listener/{port}",
        Endpoint::HealthPort,
        Access::Management,
        "Whether a port is listened on",
    ),
    route(
        Method::Get,
        "/api/health/checks/protocol-listener/{protocol}",
        Endpoint::HealthProtocol,
        Access::Management,
        "Whether a protocol is spoken",
    ),
    route(
        Method::Get,
        "/api/health/checks/node-is-quorum-critical",
        Endpoint::HealthQuorum,
        Access::Management,
        "Whether others need this node: there are none",
    ),
    route(
        Method::Get,
        "/api/health/checks/certificate-expiration/{within}/{unit}",
        Endpoint::HealthCertificates,
        Access::Management,
        "Whether certificates expire soon",
    ),
    route(
        Method::Get,
        "/api/health/checks/is-in-service",
        Endpoint::HealthInService,
        Access::Management,
        "Whether the broker serves clients",
    ),
    route(
        Method::Get,
        "/api/health/checks/ready-to-serve-clients",
        Endpoint::HealthReady,
        Access::Management,
        "Whether the broker serves clients",
    ),
    route(
        Method::Get,
        "/api/aliveness-test/{vhost}",
        Endpoint::Aliveness,
        Access::Vhost,
        "Declares a queue, publishes to it and takes the message",
    ),
    route(
        Method::Get,
        "/api/feature-flags",
        Endpoint::FeatureFlags,
        Access::Management,
        "No feature flags: every feature is there",
    ),
    route(
        Method::Get,
        "/api/deprecated-features",
        Endpoint::DeprecatedFeatures,
        Access::Management,
        "No deprecated features",
    ),
    route(
        Method::Get,
        "/api/deprecated-features/used",
        Endpoint::DeprecatedFeatures,
        Access::Management,
        "No deprecated features that are used",
    ),
    route(
        Method::Get,
        "/api/extensions",
        Endpoint::Extensions,
        Access::Management,
        "No extensions",
    ),
    route(
        Method::Get,
        "/api/auth",
        Endpoint::Auth,
        Access::Management,
        "How to log in: with Basic authentication",
    ),
    route(
        Method::Get,
        "/api/auth/attempts/{node}",
        Endpoint::LoginAttempts,
        Access::Monitoring,
        "Attempts to log in, by protocol",
    ),
    route(
        Method::Delete,
        "/api/auth/attempts/{node}",
        Endpoint::ResetLoginAttempts,
        Access::Monitoring,
        "Begins to count them anew",
    ),
    route(
        Method::Get,
        "/api/auth/attempts/{node}/source",
        Endpoint::LoginSources,
        Access::Monitoring,
        "Attempts to log in, by address, user and protocol: the first 1,024 of them",
    ),
    route(
        Method::Delete,
        "/api/auth/attempts/{node}/source",
        Endpoint::ResetLoginSources,
        Access::Monitoring,
        "Begins to count these anew",
    ),
];
