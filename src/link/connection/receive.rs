//! Transfers in. [AMQP 2.6.12, 2.6.14, 2.7.5]

use bytes::Bytes;

use super::{Connection, LinkContext};
use crate::base::Serial;
use crate::base::limits::DELIVERY_TAG_BYTES_MAX;
use crate::link::error::{Scope, Violation};
use crate::link::link::{Link, LinkState, Partial};
use crate::link::session::{Received, Session};
use crate::link::{Event, LinkHandle};
use crate::wire::performative::{ReceiverSettleMode, Role, SenderSettleMode, Transfer};

impl Connection {
    pub(super) fn handle_transfer(
        &mut self,
        channel_in: u16,
        transfer: &Transfer,
        payload: Bytes,
    ) -> Result<(), Violation> {
        self.counters.transfers_in += 1;
        let Some(session) = self.session_in(channel_in)? else {
            return Ok(());
        };
        session.count_incoming()?;
        let channel = session.channel;
        let handle = receiving(session, transfer.handle)?;
        self.mark_channel(channel);
        let Some(link) = handle else {
            return Ok(());
        };
        match self.receive(link, transfer, payload) {
            Err(violation) if violation.scope() == Scope::Link => {
                self.fail_link(link.channel, link.handle, &violation);
                Ok(())
            }
            result => result,
        }
    }

    /// A transfer on a link that is attached.
    fn receive(
        &mut self,
        handle: LinkHandle,
        transfer: &Transfer,
        payload: Bytes,
    ) -> Result<(), Violation> {
        let budget = self.options.partial_bytes_max;
        let part_bytes = self.options.part_bytes;
        let Some(LinkContext {
            session,
            events,
            partial_bytes,
            part_due,
            ..
        }) = self.find(handle)
        else {
            return Ok(());
        };
        let begun = session
            .link_mut(handle.handle)
            .and_then(|link| link.partial.take());
        let mut partial = match begun {
            Some(partial) => partial,
            None => begin_delivery(session, handle.handle, transfer)?,
        };
        let Some(link) = session.link_mut(handle.handle) else {
            return Ok(());
        };
        *partial_bytes = partial_bytes.saturating_sub(partial.cost());
        if transfer.aborted || (partial.resumed && !transfer.more) {
            events.push_back(Event::Aborted { link: handle });
            return Ok(());
        }
        check_fragment(link, &mut partial, transfer, payload.len())?;
        if transfer.more {
            partial.push(payload);
            *partial_bytes += partial.cost();
            if part_bytes > 0 && partial.is_part(part_bytes) {
                *part_due = true;
                events.push_back(Event::Partial { link: handle });
            }
            link.partial = Some(partial);
            return check_budget(*partial_bytes, budget, link.message_bytes_max);
        }
        check_settled(&link.snd_settle_mode, partial.settled)?;
        let (delivery_id, settled) = (partial.delivery_id, partial.settled);
        let message_format = partial.message_format;
        if !settled {
            link.unsettled += 1;
            let received = Received {
                handle: handle.handle,
                second: partial.second,
                decided: false,
            };
            session.received.push(delivery_id, received);
        }
        let payload = partial.finish(payload);
        let link = handle;
        events.push_back(Event::Delivery {
            link,
            delivery_id,
            settled,
            message_format,
            payload,
        });
        Ok(())
    }
}

/// Checks that a transfer continues its delivery and that the message does not become too large.
fn check_fragment(
    link: &Link,
    partial: &mut Partial,
    transfer: &Transfer,
    payload_bytes: usize,
) -> Result<(), Violation> {
    if let Some(id) = transfer.delivery_id.filter(|id| *id != partial.delivery_id) {
        let current = partial.delivery_id.0;
        return Err(Violation::DeliveryIdChanged { id: id.0, current });
    }
    if let Some(bytes) = transfer
        .tag_bytes
        .filter(|bytes| *bytes > DELIVERY_TAG_BYTES_MAX)
    {
        return Err(Violation::DeliveryTag { bytes });
    }
    partial.settled |= transfer.settled.unwrap_or(false);
    let max_bytes = link.message_bytes_max;
    if max_bytes > 0 && partial.bytes + payload_bytes as u64 > max_bytes {
        return Err(Violation::MessageSize { max_bytes });
    }
    Ok(())
}

/// The link of a transfer, unless it is detaching, when all is ignored.
fn receiving(session: &Session, handle_in: u32) -> Result<Option<LinkHandle>, Violation> {
    let handle = session.handle_for(handle_in);
    let handle = handle.ok_or(Violation::UnattachedHandle { handle: handle_in })?;
    let Some(link) = session.link(handle) else {
        return Ok(None);
    };
    if link.state == LinkState::Detaching {
        return Ok(None);
    }
    if link.role == Role::Sender {
        return Err(Violation::TransferByReceiver { handle: handle_in });
    }
    Ok(Some(session.link_handle(handle, link)))
}

/// Checks the first transfer of a delivery and counts the delivery.
fn begin_delivery(
    session: &mut Session,
    handle: u32,
    transfer: &Transfer,
) -> Result<Partial, Violation> {
    let delivery_id = transfer.delivery_id.ok_or(Violation::DeliveryIdMissing)?;
    let last = session.last_received_id.replace(delivery_id);
    if last.is_some_and(|last: Serial| !last.before(delivery_id)) {
        return Err(Violation::DeliveryIdOrder { id: delivery_id.0 });
    }
    let link = session.link_mut(handle);
    let link = link.filter(|link| link.credit > 0 || link.revoked > 0);
    let link = link.ok_or(Violation::TransferLimit)?;
    if transfer.tag_bytes.is_none() {
        return Err(Violation::DeliveryTagMissing);
    }
    let second = second(link, transfer)?;
    link.count_delivery();
    Ok(Partial::new(transfer, delivery_id, second))
}

/// Checks what has begun on the connection against its budget: one message of the largest size always
/// fits, however small that is.
fn check_budget(partial_bytes: u64, budget: u64, message_bytes: u64) -> Result<(), Violation> {
    let max_bytes = budget.max(message_bytes / 8 * 9);
    if partial_bytes > max_bytes {
        return Err(Violation::PartialBytes { max_bytes });
    }
    Ok(())
}

/// Whether the sender settles this delivery after us. [AMQP 2.7.5]
///
/// "If the negotiated link value is first, then it is illegal to set this field to second."
fn second(link: &Link, transfer: &Transfer) -> Result<bool, Violation> {
    match (&link.rcv_settle_mode, &transfer.rcv_settle_mode) {
        (ReceiverSettleMode::First, Some(ReceiverSettleMode::Second)) => {
            Err(Violation::SecondOnFirst)
        }
        (ReceiverSettleMode::Second, Some(ReceiverSettleMode::First))
        | (ReceiverSettleMode::First, _) => Ok(false),
        (ReceiverSettleMode::Second, _) => Ok(true),
    }
}

/// Whether the link's mode allows a delivery to be settled, or not. [AMQP 2.8.2]
fn check_settled(mode: &SenderSettleMode, settled: bool) -> Result<(), Violation> {
    match (mode, settled) {
        (SenderSettleMode::Unsettled, true) | (SenderSettleMode::Settled, false) => {
            Err(Violation::SettleMode)
        }
        _ => Ok(()),
    }
}
