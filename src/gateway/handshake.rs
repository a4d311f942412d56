//! The handshake: which vhost a peer enters, and what its user may do there.

use std::sync::Arc;

use super::Gateway;
use super::audit::Asked;
use super::describe::ConnectionInfo;
use super::errors;
use super::renewal::RenewalError;
use super::seats::{ClientId, Seat};
use super::terminus::has_capability;
use super::work::{Asker, Work};
use crate::access::{Grant, Permissions, Proven, Right, Tag, TokenError, TopicPermissions, User};
use crate::base::{Millis, Name, Now, uncount};
use crate::broker::registry::{Registry, Rights, Topics, Vhost};
use crate::broker::{Command, Error as CoreError};
use crate::deaths::Viewer;
use crate::management::{Outcome, Status};
use crate::wire::performative::{Error, Open};

/// `open.hostname` of this form names the vhost.
const VHOST_PREFIX: &str = "vhost:";
/// Connection capability: no other connection has the same container-id.
const SOLE_CONNECTION: &str = "sole-connection-for-container";
/// The user name shown for the program that embeds the broker.
const EMBEDDER: &str = "(embedder)";

/// The authenticated user, and its permissions in the vhost of the connection.
#[derive(Debug)]
pub(super) struct Login {
    /// The user's name.
    pub(super) user: Name,
    /// Whether it may send messages with the user-id of others.
    impersonator: bool,
    /// Whether it may see the identities of other users.
    monitor: bool,
    /// The user's permissions in the vhost.
    pub(super) permissions: Arc<Permissions>,
    /// Its topic permissions in the vhost; none: all keys are permitted.
    topics: Option<Topics>,
    /// What its token grants; none: it is a user of the registry.
    grant: Option<Arc<Grant>>,
    /// When the end of the token is looked at next.
    ends: Millis,
    /// The registry's generation that its permissions are of.
    generation: u64,
    /// Number of tokens that took the place of others.
    renewals: u64,
    /// Serial numbers of user and vhost at login, by which deletion and re-creation are noticed.
    serials: (u64, u64),
    /// Whether it is the embedding program: not a user of the registry, with all permissions.
    is_embedder: bool,
    /// Counts it among the open connections of vhost and user.
    _seat: Seat,
    /// Its claim on its client id; none once it is closed, or if client ids are nobody's.
    client_id: Option<ClientId>,
}

impl Login {
    /// Frees the client id: the connection is closed.
    pub(super) fn leave_container(&mut self) {
        self.client_id = None;
    }

    /// Whether it may send messages with this user-id. [AMQP 3.2.4]
    pub(super) fn may_send_as(&self, user_id: &[u8]) -> bool {
        self.impersonator || user_id == self.user.as_bytes()
    }

    /// Its permissions on the keys of a topic exchange; none: all keys are permitted.
    pub(super) fn topic(&self, exchange: &str) -> Option<Arc<TopicPermissions>> {
        self.topics.as_ref()?.get(exchange)
    }

    /// Updates the permissions from the registry. Those of a token do not depend on it.
    fn follow(&mut self, registry: &Registry, vhost: &Name) {
        if self.grant.is_some() {
            return;
        }
        let rights = registry.rights(vhost, &self.user, None);
        self.set_rights(rights);
        let user = registry.user(&self.user);
        self.impersonator = user.is_some_and(|user| user.has_tag(&Tag::Impersonator));
        self.monitor = user.is_some_and(is_monitor);
    }

    fn set_rights(&mut self, rights: Option<Rights>) {
        (self.permissions, self.topics) = match rights {
            Some(rights) => (rights.permissions, rights.topics),
            None => (Arc::new(Permissions::none()), None),
        };
    }

    /// Takes another token in place of the one that it logged in with.
    fn renew(&mut self, now: Now, grant: &Arc<Grant>, rights: Rights) {
        self.set_rights(Some(rights));
        self.impersonator = grant.has_tag(&Tag::Impersonator);
        self.monitor = is_monitor_grant(grant);
        self.ends = now.mono.plus(grant.left_ms(now.wall));
        self.grant = Some(Arc::clone(grant));
        self.renewals += 1;
    }

    /// Whether it logged in with a token.
    pub(super) const fn has_token(&self) -> bool {
        self.grant.is_some()
    }

    /// Memory of what its token grants, in bytes: as it is kept, and as permissions of the vhost.
    pub(super) fn kept_bytes(&self) -> u64 {
        self.grant
            .as_ref()
            .map_or(0, |grant| 2 * grant.kept_bytes())
    }

    /// Whose identities it may see in the death histories of messages.
    pub(super) fn viewer(&self) -> Viewer<'_> {
        if self.monitor {
            Viewer::Monitor
        } else {
            Viewer::User {
                name: &self.user,
                by_token: self.has_token(),
            }
        }
    }

    /// The generation of its permissions, of the registry's and of tokens: a check under another one
    /// is repeated.
    pub(super) const fn generation(&self) -> u64 {
        self.generation.wrapping_add(self.renewals << 32)
    }
}

/// An authenticated user that has not entered a vhost yet.
#[derive(Debug)]
pub(super) struct Known {
    user: Name,
    impersonator: bool,
    monitor: bool,
    is_embedder: bool,
    /// What its token grants; none: it is a user of the registry.
    grant: Option<Arc<Grant>>,
}

fn is_monitor_grant(grant: &Grant) -> bool {
    grant.has_tag(&Tag::Monitoring) || grant.has_tag(&Tag::Administrator)
}

fn is_monitor(user: &User) -> bool {
    user.has_tag(&Tag::Monitoring) || user.has_tag(&Tag::Administrator)
}

impl Known {
    /// The program that embeds the broker.
    pub(super) fn embedder() -> Self {
        Self {
            user: Name::from(EMBEDDER),
            impersonator: true,
            monitor: true,
            is_embedder: true,
            grant: None,
        }
    }

    pub(super) fn new(user: &User) -> Self {
        Self {
            user: user.name.clone(),
            impersonator: user.has_tag(&Tag::Impersonator),
            monitor: is_monitor(user),
            is_embedder: false,
            grant: None,
        }
    }

    /// The bearer of a token.
    pub(super) fn bearer(grant: &Arc<Grant>) -> Self {
        Self {
            user: grant.user().clone(),
            impersonator: grant.has_tag(&Tag::Impersonator),
            monitor: is_monitor_grant(grant),
            is_embedder: false,
            grant: Some(Arc::clone(grant)),
        }
    }
}

impl Gateway {
    pub(super) fn on_opened(&mut self, now: Now, open: &Open) {
        let known = self.who();
        let user = known.as_ref().ok().map(|known| known.user.clone());
        self.container = Name::from(open.container_id.as_str());
        match known.and_then(|known| self.enter(now, open, known)) {
            Ok((vhost, login)) => {
                self.link.open(now);
                self.batch.push(Work::Command(Command::ConnectionOpen {
                    connection: self.id,
                    user: login.user.clone(),
                    client: self.container.clone(),
                    limit_bytes: self.environment.options.outbox_bytes,
                }));
                let info = ConnectionInfo::new(open, (&login, &vhost), &self.mechanism);
                self.own_bytes += info.kept_bytes() + login.kept_bytes();
                self.info = Some(Box::new(info));
                self.vhost = Some(vhost);
                self.login = Some(login);
                self.note_asker();
            }
            Err(error) => {
                let vhost = asked_vhost(open).unwrap_or_default();
                let user = user.unwrap_or_default();
                self.note_refused((&user, vhost), ("enter vhost", vhost), &error);
                if errors::is_client_id_taken(&error) {
                    self.link.refuse_establishment(now, error);
                } else {
                    self.link.refuse_open(now, error);
                }
            }
        }
    }

    /// The authenticated user.
    fn who(&mut self) -> Result<Known, Error> {
        match self.known.take() {
            Some(known) => Ok(known),
            // There was no SASL layer; the engine allows that only if it is configured.
            None => self.anonymous().map_err(errors::unauthorized),
        }
    }

    /// The vhost that the peer asks for, if its user may enter it.
    fn enter(&mut self, now: Now, open: &Open, known: Known) -> Result<(Name, Login), Error> {
        let generation = self.environment.generation();
        let registry = self.environment.registry();
        let asked = asked_vhost(open);
        let name = asked.map_or_else(|| registry.default_vhost().clone(), Name::from);
        let Known {
            user,
            impersonator,
            monitor,
            is_embedder,
            grant,
        } = known;
        let vhost = registry
            .vhost(&name)
            .ok_or_else(|| errors::no_vhost(&name))?;
        let refused = || {
            let what = format_args!("user '{user}' may not enter vhost '{name}'");
            errors::unauthorized(what)
        };
        let rights = if is_embedder {
            let all = Permissions::all().ok();
            all.map(|all| Rights {
                permissions: Arc::new(all),
                topics: None,
            })
        } else {
            registry.rights(&name, &user, grant.as_ref())
        };
        let rights = rights.ok_or_else(refused)?;
        // A user of a token's name has nothing to do with it.
        let account = registry.user(&user).filter(|_| grant.is_none());
        if account.is_none() && grant.is_none() && !is_embedder {
            return Err(refused());
        }
        let ends = match &grant {
            Some(grant) if grant.is_over(now.wall) => {
                return Err(errors::unauthorized(TokenError::Expired));
            }
            Some(grant) => now.mono.plus(grant.left_ms(now.wall)),
            None => Millis::NEVER,
        };
        let of_user_max = account.and_then(|account| account.limits.connections_max);
        let of_user_max = of_user_max.map(u64::from);
        let seat = self.environment.seats.take(
            (&name, vhost.spec.limits.connections_max),
            grant.is_none().then_some((&user, of_user_max)),
        );
        let seat = seat.map_err(|full| errors::too_many_connections(full, &user, &name))?;
        let client_id = self.claim_client_id(&name, open)?;
        let login = Login {
            impersonator,
            monitor,
            is_embedder,
            permissions: rights.permissions,
            topics: rights.topics,
            grant,
            ends,
            generation,
            renewals: 0,
            serials: (
                registry.user_serial(&user).unwrap_or_default(),
                vhost.serial(),
            ),
            user,
            _seat: seat,
            client_id,
        };
        Ok((name, login))
    }

    /// Claims the client id of a connection: it may be that of one only.
    fn claim_client_id(&self, vhost: &Name, open: &Open) -> Result<Option<ClientId>, Error> {
        if !self.environment.options.subscriptions || self.peer.is_embedder {
            return Ok(None);
        }
        let is_sole = has_capability(open.desired_capabilities.as_deref(), SOLE_CONNECTION);
        let client = Name::from(open.container_id.as_str());
        let claimed = self.environment.seats.claim((vhost, &client), is_sole);
        let claimed = claimed.ok_or_else(|| errors::client_id_taken(&client, vhost));
        claimed.map(Some)
    }

    /// Applies changes of the registry: updates permissions, and closes the connection if its user
    /// or vhost was deleted. To be called before each turn.
    pub fn handle_registry(&mut self, now: Now) {
        self.end_with_token(now);
        let generation = self.environment.generation();
        let (Some(login), Some(vhost)) = (&mut self.login, &self.vhost) else {
            return;
        };
        if login.generation == generation {
            return;
        }
        login.generation = generation;
        let registry = self.environment.registry();
        let (user, in_vhost) = login.serials;
        let is_account = !login.is_embedder && login.grant.is_none();
        let gone = if is_account && registry.user_serial(&login.user) != Some(user) {
            Some(format!("user '{}' was deleted", login.user))
        } else if registry.vhost(vhost).map(Vhost::serial) != Some(in_vhost) {
            Some(format!("vhost '{vhost}' was deleted"))
        } else {
            None
        };
        if !login.is_embedder {
            login.follow(&registry, vhost);
        }
        self.note_asker();
        if let Some(why) = gone {
            self.close(now, Some(errors::forced(why)));
        }
    }

    /// Closes the connection once its token has ended, before anything else that the peer asks is
    /// looked at.
    pub(super) fn end_with_token(&mut self, now: Now) {
        let Some(login) = &mut self.login else {
            return;
        };
        let Some(grant) = login.grant.as_ref() else {
            return;
        };
        if !grant.is_over(now.wall) {
            // The clock that only goes forward need not agree with the other.
            login.ends = now.mono.plus(grant.left_ms(now.wall));
            return;
        }
        if login.ends == Millis::NEVER {
            return; // it is closing
        }
        login.ends = Millis::NEVER;
        login.set_rights(None);
        login.renewals += 1;
        let user = login.user.clone();
        self.note_asker();
        let error = errors::unauthorized(TokenError::Expired);
        self.audit_refusal("go on with a token", &user, &error);
        self.close(now, Some(error));
    }

    /// When the end of the token is looked at next.
    pub(super) fn token_deadline(&self) -> Option<Millis> {
        let login = self.login.as_ref()?;
        (login.ends != Millis::NEVER).then_some(login.ends)
    }

    /// Takes another token in place of the one that the peer logged in with, if it is of the same
    /// user and for this vhost.
    pub(super) fn renew(&mut self, now: Now, proven: &Proven) -> Result<(), RenewalError> {
        let (Some(login), Some(vhost)) = (&mut self.login, &self.vhost) else {
            return Err(RenewalError::NoToken);
        };
        let (Some(before), Proven::Bearer(grant)) = (&login.grant, proven) else {
            return Err(RenewalError::NoToken);
        };
        if before.is_over(now.wall) {
            return Err(RenewalError::Token(TokenError::Expired));
        }
        if grant.user() != &login.user {
            return Err(RenewalError::Token(TokenError::OtherUser));
        }
        let registry = self.environment.registry();
        let rights = registry.rights(vhost, &login.user, Some(grant));
        let rights = rights.ok_or_else(|| RenewalError::Vhost(vhost.clone()))?;
        uncount!(
            self.own_bytes,
            login.kept_bytes(),
            "bytes of a token were counted"
        );
        login.renew(now, grant, rights);
        self.own_bytes += login.kept_bytes();
        self.note_asker();
        Ok(())
    }

    /// Sets the user for management requests, with its current permissions.
    fn note_asker(&mut self) {
        self.batch.asker = self.login.as_ref().map(|login| Asker {
            user: login.user.clone(),
            permissions: Arc::clone(&login.permissions),
            topics: login.topics.clone(),
            node: self.environment.options.node.clone(),
        });
    }

    /// Whether the user has a right on a name.
    pub(super) fn has_right(&self, right: Right, name: &str) -> bool {
        let login = self.login.as_ref();
        login.is_some_and(|login| login.permissions.allow(right, name))
    }

    /// Checks that the user has a right on a name; a refusal goes to the audit log, too.
    pub(super) fn check_right(&self, right: Right, name: &str, kind: &str) -> Result<(), Error> {
        if self.has_right(right, name) {
            return Ok(());
        }
        let user = self.login.as_ref().map_or("", |login| &login.user);
        let right = right.as_str();
        let error = errors::unauthorized(format_args!(
            "{right} access to {kind} '{name}' refused for user '{user}'"
        ));
        self.audit_refusal(&format!("{right} {kind}"), name, &error);
        Err(error)
    }

    /// Logs a refusal in the audit log.
    pub(super) fn audit_refusal(&self, action: &str, object: &str, error: &Error) {
        let user = self.user().cloned().unwrap_or_default();
        let vhost = self.vhost.as_ref().map_or("", Name::as_str);
        self.note_refused((&user, vhost), (action, object), error);
    }

    fn note_refused(
        &self,
        (user, vhost): (&Name, &str),
        (action, object): (&str, &str),
        error: &Error,
    ) {
        let asked = self.asked((user, vhost), (action, object));
        let why = error.description.as_deref().unwrap_or_default();
        self.environment.audit.refused(&asked, &why);
    }

    fn asked<'a>(
        &'a self,
        (user, vhost): (&'a Name, &'a str),
        (action, object): (&'a str, &'a str),
    ) -> Asked<'a> {
        Asked {
            user,
            peer: &self.peer,
            protocol: "amqp",
            vhost,
            action,
            object,
        }
    }

    /// Logs in the audit log that a queue was declared for a link or a message, or why not.
    pub(super) fn audit_made(&self, queue: &Name, made: Result<(), CoreError>) {
        let user = self.user().cloned().unwrap_or_default();
        let vhost = self.vhost.as_ref().map_or("", Name::as_str);
        let asked = self.asked((&user, vhost), ("declare queue", queue));
        match made {
            Ok(()) => {
                let status = Status::Created.code();
                self.environment.audit.granted(&asked, status);
            }
            Err(error) => self.environment.audit.refused(&asked, &error),
        }
    }

    /// Logs in the audit log that a token took the place of another, or why not.
    pub(super) fn audit_put_token(&self, refused: Option<&str>) {
        let user = self.user().cloned().unwrap_or_default();
        let vhost = self.vhost.as_ref().map_or("", Name::as_str);
        let asked = self.asked((&user, vhost), ("renew token", ""));
        match refused {
            None => self
                .environment
                .audit
                .granted(&asked, Status::NoContent.code()),
            Some(why) => self.environment.audit.refused(&asked, &why),
        }
    }

    /// Logs the result of a management request in the audit log, if the request was to change
    /// something.
    pub(super) fn audit_request(&self, outcome: &Outcome) {
        let (Some((request, result)), Some(login)) = (outcome.audited(), &self.login) else {
            return;
        };
        let vhost = self.vhost.as_ref().map_or("", Name::as_str);
        let place = (&login.user, vhost);
        let asked = self.asked(place, (request.action, &request.object));
        match result {
            Ok(status) => self.environment.audit.granted(&asked, status.code()),
            Err(refusal) => self.environment.audit.refused(&asked, refusal),
        }
    }
}

/// The vhost that a peer names in `open.hostname`, if it does.
fn asked_vhost(open: &Open) -> Option<&str> {
    let host = open.hostname.as_deref()?;
    host.strip_prefix(VHOST_PREFIX)
}
