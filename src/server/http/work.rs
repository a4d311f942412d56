//! Work on a vhost's core for a request.

use std::sync::Arc;

use super::api::Call;
use crate::access::Permissions;
use crate::base::{ConnectionId, Gauge, Lsn, Meter, Name};
use crate::broker::ObjectKind;
use crate::broker::registry::Topics;
use crate::management::http::Failure;
use crate::management::{Caller, Operations, Refusal, Status};
use crate::node::Failed;
use crate::server::Vhost;
use crate::server::admin::Admin;

/// The connection id of requests: no queue is exclusive to it.
const NO_CONNECTION: ConnectionId = ConnectionId(0);

impl Call<'_> {
    /// The gauge of answers' memory.
    pub(super) fn kept(&self) -> Gauge {
        self.shared.node.alarms.connections().clone()
    }

    /// The vhost in the path, if it exists.
    pub(super) fn vhost(&self) -> Result<Arc<Vhost>, Failure> {
        let vhost = self.shared.node.vhosts.get(&self.params.get("vhost"));
        vhost.ok_or_else(Failure::not_found)
    }

    /// Carries out operations of the user on the vhost in the path; ready once their changes are
    /// durable.
    pub(super) async fn operate<T>(
        &self,
        work: impl FnOnce(&mut Operations<'_>) -> Result<(T, Lsn), Refusal>,
    ) -> Result<T, Failure> {
        self.operate_after(|_| true, work).await
    }

    /// The same for declaring a queue or an exchange: its policies are searched first, in slices.
    pub(super) async fn declare<T>(
        &self,
        declared: (ObjectKind, &Name),
        work: impl FnOnce(&mut Operations<'_>) -> Result<(T, Lsn), Refusal>,
    ) -> Result<T, Failure> {
        let mut begun = None;
        let prepare =
            |operations: &mut Operations<'_>| operations.match_policies(declared, &mut begun);
        self.operate_after(prepare, work).await
    }

    /// The same after `prepare`, which is called under holds of its own until it is done.
    async fn operate_after<T>(
        &self,
        mut prepare: impl FnMut(&mut Operations<'_>) -> bool,
        work: impl FnOnce(&mut Operations<'_>) -> Result<(T, Lsn), Refusal>,
    ) -> Result<T, Failure> {
        let vhost = self.vhost()?;
        let (permissions, topics) = (self.permissions(), self.topics());
        let caller = Caller {
            user: &self.identity.name,
            permissions: &permissions,
            topics: topics.as_ref(),
            connection: NO_CONNECTION,
            node: &self.shared.settings.node_name,
        };
        let mut work = Some(work);
        loop {
            let done = vhost.work(|now, core, effects| {
                effects.meter = Meter::default();
                let mut operations = Operations {
                    now,
                    caller: &caller,
                    core: &mut *core,
                    effects,
                };
                if !prepare(&mut operations) {
                    return None;
                }
                let done = work.take().map(|work| work(&mut operations))?;
                // Also for an operation that found nothing to do: the state it found may not be
                // durable yet.
                Some(done.map(|(done, lsn)| (done, lsn.max(core.topology_lsn()))))
            });
            if let Some(done) = done.map_err(failed)? {
                let (done, lsn) = done?;
                self.admin().durable(lsn).await?;
                return Ok(done);
            }
            tokio::task::yield_now().await;
        }
    }

    /// A handle for changes of the broker.
    pub(super) fn admin(&self) -> Admin {
        Admin::new(Arc::clone(self.shared))
    }

    /// The user's permissions in the vhost of the path; an administrator without permissions there
    /// may read everything and change nothing.
    pub(super) fn permissions(&self) -> Arc<Permissions> {
        let registry = self.shared.node.environment.registry();
        let found = (self.identity).permissions(&registry, &self.params.get("vhost"));
        found.unwrap_or_else(|| Arc::new(Permissions::none()))
    }

    /// Its topic permissions there; none: all keys are permitted.
    pub(super) fn topics(&self) -> Option<Topics> {
        let registry = self.shared.node.environment.registry();
        let vhost = self.params.get("vhost");
        self.identity.topics(&registry, &vhost)
    }
}

/// The answer to a request that is refused, where a conflict and a limit have statuses of their own.
pub(super) fn refused(refusal: Refusal) -> Failure {
    match refusal.status {
        Status::Conflict => Failure {
            status: 409,
            error: "conflict",
            reason: refusal.why,
        },
        Status::TooMany => Failure::too_many(refusal.why),
        _ => refusal.into(),
    }
}

/// What was seen in a vhost, or none if it was deleted since it was found, as lists over vhosts leave it out.
pub(super) fn unless_deleted<R>(
    vhost: &Vhost,
    seen: Result<R, Failed>,
) -> Result<Option<R>, Failed> {
    match seen {
        Ok(seen) => Ok(Some(seen)),
        Err(Failed) if vhost.is_deleted() => Ok(None),
        Err(Failed) => Err(Failed),
    }
}

/// The answer when a vhost's core has failed.
pub(super) fn failed(_: Failed) -> Failure {
    Failure::unavailable("the vhost failed")
}
