//! Names: shared immutable texts.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::limits::{ROUTING_KEY_BYTES_MAX, ROUTING_KEY_DOTS_MAX};

/// A name (queue, exchange, routing key, vhost, user): shared, immutable, cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

/// Who pays for memory: the name of a login, and whether it is that of the bearer of a token, who is not the
/// user of the registry with that name.
pub type Payer = (Name, bool);

impl Name {
    /// The text of the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether both are the same allocation: a cheap first test of equality.
    pub fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// Why a text cannot be a routing key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyError {
    /// It has this many bytes, more than [`ROUTING_KEY_BYTES_MAX`].
    Bytes(usize),
    /// It has this many dots, more than [`ROUTING_KEY_DOTS_MAX`].
    Dots(usize),
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => {
                write!(
                    f,
                    "{bytes} bytes, at most {ROUTING_KEY_BYTES_MAX} are allowed"
                )
            }
            Self::Dots(dots) => {
                write!(f, "{dots} dots, at most {ROUTING_KEY_DOTS_MAX} are allowed")
            }
        }
    }
}

/// Checks a routing key or binding key: its length, and the number of its words.
pub fn check_routing_key(key: &str) -> Result<(), KeyError> {
    if key.len() > ROUTING_KEY_BYTES_MAX {
        return Err(KeyError::Bytes(key.len()));
    }
    // A short key cannot have too many dots.
    if key.len() > ROUTING_KEY_DOTS_MAX {
        let dots = key.bytes().filter(|byte| *byte == b'.').count();
        if dots > ROUTING_KEY_DOTS_MAX {
            return Err(KeyError::Dots(dots));
        }
    }
    Ok(())
}

impl Default for Name {
    fn default() -> Self {
        Self(Arc::from(""))
    }
}

impl Deref for Name {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for Name {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Name {
    fn from(text: &str) -> Self {
        Self(Arc::from(text))
    }
}

impl From<String> for Name {
    fn from(text: String) -> Self {
        Self(Arc::from(text))
    }
}

impl PartialEq<str> for Name {
    fn eq(&self, other: &str) -> bool {
        &*self.0 == other
    }
}

impl PartialEq<&str> for Name {
    fn eq(&self, other: &&str) -> bool {
        &*self.0 == *other
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}
