//! Deaths as numbers that outlive a restart: what the journal keeps of them are absolute numbers, so that
//! reading one twice equals reading it once. [evidence part 12]

use super::DropCause;
use super::counters::{ByReason, QueueCounters};
use crate::base::Name;
use crate::base::limits::{CONDITION_NAME_BYTES_MAX, CONDITIONS_OF_QUEUE_MAX};
use crate::deaths::Reason;

/// What became of a death.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeathOutcome {
    /// At least one queue took the dead letter.
    DeadLettered,
    /// It was dropped.
    Dropped(DropCause),
    /// It was moved to the quarantine: else it would have been dropped for that.
    Quarantined(DropCause),
}

impl DeathOutcome {
    /// Its word in the journal, and why.
    pub const fn words(self) -> (&'static str, Option<&'static str>) {
        match self {
            Self::DeadLettered => ("dead_lettered", None),
            Self::Dropped(cause) => ("dropped", Some(cause.as_str())),
            Self::Quarantined(cause) => ("quarantined", Some(cause.as_str())),
        }
    }

    /// The outcome of these words.
    pub fn from_words(word: &str, cause: Option<&str>) -> Option<Self> {
        let mut causes = DropCause::ALL.into_iter();
        let cause = cause.and_then(|word| causes.find(|cause| cause.as_str() == word));
        match (word, cause) {
            ("dead_lettered", None) => Some(Self::DeadLettered),
            ("dropped", Some(cause)) => Some(Self::Dropped(cause)),
            ("quarantined", Some(cause)) => Some(Self::Quarantined(cause)),
            _ => None,
        }
    }
}

/// How many deaths one queue counts after one more, as far as that one raised a number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeathCount {
    /// Why it died.
    pub reason: Reason,
    /// Deaths for that reason.
    pub dead: u64,
    /// What became of it, and deaths for that reason of which the same became.
    pub outcome: Option<(DeathOutcome, u64)>,
    /// The condition that the consumer gave, and deaths with it.
    pub condition: Option<ConditionCount>,
}

/// Deaths with a condition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConditionCount {
    /// Its name; none: all those that are not told apart.
    pub name: Option<Name>,
    /// Number of deaths with it since the queue was declared.
    pub count: u64,
}

impl DeathCount {
    /// Whether it tells the same numbers as another one, newer or older.
    pub fn is_of_same(&self, other: &Self) -> bool {
        let outcome = |count: &Self| count.outcome.map(|(outcome, _)| outcome);
        let same_condition = match (&self.condition, &other.condition) {
            (Some(one), Some(other)) => one.name == other.name,
            (None, None) => true,
            _ => false,
        };
        self.reason == other.reason && outcome(self) == outcome(other) && same_condition
    }
}

/// Deaths by the condition that consumers gave. Conditions are free text: few are told apart.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Conditions {
    named: Vec<(Name, u64)>,
    other: u64,
}

/// Which of them: its place, or none of those that are told apart.
pub type ConditionPlace = Option<usize>;

impl Conditions {
    /// Those that are told apart, in the order in which they came.
    pub fn named(&self) -> &[(Name, u64)] {
        &self.named
    }

    /// Deaths with all others.
    pub const fn other(&self) -> u64 {
        self.other
    }

    /// Deaths with any.
    pub fn total(&self) -> u64 {
        let named: u64 = self.named.iter().map(|(_, count)| count).sum();
        named + self.other
    }

    /// Counts one; whether it is the first of a new name. `has_room`: there may be one more name.
    pub(crate) fn add(&mut self, condition: &Name, has_room: bool) -> (ConditionPlace, bool) {
        let same = |name: &Name| name.same(condition) || name == condition;
        if let Some(place) = self.named.iter().position(|(name, _)| same(name)) {
            if let Some((_, count)) = self.named.get_mut(place) {
                *count += 1;
            }
            return (Some(place), false);
        }
        let has_room = has_room && self.named.len() < CONDITIONS_OF_QUEUE_MAX;
        if has_room && is_told_apart(condition) {
            self.named.push((condition.clone(), 1));
            return (Some(self.named.len() - 1), true);
        }
        self.other += 1;
        (None, false)
    }

    pub(super) fn count(&self, place: ConditionPlace) -> ConditionCount {
        match place.and_then(|place| self.named.get(place)) {
            Some((name, count)) => ConditionCount {
                name: Some(name.clone()),
                count: *count,
            },
            None => ConditionCount {
                name: None,
                count: self.other,
            },
        }
    }

    fn raise(&mut self, counted: &ConditionCount) {
        let Some(name) = &counted.name else {
            self.other = self.other.max(counted.count);
            return;
        };
        let known = self.named.iter_mut().find(|(known, _)| known == name);
        match known {
            Some((_, count)) => *count = (*count).max(counted.count),
            None => self.named.push((name.clone(), counted.count)),
        }
    }

    fn all(&self) -> impl Iterator<Item = ConditionCount> {
        let places = (0..self.named.len()).map(Some);
        let other = (self.other > 0).then_some(None);
        places.chain(other).map(|place| self.count(place))
    }
}

/// Whether a condition may be the value of a label: short, and of characters that names have. `other`
/// stands for the rest.
fn is_told_apart(condition: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b":._-".contains(&byte);
    (1..=CONDITION_NAME_BYTES_MAX).contains(&condition.len())
        && condition.bytes().all(is_plain)
        && condition != "other"
}

impl QueueCounters {
    /// What the journal keeps of one death.
    pub(super) fn death_count(
        &self,
        reason: Reason,
        outcome: Option<DeathOutcome>,
        condition: Option<ConditionPlace>,
    ) -> DeathCount {
        DeathCount {
            reason,
            dead: self.dead.of(reason),
            outcome: outcome.map(|outcome| (outcome, self.of_outcome(reason, outcome))),
            condition: condition.map(|place| self.conditions.count(place)),
        }
    }

    fn of_outcome(&self, reason: Reason, outcome: DeathOutcome) -> u64 {
        match outcome {
            DeathOutcome::DeadLettered => self.dead_lettered.of(reason),
            DeathOutcome::Dropped(cause) => self.drops.of_kind(Some(reason), cause),
            DeathOutcome::Quarantined(cause) => self.quarantined.of_kind(Some(reason), cause),
        }
    }

    /// Deaths of which nothing came but a drop or a place in the quarantine.
    fn given_up(&self) -> impl Iterator<Item = (Reason, DeathOutcome, u64)> {
        let dropped = self.drops.kinds().iter().filter_map(|kind| {
            let outcome = DeathOutcome::Dropped(kind.cause);
            Some((kind.reason?, outcome, kind.count))
        });
        let quarantined = self.quarantined.kinds().iter().filter_map(|kind| {
            let outcome = DeathOutcome::Quarantined(kind.cause);
            Some((kind.reason?, outcome, kind.count))
        });
        dropped.chain(quarantined)
    }

    /// All numbers of deaths that the journal keeps.
    pub(super) fn death_counts(&self) -> Vec<DeathCount> {
        let died = |reason: &Reason| self.dead.of(*reason) > 0;
        let reasons: Vec<Reason> = Reason::ALL.into_iter().filter(died).collect();
        let mut counts = Vec::new();
        for reason in &reasons {
            let is_lettered = self.dead_lettered.of(*reason) > 0;
            let outcome = is_lettered.then_some(DeathOutcome::DeadLettered);
            counts.push(self.death_count(*reason, outcome, None));
        }
        for (reason, outcome, _) in self.given_up() {
            counts.push(self.death_count(reason, Some(outcome), None));
        }
        if let Some(&reason) = reasons.first() {
            counts.extend(self.conditions.all().map(|condition| DeathCount {
                condition: Some(condition),
                ..self.death_count(reason, None, None)
            }));
        }
        counts
    }

    /// Takes numbers that the journal kept, where they are higher.
    pub(super) fn raise(&mut self, count: &DeathCount) {
        let reason = count.reason;
        self.dead.raise(reason, count.dead);
        match count.outcome {
            Some((DeathOutcome::DeadLettered, count)) => self.dead_lettered.raise(reason, count),
            Some((DeathOutcome::Dropped(cause), count)) => {
                self.drops.raise(Some(reason), cause, count);
            }
            Some((DeathOutcome::Quarantined(cause), count)) => {
                self.quarantined.raise(Some(reason), cause, count);
            }
            None => {}
        }
        if let Some(condition) = &count.condition {
            self.conditions.raise(condition);
        }
    }
}

/// Deaths of a vhost that no queue of the journal counts: in queues that are gone, and in those that the
/// journal does not know; and how long all messages that died had been in their queues.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct VhostDeaths {
    /// Deaths, by reason.
    pub dead: ByReason,
    /// Of these, dead letters that at least one queue took.
    pub dead_lettered: ByReason,
    /// Of these, dropped or quarantined.
    pub given_up: Vec<(Reason, DeathOutcome, u64)>,
    /// Of these, with a condition.
    pub with_condition: u64,
    /// Times from arrival to death, of all queues, by reason.
    pub times: [TimesToDeath; Reason::ALL.len()],
}

/// Upper bounds of the buckets of [`TimesToDeath`], in milliseconds.
pub const TIME_TO_DEATH_BOUNDS_MS: [u64; 16] = [
    1,
    5,
    10,
    50,
    100,
    500,
    1_000,
    5_000,
    10_000,
    60_000,
    300_000,
    1_800_000,
    3_600_000,
    21_600_000,
    86_400_000,
    604_800_000,
];

/// How long messages had been in the queues in which they died.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TimesToDeath {
    /// Deaths after at most [`TIME_TO_DEATH_BOUNDS_MS`] that are in no lower bucket; the last takes all
    /// that are longer.
    pub buckets: [u64; TIME_TO_DEATH_BOUNDS_MS.len() + 1],
    /// All times together, in milliseconds.
    pub sum_ms: u64,
}

impl TimesToDeath {
    const NONE: Self = Self {
        buckets: [0; TIME_TO_DEATH_BOUNDS_MS.len() + 1],
        sum_ms: 0,
    };

    /// Counts some of a bucket with this upper bound; of one that is not told apart in the next higher one.
    pub fn add_bucket(&mut self, bound_ms: Option<u64>, count: u64) {
        let bounds = TIME_TO_DEATH_BOUNDS_MS;
        let bucket = bound_ms.map_or(bounds.len(), |ms| bounds.partition_point(|it| *it < ms));
        if let Some(known) = self.buckets.get_mut(bucket) {
            *known = known.saturating_add(count);
        }
    }

    /// Counts one death after so many milliseconds.
    #[inline]
    pub(crate) fn add(&mut self, ms: u64) {
        let bucket = TIME_TO_DEATH_BOUNDS_MS.partition_point(|bound| *bound < ms);
        if let Some(count) = self.buckets.get_mut(bucket) {
            *count += 1;
        }
        self.sum_ms = self.sum_ms.saturating_add(ms);
    }
}

impl VhostDeaths {
    /// The numbers of a vhost in which nothing died.
    pub const NONE: Self = Self {
        dead: ByReason::NONE,
        dead_lettered: ByReason::NONE,
        given_up: Vec::new(),
        with_condition: 0,
        times: [TimesToDeath::NONE; Reason::ALL.len()],
    };

    /// The times of deaths for one reason.
    #[inline]
    pub fn times_mut(&mut self, reason: Reason) -> Option<&mut TimesToDeath> {
        self.times.get_mut(reason.index())
    }

    /// Counts what was dropped or quarantined.
    pub(super) fn give_up(&mut self, reason: Reason, outcome: DeathOutcome, count: u64) {
        *self.of_outcome(reason, outcome) += count;
    }

    fn of_outcome(&mut self, reason: Reason, outcome: DeathOutcome) -> &mut u64 {
        let mut kinds = self.given_up.iter();
        let place = kinds.position(|(r, o, _)| (*r, *o) == (reason, outcome));
        let place = place.unwrap_or_else(|| {
            self.given_up.push((reason, outcome, 0));
            self.given_up.len() - 1
        });
        let Some((_, _, count)) = self.given_up.get_mut(place) else {
            unreachable!("it was found or added");
        };
        count
    }

    /// Takes over what a queue counted that is gone.
    pub(super) fn absorb(&mut self, counters: &QueueCounters) {
        for reason in Reason::ALL {
            self.dead.add_some(reason, counters.dead.of(reason));
            let lettered = counters.dead_lettered.of(reason);
            self.dead_lettered.add_some(reason, lettered);
        }
        for (reason, outcome, count) in counters.given_up() {
            self.give_up(reason, outcome, count);
        }
        self.with_condition += counters.conditions.total();
    }

    /// Takes numbers that the journal kept, where they are higher.
    pub(super) fn raise(&mut self, kept: &Self) {
        for reason in Reason::ALL {
            self.dead.raise(reason, kept.dead.of(reason));
            self.dead_lettered
                .raise(reason, kept.dead_lettered.of(reason));
        }
        for (reason, outcome, count) in &kept.given_up {
            let known = self.of_outcome(*reason, *outcome);
            *known = (*known).max(*count);
        }
        self.with_condition = self.with_condition.max(kept.with_condition);
        for (times, kept) in self.times.iter_mut().zip(&kept.times) {
            for (count, kept) in times.buckets.iter_mut().zip(kept.buckets) {
                *count = (*count).max(kept);
            }
            times.sum_ms = times.sum_ms.max(kept.sum_ms);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Millis;

    /// A consumer may give any text as a condition, a new one with each rejection.
    #[test]
    fn a_spray_of_a_hundred_thousand_conditions_stays_twenty_names_and_loses_no_count() {
        let mut conditions = Conditions::default();
        for number in 0..100_000 {
            conditions.add(&Name::from(format!("app:{number}")), true);
        }
        assert_eq!(conditions.named().len(), CONDITIONS_OF_QUEUE_MAX);
        assert_eq!(conditions.total(), 100_000);
        assert_eq!(conditions.other(), 99_980);
        assert_eq!(
            conditions.add(&Name::from("app:3"), false),
            (Some(3), false)
        );
    }

    #[test]
    fn what_is_no_plain_short_name_is_other() {
        let long = "c".repeat(CONDITION_NAME_BYTES_MAX + 1);
        let mut conditions = Conditions::default();
        for (condition, is_named) in [
            ("app:schema", true),
            ("com.microsoft:dead-letter", true),
            (&long[1..], true),
            (&long, false),
            ("", false),
            ("with space", false),
            ("quote\"", false),
            ("other", false),
            ("gr\u{f6}\u{df}e", false),
        ] {
            let (place, _) = conditions.add(&Name::from(condition), true);
            assert_eq!(place.is_some(), is_named, "{condition}");
        }
        assert_eq!((conditions.named().len(), conditions.other()), (3, 6));
    }

    #[test]
    fn numbers_read_twice_or_in_pieces_are_the_numbers_that_were_written() {
        let mut counters = QueueCounters::default();
        for (number, reason) in (0..).zip([Reason::Rejected, Reason::Expired, Reason::Rejected]) {
            counters.dead.add(reason);
            if number == 1 {
                let (cause, reason) = (DropCause::Cycle, Some(reason));
                counters.drops.add(Millis::default(), reason, cause, 1);
            } else {
                counters.dead_lettered.add(reason);
                counters.conditions.add(&Name::from("app:bad"), true);
            }
        }
        counters.conditions.add(&Name::from("not told apart"), true);
        let mut read = QueueCounters::default();
        for _ in 0..2 {
            for count in counters.death_counts() {
                read.raise(&count);
            }
            assert_eq!(read.dead, counters.dead);
            assert_eq!(read.dead_lettered, counters.dead_lettered);
            assert_eq!(read.conditions, counters.conditions);
            assert_eq!(read.drops.of(DropCause::Cycle), 1);
        }
        let mut gone = VhostDeaths::default();
        gone.absorb(&counters);
        assert_eq!((gone.dead, gone.with_condition), (counters.dead, 3));
        let mut again = gone.clone();
        again.raise(&gone);
        assert_eq!(again, gone);
    }

    #[test]
    fn times_to_death_are_told_apart_by_reason() {
        let mut deaths = VhostDeaths::NONE;
        for (ms, reason) in (1..).zip(Reason::ALL) {
            deaths.times_mut(reason).unwrap().add(ms);
        }
        assert_eq!(deaths.times.map(|times| times.sum_ms), [1, 2, 3, 4]);
    }

    #[test]
    fn a_time_to_death_is_in_the_lowest_bucket_that_holds_it() {
        let mut times = TimesToDeath::default();
        for ms in [0, 1, 2, 604_800_000, 604_800_001] {
            times.add(ms);
        }
        assert_eq!(times.buckets[0], 2);
        assert_eq!(times.buckets[1], 1);
        assert_eq!(times.buckets[15..], [1, 1]);
    }
}
