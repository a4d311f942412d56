//! Who the peer is and which vhost it enters.

use std::sync::Arc;

use super::Gateway;
use super::errors;
use super::work::Work;
use crate::access::{self, LoginError, Permissions, Right, Tag, User};
use crate::base::{Name, Now};
use crate::broker::Command;
use crate::wire::performative::{Error, Open};
use crate::wire::sasl::SaslCode;

/// A refused login is told so after this time, in milliseconds: guessing passwords takes long, and
/// a mistaken client does not come back at once.
const REFUSAL_DELAY_MS: u64 = 500;
/// `open.hostname` of this form names the vhost.
const VHOST_PREFIX: &str = "vhost:";

/// The user that logged in, and what it may do in the vhost it entered.
#[derive(Debug)]
pub(super) struct Login {
    /// Its name.
    pub(super) user: Name,
    /// May send in others' names.
    impersonator: bool,
    /// In the vhost.
    pub(super) permissions: Arc<Permissions>,
}

impl Login {
    /// Whether it may put this user-id into a message. [AMQP 3.2.4]
    pub(super) fn may_send_as(&self, user_id: &[u8]) -> bool {
        self.impersonator || user_id == self.user.as_bytes()
    }
}

/// A login that has no vhost yet.
#[derive(Debug)]
pub(super) struct Known {
    user: Name,
    impersonator: bool,
}

impl Known {
    fn new(user: &User) -> Self {
        Self {
            user: user.name.clone(),
            impersonator: user.has_tag(&Tag::Impersonator),
        }
    }
}

impl Gateway {
    pub(super) fn on_sasl_init(&mut self, now: Now, mechanism: &str, response: Option<&[u8]>) {
        match (mechanism, response) {
            ("PLAIN", Some(response)) => self.on_sasl_response(now, response),
            // The client waits for a challenge before it answers. [RFC 4422 section 5]
            ("PLAIN", None) => self.link.sasl_challenge(b""),
            ("ANONYMOUS", _) => {
                let result = self.anonymous();
                self.answer_login(now, result);
            }
            _ => self.answer_login(now, Err(LoginError::Malformed)),
        }
    }

    pub(super) fn on_sasl_response(&mut self, now: Now, response: &[u8]) {
        let result = access::parse_plain(response).and_then(|credentials| {
            let registry = self.environment.registry.read();
            let user = registry.user(&credentials.user);
            access::plain(user, &credentials, &self.peer)?;
            user.map(Known::new).ok_or(LoginError::Credentials)
        });
        self.answer_login(now, result);
    }

    fn anonymous(&self) -> Result<Known, LoginError> {
        let registry = self.environment.registry.read();
        let name = self.environment.options.anonymous_user.as_ref();
        let user = name.and_then(|name| registry.user(name));
        access::anonymous(user, &self.peer)?;
        user.map(Known::new).ok_or(LoginError::NoAnonymous)
    }

    fn answer_login(&mut self, now: Now, result: Result<Known, LoginError>) {
        match result {
            Ok(known) => {
                self.known = Some(known);
                self.link.sasl_outcome(SaslCode::Ok);
            }
            Err(error) => {
                tracing::warn!(%error, "login refused");
                self.refusal_due = Some(now.mono.plus(REFUSAL_DELAY_MS));
            }
        }
    }

    /// Tells a peer that its login was refused; the time for it has come.
    pub(super) fn refuse_login(&mut self) {
        self.refusal_due = None;
        self.link.sasl_outcome(SaslCode::Auth);
    }

    pub(super) fn on_opened(&mut self, now: Now, open: &Open) {
        match self.enter(open) {
            Ok((vhost, login)) => {
                self.link.open(now);
                self.work.push_back(Work::Command(Command::ConnectionOpen {
                    connection: self.id,
                    user: login.user.clone(),
                    limit_bytes: self.environment.options.outbox_bytes,
                }));
                self.container = Name::from(open.container_id.as_str());
                self.vhost = Some(vhost);
                self.login = Some(login);
            }
            Err(error) => self.link.refuse_open(now, error),
        }
    }

    /// The vhost that the peer asks for, if it may enter it.
    fn enter(&mut self, open: &Open) -> Result<(Name, Login), Error> {
        let known = match self.known.take() {
            Some(known) => known,
            // Without a SASL layer; the engine lets that pass only if it is configured.
            None => self.anonymous().map_err(errors::unauthorized)?,
        };
        let registry = self.environment.registry.read();
        let asked = open
            .hostname
            .as_deref()
            .and_then(|host| host.strip_prefix(VHOST_PREFIX));
        let vhost = asked.map_or_else(|| registry.default_vhost().clone(), Name::from);
        if registry.vhost(&vhost).is_none() {
            return Err(errors::no_vhost(&vhost));
        }
        let Some(permissions) = registry.permissions(&vhost, &known.user) else {
            let user = &known.user;
            let what = format_args!("user '{user}' may not enter vhost '{vhost}'");
            return Err(errors::unauthorized(what));
        };
        let permissions = Arc::new(permissions.clone());
        let Known { user, impersonator } = known;
        Ok((
            vhost,
            Login {
                user,
                impersonator,
                permissions,
            },
        ))
    }

    /// Whether the user has a right on a name, else the error that says so.
    pub(super) fn check_right(&self, right: Right, name: &str, kind: &str) -> Result<(), Error> {
        let login = self.login.as_ref();
        if login.is_some_and(|login| login.permissions.allow(right, name)) {
            return Ok(());
        }
        let user = login.map_or("", |login| &login.user);
        let right = right.as_str();
        Err(errors::unauthorized(format_args!(
            "{right} access to {kind} '{name}' refused for user '{user}'"
        )))
    }
}
