//! Checking of passwords, off the threads that serve connections: used by AMQP and HTTP.
//!
//! ```text
//!  login -- too many failures? -- known for a minute? -- queue -- two at once: the hash -- verdict
//! ```

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Semaphore;

use super::clock::SystemClock;
use crate::access::{
    Credentials, LoginError, LoginWay, PasswordHash, Peer, User, check_authorization, check_place,
};
use crate::base::{Millis, Name};
use crate::gateway::Environment;

/// Passwords that are hashed at a time: each takes a processor and some MiB.
const HASHES_MAX: usize = 2;
/// Passwords that wait for that, at most.
const QUEUE_MAX: usize = 4_096;
const QUEUE_TIMEOUT: Duration = Duration::from_secs(8);
/// Time from the request to a refusal, whatever the reason, in milliseconds: the time tells nobody
/// which users exist, guessing takes long, and a misconfigured client does not reconnect at once.
const REFUSAL_MS: u64 = 500;

/// Checks passwords. Cheap to clone.
#[derive(Clone)]
pub(super) struct Logins {
    environment: Arc<Environment>,
    clock: SystemClock,
    hashes: Arc<Semaphore>,
    queue: Arc<Semaphore>,
    /// Number of slow hashes computed so far.
    hashed: Arc<AtomicU64>,
}

impl Logins {
    pub(super) fn new(environment: Arc<Environment>, clock: SystemClock) -> Self {
        Self {
            environment,
            clock,
            hashes: Arc::new(Semaphore::new(HASHES_MAX)),
            queue: Arc::new(Semaphore::new(QUEUE_MAX)),
            hashed: Arc::default(),
        }
    }

    /// Checks that this is a user's password, and that it may log in from this address; returns its
    /// name. Refusals are counted, logged and delayed.
    pub(super) async fn login(
        &self,
        credentials: Credentials,
        peer: Peer,
        way: LoginWay,
    ) -> Result<Name, LoginError> {
        let asked = self.now();
        let user = credentials.user.clone();
        let result = self.check(credentials, &peer).await;
        let verdict = result.as_ref().map(|_| ()).map_err(|error| *error);
        self.environment
            .note_login(self.now(), &peer, (way, &user), verdict);
        if result.is_err() {
            let due = asked.plus(REFUSAL_MS);
            tokio::time::sleep_until(self.clock.instant(due)).await;
        }
        result
    }

    /// Number of slow hashes computed so far.
    pub(super) fn hashed(&self) -> u64 {
        self.hashed.load(Ordering::Relaxed)
    }

    async fn check(&self, credentials: Credentials, peer: &Peer) -> Result<Name, LoginError> {
        check_authorization(&credentials)?;
        let name = Name::from(&*credentials.user);
        if let Some(user) = self.remembered(&credentials, peer)? {
            return check_place(&user, peer).map(|()| name);
        }
        let _place = self.queue.try_acquire().map_err(|_| LoginError::Busy)?;
        let permit = Arc::clone(&self.hashes).acquire_owned();
        let permit = tokio::time::timeout(QUEUE_TIMEOUT, permit).await;
        let Ok(Ok(permit)) = permit else {
            return Err(LoginError::Busy);
        };
        // Another task may have checked the same password meanwhile.
        if let Some(user) = self.remembered(&credentials, peer)? {
            return check_place(&user, peer).map(|()| name);
        }
        let user = self.user(&credentials);
        let source = peer.address.ip();
        // No more may be hashed at once than may still fail.
        self.charge(source, &credentials.user)?;
        let logins = self.clone();
        let checked = tokio::task::spawn_blocking(move || {
            let hash = (user.as_ref()).and_then(|user| user.password.as_ref());
            let hash = hash.map(|password| &password.hash);
            let (verified, dear) = verify(hash, &credentials.password);
            logins.hashed.fetch_add(dear, Ordering::Relaxed);
            // Here, so that it counts and frees the place also when the peer has gone away.
            let user = user.filter(|_| verified);
            if let Some(user) = &user {
                let mut guard = logins.environment.guard.lock();
                guard.forgive(source, &credentials.user);
                guard.remember(logins.now(), user, &credentials.password);
            }
            drop(permit);
            user
        });
        let Ok(Some(user)) = checked.await else {
            return Err(LoginError::Credentials);
        };
        check_place(&user, peer).map(|()| name)
    }

    /// The user, if its password is remembered to be this one; an error if too many logins failed
    /// before.
    fn remembered(
        &self,
        credentials: &Credentials,
        peer: &Peer,
    ) -> Result<Option<User>, LoginError> {
        let user = self.user(credentials);
        let (now, guard) = (self.now(), self.environment.guard.lock());
        guard.admit(now, peer.address.ip(), &credentials.user)?;
        Ok(user.filter(|user| guard.remembers(now, user, &credentials.password)))
    }

    /// Counts a guess that is about to be checked; an error if there were too many.
    fn charge(&self, source: IpAddr, user: &str) -> Result<(), LoginError> {
        let mut guard = self.environment.guard.lock();
        guard.charge(self.now(), source, user)
    }

    fn user(&self, credentials: &Credentials) -> Option<User> {
        let registry = self.environment.registry();
        registry.user(&credentials.user).cloned()
    }

    fn now(&self) -> Millis {
        self.clock.now().mono
    }
}

/// Whether the password is right, and how many slow hashes that took: a wrong one takes one for any
/// user, known or unknown.
fn verify(hash: Option<&PasswordHash>, password: &str) -> (bool, u64) {
    let password = password.as_bytes();
    let verified = hash.is_some_and(|hash| hash.verify(password));
    if hash.is_some_and(|hash| !hash.is_cheap()) {
        return (verified, 1);
    }
    if !verified {
        PasswordHash::NOBODY.verify(password);
    }
    (verified, u64::from(!verified))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_password_costs_one_dear_hash_whoever_is_named() {
        let imported = [
            PasswordHash::rabbit_sha256([1; 4], b"right"),
            PasswordHash::rabbit_sha512([1; 4], b"right"),
        ];
        let own = PasswordHash::argon2id([1; 16], b"right");
        let check = |hash: Option<&PasswordHash>, password, expect| {
            assert_eq!(verify(hash, password), expect, "{hash:?} {password:?}");
        };
        for wrong in ["wrong", ""] {
            check(None, wrong, (false, 1));
            check(Some(&own), wrong, (false, 1));
            for hash in &imported {
                check(Some(hash), wrong, (false, 1));
            }
        }
        check(Some(&own), "right", (true, 1));
        for hash in &imported {
            check(Some(hash), "right", (true, 0));
        }
    }
}
