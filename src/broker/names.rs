//! Rules for the names of queues and exchanges that clients declare.

use crate::base::{Name, check_routing_key, limits::NAME_BYTES_MAX};

use super::{Error, ObjectKind};

/// Checks the name of a queue or exchange that a client wants to declare: not empty, at most
/// [`NAME_BYTES_MAX`] bytes, no line breaks, not beginning with `amq.` (which belongs to the broker).
///
/// Errors: [`Error::BadRequest`], [`Error::Reserved`].
pub fn check_new_name(kind: ObjectKind, name: &Name) -> Result<(), Error> {
    check_form(kind, name)?;
    if name.starts_with(RESERVED_PREFIX) {
        return Err(Error::Reserved {
            kind,
            name: name.clone(),
            why: "names beginning with 'amq.' belong to the broker",
        });
    }
    Ok(())
}

/// [`check_new_name`] without the rule on `amq.`: for names the broker gives itself.
pub fn check_form(kind: ObjectKind, name: &Name) -> Result<(), Error> {
    let wrong = if name.is_empty() {
        "must not be empty".to_owned()
    } else if name.len() > NAME_BYTES_MAX {
        format!(
            "has {} bytes, at most {NAME_BYTES_MAX} are allowed",
            name.len()
        )
    } else if name.contains(['\r', '\n']) {
        "must not contain line breaks".to_owned()
    } else {
        return Ok(());
    };
    let why = format!("the name of the {kind} {wrong}");
    Err(Error::BadRequest { why })
}

/// Checks a binding key; see [`check_routing_key`].
///
/// Errors: [`Error::BadRequest`].
pub fn check_key(key: &Name) -> Result<(), Error> {
    check_routing_key(key).map_err(|error| Error::BadRequest {
        why: format!("the binding key has {error}"),
    })
}

/// Prefix of the broker's own names.
pub const RESERVED_PREFIX: &str = "amq.";
/// Prefix of the names of temporary queues.
pub const TEMPORARY_PREFIX: &str = "amq.gen-";

/// Prefix of the names of the queues of subscriptions that outlive a link.
pub const SUBSCRIPTION_PREFIX: &str = "amq.subscription";

/// The internal topic exchange by which events come as messages, if they do. [evidence part 10]
pub const EVENT_EXCHANGE: &str = "amq.coroner.event";
/// The queue of each vhost that keeps dead letters without a target. [evidence part 4]
pub const QUARANTINE: &str = "amq.quarantine";
/// The policy keys that do not apply to it: messages that die in it are dropped, and its oldest
/// messages are dropped first.
pub const QUARANTINE_IGNORES: [&str; 5] = [
    "dead-letter-exchange",
    "dead-letter-routing-key",
    "dead-letter-strategy",
    "on-undeliverable",
    "overflow",
];

/// Whether a queue or exchange may have this reserved name because it is a temporary one.
pub fn is_temporary(name: &Name) -> bool {
    name.starts_with(TEMPORARY_PREFIX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_clients_have_a_form() {
        let check = |name: &str| check_new_name(ObjectKind::Queue, &Name::from(name));
        assert_eq!(check("q"), Ok(()));
        assert_eq!(check("\u{e4}/b c"), Ok(()));
        assert_eq!(check(&"n".repeat(256)), Ok(()));
        assert!(matches!(
            check(&"n".repeat(257)),
            Err(Error::BadRequest { .. })
        ));
        assert!(matches!(check(""), Err(Error::BadRequest { .. })));
        assert!(matches!(check("a\nb"), Err(Error::BadRequest { .. })));
        assert!(matches!(check("a\rb"), Err(Error::BadRequest { .. })));
        assert!(matches!(check("amq.q"), Err(Error::Reserved { .. })));
        assert_eq!(
            check_form(ObjectKind::Queue, &Name::from("amq.gen-1")),
            Ok(())
        );
    }
}
