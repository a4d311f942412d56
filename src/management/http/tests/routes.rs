use std::collections::BTreeSet;

use crate::management::http::{Endpoint, Method, Query, RouteMatch, find, routes};

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
fn queries_are_decoded() {
    let query = Query::parse("page=1&name=a%2Bb+c&use_regex=true&flag").unwrap();
    assert_eq!(query.get("page"), Some("1"));
    assert_eq!(query.get("name"), Some("a+b c"));
    assert!(query.is_true("use_regex"));
    assert_eq!(query.get("flag"), Some(""));
    assert_eq!(query.get("sort"), None);
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
