//! Comparison of the core with the model, and with cores rebuilt from its facts.

use std::collections::BTreeMap;

use super::World;
use super::durable::{Archive, durable_state};
use super::model::{ModelMessage, ModelQueue, ModelState};
use crate::base::{HolderId, Position, QueueId};
use crate::broker::Memory;
use crate::broker::queue::{MessageState, Queue, Usage};
use crate::message::Message;

/// All states of a message.
pub(super) const STATES: [MessageState; 4] = [
    MessageState::Ready,
    MessageState::Held,
    MessageState::Delayed,
    MessageState::Dying,
];

impl World {
    /// Compares every message of every queue, and every count, with the model.
    pub(super) fn check_model(&self) -> Result<(), String> {
        if !self.model.complaints.is_empty() {
            return Err(self.model.complaints.join("\n"));
        }
        let real: Vec<QueueId> = self.core.queues().map(|queue| queue.id).collect();
        if real.len() != self.model.queues.len() {
            return Err(format!(
                "queues {real:?}, model {:?}",
                self.model.queues.keys()
            ));
        }
        for queue in self.core.queues() {
            let model = self
                .model
                .queues
                .get(&queue.id)
                .ok_or("a queue the model lacks")?;
            same(
                "messages",
                &queue.name,
                &real_messages(queue, &self.archive),
                &model_messages(model),
            )?;
        }
        let counters = self.core.counters();
        let drops: BTreeMap<_, _> = counters
            .drops
            .kinds()
            .iter()
            .map(|kind| ((kind.reason, kind.cause), kind.count))
            .collect();
        same("drops", "", &drops, &self.model.drops)?;
        let quarantined = counters.quarantined.kinds().iter();
        let quarantined: BTreeMap<_, _> = quarantined
            .map(|kind| ((kind.reason, kind.cause), kind.count))
            .collect();
        same("quarantined", "", &quarantined, &self.model.quarantined)?;
        self.check_conservation()?;
        same("events", "", &self.told, &self.told.of_counters(counters))?;
        let real = (
            counters.dead,
            counters.dead_lettered.total(),
            counters.copies_refused,
        );
        let model = (
            self.model.deaths,
            self.model.dead_lettered,
            self.model.copies_refused,
        );
        same("deaths, moved, copies refused", "", &real, &model)
    }

    /// Every copy that ever entered a queue is present, in the quarantine or elsewhere, or was accepted,
    /// moved on, or dropped with a counted cause.
    fn check_conservation(&self) -> Result<(), String> {
        let counters = self.core.counters();
        let present: u64 = self.core.queues().map(|queue| queue.messages.live()).sum();
        let settled = counters.settled.accepted + counters.settled.presettled;
        let gone = settled + self.model.moved + counters.drops.total();
        same("copies", "", &(present + gone), &self.model.entered)
    }

    /// Checks conservation: every message that entered a queue is in it, or was accepted, died, or
    /// was dropped, and the counters agree.
    pub(super) fn check_sums(&self) -> Result<(), String> {
        let mut memory = Memory::default();
        for queue in self.core.queues() {
            let messages = &queue.messages;
            let mut found = (0, 0, Usage::default());
            for state in STATES {
                let mut from = Position(0);
                while let Some(position) = messages.find(state, from) {
                    from = Position(position.0 + 1);
                    let size_bytes = messages
                        .disk_ref(position)
                        .map_or(0, |disk_ref| disk_ref.size_bytes);
                    found.0 += u64::from(state == MessageState::Ready);
                    found.1 += 1;
                    if messages.is_evicted(position) {
                        found.2.add(size_bytes);
                    }
                }
            }
            let (resident, evicted) = messages.usage();
            let counted = (messages.ready(), messages.live(), evicted);
            same("messages", &queue.name, &found, &counted)?;
            let counters = &queue.counters;
            let died = counters.dead.total() - queue.pending.len();
            let kinds = counters.drops.kinds().iter();
            let dropped = kinds.filter(|kind| kind.reason.is_none());
            let dropped: u64 = dropped.map(|kind| kind.count).sum();
            let left = counters.accepted + died + dropped;
            same(
                "entered",
                &queue.name,
                &counters.entered,
                &(messages.live() + left),
            )?;
            for (total, usage) in [
                (&mut memory.resident, resident),
                (&mut memory.evicted, evicted),
            ] {
                total.messages += usage.messages;
                total.bytes += usage.bytes;
            }
        }
        let counted = self.core.memory();
        let counted = (counted.resident, counted.evicted);
        same("memory", "", &counted, &(memory.resident, memory.evicted))
    }

    /// Compares the durable part with cores rebuilt from the facts, applied once and twice.
    pub(super) fn check_rebuilt(&self) -> Result<(), String> {
        let live = durable_state(&self.core, &self.archive).at(self.now.wall);
        if !live.is_whole() {
            return Err(format!("some cannot be read: {live:?}"));
        }
        for (what, rebuilt) in [("facts", &self.once), ("doubled facts", &self.twice)] {
            let rebuilt = durable_state(rebuilt.core(), &self.archive).at(self.now.wall);
            if live != rebuilt {
                let differences = live.differences(&rebuilt).join("\n");
                return Err(format!("live, and rebuilt from {what}:\n{differences}"));
            }
        }
        Ok(())
    }
}

fn same<T: PartialEq + std::fmt::Debug>(
    what: &str,
    name: &str,
    real: &T,
    expected: &T,
) -> Result<(), String> {
    if real == expected {
        return Ok(());
    }
    Err(format!(
        "{what} {name}\n  is       {real:?}\n  expected {expected:?}"
    ))
}

/// One message as both sides describe it.
type Shown = (
    String,
    u32,
    u32,
    u32,
    Vec<(String, String, u64)>,
    Option<(String, Vec<String>)>,
);

fn real_messages(queue: &Queue, archive: &Archive) -> BTreeMap<Position, Shown> {
    let mut shown = BTreeMap::new();
    for state in STATES {
        let mut from = Position(0);
        while let Some(position) = queue.messages.find(state, from) {
            from = Position(position.0 + 1);
            let Some(disk_ref) = queue.messages.disk_ref(position) else {
                continue;
            };
            let holder = queue.messages.slot(position).map_or(0, |s| s.holder.0);
            let pending = queue.pending.entry(position);
            let name = match (state, pending) {
                (MessageState::Held, _) => format!("held by {holder}"),
                (MessageState::Delayed, _) => {
                    let delay = queue.messages.delayed().delay(position);
                    format!("Delayed({})", delay.map_or(0, |delay| delay.due.0))
                }
                (MessageState::Dying, Some(p)) => format!("pending {:?} {:?}", p.reason, p.targets),
                (state, _) => format!("{state:?}"),
            };
            let Some((message, _)) = archive.message(queue, position) else {
                continue;
            };
            let entries = message.history().map(|history| history.entries().to_vec());
            let deaths = entries.unwrap_or_default().into_iter();
            let deaths = deaths
                .map(|entry| {
                    (
                        entry.queue.to_string(),
                        format!("{:?}", entry.reason),
                        entry.count,
                    )
                })
                .collect();
            let carried = message.carried_delivery_count();
            shown.insert(
                position,
                (
                    name,
                    disk_ref.failures,
                    disk_ref.acquired,
                    carried,
                    deaths,
                    real_quarantined(&message),
                ),
            );
        }
    }
    shown
}

/// Why it is in the quarantine, and the queues of its cycle.
fn real_quarantined(message: &Message) -> Option<(String, Vec<String>)> {
    let history = message.history()?;
    let cause = history.quarantined()?.cause.as_str().to_owned();
    let path = history.quarantine_path();
    Some((cause, path.iter().map(ToString::to_string).collect()))
}

fn model_messages(queue: &ModelQueue) -> BTreeMap<Position, Shown> {
    let show = |message: &ModelMessage| {
        let name = match &message.state {
            ModelState::Held(consumer) => format!("held by {}", HolderId(consumer.0)),
            ModelState::Pending { reason, targets } => format!("pending {reason:?} {targets:?}"),
            other => format!("{other:?}"),
        };
        let deaths = message
            .deaths
            .iter()
            .map(|(queue, reason, count)| (queue.clone(), format!("{reason:?}"), *count))
            .collect();
        let quarantined = message.quarantined.as_ref();
        let quarantined =
            quarantined.map(|(cause, path)| (cause.as_str().to_owned(), path.clone()));
        (
            name,
            message.failures,
            message.acquired,
            message.carried,
            deaths,
            quarantined,
        )
    };
    queue
        .messages
        .iter()
        .map(|message| (message.position, show(message)))
        .collect()
}
