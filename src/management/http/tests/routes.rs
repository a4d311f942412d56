use std::collections::BTreeSet;

use crate::management::http::{Answer, Endpoint, Method, Query, RouteMatch, find, routes};

#[test]
fn a_route_is_found_by_method_and_path() {
    let RouteMatch::Route(route, _) = find(Method::from_name("HEAD"), "/api/whoami/") else {
        panic!("not found");
    };
    assert_eq!(route.endpoint, Endpoint::WhoAmI);
    assert!(matches!(
        find(Some(Method::Get), "/api"),
        RouteMatch::Nothing
    ));
    assert!(matches!(
        find(Some(Method::Get), "/api/whoami/x"),
        RouteMatch::Nothing
    ));
    let RouteMatch::WrongMethod(allowed) = find(Method::from_name("PATCH"), "/api/whoami") else {
        panic!("not refused");
    };
    assert_eq!(allowed, [Method::Get]);
}

#[test]
fn no_route_stands_in_the_table_twice() {
    let mut seen = BTreeSet::new();
    for route in routes() {
        assert!(
            seen.insert((route.method, route.path)),
            "{} {}",
            route.method,
            route.path
        );
        assert!(!route.summary.is_empty(), "{}", route.path);
    }
}

#[test]
fn a_queue_by_itself_is_described_as_one_of_a_listing_and_with_two_fields_more() {
    let (Answer::List(listed), Answer::Object(alone)) = (
        Endpoint::Queues.answer(Method::Get),
        Endpoint::Queue.answer(Method::Get),
    ) else {
        panic!("no list, or no object");
    };
    let (same, more) = alone.split_at(listed.len());
    assert_eq!(same, listed);
    assert_eq!(more, [("consumer_details", "array"), ("settings", "array")]);
}

#[test]
fn queries_are_decoded() {
    let query = Query::parse("page=1&name=a%2Bb+c&use_regex=true&flag").unwrap();
    assert_eq!(query.get("page"), Some("1"));
    assert_eq!(query.get("name"), Some("a+b c"));
    assert_eq!(query.flag("use_regex"), Ok(true));
    assert_eq!(query.get("flag"), Some(""));
    assert_eq!(query.get("sort"), None);
}

/// `?if-empty=1` was read as absent, and the queue deleted with its messages.
#[test]
fn a_truth_that_is_not_understood_is_not_taken_for_absent() {
    let flag = |text: &str| Query::parse(text).unwrap().flag("if-empty");
    assert_eq!(flag("if-empty=true"), Ok(true));
    assert_eq!(flag("if-empty=false"), Ok(false));
    assert_eq!(flag("if-unused=true"), Ok(false));
    for text in [
        "=1", "=yes", "=TRUE", "=True", "=", "", "=on", "=0", "=true%20",
    ] {
        let refused = flag(&format!("if-empty{text}")).expect_err(text);
        assert_eq!(refused.status, 400, "{text}");
        let expect = "the parameter 'if-empty' must be true or false, not '";
        assert!(refused.reason.starts_with(expect), "{}", refused.reason);
    }
}

#[test]
fn a_mistyped_parameter_is_refused_and_a_strange_one_is_not() {
    let check = |text: &str| {
        let query = Query::parse(text).unwrap();
        query.refuse_mistyped(&["if-empty", "if-unused"])
    };
    for text in [
        "",
        "if-empty=true&if-unused=true",
        "vhost=v&name=q",
        "if-empty=1",
    ] {
        assert_eq!(check(text), Ok(()), "{text}");
    }
    for (text, meant) in [
        (
            "if_empty=true",
            "'if_empty' is not known; did you mean 'if-empty'?",
        ),
        (
            "vhost=v&ifUnused=true",
            "'ifUnused' is not known; did you mean 'if-unused'?",
        ),
    ] {
        let refused = check(text).expect_err(text);
        assert!(refused.reason.ends_with(meant), "{}", refused.reason);
    }
}

#[test]
fn the_html_page_has_the_table_of_routes() {
    let page = include_str!("../../../../docs/HTTP_API.md");
    let table = crate::management::http::markdown();
    assert!(
        page.contains(&table),
        "docs/HTTP_API.md should end with\n\n{table}"
    );
}
