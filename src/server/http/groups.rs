//! The route to groups of dead letters.

use std::sync::Arc;

use serde_json::Value;

use super::api::Call;
use super::messages::{position, readable_queue, wanted_state};
use super::reply::Reply;
use super::scan::{may_ask_for_users, scanning};
use super::work::{failed, refused};
use crate::base::Name;
use crate::base::limits::GROUPS_KEPT_MS;
use crate::management::http::json::groups::{self, Scanned};
use crate::management::http::{Failure, filter_of_query};
use crate::search::By;
use crate::server::Vhost;
use crate::server::kept_groups::{Kept, Question, QueueState};
use crate::server::looking::{by_of_word, count_groups};

/// `GET /api/queues/VHOST/NAME/groups`: how many dead letters of each kind there are.
pub(super) async fn groups(call: &Call<'_>) -> Result<Reply, Failure> {
    let query = &call.query;
    let filter = filter_of_query(query, &["by", "state", "from"])?;
    let word = query.get("by").unwrap_or(By::Group.as_str());
    let by = by_of_word(word)?;
    let state = wanted_state(query)?;
    let from = position(query, "from")?;
    may_ask_for_users(call, &filter)?;
    let queue = readable_queue(call)?;
    let vhost = call.vhost()?;
    let question = Question {
        vhost: vhost.name().clone(),
        queue: queue.clone(),
        by,
        filter: filter.clone(),
        place: (query.get("state").unwrap_or("ready").to_owned(), from.0),
        user: (!call.identity.is_monitor())
            .then(|| (call.identity.name.clone(), call.identity.grant.is_some())),
    };
    let shared = Arc::clone(call.shared);
    let now = shared.clock.now();
    let before = queue_state(&vhost, &queue)?;
    if let Some(kept) = shared.groups.find(&question, &before, now.mono) {
        return Ok(Reply::Json(with_notes(&kept, (&vhost, &queue))?));
    }
    let mut scan = call.scan(queue.clone(), (state, from), filter)?;
    let identity = call.identity.clone();
    let noted = (Arc::clone(&vhost), queue.clone());
    let answer = scanning(move || {
        let counted = count_groups(&mut scan, by, identity.viewer(), shared.clock)?;
        let scanned = Scanned {
            by,
            scanned: scan.scanned(),
            next: scan.next(),
            as_of: now.wall,
        };
        let answer = Arc::new(groups::groups(&counted, &scanned));
        if queue_state(&vhost, &queue)? == before {
            let now = shared.clock.now().mono;
            let kept = Kept {
                question,
                state: before,
                until: now.plus(GROUPS_KEPT_MS),
                answer: Arc::clone(&answer),
            };
            shared.groups.keep(kept, now);
        }
        Ok(answer)
    });
    let answer = answer.await?;
    Ok(Reply::Json(with_notes(&answer, (&noted.0, &noted.1))?))
}

/// `PUT /api/queues/VHOST/NAME/groups/KEY/note`.
pub(super) async fn put_note(call: &Call<'_>) -> Result<Reply, Failure> {
    let queue = readable_queue(call)?;
    let fields = call.fields()?;
    fields.allow(&["note"])?;
    fields.require(&["note"])?;
    let text = fields.text("note")?.unwrap_or_default();
    let created = note(call, &queue, Some((text, &call.identity.name))).await?;
    let warnings = Vec::new();
    Ok(Reply::Stored { created, warnings })
}

/// `DELETE /api/queues/VHOST/NAME/groups/KEY/note`.
pub(super) async fn delete_note(call: &Call<'_>) -> Result<Reply, Failure> {
    let queue = readable_queue(call)?;
    note(call, &queue, None).await?;
    Ok(Reply::Done)
}

async fn note(call: &Call<'_>, queue: &Name, note: Option<(&str, &str)>) -> Result<bool, Failure> {
    let (vhost, key) = (call.params.get("vhost"), call.params.get("key"));
    let noted = call.admin().note_group((&vhost, queue, &key), note).await;
    noted.map_err(refused)
}

/// The answer with the notes of its groups, as they stand now: they are not kept with it.
fn with_notes(answer: &Value, (vhost, queue): (&Vhost, &Name)) -> Result<Value, Failure> {
    let mut answer = answer.clone();
    let notes = vhost.look(|core| {
        let queue = core.queue(queue).map(|queue| queue.id)?;
        Some(core.notes_of(queue).cloned().collect::<Vec<_>>())
    });
    for note in notes.map_err(failed)?.unwrap_or_default() {
        groups::add_note(&mut answer, &note);
    }
    Ok(answer)
}

fn queue_state(vhost: &Vhost, queue: &Name) -> Result<QueueState, Failure> {
    let state = vhost.look(|core| core.queue(queue).map(QueueState::of));
    let gone = || Failure {
        status: 404,
        error: "not_found",
        reason: "queue_not_found".to_owned(),
    };
    state.map_err(failed)?.ok_or_else(gone)
}
