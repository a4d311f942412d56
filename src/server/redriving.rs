//! Redrives for programs that embed the broker, and what a redrive would do, for the HTTP API too.
//! [evidence part 6]

use std::collections::BTreeMap;

use super::admin::{Admin, failed, internal};
use super::scan::is_meant;
use super::yielding::give_way;
use super::{Store, Vhost};
use crate::base::limits::{REDRIVE_DRY_RUN_MAX, REDRIVE_DRY_RUN_MS_MAX, REDRIVE_SAMPLE_MAX};
use crate::base::{Name, Position, QueueId};
use crate::broker::queue::{MessageState, Usage, subqueue};
use crate::broker::redrive::{
    NewRedrive, RedriveCommand, RedriveRights, RedriveSpec, RedriveTarget, RedriveWay, Steering,
};
use crate::broker::{Command, Core, Error, Reply};
use crate::management::{
    DryRunPlace, RedriveForecast, RedriveGoal, RedriveRequest, RedriveStatus, Refusal,
    check_redrive_id,
};
use crate::node::{ShownMessage, redrive_rights};

/// Messages of which a dry run finds the ways under one hold of the core's lock.
const SLICE: usize = 64;

impl Admin {
    /// Makes a redrive: a job that moves messages of a queue back, each in one record of the journal,
    /// beside the traffic and over restarts. True: it was made; false: there is one of this id
    /// that was asked for the same, running or over, and nothing is done twice.
    ///
    /// Errors: 400: the id, a part of the filter or another field is not valid, source and target are
    /// the same queue, or the target would lose what the source keeps. 404: there is no such vhost or
    /// queue. 409: there is another redrive of this id. 429: eight are not over. 500: the vhost or
    /// the journal failed.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use coroner::{Broker, RedriveRequest, Value};
    ///
    /// let broker = Broker::builder().start().await?;
    /// let admin = broker.admin();
    /// let to = |name: &str| Value::String(name.to_owned());
    /// let dead = [
    ///     ("x-dead-letter-exchange", to("")),
    ///     ("x-dead-letter-routing-key", to("failed")),
    /// ];
    /// admin.declare_queue("/", "jobs", &dead).await?;
    /// admin.declare_queue("/", "failed", &[]).await?;
    /// broker.publisher("/queues/jobs").open().await?.publish("cut the hedge").await?;
    /// let mut jobs = broker.consumer("/queues/jobs").open().await?;
    /// jobs.next().await?.reject(None);
    ///
    /// // The shears are sharp again: back to where it failed.
    /// let rejected = RedriveRequest::of("failed").only("reason", to("rejected"));
    /// let mut forecast = admin.redrive_dry_run("/", &rejected).await?;
    /// while forecast.matched == 0 {
    ///     tokio::time::sleep(Duration::from_millis(10)).await;
    ///     forecast = admin.redrive_dry_run("/", &rejected).await?;
    /// }
    /// assert_eq!((forecast.matched, &*forecast.targets[0].queue), (1, "jobs"));
    /// assert!(admin.redrive("/", "sharpened", &rejected).await?);
    ///
    /// jobs.next().await?.accept();
    /// while admin.redrive_status("/", "sharpened")?.outstanding > 0 {
    ///     tokio::time::sleep(Duration::from_millis(10)).await;
    /// }
    /// let status = admin.redrive_status("/", "sharpened")?;
    /// assert_eq!((status.state, status.moved, status.accepted), ("completed", 1, 1));
    /// admin.forget_redrive("/", "sharpened").await?;
    /// # broker.stop().await;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn redrive(
        &self,
        vhost: &str,
        id: &str,
        request: &RedriveRequest,
    ) -> Result<bool, Refusal> {
        check_redrive_id(id)?;
        let spec = request.clone().spec()?;
        let is_known = self.look(vhost, |core| core.redrive(id).is_some())?;
        let matched = if is_known || spec.filter.is_none() {
            None
        } else {
            let from = DryRunPlace::BEGIN;
            let run = self.foresee(vhost, (spec.clone(), from)).await?;
            run.is_complete.then_some(run.matched)
        };
        let new = NewRedrive {
            id: Name::from(id),
            by: Name::default(),
            spec,
            matched,
            rights: self.own_rights(vhost)?,
        };
        let command = RedriveCommand::Start(Box::new(new));
        let reply = self.apply(vhost, Command::Redrive(command)).await?;
        Ok(matches!(reply, Reply::RedriveSet { created: true, .. }))
    }

    /// What a redrive would do now: how many messages it means, where they would go, how much room
    /// there is, and which it would pass. Changes nothing.
    ///
    /// Errors: as of [`Admin::redrive`], but for 409 and 429.
    pub async fn redrive_dry_run(
        &self,
        vhost: &str,
        request: &RedriveRequest,
    ) -> Result<RedriveForecast, Refusal> {
        let spec = request.clone().spec()?;
        self.foresee(vhost, (spec, DryRunPlace::BEGIN)).await
    }

    /// The same behind the messages that a dry run looked at: of those there is what
    /// [`RedriveForecast::next`] said. Its numbers are of what it looks at itself.
    ///
    /// Errors: as of [`Admin::redrive_dry_run`]; 400 also where `from` is none of these.
    pub async fn redrive_dry_run_from(
        &self,
        vhost: &str,
        request: &RedriveRequest,
        from: &str,
    ) -> Result<RedriveForecast, Refusal> {
        let from = DryRunPlace::parse(from)?;
        self.foresee(vhost, (request.clone().spec()?, from)).await
    }

    async fn foresee(
        &self,
        vhost: &str,
        (spec, from): (RedriveSpec, DryRunPlace),
    ) -> Result<RedriveForecast, Refusal> {
        let (core, rights) = (self.vhost(vhost)?, self.own_rights(vhost)?);
        let (clock, store) = (self.shared().clock, self.shared().node.store.clone());
        let run = tokio::task::spawn_blocking(move || {
            let until = clock.now().mono.plus(REDRIVE_DRY_RUN_MS_MAX);
            let is_late = || clock.now().mono > until;
            let place = (&*core, store.as_deref());
            forecast(place, (&spec, &rights), from, is_late)
        });
        let broke = |_| Err(internal("looking through the queue failed".to_owned()));
        run.await.unwrap_or_else(broke)
    }

    /// The redrives of a vhost, in the order in which they were made: those that are not over, and
    /// the last hundred that are.
    ///
    /// Errors: 404: there is no such vhost. 500: it failed.
    pub fn redrives(&self, vhost: &str) -> Result<Vec<RedriveStatus>, Refusal> {
        self.look(vhost, |core| {
            core.redrives().map(RedriveStatus::of).collect()
        })
    }

    /// How far a redrive is, and what became of what it moved.
    ///
    /// Errors: 404: there is no such vhost or redrive. 500: the vhost failed.
    pub fn redrive_status(&self, vhost: &str, id: &str) -> Result<RedriveStatus, Refusal> {
        let status = self.look(vhost, |core| core.redrive(id).map(RedriveStatus::of))?;
        let id = Name::from(id);
        status.ok_or_else(|| Error::NoRedrive { id }.into())
    }

    /// Lets a redrive move nothing until it is resumed.
    ///
    /// Errors: 404: there is no such vhost or redrive. 409: it is over. 500: the vhost or the
    /// journal failed.
    pub async fn pause_redrive(&self, vhost: &str, id: &str) -> Result<(), Refusal> {
        self.steer_redrive(vhost, id, Steering::Pause).await
    }

    /// Lets a redrive go on that is paused.
    ///
    /// Errors: as of [`Admin::pause_redrive`].
    pub async fn resume_redrive(&self, vhost: &str, id: &str) -> Result<(), Refusal> {
        self.steer_redrive(vhost, id, Steering::Resume).await
    }

    /// Ends a redrive; what it moved stays moved.
    ///
    /// Errors: as of [`Admin::pause_redrive`]; one that was cancelled before is no error.
    pub async fn cancel_redrive(&self, vhost: &str, id: &str) -> Result<(), Refusal> {
        self.steer_redrive(vhost, id, Steering::Cancel).await
    }

    /// Forgets a redrive that is over; its id can be used again.
    ///
    /// Errors: as of [`Admin::pause_redrive`], but 409: it is not over.
    pub async fn forget_redrive(&self, vhost: &str, id: &str) -> Result<(), Refusal> {
        self.steer_redrive(vhost, id, Steering::Forget).await
    }

    async fn steer_redrive(
        &self,
        vhost: &str,
        id: &str,
        steering: Steering,
    ) -> Result<(), Refusal> {
        let id = Name::from(id);
        let command = RedriveCommand::Steer { id, steering };
        self.apply(vhost, Command::Redrive(command)).await?;
        Ok(())
    }

    fn look<T>(&self, vhost: &str, look: impl FnOnce(&Core) -> T) -> Result<T, Refusal> {
        self.vhost(vhost)?.look(look).map_err(|_| failed(vhost))
    }

    /// What the program that embeds the broker may do: everything.
    fn own_rights(&self, vhost: &str) -> Result<RedriveRights, Refusal> {
        let rights = redrive_rights(&self.registry(), &Name::from(vhost), &Name::default());
        rights.ok_or_else(|| internal("permissions for everything are not valid".to_owned()))
    }
}

/// What a redrive would do, found out with the core's lock held only now and then; `is_late` says
/// when it has taken too long.
pub(super) fn forecast(
    (vhost, store): (&Vhost, Option<&Store>),
    (spec, rights): (&RedriveSpec, &RedriveRights),
    from: DryRunPlace,
    is_late: impl Fn() -> bool,
) -> Result<RedriveForecast, Refusal> {
    let failed = |_| failed(vhost.name());
    // Refused as the redrive would be.
    let ends = vhost.look(|core| {
        core.foresee_redrive(spec, rights, std::iter::empty())?;
        let source = core.queue(&spec.queue);
        Ok::<_, Error>(source.map_or_else(Vec::new, |source| source.messages.ends()))
    });
    let ends = ends.map_err(failed)??;
    let mut run = DryRun::default();
    let next = run.scan((vhost, store), (spec, rights), (from, &ends), is_late)?;
    run.forecast.is_complete = next.is_none();
    run.forecast.next = next.map(|next| next.to_string());
    let to = std::mem::take(&mut run.to);
    let goals = vhost.look(|core| goals(core, &to));
    run.forecast.targets = goals.map_err(failed)?;
    warn(&mut run.forecast, spec);
    Ok(run.forecast)
}

/// Those that the filter means. It may look through much of a body: without the core's lock.
fn those_meant(
    spec: &RedriveSpec,
    seen: Vec<ShownMessage>,
    store: Option<&Store>,
) -> Result<Vec<ShownMessage>, Refusal> {
    let Some(filter) = &spec.filter else {
        return Ok(seen);
    };
    let mut meant = Vec::new();
    for seen in seen {
        if is_meant(filter, &seen, store)? {
            meant.push(seen);
        }
    }
    Ok(meant)
}

fn goals(core: &Core, to: &BTreeMap<QueueId, Usage>) -> Vec<RedriveGoal> {
    let goals = to.iter().filter_map(|(id, going)| {
        let queue = core.queue_by_id(*id)?;
        Some(RedriveGoal {
            queue: queue.name.to_string(),
            messages: going.messages,
            consumers: queue.consumers.len(),
            room: queue.room(*going),
            durable: queue.durable,
        })
    });
    goals.collect()
}

fn warn(forecast: &mut RedriveForecast, spec: &RedriveSpec) {
    for goal in &forecast.targets {
        if let Some(room) = goal.room.filter(|room| *room < goal.messages) {
            forecast.warnings.push(format!(
                "the queue '{}' has room for {room} of {} messages: the redrive would wait for \
                 consumers",
                goal.queue, goal.messages
            ));
        }
    }
    if let (Some(max), left @ 1..) = (spec.max, forecast.left) {
        forecast.warnings.push(format!(
            "the redrive would end after {max} messages, its 'max': it would leave {left} more that are meant"
        ));
    }
    if spec.target == RedriveTarget::Original {
        let all = "every queue bound to the first exchange gets the messages again, also those \
                   that had processed them";
        forecast.warnings.push(all.to_owned());
    }
}

/// What a redrive would do, while it is found out.
#[derive(Default)]
struct DryRun {
    forecast: RedriveForecast,
    /// What would go to each queue.
    to: BTreeMap<QueueId, Usage>,
    /// Messages that would be moved or dropped.
    moved: u64,
    /// The last of them, where it would be the last that the redrive may move.
    end: Option<Position>,
}

impl DryRun {
    /// Looks at the messages of the source in all states, those that are ready first, from a place
    /// on. Returns where it would go on; none: it is through.
    fn scan(
        &mut self,
        (vhost, store): (&Vhost, Option<&Store>),
        (spec, rights): (&RedriveSpec, &RedriveRights),
        (from, ends): (DryRunPlace, &[Position]),
        is_late: impl Fn() -> bool,
    ) -> Result<Option<DryRunPlace>, Refusal> {
        let mut begin = Some(from);
        for state in MessageState::ALL {
            if begin.is_some_and(|begin| begin.state != state) {
                continue; // looked at before
            }
            let mut next = begin.take().map(|begin| begin.position);
            next = next.or(Some(Position(0)));
            while let Some(from) = next {
                if self.forecast.scanned >= REDRIVE_DRY_RUN_MAX || is_late() {
                    let position = from;
                    return Ok(Some(DryRunPlace { state, position }));
                }
                give_way();
                let piece = vhost.browse(&spec.queue, state, from, SLICE);
                let piece = piece.map_err(|_| failed(vhost.name()))?;
                next = piece.next;
                let was_there = |position: Position| {
                    let end = ends.get(subqueue(position));
                    end.is_some_and(|end| position < *end)
                };
                let mut seen = piece.messages;
                seen.retain(|seen| was_there(seen.position));
                self.forecast.scanned += seen.len() as u64;
                let seen = those_meant(spec, seen, store)?;
                self.forecast.matched += seen.len() as u64;
                if state == MessageState::Ready {
                    self.find_ways(vhost, (spec, rights), &seen)?;
                } else {
                    let is_left = |seen: &&ShownMessage| self.is_behind_end(spec, seen.position);
                    let left = seen.iter().filter(is_left).count() as u64;
                    self.forecast.left += left;
                    self.forecast.held += seen.len() as u64 - left;
                }
            }
        }
        Ok(None)
    }

    /// Finds out where ready messages would go that are meant.
    fn find_ways(
        &mut self,
        vhost: &Vhost,
        (spec, rights): (&RedriveSpec, &RedriveRights),
        mut meant: &[ShownMessage],
    ) -> Result<(), Refusal> {
        while !meant.is_empty() {
            if self.end.is_some() || spec.max == Some(0) {
                self.forecast.left += meant.len() as u64;
                return Ok(());
            }
            let messages = meant.iter().map(|seen| &*seen.message);
            let ways = vhost.look(|core| core.foresee_redrive(spec, rights, messages));
            let ways = ways.map_err(|_| failed(vhost.name()))??;
            let found = ways.len().max(1);
            for (seen, way) in meant.iter().zip(ways) {
                if self.end.is_some() {
                    self.forecast.left += 1;
                } else {
                    self.count(spec, seen, way);
                }
            }
            meant = meant.get(found..).unwrap_or_default();
        }
        Ok(())
    }

    /// Whether the redrive would have ended before it came to this place.
    fn is_behind_end(&self, spec: &RedriveSpec, position: Position) -> bool {
        spec.max == Some(0) || self.end.is_some_and(|end| position > end)
    }

    fn count(&mut self, spec: &RedriveSpec, seen: &ShownMessage, way: RedriveWay) {
        let position = seen.position;
        let is_moved = matches!(way, RedriveWay::To(_) | RedriveWay::Discarded);
        self.moved += u64::from(is_moved);
        if spec.max.is_some_and(|max| self.moved >= max) {
            self.end = Some(position);
        }
        let forecast = &mut self.forecast;
        match way {
            RedriveWay::To(queues) => {
                for queue in queues {
                    let going = self.to.entry(queue).or_default();
                    going.messages += 1;
                    going.bytes += seen.message.bare_len() as u64;
                }
            }
            RedriveWay::Discarded => forecast.discarded += 1,
            RedriveWay::NoTarget => forecast.no_target += 1,
            RedriveWay::SameQueue => forecast.same_queue += 1,
            RedriveWay::NotAllowed => forecast.not_allowed += 1,
        }
        if forecast.sample.len() < REDRIVE_SAMPLE_MAX {
            forecast.sample.push(position.0);
        }
    }
}
