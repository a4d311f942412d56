//! Patterns of scopes, in which `*` stands for any characters.

use crate::base::Name;

/// A pattern of names in a scope: its parts are percent-encoded, and `*` between them stands for any
/// characters, none included. (RabbitMQ's words)
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wildcard {
    text: Box<str>,
    /// The text between the stars, decoded: at least one part.
    parts: Box<[Name]>,
}

impl Wildcard {
    /// Parses a pattern; none if it has a character that must be encoded.
    pub fn parse(text: &str) -> Option<Self> {
        let parts: Option<Box<[Name]>> = text.split('*').map(Name::percent_decoded).collect();
        Some(Self {
            text: text.into(),
            parts: parts?,
        })
    }

    /// The pattern as given.
    pub const fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it matches every name.
    pub fn is_everything(&self) -> bool {
        self.parts.len() > 1 && self.parts.iter().all(|part| part.is_empty())
    }

    /// Whether a whole name matches. Each part is looked for once, from left to right: the time is
    /// that of reading name and pattern.
    pub fn matches(&self, name: &str) -> bool {
        let Some((first, others)) = self.parts.split_first() else {
            return false;
        };
        let Some(mut rest) = name.strip_prefix(first.as_str()) else {
            return false;
        };
        let Some((last, between)) = others.split_last() else {
            return rest.is_empty();
        };
        for part in between {
            let Some((_, behind)) = rest.split_once(part.as_str()) else {
                return false;
            };
            rest = behind;
        }
        rest.ends_with(last.as_str())
    }

    /// Estimated heap memory, in bytes.
    pub fn kept_bytes(&self) -> u64 {
        let parts = self.parts.iter().map(|part| part.len() + size_of::<Name>());
        (self.text.len() + parts.sum::<usize>()) as u64
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("*", "", true)]
    #[case("*", "any/thing", true)]
    #[case("", "", true)]
    #[case("", "q", false)]
    #[case("orders", "orders", true)]
    #[case("orders", "orders2", false)]
    #[case("orders*", "orders.eu", true)]
    #[case("orders*", "my-orders", false)]
    #[case("*orders", "my-orders", true)]
    #[case("a*b", "abab", true)]
    #[case("a*b", "aba", false)]
    #[case("a*b*c", "a-c-b-c", true)]
    #[case("a*b*c", "a-c", false)]
    #[case("aa*aa", "aaa", false)]
    #[case("%2F", "/", true)]
    #[case("%2F*", "/eu", true)]
    #[case("a%2Ab", "a*b", true)]
    #[case("a%2Ab", "axb", false)]
    #[case("a+b", "a+b", true)]
    #[case("na%C3%AFf", "na\u{ef}f", true)]
    fn a_star_stands_for_any_characters(
        #[case] pattern: &str,
        #[case] name: &str,
        #[case] expect: bool,
    ) {
        let wildcard = Wildcard::parse(pattern).unwrap();
        assert_eq!(wildcard.matches(name), expect, "{pattern} {name}");
        assert_eq!(wildcard.as_str(), pattern);
    }

    #[test]
    fn what_must_be_encoded_is_no_pattern() {
        for text in ["a b", "a/b", "%zz", "%ff", "a\n"] {
            assert_eq!(Wildcard::parse(text), None, "{text}");
        }
        assert!(Wildcard::parse("**").unwrap().is_everything());
        assert!(!Wildcard::parse("*a*").unwrap().is_everything());
    }
}
