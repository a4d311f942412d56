//! Decoding of performatives; encoding of those off the hot path.

use thiserror::Error;

use super::{
    Attach, AttachFields, Begin, Close, Detach, Disposition, End, Flow, Open, Transfer, codes,
    composite,
};
use crate::wire::{DecodeError, Descriptor, Reader};

/// A performative of the transport. [AMQP 2.7]
#[derive(Clone, PartialEq, Debug)]
pub enum Performative {
    /// Opens the connection. [AMQP 2.7.1]
    Open(Box<Open>),
    /// Begins a session. [AMQP 2.7.2]
    Begin(Box<Begin>),
    /// Attaches a link. [AMQP 2.7.3]
    Attach(Box<Attach>, Box<AttachFields>),
    /// Updates windows and credit. [AMQP 2.7.4]
    Flow(Flow),
    /// Carries a message or a part of one. [AMQP 2.7.5]
    Transfer(Transfer),
    /// Reports the state of deliveries. [AMQP 2.7.6]
    Disposition(Disposition),
    /// Detaches a link. [AMQP 2.7.7]
    Detach(Box<Detach>),
    /// Ends a session. [AMQP 2.7.8]
    End(Box<End>),
    /// Closes the connection. [AMQP 2.7.9]
    Close(Box<Close>),
}

impl Performative {
    /// The performative's name in the specification.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Open(_) => "open",
            Self::Begin(_) => "begin",
            Self::Attach(..) => "attach",
            Self::Flow(_) => "flow",
            Self::Transfer(_) => "transfer",
            Self::Disposition(_) => "disposition",
            Self::Detach(_) => "detach",
            Self::End(_) => "end",
            Self::Close(_) => "close",
        }
    }
}

/// Why a frame body is not a performative: the peer's fault, `amqp:decode-error`.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum PerformativeError {
    /// Its bytes are not an AMQP value.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// Its descriptor is not that of a performative.
    #[error("unknown performative {descriptor}")]
    Unknown {
        /// The descriptor as it is.
        descriptor: String,
    },
    /// A field is missing or has another type.
    #[error("{performative} cannot be read: {text}")]
    Field {
        /// The performative's name.
        performative: &'static str,
        /// The field's name, and what is wrong with it.
        text: String,
    },
    /// Bytes follow a performative other than a transfer.
    #[error("{performative} is followed by {bytes} more bytes")]
    Payload {
        /// The performative's name.
        performative: &'static str,
        /// Number of these bytes.
        bytes: usize,
    },
}

/// Decodes a frame body; the second result is the number of bytes that the performative took, the
/// others are the payload of a transfer. [AMQP 2.3.2]
///
/// The structure of the bytes is checked before anything is built from them: every length inside
/// its parent, counts no larger than bytes, depth bounded.
pub fn decode(body: &[u8]) -> Result<(Performative, usize), PerformativeError> {
    match Reader::short_list(body) {
        Some((codes::TRANSFER, fields, used)) => {
            return Ok((Performative::Transfer(Transfer::read(fields)?), used));
        }
        Some((codes::DISPOSITION, fields, used)) if used == body.len() => {
            let disposition = Disposition::read(fields)?;
            return Ok((Performative::Disposition(disposition), used));
        }
        _ => {}
    }
    let mut reader = Reader::new(body);
    let mut described = reader.described()?;
    let used = reader.at();
    let code = codes::number(described.descriptor);
    let performative = match code {
        codes::TRANSFER => {
            return Ok((
                Performative::Transfer(Transfer::read(described.value.list()?)?),
                used,
            ));
        }
        codes::DISPOSITION => {
            Performative::Disposition(Disposition::read(described.value.list()?)?)
        }
        codes::FLOW => Performative::Flow(Flow::read(described.value.list()?)?),
        codes::OPEN => Performative::Open(Box::new(composite::read(body)?)),
        codes::BEGIN => Performative::Begin(Box::new(composite::read(body)?)),
        codes::ATTACH => {
            let (attach, fields) = AttachFields::decode(body)?;
            Performative::Attach(Box::new(attach), Box::new(fields))
        }
        codes::DETACH => Performative::Detach(Box::new(composite::read(body)?)),
        codes::END => Performative::End(Box::new(composite::read(body)?)),
        codes::CLOSE => Performative::Close(Box::new(composite::read(body)?)),
        _ => {
            let descriptor = match described.descriptor {
                Descriptor::Code(code) => format!("0x{code:02x}"),
                Descriptor::Symbol(name) => name.to_owned(),
            };
            return Err(PerformativeError::Unknown { descriptor });
        }
    };
    let bytes = body.len() - used;
    if bytes > 0 {
        let performative = codes::name(code).unwrap_or("performative");
        return Err(PerformativeError::Payload {
            performative,
            bytes,
        });
    }
    Ok((performative, used))
}

/// Appends a performative to `out`.
pub fn encode(out: &mut Vec<u8>, performative: &Performative) {
    match performative {
        Performative::Open(open) => composite::write(out, &**open),
        Performative::Begin(begin) => composite::write(out, &**begin),
        Performative::Attach(attach, _) => composite::write(out, &**attach),
        Performative::Flow(flow) => flow.write(out),
        Performative::Transfer(transfer) => transfer.write(out),
        Performative::Disposition(disposition) => disposition.write(out),
        Performative::Detach(detach) => composite::write(out, &**detach),
        Performative::End(end) => composite::write(out, &**end),
        Performative::Close(close) => composite::write(out, &**close),
    }
}

/// One line about a frame body, for traces.
pub fn describe(body: &[u8]) -> String {
    let mut reader = Reader::new(body);
    let Ok(mut described) = reader.described() else {
        return format!("{} bytes that are no performative", body.len());
    };
    let name = match described.descriptor {
        Descriptor::Code(code) => {
            codes::name(code).map_or_else(|| format!("0x{code:02x}"), str::to_owned)
        }
        Descriptor::Symbol(name) => name.to_owned(),
    };
    let fields = describe_fields(&mut described.value);
    let fields = fields.unwrap_or_else(|error| format!("({error})"));
    match body.len() - reader.at() {
        0 => format!("{name} {fields}"),
        bytes => format!("{name} {fields} + {bytes} bytes"),
    }
}

fn describe_fields(value: &mut Reader<'_>) -> Result<String, DecodeError> {
    let mut list = value.list()?;
    let mut fields = Vec::new();
    while list.left() > 0 {
        let field = list.value()?;
        fields.push(field.map_or_else(|| "null".to_owned(), |value| value.to_string()));
    }
    Ok(format!("[{}]", fields.join(", ")))
}
