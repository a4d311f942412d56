//! Why a token is refused.

use thiserror::Error;

use crate::base::limits::{TOKEN_BYTES_MAX, TOKEN_SCOPES_MAX};

/// Why a token was refused. Nothing of the token is repeated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum TokenError {
    /// This broker was not told whose tokens to take.
    #[error("tokens are not taken here: see oauth2-jwks")]
    NotConfigured,
    /// It is longer than any token that is read.
    #[error("the token has more than {TOKEN_BYTES_MAX} bytes")]
    TooLong,
    /// It is no JSON Web Token with a signature.
    #[error("malformed token")]
    Malformed,
    /// It is signed in no known way, or its key is not for that.
    #[error("the token's algorithm is not taken, or not that of its key")]
    Algorithm,
    /// The issuer has no such key.
    #[error("the token is signed with an unknown key")]
    UnknownKey,
    /// It names no key, and several fit; or several have the name that it gives.
    #[error("several keys fit the token: it must say which by 'kid'")]
    SeveralKeys,
    /// The signature is not that of its key.
    #[error("the token's signature is wrong")]
    Signature,
    /// It does not say when it ends.
    #[error("the token has no 'exp'")]
    NoEnd,
    /// It has ended.
    #[error("the token has expired")]
    Expired,
    /// It has not begun.
    #[error("the token is not valid yet")]
    NotYet,
    /// It is of another issuer.
    #[error("the token is not of the configured issuer")]
    Issuer,
    /// It is for somebody else.
    #[error("the token's 'aud' does not have the configured resource-server-id")]
    Audience,
    /// It does not say who its user is, or the name is too long.
    #[error("the token names no user")]
    NoUser,
    /// It has more scopes than are kept.
    #[error("the token has more than {TOKEN_SCOPES_MAX} scopes for this broker")]
    TooManyScopes,
    /// It is of another user than the one who is logged in.
    #[error("the token is not of the user who is logged in")]
    OtherUser,
}
