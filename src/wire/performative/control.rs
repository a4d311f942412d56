//! The messages to a coordinator of transactions. [AMQP 4.5.2 to 4.5.4]

use bytes::Bytes;

use super::{codes, fields};
use crate::wire::sections::{SectionKind, section_kind};
use crate::wire::{self, DecodeError, Reader};

/// What a controller asks its coordinator for: the value of the message's body.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Control {
    /// Begins a transaction. [AMQP 4.5.3]
    Declare {
        /// Whether it is to be a part of a distributed transaction, whose id is not read.
        has_global_id: bool,
    },
    /// Ends a transaction. [AMQP 4.5.4]
    Discharge {
        /// The transaction's id.
        txn_id: Bytes,
        /// Whether its work is to be undone.
        fail: bool,
    },
}

impl Control {
    /// Reads a whole message.
    ///
    /// "The body of the message \[consists\] of a single amqp-value section containing a \[...\]
    /// discharge" or declare.
    pub fn read(message: &[u8]) -> Result<Self, DecodeError> {
        let index = wire::walk(message)?;
        let wrong = DecodeError::Invalid {
            at: index.body.start as usize,
            expected: "amqp-value with declare or discharge",
        };
        if index.body.is_absent() {
            return Err(wrong);
        }
        let (kind, at) = section_kind(message, index.body.start as usize)?;
        if kind != SectionKind::Value {
            return Err(wrong);
        }
        let Ok(mut described) = Reader::starting_at(message, at).described() else {
            return Err(wrong);
        };
        match codes::number(described.descriptor) {
            codes::DECLARE => {
                let has_global_id = described.value.list()?.raw()?.is_some();
                Ok(Self::Declare { has_global_id })
            }
            codes::DISCHARGE => {
                let mut list = described.value.list()?;
                let txn_id = fields::required(list.binary()?, "txn-id of discharge")?;
                Ok(Self::Discharge {
                    txn_id: Bytes::copy_from_slice(txn_id),
                    fail: list.bool()?.unwrap_or(false),
                })
            }
            _ => Err(wrong),
        }
    }

    /// Appends a whole message.
    pub fn write(&self, out: &mut Vec<u8>) {
        wire::write_descriptor(out, SectionKind::Value.code());
        let code = match self {
            Self::Declare { .. } => codes::DECLARE,
            Self::Discharge { .. } => codes::DISCHARGE,
        };
        wire::write_descriptor(out, code);
        let compound = wire::begin_list(out);
        let count = match self {
            Self::Declare {
                has_global_id: false,
            } => 0,
            Self::Declare {
                has_global_id: true,
            } => {
                wire::write_binary(out, b"global");
                1
            }
            Self::Discharge { txn_id, fail } => {
                wire::write_binary(out, txn_id);
                wire::write_bool(out, *fail);
                2
            }
        };
        wire::end(out, compound, count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(control: &Control) {
        let mut out = Vec::new();
        control.write(&mut out);
        assert_eq!(Control::read(&out).as_ref(), Ok(control));
        for end in 0..out.len() {
            assert!(Control::read(&out[..end]).is_err(), "cut at {end}");
        }
    }

    #[test]
    fn declare_and_discharge_are_read_as_they_were_written() {
        for has_global_id in [false, true] {
            round_trip(&Control::Declare { has_global_id });
        }
        for (txn_id, fail) in [(&b""[..], false), (b"t", true), (&[7; 300], false)] {
            let txn_id = Bytes::copy_from_slice(txn_id);
            round_trip(&Control::Discharge { txn_id, fail });
        }
    }

    #[test]
    fn a_controller_may_name_descriptors_and_write_a_header() {
        // Header, then amqp-value with `amqp:discharge:list` of a binary, without `fail`.
        let mut message = vec![0x00, 0x53, 0x70, 0x45, 0x00, 0x53, 0x77, 0x00, 0xa3, 19];
        message.extend_from_slice(b"amqp:discharge:list");
        message.extend_from_slice(&[0xc0, 4, 1, 0xa0, 1, 9]);
        let txn_id = Bytes::from_static(&[9]);
        let fail = false;
        let expected = Ok(Control::Discharge { txn_id, fail });
        assert_eq!(Control::read(&message), expected);
    }

    #[test]
    fn anything_else_is_refused() {
        let data = [0x00, 0x53, 0x75, 0xa0, 1, 0];
        let text = [0x00, 0x53, 0x77, 0xa1, 1, b'x'];
        let accepted = [0x00, 0x53, 0x77, 0x00, 0x53, 0x24, 0x45];
        let without_id = [0x00, 0x53, 0x77, 0x00, 0x53, 0x32, 0x45];
        let properties_only = [0x00, 0x53, 0x73, 0x45];
        for message in [&data[..], &text, &accepted, &without_id, &properties_only] {
            assert!(Control::read(message).is_err(), "{message:02x?}");
        }
    }
}
