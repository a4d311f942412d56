//! Counting dead letters by what they have in common.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as MapEntry;

use super::Fingerprint;
use super::candidate::Candidate;
use crate::base::limits::{
    GROUP_KEY_BYTES_MAX, GROUP_SAMPLES_MAX, GROUP_TEXT_CHARS_MAX, GROUPS_COUNTED_MAX,
    GROUPS_SHOWN_MAX,
};
use crate::base::{Position, Timestamp};
use crate::deaths::Viewer;

/// What messages are grouped by.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum By {
    /// The fingerprint of the error.
    Group,
    /// The reason of the latest death.
    Reason,
    /// The queue of the latest death.
    Queue,
    /// The condition that the consumer gave.
    Condition,
    /// The exchange before the latest death.
    Exchange,
    /// The container of the consumer.
    Container,
    /// The user of the consumer.
    User,
    /// The cause for which it is in the quarantine.
    Cause,
}

impl By {
    /// All of them, in the order of declaration.
    pub const ALL: [Self; 8] = [
        Self::Group,
        Self::Reason,
        Self::Queue,
        Self::Condition,
        Self::Exchange,
        Self::Container,
        Self::User,
        Self::Cause,
    ];

    /// The word for it, which is also the part of a filter that chooses one group.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Group => "group",
            Self::Reason => "reason",
            Self::Queue => "queue",
            Self::Condition => "condition",
            Self::Exchange => "exchange",
            Self::Container => "container",
            Self::User => "user",
            Self::Cause => "cause",
        }
    }

    /// The one that a word names, if any.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|by| by.as_str() == word)
    }
}

/// Messages that have something in common.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// The value that a filter chooses it by; none: these messages have no such value, or one that
    /// the asking user may not see.
    pub key: Option<String>,
    /// What people read.
    pub label: String,
    /// Number of its messages.
    pub count: u64,
    /// The earliest of their latest deaths; none: they never died.
    pub oldest: Option<Timestamp>,
    /// The latest of their latest deaths.
    pub newest: Option<Timestamp>,
    /// Positions of the first few.
    pub sample: Vec<Position>,
}

/// Groups that are being counted, in bounded memory: values beyond
/// `limits::GROUPS_COUNTED_MAX` are only counted together.
#[derive(Debug)]
pub struct Groups {
    by: By,
    of_key: BTreeMap<Option<String>, Group>,
    counted: u64,
    beyond: u64,
}

/// The groups that were counted: the largest ones, the rest as numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Counted {
    /// The largest groups, largest first, at most `limits::GROUPS_SHOWN_MAX`.
    pub groups: Vec<Group>,
    /// Number of messages in all other groups.
    pub other_count: u64,
    /// Number of other groups; none: more than were told apart.
    pub other_groups: Option<u64>,
    /// Number of all messages.
    pub count: u64,
}

impl Groups {
    /// Groups without messages.
    pub const fn new(by: By) -> Self {
        Self {
            by,
            of_key: BTreeMap::new(),
            counted: 0,
            beyond: 0,
        }
    }

    /// Counts a message; who asks does not learn the names of users that it may not see.
    pub fn add(&mut self, candidate: &Candidate<'_>, viewer: Viewer<'_>) {
        self.counted += 1;
        let (key, label) = self.value(candidate, viewer);
        let key = key.map(|key| cut(key, GROUP_KEY_BYTES_MAX));
        let is_full = self.of_key.len() >= GROUPS_COUNTED_MAX;
        let group = match self.of_key.entry(key) {
            MapEntry::Vacant(_) if is_full => {
                self.beyond += 1;
                return;
            }
            MapEntry::Vacant(place) => {
                let key = place.key().clone();
                place.insert(Group {
                    key,
                    label: label.chars().take(GROUP_TEXT_CHARS_MAX).collect(),
                    count: 0,
                    oldest: None,
                    newest: None,
                    sample: Vec::new(),
                })
            }
            MapEntry::Occupied(place) => place.into_mut(),
        };
        group.count += 1;
        if let Some(latest) = candidate.latest() {
            let died = latest.last_time;
            group.oldest = Some(group.oldest.map_or(died, |oldest| oldest.min(died)));
            group.newest = Some(group.newest.map_or(died, |newest| newest.max(died)));
        }
        if group.sample.len() < GROUP_SAMPLES_MAX {
            group.sample.push(candidate.position);
        }
    }

    /// Key and label of a message's group.
    fn value(&self, candidate: &Candidate<'_>, viewer: Viewer<'_>) -> (Option<String>, String) {
        let latest = candidate.latest();
        let evidence = candidate.evidence();
        let owned = |text: &str| text.to_owned();
        let (key, missing) = match self.by {
            By::Group => {
                let fingerprint = Fingerprint::of(candidate.message);
                return (Some(fingerprint.key), fingerprint.label);
            }
            By::Cause => (Some(owned(candidate.cause())), "none"),
            By::Exchange => {
                let exchange = owned(candidate.exchange());
                if exchange.is_empty() {
                    return (Some(exchange), owned("(default exchange)"));
                }
                (Some(exchange), "none")
            }
            By::Reason => (latest.map(|it| owned(it.reason.as_str())), "(never died)"),
            By::Queue => (latest.map(|it| owned(&it.queue)), "(never died)"),
            By::Condition => {
                let shown = evidence.and_then(|evidence| evidence.shown().0);
                (shown.map(|shown| owned(&shown)), "(no condition)")
            }
            By::Container => {
                let name = evidence.and_then(|evidence| evidence.container.as_deref());
                (name.map(owned), "(no consumer)")
            }
            By::User => {
                let known = evidence.filter(|evidence| evidence.user.is_some());
                let seen = known.filter(|evidence| viewer.may_see(evidence));
                if known.is_some() && seen.is_none() {
                    return (None, owned("(another user, or none)"));
                }
                let missing = if viewer.is_monitor() {
                    "(no user)"
                } else {
                    "(another user, or none)"
                };
                let name = seen.and_then(|evidence| evidence.user.as_deref());
                (name.map(owned), missing)
            }
        };
        let label = key.clone().unwrap_or_else(|| owned(missing));
        (key, label)
    }

    /// The largest groups, and what the others are together.
    pub fn finish(self) -> Counted {
        let mut groups: Vec<Group> = self.of_key.into_values().collect();
        groups.sort_by(|a, b| (b.count, &a.key).cmp(&(a.count, &b.key)));
        let shown = groups.len().min(GROUPS_SHOWN_MAX);
        let rest: u64 = groups.iter().skip(shown).map(|group| group.count).sum();
        let rest_groups = (groups.len() - shown) as u64;
        groups.truncate(shown);
        Counted {
            groups,
            other_count: rest + self.beyond,
            other_groups: (self.beyond == 0).then_some(rest_groups),
            count: self.counted,
        }
    }
}

fn cut(mut text: String, bytes_max: usize) -> String {
    text.truncate(text.floor_char_boundary(bytes_max));
    text
}
