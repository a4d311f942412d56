//! What the world knows of each message that it sent, and what must be true of it. A message that is
//! published to several queues has a copy in each; copies cannot be told apart.

use std::collections::BTreeMap;

use super::codec::Outcome;
use super::payload::SeenMessage;
use super::topology::{FANOUT, TOPICS};
use super::transacting::Transactions;
use crate::broker::names::{SUBSCRIPTION_PREFIX, TEMPORARY_PREFIX};
use crate::broker::queue::MessageState;
use crate::deaths::{History, Reason};

/// What stands for the queue of any subscription: the names of some are the broker's.
pub(super) const SUBSCRIBED: &str = "a subscription";
/// Subscriptions that there may have been when a message came.
const SUBSCRIPTIONS: usize = 100;

/// Whether a queue is that of a subscription.
fn is_of_subscription(queue: &str) -> bool {
    queue.starts_with(SUBSCRIPTION_PREFIX) || queue.starts_with(TEMPORARY_PREFIX)
}

/// Where a message was found.
#[derive(Clone, Debug)]
#[expect(dead_code, reason = "for the report of a failure")]
pub(super) struct MessagePlace {
    pub(super) queue: String,
    pub(super) state: MessageState,
    pub(super) history: Option<Story>,
    /// Where redrives sent it.
    pub(super) sent_to: Vec<String>,
}

impl MessagePlace {
    /// It came from a queue that does not outlive the broker: a start may undo that.
    pub(super) fn was_volatile(&self) -> bool {
        let first = self.history.as_ref().map(|story| &*story.first.0);
        first.is_some_and(|queue| {
            queue.starts_with(TEMPORARY_PREFIX)
                || queue.starts_with(SUBSCRIPTION_PREFIX) && queue.contains("-volatile")
        })
    }
}

/// What a history says: its first death, and how often a message died where and why.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Story {
    first: (String, Reason),
    deaths: BTreeMap<(String, &'static str), u64>,
}

/// All messages that are in queues, by their numbers.
pub(super) type Present = BTreeMap<u64, Vec<MessagePlace>>;

/// How a message is published.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sending {
    pub(super) durable: bool,
    /// Queues that it goes to.
    pub(super) copies: usize,
    /// None of them can be gone when it comes.
    pub(super) all_enter: bool,
    /// Subscriptions may get it, too.
    pub(super) subscribed: bool,
}

/// One message.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    durable: bool,
    /// It was published in a transaction that was committed, though nobody said so.
    pub(super) seen: bool,
    told: Option<Outcome>,
    /// Copies that can be there: one for each queue that it was published to.
    copies: usize,
    /// All of them enter, or it is not accepted.
    all_enter: bool,
    /// Subscriptions may have copies, too, of which nobody knows how many there are.
    subscribed: bool,
    /// Times that a consumer accepted it, or got it settled.
    pub(super) may_go: usize,
    /// Times that the broker confirmed that it is settled.
    confirmed: usize,
    /// Copies that were there when the node started that runs now, if it was sent before.
    at_start: Option<usize>,
    /// Times it certainly failed since the node started.
    failures: u32,
    /// Times its consumer went and had it, since then: each is a failure, unless its queue isolates
    /// suspects.
    abandoned: u32,
    /// Times a consumer may have rejected it, by queue.
    rejected: BTreeMap<String, u64>,
    /// What its history said last since the node started.
    story: Option<Story>,
    /// A redrive sent it to several queues: it may have any number of copies.
    fanned: bool,
}

/// What the core counts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counted {
    pub(super) accepted: u64,
    pub(super) presettled: u64,
    pub(super) drops: u64,
    /// Copies that redrives made, beyond one of each message.
    pub(super) extra_copies: u64,
}

#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub(super) messages: BTreeMap<u64, Known>,
    pub(super) transactions: Transactions,
    /// Messages that were published in transactions.
    pub(super) posted: BTreeMap<u64, u64>,
    /// What was counted before the first look at the node that runs now.
    pub(super) base: Counted,
    pub(super) told_accepted: u64,
    /// Messages sent that are written while they arrive, if they are durable.
    pub(super) large: u64,
    /// Whether a policy of this world isolated suspects: what a lost connection held may not have
    /// failed then, whatever its consumer said of it.
    pub(super) isolates: bool,
    /// A message that the broker had, and that its publisher had to send again.
    pub(super) doubled: Option<u64>,
    /// The message that a replay tells about on stderr.
    pub(super) watched: Option<u64>,
    pub(super) deliveries: u64,
    pub(super) redeliveries: u64,
}

pub(super) fn story(history: &History) -> Result<Story, String> {
    let first = history.first();
    let mut deaths = BTreeMap::new();
    for entry in history.entries() {
        if entry.first_time > entry.last_time || entry.count == 0 {
            return Err(format!("a history goes back in time: {entry:?}"));
        }
        deaths.insert(
            (entry.queue.to_string(), entry.reason.as_str()),
            entry.count,
        );
    }
    Ok(Story {
        first: (first.queue.to_string(), first.reason),
        deaths,
    })
}

impl Ledger {
    pub(super) fn send(&mut self, sending: Sending) -> u64 {
        let id = self.messages.len() as u64 + 1;
        let known = Known {
            durable: sending.durable,
            copies: sending.copies,
            all_enter: sending.all_enter,
            subscribed: sending.subscribed,
            ..Known::default()
        };
        self.messages.insert(id, known);
        id
    }

    /// A message is sent once more, since the broker did not take it.
    pub(super) fn send_anew(&mut self, id: u64) {
        self.tell_of(id, &"sent anew");
        let Some(known) = self.messages.get_mut(&id) else {
            return;
        };
        // That it was settled in a subscription that does not outlive the broker says nothing of the others.
        let was_kept = known.confirmed > 0 && !known.subscribed;
        if known.durable && (known.at_start.unwrap_or(0) > 0 || was_kept) {
            self.doubled.get_or_insert(id);
        }
        // Of one that is not durable and that a full queue refused, a copy in another queue may have become
        // a dead letter that the journal keeps: it is there beside those that come now.
        known.copies += known.at_start.take().unwrap_or(0);
        known.confirmed = 0;
    }

    pub(super) fn tell(&mut self, id: u64, outcome: Outcome) -> Result<(), String> {
        self.tell_of(id, &outcome);
        let known = self.known(id)?;
        if let Some(before) = &known.told {
            return Err(format!(
                "message {id} was {before:?} and is {outcome:?} now"
            ));
        }
        let is_accepted = outcome == Outcome::Accepted;
        known.told = Some(outcome);
        self.told_accepted += u64::from(is_accepted);
        Ok(())
    }

    fn tell_of(&self, id: u64, what: &dyn std::fmt::Debug) {
        if self.watched == Some(id) {
            eprintln!("message {id}: {what:?}");
        }
    }

    fn known(&mut self, id: u64) -> Result<&mut Known, String> {
        let known = self.messages.get_mut(&id);
        known.ok_or_else(|| format!("message {id} was never sent"))
    }

    /// A consumer got a message. One that had let go of it (`stale`) may get it late, after others had it.
    pub(super) fn deliver(
        &mut self,
        seen: &SeenMessage,
        settled: bool,
        stale: bool,
    ) -> Result<(), String> {
        self.deliveries += 1;
        self.tell_of(seen.id, seen);
        let isolates = self.isolates;
        let known = self.known(seen.id)?;
        if stale {
            known.may_go += usize::from(settled);
            return Ok(());
        }
        known.see_redrives(&seen.sent_to);
        if known.confirmed >= known.copies_max() {
            return Err(format!(
                "message {} is settled, and came once more",
                seen.id
            ));
        }
        // A redrive lets the delivery-count begin anew.
        let counts = known.copies == 1 && seen.sent_to.is_empty();
        // What a lost connection held may not have failed where suspects are isolated, and its last
        // outcomes may be lost with it.
        let failures = if isolates {
            0
        } else {
            known.failures + known.abandoned
        };
        if counts && seen.delivery_count < failures {
            return Err(format!(
                "message {} failed {failures} times, and its delivery-count is {}",
                seen.id, seen.delivery_count
            ));
        }
        for (queue, reason, count) in &seen.deaths {
            let most = known.rejections(queue);
            if reason == "rejected" && *count > most {
                return Err(format!(
                    "message {} was rejected {most} times in {queue}, its history says {count}",
                    seen.id
                ));
            }
        }
        known.may_go += usize::from(settled);
        let again = seen.delivery_count > 0;
        self.redeliveries += u64::from(again);
        Ok(())
    }

    /// A consumer settles a delivery from a queue. Unless it is `sure` to count, it may not be counted as failed.
    pub(super) fn settle(&mut self, id: u64, queue: &str, outcome: &Outcome, sure: bool) {
        self.tell_of(id, outcome);
        let Ok(known) = self.known(id) else { return };
        let reject = |known: &mut Known| {
            *known.rejected.entry(queue.to_owned()).or_default() += 1;
        };
        match outcome {
            Outcome::Accepted => known.may_go += 1,
            Outcome::Released => {}
            Outcome::Rejected => {
                reject(known);
                known.failures += u32::from(sure);
            }
            Outcome::Modified { failed, here } => {
                if *here {
                    reject(known);
                }
                known.failures += u32::from(*failed && sure);
            }
        }
    }

    /// A connection or session went while its consumer had this.
    pub(super) fn fail(&mut self, id: u64) {
        if let Ok(known) = self.known(id) {
            known.abandoned += 1;
        }
    }

    pub(super) fn confirm(&mut self, id: u64) {
        self.tell_of(id, &"confirmed");
        if let Ok(known) = self.known(id) {
            known.confirmed += 1;
        }
    }

    /// Each message that was accepted is in one place, or settled, or counted as dropped.
    pub(super) fn check(&mut self, present: &Present, counted: Counted) -> Result<(), String> {
        if let Some(id) = self.watched {
            self.tell_of(id, &present.get(&id));
        }
        if let Some(id) = self.doubled {
            return Err(format!(
                "[AMQP 2.6.13] message {id} came, and its publisher had to send it anew"
            ));
        }
        self.check_places(present)?;
        let (mut missing, mut most, mut unexplained) = (0, 0, 0);
        let mut examples = Vec::new();
        for (id, known) in &self.messages {
            let here = present.get(id).map_or(0, Vec::len);
            let (least, at_most) = known.entered();
            let gone = least.saturating_sub(here);
            missing += gone as u64;
            most += at_most.saturating_sub(here) as u64;
            if gone > known.may_go {
                unexplained += (gone - known.may_go) as u64;
                examples.push(*id);
            }
        }
        let counted = Counted {
            accepted: counted.accepted - self.base.accepted,
            presettled: counted.presettled - self.base.presettled,
            drops: counted.drops - self.base.drops,
            extra_copies: counted.extra_copies.saturating_sub(self.base.extra_copies),
        };
        most += counted.extra_copies;
        let gone = counted.accepted + counted.presettled + counted.drops;
        if unexplained > counted.drops + counted.presettled {
            return Err(format!(
                "{unexplained} messages are missing that nobody settled, {counted:?}: {examples:?}"
            ));
        }
        if gone < missing || gone > most {
            return Err(format!(
                "{missing} to {most} messages are missing, {counted:?}"
            ));
        }
        Ok(())
    }

    fn check_places(&mut self, present: &Present) -> Result<(), String> {
        for (id, places) in present {
            self.see(*id)?;
            let known = self.known(*id)?;
            for place in places {
                known.see_redrives(&place.sent_to);
            }
            let (copies, confirmed) = (known.copies_max(), known.confirmed);
            if places.len() > copies {
                return Err(format!("message {id} is there twice: {places:?}"));
            }
            if places.len() + confirmed > copies {
                return Err(format!("message {id} is settled, and is there: {places:?}"));
            }
            for place in places {
                known.follow(*id, place)?;
            }
        }
        Ok(())
    }

    /// A node goes down, in which these messages are, and another one starts with those. What was
    /// accepted for good must be there again, but for what may have gone settled, and what the start
    /// itself dropped.
    pub(super) fn restart(
        &mut self,
        before: &Present,
        after: &Present,
        presettled: u64,
        base: Counted,
    ) -> Result<(), String> {
        self.base = base;
        if let Some(id) = self.watched {
            self.tell_of(id, &("restart", before.get(&id), after.get(&id)));
        }
        // A redrive may have copied some since the last look.
        for (id, place) in before
            .iter()
            .flat_map(|(id, all)| all.iter().map(move |it| (id, it)))
        {
            self.known(*id)?.see_redrives(&place.sent_to);
        }
        if base.drops == 0 {
            self.check_halves(before, after)?;
        }
        let (mut lost, mut lost_count) = (Vec::new(), 0);
        for (id, known) in &mut self.messages {
            let [before, after] = [before, after].map(|all| all.get(id).map_or(0, Vec::len));
            let must_be = known.durable && known.told == Some(Outcome::Accepted);
            // A start may undo the move that copied it.
            let before = if known.fanned { before.min(1) } else { before };
            // Of what consumers accepted, some may have been gone before: these are not there twice.
            let gone = known.copies - before.min(known.copies);
            let may_go = known
                .may_go
                .saturating_sub(if known.subscribed { 0 } else { gone });
            if must_be && after + may_go < before {
                lost.push(*id);
                lost_count += (before - after - may_go) as u64;
            }
            known.at_start = Some(after);
            known.failures = 0;
            known.abandoned = 0;
            known.story = None;
        }
        if lost_count > presettled + base.drops {
            return Err(format!("a start lost accepted messages: {lost:?}"));
        }
        self.check_places(after)
    }

    /// Whether the journal keeps a message.
    pub(super) fn is_kept(&self, id: u64) -> bool {
        self.messages.get(&id).is_some_and(Known::is_durable)
    }

    /// Whether a message can be in one place only.
    pub(super) fn has_one_copy(&self, id: u64) -> bool {
        self.messages.get(&id).is_some_and(Known::has_one_copy)
    }

    /// Messages that were sent and whose outcome is not known.
    pub(super) fn sent(&self) -> u64 {
        self.messages.len() as u64
    }
}

impl Known {
    /// How many copies were in queues since the node started that runs now: at least, and at most.
    fn entered(&self) -> (usize, usize) {
        if let Some(at_start) = self.at_start {
            return (at_start, at_start);
        }
        let is_there = self.seen || self.told == Some(Outcome::Accepted);
        let least = match (is_there, self.all_enter) {
            (true, true) => self.copies,
            (true, false) => 1,
            (false, _) => 0,
        };
        let most = if self.subscribed {
            self.copies + SUBSCRIPTIONS
        } else {
            self.copies
        };
        (least, most)
    }

    /// Copies that can be there.
    const fn copies_max(&self) -> usize {
        if self.fanned || self.subscribed {
            usize::MAX
        } else {
            self.copies
        }
    }

    /// Times that a consumer may have rejected it in a queue.
    fn rejections(&self, queue: &str) -> u64 {
        let queue = if is_of_subscription(queue) {
            SUBSCRIBED
        } else {
            queue
        };
        self.rejected.get(queue).copied().unwrap_or(0)
    }

    pub(super) const fn is_durable(&self) -> bool {
        self.durable
    }

    const fn has_one_copy(&self) -> bool {
        self.copies == 1 && !self.fanned && !self.subscribed
    }

    fn see_redrives(&mut self, sent_to: &[String]) {
        // By all of its keys, if it was published with two.
        self.fanned |= sent_to.iter().any(|to| to == FANOUT || to == TOPICS);
    }

    /// What a history says only ever grows, and is not more than what can have been.
    fn follow(&mut self, id: u64, place: &MessagePlace) -> Result<(), String> {
        let Some(story) = &place.history else {
            if self.story.is_some() && self.has_one_copy() {
                return Err(format!("message {id} has no history any more: {place:?}"));
            }
            return Ok(());
        };
        for ((queue, reason), count) in &story.deaths {
            let most = self.rejections(queue);
            if *reason == "rejected" && *count > most {
                return Err(format!(
                    "message {id} was rejected {most} times in {queue}: {place:?}"
                ));
            }
        }
        if let Some(before) = self.story.as_ref().filter(|_| self.has_one_copy()) {
            let fell = before.deaths.iter().any(|(key, count)| {
                let now = story.deaths.get(key);
                now.is_none_or(|now| now < count)
            });
            if fell || before.first != story.first {
                return Err(format!(
                    "message {id} died as {before:?}, and now {story:?}"
                ));
            }
        }
        self.story = Some(story.clone());
        Ok(())
    }
}
