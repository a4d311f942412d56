//! Where the dead of each queue go, as things stand: nodes and arrows, as JSON, DOT, Mermaid or SVG.
//!
//! Promises: an arrow is what the map of the linter found by the functions of routing and dying; names
//! are escaped in every form; the drawing is bounded, and says what it left out. Never: no second rule
//! of where a message goes.
//!
//! Read first: [`Graph`], then [`build`], then [`drawing`], which all drawn forms share.

mod build;
mod drawing;
mod forms;
mod layout;
mod select;
mod svg;

use serde_json::{Map as JsonMap, Value as Json, json};

use super::budget::Budget;
use super::finding::Rule;
use super::map::Map;
use super::report::Silence;
use super::rules;
use super::sorted::Sorted;
use super::topology::{NotRead, Topology};
use super::{Sandbox, Target, find};
use crate::base::{Name, Timestamp};
use crate::broker::ByReason;
use crate::broker::names::QUARANTINE;
use crate::deaths::Reason;

/// Where the dead letters of a vhost go: its queues, the dead-letter exchanges, and the arrows between
/// them. See `docs/GRAPH.md`.
#[derive(Clone, Debug)]
pub struct Graph {
    vhost: Name,
    as_of: Option<Timestamp>,
    nodes: Sorted<Place, Node>,
    edges: Vec<Edge>,
    left_out: LeftOut,
    /// What it takes too long to look at: arrows, loops or rules may be missing for it.
    not_read: Vec<NotRead>,
}

/// The figures of one queue of a running broker.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Messages ready for consumers.
    pub ready: u64,
    /// Deliveries that are not settled.
    pub held: u64,
    /// Messages that wait for their time.
    pub delayed: u64,
    /// Dead letters that wait for a target.
    pub pending: u64,
    /// How long its oldest message has been there, in seconds; none: it is empty.
    pub oldest_s: Option<u64>,
    /// Dead letters that came to it since it was declared.
    pub dead_entered: u64,
    /// Deaths since it was declared.
    pub dead: ByReason,
    /// Deaths a second in the last minute, in the order of [`Reason::ALL`]; none: not measured.
    pub rates: Option<[f64; 4]>,
}

/// What a node stands for.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Place {
    Exchange(Name),
    Queue(Name),
    /// A dead letter waits in its queue until there is a way.
    Wait,
    Drop,
}

impl Place {
    fn id(&self) -> String {
        match self {
            Self::Exchange(name) => format!("x:{name}"),
            Self::Queue(name) => format!("q:{name}"),
            Self::Wait => String::from("wait"),
            Self::Drop => String::from("drop"),
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Exchange(_) => "exchange",
            Self::Queue(name) if *name == QUARANTINE => "quarantine",
            Self::Queue(_) => "queue",
            Self::Wait => "wait",
            Self::Drop => "drop",
        }
    }
}

/// What is known of a place.
#[derive(Clone, Debug, Default)]
struct Node {
    /// The type of the queue or exchange; none: it does not exist (the quarantine is made when it is needed
    /// first), or is a place.
    kind: Option<Name>,
    /// None: nobody counted, the topology is that of a file.
    figures: Option<Figures>,
    rules: Vec<Rule>,
}

/// Where the dead of one queue go, some or all of them.
#[derive(Clone, Debug)]
struct Edge {
    from: Name,
    to: Place,
    /// The dead-letter exchange; none: the default exchange, or there is none.
    through: Option<Name>,
    /// The keys of the dead letters.
    keys: Vec<Name>,
    /// What names the dead-letter exchange: `policy DLX`.
    rule: Option<String>,
    /// Of what messages can die there as it is set up.
    reasons: Vec<Reason>,
    /// The rule about the loop that it is part of.
    turns: Option<Rule>,
    /// Whether the message itself decides.
    sometimes: bool,
}

/// What the bounds of the graph, or the choice of what to show, left out, as far as it is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct LeftOut {
    nodes: usize,
    edges: usize,
}

impl Graph {
    /// The graph of a topology. `silences`: findings that are not marked; `figures`: what was counted in
    /// its queues, and when.
    pub(crate) fn of(
        sandbox: &Sandbox,
        silences: &[Silence],
        figures: Option<(Timestamp, Sorted<Name, Figures>)>,
    ) -> Self {
        Self::within(sandbox, silences, figures, Budget::default())
    }

    /// The same, as far as the budget goes.
    pub(in crate::lint) fn within(
        sandbox: &Sandbox,
        silences: &[Silence],
        figures: Option<(Timestamp, Sorted<Name, Figures>)>,
        budget: Budget,
    ) -> Self {
        let core = sandbox.core();
        let map = Map::draw(sandbox, Target::Coroner, budget);
        let loops = rules::find_loops(core, &map);
        let found = find(core, (&map, &loops), Target::Coroner, silences);
        let (as_of, figures) = figures.unzip();
        build::Building::new(core, &map, figures).finish(as_of, &loops, &found)
    }

    /// The graph of one vhost of definitions; none: they have nothing of it.
    pub(crate) fn of_topology(topology: &Topology, vhost: &Name) -> Option<Self> {
        let sandbox = topology.vhosts.get(vhost)?;
        Some(Self::of(sandbox, &topology.silences, None))
    }

    fn figures_of(&self, queue: &Name) -> Option<&Figures> {
        let node = self.nodes.get(&Place::Queue(queue.clone()));
        node.and_then(|node| node.figures.as_ref())
    }

    /// The deaths that an arrow shows: those of its queue, for the reasons for which messages die or died
    /// there.
    fn deaths_of(&self, edge: &Edge) -> Vec<Deaths> {
        let figures = self.figures_of(&edge.from);
        let of = |(at, reason): (usize, Reason)| {
            let total = figures.map_or(0, |figures| figures.dead.of(reason));
            let rates = figures.and_then(|figures| figures.rates);
            let rate = rates.and_then(|rates| rates.get(at).copied());
            let shows = total > 0 || edge.reasons.contains(&reason);
            shows.then_some(Deaths {
                reason,
                total,
                rate,
            })
        };
        let reasons = Reason::ALL.into_iter().enumerate();
        reasons.filter_map(of).collect()
    }

    /// The answer of the API: `as_of`, `nodes`, `edges`, `left_out`, `not_read`.
    pub fn to_json(&self) -> Json {
        let nodes = self.nodes.rows().iter();
        let nodes = nodes.map(|(place, node)| node.to_json(place));
        let edges = self.edges.iter().map(|edge| self.edge_to_json(edge));
        let not_read = self.not_read.iter();
        let not_read = not_read.map(|left| json!({"item": left.item, "why": left.why}));
        json!({
            "vhost": &*self.vhost,
            "as_of": self.as_of.map(|time| time.0),
            "nodes": nodes.collect::<Vec<_>>(),
            "edges": edges.collect::<Vec<_>>(),
            "left_out": {"nodes": self.left_out.nodes, "edges": self.left_out.edges},
            "not_read": not_read.collect::<Vec<_>>(),
        })
    }

    fn edge_to_json(&self, edge: &Edge) -> Json {
        let deaths = self.deaths_of(edge).into_iter();
        let reasons = deaths.map(|deaths| {
            let counted = json!({"total": deaths.total, "rate": deaths.rate});
            (deaths.reason.as_str().to_owned(), counted)
        });
        let through = edge.through.iter();
        let through = through.map(|name| Place::Exchange(name.clone()).id());
        let keys = edge.keys.iter().map(|key| &**key);
        let ends = self.dead_end(edge).into_iter().map(Rule::as_str);
        json!({
            "from": Place::Queue(edge.from.clone()).id(),
            "to": edge.to.id(),
            "through": through.collect::<Vec<_>>(),
            "keys": keys.collect::<Vec<_>>(),
            "rule": edge.rule,
            "reasons": reasons.collect::<JsonMap<_, _>>(),
            "loop": edge.turns.map(Rule::as_str),
            "dead_end": ends.collect::<Vec<_>>(),
            "sometimes": edge.sometimes,
        })
    }
}

impl Node {
    fn to_json(&self, place: &Place) -> Json {
        let mut json = json!({"id": place.id(), "kind": place.kind()});
        let Json::Object(fields) = &mut json else {
            return json;
        };
        let mut put = |field: &str, value: Json| fields.insert(field.to_owned(), value);
        match place {
            Place::Exchange(_) => {
                put("type", json!(self.kind.as_deref()));
            }
            Place::Queue(_) => {
                let figures = self.figures.as_ref();
                let count = |count: fn(&Figures) -> u64| json!(figures.map(count));
                put("type", json!(self.kind.as_deref()));
                put("ready", count(|figures| figures.ready));
                put("held", count(|figures| figures.held));
                put("delayed", count(|figures| figures.delayed));
                put("pending", count(|figures| figures.pending));
                put("oldest_s", json!(figures.and_then(|one| one.oldest_s)));
                let rules = self.rules.iter().map(|rule| rule.as_str());
                put("rules", json!(rules.collect::<Vec<_>>()));
            }
            Place::Wait | Place::Drop => {}
        }
        json
    }
}

/// Deaths for one reason.
#[derive(Clone, Copy, Debug)]
struct Deaths {
    reason: Reason,
    /// Since the queue was declared.
    total: u64,
    /// Deaths a second in the last minute; none: not measured.
    rate: Option<f64>,
}
