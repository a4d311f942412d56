//! Entry point for fuzzing: checks invariants that hold for any bytes, and panics when one does
//! not.

use std::sync::Arc;

use bytes::Bytes;

use super::{DeliveryView, KeyRule, Message, Route};
use crate::base::Name;
use crate::deaths::DeathsView;

/// Checks that a message keeps its bare bytes exactly, through delivery and storage, and that what
/// it delivers is a message.
pub fn fuzz_message(data: &[u8]) {
    let Ok(message) = Message::from_transfer(Bytes::copy_from_slice(data), KeyRule::Specification)
    else {
        return;
    };
    assert!(
        data.ends_with(message.bare()),
        "the bare message is the end of what was received"
    );
    let _ = (
        message.to(),
        message.user_id(),
        message.absolute_expiry_time(),
        message.directions().cc(),
        message.directions().delivery_time(),
    );

    let mut stored = Vec::new();
    message.encode(&mut stored);
    let read = Message::decode(&Bytes::from(stored.clone()));
    let read = read.map(|message| {
        let mut again = Vec::new();
        message.encode(&mut again);
        again
    });
    assert!(read == Ok(stored), "a message survives being stored");

    let route = Arc::new(Route {
        exchange: Name::default(),
        keys: Arc::from([Name::from("key")]),
    });
    let view = DeliveryView {
        route: &route,
        first_acquirer: true,
        delivery_count: 0,
        failures: 0,
        acquired: 0,
        suspect: true,
        deaths: DeathsView::default(),
    };
    let mut delivered = Vec::new();
    message.write_prefix(&view, &mut delivered);
    delivered.extend_from_slice(message.bare());
    let received = Message::from_transfer(delivered.into(), KeyRule::Specification);
    assert!(
        received.is_ok_and(|received| received.bare() == message.bare()),
        "what is delivered is a message with the same bare bytes"
    );
}
