//! Protocol headers, SASL, open. [AMQP 2.2, 2.4.1, 5.3]

use bytes::{Buf, Bytes, BytesMut};

use super::Connection;
use crate::base::{Now, limits};
use crate::link::error::Violation;
use crate::link::{Event, Foreign, Identity};
use crate::wire::check_values;
use crate::wire::frame::{FrameHeader, FrameKind, PROTOCOL_HEADER_BYTES, Protocol};
use crate::wire::performative::{
    ChannelMax, Error, MaxFrameSize, Open, Performative, Symbol, Value, encode_fields, symbols,
};
use crate::wire::sasl::{SaslCode, SaslFrame};

/// The phase of a connection.
///
/// ```text
///  server: Header --SASL header--> Sasl --init--> SaslOwner --outcome ok--> AmqpHeader
///             |                     ^  <-challenge--'   |                       |
///             | AMQP header,        '----response-------| outcome not ok        | AMQP header
///             | if plain is allowed                     v                       v
///             '------------------------------------> (Closed)               AwaitOpen
///
///          AwaitOpen --open--> OpenOwner --open--> Open --close--> Closing --close--> Closed
///
///  client: Header --SASL header--> Sasl --outcome ok--> AmqpHeader --> AwaitOpen --open--> Open
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// The peer's first protocol header is awaited.
    Header,
    /// A SASL frame is awaited.
    Sasl,
    /// The owner's answer to a SASL frame is awaited.
    SaslOwner,
    /// The peer's AMQP header after SASL is awaited.
    AmqpHeader,
    /// The peer's open is awaited.
    AwaitOpen,
    /// The owner's answer to the open is awaited.
    OpenOwner,
    /// Both ends have opened.
    Open,
    /// The engine closed; frames of the peer are discarded until its close.
    Closing,
    /// As `Closing`, but the bytes cannot even be read as frames.
    Discarding,
    /// Nothing is read any more.
    Closed,
}

impl Phase {
    pub(super) const fn awaits_owner(self) -> bool {
        matches!(self, Self::SaslOwner | Self::OpenOwner)
    }

    pub(super) const fn awaits_header(self) -> bool {
        matches!(self, Self::Header | Self::AmqpHeader)
    }

    /// Whether the handshake timeout runs.
    pub(super) const fn is_handshake(self) -> bool {
        matches!(
            self,
            Self::Header
                | Self::Sasl
                | Self::SaslOwner
                | Self::AmqpHeader
                | Self::AwaitOpen
                | Self::OpenOwner
        )
    }
}

/// Property of an open that a close follows.
const ESTABLISHMENT_FAILED: &str = "amqp:connection-establishment-failed";

impl Connection {
    /// Sends the first header of a client.
    pub(super) fn begin_client(&mut self) {
        let with_sasl = self
            .client
            .as_ref()
            .is_some_and(|client| client.sasl.is_some());
        if with_sasl {
            self.output.raw(&Protocol::Sasl.header());
        } else {
            self.phase = Phase::AmqpHeader;
            self.output.raw(&Protocol::Amqp.header());
            self.stage_open();
        }
    }

    /// Reads a protocol header; false if it has not arrived completely. A header is refused as soon
    /// as enough of it has arrived to see that it is another one. [AMQP 2.2]
    ///
    /// "If the requested protocol version is not supported, the server MUST send a protocol header
    /// with a supported protocol version and then close the socket."
    pub(super) fn handle_header(&mut self, input: &mut BytesMut) -> bool {
        let plain = self.options.allow_plain_amqp || self.client.is_some();
        let allowed: &[Protocol] = match self.phase {
            Phase::Header if self.client.is_none() && plain => &[Protocol::Sasl, Protocol::Amqp],
            Phase::Header => &[Protocol::Sasl],
            _ => &[Protocol::Amqp],
        };
        let front = input.get(..PROTOCOL_HEADER_BYTES).unwrap_or(input);
        if !allowed
            .iter()
            .any(|protocol| protocol.header().starts_with(front))
        {
            if self.client.is_none() {
                let supported = allowed.first().copied().unwrap_or(Protocol::Amqp);
                self.output.raw(&supported.header());
            }
            if let Some(protocol) = Foreign::of(front).filter(|_| self.client.is_none()) {
                self.events.push_back(Event::Foreign { protocol });
            }
            input.clear();
            self.give_up(None);
            return true;
        }
        let Some(protocol) = Protocol::parse(front) else {
            return false;
        };
        input.advance(PROTOCOL_HEADER_BYTES);
        match protocol {
            Protocol::Sasl => {
                self.phase = Phase::Sasl;
                if self.client.is_none() {
                    self.output.raw(&Protocol::Sasl.header());
                    self.offer_mechanisms();
                }
            }
            Protocol::Amqp => {
                self.phase = Phase::AwaitOpen;
                if self.client.is_none() {
                    self.output.raw(&Protocol::Amqp.header());
                }
            }
        }
        true
    }

    /// Handles a frame of the SASL layer, complete in `frame`.
    pub(super) fn handle_sasl(&mut self, header: FrameHeader, frame: &[u8]) {
        let body = frame.get(header.body..).unwrap_or_default();
        // The SASL layer has no way to report what was wrong.
        let Ok(sasl) = SaslFrame::decode(body) else {
            return self.give_up(None);
        };
        if header.kind != FrameKind::Sasl || self.phase != Phase::Sasl {
            return self.give_up(None);
        }
        match (sasl, self.client.is_some()) {
            (
                SaslFrame::Init {
                    mechanism,
                    response,
                    hostname,
                },
                false,
            ) => {
                if !self.options.mechanisms.contains(&mechanism) {
                    return self.sasl_end(SaslCode::Auth, None);
                }
                self.phase = Phase::SaslOwner;
                self.events.push_back(Event::SaslInit {
                    mechanism,
                    response,
                    hostname,
                });
            }
            (SaslFrame::Response(response), false) => {
                self.phase = Phase::SaslOwner;
                self.events.push_back(Event::SaslResponse { response });
            }
            (SaslFrame::Mechanisms(mechanisms), true) => self.choose_mechanism(&mechanisms),
            (SaslFrame::Challenge(_), true) => {
                self.stage_sasl(&SaslFrame::Response(Bytes::new()));
            }
            (
                SaslFrame::Outcome {
                    code: SaslCode::Ok, ..
                },
                true,
            ) => {
                self.phase = Phase::AmqpHeader;
                self.output.raw(&Protocol::Amqp.header());
                self.stage_open();
            }
            _ => self.give_up(None),
        }
    }

    /// Offers the mechanisms. "It is invalid for this list to be null or empty": with none to
    /// offer, only the header is sent. [AMQP 5.3.3.1]
    fn offer_mechanisms(&mut self) {
        if self.options.mechanisms.is_empty() {
            return self.give_up(None);
        }
        self.stage_sasl(&SaslFrame::Mechanisms(self.options.mechanisms.clone()));
    }

    fn choose_mechanism(&mut self, mechanisms: &[String]) {
        let client = self.client.as_ref();
        let sasl = client.and_then(|client| client.sasl.clone());
        let Some(sasl) = sasl.filter(|sasl| mechanisms.contains(&sasl.mechanism)) else {
            return self.give_up(None);
        };
        let hostname = client.and_then(|client| client.hostname.clone());
        let response = Some(Bytes::from(sasl.response));
        let mechanism = sasl.mechanism;
        self.stage_sasl(&SaslFrame::Init {
            mechanism,
            response,
            hostname,
        });
    }

    fn stage_sasl(&mut self, frame: &SaslFrame) {
        let staged = self
            .output
            .frame(FrameKind::Sasl, 0, |out| frame.encode(out));
        if staged.is_err() {
            self.give_up(None);
        }
    }

    fn sasl_end(&mut self, code: SaslCode, additional_data: Option<Bytes>) {
        let ok = code == SaslCode::Ok;
        self.stage_sasl(&SaslFrame::Outcome {
            code,
            additional_data,
        });
        self.phase = Phase::AmqpHeader;
        if !ok {
            self.give_up(None);
        }
    }

    /// Handles the peer's open. [AMQP 2.7.1]
    pub(super) fn handle_open(&mut self, now: Now, open: Box<Open>) -> Result<(), Violation> {
        if self.phase != Phase::AwaitOpen {
            return Err(Violation::OpenTwice);
        }
        check_peer(&open)?;
        let size = open.max_frame_size.0;
        if size < limits::FRAME_BYTES_MIN {
            return Err(Violation::MaxFrameSize { size });
        }
        self.offer_what_is_desired(&open);
        let idle_ms = open.idle_time_out.filter(|ms| *ms > 0);
        if let Some(ms) = idle_ms.filter(|ms| *ms < limits::IDLE_TIME_OUT_MS_MIN) {
            return Err(Violation::IdleTimeOut { ms });
        }
        self.timers.set_peer_idle(idle_ms);
        self.channel_max = self.channel_max.min(open.channel_max.0);
        let frame_bytes_max = size.min(limits::FRAME_BYTES_DEFAULT);
        self.output.frame_bytes_max = frame_bytes_max as usize;
        if self.client.is_some() {
            self.enter_open(now);
        } else {
            self.phase = Phase::OpenOwner;
        }
        self.events.push_back(Event::Opened(open));
        Ok(())
    }

    fn offer_what_is_desired(&mut self, open: &Open) {
        let desired = open.desired_capabilities.as_deref().unwrap_or_default();
        let identity = &mut self.options.identity;
        let wanted = identity.offered_if_desired.iter();
        let wanted = wanted.filter(|capability| desired.contains(capability));
        identity.offered_capabilities.extend(wanted.cloned());
    }

    fn enter_open(&mut self, now: Now) {
        self.phase = Phase::Open;
        let patience = self.options.idle_time_out_ms.filter(|ms| *ms > 0);
        // "peers SHOULD advertise half their actual threshold" [AMQP 2.4.5]: the engine waits twice
        // as long as it announces.
        let patience = patience.map(|ms| 2 * u64::from(ms));
        self.timers.enter_open(now.mono, patience);
    }

    /// Stages the open, for the phases in which it was not sent yet.
    pub(super) fn stage_open(&mut self) {
        let Identity {
            container_id,
            offered_capabilities,
            offered_if_desired: _,
            properties,
        } = self.options.identity.clone();
        let open = Open {
            container_id,
            hostname: self
                .client
                .as_ref()
                .and_then(|client| client.hostname.clone()),
            max_frame_size: MaxFrameSize(self.options.max_frame_size),
            channel_max: ChannelMax(self.channel_max),
            idle_time_out: self.options.idle_time_out_ms.filter(|ms| *ms > 0),
            offered_capabilities: symbols(&offered_capabilities),
            desired_capabilities: None,
            properties,
        };
        let open = Performative::Open(Box::new(open));
        // An identity with long properties may be larger than 512 bytes, which every peer accepts;
        // it is the operator's choice, so it is sent as it is.
        let frame_bytes_max = self.output.frame_bytes_max;
        self.output.frame_bytes_max = frame_bytes_max.max(limits::HANDSHAKE_FRAME_BYTES_MAX);
        self.output.performative(0, &open);
        self.output.frame_bytes_max = frame_bytes_max;
    }
}

/// Checks the peer's open against bounds, since its names and properties are kept.
fn check_peer(open: &Open) -> Result<(), Violation> {
    let hostname = open.hostname.as_deref().unwrap_or_default();
    for (field, text) in [
        ("container-id", &*open.container_id),
        ("hostname", hostname),
    ] {
        let bytes = text.len();
        if bytes > limits::PEER_NAME_BYTES_MAX {
            return Err(Violation::PeerName { field, bytes });
        }
    }
    let properties = open.properties.as_ref().map(encode_fields);
    let values_max = limits::PEER_PROPERTIES_VALUES_MAX;
    if properties.is_some_and(|properties| check_values(&properties, values_max).is_err()) {
        return Err(Violation::PeerProperties);
    }
    Ok(())
}

/// Commands of the handshake.
impl Connection {
    /// Server: sends a challenge of a mechanism with more than one step.
    pub fn sasl_challenge(&mut self, challenge: &[u8]) {
        if self.phase == Phase::SaslOwner {
            self.phase = Phase::Sasl;
            self.stage_sasl(&SaslFrame::Challenge(Bytes::copy_from_slice(challenge)));
        }
    }

    /// Server: sends the outcome. Any code but `Ok` closes the connection.
    pub fn sasl_outcome(&mut self, code: SaslCode) {
        if self.phase == Phase::SaslOwner {
            self.sasl_end(code, None);
        }
    }

    /// Server: sends the outcome `Ok` with the last step of a mechanism in which the server proves
    /// its identity, too.
    pub fn sasl_success(&mut self, last_step: &[u8]) {
        if self.phase == Phase::SaslOwner {
            self.sasl_end(SaslCode::Ok, Some(Bytes::copy_from_slice(last_step)));
        }
    }

    /// Answers the peer's open with the identity in the options.
    pub fn open(&mut self, now: Now) {
        if self.phase == Phase::OpenOwner {
            self.stage_open();
            self.enter_open(now);
        }
    }

    /// The same, with an open that says that a close follows.
    pub fn refuse_establishment(&mut self, now: Now, error: Error) {
        let identity = &mut self.options.identity;
        let failed = (Symbol::from(ESTABLISHMENT_FAILED), Value::Bool(true));
        let properties = identity.properties.take().unwrap_or_default();
        let properties = properties.iter().cloned().chain([failed]);
        identity.properties = Some(properties.collect());
        self.refuse_open(now, error);
    }

    /// Answers the peer's open with open and a close with this error.
    pub fn refuse_open(&mut self, now: Now, error: Error) {
        self.close(now, Some(error));
    }
}
