//! The performatives and termini off the hot path. [AMQP 2.7, 3.5]

use bytes::Bytes;

use super::composite::{
    self, Composite, ListReader, ListWriter, read_fields, read_symbols, write_fields, write_symbols,
};
use super::types::{
    ChannelMax, Error, Fields, Handle, MaxFrameSize, ReceiverSettleMode, Role, SenderSettleMode,
    Symbol,
};
use super::{DeliveryState, PerformativeError, codes};
use crate::wire::{
    DecodeError, Reader, Value, write_bool, write_string, write_symbol, write_ubyte, write_uint,
    write_ulong, write_ushort,
};

/// Opens a connection. [AMQP 2.7.1]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Open {
    /// The container-id of the sender.
    pub container_id: String,
    /// The host that the sender believes to talk to; may name a vhost.
    pub hostname: Option<String>,
    /// The largest frame that the sender accepts. Default: no limit.
    pub max_frame_size: MaxFrameSize,
    /// The highest channel that the sender accepts. Default: 65535.
    pub channel_max: ChannelMax,
    /// The idle timeout of the sender, in milliseconds; none: no timeout.
    pub idle_time_out: Option<u32>,
    /// Extensions that the sender supports.
    pub offered_capabilities: Option<Vec<Symbol>>,
    /// Extensions that the sender may use if the receiver supports them.
    pub desired_capabilities: Option<Vec<Symbol>>,
    /// The sender's connection properties: product, version and the like.
    pub properties: Option<Fields>,
}

impl Composite for Open {
    const CODE: u64 = codes::OPEN;
    const NAME: &'static str = "open";

    fn read(list: &mut ListReader<'_>) -> Result<Self, PerformativeError> {
        let open = Self {
            container_id: list.required("container-id", text)?,
            hostname: list.optional("hostname", text)?,
            max_frame_size: MaxFrameSize(
                list.optional("max-frame-size", Reader::uint)?
                    .unwrap_or(u32::MAX),
            ),
            channel_max: ChannelMax(
                list.optional("channel-max", Reader::ushort)?
                    .unwrap_or(u16::MAX),
            ),
            idle_time_out: list.optional("idle-time-out", Reader::uint)?,
            offered_capabilities: {
                list.skip(2)?;
                symbols(list)?
            },
            desired_capabilities: symbols(list)?,
            properties: list.lenient(read_fields)?,
        };
        Ok(open)
    }

    fn write(&self, list: &mut ListWriter<'_>) {
        list.field(Some(&*self.container_id), write_string);
        list.field(self.hostname.as_deref(), write_string);
        let size = self.max_frame_size.0;
        list.field((size < u32::MAX).then_some(size), write_uint);
        let channel_max = self.channel_max.0;
        list.field(
            (channel_max < u16::MAX).then_some(channel_max),
            write_ushort,
        );
        list.field(self.idle_time_out, write_uint);
        list.nulls(2);
        list.field(self.offered_capabilities.as_deref(), write_symbols);
        list.field(self.desired_capabilities.as_deref(), write_symbols);
        list.field(self.properties.as_ref(), write_fields);
    }
}

/// Begins a session. [AMQP 2.7.2]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Begin {
    /// The channel of the begin that this one answers; none: it does not answer one.
    pub remote_channel: Option<u16>,
    /// The transfer-id of the sender's first transfer.
    pub next_outgoing_id: u32,
    /// Number of transfer frames that the sender accepts.
    pub incoming_window: u32,
    /// Number of transfer frames that the sender could send.
    pub outgoing_window: u32,
    /// The highest handle that the sender accepts. Default: no limit.
    pub handle_max: Handle,
}

impl Composite for Begin {
    const CODE: u64 = codes::BEGIN;
    const NAME: &'static str = "begin";

    fn read(list: &mut ListReader<'_>) -> Result<Self, PerformativeError> {
        let begin = Self {
            remote_channel: list.optional("remote-channel", Reader::ushort)?,
            next_outgoing_id: list.required("next-outgoing-id", Reader::uint)?,
            incoming_window: list.required("incoming-window", Reader::uint)?,
            outgoing_window: list.required("outgoing-window", Reader::uint)?,
            handle_max: Handle(
                list.optional("handle-max", Reader::uint)?
                    .unwrap_or(u32::MAX),
            ),
        };
        Ok(begin)
    }

    fn write(&self, list: &mut ListWriter<'_>) {
        list.field(self.remote_channel, write_ushort);
        list.field(Some(self.next_outgoing_id), write_uint);
        list.field(Some(self.incoming_window), write_uint);
        list.field(Some(self.outgoing_window), write_uint);
        let handle_max = self.handle_max.0;
        list.field((handle_max < u32::MAX).then_some(handle_max), write_uint);
    }
}

/// Attaches a link. [AMQP 2.7.3]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attach {
    /// The name of the link, unique between the two containers in its direction.
    pub name: String,
    /// The sender's number for the link.
    pub handle: Handle,
    /// The role of the end that sends this.
    pub role: Role,
    /// How the sending end settles. Default: mixed.
    pub snd_settle_mode: SenderSettleMode,
    /// How the receiving end settles. Default: first.
    pub rcv_settle_mode: ReceiverSettleMode,
    /// Where messages come from; none: null, as in a refusal.
    pub source: Option<Box<Source>>,
    /// Where messages go to; none: null, as in a refusal.
    pub target: Option<Box<TargetArchetype>>,
    /// The encoded map of the deliveries that the end has not settled; none: it has none. [AMQP 2.6.13]
    pub unsettled: Option<Bytes>,
    /// Whether that map has not all of them, since they do not fit into a frame.
    pub incomplete_unsettled: bool,
    /// The first delivery-count; from a sending end only.
    pub initial_delivery_count: Option<u32>,
    /// The largest message that the end accepts, in bytes; none: no limit.
    pub max_message_size: Option<u64>,
    /// Extensions that the end supports.
    pub offered_capabilities: Option<Vec<Symbol>>,
    /// The link's properties: `paired` and the like.
    pub properties: Option<Fields>,
}

impl Attach {
    /// Reads an attach. Unreadable termini are absent, and the second result says why.
    pub(super) fn decode(body: &[u8]) -> Result<(Self, Option<String>), PerformativeError> {
        let mut described = Reader::new(body).described()?;
        let list = &mut ListReader::new(Self::NAME, &mut described.value)?;
        let mut attach = Self::read_front(list)?;
        let (source, target) = (list.raw()?, list.raw()?);
        let source = source.map(composite::read::<Source>).transpose();
        let target = target.map(TargetArchetype::decode).transpose();
        let unreadable = match (source, target) {
            (Ok(source), Ok(target)) => {
                attach.source = source.map(Box::new);
                attach.target = target.map(Box::new);
                None
            }
            (Err(error), _) | (_, Err(error)) => Some(error.to_string()),
        };
        attach.read_back(list)?;
        Ok((attach, unreadable))
    }

    fn read_front(list: &mut ListReader<'_>) -> Result<Self, PerformativeError> {
        let attach = Self {
            name: list.required("name", text)?,
            handle: Handle(list.required("handle", Reader::uint)?),
            role: if list.required("role", Reader::bool)? {
                Role::Receiver
            } else {
                Role::Sender
            },
            snd_settle_mode: list
                .optional("snd-settle-mode", mode(SenderSettleMode::of))?
                .unwrap_or_default(),
            rcv_settle_mode: list
                .optional("rcv-settle-mode", mode(ReceiverSettleMode::of))?
                .unwrap_or_default(),
            source: None,
            target: None,
            unsettled: None,
            incomplete_unsettled: false,
            initial_delivery_count: None,
            max_message_size: None,
            offered_capabilities: None,
            properties: None,
        };
        Ok(attach)
    }

    fn read_back(&mut self, list: &mut ListReader<'_>) -> Result<(), PerformativeError> {
        self.unsettled = list.raw()?.map(Bytes::copy_from_slice);
        self.incomplete_unsettled = list.lenient(Reader::bool)?.unwrap_or(false);
        self.initial_delivery_count = list.optional("initial-delivery-count", Reader::uint)?;
        self.max_message_size = list.optional("max-message-size", Reader::ulong)?;
        self.offered_capabilities = symbols(list)?;
        list.skip(1)?;
        self.properties = list.lenient(read_fields)?;
        Ok(())
    }
}

impl Composite for Attach {
    const CODE: u64 = codes::ATTACH;
    const NAME: &'static str = "attach";

    fn read(list: &mut ListReader<'_>) -> Result<Self, PerformativeError> {
        let mut attach = Self::read_front(list)?;
        list.skip(2)?;
        attach.read_back(list)?;
        Ok(attach)
    }

    fn write(&self, list: &mut ListWriter<'_>) {
        list.field(Some(&*self.name), write_string);
        list.field(Some(self.handle.0), write_uint);
        list.field(Some(self.role == Role::Receiver), write_bool);
        let snd = (self.snd_settle_mode != SenderSettleMode::default()).then_some(());
        list.field(snd, |out, ()| write_ubyte(out, self.snd_settle_mode.code()));
        let rcv = (self.rcv_settle_mode != ReceiverSettleMode::default()).then_some(());
        list.field(rcv, |out, ()| write_ubyte(out, self.rcv_settle_mode.code()));
        list.field(self.source.as_deref(), composite::write);
        list.field(self.target.as_deref(), |out, target| target.write(out));
        list.field(self.unsettled.as_deref(), |out, map| {
            out.extend_from_slice(map);
        });
        list.field(self.incomplete_unsettled.then_some(true), write_bool);
        list.field(self.initial_delivery_count, write_uint);
        list.field(self.max_message_size, write_ulong);
        list.field(self.offered_capabilities.as_deref(), write_symbols);
        list.nulls(1);
        list.field(self.properties.as_ref(), write_fields);
    }
}

/// Detaches a link. [AMQP 2.7.7]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Detach {
    /// The sender's number for the link.
    pub handle: Handle,
    /// Whether the link is closed, not only suspended.
    pub closed: bool,
    /// Why it is detached; none: no error.
    pub error: Option<Error>,
}

impl Composite for Detach {
    const CODE: u64 = codes::DETACH;
    const NAME: &'static str = "detach";

    fn read(list: &mut ListReader<'_>) -> Result<Self, PerformativeError> {
        let detach = Self {
            handle: Handle(list.required("handle", Reader::uint)?),
            closed: list.optional("closed", Reader::bool)?.unwrap_or(false),
            error: list.lenient(error)?,
        };
        Ok(detach)
    }

    /// `closed` is always encoded, as RabbitMQ does.
    fn write(&self, list: &mut ListWriter<'_>) {
        list.field(Some(self.handle.0), write_uint);
        list.field(Some(self.closed), write_bool);
        list.field(self.error.as_ref(), composite::write);
    }
}

/// Ends a session. [AMQP 2.7.8]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct End {
    /// Why it is ended; none: no error.
    pub error: Option<Error>,
}

impl Composite for End {
    const CODE: u64 = codes::END;
    const NAME: &'static str = "end";

    fn read(list: &mut ListReader<'_>) -> Result<Self, PerformativeError> {
        let error = list.lenient(error)?;
        Ok(Self { error })
    }

    fn write(&self, list: &mut ListWriter<'_>) {
        list.field(self.error.as_ref(), composite::write);
    }
}

/// Closes a connection. [AMQP 2.7.9]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Close {
    /// Why it is closed; none: no error.
    pub error: Option<Error>,
}

impl Composite for Close {
    const CODE: u64 = codes::CLOSE;
    const NAME: &'static str = "close";

    fn read(list: &mut ListReader<'_>) -> Result<Self, PerformativeError> {
        let error = list.lenient(error)?;
        Ok(Self { error })
    }

    fn write(&self, list: &mut ListWriter<'_>) {
        list.field(self.error.as_ref(), composite::write);
    }
}

impl Composite for Error {
    const CODE: u64 = codes::ERROR;
    const NAME: &'static str = "error";

    fn read(list: &mut ListReader<'_>) -> Result<Self, PerformativeError> {
        let error = Self {
            condition: Symbol::from(list.required("condition", Reader::symbol)?),
            description: list.optional("description", text)?,
            info: list.lenient(read_fields)?.map(Box::new),
        };
        Ok(error)
    }

    fn write(&self, list: &mut ListWriter<'_>) {
        list.field(Some(self.condition.as_str()), write_symbol);
        list.field(self.description.as_deref(), write_string);
        list.field(self.info.as_deref(), write_fields);
    }
}

/// How a node distributes its messages. [AMQP 3.5.7]
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names are the specification's")]
pub enum DistributionMode {
    Move,
    Copy,
}

/// Where messages come from. Fields for more than the broker keeps are not read. [AMQP 3.5.3]
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Source {
    /// The address of the node.
    pub address: Option<String>,
    /// What of the terminus outlives its link: 0 nothing, 1 its configuration, 2 which deliveries
    /// are unsettled, too. Of a peer's it is what is asked for. [AMQP 3.5.5]
    pub durable: u32,
    /// When the terminus is forgotten. [AMQP 3.5.6]
    pub expiry_policy: Option<Symbol>,
    /// How long after that it is kept, in seconds. Of a peer's it is what is asked for.
    pub timeout_s: u32,
    /// The filter that leaves out what the same connection sends, with its name. Of a peer's
    /// source only: written, it is one of the filters.
    pub no_local: Option<(Symbol, Value)>,
    /// Whether the node is to be created for the link.
    pub dynamic: bool,
    /// Properties of a node to be created.
    pub dynamic_node_properties: Option<Fields>,
    /// Whether messages are moved or copied.
    pub distribution_mode: Option<DistributionMode>,
    /// Filters on messages, by name; a selector for example.
    pub filter: Option<Fields>,
    /// The outcome of deliveries that are settled without one.
    pub default_outcome: Option<DeliveryState>,
    /// The outcomes that are supported.
    pub outcomes: Option<Vec<Symbol>>,
    /// Extensions of the node.
    pub capabilities: Option<Vec<Symbol>>,
}

impl Composite for Source {
    const CODE: u64 = codes::SOURCE;
    const NAME: &'static str = "source";

    fn read(list: &mut ListReader<'_>) -> Result<Self, PerformativeError> {
        let address = list.optional("address", text)?;
        list.skip(3)?;
        let source = Self {
            address,
            durable: 0,
            expiry_policy: None,
            timeout_s: 0,
            no_local: None,
            dynamic: list.optional("dynamic", Reader::bool)?.unwrap_or(false),
            dynamic_node_properties: list.optional("dynamic-node-properties", read_fields)?,
            distribution_mode: list.optional("distribution-mode", distribution_mode)?,
            filter: list.optional("filter", read_fields)?,
            default_outcome: list.optional("default-outcome", |reader| {
                DeliveryState::read(reader.described()?)
            })?,
            outcomes: some(list.optional("outcomes", read_symbols)?),
            capabilities: some(list.optional("capabilities", read_symbols)?),
        };
        Ok(source)
    }

    fn write(&self, list: &mut ListWriter<'_>) {
        list.field(self.address.as_deref(), write_string);
        list.field((self.durable > 0).then_some(self.durable), write_uint);
        let policy = self.expiry_policy.as_ref().map(Symbol::as_str);
        list.field(policy, write_symbol);
        list.field((self.timeout_s > 0).then_some(self.timeout_s), write_uint);
        list.field(self.dynamic.then_some(true), write_bool);
        list.field(self.dynamic_node_properties.as_ref(), write_fields);
        let mode = self.distribution_mode.as_ref().map(|mode| match mode {
            DistributionMode::Move => "move",
            DistributionMode::Copy => "copy",
        });
        list.field(mode, write_symbol);
        list.field(self.filter.as_ref(), write_fields);
        list.field(self.default_outcome.as_ref(), |out, state| state.write(out));
        list.field(self.outcomes.as_deref(), write_symbols);
        list.field(self.capabilities.as_deref(), write_symbols);
    }
}

/// Where messages go to. [AMQP 3.5.4]
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Target {
    /// The address of the node; none: the anonymous terminus, where each message has its own.
    pub address: Option<String>,
    /// What of the terminus outlives its broker: 0 nothing, 2 which deliveries are unsettled. Of a
    /// peer's it is what is asked for. [AMQP 3.5.5]
    pub durable: u32,
    /// When the terminus is forgotten. Of a peer's it is what is asked for. [AMQP 3.5.6]
    pub expiry_policy: Option<Symbol>,
    /// How long after that it is kept, in seconds. Of a peer's it is what is asked for.
    pub timeout_s: u32,
    /// Whether the node is to be created for the link.
    pub dynamic: bool,
    /// Properties of a node to be created.
    pub dynamic_node_properties: Option<Fields>,
    /// Extensions of the node.
    pub capabilities: Option<Vec<Symbol>>,
}

impl Composite for Target {
    const CODE: u64 = codes::TARGET;
    const NAME: &'static str = "target";

    fn read(list: &mut ListReader<'_>) -> Result<Self, PerformativeError> {
        let address = list.optional("address", text)?;
        list.skip(3)?;
        let target = Self {
            address,
            durable: 0,
            expiry_policy: None,
            timeout_s: 0,
            dynamic: list.optional("dynamic", Reader::bool)?.unwrap_or(false),
            dynamic_node_properties: list.optional("dynamic-node-properties", read_fields)?,
            capabilities: some(list.optional("capabilities", read_symbols)?),
        };
        Ok(target)
    }

    fn write(&self, list: &mut ListWriter<'_>) {
        list.field(self.address.as_deref(), write_string);
        list.field((self.durable > 0).then_some(self.durable), write_uint);
        let policy = self.expiry_policy.as_ref().map(Symbol::as_str);
        list.field(policy, write_symbol);
        list.field((self.timeout_s > 0).then_some(self.timeout_s), write_uint);
        list.field(self.dynamic.then_some(true), write_bool);
        list.field(self.dynamic_node_properties.as_ref(), write_fields);
        list.field(self.capabilities.as_deref(), write_symbols);
    }
}

/// The values of the field `target`. [AMQP 2.7.3, 4.5.1]
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TargetArchetype {
    /// A node that takes messages.
    Target(Target),
    /// The coordinator of transactions.
    Coordinator {
        /// The kinds of transactions that the controller would use, or that the coordinator offers:
        /// `amqp:local-transactions` for example. [AMQP 4.5.1, 4.5.9]
        capabilities: Option<Vec<Symbol>>,
    },
}

impl TargetArchetype {
    fn decode(bytes: &[u8]) -> Result<Self, PerformativeError> {
        let mut described = Reader::new(bytes).described()?;
        if codes::number(described.descriptor) == codes::COORDINATOR {
            let mut list = ListReader::new("coordinator", &mut described.value)?;
            let capabilities = some(list.optional("capabilities", read_symbols)?);
            return Ok(Self::Coordinator { capabilities });
        }
        composite::read(bytes).map(Self::Target)
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Target(target) => composite::write(out, target),
            Self::Coordinator { capabilities } => {
                composite::write_list(out, codes::COORDINATOR, |list| {
                    list.field(capabilities.as_deref(), write_symbols);
                });
            }
        }
    }
}

fn text(reader: &mut Reader<'_>) -> Result<String, DecodeError> {
    reader.string().map(str::to_owned)
}

fn symbols(list: &mut ListReader<'_>) -> Result<Option<Vec<Symbol>>, PerformativeError> {
    Ok(some(list.lenient(read_symbols)?))
}

/// An empty array counts as absent. [AMQP 1.4]
fn some(symbols: Option<Vec<Symbol>>) -> Option<Vec<Symbol>> {
    symbols.filter(|symbols| !symbols.is_empty())
}

/// Reads an error in a field.
pub(super) fn error(reader: &mut Reader<'_>) -> Result<Error, DecodeError> {
    composite::read(reader.raw()?).map_err(|error| match error {
        PerformativeError::Decode(error) => error,
        _ => DecodeError::Invalid {
            at: 0,
            expected: "error",
        },
    })
}

/// Reads the error of a consumer that rejects: its condition as symbol or string, its description likewise.
/// Some clients write what their users give them: a condition that is none is empty, and what else the error
/// says counts.
pub(super) fn consumer_error(reader: &mut Reader<'_>) -> Result<Error, PerformativeError> {
    struct Lenient(Error);
    impl Composite for Lenient {
        const CODE: u64 = codes::ERROR;
        const NAME: &'static str = "error";

        fn read(list: &mut ListReader<'_>) -> Result<Self, PerformativeError> {
            Ok(Self(Error {
                condition: Symbol::from(list.lenient(condition)?.unwrap_or_default()),
                description: list.lenient(any_text)?,
                info: list.lenient(read_fields)?.map(Box::new),
            }))
        }

        fn write(&self, list: &mut ListWriter<'_>) {
            self.0.write(list);
        }
    }
    composite::read(reader.raw()?).map(|Lenient(error)| error)
}

/// Reads a symbol, or a string that could be one.
fn condition(reader: &mut Reader<'_>) -> Result<String, DecodeError> {
    let text = any_text(reader)?;
    if text.is_ascii() {
        Ok(text)
    } else {
        Err(DecodeError::NotAscii { at: 0 })
    }
}

/// Reads a string, or a symbol.
fn any_text(reader: &mut Reader<'_>) -> Result<String, DecodeError> {
    let raw = reader.raw()?;
    text(&mut Reader::new(raw)).or_else(|_| Reader::new(raw).symbol().map(str::to_owned))
}

/// Reads a settle mode by its code.
fn mode<T>(of: fn(u8) -> Option<T>) -> impl FnOnce(&mut Reader<'_>) -> Result<T, DecodeError> {
    move |reader| {
        of(reader.ubyte()?).ok_or(DecodeError::Invalid {
            at: 0,
            expected: "settle mode",
        })
    }
}

fn distribution_mode(reader: &mut Reader<'_>) -> Result<DistributionMode, DecodeError> {
    match reader.symbol()? {
        "move" => Ok(DistributionMode::Move),
        "copy" => Ok(DistributionMode::Copy),
        _ => Err(DecodeError::Invalid {
            at: 0,
            expected: "distribution-mode",
        }),
    }
}
