//! Changes of the registry by operators: checked and turned into facts.

use crate::access::{Password, PatternError, Permissions, Tag, TopicPermissions, User, UserLimits};
use crate::base::Name;
use crate::broker::registry::{
    Registry, RegistryError, RegistryFact, Vhost, VhostLimits, VhostSpec, check_name,
};

use super::refusal::{Refusal, Status};

/// One administrative change. A closed enum. An absent field leaves its value as it is.
#[derive(Clone, PartialEq, Debug)]
pub enum Change {
    /// Creates a vhost, or changes its description.
    VhostPut {
        /// The vhost's name.
        name: Name,
        /// The fields to set.
        vhost: VhostChange,
    },
    /// Deletes a vhost with its content.
    VhostDelete {
        /// The vhost's name.
        name: Name,
    },
    /// Sets limits of a vhost; absent ones stay.
    VhostLimitsPut {
        /// The vhost's name.
        vhost: Name,
        /// The limits to set.
        limits: VhostLimits,
    },
    /// Removes one limit of a vhost, or all.
    VhostLimitsDelete {
        /// The vhost's name.
        vhost: Name,
        /// The limit to remove; none: all.
        limit: Option<VhostLimit>,
    },
    /// Creates or changes a user.
    UserPut {
        /// The user's name.
        name: Name,
        /// The fields to set.
        user: UserChange,
    },
    /// Deletes a user with its permissions; its connections are closed.
    UserDelete {
        /// The user's name.
        name: Name,
    },
    /// Sets limits of a user; absent ones stay.
    UserLimitsPut {
        /// The user's name.
        user: Name,
        /// The limits to set.
        limits: UserLimits,
    },
    /// Removes one limit of a user, or all.
    UserLimitsDelete {
        /// The user's name.
        user: Name,
        /// The limit to remove; none: all.
        limit: Option<UserLimit>,
    },
    /// Gives a user permissions in a vhost.
    PermissionsPut {
        /// The vhost that it concerns.
        vhost: Name,
        /// The user that it concerns.
        user: Name,
        /// Regular expressions: configure, write, read.
        patterns: [String; 3],
    },
    /// Removes a user's permissions in a vhost.
    PermissionsDelete {
        /// The vhost that it concerns.
        vhost: Name,
        /// The user that it concerns.
        user: Name,
    },
    /// Restricts a user's routing keys on a topic exchange.
    TopicPermissionsPut {
        /// The vhost that it concerns.
        vhost: Name,
        /// The user that it concerns.
        user: Name,
        /// The topic exchange.
        exchange: Name,
        /// Regular expressions: write, read.
        patterns: [String; 2],
    },
    /// Removes such restrictions.
    TopicPermissionsDelete {
        /// The vhost that it concerns.
        vhost: Name,
        /// The user that it concerns.
        user: Name,
        /// The topic exchange; none: all of the vhost.
        exchange: Option<Name>,
    },
    /// Sets a global parameter.
    GlobalParameterPut {
        /// The parameter's name.
        name: Name,
        /// The parameter's value, as JSON.
        value: String,
    },
    /// Deletes a global parameter.
    GlobalParameterDelete {
        /// The parameter's name.
        name: Name,
    },
}

/// The fields of a vhost to set.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct VhostChange {
    /// A description for people.
    pub description: Option<String>,
    /// Tags, free words for people and programs.
    pub tags: Option<Vec<Name>>,
    /// `classic` or `quorum`; `undefined`: that of the broker.
    pub default_queue_type: Option<Name>,
    /// The user that creates the vhost and gets all permissions in it; ignored if the vhost exists.
    pub creator: Option<Name>,
}

/// The fields of a user to set.
#[derive(Clone, PartialEq, Debug)]
pub struct UserChange {
    /// The password, or how it is left.
    pub password: NewPassword,
    /// The tags, which replace earlier ones.
    pub tags: Option<Vec<Tag>>,
    /// The limits, which replace earlier ones.
    pub limits: Option<UserLimits>,
}

/// The password of a user to be set.
#[derive(Clone, PartialEq)]
pub enum NewPassword {
    /// In clear; it is hashed before it is kept.
    Clear(String),
    /// Hashed by the client.
    Hash(Password),
    /// No password: the user cannot log in with one.
    None,
    /// The current one; none for a new user.
    Keep,
}

impl std::fmt::Debug for NewPassword {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Clear(_) => "Clear(..)",
            Self::Hash(_) => "Hash(..)",
            Self::None => "None",
            Self::Keep => "Keep",
        })
    }
}

/// A limit of a vhost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VhostLimit {
    /// `max-connections`: connections open at a time.
    Connections,
    /// `max-queues`: queues that may exist at a time.
    Queues,
}

/// A limit of a user.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UserLimit {
    /// `max-connections`: connections open at a time.
    Connections,
    /// `max-channels`: sessions open at a time.
    Sessions,
}

/// A checked change.
#[derive(Clone, PartialEq, Debug)]
pub struct Planned {
    /// Whether it creates something new.
    pub created: bool,
    /// The facts that carry it out, applied together.
    pub facts: Vec<RegistryFact>,
}

impl Change {
    /// The password to be hashed before [`Change::plan`].
    pub fn clear_password(&self) -> Option<&str> {
        match self {
            Self::UserPut { user, .. } => match &user.password {
                NewPassword::Clear(password) => Some(password),
                _ => None,
            },
            _ => None,
        }
    }

    /// Checks the change against the registry. `hashed` is the hash of [`Change::clear_password`].
    ///
    /// 404: what it changes or deletes does not exist. 400: a bad name, pattern or value.
    pub fn plan(self, registry: &Registry, hashed: Option<Password>) -> Result<Planned, Refusal> {
        self.check_bounds()?;
        self.check_counts(registry)?;
        match self {
            Self::VhostPut { name, vhost } => put_vhost(registry, name, vhost),
            Self::VhostDelete { name } => {
                find_vhost(registry, &name)?;
                done(RegistryFact::VhostDeleted { name })
            }
            Self::VhostLimitsPut { vhost, limits } => set_limits(registry, vhost, |old| {
                old.connections_max = limits.connections_max.or(old.connections_max);
                old.queues_max = limits.queues_max.or(old.queues_max);
            }),
            Self::VhostLimitsDelete { vhost, limit } => set_limits(registry, vhost, |old| {
                if limit != Some(VhostLimit::Queues) {
                    old.connections_max = None;
                }
                if limit != Some(VhostLimit::Connections) {
                    old.queues_max = None;
                }
            }),
            Self::UserPut { name, user } => put_user(registry, name, user, hashed),
            Self::UserDelete { name } => {
                find_user(registry, &name)?;
                done(RegistryFact::UserDeleted { name })
            }
            Self::UserLimitsPut { user, limits } => set_user_limits(registry, &user, |old| {
                old.connections_max = limits.connections_max.or(old.connections_max);
                old.sessions_max = limits.sessions_max.or(old.sessions_max);
            }),
            Self::UserLimitsDelete { user, limit } => set_user_limits(registry, &user, |old| {
                if limit != Some(UserLimit::Sessions) {
                    old.connections_max = None;
                }
                if limit != Some(UserLimit::Connections) {
                    old.sessions_max = None;
                }
            }),
            Self::GlobalParameterPut { name, value } => {
                check_name(&name)?;
                let created = registry.global_parameter(&name).is_none();
                let facts = vec![RegistryFact::GlobalParameterSet { name, value }];
                Ok(Planned { created, facts })
            }
            Self::GlobalParameterDelete { name } => {
                let known = registry.global_parameter(&name);
                known.ok_or_else(|| Refusal::not_found(format!("no global parameter '{name}'")))?;
                done(RegistryFact::GlobalParameterCleared { name })
            }
            change => change.plan_permissions(registry),
        }
    }

    fn plan_permissions(self, registry: &Registry) -> Result<Planned, Refusal> {
        match self {
            Self::PermissionsPut {
                vhost,
                user,
                patterns: [configure, write, read],
            } => {
                find_both(registry, &vhost, &user)?;
                let created = registry.permissions(&vhost, &user).is_none();
                let permissions = Permissions::new(&configure, &write, &read)?;
                let fact = RegistryFact::PermissionsSet {
                    vhost,
                    user,
                    permissions,
                };
                let facts = vec![fact];
                Ok(Planned { created, facts })
            }
            Self::PermissionsDelete { vhost, user } => {
                find_both(registry, &vhost, &user)?;
                let known = registry.permissions(&vhost, &user);
                known.ok_or_else(|| no_permissions(&vhost, &user))?;
                done(RegistryFact::PermissionsCleared { vhost, user })
            }
            Self::TopicPermissionsPut {
                vhost,
                user,
                exchange,
                patterns: [write, read],
            } => {
                find_both(registry, &vhost, &user)?;
                check_name(&exchange)?;
                let topics = registry.topic_permissions(&vhost, &user);
                let created = !topics.is_some_and(|topics| topics.contains_key(&exchange));
                let permissions = TopicPermissions::new(&write, &read, &user, &vhost)?;
                let fact = RegistryFact::TopicPermissionsSet {
                    vhost,
                    user,
                    exchange,
                    permissions,
                };
                let facts = vec![fact];
                Ok(Planned { created, facts })
            }
            Self::TopicPermissionsDelete {
                vhost,
                user,
                exchange,
            } => clear_topics(registry, &vhost, &user, exchange.as_ref()),
            // The caller has planned all others.
            _ => Ok(Planned {
                created: false,
                facts: Vec::new(),
            }),
        }
    }
}

fn put_vhost(registry: &Registry, name: Name, change: VhostChange) -> Result<Planned, Refusal> {
    check_name(&name)?;
    let known = registry.vhost(&name).map(|vhost| &vhost.spec);
    let created = known.is_none();
    let old = known.cloned().unwrap_or_default();
    let default_queue_type = match change.default_queue_type.as_deref() {
        None => old.default_queue_type,
        Some("undefined" | "") => None,
        Some(kind @ ("classic" | "quorum")) => Some(Name::from(kind)),
        Some(other) => {
            return Err(Refusal::bad_request(format!(
                "default_queue_type: there is no queue type '{other}' here; known are classic and \
                 quorum"
            )));
        }
    };
    let spec = VhostSpec {
        description: change.description.unwrap_or(old.description),
        tags: change.tags.unwrap_or(old.tags),
        default_queue_type,
        limits: old.limits,
    };
    let creator = change.creator.filter(|user| registry.user(user).is_some());
    let vhost = name.clone();
    let mut facts = vec![RegistryFact::VhostSet { name, spec }];
    if let Some(user) = creator.filter(|_| created) {
        facts.push(RegistryFact::PermissionsSet {
            vhost,
            user,
            permissions: Permissions::all()?,
        });
    }
    Ok(Planned { created, facts })
}

fn put_user(
    registry: &Registry,
    name: Name,
    change: UserChange,
    hashed: Option<Password>,
) -> Result<Planned, Refusal> {
    check_name(&name)?;
    let known = registry.user(&name);
    let created = known.is_none();
    let password = match change.password {
        NewPassword::Clear(_) => hashed,
        NewPassword::Hash(hash) => Some(hash),
        NewPassword::None => None,
        NewPassword::Keep => known.and_then(|user| user.password.clone()),
    };
    let old_tags = || known.map(|user| user.tags.clone()).unwrap_or_default();
    let old_limits = || known.map(|user| user.limits).unwrap_or_default();
    let user = User {
        name,
        password,
        tags: change.tags.unwrap_or_else(old_tags),
        loopback_only: false,
        limits: change.limits.unwrap_or_else(old_limits),
    };
    let facts = vec![RegistryFact::UserSet(Box::new(user))];
    Ok(Planned { created, facts })
}

fn set_limits(
    registry: &Registry,
    name: Name,
    set: impl FnOnce(&mut VhostLimits),
) -> Result<Planned, Refusal> {
    let mut spec = find_vhost(registry, &name)?.spec.clone();
    set(&mut spec.limits);
    done(RegistryFact::VhostSet { name, spec })
}

fn set_user_limits(
    registry: &Registry,
    name: &Name,
    set: impl FnOnce(&mut UserLimits),
) -> Result<Planned, Refusal> {
    let mut user = find_user(registry, name)?.clone();
    set(&mut user.limits);
    done(RegistryFact::UserSet(Box::new(user)))
}

fn clear_topics(
    registry: &Registry,
    vhost: &Name,
    user: &Name,
    exchange: Option<&Name>,
) -> Result<Planned, Refusal> {
    find_both(registry, vhost, user)?;
    let topics = registry.topic_permissions(vhost, user);
    let named = |name: &&Name| exchange.is_none_or(|exchange| exchange == *name);
    let exchanges = topics.iter().flat_map(|topics| topics.keys()).filter(named);
    let cleared = exchanges.map(|exchange| RegistryFact::TopicPermissionsCleared {
        vhost: vhost.clone(),
        user: user.clone(),
        exchange: exchange.clone(),
    });
    let facts: Vec<_> = cleared.collect();
    if facts.is_empty() {
        return Err(no_permissions(vhost, user));
    }
    Ok(Planned {
        created: false,
        facts,
    })
}

#[allow(
    clippy::unnecessary_wraps,
    reason = "it ends functions that return a result"
)]
fn done(fact: RegistryFact) -> Result<Planned, Refusal> {
    Ok(Planned {
        created: false,
        facts: vec![fact],
    })
}

fn find_vhost<'a>(registry: &'a Registry, name: &Name) -> Result<&'a Vhost, Refusal> {
    let no_vhost = || RegistryError::NoVhost { name: name.clone() };
    Ok(registry.vhost(name).ok_or_else(no_vhost)?)
}

fn find_user<'a>(registry: &'a Registry, name: &Name) -> Result<&'a User, Refusal> {
    let no_user = || RegistryError::NoUser { name: name.clone() };
    Ok(registry.user(name).ok_or_else(no_user)?)
}

fn find_both(registry: &Registry, vhost: &Name, user: &Name) -> Result<(), Refusal> {
    find_vhost(registry, vhost)?;
    find_user(registry, user)?;
    Ok(())
}

fn no_permissions(vhost: &Name, user: &Name) -> Refusal {
    Refusal::not_found(format!(
        "user '{user}' has no such permissions in vhost '{vhost}'"
    ))
}

impl From<RegistryError> for Refusal {
    fn from(error: RegistryError) -> Self {
        let status = match &error {
            RegistryError::NoVhost { .. } | RegistryError::NoUser { .. } => Status::NotFound,
            RegistryError::BadName { .. } => Status::BadRequest,
        };
        Self {
            status,
            why: error.to_string(),
        }
    }
}

impl From<PatternError> for Refusal {
    fn from(error: PatternError) -> Self {
        Self::bad_request(error.to_string())
    }
}
