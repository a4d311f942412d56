//! The route that exports messages: as lines of JSON, while they are read.

use std::io::Write;

use axum::body::Bytes;
use base64::engine::general_purpose::STANDARD;
use base64::write::EncoderWriter;
use tokio::sync::mpsc;

use super::api::Call;
use super::messages::{position, readable_queue, wanted_state};
use super::reply::{Chunks, Reply};
use super::scan::{may_ask_for_users, turn_now};
use crate::base::limits::SCAN_SLICE;
use crate::base::{Now, Timestamp};
use crate::deaths::Viewer;
use crate::management::http::json::exported::{Exported, LINE_END};
use crate::management::http::{Failure, filter_of_query};
use crate::node::ShownMessage;
use crate::server::Store;

/// Bytes that are handed to the connection at a time.
const CHUNK_BYTES: usize = 64 * 1024;

/// `GET /api/queues/VHOST/NAME/messages.jsonl`: a line for each message; changes nothing.
pub(super) fn export(call: &Call<'_>) -> Result<Reply, Failure> {
    let query = &call.query;
    let filter = filter_of_query(query, &["state", "from"])?;
    let place = (wanted_state(query)?, position(query, "from")?);
    may_ask_for_users(call, &filter)?;
    let name = readable_queue(call)?;
    let mut scan = call.scan(name, place, filter)?;
    let turn = turn_now()?;
    let (store, identity) = (call.shared.node.store.clone(), call.identity.clone());
    let now = call.shared.clock.now();
    let (chunks, body) = Chunks::of_lines();
    // A thread of its own: what it hands over waits until the client takes it.
    tokio::task::spawn_blocking(move || {
        let mut lines = Lines::new(chunks);
        let is_whole = loop {
            match scan.slice(SCAN_SLICE) {
                Ok(None) => break true,
                Ok(Some(found)) => {
                    let viewer = identity.viewer();
                    let written = found
                        .iter()
                        .try_for_each(|seen| lines.line(store.as_deref(), seen, now, viewer));
                    if written.is_err() {
                        break false;
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "an export ends early");
                    break false;
                }
            }
        };
        lines.end(is_whole);
        drop(turn);
    });
    Ok(Reply::Lines(body))
}

/// Lines that are handed over in pieces.
struct Lines {
    chunks: mpsc::Sender<Option<Bytes>>,
    buffer: Vec<u8>,
}

impl Lines {
    const fn new(chunks: mpsc::Sender<Option<Bytes>>) -> Self {
        Self {
            chunks,
            buffer: Vec::new(),
        }
    }

    /// Writes the line of a message; an error: the client went away, or it cannot be read.
    fn line(
        &mut self,
        store: Option<&Store>,
        seen: &ShownMessage,
        now: Now,
        viewer: Viewer<'_>,
    ) -> std::io::Result<()> {
        let exported = Exported {
            message: &seen.message,
            route: &seen.route,
            arrived: arrived(seen, now),
            viewer,
        };
        self.write_all(exported.line_begin().as_bytes())?;
        let mut base64 = EncoderWriter::new(&mut *self, &STANDARD);
        match seen.message.blob() {
            None => {
                base64.write_all(seen.message.bare())?;
                for part in seen.message.rest() {
                    base64.write_all(part)?;
                }
            }
            // A large body passes piece by piece.
            Some(body) => {
                for number in 0.. {
                    let read = |store: &Store| store.journal().read_piece(**body, number).ok();
                    let Some(piece) = store.and_then(read) else {
                        return Err(std::io::Error::other("a body cannot be read back"));
                    };
                    let Some(piece) = piece else { break };
                    base64.write_all(&piece)?;
                }
            }
        }
        base64.finish()?;
        drop(base64);
        self.write_all(LINE_END.as_bytes())
    }

    /// Ends the lines. If they are not complete, the connection is ended without their end, so that
    /// the client cannot take a part for the whole.
    fn end(mut self, is_whole: bool) {
        if is_whole {
            let _ = self.hand_over();
        } else {
            // The client may have gone away.
            let _ = self.chunks.blocking_send(None);
        }
    }

    fn hand_over(&mut self) -> std::io::Result<()> {
        let chunk = Bytes::from(std::mem::take(&mut self.buffer));
        let sent = self.chunks.blocking_send(Some(chunk));
        sent.map_err(|_| std::io::ErrorKind::BrokenPipe.into())
    }
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= CHUNK_BYTES {
            self.hand_over()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// When a message arrived, by the wall clock.
fn arrived(seen: &ShownMessage, now: Now) -> Timestamp {
    let age_ms = i64::try_from(now.mono.since(seen.arrived)).unwrap_or(i64::MAX);
    Timestamp(now.wall.0.saturating_sub(age_ms))
}
