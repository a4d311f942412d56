//! The page of a queue and the page of a message.

use axum::body::Body;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::http::{HeaderValue, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::operator::queue_forms;
use super::visit::Visit;
use crate::access::Right;
use crate::base::limits::{PAGE_BODY_BYTES_MAX, PAGE_MESSAGES_MAX};
use crate::management::http::{Failure, Method};
use crate::page::answer::FromAnswer;
use crate::page::frame::Place;
use crate::page::message::{Body as ShownBody, BodyForm, Explained, Message, MessagePage, Seen};
use crate::page::queue::{FilterBar, Groups, Messages, Part, QueueAlone, QueuePage, Tab};
use crate::page::show::{Text, encoded};
use crate::search::{By, PARTS};
use crate::server::http::api::Asked;
use crate::server::setup::random;

/// Bytes of a body in a list.
const LISTED_BODY_BYTES: usize = 120;

/// `/ui/queue`.
pub(super) async fn queue(visit: &Visit<'_>) -> Result<QueuePage, Failure> {
    let (vhost, name) = (visit.text("vhost"), visit.text("name"));
    let path = queue_path(&vhost, &name);
    let queue = QueueAlone::of(visit.get(&path, "").await?);
    let may_read = visit.may(vhost.raw(), Right::Read, name.raw());
    let may_configure = visit.may(vhost.raw(), Right::Configure, name.raw());
    let holds_dead = !queue.row.dead_letters.taken.is_zero() || name.raw() == "amq.quarantine";
    let tab = visit.query.get("tab").and_then(Tab::from_word);
    let tab = tab.unwrap_or(if holds_dead {
        Tab::Groups
    } else {
        Tab::Messages
    });
    let filter = filter(visit);
    let by = visit
        .query
        .get("by")
        .filter(|by| By::from_word(by).is_some());
    let by = by.unwrap_or("group").to_owned();
    let part = match tab {
        Tab::Groups | Tab::Messages if !may_read => Part::Unreadable,
        Tab::Groups => {
            let query = format!("by={by}{}", filter.query());
            let groups = visit.get(&format!("{path}/groups"), &query).await?;
            Part::Groups(Groups::of(groups))
        }
        Tab::Messages => {
            let from = visit.query.get("from").unwrap_or("0");
            let query = format!(
                "count={PAGE_MESSAGES_MAX}&truncate={LISTED_BODY_BYTES}&state={}&from={}{}",
                encoded(&filter.state),
                encoded(from),
                filter.query()
            );
            let messages = visit.get(&format!("{path}/messages"), &query).await?;
            Part::Messages(Messages::of(messages))
        }
        Tab::Settings => Part::Settings,
        Tab::Consumers => Part::Consumers,
    };
    let has_delayed = !queue.row.messages_delayed.is_zero();
    let forms = queue_forms((&vhost, &name), (may_read, may_configure), has_delayed);
    Ok(QueuePage {
        frame: visit.frame(&name.to_string(), Place::Queues),
        queue,
        tab,
        part,
        filter,
        forms,
        by,
    })
}

/// The path of a queue in the API.
pub(super) fn queue_path(vhost: &Text, queue: &Text) -> String {
    format!("/api/queues/{}/{}", vhost.query(), queue.query())
}

/// The filter in the query: fields that are left empty count as not given.
pub(super) fn filter(visit: &Visit<'_>) -> FilterBar {
    let parts = visit
        .query
        .pairs()
        .filter(|(name, value)| PARTS.contains(name) && !value.is_empty());
    FilterBar {
        state: visit.query.get("state").unwrap_or("ready").to_owned(),
        parts: parts
            .map(|(name, value)| (name.to_owned(), Text::new(value)))
            .collect(),
    }
}

/// `/ui/message`.
pub(super) async fn message(visit: &Visit<'_>) -> Result<MessagePage, Failure> {
    let (vhost, queue) = (visit.text("vhost"), visit.text("queue"));
    let position = visit.text("position");
    let path = queue_path(&vhost, &queue);
    let explain = format!("{path}/messages/{}/explain", position.query());
    let explained = Explained::of(visit.get(&explain, "").await?);
    let query = format!(
        "state={}&position={}&count=1&encoding=base64&truncate={PAGE_BODY_BYTES_MAX}",
        explained.now.state.query(),
        position.query(),
    );
    // It may have left between the two answers: then only its life is told.
    let seen = visit.get(&format!("{path}/messages"), &query).await?;
    let message: Option<Message> = Seen::of(seen).messages.into_iter().next();
    let form = visit.query.get("body").and_then(BodyForm::from_word);
    let body = message.as_ref().map(|message| {
        let bytes = STANDARD.decode(message.payload.raw()).unwrap_or_default();
        ShownBody::of(&bytes, message, form)
    });
    let may_redrive = visit.may(vhost.raw(), Right::Read, queue.raw());
    Ok(MessagePage {
        frame: visit.frame(&format!("Message {position} of {queue}"), Place::Queues),
        vhost,
        queue,
        position,
        explained,
        message,
        body,
        new_id: new_id(),
        may_redrive,
    })
}

/// An id for a redrive: made with the page, so that a form that is sent twice is one redrive.
pub(super) fn new_id() -> String {
    let random = u64::from_le_bytes(random());
    format!("page-{random:016x}")
}

/// `/ui/export`: the messages that the filter means, as a file.
pub(super) async fn export(visit: &Visit<'_>) -> Result<Response<Body>, Failure> {
    let (vhost, name) = (visit.text("vhost"), visit.text("name"));
    let filter = filter(visit);
    let path = format!("{}/messages.jsonl", queue_path(&vhost, &name));
    let query = format!("state={}{}", encoded(&filter.state), filter.query());
    let asked = Asked {
        method: Method::Get,
        path: &path,
        query: &query,
        body: None,
    };
    let reply = visit.ask(asked).await?;
    let mut response = reply.response(visit.shared.node.alarms.connections());
    let headers = response.headers_mut();
    let file = HeaderValue::from_static("attachment; filename=\"messages.jsonl\"");
    headers.insert(CONTENT_DISPOSITION, file);
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("application/octet-stream"),
    );
    Ok(response)
}
