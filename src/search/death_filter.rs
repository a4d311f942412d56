//! The filter of dead letters: what they are chosen by. [evidence part 6]

use std::fmt;

use super::Fingerprint;
use super::candidate::{Candidate, message_id_text};
use super::contains::{self, Needle};
use crate::base::limits::FILTER_BODY_BYTES_MAX;
use crate::base::{Name, Timestamp};
use crate::deaths::{Evidence, Reason};
use crate::filter::Selector;
use crate::message::Message;

/// Which dead letters of a queue are meant. All parts that are given must hold, of a part with
/// several values one; those about a death look at the latest. Without parts all messages match.
///
/// `selector` is the one of consumers. `exchange` and `routing_key` are those before the latest
/// death, of a message that never died those with which it came.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct DeathFilter {
    pub(super) reasons: Vec<Reason>,
    pub(super) queues: Names,
    pub(super) conditions: Names,
    pub(super) groups: Names,
    pub(super) containers: Names,
    pub(super) users: Users,
    pub(super) causes: Names,
    pub(super) exchanges: Names,
    pub(super) routing_keys: Names,
    pub(super) message_ids: Names,
    /// Sorted, each once.
    pub(super) positions: Box<[u64]>,
    pub(super) died_after: Option<Timestamp>,
    pub(super) died_before: Option<Timestamp>,
    pub(super) redriven: Option<bool>,
    /// The selector, and its text.
    pub(super) selector: Option<(Box<str>, Selector)>,
    /// The text to look for, and how it is looked for.
    pub(super) body_contains: Option<(Box<str>, Needle)>,
}

/// Values of one part: sorted, each once; none: the part is not given.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Names(pub(super) Box<[Name]>);

/// The users that are asked for.
#[derive(Clone, PartialEq, Eq, Default)]
pub(super) struct Users {
    pub(super) names: Names,
    /// Whether they are bearers of tokens; none: both these and users of the registry. No part of its own: who
    /// asks for its own name has it set.
    by_token: Option<bool>,
}

impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.by_token {
            None => self.names.fmt(f),
            Some(by_token) => (&self.names, by_token).fmt(f),
        }
    }
}

impl Users {
    /// Whether there is no such part, or one of them caused the death.
    fn allow(&self, evidence: Option<&Evidence>) -> bool {
        let is_other = |evidence: &Evidence| {
            (self.by_token).is_some_and(|by_token| evidence.by_token != by_token)
        };
        self.names.allow(evidence.and_then(|it| it.user.as_deref()))
            && !evidence.is_some_and(is_other)
    }
}

impl Names {
    pub(super) fn new(mut names: Vec<Name>) -> Self {
        names.sort_unstable();
        names.dedup();
        Self(names.into())
    }

    const fn is_given(&self) -> bool {
        !self.0.is_empty()
    }

    fn has(&self, text: &str) -> bool {
        let found = self.0.binary_search_by(|name| name.as_str().cmp(text));
        found.is_ok()
    }

    /// Whether the part is not given, or one of its values is this one.
    fn allow(&self, text: Option<&str>) -> bool {
        !self.is_given() || text.is_some_and(|text| self.has(text))
    }
}

/// Whether a message is meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// All parts hold.
    Matches,
    /// A part does not hold.
    Differs,
    /// All other parts hold, and the body must be asked for, since it is not in memory: see
    /// [`DeathFilter::is_in`].
    NeedsBody,
}

/// A verdict, and what it cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Judged {
    /// Whether the message is meant.
    pub verdict: Verdict,
    /// Estimated time that it took, in nanoseconds.
    pub spent_ns: u64,
}

/// Estimated time of looking at a message without selector, group and body, in nanoseconds.
const LOOK_NS: u64 = 100;
/// The same of working out a group.
const GROUP_NS: u64 = 6_000;
/// The same of looking through one KiB of a body.
const BODY_KIB_NS: u64 = 1_500;

impl DeathFilter {
    /// Whether it has no part, so that all messages match.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The only positions at which messages can match, in order; none: at all.
    pub fn positions(&self) -> Option<&[u64]> {
        (!self.positions.is_empty()).then_some(&*self.positions)
    }

    /// The users that it names: who may not see them must not ask for them.
    pub fn users(&self) -> &[Name] {
        &self.users.names.0
    }

    /// The same filter, whose users are bearers of tokens only, or users of the registry only.
    #[must_use]
    pub fn with_users_by_token(self, by_token: bool) -> Self {
        let by_token = self.users.names.is_given().then_some(by_token);
        let users = Users {
            by_token,
            ..self.users
        };
        Self { users, ..self }
    }

    /// Whether a death is of one of the users that it names, if these are bearers of tokens only (true), or users
    /// of the registry only; true if it names none.
    pub fn fits_login(&self, candidate: &Candidate<'_>, by_token: bool) -> bool {
        let mut evidence = candidate.evidence().into_iter();
        !self.users.names.is_given() || evidence.all(|it| it.by_token == by_token)
    }

    /// Whether a message is meant: see [`DeathFilter::judge`].
    pub fn verdict(&self, candidate: &Candidate<'_>) -> Verdict {
        self.judge(candidate).verdict
    }

    /// Whether a message is meant, the cheapest parts first.
    pub fn judge(&self, candidate: &Candidate<'_>) -> Judged {
        let mut spent_ns = LOOK_NS;
        let verdict = self.judge_within(candidate, &mut spent_ns);
        Judged { verdict, spent_ns }
    }

    fn judge_within(&self, candidate: &Candidate<'_>, spent_ns: &mut u64) -> Verdict {
        if !self.fits_place(candidate) || !self.fits_death(candidate) {
            return Verdict::Differs;
        }
        let message = candidate.message;
        if self.message_ids.is_given()
            && !self.message_ids.allow(message_id_text(message).as_deref())
        {
            return Verdict::Differs;
        }
        if let Some((_, selector)) = &self.selector {
            // JMS selectors, which these are, do not ask for the time.
            let answer = selector.asks(Timestamp::default(), message, candidate.failures);
            *spent_ns += answer.spent_ns;
            if !answer.matches {
                return Verdict::Differs;
            }
        }
        if self.groups.is_given() {
            *spent_ns += GROUP_NS;
            if !self.groups.has(&Fingerprint::of(message).key) {
                return Verdict::Differs;
            }
        }
        let Some((_, needle)) = &self.body_contains else {
            return Verdict::Matches;
        };
        let Some(body) = contains::beginning(message) else {
            return Verdict::NeedsBody;
        };
        let kibibytes = contains::looked_at_bytes(message) as u64 / 1024;
        *spent_ns += BODY_KIB_NS * (kibibytes + 1);
        if needle.is_in(&body) {
            Verdict::Matches
        } else {
            Verdict::Differs
        }
    }

    /// Whether the body of a streamed message has what is looked for, given the beginning of its
    /// bare bytes ([`DeathFilter::body_bytes`] of them, if there are that many).
    pub fn is_in(&self, message: &Message, bare: &[u8]) -> bool {
        self.body_contains.as_ref().is_none_or(|(_, needle)| {
            let body = contains::streamed(message, bare);
            needle.is_in(&body)
        })
    }

    /// Bytes of the bare message of a streamed message that [`DeathFilter::is_in`] looks at.
    pub fn body_bytes(message: &Message) -> usize {
        message.body_start() + FILTER_BODY_BYTES_MAX
    }

    fn fits_place(&self, candidate: &Candidate<'_>) -> bool {
        let positions = &self.positions;
        let found = positions.binary_search(&candidate.position.0).is_ok();
        (positions.is_empty() || found)
            && self.exchanges.allow(Some(candidate.exchange()))
            && (!self.routing_keys.is_given()
                || candidate
                    .keys()
                    .iter()
                    .any(|key| self.routing_keys.has(key)))
    }

    /// Whether the parts about the latest death hold.
    fn fits_death(&self, candidate: &Candidate<'_>) -> bool {
        let history = candidate.message.history();
        let redriven = history.is_some_and(|history| history.was_redriven())
            || candidate.message.redrives().is_some();
        let fits = self.redriven.is_none_or(|wanted| wanted == redriven)
            && self.causes.allow(Some(candidate.cause()));
        if !fits || !self.asks_for_death() {
            return fits;
        }
        let Some(latest) = candidate.latest() else {
            return false;
        };
        let died = latest.last_time;
        (self.reasons.is_empty() || self.reasons.contains(&latest.reason))
            && self.queues.allow(Some(&latest.queue))
            && self.died_after.is_none_or(|after| died >= after)
            && self.died_before.is_none_or(|before| died < before)
            && self.fits_evidence(candidate)
    }

    const fn asks_for_death(&self) -> bool {
        !self.reasons.is_empty()
            || self.queues.is_given()
            || self.conditions.is_given()
            || self.containers.is_given()
            || self.users.names.is_given()
            || self.died_after.is_some()
            || self.died_before.is_some()
    }

    /// Whether condition, container and user hold. A condition is also known by what lists show in
    /// its place.
    fn fits_evidence(&self, candidate: &Candidate<'_>) -> bool {
        let evidence = candidate.evidence();
        let text = |of: fn(&Evidence) -> &Option<Name>| {
            evidence.and_then(|evidence| of(evidence).as_deref())
        };
        if !self.containers.allow(text(|it| &it.container)) || !self.users.allow(evidence) {
            return false;
        }
        if self.conditions.allow(text(|it| &it.condition)) {
            return true;
        }
        let shown = evidence.and_then(|evidence| evidence.shown().0);
        self.conditions.allow(shown.as_deref())
    }
}
