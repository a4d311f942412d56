//! Records of the registry of every released version mean what they meant, like those in
//! `record_fixtures.rs`: each folder under `tests/fixtures/registry-vN` is a data directory with
//! every kind of fact about the registry, and `EXPECTED` says what is restored from it.

#![allow(clippy::disallowed_methods, reason = "tests read and write files")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

#[path = "support/fixtures.rs"]
mod fixtures;

use std::collections::BTreeSet;
use std::fmt::Write;

use coroner::access::{
    Password, PasswordHash, Pattern, Permissions, Salts, Tag, TopicPermissions, User, UserLimits,
};
use coroner::base::{Lsn, Millis, Name, Now, Seed, Timestamp};
use coroner::broker::registry::{
    Import, OWNER, Piece, Registry, RegistryFact, RestoringAll, VhostLimits, VhostSpec,
};
use coroner::broker::{Fact, Options, Record, Restoring};
use coroner::record::{Stored, decode};
use coroner::store::sim_disk::SimDisk;
use coroner::store::{self, Restored};
use fixtures::{fixtures_of, load, save};

const WALL: Timestamp = Timestamp(1_700_000_000_000);

#[test]
fn registries_of_every_released_version_mean_what_they_meant() {
    let mut kinds = BTreeSet::new();
    for folder in fixtures_of("registry") {
        let (disk, expected) = load(&folder);
        let (found, seen) = describe(&disk);
        assert_eq!(found, expected, "{}", folder.display());
        kinds.extend(seen);
    }
    assert_eq!(kinds.len(), 13, "every kind is in a fixture");
}

/// Small segments: they lie in the repository.
fn options() -> store::Options {
    store::Options {
        segment_bytes: 8 * 1024,
        ..store::Options::default()
    }
}

/// What is restored, in words, and the kinds of facts it was made from.
fn describe(disk: &SimDisk) -> (String, BTreeSet<u8>) {
    let registry = Registry::new(Name::from("/"), [Name::from("guest")]);
    let mut restoring = RestoringAll::new(registry);
    let mut kinds = BTreeSet::new();
    store::open::<Stored, _>(disk.clone(), options(), 1, |restored| {
        let in_checkpoint = matches!(restored, Restored::Block { .. });
        let (Restored::Block { lsn, payload } | Restored::Facts { lsn, payload }) = restored else {
            return;
        };
        let (owner, record) = decode(lsn, payload).unwrap();
        kinds.extend(record.facts.iter().filter_map(kind));
        let piece = Piece {
            record,
            in_checkpoint,
        };
        restoring.record(&owner, piece, |name| {
            let now = Now::new(Millis(1_000_000), WALL);
            Restoring::new(Options::new(name.clone(), Seed(1)), now, WALL, 0)
        });
    })
    .unwrap();
    let (registry, vhosts, _) = restoring.finish();
    let mut text = String::new();
    for fact in registry.facts() {
        writeln!(text, "{}", in_words(&fact)).unwrap();
    }
    for (name, vhost) in vhosts {
        let core = vhost.finish();
        let queues: Vec<_> = core.queues().map(|queue| queue.name.to_string()).collect();
        writeln!(text, "queues of {name}: {queues:?}").unwrap();
    }
    (text, kinds)
}

/// A number for each kind. A new kind does not compile until it has one: give it a fixture too.
const fn kind(fact: &Fact) -> Option<u8> {
    let Fact::Registry(fact) = fact else {
        return None;
    };
    Some(match **fact {
        RegistryFact::VhostSet { .. } => 32,
        RegistryFact::VhostDeleted { .. } => 33,
        RegistryFact::UserSet(_) => 34,
        RegistryFact::UserDeleted { .. } => 35,
        RegistryFact::PermissionsSet { .. } => 36,
        RegistryFact::PermissionsCleared { .. } => 37,
        RegistryFact::TopicPermissionsSet { .. } => 38,
        RegistryFact::TopicPermissionsCleared { .. } => 39,
        RegistryFact::GlobalParameterSet { .. } => 40,
        RegistryFact::GlobalParameterCleared { .. } => 41,
        RegistryFact::ImportPart { .. } => 42,
        RegistryFact::ImportBegun { .. } => 43,
        RegistryFact::ImportEnded => 44,
    })
}

fn in_words(fact: &RegistryFact) -> String {
    match fact {
        RegistryFact::VhostSet { name, spec } => {
            let VhostSpec {
                description,
                tags,
                default_queue_type,
                limits,
            } = spec;
            format!("vhost {name} '{description}' {tags:?} {default_queue_type:?} {limits:?}")
        }
        RegistryFact::UserSet(user) => {
            let passwords = ["secret", "hash"].map(|password| {
                let kept = user.password.as_ref();
                kept.is_some_and(|kept| kept.hash.verify(password.as_bytes()))
            });
            let password = user.password.as_ref().map(Password::to_text);
            let scram = user.password.as_ref().map(|kept| kept.scram.is_some());
            let (tags, limits) = (&user.tags, user.limits);
            let (name, loopback) = (&user.name, user.loopback_only);
            format!(
                "user {name} {password:?} scram {scram:?} is {passwords:?} {tags:?} {limits:?} \
                 loopback {loopback}"
            )
        }
        RegistryFact::PermissionsSet {
            vhost,
            user,
            permissions,
        } => {
            let Permissions {
                configure,
                write,
                read,
            } = permissions;
            let patterns = [configure, write, read].map(Pattern::as_str);
            format!("permissions of {user} in {vhost}: {patterns:?}")
        }
        RegistryFact::TopicPermissionsSet {
            vhost,
            user,
            exchange,
            permissions,
        } => {
            let TopicPermissions { write, read } = permissions;
            let patterns = [write, read].map(Pattern::as_str);
            format!("topics of {user} in {vhost} on {exchange}: {patterns:?}")
        }
        RegistryFact::GlobalParameterSet { name, value } => format!("parameter {name} {value}"),
        RegistryFact::ImportPart { at, bytes } => {
            format!("definitions from {at}: {}", String::from_utf8_lossy(bytes))
        }
        RegistryFact::ImportBegun { vhost, bytes } => format!("import of {bytes} into {vhost:?}"),
        other => panic!("what is gone is not in a registry: {other:?}"),
    }
}

fn name(name: &str) -> Name {
    Name::from(name)
}

fn vhost(called: &str) -> RegistryFact {
    RegistryFact::VhostSet {
        name: name(called),
        spec: VhostSpec {
            description: format!("what {called} is for"),
            tags: vec![name("a"), name("b")],
            default_queue_type: (called != "/").then(|| name("quorum")),
            limits: VhostLimits {
                connections_max: Some(70_000),
                queues_max: None,
            },
        },
    }
}

fn user(called: &str, password: Option<Password>) -> RegistryFact {
    RegistryFact::UserSet(Box::new(User {
        name: name(called),
        password,
        tags: vec![Tag::Administrator, Tag::Other(name("mine"))],
        loopback_only: false,
        limits: UserLimits {
            connections_max: None,
            sessions_max: Some(3),
        },
    }))
}

fn permissions(of: &str, within: &str) -> RegistryFact {
    RegistryFact::PermissionsSet {
        vhost: name(within),
        user: name(of),
        permissions: Permissions::new("^mine", "", "(?!amq).*").unwrap(),
    }
}

fn topics(of: &str, within: &str, exchange: &str) -> RegistryFact {
    RegistryFact::TopicPermissionsSet {
        vhost: name(within),
        user: name(of),
        exchange: name(exchange),
        permissions: TopicPermissions::new("^{username}", ".*", of, within).unwrap(),
    }
}

fn parameter(called: &str) -> RegistryFact {
    RegistryFact::GlobalParameterSet {
        name: name(called),
        value: "{\"a\":[1,null]}".to_owned(),
    }
}

fn facts() -> Vec<RegistryFact> {
    let salts = Salts {
        hash: [1; 16],
        scram: [2; 16],
    };
    let sha256 = PasswordHash::rabbit_sha256([9, 8, 7, 6], b"hash").into();
    let sha512 = PasswordHash::rabbit_sha512([9, 8, 7, 6], b"hash").into();
    let (within, of) = (name("v"), name("ada"));
    vec![
        vhost("/"),
        vhost("v"),
        user("ada", Some(Password::new(salts, "secret"))),
        user("bob", Some(sha256)),
        user("guest", Some(sha512)),
        user("nobody", None),
        permissions("ada", "/"),
        permissions("ada", "v"),
        permissions("bob", "v"),
        topics("ada", "/", "amq.topic"),
        topics("ada", "v", "amq.topic"),
        topics("ada", "v", "gone"),
        RegistryFact::TopicPermissionsCleared {
            vhost: within.clone(),
            user: of,
            exchange: name("gone"),
        },
        RegistryFact::PermissionsCleared {
            vhost: within,
            user: name("bob"),
        },
        user("gone", None),
        RegistryFact::UserDeleted { name: name("gone") },
        parameter("kept"),
        parameter("gone"),
        RegistryFact::GlobalParameterCleared { name: name("gone") },
        vhost("gone"),
        RegistryFact::VhostDeleted { name: name("gone") },
    ]
}

/// One import that ended, and one that was cut off.
fn imports() -> Vec<RegistryFact> {
    let import = |vhost: Option<&str>, text: &str| Import {
        vhost: vhost.map(name),
        text: text.as_bytes().to_vec().into(),
    };
    let mut facts = vec![vhost("v")];
    facts.extend(import(None, "{}").facts());
    facts.push(RegistryFact::ImportEnded);
    facts.extend(import(Some("v"), r#"{"queues":[]}"#).facts());
    facts
}

fn stored(owner: &str, facts: Vec<Fact>) -> Stored {
    let (lsn, wall) = (Lsn(0), WALL);
    let record = Record {
        lsn,
        wall,
        facts: facts.into(),
        named: false,
    };
    Stored::new(name(owner), record)
}

fn of_registry(facts: Vec<RegistryFact>) -> Stored {
    let facts = facts.into_iter().map(Box::new).map(Fact::Registry);
    stored(OWNER, facts.collect())
}

fn queue(called: &str) -> Stored {
    let declared = Fact::QueueDeclared {
        queue: coroner::base::QueueId(1),
        name: name(called),
        auto_delete: false,
        arguments: Vec::new(),
    };
    stored("v", vec![declared])
}

#[test]
#[ignore = "writes the fixtures of the current version; run once per version, before its release"]
fn write_the_fixtures() {
    for part in ["log", "checkpoint", "import"] {
        let disk = SimDisk::default();
        let opened = store::open(disk.clone(), options(), 1, |_| {}).unwrap();
        let (journal, mut writer) = opened.start();
        if part == "import" {
            journal.append(of_registry(imports()));
        } else if part == "checkpoint" {
            assert!(journal.begin_checkpoint());
            journal.append_block(of_registry(facts()));
            journal.append_block(queue("covered"));
            journal.end_checkpoint();
            while journal.checkpoint_runs() {
                writer.write(WALL).unwrap();
                writer.sync().unwrap();
                writer.maintain(usize::MAX).unwrap();
            }
        } else {
            journal.append(of_registry(facts()));
        }
        // A vhost that came after another of its name has nothing of that one.
        journal.append(queue("before"));
        let deleted = RegistryFact::VhostDeleted { name: name("v") };
        journal.append(of_registry(vec![deleted]));
        journal.append(of_registry(vec![vhost("v"), permissions("ada", "v")]));
        journal.append(queue("after"));
        writer.write(WALL).unwrap();
        writer.sync().unwrap();
        writer.close(WALL).unwrap();
        save(&format!("registry-v1/{part}"), &disk, |disk| {
            describe(&disk).0
        });
    }
}
