//! What the registry keeps together.

use std::sync::Arc;

use super::*;
use crate::access::UserLimits;

fn user(name: &str) -> User {
    User {
        name: Name::from(name),
        password: None,
        tags: vec![Tag::Monitoring, Tag::Administrator, Tag::Monitoring],
        loopback_only: false,
        limits: UserLimits::default(),
    }
}

fn user_set(name: &str) -> RegistryFact {
    RegistryFact::UserSet(Box::new(user(name)))
}

fn vhost_set(name: &str) -> RegistryFact {
    RegistryFact::VhostSet {
        name: Name::from(name),
        spec: VhostSpec::default(),
    }
}

fn permissions_set(vhost: &str, user: &str) -> RegistryFact {
    RegistryFact::PermissionsSet {
        vhost: Name::from(vhost),
        user: Name::from(user),
        permissions: Permissions::all().unwrap(),
    }
}

fn topic_set(vhost: &str, user: &str, exchange: &str) -> RegistryFact {
    RegistryFact::TopicPermissionsSet {
        vhost: Name::from(vhost),
        user: Name::from(user),
        exchange: Name::from(exchange),
        permissions: TopicPermissions::new("^a", "", user, vhost).unwrap(),
    }
}

fn registry(facts: impl IntoIterator<Item = RegistryFact>) -> Registry {
    let mut registry = Registry::new(Name::from(DEFAULT_VHOST), [Name::from("guest")]);
    for fact in facts {
        registry.apply(fact);
    }
    registry
}

#[test]
fn permissions_go_with_their_user_and_their_vhost() {
    let facts = [
        permissions_set("v", "ada"),
        user_set("ada"),
        vhost_set("v"),
        permissions_set("w", "ada"),
    ];
    let mut registry = registry(facts);
    assert!(registry.permissions("v", "ada").is_none(), "came too early");
    assert!(registry.vhost("w").is_none());
    registry.apply(permissions_set("v", "ada"));
    registry.apply(topic_set("v", "ada", "x"));
    assert!(registry.permissions("v", "ada").is_some());
    assert!(registry.topic_permissions("v", "ada").is_some());
    registry.apply(RegistryFact::UserDeleted {
        name: Name::from("ada"),
    });
    registry.apply(user_set("ada"));
    assert!(registry.permissions("v", "ada").is_none());
    assert!(registry.topic_permissions("v", "ada").is_none());
    registry.apply(permissions_set("v", "ada"));
    registry.apply(RegistryFact::VhostDeleted {
        name: Name::from("v"),
    });
    registry.apply(vhost_set("v"));
    assert!(registry.permissions("v", "ada").is_none());
}

#[test]
fn tags_are_kept_sorted_and_once() {
    let registry = registry([user_set("ada"), user_set("guest")]);
    let tags = &registry.user("ada").unwrap().tags;
    assert_eq!(tags, &[Tag::Administrator, Tag::Monitoring]);
    assert!(registry.has_administrator());
    assert!(registry.user("guest").unwrap().loopback_only, "a setting");
    assert!(!registry.user("ada").unwrap().loopback_only);
}

#[test]
fn names_have_1_to_256_bytes() {
    let check = |name: &str| check_name(&Name::from(name)).is_ok();
    assert!(!check(""));
    assert!(check(&"v".repeat(256)));
    assert!(!check(&"v".repeat(257)));
}

#[test]
fn who_comes_again_under_an_old_name_is_somebody_else() {
    let mut registry = registry([user_set("ada"), vhost_set("v")]);
    let serials = |registry: &Registry| {
        let vhost = registry.vhost("v").map(Vhost::serial);
        (registry.user_serial("ada"), vhost)
    };
    let before = serials(&registry);
    registry.apply(user_set("ada"));
    registry.apply(vhost_set("v"));
    assert_eq!(serials(&registry), before, "changed, not replaced");
    let name = Name::from("ada");
    registry.apply(RegistryFact::UserDeleted { name });
    let name = Name::from("v");
    registry.apply(RegistryFact::VhostDeleted { name });
    registry.apply(user_set("ada"));
    registry.apply(vhost_set("v"));
    let after = serials(&registry);
    assert!(after.0 > before.0 && after.1 > before.1);
}

#[test]
fn facts_of_a_registry_make_it_again_also_twice() {
    let facts = [
        vhost_set("v"),
        user_set("ada"),
        permissions_set("v", "ada"),
        topic_set("v", "ada", "x"),
        topic_set("v", "ada", "y"),
        RegistryFact::GlobalParameterSet {
            name: Name::from("cluster_name"),
            value: "\"c\"".to_owned(),
        },
    ];
    let first = registry(facts);
    let again = first.facts().into_iter().chain(first.facts());
    assert_eq!(registry(again).facts(), first.facts());
    assert_eq!(first.facts().len(), 6);
}

#[test]
fn an_import_stands_from_its_beginning_to_its_end_however_often_its_facts_are_read() {
    let import = Import {
        vhost: Some(Name::from("v")),
        text: Arc::new(vec![b'x'; 150_000]),
    };
    let facts = import.facts();
    assert!(facts.len() > 3, "it comes in parts");
    let mut registry = Registry::default();
    for (count, fact) in facts.iter().enumerate() {
        assert_eq!(registry.import(), None, "after {count} facts");
        registry.apply(fact.clone());
    }
    assert_eq!(registry.import(), Some(&import));
    // A checkpoint has copied it, and the log is read from any of its facts on.
    for from in 0..facts.len() {
        let mut again = Registry::default();
        let copied = registry.facts();
        for fact in copied.iter().chain(facts.iter().skip(from)) {
            again.apply(fact.clone());
        }
        assert_eq!(again.import(), Some(&import), "read again from {from}");
        again.apply(RegistryFact::ImportEnded);
        assert_eq!(again.facts(), Vec::new());
    }
}
