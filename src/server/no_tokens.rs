//! The placeholder for tokens in a build without them: no value of it can exist.

use std::sync::Arc;

use super::clock::SystemClock;
use super::errors::StartError;
use crate::access::{Grant, LoginError};
use crate::config::Settings;

/// The checks of tokens, of which there are none.
pub(super) enum Tokens {}

impl Tokens {
    /// Always none. Settings that ask for tokens were refused before.
    #[allow(clippy::unnecessary_wraps, reason = "as the one that loads keys")]
    pub(super) fn new(_: &Settings) -> Result<Option<Arc<Self>>, StartError> {
        Ok(None)
    }

    pub(super) fn is_token(&self, _: &str) -> bool {
        match *self {}
    }

    pub(super) fn claimed_user(&self, _: &str) -> String {
        match *self {}
    }

    pub(super) async fn check(
        self: &Arc<Self>,
        _: String,
        _: SystemClock,
    ) -> Result<Arc<Grant>, LoginError> {
        match **self {}
    }

    pub(super) fn is_without_keys(&self) -> bool {
        match *self {}
    }

    pub(super) async fn reload(self: Arc<Self>) {
        match *self {}
    }
}
