//! Routes to policies and operator policies.

use std::sync::Arc;

use super::api::Call;
use super::aside::aside;
use super::listings::Objects;
use super::objects::resource_gone;
use super::reply::Reply;
use super::work::{failed, unless_deleted};
use crate::base::Lsn;
use crate::broker::policy::PolicySpec;
use crate::broker::{Command, ObjectKind, Policy, Reply as Answer, TopologyCommand};
use crate::management::http::json::topology;
use crate::management::http::{Failure, Fields, Listing};
use crate::management::{Operations, Refusal};
use crate::server::{Vhost, cycles};

/// `GET /api/policies` and `GET /api/policies/VHOST`, and the same for operator policies.
pub(super) async fn list(
    call: &Call<'_>,
    operator: bool,
    vhosts: Vec<Arc<Vhost>>,
) -> Result<Reply, Failure> {
    let listing = Listing::parse(&call.query)?;
    let kept = call.kept();
    aside(move || {
        let mut all = Objects::new(&listing, &kept);
        for vhost in vhosts {
            let policies = vhost.look(|core| core.policies().clone());
            let Some(policies) = unless_deleted(&vhost, policies).map_err(failed)? else {
                continue;
            };
            let listed = policies.list(operator);
            all.extend(listed.map(|policy| topology::policy(vhost.name(), policy)));
        }
        all.reply()
    })
    .await
}

/// `GET /api/policies/VHOST/NAME`.
pub(super) fn get(call: &Call<'_>, operator: bool) -> Result<Reply, Failure> {
    let vhost = call.vhost()?;
    let name = call.params.get("name");
    let seen = vhost.look(|core| core.policies().get(operator, &name).cloned());
    let found = seen.map_err(failed)?.ok_or_else(Failure::not_found)?;
    Ok(Reply::Json(topology::policy(vhost.name(), &found)))
}

/// `PUT /api/policies/VHOST/NAME`.
pub(super) async fn put(call: &Call<'_>, operator: bool) -> Result<Reply, Failure> {
    put_fields(call, operator, &call.fields()?).await
}

/// Sets a policy with these fields.
pub(super) async fn put_fields(
    call: &Call<'_>,
    operator: bool,
    fields: &Fields,
) -> Result<Reply, Failure> {
    fields.refuse_mistyped(&["pattern", "definition", "priority", "apply-to"])?;
    fields.require(&["pattern", "definition"])?;
    let name = call.params.get("name");
    let pattern = fields.text("pattern")?.unwrap_or_default().to_owned();
    let priority = fields.integer("priority")?.unwrap_or_default();
    let apply_to = fields.text("apply-to")?.unwrap_or("all").to_owned();
    let definition = fields.arguments("definition")?;
    // The regular expression is compiled, which takes some milliseconds.
    let policy = aside(move || {
        let spec = PolicySpec {
            name,
            pattern: &pattern,
            priority,
            apply_to: &apply_to,
            definition,
        };
        let checked = spec.check_kept().and_then(|()| Policy::new(operator, spec));
        Ok(checked.map_err(Refusal::from)?)
    })
    .await?;
    let set = policy.name.clone();
    let (created, mut warnings) = call
        .operate(|operations| {
            let policy = Box::new(policy);
            match apply(
                operations,
                Command::Topology(TopologyCommand::PolicySet { operator, policy }),
            )? {
                Answer::PolicySet {
                    created,
                    lsn,
                    warnings,
                } => Ok(((created, warnings), lsn)),
                _ => Ok(((false, Vec::new()), Lsn(0))),
            }
        })
        .await?;
    let vhost = call.vhost()?;
    let end = cycles::search_end(&vhost);
    for warning in cycles::closed_by((operator, &set), &vhost, end).await {
        let (vhost, kind) = (vhost.name(), ObjectKind::Policy);
        tracing::warn!(%vhost, %kind, name = %set, "{warning}");
        warnings.push(warning);
    }
    Ok(Reply::Stored { created, warnings })
}

/// `DELETE /api/policies/VHOST/NAME`.
pub(super) async fn delete(call: &Call<'_>, operator: bool) -> Result<Reply, Failure> {
    let name = call.params.get("name");
    call.operate(|operations| {
        match apply(
            operations,
            Command::Topology(TopologyCommand::PolicyDelete { operator, name }),
        )? {
            Answer::Done { lsn } => Ok(((), lsn)),
            _ => Ok(((), Lsn(0))),
        }
    })
    .await
    .map_err(resource_gone)?;
    Ok(Reply::Done)
}

fn apply(operations: &mut Operations<'_>, command: Command) -> Result<Answer, Refusal> {
    let now = operations.now;
    match operations.core.apply(now, command, operations.effects) {
        Answer::Refused(error) => Err(error.into()),
        answer => Ok(answer),
    }
}
