//! The command `export_messages`.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;

use clap::Args;

use super::filter::{FilterFlags, StateFlag};
use crate::cli::api::{Api, Path};
use crate::cli::exit::{Failure, FailureKind, written};
use crate::cli::manage::Task;
use crate::cli::output::Output;

/// Writes messages of a queue into a file, as lines of JSON; changes nothing
///
/// Each line is one message with exchange, routing keys, header, annotations, body and death
/// history, exact to the byte: `import_messages` puts it into a queue of any broker. What is in the
/// file does not depend on how many messages there are: neither here nor there is more than one
/// message in memory at a time.
#[derive(Args)]
pub(in crate::cli) struct ExportMessages {
    /// Name of the queue
    #[arg(value_name = "QUEUE")]
    name: String,
    /// The file to write, which must not exist; - writes to standard output
    file: PathBuf,
    #[command(flatten)]
    state: StateFlag,
    #[command(flatten)]
    filter: FilterFlags,
}

impl Task for ExportMessages {
    const NAME: &'static str = "export_messages";
    const EXAMPLES: &'static [&'static str] = &[
        "export_messages orders.dlq orders.jsonl",
        "export_messages orders.dlq - --group 1:9c2e41aa",
    ];

    fn run(self, api: &Api, out: Output) -> Result<(), Failure> {
        let path = Path::of(&["queues", api.vhost(), &self.name, "messages.jsonl"]);
        let mut lines = BufReader::new(api.stream(&self.filter.ask(self.state.ask(path)))?);
        if self.file.as_os_str() == "-" {
            copy(&mut lines, &mut std::io::stdout().lock())?;
            return Ok(());
        }
        let shown = self.file.display();
        let cannot = |error: std::io::Error| {
            Failure::new(
                FailureKind::Output,
                format!("cannot write {shown}: {error}"),
            )
        };
        let file = std::fs::File::create_new(&self.file).map_err(cannot)?;
        let mut file = std::io::BufWriter::new(file);
        let count = copy(&mut lines, &mut file)?;
        file.into_inner()
            .map_err(|error| cannot(error.into_error()))?
            .sync_all()
            .map_err(cannot)?;
        out.done(format_args!(
            "{count} messages of queue '{}' are in {shown}",
            self.name
        ))
    }
}

/// Copies whole lines; returns their number.
fn copy(lines: &mut impl BufRead, to: &mut impl Write) -> Result<u64, Failure> {
    let (mut count, mut at_line_end) = (0, true);
    loop {
        let piece = lines.fill_buf().map_err(|error| cut(count, &error))?;
        if piece.is_empty() {
            break;
        }
        let length = piece.len();
        count += u64::try_from(piece.split(|byte| *byte == b'\n').count() - 1).unwrap_or(0);
        at_line_end = piece.ends_with(b"\n");
        written(to.write_all(piece))?;
        lines.consume(length);
    }
    if !at_line_end {
        return Err(cut(count, &std::io::ErrorKind::UnexpectedEof.into()));
    }
    written(to.flush())?;
    Ok(count)
}

fn cut(count: u64, error: &std::io::Error) -> Failure {
    let what = format!("the export ended early ({error}): {count} messages were written in whole");
    Failure::new(FailureKind::Unavailable, what).advise("the log of the broker may say why")
}
