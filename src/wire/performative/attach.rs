//! Attach: the terminus bytes that are echoed, and our answer. [AMQP 2.7.3]

use bytes::Bytes;

use super::{Attach, Fields, Source, Symbol, Target};

/// The encoded fields of an attach that an answer may repeat; empty means null or absent.
#[derive(Clone, Debug, Default)]
pub struct AttachFields {
    /// The snd-settle-mode, if it was given.
    pub snd_settle_mode: Option<u8>,
    /// The rcv-settle-mode, if it was given.
    pub rcv_settle_mode: Option<u8>,
    /// The source.
    pub source: Bytes,
    /// The target.
    pub target: Bytes,
}

/// A terminus in our answer to an attach.
#[derive(Clone, Debug, Default)]
pub enum Terminus<T> {
    /// Null.
    Absent,
    /// What the peer sent, byte for byte.
    #[default]
    Echo,
    /// The peer's source with default-outcome released, and with the four outcomes of
    /// [AMQP 3.4] if it named none. For sources only; as `Echo` for targets.
    EchoWithOutcomes,
    /// This one.
    Given(Box<T>),
}

/// Our answer to an attach. The engine adds name, handle, role, settle modes and delivery-count.
#[derive(Clone, Debug, Default)]
pub struct AttachAnswer {
    /// The source.
    pub source: Terminus<Source>,
    /// The target.
    pub target: Terminus<Target>,
    /// Where we receive: the largest message we take, in bytes, enforced by the engine. Where we
    /// send the peer's is repeated. Default: absent, no limit.
    pub max_message_size: Option<u64>,
    /// The offered-capabilities, none if empty.
    pub offered_capabilities: Vec<Symbol>,
    /// The properties.
    pub properties: Option<Fields>,
}

/// Encodes `attach` with the given encoded termini.
pub fn encode_attach(out: &mut Vec<u8>, attach: &Attach, fields: &AttachFields) {
    let _ = (out, attach, fields);
}
