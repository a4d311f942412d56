//! Permissions of users on the names of a vhost.

use fancy_regex::{Regex, RegexBuilder};
use thiserror::Error;

use super::places::Shape;
use super::wildcard::Wildcard;
use crate::base::Name;
use crate::base::limits::{
    KEPT_PATTERN_BYTES_MAX, PATTERN_BACKTRACKS_MAX, PATTERN_COMPILED_BYTES_MAX,
    POLICY_PATTERN_BACKTRACKS_MAX, POLICY_PATTERN_LOOKING_PLACES_MAX, POLICY_PATTERN_PLACES_MAX,
    SEARCH_PATTERN_BACKTRACKS_MAX, SEARCH_PATTERN_BYTES_MAX, SEARCH_PATTERN_COMPILED_BYTES_MAX,
};

/// The three kinds of permissions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Right {
    /// To declare and delete.
    Configure,
    /// To publish into; to bind as destination.
    Write,
    /// To consume from, to purge; to bind as source.
    Read,
}

impl Right {
    /// The word for it in error texts.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Configure => "configure",
            Self::Write => "write",
            Self::Read => "read",
        }
    }
}

/// A regular expression for names, with look-around as RabbitMQ's users write it: matched anywhere
/// in the name unless anchored.
#[derive(Clone, Debug)]
pub struct Pattern {
    text: String,
    shape: Shape,
    matcher: Matcher,
}

/// How it is matched. Most users may do nothing or everything, which needs no compiled expression.
#[derive(Clone, Debug)]
enum Matcher {
    Nothing,
    Everything,
    Regex(Regex),
    /// One of these matches.
    Wildcards(Box<[Wildcard]>),
}

/// Estimated memory of a compiled expression, in bytes: of any, of one that looks around, and a factor for
/// its text.
const COMPILED_BYTES: usize = 14 * 1024;
const COMPILED_LOOKING_BYTES: usize = 8 * 1024;
const COMPILED_PARTS: usize = 256;

/// Why a pattern cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("'{pattern}' is not a regular expression: {why}")]
#[non_exhaustive]
pub struct PatternError {
    /// The pattern as given.
    pub pattern: String,
    /// What is wrong with it.
    pub why: String,
}

impl Pattern {
    /// A pattern that matches nothing.
    pub const fn nothing() -> Self {
        Self {
            text: String::new(),
            shape: Shape::NOTHING,
            matcher: Matcher::Nothing,
        }
    }

    /// Compiles a permission: the empty one permits nothing (as RabbitMQ: no name is empty).
    pub fn new(pattern: &str) -> Result<Self, PatternError> {
        if pattern.is_empty() {
            return Ok(Self::nothing());
        }
        Self::compile(pattern, pattern)
    }

    /// Compiles a pattern of names: the empty one matches every name.
    pub fn of_names(pattern: &str) -> Result<Self, PatternError> {
        Self::compile_within(pattern, pattern, POLICY_PATTERN_BACKTRACKS_MAX)
    }

    /// Compiles the search pattern of a request: shorter, and cheaper for each name, since there
    /// may be many. Takes up to a millisecond, so it should be called on a thread that may block.
    pub fn of_search(pattern: &str) -> Result<Self, PatternError> {
        Self::check_length(pattern, SEARCH_PATTERN_BYTES_MAX)?;
        let mut builder = RegexBuilder::new(pattern);
        builder.backtrack_limit(SEARCH_PATTERN_BACKTRACKS_MAX);
        bound(&mut builder, SEARCH_PATTERN_COMPILED_BYTES_MAX);
        Self::built(pattern, &builder)
    }

    /// Refuses a pattern larger than the broker keeps. Patterns that a journal already has are
    /// taken as they are.
    pub fn check_kept(pattern: &str) -> Result<(), PatternError> {
        Self::check_kept_as(pattern, pattern)
    }

    fn check_kept_as(pattern: &str, source: &str) -> Result<(), PatternError> {
        Self::check_length(pattern, KEPT_PATTERN_BYTES_MAX)?;
        let mut builder = RegexBuilder::new(source);
        bound(&mut builder, PATTERN_COMPILED_BYTES_MAX);
        Self::built(pattern, &builder).map(|_| ())
    }

    fn check_length(pattern: &str, bytes_max: usize) -> Result<(), PatternError> {
        if pattern.len() <= bytes_max {
            return Ok(());
        }
        let mut beginning: String = pattern.chars().take(SHOWN_CHARS_MAX).collect();
        beginning.push_str("...");
        Err(PatternError {
            pattern: beginning,
            why: format!("it has more than {bytes_max} bytes"),
        })
    }

    fn compile(pattern: &str, source: &str) -> Result<Self, PatternError> {
        Self::compile_within(pattern, source, PATTERN_BACKTRACKS_MAX)
    }

    fn compile_within(
        pattern: &str,
        source: &str,
        backtracks_max: usize,
    ) -> Result<Self, PatternError> {
        if EVERYTHING.contains(&source) {
            return Ok(Self {
                text: pattern.to_owned(),
                shape: Shape::NOTHING,
                matcher: Matcher::Everything,
            });
        }
        let mut builder = RegexBuilder::new(source);
        Self::built(pattern, builder.backtrack_limit(backtracks_max))
    }

    fn built(pattern: &str, builder: &RegexBuilder) -> Result<Self, PatternError> {
        let regex = builder.build().map_err(|error| PatternError {
            pattern: pattern.to_owned(),
            why: error.to_string(),
        })?;
        Ok(Self {
            text: pattern.to_owned(),
            shape: Shape::of(pattern),
            matcher: Matcher::Regex(regex),
        })
    }

    /// The pattern that matches whatever one of these does, as the scopes of a token have them.
    pub fn of_wildcards<'a>(wildcards: impl IntoIterator<Item = &'a Wildcard>) -> Self {
        let wildcards: Box<[Wildcard]> = wildcards.into_iter().cloned().collect();
        let texts: Vec<&str> = wildcards.iter().map(Wildcard::as_str).collect();
        let text = texts.join(" ");
        let matcher = if wildcards.is_empty() {
            Matcher::Nothing
        } else if wildcards.iter().any(Wildcard::is_everything) {
            Matcher::Everything
        } else {
            Matcher::Wildcards(wildcards)
        };
        Self {
            text,
            shape: Shape::NOTHING,
            matcher,
        }
    }

    /// The text as given; of several wildcards, with spaces between them.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it matches every name without looking at it.
    pub(super) const fn is_everything(&self) -> bool {
        matches!(self.matcher, Matcher::Everything)
    }

    /// Estimated heap memory, in bytes.
    pub fn kept_bytes(&self) -> u64 {
        let compiled = match &self.matcher {
            Matcher::Nothing | Matcher::Everything => 0,
            Matcher::Wildcards(wildcards) => {
                let kept = wildcards.iter().map(Wildcard::kept_bytes).sum::<u64>();
                return self.text.len() as u64 + kept;
            }
            Matcher::Regex(_) => {
                let looks_around = usize::from(self.shape.looks_around());
                COMPILED_BYTES
                    + looks_around * COMPILED_LOOKING_BYTES
                    + self.text.len() * COMPILED_PARTS
            }
        };
        (self.text.len() + compiled) as u64
    }

    /// Whether the name matches. If the pattern backtracks too long, it does not: what cannot be
    /// decided in bounded time is not permitted.
    pub fn matches(&self, name: &str) -> bool {
        match &self.matcher {
            Matcher::Nothing => false,
            Matcher::Everything => true,
            Matcher::Regex(regex) => regex.is_match(name).unwrap_or(false),
            Matcher::Wildcards(wildcards) => wildcards.iter().any(|one| one.matches(name)),
        }
    }
}

impl Pattern {
    /// Estimated cost of a match with a name, in nanoseconds, for a pattern that
    /// [`Pattern::check_names`] accepts.
    pub fn match_ns(&self, name: &str) -> u64 {
        match &self.matcher {
            Matcher::Nothing | Matcher::Everything => 10,
            Matcher::Regex(_) => self.shape.match_ns(name.len()),
            Matcher::Wildcards(wildcards) => {
                let each_bytes = name.len() as u64 + WILDCARD_BYTES;
                self.text.len() as u64 + wildcards.len() as u64 * each_bytes
            }
        }
    }

    /// Refuses a pattern of names that may take milliseconds for one name: names are matched under
    /// the core's lock. In addition to [`Pattern::check_kept`].
    pub fn check_names(pattern: &str) -> Result<(), PatternError> {
        let shape = Shape::of(pattern);
        let (bound, of) = if shape.looks_everywhere() {
            (
                POLICY_PATTERN_LOOKING_PLACES_MAX,
                " of one that looks around and does not begin with '^'",
            )
        } else {
            (POLICY_PATTERN_PLACES_MAX, "")
        };
        if shape.places <= bound {
            return Ok(());
        }
        Err(PatternError {
            pattern: pattern.to_owned(),
            why: format!(
                "with repetitions counted out it has {} places where characters vary, more than the \
                 {bound}{of}",
                shape.places
            ),
        })
    }
}

/// Bounds the compiled size: repetitions of large classes and calls of groups multiply.
fn bound(builder: &mut RegexBuilder, bytes_max: usize) {
    builder.delegate_size_limit(bytes_max);
    builder.delegate_dfa_size_limit(bytes_max);
    builder.delegate_dfa_skip_cache_capacity_check(false);
    builder.max_prog_size(bytes_max / INSTRUCTION_BYTES);
}

/// What beginning to match one wildcard takes, as the bytes that are compared in that time.
const WILDCARD_BYTES: u64 = 20;
/// Estimated memory of an instruction of a compiled expression, in bytes.
const INSTRUCTION_BYTES: usize = 32;

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Pattern {}

/// A user's permissions in one vhost. A user without any may not access it.
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

    /// Permissions on nothing.
    pub const fn none() -> Self {
        Self {
            configure: Pattern::nothing(),
            write: Pattern::nothing(),
            read: Pattern::nothing(),
        }
    }

    /// Permissions on everything in the vhost.
    pub fn all() -> Result<Self, PatternError> {
        Self::new(".*", ".*", ".*")
    }

    /// Whether the user has `right` on a queue or exchange of this name. The default exchange is
    /// checked as `amq.default` (as RabbitMQ).
    pub fn allow(&self, right: Right, name: &str) -> bool {
        self.of(right).matches(checked_name(name))
    }

    /// Whether the user may have `right` on some name: no pattern that is meant to match none, which are the
    /// empty one and `^$`.
    pub fn allow_some(&self, right: Right) -> bool {
        let pattern = self.of(right);
        let is_none = matches!(pattern.matcher, Matcher::Nothing);
        !is_none && !["", "^$"].contains(&pattern.as_str())
    }

    /// Estimated cost of checking one permission, in nanoseconds.
    pub fn allow_ns(&self, right: Right, name: &str) -> u64 {
        self.of(right).match_ns(checked_name(name))
    }

    const fn of(&self, right: Right) -> &Pattern {
        match right {
            Right::Configure => &self.configure,
            Right::Write => &self.write,
            Right::Read => &self.read,
        }
    }
}

/// The name that permissions are checked with.
pub(super) const fn checked_name(name: &str) -> &str {
    if name.is_empty() {
        DEFAULT_EXCHANGE_NAME
    } else {
        name
    }
}

/// A user's permissions on the routing keys of one topic exchange, in addition to those of the
/// vhost.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TopicPermissions {
    /// Routing keys it may publish with.
    pub write: Pattern,
    /// Routing keys it may bind with.
    pub read: Pattern,
}

impl TopicPermissions {
    /// Compiles both patterns; `{username}` and `{vhost}` in them are replaced by these names (as
    /// RabbitMQ).
    pub fn new(write: &str, read: &str, user: &str, vhost: &str) -> Result<Self, PatternError> {
        let compile =
            |pattern: &str| Pattern::compile(pattern, &topic_source(pattern, user, vhost));
        Ok(Self {
            write: compile(write)?,
            read: compile(read)?,
        })
    }

    /// The index of the first key that may not be published with. It takes as long as matching all
    /// these keys with the pattern: to be called on a thread that nobody waits for.
    pub fn first_forbidden(&self, keys: &[Name]) -> Option<u32> {
        let index = keys.iter().position(|key| !self.write.matches(key))?;
        u32::try_from(index).ok()
    }

    /// Refuses patterns larger than the broker keeps, or that may take long for one key.
    pub fn check_kept(patterns: [&str; 2], user: &str, vhost: &str) -> Result<(), PatternError> {
        let check = |pattern| {
            Pattern::check_kept_as(pattern, &topic_source(pattern, user, vhost))?;
            Pattern::check_names(pattern)
        };
        patterns.into_iter().try_for_each(check)
    }
}

fn topic_source(pattern: &str, user: &str, vhost: &str) -> String {
    let source = if pattern.is_empty() { "^$" } else { pattern };
    let source = source.replace("{username}", &fancy_regex::escape(user));
    source.replace("{vhost}", &fancy_regex::escape(vhost))
}

/// Expressions that match every name.
const EVERYTHING: [&str; 2] = [".*", ""];
/// Characters of a pattern that an error repeats, where it is too long.
const SHOWN_CHARS_MAX: usize = 64;

/// The name of the default exchange in permissions.
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

    /// The first took 480 ms over one name of 256 characters, under the core's lock; the others are what
    /// people write.
    #[test]
    fn a_pattern_of_names_that_may_take_milliseconds_is_refused_and_told_why() {
        let check = |pattern: &str, fits: bool| {
            assert!(Pattern::check_kept(pattern).is_ok(), "{pattern}");
            assert_eq!(Pattern::check_names(pattern).is_ok(), fits, "{pattern}");
        };
        check("(?=(?:x{0,50}){0,50}y)z", false);
        check("(?:x{0,50}){0,50}y", false);
        check("(?=[ab]*a[ab]{80}y)z", false);
        check("^(?!amq\\.).*", true);
        check("^(?!amq\\.)[a-z0-9]{1,20}\\.[a-z0-9]{1,20}$", true);
        check("^[\\w.-]{1,5}$", true);
        check("^gen-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", true);
        let names = vec!["orders.eu"; 100].join("|");
        check(&format!("^(?!amq\\.)({names})$"), true);
        let told = Pattern::check_names("(?!y)x{65}").unwrap_err().to_string();
        assert!(
            told.contains("has 65 places") && told.contains("the 64 of one"),
            "{told}"
        );
        for pattern in ["(?=[ab]*a[ab]{60}y)z", "[xq]{0,250}[yz]"] {
            check(pattern, true);
            let pattern = Pattern::of_names(pattern).unwrap();
            let most_ns = pattern.match_ns(&"x".repeat(256));
            assert!(most_ns < 7_000_000, "{most_ns}");
        }
    }

    /// Such a pattern took 0.6 s of the only thread that serves connections.
    #[test]
    fn patterns_from_outside_are_bounded_as_text_and_as_compiled() {
        let check = |pattern: &str, kept: bool, searched: bool| {
            assert_eq!(Pattern::check_kept(pattern).is_ok(), kept, "{pattern:.40}");
            assert_eq!(
                Pattern::of_search(pattern).is_ok(),
                searched,
                "{pattern:.40}"
            );
        };
        check("^(?!amq\\.).*", true, true);
        check("[a-z]{20}-[0-9]{1,3}$", true, true);
        check(&"a".repeat(SEARCH_PATTERN_BYTES_MAX + 1), true, false);
        check(&"a".repeat(KEPT_PATTERN_BYTES_MAX + 1), false, false);
        check(r"((\w{50}){50}){50}", false, false);
        check(r"(?<a>\g<b>\g<b>\g<b>\g<b>){0}(?<b>\w{500})", false, false);
        let told = Pattern::of_search(&"a".repeat(300))
            .unwrap_err()
            .to_string();
        assert!(told.contains("more than 256 bytes"), "{told}");
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
