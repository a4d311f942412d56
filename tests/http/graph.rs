//! Graphs of where dead letters go, over HTTP and from the command line.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::api::Api;
use crate::support::RunningBroker;

#[test]
fn an_arrow_counts_the_deaths_and_the_graph_comes_in_four_forms() {
    let broker = RunningBroker::start(&["--collect-statistics-interval", "200ms"]);
    let api = Api { broker: &broker };
    let dead = json!({"arguments": {
        "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "a/b \"dlq\"",
    }});
    api.put("/api/queues/%2F/orders", &dead);
    api.put("/api/queues/%2F/a%2Fb%20%22dlq%22", &json!({}));
    api.put("/api/queues/%2F/aside", &json!({}));
    for _ in 0..3 {
        api.publish("orders", "an order");
    }
    let reject = json!({"count": 2, "ackmode": "reject_requeue_false", "encoding": "auto"});
    assert_eq!(
        api.ask("POST", "/api/queues/%2F/orders/get", &reject).0,
        200
    );

    let arrow = |graph: &Value| graph["edges"][0].clone();
    let begun = Instant::now();
    let graph = loop {
        let graph = api.get("/api/graph/%2F");
        let rate = &arrow(&graph)["reasons"]["rejected"]["rate"];
        if rate.as_f64().is_some_and(|rate| rate > 0.0) {
            break graph;
        }
        assert!(begun.elapsed() < Duration::from_mins(1), "{graph}");
        std::thread::sleep(Duration::from_millis(20));
    };
    let mut only = arrow(&graph);
    assert_eq!(only["reasons"]["rejected"]["total"], 2);
    only["reasons"] = Value::Null;
    assert_eq!(
        only,
        json!({"from": "q:orders", "to": "q:a/b \"dlq\"", "through": [], "keys": ["a/b \"dlq\""],
            "rule": "argument x-dead-letter-exchange", "reasons": null, "loop": null, "dead_end": [],
            "sometimes": false})
    );
    let node = |graph: &Value, id: &str| {
        let mut nodes = graph["nodes"].as_array().expect("nodes").iter();
        nodes.find(|node| node["id"] == id).cloned()
    };
    assert_eq!(node(&graph, "q:orders").expect("it is there")["ready"], 1);
    assert!(node(&graph, "q:aside").is_some());

    let around = api.get("/api/graph/%2F?around=orders&hops=1");
    assert!(node(&around, "q:aside").is_none());
    assert_eq!(around["edges"].as_array().map(Vec::len), Some(1));

    for (form, begins, has) in [
        ("dot", "digraph", "a/b \\\"dlq\\\""),
        ("mermaid", "flowchart LR", "a#47;b #34;dlq#34;"),
        ("svg", "<svg", "a/b &quot;dlq&quot;"),
    ] {
        let (status, text) = api.send("GET", &format!("/api/graph/%2F?format={form}"), "");
        assert_eq!(status, 200, "{text}");
        assert!(text.starts_with(begins) && text.contains(has), "{text}");
        assert!(text.contains("rejected 2"), "{text}");
    }
}

#[test]
fn what_is_asked_of_a_graph_is_checked() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    for (path, status, why) in [
        (
            "/api/graph/%2F?format=png",
            400,
            "must be json, dot, mermaid or svg",
        ),
        ("/api/graph/%2F?hops=2", 400, "it needs 'around'"),
        (
            "/api/graph/%2F?around=q&hops=x",
            400,
            "'hops' must be a number",
        ),
        ("/api/graph/%2F?around=q&hops=17", 400, "16 at most"),
        ("/api/graph/%2F?arround=q", 400, "'arround' is not known"),
        ("/api/graph/%2F?around=q", 404, "there is no queue 'q'"),
    ] {
        let (answered, answer) = api.ask("GET", path, &Value::Null);
        let reason = answer["reason"].as_str().expect("a reason");
        assert_eq!(answered, status, "{path}: {answer}");
        assert!(reason.contains(why), "{path}: {answer}");
    }
    assert_eq!(api.ask("GET", "/api/graph/nowhere", &Value::Null).0, 404);
    // Of a vhost that it may not enter nobody is told anything.
    api.put(
        "/api/users/stranger",
        &json!({"password": "stranger", "tags": "management"}),
    );
    let (status, _) = api.send_as("stranger", "GET", "/api/graph/%2F", "");
    assert_eq!(status, 401);
}
