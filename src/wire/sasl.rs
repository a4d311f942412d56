//! SASL performatives. [AMQP 5.3.3]

use bytes::Bytes;

use super::performative::{
    ListReader, PerformativeError, Symbol, read_symbols, write_list, write_symbols,
};
use super::{
    DecodeError, Descriptor, Reader, check_structure, write_binary, write_string, write_symbol,
    write_ubyte,
};

/// Descriptors. [AMQP 5.3.3]
const MECHANISMS: u64 = 0x40;
const INIT: u64 = 0x41;
const CHALLENGE: u64 = 0x42;
const RESPONSE: u64 = 0x43;
const OUTCOME: u64 = 0x44;

/// The outcome code of a login. [AMQP 5.3.3.6]
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SaslCode {
    /// The login succeeded.
    Ok,
    /// The credentials are wrong.
    Auth,
    /// A system error prevented the login.
    Sys,
    /// A permanent system error prevented it.
    SysPerm,
    /// A transient system error prevented it.
    SysTemp,
}

impl SaslCode {
    const fn code(&self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Auth => 1,
            Self::Sys => 2,
            Self::SysPerm => 3,
            Self::SysTemp => 4,
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.ubyte()? {
            0 => Ok(Self::Ok),
            1 => Ok(Self::Auth),
            2 => Ok(Self::Sys),
            3 => Ok(Self::SysPerm),
            4 => Ok(Self::SysTemp),
            _ => Err(DecodeError::Invalid {
                at: 0,
                expected: "sasl-code",
            }),
        }
    }
}

/// A performative of the SASL layer. [AMQP 5.3.3]
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SaslFrame {
    /// Server: the mechanisms that it offers, never empty. [AMQP 5.3.3.1]
    Mechanisms(Vec<String>),
    /// Client: the mechanism that it chooses. [AMQP 5.3.3.2]
    Init {
        /// The mechanism's name.
        mechanism: String,
        /// The initial response, if there is one.
        response: Option<Bytes>,
        /// The host that the client believes to talk to.
        hostname: Option<String>,
    },
    /// Server: a step of the mechanism. [AMQP 5.3.3.3]
    Challenge(Bytes),
    /// Client: a step of the mechanism. [AMQP 5.3.3.4]
    Response(Bytes),
    /// Server: the end of the login. [AMQP 5.3.3.6]
    Outcome {
        /// Whether it succeeded.
        code: SaslCode,
        /// With success: the last step of the mechanism, if it has one.
        additional_data: Option<Bytes>,
    },
}

impl SaslFrame {
    /// Decodes a frame body, after the structural check.
    pub fn decode(body: &[u8]) -> Result<Self, PerformativeError> {
        check_structure(body)?;
        let mut described = Reader::new(body).described()?;
        let mut list = |name| ListReader::new(name, &mut described.value);
        match described.descriptor {
            Descriptor::Code(MECHANISMS) | Descriptor::Symbol("amqp:sasl-mechanisms:list") => {
                let mut list = list("sasl-mechanisms")?;
                let symbols = list.required("sasl-server-mechanisms", read_symbols)?;
                let names = symbols.iter().map(|symbol| symbol.as_str().to_owned());
                Ok(Self::Mechanisms(names.collect()))
            }
            Descriptor::Code(INIT) | Descriptor::Symbol("amqp:sasl-init:list") => {
                let mut list = list("sasl-init")?;
                Ok(Self::Init {
                    mechanism: list.required("mechanism", Reader::symbol)?.to_owned(),
                    response: list.optional("initial-response", bytes)?,
                    hostname: list
                        .optional("hostname", Reader::string)?
                        .map(str::to_owned),
                })
            }
            Descriptor::Code(CHALLENGE) | Descriptor::Symbol("amqp:sasl-challenge:list") => {
                let mut list = list("sasl-challenge")?;
                Ok(Self::Challenge(list.required("challenge", bytes)?))
            }
            Descriptor::Code(RESPONSE) | Descriptor::Symbol("amqp:sasl-response:list") => {
                let mut list = list("sasl-response")?;
                Ok(Self::Response(list.required("response", bytes)?))
            }
            Descriptor::Code(OUTCOME) | Descriptor::Symbol("amqp:sasl-outcome:list") => {
                let mut list = list("sasl-outcome")?;
                Ok(Self::Outcome {
                    code: list.required("code", SaslCode::read)?,
                    additional_data: list.optional("additional-data", bytes)?,
                })
            }
            descriptor => Err(PerformativeError::Unknown {
                descriptor: format!("{descriptor:?}"),
            }),
        }
    }

    /// Appends its encoding to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Mechanisms(names) => {
                let symbols = names.iter().map(|name| Symbol::from(name.as_str()));
                let symbols: Vec<_> = symbols.collect();
                write_list(out, MECHANISMS, |list| {
                    list.field(Some(&*symbols), write_symbols);
                });
            }
            Self::Init {
                mechanism,
                response,
                hostname,
            } => write_list(out, INIT, |list| {
                list.field(Some(&**mechanism), write_symbol);
                list.field(response.as_deref(), write_binary);
                list.field(hostname.as_deref(), write_string);
            }),
            Self::Challenge(challenge) => write_list(out, CHALLENGE, |list| {
                list.field(Some(&**challenge), write_binary);
            }),
            Self::Response(response) => write_list(out, RESPONSE, |list| {
                list.field(Some(&**response), write_binary);
            }),
            Self::Outcome {
                code,
                additional_data,
            } => write_list(out, OUTCOME, |list| {
                list.field(Some(code.code()), write_ubyte);
                list.field(additional_data.as_deref(), write_binary);
            }),
        }
    }
}

fn bytes(reader: &mut Reader<'_>) -> Result<Bytes, DecodeError> {
    reader.binary().map(Bytes::copy_from_slice)
}
