//! The work of a redrive: a slice of its source is looked at, and what fits is moved.

use std::sync::Arc;

use super::ways::Found;
use super::{Job, Redrives, Rights};
use crate::base::limits::{
    BATCH_NS_MAX, REDRIVE_BATCH_MAX, REDRIVE_BATCH_WAIT_MS, REDRIVE_TARGETS_MAX,
};
#[cfg(test)]
use crate::base::plant::{Plant, is_planted};
use crate::base::{Lsn, Millis, Name, Now, Position, QueueId, Step, invariant};
use crate::broker::core::admission::{Arrival, Offered};
use crate::broker::core::work::{SLICE, Work};
use crate::broker::core::{Core, Turn};
use crate::broker::event::{EventKind, EventTargets};
use crate::broker::queue::{MessageState, Waiter, next_subqueue, subqueue};
use crate::broker::redrive::{RedriveCause, RedriveFact, RedriveState, RedriveWay, RedrivenTo};
use crate::broker::{BodyLook, DropCause, Fact};
use crate::deaths::{History, Redrive};
use crate::search::{Candidate, Verdict};

/// Time after which a job that waits looks again if nothing woke it, in milliseconds: room may come
/// from what wakes nobody, such as a consumer that takes messages at once.
const WAIT_MS: u64 = 1_000;
/// Blocks of the source that are paged in ahead.
const READ_AHEAD_BLOCKS: usize = 3;
/// Cost of one move, counted in messages: it is a removal and an insertion.
const MOVE_COST: usize = 2;
/// Estimated time of looking for ways in one slice, in nanoseconds; what is left is done under the
/// next hold of the lock.
const SLICE_NS: u64 = BATCH_NS_MAX / 2;
/// The allowance that one message takes.
const ALLOWANCE: u64 = 1_000_000;

/// When a job goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Next {
    /// At once, after others had their turn.
    Again,
    /// At this time.
    At(Millis),
    /// When it is woken.
    Woken,
    /// Not at all.
    End(RedriveState, Option<RedriveCause>),
}

/// What was done with one message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Done {
    Moved,
    NoTarget,
    NotAllowed,
    /// A target has no room: it is looked at again.
    Full,
}

impl Core {
    /// Does a slice of the work of a job.
    pub(in crate::broker::core) fn redrive_slice(&mut self, turn: &mut Turn<'_>, number: u64) {
        self.learn_found_lost(number);
        let Some(mut job) = self.redrives.jobs.remove(&number) else {
            return; // forgotten since it was scheduled
        };
        job.is_scheduled = false;
        job.wake_at = Millis::NEVER;
        job.awaits_block = false;
        let next = match job.kept.state {
            RedriveState::Running | RedriveState::Waiting => self.redrive_some(turn, &mut job),
            RedriveState::Paused if !self.queues.contains_key(&job.kept.source) => {
                Next::End(RedriveState::Failed, Some(RedriveCause::SourceGone))
            }
            RedriveState::Paused => Next::Woken,
            _ => {
                Self::look_at_ended(turn.now, &mut job);
                Next::At(job.wake_at)
            }
        };
        self.tell_progress(turn.now, &mut job);
        match next {
            Next::Again => {
                job.is_scheduled = true;
                self.work.push_back(Work::Redrive(number));
            }
            Next::At(at) => job.wake_at = at,
            Next::Woken => {}
            Next::End(state, cause) => self.end_redrive(turn.now, &mut job, state, cause),
        }
        self.tell_state(turn, &mut job);
        let is_over = job.kept.state.is_over();
        self.redrives.jobs.insert(number, job);
        if is_over {
            self.prune_redrives(turn.now);
        }
        self.redrives.set_due();
    }

    /// Tells the journal how far a job came: in the record of what it moved.
    fn tell_progress(&mut self, now: Now, job: &mut Job) {
        let reached = (job.kept.counts, job.kept.cursor);
        if job.told != reached {
            job.told = reached;
            job.pace.note(now.mono, job.kept.counts.moved);
            #[cfg(test)]
            if is_planted(Plant::ProgressNotTold) {
                return;
            }
            let progress = Box::new(job.kept.progress());
            self.recorder
                .push(Fact::Redrive(RedriveFact::Moved(progress)));
        }
    }

    fn redrive_some(&mut self, turn: &mut Turn<'_>, job: &mut Job) -> Next {
        if let Some(next) = self.held_up(job) {
            return next;
        }
        (job.kept.state, job.kept.cause) = (RedriveState::Running, None);
        let begun_ns = turn.effects.meter.spent_ns();
        for _ in 0..SLICE {
            if job
                .kept
                .spec
                .max
                .is_some_and(|max| job.kept.counts.moved >= max)
            {
                return Next::End(RedriveState::Completed, Some(RedriveCause::Max));
            }
            turn.budget = turn.budget.saturating_sub(1);
            let Some((position, state)) = self.next_of_source(job) else {
                let counts = &mut job.kept.counts;
                counts.skipped_changed += counts.left().unwrap_or(0);
                counts.matched = Some(counts.passed());
                return Next::End(RedriveState::Completed, None);
            };
            if self.alarm {
                (job.kept.state, job.kept.cause) =
                    (RedriveState::Waiting, Some(RedriveCause::Alarm));
                return Next::At(turn.now.mono.plus(WAIT_MS));
            }
            if state == MessageState::Ready {
                if let Some(next) = self.redrive_ready(turn, job, position) {
                    return next;
                }
            } else {
                match self.is_meant(turn, job, position) {
                    None => return Next::Woken,
                    Some(false) => {}
                    Some(true) => {
                        job.kept.counts.skipped_held += 1;
                        self.counters.redriven.skipped += 1;
                    }
                }
            }
            job.kept.cursor = Position(position.0 + 1);
            job.kept.counts.raise_matched();
            if self.recorder.is_long() {
                self.tell_progress(turn.now, job);
                self.recorder.cut(turn.now, turn.effects);
            }
            if turn.effects.meter.spent_ns() - begun_ns >= SLICE_NS {
                turn.budget = 0;
                break;
            }
        }
        Next::Again
    }

    /// Why a job cannot move anything now, and when it goes on.
    fn held_up(&self, job: &mut Job) -> Option<Next> {
        let kept = &mut job.kept;
        if !self.queues.contains_key(&kept.source) {
            let cause = Some(RedriveCause::SourceGone);
            return Some(Next::End(RedriveState::Failed, cause));
        }
        let stops = kept
            .spec
            .stop
            .is_some_and(|stop| stop.is_reached(&kept.outcome));
        if stops {
            let cause = Some(RedriveCause::DiedAgain);
            return Some(Next::End(RedriveState::Stopped, cause));
        }
        let (cause, next) = match job.rights {
            Rights::Unknown => (RedriveCause::Starting, Next::Woken),
            Rights::Gone => (RedriveCause::UserGone, Next::Woken),
            Rights::Known(ref rights) if !rights.may_read(&kept.spec.queue) => {
                (RedriveCause::NotAllowed, Next::Woken)
            }
            Rights::Known(_) => return None,
        };
        (kept.state, kept.cause) = (RedriveState::Waiting, Some(cause));
        Some(next)
    }

    /// The next message of the source that was there when the job began, from its cursor on.
    fn next_of_source(&self, job: &mut Job) -> Option<(Position, MessageState)> {
        let messages = &self.queues.get(&job.kept.source)?.messages;
        loop {
            let (position, state) = messages.next_live(job.kept.cursor)?;
            let end = job.kept.ends.get(subqueue(position)).copied();
            if end.is_some_and(|end| position < end) {
                return Some((position, state));
            }
            job.kept.cursor = next_subqueue(position);
        }
    }

    /// Moves or passes a ready message; none: the job goes on behind it.
    fn redrive_ready(
        &mut self,
        turn: &mut Turn<'_>,
        job: &mut Job,
        position: Position,
    ) -> Option<Next> {
        let queue = self.queues.get(&job.kept.source)?;
        if queue.selecting.has_reserved() {
            job.awaits_block = true; // what is ready may be a link's
            return Some(Next::Woken);
        }
        if queue.messages.slot(position).is_none() {
            job.awaits_block = true;
            self.load_for_redrive(turn, job.kept.source, position);
            return Some(Next::Woken);
        }
        match self.is_meant(turn, job, position) {
            None => return Some(Next::Woken),
            Some(false) => return None,
            Some(true) => {}
        }
        if let Some(next) = job.is_restrained(turn.now) {
            return Some(next);
        }
        match self.redrive_one(turn, job, position) {
            Done::Moved => {
                job.kept.counts.moved += 1;
                job.allowance = job.allowance.saturating_sub(ALLOWANCE);
                job.kept.batch_left = job.kept.batch_left.saturating_sub(1);
                job.batch_moved_at = turn.now.mono;
                turn.budget = turn.budget.saturating_sub(MOVE_COST - 1);
            }
            Done::NoTarget => {
                job.kept.counts.skipped_no_target += 1;
                self.counters.redriven.skipped += 1;
            }
            Done::NotAllowed => {
                job.kept.counts.skipped_not_allowed += 1;
                self.counters.redriven.skipped += 1;
            }
            Done::Full => {
                job.kept.state = RedriveState::Waiting;
                job.kept.cause = Some(RedriveCause::TargetFull);
                return Some(Next::At(turn.now.mono.plus(WAIT_MS)));
            }
        }
        None
    }

    /// Whether the filter of a job means a message of its source; none: its body is being looked
    /// into, and the job is woken then. One that waits for a target on disk is not looked at, and
    /// counts as meant.
    fn is_meant(&self, turn: &mut Turn<'_>, job: &mut Job, position: Position) -> Option<bool> {
        let queue = self.queues.get(&job.kept.source);
        let Some(slot) = queue.and_then(|queue| queue.messages.slot(position)) else {
            return Some(true);
        };
        let candidate = Candidate {
            position,
            message: &slot.message,
            route: &slot.route,
            failures: slot.failures,
        };
        let rights = match &job.rights {
            Rights::Known(rights) => Some(rights),
            Rights::Unknown | Rights::Gone => None,
        };
        let judged = job.kept.spec.judge(&candidate, rights);
        turn.effects.meter.charge_ns(judged.spent_ns);
        match judged.verdict {
            Verdict::Matches => Some(true),
            Verdict::Differs => Some(false),
            Verdict::NeedsBody => {
                let known = job.looked.filter(|(looked, _)| *looked == position);
                if known.is_none()
                    && let Some(filter) = &job.kept.spec.filter
                {
                    job.looked = Some((position, None));
                    turn.effects.looks.push(BodyLook {
                        job: job.kept.number,
                        position,
                        message: Arc::clone(&slot.message),
                        filter: Arc::clone(filter),
                    });
                }
                known?.1
            }
        }
    }

    /// Goes on with a job whose message was looked into.
    pub(in crate::broker::core) fn redrive_body_looked(
        &mut self,
        number: u64,
        position: Position,
        has_text: bool,
    ) {
        let job = self.redrives.jobs.get_mut(&number);
        if let Some(job) = job.filter(|job| job.looked == Some((position, None))) {
            job.looked = Some((position, Some(has_text)));
            self.schedule_redrive(number);
        }
    }

    /// Asks for the block of a message of a source, and for those behind it.
    fn load_for_redrive(&mut self, turn: &mut Turn<'_>, source: QueueId, position: Position) {
        let mut from = position;
        for _ in 0..READ_AHEAD_BLOCKS {
            let Some(queue) = self.queues.get_mut(&source) else {
                return invariant!(broken, "the source of a job was just looked at");
            };
            let block = queue.messages.begin_load(from);
            from = queue.messages.block_end(from);
            if let Some(block) = block {
                self.load(turn, (source, block));
            }
        }
    }

    /// Moves one message that is in memory, if there is a way for it and room at its end.
    fn redrive_one(&mut self, turn: &mut Turn<'_>, job: &mut Job, position: Position) -> Done {
        let source = job.kept.source;
        let queue = self.queues.get(&source);
        let Some(slot) = queue.and_then(|queue| queue.messages.slot(position)) else {
            invariant!(broken, "a message that is moved is in memory");
            return Done::NoTarget;
        };
        let Rights::Known(rights) = &job.rights else {
            return Done::NotAllowed;
        };
        let message = Arc::clone(&slot.message);
        let (size_bytes, body) = (slot.size_bytes, slot.body);
        let is_durable = slot.durable;
        let ttl_ms = (slot.deadline != Millis::NEVER).then(|| slot.deadline.since(turn.now.mono));
        let asked = (&job.kept.spec, source);
        let seen = (&mut job.finder, &mut turn.effects.meter);
        let Found { way, route, to } = self.redrive_way(asked, rights, &message, seen);
        let targets = match way {
            RedriveWay::To(targets) => targets,
            RedriveWay::Discarded => {
                let why = (None, DropCause::Discarded);
                let from = MessageState::Ready;
                self.remove_dropped(turn, source, position, from, why);
                self.counters.redriven.discarded += 1;
                return Done::Moved;
            }
            RedriveWay::NoTarget | RedriveWay::SameQueue => {
                return Done::NoTarget;
            }
            RedriveWay::NotAllowed => return Done::NotAllowed,
        };
        // Each is asked for room, and as a rule gets it.
        turn.charge_ns(Step::Entry.ns() * (targets.len() as u64).saturating_sub(1));
        for id in &targets {
            if !self.has_room_for_redrive(*id, size_bytes) {
                if let Some(target) = self.queues.get_mut(id) {
                    target.waiters.insert(Waiter::redrive(*id, job.kept.number));
                }
                return Done::Full;
            }
        }
        let before = message.history();
        let redrive = Redrive {
            number: 0,
            job: job.kept.id.clone(),
            job_number: job.kept.number,
            by: job.kept.by.clone(),
            from: job.kept.spec.queue.clone(),
            to,
            time: turn.now.wall,
            deaths: before.map_or(0, |history| history.deaths()),
        };
        let redrives = self.redrives.recent.after(message.redrives(), redrive);
        let history = before.map(|before| self.redrives.brought_back(before));
        let arrival = Arrival {
            durable: is_durable || message.durable(),
            ttl_ms,
            ..Arrival::dead(Arc::new(message.redriven(history, redrives)), route)
        };
        let taken = self.enter_targets(turn, job, (&targets, arrival), (is_durable, body));
        self.counters.redriven.moved += 1;
        self.tell_moved(turn, job, position, taken);
        #[cfg(test)]
        if is_planted(Plant::MovedStays) {
            return Done::Moved;
        }
        self.remove(source, position, MessageState::Ready);
        Done::Moved
    }

    /// Tells that a message was moved, which is still in its source.
    fn tell_moved(
        &mut self,
        turn: &mut Turn<'_>,
        job: &Job,
        position: Position,
        targets: EventTargets,
    ) {
        let place = (job.kept.source, position);
        if let Some((queue, about)) = self.seen(turn.now, place, MessageState::Ready) {
            let moved = EventKind::Redriven {
                job: job.kept.id.clone(),
                by: job.kept.by.clone(),
                targets,
            };
            self.tell(turn, queue, moved, Some(about));
        }
    }

    /// Puts a moved message into its targets, which have room.
    fn enter_targets(
        &mut self,
        turn: &mut Turn<'_>,
        job: &mut Job,
        (targets, arrival): (&[QueueId], Arrival),
        (was_durable, body): (bool, Lsn),
    ) -> EventTargets {
        let mut taken = EventTargets::default();
        let mut insertion = self.insertion(body);
        // The first copy that the journal keeps, which is the one that a restart finds.
        let kept = |id: &QueueId| {
            let queue = self.queues.get(id);
            queue.is_some_and(|queue| queue.keeps(arrival.durable))
        };
        let followed = targets.iter().position(kept).unwrap_or(0);
        let copies = std::iter::repeat_n(arrival, targets.len());
        for (index, (&target, arrival)) in targets.iter().zip(copies).enumerate() {
            let is_followed = index == followed;
            let mark = if is_followed { job.kept.number } else { 0 };
            let mark = u32::try_from(mark).unwrap_or(0);
            let offered = self.offer_marked(turn, target, arrival, (&mut insertion, mark));
            let Offered::Taken { durable } = offered else {
                invariant!(fatal, "a target has the room that it was asked for");
            };
            if was_durable && !durable {
                self.recorder.note_unkept();
            }
            if let Some(queue) = self.queues.get(&target) {
                if job.ramp.is_none() {
                    job.decide_ramp(!queue.consumers.is_empty());
                }
                count_target(&mut job.kept.targets, &queue.name, is_followed);
                taken.add(&queue.name);
            }
        }
        self.record(insertion);
        taken
    }

    /// Whether a queue takes a message of this size without pushing out another one.
    fn has_room_for_redrive(&mut self, id: QueueId, size_bytes: u32) -> bool {
        let queue = self.queues.get(&id);
        !queue.is_some_and(|queue| queue.would_overflow(size_bytes)) || self.has_taker(id)
    }
}

impl Redrives {
    /// The history of a message that is brought back; messages that share one go on doing so.
    fn brought_back(&mut self, before: &Arc<History>) -> Arc<History> {
        if let Some((last, after)) = &self.last_history
            && Arc::ptr_eq(last, before)
        {
            return Arc::clone(after);
        }
        let after = Arc::new(before.redriven());
        self.last_history = Some((Arc::clone(before), Arc::clone(&after)));
        after
    }
}

impl Job {
    /// Decides whether it moves batches: as asked for, or if its target has consumers.
    fn decide_ramp(&mut self, has_consumers: bool) {
        self.ramp = Some(has_consumers);
        if has_consumers {
            (self.kept.batch, self.kept.batch_left) = (1, 1); // this is the message of the first
        }
    }

    /// Why it may not move one more message now, by its rate or its batches.
    fn is_restrained(&mut self, now: Now) -> Option<Next> {
        if let Some(rate_milli) = self.kept.spec.rate_milli {
            let passed_ms = now.mono.since(self.raised_at);
            self.raised_at = now.mono;
            // A burst is a tenth of a second's worth, and at least one message.
            let burst = ALLOWANCE.max(rate_milli.saturating_mul(100));
            let raised = rate_milli.saturating_mul(passed_ms);
            self.allowance = self.allowance.saturating_add(raised).min(burst);
            if self.allowance < ALLOWANCE {
                let lacks = ALLOWANCE - self.allowance;
                let wait_ms = lacks.div_ceil(rate_milli.max(1));
                return Some(Next::At(now.mono.plus(wait_ms)));
            }
        }
        if self.ramp != Some(true) || self.kept.batch_left > 0 {
            return None;
        }
        let over_at = self.batch_moved_at.plus(REDRIVE_BATCH_WAIT_MS);
        let is_first = self.kept.batch == 0;
        if !is_first && self.kept.outstanding() > 0 && now.mono < over_at {
            return Some(Next::At(over_at));
        }
        let next = (self.kept.batch * 2).clamp(1, REDRIVE_BATCH_MAX);
        (self.kept.batch, self.kept.batch_left) = (next, next);
        None
    }
}

/// Counts a copy of a moved message for its target.
fn count_target(targets: &mut Vec<RedrivenTo>, queue: &Name, is_followed: bool) {
    let place = targets.iter().position(|to| to.queue == *queue);
    let place = place.unwrap_or_else(|| {
        let rest = Name::from(RedrivenTo::REST);
        let is_full = targets.len() >= REDRIVE_TARGETS_MAX;
        let name = if is_full { rest } else { queue.clone() };
        if let Some(place) = targets.iter().position(|to| to.queue == name) {
            return place;
        }
        targets.push(RedrivenTo {
            queue: name,
            moved: 0,
            followed: 0,
            settled: 0,
        });
        targets.len() - 1
    });
    if let Some(to) = targets.get_mut(place) {
        to.moved += 1;
        to.followed += u64::from(is_followed && !to.is_rest());
    }
}
