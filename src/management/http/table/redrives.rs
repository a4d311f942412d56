//! Routes to redrives.

use super::super::access::Access;
use super::super::route::{Endpoint, Method, Route};
use super::route;

/// The routes of this file.
pub(super) const ROUTES: &[Route] = &[
    route(
        Method::Get,
        "/api/redrives",
        Endpoint::Redrives,
        Access::Management,
        "The redrives of the vhosts that the user may enter (not in RabbitMQ)",
    ),
    route(
        Method::Get,
        "/api/redrives/{vhost}",
        Endpoint::VhostRedrives,
        Access::Vhost,
        "The redrives of a vhost",
    ),
    route(
        Method::Post,
        "/api/redrives/{vhost}/dry-run",
        Endpoint::DryRunRedrive,
        Access::Vhost,
        "What a redrive with this body would do; changes nothing",
    ),
    route(
        Method::Get,
        "/api/redrives/{vhost}/{name}",
        Endpoint::Redrive,
        Access::Vhost,
        "A redrive: what it did, and what became of the messages",
    ),
    route(
        Method::Put,
        "/api/redrives/{vhost}/{name}",
        Endpoint::PutRedrive,
        Access::Vhost,
        "Moves dead letters of a queue back; the same again is no second run",
    ),
    route(
        Method::Delete,
        "/api/redrives/{vhost}/{name}",
        Endpoint::DeleteRedrive,
        Access::Vhost,
        "Forgets a redrive that is over",
    ),
    route(
        Method::Post,
        "/api/redrives/{vhost}/{name}/pause",
        Endpoint::PauseRedrive,
        Access::Vhost,
        "Pauses a redrive (whoever made it, or an administrator)",
    ),
    route(
        Method::Post,
        "/api/redrives/{vhost}/{name}/resume",
        Endpoint::ResumeRedrive,
        Access::Vhost,
        "Resumes a redrive (whoever made it, or an administrator)",
    ),
    route(
        Method::Post,
        "/api/redrives/{vhost}/{name}/cancel",
        Endpoint::CancelRedrive,
        Access::Vhost,
        "Cancels a redrive; what is moved stays moved (whoever made it, or an administrator)",
    ),
];
