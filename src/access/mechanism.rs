//! SASL mechanisms, and the choice of those that a peer is offered.

use std::fmt;
use std::str::FromStr;

use super::peer::Peer;
use super::scram::ScramHash;

/// A SASL mechanism, in order of preference. [AMQP 5.3.3.1]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Mechanism {
    /// EXTERNAL: the client certificate names the user. [RFC 4422 appendix A]
    External,
    /// SCRAM: a proof of the password. [RFC 5802]
    Scram(ScramHash),
    /// PLAIN: the password in clear. [RFC 4616]
    Plain,
    /// OAUTHBEARER: an access token. [RFC 7628]
    OAuthBearer,
    /// XOAUTH2: an access token, in the form that was used before OAUTHBEARER.
    XOAuth2,
    /// ANONYMOUS: no user in particular. [RFC 4505]
    Anonymous,
}

impl Mechanism {
    /// All mechanisms, in order of preference.
    pub const ALL: [Self; 7] = [
        Self::External,
        Self::Scram(ScramHash::Sha512),
        Self::Scram(ScramHash::Sha256),
        Self::Plain,
        Self::OAuthBearer,
        Self::XOAuth2,
        Self::Anonymous,
    ];

    /// The mechanism's registered name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::External => "EXTERNAL",
            Self::Scram(ScramHash::Sha512) => "SCRAM-SHA-512",
            Self::Scram(ScramHash::Sha256) => "SCRAM-SHA-256",
            Self::Plain => "PLAIN",
            Self::OAuthBearer => "OAUTHBEARER",
            Self::XOAuth2 => "XOAUTH2",
            Self::Anonymous => "ANONYMOUS",
        }
    }
}

/// The way of a login.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoginWay {
    /// By a SASL mechanism.
    Sasl(Mechanism),
    /// By Basic authentication over HTTP. [RFC 7617]
    Basic,
    /// By an access token over HTTP. [RFC 6750]
    Bearer,
    /// In no known way: SASL frames out of order.
    Unknown,
}

impl LoginWay {
    /// All ways, in the order of their counts.
    pub const ALL: [Self; 10] = {
        let [external, sha512, sha256, plain, oauth, xoauth2, anonymous] = Mechanism::ALL;
        [
            Self::Sasl(external),
            Self::Sasl(sha512),
            Self::Sasl(sha256),
            Self::Sasl(plain),
            Self::Sasl(oauth),
            Self::Sasl(xoauth2),
            Self::Sasl(anonymous),
            Self::Basic,
            Self::Bearer,
            Self::Unknown,
        ]
    };

    /// The way of a mechanism with this name.
    pub fn of_mechanism(name: &str) -> Self {
        name.parse().map_or(Self::Unknown, Self::Sasl)
    }

    /// The word for it in logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sasl(mechanism) => mechanism.as_str(),
            Self::Basic => "Basic",
            Self::Bearer => "Bearer",
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

/// The configuration of mechanisms.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mechanisms {
    /// The mechanisms that are enabled.
    pub enabled: Vec<Mechanism>,
    /// Whether passwords in clear are accepted over connections that others can read.
    pub plain_without_tls: bool,
    /// Whether there is a user for anonymous peers.
    pub has_anonymous: bool,
    /// Whether access tokens are taken.
    pub takes_tokens: bool,
}

impl Mechanisms {
    /// The mechanisms to offer to this peer, in order of preference; may be empty.
    pub fn offered(&self, peer: &Peer) -> Vec<Mechanism> {
        let is_secret = self.plain_without_tls || !peer.is_readable_by_others();
        let offered = Mechanism::ALL.into_iter().filter(|mechanism| {
            let possible = match mechanism {
                Mechanism::External => peer.certificate_user().is_some(),
                Mechanism::Scram(_) => true,
                Mechanism::Plain => is_secret,
                Mechanism::OAuthBearer | Mechanism::XOAuth2 => self.takes_tokens && is_secret,
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
            takes_tokens: false,
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
        mechanisms.takes_tokens = true;
        check(
            &mechanisms,
            &remote,
            &format!("{scram} PLAIN OAUTHBEARER XOAUTH2"),
        );
        mechanisms.plain_without_tls = false;
        check(&mechanisms, &remote, scram);
        mechanisms.plain_without_tls = true;
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
