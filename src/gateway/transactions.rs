//! The transactions of one connection that are not committed: what was published in them, and what
//! its consumers said. [AMQP 4]
//!
//! ```text
//!  declare --> open <-- posts, outcomes
//!               |
//!               +-- discharge --> Command::Commit --> Effect::Committed --> accepted
//!               |                                            |
//!               |                                            +--> refused: rolled back, rejected
//!               +-- discharge with fail --> rolled back, accepted
//!               +-- timeout, limit, end of the controller's link or session --> rolled back
//! ```
//!
//! All of it is of the gateway until then: the core sees one command.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;

use super::Gateway;
use super::errors;
use super::seats::HeldBytes;
use super::work::{Leaving, Work};
use crate::base::limits::{
    SETTLE_RUN_MAX, TRANSACTION_DELIVERIES_MAX, TRANSACTIONS_ENDED_MAX, TRANSACTIONS_OPEN_MAX,
};
use crate::base::{ConsumerId, Millis, Now, Position, Serial};
use crate::broker::{Outcome, Publish, SettleRun};
use crate::link::{LinkHandle, SessionHandle};
use crate::wire::performative::{DeliveryState, Error};

/// The number of a transaction, which its id on the wire encodes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct TxnId(pub(super) u64);

impl TxnId {
    /// The id on the wire.
    pub(super) fn encode(self) -> Bytes {
        Bytes::copy_from_slice(&self.0.to_be_bytes())
    }

    /// The number of an id; none if it cannot be one of the broker's.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let number = u64::from_be_bytes(*bytes.first_chunk::<8>()?);
        (bytes.len() == 8).then_some(Self(number))
    }

    /// A provisional outcome of the transaction, or the one that it was committed with.
    pub(super) fn state(self, outcome: &DeliveryState) -> DeliveryState {
        let mut encoded = Vec::new();
        outcome.write(&mut encoded);
        DeliveryState::Transactional {
            txn_id: self.encode(),
            outcome: Some(encoded.into()),
        }
    }
}

/// Transactions of a connection.
#[derive(Debug, Default)]
pub(super) struct Transactions {
    /// Those declared and not ended, in order of declaration.
    open: BTreeMap<TxnId, Transaction>,
    /// Those that the broker has rolled back by itself, the latest last, with what their users are
    /// told.
    ended: VecDeque<(TxnId, Error)>,
    /// By their tokens: deliveries with an outcome in a transaction that the peer has not settled,
    /// and where that outcome is.
    tied: BTreeMap<u64, (TxnId, usize)>,
    /// Consumers whose link is gone, and that the core keeps for outcomes in transactions.
    lingering: BTreeMap<ConsumerId, SessionHandle>,
}

/// A transaction that was declared and has not ended.
#[derive(Debug)]
pub(super) struct Transaction {
    /// The link that it was declared on.
    pub(super) controller: LinkHandle,
    pub(super) posts: Vec<Publish>,
    pub(super) retired: Vec<Retired>,
    /// The consumers of these outcomes.
    pub(super) consumers: BTreeSet<ConsumerId>,
    /// Why it cannot be committed: a message in it was refused.
    pub(super) refused: Option<Error>,
    /// Bytes that it counts as.
    held: HeldBytes,
    /// Those of them that are in memory.
    here_bytes: u64,
    /// When it is rolled back.
    deadline: Millis,
    /// The delivery with its discharge, while the core has it.
    pub(super) discharge: Option<Discharge>,
}

/// The delivery with the discharge of a transaction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Discharge {
    pub(super) link: LinkHandle,
    pub(super) delivery_id: Serial,
    pub(super) settled: bool,
}

/// An outcome that holds if its transaction is committed.
#[derive(Debug)]
pub(super) struct Retired {
    pub(super) consumer: ConsumerId,
    pub(super) position: Position,
    pub(super) outcome: Outcome,
    pub(super) hold: Hold,
}

/// Whether the receiver of a delivery has settled it.
#[derive(Clone, Debug)]
pub(super) enum Hold {
    /// It has: after a rollback the message goes back.
    Settled,
    /// It has not: after a rollback it still has the delivery.
    Unsettled {
        /// The link that it was sent on.
        link: LinkHandle,
        /// Its delivery-id in the session.
        delivery_id: Serial,
        /// Its token, by which the engine knows it.
        token: u64,
        /// What it is settled with after the commit.
        state: DeliveryState,
    },
    /// It has not, and its link is gone.
    Gone,
}

impl Transaction {
    /// Number of deliveries.
    fn deliveries(&self) -> usize {
        self.posts.len() + self.retired.len()
    }
}

impl Transactions {
    /// Begins a transaction; none if there are too many.
    pub(super) fn declare(
        &mut self,
        id: TxnId,
        controller: LinkHandle,
        (held, deadline): (HeldBytes, Millis),
    ) -> bool {
        if self.open.len() >= TRANSACTIONS_OPEN_MAX {
            return false;
        }
        let transaction = Transaction {
            controller,
            posts: Vec::new(),
            retired: Vec::new(),
            consumers: BTreeSet::new(),
            refused: None,
            held,
            here_bytes: 0,
            deadline,
            discharge: None,
        };
        self.open.insert(id, transaction);
        true
    }

    /// The open transaction with this id on the wire, or what is wrong with the id.
    pub(super) fn find(&self, txn_id: &[u8]) -> Result<TxnId, Error> {
        let id = TxnId::decode(txn_id).ok_or_else(errors::unknown_transaction)?;
        match self.open.get(&id) {
            Some(open) if open.discharge.is_none() => Ok(id),
            _ => {
                let ended = self.ended.iter().find(|(ended, _)| *ended == id);
                Err(ended.map_or_else(errors::unknown_transaction, |(_, error)| error.clone()))
            }
        }
    }

    /// Whether the broker has rolled it back by itself.
    pub(super) fn has_ended(&self, txn_id: &[u8]) -> bool {
        let id = TxnId::decode(txn_id);
        self.ended.iter().any(|(ended, _)| Some(*ended) == id)
    }

    /// The transaction with this number, as long as it has not ended.
    pub(super) fn by_id(&mut self, id: TxnId) -> Option<&mut Transaction> {
        self.open.get_mut(&id)
    }

    /// Memory of posts and outcomes, in bytes.
    pub(super) fn kept_bytes(&self) -> u64 {
        self.open.values().map(|open| open.here_bytes).sum()
    }

    /// When the next one is rolled back.
    fn deadline(&self) -> Option<Millis> {
        let mut running = self.open.values().filter(|open| open.discharge.is_none());
        running.next().map(|open| open.deadline)
    }

    /// The transaction that the outcome of a delivery belongs to, if the peer has not settled it.
    pub(super) fn tied(&self, token: u64) -> Option<TxnId> {
        self.tied.get(&token).map(|(id, _)| *id)
    }

    /// Notes that the receiver has settled a delivery whose outcome is in a transaction.
    pub(super) fn settle_tied(&mut self, token: u64) {
        self.set_hold(token, Hold::Settled);
    }

    fn set_hold(&mut self, token: u64, hold: Hold) {
        if let Some((id, index)) = self.tied.remove(&token)
            && let Some(open) = self.open.get_mut(&id)
            && let Some(retired) = open.retired.get_mut(index)
        {
            retired.hold = hold;
        }
    }

    /// Adds an outcome.
    pub(super) fn retire(&mut self, id: TxnId, retired: Retired) {
        let Some(open) = self.open.get_mut(&id) else {
            return;
        };
        if let Hold::Unsettled { token, .. } = retired.hold {
            self.tied.insert(token, (id, open.retired.len()));
        }
        open.consumers.insert(retired.consumer);
        open.retired.push(retired);
    }

    /// Whether a transaction has an outcome of this consumer.
    fn has_outcome_of(&self, consumer: ConsumerId) -> bool {
        let mut open = self.open.values();
        open.any(|open| open.consumers.contains(&consumer))
    }

    /// Those that are not being discharged and for which this holds.
    fn running(&self, is: impl Fn(&Transaction) -> bool) -> Vec<TxnId> {
        let open = self.open.iter();
        let found = open.filter(|(_, open)| open.discharge.is_none() && is(open));
        found.map(|(id, _)| *id).collect()
    }
}

impl Gateway {
    /// Counts what is added to a transaction, all its bytes and those in memory; an error if it
    /// becomes too large.
    pub(super) fn count_in_transaction(
        &mut self,
        id: TxnId,
        deliveries: usize,
        (bytes, here_bytes): (u64, u64),
    ) -> Result<(), Error> {
        let max_bytes = self.environment.options.transaction_bytes_max;
        let Some(open) = self.transactions.as_mut().and_then(|all| all.by_id(id)) else {
            return Err(errors::unknown_transaction());
        };
        if open.deliveries() + deliveries > TRANSACTION_DELIVERIES_MAX {
            return Err(errors::too_many_in_transaction(TRANSACTION_DELIVERIES_MAX));
        }
        if open.held.bytes() + bytes > max_bytes {
            return Err(errors::too_long_transaction(max_bytes));
        }
        if !open.held.grow(bytes) {
            return Err(errors::no_room_for_transaction());
        }
        open.here_bytes += here_bytes;
        Ok(())
    }

    /// Rolls a transaction back: its posts are dropped; what a consumer has settled in it goes back
    /// as a failed delivery, and what it has not settled stays its own. [AMQP 4.4.2]
    pub(super) fn roll_back(&mut self, id: TxnId) {
        let Some(all) = &mut self.transactions else {
            return;
        };
        let Some(open) = all.open.remove(&id) else {
            return;
        };
        for retired in &open.retired {
            if let Hold::Unsettled { token, .. } = retired.hold {
                all.tied.remove(&token);
            }
        }
        for post in &open.posts {
            self.release_blob(post.message.blob().map(|body| **body));
        }
        self.requeue(open.retired);
        self.forget_lingering(&open.consumers);
    }

    /// Requeues what consumers settled in a transaction that is not committed.
    pub(super) fn requeue(&mut self, retired: Vec<Retired>) {
        let mut run: Option<SettleRun> = None;
        for retired in retired {
            let is_failed = match retired.hold {
                Hold::Settled => true,
                Hold::Unsettled {
                    link,
                    delivery_id,
                    token,
                    ..
                } => {
                    if self.link.reopen_sent(link, delivery_id) {
                        continue;
                    }
                    self.sent.remove(token);
                    true
                }
                Hold::Gone => false,
            };
            let goes_on = run.as_ref().is_some_and(|run| {
                run.consumer == retired.consumer
                    && run.positions.len() < SETTLE_RUN_MAX
                    && matches!(run.outcome, Outcome::Modified { .. }) == is_failed
            });
            if !goes_on {
                let outcome = if is_failed { FAILED } else { Outcome::Released };
                let next = SettleRun {
                    consumer: retired.consumer,
                    positions: Vec::new(),
                    outcome,
                };
                let before = run.replace(next);
                self.settle_run(before);
            }
            if let Some(run) = &mut run {
                run.positions.push(retired.position);
            }
        }
        self.settle_run(run);
    }

    fn settle_run(&mut self, run: Option<SettleRun>) {
        if let Some(run) = run {
            self.batch.push(Work::Settle(run));
        }
    }

    /// Rolls a transaction back that its controller has not discharged: whoever uses it later is
    /// told why.
    pub(super) fn end_transaction(&mut self, id: TxnId, error: Error) {
        self.roll_back(id);
        if let Some(all) = &mut self.transactions {
            if all.ended.len() >= TRANSACTIONS_ENDED_MAX {
                all.ended.pop_front();
            }
            all.ended.push_back((id, error));
        }
    }

    /// When the next transaction is rolled back because of its time.
    pub(super) fn transaction_deadline(&self) -> Option<Millis> {
        self.transactions.as_ref()?.deadline()
    }

    /// Rolls back the transactions whose time is over.
    pub(super) fn end_late_transactions(&mut self, now: Now) {
        let timeout_ms = self.environment.options.transaction_timeout_ms;
        let Some(all) = &self.transactions else {
            return;
        };
        for id in all.running(|open| open.deadline <= now.mono) {
            self.end_transaction(id, errors::transaction_timeout(timeout_ms));
        }
    }

    /// Rolls back the transactions that were declared on a link which ended.
    pub(super) fn end_controller(&mut self, link: LinkHandle) {
        let Some(all) = &self.transactions else {
            return;
        };
        for id in all.running(|open| open.controller == link) {
            self.roll_back(id);
        }
    }

    /// Rolls back the transactions with outcomes of these consumers, whose session ends, and of
    /// others of it: the core takes back all that they hold.
    pub(super) fn end_consumers(&mut self, session: SessionHandle, consumers: &[ConsumerId]) {
        let Some(all) = &self.transactions else {
            return;
        };
        let of_session = |consumer: &ConsumerId| {
            consumers.contains(consumer) || all.lingering.get(consumer) == Some(&session)
        };
        for id in all.running(|open| open.consumers.iter().any(of_session)) {
            self.end_transaction(id, errors::session_of_transaction());
        }
    }

    /// Whether a consumer whose link is gone has to be kept by the core, since a transaction has
    /// outcomes of it; what it held beside those is released.
    pub(super) fn lingers(
        &mut self,
        consumer: ConsumerId,
        session: SessionHandle,
        unsettled: &[u64],
    ) -> bool {
        let Some(all) = &mut self.transactions else {
            return false;
        };
        if !all.has_outcome_of(consumer) {
            return false;
        }
        all.lingering.insert(consumer, session);
        let sent = &self.sent;
        let is_its = |token: &u64| sent.get(*token).is_some_and(|(of, _)| of == consumer);
        let tied: Vec<u64> = all.tied.keys().copied().filter(is_its).collect();
        let unsettled = unsettled.iter().filter_map(|token| sent.get(*token));
        let positions: Vec<_> = unsettled.map(|(_, position)| position).collect();
        for token in tied {
            all.set_hold(token, Hold::Gone);
            self.sent.remove(token);
        }
        for positions in positions.chunks(SETTLE_RUN_MAX) {
            self.batch.push(Work::Settle(SettleRun {
                consumer,
                positions: positions.to_vec(),
                outcome: Outcome::Released,
            }));
        }
        true
    }

    /// Has the core forget those of these consumers whose link is gone and that no transaction has
    /// outcomes of any more.
    pub(super) fn forget_lingering(&mut self, consumers: &BTreeSet<ConsumerId>) {
        let Some(all) = &mut self.transactions else {
            return;
        };
        for consumer in consumers {
            if !all.has_outcome_of(*consumer) && all.lingering.remove(consumer).is_some() {
                self.batch.push(Work::Leave(Leaving::Consumer(*consumer)));
            }
        }
    }

    /// Takes a transaction out that the core has answered for.
    pub(super) fn take_discharged(&mut self, id: TxnId) -> Option<Transaction> {
        let all = self.transactions.as_mut()?;
        let open = all.open.remove(&id)?;
        for retired in &open.retired {
            if let Hold::Unsettled { token, .. } = retired.hold {
                all.tied.remove(&token);
            }
        }
        Some(open)
    }

    /// Drops all transactions of a connection that ends: the core takes back what its consumers
    /// hold.
    pub(super) fn forget_transactions(&mut self) {
        let Some(all) = self.transactions.take() else {
            return;
        };
        for post in all.open.values().flat_map(|open| &open.posts) {
            self.release_blob(post.message.blob().map(|body| **body));
        }
    }

    /// Bytes of transactions that are not committed.
    pub(super) fn transactions_bytes(&self) -> u64 {
        self.transactions.as_ref().map_or(0, |all| all.kept_bytes())
    }
}

/// What becomes of a delivery that was settled in a transaction which is rolled back: it counts as
/// failed.
const FAILED: Outcome = Outcome::Modified {
    delivery_failed: true,
    undeliverable_here: false,
    annotations: None,
};
