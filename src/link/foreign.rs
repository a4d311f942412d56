//! Recognition of other protocols that clients speak to a port of AMQP 1.0.

use std::fmt;

/// A protocol that a client speaks instead of AMQP 1.0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Foreign {
    /// AMQP 0-9-1 or its predecessors.
    Amqp091,
    /// HTTP/1 or the preface of HTTP/2.
    Http,
    /// TLS, on a listener without TLS.
    Tls,
}

/// The first words of HTTP requests.
const METHODS: [&[u8]; 8] = [
    b"GET ",
    b"PUT ",
    b"POST ",
    b"HEAD ",
    b"DELETE ",
    b"OPTIONS ",
    b"PATCH ",
    b"CONNECT ",
];
/// The first byte of a TLS handshake, and the major version behind it. [RFC 8446 5.1]
const TLS_HANDSHAKE: &[u8] = &[0x16, 0x03];
/// The beginnings of headers of AMQP 0-8, 0-9 and 0-9-1.
const AMQP_0: [&[u8]; 2] = [b"AMQP\x00\x00\x09", b"AMQP\x01\x01"];

impl Foreign {
    /// The protocol that begins with these bytes, as far as they have arrived.
    pub(super) fn of(front: &[u8]) -> Option<Self> {
        let begins = |with: &&[u8]| {
            let length = with.len().min(front.len());
            length >= TLS_HANDSHAKE.len() && with.get(..length) == front.get(..length)
        };
        if METHODS.iter().any(&begins) {
            Some(Self::Http)
        } else if begins(&TLS_HANDSHAKE) {
            Some(Self::Tls)
        } else if front.len() > b"AMQP".len() && AMQP_0.iter().any(&begins) {
            Some(Self::Amqp091)
        } else {
            None
        }
    }

    /// What the user of the client should do, for the log.
    pub const fn advice(self) -> &'static str {
        match self {
            Self::Amqp091 => {
                "use a client that speaks AMQP 1.0: docs/clients has one for each language"
            }
            Self::Http => "the HTTP API has a port of its own, as --http says (15672 by default)",
            Self::Tls => "use amqp:// on this port, or amqps:// on the port of --amqps",
        }
    }
}

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Amqp091 => "AMQP 0-9-1",
            Self::Http => "HTTP",
            Self::Tls => "TLS",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_protocols_are_told_by_how_they_begin() {
        let check = |front: &[u8], expect| assert_eq!(Foreign::of(front), expect, "{front:?}");
        check(b"AMQP\x00\x00\x09\x01", Some(Foreign::Amqp091));
        check(b"AMQP\x01\x01\x08\x00", Some(Foreign::Amqp091));
        check(b"GET /api", Some(Foreign::Http));
        check(b"OPTIONS ", Some(Foreign::Http));
        check(b"PO", Some(Foreign::Http));
        check(&[0x16, 0x03, 0x01, 0x02], Some(Foreign::Tls));
        check(b"G", None);
        check(b"AMQP", None);
        check(b"AMQP\x00\x01\x00\x00", None);
        check(b"SSH-2.0-", None);
        check(&[], None);
    }
}
