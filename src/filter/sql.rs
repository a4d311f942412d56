//! What SQL filters have that selectors have not: sections, bytes, `%`, values in IN, the time.
//! [AMQP Filter Expressions 6]
//!
//! Where the specification leaves a choice it is the one of `RabbitMQ` 4.2: texts and bytes are
//! compared byte by byte, also for their order; whatever is unlike is unequal; a division gives a
//! fraction.

use std::borrow::Cow;

use super::SelectorError;
use super::evaluate::{Operand, equality, number};
use super::fields;
use super::program::{Calculation, Comparison, Field, SqlOp};
use super::tokens::TokenKind;
use crate::base::{Meter, Step, Timestamp};
use crate::message::Message;
use crate::wire::{PropertyField, Reader, Value, ValueKind, decode_value};

/// Reserved words, which are written in upper case.
const WORDS: [&str; 12] = [
    "AND", "OR", "NOT", "LIKE", "IN", "IS", "NULL", "ESCAPE", "TRUE", "FALSE", "EXISTS", "UTC",
];
/// Functions of the specification that are not offered. Their names are reserved, too.
const FUNCTIONS: [&str; 6] = ["LOWER", "UPPER", "LEFT", "RIGHT", "SUBSTRING", "DATE"];

/// The fields of the properties section, as filters write them.
const PROPERTIES: [(&str, Field); 13] = [
    ("message_id", Field::MessageId),
    ("user_id", Field::UserId),
    ("to", Field::To),
    ("subject", Field::Subject),
    ("reply_to", Field::ReplyTo),
    ("correlation_id", Field::CorrelationId),
    ("content_type", Field::ContentType),
    ("content_encoding", Field::ContentEncoding),
    ("absolute_expiry_time", Field::AbsoluteExpiryTime),
    ("creation_time", Field::CreationTime),
    ("group_id", Field::GroupId),
    ("group_sequence", Field::GroupSequence),
    ("reply_to_group_id", Field::ReplyToGroupId),
];

/// The token for a name without a section: a reserved word or an application property.
pub(super) fn word(word: &str, at: usize) -> Result<TokenKind, SelectorError> {
    if WORDS.contains(&word) {
        return Ok(TokenKind::Word(word.to_owned()));
    }
    let (word, upper) = (word.to_owned(), word.to_ascii_uppercase());
    if FUNCTIONS.contains(&word.as_str()) {
        return Err(SelectorError::Function { name: word, at });
    }
    if WORDS.contains(&upper.as_str()) || FUNCTIONS.contains(&upper.as_str()) {
        return Err(SelectorError::Reserved { word, at });
    }
    Ok(TokenKind::Property(word))
}

/// The token for a field of a section. [AMQP Filter Expressions 6.4.4.4]
pub(super) fn member(section: &str, name: &str, at: usize) -> Result<TokenKind, SelectorError> {
    let field = match section {
        "application_properties" | "application-properties" | "a" => {
            return Ok(TokenKind::Property(name.to_owned()));
        }
        "header" | "h" => match name {
            "priority" => Some(Field::Priority),
            "durable" => Some(Field::Durable),
            _ => None,
        },
        "properties" | "p" => {
            let found = PROPERTIES.iter().find(|(known, _)| *known == name);
            found.map(|(_, field)| field.clone())
        }
        _ => {
            let section = section.to_owned();
            return Err(SelectorError::Section { section, at });
        }
    };
    field
        .map(TokenKind::Field)
        .ok_or_else(|| SelectorError::Member {
            section: section.to_owned(),
            name: name.to_owned(),
            at,
        })
}

/// A number, or bytes if it begins with `0x`.
pub(super) fn read_number(text: &str) -> Option<TokenKind> {
    if let Some(digits) = text.strip_prefix("0x") {
        return read_bytes(digits).map(TokenKind::Bytes);
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().ok().map(TokenKind::Exact);
    }
    let plain = |c: char| c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '+' | '-');
    let has_digits = !text.ends_with('.') && !text.contains(".e") && !text.contains(".E");
    let number: f64 = (has_digits && text.chars().all(plain)).then(|| text.parse().ok())??;
    number.is_finite().then_some(TokenKind::Approximate(number))
}

fn read_bytes(digits: &str) -> Option<Vec<u8>> {
    let (pairs, odd) = digits.as_bytes().as_chunks::<2>();
    if pairs.is_empty() || !odd.is_empty() {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let byte = |[high, low]: &[u8; 2]| u8::try_from(digit(*high)? * 16 + digit(*low)?).ok();
    pairs.iter().map(byte).collect()
}

/// Reads one field of a message: ids and users that are no texts are bytes.
pub(super) fn field<'a>(field: &Field, message: &'a Message) -> Operand<'a> {
    let id = |field| message.property(field).map_or(Operand::Unknown, simple);
    match field {
        Field::MessageId => id(PropertyField::MessageId),
        Field::CorrelationId => id(PropertyField::CorrelationId),
        Field::UserId => message
            .user_id()
            .map_or(Operand::Unknown, |user| Operand::Bytes(Cow::Borrowed(user))),
        // Filters cannot name what needs the number of failures.
        _ => fields::read(field, message, 0),
    }
}

/// Reads the value of an application property, bytes and texts in place.
pub(super) fn property(encoded: &[u8]) -> Operand<'_> {
    let mut reader = Reader::new(encoded);
    match reader.kind() {
        None | Some(ValueKind::Null) => Operand::Unknown,
        Some(ValueKind::Binary) => {
            let bytes = reader.binary();
            bytes.map_or(Operand::Other, |bytes| Operand::Bytes(Cow::Borrowed(bytes)))
        }
        Some(ValueKind::Uuid) => {
            decode_value(encoded).map_or(Operand::Other, |(value, _)| simple(value))
        }
        Some(_) => known(fields::property(encoded)),
    }
}

fn simple(value: Value) -> Operand<'static> {
    match value {
        Value::Null => Operand::Unknown,
        Value::Binary(bytes) => Operand::Bytes(Cow::Owned(bytes.to_vec())),
        Value::Uuid(uuid) => Operand::Bytes(Cow::Owned(uuid.to_vec())),
        other => known(fields::operand(other, false)),
    }
}

/// A value that is there, whatever its type.
fn known(operand: Operand<'_>) -> Operand<'_> {
    match operand {
        Operand::Unknown => Operand::Other,
        known => known,
    }
}

/// Does one step that only programs of SQL filters have.
pub(super) fn step<'a>(
    op: SqlOp,
    stack: &mut Vec<Operand<'a>>,
    now: Timestamp,
    meter: &mut Meter,
) -> Operand<'a> {
    let mut pop = || stack.pop().unwrap_or(Operand::Unknown);
    match op {
        SqlOp::Utc => Operand::Exact(now.0),
        SqlOp::Compare(comparison) => {
            let (right, left) = (pop(), pop());
            charge_bytes(meter, &left);
            compare(comparison, &left, &right)
        }
        SqlOp::Calculate(calculation) => {
            let (right, left) = (pop(), pop());
            calculate(calculation, &left, &right)
        }
        SqlOp::Remainder => match (pop(), pop()) {
            (Operand::Exact(right), Operand::Exact(left)) if right != 0 => {
                Operand::Exact(left.wrapping_rem(right))
            }
            _ => Operand::Unknown,
        },
        SqlOp::AsText => {
            let value = pop();
            charge_bytes(meter, &value);
            as_text(value)
        }
        SqlOp::Among(count) => {
            let members = stack.split_off(stack.len().saturating_sub(count));
            let value = stack.pop().unwrap_or(Operand::Unknown);
            among(&value, &members, meter)
        }
    }
}

/// Charges for comparing a text or bytes.
fn charge_bytes(meter: &mut Meter, operand: &Operand<'_>) {
    if let Some(bytes) = bytes(operand) {
        meter.charge(Step::Bytes16, bytes.len() / 16);
    }
}

fn bytes<'a>(operand: &'a Operand<'_>) -> Option<&'a [u8]> {
    match operand {
        Operand::Text(text) => Some(text.as_bytes()),
        Operand::Bytes(bytes) => Some(bytes),
        _ => None,
    }
}

fn as_text(operand: Operand<'_>) -> Operand<'_> {
    match operand {
        Operand::Text(text) => Operand::Text(text),
        Operand::Bytes(Cow::Borrowed(bytes)) => {
            let text = str::from_utf8(bytes);
            text.map_or(Operand::Unknown, |text| Operand::Text(Cow::Borrowed(text)))
        }
        Operand::Bytes(Cow::Owned(bytes)) => {
            let text = String::from_utf8(bytes);
            text.map_or(Operand::Unknown, |text| Operand::Text(Cow::Owned(text)))
        }
        _ => Operand::Unknown,
    }
}

/// Compares two values: unlike types are unequal, and have no order.
fn compare(comparison: Comparison, left: &Operand<'_>, right: &Operand<'_>) -> Operand<'static> {
    let order = match (left, right) {
        (Operand::Unknown, _) | (_, Operand::Unknown) => return Operand::Unknown,
        (Operand::Bool(left), Operand::Bool(right)) => return equality(comparison, left == right),
        (Operand::Exact(left), Operand::Exact(right)) => Some(left.cmp(right)),
        _ => match (bytes(left), bytes(right)) {
            (Some(left), Some(right)) => Some(left.cmp(right)),
            _ => number(left)
                .zip(number(right))
                .and_then(|(left, right)| left.partial_cmp(&right)),
        },
    };
    Operand::Bool(match order {
        Some(order) => comparison.holds(order),
        None => comparison == Comparison::NotEqual,
    })
}

/// Whether a value is equal to one of the others; these may be missing.
fn among(value: &Operand<'_>, members: &[Operand<'_>], meter: &mut Meter) -> Operand<'static> {
    if *value == Operand::Unknown {
        return Operand::Unknown;
    }
    for member in members {
        meter.charge(Step::Term, 1);
        charge_bytes(meter, member);
        if meter.is_used_up() {
            return Operand::Unknown;
        }
        if compare(Comparison::Equal, value, member) == Operand::Bool(true) {
            return Operand::Bool(true);
        }
    }
    Operand::Bool(false)
}

/// Calculates: whole numbers that become too large go on as approximate ones, and a division is one
/// of approximate numbers. A division by zero has no result.
fn calculate(
    calculation: Calculation,
    left: &Operand<'_>,
    right: &Operand<'_>,
) -> Operand<'static> {
    if let (Operand::Exact(left), Operand::Exact(right)) = (left, right) {
        let result = match calculation {
            Calculation::Add => left.checked_add(*right),
            Calculation::Subtract => left.checked_sub(*right),
            Calculation::Multiply => left.checked_mul(*right),
            Calculation::Divide => None,
        };
        if let Some(result) = result {
            return Operand::Exact(result);
        }
    }
    let (Some(left), Some(right)) = (number(left), number(right)) else {
        return Operand::Unknown;
    };
    Operand::Approximate(match calculation {
        Calculation::Add => left + right,
        Calculation::Subtract => left - right,
        Calculation::Multiply => left * right,
        Calculation::Divide if right == 0.0 => return Operand::Unknown,
        Calculation::Divide => left / right,
    })
}
