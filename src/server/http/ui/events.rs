//! What happens: the stream that a page listens to, and the page with the latest events.

use axum::body::{Body, to_bytes};
use axum::http::header::ACCEPT;
use axum::http::{HeaderMap, HeaderValue, Response};

use super::visit::Visit;
use crate::base::limits::{PAGE_EVENTS_BYTES_MAX, PAGE_EVENTS_LOOKED_AT, PAGE_ROWS_MAX};
use crate::management::http::Failure;
use crate::page::answer::FromAnswer;
use crate::page::events::{EventRow, EventsPage};
use crate::page::frame::Place;
use crate::page::show::encoded;

/// `/ui/events/stream`: the events of the API, for who has a session.
pub(super) fn stream(visit: &Visit<'_>, headers: &HeaderMap) -> Result<Response<Body>, Failure> {
    let reply = visit.ask_events("", headers)?;
    Ok(reply.response(visit.shared.node.alarms.connections()))
}

/// `/ui/events`: those among the latest that are asked for.
pub(super) async fn page(visit: &Visit<'_>) -> Result<EventsPage, Failure> {
    let (kind, queue) = (visit.text("type"), visit.text("queue"));
    let next = visit.shared.node.events.next();
    let mut query = format!("since={}", next.saturating_sub(PAGE_EVENTS_LOOKED_AT + 1));
    for (name, value) in [("type", &kind), ("queue", &queue)] {
        if !value.is_empty() {
            query = format!("{query}&{name}={}", encoded(value.raw()));
        }
    }
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static("application/jsonl"));
    let reply = visit.ask_events(&query, &headers)?;
    let body = reply.response(visit.shared.node.alarms.connections());
    let lines = to_bytes(body.into_body(), PAGE_EVENTS_BYTES_MAX).await;
    let lines = lines.map_err(|_| Failure::unavailable("the events are more than a page takes"))?;
    let rows = lines.split(|byte| *byte == b'\n').rev();
    let rows = rows.filter_map(|line| serde_json::from_slice(line).ok().map(EventRow::of));
    // What a stream says of itself has no queue.
    let rows = rows.filter(|row| !row.data.queue.is_empty());
    Ok(EventsPage {
        frame: visit.frame("Events", Place::Events),
        events: rows.take(PAGE_ROWS_MAX).collect(),
        kind,
        queue,
    })
}
