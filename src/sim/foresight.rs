//! What the core foresees, compared with what then happens: before each settlement and before each
//! item of work that is about one message.

use std::collections::BTreeMap;

use super::World;
use crate::base::{HolderId, Meter, Name, Position, QueueId};
use crate::broker::queue::{MessageState, Queue};
use crate::broker::{
    Becomes, Command, Core, DropCause, Drops, Event, Foresight, Outcome, Reply, Settle, Skipped,
};

/// Numbers of comparisons.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Foreseen {
    /// By what became of the message: gone, requeued, dead-lettered, pending, quarantined, dropped.
    pub compared: [u64; 6],
    /// Queues that were passed over: in a cycle, full, gone.
    pub skipped: [u64; 3],
    /// Messages that were redriven: moved, left where they are, waited for.
    pub redriven: [u64; 3],
    /// Not compared: a full target was about to do other work first, which may make room.
    pub unsure: u64,
}

/// What is counted around one event.
#[derive(PartialEq, Eq, Debug)]
struct Counted {
    entered: BTreeMap<QueueId, (Name, u64)>,
    dropped: BTreeMap<DropCause, u64>,
    quarantined: BTreeMap<DropCause, u64>,
    copies_refused: u64,
}

/// What happened to a message, as the counts tell it.
#[derive(PartialEq, Eq, Debug)]
struct Happened {
    becomes: Becomes,
    targets: Vec<Name>,
    copies_refused: u64,
    waits: bool,
}

impl Counted {
    fn of(core: &Core) -> Self {
        let counters = core.counters();
        let of = |drops: &Drops| {
            let mut causes = BTreeMap::new();
            for kind in drops.kinds() {
                *causes.entry(kind.cause).or_default() += kind.count;
            }
            causes
        };
        let entered = |queue: &Queue| (queue.id, (queue.name.clone(), queue.counters.entered));
        Self {
            entered: core.queues().map(entered).collect(),
            dropped: of(&counters.drops),
            quarantined: of(&counters.quarantined),
            copies_refused: counters.copies_refused,
        }
    }
}

/// The cause that was counted since.
fn risen(before: &BTreeMap<DropCause, u64>, after: &BTreeMap<DropCause, u64>) -> Option<DropCause> {
    let mut after = after.iter();
    let risen = after.find(|(cause, count)| before.get(cause).unwrap_or(&0) < *count);
    risen.map(|(cause, _)| *cause)
}

fn happened(core: &Core, (id, position): (QueueId, Position), before: &Counted) -> Happened {
    let after = Counted::of(core);
    let entered = after.entered.iter().filter(|(id, (_, count))| {
        let known = before.entered.get(id).map_or(0, |(_, count)| *count);
        known < *count
    });
    let targets: Vec<Name> = entered.map(|(_, (name, _))| name.clone()).collect();
    let queue = core.queues().find(|queue| queue.id == id);
    let is = |state| queue.is_some_and(|queue| queue.messages.is(position, state));
    let becomes = if let Some(cause) = risen(&before.quarantined, &after.quarantined) {
        Becomes::Quarantined(cause)
    } else if let Some(cause) = risen(&before.dropped, &after.dropped) {
        Becomes::Dropped(cause)
    } else if is(MessageState::Ready) || is(MessageState::Delayed) {
        Becomes::Requeued
    } else if !targets.is_empty() {
        Becomes::DeadLettered
    } else if is(MessageState::Dying) {
        Becomes::DeadPending
    } else {
        Becomes::Gone
    };
    Happened {
        becomes,
        targets,
        copies_refused: after.copies_refused - before.copies_refused,
        waits: is(MessageState::Dying),
    }
}

/// What is expected to be counted.
fn expected(foresight: &Foresight, event: &Event) -> Happened {
    let mut targets = foresight.targets.clone();
    // A queue that is only made then has the highest id.
    targets.sort_by_key(|target| target.id.unwrap_or(QueueId(u64::MAX)));
    let is_moved = foresight.becomes == Becomes::DeadLettered && !foresight.waits;
    let becomes = match foresight.becomes {
        // The last of the targets that it waited for was deleted: no count tells that from leaving.
        Becomes::DeadLettered if targets.is_empty() && *event == Event::Retried => Becomes::Gone,
        becomes => becomes,
    };
    let refused = foresight.skipped.iter();
    let refused = refused.filter(|(_, why)| *why != Skipped::Cycle).count() as u64;
    Happened {
        becomes,
        targets: targets.into_iter().map(|target| target.queue).collect(),
        copies_refused: if is_moved { refused } else { 0 },
        waits: foresight.waits,
    }
}

impl World {
    /// Applies a command and works off what follows, with a look ahead before each.
    pub(super) fn carry_out(&mut self, command: Command) -> Reply {
        let next = match &command {
            Command::Settle(settle) => self.next_settlement(settle),
            _ => None,
        };
        let reply = self.foresee_and(next, |world| {
            world
                .core
                .apply_alone(world.now, command, &mut world.effects)
        });
        self.work_off();
        reply
    }

    /// Works off the list, with a look ahead before each item.
    pub(super) fn work_off(&mut self) {
        loop {
            let next = self.core.next_event();
            let is_any = self.foresee_and(next, |world| {
                world.core.work_one(world.now, &mut world.effects)
            });
            if !is_any {
                return;
            }
        }
    }

    /// What a settlement is about, if its consumer holds the message.
    fn next_settlement(&self, settle: &Settle) -> Option<((QueueId, Position), Event)> {
        let id = *self.reads.get(&settle.consumer)?;
        let queue = self.core.queues().find(|queue| queue.id == id)?;
        let slot = queue
            .messages
            .slot_if(settle.position, MessageState::Held)?;
        if slot.holder != HolderId(settle.consumer.0) {
            return None;
        }
        let evidence = None;
        let event = match settle.outcome {
            Outcome::Accepted => Event::Accepted,
            Outcome::Released => Event::Returned {
                failed: false,
                evidence,
            },
            Outcome::Rejected { .. } => Event::Rejected {
                failed: true,
                evidence,
            },
            Outcome::Modified {
                delivery_failed: failed,
                undeliverable_here,
                ..
            } => {
                if undeliverable_here {
                    Event::Rejected { failed, evidence }
                } else {
                    Event::Returned { failed, evidence }
                }
            }
        };
        Some(((id, settle.position), event))
    }

    /// Foresees what becomes of a message, acts, and compares.
    fn foresee_and<T>(
        &mut self,
        next: Option<((QueueId, Position), Event)>,
        act: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let Some((place, event)) = next else {
            return act(self);
        };
        let Some(foresight) = self.foresee(place, &event) else {
            return act(self); // its bytes cannot be read, or it was deleted meanwhile
        };
        let before = Counted::of(&self.core);
        let is_sure = self.is_sure(&foresight);
        let done = act(self);
        if !is_sure {
            self.foreseen.unsure += 1;
            return done;
        }
        let found = happened(&self.core, place, &before);
        let expected = expected(&foresight, &event);
        if found != expected {
            let (is, was) = (&found, &foresight);
            self.model.complaints.push(format!(
                "{event:?} at {place:?} was foreseen as {was:?}, and is {is:?}"
            ));
        }
        self.count(&foresight);
        done
    }

    fn foresee(&self, place: (QueueId, Position), event: &Event) -> Option<Foresight> {
        let queue = self.core.queues().find(|queue| queue.id == place.0)?;
        // What is on disk is read back first, which may be late, or fail.
        queue.messages.slot(place.1)?;
        let meter = &mut Meter::default();
        self.core.foresee(self.now, place, event, None, meter)
    }

    /// Whether the queues that refuse it, or let it die, are about to do nothing else first.
    fn is_sure(&self, foresight: &Foresight) -> bool {
        let full = foresight.skipped.iter();
        let full = full
            .filter(|(_, why)| *why == Skipped::Full)
            .map(|(id, _)| *id);
        let killing = foresight.targets.iter().filter(|target| target.dies);
        let mut full = full.chain(killing.filter_map(|target| target.id));
        let rests = |queue: &Queue| !queue.scheduled && queue.registered > self.now.mono;
        full.all(|id| {
            let mut queues = self.core.queues();
            queues.find(|queue| queue.id == id).is_none_or(rests)
        })
    }

    fn count(&mut self, foresight: &Foresight) {
        let kind = match foresight.becomes {
            Becomes::Gone => 0,
            Becomes::Requeued => 1,
            Becomes::DeadLettered => 2,
            Becomes::DeadPending => 3,
            Becomes::Quarantined(_) => 4,
            Becomes::Dropped(_) => 5,
            Becomes::Moved | Becomes::NotMoved(_) => return, // see `redriven`
        };
        if let Some(compared) = self.foreseen.compared.get_mut(kind) {
            *compared += 1;
        }
        for (_, why) in &foresight.skipped {
            let kind = match why {
                Skipped::Cycle => 0,
                Skipped::Full => 1,
                Skipped::Gone => 2,
            };
            if let Some(skipped) = self.foreseen.skipped.get_mut(kind) {
                *skipped += 1;
            }
        }
    }
}
