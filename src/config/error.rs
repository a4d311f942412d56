//! Why a configuration was refused: always the operator's fault, always with the setting's name.

use thiserror::Error;

/// A configuration that cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A setting has an invalid value.
    #[error("setting '{name}' = {value} ({origin}): {why}; it takes {takes}")]
    BadValue {
        /// Name of the setting.
        name: String,
        /// The value as given; secrets are hidden.
        value: String,
        /// Flag, environment variable or file that gave it.
        origin: String,
        /// What is wrong with it.
        why: String,
        /// The values that are right.
        takes: &'static str,
    },
    /// There is no setting of that name.
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
    /// An environment variable cannot be used.
    #[error("environment variable {variable}: {why}")]
    Variable {
        /// The variable's name.
        variable: String,
        /// What is wrong with it.
        why: String,
    },
    /// The configuration file could not be read.
    #[error("cannot read configuration file '{path}': {why}")]
    Unreadable {
        /// The path of the file.
        path: String,
        /// The error text of the system.
        why: String,
    },
    /// The configuration file is not TOML.
    #[error("configuration file '{path}' is not valid TOML: {why}")]
    NotToml {
        /// The path of the file.
        path: String,
        /// The error text of the parser.
        why: String,
    },
    /// Neither a setting nor the environment says where durable data goes.
    #[error(
        "there is no directory for durable data: neither XDG_STATE_HOME nor HOME names one; say \
         --data DIR, or --in-memory to keep nothing"
    )]
    NoStateDirectory,
}
