//! Delivery states. [AMQP 3.4]

use std::sync::Arc;

use bytes::Bytes;

use super::{Error, codes, composite, fields, performatives};
use crate::wire::{self, DecodeError, Described, Fields, Reader};

/// A place in a message: where it goes on when its delivery is resumed. [AMQP 3.4.1]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct ResumePoint {
    /// Number of the section, from 0.
    pub section_number: u32,
    /// Offset of the byte in the section, its descriptor included.
    pub section_offset: u64,
}

/// The state of a delivery at one end. [AMQP 2.7.6, 3.4]
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum DeliveryState {
    /// A part of it has arrived; not an outcome. [AMQP 3.4.1]
    Received(ResumePoint),
    /// The receiver has processed it. [AMQP 3.4.2]
    Accepted,
    /// The receiver cannot process it. [AMQP 3.4.3]
    Rejected {
        /// The receiver's reason. Shared: one disposition may be for many deliveries.
        error: Option<Arc<Error>>,
    },
    /// It was not and will not be processed; as if never sent. [AMQP 3.4.4]
    Released,
    /// It was not processed, and is to be changed. [AMQP 3.4.5]
    Modified {
        /// Whether it counts as a failed delivery; absent: no. Kept absent, because it is echoed.
        delivery_failed: Option<bool>,
        /// Whether it must not be sent to this link again; absent: no.
        undeliverable_here: Option<bool>,
        /// The encoded map of annotations to merge, as received, structure and keys checked.
        message_annotations: Option<Bytes>,
    },
    /// A transaction was declared. [AMQP 4.5.5]
    Declared {
        /// The transaction's id.
        txn_id: Bytes,
    },
    /// A state within a transaction. [AMQP 4.5.8]
    Transactional {
        /// The transaction's id.
        txn_id: Bytes,
        /// The provisional outcome, encoded; none without one.
        outcome: Option<Bytes>,
    },
    /// A state that is not known.
    Unknown {
        /// Its descriptor's number, 0 if that is a symbol.
        descriptor: u64,
    },
}

impl DeliveryState {
    /// Whether it is one of the four outcomes of messaging: terminal, outside of a transaction.
    pub const fn is_outcome(&self) -> bool {
        matches!(
            self,
            Self::Accepted | Self::Rejected { .. } | Self::Released | Self::Modified { .. }
        )
    }

    pub(super) fn read(described: Described<'_>) -> Result<Self, DecodeError> {
        let Described {
            descriptor,
            mut value,
        } = described;
        match codes::number(descriptor) {
            codes::ACCEPTED => Ok(Self::Accepted),
            codes::RELEASED => Ok(Self::Released),
            codes::REJECTED => {
                let error = value
                    .list()?
                    .raw()?
                    .and_then(|raw| performatives::consumer_error(&mut Reader::new(raw)).ok())
                    .filter(Error::says_something)
                    .map(Arc::new);
                Ok(Self::Rejected { error })
            }
            codes::MODIFIED => Self::read_modified(value.list()?),
            codes::RECEIVED => {
                let mut list = value.list()?;
                Ok(Self::Received(ResumePoint {
                    section_number: fields::required(list.uint()?, "section-number")?,
                    section_offset: fields::required(list.ulong()?, "section-offset")?,
                }))
            }
            codes::DECLARED => {
                let txn_id = fields::required(value.list()?.binary()?, "txn-id")?;
                Ok(Self::Declared {
                    txn_id: Bytes::copy_from_slice(txn_id),
                })
            }
            codes::TRANSACTIONAL_STATE => {
                let mut list = value.list()?;
                let txn_id = fields::required(list.binary()?, "txn-id")?;
                let txn_id = Bytes::copy_from_slice(txn_id);
                let outcome = list.raw()?.map(Bytes::copy_from_slice);
                Ok(Self::Transactional { txn_id, outcome })
            }
            descriptor => Ok(Self::Unknown { descriptor }),
        }
    }

    fn read_modified(mut list: Fields<'_>) -> Result<Self, DecodeError> {
        let delivery_failed = list.bool()?;
        let undeliverable_here = list.bool()?;
        let message_annotations = list.raw()?;
        if message_annotations.is_some_and(|map| wire::check_annotations(map).is_err()) {
            // It ends the session of whoever says it, and not all that its connection does.
            return Ok(Self::Unknown {
                descriptor: codes::MODIFIED,
            });
        }
        let message_annotations = message_annotations.map(Bytes::copy_from_slice);
        Ok(Self::Modified {
            delivery_failed,
            undeliverable_here,
            message_annotations,
        })
    }

    /// Reads one encoded state.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        Self::read(Reader::new(bytes).described()?)
    }

    /// Appends its encoding. An unknown one is written as null.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Accepted => write_empty(out, codes::ACCEPTED),
            Self::Released => write_empty(out, codes::RELEASED),
            Self::Rejected { error: None } => write_empty(out, codes::REJECTED),
            Self::Rejected { error: Some(error) } => {
                write_list(out, codes::REJECTED, |out| {
                    composite::write(out, &**error);
                    1
                });
            }
            Self::Modified {
                delivery_failed,
                undeliverable_here,
                message_annotations,
            } => {
                write_list(out, codes::MODIFIED, |out| {
                    for flag in [delivery_failed, undeliverable_here] {
                        match flag {
                            Some(flag) => wire::write_bool(out, *flag),
                            None => wire::write_null(out),
                        }
                    }
                    let Some(map) = message_annotations else {
                        return 2;
                    };
                    out.extend_from_slice(map);
                    3
                });
            }
            Self::Received(point) => {
                write_list(out, codes::RECEIVED, |out| {
                    wire::write_uint(out, point.section_number);
                    wire::write_ulong(out, point.section_offset);
                    2
                });
            }
            Self::Declared { txn_id } => {
                write_list(out, codes::DECLARED, |out| {
                    wire::write_binary(out, txn_id);
                    1
                });
            }
            Self::Transactional { txn_id, outcome } => {
                write_list(out, codes::TRANSACTIONAL_STATE, |out| {
                    wire::write_binary(out, txn_id);
                    let Some(outcome) = outcome else { return 1 };
                    out.extend_from_slice(outcome);
                    2
                });
            }
            Self::Unknown { .. } => wire::write_null(out),
        }
    }
}

fn write_empty(out: &mut Vec<u8>, code: u64) {
    wire::write_descriptor(out, code);
    let compound = wire::begin_list(out);
    wire::end(out, compound, 0);
}

fn write_list(out: &mut Vec<u8>, code: u64, write: impl FnOnce(&mut Vec<u8>) -> usize) {
    wire::write_descriptor(out, code);
    let compound = wire::begin_list(out);
    let count = write(out);
    wire::end(out, compound, count);
}
