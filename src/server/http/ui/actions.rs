//! What the forms of the page do: each is one route of the API.

use axum::body::Body;
use axum::http::Response;
use serde_json::{Value, json};

use super::messages::queue_path;
use super::operator::object_path;
use super::redrives::{asked, body, job_path, number};
use super::visit::Visit;
use super::{pages, see_other};
use crate::base::limits::PAGE_BODY_BYTES_MAX;
use crate::management::http::{Failure, Method, Query};
use crate::page::frame::Place;
use crate::page::operator::Operator;
use crate::page::queue::queue_link;
use crate::page::show::{Lines, encoded};

/// Carries out a form: what it is about stands in the query, what somebody typed in the fields.
pub(super) async fn serve(visit: &Visit<'_>, fields: &Query) -> Response<Body> {
    let action = visit.path.strip_prefix("/ui/do/").unwrap_or_default();
    let done = if action == "get" {
        taken(visit, fields).await
    } else {
        act(visit, action, fields)
            .await
            .map(|place| see_other(&place))
    };
    done.unwrap_or_else(|failure| pages::failed(visit, &failure))
}

/// Carries out an action; where to go then.
async fn act(visit: &Visit<'_>, action: &str, fields: &Query) -> Result<String, Failure> {
    match action {
        "redrive-one" => redrive_one(visit).await,
        "redrive" => {
            let asked = asked(visit)?;
            start(visit, asked.vhost.raw(), body(&asked)?).await
        }
        "pause" => steer(visit, "pause", "paused").await,
        "resume" => steer(visit, "resume", "resumed").await,
        "cancel" => steer(visit, "cancel", "cancelled").await,
        "discard" => discard(visit).await,
        "retry" => retry(visit, fields).await,
        "set-note" => set_note(visit, fields).await,
        _ => {
            let (request, place) = operator_request(visit, action, fields)?;
            let (method, path, body) = request;
            let answer = visit.send(method, &path, body).await?;
            if answer.get("routed") == Some(&Value::Bool(false)) {
                return Err(Failure::bad_request("the message reached no queue"));
            }
            Ok(place.to_owned())
        }
    }
}

/// Method, path and body of a request.
type Request = (Method, String, Option<Value>);

/// The request of an operator's form, and where to go then.
fn operator_request(
    visit: &Visit<'_>,
    action: &str,
    fields: &Query,
) -> Result<(Request, &'static str), Failure> {
    let field = |name: &str| fields.get(name).unwrap_or_default();
    let typed = |kind: &str| object_path(kind, field("vhost"), field("name"));
    let (put, post) = (Method::Put, Method::Post);
    Ok(match action {
        "declare-exchange" => {
            let body = json!({ "type": field("type"), "durable": true });
            (
                (put, typed("exchanges"), Some(body)),
                "/ui/exchanges?done=declared",
            )
        }
        "declare-queue" => {
            let mut arguments = object("arguments", field("arguments"))?;
            if let Value::Object(arguments) = &mut arguments {
                arguments
                    .entry("x-queue-type")
                    .or_insert_with(|| json!(field("type")));
            }
            let body = json!({ "durable": true, "arguments": arguments });
            (
                (put, typed("queues"), Some(body)),
                "/ui/queues?done=declared",
            )
        }
        "bind" => {
            let names = ["vhost", "exchange", "queue"];
            let [vhost, exchange, queue] = names.map(|name| encoded(field(name)));
            let path = format!("/api/bindings/{vhost}/e/{exchange}/q/{queue}");
            let body = json!({ "routing_key": field("key"), "arguments": {} });
            ((post, path, Some(body)), "/ui/exchanges?done=set")
        }
        "publish" => {
            let path = object_path("exchanges", field("vhost"), field("exchange")) + "/publish";
            let body = json!({
                "properties": { "delivery_mode": 2 }, "routing_key": field("key"),
                "payload": field("payload"), "payload_encoding": "string",
            });
            ((post, path, Some(body)), "/ui/exchanges?done=published")
        }
        "set-policy" => {
            let body = json!({
                "pattern": field("pattern"), "apply-to": field("apply"),
                "priority": number("priority", field("priority"))?,
                "definition": object("definition", field("definition"))?,
            });
            (
                (put, typed("policies"), Some(body)),
                "/ui/policies?done=set",
            )
        }
        "set-user" => {
            let path = format!("/api/users/{}", encoded(field("name")));
            let body = texts(fields, &["password", "tags"]);
            ((put, path, Some(body)), "/ui/users?done=set")
        }
        "set-permissions" => {
            let path = object_path("permissions", field("vhost"), field("user"));
            let body = texts(fields, &["configure", "write", "read"]);
            ((put, path, Some(body)), "/ui/users?done=set")
        }
        _ => return removal(visit, action, fields),
    })
}

/// The request of a form that takes something away, and where to go then.
fn removal(
    visit: &Visit<'_>,
    action: &str,
    fields: &Query,
) -> Result<(Request, &'static str), Failure> {
    let (vhost, name, delete) = (visit.text("vhost"), visit.text("name"), Method::Delete);
    let named = |kind: &str| object_path(kind, vhost.raw(), name.raw());
    Ok(match action {
        "close" => {
            let path = format!("/api/connections/{}", name.query());
            ((delete, path, None), "/ui/connections?done=closed")
        }
        "purge" => {
            sure(fields)?;
            (
                (delete, named("queues") + "/contents", None),
                "/ui/queues?done=purged",
            )
        }
        "delete-queue" => {
            sure(fields)?;
            ((delete, named("queues"), None), "/ui/queues?done=deleted")
        }
        "delete-exchange" => (
            (delete, named("exchanges"), None),
            "/ui/exchanges?done=deleted",
        ),
        "delete-policy" => (
            (delete, named("policies"), None),
            "/ui/policies?done=deleted",
        ),
        "delete-user" => {
            let path = format!("/api/users/{}", name.query());
            ((delete, path, None), "/ui/users?done=deleted")
        }
        _ => return Err(Failure::not_found()),
    })
}

/// An object of what was typed in these fields.
fn texts(fields: &Query, names: &[&str]) -> Value {
    let typed = |name: &&str| {
        let text = fields.get(name).unwrap_or_default();
        ((*name).to_owned(), Value::from(text))
    };
    names.iter().map(typed).collect()
}

/// Checks that somebody said to be sure.
fn sure(fields: &Query) -> Result<(), Failure> {
    if fields.flag("sure")? {
        return Ok(());
    }
    Err(Failure::bad_request(
        "nothing was done: the box that says what goes for good is not ticked",
    ))
}

/// A JSON object that somebody typed.
fn object(name: &str, text: &str) -> Result<Value, Failure> {
    let read = serde_json::from_str::<Value>(text)
        .ok()
        .filter(Value::is_object);
    read.ok_or_else(|| Failure::bad_request(format!("the field '{name}' must be a JSON object")))
}

/// Takes messages from the queue of the query, and shows them.
async fn taken(visit: &Visit<'_>, fields: &Query) -> Result<Response<Body>, Failure> {
    let (vhost, name) = (visit.text("vhost"), visit.text("name"));
    let path = queue_path(&vhost, &name) + "/get";
    let body = json!({
        "count": number("count", fields.get("count").unwrap_or("1"))?,
        "ackmode": fields.get("ackmode").unwrap_or("ack_requeue_true"),
        "encoding": "auto", "truncate": PAGE_BODY_BYTES_MAX,
    });
    let taken = visit.send(Method::Post, &path, Some(body)).await?;
    let text = serde_json::to_string_pretty(&taken).unwrap_or_default();
    let page = Operator {
        frame: visit.frame(&format!("Messages of {name}"), Place::Elsewhere),
        figures: Vec::new(),
        tables: Vec::new(),
        forms: Vec::new(),
        taken: Some(Lines(text)),
    };
    pages::written(Box::new(page)).await
}

/// Redrives the message of the query to where it failed.
async fn redrive_one(visit: &Visit<'_>) -> Result<String, Failure> {
    let position = visit.text("position");
    let body = json!({
        "queue": visit.text("queue").raw(),
        "filter": { "position": [position.raw()] },
    });
    start(visit, visit.text("vhost").raw(), body).await
}

/// Makes the redrive with the id of the query.
async fn start(visit: &Visit<'_>, vhost: &str, body: Value) -> Result<String, Failure> {
    let id = visit.text("id");
    let path = format!("/api/redrives/{}/{}", encoded(vhost), id.query());
    visit.send(Method::Put, &path, Some(body)).await?;
    Ok(format!(
        "/ui/redrive?vhost={}&id={}&done=redriven",
        encoded(vhost),
        id.query()
    ))
}

async fn steer(visit: &Visit<'_>, verb: &str, done: &str) -> Result<String, Failure> {
    let (vhost, id) = (visit.text("vhost"), visit.text("id"));
    let path = format!("{}/{verb}", job_path(&vhost, &id));
    visit.send(Method::Post, &path, None).await?;
    Ok(format!(
        "/ui/redrive?vhost={}&id={}&done={done}",
        vhost.query(),
        id.query()
    ))
}

/// Makes delayed messages of the queue ready: so many of those that are due first, or all.
async fn retry(visit: &Visit<'_>, fields: &Query) -> Result<String, Failure> {
    let (vhost, name) = (visit.text("vhost"), visit.text("name"));
    let body = match fields.get("count").unwrap_or_default().trim() {
        "" => json!({}),
        count => json!({ "count": number("count", count)? }),
    };
    let path = queue_path(&vhost, &name) + "/retry";
    visit.send(Method::Post, &path, Some(body)).await?;
    let queue = queue_link(vhost.raw(), name.raw());
    Ok(format!("{queue}&done=retried"))
}

/// Writes a note on a group, or removes it if nothing is left of it.
async fn set_note(visit: &Visit<'_>, fields: &Query) -> Result<String, Failure> {
    let (vhost, name, key) = (visit.text("vhost"), visit.text("name"), visit.text("key"));
    let path = format!("{}/groups/{}/note", queue_path(&vhost, &name), key.query());
    let (method, body) = match fields.get("note").unwrap_or_default().trim() {
        "" => (Method::Delete, None),
        note => (Method::Put, Some(json!({ "note": note }))),
    };
    visit.send(method, &path, body).await?;
    let queue = queue_link(vhost.raw(), name.raw());
    Ok(format!("{queue}&tab=groups&done=noted"))
}

async fn discard(visit: &Visit<'_>) -> Result<String, Failure> {
    let (vhost, queue) = (visit.text("vhost"), visit.text("queue"));
    let position = visit.text("position");
    let path = format!(
        "{}/messages/{}",
        queue_path(&vhost, &queue),
        position.query()
    );
    visit.send(Method::Delete, &path, None).await?;
    let queue = queue_link(vhost.raw(), queue.raw());
    Ok(format!("{queue}&done=discarded"))
}
