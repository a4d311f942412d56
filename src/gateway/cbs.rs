//! The node `$cbs`: links on which clients of claims-based security give their connection another token.

use super::Gateway;
use super::attach::LinkIds;
use super::errors;
use super::links::{LinkId, LinkKind, PairHalf};
use super::management::REQUEST_CREDIT;
use crate::base::limits::MANAGEMENT_REQUEST_BYTES_MAX;
use crate::base::uncount;
use crate::link::{Arrived, LinkHandle};
use crate::management::PutToken;
use crate::wire::performative::{Attach, AttachAnswer, DeliveryState, Error, TargetArchetype};

/// Address of the node, where tokens are taken.
const CBS: &str = "$cbs";

/// Status codes of answers.
const ACCEPTED: i32 = 202;
const BAD_REQUEST: i32 = 400;
const UNAUTHORIZED: i32 = 401;

impl Gateway {
    /// Whether an address is that of the node: only where tokens are taken.
    pub(super) fn is_cbs(&self, address: &str) -> bool {
        address == CBS && self.environment.options.mechanisms.takes_tokens
    }

    /// Attaches a link that tokens come on.
    pub(super) fn attach_put_token(
        &mut self,
        place: LinkIds,
        attach: &Attach,
    ) -> Result<(), Error> {
        let half = PairHalf {
            address: None,
            credit: REQUEST_CREDIT,
            pending: 0,
        };
        self.add_link(place, attach, LinkKind::PutToken(half))?;
        let answer = AttachAnswer {
            max_message_size: Some(MANAGEMENT_REQUEST_BYTES_MAX),
            ..AttachAnswer::default()
        };
        self.link.accept_attach(place.0, answer);
        self.link.set_credit(place.0, REQUEST_CREDIT);
        Ok(())
    }

    /// Attaches a link that is told what became of tokens.
    pub(super) fn attach_token_status(
        &mut self,
        place: LinkIds,
        attach: &Attach,
    ) -> Result<(), Error> {
        let address = match attach.target.as_deref() {
            Some(TargetArchetype::Target(target)) => target.address.clone(),
            _ => None,
        };
        let half = PairHalf {
            address,
            credit: 0,
            pending: 0,
        };
        self.add_link(place, attach, LinkKind::TokenStatus(half))?;
        self.link.accept_attach(place.0, AttachAnswer::default());
        Ok(())
    }

    /// Handles a message to the node.
    pub(super) fn on_put_token(&mut self, handle: LinkHandle, arrived: Arrived) {
        let Some(LinkKind::PutToken(half)) =
            self.links.by_handle(handle).map(|link| &mut link.kind)
        else {
            return;
        };
        uncount!(half.credit, 1, "a token comes on credit");
        if self.may_ask(0) {
            self.give_request_credit(handle);
        } else {
            self.starved.push(handle);
        }
        let mut request = match PutToken::read(&arrived.payload.joined()) {
            Ok(request) => request,
            Err(error) => {
                let error = errors::request(&error);
                return self.link.detach(handle, true, Some(error));
            }
        };
        let Some(to) = self.status_link(request.reply_to.as_deref()) else {
            let error = errors::precondition(
                "there is no link from $cbs with credit, on which the answer could be sent",
            );
            return self.link.detach(handle, true, Some(error));
        };
        if !arrived.settled {
            let accepted = DeliveryState::Accepted;
            self.link
                .settle_received(handle, arrived.delivery_id, &accepted);
        }
        match request.take_token() {
            Ok(text) => self.begin_put_token(to, request, text),
            Err(why) => self.answer_put_token(to, &request, BAD_REQUEST, &why),
        }
    }

    /// The link for an answer: that of the address, or any; one with credit.
    fn status_link(&mut self, reply_to: Option<&str>) -> Option<LinkId> {
        let engine = &self.link;
        let mut found: Option<(LinkId, bool)> = None;
        for link in self.links.iter_mut() {
            if let LinkKind::TokenStatus(half) = &link.kind
                && engine.credit(link.handle) > half.pending
            {
                let is_named = reply_to.is_some() && half.address.as_deref() == reply_to;
                if found.is_none() || is_named {
                    found = Some((link.id, is_named));
                }
                if is_named {
                    break;
                }
            }
        }
        let (id, _) = found?;
        if let Some(LinkKind::TokenStatus(half)) = self.links.by_id(id).map(|link| &mut link.kind) {
            half.pending += 1;
        }
        Some(id)
    }

    /// Tells what became of a token.
    pub(super) fn end_put_token(
        &mut self,
        to: LinkId,
        request: &PutToken,
        renewed: Result<(), String>,
    ) {
        self.audit_put_token(renewed.as_ref().err().map(String::as_str));
        match renewed {
            Ok(()) => self.answer_put_token(to, request, ACCEPTED, "Accepted"),
            Err(why) => self.answer_put_token(to, request, UNAUTHORIZED, &why),
        }
    }

    fn answer_put_token(&mut self, to: LinkId, request: &PutToken, status: i32, why: &str) {
        self.send_response(to, &request.answer(status, why));
    }
}
