//! The route that imports messages: lines of JSON, as the export writes them, while they arrive.

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use serde_json::json;

use super::api::Call;
use super::aside::aside;
use super::body::PacedBody;
use super::messages::readable_queue;
use super::reply::Reply;
use super::work::refused;
use crate::base::Name;
use crate::management::http::Failure;
use crate::server::importing::{self, Importing, Splitting, under_alarm, wrong_line};

/// The media types of lines of JSON.
const LINES: [&str; 3] = [
    "application/jsonl",
    "application/x-ndjson",
    "application/json",
];

/// `POST /api/queues/VHOST/NAME/messages.jsonl`: puts messages into a queue, with their histories.
pub(super) async fn import(call: &Call<'_>, head: &Parts, body: Body) -> Result<Reply, Failure> {
    let id = import_id(head)?;
    let first_line = first_line(head)?;
    let kind = head.headers.get(CONTENT_TYPE).map(|kind| kind.to_str());
    let kind = kind.map(|kind| kind.unwrap_or("?").split(';').next().unwrap_or("?").trim());
    if kind.is_some_and(|kind| !LINES.contains(&kind)) {
        return Err(Failure::unsupported_media_type(format!(
            "lines of JSON are {}",
            LINES.join(", ")
        )));
    }
    let name = readable_queue(call)?;
    let _place = call.message_stream()?;
    let mut importing = Importing::new(call.shared, (call.vhost()?, name), id);
    importing.begin(&call.admin()).await.map_err(refused)?;
    let mut kept = call.kept().charge(0);
    let mut lines = Splitting::from_line(first_line);
    let (mut body, mut imported, mut skipped) = (PacedBody::new(body), 0, 0);
    loop {
        let more = body.next().await?.map_err(|slow| {
            let so_far = format!("{imported} messages were put into the queue");
            Failure::too_slow(format!("{slow}; {so_far}"))
        })?;
        let is_last = more.is_none();
        lines.push(more.as_deref().unwrap_or_default(), is_last);
        kept.set(lines.bytes() as u64);
        if is_last || importing.is_due(&lines) {
            if lines.bytes() > 0 && call.shared.node.alarms.alarms().is_any() {
                let why = under_alarm(imported, lines.first_line());
                return Err(Failure::unavailable(why));
            }
            let (into, mut split) = (importing.clone(), lines);
            let put = aside(move || {
                let done = into.put_split(&mut split).map_err(refused)?;
                Ok((done, split))
            });
            let (done, rest) = put.await?;
            lines = rest;
            call.admin().durable(done.lsn).await?;
            imported += done.imported;
            skipped += done.skipped;
            if let Some((line, why)) = done.wrong {
                return Ok(Reply::Refused(json!({
                    "error": "bad_request",
                    "reason": wrong_line((line, &why), imported),
                    "line": line,
                    "imported": imported,
                    "skipped": skipped,
                })));
            }
        }
        if is_last {
            return Ok(Reply::Json(
                json!({ "imported": imported, "skipped": skipped }),
            ));
        }
    }
}

/// The header `Import-Id`: the import can be sent again, and goes on behind what is durable.
fn import_id(head: &Parts) -> Result<Option<Name>, Failure> {
    let Some(id) = head.headers.get("import-id") else {
        return Ok(None);
    };
    let id = id.to_str().unwrap_or_default();
    Ok(Some(importing::import_id(id)?))
}

/// The header `Import-Line`: the number of the first line of this body, of an import that is sent
/// in portions.
fn first_line(head: &Parts) -> Result<u64, Failure> {
    let Some(line) = head.headers.get("import-line") else {
        return Ok(1);
    };
    let line = line.to_str().ok().and_then(|line| line.parse().ok());
    let line = line.filter(|line| (1..=u64::MAX / 2).contains(line));
    line.ok_or_else(|| {
        Failure::bad_request("the header Import-Line must be the number of a line, from 1")
    })
}
