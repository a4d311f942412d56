//! Looking for dead letters, as a program that embeds the broker asks for them and is shown them.
//! [evidence part 8]

use super::Refusal;
use crate::base::{Name, Position};
use crate::broker::memo::GroupNote;
use crate::broker::queue::MessageState;
use crate::search::{By, Counted, DeathFilter};
use crate::wire::Value;

/// Which messages of a queue are looked at.
#[derive(Clone, Debug)]
pub struct LookRequest {
    queue: String,
    filter: Vec<(String, Value)>,
    state: String,
    from: u64,
}

/// The same, checked.
#[derive(Clone, Debug)]
pub(crate) struct Look {
    pub(crate) queue: Name,
    pub(crate) filter: DeathFilter,
    pub(crate) place: (MessageState, Position),
}

impl LookRequest {
    /// The ready messages of a queue, from its first on.
    pub fn of(queue: &str) -> Self {
        Self {
            queue: queue.to_owned(),
            filter: Vec::new(),
            state: "ready".to_owned(),
            from: 0,
        }
    }

    /// Only messages for which this holds, too: a part of the filter as `PUT /api/redrives` takes it,
    /// such as `condition`, `reason` or `selector`, and one value or a list of them.
    #[must_use]
    pub fn only(mut self, part: &str, value: Value) -> Self {
        self.filter.push((part.to_owned(), value));
        self
    }

    /// Messages in another state: `ready`, `unacknowledged`, `delayed` or `dead_pending`.
    #[must_use]
    pub fn in_state(mut self, state: &str) -> Self {
        state.clone_into(&mut self.state);
        self
    }

    /// From this position of the queue on: what an answer before said as `next`.
    #[must_use]
    pub const fn from(mut self, position: u64) -> Self {
        self.from = position;
        self
    }

    /// The request, checked.
    pub(crate) fn check(&self) -> Result<Look, Refusal> {
        let parts = self.filter.iter();
        let filter = DeathFilter::of_parts(parts.map(|(part, value)| (part.as_str(), value)));
        let filter = filter.map_err(|error| Refusal::bad_request(error.to_string()))?;
        let state = state_of_word(&self.state).ok_or_else(|| {
            let known = STATES.map(|(_, word)| word).join(", ");
            Refusal::bad_request(format!("the state '{}' must be one of {known}", self.state))
        })?;
        Ok(Look {
            queue: Name::from(&*self.queue),
            filter,
            place: (state, Position(self.from)),
        })
    }
}

/// The words for the states of messages, as requests name them.
pub(crate) const STATES: [(MessageState, &str); 4] = [
    (MessageState::Ready, "ready"),
    (MessageState::Held, "unacknowledged"),
    (MessageState::Delayed, "delayed"),
    (MessageState::Dying, "dead_pending"),
];

/// The state that a word names, if any.
pub(crate) fn state_of_word(word: &str) -> Option<MessageState> {
    let found = STATES.into_iter().find(|(_, known)| *known == word);
    found.map(|(state, _)| state)
}

/// Dead letters of a queue by what they have in common.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct DeathGroups {
    /// The groups, largest first, at most 200.
    pub groups: Vec<DeathGroup>,
    /// Messages in all other groups.
    pub other_messages: u64,
    /// Messages that were meant: those of the groups and the others.
    pub matched: u64,
    /// Messages that were looked at.
    pub scanned: u64,
    /// The position at which the next look goes on; none: all were looked at, within 1,000,000
    /// messages and 10 s.
    pub next: Option<u64>,
}

/// Dead letters that have something in common.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct DeathGroup {
    /// The value that a filter chooses them by; none: these have no such value.
    pub key: Option<String>,
    /// What people read.
    pub label: String,
    /// Number of messages.
    pub count: u64,
    /// The earliest of their latest deaths, in milliseconds since 1970; none: they never died.
    pub oldest: Option<i64>,
    /// The latest of their latest deaths, in milliseconds since 1970.
    pub newest: Option<i64>,
    /// Positions of the first few.
    pub sample: Vec<u64>,
    /// What somebody wrote about the group.
    pub note: Option<DeathGroupNote>,
}

/// A note on a group of dead letters.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct DeathGroupNote {
    /// The text, of at most 1,024 bytes.
    pub text: String,
    /// The user who wrote it; empty: the program that embeds the broker.
    pub by: String,
    /// When it was written, in milliseconds since 1970.
    pub at: i64,
}

impl DeathGroups {
    /// What was counted, with the notes on groups.
    pub(crate) fn of(
        counted: Counted,
        (scanned, next): (u64, Option<Position>),
        (by, notes): (By, &[GroupNote]),
    ) -> Self {
        let note_on = |key: Option<&str>| {
            let mut notes = notes.iter().filter(|_| by == By::Group);
            let note = notes.find(|note| Some(&*note.key) == key)?;
            Some(DeathGroupNote {
                text: note.text.to_string(),
                by: note.by.to_string(),
                at: note.at.0,
            })
        };
        let groups = counted.groups.into_iter().map(|group| DeathGroup {
            note: note_on(group.key.as_deref()),
            key: group.key,
            label: group.label,
            count: group.count,
            oldest: group.oldest.map(|at| at.0),
            newest: group.newest.map(|at| at.0),
            sample: group.sample.into_iter().map(|at| at.0).collect(),
        });
        Self {
            groups: groups.collect(),
            other_messages: counted.other_count,
            matched: counted.count,
            scanned,
            next: next.map(|next| next.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_is_what_was_said_or_says_what_does_not_fit() {
        let asked = LookRequest::of("dlq")
            .only("reason", Value::string("rejected"))
            .in_state("delayed")
            .from(17);
        let look = asked.check().unwrap();
        assert_eq!(look.place, (MessageState::Delayed, Position(17)));
        assert!(!look.filter.is_empty() && &*look.queue == "dlq");
        for (asked, says) in [
            (LookRequest::of("q").in_state("held"), "'held'"),
            (LookRequest::of("q").only("colour", Value::Null), "colour"),
        ] {
            let why = asked.check().unwrap_err().why;
            assert!(why.contains(says), "{why}");
        }
    }
}
