//! Commands for vhosts.

use clap::Args;
use serde_json::{Map, Value};

use super::{Task, confirm};
use crate::cli::api::{Api, Path};
use crate::cli::exit::Failure;
use crate::cli::output::Output;

/// Adds a virtual host; one that is there stays as it is
#[derive(Args)]
pub(super) struct AddVhost {
    /// Name of the new vhost
    #[arg(value_name = "VHOST")]
    name: String,
    /// What it is for
    #[arg(long)]
    description: Option<String>,
    /// Tags
    #[arg(long, value_delimiter = ',')]
    tags: Vec<String>,
    /// Type of queues that are declared without one
    #[arg(long, value_name = "TYPE")]
    default_queue_type: Option<String>,
}

/// Deletes a virtual host with all its queues, exchanges, bindings and policies
#[derive(Args)]
pub(super) struct DeleteVhost {
    /// Name of the vhost
    #[arg(value_name = "VHOST")]
    name: String,
}

impl Task for AddVhost {
    const NAME: &'static str = "add_vhost";
    const EXAMPLES: &'static [&'static str] = &["add_vhost orders --description 'the shop'"];

    fn run(self, api: &Api, out: Output) -> Result<(), Failure> {
        let mut body = Map::new();
        let mut give = |name: &str, value: Option<String>| {
            body.extend(value.map(|value| (name.to_owned(), Value::String(value))));
        };
        give("description", self.description);
        give("tags", (!self.tags.is_empty()).then(|| self.tags.join(",")));
        give("default_queue_type", self.default_queue_type);
        let answer = api.put(&Path::of(&["vhosts", &self.name]), &Value::Object(body))?;
        confirm(out, &answer, format_args!("vhost '{}' is there", self.name))
    }
}

impl Task for DeleteVhost {
    const NAME: &'static str = "delete_vhost";
    const EXAMPLES: &'static [&'static str] = &["delete_vhost orders"];

    fn run(self, api: &Api, out: Output) -> Result<(), Failure> {
        let answer = api.delete(&Path::of(&["vhosts", &self.name]))?;
        confirm(out, &answer, format_args!("vhost '{}' deleted", self.name))
    }
}
