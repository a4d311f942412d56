//! What is true of message groups at any time, which the simulation of whole brokers asks.

use std::collections::BTreeMap;

use super::Core;
use crate::base::{ConsumerId, HolderId, Position};
use crate::broker::queue::{MessageState, Queue, Slot, subqueue};

/// By group and subqueue: the last message that a consumer holds.
type Last = BTreeMap<(Vec<u8>, usize), (Position, ConsumerId)>;

impl Core {
    /// Each group of a queue is with the one consumer that holds its messages, and none of its messages waits
    /// that came before those and was never held, where they are `ordered`: no message waits for its time. Groups
    /// that are `exempt` are left out.
    pub(crate) fn check_groups(
        &self,
        exempt: fn(&[u8]) -> bool,
        is_ordered: bool,
    ) -> Result<(), String> {
        let mut queues = self.queues().filter(|queue| queue.selecting.has_groups());
        queues.try_for_each(|queue| {
            let last = self.held_last(queue, exempt)?;
            // Of what was read back it is not known whether it was held before.
            if self.memory().loads > 0 || !is_ordered {
                return Ok(());
            }
            check_order(queue, &last)
        })
    }

    fn held_last(&self, queue: &Queue, exempt: fn(&[u8]) -> bool) -> Result<Last, String> {
        let mut last = Last::new();
        for (position, slot, group) in grouped(queue, MessageState::Held) {
            let consumer = self.recoveries.consumer_of(slot.holder);
            let is_attached = self.clients.consumers.get(&consumer).is_some();
            let is_there = is_attached || self.recoveries.is_suspended(consumer);
            if exempt(group) || !is_there {
                continue; // without its link it is in a transaction, or on its way back
            }
            let owner = queue.selecting.owner_of(&queue.messages, position);
            if owner != Some(consumer) {
                return Err(format!(
                    "{consumer:?} holds {position:?} of {}, whose group {} is with {owner:?}",
                    queue.name,
                    String::from_utf8_lossy(group)
                ));
            }
            // Whether it has a selector is not known of one that is away.
            if is_attached {
                last.insert((group.to_vec(), subqueue(position)), (position, consumer));
            }
        }
        Ok(last)
    }
}

fn check_order(queue: &Queue, last: &Last) -> Result<(), String> {
    for (position, slot, group) in grouped(queue, MessageState::Ready) {
        let held = last.get(&(group.to_vec(), subqueue(position)));
        let passed = held.filter(|(behind, holder)| {
            // What the owner's selector does not match waits until it goes.
            position < *behind && !queue.selecting.selects(*holder)
        });
        let was_held = slot.acquired > 0 || slot.holder != HolderId::default();
        if let Some((behind, holder)) = passed.filter(|_| !was_held) {
            return Err(format!(
                "{holder:?} holds {behind:?} of {}, and {position:?} of its group {} waits",
                queue.name,
                String::from_utf8_lossy(group)
            ));
        }
    }
    Ok(())
}

/// The messages in memory that are in this state and have a group, in the order of their positions.
fn grouped(queue: &Queue, state: MessageState) -> impl Iterator<Item = (Position, &Slot, &[u8])> {
    let mut from = Position(0);
    let positions = std::iter::from_fn(move || {
        let position = queue.messages.find(state, from)?;
        from = Position(position.0 + 1);
        Some(position)
    });
    positions.filter_map(|position| {
        let slot = queue.messages.slot(position)?;
        Some((position, slot, slot.message.group_id()?))
    })
}
