//! Violations of the protocol by a peer: what each ends, and the error that the peer is told.

use thiserror::Error;

use crate::base::limits::{
    DELIVERY_TAG_BYTES_MAX, LINK_NAME_BYTES_MAX, PEER_NAME_BYTES_MAX, PEER_PROPERTIES_VALUES_MAX,
};
use crate::wire::frame::FrameError;
use crate::wire::performative::{
    AmqpError, ConnectionError, Error, LinkError, PerformativeError, SessionError, Symbol, error,
};

/// What an error ends. [AMQP 2.8.14 to 2.8.18]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Scope {
    /// It ends one link.
    Link,
    /// It ends one session.
    Session,
    /// It ends the connection.
    Connection,
}

/// A violation of the protocol by the peer.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub(super) enum Violation {
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error(transparent)]
    Performative(#[from] PerformativeError),
    #[error("a frame of the wrong layer: SASL is over, or not over yet")]
    WrongLayer,
    #[error("{performative} is not allowed before open")]
    BeforeOpen { performative: &'static str },
    #[error("open was sent twice")]
    OpenTwice,
    #[error("max-frame-size {size} is below the minimum of 512")]
    MaxFrameSize { size: u32 },
    #[error("idle-time-out of {ms} ms is too short: at least 1000 ms")]
    IdleTimeOut { ms: u32 },
    #[error("channel {channel} is above the channel-max of {max}")]
    Channel { channel: u16, max: u16 },
    #[error("begin on channel {channel}, which has a session")]
    ChannelInUse { channel: u16 },
    #[error("channel {channel} has no session")]
    NoSession { channel: u16 },
    #[error("nothing was received for {ms} ms")]
    Silent { ms: u64 },
    #[error("handle {handle} is above the handle-max of {max}")]
    Handle { handle: u32, max: u32 },
    #[error("a link name of {bytes} bytes: it has at most {LINK_NAME_BYTES_MAX}")]
    LinkName { bytes: usize },
    #[error("a {field} of {bytes} bytes: it has at most {max}")]
    FieldTooLong {
        field: &'static str,
        bytes: usize,
        max: usize,
    },
    #[error("a {field} of {bytes} bytes: it has at most {PEER_NAME_BYTES_MAX}")]
    PeerName { field: &'static str, bytes: usize },
    #[error("properties of more than {PEER_PROPERTIES_VALUES_MAX} values")]
    PeerProperties,
    #[error("handle {handle} is in use")]
    HandleInUse { handle: u32 },
    #[error("handle {handle} is not attached")]
    UnattachedHandle { handle: u32 },
    #[error("transfer beyond the incoming window")]
    WindowExceeded,
    #[error("transfer on handle {handle}, on which the peer receives")]
    TransferByReceiver { handle: u32 },
    #[error("the first transfer of a delivery has no delivery-id")]
    DeliveryIdMissing,
    #[error("the first transfer of a delivery has no delivery-tag")]
    DeliveryTagMissing,
    #[error("a delivery-tag of {bytes} bytes: it has at most {DELIVERY_TAG_BYTES_MAX}")]
    DeliveryTag { bytes: usize },
    #[error("delivery-id {id} does not follow the one before it")]
    DeliveryIdOrder { id: u32 },
    #[error("delivery-id {id} in the middle of delivery {current}")]
    DeliveryIdChanged { id: u32, current: u32 },
    #[error("the transfers of a delivery name two transactions")]
    TransactionChanged,
    #[error("deliveries cannot be acquired for a transaction: settle them in one")]
    Acquisition,
    #[error("the state is no outcome, or its message-annotations cannot be read")]
    StateUnsupported,
    #[error("the attach of a sender needs an initial-delivery-count")]
    InitialDeliveryCount,
    #[error("attach cannot be read: {text}")]
    AttachUnreadable { text: String },
    #[error("the link was attached again under the same name")]
    Stolen,
    #[error("transfer without credit")]
    TransferLimit,
    #[error("message is larger than the maximum of {max_bytes} bytes")]
    MessageSize { max_bytes: u64 },
    #[error("deliveries that were begun on this connection hold more than {max_bytes} bytes")]
    PartialBytes { max_bytes: u64 },
    #[error("the snd-settle-mode of the link does not allow this delivery")]
    SettleMode,
    #[error("rcv-settle-mode second on a link with rcv-settle-mode first")]
    SecondOnFirst,
    #[error(
        "a new delivery on a link that was told only some of its unsettled deliveries: attach it again first"
    )]
    OnlyResumes,
    #[error(
        "a delivery is resumed at section {section}, offset {offset}: {arrived} bytes have arrived, and it goes on at section {at_section}, offset {at_offset}"
    )]
    ResumePoint {
        section: u32,
        offset: u64,
        arrived: u64,
        at_section: u32,
        at_offset: u64,
    },
    #[error("a resumed delivery ends before the {bytes} bytes that had arrived of it")]
    ResumedShort { bytes: u64 },
    #[error("the answer is larger than the peer's max-frame-size of {max_bytes} bytes")]
    FrameTooSmall { max_bytes: usize },
}

impl Violation {
    /// The one table of violations: what each ends, and under which condition.
    fn verdict(&self) -> (Scope, Symbol) {
        use Scope::{Connection, Link, Session};
        match self {
            Self::Frame(_) | Self::Channel { .. } | Self::WrongLayer => {
                (Connection, ConnectionError::FramingError.into())
            }
            Self::Performative(_) => (Connection, AmqpError::DecodeError.into()),
            Self::BeforeOpen { .. }
            | Self::OpenTwice
            | Self::ChannelInUse { .. }
            | Self::NoSession { .. } => (Connection, AmqpError::IllegalState.into()),
            Self::MaxFrameSize { .. }
            | Self::IdleTimeOut { .. }
            | Self::PeerName { .. }
            | Self::PeerProperties => (Connection, AmqpError::InvalidField.into()),
            Self::Silent { .. } => (Connection, AmqpError::ResourceLimitExceeded.into()),
            Self::Handle { .. } => (Session, ConnectionError::FramingError.into()),
            Self::HandleInUse { .. } => (Session, SessionError::HandleInUse.into()),
            Self::UnattachedHandle { .. } => (Session, SessionError::UnattachedHandle.into()),
            Self::WindowExceeded => (Session, SessionError::WindowViolation.into()),
            Self::TransferByReceiver { .. } => (Session, AmqpError::NotAllowed.into()),
            // Refusing the link would repeat its name, and keep it until the peer's detach.
            Self::LinkName { .. }
            | Self::DeliveryIdMissing
            | Self::DeliveryIdOrder { .. }
            | Self::DeliveryIdChanged { .. }
            | Self::StateUnsupported => (Session, AmqpError::InvalidField.into()),
            Self::InitialDeliveryCount
            | Self::FieldTooLong { .. }
            | Self::SettleMode
            | Self::SecondOnFirst
            | Self::TransactionChanged
            | Self::ResumePoint { .. }
            | Self::ResumedShort { .. }
            | Self::DeliveryTagMissing
            | Self::DeliveryTag { .. } => (Link, AmqpError::InvalidField.into()),
            Self::AttachUnreadable { .. } => (Link, AmqpError::DecodeError.into()),
            Self::OnlyResumes => (Link, AmqpError::NotAllowed.into()),
            Self::Acquisition => (Link, AmqpError::NotImplemented.into()),
            Self::Stolen => (Link, LinkError::Stolen.into()),
            Self::TransferLimit => (Link, LinkError::TransferLimitExceeded.into()),
            Self::MessageSize { .. } => (Link, LinkError::MessageSizeExceeded.into()),
            Self::PartialBytes { .. } => (Link, AmqpError::ResourceLimitExceeded.into()),
            Self::FrameTooSmall { .. } => (Link, AmqpError::FrameSizeTooSmall.into()),
        }
    }

    /// What the violation ends.
    pub(super) fn scope(&self) -> Scope {
        self.verdict().0
    }

    /// The error that the peer is told.
    pub(super) fn error(&self) -> Error {
        error(self.verdict().1, self.to_string())
    }

    /// Whether the bytes that follow cannot be read.
    pub(super) fn breaks_framing(&self) -> bool {
        matches!(self, Self::Frame(_))
    }
}
