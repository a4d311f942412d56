//! Where dead letters go, drawn and as a table; and what the linter finds.

use askama::Template;

use super::frame::Frame;
use super::queue::{queue_link, vhost_flag};
use super::show::{Count, Text};

/// The page with the graph of a vhost.
#[derive(Template, Debug)]
#[template(path = "graph.html")]
pub struct GraphPage {
    pub frame: Frame,
    pub vhost: Text,
    pub vhosts: Vec<Text>,
    pub around: Text,
    pub hops: Text,
    /// SVG of our own: every text in it is escaped.
    pub drawing: String,
    pub graph: GraphAnswer,
}

answer! {
    /// A graph as the API answers it, as far as the table shows it.
    pub struct GraphAnswer {
        pub nodes: Vec<NodeRow>,
        pub edges: Vec<EdgeRow>,
        pub left_out: LeftOut,
        pub not_read: Vec<NotReadRow>,
    }

    /// What is not shown.
    #[derive(Copy)]
    pub struct LeftOut {
        pub nodes: Count,
    }

    /// A queue, an exchange or another place.
    pub struct NodeRow {
        pub id: Text,
        /// Empty: there is none of that name.
        pub kind: Text = "type",
    }

    /// What it takes too long to look at.
    pub struct NotReadRow {
        pub item: Text,
        pub why: Text,
    }

    /// Where the dead of one queue go.
    pub struct EdgeRow {
        pub from: Text,
        pub to: Text,
        pub through: Vec<Text>,
        pub keys: Vec<Text>,
        pub rule: Text,
        pub reasons: Vec<(String, Deaths)>,
        pub turns: Text = "loop",
        pub dead_end: Vec<Text>,
        pub sometimes: bool,
    }

    /// Deaths for one reason.
    #[derive(Copy)]
    pub struct Deaths {
        pub total: Count,
        pub rate: Option<f64>,
    }
}

impl EdgeRow {
    /// The names of a queue or place: without what tells queues from exchanges.
    pub fn name(place: &Text) -> Text {
        let raw = place.raw();
        let name = raw.strip_prefix("q:").or_else(|| raw.strip_prefix("x:"));
        Text::new(name.unwrap_or(raw))
    }

    /// `412 (24.0 a minute)` for each reason for which messages died.
    pub fn deaths(&self) -> String {
        let died = self.reasons.iter().filter(|(_, one)| !one.total.is_zero());
        let words = died.map(|(reason, one)| match one.rate.filter(|rate| *rate > 0.0) {
            Some(rate) => format!("{reason} {} ({:.1} a minute)", one.total, rate * 60.0),
            None => format!("{reason} {}", one.total),
        });
        words.collect::<Vec<_>>().join(", ")
    }
}

impl GraphPage {
    /// The link to a queue; none for another place, and for a queue that does not exist.
    pub fn link(&self, place: &Text) -> Option<String> {
        let name = place.raw().strip_prefix("q:")?;
        let mut nodes = self.graph.nodes.iter();
        let exists = nodes.any(|node| node.id == *place && !node.kind.is_empty());
        exists.then(|| queue_link(self.vhost.raw(), name))
    }

    /// The command that shows the same.
    pub fn command(&self) -> String {
        let vhost = vhost_flag(&self.vhost);
        if self.around.is_empty() {
            return format!("coroner graph{vhost}");
        }
        let (around, hops) = (self.around.shell(), self.hops.shell());
        format!("coroner graph{vhost} --around {around} --hops {hops}")
    }
}

/// The page with what the linter finds.
#[derive(Template, Debug)]
#[template(path = "lint.html")]
pub struct LintPage {
    pub frame: Frame,
    pub report: LintAnswer,
}

answer! {
    /// The linter's report as the API answers it.
    pub struct LintAnswer {
        pub findings: Vec<FindingRow>,
        pub errors: Count,
        pub warnings: Count,
        pub infos: Count,
        pub silenced: Count,
        pub left_out: Count,
    }

    /// A finding with what shows it and what mends it.
    pub struct FindingRow {
        pub rule: Text,
        pub severity: Text,
        pub vhost: Text,
        pub object: super::deaths::Object,
        pub says: Text,
        pub because: Text,
        pub fix: Text,
        pub witness: Option<Witness>,
    }

    /// A message, and what became of it.
    pub struct Witness {
        pub exchange: Text,
        pub routing_key: Text,
        pub deaths: Vec<WitnessDeath>,
        pub outcome: Text,
    }

    /// Where it died, and of what.
    pub struct WitnessDeath {
        pub queue: Text,
        pub reason: Text,
    }
}

impl FindingRow {
    /// The class of the style sheet for how bad it is.
    pub fn class(&self) -> &'static str {
        match self.severity.raw() {
            "error" => "bad",
            "warning" => "so-so",
            _ => "quiet",
        }
    }

    /// The link to the queue; none: it is about a policy.
    pub fn link(&self) -> Option<String> {
        let is_queue = self.object.kind.raw() == "queue";
        is_queue.then(|| queue_link(self.vhost.raw(), self.object.name.raw()))
    }

    /// Its kind in words.
    pub fn kind(&self) -> String {
        self.object.kind.raw().replace('_', " ")
    }
}
