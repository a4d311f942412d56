//! Links that outlive their connection, on the raw wire. [AMQP 2.6.13, 3.5.6]

mod anonymous;
mod consumers;
mod cuts;
mod durable_consumers;
mod partials;
mod restarts;
mod world;

use std::collections::BTreeMap;

use super::support::{Scene, message, options, sender};
use crate::base::Lsn;
use crate::base::limits::{RESUMABLE_DELIVERIES_MAX, RESUMABLE_LINKS_USER_MAX};
use crate::broker::registry::{DEFAULT_VHOST, RegistryFact};
use crate::gateway::GatewayOptions;
use crate::wire::performative::{
    Attach, DeliveryState, End, Performative, ReceiverSettleMode, SenderSettleMode, Transfer,
    Value, fields,
};
use world::{World, kept, lasting, lifetime, told, transfer, unsettled};

#[test]
fn an_answer_names_the_expiry_that_is_in_force() {
    // [AMQP 3.5.6]
    let mut world = World::new();
    let nothing = (None, 0);
    for (name, policy, timeout_s, expect) in [
        (
            "a",
            Some("connection-close"),
            60,
            told("connection-close", 60),
        ),
        ("b", Some("session-end"), 7, told("session-end", 7)),
        ("c", None, 7, told("session-end", 7)),
        ("d", Some("link-detach"), 7, told("link-detach", 7)),
        ("e", Some("never"), 0, told("connection-close", 86_400)),
        (
            "f",
            Some("connection-close"),
            u32::MAX,
            told("connection-close", 86_400),
        ),
        ("g", Some("connection-close"), 0, nothing.clone()),
        ("h", Some("until-dawn"), 60, nothing.clone()),
    ] {
        let line = world.line("c");
        let attach = Attach {
            name: name.to_owned(),
            ..lasting(policy, timeout_s, &[])
        };
        let answer = world.attach(line, &attach);
        assert_eq!(lifetime(&answer), expect, "{policy:?} {timeout_s}");
    }
    for (case, attach) in [
        (
            "the receiver settles",
            Attach {
                rcv_settle_mode: ReceiverSettleMode::First,
                ..kept(&[])
            },
        ),
        (
            "all is sent settled",
            Attach {
                snd_settle_mode: SenderSettleMode::Settled,
                ..kept(&[])
            },
        ),
    ] {
        let line = world.line("c");
        assert_eq!(lifetime(&world.attach(line, &attach)), nothing, "{case}");
    }
    let line = world.line("");
    let answer = world.attach(line, &kept(&[]));
    assert_eq!(lifetime(&answer), nothing, "a container without a name");
}

#[test]
fn a_strict_broker_keeps_no_link() {
    let mut world = World::new();
    world.scene = Scene::with(GatewayOptions {
        link_recovery: false,
        ..options()
    });
    world.scene.queue("q", &[]);
    let line = world.line("c");
    assert_eq!(lifetime(&world.attach(line, &kept(&[]))), (None, 0));
}

#[test]
fn an_outcome_that_the_line_lost_is_told_in_the_map_and_when_it_is_resumed() {
    // [AMQP 2.6.13]
    let mut world = World::new();
    let first = world.line("c");
    world.attach(first, &kept(&[]));
    world.send(first, 0, b"a");
    assert_eq!(world.outcomes(first), [(0, DeliveryState::Accepted)]);
    world.cut(first);
    let second = world.line("c");
    let answer = world.attach(second, &kept(&[b"a"]));
    let expect = BTreeMap::from([(b"a".to_vec(), Some(DeliveryState::Accepted))]);
    assert_eq!(unsettled(&answer), expect);
    world.resume(second, 0, b"a");
    assert_eq!(world.outcomes(second), [(0, DeliveryState::Accepted)]);
    world.settle(second, 0);
    assert_eq!(world.ready(), 1);
    // It is forgotten now, also if the publisher forgot that it settled it.
    world.cut(second);
    let third = world.line("c");
    let answer = world.attach(third, &kept(&[b"a"]));
    assert_eq!(unsettled(&answer), BTreeMap::new());
}

#[test]
fn an_outcome_that_is_not_durable_is_told_once_it_is() {
    let mut world = World::new();
    world.durable = Lsn(0);
    let first = world.line("c");
    world.attach(first, &kept(&[]));
    world.send(first, 0, b"a");
    assert_eq!(world.outcomes(first), []);
    world.cut(first);
    let second = world.line("c");
    let answer = world.attach(second, &kept(&[b"a"]));
    assert_eq!(unsettled(&answer), BTreeMap::from([(b"a".to_vec(), None)]));
    world.resume(second, 5, b"a");
    assert_eq!(world.outcomes(second), []);
    world.durable = Lsn(u64::MAX);
    world.drive();
    assert_eq!(world.outcomes(second), [(5, DeliveryState::Accepted)]);
    assert_eq!(world.ready(), 1);
}

#[test]
fn an_outcome_that_the_old_connection_learns_late_is_told_on_the_new_one() {
    let mut world = World::new();
    let first = world.line("c");
    world.attach(first, &kept(&[]));
    // Its message is read, and not yet with the core.
    let frame = Performative::Transfer(transfer(0, b"a"));
    world.write(first, 0, &frame, &message(b"a"));
    let (now, line) = (world.scene.now, &mut world.lines[first]);
    line.gateway.handle_bytes(now, &mut line.input);
    world.cut(first);
    world.lines[first].is_stalled = true;
    let second = world.line("c");
    let answer = world.attach(second, &kept(&[b"a"]));
    assert_eq!(unsettled(&answer), BTreeMap::from([(b"a".to_vec(), None)]));
    world.resume(second, 3, b"a");
    assert_eq!(world.outcomes(second), []);
    world.lines[first].is_stalled = false;
    world.drive();
    assert_eq!(world.outcomes(second), [(3, DeliveryState::Accepted)]);
    assert_eq!(world.ready(), 1);
}

#[test]
fn the_older_end_of_a_link_that_is_attached_twice_loses_it_and_publishes_nothing_more() {
    // [AMQP 2.6.1]
    let mut world = World::new();
    let first = world.line("c");
    world.attach(first, &kept(&[]));
    world.lines[first].is_stalled = true;
    let second = world.line("c");
    world.attach(second, &kept(&[b"a"]));
    // On its way when the link was attached elsewhere.
    world.write(
        first,
        0,
        &Performative::Transfer(transfer(0, b"a")),
        &message(b"a"),
    );
    world.lines[first].is_stalled = false;
    world.drive();
    let stolen = (true, "amqp:link:stolen".to_owned());
    assert_eq!(world.detached(first), Some(stolen));
    assert_eq!(world.outcomes(first), []);
    assert_eq!(world.ready(), 0);
    world.send(second, 0, b"a");
    assert_eq!(world.outcomes(second), [(0, DeliveryState::Accepted)]);
    assert_eq!(world.ready(), 1);
}

#[test]
fn a_link_that_is_attached_again_in_another_session_keeps_its_deliveries() {
    let mut world = World::new();
    let line = world.line("c");
    world.attach(line, &kept(&[]));
    world.send(line, 0, b"a");
    world.begin(line, 1);
    let answer = world.attach_on(line, 1, &kept(&[b"a"]));
    let expect = BTreeMap::from([(b"a".to_vec(), Some(DeliveryState::Accepted))]);
    assert_eq!(unsettled(&answer), expect);
    let stolen = (true, "amqp:link:stolen".to_owned());
    assert_eq!(world.detached(line), Some(stolen));
}

#[test]
fn what_the_publisher_has_settled_or_never_heard_of_is_forgotten_at_its_attach() {
    let mut world = World::new();
    let first = world.line("c");
    world.attach(first, &kept(&[]));
    for (id, tag) in [b"a", b"b", b"c"].iter().enumerate() {
        world.send(first, u32::try_from(id).unwrap(), *tag);
    }
    world.cut(first);
    let second = world.line("c");
    let answer = world.attach(second, &kept(&[b"b", b"x"]));
    let left: Vec<_> = unsettled(&answer).into_keys().collect();
    assert_eq!(left, [b"b".to_vec()]);
    // The tags of the others may be used again.
    world.send(second, 0, b"a");
    assert_eq!(world.outcomes(second), [(0, DeliveryState::Accepted)]);
    assert_eq!(world.ready(), 4);
}

#[test]
fn an_incomplete_map_of_the_publisher_makes_nothing_forgotten() {
    // [AMQP 2.7.3]
    let mut world = World::new();
    let first = world.line("c");
    world.attach(first, &kept(&[]));
    world.send(first, 0, b"a");
    world.send(first, 1, b"b");
    world.cut(first);
    let second = world.line("c");
    let attach = Attach {
        incomplete_unsettled: true,
        ..kept(&[b"b"])
    };
    let answer = world.attach(second, &attach);
    let left: Vec<_> = unsettled(&answer).into_keys().collect();
    assert_eq!(left, [b"a".to_vec(), b"b".to_vec()]);
}

#[test]
fn a_map_that_does_not_fit_a_frame_is_told_in_parts_and_meanwhile_nothing_new_is_taken() {
    // [AMQP 2.7.3]
    let mut world = World::new();
    let first = world.line("c");
    world.attach(first, &kept(&[]));
    let tags: Vec<[u8; 32]> = (0..60).map(|number| [number; 32]).collect();
    for (id, tag) in (0..).zip(&tags) {
        world.send(first, id, tag);
    }
    world.cut(first);
    let mut left: Vec<&[u8]> = tags.iter().map(|tag| &tag[..]).collect();
    let mut rounds = 0;
    while !left.is_empty() {
        rounds += 1;
        let line = world.line_with("c", 512);
        let answer = world.attach(line, &kept(&left));
        let some = unsettled(&answer);
        assert!(!some.is_empty());
        assert_eq!(answer.incomplete_unsettled, some.len() < left.len());
        for (id, tag) in (0..).zip(some.keys()) {
            world.resume(line, id, tag);
            world.settle(line, id);
        }
        left.retain(|tag| !some.contains_key(*tag));
        if rounds == 1 {
            world.send(line, 100, b"new");
            let refused = (true, "amqp:not-allowed".to_owned());
            assert_eq!(world.detached(line), Some(refused));
            // That closed it: nothing of it is kept.
            return;
        }
    }
    panic!("all fitted");
}

#[test]
fn a_delivery_that_is_not_known_and_is_resumed_is_ignored() {
    // [AMQP 2.7.5]
    let mut world = World::new();
    let line = world.line("c");
    world.attach(line, &kept(&[]));
    world.resume(line, 0, b"a");
    assert_eq!(world.outcomes(line), []);
    world.send(line, 1, b"b");
    assert_eq!(world.outcomes(line), [(1, DeliveryState::Accepted)]);
    assert_eq!(world.ready(), 1);
}

#[test]
fn a_tag_that_is_not_settled_is_not_taken_for_another_message() {
    let mut world = World::new();
    let line = world.line("c");
    world.attach(line, &kept(&[]));
    world.send(line, 0, b"a");
    world.send(line, 1, b"a");
    let refused = (true, "amqp:not-allowed".to_owned());
    assert_eq!(world.detached(line), Some(refused));
    assert_eq!(world.ready(), 1);
}

#[test]
fn a_resumed_delivery_that_is_settled_or_aborted_with_it_is_forgotten() {
    for (case, last) in [
        (
            "settled",
            Transfer {
                settled: Some(true),
                ..transfer(0, b"a")
            },
        ),
        (
            "aborted",
            Transfer {
                aborted: true,
                ..transfer(0, b"a")
            },
        ),
    ] {
        let mut world = World::new();
        let first = world.line("c");
        world.attach(first, &kept(&[]));
        world.send(first, 0, b"a");
        world.cut(first);
        let second = world.line("c");
        world.attach(second, &kept(&[b"a"]));
        let last = Transfer {
            resume: true,
            ..last
        };
        world.transfer(second, &last, &[]);
        assert_eq!(world.outcomes(second), [], "{case}");
        world.cut(second);
        let third = world.line("c");
        let answer = world.attach(third, &kept(&[b"a"]));
        assert_eq!(unsettled(&answer), BTreeMap::new(), "{case}");
        assert_eq!(world.ready(), 1, "{case}");
    }
}

#[test]
fn a_closed_link_is_forgotten_and_a_detached_one_is_kept() {
    for (closed, expect) in [(true, 0), (false, 1)] {
        let mut world = World::new();
        let line = world.line("c");
        world.attach(line, &kept(&[]));
        world.send(line, 0, b"a");
        world.detach(line, closed);
        let answer = world.attach(line, &kept(&[b"a"]));
        assert_eq!(unsettled(&answer).len(), expect, "closed {closed}");
    }
}

#[test]
fn a_link_that_the_broker_closed_is_kept_until_its_publisher_answers() {
    for (is_answered, expect) in [(false, Some(DeliveryState::Accepted)), (true, None)] {
        let mut world = World::new();
        let first = world.line("c");
        world.attach(first, &kept(&[]));
        world.send(first, 0, b"a");
        world.delete_queue();
        let deleted = (true, "amqp:resource-deleted".to_owned());
        assert_eq!(world.detached(first), Some(deleted));
        if is_answered {
            world.detach(first, true);
        }
        world.cut(first);
        world.scene.queue("q", &[]);
        let second = world.line("c");
        let answer = world.attach(second, &kept(&[b"a"]));
        let told = unsettled(&answer).remove(&b"a"[..]).flatten();
        assert_eq!(told, expect, "answered {is_answered}");
    }
}

#[test]
fn a_link_is_forgotten_when_its_time_is_over_which_begins_as_its_policy_says() {
    // [AMQP 3.5.6]
    for (policy, end, expect) in [
        ("link-detach", "detach", 0),
        ("session-end", "detach", 1),
        ("session-end", "end", 0),
        ("connection-close", "end", 1),
        ("connection-close", "cut", 0),
    ] {
        let mut world = World::new();
        let line = world.line("c");
        world.attach(line, &lasting(Some(policy), 10, &[]));
        world.send(line, 0, b"a");
        match end {
            "detach" => world.detach(line, false),
            "end" => {
                let end = End { error: None };
                world.write(line, 0, &Performative::End(Box::new(end)), &[]);
            }
            _ => world.cut(line),
        }
        world.drive();
        for (ms, expect) in [(9_000, 1), (2_000, expect)] {
            world.pass(ms);
            world.scene.environment.expire_links(world.scene.now.mono);
            let links = world.scene.environment.resumable.len();
            assert_eq!(links, expect, "{policy}, {end}");
        }
    }
}

#[test]
fn links_of_a_user_or_vhost_that_is_deleted_are_forgotten() {
    for deleted in [
        RegistryFact::VhostDeleted {
            name: DEFAULT_VHOST.into(),
        },
        RegistryFact::UserDeleted {
            name: "embedder".into(),
        },
    ] {
        let mut world = World::new();
        let line = world.line("c");
        world.attach(line, &kept(&[]));
        world.send(line, 0, b"a");
        let user = world.lines[line].gateway.user().cloned();
        let deleted = match (deleted, user) {
            (RegistryFact::UserDeleted { .. }, Some(name)) => RegistryFact::UserDeleted { name },
            (deleted, _) => deleted,
        };
        assert_eq!(world.scene.environment.resumable.len(), 1);
        world.scene.environment.change_registry([deleted]);
        assert_eq!(world.scene.environment.resumable.len(), 0);
    }
}

#[test]
fn links_beyond_those_of_a_user_end_with_their_connection() {
    let mut world = World::new();
    let line = world.line("c");
    let mut promised = 0;
    for number in 0..RESUMABLE_LINKS_USER_MAX + 2 {
        let attach = Attach {
            name: format!("out {number}"),
            ..kept(&[])
        };
        let answer = world.attach(line, &attach);
        promised += usize::from(lifetime(&answer) != (None, 0));
        world.detach(line, false);
        world.lines[line].got.clear();
    }
    assert_eq!(promised, RESUMABLE_LINKS_USER_MAX);
}

#[test]
fn a_publisher_that_settles_nothing_gets_no_credit_beyond_the_bound() {
    let mut world = World::new();
    let line = world.line("c");
    world.attach(line, &kept(&[]));
    let before = world.scene.environment.kept().bytes();
    let mut sent = 0;
    while world.detached(line).is_none() {
        world.send(line, sent, &sent.to_be_bytes());
        sent += 1;
        assert!(sent <= RESUMABLE_DELIVERIES_MAX + 1);
        world.lines[line]
            .got
            .retain(|got| !matches!(got, Performative::Disposition(_)));
    }
    assert_eq!(sent, RESUMABLE_DELIVERIES_MAX + 1);
    world.detach(line, true);
    let kept = world.scene.environment.kept().bytes();
    assert!(
        kept <= before,
        "a link that is closed takes nothing: {kept} after {before}"
    );
}

/// A link on which requests were aborted got no credit any more.
#[test]
fn requests_that_are_aborted_use_up_no_credit_for_good() {
    let mut world = World::new();
    let line = world.line("c");
    let paired = Attach {
        snd_settle_mode: SenderSettleMode::Settled,
        properties: Some(fields([("paired", Value::Bool(true))])),
        ..sender("pair", Some("/management"))
    };
    world.attach(line, &paired);
    for id in 0..20 {
        let aborted = Transfer {
            aborted: true,
            ..transfer(id, b"a")
        };
        world.transfer(line, &aborted, &[]);
    }
    assert_eq!(world.detached(line), None);
}
