//! The coordinator of transactions: links on which a controller declares and discharges. [AMQP 4.1
//! to 4.3]

use super::Gateway;
use super::attach::LinkIds;
use super::errors;
use super::links::LinkKind;
use super::transactions::{Discharge, Hold, Transaction, TxnId};
use super::work::Work;
use crate::base::limits::{
    COORDINATOR_CREDIT, COORDINATOR_MESSAGE_BYTES_MAX, TRANSACTIONS_OPEN_MAX,
};
use crate::base::{Now, uncount};
use crate::broker::{Command, Commit, Settle};
use crate::link::{Arrived, LinkHandle};
use crate::wire::performative::{
    Attach, AttachAnswer, Control, DeliveryState, Error, Symbol, TargetArchetype, Terminus,
};

/// What the coordinator offers: a session may have several transactions, and a transaction is of
/// its connection. [AMQP 4.5.9]
const CAPABILITIES: [&str; 3] = [
    "amqp:local-transactions",
    "amqp:multi-txns-per-ssn",
    "amqp:multi-ssns-per-txn",
];

/// The outcome of a discharge that failed, if the controller has it.
const REJECTED: &str = "amqp:rejected:list";

/// A link to the coordinator.
#[derive(Debug)]
pub(super) struct Controller {
    /// Whether the controller takes the outcome rejected; else the link is detached.
    takes_rejected: bool,
    /// Credit that the peer has left, in messages.
    credit: u32,
}

impl Gateway {
    /// Attaches a controller. Choice: it needs no right, since each post and outcome is checked.
    pub(super) fn attach_controller(
        &mut self,
        place: LinkIds,
        attach: &Attach,
    ) -> Result<(), Error> {
        let outcomes = attach
            .source
            .as_ref()
            .and_then(|source| source.outcomes.as_ref());
        let mut named = outcomes.into_iter().flatten();
        let controller = Controller {
            takes_rejected: outcomes.is_none() || named.any(|name| name.as_str() == REJECTED),
            credit: COORDINATOR_CREDIT,
        };
        self.add_link(place, attach, LinkKind::Controller(controller))?;
        let capabilities = Some(CAPABILITIES.map(Symbol::from).to_vec());
        self.link.accept_attach(
            place.0,
            AttachAnswer {
                target: Terminus::Given(Box::new(TargetArchetype::Coordinator { capabilities })),
                max_message_size: Some(COORDINATOR_MESSAGE_BYTES_MAX),
                ..AttachAnswer::default()
            },
        );
        self.link.set_credit(place.0, COORDINATOR_CREDIT);
        Ok(())
    }

    /// Handles a message to the coordinator.
    pub(super) fn on_control(&mut self, now: Now, handle: LinkHandle, arrived: Arrived) {
        let Some(LinkKind::Controller(controller)) =
            self.links.by_handle(handle).map(|link| &mut link.kind)
        else {
            return;
        };
        uncount!(
            controller.credit,
            1,
            "a message to the coordinator comes on credit"
        );
        if controller.credit <= COORDINATOR_CREDIT / 2 {
            controller.credit = COORDINATOR_CREDIT;
            self.link.set_credit(handle, COORDINATOR_CREDIT);
        }
        let asked = Discharge {
            link: handle,
            delivery_id: arrived.delivery_id,
            settled: arrived.settled,
        };
        match Control::read(&arrived.payload.joined()) {
            Ok(Control::Declare { has_global_id }) => self.on_declare(now, asked, has_global_id),
            Ok(Control::Discharge { txn_id, fail }) => self.on_discharge(asked, &txn_id, fail),
            Err(error) => {
                let error = errors::message(&error.into());
                self.link.detach(handle, true, Some(error));
            }
        }
    }

    /// Handles a coordinator message that was aborted: it used up a credit.
    pub(super) fn on_control_aborted(&mut self, handle: LinkHandle) {
        if let Some(LinkKind::Controller(controller)) =
            self.links.by_handle(handle).map(|link| &mut link.kind)
        {
            uncount!(
                controller.credit,
                1,
                "a message to the coordinator begins on credit"
            );
            if controller.credit == 0 {
                controller.credit = COORDINATOR_CREDIT;
                self.link.set_credit(handle, COORDINATOR_CREDIT);
            }
        }
    }

    /// Begins a transaction. [AMQP 4.2]
    fn on_declare(&mut self, now: Now, asked: Discharge, has_global_id: bool) {
        if asked.settled {
            let error =
                errors::invalid_field("a declare must be sent unsettled: its id is the answer");
            return self.link.detach(asked.link, true, Some(error));
        }
        if has_global_id {
            return self.refuse_control(
                asked,
                errors::not_implemented("distributed transactions are not offered"),
            );
        }
        let id = TxnId(self.environment.next_id());
        let payer = self.payer().unwrap_or_default();
        let held = self.environment.seats.hold(payer);
        let deadline = now
            .mono
            .plus(self.environment.options.transaction_timeout_ms);
        let all = self.transactions.get_or_insert_default();
        if all.declare(id, asked.link, (held, deadline)) {
            let txn_id = id.encode();
            self.answer_control(asked, &DeliveryState::Declared { txn_id });
        } else {
            self.refuse_control(asked, errors::too_many_transactions(TRANSACTIONS_OPEN_MAX));
        }
    }

    /// Commits a transaction or rolls it back. [AMQP 4.3]
    fn on_discharge(&mut self, asked: Discharge, txn_id: &[u8], fail: bool) {
        let all = self.transactions.get_or_insert_default();
        let id = match all.find(txn_id) {
            Ok(id) => id,
            // What it asks for was done.
            Err(_) if fail && all.has_ended(txn_id) => {
                return self.answer_control(asked, &DeliveryState::Accepted);
            }
            Err(error) => return self.refuse_control(asked, error),
        };
        if fail {
            self.roll_back(id);
            return self.answer_control(asked, &DeliveryState::Accepted);
        }
        let Some(open) = all.by_id(id) else {
            return;
        };
        if let Some(error) = open.refused.take() {
            self.roll_back(id);
            return self.refuse_control(asked, error);
        }
        open.discharge = Some(asked);
        let posts = std::mem::take(&mut open.posts);
        let outcomes = open.retired.iter().map(|retired| Settle {
            consumer: retired.consumer,
            position: retired.position,
            outcome: retired.outcome.clone(),
            confirm: None,
        });
        let outcomes: Vec<_> = outcomes.collect();
        if posts.is_empty() && outcomes.is_empty() {
            self.take_discharged(id);
            return self.answer_control(asked, &DeliveryState::Accepted);
        }
        self.batch.push(Work::Command(Command::Commit(Commit {
            connection: self.id,
            token: id.0,
            posts,
            outcomes,
        })));
    }

    /// Answers a discharge with what the core did: all of the transaction, or nothing of it.
    pub(super) fn on_committed(&mut self, token: u64, refused: Option<Error>) {
        let id = TxnId(token);
        let Some(Transaction {
            discharge: Some(asked),
            retired,
            consumers,
            ..
        }) = self.take_discharged(id)
        else {
            return; // the connection has ended
        };
        match refused {
            None => {
                for retired in retired {
                    if let Hold::Unsettled {
                        link,
                        delivery_id,
                        token,
                        state,
                    } = retired.hold
                    {
                        self.sent.remove(token);
                        self.link.settle_sent(link, delivery_id, &state);
                    }
                }
                self.answer_control(asked, &DeliveryState::Accepted);
            }
            Some(error) => {
                self.requeue(retired);
                self.refuse_control(asked, error);
            }
        }
        self.forget_lingering(&consumers);
    }

    /// Answers a message of a controller, unless it was sent settled.
    fn answer_control(&mut self, asked: Discharge, state: &DeliveryState) {
        if !asked.settled {
            self.link
                .settle_received(asked.link, asked.delivery_id, state);
        }
    }

    /// Tells a controller that something failed. [AMQP 4.3]
    ///
    /// "If the source does not support the rejected outcome, the transactional resource MUST detach
    /// the link to the coordinator, with the detach performative carrying the error information."
    fn refuse_control(&mut self, asked: Discharge, error: Error) {
        let takes_rejected = match self.links.by_handle(asked.link).map(|link| &link.kind) {
            Some(LinkKind::Controller(controller)) => controller.takes_rejected,
            _ => return,
        };
        if takes_rejected && !asked.settled {
            let rejected = errors::rejected(error);
            self.link
                .settle_received(asked.link, asked.delivery_id, &rejected);
        } else {
            self.link.detach(asked.link, true, Some(error));
        }
    }
}
