//! Claims about filters of dead letters in requests.

use serde_json::{Value as Json, json};

use crate::management::http::{Query, filter_json, filter_of_json, filter_of_query};
use crate::search::PARTS;

#[test]
fn a_filter_in_json_is_written_as_it_was_read() {
    let given = json!({
        "reason": ["rejected"], "queue": ["orders"], "condition": ["app:timeout"],
        "group": ["1:9c2e41aa"], "position": [17, "18446744073709551615"],
        "died_after": 1_763_740_800_000_i64, "redriven": false,
        "selector": "JMSPriority > 4 AND kind = 'late'", "body_contains": "4711"
    });
    let filter = filter_of_json(&given).unwrap();
    let written = filter_json(&filter);
    let expected = json!({
        "reason": ["rejected"], "queue": ["orders"], "condition": ["app:timeout"],
        "group": ["1:9c2e41aa"], "position": ["17", "18446744073709551615"],
        "died_after": 1_763_740_800_000_i64, "redriven": false,
        "selector": "JMSPriority > 4 AND kind = 'late'", "body_contains": "4711"
    });
    assert_eq!(written, expected);
    assert_eq!(filter_of_json(&written).unwrap(), filter);
    assert!(filter_of_json(&Json::Null).unwrap().is_empty());
}

/// It counted as a part that is not given: a script whose list of positions came out empty discarded the
/// whole queue.
#[test]
fn an_empty_list_of_values_is_refused_instead_of_meaning_all_messages() {
    for part in [
        "reason",
        "queue",
        "group",
        "cause",
        "message_id",
        "position",
    ] {
        let failure = filter_of_json(&json!({ part: [] })).unwrap_err();
        assert_eq!(failure.status, 400, "{part}");
        let expect = format!("the filter's '{part}' is an empty list");
        assert!(failure.reason.starts_with(&expect), "{failure:?}");
    }
}

/// It counted as a part that is not given: a script that lacked the condition moved, or discarded, the whole queue.
#[test]
fn a_part_that_is_null_is_refused_instead_of_meaning_all_messages() {
    for part in PARTS {
        let failure = filter_of_json(&json!({ part: null })).unwrap_err();
        assert_eq!(failure.status, 400, "{part}");
        let expect = format!("the filter's '{part}' is null");
        assert!(failure.reason.starts_with(&expect), "{failure:?}");
    }
    let failure = filter_of_json(&json!({ "conditon": null })).unwrap_err();
    assert!(failure.reason.contains("no part 'conditon'"), "{failure:?}");
}

#[test]
fn what_is_no_filter_is_refused_by_name() {
    let check = |json: Json, expected: &str| {
        let failure = filter_of_json(&json).unwrap_err();
        assert_eq!(failure.status, 400);
        assert!(failure.reason.contains(expected), "{failure:?}");
    };
    check(json!([]), "the filter must be an object, not []");
    check(json!({"conditon": []}), "no part 'conditon'");
    check(
        json!({"queue": {"a": 1}}),
        "'queue' must be a list of texts, not map",
    );
    check(
        json!({"position": [0.5]}),
        "'position' must be a list of positions",
    );
    check(
        json!({"position": [99_999_999_999_999_999_999.0]}),
        "'position'",
    );
}

#[test]
fn a_parameter_of_a_query_may_be_there_several_times() {
    let read = |text: &str| {
        let query = Query::parse(text).unwrap();
        filter_of_query(&query, &["count", "by"])
    };
    let filter = read("condition=a&condition=b%20c&redriven=true&count=5&died_after=7").unwrap();
    let expected = json!({ "condition": ["a", "b c"], "redriven": true, "died_after": 7 });
    assert_eq!(filter_json(&filter), expected);
    let refused = read("conditon=a").unwrap_err();
    assert_eq!(refused.status, 400);
    assert!(
        refused
            .reason
            .starts_with("the parameter 'conditon' is not known; known are count, by, reason"),
        "{refused:?}"
    );
    let refused = read("selector=a%3D1&selector=b%3D1").unwrap_err();
    assert!(
        refused
            .reason
            .contains("'selector' must be a text, not list of 2"),
        "{refused:?}"
    );
}
