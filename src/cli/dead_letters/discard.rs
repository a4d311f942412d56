//! The command `discard_message`.

use clap::Args;

use crate::cli::api::{Api, Path};
use crate::cli::exit::Failure;
use crate::cli::manage::Task;
use crate::cli::output::Output;

/// Discards one message that waits in a queue; it is gone, not dead-lettered
///
/// The position is the one that `deaths` and `dead_letter_groups` show. The broker counts the
/// message as dropped, with the cause `discarded`. One that a consumer holds is not discarded.
#[derive(Args)]
pub(in crate::cli) struct DiscardMessage {
    /// Name of the queue
    queue: String,
    /// Position of the message in it
    position: u64,
}

impl Task for DiscardMessage {
    const NAME: &'static str = "discard_message";
    const EXAMPLES: &'static [&'static str] = &["discard_message -p shop orders.dlq 17"];

    fn run(self, api: &Api, out: Output) -> Result<(), Failure> {
        let (queue, vhost, position) = (&self.queue, api.vhost(), self.position);
        let path = Path::of(&["queues", vhost, queue, "messages", &position.to_string()]);
        api.delete(&path)?;
        out.done(format_args!(
            "the message at position {position} of queue '{queue}' in vhost '{vhost}' is discarded"
        ))
    }
}
