//! Encoding and decoding of facts of the registry.

use super::RecordError;
use super::kind::OfRegistry;
use crate::access::{Password, Permissions, Tag, TopicPermissions, User, UserLimits};
use crate::base::Name;
use crate::broker::registry::{RegistryFact, VhostLimits, VhostSpec};
use crate::wire::{
    Fields, write_binary, write_null, write_or_null, write_string, write_uint, write_ulong,
};

use super::decode::{list, name};

pub(super) fn encode(fact: &RegistryFact, out: &mut Vec<u8>) {
    match fact {
        RegistryFact::VhostSet { name, spec } => encode_vhost(name, spec, out),
        RegistryFact::VhostDeleted { name } => encode_names(OfRegistry::VhostDeleted, &[name], out),
        RegistryFact::UserSet(user) => encode_user(user, out),
        RegistryFact::UserDeleted { name } => encode_names(OfRegistry::UserDeleted, &[name], out),
        RegistryFact::PermissionsSet {
            vhost,
            user,
            permissions,
        } => {
            encode_names(OfRegistry::PermissionsSet, &[vhost, user], out);
            write_string(out, permissions.configure.as_str());
            write_string(out, permissions.write.as_str());
            write_string(out, permissions.read.as_str());
        }
        RegistryFact::PermissionsCleared { vhost, user } => {
            encode_names(OfRegistry::PermissionsCleared, &[vhost, user], out);
        }
        RegistryFact::TopicPermissionsSet {
            vhost,
            user,
            exchange,
            permissions,
        } => {
            encode_names(
                OfRegistry::TopicPermissionsSet,
                &[vhost, user, exchange],
                out,
            );
            write_string(out, permissions.write.as_str());
            write_string(out, permissions.read.as_str());
        }
        RegistryFact::TopicPermissionsCleared {
            vhost,
            user,
            exchange,
        } => {
            encode_names(
                OfRegistry::TopicPermissionsCleared,
                &[vhost, user, exchange],
                out,
            );
        }
        RegistryFact::GlobalParameterSet { name, value } => {
            encode_names(OfRegistry::GlobalParameterSet, &[name], out);
            write_string(out, value);
        }
        RegistryFact::GlobalParameterCleared { name } => {
            encode_names(OfRegistry::GlobalParameterCleared, &[name], out);
        }
        RegistryFact::ImportPart { at, bytes } => {
            out.push(OfRegistry::ImportPart.byte());
            write_ulong(out, *at);
            write_binary(out, bytes);
        }
        RegistryFact::ImportBegun { vhost, bytes } => {
            out.push(OfRegistry::ImportBegun.byte());
            match vhost {
                Some(vhost) => write_string(out, vhost),
                None => write_null(out),
            }
            write_ulong(out, *bytes);
        }
        RegistryFact::ImportEnded => out.push(OfRegistry::ImportEnded.byte()),
    }
}

/// Decodes a fact of this kind.
pub(super) fn decode(
    kind: OfRegistry,
    fields: &mut Fields<'_>,
) -> Result<RegistryFact, RecordError> {
    Ok(match kind {
        OfRegistry::VhostSet => vhost(fields)?,
        OfRegistry::VhostDeleted => RegistryFact::VhostDeleted {
            name: name(fields, "vhost")?,
        },
        OfRegistry::UserSet => RegistryFact::UserSet(Box::new(user(fields)?)),
        OfRegistry::UserDeleted => RegistryFact::UserDeleted {
            name: name(fields, "user")?,
        },
        OfRegistry::PermissionsSet => RegistryFact::PermissionsSet {
            vhost: name(fields, "vhost")?,
            user: name(fields, "user")?,
            permissions: {
                let [configure, write, read] = patterns(fields)?;
                Permissions::new(configure, write, read).map_err(|_| PATTERN)?
            },
        },
        OfRegistry::PermissionsCleared => RegistryFact::PermissionsCleared {
            vhost: name(fields, "vhost")?,
            user: name(fields, "user")?,
        },
        OfRegistry::TopicPermissionsSet => {
            let (vhost, user) = (name(fields, "vhost")?, name(fields, "user")?);
            let exchange = name(fields, "exchange")?;
            let [write, read] = patterns(fields)?;
            let permissions = TopicPermissions::new(write, read, &user, &vhost);
            RegistryFact::TopicPermissionsSet {
                vhost,
                user,
                exchange,
                permissions: permissions.map_err(|_| PATTERN)?,
            }
        }
        OfRegistry::TopicPermissionsCleared => RegistryFact::TopicPermissionsCleared {
            vhost: name(fields, "vhost")?,
            user: name(fields, "user")?,
            exchange: name(fields, "exchange")?,
        },
        OfRegistry::GlobalParameterSet => RegistryFact::GlobalParameterSet {
            name: name(fields, "parameter")?,
            value: text(fields, "value of a parameter")?.to_owned(),
        },
        OfRegistry::GlobalParameterCleared => RegistryFact::GlobalParameterCleared {
            name: name(fields, "parameter")?,
        },
        OfRegistry::ImportPart => RegistryFact::ImportPart {
            at: fields.ulong()?.ok_or(LENGTH)?,
            bytes: fields.binary()?.ok_or(LENGTH)?.into(),
        },
        OfRegistry::ImportBegun => RegistryFact::ImportBegun {
            vhost: fields.string()?.map(Name::from),
            bytes: fields.ulong()?.ok_or(LENGTH)?,
        },
        OfRegistry::ImportEnded => RegistryFact::ImportEnded,
    })
}

const PATTERN: RecordError = RecordError::Field("pattern");
const LENGTH: RecordError = RecordError::Field("definitions");

fn encode_names(kind: OfRegistry, names: &[&Name], out: &mut Vec<u8>) {
    out.push(kind.byte());
    for name in names {
        write_string(out, name);
    }
}

fn encode_vhost(name: &Name, spec: &VhostSpec, out: &mut Vec<u8>) {
    encode_names(OfRegistry::VhostSet, &[name], out);
    write_string(out, &spec.description);
    write_ulong(out, spec.tags.len() as u64);
    for tag in &spec.tags {
        write_string(out, tag);
    }
    match &spec.default_queue_type {
        Some(kind) => write_string(out, kind),
        None => write_null(out),
    }
    write_or_null(out, spec.limits.connections_max, write_ulong);
    write_or_null(out, spec.limits.queues_max, write_ulong);
}

fn vhost(fields: &mut Fields<'_>) -> Result<RegistryFact, RecordError> {
    let called = name(fields, "vhost")?;
    let spec = VhostSpec {
        description: text(fields, "description")?.to_owned(),
        tags: list(fields, |fields| name(fields, "tag"))?,
        default_queue_type: fields.string()?.map(Name::from),
        limits: VhostLimits {
            connections_max: fields.ulong()?,
            queues_max: fields.ulong()?,
        },
    };
    Ok(RegistryFact::VhostSet { name: called, spec })
}

fn encode_user(user: &User, out: &mut Vec<u8>) {
    encode_names(OfRegistry::UserSet, &[&user.name], out);
    match &user.password {
        Some(password) => write_binary(out, &password.to_bytes()),
        None => write_null(out),
    }
    write_ulong(out, user.tags.len() as u64);
    for tag in &user.tags {
        write_string(out, tag.as_str());
    }
    write_or_null(out, user.limits.connections_max, write_uint);
    write_or_null(out, user.limits.sessions_max, write_uint);
}

fn user(fields: &mut Fields<'_>) -> Result<User, RecordError> {
    let called = name(fields, "user")?;
    let password = match fields.binary()? {
        Some(bytes) => {
            let read = Password::from_bytes(bytes);
            Some(read.ok_or(RecordError::Field("password"))?)
        }
        None => None,
    };
    let tag = |fields: &mut Fields<'_>| text(fields, "tag").map(Tag::from_word);
    Ok(User {
        name: called,
        password,
        tags: list(fields, tag)?,
        loopback_only: false,
        limits: UserLimits {
            connections_max: fields.uint()?,
            sessions_max: fields.uint()?,
        },
    })
}

fn patterns<'a, const N: usize>(fields: &mut Fields<'a>) -> Result<[&'a str; N], RecordError> {
    let mut patterns = [""; N];
    for pattern in &mut patterns {
        *pattern = text(fields, "pattern")?;
    }
    Ok(patterns)
}

fn text<'a>(fields: &mut Fields<'a>, what: &'static str) -> Result<&'a str, RecordError> {
    fields.string()?.ok_or(RecordError::Field(what))
}
