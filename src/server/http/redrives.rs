//! Routes to redrives.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::api::Call;
use super::aside::aside;
use super::listings::Objects;
use super::reply::Reply;
use super::rights::require;
use super::scan::{candidate, may_ask_for_users};
use super::work::failed;
use crate::access::{DEFAULT_EXCHANGE_NAME, Right};
use crate::base::limits::{REDRIVE_DRY_RUN_MAX, REDRIVE_DRY_RUN_MS_MAX, REDRIVE_SAMPLE_MAX};
use crate::base::{Position, QueueId};
use crate::broker::exchange::ExchangeKind;
use crate::broker::queue::{MessageState, subqueue};
use crate::broker::redrive::{
    NewRedrive, RedriveCommand, RedriveRights, RedriveSpec, RedriveTarget, RedriveWay, Steering,
};
use crate::broker::{Command, Core, Error, ObjectKind, Reply as Answer};
use crate::management::Refusal;
use crate::management::http::{Failure, Listing, check_redrive_id, redrive, redrive_spec};
use crate::node::ShownMessage;
use crate::server::Vhost;

/// Messages of which a dry run finds the ways under one hold of the core's lock.
const SLICE: usize = 64;

/// `GET /api/redrives` and `GET /api/redrives/VHOST`.
pub(super) async fn list(call: &Call<'_>, vhosts: Vec<Arc<Vhost>>) -> Result<Reply, Failure> {
    let listing = Listing::parse(&call.query)?;
    let kept = call.kept();
    aside(move || {
        let mut all = Objects::new(&listing, &kept);
        for vhost in vhosts {
            let jobs = vhost.look(|core| core.redrives().cloned().collect::<Vec<_>>());
            let jobs = jobs.map_err(failed)?;
            all.extend(jobs.iter().map(|job| redrive(vhost.name(), job)));
        }
        all.reply()
    })
    .await
}

/// `GET /api/redrives/VHOST/ID`.
pub(super) fn get(call: &Call<'_>) -> Result<Reply, Failure> {
    let (vhost, id) = (call.vhost()?, call.params.get("name"));
    let job = vhost.look(|core| core.redrive(&id).cloned());
    let job = job.map_err(failed)?;
    let job = job.ok_or_else(|| refused(Error::NoRedrive { id }))?;
    Ok(Reply::Json(redrive(vhost.name(), &job)))
}

/// `PUT /api/redrives/VHOST/ID`.
pub(super) async fn put(call: &Call<'_>) -> Result<Reply, Failure> {
    let fields = call.fields()?;
    let id = call.params.get("name");
    check_redrive_id(&id)?;
    let spec = redrive_spec(&fields)?;
    check_rights(call, &spec)?;
    let known = call.vhost()?.look(|core| core.redrive(&id).is_some());
    let matched = if known.map_err(failed)? || spec.filter.is_none() {
        None
    } else {
        let run = scan(call, &spec).await?;
        run.is_complete.then_some(run.matched())
    };
    let new = NewRedrive {
        id,
        matched,
        by: call.identity.name.clone(),
        spec,
        rights: rights(call),
    };
    let command = RedriveCommand::Start(Box::new(new));
    let answer = ask(call, command).await?;
    // They may have changed since they were read.
    call.shared.node.tell_redrive_rights(&*call.vhost()?);
    match answer {
        Answer::RedriveSet { created, .. } => Ok(Reply::Stored {
            created,
            warnings: Vec::new(),
        }),
        _ => Ok(Reply::Done),
    }
}

/// `POST /api/redrives/VHOST/ID/pause`, `resume` and `cancel`.
pub(super) async fn steer(call: &Call<'_>, steering: Steering) -> Result<Reply, Failure> {
    call.fields()?.allow(&[])?;
    forget_or_steer(call, steering).await
}

/// `DELETE /api/redrives/VHOST/ID`.
pub(super) async fn forget(call: &Call<'_>) -> Result<Reply, Failure> {
    forget_or_steer(call, Steering::Forget).await
}

async fn forget_or_steer(call: &Call<'_>, steering: Steering) -> Result<Reply, Failure> {
    let id = call.params.get("name");
    let by = call.vhost()?;
    let by = by.look(|core| core.redrive(&id).map(|job| job.by.clone()));
    let Some(by) = by.map_err(failed)? else {
        return Err(refused(Error::NoRedrive { id }));
    };
    if by != call.identity.name && !call.identity.is_administrator() {
        return Err(Failure::not_authorised(format!(
            "redrive '{id}' was made by '{by}': only that user or an administrator steers it"
        )));
    }
    ask(call, RedriveCommand::Steer { id, steering }).await?;
    Ok(Reply::Done)
}

/// Applies a command to the vhost in the path; ready once it is durable.
async fn ask(call: &Call<'_>, command: RedriveCommand) -> Result<Answer, Failure> {
    let (admin, vhost) = (call.admin(), call.params.get("vhost"));
    let command = Command::Redrive(command);
    let (reply, lsn) = admin.begin_command(&vhost, command).await?;
    admin.durable(lsn).await?;
    match reply {
        Answer::Refused(error) => Err(refused(error)),
        reply => Ok(reply),
    }
}

/// The answer to a request that the core refused.
fn refused(error: Error) -> Failure {
    let status = match &error {
        Error::RedriveExists { .. } | Error::RedriveState { .. } => (409, "conflict"),
        Error::TooManyRedrives => (429, "too_many_requests"),
        _ => return Refusal::from(error).into(),
    };
    Failure {
        status: status.0,
        error: status.1,
        reason: error.to_string(),
    }
}

/// The rights of whoever asks.
pub(super) fn rights(call: &Call<'_>) -> RedriveRights {
    RedriveRights {
        permissions: call.permissions(),
        topics: call.topics(),
    }
}

/// Checks the rights on what the body names; those on what each message says are looked at when it
/// is moved.
fn check_rights(call: &Call<'_>, spec: &RedriveSpec) -> Result<(), Failure> {
    require(call, Right::Read, ObjectKind::Queue, &spec.queue)?;
    if let Some(filter) = &spec.filter {
        may_ask_for_users(call, filter)?;
    }
    let write = |exchange: &str| require(call, Right::Write, ObjectKind::Exchange, exchange);
    match &spec.target {
        RedriveTarget::Origin | RedriveTarget::First | RedriveTarget::Queue(_) => {
            write(DEFAULT_EXCHANGE_NAME)
        }
        RedriveTarget::Exchange {
            exchange,
            routing_key,
        } => {
            let shown = if exchange.is_empty() {
                DEFAULT_EXCHANGE_NAME
            } else {
                exchange
            };
            write(shown)?;
            let kind = call.vhost()?.look(|core| {
                let found = core.router().exchange_named(exchange);
                found.map(|found| found.spec.kind)
            });
            let is_topic = kind.map_err(failed)? == Some(ExchangeKind::Topic);
            let keys = [routing_key.clone()];
            if is_topic && !rights(call).may_use(exchange, &keys) {
                return Err(Failure::not_authorised(format!(
                    "user '{}' has no write right on topic '{routing_key}' in exchange '{exchange}'",
                    call.identity.name
                )));
            }
            Ok(())
        }
        RedriveTarget::Original | RedriveTarget::Discard => Ok(()),
    }
}

/// `POST /api/redrives/VHOST/dry-run`.
pub(super) async fn dry_run(call: &Call<'_>) -> Result<Reply, Failure> {
    let spec = redrive_spec(&call.fields()?)?;
    check_rights(call, &spec)?;
    let run = scan(call, &spec).await?;
    let shown = call.vhost()?.look(|core| run.json(core, &spec));
    Ok(Reply::Json(shown.map_err(failed)?))
}

/// Looks through the source of a redrive.
async fn scan(call: &Call<'_>, spec: &RedriveSpec) -> Result<DryRun, Failure> {
    let (vhost, rights, spec) = (call.vhost()?, rights(call), spec.clone());
    let clock = call.shared.clock;
    aside(move || {
        let mut run = DryRun::default();
        // Refused as the redrive would be.
        let known = vhost.look(|core| {
            core.foresee_redrive(&spec, &rights, std::iter::empty())?;
            let source = core.queue(&spec.queue);
            Ok::<_, Error>(source.map_or_else(Vec::new, |source| source.messages.ends()))
        });
        let ends = known.map_err(failed)?.map_err(refused)?;
        let until = clock.now().mono.plus(REDRIVE_DRY_RUN_MS_MAX);
        let is_late = || clock.now().mono > until;
        run.scan(&vhost, (&spec, &rights), &ends, is_late)?;
        Ok(run)
    })
    .await
}

/// What a redrive would do.
#[derive(Default)]
struct DryRun {
    scanned: u64,
    is_complete: bool,
    to: BTreeMap<QueueId, u64>,
    discarded: u64,
    /// Ready messages that the filter means.
    meant: u64,
    held: u64,
    no_target: u64,
    not_allowed: u64,
    same_queue: u64,
    sample: Vec<Position>,
}

impl DryRun {
    /// Looks at the messages of the source in all states, those that are ready first.
    fn scan(
        &mut self,
        vhost: &Vhost,
        (spec, rights): (&RedriveSpec, &RedriveRights),
        ends: &[Position],
        is_late: impl Fn() -> bool,
    ) -> Result<(), Failure> {
        for state in MessageState::ALL {
            let mut next = Some(Position(0));
            while let Some(from) = next {
                if self.scanned >= REDRIVE_DRY_RUN_MAX || is_late() {
                    return Ok(());
                }
                let piece = vhost.browse(&spec.queue, state, from, SLICE);
                let piece = piece.map_err(failed)?;
                next = piece.next;
                let was_there = |position: Position| {
                    let end = ends.get(subqueue(position));
                    end.is_some_and(|end| position < *end)
                };
                let mut seen = piece.messages;
                seen.retain(|seen| was_there(seen.position));
                self.scanned += seen.len() as u64;
                // The filter may look through much of a body: without the core's lock.
                seen.retain(|seen| spec.means(&candidate(seen)).0);
                if state == MessageState::Ready {
                    self.find_ways(vhost, (spec, rights), &seen)?;
                } else {
                    self.held += seen.len() as u64;
                }
            }
        }
        self.is_complete = true;
        Ok(())
    }

    /// Finds out where ready messages would go that are meant.
    fn find_ways(
        &mut self,
        vhost: &Vhost,
        (spec, rights): (&RedriveSpec, &RedriveRights),
        mut meant: &[ShownMessage],
    ) -> Result<(), Failure> {
        while !meant.is_empty() {
            let messages = meant.iter().map(|seen| &*seen.message);
            let ways = vhost.look(|core| core.foresee_redrive(spec, rights, messages));
            let ways = ways.map_err(failed)?.map_err(refused)?;
            let found = ways.len().max(1);
            for (seen, way) in meant.iter().zip(ways) {
                self.count(seen.position, way);
            }
            meant = meant.get(found..).unwrap_or_default();
        }
        Ok(())
    }

    /// Messages that are meant.
    const fn matched(&self) -> u64 {
        self.meant + self.held
    }

    fn count(&mut self, position: Position, way: RedriveWay) {
        self.meant += 1;
        match way {
            RedriveWay::To(queues) => {
                for queue in queues {
                    *self.to.entry(queue).or_default() += 1;
                }
            }
            RedriveWay::Discarded => self.discarded += 1,
            RedriveWay::NoTarget => self.no_target += 1,
            RedriveWay::SameQueue => self.same_queue += 1,
            RedriveWay::NotAllowed => self.not_allowed += 1,
        }
        if self.sample.len() < REDRIVE_SAMPLE_MAX {
            self.sample.push(position);
        }
    }

    fn json(&self, core: &Core, spec: &RedriveSpec) -> Value {
        let mut warnings = Vec::new();
        let targets: Vec<Value> = (self.to.iter())
            .filter_map(|(id, messages)| {
                let queue = core.queue_by_id(*id)?;
                let max = queue.settings.max_length;
                let room = max.map(|max| max.saturating_sub(queue.messages.ready()));
                if room.is_some_and(|room| room < *messages) {
                    warnings.push(format!(
                        "the queue '{}' has room for {} of {messages} messages: the redrive would \
                         wait for consumers",
                        queue.name,
                        room.unwrap_or(0)
                    ));
                }
                Some(json!({
                    "queue": &*queue.name,
                    "messages": messages,
                    "consumers": queue.consumers.len(),
                    "room": room,
                    "durable": queue.durable,
                }))
            })
            .collect();
        if spec.target == RedriveTarget::Original {
            let all = "every queue bound to the first exchange gets the messages again, also those \
                       that had processed them";
            warnings.push(all.to_owned());
        }
        let sample: Vec<String> = (self.sample.iter())
            .map(|position| position.0.to_string())
            .collect();
        json!({
            "matched": self.matched(),
            "scanned": self.scanned,
            "complete": self.is_complete,
            "targets": targets,
            "discarded": self.discarded,
            "skipped": {
                "held": self.held,
                "no_target": self.no_target,
                "not_allowed": self.not_allowed,
                "same_queue": self.same_queue,
            },
            "sample": sample,
            "warnings": warnings,
        })
    }
}
