//! SASL performatives. [AMQP 5.3.3]

use bytes::Bytes;
pub use fe2o3_amqp_types::sasl::SaslCode;
use fe2o3_amqp_types::sasl::{SaslChallenge, SaslInit, SaslMechanisms, SaslOutcome, SaslResponse};
use serde_amqp::primitives::{Binary, Symbol};

use super::performative::{FieldArray, PerformativeError, typed, write_typed};
use super::{Descriptor, Reader};

/// A performative of the SASL layer. [AMQP 5.3.3]
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SaslFrame {
    /// Server: what it offers, never empty. [AMQP 5.3.3.1]
    Mechanisms(Vec<String>),
    /// Client: its choice. [AMQP 5.3.3.2]
    Init {
        /// The mechanism.
        mechanism: String,
        /// The initial response.
        response: Option<Bytes>,
        /// The host it believes to talk to.
        hostname: Option<String>,
    },
    /// Server: a step of the mechanism. [AMQP 5.3.3.3]
    Challenge(Bytes),
    /// Client: a step of the mechanism. [AMQP 5.3.3.4]
    Response(Bytes),
    /// Server: the end. [AMQP 5.3.3.6]
    Outcome {
        /// The verdict.
        code: SaslCode,
        /// With success: the last step of the mechanism, if it has one.
        additional_data: Option<Bytes>,
    },
}

impl SaslFrame {
    /// Decodes a frame body, after the structural check.
    pub fn decode(body: &[u8]) -> Result<Self, PerformativeError> {
        let described = Reader::new(body).described()?;
        let bytes = |binary: Binary| Bytes::from(binary.into_vec());
        match described.descriptor {
            Descriptor::Code(0x40) | Descriptor::Symbol("amqp:sasl-mechanisms:list") => {
                let frame: SaslMechanisms = typed(body, "sasl-mechanisms", &[])?;
                let symbols = frame.sasl_server_mechanisms.0;
                Ok(Self::Mechanisms(
                    symbols.into_iter().map(Symbol::into_inner).collect(),
                ))
            }
            Descriptor::Code(0x41) | Descriptor::Symbol("amqp:sasl-init:list") => {
                let frame: SaslInit = typed(body, "sasl-init", &[])?;
                Ok(Self::Init {
                    mechanism: frame.mechanism.into_inner(),
                    response: frame.initial_response.map(bytes),
                    hostname: frame.hostname,
                })
            }
            Descriptor::Code(0x42) | Descriptor::Symbol("amqp:sasl-challenge:list") => {
                let frame: SaslChallenge = typed(body, "sasl-challenge", &[])?;
                Ok(Self::Challenge(bytes(frame.challenge)))
            }
            Descriptor::Code(0x43) | Descriptor::Symbol("amqp:sasl-response:list") => {
                let frame: SaslResponse = typed(body, "sasl-response", &[])?;
                Ok(Self::Response(bytes(frame.response)))
            }
            Descriptor::Code(0x44) | Descriptor::Symbol("amqp:sasl-outcome:list") => {
                let frame: SaslOutcome = typed(body, "sasl-outcome", &[])?;
                Ok(Self::Outcome {
                    code: frame.code,
                    additional_data: frame.additional_data.map(bytes),
                })
            }
            descriptor => Err(PerformativeError::Unknown {
                descriptor: format!("{descriptor:?}"),
            }),
        }
    }

    /// Encodes it behind what is in `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let binary = |bytes: &Bytes| Binary::from(bytes.to_vec());
        match self {
            Self::Mechanisms(names) => {
                let symbols = names.iter().map(|name| Symbol::from(name.as_str()));
                let sasl_server_mechanisms = FieldArray::from(symbols.collect::<Vec<_>>());
                write_typed(
                    out,
                    &SaslMechanisms {
                        sasl_server_mechanisms,
                    },
                );
            }
            Self::Init {
                mechanism,
                response,
                hostname,
            } => {
                let init = SaslInit {
                    mechanism: Symbol::from(mechanism.as_str()),
                    initial_response: response.as_ref().map(binary),
                    hostname: hostname.clone(),
                };
                write_typed(out, &init);
            }
            Self::Challenge(challenge) => {
                write_typed(
                    out,
                    &SaslChallenge {
                        challenge: binary(challenge),
                    },
                );
            }
            Self::Response(response) => {
                write_typed(
                    out,
                    &SaslResponse {
                        response: binary(response),
                    },
                );
            }
            Self::Outcome {
                code,
                additional_data,
            } => {
                let outcome = SaslOutcome {
                    code: code.clone(),
                    additional_data: additional_data.as_ref().map(binary),
                };
                write_typed(out, &outcome);
            }
        }
    }
}
