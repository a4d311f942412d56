//! What somebody does on the page besides looking: notes, retries; and what leads there.

use serde_json::json;

use crate::api::Api;
use crate::page::{Browser, kill_one};
use crate::support::RunningBroker;
use crate::support::raw::{self, DISPOSITION, OPEN, Raw, TRANSFER, described, list, truth, uint};

/// The first text in double quotes that begins so, as a browser reads it.
fn link(page: &str, begin: &str) -> String {
    let found = page.split('"').find(|part| part.starts_with(begin));
    let found = found.unwrap_or_else(|| panic!("no {begin} in {page}"));
    found.replace("&#38;", "&").replace("&amp;", "&")
}

#[test]
fn a_note_on_a_group_is_written_shown_changed_and_removed() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    kill_one(&api, "dlq", "x");
    let browser = Browser::of(&broker, "guest");
    let groups = "/ui/queue?vhost=%2F&name=dlq&tab=groups";
    let before = browser.get(groups).body;
    assert!(before.contains("Write a note"), "{before}");
    assert!(before.contains("coroner set_group_note dlq 1:"), "{before}");
    let form = link(&before, "/ui/do/set-note?");
    let done = browser.fill(&form, "&note=%3Cb%3Eticket+7");
    assert_eq!(done.status, 303, "{}", done.body);
    let noted = browser.get(&format!("{groups}&done=noted")).body;
    for shown in [
        "Note: <bdi>&#60;b&#62;ticket 7</bdi>",
        "by <bdi>guest</bdi>",
        "Change the note",
        "value=\"&#60;b&#62;ticket 7\"",
        "The note is as you left it.",
    ] {
        assert!(noted.contains(shown), "{shown}: {noted}");
    }
    assert_eq!(browser.fill(&form, "&note=ticket+8").status, 303);
    assert!(browser.get(groups).body.contains("Note: <bdi>ticket 8"));
    assert_eq!(browser.fill(&form, "&note=+").status, 303);
    let after = browser.get(groups).body;
    assert!(
        after.contains("Write a note") && !after.contains("ticket"),
        "{after}"
    );
    let long = format!("&note={}", "n".repeat(1_025));
    let refused = browser.fill(&form, &long);
    assert_eq!(refused.status, 400);
    assert!(
        refused.body.contains("more than 1024 bytes"),
        "{}",
        refused.body
    );
}

#[test]
fn delayed_messages_are_retried_now_where_there_are_any() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    let path = "/api/queues/%2F/q";
    api.put(path, &json!({}));
    let browser = Browser::of(&broker, "guest");
    let page = "/ui/queue?vhost=%2F&name=q&tab=messages";
    assert!(!browser.get(page).body.contains("Retry now"));
    for _ in 0..3 {
        let body = json!({
            "properties": {"headers": {"x-opt-delivery-delay": 600_000}}, "routing_key": "q",
            "payload": "later", "payload_encoding": "string",
        });
        let published = api.ask("POST", "/api/exchanges/%2F/amq.default/publish", &body);
        assert_eq!(published.0, 200, "{}", published.1);
    }
    let shown = browser.get(page).body;
    assert!(shown.contains("Retry now"), "{shown}");
    assert!(shown.contains("coroner retry_delayed q"), "{shown}");
    let form = link(&shown, "/ui/do/retry?");
    let counts = || {
        let queue = api.get(path);
        let count = |name: &str| queue[name].as_u64().expect("a number");
        (count("messages_ready"), count("messages_delayed"))
    };
    assert_eq!(browser.fill(&form, "&count=1").status, 303);
    assert_eq!(counts(), (1, 2));
    assert_eq!(browser.fill(&form, "&count=some").status, 400);
    assert_eq!(browser.fill(&form, "&count=").status, 303);
    assert_eq!(counts(), (3, 0));
    assert!(!browser.get(page).body.contains("Retry now"));
}

#[test]
fn the_home_page_leads_from_findings_to_the_graph() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    kill_one(&api, "dlq", "x");
    let arguments = json!({"x-dead-letter-exchange": "none"});
    api.put("/api/queues/%2F/lost", &json!({"arguments": arguments}));
    api.put(
        "/api/users/stranger",
        &json!({"password": "stranger", "tags": "management"}),
    );
    let home = Browser::of(&broker, "guest").get("/ui/").body;
    assert!(home.contains("in vhost /: DL001 (1)"), "{home}");
    let graph = link(&home, "/ui/graph?");
    assert_eq!(graph, "/ui/graph?vhost=%2F");
    let stranger = Browser::of(&broker, "stranger").get("/ui/").body;
    assert!(!stranger.contains("DL001"), "it may not enter the vhost");
}

/// A container names itself: that name is in the history of a death, and in links of the page.
#[test]
fn a_container_of_256_emoji_is_shown_and_found() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    kill_one(&api, "dlq", "x");
    api.publish("orders", "y");
    let container = "\u{1f47b}".repeat(256);
    let kept = "\u{1f47b}".repeat(64); // names are kept to 256 bytes
    let mut consumer = Raw::authenticated(broker.port);
    consumer.perform(OPEN, &[raw::text(&container), raw::text("localhost")]);
    consumer.begin(0);
    consumer.wait_for(OPEN);
    consumer.wait_for(raw::BEGIN);
    consumer.attach_receiver(0, "orders");
    consumer.credit(0, 0, 1);
    consumer.wait_for(TRANSFER);
    let rejected = described(0x25, &list(&[]));
    consumer.perform(
        DISPOSITION,
        &[truth(true), uint(0), uint(0), truth(true), rejected],
    );
    let begun = std::time::Instant::now();
    while api.get("/api/queues/%2F/dlq")["messages_ready"] != json!(2) {
        assert!(begun.elapsed() < raw::ANSWER_MAX, "it is not dead");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let browser = Browser::of(&broker, "guest");
    for page in [
        "/ui/queue?vhost=%2F&name=dlq&tab=messages",
        "/ui/queue?vhost=%2F&name=dlq&tab=groups&by=container",
        "/ui/message?vhost=%2F&queue=dlq&position=1",
    ] {
        let answer = browser.get(page);
        assert_eq!(answer.status, 200, "{page}: {}", answer.body);
        assert!(answer.body.contains(&kept), "{page}: {}", answer.body);
    }
    let groups = browser
        .get("/ui/queue?vhost=%2F&name=dlq&tab=groups&by=container")
        .body;
    let encoded = "%F0%9F%91%BB".repeat(64);
    let found = groups
        .split('"')
        .find(|part| part.contains(&encoded) && part.contains("tab=messages"));
    let found = found
        .expect("a link")
        .replace("&#38;", "&")
        .replace("&amp;", "&");
    let messages = browser.get(&found);
    assert_eq!(messages.status, 200, "{}", messages.body);
    assert!(messages.body.contains("position=1\""), "{}", messages.body);
    assert!(!messages.body.contains("position=0\""), "{}", messages.body);
}

/// `/ui/redrive?vhost=%2F` showed a redrive that there is not, with 0 messages moved and none known by; that of a queue
/// said `this answer is a stream` (503).
#[test]
fn a_page_without_the_name_of_its_object_is_not_found() {
    let broker = RunningBroker::start(&[]);
    let browser = Browser::of(&broker, "guest");
    for path in [
        "/ui/redrive?vhost=%2F",
        "/ui/redrive?vhost=%2F&id=",
        "/ui/queue?vhost=%2F",
        "/ui/queue?vhost=%2F&name=",
    ] {
        let page = browser.get(path);
        assert_eq!(page.status, 404, "{path}: {}", page.body);
    }
    let purge = browser.fill("/ui/do/purge?vhost=%2F&name=", "&sure=true");
    assert!((400..500).contains(&purge.status), "{}", purge.body);
}
