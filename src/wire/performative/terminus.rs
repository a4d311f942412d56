//! Which fields of a peer's terminus are read, and repeated in the answer. [AMQP 3.5.3, 3.5.4]
//!
//! Termini live as long as their link and keep nothing beyond it, but for targets of links that can be
//! resumed, whose owner says so in its answer. A field that asks for more than that reads as absent, and so does one with a value
//! that the specification does not define: it must not cost the peer its link, nor be repeated as
//! if it were granted.

use super::{Source, Symbol, Target, Value, codes};
use crate::wire::{self, DecodeError, Fields, Reader, decode_value};

/// Indexes of fields of source and target.
const DURABLE: u32 = 1;
const EXPIRY_POLICY: u32 = 2;
const TIMEOUT: u32 = 3;
/// Indexes of fields of a source.
const DISTRIBUTION_MODE: u32 = 6;
const FILTER: u32 = 7;
const DEFAULT_OUTCOME: u32 = 8;

/// The terminus in `encoded` without the fields that are not kept; none if all of them are.
/// Anything but a source or a target (a coordinator, nonsense) is not examined.
pub(super) fn kept(encoded: &[u8]) -> Result<Option<Vec<u8>>, DecodeError> {
    if encoded.is_empty() {
        return Ok(None);
    }
    let Ok(mut described) = Reader::new(encoded).described() else {
        return Ok(None);
    };
    let code = codes::number(described.descriptor);
    if !matches!(code, codes::SOURCE | codes::TARGET) {
        return Ok(None);
    }
    let Ok(mut list) = described.value.list() else {
        return Ok(None);
    };
    let mut out = Vec::with_capacity(encoded.len());
    wire::write_descriptor(&mut out, code);
    let compound = wire::begin_list(&mut out);
    let count = list.left();
    let mut is_whole = true;
    for index in 0..count {
        let Some(raw) = list.raw()? else {
            wire::write_null(&mut out);
            continue;
        };
        is_whole &= match index {
            FILTER if code == codes::SOURCE => write_filters(&mut out, raw)?,
            _ => {
                let keeps = keeps(code, index, raw);
                if keeps {
                    out.extend_from_slice(raw);
                } else {
                    wire::write_null(&mut out);
                }
                keeps
            }
        };
    }
    wire::end(&mut out, compound, count as usize);
    Ok((!is_whole).then_some(out))
}

/// Notes in a decoded source how long it is to live and the filter of what its own connection sends,
/// which only subscriptions and links that can be
/// resumed keep: [`kept`] leaves them out.
pub(super) fn note_lifetime(encoded: &[u8], source: &mut Source) -> Result<(), DecodeError> {
    let Ok(mut described) = Reader::new(encoded).described() else {
        return Ok(());
    };
    let Ok(mut list) = described.value.list() else {
        return Ok(());
    };
    for index in 0..list.left().min(FILTER + 1) {
        let Some(raw) = list.raw()? else {
            continue;
        };
        let mut value = Reader::new(raw);
        match index {
            DURABLE => source.durable = value.uint().unwrap_or_default(),
            TIMEOUT => source.timeout_s = value.uint().unwrap_or_default(),
            EXPIRY_POLICY => source.expiry_policy = value.symbol().ok().map(Symbol::from),
            FILTER => source.no_local = no_local(raw)?,
            _ => {}
        }
    }
    Ok(())
}

/// Notes in a decoded target how long it is to live, which only links that can be resumed keep: [`kept`]
/// leaves it out.
pub(super) fn note_target_lifetime(encoded: &[u8], target: &mut Target) -> Result<(), DecodeError> {
    let Ok(mut described) = Reader::new(encoded).described() else {
        return Ok(());
    };
    let Ok(mut list) = described.value.list() else {
        return Ok(());
    };
    for index in 0..list.left().min(TIMEOUT + 1) {
        let Some(raw) = list.raw()? else {
            continue;
        };
        let mut value = Reader::new(raw);
        match index {
            DURABLE => target.durable = value.uint().unwrap_or_default(),
            EXPIRY_POLICY => target.expiry_policy = value.symbol().ok().map(Symbol::from),
            TIMEOUT => target.timeout_s = value.uint().unwrap_or_default(),
            _ => {}
        }
    }
    Ok(())
}

/// The filter of what its own connection sends, if there is one.
fn no_local(filters: &[u8]) -> Result<Option<(Symbol, Value)>, DecodeError> {
    let Ok(pairs) = Reader::new(filters).map() else {
        return Ok(None);
    };
    for pair in pairs {
        let pair = pair?;
        let Ok(described) = Reader::new(pair.value).described() else {
            continue;
        };
        if codes::number(described.descriptor) == codes::NO_LOCAL_FILTER
            && let Some(key) = pair.symbol_key()
        {
            let (value, _) = decode_value(pair.value)?;
            return Ok(Some((Symbol::from(key), value)));
        }
    }
    Ok(None)
}

/// Whether a field asks for what the broker's termini are.
fn keeps(code: u64, index: u32, raw: &[u8]) -> bool {
    let mut value = Reader::new(raw);
    match index {
        DURABLE | TIMEOUT => value.uint() == Ok(0),
        EXPIRY_POLICY => value.symbol() == Ok("link-detach"),
        // The owner of the engine keeps both: a receiver that asks for copies takes nothing.
        DISTRIBUTION_MODE if code == codes::SOURCE => {
            matches!(value.symbol(), Ok("move" | "copy"))
        }
        // The broker's own is in the answer.
        DEFAULT_OUTCOME if code == codes::SOURCE => false,
        _ => true,
    }
}

/// Appends the filters that are applied: the first of each kind. Returns whether those are all. "The
/// receiving endpoint [...] sets [...] the filters actually in place". A value that is not a map is
/// left as it is.
fn write_filters(out: &mut Vec<u8>, raw: &[u8]) -> Result<bool, DecodeError> {
    let Ok(pairs) = Reader::new(raw).map() else {
        out.extend_from_slice(raw);
        return Ok(true);
    };
    let mut applied = Vec::new();
    let mut kinds = Vec::new();
    let mut is_whole = true;
    for pair in pairs {
        let pair = pair?;
        match filter_kind(pair.value) {
            Some(kind) if !kinds.contains(&kind) => {
                kinds.push(kind);
                applied.push(pair);
            }
            _ => is_whole = false,
        }
    }
    if is_whole {
        out.extend_from_slice(raw);
    } else if applied.is_empty() {
        wire::write_null(out);
    } else {
        let compound = wire::begin_map(out);
        for pair in &applied {
            out.extend_from_slice(pair.key);
            out.extend_from_slice(pair.value);
        }
        wire::end(out, compound, 2 * applied.len());
    }
    Ok(is_whole)
}

/// The descriptor of a filter that is applied.
fn filter_kind(value: &[u8]) -> Option<u64> {
    let mut described = Reader::new(value).described().ok()?;
    let kind = codes::number(described.descriptor);
    let fits = match kind {
        codes::SELECTOR_FILTER | codes::SQL_FILTER => described.value.string().is_ok(),
        codes::PROPERTIES_FILTER | codes::APPLICATION_PROPERTIES_FILTER => {
            described.value.map().is_ok()
        }
        _ => false,
    };
    fits.then_some(kind)
}

/// The described list in `body` with other encoded fields at these indexes.
pub(super) fn replaced(
    body: &[u8],
    with: impl Fn(u32) -> Option<Vec<u8>>,
) -> Result<Vec<u8>, DecodeError> {
    let mut described = Reader::new(body).described()?;
    let mut list: Fields<'_> = described.value.list()?;
    let mut out = Vec::with_capacity(body.len());
    wire::write_descriptor(&mut out, codes::number(described.descriptor));
    let compound = wire::begin_list(&mut out);
    let count = list.left();
    for index in 0..count {
        let raw = list.raw()?;
        match (with(index), raw) {
            (Some(other), _) => out.extend_from_slice(&other),
            (None, Some(raw)) => out.extend_from_slice(raw),
            (None, None) => wire::write_null(&mut out),
        }
    }
    wire::end(&mut out, compound, count as usize);
    Ok(out)
}
