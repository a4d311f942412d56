//! Links of publishers that outlive the broker. [AMQP 3.5.5]

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::support::{BodyStore, Scene, options, registry};
use super::world::{World, kept, transfer, unsettled};
use crate::gateway::{Bodies, Environment};
use crate::wire::performative::{Attach, DeliveryState, TargetArchetype, Transfer};

/// The same attach, of a link that outlives the broker.
fn durable(durable: u32, attach: Attach) -> Attach {
    let mut attach = attach;
    match attach.target.as_deref_mut() {
        Some(TargetArchetype::Target(target)) => target.durable = durable,
        other => panic!("{other:?}"),
    }
    attach
}

fn durability(answer: &Attach) -> u32 {
    match answer.target.as_deref() {
        Some(TargetArchetype::Target(target)) => target.durable,
        other => panic!("{other:?}"),
    }
}

impl World {
    fn with_journal() -> Self {
        let mut world = Self::new();
        world.scene = Scene::with_body_store().0;
        world.scene.queue("q", &[]);
        world
    }

    /// Another broker, with the core of this one. Returns the numbers of links that it forgets.
    fn restart(&mut self) -> Vec<u64> {
        let bodies: Arc<dyn Bodies> = Arc::new(BodyStore::default());
        let environment = Environment::new(registry(), options()).with_bodies(Some(bodies));
        self.scene.environment = Arc::new(environment);
        let (now, core) = (self.scene.now.mono, &self.scene.core);
        self.scene.environment.restore_links(now, core)
    }

    fn links(&self) -> Vec<(u64, usize)> {
        let links = self.scene.core.publisher_links();
        let links = links.map(|(link, unsettled)| (link.number, unsettled.count()));
        links.collect()
    }
}

#[test]
fn an_answer_names_the_durability_that_is_in_force() {
    for (has_journal, asked, expect) in [(true, 2, 2), (true, 1, 0), (true, 0, 0), (false, 2, 0)] {
        let mut world = if has_journal {
            World::with_journal()
        } else {
            World::new()
        };
        let line = world.line("c");
        let answer = world.attach(line, &durable(asked, kept(&[])));
        assert_eq!(
            durability(&answer),
            expect,
            "{asked}, journal {has_journal}"
        );
        assert_eq!(world.links().len(), usize::from(expect > 0));
    }
    // What was not kept from its beginning is not kept later.
    let mut world = World::with_journal();
    let first = world.line("c");
    world.attach(first, &kept(&[]));
    world.cut(first);
    let second = world.line("c");
    let answer = world.attach(second, &durable(2, kept(&[])));
    assert_eq!(durability(&answer), 0);
}

#[test]
fn an_outcome_that_a_restart_hid_is_told_and_nothing_else_is_known() {
    let mut world = World::with_journal();
    let first = world.line("c");
    world.attach(first, &durable(2, kept(&[])));
    for (id, tag) in [b"a", b"b", b"c"].into_iter().enumerate() {
        world.send(first, u32::try_from(id).unwrap(), tag);
    }
    world.settle(first, 1);
    world.send(first, 3, b"d"); // which says that b is settled
    world.settle(first, 2);
    assert_eq!(world.restart(), [0; 0]);
    let second = world.line("c");
    let again = durable(2, kept(&[b"a", b"d", b"e"]));
    let answer = world.attach(second, &again);
    assert_eq!(durability(&answer), 2);
    let told = Some(DeliveryState::Accepted);
    let expect = [b"a".to_vec(), b"d".to_vec()].map(|tag| (tag, told.clone()));
    assert_eq!(unsettled(&answer), BTreeMap::from(expect));
    world.resume(second, 0, b"a");
    assert_eq!(world.outcomes(second), [(0, DeliveryState::Accepted)]);
    let over = Transfer {
        resume: true,
        settled: Some(true),
        ..transfer(1, b"d")
    };
    world.transfer(second, &over, &[]);
    world.send(second, 2, b"e");
    assert_eq!(world.ready(), 5);
    // What was settled before the restart without being told is forgotten with the next message.
    assert_eq!(world.links(), [(1, 2)], "a and e");
}

#[test]
fn a_link_that_is_closed_or_whose_time_is_over_is_not_kept_for_the_next_broker() {
    let mut world = World::with_journal();
    let line = world.line("c");
    world.attach(line, &durable(2, kept(&[])));
    world.send(line, 0, b"a");
    world.detach(line, true);
    assert_eq!(world.links(), []);
    let second = world.line("d");
    world.attach(second, &durable(2, kept(&[])));
    world.send(second, 0, b"a");
    assert_eq!(world.links(), [(2, 1)]);
    assert_eq!(world.restart(), [0; 0]);
    let now = |world: &World| world.scene.now.mono;
    let expired = world.scene.environment.expire_links(now(&world));
    assert!(expired.is_empty());
    world.pass(60_000);
    let expired = world.scene.environment.expire_links(now(&world));
    assert_eq!(expired, [("/".into(), 2)]);
    // Its number is not used again.
    let third = world.line("e");
    world.attach(third, &durable(2, kept(&[])));
    assert_eq!(world.links(), [(2, 1), (3, 0)]);
}

#[test]
fn of_two_links_with_one_name_a_start_keeps_the_newer() {
    let mut world = World::with_journal();
    let first = world.line("c");
    world.attach(first, &durable(2, kept(&[])));
    world.send(first, 0, b"a");
    // The first is forgotten, and the core is not told: a crash came before.
    world.pass(60_001);
    world.cut(first);
    world.leave(first);
    world.pass(60_001);
    let now = world.scene.now.mono;
    assert_eq!(world.scene.environment.expire_links(now).len(), 1);
    let second = world.line("c");
    world.attach(second, &durable(2, kept(&[])));
    world.send(second, 0, b"b");
    assert_eq!(world.links(), [(1, 1), (2, 1)]);
    assert_eq!(world.restart(), [1]);
    let third = world.line("c");
    let answer = world.attach(third, &durable(2, kept(&[b"a", b"b"])));
    let known: Vec<_> = unsettled(&answer).into_keys().collect();
    assert_eq!(known, [b"b"]);
}
