//! Paths of the API: segments, their percent-encoded text, and their description.

use crate::base::Name;
use crate::cli::output::printable;

/// The kind of object for the first segment of a path.
const KINDS: &[(&str, &str)] = &[
    ("bindings", "binding"),
    ("connections", "connection"),
    ("exchanges", "exchange"),
    ("global-parameters", "global parameter"),
    ("operator-policies", "operator policy"),
    ("parameters", "parameter"),
    ("permissions", "permissions"),
    ("policies", "policy"),
    ("queues", "queue"),
    ("redrives", "redrive"),
    ("topic-permissions", "topic permissions"),
    ("user-limits", "limits of user"),
    ("users", "user"),
    ("vhost-limits", "limits of vhost"),
    ("vhosts", "vhost"),
];

/// Path and query of a request below `/api/`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::cli) struct Path {
    segments: Vec<String>,
    query: Vec<(String, String)>,
}

impl Path {
    /// The path of these segments, which are encoded here.
    pub(in crate::cli) fn of(segments: &[&str]) -> Self {
        Self {
            segments: segments.iter().map(|&segment| segment.to_owned()).collect(),
            query: Vec::new(),
        }
    }

    /// Adds a parameter to the query.
    pub(in crate::cli) fn query(mut self, name: &str, value: &str) -> Self {
        self.query.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Whether it is the path of a user.
    pub(super) fn is_user(&self) -> bool {
        self.segments.first().is_some_and(|first| first == "users")
    }

    /// The name in it that is empty, if there is one: the default exchange alone has an empty name.
    pub(super) fn empty(&self) -> Option<String> {
        let parts: Vec<&str> = self.segments.iter().map(String::as_str).collect();
        let index = parts.iter().position(|part| part.is_empty())?;
        let in_vhost = |what: &str| match index {
            1 => "the name of the vhost".to_owned(),
            _ => format!("the name of the {what}"),
        };
        let kind = |plural: &str| {
            let found = KINDS.iter().find(|(known, _)| *known == plural);
            found.map_or("object", |(_, singular)| *singular)
        };
        Some(match parts.as_slice() {
            ["exchanges", _, "", ..] | ["bindings", _, "e", "", ..] if index > 1 => return None,
            ["bindings", ..] => in_vhost("destination"),
            ["permissions" | "topic-permissions", ..] => in_vhost("user"),
            ["redrives", ..] => in_vhost("redrive"),
            ["parameters", _, "", ..] => "the name of the vhost".to_owned(),
            ["parameters", "", ..] => "the component".to_owned(),
            ["parameters", ..] => "the name of the parameter".to_owned(),
            ["user-limits" | "vhost-limits", _, "", ..] => "the name of the limit".to_owned(),
            ["user-limits", ..] => "the name of the user".to_owned(),
            ["vhost-limits", ..] => "the name of the vhost".to_owned(),
            [
                plural @ ("queues" | "exchanges" | "policies" | "operator-policies"),
                ..,
            ] => in_vhost(kind(plural)),
            [plural, ..] => format!("the name of the {}", kind(plural)),
            [] => return None,
        })
    }

    /// The text behind `/api/`.
    pub(super) fn encoded(&self) -> String {
        let segments: Vec<String> = self.segments.iter().map(|text| encoded(text)).collect();
        let mut text = segments.join("/");
        for (index, (name, value)) in self.query.iter().enumerate() {
            text.push(if index == 0 { '?' } else { '&' });
            text.push_str(&encoded(name));
            text.push('=');
            text.push_str(&encoded(value));
        }
        text
    }

    /// The object of the path in words: `policy 'DLX' in vhost '/'`.
    pub(super) fn in_words(&self) -> String {
        let parts: Vec<String> = self.segments.iter().map(|part| printable(part)).collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let kind = |plural: &str| {
            let found = KINDS.iter().find(|(known, _)| *known == plural);
            found.map(|(_, singular)| *singular)
        };
        match parts.as_slice() {
            ["permissions" | "topic-permissions", vhost, user] => {
                format!("user '{user}' or vhost '{vhost}'")
            }
            ["parameters", component, vhost, name] => {
                format!("parameter '{name}' of component '{component}' in vhost '{vhost}'")
            }
            ["bindings", vhost, "e", source, _, to, _] => {
                format!("binding from '{source}' to '{to}' in vhost '{vhost}'")
            }
            [
                plural @ ("queues" | "exchanges" | "policies" | "operator-policies" | "redrives"),
                vhost,
                name,
                ..,
            ] => {
                let kind = kind(plural).unwrap_or(plural);
                format!("{kind} '{name}' in vhost '{vhost}'")
            }
            [
                "queues" | "exchanges" | "bindings" | "consumers" | "policies"
                | "operator-policies",
                vhost,
            ] => {
                format!("vhost '{vhost}'")
            }
            [plural, name, ..] if kind(plural).is_some() => {
                format!("{} '{name}'", kind(plural).unwrap_or(plural))
            }
            _ => format!("/api/{}", self.encoded()),
        }
    }
}

fn encoded(text: &str) -> String {
    Name::from(text).percent_encoded()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_encoded_and_named() {
        let check = |segments: &[&str], encoded: &str, words: &str| {
            let path = Path::of(segments);
            assert_eq!(path.encoded(), encoded);
            assert_eq!(path.in_words(), words);
        };
        check(
            &["policies", "/", "a b"],
            "policies/%2F/a%20b",
            "policy 'a b' in vhost '/'",
        );
        check(&["users", "x&y"], "users/x%26y", "user 'x&y'");
        check(
            &["queues", "v", "q", "contents"],
            "queues/v/q/contents",
            "queue 'q' in vhost 'v'",
        );
        check(&["queues", "v"], "queues/v", "vhost 'v'");
        // It was printed as it is, and steered the terminal.
        check(
            &["queues", "v", "\u{1b}[31m\nq"],
            "queues/v/%1B%5B31m%0Aq",
            "queue '\\u{1b}[31m\\nq' in vhost 'v'",
        );
        check(&["overview"], "overview", "/api/overview");
        check(
            &["permissions", "/", "u"],
            "permissions/%2F/u",
            "user 'u' or vhost '/'",
        );
    }

    #[test]
    fn a_name_that_is_empty_is_named_unless_it_is_the_default_exchange() {
        let check = |segments: &[&str], what: Option<&str>| {
            assert_eq!(Path::of(segments).empty().as_deref(), what, "{segments:?}");
        };
        check(&["queues", "/", ""], Some("the name of the queue"));
        check(
            &["queues", "/", "", "contents"],
            Some("the name of the queue"),
        );
        check(&["queues", "", "q"], Some("the name of the vhost"));
        check(
            &["operator-policies", "/", ""],
            Some("the name of the operator policy"),
        );
        check(&["users", ""], Some("the name of the user"));
        check(&["vhosts", ""], Some("the name of the vhost"));
        check(&["permissions", "/", ""], Some("the name of the user"));
        check(&["user-limits", "u", ""], Some("the name of the limit"));
        check(
            &["parameters", "c", "/", ""],
            Some("the name of the parameter"),
        );
        check(&["redrives", "/", ""], Some("the name of the redrive"));
        check(&["definitions", ""], Some("the name of the object"));
        check(
            &["bindings", "/", "e", "x", "q", ""],
            Some("the name of the destination"),
        );
        check(&["bindings", "/", "e", "", "q", "q"], None);
        check(&["exchanges", "/", ""], None);
        check(&["exchanges", "/", "", "publish"], None);
        check(&["queues", "/", "q"], None);
        check(&["overview"], None);
    }

    #[test]
    fn a_query_is_encoded_too() {
        let path = Path::of(&["queues"])
            .query("name", "^a+")
            .query("page", "1");
        assert_eq!(path.encoded(), "queues?name=%5Ea%2B&page=1");
    }
}
