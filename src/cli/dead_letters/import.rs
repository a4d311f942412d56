//! The command `import_messages`.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;

use clap::Args;
use serde_json::Value;

use crate::cli::api::{Api, Path};
use crate::cli::exit::{Failure, FailureKind};
use crate::cli::manage::Task;
use crate::cli::output::Output;

/// Bytes of lines that are sent in one request, beside the last of them.
const BATCH_BYTES: usize = 1024 * 1024;

/// Puts messages from a file that `export_messages` wrote into a queue, with their histories
///
/// Lines are sent in portions, in their order, and each portion is durable before the next is
/// sent. A line that is wrong ends it: the lines before it are in the queue, and the error says
/// with which line --from-line goes on. With --id the broker remembers how far it came, in the very
/// records of the messages: after a crash or a cut connection the same command goes on behind the
/// last line that is durable, and no line is imported twice. It needs an administrator, since it
/// writes death histories.
#[derive(Args)]
pub(in crate::cli) struct ImportMessages {
    /// Name of the queue
    #[arg(value_name = "QUEUE")]
    name: String,
    /// The file to read; - reads standard input
    file: PathBuf,
    /// Begins with this line of the file, counted from 1
    #[arg(long, value_name = "LINE", default_value_t = 1)]
    from_line: u64,
    /// Remembers the import under this id, for 7 days: sent again, it goes on where it was cut off
    #[arg(long, value_name = "ID", conflicts_with = "from_line")]
    id: Option<String>,
}

impl Task for ImportMessages {
    const NAME: &'static str = "import_messages";
    const EXAMPLES: &'static [&'static str] = &[
        "import_messages orders.dlq orders.jsonl",
        "import_messages orders.dlq orders.jsonl --id move-2026-11",
        "import_messages orders.dlq orders.jsonl --from-line 4711",
    ];

    #[allow(
        clippy::disallowed_methods,
        reason = "a file that the command line names"
    )]
    fn run(self, api: &Api, out: Output) -> Result<(), Failure> {
        let shown = self.file.display().to_string();
        let cannot = |error: std::io::Error| {
            Failure::new(
                FailureKind::NotFound,
                format!("cannot read {shown}: {error}"),
            )
        };
        let mut lines: Box<dyn BufRead> = if self.file.as_os_str() == "-" {
            Box::new(std::io::stdin().lock())
        } else {
            let file = std::fs::File::open(&self.file).map_err(cannot)?;
            Box::new(BufReader::new(file))
        };
        let path = Path::of(&["queues", api.vhost(), &self.name, "messages.jsonl"]);
        let (mut line, mut done) = (1, Done::default());
        let (mut batch, mut first) = (Vec::new(), self.from_line);
        // Of a file without lines the broker is asked too: whether there is such a queue.
        let mut was_asked = false;
        loop {
            let before = batch.len();
            let read = lines.read_until(b'\n', &mut batch).map_err(cannot)?;
            let is_last = read == 0;
            if line < self.from_line && !is_last {
                batch.truncate(before);
                line += 1;
                continue;
            }
            line += u64::from(!is_last);
            if batch.len() >= BATCH_BYTES || (is_last && !(batch.is_empty() && was_asked)) {
                self.send(api, &path, (&batch, first), &mut done)?;
                was_asked = true;
                batch.clear();
                first = line;
            }
            if is_last {
                break;
            }
        }
        let known = match done.skipped {
            0 => String::new(),
            skipped => format!("; {skipped} were there before"),
        };
        out.done(format_args!(
            "{} messages were put into queue '{}'{known}",
            done.imported, self.name
        ))
    }
}

/// What became of the lines that were sent.
#[derive(Default)]
struct Done {
    imported: u64,
    /// Lines that an earlier import with this id had put into the queue.
    skipped: u64,
}

/// Whether the broker refused a request: for the same command it would do so again. Of one with a line that is
/// wrong it has taken the lines before that, whose number its reason says.
fn is_refusal(failure: &Failure) -> bool {
    [
        FailureKind::Data,
        FailureKind::NotFound,
        FailureKind::NoPermission,
        FailureKind::Usage,
    ]
    .contains(&failure.kind)
}

impl ImportMessages {
    /// What can be done about a failure, by what was imported before and the first line that was
    /// sent.
    fn advise(&self, failure: Failure, (imported, first): (u64, u64)) -> Failure {
        match self.id {
            _ if is_refusal(&failure) && imported == 0 => failure,
            None if is_refusal(&failure) => failure.advise(format!(
                "{imported} messages of the lines before {first} were imported; how many of those behind, \
                 the reason says if any were"
            )),
            Some(_) if is_refusal(&failure) => {
                failure.advise(format!("{imported} messages were imported"))
            }
            Some(_) => {
                failure.advise("the same command goes on behind the last line that is durable")
            }
            None => failure.advise(format!(
                "{imported} messages were imported; of the lines from {first} on it is not known"
            )),
        }
    }

    /// Sends some lines, the first of which has this number.
    fn send(
        &self,
        api: &Api,
        path: &Path,
        (batch, first): (&[u8], u64),
        done: &mut Done,
    ) -> Result<(), Failure> {
        let number = first.to_string();
        let mut headers = vec![("import-line", &*number)];
        headers.extend(self.id.as_deref().map(|id| ("import-id", id)));
        let answer = api.post_lines(path, batch, &headers);
        let answer = answer.map_err(|failure| self.advise(failure, (done.imported, first)))?;
        let number = |name: &str| answer.get(name).and_then(Value::as_u64);
        done.imported += number("imported").unwrap_or_default();
        done.skipped += number("skipped").unwrap_or_default();
        let Some(line) = number("line") else {
            return Ok(());
        };
        let why = answer
            .get("reason")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let why = why.split_once(": ").map_or(why, |(_, why)| why);
        let why = why.rsplit_once("; ").map_or(why, |(why, _)| why);
        let imported = done.imported;
        let what = format!("line {line}: {why}; {imported} messages before it were imported");
        Err(Failure::new(FailureKind::Data, what).advise(match self.id {
            Some(_) => "mend the line in its place: the same command goes on with it".into(),
            None => format!("--from-line {} goes on behind it", line + 1),
        }))
    }
}
