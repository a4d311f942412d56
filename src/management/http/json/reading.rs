//! JSON from outside: as many values as are expected, and no more. A short text may stand for much:
//! a null of five bytes takes 32, an object some hundreds.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// What an object counts beyond a value: about what it takes.
const OBJECT_COUNTS: usize = 8;
/// What a value takes beside its text.
const VALUE_BYTES: usize = size_of::<Value>();

/// Reads a text that may have `values_max` values, where an object counts for more than one. Gives the
/// value and the bytes that it takes, about.
///
/// # Errors
/// It is no JSON, is nested too deeply (128), or has more values.
pub fn read(text: &[u8], values_max: usize) -> Result<(Value, u64), serde_json::Error> {
    let left = Cell::new(values_max);
    let counted = Counted {
        left: &left,
        values_max,
    };
    let mut reader = serde_json::Deserializer::from_slice(text);
    let value = counted.deserialize(&mut reader)?;
    reader.end()?;
    let values = values_max - left.get();
    Ok((value, (text.len() + values * VALUE_BYTES) as u64))
}

/// Reads a value while there is room for it.
#[derive(Clone, Copy)]
struct Counted<'a> {
    left: &'a Cell<usize>,
    values_max: usize,
}

impl Counted<'_> {
    fn count<E: Error>(&self, values: usize) -> Result<(), E> {
        let Some(left) = self.left.get().checked_sub(values) else {
            let max = self.values_max;
            return Err(E::custom(format_args!(
                "the JSON has more than {max} values, an object counted as {OBJECT_COUNTS} more"
            )));
        };
        self.left.set(left);
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Counted<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.count(1)?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Counted<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut read = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            read.push(item);
        }
        Ok(Value::Array(read))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut pairs: A) -> Result<Value, A::Error> {
        self.count(OBJECT_COUNTS)?;
        let mut read = Map::new();
        while let Some(name) = pairs.next_key::<String>()? {
            read.insert(name, pairs.next_value_seed(self)?);
        }
        Ok(Value::Object(read))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_read_is_what_the_library_reads() {
        let text = r#"{"a":[1,-1,0.5,1e300,18446744073709551615,"\u00e9",true,null,{}],"a b":"x"}"#;
        let expect: Value = serde_json::from_str(text).unwrap();
        assert_eq!(read(text.as_bytes(), 100).unwrap().0, expect);
        for bad in ["", "{", "[1,]", "1 2", "{\"a\"}", "\"\\ud800\""] {
            assert!(read(bad.as_bytes(), 100).is_err(), "{bad}");
        }
        assert!(read("[".repeat(1_000).as_bytes(), 10_000).is_err());
    }

    #[test]
    fn values_beyond_the_bound_are_refused_and_the_bound_is_told() {
        assert_eq!(read(b"[1,2]", 3).unwrap().0, json!([1, 2]));
        let told = read(b"[1,2,3]", 3).unwrap_err().to_string();
        assert!(told.contains("more than 3 values"), "{told}");
        assert!(read(b"{}", OBJECT_COUNTS).is_err());
        assert!(read(b"{}", OBJECT_COUNTS + 1).is_ok());
    }
}
