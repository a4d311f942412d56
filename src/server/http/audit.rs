//! Requests in the audit log.

use super::api::Call;
use super::reply::Reply;
use crate::access::Peer;
use crate::base::Name;
use crate::gateway::{Asked, AuditLog};
use crate::management::http::{Failure, Identity, Params, Route};

/// A request that was let in, as the audit log is to tell of it.
pub(super) struct Audited {
    route: &'static Route,
    peer: Peer,
    user: Name,
    vhost: Name,
    object: String,
}

impl Audited {
    /// What is asked for.
    pub(super) fn new(
        route: &'static Route,
        peer: &Peer,
        identity: &Identity,
        params: &Params,
    ) -> Self {
        Self {
            route,
            peer: peer.clone(),
            user: identity.name.clone(),
            vhost: params.get("vhost"),
            object: params.object(),
        }
    }

    /// Tells what came of it. Who looked is told of only where he may not.
    pub(super) fn tell(&self, log: &AuditLog, answered: &Result<Reply, Failure>) {
        match (self.route.change(), answered) {
            (Some(action), Ok(reply)) => {
                let status = reply.status();
                if status == CREATED || !self.route.endpoint.declares() {
                    log.granted(&self.asked(action, &self.object), status);
                }
            }
            (change, Err(failure)) if change.is_some() || failure.is_for_want_of_rights() => {
                let action = self.route.action();
                log.refused(&self.asked(&action, &self.object), &failure.reason);
            }
            _ => {}
        }
    }

    fn asked<'a>(&'a self, action: &'a str, object: &'a str) -> Asked<'a> {
        Asked {
            user: &self.user,
            peer: &self.peer,
            protocol: "http",
            vhost: &self.vhost,
            action,
            object,
        }
    }
}

impl Call<'_> {
    /// Tells of one of several things that a request changed.
    pub(super) fn audit_granted(&self, action: &str, object: &str) {
        let asked = Asked {
            user: &self.identity.name,
            peer: &self.peer,
            protocol: "http",
            vhost: &self.params.get("vhost"),
            action,
            object,
        };
        let log = &self.shared.node.environment.audit;
        log.granted(&asked, NO_CONTENT);
    }
}

/// The status of what is new.
const CREATED: u16 = 201;
/// The status of what was done.
const NO_CONTENT: u16 = 204;
