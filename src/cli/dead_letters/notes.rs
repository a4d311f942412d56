//! The commands `set_group_note` and `clear_group_note`.

use clap::Args;
use serde_json::json;

use crate::cli::api::{Api, Path};
use crate::cli::exit::Failure;
use crate::cli::manage::Task;
use crate::cli::output::Output;

/// Writes a note on a group of dead letters, for whoever looks next
///
/// The group is named by its key, as `dead_letter_groups` shows it, which also shows the note. A note
/// that is there already is replaced. It is kept until the group is empty for seven days.
#[derive(Args)]
pub(in crate::cli) struct SetGroupNote {
    /// Name of the queue
    queue: String,
    /// Key of the group, such as 1:9c2e41aa
    group: String,
    /// The note, at most 1,024 bytes
    text: String,
}

impl Task for SetGroupNote {
    const NAME: &'static str = "set_group_note";
    const EXAMPLES: &'static [&'static str] =
        &["set_group_note orders.dlq 1:9c2e41aa 'fixed in 2.14.1, redrive after the release'"];

    fn run(self, api: &Api, out: Output) -> Result<(), Failure> {
        let (queue, group) = (&self.queue, &self.group);
        api.put(&path(api, queue, group), &json!({ "note": self.text }))?;
        out.done(format_args!(
            "group '{group}' of queue '{queue}' in vhost '{}' has this note",
            api.vhost()
        ))
    }
}

/// Removes the note on a group of dead letters
#[derive(Args)]
pub(in crate::cli) struct ClearGroupNote {
    /// Name of the queue
    queue: String,
    /// Key of the group
    group: String,
}

impl Task for ClearGroupNote {
    const NAME: &'static str = "clear_group_note";
    const EXAMPLES: &'static [&'static str] = &["clear_group_note orders.dlq 1:9c2e41aa"];

    fn run(self, api: &Api, out: Output) -> Result<(), Failure> {
        let (queue, group) = (&self.queue, &self.group);
        api.delete(&path(api, queue, group))?;
        out.done(format_args!(
            "group '{group}' of queue '{queue}' in vhost '{}' has no note any more",
            api.vhost()
        ))
    }
}

fn path(api: &Api, queue: &str, group: &str) -> Path {
    Path::of(&["queues", api.vhost(), queue, "groups", group, "note"])
}
