//! The pages that are read.

use axum::body::Body;
use axum::http::{Response, StatusCode};

use super::visit::Visit;
use super::{events, headers, listings, messages, operator, redrives, topology};
use crate::management::http::Failure;
use crate::page::AnyPage;
use crate::page::frame::Place;
use crate::page::show::Text;
use crate::page::simple::Failed;
use crate::server::http::aside::aside;
use crate::server::http::reply;

/// The status of a user that lacks a right: the API says 401 to it, which would be that of nobody.
const FORBIDDEN: u16 = 403;

/// Answers a request for a page.
pub(super) async fn serve(visit: &Visit<'_>) -> Response<Body> {
    match page(visit).await {
        Ok(response) => response,
        Err(failure) => failed(visit, &failure),
    }
}

/// The answer to a path.
async fn page(visit: &Visit<'_>) -> Result<Response<Body>, Failure> {
    if visit.path == "/ui/export" {
        return messages::export(visit).await;
    }
    written(shown(visit).await?).await
}

/// The page of a path.
async fn shown(visit: &Visit<'_>) -> Result<Box<dyn AnyPage>, Failure> {
    Ok(match visit.path {
        "/ui/" => Box::new(listings::deaths(visit).await?),
        "/ui/queues" => Box::new(listings::queues(visit).await?),
        "/ui/queue" => Box::new(messages::queue(visit).await?),
        "/ui/message" => Box::new(messages::message(visit).await?),
        "/ui/redrives" => Box::new(redrives::list(visit).await?),
        "/ui/redrive" => Box::new(redrives::one(visit).await?),
        "/ui/redrive/new" => Box::new(redrives::new(visit).await?),
        "/ui/graph" => Box::new(topology::graph(visit).await?),
        "/ui/lint" => Box::new(topology::lint(visit).await?),
        "/ui/events" => Box::new(events::page(visit).await?),
        "/ui/overview" => Box::new(operator::overview(visit).await?),
        "/ui/connections" => Box::new(operator::connections(visit).await?),
        "/ui/exchanges" => Box::new(operator::exchanges(visit).await?),
        "/ui/policies" => Box::new(operator::policies(visit).await?),
        "/ui/users" => Box::new(operator::users(visit).await?),
        _ => return Err(Failure::not_found()),
    })
}

/// Writes a page beside the tasks that move messages: one with long histories takes its time.
pub(super) async fn written(page: Box<dyn AnyPage>) -> Result<Response<Body>, Failure> {
    let text = aside(move || {
        let unwritten =
            |error| Failure::unavailable(format!("the page cannot be written: {error}"));
        page.html().map_err(unwritten)
    });
    Ok(headers::html(StatusCode::OK, text.await?))
}

/// The page that tells what went wrong.
pub(super) fn failed(visit: &Visit<'_>, failure: &Failure) -> Response<Body> {
    let status = match failure.status {
        401 => FORBIDDEN,
        other => other,
    };
    let title = match status {
        FORBIDDEN => "Not allowed",
        404 => "Not found",
        400..500 => "Refused",
        _ => "That did not work",
    };
    let reason = match (failure.status, failure.reason.as_str()) {
        (404, "Not Found") => "There is nothing here, or no longer.",
        (_, reason) => reason,
    };
    let page = Failed {
        frame: visit.frame(title, Place::Elsewhere),
        status,
        reason: Text::new(reason),
    };
    let code = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    match page.html() {
        Ok(text) => headers::html(code, text),
        Err(_) => reply::failure(failure),
    }
}
