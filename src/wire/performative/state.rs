//! Delivery states. [AMQP 3.4]

use bytes::Bytes;

use super::Error;

/// The state of a delivery at one end. [AMQP 2.7.6, 3.4]
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum DeliveryState {
    /// Part of it arrived; not an outcome. [AMQP 3.4.1]
    Received {
        /// Section of the first byte that did not arrive.
        section_number: u32,
        /// Its place in the section.
        section_offset: u64,
    },
    /// Taken. [AMQP 3.4.2]
    Accepted,
    /// Invalid. [AMQP 3.4.3]
    Rejected {
        /// Why.
        error: Option<Box<Error>>,
    },
    /// Given back as if never sent. [AMQP 3.4.4]
    Released,
    /// Given back changed. [AMQP 3.4.5]
    Modified {
        /// It counts as a failed delivery; default false.
        delivery_failed: bool,
        /// Not to this link again; default false.
        undeliverable_here: bool,
        /// The encoded map of annotations to merge, as received, structure and keys checked.
        message_annotations: Option<Bytes>,
    },
    /// A transaction was declared. [AMQP 4.5.5]
    Declared {
        /// Its id.
        txn_id: Bytes,
    },
    /// A state within a transaction. [AMQP 4.5.8]
    Transactional {
        /// Of which.
        txn_id: Bytes,
        /// The provisional outcome, encoded.
        outcome: Option<Bytes>,
    },
    /// A described value we do not know, encoded.
    Unknown(Bytes),
}

impl DeliveryState {
    /// Whether it is one of the four outcomes of messaging: terminal, outside of a transaction.
    pub const fn is_outcome(&self) -> bool {
        matches!(
            self,
            Self::Accepted | Self::Rejected { .. } | Self::Released | Self::Modified { .. }
        )
    }
}
