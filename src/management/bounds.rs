//! Bounds on what operators may set: sizes of objects, and numbers of objects of a kind.

use super::administration::{Change, NewPassword};
use super::refusal::Refusal;
use crate::access::{Pattern, Tag, TopicPermissions};
use crate::base::limits::{
    DESCRIPTION_BYTES_MAX, NAME_BYTES_MAX, PARAMETER_BYTES_MAX, PARAMETERS_MAX, PASSWORD_BYTES_MAX,
    PERMISSIONS_MAX, TAGS_MAX, USERS_MAX, VHOSTS_MAX,
};
use crate::broker::registry::{Registry, Vhost};

impl Change {
    /// Refuses an object larger than the broker keeps. Objects that a journal already has are taken
    /// as they are.
    ///
    /// 400: names the part that is too large, and the bound.
    pub fn check_bounds(&self) -> Result<(), Refusal> {
        match self {
            Self::VhostPut { vhost, .. } => {
                let description = vhost.description.as_deref().unwrap_or_default();
                at_most("description", description.len(), DESCRIPTION_BYTES_MAX)?;
                let tags = vhost.tags.as_deref().unwrap_or_default();
                check_tags(tags.iter().map(|tag| &**tag))
            }
            Self::UserPut { user, .. } => {
                if let NewPassword::Clear(password) = &user.password {
                    at_most("password", password.len(), PASSWORD_BYTES_MAX)?;
                }
                let tags = user.tags.as_deref().unwrap_or_default();
                check_tags(tags.iter().map(Tag::as_str))
            }
            Self::PermissionsPut { patterns, .. } => {
                // Names are matched with them under the core's lock.
                Ok(patterns.iter().try_for_each(|pattern| {
                    Pattern::check_kept(pattern).and_then(|()| Pattern::check_names(pattern))
                })?)
            }
            Self::TopicPermissionsPut {
                vhost,
                user,
                patterns: [write, read],
                ..
            } => Ok(TopicPermissions::check_kept([write, read], user, vhost)?),
            Self::GlobalParameterPut { value, .. } => {
                at_most("value", value.len(), PARAMETER_BYTES_MAX)
            }
            _ => Ok(()),
        }
    }

    /// Refuses one more object of a kind that has reached its maximum.
    pub(super) fn check_counts(&self, registry: &Registry) -> Result<(), Refusal> {
        let (what, is_new, count, max) = match self {
            Self::VhostPut { name, .. } => {
                let is_new = registry.vhost(name).is_none();
                ("vhosts", is_new, registry.vhosts().count(), VHOSTS_MAX)
            }
            Self::UserPut { name, .. } => {
                let is_new = registry.user(name).is_none();
                ("users", is_new, registry.users().count(), USERS_MAX)
            }
            Self::GlobalParameterPut { name, .. } => {
                let is_new = registry.global_parameter(name).is_none();
                let count = registry.global_parameters().count();
                ("global parameters", is_new, count, PARAMETERS_MAX)
            }
            Self::TopicPermissionsPut {
                vhost,
                user,
                exchange,
                ..
            } => {
                let topics = registry.topic_permissions(vhost, user);
                let is_new = topics.is_none_or(|topics| !topics.contains_key(exchange));
                let maps = registry.vhost(vhost).map(Vhost::topic_permissions);
                let count = maps.into_iter().flatten().map(|(_, map)| map.len()).sum();
                (
                    "topic permissions of a vhost",
                    is_new,
                    count,
                    PERMISSIONS_MAX,
                )
            }
            _ => return Ok(()),
        };
        if !is_new || count < max {
            return Ok(());
        }
        Err(Refusal::bad_request(format!(
            "there are at most {max} {what}"
        )))
    }
}

fn at_most(field: &str, bytes: usize, bytes_max: usize) -> Result<(), Refusal> {
    if bytes <= bytes_max {
        return Ok(());
    }
    Err(Refusal::bad_request(format!(
        "the field '{field}' has more than {bytes_max} bytes"
    )))
}

fn check_tags<'a>(tags: impl ExactSizeIterator<Item = &'a str>) -> Result<(), Refusal> {
    if tags.len() > TAGS_MAX {
        let why = format!("the field 'tags' has more than {TAGS_MAX} words");
        return Err(Refusal::bad_request(why));
    }
    for tag in tags {
        if tag.len() > NAME_BYTES_MAX {
            return Err(Refusal::bad_request(format!(
                "a word of the field 'tags' has more than {NAME_BYTES_MAX} bytes"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Name;

    /// Only those of policies were bounded so: names are matched with permissions under the core's lock, too.
    #[test]
    fn patterns_of_permissions_that_may_take_long_over_a_name_are_refused_with_the_bound() {
        let slow = "(?:x{0,50}){0,50}y";
        let put = |patterns: [&str; 3]| Change::PermissionsPut {
            vhost: Name::from("/"),
            user: Name::from("ada"),
            patterns: patterns.map(str::to_owned),
        };
        let put_topic = |patterns: [&str; 2]| Change::TopicPermissionsPut {
            vhost: Name::from("/"),
            user: Name::from("ada"),
            exchange: Name::from("t"),
            patterns: patterns.map(str::to_owned),
        };
        for change in [
            put([slow, "", ""]),
            put(["", slow, ""]),
            put(["", "", slow]),
            put_topic([slow, ""]),
            put_topic(["", slow]),
        ] {
            let told = change.check_bounds().unwrap_err().why;
            assert!(told.contains("more than the 256"), "{told}");
        }
        let common = ["^(ada|eve)-.*$", ".*", "^(?!amq\\.)[a-z0-9.-]{1,50}$"];
        assert!(put(common).check_bounds().is_ok());
        let keys = ["^{username}\\..*", "^{vhost}\\.[a-z]{1,9}$"];
        assert!(put_topic(keys).check_bounds().is_ok());
    }
}
