//! Management pairs: two links of one name, for requests and for answers.

use super::Gateway;
use super::attach::LinkIds;
use super::connection::AwaitedAnswer;
use super::errors;
use super::links::{Link, LinkId, LinkKind, PairHalf, SentDeliveries};
use crate::base::limits::MANAGEMENT_REQUEST_BYTES_MAX;
use crate::base::uncount;
#[cfg(test)]
use crate::base::{
    Lsn,
    plant::{Plant, is_planted},
};
use crate::link::{LinkHandle, Sending};
use crate::management::{Outcome, Prepared, RequestError};
use crate::wire::performative::{
    Attach, AttachAnswer, Error, Fields, SenderSettleMode, TargetArchetype, Value, fields,
};

/// Link property that both halves of a pair must have.
const PAIRED: &str = "paired";
/// Credit for requests of one pair, and so the number of unanswered ones (as RabbitMQ).
pub(super) const REQUEST_CREDIT: u32 = 8;

/// Whether an attach asks for one half of a pair: `paired` is true. The answering half gets answers settled,
/// whatever it asks for.
pub(super) fn is_pair_half(attach: &Attach) -> bool {
    let paired = attach.properties.as_ref().and_then(|map| map.get(PAIRED));
    matches!(paired, Some(Value::Bool(true)))
}

/// Whether an attach asks for the requesting half of a pair, which must send settled.
pub(super) fn is_request_half(attach: &Attach) -> bool {
    is_pair_half(attach) && attach.snd_settle_mode == SenderSettleMode::Settled
}

fn pair_properties() -> Fields {
    fields([(PAIRED, Value::Bool(true))])
}

impl Gateway {
    /// Attaches the half that requests arrive on.
    pub(super) fn attach_request(&mut self, place: LinkIds, attach: &Attach) -> Result<(), Error> {
        let address = attach
            .source
            .as_ref()
            .and_then(|source| source.address.clone());
        let half = PairHalf {
            address,
            credit: REQUEST_CREDIT,
            pending: 0,
        };
        self.add_link(place, attach, LinkKind::Request(half))?;
        self.link.accept_attach(
            place.0,
            AttachAnswer {
                max_message_size: Some(MANAGEMENT_REQUEST_BYTES_MAX),
                properties: Some(pair_properties()),
                ..AttachAnswer::default()
            },
        );
        self.link.set_credit(place.0, REQUEST_CREDIT);
        Ok(())
    }

    /// Attaches the half that answers are sent on.
    pub(super) fn attach_response(&mut self, place: LinkIds, attach: &Attach) -> Result<(), Error> {
        let address = match attach.target.as_deref() {
            Some(TargetArchetype::Target(target)) => target.address.clone(),
            _ => None,
        };
        let half = PairHalf {
            address,
            credit: 0,
            pending: 0,
        };
        self.add_link(place, attach, LinkKind::Response(half))?;
        let answer = AttachAnswer {
            sends_settled: true,
            properties: Some(pair_properties()),
            ..AttachAnswer::default()
        };
        self.link.accept_attach(place.0, answer);
        Ok(())
    }

    /// Handles a request.
    pub(super) fn on_request(&mut self, handle: LinkHandle, settled: bool, payload: &[u8]) {
        let Some(link) = self.links.by_handle(handle) else {
            return;
        };
        let request = link.id;
        let (name, session) = (link.name.clone(), link.session);
        let LinkKind::Request(half) = &mut link.kind else {
            return;
        };
        let address = half.address.clone();
        uncount!(half.credit, 1, "a request comes on credit");
        if self.may_ask(0) {
            self.give_request_credit(handle);
        } else {
            self.starved.push(handle);
        }
        if !settled {
            let error = errors::invalid_field("a management request must be sent settled");
            self.link.detach(handle, true, Some(error));
            return;
        }
        let engine = &self.link;
        let other = self.links.iter_mut().find_map(|link| match &mut link.kind {
            LinkKind::Response(half)
                if link.session == session && link.name == name && half.address == address =>
            {
                let credit = engine.credit(link.handle) > half.pending;
                half.pending += u32::from(credit);
                Some((link.id, credit))
            }
            _ => None,
        });
        match other {
            Some((response, true)) => match Prepared::read(payload) {
                Ok(prepared) => self.begin_request(response, prepared),
                Err(error) => self.refuse_request(request, response, &error),
            },
            Some((_, false)) => {
                let error = errors::precondition("the answering link of the pair has no credit");
                self.link.detach(handle, true, Some(error));
            }
            None => {
                let error = errors::precondition(
                    "there is no answering link of the same name and address in this session",
                );
                self.link.detach(handle, true, Some(error));
            }
        }
    }

    /// Gives the peer more credit for requests once half of it is used.
    pub(super) fn give_request_credit(&mut self, handle: LinkHandle) {
        if let Some(Link {
            kind: LinkKind::Request(half) | LinkKind::PutToken(half),
            ..
        }) = self.links.by_handle(handle)
            && half.credit <= REQUEST_CREDIT / 2
        {
            half.credit = REQUEST_CREDIT;
            self.link.set_credit(handle, REQUEST_CREDIT);
        }
    }

    /// Handles the result of a request.
    pub(super) fn on_managed(&mut self, response: LinkId, outcome: Outcome) {
        self.audit_request(&outcome);
        let answer = outcome.answer();
        let lsn = answer.lsn;
        #[cfg(test)]
        let lsn = if is_planted(Plant::AnsweredBeforeDurable) {
            Lsn(0)
        } else {
            lsn
        };
        if lsn <= self.durable {
            self.send_response(response, &answer.message);
        } else {
            self.answers_bytes += answer.message.len() as u64;
            self.waiting
                .push_back((lsn, AwaitedAnswer::Response(response, answer.message)));
        }
    }

    /// Refuses a request that is not a message: there is nothing to answer to.
    fn refuse_request(&mut self, request: LinkId, response: LinkId, error: &RequestError) {
        if let Some(Link {
            kind: LinkKind::Response(half),
            ..
        }) = self.links.by_id(response)
        {
            uncount!(half.pending, 1, "a request that is refused was counted");
        }
        if let Some(link) = self.links.by_id(request) {
            self.link
                .detach(link.handle, true, Some(errors::request(error)));
        }
    }

    /// Sends an answer on the response half of a pair.
    pub(super) fn send_response(&mut self, response: LinkId, message: &[u8]) {
        let Some(link) = self.links.by_id(response) else {
            return;
        };
        let (LinkKind::Response(half) | LinkKind::TokenStatus(half)) = &mut link.kind else {
            return;
        };
        uncount!(half.pending, 1, "a request that is answered was counted");
        let sending = Sending {
            token: SentDeliveries::SETTLED,
            settled: true,
            message_format: 0,
            prefix: &[],
            bare: message,
            tag: None,
        };
        let handle = link.handle;
        let sent = self
            .link
            .send(handle, sending, || bytes::Bytes::copy_from_slice(message));
        if let Err(unsendable) = sent {
            let error = errors::precondition(unsendable);
            self.link.detach(handle, true, Some(error));
        }
    }
}
