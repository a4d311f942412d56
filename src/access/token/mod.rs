//! JSON Web Tokens: reading them, checking their signature and their claims. [RFC 7515, 7517, 7519]
//!
//! ```text
//!  text -- Signed::parse --> algorithm, kid, claims (not verified)
//!             |  KeySet::find: a key of the issuer for this algorithm
//!             v
//!       signature right? -- TokenRules --> exp, nbf, iss, aud --> user, scopes --> Grant
//! ```
//! Keys come from the issuer's set only: what a token says of keys beside its `kid` is not looked at.

mod keys;
mod rules;
mod signed;
#[cfg(test)]
mod tests;

pub use keys::{KeySet, KeySetError};
pub use rules::TokenRules;
pub use signed::{claimed_user, is_token};
