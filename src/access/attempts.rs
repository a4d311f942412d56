//! Login attempts, counted until an operator resets them: by protocol, and by user and source
//! address.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::mechanism::LoginWay;
use crate::base::Name;

/// Sources that are counted separately; further ones count by protocol only.
const SOURCES_MAX: usize = 1_024;
/// Bytes of a user name that are kept: clients may send any name.
const USER_BYTES_MAX: usize = 64;

/// Numbers of login attempts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tries {
    /// Attempts that succeeded.
    pub succeeded: u64,
    /// Attempts that were refused, for whatever reason.
    pub failed: u64,
}

impl Tries {
    const fn count(&mut self, succeeded: bool) {
        if succeeded {
            self.succeeded += 1;
        } else {
            self.failed += 1;
        }
    }
}

/// The protocol, address and user name of an attempt.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Source {
    /// The protocol: `amqp10` or `http`.
    pub protocol: &'static str,
    /// The peer's address.
    pub address: IpAddr,
    /// The beginning of the user name that was given.
    pub user: Name,
}

/// Counts of login attempts.
#[derive(Clone, Debug, Default)]
pub struct Attempts {
    by_protocol: BTreeMap<&'static str, Tries>,
    by_source: BTreeMap<Source, Tries>,
}

impl Attempts {
    /// Counts one attempt.
    pub fn note(&mut self, way: LoginWay, address: IpAddr, user: &str, succeeded: bool) {
        let protocol = match way {
            LoginWay::Basic | LoginWay::Bearer => "http",
            LoginWay::Sasl(_) | LoginWay::Unknown => "amqp10",
        };
        self.by_protocol
            .entry(protocol)
            .or_default()
            .count(succeeded);
        let source = Source {
            protocol,
            address,
            user: Name::from(beginning(user)),
        };
        if self.by_source.len() < SOURCES_MAX || self.by_source.contains_key(&source) {
            self.by_source.entry(source).or_default().count(succeeded);
        }
    }

    /// The counts by protocol, of those that were used.
    pub fn by_protocol(&self) -> impl Iterator<Item = (&'static str, Tries)> {
        self.by_protocol
            .iter()
            .map(|(protocol, tries)| (*protocol, *tries))
    }

    /// The counts by source.
    pub fn by_source(&self) -> impl Iterator<Item = (&Source, Tries)> {
        self.by_source
            .iter()
            .map(|(source, tries)| (source, *tries))
    }

    /// Resets the counts by protocol.
    pub fn reset_protocols(&mut self) {
        self.by_protocol.clear();
    }

    /// Resets the counts by source.
    pub fn reset_sources(&mut self) {
        self.by_source.clear();
    }
}

fn beginning(user: &str) -> &str {
    let ends = (0..=user.len().min(USER_BYTES_MAX)).rev();
    let end = ends.into_iter().find(|end| user.is_char_boundary(*end));
    user.get(..end.unwrap_or(0)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::access::Mechanism;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    #[test]
    fn attempts_are_counted_by_protocol_and_source_until_they_are_set_back() {
        let mut attempts = Attempts::default();
        let plain = LoginWay::Sasl(Mechanism::Plain);
        attempts.note(plain, HERE, "ada", true);
        attempts.note(plain, HERE, "ada", false);
        attempts.note(LoginWay::Basic, HERE, "ada", true);
        let tries = |succeeded, failed| Tries { succeeded, failed };
        let by_protocol: Vec<_> = attempts.by_protocol().collect();
        assert_eq!(
            by_protocol,
            [("amqp10", tries(1, 1)), ("http", tries(1, 0))]
        );
        let by_source = attempts
            .by_source()
            .map(|(source, tries)| (&*source.user, tries));
        let by_source: Vec<_> = by_source.collect();
        assert_eq!(by_source, [("ada", tries(1, 1)), ("ada", tries(1, 0))]);
        attempts.reset_protocols();
        assert_eq!(attempts.by_protocol().count(), 0);
        assert_eq!(attempts.by_source().count(), 2);
        attempts.reset_sources();
        assert_eq!(attempts.by_source().count(), 0);
    }

    #[test]
    fn names_and_sources_are_bounded() {
        let mut attempts = Attempts::default();
        attempts.note(LoginWay::Basic, HERE, &"\u{e9}".repeat(1_000), false);
        let (source, _) = attempts.by_source().next().unwrap();
        assert_eq!(source.user.len(), USER_BYTES_MAX);
        for number in 0..2 * SOURCES_MAX {
            attempts.note(LoginWay::Basic, HERE, &number.to_string(), false);
        }
        assert_eq!(attempts.by_source().count(), SOURCES_MAX);
        let (_, tries) = attempts.by_protocol().next().unwrap();
        assert_eq!(tries.failed, 2 * SOURCES_MAX as u64 + 1);
    }
}
