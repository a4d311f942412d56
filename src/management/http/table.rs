//! All routes.

use super::access::Access;
use super::route::{Endpoint, Method, Route};

const fn route(
    method: Method,
    path: &'static str,
    endpoint: Endpoint,
    access: Access,
    summary: &'static str,
) -> Route {
    Route {
        method,
        path,
        endpoint,
        access,
        summary,
    }
}

/// Every route of the API.
pub const ROUTES: &[Route] = &[
    route(
        Method::Get,
        "/api/overview",
        Endpoint::Overview,
        Access::Management,
        "The broker in figures: versions, totals of objects and messages, listeners",
    ),
    route(
        Method::Get,
        "/api/whoami",
        Endpoint::WhoAmI,
        Access::Management,
        "The user that asks, and its tags",
    ),
];
