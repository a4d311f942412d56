//! What of a graph is shown: the surroundings of a queue, or what a reader can take in.

use std::collections::{BTreeMap, BTreeSet};

use super::{Figures, Graph, Node, Place};
use crate::base::Name;
use crate::base::limits::{GRAPH_ALL_NODES_MAX, GRAPH_EDGES_MAX, GRAPH_NODES_MAX};
use crate::base::order::sort_by;
use crate::lint::finding::Severity;

impl Graph {
    /// Leaves the queues that dead letters go to or come from, over this many deaths around a queue;
    /// whether there is such a queue.
    #[must_use]
    pub(crate) fn around(&mut self, queue: &Name, hops: u32) -> bool {
        if self.nodes.get(&Place::Queue(queue.clone())).is_none() {
            return false;
        }
        let mut neighbours: BTreeMap<&Name, BTreeSet<&Name>> = BTreeMap::new();
        for edge in &self.edges {
            if let Place::Queue(to) = &edge.to {
                neighbours.entry(&edge.from).or_default().insert(to);
                neighbours.entry(to).or_default().insert(&edge.from);
            }
        }
        let mut kept: BTreeSet<Name> = BTreeSet::from([queue.clone()]);
        let mut outermost = vec![queue.clone()];
        for _ in 0..hops {
            let reached = outermost.iter().filter_map(|name| neighbours.get(name));
            let reached: BTreeSet<Name> = reached.flatten().map(|name| (*name).clone()).collect();
            outermost = reached.difference(&kept).cloned().collect();
            if outermost.is_empty() {
                break;
            }
            kept.extend(outermost.iter().cloned());
        }
        self.keep(&kept);
        self.bound(Some(queue));
        true
    }

    /// Of very many queues leaves those in which messages died, that hold dead letters, or that have
    /// findings, and where their dead go; the worst first.
    pub(crate) fn summarize(&mut self) {
        if self.nodes.rows().len() > GRAPH_ALL_NODES_MAX {
            let nodes = self.nodes.rows().iter();
            let kept = nodes.filter_map(|(place, node)| match place {
                Place::Queue(name) if is_of_interest(node) => Some(name.clone()),
                _ => None,
            });
            let mut kept: BTreeSet<Name> = kept.collect();
            let targets = self.edges.iter().filter(|edge| kept.contains(&edge.from));
            let targets = targets.filter_map(|edge| match &edge.to {
                Place::Queue(name) => Some(name.clone()),
                _ => None,
            });
            let targets: Vec<Name> = targets.collect();
            kept.extend(targets);
            self.keep(&kept);
        }
        self.bound(None);
    }

    /// Leaves these queues, the arrows between them, and the places that those lead to.
    fn keep(&mut self, kept: &BTreeSet<Name>) {
        let before = (self.nodes.rows().len(), self.edges.len());
        self.edges.retain(|edge| {
            let ends = match &edge.to {
                Place::Queue(name) => kept.contains(name),
                _ => true,
            };
            ends && kept.contains(&edge.from)
        });
        let mut others: BTreeSet<Place> = BTreeSet::new();
        for edge in &self.edges {
            others.insert(edge.to.clone());
            others.extend(edge.through.clone().map(Place::Exchange));
        }
        self.nodes.retain(|place| match place {
            Place::Queue(name) => kept.contains(name),
            _ => others.contains(place),
        });
        self.left_out.nodes += before.0 - self.nodes.rows().len();
        self.left_out.edges += before.1 - self.edges.len();
    }

    /// Holds the graph to its bounds: this queue stays, and those in which more dies.
    fn bound(&mut self, first: Option<&Name>) {
        if self.nodes.rows().len() > GRAPH_NODES_MAX {
            let nodes = self.nodes.rows().iter();
            let queues = nodes.filter_map(|(place, node)| match place {
                Place::Queue(name) => Some((first == Some(name), weight(node), name.clone())),
                _ => None,
            });
            let mut queues: Vec<_> = queues.collect();
            sort_by(&mut queues, |a, b| {
                (b.0, b.1).cmp(&(a.0, a.1)).then_with(|| a.2.cmp(&b.2))
            });
            // Exchanges and places need room, too.
            queues.truncate(GRAPH_NODES_MAX / 2);
            let kept = queues.into_iter().map(|(_, _, name)| name).collect();
            self.keep(&kept);
        }
        if self.edges.len() > GRAPH_EDGES_MAX {
            self.left_out.edges += self.edges.len() - GRAPH_EDGES_MAX;
            self.edges.truncate(GRAPH_EDGES_MAX);
        }
    }
}

fn is_of_interest(node: &Node) -> bool {
    let counted = |figures: &Figures| figures.dead.total() > 0 || holds_dead(figures);
    !node.rules.is_empty() || node.figures.as_ref().is_some_and(counted)
}

/// Whether dead letters came to the queue, and it is not empty.
const fn holds_dead(figures: &Figures) -> bool {
    let messages = figures.ready + figures.held + figures.delayed;
    figures.pending > 0 || (figures.dead_entered > 0 && messages > 0)
}

/// How much a reader wants to see it: by deaths of the last minute (in thousandths a second), findings
/// that are errors, deaths, dead letters in it, other findings.
fn weight(node: &Node) -> (u64, usize, u64, bool, usize) {
    let figures = node.figures.clone().unwrap_or_default();
    let rate: f64 = figures.rates.into_iter().flatten().sum();
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rate is not negative, and a large one may be cut"
    )]
    let rate = (rate.max(0.0) * 1000.0) as u64;
    let rules = node.rules.iter();
    let errors = rules.filter(|rule| rule.severity() == Severity::Error);
    (
        rate,
        errors.count(),
        figures.dead.total(),
        holds_dead(&figures),
        node.rules.len(),
    )
}
