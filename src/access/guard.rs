//! Protection against password guessing: failures by source and user; and successes that need not
//! be computed again.

use std::net::IpAddr;

use super::login::LoginError;
use super::mechanism::LoginWay;
use super::secret::{SECRET_BYTES, Secret};
use super::user::User;
use crate::base::{Map, Millis, Seed};

/// Failed logins of one user from one source before the next is refused, and the time after which
/// one is forgotten, in milliseconds.
const USER_FAILURES: Allowance = Allowance {
    burst: 10,
    forget_ms: 2_000,
};
/// The same for all users together from one source.
const SOURCE_FAILURES: Allowance = Allowance {
    burst: 100,
    forget_ms: 100,
};
/// Sources and users whose failures are remembered, at most.
const FAILURES_MAX: usize = 16_384;
/// Successes that are remembered, at most; the time for that follows, in milliseconds.
const SUCCESSES_MAX: usize = 8_192;
const SUCCESS_MS: u64 = 60_000;
/// Lines about refused logins that are logged in a second; further ones are counted.
const LINES_PER_SECOND: u32 = 5;

#[derive(Clone, Copy)]
struct Allowance {
    burst: u64,
    forget_ms: u64,
}

/// The key of a login in the tables: a keyed hash, equally long for every name.
type HashedKey = [u8; SECRET_BYTES];

/// Numbers of login attempts; each counts once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LoginCounts {
    /// Attempts that succeeded.
    pub accepted: u64,
    /// Attempts refused for their credentials.
    pub refused: u64,
    /// Attempts refused without a check: too many had failed before, or too many passwords waited.
    pub limited: u64,
}

/// Remembers failures and successes of one broker, in bounded memory.
///
/// A failure counts against its user at its source, and against its source; so a stranger who
/// guesses does not lock out the user, who logs in from elsewhere.
#[derive(Debug)]
pub struct LoginGuard {
    secret: Secret,
    /// When the failures of a source, or of a user there, are forgotten.
    failures: Map<HashedKey, Millis>,
    /// When a success is forgotten.
    successes: Map<HashedKey, Millis>,
    /// The counts, in the order of [`LoginWay::ALL`].
    counts: [LoginCounts; LoginWay::ALL.len()],
    /// The second of the last log line about a refusal, lines in it, refusals without a line.
    lines: (u64, u32, u64),
}

impl LoginGuard {
    /// A guard without memories. The secret is for this guard only.
    pub fn new(seed: Seed, secret: Secret) -> Self {
        Self {
            secret,
            failures: Map::with_hasher(seed.hasher()),
            successes: Map::with_hasher(seed.hasher()),
            counts: [LoginCounts::default(); LoginWay::ALL.len()],
            lines: (0, 0, 0),
        }
    }

    /// Checks that this user may try to log in from this source now.
    pub fn admit(&self, now: Millis, source: IpAddr, user: &str) -> Result<(), LoginError> {
        for (hashed_key, allowance) in self.hashed_keys(source, user) {
            let full_ms = allowance.burst * allowance.forget_ms;
            let forgotten = self.failures.get(&hashed_key).copied().unwrap_or(now);
            // One more failure would exceed the allowance.
            if forgotten.since(now) + allowance.forget_ms > full_ms {
                return Err(LoginError::TooManyFailures);
            }
        }
        Ok(())
    }

    fn note_failure(&mut self, now: Millis, source: IpAddr, user: &str) {
        for (hashed_key, allowance) in self.hashed_keys(source, user) {
            if self.failures.len() >= FAILURES_MAX {
                self.failures.retain(|_, forgotten| *forgotten > now);
            }
            // When the table is full, failures of remembered keys still count.
            if self.failures.len() < FAILURES_MAX || self.failures.contains_key(&hashed_key) {
                let forgotten = self.failures.entry(hashed_key).or_insert(now);
                *forgotten = (*forgotten).max(now).plus(allowance.forget_ms);
            }
        }
    }

    /// Permits a proof of identity to be checked, and counts it as wrong, in one step: of many that
    /// were begun at once no more are checked than the allowance. If it is right,
    /// [`LoginGuard::forgive`] takes that back.
    pub fn charge(&mut self, now: Millis, source: IpAddr, user: &str) -> Result<(), LoginError> {
        self.admit(now, source, user)?;
        self.note_failure(now, source, user);
        Ok(())
    }

    /// Takes back the count of [`LoginGuard::charge`]: the proof was right.
    pub fn forgive(&mut self, source: IpAddr, user: &str) {
        for (hashed_key, allowance) in self.hashed_keys(source, user) {
            if let Some(forgotten) = self.failures.get_mut(&hashed_key) {
                forgotten.0 = forgotten.0.saturating_sub(allowance.forget_ms);
            }
        }
    }

    /// Whether the user, unchanged since, logged in with this password within the last minute.
    pub fn remembers(&self, now: Millis, user: &User, password: &str) -> bool {
        let until = self.successes.get(&self.success(user, password));
        until.is_some_and(|until| *until > now)
    }

    /// Remembers for a minute that this password was right. After a change of the user it does not
    /// count.
    pub fn remember(&mut self, now: Millis, user: &User, password: &str) {
        if self.successes.len() >= SUCCESSES_MAX {
            self.successes.retain(|_, until| *until > now);
        }
        if self.successes.len() >= SUCCESSES_MAX {
            self.successes.clear();
        }
        let hashed_key = self.success(user, password);
        self.successes.insert(hashed_key, now.plus(SUCCESS_MS));
    }

    /// Counts the result of an attempt. For a refusal it returns the number of refusals since the
    /// last log line about one, this one included, if another line may be written.
    pub fn note_result(
        &mut self,
        now: Millis,
        way: LoginWay,
        result: Result<(), LoginError>,
    ) -> Option<u64> {
        let mut counts = LoginWay::ALL.iter().zip(&mut self.counts);
        let counts = counts.find(|(known, _)| **known == way);
        if let Some((_, counts)) = counts {
            match result {
                Ok(()) => counts.accepted += 1,
                Err(LoginError::TooManyFailures | LoginError::Busy) => counts.limited += 1,
                Err(_) => counts.refused += 1,
            }
        }
        if result.is_ok() {
            return None;
        }
        let second = now.0 / 1_000;
        let (last, lines, unsaid) = self.lines;
        let lines = if last == second { lines } else { 0 };
        if lines >= LINES_PER_SECOND {
            self.lines = (second, lines, unsaid + 1);
            return None;
        }
        self.lines = (second, lines + 1, 0);
        Some(unsaid + 1)
    }

    /// Takes the number of refusals without a log line, to be logged now.
    pub const fn take_unsaid(&mut self) -> u64 {
        let (second, lines, unsaid) = self.lines;
        self.lines = (second, lines, 0);
        unsaid
    }

    /// The counts by way of login.
    pub fn counts(&self) -> impl Iterator<Item = (LoginWay, LoginCounts)> {
        LoginWay::ALL.into_iter().zip(self.counts)
    }

    /// The secret of this broker, for values that must not be guessed.
    pub const fn secret(&self) -> &Secret {
        &self.secret
    }

    fn hashed_keys(&self, source: IpAddr, user: &str) -> [(HashedKey, Allowance); 2] {
        let source = network(source);
        [
            (
                self.secret.mac(&[b"user", &source, user.as_bytes()]),
                USER_FAILURES,
            ),
            (self.secret.mac(&[b"source", &source]), SOURCE_FAILURES),
        ]
    }

    fn success(&self, user: &User, password: &str) -> HashedKey {
        let kept = user.password.as_ref().map(super::Password::to_bytes);
        let kept = kept.unwrap_or_default();
        self.secret
            .mac(&[b"success", user.name.as_bytes(), &kept, password.as_bytes()])
    }
}

/// The bytes of an IPv4 address; of an IPv6 address those of its network of 64 bits, since all of
/// that belongs to one customer.
pub fn network(source: IpAddr) -> Vec<u8> {
    match source.to_canonical() {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().into_iter().take(8).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{Mechanism, PasswordHash, UserLimits};
    use crate::base::Name;

    const HOME: &str = "192.0.2.1";
    const ABROAD: &str = "198.51.100.7";

    fn guard() -> LoginGuard {
        LoginGuard::new(Seed(1), Secret([3; SECRET_BYTES]))
    }

    fn ip(address: &str) -> IpAddr {
        address.parse().unwrap()
    }

    fn ada(salt: u8) -> User {
        User {
            name: Name::from("ada"),
            password: Some(PasswordHash::rabbit_sha256([salt; 4], b"secret").into()),
            tags: Vec::new(),
            loopback_only: false,
            limits: UserLimits::default(),
        }
    }

    fn fail(guard: &mut LoginGuard, now: Millis, source: &str, user: &str) -> u32 {
        let mut failures = 0;
        while guard.admit(now, ip(source), user).is_ok() {
            guard.note_failure(now, ip(source), user);
            failures += 1;
            assert!(failures < 1_000, "never limited");
        }
        failures
    }

    #[test]
    fn after_ten_failures_a_user_waits_at_that_source_only() {
        let (mut guard, now) = (guard(), Millis(5));
        assert_eq!(fail(&mut guard, now, HOME, "ada"), 10);
        assert_eq!(
            guard.admit(now, ip(ABROAD), "ada"),
            Ok(()),
            "from elsewhere"
        );
        assert_eq!(guard.admit(now, ip(HOME), "bob"), Ok(()), "somebody else");
        assert!(guard.admit(now.plus(1_999), ip(HOME), "ada").is_err());
        assert_eq!(guard.admit(now.plus(2_000), ip(HOME), "ada"), Ok(()));
        assert_eq!(fail(&mut guard, now.plus(2_000), HOME, "ada"), 1);
        assert_eq!(fail(&mut guard, now.plus(60_000), HOME, "ada"), 10);
    }

    #[test]
    fn after_a_hundred_failures_a_source_waits_whomever_it_tries() {
        let (mut guard, now) = (guard(), Millis(5));
        for user in 0..100 {
            let user = format!("user-{user}");
            assert_eq!(guard.admit(now, ip(HOME), &user), Ok(()), "{user}");
            guard.note_failure(now, ip(HOME), &user);
        }
        assert!(guard.admit(now, ip(HOME), "another").is_err());
        assert_eq!(guard.admit(now, ip(ABROAD), "another"), Ok(()));
        assert_eq!(guard.admit(now.plus(100), ip(HOME), "another"), Ok(()));
    }

    #[test]
    fn addresses_of_one_network_are_one_source() {
        let (mut guard, now) = (guard(), Millis(5));
        assert_eq!(fail(&mut guard, now, "2001:db8::1", "ada"), 10);
        assert!(guard.admit(now, ip("2001:db8::ffff"), "ada").is_err());
        assert!(guard.admit(now, ip("2001:db8:0:1::1"), "ada").is_ok());
        assert_eq!(fail(&mut guard, now, "::ffff:192.0.2.1", "ada"), 10);
        assert!(guard.admit(now, ip(HOME), "ada").is_err());
    }

    /// What is right counts nothing, however often: a thousand clients may come back at once.
    #[test]
    fn what_was_forgiven_was_no_failure() {
        let (mut guard, now) = (guard(), Millis(5));
        for _ in 0..1_000 {
            assert_eq!(guard.charge(now, ip(HOME), "ada"), Ok(()));
            guard.forgive(ip(HOME), "ada");
        }
        assert_eq!(fail(&mut guard, now, HOME, "ada"), 10);
    }

    #[test]
    fn failures_are_remembered_in_bounded_memory() {
        let (mut guard, now) = (guard(), Millis(5));
        for user in 0..2 * FAILURES_MAX {
            guard.note_failure(now, ip(HOME), &user.to_string());
        }
        assert_eq!(guard.failures.len(), FAILURES_MAX);
        let later = now.plus(10_000_000);
        guard.note_failure(later, ip(HOME), "ada");
        assert_eq!(guard.failures.len(), 2, "old ones are forgotten");
    }

    #[test]
    fn a_success_is_remembered_for_a_minute_and_for_this_password_only() {
        let (mut guard, now) = (guard(), Millis(5));
        guard.remember(now, &ada(1), "secret");
        assert!(guard.remembers(now.plus(59_999), &ada(1), "secret"));
        assert!(!guard.remembers(now.plus(60_000), &ada(1), "secret"));
        assert!(!guard.remembers(now, &ada(1), "Secret"));
        assert!(
            !guard.remembers(now, &ada(2), "secret"),
            "the user was changed"
        );
        for number in 0..=SUCCESSES_MAX {
            guard.remember(now, &ada(1), &number.to_string());
        }
        assert!(guard.successes.len() <= SUCCESSES_MAX);
    }

    #[test]
    fn refusals_are_counted_and_logged_five_times_a_second() {
        let mut guard = guard();
        let refused = Err(LoginError::Credentials);
        let plain = LoginWay::Sasl(Mechanism::Plain);
        let lines: Vec<_> = (0..8)
            .filter_map(|_| guard.note_result(Millis(1_000), plain, refused))
            .collect();
        assert_eq!(lines, [1; 5]);
        assert_eq!(guard.note_result(Millis(2_000), plain, refused), Some(4));
        guard.note_result(Millis(2_000), plain, Err(LoginError::TooManyFailures));
        guard.note_result(Millis(2_000), LoginWay::Basic, Err(LoginError::Busy));
        guard.note_result(Millis(2_000), LoginWay::Basic, Ok(()));
        let counted = |way| {
            let (_, counts) = guard.counts().find(|(known, _)| *known == way).unwrap();
            [counts.accepted, counts.refused, counts.limited]
        };
        assert_eq!(counted(plain), [0, 9, 1]);
        assert_eq!(counted(LoginWay::Basic), [1, 0, 1]);
        assert_eq!(counted(LoginWay::Unknown), [0, 0, 0]);
    }
}
