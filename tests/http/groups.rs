//! Finding dead letters: groups, filters, discarding one.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::api::Api;
use crate::folder::Folder;
use crate::support::RunningBroker;

const QUEUE: &str = "/api/queues/%2F/dead";

/// `work`, whose dead letters go to `dead`.
fn arrange(api: &Api<'_>) {
    let target = json!({"arguments": {
        "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead",
    }});
    api.put(QUEUE, &json!({}));
    for queue in ["work", "carts"] {
        api.put(&format!("/api/queues/%2F/{queue}"), &target);
    }
}

fn publish(api: &Api<'_>, queue: &str, payload: &str, headers: &Value) {
    let body = json!({
        "properties": {"headers": headers, "message_id": format!("id-{payload}")},
        "routing_key": queue, "payload": payload, "payload_encoding": "string",
    });
    let (status, _) = api.ask("POST", "/api/exchanges/%2F/amq.default/publish", &body);
    assert_eq!(status, 200);
}

/// Takes messages and rejects them: the error is in their headers, as frameworks write it.
fn reject_all(api: &Api<'_>, queue: &str) {
    let body = json!({"count": 10_000, "ackmode": "reject_requeue_false", "encoding": "auto"});
    let (status, _) = api.ask("POST", &format!("/api/queues/%2F/{queue}/get"), &body);
    assert_eq!(status, 200);
}

fn kinds(api: &Api<'_>) {
    for n in 0..12 {
        let error = json!({
            "MT-Fault-ExceptionType": "Shop.TimeoutException",
            "MT-Fault-Message": format!("upstream http://10.0.0.{n}/x did not answer in {n}00 ms"),
        });
        publish(api, "work", &format!("late {n}"), &error);
    }
    for n in 0..5 {
        let error = json!({"x-exception-message": format!("field 'f{n}' is missing (order {n})")});
        publish(api, "carts", &format!("bad {n}"), &error);
    }
    publish(api, "carts", "plain", &json!({}));
    reject_all(api, "work");
    reject_all(api, "carts");
}

fn payloads(answer: &Value) -> Vec<String> {
    let messages = answer["messages"].as_array().expect("messages");
    let payloads = messages
        .iter()
        .map(|it| it["payload"].as_str().expect("a text").to_owned());
    payloads.collect()
}

#[test]
fn groups_of_dead_letters_add_up_and_lead_to_their_messages() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    arrange(&api);
    kinds(&api);
    let answer = api.get(&format!("{QUEUE}/groups"));
    let groups = answer["groups"].as_array().expect("groups");
    let shown: Vec<(&Value, &Value)> = groups
        .iter()
        .map(|it| (&it["label"], &it["count"]))
        .collect();
    let labels = [
        "Shop.TimeoutException \"upstream <url> did not answer in <n> ms\"",
        "\"field <q> is missing (order <n>)\"",
        "rejected in carts",
    ]
    .map(|label| json!(label));
    let counts = [json!(12), json!(5), json!(1)];
    let expected: Vec<(&Value, &Value)> = labels.iter().zip(&counts).collect();
    assert_eq!(shown, expected);
    assert_eq!(
        (&answer["matched"], &answer["scanned"]),
        (&json!(18), &json!(18))
    );
    assert_eq!(
        (&answer["complete"], &answer["next"]),
        (&json!(true), &Value::Null)
    );
    assert_eq!(answer["other"], json!({"count": 0, "groups": 0}));
    assert!(groups[0]["newest"].as_i64() >= groups[0]["oldest"].as_i64());
    // Each group is found by its key, and its sample by position.
    for group in groups {
        let key = group["key"].as_str().expect("a key");
        let found = api.get(&format!("{QUEUE}/messages?group={key}"));
        assert_eq!(json!(payloads(&found).len()), group["count"]);
        // Also in pages of one, each of which goes on right behind it.
        let (mut paged, mut from) = (0, json!("0"));
        while let Some(place) = from.as_str() {
            let page = api.get(&format!(
                "{QUEUE}/messages?group={key}&count=1&from={place}"
            ));
            paged += payloads(&page).len();
            from = page["next"].clone();
        }
        assert_eq!(json!(paged), group["count"]);
        let position = group["sample"][0].as_str().expect("a position");
        let found = api.get(&format!("{QUEUE}/messages?group={key}&position={position}"));
        assert_eq!(found["messages"][0]["position"], position);
        assert_eq!(payloads(&found).len(), 1);
    }
    let by_queue = api.get(&format!("{QUEUE}/groups?by=queue&body_contains=bad"));
    let group = &by_queue["groups"][0];
    assert_eq!(
        (&group["key"], &group["count"]),
        (&json!("carts"), &json!(5))
    );
    assert_eq!(
        (&by_queue["matched"], &by_queue["scanned"]),
        (&json!(5), &json!(18))
    );
}

#[test]
fn the_answer_about_an_unchanged_queue_is_kept_and_a_change_makes_a_new_one() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    arrange(&api);
    kinds(&api);
    let first = api.get(&format!("{QUEUE}/groups"));
    assert_eq!(api.get(&format!("{QUEUE}/groups")), first);
    let position = first["groups"][0]["sample"][0]
        .as_str()
        .expect("a position");
    let (status, _) = api.send("DELETE", &format!("{QUEUE}/messages/{position}"), "");
    assert_eq!(status, 204);
    let second = api.get(&format!("{QUEUE}/groups"));
    assert_eq!(second["groups"][0]["count"], 11);
}

/// What a redrive takes is in no counter of its queue: the answer was up to 10 s old.
#[test]
fn groups_are_counted_anew_when_a_redrive_has_taken_messages() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    arrange(&api);
    kinds(&api);
    let groups = format!("{QUEUE}/groups");
    let before = api.get(&groups);
    let all = before["matched"].as_u64().expect("a count");
    let max = 7;
    let asked = json!({"queue": "dead", "max": max});
    assert_eq!(api.ask("PUT", "/api/redrives/%2F/some", &asked).0, 201);
    let deadline = Instant::now() + Duration::from_mins(1);
    while api.get("/api/redrives/%2F/some")["ended_at"].is_null() {
        assert!(Instant::now() < deadline, "the redrive ends");
    }
    let after = api.get(&groups);
    assert_eq!(after["matched"], all - max);
}

#[test]
fn browsing_takes_every_part_of_the_filter_and_refuses_what_is_none() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    arrange(&api);
    kinds(&api);
    let found = |query: &str| payloads(&api.get(&format!("{QUEUE}/messages?count=100&{query}")));
    assert_eq!(found("").len(), 18);
    assert_eq!(found("queue=carts").len(), 6);
    assert_eq!(found("queue=carts&queue=work").len(), 18);
    assert_eq!(found("reason=expired").len(), 0);
    assert_eq!(found("message_id=id-bad%203"), ["bad 3"]);
    assert_eq!(found("body_contains=late%201").len(), 3);
    assert_eq!(
        found("routing_key=work&body_contains=late%2011"),
        ["late 11"]
    );
    assert_eq!(found("redriven=true").len(), 0);
    assert_eq!(found("cause=none&exchange=").len(), 18);
    assert_eq!(found("died_before=1000").len(), 0);
    assert_eq!(found("died_after=1000").len(), 18);
    let refused = |query: &str| {
        let (status, answer) = api.send("GET", &format!("{QUEUE}/messages?{query}"), "");
        assert_eq!(status, 400, "{query}");
        let answer: Value = serde_json::from_str(&answer).expect("a reason");
        answer["reason"].as_str().expect("a text").to_owned()
    };
    assert!(refused("conditon=x").starts_with("the parameter 'conditon' is not known"));
    assert!(refused("reason=died").contains("'reason' cannot be 'died'"));
    assert!(refused("from=-1").contains("'from' must be a number from 0 on"));
    let (status, _) = api.send("GET", &format!("{QUEUE}/groups?by=colour"), "");
    assert_eq!(status, 400);
}

#[test]
fn one_message_is_discarded_and_one_that_is_held_is_not() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    arrange(&api);
    kinds(&api);
    let discard = |position: &str| {
        api.send("DELETE", &format!("{QUEUE}/messages/{position}"), "")
            .0
    };
    assert_eq!(discard("3"), 204);
    assert_eq!(discard("3"), 404);
    assert_eq!(discard("99"), 404);
    assert_eq!(discard("x"), 400);
    let queue = api.get(QUEUE);
    assert_eq!(queue["messages"], 17);
    let metrics = api.send("GET", "/metrics/per-object", "").1;
    assert!(metrics.contains("discarded"), "no such cause is counted");
    let missing = api
        .send("DELETE", "/api/queues/%2F/nowhere/messages/0", "")
        .0;
    assert_eq!(missing, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_a_consumer_holds_is_not_discarded() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    arrange(&api);
    publish(&api, "dead", "held", &json!({}));
    let url = format!("amqp://guest:guest@127.0.0.1:{}", broker.port);
    let connection = fe2o3_amqp::Connection::open("holder", url.as_str()).await;
    let mut connection = connection.expect("a connection");
    let session = fe2o3_amqp::Session::begin(&mut connection).await;
    let mut session = session.expect("a session");
    let receiver = fe2o3_amqp::Receiver::attach(&mut session, "holds", "/queues/dead").await;
    let mut receiver = receiver.expect("a receiver");
    let held =
        receiver.recv::<fe2o3_amqp::types::messaging::Body<fe2o3_amqp::types::primitives::Value>>();
    let held = held.await.expect("a message");
    let discard = || api.send("DELETE", &format!("{QUEUE}/messages/0"), "");
    let (status, why) = discard();
    assert_eq!(status, 409, "{why}");
    assert!(why.contains("held by a consumer"), "{why}");
    drop(held);
    // It comes back when its consumer goes.
    receiver.close().await.expect("a detach");
    let deadline = Instant::now() + Duration::from_mins(1);
    while discard().0 != 204 {
        assert!(Instant::now() < deadline, "it is not ready again");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    connection.close().await.ok();
}

#[test]
fn who_may_not_read_a_queue_sees_no_groups_and_discards_nothing() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    arrange(&api);
    kinds(&api);
    api.put(
        "/api/users/bob",
        &json!({"password": "bob", "tags": "management"}),
    );
    let rights = json!({"configure": "", "write": "", "read": "^work$"});
    api.put("/api/permissions/%2F/bob", &rights);
    let as_bob = |method: &str, path: &str| api.send_as("bob", method, path, "").0;
    assert_eq!(as_bob("GET", &format!("{QUEUE}/groups")), 401);
    assert_eq!(as_bob("DELETE", &format!("{QUEUE}/messages/0")), 401);
    let rights = json!({"configure": "", "write": "", "read": "^dead$"});
    api.put("/api/permissions/%2F/bob", &rights);
    assert_eq!(as_bob("GET", &format!("{QUEUE}/groups")), 200);
    assert_eq!(as_bob("GET", &format!("{QUEUE}/groups?user=bob")), 200);
    // What one may not see one must not find out by asking either.
    assert_eq!(as_bob("GET", &format!("{QUEUE}/groups?user=ada")), 401);
    assert_eq!(as_bob("GET", &format!("{QUEUE}/messages?user=ada")), 401);
    assert_eq!(as_bob("DELETE", &format!("{QUEUE}/messages/0")), 204);
}

#[test]
fn dead_letters_on_disk_are_found_too() {
    let broker = RunningBroker::start(&["--memory-budget", "1"]);
    let api = Api { broker: &broker };
    api.put("/api/queues/%2F/long", &json!({}));
    for number in 0..1_600 {
        api.publish("long", &format!("number {number};"));
    }
    let deadline = Instant::now() + Duration::from_mins(1);
    while api.get("/api/queues/%2F/long")["messages_paged_out"] == 0 {
        assert!(Instant::now() < deadline, "nothing leaves memory");
        std::thread::sleep(Duration::from_millis(20));
    }
    let found = api.get("/api/queues/%2F/long/messages?body_contains=number%201599%3B");
    assert_eq!(payloads(&found), ["number 1599;"]);
    let groups = api.get("/api/queues/%2F/long/groups");
    let group = &groups["groups"][0];
    assert_eq!(
        (&group["key"], &group["count"]),
        (&json!("none"), &json!(1_600))
    );
}

#[test]
fn a_text_is_looked_for_in_the_first_mebibyte_of_a_body() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    api.put(QUEUE, &json!({"durable": true}));
    for (mark, before) in [("near", 600_000), ("far", 1_200_000)] {
        let payload = format!("{}{mark}{}", "x".repeat(before), "x".repeat(600_000));
        let body = json!({
            "properties": {"delivery_mode": 2}, "routing_key": "dead",
            "payload": payload, "payload_encoding": "string",
        });
        let (status, _) = api.ask("POST", "/api/exchanges/%2F/amq.default/publish", &body);
        assert_eq!(status, 200);
    }
    let found = |text: &str| {
        let path = format!("{QUEUE}/messages?truncate=1&body_contains={text}");
        api.get(&path)["messages"]
            .as_array()
            .expect("messages")
            .len()
    };
    // The second is behind the first MiB.
    assert_eq!((found("near"), found("far"), found("nowhere")), (1, 0, 0));
}

fn note_path(key: &str) -> String {
    format!("{QUEUE}/groups/{key}/note")
}

/// The note in the only group of the queue, which never died.
fn note(api: &Api<'_>) -> Value {
    let answer = api.get(&format!("{QUEUE}/groups"));
    assert_eq!(answer["groups"][0]["key"], "none");
    answer["groups"][0]["note"].clone()
}

fn set_note(api: &Api<'_>, text: &str) -> u16 {
    api.ask("PUT", &note_path("none"), &json!({ "note": text }))
        .0
}

#[test]
fn a_note_stands_in_its_group_over_a_restart_until_it_is_removed() {
    let folder = Folder::new("notes");
    let data = folder.path("data");
    let arguments = ["--data", &data];
    let broker = RunningBroker::start(&arguments);
    let api = Api { broker: &broker };
    api.put(QUEUE, &json!({"durable": true}));
    let durable = json!({
        "properties": {"delivery_mode": 2}, "routing_key": "dead",
        "payload": "never died", "payload_encoding": "string",
    });
    let path = "/api/exchanges/%2F/amq.default/publish";
    assert_eq!(api.ask("POST", path, &durable).0, 200);
    assert_eq!(note(&api), Value::Null);
    assert_eq!(set_note(&api, "ask Bob"), 201);
    assert_eq!(set_note(&api, "fixed in 2.14.1"), 204);
    // Although the answer without it is kept.
    let shown = note(&api);
    assert_eq!(shown["text"], "fixed in 2.14.1");
    assert_eq!(shown["by"], "guest");
    let at = shown["at"].as_i64();
    assert!(at.is_some_and(|at| at > 1_600_000_000_000), "{shown}");
    drop(broker);
    let broker = RunningBroker::start(&arguments);
    let api = Api { broker: &broker };
    assert_eq!(note(&api), shown);
    let by_cause = api.get(&format!("{QUEUE}/groups?by=cause"));
    assert_eq!(by_cause["groups"][0]["key"], "none");
    let other = &by_cause["groups"][0]["note"];
    assert_eq!(*other, Value::Null, "another kind of key");
    let remove = || api.ask("DELETE", &note_path("none"), &json!({})).0;
    assert_eq!((remove(), remove()), (204, 404));
    assert_eq!(note(&api), Value::Null);
}

#[test]
fn a_note_that_cannot_stand_is_refused_by_name_and_needs_the_right_to_read() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    api.put(QUEUE, &json!({}));
    let (note, longer) = (json!({"note": "x"}), "n".repeat(1_025));
    for (key, body, says) in [
        ("none", json!({}), "note"),
        ("none", json!({"note": ""}), "DELETE removes"),
        ("none", json!({"note": longer}), "1024 bytes"),
        (
            "none",
            json!({"note": "x", "by": "me"}),
            "'by' is not known",
        ),
        ("rejected", note.clone(), "'rejected' is no key"),
    ] {
        let (status, answer) = api.ask("PUT", &note_path(key), &body);
        let reason = answer["reason"].as_str().unwrap_or_default();
        assert!(status == 400 && reason.contains(says), "{key}: {answer}");
    }
    let nowhere = "/api/queues/%2F/no/groups/none/note";
    assert_eq!(api.ask("PUT", nowhere, &note).0, 404);
    api.put(
        "/api/users/ada",
        &json!({"password": "ada", "tags": "management"}),
    );
    let as_ada = |method: &str| {
        let path = note_path("none");
        api.send_with("ada", (method, &path), "", &note.to_string())
            .0
    };
    let permit = |read: &str| {
        let rights = json!({"configure": "", "write": "", "read": read});
        api.put("/api/permissions/%2F/ada", &rights);
    };
    permit("other");
    assert_eq!((as_ada("PUT"), as_ada("DELETE")), (401, 401));
    permit("dead");
    assert_eq!((as_ada("PUT"), as_ada("DELETE")), (201, 204));
}
