//! Links of consumers that outlive the broker. [AMQP 2.6.13, 3.5.5]

use std::collections::BTreeMap;

use super::scenario::{CONNECTION, Draft, SESSION, Scenario, body_of, draft, text};
use crate::base::{ConnectionId, ConsumerId, Lsn, Name, Position, QueueId, Seed, SessionId};
use crate::broker::consumer_link::ConsumerLinkFact;
use crate::broker::recovery::{Acquisition, ExpiryPolicy, Kept, LinkKey, Recovered, Recovery};
use crate::broker::*;
use crate::message::DeliveryTime;

const TIMEOUT_MS: u64 = 60_000;

fn wanted(link: &str, known: &[(Position, Option<Outcome>)]) -> Recovery {
    let known = known.iter().map(|(position, outcome)| {
        let acquisition = Acquisition {
            position: *position,
            acquired: 0,
        };
        (acquisition, outcome.clone())
    });
    Recovery {
        key: LinkKey {
            user: Name::from("ada"),
            by_token: false,
            container: Name::from("gateway-7"),
            link: Name::from(link),
        },
        expiry: ExpiryPolicy::ConnectionClose,
        timeout_ms: TIMEOUT_MS,
        known: known.collect(),
        is_incomplete: false,
        is_durable: true,
    }
}

/// A broker that is started again and again on its journal.
struct Broker {
    s: Scenario,
    /// The number of the connection of the link.
    at: u64,
}

impl Broker {
    /// Queue `q` has messages with these bodies.
    fn new(bodies: &[&str]) -> Self {
        let mut s = Scenario::new();
        s.queue("q", &[]);
        s.publish_all("q", bodies);
        Self { s, at: 10 }
    }

    /// Attaches a link on a connection of its own: whether it outlives the broker, and what it holds still.
    fn attach(&mut self, recovery: Recovery) -> (bool, Option<Recovered>) {
        self.at += 1;
        let (connection, session) = (ConnectionId(self.at), SessionId(self.at));
        self.s.connect(connection, session);
        let reply = self.s.consume(self.at, "q", |consume| {
            consume.of(connection, session);
            consume.recovery = Some(Box::new(recovery));
        });
        let Reply::Consuming { kept, .. } = reply else {
            panic!("{reply:?}");
        };
        match kept {
            Kept::No => panic!("{reply:?}"),
            Kept::Yes { is_durable } => (is_durable, None),
            Kept::Recovering { is_durable } => (is_durable, self.recovered()),
        }
    }

    fn recovered(&mut self) -> Option<Recovered> {
        self.read_back();
        let told = self.s.others.pop()?;
        let Effect::Recovered { recovered, .. } = told else {
            panic!("{told:?}");
        };
        Some(*recovered)
    }

    fn consumer(&self) -> ConsumerId {
        ConsumerId(self.at)
    }

    /// What the link gets for so much credit since it was attached.
    fn take(&mut self, limit: u64) -> Vec<Delivery> {
        let consumer = self.consumer();
        self.s.credit(consumer, limit);
        self.s.taken(consumer)
    }

    fn settle(&mut self, position: Position, outcome: Outcome) {
        self.s.apply(Command::Settle(Settle {
            consumer: self.consumer(),
            position,
            outcome,
            confirm: None,
        }));
    }

    fn lose(&mut self) {
        let connection = ConnectionId(self.at);
        self.s.apply(Command::ConnectionClose { connection });
    }

    /// Ends it without a word, and starts it on its journal, as far as that record.
    fn restart_at(&mut self, last: Lsn) {
        self.s.records.retain(|record| record.lsn <= last);
        let records = std::mem::take(&mut self.s.records);
        self.start(records.clone(), &records);
    }

    fn restart(&mut self) {
        self.restart_at(Lsn(u64::MAX));
    }

    fn start(&mut self, kept: Vec<Record>, read: &[Record]) {
        let options = CoreOptions::new(Name::from("/"), Seed(7));
        let mut restoring = Restoring::new(options, self.s.now, self.s.now.wall, u64::MAX);
        for record in read {
            restoring.record(record);
            restoring.record(record);
        }
        let now = self.s.now;
        self.s = Scenario::new();
        (self.s.core, self.s.now) = (restoring.finish(), now);
        self.s.connect(CONNECTION, SESSION);
        self.s.records = kept;
    }

    /// Reads blocks back until no queue waits for one.
    fn read_back(&mut self) {
        let mut journal = BTreeMap::new();
        for fact in self.s.records.iter().flat_map(|record| &record.facts) {
            if let Fact::Inserted {
                message,
                route,
                entries,
                ..
            } = fact
            {
                let entries = entries.iter();
                journal.extend(entries.map(|it| ((it.queue, it.position), (message, route))));
            }
        }
        let journal: BTreeMap<_, _> = journal
            .into_iter()
            .map(|(at, (message, route))| (at, (message.clone(), route.clone())))
            .collect();
        self.s.pass(0);
        while let Some(load) = self.s.effects.loads.pop() {
            let (queue, block) = (load.queue, load.block);
            let messages = load.wanted.into_iter().map(|wanted| {
                let (message, route) = journal[&(queue, wanted.position)].clone();
                (wanted.position, message, route)
            });
            self.s
                .apply(Command::Upkeep(UpkeepCommand::PagedIn(PagedIn {
                    queue,
                    block,
                    messages: messages.collect(),
                })));
        }
    }

    /// What another consumer gets, and leaves.
    fn others(&mut self) -> Vec<String> {
        let id = 1_000 + self.at;
        let consumer = self.s.consumer(id, "q");
        self.s.credit(consumer, 100);
        self.read_back();
        let taken = self.s.taken(consumer);
        self.s.detach(consumer);
        taken.iter().map(body_of).collect()
    }

    fn links(&self) -> Vec<(u64, usize)> {
        let links = self.s.core.consumer_links();
        links
            .map(|(link, held)| (link.number, held.len()))
            .collect()
    }
}

fn positions(deliveries: &[Delivery]) -> Vec<Position> {
    deliveries.iter().map(|it| it.position).collect()
}

fn bodies(deliveries: &[Delivery]) -> Vec<String> {
    deliveries.iter().map(body_of).collect()
}

fn held(told: Option<Recovered>) -> Vec<Position> {
    let held = told.unwrap().held;
    held.iter().map(|it| it.position).collect()
}

#[test]
fn what_a_link_holds_is_its_own_after_a_start_and_is_sent_again_as_far_as_its_consumer_knows_of_it()
{
    let mut b = Broker::new(&["a", "b", "c", "d"]);
    assert_eq!(b.attach(wanted("link", &[])), (true, None));
    let taken = positions(&b.take(3));
    b.restart();
    assert_eq!(b.others(), ["d"], "the others are held");
    assert_eq!(b.s.counts("q"), (1, 3, 0));
    // It has an outcome for `a`, none for `c`, and `b` did not arrive.
    let known = [(taken[0], Some(Outcome::Accepted)), (taken[2], None)];
    let (is_durable, told) = b.attach(wanted("link", &known));
    assert!(is_durable);
    assert_eq!(held(told), [taken[2]]);
    assert_eq!(b.s.counts("q"), (2, 1, 0), "`b` came back");
    let again = b.take(9);
    assert_eq!(bodies(&again), ["c", "b", "d"]);
    assert!(again[0].resumed && !again[1].resumed);
    for delivery in again {
        b.settle(delivery.position, Outcome::Accepted);
    }
    b.restart();
    b.read_back();
    assert_eq!(b.s.counts("q"), (0, 0, 0));
    assert_eq!(b.links(), [], "it holds nothing");
}

#[test]
fn a_message_is_sent_once_the_journal_has_that_the_link_holds_it() {
    let mut b = Broker::new(&["a", "b"]);
    b.attach(wanted("link", &[]));
    let before = b.s.records.last().unwrap().lsn;
    let taken = positions(&b.take(1));
    let record = b.s.records.last().unwrap().clone();
    assert_eq!(b.s.awaited, [(taken[0], record.lsn)]);
    assert!(record.lsn > before);
    let acquired = matches!(
        &record.facts[..],
        [Fact::ConsumerLink(ConsumerLinkFact::Acquired { acquisitions, .. })]
            if acquisitions.len() == 1
    );
    assert!(acquired, "{record:?}");
    // Without that record it was not sent, and is anybody's.
    b.restart_at(before);
    assert_eq!(b.others(), ["a", "b"]);
}

/// The message is lost with the broker, and what follows it does not overtake what comes before it.
#[test]
fn of_a_message_that_is_not_durable_the_journal_says_nothing() {
    let mut b = Broker::new(&["a"]);
    let passing = Draft {
        durable: false,
        ..draft("b")
    };
    b.s.publish("q", &passing);
    b.attach(wanted("link", &[]));
    let taken = positions(&b.take(2));
    let [(first, lsn), (second, behind)] = b.s.awaited[..] else {
        panic!("{:?}", b.s.awaited);
    };
    assert_eq!((vec![first, second], lsn), (taken, behind));
    assert_eq!(b.links()[0].1, 1);
    b.restart();
    b.read_back();
    assert_eq!(b.s.counts("q"), (0, 1, 0));
}

#[test]
fn what_was_settled_released_or_dead_is_not_held_after_a_start() {
    let mut b = Broker::new(&["a", "b", "c", "d"]);
    b.s.policy("dead", "q", &[("dead-letter-exchange", text(""))]);
    b.s.policy(
        "dead",
        "q",
        &[
            ("dead-letter-exchange", text("")),
            ("dead-letter-routing-key", text("dead")),
        ],
    );
    b.s.queue("dead", &[]);
    b.attach(wanted("link", &[]));
    let taken = positions(&b.take(4));
    b.settle(taken[0], Outcome::Accepted);
    b.settle(taken[1], Outcome::Released);
    b.settle(taken[2], Outcome::Rejected { evidence: None });
    b.restart();
    b.read_back();
    assert_eq!(b.s.counts("q"), (1, 1, 0));
    assert_eq!(b.s.counts("dead"), (1, 0, 0));
    let known = [(taken[1], Some(Outcome::Released)), (taken[3], None)];
    assert_eq!(held(b.attach(wanted("link", &known)).1), [taken[3]]);
}

#[test]
fn what_did_not_leave_is_not_held_after_a_start() {
    let mut b = Broker::new(&["a", "b"]);
    b.attach(wanted("link", &[]));
    let taken = positions(&b.take(2));
    let consumer = b.consumer();
    b.s.credit(consumer, 0);
    let position = taken[1];
    b.s.apply(Command::ReturnUnsent { consumer, position });
    assert_eq!(b.links()[0].1, 1);
    b.restart();
    assert_eq!(b.others(), ["b"]);
}

#[test]
fn a_link_that_was_closed_or_whose_time_is_over_holds_nothing_after_a_start() {
    let mut b = Broker::new(&["a"]);
    b.attach(wanted("link", &[]));
    b.take(1);
    let consumer = b.consumer();
    b.s.apply(Command::ConsumerDetach { consumer });
    assert_eq!(b.links(), []);
    b.restart();
    assert_eq!(b.others(), ["a"]);
    b.attach(wanted("link", &[]));
    b.take(1);
    b.restart();
    b.read_back();
    b.s.pass(TIMEOUT_MS - 1);
    assert_eq!(b.s.counts("q"), (0, 1, 0));
    b.s.pass(1);
    assert_eq!(b.s.counts("q"), (1, 0, 0));
    assert_eq!(b.links(), []);
    b.restart();
    assert_eq!(b.others(), ["a"]);
}

/// Whatever comes while its block is still on disk.
#[test]
fn until_what_links_held_is_in_memory_nobody_is_served() {
    let start = || {
        let mut b = Broker::new(&["a", "b"]);
        b.attach(wanted("link", &[]));
        let taken = positions(&b.take(1));
        b.restart();
        b.s.pass(0);
        assert_eq!(b.s.effects.loads.len(), 1);
        (b, taken[0])
    };
    // Another consumer waits.
    let (mut b, _) = start();
    let other = b.s.consumer(7, "q");
    b.s.credit(other, 2);
    assert_eq!(b.s.taken(other).len(), 0);
    b.read_back();
    assert_eq!(bodies(&b.s.taken(other)), ["b"]);
    // The link itself waits.
    let (mut b, taken) = start();
    let (_, told) = b.attach(wanted("link", &[(taken, None)]));
    assert_eq!(held(told), [taken]);
    // It is closed while it waits.
    let (mut b, taken) = start();
    let loads = std::mem::take(&mut b.s.effects.loads);
    b.attach(wanted("link", &[(taken, None)]));
    let consumer = b.consumer();
    b.s.apply(Command::ConsumerDetach { consumer });
    b.s.effects.loads = loads;
    assert_eq!(b.others(), ["a", "b"]);
    // Its time is over.
    let (mut b, _) = start();
    b.s.pass(TIMEOUT_MS);
    assert_eq!(b.others(), ["a", "b"]);
    // The queue is purged: of what is held nothing goes.
    let (mut b, taken) = start();
    b.s.apply(Command::Queue(QueueCommand::Purge {
        connection: None,
        name: Name::from("q"),
        with_dead_pending: false,
    }));
    b.read_back();
    assert_eq!(b.s.counts("q"), (0, 1, 0));
    let (_, told) = b.attach(wanted("link", &[(taken, None)]));
    assert_eq!(held(told), [taken]);
    // Its queue is deleted.
    let (mut b, _) = start();
    b.s.apply(Command::Queue(QueueCommand::Delete {
        connection: None,
        name: Name::from("q"),
        if_unused: false,
        if_empty: false,
    }));
    b.s.pass(TIMEOUT_MS);
    assert_eq!(b.s.core.recoverable_links(), (0, 0));
    b.restart();
    assert_eq!(b.s.core.recoverable_links(), (0, 0));
}

/// They were removed with all that was ready, and the journal had it so.
#[test]
fn a_purge_spares_what_links_held_before_a_start_also_while_it_is_on_disk() {
    let purge = |b: &mut Broker| {
        b.s.apply(Command::Queue(QueueCommand::Purge {
            connection: None,
            name: Name::from("q"),
            with_dead_pending: false,
        }))
    };
    let mut b = Broker::new(&[]);
    b.s.publish("q", &draft("a").ttl(5_000));
    b.s.publish_all("q", &["b"; 100]);
    b.attach(wanted("link", &[]));
    let taken = positions(&b.take(2));
    b.restart();
    let before = b.s.core.queue("q").unwrap().messages.durable();
    let purged = purge(&mut b);
    assert!(
        matches!(purged, Reply::Purged { messages: 99, .. }),
        "{purged:?}"
    );
    let after = b.s.core.queue("q").unwrap().messages.durable();
    assert_eq!((before.messages, after.messages), (101, 2));
    assert_eq!(b.s.dropped("q", DropCause::Purged), 99);
    let again = purge(&mut b);
    assert!(
        matches!(again, Reply::Purged { messages: 0, .. }),
        "{again:?}"
    );
    let is_kept = |record: &Record| {
        let mut facts = record.facts.iter();
        facts.any(|fact| matches!(fact, Fact::Purged { kept, .. } if *kept == taken))
    };
    assert!(b.s.records.iter().any(is_kept), "another start has them");
    for _ in 0..2 {
        b.restart();
        assert_eq!(b.links()[0].1, 2);
    }
    b.read_back();
    assert_eq!(b.s.counts("q"), (0, 2, 0));
    let known = taken.iter().map(|at| (*at, None)).collect::<Vec<_>>();
    assert_eq!(held(b.attach(wanted("link", &known)).1), taken);
    // Left to all, they are messages as before, with their own deadlines.
    b.restart();
    purge(&mut b);
    let user = Name::from("ada");
    b.s.apply(Command::Upkeep(UpkeepCommand::UserDeleted { user }));
    assert_eq!(b.s.counts("q"), (2, 0, 0));
    b.s.pass(6_000);
    assert_eq!(b.others(), ["b"]);
    purge(&mut b);
    assert_eq!(b.s.counts("q"), (0, 0, 0));
}

/// It was taken away while it waited to be read back.
#[test]
fn what_a_link_held_before_a_start_cannot_be_discarded_while_it_is_on_disk() {
    let mut b = Broker::new(&[]);
    b.s.publish_all("q", &["a", "b"]);
    b.attach(wanted("link", &[]));
    let taken = positions(&b.take(1));
    b.restart();
    let discard = |b: &mut Broker, position| {
        b.s.apply(Command::Queue(QueueCommand::Discard {
            connection: None,
            name: Name::from("q"),
            position,
        }))
    };
    let refused = discard(&mut b, taken[0]);
    let Reply::Refused(Error::NotReady { state, .. }) = &refused else {
        panic!("{refused:?}")
    };
    assert_eq!(*state, "held by a consumer");
    let other = Position(taken[0].0 + 1);
    let gone = discard(&mut b, other);
    assert!(
        matches!(gone, Reply::Purged { messages: 1, .. }),
        "{gone:?}"
    );
    b.read_back();
    assert_eq!(b.s.counts("q"), (0, 1, 0));
}

#[test]
fn a_link_that_does_not_ask_for_it_any_more_ends_with_the_broker() {
    let mut b = Broker::new(&["a"]);
    b.attach(wanted("link", &[]));
    let taken = positions(&b.take(1));
    b.lose();
    let recovery = Recovery {
        is_durable: false,
        ..wanted("link", &[(taken[0], None)])
    };
    let (is_durable, told) = b.attach(recovery);
    assert_eq!((is_durable, held(told)), (false, taken.clone()));
    b.lose();
    // What it held is unknown to the journal: it is not promised again.
    let (is_durable, told) = b.attach(wanted("link", &[(taken[0], None)]));
    assert_eq!((is_durable, held(told)), (false, taken));
    b.restart();
    assert_eq!(b.others(), ["a"]);
}

#[test]
fn a_link_of_a_queue_that_the_journal_does_not_keep_ends_with_the_broker() {
    let mut b = Broker::new(&[]);
    b.s.apply(Command::Queue(QueueCommand::Delete {
        connection: None,
        name: Name::from("q"),
        if_unused: false,
        if_empty: false,
    }));
    b.s.apply(Command::Queue(QueueCommand::Declare {
        connection: None,
        name: Name::from("q"),
        durable: false,
        exclusive: false,
        auto_delete: false,
        arguments: Vec::new(),
    }));
    assert_eq!(b.attach(wanted("link", &[])), (false, None));
}

#[test]
fn a_message_group_is_its_links_after_a_start_too() {
    let mut b = Broker::new(&[]);
    for body in ["a1", "a2", "b1"] {
        b.s.publish("q", &draft(body).group(body.get(..1).unwrap()));
    }
    b.attach(wanted("link", &[]));
    let taken = positions(&b.take(1));
    b.restart();
    assert_eq!(b.others(), ["b1"]);
    b.attach(wanted("link", &[(taken[0], None)]));
    assert_eq!(bodies(&b.take(2))[..2], ["a1", "a2"]);
}

/// It broke an invariant, and stayed with the earlier link. World 2308 of the simulation.
#[test]
fn a_message_group_that_had_ended_is_the_later_links_after_a_start() {
    let mut b = Broker::new(&[]);
    let publish = |b: &mut Broker, body: &str| {
        let message = draft(body);
        let message = if body == "a2" {
            message.ends("a")
        } else {
            message.group("a")
        };
        b.s.publish("q", &message);
    };
    for body in ["a1", "a2"] {
        publish(&mut b, body);
    }
    b.attach(wanted("one", &[]));
    let of_one = positions(&b.take(2));
    b.settle(of_one[1], Outcome::Accepted);
    publish(&mut b, "a3");
    b.attach(wanted("two", &[]));
    let of_two = b.take(1);
    assert_eq!(bodies(&of_two), ["a3"]);
    b.restart();
    publish(&mut b, "a4");
    assert_eq!(b.others(), [""; 0]);
    b.attach(wanted("one", &[(of_one[0], None)]));
    assert_eq!(bodies(&b.take(10)), ["a1"]);
    b.attach(wanted("two", &[(of_two[0].position, None)]));
    assert_eq!(bodies(&b.take(10)), ["a3", "a4"]);
}

/// The simulation of whole brokers had its queue get it: the clock went back, so it waited for its time again.
#[test]
fn a_message_that_a_link_holds_does_not_wait_for_its_time_after_a_start() {
    let mut b = Broker::new(&[]);
    let later = Draft {
        delivery_time: Some(DeliveryTime::After(1_000)),
        ..draft("a")
    };
    b.s.publish("q", &later);
    b.s.pass(1_000);
    b.attach(wanted("link", &[]));
    let taken = positions(&b.take(1));
    b.s.jump(-1_000_000);
    b.restart();
    assert_eq!(held(b.attach(wanted("link", &[(taken[0], None)])).1), taken);
}

/// Checkpoints are copied in slices, and the journal is read behind them.
#[test]
fn a_checkpoint_has_what_links_hold_and_what_was_reserved_for_them() {
    let mut b = Broker::new(&["a", "b", "c"]);
    b.attach(wanted("link", &[]));
    let taken = positions(&b.take(2));
    for is_read_back in [false, true] {
        let checkpoint = checkpoint(&b.s);
        let kept = std::mem::take(&mut b.s.records);
        b.start(kept, &checkpoint);
        if is_read_back {
            b.read_back();
            assert_eq!(b.s.counts("q"), (1, 2, 0));
        }
        assert_eq!(b.links()[0].1, 2, "{is_read_back}");
    }
    assert_eq!(b.others(), ["c"]);
    let known = [(taken[0], None), (taken[1], None)];
    assert_eq!(held(b.attach(wanted("link", &known)).1), taken);
}

fn checkpoint(s: &Scenario) -> Vec<Record> {
    let mut snapshot = s.core.begin_snapshot(Lsn(0));
    let mut pieces = Vec::new();
    while let Some(slice) = s.core.snapshot_slice(s.now, &mut snapshot) {
        if !slice.facts.is_empty() {
            pieces.push(Record {
                lsn: Lsn(1_000 + pieces.len() as u64),
                wall: s.now.wall,
                facts: slice.facts.into(),
                named: false,
            });
        }
    }
    pieces
}

/// The block of a message that was returned unsent is copied anew.
#[test]
fn what_the_last_copy_of_a_block_says_to_be_held_is_not_after_it_came_back() {
    let mut b = Broker::new(&["a"]);
    b.attach(wanted("link", &[]));
    let taken = positions(&b.take(1));
    let queue = b.s.core.queue("q").unwrap();
    let block = (queue.id, taken[0]);
    b.s.core.note_copied(block, Lsn(1_000));
    let copied = |b: &Broker| {
        let queue = b.s.core.queue_by_id(QueueId(1)).unwrap();
        queue.messages.copied(taken[0])
    };
    assert_eq!(copied(&b), Lsn(1_000));
    let consumer = b.consumer();
    b.s.credit(consumer, 0);
    let position = taken[0];
    b.s.apply(Command::ReturnUnsent { consumer, position });
    assert_eq!(copied(&b), Lsn(0));
}
