//! The table of all routes.

mod broker;
mod checks;
mod objects;
mod redrives;
mod registry;

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

/// Every route of the API, in the order in which they are tried.
pub fn routes() -> impl Iterator<Item = &'static Route> {
    let parts = [
        objects::ROUTES,
        broker::ROUTES,
        redrives::ROUTES,
        registry::ROUTES,
        checks::ROUTES,
    ];
    parts.into_iter().flatten()
}
