//! The route that exports messages: as lines of JSON, while they are read.

use std::io::Write;

use axum::body::Bytes;
use tokio::sync::mpsc;

use super::api::Call;
use super::messages::{position, readable_queue, wanted_state};
use super::reply::{Chunks, Reply};
use super::scan::may_ask_for_users;
use crate::base::limits::SCAN_SLICE;
use crate::management::http::{Failure, filter_of_query};
use crate::server::exporting::write_line;
use crate::server::streams::StreamPlace;

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
    let place_taken = call.message_stream()?;
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
                    let written = found.iter().try_for_each(|seen| {
                        write_line(&mut lines, store.as_deref(), (seen, now, viewer))
                    });
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
        lines.end(is_whole, place_taken);
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

    /// Ends the lines. If they are not complete, the connection is ended without their end, so that
    /// the client cannot take a part for the whole. The place is free before the client sees the end: it may ask
    /// for the next export at once.
    fn end(mut self, is_whole: bool, place: StreamPlace) {
        if is_whole {
            let _ = self.hand_over();
        } else {
            // The client may have gone away.
            let _ = self.chunks.blocking_send(None);
        }
        drop(place);
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
