//! Types of fields: symbols, maps of fields, roles, modes, errors. [AMQP 2.8]

use std::fmt;

use thiserror::Error as ThisError;

use crate::wire::Value;

/// A name from a registry. [AMQP 1.6.21]
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Symbol(String);

impl Symbol {
    /// The symbol's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<T: Into<String>> From<T> for Symbol {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A map with symbols as keys, in the order of the wire. [AMQP 2.8.12]
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Fields(Vec<(Symbol, Value)>);

impl Fields {
    /// The value of a key, if it is there.
    pub fn get(&self, key: &str) -> Option<&Value> {
        let mut pairs = self.0.iter();
        pairs
            .find(|(name, _)| name.as_str() == key)
            .map(|(_, value)| value)
    }

    /// Iterates over keys with their values.
    pub fn iter(&self) -> std::slice::Iter<'_, (Symbol, Value)> {
        self.0.iter()
    }

    /// Iterates over the values.
    pub fn values(&self) -> impl Iterator<Item = &Value> {
        self.0.iter().map(|(_, value)| value)
    }

    /// The same map as a value.
    pub fn to_value(&self) -> Value {
        let pairs = self.0.iter();
        let pairs = pairs.map(|(key, value)| (Value::symbol(key.as_str()), value.clone()));
        Value::Map(pairs.collect())
    }
}

impl<'a> IntoIterator for &'a Fields {
    type Item = &'a (Symbol, Value);
    type IntoIter = std::slice::Iter<'a, (Symbol, Value)>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl FromIterator<(Symbol, Value)> for Fields {
    fn from_iter<I: IntoIterator<Item = (Symbol, Value)>>(pairs: I) -> Self {
        Self(pairs.into_iter().collect())
    }
}

/// An end of a link. [AMQP 2.8.1]
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[allow(missing_docs, reason = "the names are the specification's")]
pub enum Role {
    Sender,
    Receiver,
}

/// How a sender settles. [AMQP 2.8.2]
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs, reason = "the names are the specification's")]
pub enum SenderSettleMode {
    Unsettled,
    Settled,
    #[default]
    Mixed,
}

impl SenderSettleMode {
    /// The code on the wire.
    pub const fn code(&self) -> u8 {
        match self {
            Self::Unsettled => 0,
            Self::Settled => 1,
            Self::Mixed => 2,
        }
    }

    /// The mode of a code; none: no mode has it.
    pub const fn of(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::Unsettled),
            1 => Some(Self::Settled),
            2 => Some(Self::Mixed),
            _ => None,
        }
    }
}

/// How a receiver settles. [AMQP 2.8.3]
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs, reason = "the names are the specification's")]
pub enum ReceiverSettleMode {
    #[default]
    First,
    Second,
}

impl ReceiverSettleMode {
    /// The code on the wire.
    pub const fn code(&self) -> u8 {
        match self {
            Self::First => 0,
            Self::Second => 1,
        }
    }

    /// The mode of a code; none: no mode has it.
    pub const fn of(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::First),
            1 => Some(Self::Second),
            _ => None,
        }
    }
}

/// The number of a link in a session. [AMQP 2.8.4]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Handle(pub u32);

/// The largest frame that a peer accepts, in bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MaxFrameSize(pub u32);

/// The highest channel number that a peer accepts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChannelMax(pub u16);

/// An error of a link, session or connection. [AMQP 2.8.14]
#[derive(Clone, PartialEq, Eq, Debug, ThisError)]
#[error("{condition}{}", description.as_ref().map(|text| format!(": {text}")).unwrap_or_default())]
pub struct Error {
    /// The condition, for programs: `amqp:not-found` for example. Empty: a consumer rejected with an error
    /// that has none, which is not written again.
    pub condition: Symbol,
    /// A text for people.
    pub description: Option<String>,
    /// Further information, as a map.
    pub info: Option<Box<Fields>>,
}

impl Error {
    /// An error with these fields.
    pub fn new(
        condition: impl Into<Symbol>,
        description: Option<String>,
        info: Option<Fields>,
    ) -> Self {
        Self {
            condition: condition.into(),
            description,
            info: info.map(Box::new),
        }
    }

    /// Whether it has a condition or says anything else.
    pub(super) fn says_something(&self) -> bool {
        !self.condition.as_str().is_empty() || self.description.is_some() || self.info.is_some()
    }
}

/// Defines the conditions of one part of the specification.
macro_rules! conditions {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[allow(missing_docs, reason = "the names are the specification's")]
        pub enum $name { $($variant,)+ }

        impl $name {
            /// The condition's symbol.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }
        }

        impl From<$name> for String {
            fn from(condition: $name) -> Self {
                condition.as_str().to_owned()
            }
        }
    };
}

conditions! {
    /// Conditions of all layers. [AMQP 2.8.15]
    AmqpError {
        InternalError = "amqp:internal-error",
        NotFound = "amqp:not-found",
        UnauthorizedAccess = "amqp:unauthorized-access",
        DecodeError = "amqp:decode-error",
        ResourceLimitExceeded = "amqp:resource-limit-exceeded",
        NotAllowed = "amqp:not-allowed",
        InvalidField = "amqp:invalid-field",
        NotImplemented = "amqp:not-implemented",
        ResourceLocked = "amqp:resource-locked",
        PreconditionFailed = "amqp:precondition-failed",
        ResourceDeleted = "amqp:resource-deleted",
        IllegalState = "amqp:illegal-state",
        FrameSizeTooSmall = "amqp:frame-size-too-small",
    }
}

conditions! {
    /// Conditions that end a connection. [AMQP 2.8.16]
    ConnectionError {
        ConnectionForced = "amqp:connection:forced",
        FramingError = "amqp:connection:framing-error",
    }
}

conditions! {
    /// Conditions that end a session. [AMQP 2.8.17]
    SessionError {
        WindowViolation = "amqp:session:window-violation",
        HandleInUse = "amqp:session:handle-in-use",
        UnattachedHandle = "amqp:session:unattached-handle",
    }
}

conditions! {
    /// Conditions of transactions. [AMQP 4.5.8]
    TransactionError {
        UnknownId = "amqp:transaction:unknown-id",
        Rollback = "amqp:transaction:rollback",
        Timeout = "amqp:transaction:timeout",
    }
}

conditions! {
    /// Conditions that end a link. [AMQP 2.8.18]
    LinkError {
        TransferLimitExceeded = "amqp:link:transfer-limit-exceeded",
        MessageSizeExceeded = "amqp:link:message-size-exceeded",
        Stolen = "amqp:link:stolen",
    }
}
