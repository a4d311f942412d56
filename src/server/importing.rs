//! Lines of JSON that become messages of a queue again: over HTTP, and for programs that embed the
//! broker. [evidence part 11]

use std::io::Read;
use std::sync::Arc;

use super::Vhost;
use super::admin::{Admin, failed, internal};
use super::looking::queue_exists;
use super::shared::Shared;
use crate::base::limits::{
    IMPORT_BATCH_BYTES, IMPORT_BATCH_LINES, IMPORT_ID_BYTES_MAX, IMPORT_LINE_EXTRA_BYTES,
};
use crate::base::{Lsn, Meter, Name};
use crate::broker::memo::ImportLine;
use crate::broker::{Command, QueueCommand, Reply};
use crate::management::http::json::exported::Imported;
use crate::management::{Refusal, Status, check_id};
use crate::message::KeyRule;

/// Bytes that are read at a time.
const READ_BYTES: usize = 64 * 1024;

/// What became of imported lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct ImportedMessages {
    /// Messages that were put into the queue.
    pub imported: u64,
    /// Lines whose message had been put there before, by an import with the same id.
    pub skipped: u64,
}

impl Admin {
    /// Puts the messages of exported lines into a queue, with their death histories: beside
    /// exchanges and bindings, and pushing nothing out. Ready once all are durable. With an id an
    /// import that was cut off goes on where it was when all lines come again, over restarts too.
    ///
    /// Errors: 400: a line is wrong, which the text names with the number of messages before it that
    /// stay, or the id is not valid. 404: there is no such vhost or queue. 409: the import fills
    /// another queue. 429: an alarm is in effect, or there are too many imports. 500: the vhost or
    /// the journal failed, or the lines cannot be read.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use coroner::{Broker, LookRequest};
    ///
    /// let broker = Broker::builder().start().await?;
    /// let admin = broker.admin();
    /// admin.declare_queue("/", "failed", &[]).await?;
    /// admin.declare_queue("/", "copies", &[]).await?;
    /// broker.publisher("/queues/failed").open().await?.publish("cut the hedge").await?;
    ///
    /// let (count, lines) = admin.export_messages("/", &LookRequest::of("failed"), Vec::new()).await?;
    /// let lines = std::io::Cursor::new(lines);
    /// let imported = admin.import_messages("/", "copies", Some("friday"), lines.clone()).await?;
    /// assert_eq!((count, imported.imported), (1, 1));
    /// let again = admin.import_messages("/", "copies", Some("friday"), lines).await?;
    /// assert_eq!((again.imported, again.skipped), (0, 1));
    /// # broker.stop().await;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn import_messages(
        &self,
        vhost: &str,
        queue: &str,
        id: Option<&str>,
        lines: impl Read + Send + 'static,
    ) -> Result<ImportedMessages, Refusal> {
        let id = id.map(import_id).transpose()?;
        let (vhost, queue) = (self.vhost(vhost)?, Name::from(queue));
        queue_exists(&vhost, &queue)?;
        let mut importing = Importing::new(self.shared(), (vhost, queue), id);
        importing.begin(self).await?;
        let mut so_far = ImportedMessages::default();
        let mut source = Source {
            lines,
            splitting: Splitting::from_line(1),
            is_over: false,
        };
        while !source.is_over {
            if self.shared().node.alarms.alarms().is_any() {
                return Err(Refusal {
                    status: Status::TooMany,
                    why: under_alarm(so_far.imported, source.splitting.first_line()),
                });
            }
            let importing = importing.clone();
            let put = tokio::task::spawn_blocking(move || {
                let done = source.put_batch(&importing)?;
                Ok::<_, Refusal>((done, source))
            });
            let broke = |_| Err(internal("importing failed".to_owned()));
            let (done, rest) = put.await.unwrap_or_else(broke)?;
            source = rest;
            self.durable(done.lsn).await?;
            so_far.imported += done.imported;
            so_far.skipped += done.skipped;
            if let Some((line, why)) = done.wrong {
                return Err(Refusal::bad_request(wrong_line(
                    (line, &why),
                    so_far.imported,
                )));
            }
        }
        Ok(so_far)
    }
}

/// Checks the id of an import.
pub(super) fn import_id(id: &str) -> Result<Name, Refusal> {
    check_id("an import (Import-Id)", id, IMPORT_ID_BYTES_MAX)?;
    Ok(Name::from(id))
}

/// Why an import goes no further now.
pub(super) fn under_alarm(imported: u64, line: u64) -> String {
    format!(
        "an alarm of memory, disk or journal is in effect; {imported} messages were imported, go on \
         with line {line} once it is over"
    )
}

/// Why an import ends at a line.
pub(super) fn wrong_line((line, why): (u64, &str), imported: u64) -> String {
    format!("line {line}: {why}; {imported} messages before it were imported")
}

/// Lines that are read bit by bit.
struct Source<R> {
    lines: R,
    splitting: Splitting,
    is_over: bool,
}

impl<R: Read> Source<R> {
    /// Reads a batch of lines and puts it into the queue. Blocks.
    fn put_batch(&mut self, importing: &Importing) -> Result<Done, Refusal> {
        let mut buffer = vec![0; READ_BYTES];
        loop {
            let read = self.lines.read(&mut buffer);
            let read = read.map_err(|why| internal(format!("the lines cannot be read: {why}")))?;
            self.is_over = read == 0;
            self.splitting
                .push(buffer.get(..read).unwrap_or_default(), self.is_over);
            if self.is_over || importing.is_due(&self.splitting) {
                return importing.put_split(&mut self.splitting);
            }
        }
    }
}

/// Bytes that arrived, being split into lines.
#[derive(Default)]
pub(super) struct Splitting {
    /// Lines that are complete.
    lines: Vec<Vec<u8>>,
    bytes: usize,
    rest: Vec<u8>,
    /// Lines before those that are here.
    before: u64,
}

impl Splitting {
    /// Begins with the line of this number.
    pub(super) fn from_line(first: u64) -> Self {
        Self {
            before: first - 1,
            ..Self::default()
        }
    }

    pub(super) fn push(&mut self, mut bytes: &[u8], is_last: bool) {
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

    pub(super) const fn bytes(&self) -> usize {
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

    /// The number of the first line that was not taken.
    pub(super) const fn first_line(&self) -> u64 {
        self.before + 1
    }
}

/// What lines are imported into.
#[derive(Clone)]
pub(super) struct Importing {
    vhost: Arc<Vhost>,
    queue: Name,
    bytes_max: u64,
    /// Bytes that a line may have.
    line_max: usize,
    key_rule: KeyRule,
    /// The id by which the import is known when it is sent again.
    id: Option<Name>,
    /// The number of the last line that is in the queue already.
    behind: u64,
}

/// What became of some lines.
#[derive(Default)]
pub(super) struct Done {
    pub(super) imported: u64,
    /// Lines that were put into the queue before.
    pub(super) skipped: u64,
    pub(super) lsn: Lsn,
    /// The first line that is wrong, and why.
    pub(super) wrong: Option<(u64, String)>,
}

/// What became of one line.
enum Put {
    Inserted(Lsn),
    /// It was there before.
    Known(Lsn),
    Refused(String),
}

impl Importing {
    pub(super) fn new(
        shared: &Shared,
        (vhost, queue): (Arc<Vhost>, Name),
        id: Option<Name>,
    ) -> Self {
        let options = &shared.node.environment.options;
        Self {
            vhost,
            queue,
            bytes_max: options.message_bytes_max,
            line_max: line_bytes_max(options.message_bytes_max),
            key_rule: options.key_rule,
            id,
            behind: 0,
        }
    }

    /// Looks up how far an import with this id came; ready once that is durable.
    pub(super) async fn begin(&mut self, admin: &Admin) -> Result<(), Refusal> {
        let Some(id) = self.id.clone() else {
            return Ok(());
        };
        let name = self.queue.clone();
        match self.apply(QueueCommand::ImportBegin { name, id })? {
            Reply::ImportBegun { behind, lsn } => {
                self.behind = behind;
                admin.durable(lsn).await
            }
            Reply::Refused(error) => Err(error.into()),
            _ => Err(internal("the core gave no answer".to_owned())),
        }
    }

    /// Whether what was split is enough for a batch, or has a line that is too long.
    pub(super) const fn is_due(&self, splitting: &Splitting) -> bool {
        splitting.is_batch() || splitting.rest_bytes() > self.line_max
    }

    /// Imports the complete lines until one is wrong: also one that is too long already. They are
    /// durable with the LSN that it returns. Blocks.
    pub(super) fn put_split(&self, splitting: &mut Splitting) -> Result<Done, Refusal> {
        let (first, lines) = splitting.take();
        let mut done = self.put(first, &lines)?;
        if done.wrong.is_none() && splitting.rest_bytes() > self.line_max {
            let why = format!("it has more than {} bytes", self.line_max);
            done.wrong = Some((splitting.first_line(), why));
        }
        Ok(done)
    }

    fn put(&self, first: u64, lines: &[Vec<u8>]) -> Result<Done, Refusal> {
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
    fn insert(&self, number: u64, imported: Imported) -> Result<Put, Refusal> {
        let id = self.id.clone();
        let reply = self.apply(QueueCommand::Import {
            name: self.queue.clone(),
            message: Arc::new(imported.message),
            route: imported.route,
            line: id.map(|id| ImportLine { id, line: number }),
        });
        Ok(match reply? {
            Reply::Imported { lsn } => Put::Inserted(lsn),
            Reply::ImportKnown { lsn } => Put::Known(lsn),
            Reply::Refused(error) => Put::Refused(Refusal::from(error).why),
            _ => Put::Refused("the broker answered something else".to_owned()),
        })
    }

    fn apply(&self, command: QueueCommand) -> Result<Reply, Refusal> {
        let done = self.vhost.work(|now, core, effects| {
            effects.meter = Meter::default();
            core.apply(now, Command::Queue(command), effects)
        });
        done.map_err(|_| failed(self.vhost.name()))
    }
}

/// Bytes that a line may have: base64 takes a third more than the message, and the rest of the line
/// is bounded.
fn line_bytes_max(message_bytes_max: u64) -> usize {
    let base64 = usize::try_from(message_bytes_max / 5 * 7).unwrap_or(usize::MAX);
    base64.saturating_add(IMPORT_LINE_EXTRA_BYTES)
}
