//! Layer 3: users, passwords, tags, permissions, limits: data and pure checks.
//!
//! Promises: checks are functions of data; comparing passwords takes the same time for every wrong
//! one of a length; secrets are not printed by `Debug`. Never: no clock, no random number (salts,
//! nonces and times are arguments), no lookup of users.
//!
//! Read first: [`User`], [`Password`], [`Permissions`], [`parse_plain`], [`ScramExchange`].

mod attempts;
mod grant;
mod guard;
mod hash;
mod login;
mod mechanism;
mod password;
mod peer;
mod permissions;
mod places;
mod scram;
mod secret;
#[cfg(feature = "oauth2")]
mod token;
mod token_error;
mod user;
mod wildcard;

pub use attempts::{Attempts, Source, Tries};
pub use grant::{Grant, TooManyScopes};
pub use guard::{LoginCounts, LoginGuard, network};
pub use hash::{Argon2Cost, PasswordHash, RABBIT_SALT_BYTES, SALT_BYTES};
pub use login::{
    AccessToken, Credentials, LoginError, Proof, Proven, anonymous, bearer_token,
    check_authorization, check_place, external, parse_oauth_bearer, parse_plain, parse_xoauth2,
};
pub use mechanism::{LoginWay, Mechanism, Mechanisms};
pub use password::{Password, PasswordError, Salts};
pub use peer::{Peer, TlsPeer};
pub use permissions::{
    DEFAULT_EXCHANGE_NAME, Pattern, PatternError, Permissions, Right, TopicPermissions,
};
pub use scram::{ClientFirst, ScramExchange, ScramHash, ScramKeys};
pub use secret::{SECRET_BYTES, Secret};
#[cfg(feature = "oauth2")]
pub use token::{KeySet, KeySetError, TokenRules, claimed_user, is_token};
pub use token_error::TokenError;
pub use user::{Tag, User, UserLimits};
pub use wildcard::Wildcard;
