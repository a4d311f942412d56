//! Errors of the registry.

use thiserror::Error;

use crate::base::{Name, limits::NAME_BYTES_MAX};

/// Why a change of the registry was refused: the operator asked for something invalid.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// There is no vhost of that name.
    #[error("no vhost '{name}'")]
    NoVhost {
        /// The name as given.
        name: Name,
    },
    /// There is no user of that name.
    #[error("no user '{name}'")]
    NoUser {
        /// The name as given.
        name: Name,
    },
    /// The name is empty or longer than 256 bytes.
    #[error("a name needs 1 to {NAME_BYTES_MAX} bytes, '{name}' has {bytes}")]
    BadName {
        /// The name as given.
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
