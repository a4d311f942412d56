//! Facts survive being records.

mod consumer_links;
mod publisher_links;

use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use rstest::rstest;

use super::{
    RecordError, RecordRead, Stored, decode, decode_block, encode_spill, fuzz_record, loaded,
    records_of,
};
use crate::access::{PasswordHash, Permissions, Tag, TopicPermissions, User, UserLimits};
use crate::base::{Lsn, Name, Position, QueueId, Timestamp};
use crate::broker::death_counts::{ConditionCount, DeathCount, DeathOutcome, VhostDeaths};
use crate::broker::exchange::{ExchangeKind, ExchangeSpec};
use crate::broker::memo::{GroupNote, ImportMark, MemoFact};
use crate::broker::policy::PolicySpec;
use crate::broker::redrive::{
    RedriveCause, RedriveCounts, RedriveFact, RedriveJob, RedriveOutcome, RedriveSpec,
    RedriveState, RedriveStop, RedriveTarget, RedrivenTo,
};
use crate::broker::registry::{RegistryFact, VhostLimits, VhostSpec};
use crate::broker::{
    Body, CheckpointedMessage, Destination, DropCause, Entry, Fact, PageIn, Policy, Record, Spill,
    TopologyFact, Wanted,
};
use crate::deaths::{Death, Evidence, History, Reason, Redrive, Redrives};
use crate::message::{KeyRule, Merging, Message, Route, StoredMessageError};
use crate::search::DeathFilter;
use crate::store::Payload;
use crate::wire::Value;

const MESSAGE: &[u8] = b"\x00\x53\x70\xc0\x02\x01\x41\x00\x53\x77\xa1\x03abc";

fn name() -> impl Strategy<Value = Name> {
    "[a-z\u{e4}/ ]{0,12}".prop_map(|text| Name::from(&*text))
}

fn pairs() -> impl Strategy<Value = Vec<(Name, Value)>> {
    let value = prop_oneof![
        any::<u64>().prop_map(Value::Ulong),
        any::<i32>().prop_map(Value::Int),
        any::<bool>().prop_map(Value::Bool),
        "[a-z]{0,300}".prop_map(Value::String),
        Just(Value::Null),
        Just(Value::List(vec![Value::Symbol("x".to_owned())])),
    ];
    prop::collection::vec((name(), value), 0..4)
}

fn message(deaths: u8, durable: bool) -> Arc<Message> {
    let mut bytes = MESSAGE.to_vec();
    if !durable {
        bytes.drain(..7);
    }
    let message = Message::from_transfer(bytes.into(), KeyRule::Specification).unwrap();
    let modified = Bytes::from_static(b"\xc1\x06\x02\xa3\x01y\x52\x01");
    let message = message
        .with_annotations(&modified, &mut Merging::default())
        .unwrap();
    let mut history = None;
    for death in 0..deaths {
        let evidence = Evidence {
            condition: Some(Name::from("app:bad")),
            container: Some(Name::from("c")),
            ..Evidence::default()
        };
        let death = Death {
            queue: Name::from(["a", "b"][usize::from(death % 2)]),
            reason: Reason::Rejected,
            time: Timestamp(i64::from(death)),
            exchange: Name::from("x"),
            routing_keys: Arc::from([Name::from("k")]),
            ttl: Some(7),
            evidence: Some(Arc::new(evidence)),
        };
        history = Some(History::record(history.as_ref(), &death).unwrap());
    }
    let Some(history) = history else {
        return Arc::new(message);
    };
    if deaths < 2 {
        return Arc::new(message.died(Arc::new(history), 3));
    }
    let redrive = Redrive {
        number: 0,
        job: Name::from("fix"),
        job_number: 7,
        by: Name::from("alice"),
        from: Name::from("a"),
        to: Name::from("b"),
        time: Timestamp(5),
        deaths: deaths.into(),
    };
    let redrives = Redrives::after(None, redrive);
    Arc::new(message.redriven(Some(Arc::new(history.redriven())), Arc::new(redrives)))
}

fn inserted() -> impl Strategy<Value = Fact> {
    let body = prop_oneof![
        Just(Body::Named),
        Just(Body::Carried),
        any::<u64>().prop_map(|lsn| Body::At(Lsn(lsn))),
    ];
    let entry = (any::<[u64; 2]>(), any::<i64>(), any::<Option<u64>>());
    let entry = entry.prop_map(|([queue, position], arrived, ttl_ms)| Entry {
        queue: QueueId(queue),
        position: Position(position),
        arrived: Timestamp(arrived),
        ttl_ms,
    });
    let entries = prop::collection::vec(entry, 0..4);
    let route = (name(), prop::collection::vec(name(), 1..4));
    (0..4_u8, any::<bool>(), route, body, entries).prop_map(
        |(deaths, durable, (exchange, keys), body, entries)| Fact::Inserted {
            message: message(deaths, durable),
            route: Arc::new(Route {
                exchange,
                keys: keys.into(),
            }),
            body,
            entries: entries.into(),
        },
    )
}

fn changed() -> impl Strategy<Value = (Arc<Message>, Arc<Route>, Body)> {
    inserted().prop_map(|fact| match fact {
        Fact::Inserted {
            message,
            route,
            body,
            ..
        } => (message, route, body),
        _ => unreachable!(),
    })
}

fn checkpointed() -> impl Strategy<Value = CheckpointedMessage> {
    let numbers = (any::<[u64; 3]>(), any::<i64>(), any::<[u32; 2]>());
    (numbers, any::<Option<u64>>(), any::<bool>()).prop_map(
        |(([position, envelope, body], arrived, [size_bytes, moved_by]), ttl_ms, same)| {
            CheckpointedMessage {
                position: Position(position),
                arrived: Timestamp(arrived),
                ttl_ms,
                size_bytes,
                envelope: Lsn(envelope),
                body: Lsn(if same { envelope } else { body }),
                moved_by: if same { 0 } else { moved_by },
            }
        },
    )
}

fn died() -> impl Strategy<Value = Fact> {
    let place = (any::<u64>(), 0..Reason::ALL.len());
    (place, any::<[u64; 3]>(), prop::option::of(name())).prop_map(
        |((queue, reason), [dead, outcome, with], name)| Fact::Died {
            queue: QueueId(queue),
            count: DeathCount {
                reason: Reason::ALL[reason],
                dead,
                outcome: match outcome % 3 {
                    0 => None,
                    1 => Some((DeathOutcome::DeadLettered, outcome)),
                    _ => Some((DeathOutcome::Quarantined(DropCause::Cycle), outcome)),
                },
                condition: (with % 2 == 0).then(|| ConditionCount {
                    name: name.filter(|name| !name.is_empty()),
                    count: with,
                }),
            },
        },
    )
}

fn vhost_deaths() -> impl Strategy<Value = Fact> {
    (any::<[u64; 4]>(), 0..17_usize).prop_map(|([dead, dropped, times, sum_ms], bucket)| {
        let mut deaths = VhostDeaths {
            given_up: vec![(
                Reason::Expired,
                DeathOutcome::Dropped(DropCause::Cycle),
                dropped,
            )],
            with_condition: dropped,
            ..VhostDeaths::NONE
        };
        deaths.dead.maxlen = dead;
        deaths.dead_lettered.rejected = times;
        deaths.times[2].sum_ms = sum_ms;
        deaths.times[2].buckets[bucket] = dead;
        deaths.times[3].buckets[16] = dropped;
        Fact::VhostDeaths(Box::new(deaths))
    })
}

fn of_messages() -> impl Strategy<Value = Fact> {
    let slot = any::<[u64; 2]>().prop_map(|[queue, at]| (QueueId(queue), Position(at)));
    let places = || prop::collection::vec(any::<u64>().prop_map(Position), 0..4);
    let targets = prop::option::of(prop::collection::vec(any::<u64>().prop_map(QueueId), 0..4));
    prop_oneof![
        inserted(),
        slot.clone().prop_map(|(queue, position)| Fact::Removed {
            queue,
            position,
            body: Lsn(0),
        }),
        (slot.clone(), any::<[u32; 2]>()).prop_map(|((queue, position), [failures, acquired])| {
            Fact::Returned {
                queue,
                position,
                failures,
                acquired,
            }
        }),
        (slot.clone(), any::<i64>(), any::<Option<u64>>()).prop_map(
            |((queue, position), until, left_ms)| Fact::Delayed {
                queue,
                position,
                until: Timestamp(until),
                left_ms,
            }
        ),
        (slot.clone(), targets).prop_map(|((queue, position), targets)| Fact::DeadPending {
            queue,
            position,
            reason: Reason::DeliveryLimit,
            targets,
        }),
        (changed(), slot.clone()).prop_map(|((message, route, body), (queue, position))| {
            Fact::Changed {
                queue,
                position,
                message,
                route,
                body,
            }
        }),
        (slot.clone(), prop::collection::vec(checkpointed(), 0..5))
            .prop_map(|((queue, _), messages)| Fact::Checkpointed { queue, messages }),
        died(),
        vhost_deaths(),
        (slot, places(), places()).prop_map(|((queue, _), below, kept)| Fact::Purged {
            queue,
            below,
            kept
        }),
    ]
}

fn redrive_job() -> impl Strategy<Value = RedriveJob> {
    let target = prop_oneof![
        Just(RedriveTarget::Origin),
        Just(RedriveTarget::First),
        Just(RedriveTarget::Original),
        Just(RedriveTarget::Discard),
        name().prop_map(RedriveTarget::Queue),
        (name(), name()).prop_map(|(exchange, routing_key)| RedriveTarget::Exchange {
            exchange,
            routing_key
        }),
    ];
    let asked = (name(), name(), any::<[u64; 4]>(), any::<bool>());
    (target, asked).prop_map(|(target, (id, by, [a, b, c, d], is_open))| RedriveJob {
        number: a,
        by: by.clone(),
        source: QueueId(b),
        ends: vec![Position(c), Position(d)],
        cursor: Position(d),
        state: RedriveState::ALL[usize::try_from(a % 7).unwrap()],
        cause: is_open.then_some(RedriveCause::ALL[usize::try_from(b % 9).unwrap()]),
        created_at: Timestamp(-1),
        ended_at: (!is_open).then_some(Timestamp(7)),
        counts: RedriveCounts {
            matched: is_open.then_some(a),
            moved: b,
            skipped_held: c,
            skipped_no_target: d,
            skipped_not_allowed: 1,
            skipped_changed: 2,
        },
        outcome: RedriveOutcome {
            accepted: a,
            died_again: b,
            gone: c,
        },
        targets: vec![RedrivenTo {
            queue: by,
            moved: a,
            followed: b,
            settled: c,
        }],
        batch: c,
        batch_left: d,
        spec: RedriveSpec {
            queue: id.clone(),
            filter: is_open.then(|| {
                let reason = Value::string("rejected");
                Arc::new(DeathFilter::of_parts([("reason", &reason)]).unwrap())
            }),
            target,
            rate_milli: is_open.then_some(a),
            max: is_open.then_some(b),
            ramp: is_open.then_some(true),
            stop: is_open.then_some(RedriveStop {
                deaths: c,
                share_ppm: 5,
            }),
            note: is_open.then(|| id.clone()),
            is_unsafe: is_open,
        },
        id,
    })
}

fn of_redrives() -> impl Strategy<Value = Fact> {
    let fact = (redrive_job(), 0..6_u8).prop_map(|(job, kind)| match kind {
        0 => RedriveFact::Set(Box::new(job)),
        1 => RedriveFact::Moved(Box::new(job.progress())),
        2 => RedriveFact::Learned {
            job: job.number,
            settled: (job.id, job.batch),
            outcome: job.outcome,
        },
        3 => RedriveFact::Ended {
            job: job.number,
            state: job.state,
            cause: job.cause,
            at: job.created_at,
        },
        4 => RedriveFact::Forgotten { job: job.number },
        _ => RedriveFact::Numbers { next: job.number },
    });
    fact.prop_map(Fact::Redrive)
}

fn of_memos() -> impl Strategy<Value = Fact> {
    let parts = (name(), any::<[u64; 2]>(), any::<i64>(), 0..5_u8);
    let fact = parts.prop_map(|(id, [queue, line], at, kind)| match kind {
        0 => MemoFact::ImportForgotten { id },
        1 => MemoFact::Imported(ImportMark {
            id,
            queue: QueueId(queue),
            line,
            at: Timestamp(at),
        }),
        2 => MemoFact::NoteCleared {
            queue: QueueId(queue),
            key: id,
        },
        3 => MemoFact::EventNumbers { below: line },
        _ => MemoFact::NoteSet(Box::new(GroupNote {
            queue: QueueId(queue),
            key: Name::from("1:9c2e41aa"),
            text: id,
            by: Name::from(if line % 2 == 0 { "" } else { "alice" }),
            at: Timestamp(at),
            empty_since: (line % 3 == 0).then_some(Timestamp(at / 2)),
        })),
    });
    fact.prop_map(Fact::Memo)
}

fn of_topology() -> impl Strategy<Value = Fact> {
    let id = any::<u64>().prop_map(QueueId);
    let end = || {
        (any::<bool>(), name()).prop_map(|(is_queue, name)| {
            if is_queue {
                Destination::Queue(name)
            } else {
                Destination::Exchange(name)
            }
        })
    };
    let binding = || (name(), end(), name(), pairs());
    prop_oneof![
        (id.clone(), name(), any::<bool>(), pairs()).prop_map(
            |(queue, name, auto_delete, arguments)| Fact::Topology(TopologyFact::QueueDeclared {
                queue,
                name,
                auto_delete,
                arguments
            })
        ),
        id.clone()
            .prop_map(|queue| Fact::Topology(TopologyFact::QueueDeleted { queue })),
        id.prop_map(|next| Fact::Topology(TopologyFact::QueueIds { next })),
        (name(), any::<[bool; 3]>(), pairs()).prop_map(|(name, flags, arguments)| {
            let [durable, auto_delete, internal] = flags;
            Fact::Topology(TopologyFact::ExchangeDeclared(ExchangeSpec {
                name,
                kind: ExchangeKind::Headers,
                durable,
                auto_delete,
                internal,
                arguments,
            }))
        }),
        name().prop_map(|name| Fact::Topology(TopologyFact::ExchangeDeleted { name })),
        binding().prop_map(|(source, destination, key, arguments)| Fact::Topology(
            TopologyFact::Bound {
                source,
                destination,
                key,
                arguments
            }
        )),
        binding().prop_map(|(source, destination, key, arguments)| Fact::Topology(
            TopologyFact::Unbound {
                source,
                destination,
                key,
                arguments
            }
        )),
        (any::<bool>(), any::<i64>()).prop_map(|(operator, priority)| Fact::Topology(
            TopologyFact::PolicySet {
                operator,
                policy: Box::new(policy(operator, priority)),
            }
        )),
        (any::<bool>(), name()).prop_map(|(operator, name)| Fact::Topology(
            TopologyFact::PolicyDeleted { operator, name }
        )),
    ]
}

fn any_fact() -> impl Strategy<Value = Fact> {
    prop_oneof![
        of_messages(),
        of_redrives(),
        of_memos(),
        publisher_links::facts(),
        consumer_links::facts(),
        of_topology(),
        of_registry()
    ]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), "[a-z.*^$(){}]{0,9}"]
}

fn names() -> impl Strategy<Value = Vec<Name>> {
    prop::collection::vec(name(), 0..3)
}

fn vhost_spec() -> impl Strategy<Value = VhostSpec> {
    let spec = (
        text(),
        names(),
        prop::option::of(name()),
        any::<[Option<u64>; 2]>(),
    );
    spec.prop_map(
        |(description, tags, default_queue_type, limits)| VhostSpec {
            description,
            tags,
            default_queue_type,
            limits: VhostLimits {
                connections_max: limits[0],
                queues_max: limits[1],
            },
        },
    )
}

fn user() -> impl Strategy<Value = User> {
    let password = prop::option::of(any::<[u8; 4]>());
    let user = (name(), password, names(), any::<[Option<u32>; 2]>());
    user.prop_map(|(name, salt, tags, limits)| User {
        name,
        password: salt.map(|salt| PasswordHash::rabbit_sha512(salt, b"secret").into()),
        tags: tags.iter().map(|word| Tag::from_word(word)).collect(),
        loopback_only: false,
        limits: UserLimits {
            connections_max: limits[0],
            sessions_max: limits[1],
        },
    })
}

fn of_registry() -> impl Strategy<Value = Fact> {
    let pattern = || prop_oneof![Just(""), Just("^{username}\\."), Just("(?!amq)")];
    let patterns = || [pattern(), pattern(), pattern()];
    let fact = prop_oneof![
        (name(), vhost_spec()).prop_map(|(name, spec)| RegistryFact::VhostSet { name, spec }),
        name().prop_map(|name| RegistryFact::VhostDeleted { name }),
        user().prop_map(|user| RegistryFact::UserSet(Box::new(user))),
        name().prop_map(|name| RegistryFact::UserDeleted { name }),
        (name(), name(), patterns()).prop_map(|(vhost, user, [configure, write, read])| {
            let permissions = Permissions::new(configure, write, read);
            RegistryFact::PermissionsSet {
                vhost,
                user,
                permissions: permissions.unwrap(),
            }
        }),
        (name(), name()).prop_map(|(vhost, user)| RegistryFact::PermissionsCleared { vhost, user }),
        (name(), name(), name(), patterns()).prop_map(
            |(vhost, user, exchange, [write, read, _])| {
                let permissions = TopicPermissions::new(write, read, &user, &vhost);
                RegistryFact::TopicPermissionsSet {
                    vhost,
                    user,
                    exchange,
                    permissions: permissions.unwrap(),
                }
            }
        ),
        (name(), name(), name()).prop_map(|(vhost, user, exchange)| {
            RegistryFact::TopicPermissionsCleared {
                vhost,
                user,
                exchange,
            }
        }),
        (name(), text()).prop_map(|(name, value)| RegistryFact::GlobalParameterSet { name, value }),
        name().prop_map(|name| RegistryFact::GlobalParameterCleared { name }),
    ];
    fact.prop_map(|fact| Fact::Registry(Box::new(fact)))
}

fn policy(operator: bool, priority: i64) -> Policy {
    let spec = PolicySpec {
        name: Name::from("p"),
        pattern: r"^(?!amq\.)",
        priority,
        apply_to: "quorum_queues",
        definition: vec![(Name::from("max-length"), Value::Ulong(5))],
    };
    Policy::new(operator, spec).unwrap()
}

fn stored(facts: Vec<Fact>) -> Vec<u8> {
    let (lsn, wall) = (Lsn(9), Timestamp(-5));
    let record = Record {
        lsn,
        wall,
        facts: facts.into(),
        named: false,
    };
    let stored = Stored::new(Name::from("v"), record);
    let mut out = Vec::new();
    stored.encode(&mut out);
    out
}

proptest! {
    #[test]
    fn facts_are_read_as_they_were_written(
        facts in prop::collection::vec(any_fact(), 0..6),
    ) {
        let bytes = stored(facts.clone());
        let (vhost, record) = decode(Lsn(9), &bytes).unwrap();
        prop_assert_eq!((&*vhost, record.wall), ("v", Timestamp(-5)));
        prop_assert_eq!(record.facts.len(), facts.len());
        let of_registry = |facts: &[Fact]| -> Vec<RegistryFact> {
            let of_registry = facts.iter().filter_map(|fact| match fact {
                Fact::Registry(fact) => Some((**fact).clone()),
                _ => None,
            });
            of_registry.collect()
        };
        prop_assert_eq!(of_registry(&record.facts), of_registry(&facts));
        // What is equal is written equally; a message apart has lost its bytes, not its length.
        prop_assert_eq!(stored(record.facts.into_vec()), bytes.clone());
        fuzz_record(&bytes);
    }

    #[test]
    fn cut_and_changed_records_are_errors_or_other_records(
        facts in prop::collection::vec(any_fact(), 1..4),
        at in any::<prop::sample::Index>(),
        mask in 1_u8..,
    ) {
        let mut bytes = stored(facts);
        let at = at.index(bytes.len());
        fuzz_record(&bytes[..at]);
        bytes[at] ^= mask;
        fuzz_record(&bytes);
    }
}

/// What stands in record 5: with its bytes, named or not; with bytes that record 3 names; or changed.
#[rstest]
#[case::named(Body::Named, 5, None)]
#[case::carried(Body::Carried, 0, None)]
#[case::named_by_another(Body::At(Lsn(3)), 3, Some(Body::Named))]
#[case::in_a_body_record(Body::At(Lsn(3)), 3, None)]
fn messages_are_read_back_from_the_records_that_hold_them(
    #[case] body: Body,
    #[case] name: u64,
    #[case] other: Option<Body>,
    #[values(false, true)] changed: bool,
) {
    let (queue, position) = (QueueId(4), Position(9));
    let route = Arc::new(Route {
        exchange: Name::from("x"),
        keys: Arc::from([Name::from("k")]),
    });
    let entry = |position| Entry {
        queue,
        position,
        arrived: Timestamp(0),
        ttl_ms: None,
    };
    let inserted = |message: &Arc<Message>, body, position| Fact::Inserted {
        message: message.clone(),
        route: route.clone(),
        body,
        entries: vec![entry(position)].into(),
    };
    let dead = message(2, true);
    let own = if changed {
        let (message, route) = (dead.clone(), route.clone());
        Fact::Changed {
            queue,
            position,
            message,
            route,
            body,
        }
    } else {
        inserted(&dead, body, position)
    };
    let noise = inserted(&message(1, false), Body::Carried, Position(8));
    let mut records = vec![(Lsn(5), Bytes::from(stored(vec![noise, own])))];
    records.extend(match (other, name) {
        (Some(body), _) => {
            let stranger = inserted(&of_another_size(), Body::Carried, position);
            let named = inserted(&message(0, true), body, Position(1));
            Some((Lsn(3), Bytes::from(stored(vec![named, stranger]))))
        }
        (None, 3) => Some((Lsn(3), dead.bare_bytes())),
        _ => None,
    });
    let wanted = Wanted {
        position,
        envelope: Lsn(5),
        body: Lsn(name),
    };
    let load = PageIn {
        queue,
        block: Position(0),
        wanted: vec![wanted],
    };
    assert_eq!(records_of(&load).last(), Some(&Lsn(5)));
    let read = loaded(&load, whole(records.clone()));
    let (at, message, came_by) = &read.messages[0];
    assert_eq!((*at, message.bare()), (position, dead.bare()));
    assert_eq!(message.history(), dead.history());
    assert_eq!(*came_by, route);
    for missing in 0..records.len() {
        let mut records = records.clone();
        records.remove(missing);
        let read = loaded(&load, whole(records));
        assert!(read.messages.is_empty(), "without one record it is damaged");
    }
}

/// What had the same position before a start.
fn of_another_size() -> Arc<Message> {
    let bytes = Bytes::from_static(b"\x00\x53\x75\xa0\x16a body of another size");
    Arc::new(Message::from_transfer(bytes, KeyRule::Specification).unwrap())
}

fn whole(records: Vec<(Lsn, Bytes)>) -> impl Iterator<Item = (Lsn, RecordRead)> {
    let records = records.into_iter();
    records.map(|(lsn, bytes)| (lsn, RecordRead::Whole(bytes)))
}

#[test]
fn spilled_blocks_are_read_back_whole() {
    let route = Arc::new(Route {
        exchange: Name::from("x"),
        keys: Arc::from([Name::from("k")]),
    });
    let messages = (0..3).map(|n| (Position(n), message(2, false), route.clone()));
    let spill = Spill {
        queue: QueueId(4),
        block: Position(0),
        messages: messages.collect(),
    };
    let wanted = |position| Wanted {
        position,
        envelope: Lsn(1 << 63),
        body: Lsn(0),
    };
    let load = PageIn {
        queue: QueueId(4),
        block: Position(0),
        wanted: [0, 2].map(|n| wanted(Position(n))).to_vec(),
    };
    let piece = Bytes::from(encode_spill(&spill));
    let read = loaded(&load, [(Lsn(1 << 63), RecordRead::Whole(piece))]);
    let places: Vec<_> = read.messages.iter().map(|(at, ..)| at.0).collect();
    assert_eq!(places, [0, 2]);
    for (_, message, came_by) in &read.messages {
        assert_eq!(message.bare(), self::message(2, false).bare());
        assert_eq!(*came_by, route);
    }
}

#[test]
fn newer_versions_and_unknown_facts_are_named() {
    assert_eq!(
        decode(Lsn(1), b"\x02").unwrap_err(),
        RecordError::Version(2)
    );
    // All that no version gave out yet, reserved or free.
    for kind in
        (0..=255).filter(|kind| !matches!(kind, 1..=10 | 24..=29 | 32..=40 | 48..=51 | 56..=76))
    {
        let mut bytes = stored(Vec::new());
        bytes.push(kind);
        let error = decode(Lsn(1), &bytes).unwrap_err();
        assert_eq!(error, RecordError::Fact(kind));
        assert!(error.is_of_newer_version());
    }
}

fn any_route() -> Arc<Route> {
    Arc::new(Route {
        exchange: Name::from("x"),
        keys: Arc::from([Name::from("k")]),
    })
}

#[test]
fn messages_of_another_origin_or_with_parts_are_of_a_newer_version() {
    let fact = Fact::Inserted {
        message: message(1, true),
        route: any_route(),
        body: Body::Carried,
        entries: [].into_iter().collect(),
    };
    let whole = stored(vec![fact]);
    let mut envelope = Vec::new();
    message(1, true).encode_envelope(&mut envelope);
    let at = whole.windows(envelope.len()).position(|w| w == envelope);
    let at = at.unwrap();
    let mut of_0_9_1 = whole.clone();
    of_0_9_1[at] = 2;
    // The last byte of the envelope says that there are no parts; one of kind 9, empty, is longer by 5.
    let mut with_parts = whole.clone();
    let end = at + envelope.len();
    with_parts.splice(end - 1..end, [0xa0, 4, 0x53, 9, 0xa0, 0]);
    with_parts[at - 1] += 5;
    for (bytes, expect) in [
        (of_0_9_1, StoredMessageError::Format(2)),
        (with_parts, StoredMessageError::Part(9)),
    ] {
        let error = decode(Lsn(1), &bytes).unwrap_err();
        assert_eq!(error, RecordError::Message(expect));
        assert!(error.is_of_newer_version());
    }
}

#[test]
fn a_piece_of_a_checkpoint_that_holds_a_message_is_damaged() {
    let (message, body) = (message(0, true), Body::Carried);
    let route = any_route();
    let inserted = Fact::Inserted {
        message: message.clone(),
        route: route.clone(),
        body,
        entries: [].into_iter().collect(),
    };
    let changed = Fact::Changed {
        queue: QueueId(1),
        position: Position(1),
        message,
        route,
        body,
    };
    for fact in [inserted, changed] {
        let bytes = stored(vec![fact]);
        assert!(decode(Lsn(1), &bytes).is_ok());
        let error = decode_block(Lsn(1), &bytes).unwrap_err();
        assert_eq!(error, RecordError::Field("message in a checkpoint"));
        assert!(!error.is_of_newer_version());
    }
}
