//! The route that imports messages: lines of JSON, as the export writes them, while they arrive.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use hyper::body::Body as _;
use serde_json::json;

use super::api::Call;
use super::aside::aside;
use super::messages::readable_queue;
use super::redrives::refused;
use super::reply::Reply;
use super::scan::turn_now;
use super::work::failed;
use crate::base::limits::{
    IMPORT_BATCH_BYTES, IMPORT_BATCH_LINES, IMPORT_ID_BYTES_MAX, IMPORT_LINE_EXTRA_BYTES,
    IMPORT_STALL_MS,
};
use crate::base::{Lsn, Meter, Name};
use crate::broker::memo::ImportLine;
use crate::broker::{Command, QueueCommand, Reply as CoreReply};
use crate::management::Refusal;
use crate::management::check_id;
use crate::management::http::Failure;
use crate::management::http::json::exported::Imported;
use crate::message::KeyRule;
use crate::server::Vhost;

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
    let _turn = turn_now()?;
    let options = &call.shared.node.environment.options;
    let mut importing = Importing {
        vhost: call.vhost()?,
        queue: name,
        bytes_max: options.message_bytes_max,
        key_rule: options.key_rule,
        id,
        behind: 0,
    };
    importing.begin(call).await?;
    let line_max = line_bytes_max(options.message_bytes_max);
    let mut kept = call.kept().charge(0);
    let mut lines = Splitting::from_line(first_line);
    let (mut body, mut imported, mut skipped) = (body, 0, 0);
    loop {
        let more = next(&mut body).await?;
        let is_last = more.is_none();
        lines.push(more.as_deref().unwrap_or_default(), is_last);
        kept.set(lines.bytes() as u64);
        let is_too_long = lines.rest_bytes() > line_max;
        if is_last || is_too_long || lines.is_batch() {
            let (first, batch) = lines.take();
            if !batch.is_empty() && call.shared.node.alarms.alarms().is_any() {
                return Err(Failure::unavailable(format!(
                    "an alarm of memory, disk or journal is in effect; {imported} messages were imported, go on \
                     with line {first} once it is over"
                )));
            }
            let done = importing.clone().take(call, first, batch).await?;
            imported += done.imported;
            skipped += done.skipped;
            let too_long = || {
                let line = lines.next_line();
                (line, format!("it has more than {line_max} bytes"))
            };
            let wrong = done.wrong.or_else(|| is_too_long.then(too_long));
            if let Some((line, why)) = wrong {
                return Ok(Reply::Refused(json!({
                    "error": "bad_request",
                    "reason": format!("line {line}: {why}; {imported} messages before it were imported"),
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
    check_id("an import (Import-Id)", id, IMPORT_ID_BYTES_MAX)?;
    Ok(Some(Name::from(id)))
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

/// Bytes that a line may have: base64 takes a third more than the message, and the rest of the line
/// is bounded.
fn line_bytes_max(message_bytes_max: u64) -> usize {
    let base64 = usize::try_from(message_bytes_max / 5 * 7).unwrap_or(usize::MAX);
    base64.saturating_add(IMPORT_LINE_EXTRA_BYTES)
}

/// Bytes that arrived, being split into lines.
#[derive(Default)]
struct Splitting {
    /// Lines that are complete.
    lines: Vec<Vec<u8>>,
    bytes: usize,
    rest: Vec<u8>,
    /// Lines before those that are here.
    before: u64,
}

impl Splitting {
    /// Begins with the line of this number.
    fn from_line(first: u64) -> Self {
        Self {
            before: first - 1,
            ..Self::default()
        }
    }

    fn push(&mut self, mut bytes: &[u8], is_last: bool) {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            let (line, behind) = bytes.split_at(end);
            self.rest.extend_from_slice(line);
            self.bytes += self.rest.len();
            self.lines.push(std::mem::take(&mut self.rest));
            bytes = behind.get(1..).unwrap_or_default();
        }
        self.rest.extend_from_slice(bytes);
        if is_last && !self.rest.is_empty() {
            self.bytes += self.rest.len();
            self.lines.push(std::mem::take(&mut self.rest));
        }
    }

    const fn bytes(&self) -> usize {
        self.bytes + self.rest.len()
    }

    const fn rest_bytes(&self) -> usize {
        self.rest.len()
    }

    const fn is_batch(&self) -> bool {
        self.lines.len() >= IMPORT_BATCH_LINES || self.bytes >= IMPORT_BATCH_BYTES
    }

    /// The complete lines, and the number of the first, from 1.
    fn take(&mut self) -> (u64, Vec<Vec<u8>>) {
        let first = self.before + 1;
        self.before += self.lines.len() as u64;
        self.bytes = 0;
        (first, std::mem::take(&mut self.lines))
    }

    /// The number of the line that is not complete.
    const fn next_line(&self) -> u64 {
        self.before + 1
    }
}

/// What lines are imported into.
#[derive(Clone)]
struct Importing {
    vhost: Arc<Vhost>,
    queue: Name,
    bytes_max: u64,
    key_rule: KeyRule,
    /// The id by which the import is known when it is sent again.
    id: Option<Name>,
    /// The number of the last line that is in the queue already.
    behind: u64,
}

/// What became of some lines.
#[derive(Default)]
struct Done {
    imported: u64,
    /// Lines that were put into the queue before.
    skipped: u64,
    lsn: Lsn,
    /// The first line that is wrong, and why.
    wrong: Option<(u64, String)>,
}

/// What became of one line.
enum Put {
    Inserted(Lsn),
    /// It was there before.
    Known(Lsn),
    Refused(String),
}

impl Importing {
    /// Looks up how far an import with this id came; ready once that is durable.
    async fn begin(&mut self, call: &Call<'_>) -> Result<(), Failure> {
        let Some(id) = self.id.clone() else {
            return Ok(());
        };
        let name = self.queue.clone();
        let begin = Command::Queue(QueueCommand::ImportBegin { name, id });
        let begun = self.vhost.work(|now, core, effects| {
            effects.meter = Meter::default();
            core.apply(now, begin, effects)
        });
        match begun.map_err(failed)? {
            CoreReply::ImportBegun { behind, lsn } => {
                self.behind = behind;
                call.admin().durable(lsn).await.map_err(Failure::from)
            }
            CoreReply::Refused(error) => Err(refused(error)),
            _ => Err(Failure::unavailable("the broker answered something else")),
        }
    }

    /// Imports lines until one is wrong; ready once the others are durable.
    async fn take(self, call: &Call<'_>, first: u64, lines: Vec<Vec<u8>>) -> Result<Done, Failure> {
        let done = aside(move || self.put(first, &lines)).await?;
        call.admin().durable(done.lsn).await?;
        Ok(done)
    }

    fn put(&self, first: u64, lines: &[Vec<u8>]) -> Result<Done, Failure> {
        let mut done = Done::default();
        for (number, line) in (first..).zip(lines) {
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let put = if number <= self.behind {
                Put::Known(Lsn(0))
            } else {
                match Imported::read(line, self.bytes_max, self.key_rule) {
                    Ok(imported) => self.insert(number, imported)?,
                    Err(why) => Put::Refused(why),
                }
            };
            match put {
                Put::Inserted(lsn) => {
                    done.imported += 1;
                    done.lsn = done.lsn.max(lsn);
                }
                Put::Known(lsn) => {
                    done.skipped += 1;
                    done.lsn = done.lsn.max(lsn);
                }
                Put::Refused(why) => {
                    done.wrong = Some((number, why));
                    return Ok(done);
                }
            }
        }
        Ok(done)
    }

    /// Puts the message of a line into the queue: one record, which also says how far the import
    /// came.
    fn insert(&self, number: u64, imported: Imported) -> Result<Put, Failure> {
        let id = self.id.clone();
        let command = Command::Queue(QueueCommand::Import {
            name: self.queue.clone(),
            message: Arc::new(imported.message),
            route: imported.route,
            line: id.map(|id| ImportLine { id, line: number }),
        });
        let done = self.vhost.work(|now, core, effects| {
            effects.meter = Meter::default();
            core.apply(now, command, effects)
        });
        Ok(match done.map_err(failed)? {
            CoreReply::Imported { lsn } => Put::Inserted(lsn),
            CoreReply::ImportKnown { lsn } => Put::Known(lsn),
            CoreReply::Refused(error) => Put::Refused(Refusal::from(error).why),
            _ => Put::Refused("the broker answered something else".to_owned()),
        })
    }
}

/// The next bytes of a body; none at its end.
async fn next(body: &mut Body) -> Result<Option<axum::body::Bytes>, Failure> {
    loop {
        let frame = poll_fn(|context| Pin::new(&mut *body).poll_frame(context));
        let stall = Duration::from_millis(IMPORT_STALL_MS);
        let Ok(frame) = tokio::time::timeout(stall, frame).await else {
            return Err(Failure::too_slow(format!(
                "nothing of the body came for {IMPORT_STALL_MS} ms"
            )));
        };
        let Some(frame) = frame else {
            return Ok(None);
        };
        let frame = frame
            .map_err(|error| Failure::bad_request(format!("the body cannot be read: {error}")))?;
        // Anything but data is trailers, which are ignored.
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
}
