//! What all drawn forms of a graph share: boxes, arrows between them, and the words on both. A way
//! through a dead-letter exchange is two arrows, which others share.

use std::collections::BTreeMap;

use super::{Deaths, Edge, Graph, Node, Place};
use crate::base::Name;
use crate::base::limits::{GRAPH_KEYS_SHOWN_MAX, GRAPH_NAME_COLUMNS_MAX};
use crate::deaths::Reason;
use crate::lint::finding::Rule;

/// The rules about messages that are lost, or kept, with a dead-letter exchange and without one.
const DEAD_ENDS: [Rule; 3] = [
    Rule::ExchangeMissing,
    Rule::NothingBound,
    Rule::KeysLeadNowhere,
];
const WITHOUT_EXCHANGE: [Rule; 4] = [
    Rule::ExpiredIsLost,
    Rule::PushedOutIsLost,
    Rule::FailedIsLost,
    Rule::SecondDeathIsLast,
];

/// A graph as it is drawn.
pub(super) struct Drawing<'a> {
    pub(super) boxes: Vec<Labelled<'a>>,
    pub(super) arrows: Vec<Arrow>,
}

/// A box, its place and what is known of it.
pub(super) struct Labelled<'a> {
    pub(super) place: &'a Place,
    pub(super) node: &'a Node,
}

/// One arrow, between boxes by their numbers.
#[derive(Default)]
pub(super) struct Arrow {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) keys: Vec<Name>,
    pub(super) deaths: Vec<Deaths>,
    pub(super) turns: Option<Rule>,
    /// The rules about its dead end.
    pub(super) ends: Vec<Rule>,
    pub(super) sometimes: bool,
}

/// How the arrows of a reason look: nothing is told by colour alone.
pub(super) struct Look {
    /// It has three times the contrast on white and on black.
    pub(super) colour: &'static str,
    /// The dashes of SVG.
    pub(super) dashes: &'static str,
    /// The attributes of DOT.
    pub(super) dot: &'static str,
}

/// The look of arrows by the reason for which most messages take them; none: no message did.
pub(super) const fn look(reason: Option<Reason>) -> Look {
    let (colour, dashes, dot) = match reason {
        None => ("currentColor", "none", "color=gray"),
        Some(Reason::Rejected) => ("#d64545", "none", "color=\"#d64545\""),
        Some(Reason::Expired) => ("#b8770a", "9 4", "color=\"#b8770a\", style=dashed"),
        Some(Reason::Maxlen) => ("#2f80d0", "2 4", "color=\"#2f80d0\", style=dotted"),
        Some(Reason::DeliveryLimit) => ("#9a5fd6", "9 3 2 3", "color=\"#9a5fd6:invis:#9a5fd6\""),
    };
    Look {
        colour,
        dashes,
        dot,
    }
}

impl<'a> Drawing<'a> {
    pub(super) fn of(graph: &'a Graph) -> Self {
        let boxes: Vec<Labelled<'a>> = graph
            .nodes
            .rows()
            .iter()
            .map(|(place, node)| Labelled { place, node })
            .collect();
        let mut arrows: BTreeMap<(usize, usize), Arrow> = BTreeMap::new();
        for edge in &graph.edges {
            // They are in the order of their places.
            let number = |place: &Place| boxes.binary_search_by(|one| one.place.cmp(place)).ok();
            let from = number(&Place::Queue(edge.from.clone()));
            let (Some(from), Some(to)) = (from, number(&edge.to)) else {
                continue; // an arrow is left out with its ends
            };
            let deaths = graph.deaths_of(edge);
            let exchange = edge.through.clone().map(Place::Exchange);
            let exchange = exchange.and_then(|exchange| number(&exchange));
            let ends = graph.dead_end(edge);
            let mut draw = |ways: (usize, usize), ends: &[Rule], others: bool| {
                let (from, to) = ways;
                let arrow = arrows.entry(ways).or_insert_with(|| Arrow {
                    from,
                    to,
                    ..Arrow::default()
                });
                arrow.add(edge, &deaths, others);
                let ends = ends.iter().filter(|rule| !arrow.ends.contains(rule));
                let ends: Vec<Rule> = ends.copied().collect();
                arrow.ends.extend(ends);
            };
            if let Some(exchange) = exchange {
                draw((from, exchange), &[], false);
                draw((exchange, to), &ends, true);
            } else {
                draw((from, to), &ends, false);
            }
        }
        Self {
            boxes,
            arrows: arrows.into_values().collect(),
        }
    }
}

impl Graph {
    /// What a drawing does not show, a line each: what it left out, and what was not looked at.
    pub(super) fn notes(&self) -> Vec<String> {
        let left = self.left_out;
        let counts = [(left.nodes, "queues and exchanges"), (left.edges, "arrows")];
        let counts = counts.into_iter().filter(|(count, _)| *count > 0);
        let counts = counts.map(|(count, what)| format!("{count} more {what} are not shown"));
        let not_read = self.not_read.iter();
        let not_read = not_read.map(|left| format!("not looked at: {}", visible(&left.item)));
        counts.chain(not_read).collect()
    }

    /// The rules that say why an arrow is a dead end; none: it is none.
    pub(super) fn dead_end(&self, edge: &Edge) -> Vec<Rule> {
        let is_end = edge.to.kind() != "queue" && self.nodes.get(&edge.to).is_some();
        let node = self.nodes.get(&Place::Queue(edge.from.clone()));
        let about = if edge.rule.is_some() {
            &DEAD_ENDS[..]
        } else {
            &WITHOUT_EXCHANGE[..]
        };
        let rules = node.into_iter().flat_map(|node| &node.rules);
        let rules = rules.filter(|rule| is_end && about.contains(rule));
        rules.copied().collect()
    }
}

impl Arrow {
    /// Adds what goes one way. `others`: other queues go it, too; else it is one queue's, which it counts
    /// once.
    fn add(&mut self, edge: &Edge, deaths: &[Deaths], others: bool) {
        for key in &edge.keys {
            if !self.keys.contains(key) {
                self.keys.push(key.clone());
            }
        }
        for one in deaths {
            let known = self.deaths.iter_mut();
            let known = known.into_iter().find(|known| known.reason == one.reason);
            match known {
                None => self.deaths.push(*one),
                Some(known) if others => {
                    known.total += one.total;
                    known.rate = known.rate.zip(one.rate).map(|(rate, other)| rate + other);
                }
                Some(_) => {}
            }
        }
        // The lowest number is the worst.
        self.turns = [self.turns, edge.turns].into_iter().flatten().min();
        self.sometimes |= edge.sometimes;
    }

    /// The reason for which most messages take it now, or did; none: no message did.
    pub(super) fn reason(&self) -> Option<Reason> {
        let of = |one: &Deaths| (one.rate.unwrap_or(0.0), one.total);
        let most = self.deaths.iter().max_by(|a, b| {
            let (a, b) = (of(a), of(b));
            a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))
        });
        most.filter(|one| one.total > 0).map(|one| one.reason)
    }

    /// Messages a second that take it.
    pub(super) fn rate(&self) -> f64 {
        self.deaths.iter().filter_map(|one| one.rate).sum()
    }

    /// The width of its line, by the rate: 1.5 if nothing dies now, 9 at the most.
    pub(super) fn width(&self) -> f64 {
        (1.5 + (60.0 * self.rate().max(0.0)).ln_1p()).min(9.0)
    }

    /// The keys, some if they are many.
    pub(super) fn keys_words(&self) -> String {
        let shown = self.keys.iter().take(GRAPH_KEYS_SHOWN_MAX);
        let shown: Vec<String> = shown.map(|key| visible(key)).collect();
        let shown = shown.join(", ");
        match self.keys.len().saturating_sub(GRAPH_KEYS_SHOWN_MAX) {
            0 => shown,
            more => format!("{shown} and {more} more"),
        }
    }

    /// What marks it: the rule about its loop or its end, and whether the message itself decides.
    pub(super) fn marks(&self) -> Vec<String> {
        let turns = self.turns.iter();
        let turns = turns.map(|rule| format!("{} loop", rule.as_str()));
        let ends = self.ends.iter().map(|rule| rule.as_str().to_owned());
        let sometimes = self.sometimes.then(|| String::from("sometimes"));
        turns.chain(ends).chain(sometimes).collect()
    }

    /// `rejected 412 (0.4/s), expired 3`.
    pub(super) fn deaths_words(&self) -> String {
        let died = self.deaths.iter().filter(|one| one.total > 0);
        let words = died.map(|one| match one.rate.filter(|rate| *rate > 0.0) {
            Some(rate) => format!("{} {} ({rate:.1}/s)", one.reason, one.total),
            None => format!("{} {}", one.reason, one.total),
        });
        words.collect::<Vec<_>>().join(", ")
    }

    /// The lines beside it: keys, deaths, marks; what there is of them.
    pub(super) fn lines(&self) -> Vec<String> {
        let marks = self.marks().join(", ");
        let lines = [self.keys_words(), self.deaths_words(), marks].into_iter();
        lines.filter(|line| !line.is_empty()).collect()
    }

    /// All that is known of it, on one line.
    pub(super) fn words(&self, boxes: &[Labelled<'_>]) -> String {
        let name = |number: usize| boxes.get(number).map_or_else(String::new, Labelled::words);
        let way = format!("{} to {}", name(self.from), name(self.to));
        let keys = Some(self.keys_words()).filter(|keys| !keys.is_empty());
        let keys = keys.map(|keys| format!("key {keys}"));
        let deaths = Some(self.deaths_words()).filter(|deaths| !deaths.is_empty());
        let deaths = deaths.unwrap_or_else(|| String::from("nothing died"));
        let parts = [way].into_iter().chain(keys).chain([deaths]);
        let parts: Vec<String> = parts.chain(self.marks()).collect();
        parts.join("; ")
    }
}

impl Labelled<'_> {
    /// `queue orders`.
    pub(super) fn words(&self) -> String {
        match self.place {
            Place::Queue(name) | Place::Exchange(name) => {
                format!("{} {}", self.place.kind(), visible(name))
            }
            Place::Wait => String::from("waiting in the queue"),
            Place::Drop => String::from("dropped"),
        }
    }

    /// Whether no queue or exchange of that name exists.
    pub(super) fn is_missing(&self) -> bool {
        let exists = self.node.kind.is_some();
        matches!(self.place, Place::Queue(_) | Place::Exchange(_)) && !exists
    }

    /// The lines in the box: its name, what it is or holds, and its rules.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = vec![match self.place {
            Place::Queue(name) | Place::Exchange(name) => shortened(&visible(name)),
            Place::Wait => String::from("wait for a way"),
            Place::Drop => String::from("dropped"),
        }];
        match self.place {
            Place::Queue(_) if self.is_missing() => lines.push(String::from("made when needed")),
            Place::Queue(_) => lines.extend(self.figures_words()),
            Place::Exchange(_) => lines.push(match &self.node.kind {
                Some(kind) => format!("{} exchange", visible(kind)),
                None => String::from("no such exchange"),
            }),
            Place::Wait | Place::Drop => {}
        }
        if !self.node.rules.is_empty() {
            let rules = self.node.rules.iter().map(|rule| rule.as_str());
            lines.push(rules.collect::<Vec<_>>().join(" "));
        }
        lines
    }

    /// `3 ready, 1 held, 412 died`; what is 0 is left out but for the ready ones.
    fn figures_words(&self) -> Option<String> {
        let figures = self.node.figures.as_ref()?;
        let ready = format!("{} ready", figures.ready);
        let others = [
            (figures.held, "held"),
            (figures.delayed, "delayed"),
            (figures.pending, "pending"),
            (figures.dead.total(), "died"),
        ];
        let others = others.into_iter().filter(|(count, _)| *count > 0);
        let others = others.map(|(count, word)| format!("{count} {word}"));
        let words: Vec<String> = [ready].into_iter().chain(others).collect();
        Some(words.join(", "))
    }
}

/// A text of which every character is seen: none turns the line round or ends it.
pub(super) fn visible(text: &str) -> String {
    let shown = text.chars().map(|c| match u32::from(c) {
        code @ 0..=0x1f => char::from_u32(0x2400 + code).unwrap_or(c),
        0x7f => '\u{2421}',
        0x80..=0x9f
        | 0x200b..=0x200f
        | 0x2028..=0x202e
        | 0x2060..=0x206f
        | 0xfeff
        | 0xfff9..=0xfffb
        | 0xfffe..=0xffff => '\u{fffd}',
        _ => c,
    });
    shown.collect()
}

/// Columns that a text takes, about: characters of other scripts may be wide.
pub(super) fn columns(text: &str) -> usize {
    text.chars().map(|c| if c.is_ascii() { 1 } else { 2 }).sum()
}

/// A text that fits into a box.
pub(super) fn shortened(text: &str) -> String {
    shortened_to(text, GRAPH_NAME_COLUMNS_MAX)
}

/// A text of about this many columns at most.
pub(super) fn shortened_to(text: &str, columns_max: usize) -> String {
    if columns(text) <= columns_max {
        return text.to_owned();
    }
    let mut short = String::new();
    for c in text.chars() {
        if columns(&short) + 3 > columns_max {
            break;
        }
        short.push(c);
    }
    short + "\u{2026}"
}
