//! Redrives: the jobs of a vhost, and what is learned of the messages that they moved. [evidence
//! part 6]
//!
//! ```text
//!   Start --> Running <--> Waiting      a full target, an alarm, a start: goes on by itself
//!               |  ^
//!               |  +---> Paused         Pause, Resume; a user without rights
//!               v
//!             Completed, Stopped, Cancelled, Failed      learns for a day what became of the moved
//! ```
//!
//! A slice of work moves some messages; its record has their removals and insertions, and the
//! absolute counts and cursor of the job. So a crash leaves each message in one queue, and the job
//! goes on behind the last move that is durable.

mod moving;
mod ways;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use self::ways::Finder;
use super::work::Work;
use super::{Core, Turn};
use crate::base::limits::{
    REDRIVE_KEPT_MS, REDRIVE_LEARNS_MS, REDRIVES_FINISHED_MAX, REDRIVES_UNFINISHED_MAX,
};
use crate::base::{Millis, Name, Now, Position, QueueId, Step, Timestamp};
use crate::broker::event::{EventKind, RedriveNews};
use crate::broker::queue::{MessageState, Waiter};
use crate::broker::redrive::{
    Learned, NewRedrive, RedriveCause, RedriveCommand, RedriveCounts, RedriveFact, RedriveJob,
    RedriveOutcome, RedriveProgress, RedriveRights, RedriveSpec, RedriveState, RedriveTarget,
    Steering,
};
use crate::broker::{Error, Fact, Reply};
use crate::deaths::{History, RecentlyRedriven};

/// Time after which jobs that are over are looked at again: whether they still learn, and are kept.
const LOOK_EVERY_MS: u64 = 10 * 60 * 1_000;

/// Time over which the rate of a job is measured, at least.
const PACE_MS: u64 = 1_000;

/// The jobs of a vhost.
#[derive(Debug, Default)]
pub(super) struct Redrives {
    jobs: BTreeMap<u64, Box<Job>>,
    /// Numbers that were given to jobs.
    given: u64,
    /// When a job is to be woken; [`Millis::NEVER`] if none.
    due: Option<Millis>,
    /// The redrives of the last message that was moved, shared by the next one if equal.
    recent: RecentlyRedriven,
    /// The last history that was moved, as it was and as it is.
    last_history: Option<(Arc<History>, Arc<History>)>,
}

/// A job, and what a restart forgets of it.
#[derive(Debug)]
struct Job {
    kept: RedriveJob,
    rights: Rights,
    finder: Finder,
    /// What was counted when the journal was last told.
    told: (RedriveCounts, Position),
    /// State and cause that were told last.
    told_state: Option<(RedriveState, Option<RedriveCause>)>,
    /// Whether it is on the worklist.
    is_scheduled: bool,
    /// When it is to be woken.
    wake_at: Millis,
    /// Whether it waits for a block of its source.
    awaits_block: bool,
    /// Millionths of a message that it may move, by its rate.
    allowance: u64,
    /// When the allowance was last raised.
    raised_at: Millis,
    /// Whether it moves batches; none: not decided yet.
    ramp: Option<bool>,
    /// When the last message of its batch was moved.
    batch_moved_at: Millis,
    /// When messages were moved last, for the rate.
    pace: Pace,
    /// Whether it still learns what became of messages.
    is_learning: bool,
    /// The last message whose body has to be read from the disk, and whether it has the text that
    /// its filter looks for; none: that is not known yet.
    looked: Option<(Position, Option<bool>)>,
    /// Moved messages that a restart did not find, by queue: the journal is to be told.
    lost: Vec<(Name, u64)>,
}

/// Two looks at how many messages were moved, at least a second apart.
#[derive(Debug)]
struct Pace {
    before: (Millis, u64),
    last: (Millis, u64),
}

impl Pace {
    const fn new(now: Millis, moved: u64) -> Self {
        Self {
            before: (now, moved),
            last: (now, moved),
        }
    }

    fn note(&mut self, now: Millis, moved: u64) {
        if now.since(self.last.0) >= PACE_MS {
            (self.before, self.last) = (self.last, (now, moved));
        }
    }

    /// Thousandths of a message a second, since the look before the last.
    fn rate_milli(&self, now: Millis, moved: u64) -> u64 {
        let (at, before) = self.before;
        let passed_ms = now.since(at).max(1);
        moved.saturating_sub(before).saturating_mul(1_000_000) / passed_ms
    }
}

/// What is known of the rights of a job's user.
#[derive(Debug)]
enum Rights {
    /// The broker just started.
    Unknown,
    /// There is no such user, or it may not enter the vhost.
    Gone,
    Known(RedriveRights),
}

impl Job {
    /// Why its user may not let it go on; none also as long as that is not known.
    fn barred(&self) -> Option<RedriveCause> {
        match &self.rights {
            Rights::Unknown => None,
            Rights::Gone => Some(RedriveCause::UserGone),
            Rights::Known(rights) => {
                let may = rights.may_read(&self.kept.spec.queue);
                (!may).then_some(RedriveCause::NotAllowed)
            }
        }
    }

    fn new(now: Now, kept: RedriveJob, rights: Rights) -> Self {
        let decided = match kept.spec.ramp {
            _ if kept.spec.target == RedriveTarget::Discard => Some(false),
            None if kept.batch > 0 => Some(true),
            None if kept.counts.moved > 0 => Some(false),
            given => given,
        };
        Self {
            told: (kept.counts, kept.cursor),
            // What is over was told in the record that says so.
            told_state: kept.state.is_over().then_some((kept.state, kept.cause)),
            rights,
            finder: Finder::default(),
            is_scheduled: false,
            wake_at: Millis::NEVER,
            awaits_block: false,
            allowance: 1_000_000,
            raised_at: now.mono,
            ramp: decided,
            batch_moved_at: now.mono,
            pace: Pace::new(now.mono, kept.counts.moved),
            is_learning: true,
            looked: None,
            lost: Vec::new(),
            kept,
        }
    }
}

impl Redrives {
    fn of(&self, id: &str) -> Option<&Job> {
        let mut jobs = self.jobs.values();
        jobs.find(|job| *job.kept.id == *id).map(|job| &**job)
    }

    fn number_of(&self, id: &Name) -> Result<u64, Error> {
        let job = self
            .of(id)
            .ok_or_else(|| Error::NoRedrive { id: id.clone() })?;
        Ok(job.kept.number)
    }

    fn unfinished(&self) -> usize {
        let jobs = self.jobs.values();
        jobs.filter(|job| !job.kept.state.is_over()).count()
    }

    /// The jobs as facts of a checkpoint.
    pub(super) fn facts(&self) -> impl Iterator<Item = Fact> {
        let next = self.given + 1;
        let numbers = (self.given > 0).then_some(RedriveFact::Numbers { next });
        let jobs = self.jobs.values();
        let jobs = jobs.map(|job| RedriveFact::Set(Box::new(job.kept.clone())));
        numbers.into_iter().chain(jobs).map(Fact::Redrive)
    }

    /// When a job is to be woken.
    pub(super) fn due(&self) -> Millis {
        self.due.unwrap_or(Millis::NEVER)
    }

    fn set_due(&mut self) {
        let wakes = self.jobs.values().map(|job| job.wake_at);
        self.due = wakes.min().filter(|at| *at != Millis::NEVER);
    }

    /// Applies a fact that was read from the journal.
    pub(super) fn restore(&mut self, now: Now, fact: &RedriveFact) {
        match fact {
            RedriveFact::Set(job) => {
                self.given = self.given.max(job.number);
                let restored = Job::new(now, RedriveJob::clone(job), Rights::Unknown);
                self.jobs.insert(job.number, Box::new(restored));
            }
            RedriveFact::Moved(progress) => self.restore_progress(progress),
            RedriveFact::Learned {
                job,
                settled: (target, settled),
                outcome,
            } => {
                if let Some(job) = self.jobs.get_mut(job) {
                    // All of these only rise, and what is said of one target may stand in front of what was
                    // said before of another.
                    job.kept.outcome = job.kept.outcome.max(*outcome);
                    let mut targets = job.kept.targets.iter_mut();
                    if let Some(to) = targets.find(|to| to.queue == *target) {
                        to.settled = to.settled.max(*settled);
                    }
                }
            }
            RedriveFact::Ended {
                job,
                state,
                cause,
                at,
            } => {
                if let Some(job) = self.jobs.get_mut(job) {
                    (job.kept.state, job.kept.cause) = (*state, *cause);
                    job.kept.ended_at = Some(*at);
                }
            }
            RedriveFact::Forgotten { job } => {
                self.given = self.given.max(*job);
                self.jobs.remove(job);
            }
            RedriveFact::Numbers { next } => {
                self.given = self.given.max(next.saturating_sub(1));
            }
        }
    }

    fn restore_progress(&mut self, progress: &RedriveProgress) {
        let Some(job) = self.jobs.get_mut(&progress.job) else {
            return; // forgotten since, as a checkpoint knows
        };
        let kept = &mut job.kept;
        (kept.cursor, kept.counts) = (progress.cursor, progress.counts);
        // What was learned since, in the same record, may stand in front of it.
        let before = std::mem::replace(&mut kept.targets, progress.targets.clone());
        for known in before {
            let mut targets = kept.targets.iter_mut();
            if let Some(to) = targets.find(|to| to.queue == known.queue) {
                to.settled = to.settled.max(known.settled);
            }
        }
        (kept.batch, kept.batch_left) = (progress.batch, progress.batch_left);
    }

    /// Messages that jobs know to be in a queue and that are not among those found there.
    fn lost(&self, queue: &Name, here: &BTreeMap<u32, u64>) -> Vec<(u64, u64)> {
        let jobs = self.jobs.values();
        let lost = jobs.filter_map(|job| {
            let number = job.kept.number;
            let mark = u32::try_from(number).ok()?;
            let here = here.get(&mark).copied().unwrap_or(0);
            let lost = job.kept.outstanding_in(queue)?.saturating_sub(here);
            (lost > 0).then_some((number, lost))
        });
        lost.collect()
    }

    /// The users of jobs that are not over.
    fn users(&self) -> impl Iterator<Item = &Name> {
        let jobs = self.jobs.values();
        let jobs = jobs.filter(|job| !job.kept.state.is_over());
        jobs.map(|job| &job.kept.by)
    }
}

impl Core {
    /// The redrives of the vhost, in the order in which they were made.
    pub fn redrives(&self) -> impl Iterator<Item = &RedriveJob> {
        self.redrives.jobs.values().map(|job| &job.kept)
    }

    /// A redrive by its id.
    pub fn redrive(&self, id: &str) -> Option<&RedriveJob> {
        self.redrives.of(id).map(|job| &job.kept)
    }

    /// Thousandths of a message a second that a redrive moves now, over the last second or two; of a
    /// slower one since the move before the last.
    pub fn redrive_rate(&self, job: &RedriveJob, now: Millis) -> u64 {
        let goes_on = matches!(job.state, RedriveState::Running | RedriveState::Waiting);
        let known = self.redrives.jobs.get(&job.number).filter(|_| goes_on);
        known.map_or(0, |known| known.pace.rate_milli(now, job.counts.moved))
    }

    /// The users of redrives that are not over: the core has to be told when their rights change.
    pub fn redrive_users(&self) -> Vec<Name> {
        let mut users: Vec<Name> = self.redrives.users().cloned().collect();
        users.sort_unstable();
        users.dedup();
        users
    }

    pub(super) fn handle_redrive(&mut self, turn: &mut Turn<'_>, command: RedriveCommand) -> Reply {
        turn.effects.meter.charge(Step::Command, 1);
        let done = match command {
            RedriveCommand::Start(new) => self.redrive_start(turn, *new),
            RedriveCommand::Steer { id, steering } => self.redrive_steer(turn, &id, steering),
            RedriveCommand::Rights { user, rights } => {
                self.redrive_rights(turn, &user, rights.as_ref());
                Ok(Reply::None)
            }
        };
        done.unwrap_or_else(Reply::Refused)
    }

    fn redrive_start(&mut self, turn: &mut Turn<'_>, new: NewRedrive) -> Result<Reply, Error> {
        let now = turn.now;
        let NewRedrive {
            id,
            by,
            spec,
            matched,
            rights,
        } = new;
        if let Some(job) = self.redrives.of(&id) {
            let (is_same, lsn) = (job.kept.spec == spec, self.recorder.topology());
            let again = Reply::RedriveSet {
                created: false,
                lsn,
            };
            return is_same.then_some(again).ok_or(Error::RedriveExists { id });
        }
        let source = self.check_redrive(&spec)?;
        self.prune_redrives(now);
        if self.redrives.unfinished() >= REDRIVES_UNFINISHED_MAX {
            return Err(Error::TooManyRedrives);
        }
        let Some(queue) = self.queues.get(&source) else {
            return Err(Self::missing_queue(&spec.queue));
        };
        self.redrives.given += 1;
        let kept = RedriveJob {
            number: self.redrives.given,
            id,
            by,
            source,
            ends: queue.messages.ends(),
            cursor: Position(0),
            state: RedriveState::Running,
            cause: None,
            created_at: now.wall,
            ended_at: None,
            counts: RedriveCounts {
                matched: if spec.filter.is_some() {
                    matched
                } else {
                    Some(queue.messages.live())
                },
                ..RedriveCounts::default()
            },
            outcome: RedriveOutcome::default(),
            targets: Vec::new(),
            batch: 0,
            batch_left: 0,
            spec,
        };
        let number = kept.number;
        let mut job = Job::new(now, kept, Rights::Known(rights));
        self.tell_state(turn, &mut job);
        self.set_redrive(job);
        self.schedule_redrive(number);
        let lsn = self.recorder.lsn();
        Ok(Reply::RedriveSet { created: true, lsn })
    }

    /// Puts a job on the list, and tells the journal all of it.
    fn set_redrive(&mut self, job: Job) {
        let fact = RedriveFact::Set(Box::new(job.kept.clone()));
        self.recorder.push(Fact::Redrive(fact));
        self.redrives.jobs.insert(job.kept.number, Box::new(job));
    }

    /// Checks what can be known of a job in advance; returns its source.
    pub(super) fn check_redrive(&self, spec: &RedriveSpec) -> Result<QueueId, Error> {
        let bad = |why: String| Err(Error::BadRequest { why });
        let Some(source) = self.queue(&spec.queue) else {
            return Err(Self::missing_queue(&spec.queue));
        };
        if source.exclusive.is_some() {
            let (name, vhost) = (spec.queue.clone(), self.options.vhost.clone());
            return Err(Error::Locked { name, vhost });
        }
        match &spec.target {
            RedriveTarget::Queue(name) => {
                let Some(target) = self.queue(name) else {
                    return bad(format!("the target: there is no queue '{name}'"));
                };
                if target.id == source.id {
                    return bad(format!(
                        "the queue '{name}' is source and target: nothing would be moved"
                    ));
                }
                if source.durable && !target.durable && !spec.is_unsafe {
                    return bad(format!(
                        "the target '{name}' is not durable and the source '{}' is: a restart would \
                         lose the messages; allow it with \"unsafe\": true",
                        spec.queue
                    ));
                }
            }
            RedriveTarget::Exchange { exchange, .. } => {
                let Some(id) = self.router.id_of(exchange) else {
                    return bad(format!("the target: there is no exchange '{exchange}'"));
                };
                let found = self.router.exchange(id);
                if found.is_some_and(|found| found.spec.internal) {
                    let name = exchange.clone();
                    return Err(Error::Internal { name });
                }
            }
            RedriveTarget::Discard if spec.note.is_none() => {
                return bad("the target 'discard' needs a field 'note' that says why".to_owned());
            }
            RedriveTarget::Origin
            | RedriveTarget::First
            | RedriveTarget::Original
            | RedriveTarget::Discard => {}
        }
        Ok(source.id)
    }

    fn redrive_steer(
        &mut self,
        turn: &mut Turn<'_>,
        id: &Name,
        steering: Steering,
    ) -> Result<Reply, Error> {
        let now = turn.now;
        let number = self.redrives.number_of(id)?;
        let Some(mut job) = self.redrives.jobs.remove(&number) else {
            return Err(Error::NoRedrive { id: id.clone() });
        };
        let state = job.kept.state;
        let refused = |is| {
            let id = id.clone();
            Err(Error::RedriveState { id, is })
        };
        let done = match (steering, state) {
            (Steering::Forget, state) if state.is_over() => {
                let fact = RedriveFact::Forgotten { job: number };
                self.recorder.push(Fact::Redrive(fact));
                let lsn = self.recorder.lsn();
                return Ok(Reply::Done { lsn });
            }
            (Steering::Forget, _) => refused("is not over: cancel it first"),
            (Steering::Cancel, RedriveState::Cancelled)
            | (Steering::Pause, RedriveState::Paused)
            | (Steering::Resume, RedriveState::Running | RedriveState::Waiting) => Ok(false),
            (_, state) if state.is_over() => refused("is over"),
            (Steering::Cancel, _) => {
                self.end_redrive(now, &mut job, RedriveState::Cancelled, None);
                Ok(false)
            }
            (Steering::Pause, _) => {
                job.kept.state = RedriveState::Paused;
                job.kept.cause = Some(RedriveCause::Asked);
                Ok(true)
            }
            (Steering::Resume, _) => match job.barred() {
                None => {
                    (job.kept.state, job.kept.cause) = (RedriveState::Running, None);
                    Ok(true)
                }
                // It would move nothing, and nobody would see that it is not paused any more.
                Some(cause) => {
                    if job.kept.cause.replace(cause) != Some(cause) {
                        let fact = RedriveFact::Set(Box::new(job.kept.clone()));
                        self.recorder.push(Fact::Redrive(fact));
                    }
                    refused(match cause {
                        RedriveCause::UserGone => "stays paused: its user is gone",
                        _ => "stays paused: its user may not read its queue",
                    })
                }
            },
        };
        if done.as_ref().is_ok_and(|is_set| *is_set) {
            let fact = RedriveFact::Set(Box::new(job.kept.clone()));
            self.recorder.push(Fact::Redrive(fact));
        }
        self.tell_state(turn, &mut job);
        self.redrives.jobs.insert(number, job);
        self.schedule_redrive(number);
        self.redrives.set_due();
        self.prune_redrives(now);
        done?;
        let lsn = self.recorder.lsn().max(self.recorder.topology());
        Ok(Reply::Done { lsn })
    }

    /// Takes note of what a user may do now. A job whose user may not read its source any more is
    /// paused, so that it is not lost by a mistake in the permissions.
    fn redrive_rights(&mut self, turn: &mut Turn<'_>, user: &Name, rights: Option<&RedriveRights>) {
        let mut woken = Vec::new();
        for job in self.redrives.jobs.values_mut() {
            if job.kept.by != *user || job.kept.state.is_over() {
                continue;
            }
            job.finder = Finder::default();
            let cause = match rights {
                None => Some(RedriveCause::UserGone),
                Some(rights) if rights.may_read(&job.kept.spec.queue) => None,
                Some(_) => Some(RedriveCause::NotAllowed),
            };
            job.rights = rights.map_or(Rights::Gone, |rights| Rights::Known(rights.clone()));
            if let Some(cause) = cause
                && job.kept.state != RedriveState::Paused
            {
                (job.kept.state, job.kept.cause) = (RedriveState::Paused, Some(cause));
                let fact = RedriveFact::Set(Box::new(job.kept.clone()));
                self.recorder.push(Fact::Redrive(fact));
            }
            woken.push(job.kept.number);
        }
        for number in woken {
            if let Some(mut job) = self.redrives.jobs.remove(&number) {
                self.tell_state(turn, &mut job);
                self.redrives.jobs.insert(number, job);
            }
            self.schedule_redrive(number);
        }
    }

    /// Tells the state of a job, if it is another one than was told last.
    fn tell_state(&mut self, turn: &mut Turn<'_>, job: &mut Job) {
        let kept = &job.kept;
        let reached = (kept.state, kept.cause);
        if job.told_state.replace(reached) == Some(reached) {
            return;
        }
        let news = RedriveNews {
            id: kept.id.clone(),
            by: kept.by.clone(),
            state: kept.state,
            cause: kept.cause,
            counts: kept.counts,
            outcome: kept.outcome,
        };
        let news = EventKind::Redrive(Box::new(news));
        self.tell(turn, kept.spec.queue.clone(), news, None);
    }

    /// Puts a job on the worklist, once.
    fn schedule_redrive(&mut self, number: u64) {
        if let Some(job) = self.redrives.jobs.get_mut(&number)
            && !std::mem::replace(&mut job.is_scheduled, true)
        {
            self.work.push_back(Work::Redrive(number));
        }
    }

    /// Puts the jobs on the worklist whose time has come.
    pub(super) fn wake_due_redrives(&mut self, now: Now) {
        if self.redrives.due() > now.mono {
            return;
        }
        let mut due = Vec::new();
        for job in self.redrives.jobs.values_mut() {
            if job.wake_at <= now.mono {
                job.wake_at = Millis::NEVER;
                due.push(job.kept.number);
            }
        }
        for number in due {
            self.schedule_redrive(number);
        }
        self.redrives.set_due();
    }

    /// Wakes the jobs of a source that was deleted.
    pub(super) fn wake_redrives_of(&mut self, source: QueueId) {
        self.wake_redrives_if(|job| job.kept.source == source);
    }

    /// Wakes the jobs of a source that wait for a block of it: one was paged in. The others would only ask
    /// for the blocks that they had to let go of, and push out those of each other.
    pub(super) fn wake_redrives_behind_load(&mut self, source: QueueId) {
        self.wake_redrives_if(|job| job.awaits_block && job.kept.source == source);
    }

    fn wake_redrives_if(&mut self, is_meant: impl Fn(&Job) -> bool) {
        if self.redrives.jobs.is_empty() {
            return; // as a rule
        }
        let jobs = self.redrives.jobs.values();
        let of = jobs.filter(|job| is_meant(job));
        let of: Vec<u64> = of.map(|job| job.kept.number).collect();
        for number in of {
            self.schedule_redrive(number);
        }
    }

    /// Wakes the first job that waits for room in a queue, if there is some; the next one follows it.
    pub(super) fn wake_redrive_for_room(&mut self, target: QueueId, number: u64) {
        let Some(queue) = self.queues.get_mut(&target) else {
            return; // deleted since
        };
        if !queue.would_overflow(0) {
            queue.waiters.remove(&Waiter::redrive(target, number));
            self.schedule_redrive(number);
        }
    }

    /// Wakes the jobs that waited for the end of an alarm.
    pub(super) fn wake_redrives_behind_alarm(&mut self) {
        let jobs = self.redrives.jobs.values();
        let held_up = jobs.filter(|job| job.kept.cause == Some(RedriveCause::Alarm));
        let held_up: Vec<u64> = held_up.map(|job| job.kept.number).collect();
        for number in held_up {
            self.schedule_redrive(number);
        }
    }

    /// Begins to work on the jobs that the journal had.
    pub(super) fn restart_redrives(&mut self, now: Now) {
        let mut restarted = Vec::new();
        for job in self.redrives.jobs.values_mut() {
            // What the journal said of it came after it was made.
            let kept = job.kept.clone();
            **job = Job::new(now, kept, Rights::Unknown);
            if !job.kept.state.is_over() && job.kept.state != RedriveState::Paused {
                job.kept.state = RedriveState::Waiting;
                job.kept.cause = Some(RedriveCause::Starting);
            }
            restarted.push(job.kept.number);
        }
        self.find_lost();
        for number in restarted {
            self.schedule_redrive(number);
        }
    }

    /// Ends a job. It goes on learning what becomes of the messages that it moved.
    fn end_redrive(
        &mut self,
        now: Now,
        job: &mut Job,
        state: RedriveState,
        cause: Option<RedriveCause>,
    ) {
        (job.kept.state, job.kept.cause) = (state, cause);
        job.kept.ended_at = Some(now.wall);
        job.wake_at = now.mono.plus(LOOK_EVERY_MS);
        let fact = RedriveFact::Ended {
            job: job.kept.number,
            state,
            cause,
            at: now.wall,
        };
        self.recorder.push(Fact::Redrive(fact));
    }

    /// Forgets jobs that are over: the oldest beyond the limit, and those that ended too long ago.
    fn prune_redrives(&mut self, now: Now) {
        let jobs = self.redrives.jobs.values();
        let ended = |job: &Job| Some((job.kept.ended_at?, job.kept.number));
        let mut over: Vec<(Timestamp, u64)> = jobs.filter_map(|job| ended(job)).collect();
        over.sort_unstable();
        let too_many = over.len().saturating_sub(REDRIVES_FINISHED_MAX);
        for (index, (at, number)) in over.into_iter().enumerate() {
            let is_old = since(now, at) > REDRIVE_KEPT_MS;
            if index < too_many || is_old {
                self.redrives.jobs.remove(&number);
                let fact = RedriveFact::Forgotten { job: number };
                self.recorder.push(Fact::Redrive(fact));
            }
        }
    }

    /// Looks at a job that is over: whether it learns any more.
    fn look_at_ended(now: Now, job: &mut Job) {
        let ended = job.kept.ended_at.map_or(0, |at| since(now, at));
        job.is_learning = ended <= REDRIVE_LEARNS_MS;
        job.wake_at = now.mono.plus(LOOK_EVERY_MS);
    }

    /// Takes note of what became of a message that a job had moved.
    #[cold]
    pub(super) fn learn(&mut self, queue: QueueId, mark: u32, learned: Learned) {
        let Some(name) = self.queues.get(&queue).map(|queue| queue.name.clone()) else {
            return; // it was deleted, which was learned
        };
        self.learn_some(&name, u64::from(mark), learned, 1);
    }

    fn learn_some(&mut self, queue: &Name, number: u64, learned: Learned, count: u64) {
        let Some(job) = self.redrives.jobs.get_mut(&number) else {
            return; // forgotten
        };
        let mut targets = job.kept.targets.iter_mut();
        let to = targets.find(|to| to.queue == *queue && to.settled < to.followed);
        let Some(to) = to.filter(|_| job.is_learning) else {
            return; // it is another copy of a message that entered several queues
        };
        let count = count.min(to.followed - to.settled);
        to.settled += count;
        let settled = (queue.clone(), to.settled);
        let outcome = &mut job.kept.outcome;
        *match learned {
            Learned::Accepted => &mut outcome.accepted,
            Learned::DiedAgain => &mut outcome.died_again,
            Learned::Gone => &mut outcome.gone,
        } += count;
        let outcome = *outcome;
        self.counters.redriven.learn(learned, count);
        self.recorder.push_learned(number, settled, outcome);
        let stops = (job.kept.spec.stop).is_some_and(|stop| stop.is_reached(&outcome));
        let is_ramped = job.ramp == Some(true) && job.kept.batch_left == 0;
        let is_batch_over = is_ramped && job.kept.outstanding() == 0;
        if !job.kept.state.is_over() && (stops || is_batch_over) {
            self.schedule_redrive(number);
        }
    }

    /// Takes note that of what jobs had moved to a queue no more is in it than is found there: it
    /// was purged, or deleted, which is none.
    pub(super) fn learn_of_lost(&mut self, name: &Name, queue: Option<QueueId>) {
        let known = self.redrives.jobs.values();
        let mut known = known.filter_map(|job| job.kept.outstanding_in(name));
        if known.next().is_none() {
            return; // as a rule
        }
        let queue = queue.and_then(|id| self.queues.get(&id));
        let here = queue.map_or_else(BTreeMap::new, |queue| queue.marks(&MessageState::ALL));
        for (number, lost) in self.redrives.lost(name, &here) {
            self.learn_some(name, number, Learned::Gone, lost);
        }
    }

    /// The same of what a restart found in queues, which has no message that the journal did not
    /// keep.
    fn find_lost(&mut self) {
        let jobs = || self.redrives.jobs.values();
        let targets = jobs().flat_map(|job| &job.kept.targets);
        let targets = targets.filter(|to| to.settled < to.followed);
        let targets: BTreeSet<Name> = targets.map(|to| to.queue.clone()).collect();
        for name in targets {
            let here = self.queue(&name);
            let here = here.map_or_else(BTreeMap::new, |queue| queue.marks(&MessageState::ALL));
            for (number, lost) in self.redrives.lost(&name, &here) {
                if let Some(job) = self.redrives.jobs.get_mut(&number) {
                    job.lost.push((name.clone(), lost));
                }
            }
        }
    }

    /// Learns what [`Core::find_lost`] found, when the journal can be told.
    pub(super) fn learn_found_lost(&mut self, number: u64) {
        let job = self.redrives.jobs.get_mut(&number);
        for (queue, lost) in job.map_or_else(Vec::new, |job| std::mem::take(&mut job.lost)) {
            self.learn_some(&queue, number, Learned::Gone, lost);
        }
    }
}

/// Milliseconds of wall-clock time since a time stamp, 0 if that is in the future.
pub(super) fn since(now: Now, at: Timestamp) -> u64 {
    u64::try_from(now.wall.0.saturating_sub(at.0)).unwrap_or(0)
}
