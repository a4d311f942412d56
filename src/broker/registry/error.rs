//! What the registry refuses.

use thiserror::Error;

use crate::base::{Name, limits::NAME_BYTES_MAX};

/// Why a change of the registry was refused. The operator's fault.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// No vhost of that name.
    #[error("no vhost '{name}'")]
    NoVhost {
        /// The name.
        name: Name,
    },
    /// No user of that name.
    #[error("no user '{name}'")]
    NoUser {
        /// The name.
        name: Name,
    },
    /// Empty, or longer than 256 bytes.
    #[error("a name needs 1 to {NAME_BYTES_MAX} bytes, '{name}' has {bytes}")]
    BadName {
        /// The name.
        name: Name,
        /// Its length in bytes.
        bytes: usize,
    },
}

/// Checks the name of a vhost, a user or a parameter: 1 to [`NAME_BYTES_MAX`] bytes.
pub fn check_name(name: &Name) -> Result<(), RegistryError> {
    if (1..=NAME_BYTES_MAX).contains(&name.len()) {
        return Ok(());
    }
    Err(RegistryError::BadName {
        name: name.clone(),
        bytes: name.len(),
    })
}
