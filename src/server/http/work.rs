//! Work on a vhost's core for a request.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use super::api::Call;
use crate::access::Permissions;
use crate::base::{ConnectionId, Lsn};
use crate::management::http::Failure;
use crate::management::{Caller, Operations, Refusal};
use crate::server::outbox::Outbox;
use crate::server::vhost::{Failed, Vhost};

/// Stands for the connection of a request: no queue belongs to it.
const NO_CONNECTION: ConnectionId = ConnectionId(0);
/// How long an answer waits for the journal.
const DURABLE_TIMEOUT: Duration = Duration::from_mins(1);

impl Call<'_> {
    /// The vhost in the path.
    pub(super) fn vhost(&self) -> Result<Arc<Vhost>, Failure> {
        let vhost = self.shared.vhost(&self.params.get("vhost"));
        vhost.ok_or_else(Failure::not_found)
    }

    /// Carries out operations of the user on the vhost in the path; ready once what they changed
    /// is durable.
    pub(super) async fn operate<T>(
        &self,
        work: impl FnOnce(&mut Operations<'_>) -> Result<(T, Lsn), Refusal>,
    ) -> Result<T, Failure> {
        let vhost = self.vhost()?;
        let permissions = self.permissions()?;
        let caller = Caller {
            user: &self.identity.name,
            permissions: &permissions,
            connection: NO_CONNECTION,
            node: &self.shared.settings.node_name,
        };
        let (done, lsn) = vhost
            .operate(|now, core, effects| {
                work(&mut Operations {
                    now,
                    caller: &caller,
                    core,
                    effects,
                })
            })
            .map_err(failed)??;
        durable(&vhost, lsn).await?;
        Ok(done)
    }

    /// What the user may do in the vhost in the path; an administrator without permissions there
    /// may look at everything and do nothing.
    pub(super) fn permissions(&self) -> Result<Permissions, Failure> {
        let registry = self.shared.environment.registry.read();
        let found = registry.permissions(&self.params.get("vhost"), &self.identity.name);
        match found {
            Some(permissions) => Ok(permissions.clone()),
            None => Permissions::new("", "", "")
                .map_err(|error| Failure::bad_request(error.to_string())),
        }
    }
}

/// Ready once everything up to an LSN is durable.
pub(super) async fn durable(vhost: &Vhost, lsn: Lsn) -> Result<(), Failure> {
    let waiting = async {
        let outbox = Arc::new(Outbox::default());
        while vhost.durable() < lsn {
            vhost.call_when_durable(lsn, &outbox);
            poll_fn(|context| outbox.poll_ready(context)).await;
        }
    };
    let late = |_| Failure::unavailable("the journal does not confirm it");
    tokio::time::timeout(DURABLE_TIMEOUT, waiting)
        .await
        .map_err(late)
}

/// What is told of a vhost whose core failed.
pub(super) fn failed(_: Failed) -> Failure {
    Failure::unavailable("the vhost failed")
}
