//! The pages that are read.

use axum::body::Body;
use axum::http::{Response, StatusCode};

use super::visit::Visit;
use super::{events, headers, listings, messages, operator, redrives, topology};
use crate::management::http::Failure;
use crate::page::Template;
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

/// The page of a path.
async fn page(visit: &Visit<'_>) -> Result<Response<Body>, Failure> {
    match visit.path {
        "/ui/" => written(listings::deaths(visit).await?).await,
        "/ui/queues" => written(listings::queues(visit).await?).await,
        "/ui/queue" => written(messages::queue(visit).await?).await,
        "/ui/message" => written(messages::message(visit).await?).await,
        "/ui/export" => messages::export(visit).await,
        "/ui/redrives" => written(redrives::list(visit).await?).await,
        "/ui/redrive" => written(redrives::one(visit).await?).await,
        "/ui/redrive/new" => written(redrives::new(visit).await?).await,
        "/ui/graph" => written(topology::graph(visit).await?).await,
        "/ui/lint" => written(topology::lint(visit).await?).await,
        "/ui/events" => written(events::page(visit).await?).await,
        "/ui/overview" => written(operator::overview(visit).await?).await,
        "/ui/connections" => written(operator::connections(visit).await?).await,
        "/ui/exchanges" => written(operator::exchanges(visit).await?).await,
        "/ui/policies" => written(operator::policies(visit).await?).await,
        "/ui/users" => written(operator::users(visit).await?).await,
        _ => Err(Failure::not_found()),
    }
}

/// Writes a page beside the tasks that move messages: one with long histories takes its time.
pub(super) async fn written(
    page: impl Template + Send + 'static,
) -> Result<Response<Body>, Failure> {
    let text = aside(move || {
        let unwritten =
            |error| Failure::unavailable(format!("the page cannot be written: {error}"));
        page.render().map_err(unwritten)
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
    match page.render() {
        Ok(text) => headers::html(code, text),
        Err(_) => reply::failure(failure),
    }
}
