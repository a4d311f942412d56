//! Commands that follow one another under one hold of the core's lock: a queue that several of them
//! add messages to is served once for all of them.

use super::work::Work;
use super::{COMMAND_BUDGET, COMMAND_SHARE, Core, Turn};
use crate::base::{Now, QueueId};
use crate::broker::queue::{Queue, Slot};
use crate::broker::{Command, Effects, Outcome, Settle};
use crate::message::Message;

/// Commands after which a queue is served at the latest: it serves all of their messages in one slice.
const UNSERVED_MAX: usize = 32;

/// What is known of a queue that is served later than the commands that it took messages from.
#[derive(Debug, Default)]
pub(super) struct Unserved {
    /// Commands that it was not served after. While there are any, it is all that the worklist has.
    commands: usize,
    /// The queue that took the message of the command that is handled, if that is all there is to it.
    taker: Option<QueueId>,
}

impl Unserved {
    /// Notes that a queue is about to take a message. Whether it is served now or a little later is the
    /// same to everybody if it has no limits, keeps its messages in the order they came in, no two
    /// consumers take turns, and the message does not expire at once.
    #[inline]
    pub(super) fn note_taker(&mut self, now: Now, queue: &Queue, slot: &Slot) {
        let message = &slot.message;
        let is_plain = queue.selecting.is_empty()
            && queue.deadline_of(slot) > now.mono
            && !queue.has_limits()
            && !queue.consumers.has_rivals()
            && (message.priority().is_none() || queue.messages.has_one_priority());
        self.taker = is_plain.then_some(queue.id);
    }
}

impl Core {
    /// [`Core::apply`] for a command whose reply nobody waits for, but the queue that takes the message may be
    /// served with a later command, or by [`Core::end_batch`]: it must be called before anything looks at the
    /// queue, and before the lock is released.
    #[inline]
    pub fn apply_in_batch(&mut self, now: Now, command: Command, effects: &mut Effects) {
        match command {
            Command::Publish(publish) => {
                self.apply_waiting(now, effects, |core, turn| core.publish(turn, publish));
            }
            Command::Settle(settle) => self.settle_in_batch(now, settle, effects),
            other => {
                self.apply(now, other, effects);
            }
        }
    }

    /// The same for a settlement.
    #[inline]
    pub fn settle_in_batch(&mut self, now: Now, settle: Settle, effects: &mut Effects) {
        if matches!(settle.outcome, Outcome::Rejected { .. }) {
            self.apply_waiting(now, effects, |core, turn| core.settle(turn, settle));
        } else {
            self.apply(now, Command::Settle(settle), effects);
        }
    }

    /// Handles a command after which the queue that takes its message need not be served at once. It has no
    /// reply: replies and commands are large, and are not moved for each message.
    #[inline]
    fn apply_waiting(
        &mut self,
        now: Now,
        effects: &mut Effects,
        handle: impl FnOnce(&mut Self, &mut Turn<'_>),
    ) {
        self.wake_due(now);
        let mut turn = Turn::new(now, COMMAND_BUDGET, effects);
        let has_other_work = self.work.len() > usize::from(self.unserved.commands > 0);
        self.unserved.taker = None;
        handle(self, &mut turn);
        self.unserved.commands += 1;
        if has_other_work || !self.is_served_later() {
            self.run_unserved(&mut turn);
        }
        self.recorder.finish(now, effects);
    }

    /// Serves what [`Core::apply_in_batch`] left.
    #[inline]
    pub fn end_batch(&mut self, now: Now, effects: &mut Effects) {
        if self.unserved.commands > 0 {
            let mut turn = Turn::new(now, COMMAND_BUDGET, effects);
            self.run_unserved(&mut turn);
            self.recorder.finish(now, effects);
        }
    }

    /// Serves the queue that a message is about to enter, if it waits for that: the message may be in
    /// front of those that came before it.
    #[inline]
    pub(super) fn serve_before(&mut self, turn: &mut Turn<'_>, id: QueueId, message: &Message) {
        if self.unserved.commands > 0 && message.priority().is_some() {
            self.serve(turn, id);
        }
    }

    /// Whether nothing follows from the last command but that its queue is to be served.
    #[inline]
    fn is_served_later(&self) -> bool {
        let next = match self.work.front() {
            Some(&Work::Serve(id)) if self.work.len() == 1 => Some(id),
            _ => None,
        };
        next.is_some() && next == self.unserved.taker && self.unserved.commands < UNSERVED_MAX
    }

    fn run_unserved(&mut self, turn: &mut Turn<'_>) {
        let commands = std::mem::take(&mut self.unserved.commands);
        self.run(turn);
        turn.charge_touched_beyond(COMMAND_SHARE * commands);
    }
}
