//! Flow. [AMQP 2.7.4]

use super::{codes, fields};
use crate::base::Serial;
use crate::wire::{self, DecodeError, Fields, Reader};

/// The property of a flow that names a transaction.
const TXN_ID: &str = "txn-id";

/// The state of a session and perhaps of one of its links. [AMQP 2.7.4]
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Flow {
    /// The next transfer-id that the sender of the flow expects; absent before it has received a
    /// begin.
    pub next_incoming_id: Option<Serial>,
    /// Number of transfer frames that it accepts.
    pub incoming_window: u32,
    /// The transfer-id of its next transfer frame.
    pub next_outgoing_id: Serial,
    /// Number of transfer frames that it could send.
    pub outgoing_window: u32,
    /// The state of one link; none: the flow is about the session only.
    pub link: Option<LinkFlow>,
    /// Whether an answer is asked for.
    pub echo: bool,
}

/// The state of a link. [AMQP 2.6.7]
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LinkFlow {
    /// The handle of the flow's sender for the link.
    pub handle: u32,
    /// The delivery-count; absent from a receiver that has not seen the attach of the sender.
    pub delivery_count: Option<Serial>,
    /// Number of deliveries that may follow.
    pub link_credit: Option<u32>,
    /// Number of deliveries that the sender has ready.
    pub available: Option<u32>,
    /// Whether credit that cannot be used at once is to be used up.
    pub drain: bool,
    /// Whether its properties ask for deliveries that belong to a transaction. [AMQP 4.4.3]
    pub acquires: bool,
}

impl Flow {
    pub(super) fn read(mut list: Fields<'_>) -> Result<Self, DecodeError> {
        let next_incoming_id = list.uint()?.map(Serial);
        let incoming_window = fields::required(list.uint()?, "incoming-window of flow")?;
        let next_outgoing_id = fields::required(list.uint()?, "next-outgoing-id of flow")?;
        let outgoing_window = fields::required(list.uint()?, "outgoing-window of flow")?;
        let handle = list.uint()?;
        let delivery_count = list.uint()?.map(Serial);
        let link_credit = list.uint()?;
        let available = list.uint()?;
        let drain = list.bool()?.unwrap_or(false);
        let echo = list.bool()?.unwrap_or(false);
        let acquires = match list.raw()? {
            Some(properties) => names_transaction(properties)?,
            None => false,
        };
        let link = handle.map(|handle| LinkFlow {
            handle,
            delivery_count,
            link_credit,
            available,
            drain,
            acquires,
        });
        let next_outgoing_id = Serial(next_outgoing_id);
        Ok(Self {
            next_incoming_id,
            incoming_window,
            next_outgoing_id,
            outgoing_window,
            link,
            echo,
        })
    }

    /// Appends its encoding.
    pub fn write(&self, out: &mut Vec<u8>) {
        wire::write_descriptor(out, codes::FLOW);
        let compound = wire::begin_list(out);
        write_optional(out, self.next_incoming_id.map(|id| id.0));
        wire::write_uint(out, self.incoming_window);
        wire::write_uint(out, self.next_outgoing_id.0);
        wire::write_uint(out, self.outgoing_window);
        let link = self.link.clone().unwrap_or_default();
        write_optional(out, self.link.is_some().then_some(link.handle));
        write_optional(out, link.delivery_count.map(|count| count.0));
        write_optional(out, link.link_credit);
        write_optional(out, link.available);
        let flag = |out: &mut Vec<u8>, set: bool| {
            if set {
                wire::write_bool(out, true);
            } else {
                wire::write_null(out);
            }
        };
        flag(out, link.drain);
        flag(out, self.echo);
        if !link.acquires {
            return wire::end(out, compound, 10);
        }
        let properties = wire::begin_map(out);
        wire::write_symbol(out, TXN_ID);
        wire::write_binary(out, &[0]);
        wire::end(out, properties, 2);
        wire::end(out, compound, 11);
    }
}

/// Whether the properties of a flow have the key that stands for transactional acquisition.
fn names_transaction(properties: &[u8]) -> Result<bool, DecodeError> {
    let Ok(pairs) = Reader::new(properties).map() else {
        return Ok(false);
    };
    for pair in pairs {
        if Reader::new(pair?.key).symbol() == Ok(TXN_ID) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn write_optional(out: &mut Vec<u8>, value: Option<u32>) {
    match value {
        Some(value) => wire::write_uint(out, value),
        None => wire::write_null(out),
    }
}
