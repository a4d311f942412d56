//! SASL mechanisms, and which of them a peer is offered.

use std::fmt;
use std::str::FromStr;

use super::peer::Peer;
use super::scram::ScramHash;

/// A SASL mechanism, in the order of our preference. [AMQP 5.3.3.1]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Mechanism {
    /// The client certificate says who it is. [RFC 4422 appendix A]
    External,
    /// A proof of the password. [RFC 5802]
    Scram(ScramHash),
    /// The password in clear. [RFC 4616]
    Plain,
    /// Nobody in particular. [RFC 4505]
    Anonymous,
}

impl Mechanism {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::External,
        Self::Scram(ScramHash::Sha512),
        Self::Scram(ScramHash::Sha256),
        Self::Plain,
        Self::Anonymous,
    ];

    /// Its registered name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::External => "EXTERNAL",
            Self::Scram(ScramHash::Sha512) => "SCRAM-SHA-512",
            Self::Scram(ScramHash::Sha256) => "SCRAM-SHA-256",
            Self::Plain => "PLAIN",
            Self::Anonymous => "ANONYMOUS",
        }
    }
}

/// How somebody says who it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoginWay {
    /// By SASL.
    Sasl(Mechanism),
    /// By Basic authentication over HTTP. [RFC 7617]
    Basic,
    /// In no way that is known: SASL out of order.
    Unknown,
}

impl LoginWay {
    /// All of them.
    pub const ALL: [Self; 7] = {
        let [external, sha512, sha256, plain, anonymous] = Mechanism::ALL;
        [
            Self::Sasl(external),
            Self::Sasl(sha512),
            Self::Sasl(sha256),
            Self::Sasl(plain),
            Self::Sasl(anonymous),
            Self::Basic,
            Self::Unknown,
        ]
    };

    /// The way that a mechanism of this name is.
    pub fn of_mechanism(name: &str) -> Self {
        name.parse().map_or(Self::Unknown, Self::Sasl)
    }

    /// Its word, in logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sasl(mechanism) => mechanism.as_str(),
            Self::Basic => "Basic",
            Self::Unknown => "unknown",
        }
    }
}

impl FromStr for Mechanism {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|known| known.as_str() == name);
        known.ok_or_else(|| format!("'{name}' is no mechanism that is known here"))
    }
}

impl fmt::Display for Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Which mechanisms there are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mechanisms {
    /// Those that are switched on.
    pub enabled: Vec<Mechanism>,
    /// Whether passwords in clear are taken over connections that others can read.
    pub plain_without_tls: bool,
    /// Whether there is a user for anonymous peers.
    pub has_anonymous: bool,
}

impl Mechanisms {
    /// Those for this peer, in the order of our preference; may be none.
    pub fn offered(&self, peer: &Peer) -> Vec<Mechanism> {
        let offered = Mechanism::ALL.into_iter().filter(|mechanism| {
            let possible = match mechanism {
                Mechanism::External => peer.certificate_user().is_some(),
                Mechanism::Scram(_) => true,
                Mechanism::Plain => self.plain_without_tls || !peer.is_readable_by_others(),
                Mechanism::Anonymous => self.has_anonymous,
            };
            possible && self.enabled.contains(mechanism)
        });
        offered.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::TlsPeer;
    use crate::base::Name;

    #[test]
    fn what_is_offered_depends_on_the_peer() {
        let remote = Peer::at("192.0.2.1:40000".parse().unwrap());
        let over_tls = |certificate_user: Option<&str>| Peer {
            tls: Some(TlsPeer {
                version: "TLSv1.3",
                cipher: "TLS13_AES_128_GCM_SHA256",
                certificate_user: certificate_user.map(Name::from),
            }),
            ..remote.clone()
        };
        let mut mechanisms = Mechanisms {
            enabled: Mechanism::ALL.to_vec(),
            plain_without_tls: false,
            has_anonymous: true,
        };
        let check = |mechanisms: &Mechanisms, peer: &Peer, expect: &str| {
            let offered = mechanisms.offered(peer);
            let names: Vec<_> = offered.iter().map(|mechanism| mechanism.as_str()).collect();
            assert_eq!(names.join(" "), expect, "{peer:?}");
        };
        let scram = "SCRAM-SHA-512 SCRAM-SHA-256";
        check(
            &mechanisms,
            &Peer::IN_PROCESS,
            &format!("{scram} PLAIN ANONYMOUS"),
        );
        check(&mechanisms, &remote, &format!("{scram} ANONYMOUS"));
        check(
            &mechanisms,
            &over_tls(None),
            &format!("{scram} PLAIN ANONYMOUS"),
        );
        check(
            &mechanisms,
            &over_tls(Some("ada")),
            &format!("EXTERNAL {scram} PLAIN ANONYMOUS"),
        );
        mechanisms.plain_without_tls = true;
        mechanisms.has_anonymous = false;
        check(&mechanisms, &remote, &format!("{scram} PLAIN"));
        mechanisms.enabled = vec![Mechanism::Plain];
        check(&mechanisms, &remote, "PLAIN");
        mechanisms.plain_without_tls = false;
        check(&mechanisms, &remote, "");
    }

    #[test]
    fn names_are_the_registered_ones() {
        for mechanism in Mechanism::ALL {
            assert_eq!(mechanism.as_str().parse(), Ok(mechanism));
        }
        assert!("SCRAM-SHA-1".parse::<Mechanism>().is_err());
    }
}
