//! Numbers of deaths outlive restarts: what a core counts that was read from the journal is what the model
//! counts. [evidence part 12]

use std::collections::BTreeMap;

use super::waiting::{Client, NOW, REJECTED, text};
use super::{STEPS, World};
use crate::base::{Lsn, Name, Now, Seed};
use crate::broker::{
    Command, Core, CoreOptions, Counters, DropCause, QueueCommand, Record, Restoring, UpkeepCommand,
};
use crate::deaths::Reason;
use crate::sim::Archive;

/// A core made of these records.
fn restarted(records: &[(Record, Vec<Lsn>)], now: Now) -> Core {
    let options = CoreOptions::new(Name::from("v"), Seed(1));
    let mut restoring = Restoring::new(options, now, now.wall, u64::MAX);
    for (record, _) in records {
        restoring.record(record);
    }
    restoring.finish()
}

/// Drops of what died.
fn dropped(counters: &Counters) -> BTreeMap<(Reason, &'static str), u64> {
    let kinds = counters.drops.kinds().iter();
    let died = kinds.filter_map(|kind| Some(((kind.reason?, kind.cause.as_str()), kind.count)));
    died.collect()
}

#[test]
fn after_an_orderly_stop_all_numbers_of_deaths_are_those_of_the_model() {
    let mut died = 0;
    for seed in 1..=20 {
        let mut world = World::new(seed);
        for _ in 0..STEPS {
            world.step().unwrap();
        }
        world.apply(Command::Upkeep(UpkeepCommand::WriteDeaths));
        let core = restarted(&world.records, world.now);
        let counters = core.counters();
        assert_eq!(counters.dead, world.model.deaths, "seed {seed}");
        assert_eq!(
            counters.dead_lettered.total(),
            world.model.dead_lettered,
            "seed {seed}"
        );
        assert_eq!(
            dropped(counters),
            dropped(world.core.counters()),
            "seed {seed}"
        );
        assert_eq!(core.deaths(), world.core.deaths(), "seed {seed}");
        let there = world.core.queues().filter(|queue| queue.durable);
        for queue in there {
            let found = core.queue(&queue.name).unwrap();
            assert_eq!(found.counters.dead, queue.counters.dead, "seed {seed}");
            assert_eq!(found.counters.conditions, queue.counters.conditions);
        }
        died += counters.dead.total();
    }
    assert!(died > 1_000, "{died}");
}

#[test]
fn deaths_of_durable_messages_are_in_the_record_that_moves_them() {
    let mut client = Client::new(
        Core::new(CoreOptions::new(Name::from("v"), Seed(1))),
        Archive::default(),
    );
    client.declare("dlq", &[]);
    let to_dlq = [
        ("x-dead-letter-exchange", text("")),
        ("x-dead-letter-routing-key", text("dlq")),
    ];
    client.declare("q", &to_dlq);
    client.declare("nowhere", &[]);
    for _ in 0..3 {
        client.publish("q", "a");
        client.publish("nowhere", "b");
    }
    client.take("q", 10, &REJECTED);
    client.take("nowhere", 10, &REJECTED);
    // Whatever was the last record that a crash left, each death up to there is counted, and none twice.
    for count in 0..=client.records.len() {
        let (kept, _) = client.records.split_at(count);
        let core = restarted(kept, NOW);
        let messages = |name: &str| {
            let queue = core.queue(&Name::from(name));
            queue.map_or(0, |queue| queue.messages.live())
        };
        let counters = |name: &str| {
            let queue = core.queue(&Name::from(name));
            queue
                .map(|queue| queue.counters.clone())
                .unwrap_or_default()
        };
        assert_eq!(counters("q").dead.rejected, messages("dlq"), "{count}");
        assert_eq!(counters("q").dead_lettered.rejected, messages("dlq"));
        let entered = kept.iter().flat_map(|(record, _)| &record.facts);
        let entered = entered.filter(|fact| fact.kind() == "inserted").count() as u64;
        let drops = counters("nowhere")
            .drops
            .of(DropCause::NoDeadLetterExchange);
        assert_eq!(
            entered - messages("dlq"),
            messages("q") + messages("dlq") + messages("nowhere") + drops,
            "{count}"
        );
        assert_eq!(counters("nowhere").dead.rejected, drops);
        assert_eq!(core.counters().dead.rejected, drops + messages("dlq"));
    }
}

#[test]
fn a_queue_that_is_declared_again_counts_anew_and_the_vhost_goes_on() {
    let mut client = Client::new(
        Core::new(CoreOptions::new(Name::from("v"), Seed(1))),
        Archive::default(),
    );
    for round in 1..=3 {
        client.declare("q", &[]);
        client.publish("q", "a");
        client.take("q", 10, &REJECTED);
        let core = restarted(&client.records, NOW);
        let queue = core.queue(&Name::from("q")).unwrap();
        assert_eq!(queue.counters.dead.rejected, 1, "round {round}");
        assert_eq!(core.counters().dead.rejected, round);
        client.apply(Command::Queue(QueueCommand::Delete {
            connection: None,
            name: Name::from("q"),
            if_unused: false,
            if_empty: false,
        }));
        let core = restarted(&client.records, NOW);
        assert_eq!(core.counters().dead.rejected, round, "without the queue");
    }
}
