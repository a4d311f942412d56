//! The rules by which a token is taken, and what its claims give.

use serde_json::Value;

use super::keys::KeySet;
use super::signed::Signed;
use crate::access::{Grant, TokenError};
use crate::base::limits::{TOKEN_CLOCK_SKEW_MS, TOKEN_USER_BYTES_MAX};
use crate::base::{Name, Timestamp};

/// Claims with the user's name, behind those that are configured. (RabbitMQ's order)
const USER_CLAIMS: [&str; 2] = ["sub", "client_id"];
/// Seconds beyond which a moment is not told apart from any later one.
const SECONDS_MAX: f64 = 9e12;

/// What a token must say to be taken, and where its rights stand. The words are RabbitMQ's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TokenRules {
    /// The name of this broker among the resources of the issuer.
    pub resource_server_id: String,
    /// The issuer, compared with the claim `iss`; none: any that signs with its keys.
    pub issuer: Option<String>,
    /// Whether `aud` must contain the name of this broker.
    pub verify_aud: bool,
    /// What stands in front of each scope that is about this broker; may be empty.
    pub scope_prefix: String,
    /// A further claim with scopes, perhaps within others: names with dots between them.
    pub additional_scopes_key: Option<String>,
    /// Claims that may have the user's name, the preferred first.
    pub preferred_username_claims: Vec<String>,
}

impl TokenRules {
    /// Checks a token, and what it grants.
    pub fn check(&self, token: &str, keys: &KeySet, wall: Timestamp) -> Result<Grant, TokenError> {
        let signed = Signed::parse(token)?;
        keys.verify(&signed)?;
        let claims = &signed.claims;
        let expires = moment(claims, "exp")?.ok_or(TokenError::NoEnd)?;
        if wall >= expires {
            return Err(TokenError::Expired);
        }
        if let Some(begins) = moment(claims, "nbf")?
            && begins.0.saturating_sub(TOKEN_CLOCK_SKEW_MS) > wall.0
        {
            return Err(TokenError::NotYet);
        }
        if let Some(issuer) = &self.issuer
            && claims.get("iss").and_then(Value::as_str) != Some(issuer)
        {
            return Err(TokenError::Issuer);
        }
        if self.verify_aud && !self.is_audience(claims) {
            return Err(TokenError::Audience);
        }
        let words = self.words(claims);
        let user = self.user(claims)?;
        let words = words.iter().map(String::as_str);
        Grant::new(user, expires, words).map_err(|_| TokenError::TooManyScopes)
    }

    fn is_audience(&self, claims: &Value) -> bool {
        let is_here = |one: &Value| one.as_str() == Some(&self.resource_server_id);
        match claims.get("aud") {
            Some(Value::Array(list)) => list.iter().any(is_here),
            Some(one) => is_here(one),
            None => false,
        }
    }

    fn user(&self, claims: &Value) -> Result<Name, TokenError> {
        let preferred = self.preferred_username_claims.iter().map(String::as_str);
        let mut named = preferred.chain(USER_CLAIMS);
        let user = named.find_map(|name| claims.get(name).and_then(Value::as_str));
        let is_name = |user: &&str| {
            !user.is_empty()
                && user.len() <= TOKEN_USER_BYTES_MAX
                && !user.chars().any(char::is_control)
        };
        let user = user.filter(is_name).ok_or(TokenError::NoUser)?;
        Ok(Name::from(user))
    }

    /// The scopes that are about this broker, without what stands in front of them.
    fn words(&self, claims: &Value) -> Vec<String> {
        let mut words = Vec::new();
        let mut take = |found: &Value, prefix: &str| {
            for word in texts(found).flat_map(str::split_ascii_whitespace) {
                words.extend(word.strip_prefix(prefix).map(str::to_owned));
            }
        };
        if let Some(scope) = claims.get("scope") {
            take(scope, &self.scope_prefix);
        }
        let path = self.additional_scopes_key.as_deref();
        let further = path.and_then(|path| {
            path.split('.')
                .try_fold(claims, |within, name| within.get(name))
        });
        match further {
            // Scopes by resource need nothing in front of them.
            Some(Value::Object(of)) => {
                if let Some(found) = of.get(&self.resource_server_id) {
                    take(found, "");
                }
            }
            Some(found) => take(found, &self.scope_prefix),
            None => {}
        }
        words
    }
}

/// The texts of a claim: one, or those of a list.
fn texts(claim: &Value) -> impl Iterator<Item = &str> {
    let (one, list) = match claim {
        Value::String(one) => (Some(one.as_str()), None),
        Value::Array(list) => (None, Some(list)),
        _ => (None, None),
    };
    let list = list.into_iter().flatten().filter_map(Value::as_str);
    one.into_iter().chain(list)
}

/// A moment in seconds; none: the claim is not there. [RFC 7519 2]
fn moment(claims: &Value, name: &str) -> Result<Option<Timestamp>, TokenError> {
    let Some(claim) = claims.get(name) else {
        return Ok(None);
    };
    let seconds = claim.as_f64().ok_or(TokenError::Malformed)?;
    let ms = seconds.clamp(0.0, SECONDS_MAX) * 1_000.0;
    #[allow(clippy::cast_possible_truncation, reason = "clamped before")]
    Ok(Some(Timestamp(ms as i64)))
}
