//! Checking of access tokens, off the threads that serve connections; the keys for that.
//!
//! ```text
//!  check -- two at once: signature, claims -- verdict
//!              | unknown key, and not tried lately
//!              '-- one at a time: the keys are loaded again -- check once more
//! ```

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::clock::SystemClock;
use super::errors::StartError;
use super::jwks::JwksSource;
use crate::access::{self, Grant, KeySet, LoginError, TokenError, TokenRules};
use crate::base::Millis;
use crate::base::limits::JWKS_REFETCH_MS_MIN;
use crate::base::locks::{RankedMutex, rank};
use crate::config::Settings;

/// Tokens that are checked at a time: a signature takes a processor for up to a millisecond.
const CHECKS_MAX: usize = 2;

/// Checks access tokens.
pub(super) struct Tokens {
    rules: TokenRules,
    source: JwksSource,
    keys: RankedMutex<rank::TokenKeys, Keys>,
    checks: Semaphore,
    /// One loading of the keys at a time.
    loads: Semaphore,
}

/// The keys as last loaded.
#[derive(Clone)]
struct Keys {
    set: Arc<KeySet>,
    /// Number of times that they were loaded.
    version: u64,
    /// When they were loaded last for a token with an unknown key; none: never.
    tried: Option<Millis>,
}

impl Tokens {
    /// The checks as configured, with the keys of a file; those of a URL are fetched by
    /// [`Tokens::reload`], and with the first token. None: no tokens are taken.
    pub(super) fn new(settings: &Settings) -> Result<Option<Arc<Self>>, StartError> {
        let Some(jwks) = &settings.oauth2_jwks else {
            return Ok(None);
        };
        let fail = |why| StartError::Jwks {
            source_of: jwks.clone(),
            why,
        };
        let source = JwksSource::new(jwks, settings).map_err(fail)?;
        let set = if source.is_file() {
            source.load().map_err(fail)?
        } else {
            KeySet::default()
        };
        let id = settings.oauth2_resource_server_id.clone();
        let rules = TokenRules {
            resource_server_id: id.unwrap_or_default(),
            issuer: settings.oauth2_issuer.clone(),
            verify_aud: settings.oauth2_verify_aud,
            scope_prefix: settings.oauth2_scope_prefix(),
            additional_scopes_key: settings.oauth2_additional_scopes_key.clone(),
            preferred_username_claims: settings.oauth2_preferred_username_claims.clone(),
        };
        Ok(Some(Arc::new(Self {
            rules,
            source,
            keys: RankedMutex::new(Keys {
                set: Arc::new(set),
                version: 0,
                tried: None,
            }),
            checks: Semaphore::new(CHECKS_MAX),
            loads: Semaphore::new(1),
        })))
    }

    /// Whether a password is meant as a token.
    #[allow(clippy::unused_self, reason = "there are tokens if there is one")]
    pub(super) fn is_token(&self, password: &str) -> bool {
        access::is_token(password)
    }

    /// The user that a token says it is of, before it is checked.
    #[allow(clippy::unused_self, reason = "there are tokens if there is one")]
    pub(super) fn claimed_user(&self, text: &str) -> String {
        access::claimed_user(text)
    }

    /// Checks a token: what it grants.
    pub(super) async fn check(
        self: &Arc<Self>,
        text: String,
        clock: SystemClock,
    ) -> Result<Arc<Grant>, LoginError> {
        let text: Arc<str> = text.into();
        let keys = self.keys();
        let checked = self.check_with(&text, &keys, clock).await;
        let unknown = Err(LoginError::Token(TokenError::UnknownKey));
        if checked != unknown || !self.are_newer(keys.version, clock).await {
            return checked;
        }
        self.check_with(&text, &self.keys(), clock).await
    }

    /// Whether no keys were loaded yet.
    pub(super) fn is_without_keys(&self) -> bool {
        self.keys.lock().set.is_empty()
    }

    fn keys(&self) -> Keys {
        self.keys.lock().clone()
    }

    async fn check_with(
        self: &Arc<Self>,
        text: &Arc<str>,
        keys: &Keys,
        clock: SystemClock,
    ) -> Result<Arc<Grant>, LoginError> {
        let permit = self.checks.acquire().await;
        let (tokens, text, set) = (Arc::clone(self), Arc::clone(text), Arc::clone(&keys.set));
        let check = move || tokens.rules.check(&text, &set, clock.now().wall);
        let checked = tokio::task::spawn_blocking(check).await;
        drop(permit);
        match checked {
            Ok(checked) => checked.map(Arc::new).map_err(LoginError::Token),
            Err(_) => Err(LoginError::Busy),
        }
    }

    /// Whether there are newer keys than those: they are loaded again, unless that was tried lately.
    async fn are_newer(self: &Arc<Self>, than: u64, clock: SystemClock) -> bool {
        let _one = self.loads.acquire().await;
        match self.have_changed(than, clock.now().mono) {
            Some(changed) => changed,
            None => self.load().await,
        }
    }

    /// Whether the keys are newer than those; none: they are to be loaded again.
    fn have_changed(&self, than: u64, now: Millis) -> Option<bool> {
        let mut keys = self.keys.lock();
        if keys.version != than {
            return Some(true);
        }
        let due = |tried: Millis| now >= tried.plus(JWKS_REFETCH_MS_MIN);
        if !keys.tried.is_none_or(due) {
            return Some(false);
        }
        keys.tried = Some(now);
        None
    }

    /// Loads the keys again, at the start and at a SIGHUP.
    pub(super) async fn reload(self: Arc<Self>) {
        let _one = self.loads.acquire().await;
        self.load().await;
    }

    fn replace(&self, set: KeySet) {
        let mut keys = self.keys.lock();
        keys.set = Arc::new(set);
        keys.version += 1;
    }

    async fn load(self: &Arc<Self>) -> bool {
        let tokens = Arc::clone(self);
        let loaded = tokio::task::spawn_blocking(move || tokens.source.load()).await;
        let jwks = self.source.to_string();
        match loaded {
            Ok(Ok(set)) => {
                tracing::info!(jwks, keys = set.len(), "the keys of tokens were loaded");
                self.replace(set);
                true
            }
            Ok(Err(error)) => {
                tracing::error!(jwks, %error, "the keys of tokens that are in use stay");
                false
            }
            Err(_) => false,
        }
    }
}
