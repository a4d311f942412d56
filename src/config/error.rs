//! Why a configuration was refused. Always the operator's fault, always named.

use thiserror::Error;

/// A configuration that cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A setting with a value that it cannot have.
    #[error("setting '{name}' = {value} ({origin}): {why}; it takes {takes}")]
    BadValue {
        /// Name of the setting.
        name: String,
        /// The value as given; secrets are hidden.
        value: String,
        /// Flag, environment variable or file that gave it.
        origin: String,
        /// What is wrong.
        why: String,
        /// What would be right.
        takes: &'static str,
    },
    /// A setting that does not exist.
    #[error("unknown setting '{name}' = {value} ({origin}); {hint}")]
    Unknown {
        /// The name as given.
        name: String,
        /// The value as given.
        value: String,
        /// Environment variable or file that gave it.
        origin: String,
        /// The nearest existing name, or where to find the list.
        hint: String,
    },
    /// An environment variable that cannot be used.
    #[error("environment variable {variable}: {why}")]
    Variable {
        /// Its name.
        variable: String,
        /// What is wrong.
        why: String,
    },
    /// The configuration file could not be read.
    #[error("cannot read configuration file '{path}': {why}")]
    Unreadable {
        /// Its path.
        path: String,
        /// What the system said.
        why: String,
    },
    /// The configuration file is not TOML.
    #[error("configuration file '{path}' is not valid TOML: {why}")]
    NotToml {
        /// Its path.
        path: String,
        /// What the parser said.
        why: String,
    },
    /// Neither a setting nor the environment says where durable data goes.
    #[error(
        "there is no directory for durable data: neither XDG_STATE_HOME nor HOME names one; say \
         --data DIR, or --in-memory to keep nothing"
    )]
    NoStateDirectory,
}
