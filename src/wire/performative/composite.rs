//! Reading and writing of composite values off the hot path, field by field. [AMQP 1.4]

use super::types::{Fields, Symbol};
use super::{PerformativeError, codes};
use crate::wire::codes::{ARRAY_8, LIST_0, SYMBOL_32};
use crate::wire::writer::begin;
use crate::wire::{self, DecodeError, OpenCompound, Reader, Value, ValueKind};

/// A described list with named fields.
pub(super) trait Composite: Sized {
    /// The descriptor's number.
    const CODE: u64;
    /// The type's name, for errors.
    const NAME: &'static str;

    /// Reads the fields in their order.
    fn read(list: &mut ListReader<'_>) -> Result<Self, PerformativeError>;

    /// Writes the fields in their order.
    fn write(&self, list: &mut ListWriter<'_>);
}

/// Reads a composite value, after the structural check: every length inside its parent, counts no
/// larger than bytes, depth bounded.
pub(super) fn read<T: Composite>(bytes: &[u8]) -> Result<T, PerformativeError> {
    wire::check_structure(bytes)?;
    let mut described = Reader::new(bytes).described()?;
    if codes::number(described.descriptor) != T::CODE {
        return Err(PerformativeError::Field {
            performative: T::NAME,
            text: format!("its descriptor is {:?}", described.descriptor),
        });
    }
    T::read(&mut ListReader::new(T::NAME, &mut described.value)?)
}

/// Appends a composite value.
pub(super) fn write<T: Composite>(out: &mut Vec<u8>, value: &T) {
    write_list(out, T::CODE, |list| value.write(list));
}

/// Appends a described list.
pub(in crate::wire) fn write_list(
    out: &mut Vec<u8>,
    code: u64,
    write: impl FnOnce(&mut ListWriter<'_>),
) {
    wire::write_descriptor(out, code);
    let start = out.len();
    let compound = wire::begin_list(out);
    let used = out.len();
    let mut list = ListWriter {
        out,
        start,
        used,
        used_count: 0,
        count: 0,
    };
    write(&mut list);
    list.end(compound);
}

/// The fields of a composite value, one after the other. Errors name the field.
pub(in crate::wire) struct ListReader<'a> {
    name: &'static str,
    list: wire::Fields<'a>,
}

impl<'a> ListReader<'a> {
    /// Reads the list at the front of a checked value.
    pub(in crate::wire) fn new(
        name: &'static str,
        value: &mut Reader<'a>,
    ) -> Result<Self, DecodeError> {
        value.list().map(|list| Self { name, list })
    }

    /// Reads a field that may be absent or null.
    pub(in crate::wire) fn optional<T>(
        &mut self,
        field: &'static str,
        read: impl FnOnce(&mut Reader<'a>) -> Result<T, DecodeError>,
    ) -> Result<Option<T>, PerformativeError> {
        let Some(raw) = self.list.raw()? else {
            return Ok(None);
        };
        let read = read(&mut Reader::new(raw)).map(Some);
        read.map_err(|error| self.wrong(field, &error))
    }

    /// Reads a field that is mandatory.
    pub(in crate::wire) fn required<T>(
        &mut self,
        field: &'static str,
        read: impl FnOnce(&mut Reader<'a>) -> Result<T, DecodeError>,
    ) -> Result<T, PerformativeError> {
        let value = self.optional(field, read)?;
        value.ok_or_else(|| self.wrong(field, &"is missing"))
    }

    /// Reads a field that is not needed: if it cannot be read it counts as absent.
    pub(super) fn lenient<T>(
        &mut self,
        read: impl FnOnce(&mut Reader<'a>) -> Result<T, DecodeError>,
    ) -> Result<Option<T>, PerformativeError> {
        let raw = self.list.raw()?;
        Ok(raw.and_then(|raw| read(&mut Reader::new(raw)).ok()))
    }

    /// The encoded field; none if absent or null.
    pub(super) fn raw(&mut self) -> Result<Option<&'a [u8]>, PerformativeError> {
        Ok(self.list.raw()?)
    }

    /// Skips this many fields.
    pub(super) fn skip(&mut self, count: u32) -> Result<(), PerformativeError> {
        Ok(self.list.skip(count)?)
    }

    /// The error for a field of this name.
    pub(super) fn wrong(
        &self,
        field: &'static str,
        why: &impl std::fmt::Display,
    ) -> PerformativeError {
        PerformativeError::Field {
            performative: self.name,
            text: format!("field {field}: {why}"),
        }
    }
}

/// Writes fields; those at the end that are null are left out.
pub(in crate::wire) struct ListWriter<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
    /// Where the last field that is not null ends, and the number of fields up to it.
    used: usize,
    used_count: usize,
    count: usize,
}

impl ListWriter<'_> {
    /// Writes a field, or null.
    pub(in crate::wire) fn field<T>(
        &mut self,
        value: Option<T>,
        write: impl FnOnce(&mut Vec<u8>, T),
    ) {
        self.count += 1;
        match value {
            None => wire::write_null(self.out),
            Some(value) => {
                write(self.out, value);
                self.used = self.out.len();
                self.used_count = self.count;
            }
        }
    }

    /// Writes this many nulls.
    pub(super) fn nulls(&mut self, count: usize) {
        for _ in 0..count {
            self.field(None, wire::write_bool);
        }
    }

    fn end(self, compound: OpenCompound) {
        self.out.truncate(self.used);
        wire::end(self.out, compound, self.used_count);
        if self.used_count == 0 {
            self.out.truncate(self.start);
            self.out.push(LIST_0);
        }
    }
}

/// Reads a field of several symbols, which may be a single one without an array around it.
pub(in crate::wire) fn read_symbols(reader: &mut Reader<'_>) -> Result<Vec<Symbol>, DecodeError> {
    let value = reader.value()?;
    match &value {
        Value::Symbol(symbol) => return Ok(vec![Symbol::from(symbol.as_str())]),
        Value::Array(array)
            if array.kind() == ValueKind::Symbol && array.descriptor().is_none() =>
        {
            let texts = array.elements().iter().filter_map(Value::as_str);
            return Ok(texts.map(Symbol::from).collect());
        }
        Value::Array(array) if array.elements().is_empty() => return Ok(Vec::new()),
        _ => {}
    }
    Err(other("array of symbols", &value))
}

/// Reads a map with symbols as keys.
pub(super) fn read_fields(reader: &mut Reader<'_>) -> Result<Fields, DecodeError> {
    let Value::Map(pairs) = reader.value()? else {
        return Err(DecodeError::Type {
            at: 0,
            expected: "map",
            found: "another type",
        });
    };
    let pairs = pairs.into_iter().map(|(key, value)| match key.as_str() {
        Some(text) => Ok((Symbol::from(text), value)),
        None => Err(other("symbol as key", &key)),
    });
    pairs.collect()
}

fn other(expected: &'static str, found: &Value) -> DecodeError {
    DecodeError::Type {
        at: 0,
        expected,
        found: found.kind().name(),
    }
}

/// Appends an array of symbols.
pub(in crate::wire) fn write_symbols(out: &mut Vec<u8>, symbols: &[Symbol]) {
    let compound = begin(out, ARRAY_8);
    out.push(SYMBOL_32);
    for symbol in symbols {
        wire::write_array_string(out, symbol.as_str());
    }
    wire::end(out, compound, symbols.len());
}

/// Appends a map with symbols as keys.
pub(super) fn write_fields(out: &mut Vec<u8>, fields: &Fields) {
    let compound = wire::begin_map(out);
    for (key, value) in fields {
        wire::write_symbol(out, key.as_str());
        wire::encode_value(value, out);
    }
    wire::end(out, compound, 2 * fields.iter().len());
}
