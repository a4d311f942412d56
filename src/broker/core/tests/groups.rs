//! Message groups: each goes to one consumer, in order. [AMQP 3.2.4 group-id]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::scenario::{CONNECTION, SESSION, Scenario, body_of, draft, number, text};
use crate::base::limits::BATCH_NS_MAX;
use crate::base::{ConsumerId, Lsn, Meter, Name, Position, Seed};
use crate::broker::*;
use crate::filter::Selector;
use crate::message::Route;

/// Publishes messages of the groups that their first letters name; `-`: of none.
fn publish(s: &mut Scenario, bodies: &[&str]) {
    for body in bodies {
        let message = match body.chars().next() {
            Some('-') | None => draft(body),
            Some(group) => draft(body).group(&group.to_string()),
        };
        assert_eq!(s.publish("q", &message), PublishOutcome::Accepted);
    }
}

fn with_queue(arguments: &[(&str, crate::wire::Value)]) -> Scenario {
    let mut s = Scenario::new();
    s.queue("q", arguments);
    s
}

/// A consumer with credit for so many.
fn consumer(s: &mut Scenario, id: u64, credit: u64) -> ConsumerId {
    let consumer = s.consumer(id, "q");
    s.credit(consumer, credit);
    consumer
}

fn select(s: &mut Scenario, id: u64, selector: &str) -> ConsumerId {
    let selector = Some(Arc::new(Selector::parse(selector).unwrap()));
    s.consume(id, "q", |consume| consume.selector = selector);
    s.credit(ConsumerId(id), 100);
    ConsumerId(id)
}

fn taken(s: &mut Scenario, consumer: ConsumerId) -> Vec<String> {
    s.taken(consumer).iter().map(body_of).collect()
}

fn kept(s: &Scenario) -> u64 {
    s.core.queue("q").unwrap().details().message_groups
}

#[test]
fn each_group_sticks_to_the_consumer_of_its_first_message() {
    let mut s = with_queue(&[]);
    let (one, two) = (consumer(&mut s, 1, 100), consumer(&mut s, 2, 100));
    publish(
        &mut s,
        &["a1", "b1", "a2", "a3", "b2", "-1", "-2", "a4", "b3"],
    );
    let (of_one, of_two) = (taken(&mut s, one), taken(&mut s, two));
    let grouped = |got: &[String], group| {
        let got = got.iter().filter(|body| body.starts_with(group));
        got.cloned().collect::<Vec<_>>()
    };
    assert_eq!(grouped(&of_one, 'a'), ["a1", "a2", "a3", "a4"]);
    assert_eq!(grouped(&of_two, 'b'), ["b1", "b2", "b3"]);
    assert_eq!(grouped(&of_one, 'b').len() + grouped(&of_two, 'a').len(), 0);
    assert_eq!(grouped(&of_one, '-').len() + grouped(&of_two, '-').len(), 2);
    assert_eq!(kept(&s), 2);
}

/// Of a full queue the first consumer got half of all messages in its first turn, and so every group.
#[test]
fn groups_that_wait_are_shared_among_consumers() {
    let mut s = with_queue(&[]);
    let bodies: Vec<_> = (0..40).map(|n| ["a", "b", "c", "d"][n % 4]).collect();
    publish(&mut s, &bodies);
    let (one, two) = (s.consumer(1, "q"), s.consumer(2, "q"));
    let session_flow = |s: &mut Scenario, limit| {
        let session = SESSION;
        s.apply(Command::SessionFlow { session, limit });
    };
    session_flow(&mut s, 0);
    s.credit(one, 100);
    s.credit(two, 100);
    session_flow(&mut s, u64::MAX);
    let groups = |got: Vec<String>| BTreeSet::from_iter(got);
    let (of_one, of_two) = (groups(taken(&mut s, one)), groups(taken(&mut s, two)));
    assert_eq!(
        (of_one.len(), of_two.len()),
        (2, 2),
        "{of_one:?} {of_two:?}"
    );
    assert!(of_one.is_disjoint(&of_two));
}

#[test]
fn messages_wait_for_their_owner_without_credit_and_others_pass_by() {
    let mut s = with_queue(&[]);
    let owner = consumer(&mut s, 1, 1);
    publish(&mut s, &["a1", "a2", "-1", "b1", "a3", "-2", "b2"]);
    let other = consumer(&mut s, 2, 100);
    assert_eq!(taken(&mut s, owner), ["a1"]);
    assert_eq!(taken(&mut s, other), ["-1", "b1", "-2", "b2"]);
    publish(&mut s, &["a4", "-3"]);
    assert_eq!(taken(&mut s, other), ["-3"]);
    assert_eq!(s.counts("q"), (3, 6, 0));
    s.credit(owner, 100);
    assert_eq!(taken(&mut s, owner), ["a2", "a3", "a4"]);
}

#[test]
fn when_the_owner_goes_its_messages_come_back_first_and_in_order() {
    for settled_first in [false, true] {
        let mut s = with_queue(&[]);
        let owner = consumer(&mut s, 1, 2);
        publish(&mut s, &["a1", "a2", "a3", "-1", "a4"]);
        let other = consumer(&mut s, 2, 100);
        let held = s.taken(owner);
        assert_eq!(taken(&mut s, other), ["-1"]);
        if settled_first {
            for delivery in &held {
                s.settle(delivery, Outcome::Accepted);
            }
        }
        s.detach(owner);
        let all = ["a1", "a2", "a3", "a4"];
        let expected = if settled_first { &all[2..] } else { &all[..] };
        assert_eq!(taken(&mut s, other), expected);
        assert_eq!(kept(&s), 1);
    }
}

/// More held messages than one slice gives back: the queue is served in between.
#[test]
fn nobody_gets_a_later_message_before_all_held_ones_came_back() {
    let mut s = with_queue(&[]);
    let owner = consumer(&mut s, 1, 1_000);
    let bodies: Vec<_> = (0..2_000).map(|n| format!("a{n}")).collect();
    let all: Vec<_> = bodies.iter().map(String::as_str).collect();
    publish(&mut s, &all);
    assert_eq!(s.taken(owner).len(), 1_000);
    let other = consumer(&mut s, 2, 10_000);
    publish(&mut s, &["-"]);
    assert_eq!(taken(&mut s, other), ["-"]);
    s.detach(owner);
    assert_eq!(taken(&mut s, other), bodies);
}

#[test]
fn a_connection_that_is_lost_frees_its_groups() {
    let mut s = with_queue(&[]);
    let owner = consumer(&mut s, 1, 1);
    publish(&mut s, &["a1", "a2"]);
    assert_eq!(taken(&mut s, owner), ["a1"]);
    let (connection, session) = (crate::base::ConnectionId(2), crate::base::SessionId(2));
    s.connect(connection, session);
    s.consume(2, "q", |consume| consume.of(connection, session));
    s.credit(ConsumerId(2), 10);
    assert_eq!(taken(&mut s, ConsumerId(2)), [""; 0]);
    s.apply(Command::ConnectionClose {
        connection: CONNECTION,
    });
    assert_eq!(taken(&mut s, ConsumerId(2)), ["a1", "a2"]);
}

#[test]
fn released_and_failed_messages_stay_with_their_consumer() {
    let mut s = with_queue(&[]);
    let owner = consumer(&mut s, 1, 1);
    publish(&mut s, &["a1", "a2"]);
    let other = consumer(&mut s, 2, 100);
    let first = s.taken(owner).remove(0);
    s.settle(&first, Outcome::Released);
    assert_eq!(taken(&mut s, other), [""; 0]);
    s.credit(owner, 2);
    let first = s.taken(owner).remove(0);
    assert_eq!(body_of(&first), "a1");
    s.fail(&first);
    assert_eq!(taken(&mut s, other), [""; 0]);
    s.credit(owner, 10);
    assert_eq!(taken(&mut s, owner), ["a1", "a2"]);
}

#[test]
fn a_consumer_whose_selector_does_not_match_does_not_become_the_owner() {
    let mut s = with_queue(&[]);
    let red = select(&mut s, 1, "JMSPriority = 9");
    publish(&mut s, &["a1"]);
    let all = consumer(&mut s, 2, 2);
    assert_eq!(taken(&mut s, red), [""; 0]);
    assert_eq!(taken(&mut s, all), ["a1"]);
    // It matches, and the group is another's.
    s.publish("q", &draft("a2").group("a").priority(9));
    s.publish("q", &draft("b1").group("b").priority(9));
    publish(&mut s, &["b2"]);
    assert_eq!(taken(&mut s, all), ["a2"]);
    assert_eq!(taken(&mut s, red), ["b1"]);
    // What the owner does not want waits until it goes.
    s.credit(all, 100);
    assert_eq!(taken(&mut s, all), [""; 0]);
    assert_eq!(s.counts("q").0, 1);
    s.detach(red);
    assert_eq!(taken(&mut s, all), ["b1", "b2"]);
}

#[test]
fn dead_letters_are_grouped_in_their_new_queue() {
    let mut s = Scenario::new();
    s.queue(
        "q",
        &[
            ("x-dead-letter-exchange", text("")),
            ("x-dead-letter-routing-key", text("dead")),
        ],
    );
    s.queue("dead", &[]);
    publish(&mut s, &["a1", "a2", "a3"]);
    let (one, two) = (s.consumer(11, "dead"), s.consumer(12, "dead"));
    s.credit(one, 1);
    let first = consumer(&mut s, 1, 100);
    for delivery in s.taken(first) {
        s.reject(&delivery);
    }
    s.credit(two, 10);
    assert_eq!(taken(&mut s, one), ["a1"]);
    assert_eq!(taken(&mut s, two), [""; 0]);
    s.credit(one, 10);
    assert_eq!(taken(&mut s, one), ["a2", "a3"]);
}

#[test]
fn priorities_come_first_within_a_group_and_a_blocked_one_holds_up_no_lower_one() {
    for arguments in [
        vec![("x-max-priority", number(9))],
        vec![("x-queue-type", text("quorum"))],
    ] {
        let mut s = with_queue(&arguments);
        let owner = consumer(&mut s, 1, 1);
        publish(&mut s, &["a1"]);
        s.publish("q", &draft("a2").group("a").priority(9));
        s.publish("q", &draft("a3").group("a").priority(1));
        s.publish("q", &draft("b1").group("b").priority(1));
        let other = consumer(&mut s, 2, 100);
        assert_eq!(taken(&mut s, other), ["b1"]);
        assert_eq!(taken(&mut s, owner), ["a1"]);
        s.credit(owner, 10);
        assert_eq!(taken(&mut s, owner), ["a2", "a3"]);
    }
}

#[test]
fn a_single_active_consumer_gets_all_groups_and_hands_them_on() {
    let mut s = with_queue(&[("x-single-active-consumer", crate::wire::Value::Bool(true))]);
    let (first, second) = (consumer(&mut s, 1, 1), consumer(&mut s, 2, 100));
    publish(&mut s, &["a1", "b1", "a2"]);
    assert_eq!(taken(&mut s, first), ["a1"]);
    assert_eq!(taken(&mut s, second), [""; 0]);
    assert_eq!(kept(&s), 0);
    s.detach(first);
    assert_eq!(taken(&mut s, second), ["a1", "b1", "a2"]);
}

#[test]
fn who_browses_sees_all_groups_and_gets_none() {
    let mut s = with_queue(&[]);
    publish(&mut s, &["a1", "b1"]);
    let mut browse = None;
    let reply = s.consume(9, "q", |consume| {
        consume.consumer = ConsumerId(10);
        browse = Some(consume.clone().into_browse());
    });
    assert!(matches!(reply, Reply::Consuming { .. }));
    s.detach(ConsumerId(10));
    let mut browse = browse.unwrap();
    browse.consumer = ConsumerId(9);
    s.apply(Command::Browse(browse));
    s.credit(ConsumerId(9), 10);
    assert_eq!(taken(&mut s, ConsumerId(9)), ["a1", "b1"]);
    assert_eq!(kept(&s), 0);
    let one = consumer(&mut s, 1, 10);
    assert_eq!(taken(&mut s, one), ["a1", "b1"]);
}

#[test]
fn delayed_messages_go_to_the_owner_when_it_is_their_time() {
    let mut s = with_queue(&[]);
    let (one, two) = (consumer(&mut s, 1, 100), consumer(&mut s, 2, 100));
    publish(&mut s, &["-", "a1"]);
    assert_eq!(
        (taken(&mut s, one).len(), taken(&mut s, two)),
        (1, vec!["a1".into()])
    );
    s.publish("q", &draft("a2").group("a").after(1_000));
    s.publish("q", &draft("-2").after(1_000));
    assert_eq!(s.deliveries.len(), 0);
    s.pass(1_000);
    assert_eq!(taken(&mut s, one), ["-2"]);
    assert_eq!(taken(&mut s, two), ["a2"]);
}

#[test]
fn who_holds_a_message_for_too_long_loses_its_groups() {
    let mut s = with_queue(&[("x-consumer-timeout", number(1_000))]);
    let slow = consumer(&mut s, 1, 1);
    publish(&mut s, &["a1", "a2"]);
    let held = s.taken(slow);
    let other = consumer(&mut s, 2, 100);
    assert_eq!(taken(&mut s, other), [""; 0]);
    s.pass(1_100);
    assert_eq!(taken(&mut s, other), ["a1", "a2"]);
    // It takes part again, and the group stays where it is.
    s.settle(&held[0], Outcome::Accepted);
    s.credit(slow, 10);
    publish(&mut s, &["a3"]);
    assert_eq!(taken(&mut s, slow), [""; 0]);
    assert_eq!(taken(&mut s, other), ["a3"]);
}

#[test]
fn a_group_ends_with_its_last_message() {
    let mut s = with_queue(&[]);
    let owner = consumer(&mut s, 1, 1);
    publish(&mut s, &["a1"]);
    s.publish("q", &draft("a2").ends("a"));
    publish(&mut s, &["a3"]);
    let other = consumer(&mut s, 2, 100);
    assert_eq!(taken(&mut s, other), [""; 0]);
    s.credit(owner, 2);
    assert_eq!(taken(&mut s, owner), ["a1", "a2"]);
    assert_eq!(taken(&mut s, other), ["a3"]);
    assert_eq!(kept(&s), 1);
}

#[test]
fn strict_brokers_and_messages_without_a_name_of_their_group_have_no_groups() {
    let mut strict = Scenario::with(CoreOptions {
        message_groups: false,
        ..CoreOptions::new(Name::from("/"), Seed(7))
    });
    strict.queue("q", &[]);
    let one = consumer(&mut strict, 1, 1);
    publish(&mut strict, &["a1", "a2"]);
    let two = consumer(&mut strict, 2, 100);
    assert_eq!(
        (taken(&mut strict, one).len(), taken(&mut strict, two).len()),
        (1, 1)
    );
    let mut s = with_queue(&[]);
    s.publish("q", &draft("x").group(""));
    assert!(s.core.queue("q").unwrap().selecting.is_empty());
}

#[test]
fn a_drain_ends_when_all_that_is_left_is_for_others() {
    let mut s = with_queue(&[]);
    let owner = consumer(&mut s, 1, 1);
    publish(&mut s, &["a1", "a2", "-1"]);
    assert_eq!(taken(&mut s, owner), ["a1"]);
    let other = s.consumer(2, "q");
    s.drain(other, 10);
    assert_eq!(taken(&mut s, other), ["-1"]);
    let drained =
        |effect: &Effect| matches!(effect, Effect::Drained { consumer, .. } if *consumer == other);
    assert!(s.others.iter().any(drained));
}

/// A queue that had groups once goes the short way again.
#[test]
fn once_all_is_gone_the_queue_is_as_without_groups() {
    let mut s = with_queue(&[]);
    let owner = consumer(&mut s, 1, 1);
    publish(&mut s, &["a1", "a2"]);
    let other = consumer(&mut s, 2, 100);
    let held = s.taken(owner);
    s.settle(&held[0], Outcome::Accepted);
    s.detach(owner);
    for delivery in s.taken(other) {
        s.settle(&delivery, Outcome::Accepted);
    }
    publish(&mut s, &["-1"]);
    let selecting = |s: &Scenario| s.core.queue("q").unwrap().selecting.is_empty();
    assert!(!selecting(&s), "a consumer has a group");
    let third = consumer(&mut s, 3, 0);
    for delivery in s.taken(other) {
        s.settle(&delivery, Outcome::Accepted);
    }
    s.detach(other);
    assert!(selecting(&s));
    s.credit(third, 10);
    publish(&mut s, &["-2"]);
    assert_eq!(taken(&mut s, third), ["-2"]);
}

/// All that had looked behind others' groups were passed in one step.
#[test]
fn when_groups_are_over_thousands_that_looked_behind_them_are_passed_in_pieces() {
    const COUNT: u64 = 1_000;
    let mut s = with_queue(&[]);
    let owner = consumer(&mut s, 1, 1);
    publish(&mut s, &["a1", "a2"]);
    for id in 2..=COUNT {
        consumer(&mut s, id, 1); // the second message is not for it
    }
    // Some go that rest: the queue was served for ever for their sake.
    for id in 2..=COUNT / 3 {
        s.detach(ConsumerId(id));
    }
    s.credit(owner, 2);
    let held = s.taken(owner);
    assert_eq!(held.len(), 2);
    for delivery in &held {
        s.settle(delivery, Outcome::Accepted);
    }
    let detach = Command::ConsumerDetach { consumer: owner };
    s.core.apply(s.now, detach, &mut s.effects);
    let pieces = s.finish_in_pieces();
    assert!(pieces > 5, "{pieces}");
    let queue = s.core.queue("q").unwrap();
    assert!(!queue.selecting.has_groups() && queue.selecting.is_empty());
    // Each waits as before.
    let left = COUNT - COUNT / 3;
    for n in 0..left {
        publish(&mut s, &[&format!("-{n}")]);
    }
    assert_eq!(s.deliveries.len() as u64, left);
}

/// Four messages a block: most are on disk when the next broker begins.
#[test]
fn messages_on_disk_are_grouped_once_they_are_paged_in() {
    let options = || CoreOptions {
        block_shift: 2,
        ..CoreOptions::new(Name::from("/"), Seed(7))
    };
    let mut before = Scenario::with(options());
    before.queue("q", &[]);
    for n in 0..24 {
        let group = ["a", "b"][n % 2];
        before.publish("q", &draft(&format!("{group}{n}")).group(group));
    }
    let mut restoring = Restoring::new(options(), before.now, before.now.wall, u64::MAX);
    for record in &before.records {
        restoring.record(record);
    }
    let mut s = Scenario::with(options());
    s.core = restoring.finish();
    s.connect(CONNECTION, SESSION);
    let (one, two) = (consumer(&mut s, 1, 2), consumer(&mut s, 2, 100));
    page_in(&mut s);
    // What is behind four blocks in front of a message that waits is read for who looks for it.
    let of = |group: &str, from: usize| {
        let all = (from..24).filter(|n| ["a", "b"][n % 2] == group);
        all.map(|n| format!("{group}{n}")).collect::<Vec<_>>()
    };
    assert_eq!(taken(&mut s, one), ["a0", "a2"]);
    assert_eq!(taken(&mut s, two), of("b", 0));
    s.apply(Command::Upkeep(UpkeepCommand::PageOut {
        bytes: 1_000_000,
        written: Lsn(u64::MAX),
        spill: false,
    }));
    s.credit(one, 100);
    page_in(&mut s);
    assert_eq!(taken(&mut s, one), of("a", 4));
    assert_eq!(kept(&s), 2);
}

/// Gives the core all blocks it asks for, until it asks no more.
fn page_in(s: &mut Scenario) {
    let position = |position: Position| usize::try_from(position.0).unwrap();
    loop {
        let loads = std::mem::take(&mut s.effects.loads);
        if loads.is_empty() {
            return;
        }
        for load in loads {
            let read = |wanted: Wanted| {
                let n = position(wanted.position);
                let group = ["a", "b"][n % 2];
                let route = Route {
                    exchange: Name::from(""),
                    keys: [Name::from("q")].into(),
                };
                let message = draft(&format!("{group}{n}")).group(group).build();
                (wanted.position, Arc::new(message), Arc::new(route))
            };
            s.apply(Command::Upkeep(UpkeepCommand::PagedIn(PagedIn {
                queue: load.queue,
                block: load.block,
                messages: load.wanted.into_iter().map(read).collect(),
            })));
        }
    }
}

/// Who had passed messages of a group that ended in its own turn had the later ones first.
#[test]
fn after_the_end_of_a_group_nobody_gets_a_later_message_of_it_before_an_earlier_one() {
    let mut s = with_queue(&[]);
    let first = consumer(&mut s, 1, 1);
    publish(&mut s, &["x1", "x2"]);
    let owner = consumer(&mut s, 2, 1);
    publish(&mut s, &["a1"]);
    s.publish("q", &draft("a2").ends("a"));
    publish(&mut s, &["a3"]);
    let other = consumer(&mut s, 3, 100);
    assert_eq!(
        (taken(&mut s, first), taken(&mut s, owner)),
        (vec!["x1".into()], vec!["a1".into()])
    );
    assert_eq!(taken(&mut s, other), [""; 0]);
    let flow = Command::ConsumerFlow {
        consumer: owner,
        limit: 2,
        drain: false,
    };
    s.core
        .handle_without_running(s.now, flow, &mut Effects::new());
    publish(&mut s, &["a4"]);
    assert_eq!(taken(&mut s, owner), ["a2"]);
    assert_eq!(taken(&mut s, other), ["a3", "a4"]);
}

/// Consumers that look behind all messages of another's group: one command did all of it.
#[test]
fn looking_behind_others_groups_goes_on_in_later_holds() {
    const COUNT: usize = 20_000;
    let mut s = with_queue(&[]);
    let owner = consumer(&mut s, 1, 1);
    for _ in 0..COUNT {
        publish(&mut s, &["a"]);
    }
    publish(&mut s, &["-"]);
    assert_eq!(taken(&mut s, owner), ["a"]);
    let mut effects = Effects::new();
    for id in 2..=20 {
        s.consumer(id, "q");
    }
    for id in 2..=20 {
        let flow = Command::ConsumerFlow {
            consumer: ConsumerId(id),
            limit: 10,
            drain: false,
        };
        s.core.handle_without_running(s.now, flow, &mut effects);
    }
    let mut holds = 0;
    let mut found = Vec::new();
    while s.core.has_work() {
        effects.meter = Meter::default();
        s.core.tick(s.now, 256, &mut effects);
        assert!(effects.meter.spent_ns() < 4 * BATCH_NS_MAX);
        found.append(&mut effects.outgoing);
        holds += 1;
        assert!(holds < 100_000, "it never ends");
    }
    assert!(holds >= COUNT / 1_000, "{holds}");
    let delivered = found
        .iter()
        .filter(|(_, effect)| matches!(effect, Effect::Deliver(_)));
    assert_eq!(delivered.count(), 1);
}

/// A generator of numbers that look random, the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// What consumers of a random run hold, and what each got.
#[derive(Default)]
struct Seen {
    held: Vec<Delivery>,
    /// The consumers that there are, and the credit given to each.
    credit: BTreeMap<ConsumerId, u64>,
    /// The consumer that got a message of each group last.
    owners: BTreeMap<char, ConsumerId>,
    /// The highest number that was delivered of each group since something of it came back.
    last: BTreeMap<char, u64>,
    accepted: BTreeSet<String>,
}

impl Seen {
    /// Checks what was delivered since: a group is held by one consumer at a time, and comes in order.
    fn check(&mut self, s: &mut Scenario) {
        for delivery in std::mem::take(&mut s.deliveries) {
            let body = body_of(&delivery);
            let mut chars = body.chars();
            let group = chars.next().unwrap();
            let number: u64 = chars.as_str().parse().unwrap();
            if group != '-' {
                let owner = self.owners.insert(group, delivery.consumer);
                if let Some(owner) = owner.filter(|owner| *owner != delivery.consumer) {
                    assert!(
                        !self.credit.contains_key(&owner),
                        "{body}: {owner:?} has it"
                    );
                }
                let others = self
                    .held
                    .iter()
                    .filter(|it| it.consumer != delivery.consumer);
                let mut others = others.filter(|it| body_of(it).starts_with(group));
                assert!(others.next().is_none(), "{body} while another holds one");
                let last = self.last.insert(group, number);
                assert!(
                    last.is_none_or(|last| last < number),
                    "{body} after {last:?}"
                );
            }
            assert!(!self.accepted.contains(&body));
            self.held.push(delivery);
        }
    }

    /// Notes that messages of a group come back: they are delivered again.
    fn came_back(&mut self, delivery: &Delivery) {
        let group = body_of(delivery).chars().next().unwrap();
        self.last.remove(&group);
    }
}

impl Seen {
    /// Detaches the consumer that came first; false: there is none.
    fn detach_first(&mut self, s: &mut Scenario) -> bool {
        let Some((consumer, _)) = self.credit.pop_first() else {
            return false;
        };
        let is_its = |it: &mut Delivery| it.consumer == consumer;
        let gone: Vec<_> = self.held.extract_if(.., is_its).collect();
        for delivery in &gone {
            self.came_back(delivery);
        }
        s.detach(consumer);
        true
    }
}

fn step(s: &mut Scenario, seen: &mut Seen, numbers: &mut Numbers, n: u64) {
    match numbers.below(10) {
        0..4 => {
            let group = ['-', 'a', 'b', 'c', 'd'][usize::try_from(numbers.below(5)).unwrap()];
            publish(s, &[&format!("{group}{n}")]);
        }
        4 if seen.credit.len() < 5 => {
            let consumer = ConsumerId(n);
            if numbers.below(3) == 0 {
                select(s, n, "JMSXGroupID IN ('a', 'b') OR JMSXGroupID IS NULL");
                seen.credit.insert(consumer, 100);
            } else {
                s.consumer(n, "q");
                seen.credit.insert(consumer, 0);
            }
        }
        5 => {
            let at = usize::try_from(numbers.below(5)).unwrap();
            if let Some((consumer, credit)) = seen.credit.iter_mut().nth(at) {
                *credit += 1 + numbers.below(4);
                let (consumer, credit) = (*consumer, *credit);
                s.credit(consumer, credit);
            }
        }
        6 if numbers.below(4) == 0 => {
            seen.detach_first(s);
        }
        _ if !seen.held.is_empty() => {
            let at = numbers.below(seen.held.len() as u64);
            let delivery = seen.held.remove(usize::try_from(at).unwrap());
            if numbers.below(4) == 0 {
                seen.came_back(&delivery);
                s.settle(&delivery, Outcome::Released);
            } else {
                seen.accepted.insert(body_of(&delivery));
                s.settle(&delivery, Outcome::Accepted);
            }
        }
        _ => {}
    }
    seen.check(s);
}

#[test]
fn in_random_runs_a_group_has_one_consumer_at_a_time_and_nothing_is_lost() {
    for seed in 0..60 {
        let kind = ["classic", "quorum"][usize::try_from(seed % 2).unwrap()];
        let mut s = with_queue(&[
            ("x-queue-type", text(kind)),
            ("x-delivery-limit", number(1_000_000)),
        ]);
        let (mut seen, mut numbers) = (Seen::default(), Numbers(seed));
        for n in 0..1_000 {
            step(&mut s, &mut seen, &mut numbers, n);
        }
        while seen.detach_first(&mut s) {
            seen.check(&mut s);
        }
        assert!(seen.held.is_empty(), "all came back");
        let all = s.consumer(1_000_000, "q");
        s.credit(all, u64::MAX);
        assert_eq!(s.counts("q").0, 0, "seed {seed}: all can be had");
        seen.check(&mut s);
        let mut numbers_of: BTreeMap<char, Vec<u64>> = BTreeMap::new();
        for delivery in &seen.held {
            let body = body_of(delivery);
            let group = body.chars().next().unwrap();
            numbers_of
                .entry(group)
                .or_default()
                .push(body[1..].parse().unwrap());
        }
        assert!(
            numbers_of.values().all(|all| all.is_sorted()),
            "{numbers_of:?}"
        );
    }
}
