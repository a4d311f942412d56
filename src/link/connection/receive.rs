//! Incoming transfers, frame by frame. [AMQP 2.6.12, 2.6.14, 2.7.5]

use std::collections::VecDeque;

use bytes::Bytes;

use super::{Connection, LinkContext};
use crate::base::limits::DELIVERY_TAG_BYTES_MAX;
use crate::base::{invariant, uncount};
use crate::link::error::{Scope, Violation};
use crate::link::link::{Link, LinkState, Partial};
use crate::link::session::Session;
use crate::link::{Arrived, Event, LinkHandle, Posted, Resumed, Tagged};
use crate::wire::performative::{Role, Transfer};

impl Connection {
    pub(super) fn handle_transfer(
        &mut self,
        channel_in: u16,
        transfer: &Transfer,
        payload: Bytes,
    ) -> Result<(), Violation> {
        let taken = self.take_transfer(channel_in, transfer, payload);
        if let (Ok(false) | Err(_), Some(txn_id)) = (&taken, &transfer.txn_id) {
            let txn_id = txn_id.clone();
            self.events.push_back(Event::WorkLost { txn_id });
        }
        taken.map(drop)
    }

    /// Whether a transfer is taken, and not ignored since its link or session ends.
    fn take_transfer(
        &mut self,
        channel_in: u16,
        transfer: &Transfer,
        payload: Bytes,
    ) -> Result<bool, Violation> {
        self.counters.transfers_in += 1;
        let Some(session) = self.session_in(channel_in)? else {
            return Ok(false);
        };
        session.count_incoming(1)?;
        let channel = session.channel;
        let handle = receiving(session, transfer.handle)?;
        self.mark_channel(channel);
        let Some(link) = handle else {
            return Ok(false);
        };
        match self.receive(link, transfer, payload) {
            Err(violation) if violation.scope() == Scope::Link => {
                self.fail_link(link.channel, link.handle, &violation);
                Ok(false)
            }
            result => result.map(|()| true),
        }
    }

    /// Handles a transfer on an attached link.
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
            None => begin_delivery((session, events), handle, transfer, &payload)?,
        };
        let payload = partial.new_bytes(payload);
        let Some(link) = session.link_mut(handle.handle) else {
            invariant!(broken, "a link on which a delivery arrives is there");
            return Ok(());
        };
        uncount!(*partial_bytes, partial.cost(), "what had begun was counted");
        if transfer.aborted || (partial.resumed && !transfer.more) {
            let event = if partial.resumed && link.is_resumable {
                resumed(session, handle, &partial, transfer)
            } else {
                Event::Aborted { link: handle }
            };
            events.push_back(event);
            return Ok(());
        }
        let checked = check_fragment(link, &mut partial, transfer, payload.len());
        if let Err(violation) = checked {
            *partial_bytes += partial.cost();
            link.partial = Some(partial);
            return Err(violation);
        }
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
        let (delivery_id, settled) = (partial.delivery_id, partial.settled);
        let is_tagged =
            link.is_resumable && (!settled || partial.is_continued) || link.tags.tells(settled);
        if let Some(mut receiving) = session.receiving(handle.handle) {
            receiving.finish(delivery_id, settled, partial.second);
        }
        events.push_back(if is_tagged && partial.txn_id.is_none() {
            tagged(handle, partial, payload)
        } else {
            whole(handle, partial, payload)
        });
        Ok(())
    }
}

/// What is told of a delivery that the peer resumes, or aborts while it does. An aborted one is settled.
/// [AMQP 2.6.13, 2.7.5]
fn resumed(session: &mut Session, link: LinkHandle, partial: &Partial, last: &Transfer) -> Event {
    let delivery_id = partial.delivery_id;
    let settled = partial.settled || last.settled == Some(true) || last.aborted;
    if let Some(mut receiving) = session.receiving(link.handle) {
        receiving.finish(delivery_id, settled, partial.second);
    }
    Event::Resumed(Box::new(Resumed {
        link,
        delivery_id,
        tag: partial.tag,
        is_second: partial.second,
        settled,
        is_in_part: partial.is_in_part,
    }))
}

/// What is told of a delivery with its tag.
fn tagged(link: LinkHandle, partial: Partial, last: Bytes) -> Event {
    let (tag, is_second) = (partial.tag, partial.second);
    let (delivery_id, settled) = (partial.delivery_id, partial.settled);
    let payload = partial.finish(last);
    let arrived = Arrived {
        delivery_id,
        settled,
        payload,
    };
    Event::Tagged(Box::new(Tagged {
        link,
        tag,
        is_second,
        arrived,
    }))
}

/// What is told of a delivery that is complete with its last fragment.
fn whole(link: LinkHandle, mut partial: Partial, last: Bytes) -> Event {
    let txn_id = partial.txn_id.take();
    let (delivery_id, settled) = (partial.delivery_id, partial.settled);
    let (message_format, tag) = (partial.message_format, partial.tag);
    let payload = partial.finish(last);
    let Some(txn_id) = txn_id else {
        return Event::Delivery {
            link,
            delivery_id,
            settled,
            message_format,
            payload,
        };
    };
    let arrived = Arrived {
        delivery_id,
        settled,
        payload,
    };
    Event::Posted(Box::new(Posted {
        link,
        txn_id,
        tag,
        arrived,
    }))
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
    if let Some(txn_id) = &transfer.txn_id
        && *partial.txn_id.get_or_insert_with(|| txn_id.clone()) != *txn_id
    {
        return Err(Violation::TransactionChanged);
    }
    if partial.is_continued && partial.txn_id.is_some() {
        return Err(Violation::TransactionChanged);
    }
    if !transfer.more {
        link.check_settled(partial.settled)?;
        partial.check_complete()?;
    }
    link.check_size(partial.bytes + payload_bytes as u64)
}

/// The link of a transfer, unless it is detaching, when its frames are ignored.
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
    (session, events): (&mut Session, &mut VecDeque<Event>),
    handle: LinkHandle,
    transfer: &Transfer,
    payload: &[u8],
) -> Result<Partial, Violation> {
    let delivery_id = transfer.delivery_id.ok_or(Violation::DeliveryIdMissing)?;
    let Some(mut receiving) = session.receiving(handle.handle) else {
        return Err(Violation::TransferLimit);
    };
    if let Err(violation) = receiving.begin(delivery_id) {
        // Only the link may fail: the id is used all the same.
        *receiving.last_received_id = Some(delivery_id);
        return Err(violation);
    }
    if transfer.tag_bytes.is_none() {
        return Err(Violation::DeliveryTagMissing);
    }
    if receiving.link.only_resumes && !transfer.resume {
        return Err(Violation::OnlyResumes);
    }
    let second = receiving
        .link
        .is_second(transfer.rcv_settle_mode.as_ref())?;
    let mut partial = Partial::new(transfer, delivery_id, second);
    let expected = receiving.link.expected.as_deref();
    if expected.is_none_or(|expected| expected.tag != transfer.tag) {
        return Ok(partial);
    }
    let resumed = receiving.link.resumes(transfer, payload)?;
    receiving.link.expected = None;
    events.push_back(Event::Continued {
        link: handle,
        is_resumed: resumed.is_some(),
    });
    if let Some((bytes, again)) = resumed {
        return Ok(partial.continued(bytes, again));
    }
    partial.is_in_part = transfer.resume;
    Ok(partial)
}

/// Checks the incomplete deliveries of the connection against its budget: one message of the
/// largest size always fits, however small that is.
fn check_budget(partial_bytes: u64, budget: u64, message_bytes: u64) -> Result<(), Violation> {
    let max_bytes = budget.max(message_bytes / 8 * 9);
    if partial_bytes > max_bytes {
        return Err(Violation::PartialBytes { max_bytes });
    }
    Ok(())
}
