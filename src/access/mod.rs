//! Floor 3: users, password hashes, tags, permissions, limits: data and pure checks.
//!
//! Promises: checks are functions of data; comparing passwords takes the same time for every wrong
//! one of a length. Never: no clock, no random number (salts are arguments), no lookup by itself.
//!
//! Read first: [`User`], [`Permissions`], [`plain`].

mod login;
mod password;
mod permissions;
mod user;

pub use login::{Credentials, LoginError, Peer, anonymous, parse_plain, plain};
pub use password::{PasswordHash, SALT_BYTES};
pub use permissions::{Pattern, PatternError, Permissions, Right};
pub use user::{Tag, User, UserLimits};
