//! Parsing of JSON from clients, with a bound on the number of values. A short text may need much
//! memory: a null of five bytes takes 32, an object some hundreds.

use std::cell::{Cell, RefCell};
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::base::Charge;

/// Values that an object counts for in addition.
const OBJECT_COUNTS: usize = 8;
/// Memory of a value in an array, in bytes: half of it more while the array grows.
const ITEM_BYTES: usize = size_of::<Value>() + size_of::<Value>() / 4;
/// Memory of a node of an object's tree, for its first names, in bytes.
const NODE_BYTES: usize = 640;
const NODE_NAMES: usize = 11;
/// Memory of each further name, in bytes.
const NAME_BYTES: usize = NODE_BYTES / 6;
/// Bytes that are charged together, rather than with each value.
const NOTED_BYTES: usize = 64 * 1024;

/// Parses a text of at most `values_max` values, where an object counts for more than one. The
/// estimated memory is added to the charge while they are parsed.
///
/// It is not JSON, is nested too deeply (128), or has more values.
pub fn read(text: &[u8], values_max: usize, kept: &mut Charge) -> Result<Value, serde_json::Error> {
    let left = Cell::new(values_max);
    let taken = RefCell::new(Taken { kept, bytes: 0 });
    let counted = Counted {
        left: &left,
        taken: &taken,
        values_max,
    };
    let mut reader = serde_json::Deserializer::from_slice(text);
    let value = counted.deserialize(&mut reader)?;
    reader.end()?;
    taken.borrow_mut().note();
    Ok(value)
}

/// The memory taken so far.
struct Taken<'c> {
    kept: &'c mut Charge,
    /// Bytes that are not charged yet.
    bytes: usize,
}

impl Taken<'_> {
    fn add(&mut self, bytes: usize) {
        self.bytes += bytes;
        if self.bytes >= NOTED_BYTES {
            self.note();
        }
    }

    fn note(&mut self) {
        self.kept.grow(std::mem::take(&mut self.bytes) as u64);
    }
}

/// Estimated memory of a value in a list, in bytes.
pub fn memory_bytes(value: &Value) -> u64 {
    (ITEM_BYTES + apart_bytes(value)) as u64
}

/// Estimated heap memory of a value, in bytes. Recursive: for the broker's own values.
fn apart_bytes(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text_bytes(text.len()),
        Value::Array(items) => {
            let items = items.iter();
            items.map(|item| ITEM_BYTES + apart_bytes(item)).sum()
        }
        Value::Object(pairs) => {
            let pairs = pairs.iter().enumerate();
            let each = pairs.map(|(before, (name, value))| {
                name_bytes(before) + text_bytes(name.len()) + apart_bytes(value)
            });
            each.sum()
        }
    }
}

/// Memory of one more name in an object, in bytes.
const fn name_bytes(before: usize) -> usize {
    match before {
        0 => NODE_BYTES,
        1..NODE_NAMES => 0,
        _ => NAME_BYTES,
    }
}

/// Parses a value as long as the bound allows.
#[derive(Clone, Copy)]
struct Counted<'a, 'c> {
    left: &'a Cell<usize>,
    taken: &'a RefCell<Taken<'c>>,
    values_max: usize,
}

/// Memory of a text that is not shared, in bytes.
const fn text_bytes(length: usize) -> usize {
    length.next_multiple_of(16)
}

impl Counted<'_, '_> {
    fn take(&self, bytes: usize) {
        self.taken.borrow_mut().add(bytes);
    }

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

impl<'de> DeserializeSeed<'de> for Counted<'_, '_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.count(1)?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Counted<'_, '_> {
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
        self.take(text_bytes(value.len()));
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        self.take(text_bytes(value.capacity()));
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut read = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            self.take(ITEM_BYTES);
            read.push(item);
        }
        Ok(Value::Array(read))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut pairs: A) -> Result<Value, A::Error> {
        self.count(OBJECT_COUNTS)?;
        let mut read = Map::new();
        while let Some(name) = pairs.next_key::<String>()? {
            self.take(name_bytes(read.len()) + text_bytes(name.capacity()));
            read.insert(name, pairs.next_value_seed(self)?);
        }
        Ok(Value::Object(read))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::base::Gauge;

    fn read(text: &[u8], values_max: usize) -> Result<Value, serde_json::Error> {
        super::read(text, values_max, &mut Gauge::default().charge(0))
    }

    #[test]
    fn what_is_read_is_what_the_library_reads() {
        let text = r#"{"a":[1,-1,0.5,1e300,18446744073709551615,"\u00e9",true,null,{}],"a b":"x"}"#;
        let expect: Value = serde_json::from_str(text).unwrap();
        assert_eq!(read(text.as_bytes(), 100).unwrap(), expect);
        for bad in ["", "{", "[1,]", "1 2", "{\"a\"}", "\"\\ud800\""] {
            assert!(read(bad.as_bytes(), 100).is_err(), "{bad}");
        }
        assert!(read("[".repeat(1_000).as_bytes(), 10_000).is_err());
    }

    #[test]
    fn values_beyond_the_bound_are_refused_and_the_bound_is_told() {
        assert_eq!(read(b"[1,2]", 3).unwrap(), json!([1, 2]));
        let told = read(b"[1,2,3]", 3).unwrap_err().to_string();
        assert!(told.contains("more than 3 values"), "{told}");
        assert!(read(b"{}", OBJECT_COUNTS).is_err());
        assert!(read(b"{}", OBJECT_COUNTS + 1).is_ok());
    }

    /// What was parsed counted once all of it was there, at half of what it took; what was refused in
    /// the middle, 280 MB of it, never did.
    #[test]
    fn values_count_while_they_are_read_and_until_they_are_gone() {
        let gauge = Gauge::default();
        let mut kept = gauge.charge(0);
        let text = format!("[{}", "{\"\":0},".repeat(10_000));
        let refused = super::read(text.as_bytes(), 1_000_000, &mut kept);
        assert!(refused.is_err(), "it has no end");
        let bytes = gauge.bytes();
        assert!((6_400_000..7_500_000).contains(&bytes), "{bytes} bytes");
        drop(kept);
        assert_eq!(gauge.bytes(), 0);
    }
}
