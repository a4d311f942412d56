//! Parsing of an attach: addresses, outcomes, link properties. [AMQP 2.7.3, 3.5]

use std::sync::Arc;

use super::errors;
use crate::base::Name;
use crate::broker::subscription;
use crate::deaths::{Encoding, EvidenceLevel};
use crate::filter::{FilterParts, Selector, pairs_bytes};
use crate::wire::performative::{
    Attach, DistributionMode, Error, Fields, Filter, Source, Symbol, TargetArchetype, Value, filter,
};

/// Link property: consumers of higher priority are served first.
const PRIORITY: &str = "rabbitmq:priority";
/// Link property: how long the consumer may hold a delivery, in milliseconds; 0: any time.
const CONSUMER_TIMEOUT: &str = "rabbitmq:consumer-timeout";
/// Link property: the queue accepts no other consumers.
const EXCLUSIVE: &str = "exclusive";
/// Link property: how the receiver wants `x-opt-deaths`.
const DEATHS_ENCODING: &str = "x-opt-deaths-encoding";
/// Link property: how much of the evidence of deaths the receiver wants.
const DEATH_EVIDENCE: &str = "x-opt-death-evidence";
/// The outcome of a message that is refused. [AMQP 3.4.3]
const REJECTED: &str = "amqp:rejected:list";
/// The outcomes a link may name. [AMQP 3.4]
pub(super) const OUTCOMES: [&str; 4] = [
    "amqp:accepted:list",
    REJECTED,
    "amqp:released:list",
    "amqp:modified:list",
];

/// The address of a target; none for the anonymous terminus.
pub(super) fn target_address(attach: &Attach) -> Result<Option<&str>, Error> {
    match attach.target.as_deref() {
        None => Err(errors::invalid_field(
            "the attach of a sender needs a target",
        )),
        // A controller's link is no publisher's.
        Some(TargetArchetype::Coordinator { .. }) => Ok(None),
        Some(TargetArchetype::Target(target)) => Ok(target.address.as_deref()),
    }
}

pub(super) fn source_address(source: Option<&Source>) -> Result<&str, Error> {
    match source {
        Some(Source {
            address: Some(address),
            ..
        }) => Ok(address),
        _ => Err(errors::invalid_field(
            "the source of a receiver needs an address",
        )),
    }
}

pub(super) fn check_outcomes(source: Option<&Source>) -> Result<(), Error> {
    let named = source.and_then(|source| source.outcomes.as_ref());
    let unknown = named
        .iter()
        .flat_map(|outcomes| outcomes.iter())
        .find(|outcome| !OUTCOMES.contains(&outcome.as_str()));
    match unknown {
        Some(outcome) => Err(errors::not_implemented(&format!(
            "outcome {} is not offered",
            outcome.as_str()
        ))),
        None => Ok(()),
    }
}

/// Whether a sender can be told that a message is rejected: its source says so, or names no outcomes.
/// [AMQP 3.5.3]
pub(super) fn takes_rejected(source: Option<&Source>) -> bool {
    let named = source.and_then(|source| source.outcomes.as_deref());
    named.is_none_or(|named| has_capability(Some(named), REJECTED))
}

/// Whether a receiver only wants to look: distribution-mode copy, which the answer repeats.
/// [AMQP 3.5.7]
pub(super) fn browses(attach: &Attach) -> Result<bool, Error> {
    let source = attach.source.as_deref();
    match source.and_then(|source| source.distribution_mode.as_ref()) {
        Some(DistributionMode::Copy) if exclusive(attach)? => Err(errors::invalid_field(
            format_args!("{EXCLUSIVE} is for consumers: distribution-mode copy takes no message"),
        )),
        Some(DistributionMode::Copy) => Ok(true),
        Some(DistributionMode::Move) | None => Ok(false),
    }
}

/// The selector of a consumer: what its filters want together, the first of each kind. Filters of
/// other kinds are ignored, and not repeated in the answer. [AMQP 3.5.8]
pub(super) fn selector(source: Option<&Source>) -> Result<Option<Arc<Selector>>, Error> {
    let compiled = filter_parts(source).compile();
    let compiled =
        compiled.map_err(|(kind, error)| errors::invalid_field(format_args!("{kind}: {error}")))?;
    Ok(compiled.map(Arc::new))
}

/// The filters of a source that are applied, the first of each kind.
pub(super) fn filter_parts(source: Option<&Source>) -> FilterParts<'_> {
    let filters = source.and_then(|source| source.filter.as_ref());
    let mut parts = FilterParts::default();
    for found in filters
        .into_iter()
        .flat_map(Fields::values)
        .filter_map(filter)
    {
        match found {
            Filter::Selector(it) => parts.selector = parts.selector.or(Some(it)),
            Filter::Sql(it) => parts.sql = parts.sql.or(Some(it)),
            Filter::Properties(it) => parts.properties = parts.properties.or(Some(it)),
            Filter::ApplicationProperties(it) => {
                parts.application_properties = parts.application_properties.or(Some(it));
            }
        }
    }
    parts
}

/// The filters, one by one.
pub(super) fn applied_filters(parts: FilterParts<'_>) -> impl Iterator<Item = Filter<'_>> {
    let FilterParts {
        selector,
        sql,
        properties,
        application_properties,
    } = parts;
    let all = [
        selector.map(Filter::Selector),
        sql.map(Filter::Sql),
        properties.map(Filter::Properties),
        application_properties.map(Filter::ApplicationProperties),
    ];
    all.into_iter().flatten()
}

/// The filters, as arguments of a subscription's queue.
pub(super) fn filter_arguments(parts: FilterParts<'_>) -> Vec<(Name, Value)> {
    let argument = |filter| match filter {
        Filter::Selector(text) => (subscription::SELECTOR, Value::string(text)),
        Filter::Sql(text) => (subscription::SQL, Value::string(text)),
        Filter::Properties(pairs) => (subscription::PROPERTIES, Value::Map(pairs.to_vec())),
        Filter::ApplicationProperties(pairs) => {
            let pairs = Value::Map(pairs.to_vec());
            (subscription::APPLICATION_PROPERTIES, pairs)
        }
    };
    let arguments = applied_filters(parts).map(argument);
    arguments
        .map(|(name, value)| (Name::from(name), value))
        .collect()
}

/// Whether a terminus names a capability.
pub(super) fn has_capability(capabilities: Option<&[Symbol]>, wanted: &str) -> bool {
    let mut capabilities = capabilities.into_iter().flatten();
    capabilities.any(|capability| capability.as_str() == wanted)
}

/// Bytes that the filters of a source take, as far as they are applied.
pub(super) fn filter_bytes(source: Option<&Source>) -> usize {
    let filters = source.and_then(|source| source.filter.as_ref());
    let filters = filters.into_iter().flat_map(Fields::values);
    let bytes = filters.filter_map(filter).map(|found| match found {
        Filter::Selector(text) | Filter::Sql(text) => text.len(),
        Filter::Properties(pairs) | Filter::ApplicationProperties(pairs) => pairs_bytes(pairs),
    });
    bytes.sum()
}

fn property<'a>(attach: &'a Attach, key: &str) -> Option<&'a Value> {
    attach.properties.as_ref()?.get(key)
}

pub(super) fn priority(attach: &Attach) -> Result<i32, Error> {
    let value = match property(attach, PRIORITY) {
        None | Some(Value::Null) => return Ok(0),
        Some(Value::Byte(value)) => Some(i32::from(*value)),
        Some(Value::Short(value)) => Some(i32::from(*value)),
        Some(Value::Int(value)) => Some(*value),
        Some(Value::Long(value)) => i32::try_from(*value).ok(),
        Some(Value::Ubyte(value)) => Some(i32::from(*value)),
        Some(Value::Ushort(value)) => Some(i32::from(*value)),
        Some(Value::Uint(value)) => i32::try_from(*value).ok(),
        Some(Value::Ulong(value)) => i32::try_from(*value).ok(),
        Some(_) => None,
    };
    value.ok_or_else(|| errors::invalid_field(format_args!("{PRIORITY} takes a 32-bit integer")))
}

/// How long the consumer may hold a delivery, in milliseconds; none: it does not say. RabbitMQ takes
/// an uint; a client that writes another integer type means the same.
pub(super) fn consumer_timeout(attach: &Attach) -> Result<Option<u32>, Error> {
    let value = match property(attach, CONSUMER_TIMEOUT) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Uint(value)) => Some(*value),
        Some(Value::Ubyte(value)) => Some(u32::from(*value)),
        Some(Value::Ushort(value)) => Some(u32::from(*value)),
        Some(Value::Ulong(value)) => u32::try_from(*value).ok(),
        Some(Value::Byte(value)) => u32::try_from(*value).ok(),
        Some(Value::Short(value)) => u32::try_from(*value).ok(),
        Some(Value::Int(value)) => u32::try_from(*value).ok(),
        Some(Value::Long(value)) => u32::try_from(*value).ok(),
        Some(_) => None,
    };
    value.map(Some).ok_or_else(|| {
        errors::invalid_field(format_args!(
            "{CONSUMER_TIMEOUT} takes a number of milliseconds from 0 to {}",
            u32::MAX
        ))
    })
}

pub(super) fn exclusive(attach: &Attach) -> Result<bool, Error> {
    match property(attach, EXCLUSIVE) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(exclusive)) => Ok(*exclusive),
        Some(_) => Err(errors::invalid_field(format_args!(
            "{EXCLUSIVE} takes a boolean"
        ))),
    }
}

/// The evidence level that the receiver asks for, or the configured one.
pub(super) fn death_evidence(
    attach: &Attach,
    unasked: EvidenceLevel,
) -> Result<EvidenceLevel, Error> {
    let word = match property(attach, DEATH_EVIDENCE) {
        None | Some(Value::Null) => return Ok(unasked),
        Some(Value::String(word) | Value::Symbol(word)) => word.as_str(),
        Some(_) => "",
    };
    EvidenceLevel::from_word(word).ok_or_else(|| {
        errors::invalid_field(format_args!(
            "{DEATH_EVIDENCE} takes \"none\", \"error\" or \"full\""
        ))
    })
}

pub(super) fn deaths_encoding(attach: &Attach) -> Result<Encoding, Error> {
    let word = match property(attach, DEATHS_ENCODING) {
        None | Some(Value::Null) => return Ok(Encoding::default()),
        Some(Value::String(word) | Value::Symbol(word)) => word.as_str(),
        Some(_) => "",
    };
    match word {
        "array" => Ok(Encoding::Array),
        "list" => Ok(Encoding::List),
        "none" => Ok(Encoding::None),
        _ => Err(errors::invalid_field(format_args!(
            "{DEATHS_ENCODING} takes \"array\", \"list\" or \"none\""
        ))),
    }
}
