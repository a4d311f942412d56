//! The sections that a delivery adds to a message: header and annotations.

use std::sync::Arc;

use super::annotations::{ACQUIRED_COUNT, DELIVERY_COUNT, EXCHANGE, ROUTING_KEY, SUSPECT};
use super::{Message, Route};
use crate::deaths::{DeathsView, Encoding, EvidenceLevel, History, Redrives};
use crate::wire::{
    HeaderFields, begin_map, begin_message_annotations, end, write_bool, write_header, write_long,
    write_string, write_symbol,
};

/// The values that one delivery of a message shows besides its own bytes.
#[derive(Clone, Copy, Debug)]
pub struct DeliveryView<'a> {
    /// Exchange and keys it was published with: `x-exchange`, `x-routing-key` (the first key).
    pub route: &'a Arc<Route>,
    /// Header `first-acquirer`. [AMQP 3.2.1]
    pub first_acquirer: bool,
    /// Header `delivery-count`. [AMQP 3.2.1]
    pub delivery_count: u32,
    /// `x-delivery-count`, shown when above 0.
    pub failures: u32,
    /// `x-acquired-count`, shown when above 0.
    pub acquired: u32,
    /// `x-opt-suspect`, shown when true.
    pub suspect: bool,
    /// The form in which the receiver gets the death history.
    pub deaths: DeathsView<'a>,
}

/// Number of sections that a delivery has in front of the bare message: always both.
pub const PREFIX_SECTIONS: u32 = 2;

impl Message {
    /// Appends the header and message-annotations sections of one delivery; [`Message::bare`] follows
    /// them on the wire. [dead-lettering parts 3, 5]
    pub fn write_prefix(&self, view: &DeliveryView<'_>, out: &mut Vec<u8>) {
        write_header(out, &self.header(view));

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
        if view.suspect {
            write_symbol(out, SUSPECT);
            write_bool(out, true);
            pairs += 1;
        }
        if let Some(history) = self.history() {
            pairs += history.write_annotations(view.deaths, out);
        }
        if let Some(redrives) = self.redrives() {
            redrives.write_annotation(out);
            pairs += 1;
        }
        end(out, map, 2 * pairs);
    }
    /// The fields of the header that are kept: durable, priority and ttl.
    pub fn stored_header(&self) -> HeaderFields {
        HeaderFields {
            durable: self.durable,
            priority: self.priority,
            ttl_ms: self.ttl_ms,
            ..HeaderFields::default()
        }
    }

    /// The annotations that clients sent, as an encoded map; none if there are none.
    pub fn annotations_map(&self) -> Option<Vec<u8>> {
        let client = self.client_annotations();
        if client.left() == 0 {
            return None;
        }
        let mut out = Vec::new();
        let map = begin_map(&mut out);
        out.extend_from_slice(client.rest());
        end(&mut out, map, client.left() as usize);
        Some(out)
    }

    fn header(&self, view: &DeliveryView<'_>) -> HeaderFields {
        HeaderFields {
            durable: self.durable,
            priority: self.priority,
            ttl_ms: self.ttl_ms,
            first_acquirer: Some(view.first_acquirer),
            delivery_count: Some(view.delivery_count),
        }
    }
}

/// The prefix of the last delivery, which is usually that of the next one too: messages of one
/// publisher, or dead letters that share a history, differ in their bare bytes only. It is for one
/// receiving user, whose tags may change.
#[derive(Debug, Default)]
pub struct Prefix {
    bytes: Vec<u8>,
    /// The values that the bytes were made from; none if they are for one message only.
    made_from: Option<MadeFrom>,
}

/// All values that a prefix depends on, except annotations of clients.
#[derive(Debug)]
struct MadeFrom {
    header: HeaderFields,
    route: Arc<Route>,
    history: Option<Arc<History>>,
    redrives: Option<Arc<Redrives>>,
    failures: u32,
    acquired: u32,
    suspect: bool,
    deaths: (Encoding, EvidenceLevel),
    is_monitor: bool,
}

impl MadeFrom {
    /// Whether the same would be written; may be false for two routes or histories that are only
    /// equal.
    fn is(&self, message: &Message, view: &DeliveryView<'_>) -> bool {
        is_same(self.history.as_ref(), message.history())
            && is_same(self.redrives.as_ref(), message.redrives())
            && Arc::ptr_eq(&self.route, view.route)
            && (self.failures, self.acquired) == (view.failures, view.acquired)
            && self.suspect == view.suspect
            && self.deaths == (view.deaths.encoding, view.deaths.evidence)
            && self.is_monitor == view.deaths.viewer.is_monitor()
            && self.header == message.header(view)
    }
}

/// Whether both are absent or the same allocation.
fn is_same<T>(one: Option<&Arc<T>>, other: Option<&Arc<T>>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        (None, None) => true,
        _ => false,
    }
}

impl Prefix {
    /// The bytes that [`Message::write_prefix`] writes for this delivery.
    pub fn of(&mut self, message: &Message, view: &DeliveryView<'_>) -> &[u8] {
        let is_plain = !message.has_client_annotations();
        if is_plain
            && self
                .made_from
                .as_ref()
                .is_some_and(|made| made.is(message, view))
        {
            return &self.bytes;
        }
        self.bytes.clear();
        message.write_prefix(view, &mut self.bytes);
        self.made_from = is_plain.then(|| MadeFrom {
            header: message.header(view),
            route: Arc::clone(view.route),
            history: message.history().cloned(),
            redrives: message.redrives().cloned(),
            failures: view.failures,
            acquired: view.acquired,
            suspect: view.suspect,
            deaths: (view.deaths.encoding, view.deaths.evidence),
            is_monitor: view.deaths.viewer.is_monitor(),
        });
        &self.bytes
    }
}
