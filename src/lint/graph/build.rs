//! From the map of the linter to nodes and arrows.

use std::collections::BTreeMap;

use super::{Edge, Figures, Graph, LeftOut, Node, Place};
use crate::base::limits::GRAPH_EDGES_KEPT_MAX;
use crate::base::order::sort_and_dedup;
use crate::base::{Name, Timestamp};
use crate::broker::Core;
use crate::broker::arguments::{DeadLetterStrategy, OnUndeliverable, QueueType};
use crate::broker::names::QUARANTINE;
use crate::broker::queue::Queue;
use crate::deaths::Reason;
use crate::lint::Found;
use crate::lint::budget::Part;
use crate::lint::finding::{Rule, Subject};
use crate::lint::map::{Fate, Map, Step};
use crate::lint::rules::{Loop, is_kept, rule_words};
use crate::lint::sorted::Sorted;

/// Arrows of one queue, by where they lead and through which exchange.
type Arrows = BTreeMap<(Place, Option<Name>), Edge>;

/// A graph that is being made.
pub(super) struct Building<'a> {
    core: &'a Core,
    map: &'a Map,
    /// None: nobody counted.
    figures: Option<Sorted<Name, Figures>>,
    edges: Vec<Edge>,
    left_out: LeftOut,
}

impl<'a> Building<'a> {
    pub(super) fn new(
        core: &'a Core,
        map: &'a Map,
        figures: Option<Sorted<Name, Figures>>,
    ) -> Self {
        Self {
            core,
            map,
            figures,
            edges: Vec::new(),
            left_out: LeftOut::default(),
        }
    }

    pub(super) fn finish(
        mut self,
        as_of: Option<Timestamp>,
        loops: &[Loop],
        found: &Found,
    ) -> Graph {
        for queue in self.core.queues() {
            self.arrows_of(queue);
        }
        self.mark(loops);
        let mut nodes = self.nodes();
        for finding in &found.findings {
            let Subject::Queue(name) = &finding.subject else {
                continue;
            };
            if let Some(node) = nodes.get_mut(&Place::Queue(name.clone())) {
                node.rules.push(finding.rule);
            }
        }
        for node in nodes.values_mut() {
            sort_and_dedup(&mut node.rules);
        }
        Graph {
            vhost: self.core.vhost().clone(),
            as_of,
            nodes,
            edges: self.edges,
            left_out: self.left_out,
            // With the arrows that were not looked at.
            not_read: self.map.budget.not_looked_at(self.core.vhost()),
        }
    }

    fn arrows_of(&mut self, queue: &Queue) {
        let mut arrows = Arrows::new();
        let map = self.map;
        for step in map.steps_in(queue.id) {
            // What was not looked at may be arrows that are there already: it is told, and not counted.
            if !map.budget.take(Part::Arrows, step.reached.len().max(1)) {
                break;
            }
            for place in self.places(queue, step) {
                let through = step.way.as_ref().map(|way| way.exchange.clone());
                let through = through.filter(|exchange| !exchange.is_empty());
                let arrow = arrows.entry((place, through));
                let arrow = arrow.or_insert_with_key(|(to, through)| Edge {
                    from: queue.name.clone(),
                    to: to.clone(),
                    through: through.clone(),
                    keys: Vec::new(),
                    rule: queue
                        .settings
                        .dead_letter_rule
                        .as_ref()
                        .map(|_| rule_words(queue)),
                    reasons: Vec::new(),
                    turns: None,
                    sometimes: false,
                });
                arrow.sometimes |= matches!(step.fate, Fate::Varies(_));
                if !arrow.reasons.contains(&step.reason) {
                    arrow.reasons.push(step.reason);
                }
                let key = step.way.as_ref().and_then(|way| way.keys.first());
                if let Some(key) = key.filter(|key| !arrow.keys.contains(key)) {
                    arrow.keys.push(key.clone());
                }
            }
        }
        let room = GRAPH_EDGES_KEPT_MAX.saturating_sub(self.edges.len());
        self.left_out.edges += arrows.len().saturating_sub(room);
        self.edges.extend(arrows.into_values().take(room));
    }

    /// Where the dead letters of one step go.
    fn places(&self, queue: &Queue, step: &Step) -> Vec<Place> {
        let queues = match &step.fate {
            Fate::NoExchange => return self.without_exchange(queue, step.reason),
            Fate::Missing | Fate::Nowhere => return vec![self.without_target(queue)],
            Fate::Arrives(_) | Fate::Varies(_) => &step.reached,
        };
        let queues = queues.iter().filter_map(|id| self.core.queue_by_id(*id));
        queues
            .map(|queue| Place::Queue(queue.name.clone()))
            .collect()
    }

    /// Nothing can be said of a queue in which messages die of rejections only, and none did: consumers
    /// need not reject.
    fn without_exchange(&self, queue: &Queue, reason: Reason) -> Vec<Place> {
        let figures = self.figures.as_ref();
        let figures = figures.and_then(|figures| figures.get(&queue.name));
        let died = figures.map_or(0, |figures| figures.dead.of(reason));
        if reason == Reason::Rejected && died == 0 {
            return Vec::new();
        }
        if queue.settings.on_undeliverable == Some(OnUndeliverable::Quarantine) {
            vec![Place::Queue(Name::from(QUARANTINE))]
        } else {
            vec![Place::Drop]
        }
    }

    fn without_target(&self, queue: &Queue) -> Place {
        if queue.settings.dead_letter_strategy == DeadLetterStrategy::AtLeastOnce {
            Place::Wait
        } else if is_kept(queue, self.core.quarantines()) {
            Place::Queue(Name::from(QUARANTINE))
        } else {
            Place::Drop
        }
    }

    /// Marks the arrows of loops; the worse rule stays.
    fn mark(&mut self, loops: &[Loop]) {
        let mut turns: BTreeMap<(Name, Name), Rule> = BTreeMap::new();
        for one in loops {
            let names = one.queues(self.map).into_iter();
            let names = names.filter_map(|id| Some(self.core.queue_by_id(id)?.name.clone()));
            let names: Vec<Name> = names.collect();
            let behind = names.iter().cycle().skip(1);
            for (from, to) in names.iter().zip(behind) {
                let rule = turns.entry((from.clone(), to.clone())).or_insert(one.rule);
                *rule = (*rule).min(one.rule);
            }
        }
        for edge in &mut self.edges {
            if let Place::Queue(to) = &edge.to {
                edge.turns = turns.get(&(edge.from.clone(), to.clone())).copied();
            }
        }
    }

    /// What is known of a place that the topology may not have: the quarantine stands in no definitions, and
    /// exists where it was counted.
    fn place(&self, place: &Place) -> Node {
        let figures = match place {
            Place::Queue(name) => self.figures.as_ref().and_then(|all| all.get(name)),
            Place::Exchange(_) | Place::Wait | Place::Drop => None,
        };
        Node {
            kind: figures.map(|_| Name::from(QueueType::Classic.as_str())),
            figures: figures.cloned(),
            rules: Vec::new(),
        }
    }

    fn nodes(&self) -> Sorted<Place, Node> {
        let mut nodes = Vec::new();
        for edge in &self.edges {
            nodes.push((edge.to.clone(), self.place(&edge.to)));
            let Some(name) = &edge.through else {
                continue;
            };
            let exchange = self.core.router().exchange_named(name);
            let node = Node {
                kind: exchange.map(|exchange| {
                    let stranger = self.map.strangers.exchanges.get(name).cloned();
                    stranger.unwrap_or_else(|| Name::from(exchange.spec.kind.as_str()))
                }),
                ..Node::default()
            };
            nodes.push((Place::Exchange(name.clone()), node));
        }
        // Behind the arrows that lead to them: the last row of a place counts.
        for queue in self.core.queues() {
            let counted = self.figures.as_ref();
            let counted = counted.map(|figures| figures.get(&queue.name).cloned());
            let node = Node {
                kind: Some({
                    let stranger = self.map.strangers.queues.get(&queue.name).cloned();
                    stranger.unwrap_or_else(|| Name::from(queue.settings.queue_type.as_str()))
                }),
                figures: counted.map(Option::unwrap_or_default),
                rules: Vec::new(),
            };
            nodes.push((Place::Queue(queue.name.clone()), node));
        }
        Sorted::of(nodes)
    }
}
