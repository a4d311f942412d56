//! The sections of a message, found in place. [AMQP 3.2]

use super::check::check_annotation_keys;
use super::header;
use super::performative::ResumePoint;
use super::writer::{OpenCompound, begin_map, write_descriptor};
use super::{
    DecodeError, Descriptor, HeaderFields, Reader, Value, ValueKind, check_structure, codes,
};

/// The location of one section: offsets from the first byte of the message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Section {
    /// Offset of the first byte, which is the descriptor's.
    pub start: u32,
    /// Offset of the first byte of the value under the descriptor.
    pub value: u32,
    /// Offset behind the last byte; equal to `start` if the section is absent.
    pub end: u32,
}

/// The locations of the sections of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SectionIndex {
    /// The header. [AMQP 3.2.1]
    pub header: Section,
    /// The delivery-annotations. [AMQP 3.2.2]
    pub delivery_annotations: Section,
    /// The message-annotations. [AMQP 3.2.3]
    pub message_annotations: Section,
    /// The properties. [AMQP 3.2.4]
    pub properties: Section,
    /// The application-properties. [AMQP 3.2.5]
    pub application_properties: Section,
    /// All sections of the body; `value` is that of the first one. [AMQP 3.2.6, 3.2.7, 3.2.8]
    pub body: Section,
    /// The footer. [AMQP 3.2.9]
    pub footer: Section,
    /// Offset at which the bare message begins: properties, application-properties or body.
    pub bare: u32,
    /// The fields of the header, if the walk read them in passing.
    pub(super) header_fields: Option<HeaderFields>,
}

/// A field of the properties section, by its index in the list. [AMQP 3.2.4]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PropertyField {
    /// Field `message-id`: a ulong, uuid, binary or string.
    MessageId = 0,
    /// Field `user-id`: a binary.
    UserId = 1,
    /// Field `to`: the address of the destination.
    To = 2,
    /// Field `subject`: a string.
    Subject = 3,
    /// Field `reply-to`: an address.
    ReplyTo = 4,
    /// Field `correlation-id`: a ulong, uuid, binary or string.
    CorrelationId = 5,
    /// Field `content-type`: a symbol.
    ContentType = 6,
    /// Field `content-encoding`: a symbol.
    ContentEncoding = 7,
    /// Field `absolute-expiry-time`: a timestamp.
    AbsoluteExpiryTime = 8,
    /// Field `creation-time`: a timestamp.
    CreationTime = 9,
    /// Field `group-id`: a string.
    GroupId = 10,
    /// Field `group-sequence`: a uint.
    GroupSequence = 11,
    /// Field `reply-to-group-id`: a string.
    ReplyToGroupId = 12,
}

/// Begins a message-annotations section: write keys and values, then call [`end`](super::end). [AMQP 3.2.3]
pub fn begin_message_annotations(out: &mut Vec<u8>) -> OpenCompound {
    write_descriptor(out, SectionKind::MessageAnnotations.code());
    begin_map(out)
}

impl SectionIndex {
    /// Notes where a section is.
    pub(super) fn set(&mut self, kind: SectionKind, section: Section) {
        match kind {
            SectionKind::Header => self.header = section,
            SectionKind::DeliveryAnnotations => self.delivery_annotations = section,
            SectionKind::MessageAnnotations => self.message_annotations = section,
            SectionKind::Properties => self.properties = section,
            SectionKind::ApplicationProperties => self.application_properties = section,
            SectionKind::Footer => self.footer = section,
            SectionKind::Data | SectionKind::Sequence | SectionKind::Value => {
                if self.body.is_absent() {
                    self.body = section;
                }
                self.body.end = section.end;
            }
        }
    }

    /// Number of sections in front of the body.
    pub fn sections_before_body(&self) -> u32 {
        let sections = [
            self.header,
            self.delivery_annotations,
            self.message_annotations,
            self.properties,
            self.application_properties,
        ];
        sections
            .into_iter()
            .map(|it| u32::from(!it.is_absent()))
            .sum()
    }

    /// Reads the header section of `message`, the bytes that were walked.
    pub fn read_header(&self, message: &[u8]) -> Result<HeaderFields, DecodeError> {
        if let Some(fields) = self.header_fields {
            return Ok(fields);
        }
        if self.header.is_absent() {
            return Ok(HeaderFields::default());
        }
        header::read(message, self.header.value as usize)
    }

    /// Reads the value of the body of `message`, the bytes that were walked; none if the body is
    /// absent or not an `amqp-value`. [AMQP 3.2.8]
    pub fn read_value_body(&self, message: &[u8]) -> Result<Option<Value>, DecodeError> {
        if self.body.is_absent() {
            return Ok(None);
        }
        match section_kind(message, self.body.start as usize)? {
            (SectionKind::Value, at) => Reader::starting_at(message, at).value().map(Some),
            _ => Ok(None),
        }
    }
}

/// Where a message goes on of which these bytes have arrived, and how many of them are in front of that:
/// fewer than all only if they are more than `sections_max` sections. [AMQP 3.4.1]
pub fn resume_point(bytes: &[u8], sections_max: u32) -> (ResumePoint, usize) {
    let mut at = 0;
    for section_number in 0..sections_max {
        let section = section_kind(bytes, at).and_then(|(kind, value)| {
            let length = section_value(bytes, value, kind)?;
            Ok(value + length)
        });
        let Ok(end) = section else {
            let section_offset = (bytes.len() - at) as u64;
            let point = ResumePoint {
                section_number,
                section_offset,
            };
            return (point, bytes.len());
        };
        at = end;
    }
    let point = ResumePoint {
        section_number: sections_max,
        section_offset: 0,
    };
    (point, at)
}

/// Reads the first section of `bytes`: its kind, its value, and the bytes behind it.
pub fn first_section(bytes: &[u8]) -> Result<(SectionKind, Value, &[u8]), DecodeError> {
    let (kind, at) = section_kind(bytes, 0)?;
    let mut reader = Reader::starting_at(bytes, at);
    let value = reader.value()?;
    Ok((kind, value, reader.rest()))
}

impl Section {
    /// Whether the message does not have it.
    pub const fn is_absent(self) -> bool {
        self.start == self.end
    }
}

/// The kinds of section in the order in which they must come. [AMQP 3.2]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[allow(missing_docs, reason = "the names are the specification's")]
pub enum SectionKind {
    Header = 0x70,
    DeliveryAnnotations = 0x71,
    MessageAnnotations = 0x72,
    Properties = 0x73,
    ApplicationProperties = 0x74,
    Data = 0x75,
    Sequence = 0x76,
    Value = 0x77,
    Footer = 0x78,
}

impl SectionKind {
    /// The descriptor's number for such a section.
    pub const fn code(self) -> u64 {
        self as u64
    }

    fn from_descriptor(descriptor: Descriptor<'_>) -> Option<Self> {
        let found = match descriptor {
            Descriptor::Code(code) => {
                let place = code.checked_sub(Self::Header.code())?;
                NAMES.get(usize::try_from(place).ok()?)
            }
            Descriptor::Symbol(name) => NAMES.iter().find(|(_, text)| *text == name),
        };
        found.map(|(kind, _)| *kind)
    }

    pub(super) fn name(self) -> &'static str {
        NAMES
            .iter()
            .find(|(kind, _)| *kind == self)
            .map_or("", |(_, name)| name)
    }

    /// Whether this may come after `previous`: later in the order, or one more part of the same body.
    pub(super) fn may_follow(self, previous: Self) -> bool {
        let body = Self::Data..=Self::Value;
        if body.contains(&self) && body.contains(&previous) {
            return self == previous && self != Self::Value;
        }
        self > previous
    }
}

/// The symbolic descriptors, in the order of the codes.
const NAMES: [(SectionKind, &str); 9] = [
    (SectionKind::Header, "amqp:header:list"),
    (
        SectionKind::DeliveryAnnotations,
        "amqp:delivery-annotations:map",
    ),
    (
        SectionKind::MessageAnnotations,
        "amqp:message-annotations:map",
    ),
    (SectionKind::Properties, "amqp:properties:list"),
    (
        SectionKind::ApplicationProperties,
        "amqp:application-properties:map",
    ),
    (SectionKind::Data, "amqp:data:binary"),
    (SectionKind::Sequence, "amqp:amqp-sequence:list"),
    (SectionKind::Value, "amqp:amqp-value:*"),
    (SectionKind::Footer, "amqp:footer:map"),
];

/// The encoding of a body with the value null.
const NULL_BODY: [u8; 4] = [0x00, 0x53, 0x77, 0x40];

/// Skips a null body in front of a message's other sections, where it does not belong: the RabbitMQ
/// Python client 1.0 sends requests without a body so, and RabbitMQ accepts them.
pub fn without_leading_null(message: &[u8]) -> &[u8] {
    match message.strip_prefix(&NULL_BODY) {
        Some(rest) if !rest.is_empty() => rest,
        _ => message,
    }
}

/// Finds the sections of a message and checks their order, types, keys and structure.
///
/// Nothing is allocated. A message without body is accepted; one without any section is not.
pub fn walk(message: &[u8]) -> Result<SectionIndex, DecodeError> {
    let mut index = SectionIndex::default();
    let mut bare = None;
    let mut previous: Option<SectionKind> = None;
    let mut at = 0;
    while at < message.len() {
        let (kind, value) = section_kind(message, at)?;
        if previous.is_some_and(|previous| !kind.may_follow(previous)) {
            return Err(DecodeError::SectionOrder {
                at,
                section: kind.name(),
            });
        }
        previous = Some(kind);
        let fast_path = match kind {
            SectionKind::Header => header::fast_path(message.get(value..).unwrap_or_default()),
            _ => None,
        };
        let length = match fast_path {
            Some((fields, length)) => {
                index.header_fields = Some(fields);
                length
            }
            None => section_value(message, value, kind)?,
        };
        let end = value + length;
        if kind >= SectionKind::Properties {
            bare = bare.or(Some(at));
        }
        let section = Section {
            start: offset(at)?,
            value: offset(value)?,
            end: offset(end)?,
        };
        index.set(kind, section);
        at = end;
    }
    if previous.is_none() {
        return Err(DecodeError::EmptyMessage);
    }
    index.bare = offset(bare.unwrap_or(at))?;
    Ok(index)
}

/// Reads the descriptor of the section at `at`; also returns the offset of its value.
pub(super) fn section_kind(message: &[u8], at: usize) -> Result<(SectionKind, usize), DecodeError> {
    // The usual encoding first.
    if let Some(&[codes::DESCRIBED, codes::SMALL_ULONG, code]) =
        message.get(at..).and_then(<[u8]>::first_chunk)
        && let Some(kind) = SectionKind::from_descriptor(Descriptor::Code(code.into()))
    {
        return Ok((kind, at + 3));
    }
    let no_section = DecodeError::NoSection { at };
    let mut reader = Reader::starting_at(message, at);
    let descriptor = reader.descriptor().map_err(|_| no_section.clone())?;
    let kind = SectionKind::from_descriptor(descriptor).ok_or(no_section)?;
    Ok((kind, reader.at()))
}

/// Checks type, structure and keys of a section's value; returns its length.
pub(super) fn section_value(
    message: &[u8],
    at: usize,
    kind: SectionKind,
) -> Result<usize, DecodeError> {
    let mut reader = Reader::starting_at(message, at);
    // A binary that can be read needs no other check.
    if kind == SectionKind::Data && reader.binary().is_ok() {
        return Ok(reader.at() - at);
    }
    let value = message.get(at..).unwrap_or_default();
    let length = check_structure(value).map_err(|error| error.moved_by(at))?;
    let mut reader = Reader::starting_at(message, at);
    match kind {
        SectionKind::Header | SectionKind::Properties | SectionKind::Sequence => {
            reader.list()?;
        }
        SectionKind::Data => {
            reader.binary()?;
        }
        SectionKind::DeliveryAnnotations
        | SectionKind::MessageAnnotations
        | SectionKind::Footer => check_annotation_keys(reader)?,
        SectionKind::ApplicationProperties => check_property_keys(reader)?,
        SectionKind::Value => {}
    }
    Ok(length)
}

/// Application properties have keys of type string only. [AMQP 3.2.5]
fn check_property_keys(mut map: Reader<'_>) -> Result<(), DecodeError> {
    for pair in map.map()? {
        let pair = pair?;
        if pair.kind_of_key() != Some(ValueKind::String) {
            let expected = "string as application property key";
            return Err(DecodeError::Type {
                at: pair.at,
                expected,
                found: pair.key_type(),
            });
        }
    }
    Ok(())
}

/// Offsets are four bytes: no message reaches 4 GiB.
pub(super) fn offset(at: usize) -> Result<u32, DecodeError> {
    u32::try_from(at).map_err(|_| DecodeError::TooLong)
}
