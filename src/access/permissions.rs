//! What a user may do with the names of a vhost.

use fancy_regex::{Regex, RegexBuilder};
use thiserror::Error;

/// The three rights.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Right {
    /// Declare and delete.
    Configure,
    /// Publish into; bind as destination.
    Write,
    /// Consume from, purge; bind as source.
    Read,
}

impl Right {
    /// Its word, for messages to people.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Configure => "configure",
            Self::Write => "write",
            Self::Read => "read",
        }
    }
}

/// A regular expression over names, with look-around as RabbitMQ's users write it: found anywhere
/// unless anchored.
#[derive(Clone, Debug)]
pub struct Pattern {
    text: String,
    matcher: Matcher,
}

/// What decides. Most users may do nothing or everything, which takes no compiled expression.
#[derive(Clone, Debug)]
enum Matcher {
    Nothing,
    Everything,
    Regex(Regex),
}

/// A pattern that is no regular expression.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("'{pattern}' is not a regular expression: {why}")]
pub struct PatternError {
    /// The pattern.
    pub pattern: String,
    /// What is wrong with it.
    pub why: String,
}

impl Pattern {
    /// Matches nothing.
    pub const fn nothing() -> Self {
        Self {
            text: String::new(),
            matcher: Matcher::Nothing,
        }
    }

    /// Compiles a permission: the empty one allows nothing (as RabbitMQ: no name is empty).
    pub fn new(pattern: &str) -> Result<Self, PatternError> {
        if pattern.is_empty() {
            return Ok(Self::nothing());
        }
        Self::compile(pattern, pattern)
    }

    /// Compiles a pattern of names: the empty one matches every name.
    pub fn of_names(pattern: &str) -> Result<Self, PatternError> {
        Self::compile(pattern, pattern)
    }

    fn compile(pattern: &str, source: &str) -> Result<Self, PatternError> {
        let matcher = if EVERYTHING.contains(&source) {
            Matcher::Everything
        } else {
            let mut builder = RegexBuilder::new(source);
            let regex = builder.backtrack_limit(BACKTRACKS_MAX).build();
            Matcher::Regex(regex.map_err(|error| PatternError {
                pattern: pattern.to_owned(),
                why: error.to_string(),
            })?)
        };
        Ok(Self {
            text: pattern.to_owned(),
            matcher,
        })
    }

    /// As given.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the name matches. A pattern that backtracks too long over it does not: what cannot
    /// be decided in bounded time is not allowed.
    pub fn matches(&self, name: &str) -> bool {
        match &self.matcher {
            Matcher::Nothing => false,
            Matcher::Everything => true,
            Matcher::Regex(regex) => regex.is_match(name).unwrap_or(false),
        }
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Pattern {}

/// A user's permissions in one vhost. A user without any may not enter it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Permissions {
    /// Names it may declare and delete.
    pub configure: Pattern,
    /// Names it may publish into and bind to.
    pub write: Pattern,
    /// Names it may consume from, purge and bind from.
    pub read: Pattern,
}

impl Permissions {
    /// Compiles the three patterns.
    pub fn new(configure: &str, write: &str, read: &str) -> Result<Self, PatternError> {
        Ok(Self {
            configure: Pattern::new(configure)?,
            write: Pattern::new(write)?,
            read: Pattern::new(read)?,
        })
    }

    /// Nothing.
    pub const fn none() -> Self {
        Self {
            configure: Pattern::nothing(),
            write: Pattern::nothing(),
            read: Pattern::nothing(),
        }
    }

    /// Everything in the vhost.
    pub fn all() -> Result<Self, PatternError> {
        Self::new(".*", ".*", ".*")
    }

    /// Whether `right` is given on a queue or exchange of this name. The default exchange is
    /// checked under the name `amq.default` (as RabbitMQ).
    pub fn allow(&self, right: Right, name: &str) -> bool {
        let pattern = match right {
            Right::Configure => &self.configure,
            Right::Write => &self.write,
            Right::Read => &self.read,
        };
        pattern.matches(if name.is_empty() {
            DEFAULT_EXCHANGE_NAME
        } else {
            name
        })
    }
}

/// A user's permissions on the routing keys of one topic exchange, beside those of the vhost.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TopicPermissions {
    /// Keys it may publish with.
    pub write: Pattern,
    /// Keys it may bind with.
    pub read: Pattern,
}

impl TopicPermissions {
    /// Compiles both patterns; `{username}` and `{vhost}` in them stand for these names (as
    /// RabbitMQ).
    pub fn new(write: &str, read: &str, user: &str, vhost: &str) -> Result<Self, PatternError> {
        let (user, vhost) = (fancy_regex::escape(user), fancy_regex::escape(vhost));
        let compile = |pattern: &str| {
            let source = if pattern.is_empty() { "^$" } else { pattern };
            let source = source.replace("{username}", &user);
            Pattern::compile(pattern, &source.replace("{vhost}", &vhost))
        };
        Ok(Self {
            write: compile(write)?,
            read: compile(read)?,
        })
    }
}

/// Expressions that are found in every name.
const EVERYTHING: [&str; 2] = [".*", ""];
/// Steps back that one match may take, only of use to patterns with look-around.
const BACKTRACKS_MAX: usize = 10_000;

/// The name by which permissions know the default exchange.
pub const DEFAULT_EXCHANGE_NAME: &str = "amq.default";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_searched_for_and_the_empty_one_allows_nothing() {
        let check = |pattern: &str, name: &str| Pattern::new(pattern).unwrap().matches(name);
        assert!(check(".*", "anything"));
        assert!(check(".*", "of two\nlines"));
        assert!(!check("^.*$", "of two\nlines"), "the dot is no line feed");
        assert!(check("^mine", "mine1"));
        assert!(!check("^mine", "other-mine"));
        assert!(check("mine", "other-mine"), "not anchored by itself");
        assert!(!check("", "q"));
        assert!(!check("^$", "q"));
        assert!(Pattern::new("(").is_err());
    }

    #[test]
    fn patterns_may_look_around_as_policies_of_rabbitmq_users_do() {
        let pattern = Pattern::of_names(r"^(?!amq\.).*").unwrap();
        assert!(pattern.matches("orders"));
        assert!(!pattern.matches("amq.gen-1"));
        assert!(Pattern::of_names("").unwrap().matches("any"));
    }

    #[test]
    fn a_pattern_that_backtracks_without_end_matches_nothing() {
        let pattern = Pattern::new(r"^(?=(a+)+$)(a|a)*\1b").unwrap();
        assert!(!pattern.matches(&"a".repeat(200)));
    }

    #[test]
    fn topic_permissions_know_user_and_vhost() {
        let check = |key: &str| {
            let permissions = TopicPermissions::new("^{username}\\.{vhost}$", "", "a.b", "v");
            permissions.unwrap().write.matches(key)
        };
        assert!(check("a.b.v"));
        assert!(!check("axb.v"), "names are no patterns");
        let permissions = TopicPermissions::new("^{username}", "", "u", "v").unwrap();
        assert_eq!(permissions.write.as_str(), "^{username}", "kept as given");
        assert!(
            !permissions.read.matches("k"),
            "the empty one allows the empty key only"
        );
        assert!(permissions.read.matches(""));
    }

    #[test]
    fn default_exchange_is_checked_as_amq_default() {
        let permissions = Permissions::new("", "^amq\\.default$", ".*").unwrap();
        assert!(permissions.allow(Right::Write, ""));
        assert!(!permissions.allow(Right::Write, "x"));
        assert!(!permissions.allow(Right::Configure, ""));
        assert!(permissions.allow(Right::Read, ""));
    }
}
