//! Access of users to routes, by tags and permissions. RabbitMQ's rules.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::access::{AccessToken, Credentials, Grant, Permissions, Proof, Tag, User, bearer_token};
use crate::base::Name;
use crate::broker::registry::{Registry, Topics};
use crate::deaths::Viewer;

use super::failure::Failure;

impl Access {
    /// The requirement, in a few words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Management => "any tag",
            Self::Vhost => "any tag, in the vhost",
            Self::Monitoring => "monitoring",
            Self::Policymaker => "policymaker",
            Self::VhostPolicymaker => "policymaker, in the vhost",
            Self::VhostAdministrator | Self::Administrator => "administrator",
        }
    }

    /// Whether the path names a vhost, which must exist and may have to be accessible.
    pub const fn names_vhost(self) -> bool {
        matches!(
            self,
            Self::Vhost | Self::VhostPolicymaker | Self::VhostAdministrator
        )
    }
}

/// The requirement of a route beyond a valid login.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Any of the four tags that open the API.
    Management,
    /// Any of these tags, and permissions in the vhost of the path.
    Vhost,
    /// The tag monitoring or administrator.
    Monitoring,
    /// The tag policymaker or administrator.
    Policymaker,
    /// The tag policymaker or administrator, and permissions in the vhost of the path.
    VhostPolicymaker,
    /// The tag administrator; the vhost of the path must exist.
    VhostAdministrator,
    /// The tag administrator only.
    Administrator,
}

/// An authenticated user of the API.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    /// The user's name.
    pub name: Name,
    /// The user's tags.
    pub tags: Vec<Tag>,
    /// What its token grants; none: it is a user of the registry.
    pub grant: Option<Arc<Grant>>,
}

impl Identity {
    /// The identity of a user.
    pub fn new(user: &User) -> Self {
        Self {
            name: user.name.clone(),
            tags: user.tags.clone(),
            grant: None,
        }
    }

    /// The identity of the bearer of a token.
    pub fn bearer(grant: &Arc<Grant>) -> Self {
        Self {
            name: grant.user().clone(),
            tags: grant.tags().to_vec(),
            grant: Some(Arc::clone(grant)),
        }
    }

    /// Its permissions in a vhost; none: it may not enter, or the vhost does not exist.
    pub fn permissions(&self, registry: &Registry, vhost: &str) -> Option<Arc<Permissions>> {
        match &self.grant {
            None => registry.permissions(vhost, &self.name).map(Arc::clone),
            Some(grant) => {
                registry.vhost(vhost)?;
                grant.permissions(vhost).map(Arc::new)
            }
        }
    }

    /// Its topic permissions in a vhost; none: all keys are permitted.
    pub fn topics(&self, registry: &Registry, vhost: &Name) -> Option<Topics> {
        match &self.grant {
            None => registry
                .topic_permissions(vhost, &self.name)
                .map(|topics| Topics::User(Arc::clone(topics))),
            Some(grant) => Some(Topics::Bearer(Arc::clone(grant), vhost.clone())),
        }
    }

    /// Whether it has permissions in a vhost.
    pub fn enters(&self, registry: &Registry, vhost: &str) -> bool {
        registry.may_enter(vhost, &self.name, self.grant.as_ref())
    }

    /// Whether it is the user of this name, who logged in with a token or not. What somebody may see or
    /// change as its own is asked here: names in tokens are their issuer's, and nobody of the registry.
    pub fn is_user(&self, name: &str, by_token: bool) -> bool {
        *self.name == *name && self.grant.is_some() == by_token
    }

    /// Whether it sees what is of the user of this name, who logged in with a token or not: monitors see
    /// all, others their own.
    pub fn sees_of(&self, name: &str, by_token: bool) -> bool {
        self.is_monitor() || self.is_user(name, by_token)
    }

    /// Whether it may send messages with this user-id. [AMQP 3.2.4]
    pub fn may_send_as(&self, user_id: &[u8]) -> bool {
        user_id == self.name.as_bytes() || self.has(&[Tag::Impersonator])
    }

    fn has(&self, tags: &[Tag]) -> bool {
        tags.iter().any(|tag| self.tags.contains(tag))
    }

    /// Whether it has the tag administrator, which permits everything.
    pub fn is_administrator(&self) -> bool {
        self.has(&[Tag::Administrator])
    }

    /// Whose identities it sees in the death histories of messages.
    pub fn viewer(&self) -> Viewer<'_> {
        if self.is_monitor() {
            Viewer::Monitor
        } else {
            Viewer::User {
                name: &self.name,
                by_token: self.grant.is_some(),
            }
        }
    }

    /// Whether it sees objects of other users.
    pub fn is_monitor(&self) -> bool {
        self.has(&[Tag::Monitoring, Tag::Administrator])
    }

    /// Whether it may set policies.
    pub fn is_policymaker(&self) -> bool {
        self.has(&[Tag::Policymaker, Tag::Administrator])
    }

    /// Checks the tags. Whether the user may access a vhost depends on the registry:
    /// [`Identity::may_enter`].
    pub fn check(&self, access: Access) -> Result<(), Failure> {
        let refuse = |allowed: bool, reason: &str| {
            let refused = || Err(Failure::not_authorised(reason));
            if allowed { Ok(()) } else { refused() }
        };
        let opens = self.is_monitor() || self.is_policymaker() || self.has(&[Tag::Management]);
        refuse(opens, "Not management user")?;
        match access {
            Access::Management | Access::Vhost => Ok(()),
            Access::Monitoring => refuse(self.is_monitor(), "Not monitor user"),
            Access::Policymaker | Access::VhostPolicymaker => refuse(
                self.is_policymaker(),
                "User not authorised to access object",
            ),
            Access::Administrator | Access::VhostAdministrator => {
                refuse(self.is_administrator(), "Not administrator user")
            }
        }
    }

    /// Whether it may access the objects of a vhost; `has_permissions`: it has some there. An
    /// administrator always may.
    pub fn may_enter(&self, has_permissions: bool) -> Result<(), Failure> {
        if has_permissions || self.is_administrator() {
            return Ok(());
        }
        let reason = "User not authorised to access virtual host";
        Err(Failure::not_authorised(reason))
    }
}

/// What an `Authorization` header shows: a password or a token.
pub fn authorization(header: &str) -> Option<Proof> {
    if let Some(text) = bearer_token(header) {
        return Some(Proof::Token(AccessToken {
            authorization_id: String::new(),
            text: text.to_owned(),
        }));
    }
    basic_credentials(header).map(Proof::Password)
}

/// The credentials of an `Authorization` header. [RFC 7617 2]
fn basic_credentials(header: &str) -> Option<Credentials> {
    let (scheme, encoded) = header.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = STANDARD.decode(encoded.trim()).ok()?;
    let text = String::from_utf8(decoded).ok()?;
    let (user, password) = text.split_once(':')?;
    Some(Credentials {
        authorization_id: String::new(),
        user: user.to_owned(),
        password: password.to_owned(),
    })
}
