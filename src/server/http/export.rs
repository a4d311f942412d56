//! The route that exports messages: as lines of JSON, while they are read.

use std::io::Write;

use axum::body::Bytes;
use tokio::runtime::Handle;
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
                _ if lines.is_left() => break false,
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
    /// the client cannot take a part for the whole. The place is free before the client sees either end: it may
    /// ask for the next export at once.
    fn end(mut self, is_whole: bool, place: StreamPlace) {
        if is_whole {
            let _ = self.hand_over();
            drop(place);
            return;
        }
        // The place is held for as long as the thread waits for a client that takes nothing.
        let room = Handle::current().block_on(self.chunks.reserve());
        drop(place);
        // The client may have gone away.
        if let Ok(room) = room {
            room.send(None);
        }
    }

    /// Whether nobody takes lines any more. Where few messages are wanted nothing may be handed over for long.
    fn is_left(&self) -> bool {
        self.chunks.is_closed()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Name;
    use crate::server::streams::UserStreams;

    /// The place was kept until behind the end: who saw the connection break and asked again got 429 now and then.
    #[tokio::test]
    async fn an_export_that_breaks_off_gives_up_its_place_before_that_is_seen() {
        let streams = UserStreams::of_messages();
        let take = || StreamPlace::take(&streams, (&Name::from("ann"), false));
        let (place, _other) = (take().ok().unwrap(), take().ok().unwrap());
        let (chunks, mut body) = mpsc::channel(1);
        chunks.try_send(Some(Bytes::new())).unwrap();
        let lines = Lines::new(chunks);
        let ended = tokio::task::spawn_blocking(move || lines.end(false, place));
        assert!(take().is_err());
        assert_eq!(body.recv().await, Some(Some(Bytes::new())));
        assert_eq!(body.recv().await, Some(None));
        assert!(take().is_ok());
        ended.await.unwrap();
    }
}
