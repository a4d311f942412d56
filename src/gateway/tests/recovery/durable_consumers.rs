//! Links of consumers that outlive the broker, on the raw wire. [AMQP 3.5.5]

use super::consumers::{Map, dispose, give, lasting_for, publish, tag, take};
use super::world::{World, unsettled};
use crate::base::{Lsn, Serial};
use crate::wire::performative::{Attach, DeliveryState, Flow, LinkFlow, Performative};

/// The attach of a consumer that is to be kept for a minute, over a restart too, with these deliveries.
fn durable(durable: u32, map: &Map) -> Attach {
    let mut attach = lasting_for(Some("connection-close"), 60, map);
    attach.source.as_mut().unwrap().durable = durable;
    attach
}

fn durability(answer: &Attach) -> u32 {
    answer.source.as_deref().unwrap().durable
}

fn held(world: &World) -> usize {
    let links = world.scene.core.consumer_links();
    links.map(|(_, held)| held.len()).sum()
}

#[test]
fn the_answer_to_a_consumer_names_the_durability_that_is_in_force() {
    for (asked, expect) in [(2, 2), (1, 0), (0, 0)] {
        let mut world = World::new();
        let line = world.line("c");
        let answer = world.attach(line, &durable(asked, &Map::new()));
        assert_eq!(durability(&answer), expect, "{asked}");
    }
    // A link that ends with its connection outlives no broker.
    let mut world = World::new();
    let line = world.line("c");
    let mut attach = lasting_for(None, 0, &Map::new());
    attach.source.as_mut().unwrap().durable = 2;
    let answer = world.attach(line, &attach);
    assert_eq!(durability(&answer), 0);
    // What was not kept from its beginning is not kept later.
    publish(&mut world, 1);
    let first = world.line("d");
    world.attach(first, &durable(0, &Map::new()));
    let sent = take(&mut world, first, 1);
    world.cut(first);
    world.drive();
    let second = world.line("d");
    let map = Map::from([(tag(&sent[0]), None)]);
    let answer = world.attach(second, &durable(2, &map));
    assert_eq!((durability(&answer), unsettled(&answer)), (0, map));
}

#[test]
fn nothing_is_sent_on_a_durable_link_before_the_journal_has_that_it_holds_it() {
    let mut world = World::new();
    publish(&mut world, 3);
    let line = world.line("c");
    world.attach(line, &durable(2, &Map::new()));
    world.durable = Lsn(0);
    assert_eq!(take(&mut world, line, 2).len(), 0);
    assert_eq!(held(&world), 2);
    let awaited = world.lines[line].gateway.awaits().unwrap();
    world.durable = Lsn(awaited.0 - 1);
    world.drive();
    assert_eq!(world.lines[line].transfers.len(), 0);
    world.durable = awaited;
    world.drive();
    let sent: Vec<_> = world.lines[line].transfers.drain(..).collect();
    assert_eq!(sent.len(), 2);
    assert_eq!(world.lines[line].gateway.awaits(), None);
    dispose(&mut world, line, 0, false, DeliveryState::Accepted);
    world.drive();
    assert_eq!(held(&world), 1);
}

/// The end of a drain says that nothing more comes for its credit. [AMQP 2.6.7]
#[test]
fn a_drain_ends_behind_what_waits_for_the_journal() {
    let mut world = World::new();
    publish(&mut world, 1);
    let line = world.line("c");
    world.attach(line, &durable(2, &Map::new()));
    world.durable = Lsn(0);
    let flow = Flow {
        next_incoming_id: Some(Serial(0)),
        incoming_window: 10_000,
        next_outgoing_id: Serial(0),
        outgoing_window: 10_000,
        link: Some(LinkFlow {
            handle: 0,
            delivery_count: None,
            link_credit: Some(5),
            available: None,
            drain: true,
            acquires: false,
        }),
        echo: false,
    };
    world.write(line, 0, &Performative::Flow(flow), &[]);
    world.drive();
    assert_eq!(world.lines[line].transfers.len(), 0);
    world.durable = Lsn(u64::MAX);
    world.drive();
    assert_eq!(world.lines[line].transfers.len(), 1);
}

#[test]
fn what_waits_for_the_journal_when_its_link_ends_was_never_sent() {
    for closed in [false, true] {
        let mut world = World::new();
        publish(&mut world, 2);
        let line = world.line("c");
        world.attach(line, &durable(2, &Map::new()));
        assert_eq!(take(&mut world, line, 1).len(), 1);
        world.durable = Lsn(0);
        give(&mut world, line, 2);
        assert_eq!(held(&world), 2);
        world.detach(line, closed);
        world.drive();
        world.durable = Lsn(u64::MAX);
        world.drive();
        assert_eq!(world.lines[line].transfers.len(), 0);
        assert_eq!(held(&world), usize::from(!closed));
        assert_eq!(world.ready(), if closed { 2 } else { 1 });
        // The same when the line is lost.
        let other = world.line("d");
        world.attach(other, &durable(2, &Map::new()));
        world.durable = Lsn(0);
        give(&mut world, other, 1);
        world.cut(other);
        world.drive();
        assert_eq!(held(&world), usize::from(!closed));
    }
}
