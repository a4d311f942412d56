//! Disposition. [AMQP 2.7.6]

use super::{DeliveryState, Role, codes, fields};
use crate::base::Serial;
use crate::wire::{self, DecodeError, Fields};

/// The new state of a range of deliveries. [AMQP 2.7.6]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Disposition {
    /// The end that sends it: the receiver or the sender of the deliveries.
    pub role: Role,
    /// Delivery-id of the first delivery.
    pub first: Serial,
    /// Delivery-id of the last one, `first` if it is not given. The range is the peer's: never to
    /// be iterated.
    pub last: Serial,
    /// Whether the deliveries are settled.
    pub settled: bool,
    /// The new state; none: unchanged.
    pub state: Option<DeliveryState>,
}

impl Disposition {
    pub(super) fn read(mut list: Fields<'_>) -> Result<Self, DecodeError> {
        let role = fields::role(list.bool()?, "role of disposition")?;
        let first = Serial(fields::required(list.uint()?, "first of disposition")?);
        let last = list.uint()?.map_or(first, Serial);
        let settled = list.bool()?.unwrap_or(false);
        let state = list.described()?.map(DeliveryState::read).transpose()?;
        Ok(Self {
            role,
            first,
            last,
            settled,
            state,
        })
    }

    /// Appends its encoding.
    pub fn write(&self, out: &mut Vec<u8>) {
        wire::write_descriptor(out, codes::DISPOSITION);
        let compound = wire::begin_list(out);
        wire::write_bool(out, self.role == Role::Receiver);
        wire::write_uint(out, self.first.0);
        if self.last == self.first {
            wire::write_null(out);
        } else {
            wire::write_uint(out, self.last.0);
        }
        wire::write_bool(out, self.settled);
        let count = if let Some(state) = &self.state {
            state.write(out);
            5
        } else {
            4
        };
        wire::end(out, compound, count);
    }
}
