//! What one delivery adds to a message.

use super::Route;
use crate::deaths::Encoding;

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
