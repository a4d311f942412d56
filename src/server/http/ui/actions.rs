//! What the forms of the page do: each is one route of the API.

use axum::body::Body;
use axum::http::Response;
use serde_json::{Value, json};

use super::messages::queue_path;
use super::redrives::{asked, body, job_path};
use super::visit::Visit;
use super::{pages, see_other};
use crate::management::http::{Failure, Method, Query};
use crate::page::queue::queue_link;
use crate::page::show::encoded;

/// Carries out a form: what it is about stands in the query, what somebody typed in the fields.
pub(super) async fn serve(visit: &Visit<'_>, fields: &Query) -> Response<Body> {
    match act(visit, fields).await {
        Ok(place) => see_other(&place),
        Err(failure) => pages::failed(visit, &failure),
    }
}

/// The action of a path; where to go then.
async fn act(visit: &Visit<'_>, _: &Query) -> Result<String, Failure> {
    let action = visit.path.strip_prefix("/ui/do/");
    match action.ok_or_else(Failure::not_found)? {
        "redrive-one" => redrive_one(visit).await,
        "redrive" => {
            let asked = asked(visit);
            start(visit, asked.vhost.raw(), body(&asked)?).await
        }
        "pause" => steer(visit, "pause", "paused").await,
        "resume" => steer(visit, "resume", "resumed").await,
        "cancel" => steer(visit, "cancel", "cancelled").await,
        "discard" => discard(visit).await,
        _ => Err(Failure::not_found()),
    }
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
