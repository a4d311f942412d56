//! The performatives of the transport. [AMQP 2.7]
//!
//! `transfer`, `disposition` and `flow` have a codec of ours, because they are the hot path. The
//! others are the types of `fe2o3-amqp-types`, read and written by `serde_amqp`; every byte passes
//! the structural check first (see `typed`).

mod attach;
mod codes;
mod decode;
mod disposition;
mod fields;
mod flow;
mod state;
mod terminus;
mod transfer;
mod typed;

pub use fe2o3_amqp_types::definitions::{
    AmqpError, ConnectionError, Error, ErrorCondition, Fields, Handle, LinkError,
    ReceiverSettleMode, Role, SenderSettleMode, SessionError,
};
pub use fe2o3_amqp_types::messaging::{
    DistributionMode, Outcome as TerminusOutcome, Released, Source, Target, TargetArchetype,
    TerminusDurability, TerminusExpiryPolicy,
};
pub use fe2o3_amqp_types::performatives::{
    Attach, Begin, ChannelMax, Close, Detach, End, MaxFrameSize, Open,
};
pub use fe2o3_amqp_types::transaction::Coordinator;
pub use serde_amqp::Value as FieldValue;
pub use serde_amqp::primitives::{Array as FieldArray, Symbol};

pub use attach::{AttachAnswer, AttachFields, AttachFrame, Terminus};
pub use decode::{Performative, PerformativeError, decode, describe, encode};
pub use disposition::Disposition;
pub use fields::{
    condition_symbol, encode_fields, error, fields, is_delete_on_close, selector_text, symbols,
};
pub use flow::{Flow, LinkFlow};
pub use state::DeliveryState;
pub(in crate::wire) use typed::{typed, write_typed};

pub use transfer::{FirstTransfer, TRANSFER_BYTES_MAX, Transfer, WholeTransfer, write_transfer};

#[cfg(test)]
mod tests;
