//! Accounting of incoming deliveries: the order of ids, credit, unsettled deliveries. Shared by
//! deliveries that are read in runs and those read frame by frame. [AMQP 2.6.7, 2.6.12]

use super::error::Violation;
use super::link::Link;
use super::session::Received;
use super::unsettled::Unsettled;
use crate::base::Serial;
use crate::wire::performative::{ReceiverSettleMode, SenderSettleMode};

/// A receiving link, with the parts of its session that a delivery changes. (The window is counted
/// by the frame: [`count_incoming`](super::session::Session::count_incoming).)
#[derive(Debug)]
pub(super) struct Receiving<'a> {
    pub(super) link: &'a mut Link,
    /// The engine's handle of the link.
    pub(super) handle: u32,
    pub(super) received: &'a mut Unsettled<Received>,
    pub(super) last_received_id: &'a mut Option<Serial>,
}

impl Receiving<'_> {
    /// Counts a delivery that begins; one that is not allowed changes nothing.
    #[inline]
    pub(super) fn begin(&mut self, id: Serial) -> Result<(), Violation> {
        if self.last_received_id.is_some_and(|last| !last.before(id)) {
            return Err(Violation::DeliveryIdOrder { id: id.0 });
        }
        // The peer may have used withdrawn credit before it read the flow.
        if self.link.credit == 0 && self.link.revoked == 0 {
            return Err(Violation::TransferLimit);
        }
        *self.last_received_id = Some(id);
        self.link.count_delivery();
        Ok(())
    }

    /// Counts a complete delivery, in a settle mode that the link allows. `second`: the sender
    /// settles it, after the receiver's outcome.
    #[inline]
    pub(super) fn finish(&mut self, id: Serial, settled: bool, second: bool) {
        if !settled {
            let received = Received {
                handle: self.handle,
                second,
                decided: false,
            };
            self.received.push(id, received);
        }
    }
}

impl Link {
    /// Checks that a message of this many bytes is within the receiver's max-message-size.
    #[inline]
    pub(super) const fn check_size(&self, bytes: u64) -> Result<(), Violation> {
        let max_bytes = self.message_bytes_max;
        if max_bytes > 0 && bytes > max_bytes {
            return Err(Violation::MessageSize { max_bytes });
        }
        Ok(())
    }

    /// Checks that the link's mode allows a delivery to be settled, or not. [AMQP 2.8.2]
    #[inline]
    pub(super) const fn check_settled(&self, settled: bool) -> Result<(), Violation> {
        match (&self.snd_settle_mode, settled) {
            (SenderSettleMode::Unsettled, true) | (SenderSettleMode::Settled, false) => {
                Err(Violation::SettleMode)
            }
            _ => Ok(()),
        }
    }

    /// Whether the sender settles a delivery after the receiver (rcv-settle-mode second), which the
    /// transfer may say itself. [AMQP 2.7.5]
    ///
    /// "If the negotiated link value is first, then it is illegal to set this field to second."
    #[inline]
    pub(super) const fn is_second(
        &self,
        mode: Option<&ReceiverSettleMode>,
    ) -> Result<bool, Violation> {
        match (&self.rcv_settle_mode, mode) {
            (ReceiverSettleMode::First, Some(ReceiverSettleMode::Second)) => {
                Err(Violation::SecondOnFirst)
            }
            (ReceiverSettleMode::Second, Some(ReceiverSettleMode::First))
            | (ReceiverSettleMode::First, _) => Ok(false),
            (ReceiverSettleMode::Second, _) => Ok(true),
        }
    }
}
