//! Redrives in a world: an operator starts, steers and forgets them among all that happens, and what
//! must be true of each. [evidence part 6]

use std::collections::BTreeMap;
use std::sync::Arc;

use super::topology::{EXCHANGE, FANOUT};
use super::world::World;
use crate::access::Permissions;
use crate::base::{Lsn, Name, Position, QueueId, Random};
use crate::broker::queue::{MessageState, Queue};
use crate::broker::redrive::{
    NewRedrive, RedriveCommand, RedriveJob, RedriveRights, RedriveSpec, RedriveState, RedriveStop,
    RedriveTarget, Steering,
};
use crate::broker::{Command, Core, Error, Reply};
use crate::search::{DeathFilter, Verdict};
use crate::wire::Value;

/// Redrives of one world at most.
const REDRIVES: u64 = 60;
/// Steps between two things that the operator does to redrives, on average.
const EVERY_STEPS: u64 = 12;
/// The user whose redrives stand still behind a start, since the registry does not know it.
const STRANGER: &str = "alice";
/// The user whose redrives go on by themselves.
const KNOWN: &str = "guest";

/// What a world does about redrives, and what it was told of them.
#[derive(Debug)]
pub(super) struct Redriving {
    /// Draws of its own, so that worlds without redrives are what they were.
    random: Random,
    /// Whether messages go to several queues at once.
    fans: bool,
    started: u64,
    /// The last that was done about each job: it holds once that record is durable.
    told: BTreeMap<Name, (Lsn, Told)>,
    /// How far each job was at some records, the oldest first.
    seen: Vec<(Lsn, BTreeMap<Name, Reached>)>,
    /// Messages that were moved by jobs that are forgotten.
    forgotten: u64,
}

/// What was done about a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Told {
    Started,
    Paused,
    Resumed,
    Cancelled,
    Forgotten,
}

/// How far a job was: absolute numbers that never fall.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Debug)]
struct Reached {
    moved: u64,
    passed: u64,
    cursor: Position,
    accepted: u64,
    died_again: u64,
}

impl Reached {
    const fn of(job: &RedriveJob) -> Self {
        Self {
            moved: job.counts.moved,
            passed: job.counts.passed(),
            cursor: job.cursor,
            accepted: job.outcome.accepted,
            died_again: job.outcome.died_again,
        }
    }

    fn is_behind(&self, other: &Self) -> bool {
        self.moved < other.moved
            || self.passed < other.passed
            || self.cursor < other.cursor
            || self.accepted < other.accepted
            || self.died_again < other.died_again
    }
}

impl Redriving {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed ^ 0x5ed2_17e5),
            fans: seed.is_multiple_of(3),
            started: 0,
            told: BTreeMap::new(),
            seen: Vec::new(),
            forgotten: 0,
        }
    }

    pub(super) fn is_due(&mut self) -> bool {
        self.random.one_in(EVERY_STEPS)
    }

    fn target(&mut self, queues: &[&str]) -> RedriveTarget {
        let queue = Name::from(*self.random.pick(queues).unwrap());
        match self.random.below(9) {
            0..4 => RedriveTarget::Origin,
            4 => RedriveTarget::First,
            5 => RedriveTarget::Exchange {
                exchange: Name::from(EXCHANGE),
                routing_key: queue,
            },
            6 if self.fans => RedriveTarget::Original,
            7 if self.fans => RedriveTarget::Exchange {
                exchange: Name::from(FANOUT),
                routing_key: queue,
            },
            8 if self.random.one_in(3) => RedriveTarget::Discard,
            _ => RedriveTarget::Queue(queue),
        }
    }

    fn filter(&mut self) -> Option<Arc<DeathFilter>> {
        let (name, value) = match self.random.below(6) {
            0 => ("reason", Value::string("rejected")),
            1 => ("reason", Value::string("expired")),
            2 => ("redriven", Value::Bool(self.random.one_in(2))),
            _ => return None,
        };
        Some(Arc::new(DeathFilter::of_parts([(name, &value)]).unwrap()))
    }

    /// What a redrive of `source` is to do; without one any queue is.
    fn spec(&mut self, queues: &[&str], source: Option<Name>) -> RedriveSpec {
        let queue = source.unwrap_or_else(|| Name::from(*self.random.pick(queues).unwrap()));
        let (target, filter) = (self.target(queues), self.filter());
        let random = &mut self.random;
        RedriveSpec {
            queue,
            filter,
            rate_milli: random.one_in(4).then(|| 20_000 + random.below(2_000_000)),
            max: random.one_in(4).then(|| 1 + random.below(12)),
            ramp: [None, Some(true), Some(false)][usize::try_from(random.below(3)).unwrap()],
            stop: match random.below(4) {
                0 => None,
                1 => Some(RedriveStop {
                    deaths: 0,
                    share_ppm: 0,
                }),
                _ => Some(RedriveStop::DEFAULT),
            },
            note: (target == RedriveTarget::Discard).then(|| Name::from("a note")),
            target,
            is_unsafe: false,
        }
    }

    /// Remembers how far each job is.
    fn see(&mut self, lsn: Lsn, core: &Core) {
        let jobs = core.redrives();
        let reached = jobs.map(|job| (job.id.clone(), Reached::of(job)));
        self.seen.push((lsn, reached.collect()));
        if self.seen.len() > 40 {
            self.seen.remove(0);
        }
    }

    /// What was told to be durable holds after a start, and no move is undone that was told.
    fn check_start(&mut self, durable: Lsn, core: &Core) -> Result<(), String> {
        let last = self.seen.iter().rev().find(|(lsn, _)| *lsn <= durable);
        for (id, before) in last.into_iter().flat_map(|(_, jobs)| jobs) {
            let after = core.redrive(id).map(Reached::of);
            let is_forgotten = matches!(self.told.get(id), Some((_, Told::Forgotten)));
            if after.is_none() && !is_forgotten {
                return Err(format!("redrive {id} is lost"));
            }
            if after.is_some_and(|after| after.is_behind(before)) {
                return Err(format!(
                    "redrive {id} had come to {before:?}, and after a start to {after:?}"
                ));
            }
        }
        for (id, (lsn, told)) in &self.told {
            if *lsn > durable {
                continue;
            }
            let job = core.redrive(id);
            let holds = match told {
                Told::Started | Told::Resumed => job.is_some(),
                Told::Paused => {
                    job.is_some_and(|job| job.state == RedriveState::Paused || job.state.is_over())
                }
                Told::Cancelled => job.is_some_and(|job| job.state.is_over()),
                Told::Forgotten => job.is_none(),
            };
            if !holds {
                return Err(format!("{id} was {told:?}, and is {job:?}"));
            }
        }
        self.seen.clear();
        // What was not durable may or may not be there.
        self.told.retain(|_, (lsn, _)| *lsn <= durable);
        Ok(())
    }

    /// Messages that were moved so far by all jobs.
    pub(super) fn moved(&self, core: &Core) -> u64 {
        self.forgotten + core.redrives().map(|job| job.counts.moved).sum::<u64>()
    }
}

fn all_rights() -> RedriveRights {
    RedriveRights {
        permissions: Arc::new(Permissions::all().unwrap()),
        topics: None,
        users_by_token: None,
    }
}

impl World {
    /// The operator does something about redrives.
    pub(super) fn redrive(&mut self) -> Result<(), String> {
        let ids = |core: &Core| {
            core.redrives()
                .map(|job| job.id.clone())
                .collect::<Vec<_>>()
        };
        let ids = self.machine.look(ids)?;
        let id = self.redriving.random.pick(&ids).cloned();
        match (self.redriving.random.below(12), id) {
            (0..2, Some(id)) => self.steer_redrive(id, Steering::Pause),
            (2..5, Some(id)) => self.steer_redrive(id, Steering::Resume),
            (5, Some(id)) => self.steer_redrive(id, Steering::Cancel),
            (6, Some(id)) => self.forget_redrive(id),
            (7, _) => {
                let is_gone = self.redriving.random.one_in(2);
                self.tell_rights((!is_gone).then(all_rights))
            }
            _ if self.redriving.started < REDRIVES => self.start_redrive(),
            _ => Ok(()),
        }
    }

    fn tell_rights(&mut self, rights: Option<RedriveRights>) -> Result<(), String> {
        self.note(&format!("{STRANGER} may redrive: {}", rights.is_some()));
        let user = Name::from(STRANGER);
        let command = RedriveCommand::Rights { user, rights };
        self.machine.ask(Command::Redrive(command)).map(drop)
    }

    fn start_redrive(&mut self) -> Result<(), String> {
        let source = if self.redriving.random.one_in(4) {
            None
        } else {
            self.fullest()?
        };
        let spec = self.redriving.spec(&self.topology.names(), source);
        let number = self.redriving.started;
        let id = Name::from(format!("redrive-{number}"));
        let is_known = self.redriving.random.one_in(2);
        let matched = if spec.filter.is_some() && self.redriving.random.one_in(2) {
            Some(self.count_matching(&spec)?)
        } else {
            None
        };
        self.note(&format!("{id} is to do {spec:?}, {matched:?} match"));
        let new = NewRedrive {
            id: id.clone(),
            by: Name::from(if is_known { KNOWN } else { STRANGER }),
            spec,
            matched,
            rights: all_rights(),
        };
        let command = RedriveCommand::Start(Box::new(new));
        match self.machine.ask(Command::Redrive(command))? {
            Reply::RedriveSet { created: true, lsn } => {
                self.redriving.started += 1;
                self.redriving.told.insert(id, (lsn, Told::Started));
                Ok(())
            }
            Reply::Refused(
                Error::TooManyRedrives | Error::BadRequest { .. } | Error::NotFound { .. },
            ) => Ok(()),
            other => Err(format!("{id} was answered {other:?}")),
        }
    }

    /// The queue with the most dead letters that are ready, if there is any.
    fn fullest(&self) -> Result<Option<Name>, String> {
        self.machine.look(|core| {
            // What is moved out of a queue that goes with the broker may be lost with it.
            let lasting = core.queues().filter(|queue| queue.properties().durable);
            let ready = lasting.filter(|queue| queue.messages.ready() > 0);
            let dead = |queue: &&Queue| queue.counters.dead_entered.min(queue.messages.ready());
            ready.max_by_key(dead).map(|queue| queue.name.clone())
        })
    }

    /// Messages of the source that its filter means now, as the HTTP API counts them before.
    fn count_matching(&self, spec: &RedriveSpec) -> Result<u64, String> {
        let mut matched = 0;
        if self
            .machine
            .look(|core| core.queue(&spec.queue).is_none())?
        {
            return Ok(0);
        }
        for state in MessageState::ALL {
            let vhost = self.machine.vhost();
            let piece = vhost.browse(&spec.queue, state, Position(0), usize::MAX);
            let piece = piece.map_err(|_| "the vhost failed")?;
            let meant = piece.messages.iter();
            let meant = meant
                .filter(|seen| spec.judge(&seen.candidate(), None).verdict == Verdict::Matches);
            matched += meant.count() as u64;
        }
        Ok(matched)
    }

    fn steer_redrive(&mut self, id: Name, steering: Steering) -> Result<(), String> {
        self.note(&format!("{steering:?} {id}"));
        let steer = RedriveCommand::Steer {
            id: id.clone(),
            steering,
        };
        let told = match steering {
            Steering::Pause => Told::Paused,
            Steering::Resume => Told::Resumed,
            Steering::Cancel => Told::Cancelled,
            Steering::Forget => Told::Forgotten,
        };
        match self.machine.ask(Command::Redrive(steer))? {
            Reply::Done { lsn } => {
                self.redriving.told.insert(id, (lsn, told));
                Ok(())
            }
            Reply::Refused(Error::RedriveState { .. }) => Ok(()),
            other => Err(format!("{steering:?} {id} was answered {other:?}")),
        }
    }

    /// Forgets a job that is over, with what it says of how its source became empty. One that copied
    /// messages is kept, since it says how many copies there are.
    fn forget_redrive(&mut self, id: Name) -> Result<(), String> {
        let job = self.machine.look(|core| core.redrive(&id).cloned())?;
        let Some(job) = job.filter(|job| job.state.is_over() && copies(job) == 0) else {
            return Ok(());
        };
        self.steer_redrive(id, Steering::Forget)?;
        self.redriving.forgotten += job.counts.moved;
        *self.sums.entry(job.source).or_default() -= moved_out(&job).cast_signed();
        Ok(())
    }

    /// Everything is to drain: nobody holds a redrive up.
    pub(super) fn let_redrives_end(&mut self) -> Result<(), String> {
        self.tell_rights(Some(all_rights()))?;
        let paused = self.machine.look(|core| {
            let jobs = core.redrives();
            let paused = jobs.filter(|job| job.state == RedriveState::Paused);
            paused.map(|job| job.id.clone()).collect::<Vec<_>>()
        })?;
        for id in paused {
            self.steer_redrive(id, Steering::Resume)?;
        }
        Ok(())
    }

    /// Whether all redrives are over.
    pub(super) fn are_redrives_over(&self) -> Result<bool, String> {
        self.machine
            .look(|core| core.redrives().all(|job| job.state.is_over()))
    }

    /// Looks at all redrives.
    pub(super) fn check_redrives(&mut self) -> Result<(), String> {
        let knows_time = !self.trial.has(super::trial::Fault::Clock);
        let redriving = &mut self.redriving;
        let is_durable = |lsn: Lsn| self.machine.store.durable() >= lsn;
        self.machine.look(|core| {
            let marks = marks(core);
            for job in core.redrives() {
                // One that has been over for a day does not learn any more.
                let learns = knows_time || !job.state.is_over();
                check_job(job, &marks, (learns, core.has_work()))
                    .map_err(|why| format!("{why}: {job:?}"))?;
            }
            let last = core.last_lsn();
            if is_durable(last) {
                redriving.see(last, core);
            }
            Ok(())
        })?
    }

    /// The same after a start, on what was durable before.
    pub(super) fn check_redrives_at_start(&mut self, durable: Lsn) -> Result<(), String> {
        let redriving = &mut self.redriving;
        self.machine
            .look(|core| redriving.check_start(durable, core))?
    }
}

/// Messages by queue and the redrive that is to learn of them.
type Marks = BTreeMap<(Name, u64), u64>;

fn marks(core: &Core) -> Marks {
    let mut marks = Marks::new();
    for queue in core.queues() {
        for (mark, count) in queue.marks(&MessageState::ALL) {
            marks.insert((queue.name.clone(), mark.into()), count);
        }
    }
    marks
}

/// What must be true of a job at any time; `has_work`: it may be about to learn of what a start lost.
fn check_job(
    job: &RedriveJob,
    marks: &Marks,
    (learns, has_work): (bool, bool),
) -> Result<(), String> {
    let (counts, outcome) = (&job.counts, &job.outcome);
    let left = counts.left();
    if counts.matched != left.map(|left| counts.passed() + left) {
        return Err("what matched is not what was moved, passed and left".to_owned());
    }
    if job.state.is_over() != job.ended_at.is_some() {
        return Err("it is over and did not end, or the other way round".to_owned());
    }
    let followed: u64 = job.targets.iter().map(|to| to.followed).sum();
    let settled: u64 = job.targets.iter().map(|to| to.settled).sum();
    let moved = if job.spec.target == RedriveTarget::Discard {
        0
    } else {
        counts.moved
    };
    if followed != moved || settled != outcome.settled() {
        return Err("its targets have other numbers".to_owned());
    }
    if outcome.settled() + job.outstanding() != moved {
        return Err("what became of the moved does not add up".to_owned());
    }
    for to in &job.targets {
        let here = marks.get(&(to.queue.clone(), job.number));
        let here = here.copied().unwrap_or(0);
        let outstanding = job.outstanding_in(&to.queue).unwrap_or(0);
        let is_right = if has_work {
            here <= outstanding
        } else {
            here == outstanding
        };
        if learns && !is_right {
            return Err(format!(
                "{here} that it moved are in {}, and {outstanding} outstanding",
                to.queue
            ));
        }
    }
    Ok(())
}

/// Copies that a job made of messages, beyond one of each.
fn copies(job: &RedriveJob) -> u64 {
    let entered: u64 = job.targets.iter().map(|to| to.moved).sum();
    entered.saturating_sub(job.counts.moved)
}

/// Copies that redrives made of messages, beyond one of each.
pub(super) fn extra_copies(core: &Core) -> u64 {
    core.redrives().map(copies).sum()
}

/// Messages that left the source of a job without being dropped.
fn moved_out(job: &RedriveJob) -> u64 {
    if job.spec.target == RedriveTarget::Discard {
        0
    } else {
        job.counts.moved
    }
}

/// Messages that redrives moved out of a queue.
pub(super) fn moved_out_of(core: &Core, queue: QueueId) -> u64 {
    let jobs = core.redrives().filter(|job| job.source == queue);
    jobs.map(moved_out).sum()
}
