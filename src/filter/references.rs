//! Property filters: references to which properties of a message are compared.
//! [AMQP Filter Expressions 4]

use super::SelectorError;
use crate::base::limits::{FILTER_FIELDS_MAX, PROPERTIES_LOOKED_AT_BYTES, SELECTOR_BYTES_MAX};
use crate::base::{Meter, Step};
use crate::message::Message;
use crate::wire::{PropertyField, Reader, Value, ValueKind, decode_value};

/// The references of one consumer, all of which have to match.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct References {
    properties: Vec<(PropertyField, Reference)>,
    application: Vec<(Box<str>, Reference)>,
}

/// What a property is compared with.
#[derive(Clone, PartialEq, Debug)]
enum Reference {
    /// Null: any value matches.
    Any,
    Prefix(Box<str>),
    Suffix(Box<str>),
    /// A string or symbol, which are alike.
    Text(Box<str>),
    Whole(i128),
    Real(f64),
    /// A value of another type, which has to be equal.
    Same(Value),
}

/// The names of the fields, as filters write them.
const FIELDS: [(&str, PropertyField); 13] = [
    ("message-id", PropertyField::MessageId),
    ("user-id", PropertyField::UserId),
    ("to", PropertyField::To),
    ("subject", PropertyField::Subject),
    ("reply-to", PropertyField::ReplyTo),
    ("correlation-id", PropertyField::CorrelationId),
    ("content-type", PropertyField::ContentType),
    ("content-encoding", PropertyField::ContentEncoding),
    ("absolute-expiry-time", PropertyField::AbsoluteExpiryTime),
    ("creation-time", PropertyField::CreationTime),
    ("group-id", PropertyField::GroupId),
    ("group-sequence", PropertyField::GroupSequence),
    ("reply-to-group-id", PropertyField::ReplyToGroupId),
];

impl References {
    /// Adds the pairs of an `amqp:properties-filter`.
    pub fn add_properties(&mut self, pairs: &[(Value, Value)]) -> Result<(), SelectorError> {
        check_size(pairs)?;
        for (key, value) in pairs {
            let (Value::Symbol(name) | Value::String(name)) = key else {
                return Err(SelectorError::FieldName);
            };
            let field = FIELDS.iter().find(|(known, _)| known == name);
            let Some((_, field)) = field else {
                return Err(SelectorError::Field { name: name.clone() });
            };
            self.properties.push((*field, Reference::of(name, value)?));
        }
        Ok(())
    }

    /// Adds the pairs of an `amqp:application-properties-filter`.
    pub fn add_application_properties(
        &mut self,
        pairs: &[(Value, Value)],
    ) -> Result<(), SelectorError> {
        check_size(pairs)?;
        for (key, value) in pairs {
            let (Value::String(name) | Value::Symbol(name)) = key else {
                return Err(SelectorError::FieldName);
            };
            let reference = Reference::of(name, value)?;
            self.application.push((name.as_str().into(), reference));
        }
        Ok(())
    }

    /// Adds others, which have to match, too.
    pub(super) fn append(&mut self, others: Self) {
        self.properties.extend(others.properties);
        self.application.extend(others.application);
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.properties.is_empty() && self.application.is_empty()
    }

    /// Whether a message has properties that match all of them; false if looking would take too
    /// long.
    pub(super) fn match_all(&self, message: &Message, meter: &mut Meter) -> bool {
        let bytes = message.properties_len();
        for (field, reference) in &self.properties {
            // Finding one means passing those in front of it.
            meter.charge(Step::Term, 1);
            meter.charge(Step::Bytes16, bytes / 16);
            if bytes > PROPERTIES_LOOKED_AT_BYTES || meter.is_used_up() {
                return false;
            }
            let value = message.property(*field).unwrap_or(Value::Null);
            if !reference.matches(&value) {
                return false;
            }
        }
        self.application.is_empty() || self.match_application(message, meter)
    }

    /// Compares the application properties in one pass. The first of a name counts.
    fn match_application(&self, message: &Message, meter: &mut Meter) -> bool {
        let mut missing = self.application.len();
        let mut found = vec![false; missing];
        let mut is_equal = true;
        let looked = message.look_for_properties(
            |name| self.application.iter().any(|(wanted, _)| **wanted == *name),
            |name, encoded| {
                let all = self.application.iter().zip(&mut found);
                for ((wanted, reference), found) in all {
                    if **wanted == *name && !std::mem::replace(found, true) {
                        missing -= 1;
                        is_equal &= reference.matches_encoded(encoded);
                    }
                }
                missing == 0 || !is_equal
            },
        );
        meter.charge(Step::Pair, looked.pairs);
        meter.charge(Step::Bytes16, looked.bytes / 16);
        let terms = looked.pairs.saturating_mul(self.application.len());
        meter.charge(Step::Term, terms);
        missing == 0 && is_equal && !meter.is_used_up()
    }
}

impl Reference {
    fn of(name: &str, value: &Value) -> Result<Self, SelectorError> {
        Ok(match value {
            Value::Null => Self::Any,
            Value::String(text) => match text.strip_prefix('&') {
                None => Self::Text(text.as_str().into()),
                Some(rest) => {
                    if let Some(prefix) = rest.strip_prefix("p:") {
                        Self::Prefix(prefix.into())
                    } else if let Some(suffix) = rest.strip_prefix("s:") {
                        Self::Suffix(suffix.into())
                    } else if rest.starts_with('&') {
                        Self::Text(rest.into())
                    } else {
                        let name = name.to_owned();
                        return Err(SelectorError::Modifier { name });
                    }
                }
            },
            Value::Symbol(text) => Self::Text(text.as_str().into()),
            Value::List(_) | Value::Map(_) | Value::Array(_) | Value::Described(_) => {
                let name = name.to_owned();
                return Err(SelectorError::Compound { name });
            }
            other => match number(other) {
                Some(number) => number,
                None => Self::Same(other.clone()),
            },
        })
    }

    fn matches(&self, value: &Value) -> bool {
        match (self, value) {
            (Self::Any, _) => true,
            (Self::Text(text), Value::String(found) | Value::Symbol(found)) => **text == **found,
            (Self::Prefix(text), Value::String(found) | Value::Symbol(found)) => {
                found.starts_with(&**text)
            }
            (Self::Suffix(text), Value::String(found) | Value::Symbol(found)) => {
                found.ends_with(&**text)
            }
            (Self::Same(wanted), found) => wanted == found,
            (Self::Whole(wanted), found) => match number(found) {
                Some(Self::Whole(found)) => *wanted == found,
                Some(Self::Real(found)) => same(*wanted, found),
                _ => false,
            },
            (Self::Real(wanted), found) => match number(found) {
                Some(Self::Whole(found)) => same(found, *wanted),
                Some(Self::Real(found)) => {
                    wanted.total_cmp(&found).is_eq() || *wanted - found == 0.0
                }
                _ => false,
            },
            (Self::Text(_) | Self::Prefix(_) | Self::Suffix(_), _) => false,
        }
    }

    /// The same for a value that is not decoded: those of compound types match nothing but null.
    fn matches_encoded(&self, encoded: &[u8]) -> bool {
        if *self == Self::Any {
            return true;
        }
        match Reader::new(encoded).kind() {
            Some(ValueKind::List | ValueKind::Map | ValueKind::Array | ValueKind::Described)
            | None => false,
            Some(_) => decode_value(encoded).is_ok_and(|(value, _)| self.matches(&value)),
        }
    }
}

/// A number as reference; none for values of other types. Times count in milliseconds.
fn number(value: &Value) -> Option<Reference> {
    Some(Reference::Whole(match value {
        Value::Ubyte(number) => i128::from(*number),
        Value::Ushort(number) => i128::from(*number),
        Value::Uint(number) => i128::from(*number),
        Value::Ulong(number) => i128::from(*number),
        Value::Byte(number) => i128::from(*number),
        Value::Short(number) => i128::from(*number),
        Value::Int(number) => i128::from(*number),
        Value::Long(number) | Value::Timestamp(number) => i128::from(*number),
        Value::Float(bits) => return Some(Reference::Real(f32::from_bits(*bits).into())),
        Value::Double(bits) => return Some(Reference::Real(f64::from_bits(*bits))),
        _ => return None,
    }))
}

/// Whether numbers of the two kinds are equal when treated as floating-point.
#[allow(
    clippy::cast_precision_loss,
    reason = "the specification compares them as floating-point numbers"
)]
fn same(whole: i128, real: f64) -> bool {
    real - whole as f64 == 0.0
}

fn check_size(pairs: &[(Value, Value)]) -> Result<(), SelectorError> {
    if pairs.is_empty() || pairs.len() > FILTER_FIELDS_MAX {
        return Err(SelectorError::FieldCount {
            count: pairs.len(),
            max: FILTER_FIELDS_MAX,
        });
    }
    let bytes = pairs_bytes(pairs);
    if bytes > SELECTOR_BYTES_MAX {
        return Err(SelectorError::TooLong {
            bytes,
            max: SELECTOR_BYTES_MAX,
        });
    }
    Ok(())
}

/// Bytes of the texts of a property filter, and of its pairs.
pub fn pairs_bytes(pairs: &[(Value, Value)]) -> usize {
    let bytes = |value: &Value| match value {
        Value::String(text) | Value::Symbol(text) => text.len(),
        Value::Binary(bytes) => bytes.len(),
        _ => size_of::<Value>(),
    };
    pairs
        .iter()
        .map(|(key, value)| bytes(key) + bytes(value))
        .sum()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::filter::Selector;
    use crate::filter::tests::{NOW, message};

    fn filter(of_fields: bool, pairs: &[(&str, Value)]) -> Result<Selector, SelectorError> {
        let pairs = pairs.iter();
        let pairs = pairs.map(|(name, value)| (Value::string(*name), value.clone()));
        let pairs: Vec<_> = pairs.collect();
        let mut references = References::default();
        if of_fields {
            references.add_properties(&pairs)?;
        } else {
            references.add_application_properties(&pairs)?;
        }
        Ok(Selector::of_references(references))
    }

    // [AMQP Filter Expressions 4.1.1, 4.2.4]
    #[rstest]
    #[case::text("subject", Value::string("invoice"), true)]
    #[case::other_text("subject", Value::string("Invoice"), false)]
    #[case::prefix("to", Value::string("&p:/queues/"), true)]
    #[case::no_prefix("to", Value::string("&p:queues/"), false)]
    #[case::suffix("reply-to", Value::string("&s:answers"), true)]
    #[case::no_suffix("reply-to", Value::string("&s:answer"), false)]
    #[case::empty_prefix("group-id", Value::string("&p:"), true)]
    #[case::an_escaped_sign("subject", Value::string("&&invoice"), false)]
    #[case::an_id_that_is_a_string("message-id", Value::string("&p:ID:"), true)]
    #[case::an_id_that_is_a_number("correlation-id", Value::Ulong(42), true)]
    #[case::an_id_of_another_type("correlation-id", Value::string("42"), false)]
    #[case::symbol("content-type", Value::symbol("text/plain"), true)]
    #[case::user("user-id", Value::Binary(bytes::Bytes::from_static(b"ada")), true)]
    #[case::time("creation-time", Value::Timestamp(1_000), true)]
    #[case::other_time("absolute-expiry-time", Value::Timestamp(1_000), false)]
    #[case::number("group-sequence", Value::Uint(3), true)]
    #[case::null("group-sequence", Value::Null, true)]
    fn a_field_is_compared(#[case] name: &str, #[case] value: Value, #[case] expect: bool) {
        let filter = filter(true, &[(name, value)]).unwrap();
        assert_eq!(filter.matches(NOW, &message(), 0), expect);
    }

    // [AMQP Filter Expressions 4.2.5]
    #[rstest]
    #[case::text("colour", Value::string("red"), true)]
    #[case::symbols_are_texts("colour", Value::symbol("red"), true)]
    #[case::prefix("colour", Value::string("&p:r"), true)]
    #[case::suffix("colour", Value::string("&s:ed"), true)]
    #[case::no_suffix("colour", Value::string("&s:bed"), false)]
    #[case::a_number_has_no_prefix("weight", Value::string("&p:2"), false)]
    #[case::numbers_of_unlike_types("weight", Value::Ulong(2500), true)]
    #[case::as_floating_point("weight", Value::Double(2500f64.to_bits()), true)]
    #[case::a_real_number("price", Value::Double(9.5f64.to_bits()), true)]
    #[case::real_numbers_of_unlike_types("small", Value::Double(0.25f64.to_bits()), true)]
    #[case::a_whole_number_is_not_near("price", Value::Int(9), false)]
    #[case::large("huge", Value::Ulong(u64::MAX), true)]
    #[case::not_quite_as_large("huge", Value::Ulong(u64::MAX - 1), false)]
    #[case::boolean("fresh", Value::Bool(true), true)]
    #[case::other_boolean("fresh", Value::Bool(false), false)]
    #[case::bytes("blob", Value::Binary(bytes::Bytes::from_static(b"x")), true)]
    #[case::null_means_that_it_is_there("blob", Value::Null, true)]
    #[case::null_does_not_mean_missing("missing", Value::Null, false)]
    #[case::missing("missing", Value::string(""), false)]
    fn an_application_property_is_compared(
        #[case] name: &str,
        #[case] value: Value,
        #[case] expect: bool,
    ) {
        let filter = filter(false, &[(name, value)]).unwrap();
        assert_eq!(filter.matches(NOW, &message(), 0), expect);
    }

    #[test]
    fn all_references_have_to_match() {
        let both = |colour: &str| {
            let pairs = [
                ("weight", Value::Int(2500)),
                ("colour", Value::string(colour)),
            ];
            filter(false, &pairs).unwrap().matches(NOW, &message(), 0)
        };
        assert!(both("red") && !both("blue"));
        let mut references = References::default();
        let pair = |name: &str, value: &str| [(Value::symbol(name), Value::string(value))];
        references
            .add_properties(&pair("subject", "invoice"))
            .unwrap();
        references
            .add_application_properties(&pair("colour", "red"))
            .unwrap();
        let red = Selector::parse("colour = 'red'").unwrap();
        assert!(
            red.and(Selector::of_references(references.clone()))
                .matches(NOW, &message(), 0)
        );
        let blue = Selector::parse("colour = 'blue'").unwrap();
        assert!(
            !blue
                .and(Selector::of_references(references))
                .matches(NOW, &message(), 0)
        );
    }

    #[test]
    fn what_is_no_filter_is_refused_by_name() {
        let text =
            |of_fields, pairs: &[(&str, Value)]| filter(of_fields, pairs).unwrap_err().to_string();
        assert!(text(true, &[("colour", Value::Null)]).contains("'colour'"));
        assert!(text(true, &[("subject", Value::string("&x"))]).contains("'subject'"));
        assert!(text(false, &[("list", Value::List(Vec::new()))]).contains("'list'"));
        assert!(text(false, &[]).contains("from 1 to 16"));
        let many: Vec<_> = (0..17).map(|_| ("colour", Value::Null)).collect();
        assert!(text(false, &many).contains("17"));
        let long = Value::string("x".repeat(SELECTOR_BYTES_MAX));
        assert!(text(false, &[("colour", long)]).contains("at most 16384"));
    }
}
