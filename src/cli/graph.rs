//! The command `graph`.

use std::io::Read;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::api::{Api, Path};
use super::exit::{Failure, FailureKind};
use super::lint::Definitions;
use super::manage::Task;
use super::output::{self, Column, Output};
use crate::base::Name;
use crate::base::limits::GRAPH_HOPS_MAX;
use crate::broker::arguments::OnUndeliverable;
use crate::lint::{self, Graph as Drawn};

/// Draws where the dead letters of a vhost go: from which queues, through which exchanges, to which
///
/// Of a running broker with its figures, or with FILE of definitions that a Coroner or a RabbitMQ
/// exported, for which no broker is asked. Of more than 150 queues and exchanges those are shown in
/// which messages died, that hold dead letters, or that have findings; --around shows the surroundings
/// of any queue. Loops and dead ends have the number of their rule (docs/LINT.md).
#[derive(Args)]
pub(in crate::cli) struct Graph {
    /// File with definitions; '-' is standard input
    file: Option<PathBuf>,
    /// Only the queues that the dead letters of this one go to or come from
    #[arg(long, value_name = "QUEUE")]
    around: Option<String>,
    /// Over how many deaths around that queue [default: 2]
    #[arg(
        long,
        value_name = "N",
        requires = "around",
        value_parser = clap::value_parser!(u32).range(0..=i64::from(GRAPH_HOPS_MAX))
    )]
    hops: Option<u32>,
    /// Form of what is printed [default: table]
    #[arg(long, short = 'f', value_enum)]
    format: Option<Form>,
}

/// The forms of a graph.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// A line for each arrow
    Table,
    /// Nodes and edges
    Json,
    /// For Graphviz
    Dot,
    /// For Markdown
    Mermaid,
    /// A drawing
    Svg,
}

/// Hops around a queue if they are not given.
const HOPS: u32 = 2;

const COLUMNS: [&str; 8] = [
    "from",
    "to",
    "through",
    "keys",
    "rule",
    "deaths",
    "loop",
    "sometimes",
];

impl Task for Graph {
    const NAME: &'static str = "graph";
    const EXAMPLES: &'static [&'static str] = &[
        "graph",
        "graph --around orders --format mermaid",
        "graph -p orders --format svg > graph.svg",
        "graph broker.json --format dot | dot -Tpdf -o graph.pdf",
    ];

    fn run(self, api: &Api, out: Output) -> Result<(), Failure> {
        let form = match self.format {
            Some(form) => form,
            None if out.is_json() => Form::Json,
            None => Form::Table,
        };
        if let Some(file) = &self.file {
            let definitions = Definitions::of_file(file, api)?;
            let drawn = self.drawn(&definitions, api, OnUndeliverable::Quarantine)?;
            return show(&drawn, form, out);
        }
        let path = self.path(api, form);
        let answered = match form {
            Form::Table | Form::Json => api.get(&path).map(Answer::Json),
            Form::Dot | Form::Mermaid | Form::Svg => text(api, &path).map(Answer::Text),
        };
        match answered {
            Ok(Answer::Json(graph)) if form == Form::Table => table(&graph, out),
            Ok(Answer::Json(graph)) => output::print_json(&graph),
            Ok(Answer::Text(text)) => output::print_data(&text),
            // Or there is no such queue.
            Err(failure) if api.is_not_known(&failure) => {
                let Ok(definitions) = Definitions::of_vhost(api) else {
                    return Err(failure);
                };
                let drawn = self.drawn(&definitions, api, OnUndeliverable::Drop)?;
                show(&drawn, form, out)
            }
            Err(failure) => Err(failure),
        }
    }
}

/// What a broker answered.
enum Answer {
    Json(Value),
    Text(String),
}

impl Graph {
    fn path(&self, api: &Api, form: Form) -> Path {
        let mut path = Path::of(&["graph", api.vhost()]);
        if let Some(queue) = &self.around {
            path = path.query("around", queue);
            path = path.query("hops", &self.hops.unwrap_or(HOPS).to_string());
        }
        match form {
            Form::Table | Form::Json => path,
            Form::Dot => path.query("format", "dot"),
            Form::Mermaid => path.query("format", "mermaid"),
            Form::Svg => path.query("format", "svg"),
        }
    }

    /// Draws definitions here.
    fn drawn(
        &self,
        definitions: &Definitions,
        api: &Api,
        undeliverable: OnUndeliverable,
    ) -> Result<Drawn, Failure> {
        let topology = definitions.topology(undeliverable)?;
        let vhost = Name::from(api.vhost());
        let Some(mut drawn) = Drawn::of_topology(&topology, &vhost) else {
            let known: Vec<&str> = topology.vhosts.keys().map(|name| &**name).collect();
            let what = format!("there is nothing of vhost '{vhost}'");
            let advice = format!("-p names another one; there are: {}", known.join(", "));
            return Err(Failure::new(FailureKind::NotFound, what).advise(advice));
        };
        let Some(queue) = &self.around else {
            drawn.summarize();
            return Ok(drawn);
        };
        if drawn.around(&Name::from(queue.as_str()), self.hops.unwrap_or(HOPS)) {
            return Ok(drawn);
        }
        let what = format!("there is no queue '{queue}' in vhost '{vhost}'");
        Err(Failure::new(FailureKind::NotFound, what))
    }
}

fn text(api: &Api, path: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    let read = api.stream(path)?.read_to_string(&mut text);
    read.map_err(|error| {
        let what = format!("the answer ended early: {error}");
        Failure::new(FailureKind::Unavailable, what)
    })?;
    Ok(text)
}

fn show(drawn: &Drawn, form: Form, out: Output) -> Result<(), Failure> {
    match form {
        Form::Table => table(&drawn.to_json(), out),
        Form::Json => output::print_json(&drawn.to_json()),
        Form::Dot => output::print_data(&drawn.to_dot()),
        Form::Mermaid => output::print_data(&drawn.to_mermaid()),
        Form::Svg => output::print_data(&drawn.to_svg()),
    }
}

/// A line for each arrow.
fn table(graph: &Value, out: Output) -> Result<(), Failure> {
    let edges = graph.get("edges").and_then(Value::as_array);
    let rows = edges.into_iter().flatten().map(|edge| {
        let field = |name: &str| edge.get(name).cloned().unwrap_or_default();
        let listed = |name: &str| {
            let names = edge.get(name).and_then(Value::as_array);
            let names = names.into_iter().flatten().filter_map(Value::as_str);
            names.collect::<Vec<_>>().join(" ")
        };
        json!({
            "from": field("from"), "to": field("to"), "through": listed("through"),
            "keys": listed("keys"), "rule": field("rule"), "deaths": deaths(edge),
            "loop": field("loop"), "sometimes": field("sometimes"),
        })
    });
    let columns = COLUMNS.map(|name| Column {
        shown: name.to_owned(),
        path: name.to_owned(),
    });
    out.objects(rows.collect(), &columns, true)?;
    let left = |what: &str| {
        let left = graph.pointer("/left_out")?.get(what)?.as_u64();
        left.filter(|left| *left > 0)
    };
    for (what, words) in [("nodes", "queues and exchanges"), ("edges", "arrows")] {
        if let Some(left) = left(what) {
            out.done(format_args!("{left} more {words} are not shown"))?;
        }
    }
    // Also where the lines are for a program, which takes them for all there is.
    lint::not_looked_at(graph).for_each(|text| super::warn(&output::printable(&text)));
    Ok(())
}

/// `rejected=412 expired=3` of an arrow.
fn deaths(edge: &Value) -> String {
    let reasons = edge.get("reasons").and_then(Value::as_object);
    let reasons = reasons
        .into_iter()
        .flatten()
        .filter_map(|(reason, counted)| {
            let total = counted.get("total").and_then(Value::as_u64)?;
            (total > 0).then(|| format!("{reason}={total}"))
        });
    reasons.collect::<Vec<_>>().join(" ")
}
