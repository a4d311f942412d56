//! Messages of a queue as lines of JSON, exact to the byte: over HTTP, and for programs that embed the
//! broker. [evidence part 11]

use std::io::{self, Write};

use base64::engine::general_purpose::STANDARD;
use base64::write::EncoderWriter;

use super::Store;
use super::admin::{Admin, internal};
use super::looking::queue_exists;
use super::scan::Scan;
use crate::base::Now;
use crate::base::limits::SCAN_SLICE;
use crate::deaths::Viewer;
use crate::management::http::json::exported::{Exported, LINE_END};
use crate::management::{LookRequest, Refusal};
use crate::node::ShownMessage;

impl Admin {
    /// Writes messages of a queue as lines of JSON, exact to the byte, with their death histories;
    /// changes nothing. Returns their number, and what it wrote to. [`Admin::import_messages`] reads
    /// these lines, of this broker or another one.
    ///
    /// Errors: 400: a part of the filter is not valid. 404: there is no such vhost or queue. 500: the
    /// vhost failed, a message cannot be read back, or the output refused a line.
    pub async fn export_messages<W: Write + Send + 'static>(
        &self,
        vhost: &str,
        request: &LookRequest,
        mut output: W,
    ) -> Result<(u64, W), Refusal> {
        let look = request.check()?;
        let vhost = self.vhost(vhost)?;
        queue_exists(&vhost, &look.queue)?;
        let (store, now) = (self.shared().node.store.clone(), self.shared().clock.now());
        let exported = tokio::task::spawn_blocking(move || {
            let mut scan = Scan::new((vhost, store.clone()), look.queue, look.place, look.filter);
            let mut count = 0;
            while let Some(found) = scan.slice(SCAN_SLICE)? {
                for seen in &found {
                    let seen = (seen, now, Viewer::Monitor);
                    let written = write_line(&mut output, store.as_deref(), seen);
                    written.map_err(|error| internal(format!("line {}: {error}", count + 1)))?;
                    count += 1;
                }
            }
            output
                .flush()
                .map_err(|error| internal(error.to_string()))?;
            Ok((count, output))
        });
        let broke = |_| Err(internal("exporting failed".to_owned()));
        exported.await.unwrap_or_else(broke)
    }
}

/// Writes the line of a message. A large body passes piece by piece. An error: what it writes to
/// takes no more, or the message cannot be read.
pub(super) fn write_line(
    output: &mut impl Write,
    store: Option<&Store>,
    (seen, now, viewer): (&ShownMessage, Now, Viewer<'_>),
) -> io::Result<()> {
    let exported = Exported {
        message: &seen.message,
        route: &seen.route,
        arrived: seen.arrived_at(now),
        viewer,
    };
    output.write_all(exported.line_begin().as_bytes())?;
    let mut base64 = EncoderWriter::new(&mut *output, &STANDARD);
    match seen.message.blob() {
        None => {
            base64.write_all(seen.message.bare())?;
            for part in seen.message.rest() {
                base64.write_all(part)?;
            }
        }
        Some(body) => {
            for number in 0.. {
                let read = |store: &Store| store.journal().read_piece(**body, number).ok();
                let Some(piece) = store.and_then(read) else {
                    return Err(io::Error::other("a body cannot be read back"));
                };
                let Some(piece) = piece else { break };
                base64.write_all(&piece)?;
            }
        }
    }
    base64.finish()?;
    drop(base64);
    output.write_all(LINE_END.as_bytes())
}
