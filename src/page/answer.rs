//! Answers of the API as the page reads them: each struct says once which fields it shows.

use std::sync::Once;

use serde_json::{Map, Value};

use super::show::{Bytes, Count, Rate, Scalar, Text, When};

/// What the page shows of an answer, or of a part of one. What an answer lacks, or has of another kind,
/// is as `default` makes it: the latter is a defect, which [`read_field`] tells.
pub trait FromAnswer: Default {
    /// Whether it is read from what an answer has; null is read by all.
    fn is_kind(answer: &Value) -> bool;

    /// Takes it out of an answer.
    fn read(&mut self, answer: &mut Value);

    /// Takes it out of a whole answer.
    fn of(mut answer: Value) -> Self {
        let mut read = Self::default();
        read.read(&mut answer);
        read
    }
}

/// Reads one field.
pub fn read_field<T: FromAnswer>(field: &mut T, name: &str, answer: &mut Value) {
    if let Some(part) = part(answer, name) {
        if !part.is_null() && !T::is_kind(part) {
            tell_kind(name, part);
        }
        field.read(part);
    }
}

/// Tells developers, once, that the API and the page do not agree on a field; tests panic.
#[cold]
#[inline(never)]
fn tell_kind(name: &str, part: &Value) {
    static TOLD: Once = Once::new();
    let kind = match part {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    };
    TOLD.call_once(|| {
        tracing::warn!(
            field = name,
            kind,
            "the page reads a field of an answer as another kind than the API gives it, and shows nothing: \
             this is a defect of the broker; further times are not told"
        );
    });
    debug_assert!(
        false,
        "field '{name}' of an answer is {kind}: the page reads another"
    );
}

/// One function for fields of all types, so that each costs a call.
#[inline(never)]
fn part<'a>(answer: &'a mut Value, name: &str) -> Option<&'a mut Value> {
    answer.get_mut(name)
}

/// Structs that are read from answers: each field from the one of its name, or of the name behind `=`.
macro_rules! answer {
    ($(
        $(#[$meta:meta])*
        pub struct $Name:ident {
            $($(#[$field_meta:meta])* pub $field:ident: $Type:ty $(= $name:literal)?,)*
        }
    )*) => {$(
        $(#[$meta])*
        #[derive(Clone, Default, Debug)]
        pub struct $Name {
            $($(#[$field_meta])* pub $field: $Type,)*
        }

        impl $crate::page::answer::FromAnswer for $Name {
            fn is_kind(answer: &serde_json::Value) -> bool {
                answer.is_object()
            }

            fn read(&mut self, answer: &mut serde_json::Value) {
                $($crate::page::answer::read_field(
                    &mut self.$field,
                    answer!(@name $field $($name)?),
                    answer,
                );)*
            }
        }
    )*};
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $name:literal) => { $name };
}

impl<T: FromAnswer> FromAnswer for Option<T> {
    fn is_kind(answer: &Value) -> bool {
        T::is_kind(answer)
    }

    fn read(&mut self, answer: &mut Value) {
        if !answer.is_null() {
            self.get_or_insert_default().read(answer);
        }
    }
}

impl<T: FromAnswer> FromAnswer for Vec<T> {
    fn is_kind(answer: &Value) -> bool {
        let parts = answer.as_array();
        parts.is_some_and(|parts| parts.iter().all(|part| part.is_null() || T::is_kind(part)))
    }

    fn read(&mut self, answer: &mut Value) {
        for part in answer.as_array_mut().into_iter().flatten() {
            self.push(T::of(part.take()));
        }
    }
}

/// An object by the names of its fields, in their order.
impl<T: FromAnswer> FromAnswer for Vec<(String, T)> {
    fn is_kind(answer: &Value) -> bool {
        let parts = answer.as_object();
        parts.is_some_and(|parts| {
            parts
                .values()
                .all(|part| part.is_null() || T::is_kind(part))
        })
    }

    fn read(&mut self, answer: &mut Value) {
        for (name, part) in answer.as_object_mut().into_iter().flatten() {
            self.push((name.clone(), T::of(part.take())));
        }
    }
}

impl FromAnswer for Value {
    fn is_kind(_: &Value) -> bool {
        true
    }

    fn read(&mut self, answer: &mut Value) {
        *self = answer.take();
    }
}

impl FromAnswer for Map<String, Value> {
    fn is_kind(answer: &Value) -> bool {
        answer.is_object()
    }

    fn read(&mut self, answer: &mut Value) {
        if let Some(fields) = answer.as_object_mut() {
            *self = std::mem::take(fields);
        }
    }
}

impl FromAnswer for bool {
    fn is_kind(answer: &Value) -> bool {
        answer.is_boolean()
    }

    fn read(&mut self, answer: &mut Value) {
        *self = answer.as_bool().unwrap_or_default();
    }
}

impl FromAnswer for u64 {
    fn is_kind(answer: &Value) -> bool {
        answer.is_u64()
    }

    fn read(&mut self, answer: &mut Value) {
        *self = answer.as_u64().unwrap_or_default();
    }
}

impl FromAnswer for i64 {
    fn is_kind(answer: &Value) -> bool {
        answer.is_i64()
    }

    fn read(&mut self, answer: &mut Value) {
        *self = answer.as_i64().unwrap_or_default();
    }
}

impl FromAnswer for f64 {
    fn is_kind(answer: &Value) -> bool {
        answer.is_number()
    }

    fn read(&mut self, answer: &mut Value) {
        *self = answer.as_f64().unwrap_or_default();
    }
}

impl FromAnswer for Text {
    fn is_kind(answer: &Value) -> bool {
        answer.is_string()
    }

    fn read(&mut self, answer: &mut Value) {
        if let Value::String(text) = answer.take() {
            *self = Self::new(text);
        }
    }
}

impl FromAnswer for Scalar {
    fn is_kind(answer: &Value) -> bool {
        answer.is_string() || answer.is_number() || answer.is_boolean()
    }

    fn read(&mut self, answer: &mut Value) {
        self.0 = match answer.take() {
            Value::String(text) => Text::new(text),
            number @ Value::Number(_) => Text::new(number.to_string()),
            Value::Bool(flag) => Text::new(flag.to_string()),
            Value::Null | Value::Array(_) | Value::Object(_) => Text::default(),
        };
    }
}

impl FromAnswer for Count {
    fn is_kind(answer: &Value) -> bool {
        u64::is_kind(answer)
    }

    fn read(&mut self, answer: &mut Value) {
        self.0.read(answer);
    }
}

impl FromAnswer for Bytes {
    fn is_kind(answer: &Value) -> bool {
        u64::is_kind(answer)
    }

    fn read(&mut self, answer: &mut Value) {
        self.0.read(answer);
    }
}

impl FromAnswer for Rate {
    fn is_kind(answer: &Value) -> bool {
        f64::is_kind(answer)
    }

    fn read(&mut self, answer: &mut Value) {
        self.0.read(answer);
    }
}

impl FromAnswer for When {
    fn is_kind(answer: &Value) -> bool {
        answer.is_i64()
    }

    fn read(&mut self, answer: &mut Value) {
        self.0 = answer.as_i64();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    answer! {
        /// An answer with fields of all kinds.
        #[derive(PartialEq)]
        pub struct Told {
            pub name: Text,
            pub kind: Text = "type",
            pub count: Option<Count>,
            pub other: Option<Count>,
            pub since: When,
            pub parts: Vec<Text>,
            pub rates: Vec<(String, Rate)>,
            pub is_good: bool,
            pub left: Value,
            pub set: Vec<Scalar>,
        }
    }

    #[test]
    fn each_field_is_read_from_the_one_of_its_name_and_may_be_missing() {
        let told = Told::of(json!({
            "name": "a", "type": "7", "count": 3, "other": null, "since": 5, "parts": ["x", null],
            "rates": {"b": 1.5, "a": 2}, "is_good": true, "left": {"over": []}, "unknown": 1,
            "set": ["x", 7, true],
        }));
        let expected = Told {
            name: Text::new("a"),
            kind: Text::new("7"),
            count: Some(Count(3)),
            other: None,
            since: When(Some(5)),
            parts: vec![Text::new("x"), Text::default()],
            rates: vec![("a".to_owned(), Rate(2.0)), ("b".to_owned(), Rate(1.5))],
            is_good: true,
            left: json!({"over": []}),
            set: ["x", "7", "true"]
                .map(|text| Scalar(Text::new(text)))
                .to_vec(),
        };
        assert_eq!(told, expected);
        assert_eq!(Told::of(json!({})), Told::default());
        assert_eq!(Told::of(Value::Null), Told::default());
    }

    /// It was shown as nothing, or as 0, and no test of the page noticed.
    #[test]
    fn a_field_of_another_kind_than_the_page_reads_fails_tests_and_is_named() {
        for (wrong, expect) in [
            (
                json!({"count": "many"}),
                "field 'count' of an answer is a text",
            ),
            (
                json!({"count": -1}),
                "field 'count' of an answer is a number",
            ),
            (
                json!({"parts": 3}),
                "field 'parts' of an answer is a number",
            ),
            (
                json!({"rates": {"a": []}}),
                "field 'rates' of an answer is an object",
            ),
            (
                json!({"is_good": 1}),
                "field 'is_good' of an answer is a number",
            ),
            (json!({"name": 7}), "field 'name' of an answer is a number"),
            (
                json!({"parts": ["a", {}]}),
                "field 'parts' of an answer is a list",
            ),
            (
                json!({"since": "now"}),
                "field 'since' of an answer is a text",
            ),
        ] {
            let told = std::panic::catch_unwind(|| Told::of(wrong));
            let why = told.expect_err(expect);
            let why = why.downcast_ref::<String>().expect("a text");
            assert!(why.starts_with(expect), "{why}");
        }
    }
}
