//! Random topologies: what dies in them is lost only where a finding says so, and each witness of a
//! loss is lost.

use serde_json::{Value as Json, json};

use super::{binding, exchange, queue};
use crate::base::{Name, Random};
use crate::broker::DropCause;
use crate::broker::arguments::OnUndeliverable;
use crate::deaths::Reason;
use crate::lint::budget::Budget;
use crate::lint::map::{By, Map};
use crate::lint::{Finding, Graph, Rule, Sandbox, Target, Topology, lint};

/// Topologies that are made up.
const WORLDS: u64 = 300;
/// Messages that are tried in each.
const WALKS: u64 = 12;
/// Deaths of each message, at most.
const DEATHS: u64 = 6;

const QUEUES: u64 = 6;
const KEYS: [&str; 3] = ["a", "b", "a.b"];

fn one_of<'a>(random: &mut Random, all: &[&'a str]) -> &'a str {
    let index = usize::try_from(random.below(all.len() as u64)).unwrap();
    all[index]
}

fn queue_name(random: &mut Random) -> String {
    format!("q{}", random.below(QUEUES))
}

/// `in` takes live messages; `d0` to `d2` dead ones, and sometimes there is no `d2`.
fn topology(random: &mut Random) -> Json {
    let mut exchanges = vec![exchange("in", "topic")];
    let mut bindings = Vec::new();
    for n in 0..3 {
        if n == 2 && random.below(2) == 0 {
            continue;
        }
        let kind = one_of(random, &["direct", "fanout", "topic"]);
        exchanges.push(exchange(&format!("d{n}"), kind));
        for _ in 0..random.below(4) {
            let key = match (kind, random.below(3)) {
                ("topic", 0) => "#",
                _ => one_of(random, &KEYS),
            };
            bindings.push(binding(&format!("d{n}"), &queue_name(random), key));
        }
    }
    lead_on(random, &mut exchanges, &mut bindings);
    let mut queues = Vec::new();
    for n in 0..QUEUES {
        let mut arguments = json!({});
        if random.below(4) > 0 {
            let exchange = one_of(random, &["", "d0", "d1", "d2", "d0"]);
            arguments["x-dead-letter-exchange"] = json!(exchange);
            if exchange.is_empty() || random.below(2) == 0 {
                let key = match exchange {
                    "" => queue_name(random),
                    _ => one_of(random, &KEYS).to_owned(),
                };
                arguments["x-dead-letter-routing-key"] = json!(key);
            }
        }
        if random.below(3) == 0 {
            arguments["x-message-ttl"] = json!(100 + random.below(1000));
        }
        match random.below(6) {
            0 => arguments["x-max-length"] = json!(2),
            1 => arguments["x-delivery-limit"] = json!(2),
            _ => {}
        }
        let name = format!("q{n}");
        queues.push(queue(&name, arguments));
        if random.below(2) == 0 {
            bindings.push(binding(
                "in",
                &name,
                one_of(random, &["a", "b", "a.*", "#"]),
            ));
        }
    }
    // What headers bring has keys that nobody knows.
    if random.below(3) == 0 {
        exchanges.push(exchange("by-headers", "headers"));
        bindings.push(binding("by-headers", &queue_name(random), ""));
    }
    json!({"queues": queues, "exchanges": exchanges, "bindings": bindings})
}

/// Some dead-letter exchanges lead to others, by a binding or as their alternate.
fn lead_on(random: &mut Random, exchanges: &mut [Json], bindings: &mut Vec<Json>) {
    let below = |random: &mut Random| format!("d{}", random.below(2));
    for exchange in exchanges.iter_mut().skip(1) {
        match random.below(6) {
            0 => exchange["arguments"]["alternate-exchange"] = json!(below(random)),
            1 => bindings.push(json!({
                "source": exchange["name"], "destination": below(random), "vhost": "/",
                "destination_type": "exchange", "routing_key": one_of(random, &KEYS), "arguments": {},
            })),
            _ => {}
        }
    }
}

/// The only vhost of a topology.
fn sandbox(definitions: &Json) -> Sandbox {
    let topology = Topology::read(definitions, None, OnUndeliverable::Drop).unwrap();
    assert_eq!(topology.not_read, []);
    topology.vhosts.into_values().next().unwrap()
}

fn is_for_loss(rule: Rule) -> bool {
    matches!(
        rule,
        Rule::ExchangeMissing
            | Rule::NothingBound
            | Rule::KeysLeadNowhere
            | Rule::LoopByItself
            | Rule::ExpiredIsLost
            | Rule::PushedOutIsLost
            | Rule::FailedIsLost
            | Rule::SecondDeathIsLast
            | Rule::IntoItself
    )
}

/// Whether a finding says that messages are lost in this queue.
fn foretold(findings: &[Finding], queue: &str, cause: DropCause) -> bool {
    findings.iter().any(|finding| {
        let is_about = **finding.subject.name() == *queue;
        let is_on_way = finding.says.contains(&format!("{queue} ("));
        let is_about = match cause {
            DropCause::Cycle => {
                matches!(finding.rule, Rule::LoopByItself | Rule::IntoItself)
                    && (is_about || is_on_way)
            }
            _ => is_about,
        };
        is_about && is_for_loss(finding.rule)
    })
}

/// Lets a message die again and again, wherever it is; a loss that no finding tells of.
fn walk(sandbox: &mut Sandbox, random: &mut Random, findings: &[Finding]) -> Option<String> {
    sandbox.clear();
    let (exchange, key) = match random.below(2) {
        0 => ("in", one_of(random, &KEYS).to_owned()),
        _ => ("", queue_name(random)),
    };
    // What dead letters are aimed at, nobody publishes to.
    let name = Name::from(key.as_str());
    if exchange.is_empty() && !is_taken_to_be_published_to(sandbox, &name) {
        return None;
    }
    sandbox.publish(&Name::from(exchange), &name);
    let mut way = format!("{exchange}/{key}");
    for _ in 0..random.below(DEATHS) {
        let mut queues = sandbox.core().queues();
        let queue = queues.find(|queue| queue.messages.live() > 0)?.name.clone();
        drop(queues);
        let reason = Reason::ALL[usize::try_from(random.below(4)).unwrap()];
        let drops = |sandbox: &Sandbox| {
            let queue = sandbox.core().queue(&queue).unwrap();
            DropCause::ALL.map(|cause| queue.counters.drops.of(cause))
        };
        let before = drops(sandbox);
        if !sandbox.die(&queue, reason) {
            continue;
        }
        way = format!("{way}, {} in {queue}", reason.as_str());
        let after = drops(sandbox);
        for (n, cause) in DropCause::ALL.into_iter().enumerate() {
            let is_wanted = cause == DropCause::NoDeadLetterExchange && reason == Reason::Rejected;
            if after[n] > before[n] && !is_wanted && !foretold(findings, &queue, cause) {
                return Some(format!("{way}: {}", cause.as_str()));
            }
        }
        if reason == Reason::Maxlen {
            // What pushed it out came another way.
            return None;
        }
    }
    None
}

/// Whether clients are taken to publish to this queue's name: nothing else reaches it, or may reach it.
fn is_taken_to_be_published_to(sandbox: &Sandbox, queue: &Name) -> bool {
    let map = Map::draw(sandbox, Target::Coroner, Budget::default());
    let Some(queue) = sandbox.core().queue(queue) else {
        return false;
    };
    let arrivals = map.in_queue.get(&queue.id).into_iter().flatten();
    let arrivals = arrivals.filter_map(|index| map.arrivals.get(*index));
    let mut arrivals = arrivals.filter(|arrival| arrival.by == By::Name || arrival.perhaps);
    arrivals
        .next()
        .is_some_and(|arrival| arrival.by == By::Name)
        && arrivals.next().is_none()
}

#[test]
fn messages_are_lost_only_where_a_finding_says_so_and_every_witness_of_a_loss_is_lost() {
    let (mut lost, mut wrong) = (0, Vec::new());
    for seed in 0..WORLDS {
        let mut random = Random::new(seed);
        let definitions = topology(&mut random);
        let mut sandbox = sandbox(&definitions);
        let findings = lint(&mut sandbox, Target::Coroner, &[]).findings;
        for finding in findings.iter().filter(|finding| is_for_loss(finding.rule)) {
            let witness = finding.witness.as_ref();
            let Some(outcome) = witness.and_then(|witness| witness.outcome.as_ref()) else {
                continue;
            };
            // Of a fan-out only the copy that would come back is not let in.
            let queue = finding.subject.name();
            let is_kept_out = finding.rule == Rule::LoopByItself
                && outcome
                    .strip_prefix("in ")
                    .is_some_and(|queues| queues.split(", ").all(|name| **queue != *name));
            if !outcome.starts_with("dropped") && !is_kept_out {
                wrong.push(format!("seed {seed}: {finding:?}"));
            }
            lost += 1;
        }
        for _ in 0..WALKS {
            if let Some(unsaid) = walk(&mut sandbox, &mut random, &findings) {
                wrong.push(format!("seed {seed}: {unsaid}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(lost > 300, "{lost}");
}

/// Lets a message die again and again; how many dead letters took an arrow, or one that took none.
fn follow(
    sandbox: &mut Sandbox,
    random: &mut Random,
    arrows: &[(Json, Json)],
) -> Result<u64, String> {
    sandbox.clear();
    let mut taken = 0;
    sandbox.publish(&Name::from("in"), &Name::from(one_of(random, &KEYS)));
    for _ in 0..DEATHS {
        let mut queues = sandbox.core().queues();
        let Some(queue) = queues.find(|queue| queue.messages.live() > 0) else {
            return Ok(taken);
        };
        let queue = queue.name.clone();
        drop(queues);
        sandbox.keep_only(&queue);
        let reason = [Reason::Rejected, Reason::Expired, Reason::DeliveryLimit];
        let reason = reason[usize::try_from(random.below(3)).unwrap()];
        if !sandbox.die(&queue, reason) {
            continue;
        }
        let reached = sandbox
            .core()
            .queues()
            .filter(|queue| queue.messages.live() > 0);
        for target in reached {
            let arrow = (
                json!(format!("q:{queue}")),
                json!(format!("q:{}", target.name)),
            );
            if !arrows.contains(&arrow) {
                return Err(format!("{arrow:?} after {}", reason.as_str()));
            }
            taken += 1;
        }
    }
    Ok(taken)
}

#[test]
fn every_dead_letter_takes_an_arrow_of_the_graph() {
    let (mut taken, mut wrong) = (0, Vec::new());
    for seed in 0..WORLDS {
        let mut random = Random::new(seed);
        let definitions = topology(&mut random);
        let mut sandbox = sandbox(&definitions);
        let graph = Graph::of(&sandbox, &[], None).to_json();
        let arrows = graph["edges"].as_array().unwrap().iter();
        let arrows = arrows.map(|edge| (edge["from"].clone(), edge["to"].clone()));
        let arrows: Vec<_> = arrows.collect();
        for _ in 0..WALKS {
            match follow(&mut sandbox, &mut random, &arrows) {
                Ok(count) => taken += count,
                Err(why) => wrong.push(format!("seed {seed}: {why}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(taken > 1_000, "{taken}");
}
