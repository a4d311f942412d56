//! The performatives of the transport. [AMQP 2.7]
//!
//! `transfer`, `disposition` and `flow` are read in place, because they are the hot path. The others
//! are read field by field (see `composite`), after the structural check.

mod attach;
mod codes;
mod composite;
mod control;
mod decode;
mod disposition;
mod fields;
mod flow;
mod performatives;
mod state;
mod terminus;
mod transfer;
mod types;
mod unsettled;

pub use crate::wire::Value;
pub use attach::{AttachAnswer, AttachFields, AttachFrame, Terminus, TerminusLifetime};
pub(in crate::wire) use composite::{ListReader, read_symbols, write_list, write_symbols};
pub use control::Control;
pub use decode::{Performative, PerformativeError, decode, describe, encode};
pub use disposition::Disposition;
pub use fields::{
    Filter, encode_fields, error, fields, filter, filter_fields, is_delete_on_close, symbols,
};
pub use flow::{Flow, LinkFlow};
pub use performatives::{
    Attach, Begin, Close, Detach, DistributionMode, End, Open, Source, Target, TargetArchetype,
};
pub use state::{DeliveryState, ResumePoint};
pub use types::{
    AmqpError, ChannelMax, ConnectionError, Error, Fields, Handle, LinkError, MaxFrameSize,
    ReceiverSettleMode, Role, SenderSettleMode, SessionError, Symbol, TransactionError,
};

pub use transfer::{
    FirstTransfer, ResumableTag, TAGGED_TRANSFER_BYTES_MAX, TRANSFER_BYTES_MAX, Transfer,
    WholeTransfer, write_tagged_transfer, write_transfer,
};
pub use unsettled::{DeliveryTag, UnsettledDelivery, unsettled_deliveries, unsettled_tags};

#[cfg(test)]
mod tests;
