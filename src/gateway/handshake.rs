//! Which vhost a peer enters, and what it may do there.

use std::sync::Arc;

use super::Gateway;
use super::describe::ConnectionInfo;
use super::errors;
use super::seats::Seat;
use super::work::{Asker, Work};
use crate::access::{Permissions, Right, Tag, TopicPermissions, User};
use crate::base::{Name, Now};
use crate::broker::Command;
use crate::broker::registry::{Registry, TopicMap, Vhost};
use crate::wire::performative::{Error, Open};

/// `open.hostname` of this form names the vhost.
const VHOST_PREFIX: &str = "vhost:";
/// How the program that embeds the broker is called where users are shown.
const EMBEDDER: &str = "(embedder)";

/// The user that logged in, and what it may do in the vhost it entered.
#[derive(Debug)]
pub(super) struct Login {
    /// Its name.
    pub(super) user: Name,
    /// May send in others' names.
    impersonator: bool,
    /// In the vhost.
    pub(super) permissions: Arc<Permissions>,
    /// On topic exchanges.
    topics: Option<Arc<TopicMap>>,
    /// Changes of the registry that it knows.
    generation: u64,
    /// Of user and vhost as they were when it logged in.
    serials: (u64, u64),
    /// It is no user of the registry, and may do everything.
    is_embedder: bool,
    /// Counts it among the open connections.
    _seat: Seat,
}

impl Login {
    /// Whether it may put this user-id into a message. [AMQP 3.2.4]
    pub(super) fn may_send_as(&self, user_id: &[u8]) -> bool {
        self.impersonator || user_id == self.user.as_bytes()
    }

    /// What it may do with the keys of an exchange, if that is a topic exchange; none: anything.
    pub(super) fn topic(&self, exchange: &str) -> Option<&Arc<TopicPermissions>> {
        self.topics.as_ref()?.get(exchange)
    }

    /// Takes over what its user may do now.
    fn follow(&mut self, registry: &Registry, vhost: &Name) {
        self.permissions = match registry.permissions(vhost, &self.user) {
            Some(permissions) => Arc::clone(permissions),
            None => Arc::new(Permissions::none()),
        };
        self.topics = registry
            .topic_permissions(vhost, &self.user)
            .map(Arc::clone);
        let user = registry.user(&self.user);
        self.impersonator = user.is_some_and(|user| user.has_tag(&Tag::Impersonator));
    }

    /// Changes of the registry that it knows: what was checked under others is to be checked again.
    pub(super) const fn generation(&self) -> u64 {
        self.generation
    }
}

/// A login that has no vhost yet.
#[derive(Debug)]
pub(super) struct Known {
    user: Name,
    impersonator: bool,
    is_embedder: bool,
}

impl Known {
    /// The program that embeds the broker.
    pub(super) fn embedder() -> Self {
        Self {
            user: Name::from(EMBEDDER),
            impersonator: true,
            is_embedder: true,
        }
    }

    pub(super) fn new(user: &User) -> Self {
        Self {
            user: user.name.clone(),
            impersonator: user.has_tag(&Tag::Impersonator),
            is_embedder: false,
        }
    }
}

impl Gateway {
    pub(super) fn on_opened(&mut self, now: Now, open: &Open) {
        match self.enter(open) {
            Ok((vhost, login)) => {
                self.link.open(now);
                self.batch.push(Work::Command(Command::ConnectionOpen {
                    connection: self.id,
                    user: login.user.clone(),
                    limit_bytes: self.environment.options.outbox_bytes,
                }));
                self.container = Name::from(open.container_id.as_str());
                let info = ConnectionInfo::new(open, (&login.user, &vhost), &self.mechanism);
                self.own_bytes += info.kept_bytes();
                self.info = Some(Box::new(info));
                self.vhost = Some(vhost);
                self.login = Some(login);
                self.note_asker();
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
        let generation = self.environment.generation();
        let registry = self.environment.registry();
        let asked = open
            .hostname
            .as_deref()
            .and_then(|host| host.strip_prefix(VHOST_PREFIX));
        let name = asked.map_or_else(|| registry.default_vhost().clone(), Name::from);
        let Known {
            user,
            impersonator,
            is_embedder,
        } = known;
        let vhost = registry
            .vhost(&name)
            .ok_or_else(|| errors::no_vhost(&name))?;
        let refused = || {
            let what = format_args!("user '{user}' may not enter vhost '{name}'");
            errors::unauthorized(what)
        };
        let permissions = if is_embedder {
            Permissions::all().ok().map(Arc::new)
        } else {
            registry.permissions(&name, &user).map(Arc::clone)
        };
        let permissions = permissions.ok_or_else(refused)?;
        let account = registry.user(&user);
        if account.is_none() && !is_embedder {
            return Err(refused());
        }
        let of_user_max = account.and_then(|account| account.limits.connections_max);
        let of_user_max = of_user_max.map(u64::from);
        let seat = self.environment.seats.take(
            (&name, vhost.spec.limits.connections_max),
            (&user, of_user_max),
        );
        let seat = seat.map_err(|full| errors::too_many_connections(full, &user, &name))?;
        let login = Login {
            impersonator,
            is_embedder,
            permissions,
            topics: registry.topic_permissions(&name, &user).map(Arc::clone),
            generation,
            serials: (
                registry.user_serial(&user).unwrap_or_default(),
                vhost.serial(),
            ),
            user,
            _seat: seat,
        };
        Ok((name, login))
    }

    /// Takes note of changes of the registry: what the user may do now, and whether it and its
    /// vhost are still there. Call it before each turn.
    pub fn handle_registry(&mut self, now: Now) {
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
        let gone = if !login.is_embedder && registry.user_serial(&login.user) != Some(user) {
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

    /// Management requests are carried out in the name of who has logged in, with what it may do now.
    fn note_asker(&mut self) {
        self.batch.asker = self.login.as_ref().map(|login| Asker {
            user: login.user.clone(),
            permissions: Arc::clone(&login.permissions),
            topics: login.topics.clone(),
            node: self.environment.options.node.clone(),
        });
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
