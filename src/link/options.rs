//! Options of the engine.

use crate::base::{Serial, limits};
use crate::wire::performative::{Fields, Symbol};

/// Settings of one connection in the server role.
#[derive(Clone, Debug)]
pub struct LinkOptions {
    /// The identity in `open`.
    pub identity: Identity,
    /// SASL mechanisms in order of preference; a peer is refused if there are none.
    pub mechanisms: Vec<String>,
    /// Serve a peer that begins with the AMQP header, without SASL. Default: false.
    pub allow_plain_amqp: bool,
    /// The max-frame-size to announce, in bytes. Default: 131,072.
    pub max_frame_size: u32,
    /// The channel-max to announce, lowered to the peer's. Default: 63.
    pub channel_max: u16,
    /// The handle-max to announce. Default: 255.
    pub handle_max: u32,
    /// The idle-time-out to announce, in milliseconds; a peer that is silent for twice as long is
    /// closed, since peers announce half of their threshold [AMQP 2.4.5]. Default: 30,000.
    pub idle_time_out_ms: Option<u32>,
    /// Largest frame during SASL, in bytes. Default: 8 KiB.
    pub sasl_frame_bytes_max: usize,
    /// Time from the first byte to `open`, in milliseconds. Default: 10,000.
    pub handshake_ms: u64,
    /// The incoming window of each session, in transfer frames. Default: 400.
    pub incoming_window: u32,
    /// Bytes of incomplete deliveries of the whole connection; one message of the largest size
    /// always fits. Default: 32 MiB.
    pub partial_bytes_max: u64,
    /// Bytes of one incomplete delivery after which it is reported by
    /// [`Event::Partial`](super::Event::Partial). Default: 0, never.
    pub part_bytes: u64,
    /// Whether the owner answers a receiver that asks for the state of its link, with
    /// [`tell_available`](super::Connection::tell_available). Default: false, the engine does, and tells that
    /// nothing is available.
    pub owner_echoes: bool,
    /// First next-outgoing-id of each session. Default: 0xfffffffc, close to the wrap.
    pub initial_outgoing_id: Serial,
    /// First delivery-count of sending links. Default: 0xfffffffb, close to the wrap.
    pub initial_delivery_count: Serial,
    /// First delivery-id of each session. Default: 0.
    pub initial_delivery_id: Serial,
}

impl Default for LinkOptions {
    fn default() -> Self {
        Self {
            identity: Identity::default(),
            mechanisms: vec!["PLAIN".to_owned(), "ANONYMOUS".to_owned()],
            allow_plain_amqp: false,
            max_frame_size: limits::FRAME_BYTES_DEFAULT,
            channel_max: limits::CHANNEL_MAX_DEFAULT,
            handle_max: limits::HANDLE_MAX_DEFAULT,
            idle_time_out_ms: Some(30_000),
            sasl_frame_bytes_max: limits::HANDSHAKE_FRAME_BYTES_MAX,
            handshake_ms: 10_000,
            incoming_window: limits::SESSION_INCOMING_WINDOW,
            partial_bytes_max: 2 * limits::MESSAGE_BYTES_DEFAULT,
            part_bytes: 0,
            owner_echoes: false,
            initial_outgoing_id: Serial(0xffff_fffc),
            initial_delivery_count: Serial(0xffff_fffb),
            initial_delivery_id: Serial(0),
        }
    }
}

/// Settings of one connection in the client role.
#[derive(Clone, Debug, Default)]
pub struct ClientOptions {
    /// How to authenticate; none: begin with the AMQP header.
    pub sasl: Option<ClientSasl>,
    /// The `hostname` of sasl-init and open.
    pub hostname: Option<String>,
    /// The other options, as for a server; `mechanisms` and `allow_plain_amqp` are not used.
    pub options: LinkOptions,
}

/// The credentials of a client.
#[derive(Clone, Debug)]
pub struct ClientSasl {
    /// The mechanism's name.
    pub mechanism: String,
    /// The mechanism's initial response.
    pub response: Vec<u8>,
}

impl ClientSasl {
    /// PLAIN: user and password in clear. [RFC 4616]
    pub fn plain(user: &str, password: &str) -> Self {
        let mechanism = "PLAIN".to_owned();
        let response = format!("\0{user}\0{password}").into_bytes();
        Self {
            mechanism,
            response,
        }
    }

    /// ANONYMOUS: no identity. [RFC 4505]
    pub fn anonymous() -> Self {
        let mechanism = "ANONYMOUS".to_owned();
        Self {
            mechanism,
            response: Vec::new(),
        }
    }
}

/// The fields of `open` about the container, without limits. [AMQP 2.7.1]
#[derive(Clone, Debug, Default)]
pub struct Identity {
    /// The container-id, unique for each process.
    pub container_id: String,
    /// The offered-capabilities, absent if empty.
    pub offered_capabilities: Vec<Symbol>,
    /// Capabilities that are offered only to peers that desire them: others see what they know.
    pub offered_if_desired: Vec<Symbol>,
    /// The connection properties, if any.
    pub properties: Option<Fields>,
}
