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
use super::reply::Reply;
use super::scan::turn_now;
use super::work::failed;
use crate::base::limits::{
    IMPORT_BATCH_BYTES, IMPORT_BATCH_LINES, IMPORT_LINE_EXTRA_BYTES, IMPORT_STALL_MS,
};
use crate::base::{Lsn, Meter, Name};
use crate::broker::{Command, QueueCommand, Reply as CoreReply};
use crate::management::Refusal;
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
    if head.headers.contains_key("import-id") {
        return Err(Failure::bad_request(
            "the header Import-Id is not supported: nothing is kept of an import that would make \
             it known again",
        ));
    }
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
    let importing = Importing {
        vhost: call.vhost()?,
        queue: name,
        bytes_max: options.message_bytes_max,
        key_rule: options.key_rule,
    };
    let line_max = line_bytes_max(options.message_bytes_max);
    let mut kept = call.kept().charge(0);
    let mut lines = Splitting::default();
    let (mut body, mut imported) = (body, 0);
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
                })));
            }
        }
        if is_last {
            return Ok(Reply::Json(json!({ "imported": imported, "skipped": 0 })));
        }
    }
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
    /// Lines that were taken.
    taken: usize,
}

impl Splitting {
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
    fn take(&mut self) -> (usize, Vec<Vec<u8>>) {
        let first = self.taken + 1;
        self.taken += self.lines.len();
        self.bytes = 0;
        (first, std::mem::take(&mut self.lines))
    }

    /// The number of the line that is not complete.
    const fn next_line(&self) -> usize {
        self.taken + 1
    }
}

/// What lines are imported into.
#[derive(Clone)]
struct Importing {
    vhost: Arc<Vhost>,
    queue: Name,
    bytes_max: u64,
    key_rule: KeyRule,
}

/// What became of some lines.
#[derive(Default)]
struct Done {
    imported: usize,
    lsn: Lsn,
    /// The first line that is wrong, and why.
    wrong: Option<(usize, String)>,
}

impl Importing {
    /// Imports lines until one is wrong; ready once the others are durable.
    async fn take(
        self,
        call: &Call<'_>,
        first: usize,
        lines: Vec<Vec<u8>>,
    ) -> Result<Done, Failure> {
        let done = aside(move || self.put(first, &lines)).await?;
        call.admin().durable(done.lsn).await?;
        Ok(done)
    }

    fn put(&self, first: usize, lines: &[Vec<u8>]) -> Result<Done, Failure> {
        let mut done = Done::default();
        for (number, line) in (first..).zip(lines) {
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let read = Imported::read(line, self.bytes_max, self.key_rule);
            let put = read.map(|imported| self.insert(imported));
            match put {
                Ok(inserted) => match inserted? {
                    Ok(lsn) => {
                        done.imported += 1;
                        done.lsn = done.lsn.max(lsn);
                    }
                    Err(why) => {
                        done.wrong = Some((number, why));
                        return Ok(done);
                    }
                },
                Err(why) => {
                    done.wrong = Some((number, why));
                    return Ok(done);
                }
            }
        }
        Ok(done)
    }

    /// Puts a message into the queue: one record. The inner error is the queue's.
    fn insert(&self, imported: Imported) -> Result<Result<Lsn, String>, Failure> {
        let command = Command::Queue(QueueCommand::Import {
            name: self.queue.clone(),
            message: Arc::new(imported.message),
            route: imported.route,
        });
        let done = self.vhost.work(|now, core, effects| {
            effects.meter = Meter::default();
            core.apply(now, command, effects)
        });
        match done.map_err(failed)? {
            CoreReply::Imported { lsn } => Ok(Ok(lsn)),
            CoreReply::Refused(error) => Ok(Err(Refusal::from(error).why)),
            _ => Ok(Err("the broker answered something else".to_owned())),
        }
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
