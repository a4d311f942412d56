//! Addresses of queues and exchanges, version 2 of RabbitMQ's format.
//!
//! ```text
//! /queues/:queue                     target and source
//! /exchanges/:exchange               target, with the empty routing key; source, a subscription
//! /exchanges/:exchange/:routing-key  target; source, a subscription
//! /management                        the management node, paired links only
//! name                               a queue, if the name matches a pattern of `auto-create`
//! ```
//! Every segment is percent-decoded (RFC 3986) and must be UTF-8. The default exchange cannot be
//! named.

use thiserror::Error;

use crate::base::limits::{ADDRESS_BYTES_MAX, NAME_BYTES_MAX};
use crate::base::{KeyError, Name, check_routing_key};

use super::pattern::NamePatterns;

/// Address of the management node.
pub(crate) const MANAGEMENT: &str = "/management";

/// The object that an address names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Address {
    /// A queue, by `/queues/:queue`.
    Queue(Name),
    /// A queue by its bare name, which is declared when it does not exist.
    BareQueue(Name),
    /// An exchange and the routing key for it.
    Exchange {
        /// The exchange, not empty.
        exchange: Name,
        /// The routing key, may be empty.
        key: Name,
    },
}

/// Why an address is invalid. The peer's fault: `amqp:invalid-field`, for a bare name
/// `amqp:not-found`.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub(crate) enum AddressError {
    /// The address has none of the forms.
    #[error(
        "bad address '{address}': it takes /queues/:queue, /exchanges/:exchange or \
         /exchanges/:exchange/:routing-key, each segment percent-encoded"
    )]
    Form {
        /// The address as given.
        address: String,
    },
    /// A segment has a `%` that is not followed by two hexadecimal digits, or is not UTF-8.
    #[error("bad address '{address}': '{segment}' is not percent-encoded UTF-8")]
    Encoding {
        /// The address as given.
        address: String,
        /// The segment that cannot be decoded.
        segment: String,
    },
    /// A name is too long.
    #[error("bad address: a name of {bytes} bytes, more than {NAME_BYTES_MAX}")]
    Long {
        /// The name's length in bytes.
        bytes: usize,
    },
    /// The address is too long for any name.
    #[error("bad address: it has {bytes} bytes, more than {ADDRESS_BYTES_MAX}")]
    TooLong {
        /// The address's length in bytes.
        bytes: usize,
    },
    /// A routing key is too long, or has too many words.
    #[error("bad address: a routing key of {0}")]
    Key(KeyError),
    /// The address names the default exchange.
    #[error("bad address '{address}': the default exchange is reached as /queues/:queue")]
    DefaultExchange {
        /// The address as given.
        address: String,
    },
    /// No pattern of `auto-create` allows the bare name.
    #[error(
        "no queue has the address '{address}': a queue is reached as /queues/:queue, or by its bare \
         name if a pattern of auto-create allows that"
    )]
    Bare {
        /// The address as given.
        address: String,
    },
    /// The address names an exchange, and messages are to be consumed.
    #[error("bad source address '{address}': messages are consumed from /queues/:queue")]
    NoSource {
        /// The address as given.
        address: String,
    },
}

impl Address {
    /// Parses an address to publish to.
    pub(crate) fn target(text: &str, bare: &NamePatterns) -> Result<Self, AddressError> {
        if text.len() > ADDRESS_BYTES_MAX {
            return Err(AddressError::TooLong { bytes: text.len() });
        }
        let Some(path) = text.strip_prefix('/') else {
            return bare_queue(text, bare);
        };
        let mut segments = path.split('/');
        let words = (
            segments.next(),
            segments.next(),
            segments.next(),
            segments.next(),
        );
        match words {
            (Some("queues"), Some(queue), None, None) if !queue.is_empty() => {
                Ok(Self::Queue(decode(text, queue)?))
            }
            (Some("exchanges"), Some(exchange), key, None) if !exchange.is_empty() => {
                let exchange = decode(text, exchange)?;
                if exchange == "amq.default" {
                    return Err(AddressError::DefaultExchange {
                        address: text.to_owned(),
                    });
                }
                Ok(Self::Exchange {
                    exchange,
                    key: decode_key(text, key.unwrap_or_default())?,
                })
            }
            _ => Err(AddressError::Form {
                address: text.to_owned(),
            }),
        }
    }

    /// The topic of a bare name: the key of that name on an exchange.
    pub(crate) fn topic(exchange: &str, name: &str) -> Result<Self, AddressError> {
        if name.is_empty() {
            return Err(AddressError::Form {
                address: name.to_owned(),
            });
        }
        check_routing_key(name).map_err(AddressError::Key)?;
        Ok(Self::Exchange {
            exchange: Name::from(exchange),
            key: Name::from(name),
        })
    }

    /// Parses an address to consume from.
    pub(crate) fn source(text: &str, bare: &NamePatterns) -> Result<Self, AddressError> {
        match Self::target(text, bare)? {
            Self::Exchange { .. } => Err(AddressError::NoSource {
                address: text.to_owned(),
            }),
            queue => Ok(queue),
        }
    }
}

fn bare_queue(text: &str, bare: &NamePatterns) -> Result<Address, AddressError> {
    let is_allowed = !text.is_empty() && bare.matches(text);
    if !is_allowed {
        // With a slash it is an address of another form, not a bare name.
        if text.is_empty() || text.contains('/') {
            return Err(AddressError::Form {
                address: text.to_owned(),
            });
        }
        return Err(AddressError::Bare {
            address: text.to_owned(),
        });
    }
    if text.len() > NAME_BYTES_MAX {
        return Err(AddressError::Long { bytes: text.len() });
    }
    Ok(Address::BareQueue(Name::from(text)))
}

/// Decodes a segment that is a name.
fn decode(address: &str, segment: &str) -> Result<Name, AddressError> {
    let name = decode_segment(address, segment)?;
    if name.len() > NAME_BYTES_MAX {
        return Err(AddressError::Long { bytes: name.len() });
    }
    Ok(name)
}

/// Decodes a segment that is a routing key.
fn decode_key(address: &str, segment: &str) -> Result<Name, AddressError> {
    let key = decode_segment(address, segment)?;
    check_routing_key(&key).map_err(AddressError::Key)?;
    Ok(key)
}

fn decode_segment(address: &str, segment: &str) -> Result<Name, AddressError> {
    let bad = || AddressError::Encoding {
        address: address.to_owned(),
        segment: segment.to_owned(),
    };
    Name::percent_decoded(segment).ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(text: &str) -> Result<Address, AddressError> {
        Address::target(
            text,
            &NamePatterns::new(&["q1".to_owned(), "test.#".to_owned()]),
        )
    }

    fn exchange(exchange: &str, key: &str) -> Address {
        Address::Exchange {
            exchange: Name::from(exchange),
            key: Name::from(key),
        }
    }

    #[test]
    fn version_2_addresses_are_percent_decoded() {
        let check = |text: &str, expect| assert_eq!(target(text), Ok(expect), "{text}");
        check("/queues/q1", Address::Queue(Name::from("q1")));
        check("/queues/%C3%A4%2F", Address::Queue(Name::from("\u{e4}/")));
        check("/exchanges/x1", exchange("x1", ""));
        check("/exchanges/x1/", exchange("x1", ""));
        check("/exchanges/x1/k", exchange("x1", "k"));
        check("/exchanges/x1/a%2Fb", exchange("x1", "a/b"));
    }

    #[test]
    fn everything_else_is_refused() {
        let bad = [
            "",
            "/",
            "/queues",
            "/queues/",
            "/queues/a/b",
            "/queues/%zz",
            "/queues/a%4",
            "/queues/%ff",
            "/exchanges",
            "/exchanges/",
            "/exchanges//k",
            "/exchanges/x1/a/b",
            "/exchanges/x1/%zz",
            "/exchanges/amq.default",
            "/exchanges/amq.default/q1",
            "/v9/foo",
            "/management",
            "/queue/q1",
            "/exchange/x1/k",
            "/topic/a.b",
            "/amq/queue/q1",
            "q2",
        ];
        for text in bad {
            assert!(target(text).is_err(), "{text}");
        }
        assert!(target(&format!("/queues/{}", "q".repeat(257))).is_err());
    }

    #[test]
    fn a_routing_key_is_at_most_a_kib_and_256_dots_long() {
        let of = |key: &str| target(&format!("/exchanges/x1/{key}"));
        let longest = "k".repeat(1024);
        assert_eq!(of(&longest), Ok(exchange("x1", &longest)));
        let error = of(&"k".repeat(1025)).unwrap_err().to_string();
        assert!(error.contains("1025 bytes, at most 1024"), "{error}");
        let encoded = of(&"%6B".repeat(1024));
        assert_eq!(encoded, Ok(exchange("x1", &longest)));
        let error = of(&"k".repeat(100_000)).unwrap_err().to_string();
        assert!(error.contains("more than 4096"), "{error}");
        assert!(of(&".".repeat(256)).is_ok());
        let error = of(&"a.".repeat(257)).unwrap_err().to_string();
        assert!(error.contains("257 dots, at most 256"), "{error}");
    }

    #[test]
    fn bare_names_need_a_pattern() {
        assert_eq!(target("q1"), Ok(Address::BareQueue(Name::from("q1"))));
        assert_eq!(
            target("test.a.b"),
            Ok(Address::BareQueue(Name::from("test.a.b")))
        );
        let error = target("tset.a").unwrap_err();
        assert_eq!(
            error,
            AddressError::Bare {
                address: "tset.a".to_owned()
            }
        );
    }

    #[test]
    fn exchanges_are_no_sources() {
        let none = NamePatterns::default();
        assert!(Address::source("/exchanges/x1", &none).is_err());
        assert!(Address::source("/queues/q", &none).is_ok());
    }
}
