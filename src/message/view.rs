//! What one delivery adds to a message.

use super::annotations::{ACQUIRED_COUNT, DELIVERY_COUNT, EXCHANGE, ROUTING_KEY};
use super::{Message, Route};
use crate::deaths::Encoding;
use crate::wire::{
    HeaderFields, begin_message_annotations, end, write_header, write_long, write_string,
    write_symbol,
};

/// What one delivery of a message shows beside its own bytes.
#[derive(Clone, Copy, Debug)]
pub struct DeliveryView<'a> {
    /// Exchange and keys it came by: `x-exchange`, `x-routing-key` (the first key).
    pub route: &'a Route,
    /// Header first-acquirer.
    pub first_acquirer: bool,
    /// Header delivery-count.
    pub delivery_count: u32,
    /// `x-delivery-count`, shown when above 0.
    pub failures: u32,
    /// `x-acquired-count`, shown when above 0.
    pub acquired: u32,
    /// How the receiver wants `x-opt-deaths`.
    pub encoding: Encoding,
}

impl Message {
    /// Appends the header and message-annotations sections of one delivery; [`Message::bare`] follows
    /// them on the wire. [dead-lettering parts 3, 5]
    pub fn write_prefix(&self, view: &DeliveryView<'_>, out: &mut Vec<u8>) {
        let header = HeaderFields {
            durable: self.durable,
            priority: self.priority,
            ttl_ms: self.ttl_ms,
            first_acquirer: Some(view.first_acquirer),
            delivery_count: Some(view.delivery_count),
        };
        write_header(out, &header);

        let map = begin_message_annotations(out);
        let client = self.client_annotations();
        out.extend_from_slice(client.rest());
        let mut pairs = client.left() as usize / 2 + 2;
        write_symbol(out, EXCHANGE);
        write_string(out, &view.route.exchange);
        write_symbol(out, ROUTING_KEY);
        write_string(out, view.route.first_key());
        for (name, count) in [
            (DELIVERY_COUNT, view.failures),
            (ACQUIRED_COUNT, view.acquired),
        ] {
            if count > 0 {
                write_symbol(out, name);
                write_long(out, count.into());
                pairs += 1;
            }
        }
        if let Some(history) = self.history() {
            history.write_annotations(view.encoding, out);
            pairs += history.annotation_count(view.encoding);
        }
        end(out, map, 2 * pairs);
    }
}
