//! Routes to redrives.

use std::sync::Arc;

use super::api::Call;
use super::aside::aside;
use super::listings::Objects;
use super::reply::Reply;
use super::rights::require;
use super::scan::{may_ask_for_users, scanning};
use super::work::{failed, refused, unless_deleted};
use crate::access::{DEFAULT_EXCHANGE_NAME, Right};
use crate::base::limits::REDRIVE_DRY_RUN_MS_MAX;
use crate::broker::exchange::ExchangeKind;
use crate::broker::redrive::{
    NewRedrive, RedriveCommand, RedriveRights, RedriveSpec, RedriveTarget, Steering,
};
use crate::broker::{Command, Error, ObjectKind, Reply as Answer};
use crate::management::http::{
    Failure, Listing, forecast as forecast_json, redrive, redrive_dry_run, redrive_spec,
};
use crate::management::{DryRunPlace, RedriveForecast, check_redrive_id};
use crate::server::Vhost;
use crate::server::redriving::forecast;

/// `GET /api/redrives` and `GET /api/redrives/VHOST`.
pub(super) async fn list(call: &Call<'_>, vhosts: Vec<Arc<Vhost>>) -> Result<Reply, Failure> {
    let listing = Listing::parse(&call.query)?;
    let (kept, clock) = (call.kept(), call.shared.clock);
    aside(move || {
        let mut all = Objects::new(&listing, &kept);
        for vhost in vhosts {
            let now = clock.now().mono;
            let jobs = vhost.look(|core| {
                let jobs = core.redrives();
                let shown = jobs.map(|job| (job.clone(), core.redrive_rate(job, now)));
                shown.collect::<Vec<_>>()
            });
            let jobs = unless_deleted(&vhost, jobs).map_err(failed)?;
            let jobs = jobs.unwrap_or_default();
            let shown = jobs
                .iter()
                .map(|(job, rate)| redrive(vhost.name(), (job, *rate)));
            all.extend(shown);
        }
        all.reply()
    })
    .await
}

/// `GET /api/redrives/VHOST/ID`.
pub(super) fn get(call: &Call<'_>) -> Result<Reply, Failure> {
    let (vhost, id) = (call.vhost()?, call.params.get("name"));
    let now = call.shared.clock.now().mono;
    let job = vhost.look(|core| {
        let job = core.redrive(&id)?;
        Some((job.clone(), core.redrive_rate(job, now)))
    });
    let job = job.map_err(failed)?;
    let (job, rate) = job.ok_or_else(|| refused(Error::NoRedrive { id }.into()))?;
    Ok(Reply::Json(redrive(vhost.name(), (&job, rate))))
}

/// `PUT /api/redrives/VHOST/ID`.
pub(super) async fn put(call: &Call<'_>) -> Result<Reply, Failure> {
    if call.identity.grant.is_some() {
        return Err(Failure::not_authorised(
            "a redrive is not started with a token: it goes on with the rights of its user, also after a \
             token has ended. Log in as a user of the broker, with a password, to start it (coroner redrive \
             --username NAME --password PASSWORD); a token does for its dry run",
        ));
    }
    let fields = call.fields()?;
    let id = call.params.get("name");
    check_redrive_id(&id)?;
    let spec = redrive_spec(&fields)?;
    check_rights(call, &spec)?;
    let known = call.vhost()?.look(|core| core.redrive(&id).is_some());
    let matched = if known.map_err(failed)? || spec.filter.is_none() {
        None
    } else {
        let found = foresee(call, (&spec, DryRunPlace::BEGIN)).await?;
        found.is_complete.then_some(found.matched)
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
        return Err(refused(Error::NoRedrive { id }.into()));
    };
    if !call.identity.is_user(&by, false) && !call.identity.is_administrator() {
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
        Answer::Refused(error) => Err(refused(error.into())),
        reply => Ok(reply),
    }
}

/// The rights of whoever asks.
pub(super) fn rights(call: &Call<'_>) -> RedriveRights {
    RedriveRights {
        permissions: call.permissions(),
        topics: call.topics(),
        users_by_token: (!call.identity.is_monitor()).then_some(call.identity.grant.is_some()),
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
    let (mut spec, from) = redrive_dry_run(&call.fields()?)?;
    check_rights(call, &spec)?;
    if let Some(by_token) = rights(call).users_by_token {
        let filter = spec.filter.as_deref().cloned();
        spec.filter = filter.map(|filter| Arc::new(filter.with_users_by_token(by_token)));
    }
    let found = foresee(call, (&spec, from)).await?;
    Ok(Reply::Json(forecast_json(&found)))
}

/// Looks through the source of a redrive, from a place on.
async fn foresee(
    call: &Call<'_>,
    (spec, from): (&RedriveSpec, DryRunPlace),
) -> Result<RedriveForecast, Failure> {
    let (vhost, rights, spec) = (call.vhost()?, rights(call), spec.clone());
    let (clock, store) = (call.shared.clock, call.shared.node.store.clone());
    scanning(move || {
        let until = clock.now().mono.plus(REDRIVE_DRY_RUN_MS_MAX);
        let is_late = || clock.now().mono > until;
        let place = (&*vhost, store.as_deref());
        Ok(forecast(place, (&spec, &rights), from, is_late)?)
    })
    .await
}
