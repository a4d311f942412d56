//! One exchange: its properties and the table it routes by.

use crate::base::{ExchangeId, Name};
use crate::wire::Value;

/// How an exchange routes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ExchangeKind {
    /// By the equal key.
    Direct,
    /// To everything bound.
    Fanout,
    /// By patterns of words.
    Topic,
    /// By application properties.
    Headers,
}

impl ExchangeKind {
    /// The kind by its word.
    pub fn from_word(word: &str) -> Option<Self> {
        match word {
            "direct" => Some(Self::Direct),
            "fanout" => Some(Self::Fanout),
            "topic" => Some(Self::Topic),
            "headers" => Some(Self::Headers),
            _ => None,
        }
    }

    /// Its word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Fanout => "fanout",
            Self::Topic => "topic",
            Self::Headers => "headers",
        }
    }
}

/// What a declaration says about an exchange.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExchangeSpec {
    /// Its name.
    pub name: Name,
    /// How it routes.
    pub kind: ExchangeKind,
    /// Survives a restart.
    pub durable: bool,
    /// Goes when its last binding goes.
    pub auto_delete: bool,
    /// Not a publish target for clients.
    pub internal: bool,
    /// Arguments in the types that are echoed back.
    pub arguments: Vec<(Name, Value)>,
}

/// One exchange of a vhost.
#[derive(Debug)]
pub struct Exchange {
    /// Its id, never reused.
    pub id: ExchangeId,
    /// As declared.
    pub spec: ExchangeSpec,
}
