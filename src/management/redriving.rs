//! Redrives as a program that embeds the broker asks for them and is told of them. [evidence part 6]

use std::fmt;
use std::sync::Arc;

use super::Refusal;
use super::looking::{STATES, state_of_word};
use crate::base::limits::{REDRIVE_ID_BYTES_MAX, REDRIVE_NOTE_BYTES_MAX, REDRIVE_RATE_MAX};
use crate::base::{Name, Position, check_routing_key};
use crate::broker::queue::MessageState;
use crate::broker::redrive::{RedriveCause, RedriveJob, RedriveSpec, RedriveStop, RedriveTarget};
use crate::search::DeathFilter;
use crate::wire::Value;

/// The smallest rate, in thousandths of a message a second.
const RATE_MILLI_MIN: f64 = 100.0;

/// A redrive to be made: which messages of a queue are brought back, where to, and how fast.
#[derive(Clone, Debug)]
pub struct RedriveRequest {
    spec: RedriveSpec,
    filter: Vec<(String, Value)>,
    rate: Option<f64>,
    share: Option<f64>,
}

impl RedriveRequest {
    /// All messages of a queue, each back to the queue in which a consumer failed on it last; by
    /// batches that grow if that has consumers, until more than three and a tenth died again.
    pub fn of(queue: &str) -> Self {
        Self {
            spec: RedriveSpec {
                queue: Name::from(queue),
                filter: None,
                target: RedriveTarget::Origin,
                rate_milli: None,
                max: None,
                ramp: None,
                stop: Some(RedriveStop::DEFAULT),
                note: None,
                is_unsafe: false,
            },
            filter: Vec::new(),
            rate: None,
            share: None,
        }
    }

    /// Only messages for which this holds, too: a part of the filter as `PUT /api/redrives` takes it,
    /// such as `condition`, `reason` or `selector`, and one value or a list of them.
    #[must_use]
    pub fn only(mut self, part: &str, value: Value) -> Self {
        self.filter.push((part.to_owned(), value));
        self
    }

    fn to(mut self, target: RedriveTarget) -> Self {
        self.spec.target = target;
        self
    }

    /// Each to the queue of its first death.
    #[must_use]
    pub fn to_first(self) -> Self {
        self.to(RedriveTarget::First)
    }

    /// Each to exchange and keys of its first death: all queues bound there get it again.
    #[must_use]
    pub fn to_original(self) -> Self {
        self.to(RedriveTarget::Original)
    }

    /// All to this queue.
    #[must_use]
    pub fn to_queue(self, queue: &str) -> Self {
        self.to(RedriveTarget::Queue(Name::from(queue)))
    }

    /// All to this exchange, with this routing key.
    #[must_use]
    pub fn to_exchange(self, exchange: &str, routing_key: &str) -> Self {
        self.to(RedriveTarget::Exchange {
            exchange: Name::from(exchange),
            routing_key: Name::from(routing_key),
        })
    }

    /// Nowhere: each is dropped, and counted. The note says why.
    #[must_use]
    pub fn discard(self, note: &str) -> Self {
        self.to(RedriveTarget::Discard).note(note)
    }

    /// Messages a second, evenly, 0.1 to 100,000; as fast as it goes unless said.
    #[must_use]
    pub const fn rate(mut self, per_second: f64) -> Self {
        self.rate = Some(per_second);
        self
    }

    /// The most messages that it moves.
    #[must_use]
    pub const fn max(mut self, messages: u64) -> Self {
        self.spec.max = Some(messages);
        self
    }

    /// Whether it moves batches of 1, 2, 4 up to 1,024, the next once it is known what became of the
    /// last; unless said, it does so if the target has consumers.
    #[must_use]
    pub const fn batches(mut self, batches: bool) -> Self {
        self.spec.ramp = Some(batches);
        self
    }

    /// It stops when more messages died again than this number and this share, 0 to 1, of those of
    /// which it is known what became of them.
    #[must_use]
    pub const fn stop_after(mut self, deaths: u64, share: f64) -> Self {
        let share_ppm = 0;
        self.spec.stop = Some(RedriveStop { deaths, share_ppm });
        self.share = Some(share);
        self
    }

    /// It goes on however many die again.
    #[must_use]
    pub const fn never_stop(mut self) -> Self {
        (self.spec.stop, self.share) = (None, None);
        self
    }

    /// What is said of it to whoever looks at it, at most 1,024 bytes.
    #[must_use]
    pub fn note(mut self, note: &str) -> Self {
        self.spec.note = Some(note)
            .filter(|note| !note.trim().is_empty())
            .map(Name::from);
        self
    }

    /// Messages of a durable queue may be moved to one that is not.
    #[must_use]
    pub const fn allow_unsafe(mut self) -> Self {
        self.spec.is_unsafe = true;
        self
    }

    /// What the core is asked for; 400: what does not fit.
    pub(crate) fn spec(self) -> Result<RedriveSpec, Refusal> {
        let Self {
            mut spec,
            filter,
            rate,
            share,
        } = self;
        let parts = filter.iter().map(|(name, value)| (name.as_str(), value));
        let filter = DeathFilter::of_parts(parts);
        let filter = filter.map_err(|error| Refusal::bad_request(error.to_string()))?;
        spec.filter = Some(filter)
            .filter(|filter| !filter.is_empty())
            .map(Arc::new);
        if let Some(rate) = rate {
            spec.rate_milli = Some(rate_milli(Some(rate))?);
        }
        if let (Some(stop), Some(share)) = (&mut spec.stop, share) {
            stop.share_ppm = share_ppm(Some(share))?;
        }
        if let Some(note) = &spec.note {
            check_note(note)?;
        }
        if let RedriveTarget::Exchange { routing_key, .. } = &spec.target {
            check_routing_key(routing_key).map_err(|why| Refusal::bad_request(why.to_string()))?;
        }
        Ok(spec)
    }
}

/// Messages a second as thousandths; 400: it is no number, or out of range.
pub(crate) fn rate_milli(rate: Option<f64>) -> Result<u64, Refusal> {
    let rate_milli = rate.map(|rate| (rate * 1_000.0).round());
    #[allow(clippy::cast_precision_loss, reason = "the bound is a small number")]
    let bounds = RATE_MILLI_MIN..=(REDRIVE_RATE_MAX * 1_000) as f64;
    let rate_milli = rate_milli.filter(|rate| bounds.contains(rate));
    let Some(rate_milli) = rate_milli else {
        return Err(Refusal::bad_request(format!(
            "the field 'rate' must be a number of messages a second from 0.1 to {REDRIVE_RATE_MAX}"
        )));
    };
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is within the bounds just checked"
    )]
    Ok(rate_milli as u64)
}

/// A share as millionths; 400: it is no number, or out of range.
pub(crate) fn share_ppm(share: Option<f64>) -> Result<u32, Refusal> {
    let share = share.filter(|share| (0.0..=1.0).contains(share));
    let Some(share) = share else {
        let why = "the field 'share' must be a number from 0 to 1".to_owned();
        return Err(Refusal::bad_request(why));
    };
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is at most a million"
    )]
    Ok((share * 1_000_000.0).round() as u32)
}

/// Checks the length of a note.
pub(crate) fn check_note(note: &str) -> Result<(), Refusal> {
    if note.len() > REDRIVE_NOTE_BYTES_MAX {
        return Err(Refusal::bad_request(format!(
            "the field 'note' has more than {REDRIVE_NOTE_BYTES_MAX} bytes"
        )));
    }
    Ok(())
}

/// Checks the id of a redrive.
pub(crate) fn check_redrive_id(id: &str) -> Result<(), Refusal> {
    check_id("a redrive", id, REDRIVE_ID_BYTES_MAX)
}

/// Checks an id that a client chose for something.
pub(crate) fn check_id(what: &str, id: &str, bytes_max: usize) -> Result<(), Refusal> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if !id.is_empty() && id.len() <= bytes_max && id.bytes().all(is_plain) {
        return Ok(());
    }
    Err(Refusal::bad_request(format!(
        "the id of {what} has 1 to {bytes_max} characters, each a letter, digit, '.', '_' or '-'"
    )))
}

/// A redrive as it is. Numbers are messages; each that was meant is counted once in `moved`,
/// `skipped` and `left`, each that was moved once in `accepted`, `died_again`, `outstanding` and
/// `gone`.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct RedriveStatus {
    /// The id, as whoever made it chose it.
    pub id: String,
    /// The queue that it looks through.
    pub queue: String,
    /// The user that made it; empty: the program that embeds the broker.
    pub by: String,
    /// What was said of it.
    pub note: Option<String>,
    /// `running`, `waiting`, `paused`, `completed`, `stopped`, `cancelled` or `failed`.
    pub state: &'static str,
    /// Why, such as `target_full`, `alarm`, `asked`, `max`, `died_again` or `source_gone`.
    pub cause: Option<&'static str>,
    /// Whether it is over: nothing more is moved.
    pub is_over: bool,
    /// When it was made, in milliseconds since 1970.
    pub created_at: i64,
    /// When it ended, in milliseconds since 1970.
    pub ended_at: Option<i64>,
    /// Messages that were meant when it began; none: they were too many to be counted.
    pub matched: Option<u64>,
    /// Messages that were moved, or discarded.
    pub moved: u64,
    /// Messages that were passed: a consumer held them, no queue takes them, they had gone.
    pub skipped: u64,
    /// Messages that were not looked at; none: not known.
    pub left: Option<u64>,
    /// Moved messages that a consumer accepted.
    pub accepted: u64,
    /// Moved messages that died before that.
    pub died_again: u64,
    /// Moved messages of which nothing is known yet.
    pub outstanding: u64,
    /// Moved messages that were removed otherwise.
    pub gone: u64,
    /// The queues that messages went to, and how many.
    pub targets: Vec<(String, u64)>,
}

impl RedriveStatus {
    pub(crate) fn of(job: &RedriveJob) -> Self {
        let (counts, outcome) = (&job.counts, &job.outcome);
        let targets = job.targets.iter();
        Self {
            id: job.id.to_string(),
            queue: job.spec.queue.to_string(),
            by: job.by.to_string(),
            note: job.spec.note.as_ref().map(Name::to_string),
            state: job.state.as_str(),
            cause: job.cause.map(RedriveCause::as_str),
            is_over: job.state.is_over(),
            created_at: job.created_at.0,
            ended_at: job.ended_at.map(|at| at.0),
            matched: counts.matched,
            moved: counts.moved,
            skipped: counts.passed() - counts.moved,
            left: counts.left(),
            accepted: outcome.accepted,
            died_again: outcome.died_again,
            outstanding: job.outstanding(),
            gone: outcome.gone,
            targets: targets.map(|to| (to.queue.to_string(), to.moved)).collect(),
        }
    }
}

/// What a redrive would do now: nothing was moved.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct RedriveForecast {
    /// Messages that are meant.
    pub matched: u64,
    /// Messages that were looked at.
    pub scanned: u64,
    /// Whether all were looked at, within 1,000,000 messages and 10 s.
    pub is_complete: bool,
    /// Where [`Admin::redrive_dry_run_from`](crate::Admin::redrive_dry_run_from) goes on; none: all
    /// were looked at.
    pub next: Option<String>,
    /// The queues that messages would go to.
    pub targets: Vec<RedriveGoal>,
    /// Messages that would be dropped.
    pub discarded: u64,
    /// Messages that a consumer holds, or that wait for a target of their own.
    pub held: u64,
    /// Messages that no queue takes.
    pub no_target: u64,
    /// Messages that may not be sent to their target.
    pub not_allowed: u64,
    /// Messages that would go to where they are.
    pub same_queue: u64,
    /// Messages that it would not come to, since it ends after as many moves as asked for.
    pub left: u64,
    /// The positions of the first that are meant.
    pub sample: Vec<u64>,
    /// What whoever asks should know before.
    pub warnings: Vec<String>,
}

/// Where a dry run goes on, in words `STATE:POSITION`: it looks at the ready messages first, then at
/// those that a redrive passes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DryRunPlace {
    pub(crate) state: MessageState,
    pub(crate) position: Position,
}

impl DryRunPlace {
    /// The beginning of a queue.
    pub(crate) const BEGIN: Self = Self {
        state: MessageState::Ready,
        position: Position(0),
    };

    /// Reads what [`RedriveForecast::next`] said.
    pub(crate) fn parse(text: &str) -> Result<Self, Refusal> {
        let place = text.split_once(':').and_then(|(word, position)| {
            let state = state_of_word(word)?;
            let position = position.parse().ok().map(Position)?;
            Some(Self { state, position })
        });
        place.ok_or_else(|| {
            Refusal::bad_request("the field 'from' must be the 'next' of a dry run before")
        })
    }
}

impl fmt::Display for DryRunPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut states = STATES.iter();
        let word = states.find(|(state, _)| *state == self.state);
        let word = word.map_or("", |(_, word)| *word);
        write!(f, "{word}:{}", self.position.0)
    }
}

/// A queue that a redrive would move messages to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct RedriveGoal {
    /// The queue's name.
    pub queue: String,
    /// Messages that would go there.
    pub messages: u64,
    /// Consumers that it has now.
    pub consumers: usize,
    /// Messages for which it has room, by their mean size where bytes are limited; none: without limit.
    pub room: Option<u64>,
    /// Whether it is durable.
    pub durable: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_short_and_plain() {
        for id in ["a", "fix-2.14_1", &"x".repeat(64)] {
            assert!(check_redrive_id(id).is_ok(), "{id}");
        }
        for id in ["", "a b", "\u{e4}", "a/b", &"x".repeat(65)] {
            assert!(check_redrive_id(id).is_err(), "{id}");
        }
    }

    #[test]
    fn a_place_of_a_dry_run_is_read_as_it_is_told() {
        for state in MessageState::ALL {
            let position = Position(1_000_001);
            let place = DryRunPlace { state, position };
            assert_eq!(DryRunPlace::parse(&place.to_string()), Ok(place));
        }
        for text in ["", "ready", "ready:", "ready:-1", "held:1", "ready:1:2"] {
            let why = DryRunPlace::parse(text).unwrap_err().why;
            assert!(why.contains("'from'"), "{text}: {why}");
        }
    }

    #[test]
    fn a_request_asks_for_what_was_said_or_says_what_does_not_fit() {
        let spec = RedriveRequest::of("dlq")
            .only("reason", Value::string("rejected"))
            .to_exchange("shop", "order.new")
            .rate(0.5)
            .max(7)
            .batches(true)
            .stop_after(2, 0.25)
            .note("fixed")
            .allow_unsafe()
            .spec()
            .unwrap();
        assert!(spec.filter.is_some() && spec.is_unsafe);
        assert_eq!(
            (spec.rate_milli, spec.max, spec.ramp),
            (Some(500), Some(7), Some(true))
        );
        let stop = spec.stop.unwrap();
        assert_eq!((stop.deaths, stop.share_ppm), (2, 250_000));
        assert_eq!(
            (spec.target.kind(), spec.note.as_deref()),
            ("exchange", Some("fixed"))
        );
        let defaults = RedriveRequest::of("dlq").spec().unwrap();
        assert_eq!(
            (defaults.stop, defaults.filter.is_none()),
            (Some(RedriveStop::DEFAULT), true)
        );
        assert_eq!(
            RedriveRequest::of("dlq").never_stop().spec().unwrap().stop,
            None
        );
        let of = RedriveRequest::of;
        for (request, says) in [
            (of("dlq").rate(0.01), "0.1 to 100000"),
            (of("dlq").rate(f64::NAN), "'rate'"),
            (of("dlq").stop_after(1, 1.5), "'share'"),
            (of("dlq").note(&"n".repeat(1_025)), "1024"),
            (of("dlq").only("colour", Value::string("red")), "colour"),
        ] {
            let why = request.spec().unwrap_err().why;
            assert!(why.contains(says), "{why}");
        }
    }
}
