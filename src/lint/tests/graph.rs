//! Graphs: their arrows on small topologies, what is shown of large ones, and names that would break
//! out of a form.

use serde_json::{Value as Json, json};

use super::{binding, exchange, queue};
use crate::base::limits::{GRAPH_EDGES_MAX, GRAPH_NODES_MAX};
use crate::base::{Name, Timestamp};
use crate::broker::ByReason;
use crate::broker::arguments::OnUndeliverable;
use crate::deaths::Reason;
use crate::lint::budget::{Budget, Part};
use crate::lint::{Figures, Graph, Sorted, Topology};

fn topology(definitions: &Json, undeliverable: OnUndeliverable) -> Topology {
    let topology = Topology::read(definitions, None, undeliverable).unwrap();
    assert_eq!(topology.not_read, []);
    topology
}

fn drawn(definitions: &Json) -> Graph {
    let topology = topology(definitions, OnUndeliverable::Drop);
    Graph::of_topology(&topology, &Name::from("/")).unwrap()
}

/// `from -[through, keys]-> to, marks` of each arrow.
fn arrows(graph: &Graph) -> Vec<String> {
    let graph = graph.to_json();
    let edges = graph["edges"].as_array().unwrap().iter();
    let told = edges.map(|edge| {
        let text = |field: &str| edge[field].as_str().unwrap().to_owned();
        let listed = |field: &str| {
            let names = edge[field].as_array().unwrap().iter();
            names
                .map(|name| name.as_str().unwrap())
                .collect::<Vec<_>>()
                .join(" ")
        };
        let mut told = format!(
            "{} -[{}; {}]-> {}",
            text("from"),
            listed("through"),
            listed("keys"),
            text("to")
        );
        if let Some(rule) = edge["loop"].as_str() {
            told = format!("{told}, {rule}");
        }
        if edge["sometimes"] == true {
            told += ", sometimes";
        }
        told
    });
    told.collect()
}

/// The example of the page about graphs.
#[test]
fn the_drawing_in_the_documentation_is_the_one_that_is_made() {
    let definitions = json!({
        "queues": [
            queue("orders", json!({"x-dead-letter-exchange": "dead"})),
            queue("orders.dlq", json!({"x-max-length": 1000})),
            queue("mail", json!({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "mail.wait"})),
            queue("mail.wait", json!({"x-message-ttl": 30000, "x-dead-letter-exchange": "",
                "x-dead-letter-routing-key": "mail"})),
        ],
        "exchanges": [exchange("shop", "direct"), exchange("dead", "direct")],
        "bindings": [
            binding("shop", "orders", "order.new"),
            binding("shop", "orders", "order.cancelled"),
            binding("shop", "mail", "mail"),
            binding("dead", "orders.dlq", "order.new"),
        ],
    });
    let topology = topology(&definitions, OnUndeliverable::Quarantine);
    let graph = Graph::of_topology(&topology, &Name::from("/")).unwrap();
    let page = include_str!("../../../docs/GRAPH.md");
    let drawn = graph.to_mermaid();
    assert!(page.contains(&drawn), "{drawn}");
    let svg = include_str!("../../../docs/graph.svg");
    assert_eq!(svg, graph.to_svg());
}

fn orders() -> Json {
    json!({
        "queues": [
            queue("orders", json!({"x-dead-letter-exchange": "dead", "x-message-ttl": 1000})),
            queue("orders.dlq", json!({})),
        ],
        "exchanges": [exchange("shop", "direct"), exchange("dead", "direct")],
        "bindings": [
            binding("shop", "orders", "order.new"),
            binding("shop", "orders", "order.cancelled"),
            binding("dead", "orders.dlq", "order.new"),
        ],
    })
}

#[test]
fn an_arrow_is_where_the_dead_of_a_queue_go_by_the_keys_that_reach_it() {
    let died = ByReason {
        rejected: 412,
        ..ByReason::NONE
    };
    let figures = Figures {
        held: 3,
        dead: died,
        rates: Some([0.5, 0.0, 0.0, 0.0]),
        ..Figures::default()
    };
    let figures = Sorted::of(vec![(Name::from("orders"), figures)]);
    let topology = topology(&orders(), OnUndeliverable::Drop);
    let sandbox = topology.vhosts.values().next().unwrap();
    let graph = Graph::of(sandbox, &[], Some((Timestamp(7), figures)));
    let reasons = json!({
        "rejected": {"total": 412, "rate": 0.5},
        "expired": {"total": 0, "rate": 0.0},
    });
    let rule = "argument x-dead-letter-exchange";
    let places = json!({"ready": 0, "delayed": 0, "pending": 0, "oldest_s": null,
        "kind": "queue", "type": "classic"});
    let queue = |id: &str, held: u64, rules: &[&str]| {
        let mut queue = places.clone();
        queue["id"] = json!(id);
        queue["held"] = json!(held);
        queue["rules"] = json!(rules);
        queue
    };
    let expected = json!({
        "vhost": "/",
        "as_of": 7,
        "nodes": [
            {"id": "x:dead", "kind": "exchange", "type": "direct"},
            queue("q:orders", 3, &["DL003"]),
            queue("q:orders.dlq", 0, &["DL009"]),
            {"id": "drop", "kind": "drop"},
        ],
        "edges": [
            {"from": "q:orders", "to": "q:orders.dlq", "through": ["x:dead"], "keys": ["order.new"],
                "rule": rule, "reasons": reasons, "loop": null, "dead_end": [], "sometimes": false},
            {"from": "q:orders", "to": "drop", "through": ["x:dead"], "keys": ["order.cancelled"],
                "rule": rule, "reasons": reasons, "loop": null, "dead_end": ["DL003"], "sometimes": false},
        ],
        "left_out": {"nodes": 0, "edges": 0},
        "not_read": [],
    });
    assert_eq!(graph.to_json(), expected);
    let svg = graph.to_svg();
    let title =
        "queue orders to exchange dead; key order.new, order.cancelled; rejected 412 (0.5/s)";
    assert!(svg.contains(title), "{svg}");
    assert!(svg.contains("dropped; key order.cancelled; rejected 412 (0.5/s); DL003"));
}

#[test]
fn every_way_to_an_end_has_its_place() {
    let least = "at-least-once";
    let graph = drawn(&json!({
        "queues": [
            queue("kept", json!({"x-dead-letter-exchange": "none", "x-on-undeliverable": "quarantine"})),
            queue("lost", json!({"x-dead-letter-exchange": "none"})),
            queue("old", json!({"x-message-ttl": 1000})),
            queue("plain", json!({})),
            queue("varies", json!({"x-dead-letter-exchange": "by-header"})),
            queue("waits", json!({"x-queue-type": "quorum", "x-dead-letter-exchange": "none",
                "x-dead-letter-strategy": least, "x-overflow": "reject-publish"})),
        ],
        "exchanges": [exchange("by-header", "headers")],
        "bindings": [binding("by-header", "plain", ""), binding("by-header", "old", "")],
    }));
    assert_eq!(
        arrows(&graph),
        [
            "q:kept -[x:none; kept]-> q:amq.quarantine",
            "q:lost -[x:none; lost]-> drop",
            "q:old -[; ]-> drop",
            "q:varies -[x:by-header; varies]-> q:old, sometimes",
            "q:varies -[x:by-header; varies]-> q:plain, sometimes",
            "q:waits -[x:none; waits]-> wait",
        ]
    );
    let json = graph.to_json();
    let nodes = json["nodes"].as_array().unwrap();
    let of = |id: &str| nodes.iter().find(|node| node["id"] == id).unwrap();
    assert_eq!(of("q:amq.quarantine")["kind"], "quarantine");
    assert_eq!(of("q:amq.quarantine")["type"], Json::Null);
    assert_eq!(of("x:none")["type"], Json::Null);
    assert_eq!(of("wait")["kind"], "wait");
}

#[test]
fn loops_are_marked_on_every_arrow_of_them_and_drawn_back() {
    let back = |to: &str| json!({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": to});
    let mut expires = back("a");
    expires["x-message-ttl"] = json!(1000);
    let mut expires_too = back("b");
    expires_too["x-message-ttl"] = json!(1000);
    let graph = drawn(&json!({
        "queues": [
            queue("a", expires_too),
            queue("b", expires),
            queue("self", back("self")),
        ],
    }));
    assert_eq!(
        arrows(&graph),
        [
            "q:a -[; b]-> q:b, DL004",
            "q:b -[; a]-> q:a, DL004",
            "q:self -[; self]-> q:self, DL005",
        ]
    );
    let svg = graph.to_svg();
    assert_eq!(svg.matches("DL004 loop</text>").count(), 2, "{svg}");
    assert!(graph.to_dot().contains("DL004 loop"));
}

/// Each is more than the ways into one queue that the linter follows.
#[test]
fn a_queue_that_very_many_send_their_dead_to_has_an_arrow_from_each() {
    let names: Vec<String> = (0..100).map(|n| format!("q{n}")).collect();
    let queues = names.iter();
    let mut queues: Vec<Json> = queues
        .map(|name| queue(name, json!({"x-dead-letter-exchange": "dead"})))
        .collect();
    queues.push(queue("all", json!({})));
    let bindings = names.iter().map(|name| binding("dead", "all", name));
    let graph = drawn(&json!({
        "queues": queues,
        "exchanges": [exchange("dead", "direct")],
        "bindings": bindings.collect::<Vec<_>>(),
    }));
    let to_all = arrows(&graph);
    let to_all = to_all.iter().filter(|arrow| arrow.ends_with("q:all"));
    assert_eq!(to_all.count(), 100);
}

/// Arrows and loops were missing for a bound, and nothing said so.
#[test]
fn what_was_not_looked_at_is_told_in_every_form() {
    let topology = topology(&orders(), OnUndeliverable::Drop);
    let sandbox = topology.vhosts.values().next().unwrap();
    let graph = |budget: Budget| Graph::within(sandbox, &[], None, budget);
    let whole = graph(Budget::default());
    assert_eq!(whole.to_json()["not_read"], json!([]));
    let cut = graph(Budget::default().with(Part::Loops, 0));
    let json = cut.to_json();
    let told = json["not_read"].as_array().unwrap();
    assert_eq!(told.len(), 1, "{json}");
    assert_eq!(told[0]["item"], "loops of vhost '/'");
    for (form, whole, words) in [
        (
            cut.to_dot(),
            whole.to_dot(),
            "not looked at: loops of vhost '/'",
        ),
        (
            cut.to_svg(),
            whole.to_svg(),
            "not looked at: loops of vhost &#39;/&#39;",
        ),
        (
            cut.to_mermaid(),
            whole.to_mermaid(),
            "not looked at#58; loops of vhost #39;#47;#39;",
        ),
    ] {
        assert!(form.contains(words), "{form}");
        assert!(!whole.contains("not looked at"), "{whole}");
    }
    parsed(&cut.to_svg());
}

/// Steps to arrows that were there already counted as arrows that are left out.
#[test]
fn arrows_that_were_not_looked_at_are_told_and_not_counted() {
    let topology = topology(&orders(), OnUndeliverable::Drop);
    let sandbox = topology.vhosts.values().next().unwrap();
    let within = |steps: usize| {
        let budget = Budget::default().with(Part::Arrows, steps);
        let graph = Graph::within(sandbox, &[], None, budget);
        let json = graph.to_json();
        assert_eq!(json["left_out"], json!({"nodes": 0, "edges": 0}));
        let items = json["not_read"].as_array().unwrap().iter();
        let items = items.map(|left| left["item"].as_str().unwrap().to_owned());
        (arrows(&graph).len(), items.collect::<Vec<String>>())
    };
    let told = vec![String::from("arrows of vhost '/'")];
    assert_eq!(within(0), (0, told.clone()));
    assert_eq!(within(1), (1, told));
    assert_eq!(within(100), (2, Vec::new()));
}

/// They went on beyond the edge of the image.
#[test]
fn a_long_note_is_cut_where_it_is_drawn_and_whole_where_it_is_read() {
    let vhost = "v".repeat(120);
    let named = format!("\"vhost\":\"{vhost}\"");
    let definitions = orders().to_string().replace("\"vhost\":\"/\"", &named);
    let definitions: Json = serde_json::from_str(&definitions).unwrap();
    let topology = topology(&definitions, OnUndeliverable::Drop);
    let sandbox = topology.vhosts.values().next().unwrap();
    let budget = Budget::default().with(Part::Loops, 0);
    let svg = Graph::within(sandbox, &[], None, budget).to_svg();
    let (above, note) = svg.split_once("class=\"note\"").unwrap();
    assert!(
        above.contains(&format!("loops of vhost &#39;{vhost}&#39;</desc>")),
        "{svg}"
    );
    let (_, note) = note.split_once('>').unwrap();
    let (note, _) = note.split_once('<').unwrap();
    assert!(note.starts_with("not looked at: loops of vhost "), "{note}");
    assert!(note.ends_with('\u{2026}'), "{note}");
    parsed(&svg);
}

/// The drawing led to a page of a queue that there was not.
#[test]
fn the_quarantine_is_linked_to_once_it_exists() {
    let link = |name: &Name| format!("/ui/queue?name={}", name.percent_encoded());
    let lost = queue("lost", json!({"x-dead-letter-exchange": "none"}));
    let topology = topology(&json!({"queues": [lost]}), OnUndeliverable::Quarantine);
    let sandbox = topology.vhosts.values().next().unwrap();
    for exists in [false, true] {
        let counted = exists.then(|| {
            let figures = Figures {
                ready: 7,
                ..Figures::default()
            };
            (Name::from("amq.quarantine"), figures)
        });
        let figures = Sorted::of(counted.into_iter().collect());
        let graph = Graph::of(sandbox, &[], Some((Timestamp(0), figures)));
        let json = graph.to_json();
        let mut nodes = json["nodes"].as_array().unwrap().iter();
        let node = nodes.find(|node| node["kind"] == "quarantine").unwrap();
        assert_eq!(node["ready"].as_u64(), exists.then_some(7));
        assert_eq!(node["type"].as_str(), exists.then_some("classic"));
        let svg = graph.drawn(Some(&link));
        assert!(svg.contains("quarantine amq.quarantine"), "{svg}");
        assert_eq!(svg.contains("name=amq.quarantine"), exists, "{svg}");
        assert_eq!(svg.contains("made when needed"), !exists, "{svg}");
    }
}

/// Figures of queues in which messages died so often.
fn counted(died: impl Iterator<Item = (String, u64)>) -> Sorted<Name, Figures> {
    let figures = died.map(|(name, count)| {
        let mut dead = ByReason::NONE;
        dead.add_some(Reason::Rejected, count);
        let figures = Figures {
            dead,
            ..Figures::default()
        };
        (Name::from(name.as_str()), figures)
    });
    Sorted::of(figures.collect())
}

#[test]
fn of_very_many_queues_those_are_shown_that_matter_and_the_others_are_counted() {
    let queues: Vec<Json> = (0..2_000)
        .map(|n| {
            queue(
                &format!("q{n:04}"),
                json!({"x-dead-letter-exchange": "dead"}),
            )
        })
        .chain([queue(
            "all",
            json!({"x-max-length": 9, "x-overflow": "reject-publish"}),
        )])
        .collect();
    let definitions = json!({
        "queues": queues,
        "exchanges": [exchange("dead", "fanout")],
        "bindings": [binding("dead", "all", "")],
    });
    let topology = topology(&definitions, OnUndeliverable::Drop);
    let sandbox = topology.vhosts.values().next().unwrap();
    let graph = |died: u64| {
        let died = (0..died).map(|n| (format!("q{n:04}"), n + 1));
        Graph::of(sandbox, &[], Some((Timestamp(0), counted(died))))
    };
    let mut some = graph(3);
    some.summarize();
    let json = some.to_json();
    assert_eq!(
        json["nodes"].as_array().unwrap().len(),
        5,
        "3 queues, dead, all"
    );
    assert_eq!(json["left_out"], json!({"nodes": 1997, "edges": 1997}));
    assert!(some.to_svg().contains(
        "; 1997 more queues and exchanges are not shown; 1997 more arrows are not shown"
    ));

    let mut many = graph(2_000);
    many.summarize();
    let json = many.to_json();
    let nodes = json["nodes"].as_array().unwrap();
    assert!(nodes.len() <= GRAPH_NODES_MAX, "{}", nodes.len());
    assert!(json["edges"].as_array().unwrap().len() <= GRAPH_EDGES_MAX);
    assert!(
        nodes.iter().any(|node| node["id"] == "q:q1999"),
        "most died there"
    );
    assert!(!nodes.iter().any(|node| node["id"] == "q:q0000"));
}

#[test]
fn around_a_queue_is_what_its_dead_letters_come_from_and_go_to() {
    let to = |key: &str| json!({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": key});
    let definitions = json!({"queues": [
        queue("a", to("b")), queue("b", to("c")), queue("c", to("d")), queue("d", json!({})),
        queue("x", json!({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "lost"})),
        queue("y", json!({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "lost"})),
    ]});
    for (queue, hops, expected) in [
        ("b", 1, vec!["q:a -[; b]-> q:b", "q:b -[; c]-> q:c"]),
        ("d", 2, vec!["q:b -[; c]-> q:c", "q:c -[; d]-> q:d"]),
        ("b", 0, vec![]),
        // What is dropped is nowhere: it joins no queues.
        ("x", 9, vec!["q:x -[; lost]-> drop"]),
    ] {
        let mut graph = drawn(&definitions);
        assert!(graph.around(&Name::from(queue), hops));
        assert_eq!(arrows(&graph), expected, "{queue} {hops}");
    }
    assert!(!drawn(&definitions).around(&Name::from("nobody"), 1));
}

/// The elements of a document, and its texts; panics where it is not well-formed.
fn parsed(svg: &str) -> (Vec<String>, Vec<String>) {
    let (mut open, mut elements, mut texts) = (Vec::new(), Vec::new(), Vec::new());
    let mut rest = svg;
    while let Some((text, more)) = rest.split_once('<') {
        let plain = text
            .replace("&lt;", "<")
            .replace("&gt;", ">")
            .replace("&quot;", "\"")
            .replace("&#39;", "'");
        assert!(!plain.replace("&amp;", "").contains('&'), "{text}");
        texts.push(plain.replace("&amp;", "&"));
        let (tag, more) = more.split_once('>').expect("the end of a tag");
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        rest = more;
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name));
            continue;
        }
        let name = tag.split([' ', '/']).next().unwrap().to_owned();
        if !tag.ends_with('/') {
            open.push(name.clone());
        }
        elements.push(name);
    }
    assert!(open.is_empty(), "{open:?}");
    (elements, texts)
}

/// Names of queues and keys that mean something in one form or another.
const EVIL: [&str; 6] = [
    "\"><script>alert(1)</script>",
    "a/b/../%2F",
    "line\nbreak\u{1}\u{202e}",
    "back\\slash\\",
    "&lt;#quot;]; x -->",
    "'onload='alert(1)",
];

/// Queues of those names, whose dead letters go round.
fn hostile() -> Graph {
    let queues = EVIL.iter().enumerate().map(|(n, _)| {
        let next = EVIL[(n + 1) % EVIL.len()];
        queue(
            &EVIL[n].replace('\n', ""),
            json!({"x-dead-letter-exchange": "dead", "x-dead-letter-routing-key": next}),
        )
    });
    let bindings = EVIL.iter().map(|evil| {
        let name = evil.replace('\n', "");
        binding("dead", &name, evil)
    });
    drawn(&json!({
        "queues": queues.collect::<Vec<_>>(),
        "exchanges": [exchange("dead", "direct")],
        "bindings": bindings.collect::<Vec<_>>(),
    }))
}

#[test]
fn no_name_breaks_out_of_any_form() {
    let graph = hostile();
    assert!(arrows(&graph).len() >= EVIL.len(), "{:?}", arrows(&graph));

    let svg = graph.drawn(Some(&|name: &Name| {
        format!("/ui/queue?name={}", name.percent_encoded())
    }));
    let (elements, texts) = parsed(&svg);
    let known = [
        "svg", "title", "desc", "defs", "marker", "path", "g", "a", "rect", "text",
    ];
    assert!(
        elements
            .iter()
            .all(|element| known.contains(&element.as_str()))
    );
    assert!(
        texts
            .iter()
            .any(|text| text.contains("<script>alert(1)</script>"))
    );
    assert!(!svg.contains(['\u{1}', '\u{202e}']));
    for inline in ["style=", "<style", " onload=\"", "javascript:"] {
        assert!(!svg.contains(inline), "{inline}");
    }
    assert!(
        svg.contains("href=\"/ui/queue?name=a%2Fb%2F..%2F%252F\""),
        "{svg}"
    );

    for line in graph
        .to_dot()
        .lines()
        .filter(|line| line.contains("label="))
    {
        // Quotes that are not escaped open and close.
        let plain = line.replace("\\\\", "").replace("\\\"", "");
        assert_eq!(plain.matches('"').count() % 2, 0, "{line}");
        assert!(line.ends_with(';'), "{line}");
    }
    let mermaid = graph.to_mermaid();
    for line in mermaid.lines() {
        let quotes = line.matches('"').count();
        assert!([0, 2].contains(&quotes), "{line}");
        assert!(!line.contains("<script"), "{line}");
    }
    assert!(
        mermaid.contains("#34;#62;#60;script#62;alert(1)"),
        "{mermaid}"
    );
}
