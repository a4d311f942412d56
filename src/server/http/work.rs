//! Work on a vhost's core for a request.

use std::sync::Arc;

use super::api::Call;
use crate::access::Permissions;
use crate::base::{ConnectionId, Gauge, Lsn, Meter, Name};
use crate::broker::ObjectKind;
use crate::broker::registry::TopicMap;
use crate::management::http::Failure;
use crate::management::{Caller, Operations, Refusal};
use crate::node::Failed;
use crate::server::Vhost;
use crate::server::admin::Admin;

/// Stands for the connection of a request: no queue belongs to it.
const NO_CONNECTION: ConnectionId = ConnectionId(0);

impl Call<'_> {
    /// Where the memory of answers is counted.
    pub(super) fn kept(&self) -> Gauge {
        self.shared.node.alarms.connections().clone()
    }

    /// The vhost in the path.
    pub(super) fn vhost(&self) -> Result<Arc<Vhost>, Failure> {
        let vhost = self.shared.node.vhosts.get(&self.params.get("vhost"));
        vhost.ok_or_else(Failure::not_found)
    }

    /// Carries out operations of the user on the vhost in the path; ready once what they changed
    /// is durable.
    pub(super) async fn operate<T>(
        &self,
        work: impl FnOnce(&mut Operations<'_>) -> Result<(T, Lsn), Refusal>,
    ) -> Result<T, Failure> {
        self.operate_after(|_| true, work).await
    }

    /// The same for what declares a queue or an exchange: its policies are looked for first, in pieces.
    pub(super) async fn declare<T>(
        &self,
        declared: (ObjectKind, &Name),
        work: impl FnOnce(&mut Operations<'_>) -> Result<(T, Lsn), Refusal>,
    ) -> Result<T, Failure> {
        let mut begun = None;
        let prepare = |operations: &mut Operations<'_>| operations.foresee(declared, &mut begun);
        self.operate_after(prepare, work).await
    }

    /// The same once it is prepared, which is asked for under a hold of its own each time but the last.
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
            topics: topics.as_deref(),
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
                // What was found as it should be may itself not be durable yet.
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

    /// What changes the broker.
    pub(super) fn admin(&self) -> Admin {
        Admin::new(Arc::clone(self.shared))
    }

    /// What the user may do in the vhost in the path; an administrator without permissions there
    /// may look at everything and do nothing.
    pub(super) fn permissions(&self) -> Arc<Permissions> {
        let registry = self.shared.node.environment.registry();
        let found = registry.permissions(&self.params.get("vhost"), &self.identity.name);
        found.map_or_else(|| Arc::new(Permissions::none()), Arc::clone)
    }

    /// What it may do with topic exchanges there; none: anything.
    fn topics(&self) -> Option<Arc<TopicMap>> {
        let registry = self.shared.node.environment.registry();
        let vhost = self.params.get("vhost");
        (registry.topic_permissions(&vhost, &self.identity.name)).map(Arc::clone)
    }
}

/// What is told of a vhost whose core failed.
pub(super) fn failed(_: Failed) -> Failure {
    Failure::unavailable("the vhost failed")
}
