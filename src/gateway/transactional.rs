//! What belongs to a transaction: messages that are published in it, and outcomes of consumers.
//! [AMQP 4.4]

use bytes::Bytes;

use super::Gateway;
use super::consumer::outcome;
use super::errors;
use super::handshake::Login;
use super::links::{Link, LinkId, LinkKind};
use super::publish::Refusal;
use super::tags::named;
use super::transactions::{Hold, Retired, TxnId};
use crate::base::limits::TRANSACTION_DELIVERY_BYTES;
use crate::base::{ConsumerId, Position, Serial};
use crate::broker::Publish;
use crate::link::{Arrived, LinkHandle, Posted};
use crate::wire::performative::{DeliveryState, DeliveryTag, Error};

/// An outcome in a transaction, and the link that it came on.
struct Provisional {
    link: LinkHandle,
    id: TxnId,
    /// The transaction's id on the wire, as the peer wrote it.
    state: DeliveryState,
    outcome: DeliveryState,
}

impl Gateway {
    /// Handles a message that is published in a transaction: it is kept until that is discharged,
    /// and its publisher is told that it would be accepted. [AMQP 4.4.1]
    #[cold]
    pub(super) fn on_posted(&mut self, posted: Posted) {
        let Posted {
            link: handle,
            txn_id,
            tag,
            arrived,
        } = posted;
        match self.links.by_handle(handle).map(|link| &link.kind) {
            Some(LinkKind::Publisher(_)) => {}
            Some(_) => {
                let error = errors::not_allowed(
                    "only messages to a queue or exchange are published in a transaction",
                );
                return self.link.detach(handle, true, Some(error));
            }
            None => return,
        }
        let Arrived {
            delivery_id,
            settled,
            payload,
        } = arrived;
        let generation = self.login.as_ref().map_or(0, Login::generation);
        let bytes = self.streamed_bytes(handle) + payload.len() as u64;
        let Some((id, way)) = self.receive(handle, generation, payload) else {
            return;
        };
        let way = if self.takes_rejected(id.publisher()) {
            way
        } else {
            way.map_err(Refusal::without_rejected)
        };
        let all = self.transactions.get_or_insert_default();
        match (all.find(&txn_id), way) {
            (Ok(txn), Ok((way, message))) => {
                let publish = self.publish_of(id, (delivery_id, settled), way, message);
                self.post((handle, id), (txn, bytes), (delivery_id, tag), publish);
            }
            (Ok(txn), Err(refusal)) => {
                let (refusal, why) = refusal.in_transaction(txn);
                if let Some(open) = all.by_id(txn) {
                    open.refused
                        .get_or_insert_with(|| errors::rolled_back(&why));
                }
                if self.is_anonymous(id) && !matches!(refusal, Refusal::Outcome(_)) {
                    self.tags.keep((id.publisher(), delivery_id), tag);
                }
                self.refuse_message(handle, delivery_id, settled, refusal);
            }
            (Err(error), way) => {
                if let Ok((_, message)) = way {
                    self.release_blob(message.blob().map(|body| **body));
                }
                self.end_posting((handle, id), &tag, error);
            }
        }
        self.give_credit(id.publisher());
    }

    /// Detaches a link whose message cannot be a part of its transaction.
    fn end_posting(&mut self, (handle, id): (LinkHandle, LinkId), tag: &DeliveryTag, error: Error) {
        let error = if self.is_anonymous(id) {
            named(error, tag)
        } else {
            error
        };
        self.link.detach(handle, true, Some(error));
    }

    /// Handles a message of a transaction that its link or session dropped: without it the transaction can
    /// only be rolled back.
    #[cold]
    pub(super) fn on_work_lost(&mut self, txn_id: &[u8]) {
        let all = self.transactions.get_or_insert_default();
        if let Ok(txn) = all.find(txn_id)
            && let Some(open) = all.by_id(txn)
        {
            let why = "a part of it came on a link that has ended";
            open.refused.get_or_insert_with(|| errors::rolled_back(why));
        }
    }

    /// Bytes of the message that is being streamed in on a link.
    fn streamed_bytes(&mut self, handle: LinkHandle) -> u64 {
        match self.links.by_handle(handle).map(|link| &link.kind) {
            Some(LinkKind::Publisher(publisher)) => {
                let streaming = publisher.streaming.as_ref();
                streaming.map_or(0, |streaming| streaming.bytes())
            }
            _ => 0,
        }
    }

    /// Keeps a message for its transaction.
    fn post(
        &mut self,
        (handle, id): (LinkHandle, LinkId),
        (txn, bytes): (TxnId, u64),
        (delivery_id, tag): (Serial, DeliveryTag),
        publish: Publish,
    ) {
        let body = publish.message.blob().map(|body| **body);
        let bytes = bytes + TRANSACTION_DELIVERY_BYTES as u64;
        let here_bytes = match body {
            Some(_) => (publish.message.head_bytes() + TRANSACTION_DELIVERY_BYTES) as u64,
            None => bytes,
        };
        if let Err(error) = self.count_in_transaction(txn, 1, (bytes, here_bytes)) {
            self.release_blob(body);
            self.end_transaction(txn, error.clone());
            return self.end_posting((handle, id), &tag, error);
        }
        let settled = publish.settled;
        let all = self.transactions.get_or_insert_default();
        if let Some(open) = all.by_id(txn) {
            open.posts.push(publish);
        }
        // Its publisher is answered now.
        self.count_published(id, true);
        if !settled {
            let state = txn.state(&DeliveryState::Accepted);
            self.link.settle_received(handle, delivery_id, &state);
        }
    }

    /// Handles deliveries that the peer settled in a transaction. [AMQP 4.4.2]
    pub(super) fn on_settled_in_transaction(
        &mut self,
        handle: LinkHandle,
        tokens: &[u64],
        state: &DeliveryState,
    ) {
        let Some(said) = self.provisional(handle, state) else {
            return self.forget_sent(&[], tokens);
        };
        let all = self.transactions.get_or_insert_default();
        let (mut new, mut other) = (Vec::with_capacity(tokens.len()), false);
        for token in tokens {
            match all.tied(*token) {
                // It had its outcome before, and is settled now.
                Some(tied) => {
                    all.settle_tied(*token);
                    self.sent.remove(*token);
                    other |= tied != said.id;
                }
                None => new.extend(self.sent.remove(*token)),
            }
        }
        let holds = new.into_iter().map(|delivery| (delivery, Hold::Settled));
        self.retire(&said, holds.collect());
        if other {
            self.refuse_second_transaction(said.id);
        }
    }

    /// Handles an outcome in a transaction of a delivery that the peer has not settled.
    /// [AMQP 4.4.2]
    pub(super) fn on_outcome_in_transaction(
        &mut self,
        handle: LinkHandle,
        (token, delivery_id): (u64, Serial),
        state: &DeliveryState,
    ) {
        let Some(said) = self.provisional(handle, state) else {
            return;
        };
        let all = self.transactions.get_or_insert_default();
        match (all.tied(token), self.sent.get(token)) {
            (Some(tied), _) if tied != said.id => self.refuse_second_transaction(said.id),
            (None, Some(delivery)) => {
                let hold = Hold::Unsettled {
                    link: handle,
                    delivery_id,
                    token,
                    state: said.state.clone(),
                };
                self.retire(&said, vec![(delivery, hold)]);
            }
            // Its outcome is known: the first one counts.
            (Some(_), _) | (None, None) => {}
        }
    }

    /// The outcome in a transaction that a consumer said; none if its link is detached for it, or
    /// is gone.
    fn provisional(&mut self, link: LinkHandle, state: &DeliveryState) -> Option<Provisional> {
        let DeliveryState::Transactional {
            txn_id,
            outcome: Some(encoded),
        } = state
        else {
            return None;
        };
        self.links.by_handle(link)?;
        let found = self.transactions.get_or_insert_default().find(txn_id);
        match (found, DeliveryState::decode(encoded)) {
            (Ok(id), Ok(outcome)) => Some(Provisional {
                link,
                id,
                state: state.clone(),
                outcome,
            }),
            (Err(error), _) => {
                self.link.detach(link, true, Some(error));
                None
            }
            // The engine has decoded it before.
            (Ok(_), Err(_)) => None,
        }
    }

    /// Adds outcomes to a transaction. If it becomes too large by them they go back with its others.
    fn retire(&mut self, said: &Provisional, deliveries: Vec<((ConsumerId, Position), Hold)>) {
        let Some(Link {
            kind: LinkKind::Consumer(consumer),
            ..
        }) = self.links.by_handle(said.link)
        else {
            return;
        };
        let Some(outcome) = outcome(consumer, &said.outcome) else {
            return;
        };
        let state_bytes = match &said.state {
            DeliveryState::Transactional { outcome, .. } => outcome.as_ref().map_or(0, Bytes::len),
            _ => 0,
        };
        let count = deliveries.len();
        let bytes = (count * TRANSACTION_DELIVERY_BYTES + state_bytes) as u64;
        let counted = self.count_in_transaction(said.id, count, (bytes, bytes));
        let all = self.transactions.get_or_insert_default();
        for ((consumer, position), hold) in deliveries {
            let retired = Retired {
                consumer,
                position,
                outcome: outcome.clone(),
                hold,
            };
            all.retire(said.id, retired);
        }
        if let Err(error) = counted {
            self.end_transaction(said.id, error.clone());
            self.link.detach(said.link, true, Some(error));
        }
    }

    /// Ends the link of a controller that would put one message into two transactions. [AMQP 4.4.2]
    ///
    /// "the delivery MUST NOT be associated with a different non-discharged transaction than the
    /// outcome. If this happens then the control link MUST be terminated with a
    /// transaction-rollback error."
    fn refuse_second_transaction(&mut self, id: TxnId) {
        let all = self.transactions.get_or_insert_default();
        if let Some(controller) = all.by_id(id).map(|open| open.controller) {
            let error = errors::second_transaction();
            self.link.detach(controller, true, Some(error));
        }
    }
}
