//! How many things of a kind there may be.

use std::sync::Arc;

use crate::access::{Permissions, TopicPermissions, User, UserLimits};
use crate::base::Name;
use crate::base::limits::{PARAMETERS_MAX, PERMISSIONS_MAX, USERS_MAX, VHOSTS_MAX};
use crate::broker::registry::{Registry, RegistryFact, VhostSpec};
use crate::management::{Change, NewPassword, UserChange, VhostChange};

fn name(kind: &str, number: usize) -> Name {
    Name::from(format!("{kind}{number}"))
}

fn filled(count: usize, fact: impl Fn(usize) -> RegistryFact) -> Registry {
    let mut registry = Registry::new(Name::from("/"), []);
    registry.apply(user("u"));
    registry.apply(vhost("v"));
    for fact in (0..count).map(fact) {
        registry.apply(fact);
    }
    registry
}

fn user(name: &str) -> RegistryFact {
    RegistryFact::UserSet(Box::new(User {
        name: Name::from(name),
        password: None,
        tags: Vec::new(),
        loopback_only: false,
        limits: UserLimits::default(),
    }))
}

fn vhost(name: &str) -> RegistryFact {
    RegistryFact::VhostSet {
        name: Name::from(name),
        spec: VhostSpec::default(),
    }
}

/// What is there may be changed, one more is refused with the bound.
fn check(registry: &Registry, max: usize, change: impl Fn(Name) -> Change, known: &Name) {
    change(known.clone()).plan(registry, None).unwrap();
    let refused = change(Name::from("one more")).plan(registry, None);
    let why = refused.unwrap_err().why;
    assert!(why.contains(&format!("at most {max} ")), "{why}");
}

#[test]
fn one_more_user_than_there_may_be_is_refused() {
    let registry = filled(USERS_MAX - 1, |number| user(&name("u", number)));
    let change = |name| Change::UserPut {
        name,
        user: UserChange {
            password: NewPassword::Keep,
            tags: Some(Vec::new()),
            limits: None,
        },
    };
    check(&registry, USERS_MAX, change, &name("u", 7));
}

#[test]
fn one_more_vhost_than_there_may_be_is_refused() {
    let registry = filled(VHOSTS_MAX - 1, |number| vhost(&name("v", number)));
    let change = |name| Change::VhostPut {
        name,
        vhost: VhostChange::default(),
    };
    check(&registry, VHOSTS_MAX, change, &name("v", 7));
}

#[test]
fn one_more_parameter_than_there_may_be_is_refused() {
    let set = |number| RegistryFact::GlobalParameterSet {
        name: name("p", number),
        value: "1".to_owned(),
    };
    let registry = filled(PARAMETERS_MAX, set);
    let change = |name| Change::GlobalParameterPut {
        name,
        value: "2".to_owned(),
    };
    check(&registry, PARAMETERS_MAX, change, &name("p", 7));
}

#[test]
fn one_more_topic_permission_of_a_vhost_than_there_may_be_is_refused() {
    let (vhost, user) = (Name::from("v"), Name::from("u"));
    let permissions = TopicPermissions::new("", "", "u", "v").unwrap();
    let registry = filled(PERMISSIONS_MAX, |number| {
        RegistryFact::TopicPermissionsSet {
            vhost: vhost.clone(),
            user: user.clone(),
            exchange: name("e", number),
            permissions: permissions.clone(),
        }
    });
    let change = |exchange| Change::TopicPermissionsPut {
        vhost: vhost.clone(),
        user: user.clone(),
        exchange,
        patterns: [String::new(), String::new()],
    };
    check(&registry, PERMISSIONS_MAX, change, &name("e", 7));
}

/// Users, permissions and parameters were in no budget.
#[test]
fn what_the_registry_keeps_is_counted_until_it_is_gone() {
    let mut registry = filled(0, |_| unreachable!());
    let before = registry.kept_bytes();
    let (at, who) = (Name::from("other"), Name::from("ada"));
    let facts = || {
        let permissions = Permissions::new("^a", ".*", "").unwrap();
        let topics = TopicPermissions::new("^k", ".*", "ada", "other").unwrap();
        [
            user("ada"),
            vhost("other"),
            RegistryFact::PermissionsSet {
                vhost: at.clone(),
                user: who.clone(),
                permissions,
            },
            RegistryFact::TopicPermissionsSet {
                vhost: at.clone(),
                user: who.clone(),
                exchange: Name::from("amq.topic"),
                permissions: topics,
            },
            RegistryFact::GlobalParameterSet {
                name: Name::from("p"),
                value: "x".repeat(1_000),
            },
        ]
    };
    let mut last = before;
    for fact in facts() {
        registry.apply(fact);
        assert!(registry.kept_bytes() > last);
        last = registry.kept_bytes();
    }
    // Again: nothing more. Rebuilt from its facts: the same.
    for fact in facts() {
        registry.apply(fact);
    }
    assert_eq!(registry.kept_bytes(), last);
    let mut rebuilt = Registry::new(Name::from("/"), []);
    registry
        .facts()
        .into_iter()
        .for_each(|fact| rebuilt.apply(fact));
    assert_eq!(rebuilt.kept_bytes(), last);
    let copy = Arc::new(registry.clone());
    registry.apply(RegistryFact::GlobalParameterCleared {
        name: Name::from("p"),
    });
    let mut by_vhost = registry.clone();
    by_vhost.apply(RegistryFact::VhostDeleted { name: at });
    by_vhost.apply(RegistryFact::UserDeleted { name: who.clone() });
    registry.apply(RegistryFact::UserDeleted { name: who });
    registry.apply(RegistryFact::VhostDeleted {
        name: Name::from("other"),
    });
    assert_eq!(
        (registry.kept_bytes(), by_vhost.kept_bytes()),
        (before, before)
    );
    assert_eq!(copy.kept_bytes(), last);
}
