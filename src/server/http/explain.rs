//! The route that explains a message.

use std::sync::Arc;

use super::api::Call;
use super::aside::aside;
use super::messages::readable_queue;
use super::redrives::rights;
use super::reply::Reply;
use super::work::failed;
use crate::base::Position;
use crate::broker::Asked;
use crate::broker::event::VhostEvent;
use crate::deaths::{Evidence, How};
use crate::management::Explanation;
use crate::management::http::Failure;
use crate::management::http::json::event::whereabouts;
use crate::management::http::json::explain::explanation;

/// `GET /api/queues/VHOST/NAME/messages/POSITION/explain`.
pub(super) async fn explain(call: &Call<'_>) -> Result<Reply, Failure> {
    let position = position(call)?;
    let error = error(call)?;
    let name = readable_queue(call)?;
    let vhost = call.vhost()?;
    let identity = call.identity.clone();
    let rights = rights(call);
    aside(move || {
        let asked = Asked {
            error: error.as_ref(),
            redriver: Some(&rights),
        };
        let explained = vhost.explain((&name, position), asked);
        let Some(explained) = explained.map_err(failed)? else {
            let left = vhost.events().last_of(&name, position);
            return Err(missing(&name, position, left.as_deref()));
        };
        let told = Explanation::of(&explained, identity.viewer());
        let unreadable =
            || Failure::unavailable("the message cannot be read back from the journal now");
        Ok(Reply::Json(explanation(&told.ok_or_else(unreadable)?)))
    })
    .await
}

/// The position in the path.
fn position(call: &Call<'_>) -> Result<Position, Failure> {
    let text = call.params.get("position");
    let parsed = text.parse().map(Position);
    parsed.map_err(|_| {
        let why = format!(
            "the position '{text}' must be a number from 0 to {}",
            u64::MAX
        );
        Failure::bad_request(why)
    })
}

/// The error that a consumer would reject it with.
fn error(call: &Call<'_>) -> Result<Option<Arc<Evidence>>, Failure> {
    let description = call.query.get("description");
    let Some(condition) = call.query.get("condition") else {
        return match description {
            Some(_) => Err(Failure::bad_request(
                "the parameter 'description' is that of an error: it needs 'condition'",
            )),
            None => Ok(None),
        };
    };
    let by = Evidence {
        how: Some(How::Rejected),
        ..Evidence::default()
    };
    Ok(Some(Arc::new(by.with_error(condition, description, None))))
}

fn missing(queue: &str, position: Position, left: Option<&VhostEvent>) -> Failure {
    let went = match left {
        Some(left) => whereabouts(left),
        None => "it was consumed, died, expired or was dropped, or there never was one".to_owned(),
    };
    let position = position.0;
    Failure {
        status: 404,
        error: "not_found",
        reason: format!(
            "message_not_found: queue '{queue}' has no message at position {position}; {went}"
        ),
    }
}
