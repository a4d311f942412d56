//! The command `lint`.

use std::collections::BTreeSet;
use std::path::{Path as FilePath, PathBuf};

use clap::{Args, ValueEnum};
use serde_json::Value;

use super::api::{Api, Path};
use super::exit::{Failure, FailureKind};
use super::manage::{Task, parse_object, read_file};
use super::output::{self, Output};
use crate::base::Name;
use crate::broker::arguments::OnUndeliverable;
use crate::lint::{self, Report, Severity, Silence, Target, Topology, Unknown};
use crate::management::Refusal;

/// Finds what will go wrong with dead letters, before a message dies: loops, dead ends, lost policies
///
/// Of a running broker, or with FILE of definitions that a Coroner or a RabbitMQ exported; nothing is
/// changed, and for a file no broker is asked. Each finding has the number of its rule (docs/LINT.md);
/// one that says what becomes of messages shows one that it became of. Against a RabbitMQ its definitions
/// are exported and looked at here.
#[derive(Args)]
pub(in crate::cli) struct Lint {
    /// File with definitions; '-' is standard input
    file: Option<PathBuf>,
    /// Who runs it: rabbitmq tells also what RabbitMQ refuses or does otherwise
    #[arg(long = "for", value_enum)]
    runs: Option<Runs>,
    /// Ends with exit code 65 if there is a finding as bad as this
    #[arg(long, value_enum, value_name = "SEVERITY")]
    fail_on: Option<FailOn>,
    /// Prints SARIF 2.1.0, which code hosts show beside the file
    #[arg(long)]
    sarif: bool,
}

/// Who runs a topology.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Runs {
    Coroner,
    Rabbitmq,
}

/// How bad a finding must be.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum FailOn {
    Error,
    Warning,
    Info,
}

impl FailOn {
    const fn severity(self) -> Severity {
        match self {
            Self::Error => Severity::Error,
            Self::Warning => Severity::Warning,
            Self::Info => Severity::Info,
        }
    }

    /// Fails if a finding is as bad.
    fn check(self, report: &Value) -> Result<(), Failure> {
        let findings = report.get("findings").and_then(Value::as_array);
        let is_bad = |finding: &&Value| {
            let word = finding.get("severity").and_then(Value::as_str);
            let mut all = Severity::ALL.into_iter();
            let severity = all.find(|one| Some(one.as_str()) == word);
            severity.is_some_and(|severity| severity <= self.severity())
        };
        let bad = findings.into_iter().flatten().filter(is_bad).count();
        if bad == 0 {
            return Ok(());
        }
        let what = format!(
            "{} as bad as --fail-on says, or worse",
            lint::counted(bad as u64, "finding")
        );
        Err(Failure::new(FailureKind::Data, what).advise(
            "mend them, or silence them: coroner set_global_parameter lint \
             '{\"ignore\": [{\"rule\": \"DL009\", \"object\": \"NAME\", \"why\": \"...\"}]}'",
        ))
    }
}

impl Task for Lint {
    const NAME: &'static str = "lint";
    const EXAMPLES: &'static [&'static str] = &[
        "lint",
        "lint -p orders --fail-on error",
        "lint broker.json --for rabbitmq --fail-on warning",
        "lint broker.json --sarif > lint.sarif",
    ];

    fn run(self, api: &Api, out: Output) -> Result<(), Failure> {
        let report = match &self.file {
            Some(file) => self.of_file(file, api)?,
            None => self.of_broker(api)?,
        };
        self.show(&report, out)?;
        self.fail_on
            .map_or(Ok(()), |fail_on| fail_on.check(&report))
    }
}

/// Definitions that are looked at here.
pub(super) struct Definitions {
    json: Value,
    /// The vhost that they are of, if they do not name it.
    vhost: Option<Name>,
}

impl Definitions {
    /// Those in a file.
    pub(super) fn of_file(file: &FilePath, api: &Api) -> Result<Self, Failure> {
        let text = read_file(file).map_err(|error| {
            let what = format!("cannot read {}: {error}", file.display());
            Failure::new(FailureKind::NotFound, what)
        })?;
        let json = parse_object("the file", &text)?;
        // A file of one vhost does not name it.
        let format = json.get("rabbitmq_definition_format");
        let is_of_one =
            format.and_then(Value::as_str) == Some("single_virtual_host") || names_no_vhost(&json);
        let vhost = is_of_one.then(|| Name::from(api.vhost()));
        Ok(Self { json, vhost })
    }

    /// Those that a broker exports, of the vhost that was given or of all.
    fn of_broker(api: &Api) -> Result<Self, Failure> {
        let vhost = api.settings().vhost_given();
        let json = api.get(&of_vhost("definitions", vhost))?;
        let vhost = vhost.map(Name::from);
        Ok(Self { json, vhost })
    }

    /// Those that a broker exports of the vhost of the command.
    pub(super) fn of_vhost(api: &Api) -> Result<Self, Failure> {
        let json = api.get(&of_vhost("definitions", Some(api.vhost())))?;
        let vhost = Some(Name::from(api.vhost()));
        Ok(Self { json, vhost })
    }

    /// Reads them.
    pub(super) fn topology(&self, undeliverable: OnUndeliverable) -> Result<Topology, Failure> {
        let topology = Topology::read(&self.json, self.vhost.as_ref(), undeliverable);
        topology.map_err(|refusal| Failure::new(FailureKind::Data, refusal.why))
    }

    /// Looks at what would stand after definitions were imported, into the given vhost or into all; fails,
    /// and prints what was found, if a finding is as bad. Else it returns the report, whose
    /// [`warn_of_rest`] is due when it is known what the import left out.
    pub(super) fn check(json: &Value, api: &Api, fail_on: FailOn) -> Result<Value, Failure> {
        let vhost = api.settings().vhost_given();
        let report = match api.post(&of_vhost("lint", vhost), json) {
            Ok(report) => report,
            Err(failure) if api.is_not_known(&failure) => {
                let there = Self::of_broker(api)?;
                let mut topology = there.topology(OnUndeliverable::Drop)?;
                let vhost = vhost.map(Name::from);
                let (undeliverable, unknown) = (OnUndeliverable::Drop, Unknown::Exist);
                let added = topology.add(json, vhost.as_ref(), undeliverable, unknown);
                let refused = |refusal: Refusal| Failure::new(FailureKind::Data, refusal.why);
                added.map_err(refused)?;
                // A global parameter is not imported into one vhost.
                if vhost.is_none()
                    && let Some(silences) = Silence::in_definitions(json).map_err(refused)?
                {
                    topology.silences = silences;
                }
                Report::of(&mut topology, Target::Rabbitmq).to_json()
            }
            Err(failure) => return Err(failure),
        };
        if report.get("findings").is_none() {
            let what =
                "the broker did not say what would stand after the import: nothing is imported";
            return Err(Failure::new(FailureKind::Data, what));
        }
        let checked = fail_on.check(&report);
        if checked.is_err() {
            let text = output::printable_lines(&lint::text(&report));
            super::complain(&text.trim_end());
        }
        checked.map(|()| report)
    }

    fn look(&self, target: Target) -> Result<Value, Failure> {
        let undeliverable = match target {
            Target::Coroner => OnUndeliverable::Quarantine,
            Target::Rabbitmq => OnUndeliverable::Drop,
        };
        let mut topology = self.topology(undeliverable)?;
        Ok(Report::of(&mut topology, target).to_json())
    }
}

/// Warns of what was not looked at, but for items that the answer to the import names as left out: the report
/// of the command told those twice.
pub(super) fn warn_of_rest(mut report: Value, answer: &Value) {
    let left_out = answer.get("not_supported").and_then(Value::as_array);
    let left_out = left_out.into_iter().flatten();
    let left_out = left_out.filter_map(|left| left.get("item")?.as_str());
    let left_out: BTreeSet<&str> = left_out.collect();
    if let Some(Value::Array(not_read)) = report.get_mut("not_read") {
        not_read.retain(|left| {
            let item = left.get("item").and_then(Value::as_str);
            item.is_none_or(|item| !left_out.contains(item))
        });
    }
    lint::not_looked_at(&report).for_each(|text| super::warn(&output::printable(&text)));
}

/// Whether the items of definitions name no vhost: an older RabbitMQ writes those of one vhost so.
fn names_no_vhost(json: &Value) -> bool {
    let kinds = ["queues", "exchanges", "bindings", "policies"];
    let lists = kinds.iter().filter_map(|kind| json.get(kind)?.as_array());
    let mut items = lists.flatten().peekable();
    items.peek().is_some() && items.all(|item| item.get("vhost").is_none())
}

/// The path of what is asked of all vhosts, or of one.
fn of_vhost(name: &str, vhost: Option<&str>) -> Path {
    match vhost {
        Some(vhost) => Path::of(&[name, vhost]),
        None => Path::of(&[name]),
    }
}

impl Lint {
    fn of_file(&self, file: &FilePath, api: &Api) -> Result<Value, Failure> {
        Definitions::of_file(file, api)?.look(self.target(Target::Coroner))
    }

    fn of_broker(&self, api: &Api) -> Result<Value, Failure> {
        let path = of_vhost("lint", api.settings().vhost_given());
        let path = match self.target(Target::Coroner) {
            Target::Coroner => path,
            Target::Rabbitmq => path.query("for", "rabbitmq"),
        };
        match api.get(&path) {
            Ok(report) => Ok(report),
            Err(failure) if api.is_not_known(&failure) => {
                Definitions::of_broker(api)?.look(self.target(Target::Rabbitmq))
            }
            Err(failure) => Err(failure),
        }
    }

    fn target(&self, unless_given: Target) -> Target {
        match self.runs {
            Some(Runs::Coroner) => Target::Coroner,
            Some(Runs::Rabbitmq) => Target::Rabbitmq,
            None => unless_given,
        }
    }

    fn show(&self, report: &Value, out: Output) -> Result<(), Failure> {
        if self.sarif {
            let file = self.file.as_ref();
            let file =
                file.map_or_else(|| String::from("broker"), |file| file.display().to_string());
            let sarif = lint::sarif(report, &file, env!("CARGO_PKG_VERSION"));
            return output::print_json(&sarif);
        }
        if out.is_json() {
            return output::print_json(report);
        }
        output::print(&output::printable_lines(&lint::text(report)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::names_no_vhost;

    #[test]
    fn definitions_whose_items_name_no_vhost_are_of_one() {
        assert!(names_no_vhost(
            &json!({"queues": [{"name": "q"}], "policies": []})
        ));
        let mixed = json!({"queues": [{"name": "q"}], "exchanges": [{"name": "x", "vhost": "/"}]});
        assert!(!names_no_vhost(&mixed));
        assert!(!names_no_vhost(
            &json!({"queues": [], "users": [{"name": "u"}]})
        ));
    }
}
