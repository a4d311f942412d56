//! What somebody may do in a vhost: a user as of the registry, the bearer of a token as of that.

use std::sync::Arc;

use super::{Registry, TopicMap};
use crate::access::{Grant, Permissions, TopicPermissions};
use crate::base::Name;

/// Permissions on the routing keys of topic exchanges in a vhost.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Topics {
    /// Those of a user of the registry.
    User(Arc<TopicMap>),
    /// Those of the bearer of a token, in this vhost.
    Bearer(Arc<Grant>, Name),
}

impl Topics {
    /// The permissions on the keys of an exchange; none: all keys are permitted.
    pub fn get(&self, exchange: &str) -> Option<Arc<TopicPermissions>> {
        match self {
            Self::User(topics) => topics.get(exchange).map(Arc::clone),
            Self::Bearer(grant, vhost) => grant.topic(vhost, exchange).map(Arc::new),
        }
    }

    /// Estimated cost of finding them, in nanoseconds.
    pub fn get_ns(&self) -> u64 {
        match self {
            Self::User(_) => 0,
            Self::Bearer(grant, _) => grant.look_ns(),
        }
    }
}

/// What somebody may do in a vhost.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rights {
    /// The permissions on names.
    pub permissions: Arc<Permissions>,
    /// Those on routing keys; none: all keys are permitted.
    pub topics: Option<Topics>,
}

impl Registry {
    /// What a user may do in a vhost, or the bearer of a token with this grant; none: it may not
    /// access it, or it does not exist.
    pub fn rights(&self, vhost: &Name, user: &str, grant: Option<&Arc<Grant>>) -> Option<Rights> {
        let Some(grant) = grant else {
            return Some(Rights {
                permissions: Arc::clone(self.permissions(vhost, user)?),
                topics: self
                    .topic_permissions(vhost, user)
                    .map(|topics| Topics::User(Arc::clone(topics))),
            });
        };
        self.vhost(vhost)?;
        Some(Rights {
            permissions: Arc::new(grant.permissions(vhost)?),
            topics: Some(Topics::Bearer(Arc::clone(grant), vhost.clone())),
        })
    }

    /// Whether a user may access a vhost, or the bearer of a token with this grant.
    pub fn may_enter(&self, vhost: &str, user: &str, grant: Option<&Arc<Grant>>) -> bool {
        match grant {
            Some(grant) => self.vhost(vhost).is_some() && grant.opens(vhost),
            None => self.permissions(vhost, user).is_some(),
        }
    }
}
