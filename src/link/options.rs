//! How the engine behaves.

use crate::base::{Serial, limits};
use crate::wire::performative::{Fields, Symbol};

/// Settings of one connection in the server role.
#[derive(Clone, Debug)]
pub struct LinkOptions {
    /// Who we say we are in `open`.
    pub identity: Identity,
    /// SASL mechanisms in the order of our preference; a peer is refused if there are none.
    pub mechanisms: Vec<String>,
    /// Serve a peer that begins with the AMQP header, without SASL. Default: false.
    pub allow_plain_amqp: bool,
    /// The max-frame-size we announce, in bytes. Default: 131,072.
    pub max_frame_size: u32,
    /// The channel-max we announce, lowered to the peer's. Default: 63.
    pub channel_max: u16,
    /// The handle-max we announce. Default: 255.
    pub handle_max: u32,
    /// The idle-time-out we announce, in milliseconds; a peer that is silent for twice as long is
    /// closed, since peers announce half of their patience [AMQP 2.4.5]. Default: 30,000.
    pub idle_time_out_ms: Option<u32>,
    /// Time from the first byte to `open`, in milliseconds. Default: 10,000.
    pub handshake_ms: u64,
    /// The incoming window of each session, in transfer frames. Default: 400.
    pub incoming_window: u32,
    /// Bytes of deliveries that have begun and not ended, for the whole connection; one message of
    /// the largest size always fits. Default: 32 MiB.
    pub partial_bytes_max: u64,
    /// Tell by [`Event::Partial`](super::Event::Partial) when so many bytes of one delivery have
    /// arrived and more follow. Default: 0, never.
    pub part_bytes: u64,
    /// First next-outgoing-id of each session. Default: 0xfffffffc, close to the wrap.
    pub initial_outgoing_id: Serial,
    /// First delivery-count of links on which we send. Default: 0xfffffffb, close to the wrap.
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
            handshake_ms: 10_000,
            incoming_window: limits::SESSION_INCOMING_WINDOW,
            partial_bytes_max: 2 * limits::MESSAGE_BYTES_DEFAULT,
            part_bytes: 0,
            initial_outgoing_id: Serial(0xffff_fffc),
            initial_delivery_count: Serial(0xffff_fffb),
            initial_delivery_id: Serial(0),
        }
    }
}

/// Settings of one connection in the client role.
#[derive(Clone, Debug, Default)]
pub struct ClientOptions {
    /// How to authenticate; nothing: begin with the AMQP header.
    pub sasl: Option<ClientSasl>,
    /// The `hostname` of sasl-init and open.
    pub hostname: Option<String>,
    /// The rest, as for a server; `mechanisms` and `allow_plain_amqp` are not used.
    pub options: LinkOptions,
}

/// How a client authenticates.
#[derive(Clone, Debug)]
pub struct ClientSasl {
    /// The mechanism.
    pub mechanism: String,
    /// Its initial response.
    pub response: Vec<u8>,
}

impl ClientSasl {
    /// User and password in clear. [RFC 4616]
    pub fn plain(user: &str, password: &str) -> Self {
        let mechanism = "PLAIN".to_owned();
        let response = format!("\0{user}\0{password}").into_bytes();
        Self {
            mechanism,
            response,
        }
    }

    /// No identity. [RFC 4505]
    pub fn anonymous() -> Self {
        let mechanism = "ANONYMOUS".to_owned();
        Self {
            mechanism,
            response: Vec::new(),
        }
    }
}

/// What `open` says about us beyond the limits. [AMQP 2.7.1]
#[derive(Clone, Debug, Default)]
pub struct Identity {
    /// The container-id.
    pub container_id: String,
    /// The offered-capabilities, none if empty.
    pub offered_capabilities: Vec<Symbol>,
    /// The properties.
    pub properties: Option<Fields>,
}
