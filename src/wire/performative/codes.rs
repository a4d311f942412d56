//! Descriptors of performatives and delivery states. [AMQP 2.7, 3.4, 4.5]

use crate::wire::Descriptor;

pub(super) const OPEN: u64 = 0x10;
pub(super) const BEGIN: u64 = 0x11;
pub(super) const ATTACH: u64 = 0x12;
pub(super) const FLOW: u64 = 0x13;
pub(super) const TRANSFER: u64 = 0x14;
pub(super) const DISPOSITION: u64 = 0x15;
pub(super) const DETACH: u64 = 0x16;
pub(super) const END: u64 = 0x17;
pub(super) const CLOSE: u64 = 0x18;
pub(super) const ERROR: u64 = 0x1d;
pub(super) const RECEIVED: u64 = 0x23;
pub(super) const ACCEPTED: u64 = 0x24;
pub(super) const REJECTED: u64 = 0x25;
pub(super) const RELEASED: u64 = 0x26;
pub(super) const MODIFIED: u64 = 0x27;
pub(super) const SOURCE: u64 = 0x28;
pub(super) const TARGET: u64 = 0x29;
pub(super) const DELETE_ON_CLOSE: u64 = 0x2b;
pub(super) const COORDINATOR: u64 = 0x30;
pub(super) const DECLARE: u64 = 0x31;
pub(super) const DISCHARGE: u64 = 0x32;
pub(super) const DECLARED: u64 = 0x33;
pub(super) const TRANSACTIONAL_STATE: u64 = 0x34;
/// The descriptor, registered by Apache, of the filter with a selector.
pub(super) const SELECTOR_FILTER: u64 = 0x0000_468c_0000_0004;
/// The descriptor, registered by Apache, of the filter that leaves out what its own connection sends.
pub(super) const NO_LOCAL_FILTER: u64 = 0x0000_468c_0000_0003;
/// The descriptor of the SQL filter. [AMQP Filter Expressions 6.2]
pub(super) const SQL_FILTER: u64 = 0x120;
/// The descriptors of property filters. [AMQP Filter Expressions 4.2]
pub(super) const PROPERTIES_FILTER: u64 = 0x173;
pub(super) const APPLICATION_PROPERTIES_FILTER: u64 = 0x174;

const NAMES: [(&str, u64); 28] = [
    ("amqp:open:list", OPEN),
    ("amqp:begin:list", BEGIN),
    ("amqp:attach:list", ATTACH),
    ("amqp:flow:list", FLOW),
    ("amqp:transfer:list", TRANSFER),
    ("amqp:disposition:list", DISPOSITION),
    ("amqp:detach:list", DETACH),
    ("amqp:end:list", END),
    ("amqp:close:list", CLOSE),
    ("amqp:received:list", RECEIVED),
    ("amqp:accepted:list", ACCEPTED),
    ("amqp:rejected:list", REJECTED),
    ("amqp:released:list", RELEASED),
    ("amqp:modified:list", MODIFIED),
    ("amqp:source:list", SOURCE),
    ("amqp:target:list", TARGET),
    ("amqp:delete-on-close:list", DELETE_ON_CLOSE),
    ("amqp:error:list", ERROR),
    ("amqp:coordinator:list", COORDINATOR),
    ("amqp:declare:list", DECLARE),
    ("amqp:discharge:list", DISCHARGE),
    ("amqp:declared:list", DECLARED),
    ("amqp:transactional-state:list", TRANSACTIONAL_STATE),
    ("apache.org:selector-filter:string", SELECTOR_FILTER),
    ("apache.org:no-local-filter:list", NO_LOCAL_FILTER),
    ("amqp:sql-filter", SQL_FILTER),
    ("amqp:properties-filter", PROPERTIES_FILTER),
    (
        "amqp:application-properties-filter",
        APPLICATION_PROPERTIES_FILTER,
    ),
];

/// The number of a descriptor; 0, which is not in use, for an unknown name.
pub(super) fn number(descriptor: Descriptor<'_>) -> u64 {
    match descriptor {
        Descriptor::Code(code) => code,
        Descriptor::Symbol(name) => NAMES
            .iter()
            .find(|(known, _)| *known == name)
            .map_or(0, |(_, code)| *code),
    }
}

/// The symbol of a descriptor; empty for a number that has none.
pub(super) fn symbol(code: u64) -> &'static str {
    let mut names = NAMES.iter();
    names
        .find(|(_, known)| *known == code)
        .map_or("", |(name, _)| *name)
}

/// The name of a descriptor, without prefix and suffix, for traces and error messages.
pub(super) fn name(code: u64) -> Option<&'static str> {
    let (name, _) = NAMES.iter().find(|(_, known)| *known == code)?;
    name.strip_prefix("amqp:")?.strip_suffix(":list")
}
