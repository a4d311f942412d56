//! Requests in the audit log.

use super::api::Call;
use super::reply::Reply;
use crate::access::Peer;
use crate::base::Name;
use crate::gateway::{Asked, AuditLog};
use crate::management::http::{Failure, Identity, Params, Route};

/// A request as the audit log names it.
pub(super) struct Audited {
    route: &'static Route,
    peer: Peer,
    user: Name,
    vhost: Name,
    object: String,
}

impl Audited {
    /// The action and object of a request.
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

    /// Logs the result of the request. Requests that only read are logged only when they are
    /// forbidden.
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
    /// Logs one of several changes that a request made.
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

/// The status code of a created object.
const CREATED: u16 = 201;
/// The status code of a change without a body.
const NO_CONTENT: u16 = 204;
