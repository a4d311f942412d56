//! Commands for runtime parameters of components, and global ones.

use clap::Args;
use serde_json::json;

use super::{Task, confirm, parse_json};
use crate::cli::api::{Api, Path};
use crate::cli::exit::Failure;
use crate::cli::output::Output;

/// Sets a parameter of a component
#[derive(Args)]
pub(super) struct SetParameter {
    /// Name of the component
    component: String,
    /// Name of the parameter
    name: String,
    /// Its value, as JSON
    value: String,
}

/// Removes a parameter of a component
#[derive(Args)]
pub(super) struct ClearParameter {
    /// Name of the component
    component: String,
    /// Name of the parameter
    name: String,
}

/// Sets a global parameter: it is kept and exported, and changes nothing here
#[derive(Args)]
pub(super) struct SetGlobalParameter {
    /// Name of the parameter
    name: String,
    /// Its value, as JSON
    value: String,
}

/// Removes a global parameter
#[derive(Args)]
pub(super) struct ClearGlobalParameter {
    /// Name of the parameter
    name: String,
}

impl Task for SetParameter {
    const NAME: &'static str = "set_parameter";
    const EXAMPLES: &'static [&'static str] =
        &[r#"set_parameter -p orders vhost-limits limits '{"max-queues": 10}'"#];

    fn run(self, api: &Api, out: Output) -> Result<(), Failure> {
        let (component, vhost, name) = (&self.component, api.vhost(), &self.name);
        let value = parse_json("the value", &self.value)?;
        let body = json!({"component": component, "vhost": vhost, "name": name, "value": value});
        let answer = api.put(&Path::of(&["parameters", component, vhost, name]), &body)?;
        confirm(
            out,
            &answer,
            format_args!("parameter '{name}' of '{component}' set in vhost '{vhost}'"),
        )
    }
}

impl Task for ClearParameter {
    const NAME: &'static str = "clear_parameter";
    const EXAMPLES: &'static [&'static str] = &["clear_parameter -p orders vhost-limits limits"];

    fn run(self, api: &Api, out: Output) -> Result<(), Failure> {
        let (component, vhost, name) = (&self.component, api.vhost(), &self.name);
        let answer = api.delete(&Path::of(&["parameters", component, vhost, name]))?;
        let text = format!("parameter '{name}' of '{component}' cleared in vhost '{vhost}'");
        confirm(out, &answer, text)
    }
}

impl Task for SetGlobalParameter {
    const NAME: &'static str = "set_global_parameter";
    const EXAMPLES: &'static [&'static str] = &[r#"set_global_parameter site '"north"'"#];

    fn run(self, api: &Api, out: Output) -> Result<(), Failure> {
        let name = &self.name;
        let value = parse_json("the value", &self.value)?;
        let body = json!({ "name": name, "value": value });
        let answer = api.put(&Path::of(&["global-parameters", name]), &body)?;
        confirm(out, &answer, format_args!("global parameter '{name}' set"))
    }
}

impl Task for ClearGlobalParameter {
    const NAME: &'static str = "clear_global_parameter";
    const EXAMPLES: &'static [&'static str] = &["clear_global_parameter site"];

    fn run(self, api: &Api, out: Output) -> Result<(), Failure> {
        let name = &self.name;
        let answer = api.delete(&Path::of(&["global-parameters", name]))?;
        confirm(
            out,
            &answer,
            format_args!("global parameter '{name}' cleared"),
        )
    }
}
