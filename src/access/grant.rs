//! What a token grants its bearer: a user name, tags, and rights by scopes.

use super::permissions::{Pattern, Permissions, Right, TopicPermissions, checked_name};
use super::user::Tag;
use super::wildcard::Wildcard;
use crate::base::limits::TOKEN_SCOPES_MAX;
use crate::base::{Name, Timestamp};

/// One scope of a token: a right on names of vhosts, on names of queues and exchanges there, and on
/// routing keys of topic exchanges.
#[derive(Clone, PartialEq, Eq, Debug)]
struct RightScope {
    right: Right,
    vhost: Wildcard,
    name: Wildcard,
    key: Wildcard,
}

/// The word in front of the colon of a scope that gives a tag.
const TAG: &str = "tag";

/// Estimated cost of comparing one scope with names, and of copying what it permits.
const SCOPE_LOOK_NS: u64 = 300;

/// A token has more scopes than are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooManyScopes;

/// What a verified token grants. It says everything about its user: users of the registry have
/// nothing to do with it, also those of the same name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grant {
    user: Name,
    tags: Vec<Tag>,
    scopes: Vec<RightScope>,
    expires: Timestamp,
}

impl Grant {
    /// A grant until a moment. The words are scopes without the prefix of this broker, such as
    /// `read:VHOST/NAME/KEY` and `tag:management`; others are left out.
    pub fn new<'a>(
        user: Name,
        expires: Timestamp,
        words: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, TooManyScopes> {
        let (mut tags, mut scopes) = (Vec::new(), Vec::new());
        for word in words {
            match word.split_once(':') {
                Some((TAG, tag)) if !tag.is_empty() => tags.push(Tag::from_word(tag)),
                Some((right, place)) => scopes.extend(RightScope::parse(right, place)),
                None => {}
            }
            if tags.len() + scopes.len() > TOKEN_SCOPES_MAX {
                return Err(TooManyScopes);
            }
        }
        tags.sort_unstable();
        tags.dedup();
        Ok(Self {
            user,
            tags,
            scopes,
            expires,
        })
    }

    /// The user's name.
    pub const fn user(&self) -> &Name {
        &self.user
    }

    /// The user's tags, sorted, each once.
    pub fn tags(&self) -> &[Tag] {
        &self.tags
    }

    /// When it ends.
    pub const fn expires(&self) -> Timestamp {
        self.expires
    }

    /// Whether it has ended.
    pub fn is_over(&self, wall: Timestamp) -> bool {
        wall >= self.expires
    }

    /// Milliseconds until it ends.
    pub fn left_ms(&self, wall: Timestamp) -> u64 {
        let left_ms = self.expires.0.saturating_sub(wall.0);
        u64::try_from(left_ms).unwrap_or(0)
    }

    /// Whether the user has this tag.
    pub fn has_tag(&self, tag: &Tag) -> bool {
        self.tags.contains(tag)
    }

    /// Whether the user may enter a vhost: some scope names it.
    pub fn opens(&self, vhost: &str) -> bool {
        self.scopes.iter().any(|scope| scope.vhost.matches(vhost))
    }

    /// The user's permissions in a vhost; none: it may not enter.
    pub fn permissions(&self, vhost: &str) -> Option<Permissions> {
        if !self.opens(vhost) {
            return None;
        }
        let of = |right| {
            let scopes = self.scopes.iter();
            let meant = scopes.filter(|scope| scope.right == right && scope.vhost.matches(vhost));
            Pattern::of_wildcards(meant.map(|scope| &scope.name))
        };
        Some(Permissions {
            configure: of(Right::Configure),
            write: of(Right::Write),
            read: of(Right::Read),
        })
    }

    /// The user's permissions on the routing keys of a topic exchange in a vhost; none: all keys are
    /// permitted.
    pub fn topic(&self, vhost: &str, exchange: &str) -> Option<TopicPermissions> {
        let exchange = checked_name(exchange);
        let of = |right| {
            let scopes = self.scopes.iter().filter(|scope| {
                scope.right == right && scope.vhost.matches(vhost) && scope.name.matches(exchange)
            });
            Pattern::of_wildcards(scopes.map(|scope| &scope.key))
        };
        let (write, read) = (of(Right::Write), of(Right::Read));
        let is_restricted = !(write.is_everything() && read.is_everything());
        is_restricted.then_some(TopicPermissions { write, read })
    }

    /// Estimated cost of looking at all scopes, in nanoseconds.
    pub const fn look_ns(&self) -> u64 {
        SCOPE_LOOK_NS * (self.scopes.len() as u64 + 1)
    }

    /// Estimated memory, in bytes.
    pub fn kept_bytes(&self) -> u64 {
        let scopes = self.scopes.iter().map(|scope| {
            let patterns = [&scope.vhost, &scope.name, &scope.key];
            size_of::<RightScope>() as u64 + patterns.map(Wildcard::kept_bytes).iter().sum::<u64>()
        });
        let tags = self
            .tags
            .iter()
            .map(|tag| size_of_val(tag) + tag.as_str().len());
        let fixed = size_of::<Self>() + self.user.len() + tags.sum::<usize>();
        fixed as u64 + scopes.sum::<u64>()
    }
}

impl RightScope {
    /// Parses `VHOST/NAME` or `VHOST/NAME/KEY`; without a key it is about all of them.
    fn parse(right: &str, place: &str) -> Option<Self> {
        let right = match right {
            "configure" => Right::Configure,
            "write" => Right::Write,
            "read" => Right::Read,
            _ => return None,
        };
        let mut parts = place.split('/');
        let (vhost, name, key, None) = (parts.next()?, parts.next()?, parts.next(), parts.next())
        else {
            return None;
        };
        Some(Self {
            right,
            vhost: Wildcard::parse(vhost)?,
            name: Wildcard::parse(name)?,
            key: Wildcard::parse(key.unwrap_or("*"))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn grant(scopes: &str) -> Grant {
        Grant::new(Name::from("ada"), Timestamp(1_000), scopes.split(' ')).unwrap()
    }

    #[rstest]
    #[case("read:*/*", Right::Read, "/", "q", true)]
    #[case("read:*/*", Right::Write, "/", "q", false)]
    #[case("read:%2F/*", Right::Read, "/", "q", true)]
    #[case("read:%2F/*", Right::Read, "eu", "q", false)]
    #[case("write:eu/orders*", Right::Write, "eu", "orders.new", true)]
    #[case("write:eu/orders*", Right::Write, "eu", "bills", false)]
    #[case("write:eu/orders*/key", Right::Write, "eu", "orders.new", true)]
    #[case("configure:eu*/a read:eu/b", Right::Configure, "eu-1", "a", true)]
    #[case("configure:eu*/a read:eu/b", Right::Configure, "eu", "b", false)]
    #[case("configure:eu*/a read:eu/b", Right::Read, "eu", "b", true)]
    #[case("write:%2F/amq.default", Right::Write, "/", "", true)]
    #[case("READ:*/*", Right::Read, "/", "q", false)]
    #[case("read:*", Right::Read, "/", "q", false)]
    #[case("read:*/*/*/*", Right::Read, "/", "q", false)]
    #[case("read", Right::Read, "/", "q", false)]
    #[case("", Right::Read, "/", "q", false)]
    fn scopes_give_rights_on_names_of_vhosts(
        #[case] scopes: &str,
        #[case] right: Right,
        #[case] vhost: &str,
        #[case] name: &str,
        #[case] expect: bool,
    ) {
        let permissions = grant(scopes).permissions(vhost);
        let allowed = permissions.is_some_and(|permissions| permissions.allow(right, name));
        assert_eq!(allowed, expect, "{scopes}");
    }

    #[test]
    fn a_vhost_is_open_to_who_has_any_scope_there() {
        let grant = grant("read:eu/none tag:management");
        assert!(grant.opens("eu") && !grant.opens("/"));
        let permissions = grant.permissions("eu").unwrap();
        assert!(!permissions.allow(Right::Write, "q"));
        assert!(permissions.allow(Right::Read, "none"));
        assert_eq!(grant.permissions("/"), None);
    }

    #[test]
    fn routing_keys_are_those_of_the_scopes_on_their_exchange() {
        let grant = grant("write:*/logs/eu.* write:*/all* read:*/logs read:*/all");
        let topic = grant.topic("/", "logs").unwrap();
        assert!(topic.write.matches("eu.orders") && !topic.write.matches("us.orders"));
        assert!(topic.read.matches("us.orders"));
        assert_eq!(grant.topic("/", "all"), None, "every key is permitted");
        let other = grant.topic("/", "other").unwrap();
        assert!(!other.write.matches("eu.orders"));
    }

    #[test]
    fn tags_are_sorted_and_each_is_there_once() {
        let grant = grant("tag:monitoring tag:administrator tag:monitoring tag:");
        assert_eq!(grant.tags(), [Tag::Administrator, Tag::Monitoring]);
        assert!(!grant.has_tag(&Tag::Management));
    }

    #[test]
    fn it_ends_at_its_moment() {
        let grant = grant("read:*/*");
        assert!(!grant.is_over(Timestamp(999)) && grant.is_over(Timestamp(1_000)));
        assert_eq!(grant.left_ms(Timestamp(400)), 600);
        assert_eq!(grant.left_ms(Timestamp(4_000)), 0);
    }

    #[test]
    fn scopes_are_bounded_and_their_memory_is_counted() {
        let many = |count: usize| {
            let words: Vec<_> = (0..count).map(|n| format!("read:*/queue-{n}")).collect();
            let words = words.iter().map(String::as_str);
            Grant::new(Name::from("ada"), Timestamp(0), words)
        };
        assert_eq!(many(TOKEN_SCOPES_MAX + 1), Err(TooManyScopes));
        let most = many(TOKEN_SCOPES_MAX).unwrap().kept_bytes();
        assert!(most > 40 * TOKEN_SCOPES_MAX as u64, "{most}");
    }
}
