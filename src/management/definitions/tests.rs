//! What a file is read as.

use rstest::rstest;
use serde_json::{Value as Json, json};

use super::{ImportStep, Problem, read};
use crate::base::Name;

/// Each item: what it is, and what becomes of it.
fn outcomes(definitions: &Json, vhost: Option<&str>) -> Vec<(String, String)> {
    let vhost = vhost.map(Name::from);
    let items = read(definitions, vhost.as_ref()).unwrap().into_iter();
    let outcome = |step| match step {
        Ok(ImportStep::Change(_)) => "change".to_owned(),
        Ok(ImportStep::Command(vhost, _)) => format!("command in {vhost}"),
        Err(Problem::Unsupported(why)) => format!("unsupported: {why}"),
        Err(Problem::Wrong(why)) => format!("wrong: {why}"),
    };
    items.map(|item| (item.what, outcome(item.step))).collect()
}

#[rstest]
#[case::user("users", json!({"name": "u", "tags": "a,b"}), &["change"])]
#[case::tags("users", json!({"name": "u", "tags": 5}), &["wrong: the field 'tags'"])]
#[case::hash("users", json!({"name": "u", "password_hash": "x"}), &["wrong: password_hash"])]
#[case::md5(
    "users",
    json!({
        "name": "u",
        "password_hash": "AA==",
        "hashing_algorithm": "rabbit_password_hashing_md5",
    }),
    &["wrong: hashing_algorithm"]
)]
#[case::streams_by_default(
    "vhosts",
    json!({"name": "v", "default_queue_type": "stream"}),
    &["change", "unsupported: default_queue_type 'stream'"]
)]
#[case::nameless("vhosts", json!({"tags": []}), &["wrong: the field 'name' is missing"])]
#[case::permission(
    "permissions",
    json!({"vhost": "v", "user": "u", "configure": "", "write": ""}),
    &["wrong: the field 'read' is missing"]
)]
#[case::shovel(
    "parameters",
    json!({"vhost": "v", "component": "shovel", "name": "s", "value": {}}),
    &["unsupported: parameters of 'shovel'"]
)]
#[case::quorum("queues", queue(&json!({"x-queue-type": "quorum"})), &["command in v"])]
#[case::stream("queues", queue(&json!({"x-queue-type": "stream"})), &["unsupported: queues of type"])]
#[case::arguments("queues", queue(&json!(5)), &["wrong: the field 'arguments'"])]
#[case::delayed(
    "exchanges",
    json!({"vhost": "v", "name": "x", "type": "x-delayed-message"}),
    &["unsupported: exchanges of type"]
)]
#[case::half_a_policy(
    "policies",
    policy(&json!({"max-length": 5, "ha-mode": "all"})),
    &["unsupported: the key 'ha-mode'", "command in v"]
)]
#[case::mirrors("policies", policy(&json!({"ha-mode": "all"})), &["unsupported"])]
#[case::misspelled(
    "policies",
    policy(&json!({"max-lenght": 5})),
    &["wrong: the key 'max-lenght': it is not a recognised policy setting; did you mean 'max-length'?"]
)]
#[case::strange("policies", policy(&json!({"colour": 5})), &["wrong: the key 'colour'"])]
#[case::negative("policies", policy(&json!({"message-ttl": -1})), &["wrong: "])]
#[case::empty("policies", policy(&json!({})), &["wrong: "])]
fn what_is_not_supported_is_said_and_what_is_wrong_too(
    #[case] field: &str,
    #[case] item: Json,
    #[case] expect: &[&str],
) {
    let found = outcomes(&json!({ field: [item] }), None);
    let found: Vec<&str> = found.iter().map(|(_, outcome)| &**outcome).collect();
    assert_eq!(found.len(), expect.len(), "{found:?}");
    for (found, expect) in found.iter().zip(expect) {
        assert!(found.contains(expect), "{found:?}");
    }
}

fn queue(arguments: &Json) -> Json {
    json!({"vhost": "v", "name": "q", "arguments": arguments})
}

fn policy(definition: &Json) -> Json {
    json!({"vhost": "v", "name": "p", "pattern": "", "definition": definition})
}

#[test]
fn bindings_go_with_what_is_left_out() {
    let bound = |source: &str, destination: &str| {
        json!({"vhost": "v", "source": source, "destination": destination,
               "destination_type": "queue", "routing_key": "", "arguments": {}})
    };
    let definitions = json!({
        "queues": [
            {"vhost": "v", "name": "events", "arguments": {"x-queue-type": "stream"}},
            {"vhost": "v", "name": "q"},
        ],
        "bindings": [bound("amq.topic", "events"), bound("amq.topic", "q")],
    });
    let found = outcomes(&definitions, None);
    assert_eq!(found[2].1, "unsupported: 'events' was not imported");
    assert_eq!(found[3].1, "command in v");
}

#[test]
fn definitions_of_a_vhost_go_into_the_one_that_is_named() {
    let definitions = json!({
        "rabbitmq_definition_format": "single_virtual_host",
        "users": [{"name": "not for a vhost"}],
        "queues": [{"name": "q"}],
    });
    let found = outcomes(&definitions, Some("here"));
    let told = |what: &str, outcome: &str| (what.to_owned(), outcome.to_owned());
    assert_eq!(
        found,
        [
            told(
                "section 'users'",
                "unsupported: it belongs to a whole broker, and is not imported into one vhost"
            ),
            told("queue 'q' in vhost 'here'", "command in here"),
        ]
    );
    assert!(read(&definitions, None).is_err(), "which vhost?");
    let broker = json!({"rabbitmq_definition_format": "cluster"});
    assert!(read(&broker, Some(&Name::from("v"))).is_err());
}

/// They were dropped without a word.
#[test]
fn sections_and_fields_that_are_not_taken_over_are_named_and_refuse_nothing() {
    let definitions = json!({
        "rabbitmq_version": "4.2.0",
        "original_cluster_name": "rabbit@here",
        "qeues": [5],
        "topology": {"of": "later"},
        "later": [],
        "vhosts": [
            {"name": "v", "tracing": true, "limits": {"max-queues": 7}, "metadata": {
                "description": "", "protected_from_deletion": true,
            }},
            {"name": "w", "tracing": false, "limits": [], "metadata": {
                "protected_from_deletion": false,
            }},
        ],
        "users": [{"name": "u", "limits": {"max-connection": 7}}],
        "queues": [
            {"vhost": "v", "name": "q", "durabel": true, "type": "classic", "exclusive": false},
            {"vhost": "v", "name": "events", "type": "stream"},
        ],
    });
    let found = outcomes(&definitions, None);
    let found: Vec<(&str, &str)> = found
        .iter()
        .map(|(what, told)| (&**what, &**told))
        .collect();
    let expect = [
        (
            "section 'qeues'",
            "unsupported: it is not known (did you mean 'queues'?)",
        ),
        ("section 'topology'", "unsupported: it is not known"),
        ("user 'u'", "change"),
        (
            "user 'u'",
            "unsupported: the field 'limits.max-connection' (did you mean 'max-connections'?) is not \
             supported",
        ),
        ("vhost 'v'", "change"),
        ("limits of vhost 'v'", "change"),
        (
            "vhost 'v'",
            "unsupported: the fields 'tracing', 'metadata.protected_from_deletion' are not supported",
        ),
        ("vhost 'w'", "change"),
        ("queue 'q' in vhost 'v'", "command in v"),
        (
            "queue 'q' in vhost 'v'",
            "unsupported: the field 'durabel' (did you mean 'durable'?) is not supported",
        ),
        (
            "queue 'events' in vhost 'v'",
            "unsupported: queues of type 'stream' are not supported",
        ),
    ];
    assert_eq!(found, expect);
}

#[test]
fn what_is_no_definitions_object_is_refused() {
    let check = |json: Json, part: &str| {
        let why = read(&json, None).unwrap_err().why;
        assert!(why.contains(part), "{why}");
    };
    check(json!([]), "JSON object");
    check(json!({"queues": {}}), "'queues'");
    check(json!({"queues": [5]}), "item 0");
}
