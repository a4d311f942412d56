//! Checking of passwords and tokens, off the threads that serve connections: used by AMQP and HTTP.
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
use super::tokens::Tokens;
use crate::access::{
    AccessToken, Credentials, LoginError, LoginWay, PasswordHash, Peer, Proof, Proven, TokenError,
    User, check_authorization, check_place,
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

/// Checks passwords and tokens. Cheap to clone.
#[derive(Clone)]
pub(super) struct Logins {
    environment: Arc<Environment>,
    /// The checks of tokens; none: no tokens are taken.
    tokens: Option<Arc<Tokens>>,
    clock: SystemClock,
    hashes: Arc<Semaphore>,
    queue: Arc<Semaphore>,
    /// Number of slow hashes computed so far.
    hashed: Arc<AtomicU64>,
}

impl Logins {
    pub(super) fn new(
        environment: Arc<Environment>,
        tokens: Option<Arc<Tokens>>,
        clock: SystemClock,
    ) -> Self {
        Self {
            environment,
            tokens,
            clock,
            hashes: Arc::new(Semaphore::new(HASHES_MAX)),
            queue: Arc::new(Semaphore::new(QUEUE_MAX)),
            hashed: Arc::default(),
        }
    }

    /// Checks that this is a user's password, and that it may log in from this address, or that it
    /// is a good token, also as a password; returns who that is. Refusals are counted, logged and
    /// delayed.
    pub(super) async fn login(
        &self,
        proof: Proof,
        peer: Peer,
        way: LoginWay,
    ) -> Result<Proven, LoginError> {
        let asked = self.now();
        let (user, result) = match self.token_of(proof) {
            Ok(token) => {
                let tokens = self.tokens.as_ref();
                let user = tokens.map(|tokens| tokens.claimed_user(&token.text));
                let user = user.unwrap_or_default();
                let result = self.check_token(token, &user, &peer).await;
                (user, result)
            }
            Err(credentials) => {
                let user = credentials.user.clone();
                let result = self.check(credentials, &peer).await.map(Proven::User);
                (user, result)
            }
        };
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

    /// Whether keys of tokens are to be fetched that were not loaded yet.
    pub(super) fn has_tokens_to_fetch(&self) -> bool {
        let tokens = self.tokens.as_ref();
        tokens.is_some_and(|tokens| tokens.is_without_keys())
    }

    /// Loads the keys of tokens again.
    pub(super) async fn reload_keys(&self) {
        if let Some(tokens) = &self.tokens {
            Arc::clone(tokens).reload().await;
        }
    }

    /// The token that is shown, perhaps as the password of whatever user; else the password.
    fn token_of(&self, proof: Proof) -> Result<AccessToken, Credentials> {
        let credentials = match proof {
            Proof::Token(token) => return Ok(token),
            Proof::Password(credentials) => credentials,
        };
        let tokens = self.tokens.as_ref();
        let is_token = tokens.is_some_and(|tokens| tokens.is_token(&credentials.password));
        if !is_token || check_authorization(&credentials).is_err() {
            return Err(credentials);
        }
        Ok(AccessToken {
            authorization_id: String::new(),
            text: credentials.password,
        })
    }

    async fn check_token(
        &self,
        token: AccessToken,
        user: &str,
        peer: &Peer,
    ) -> Result<Proven, LoginError> {
        let none = LoginError::Token(TokenError::NotConfigured);
        let tokens = self.tokens.as_ref().ok_or(none)?;
        let source = peer.address.ip();
        let _place = self.queue.try_acquire().map_err(|_| LoginError::Busy)?;
        self.charge(source, user)?;
        let grant = tokens.check(token.text, self.clock).await?;
        if !token.authorization_id.is_empty() && token.authorization_id != **grant.user() {
            return Err(LoginError::AuthorizationId);
        }
        self.environment.guard.lock().forgive(source, user);
        Ok(Proven::Bearer(grant))
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
