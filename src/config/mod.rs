//! Layer 1: typed settings, their defaults and their checks; the loader that layers file,
//! environment and flags.
//!
//! Promises: every setting has one name ([`TABLE`]), one default ([`Settings::default`]) and can
//! be given by flag (`--max-frame-size`), environment (`CORONER_MAX_FRAME_SIZE`) and TOML file
//! (`max-frame-size = ...`), the first of these that names it winning; a bad or unknown one is
//! refused with its name, its value, where it was given and what would be right. Never: no effect
//! beyond reading the one file it is told to read.
//!
//! Read first: [`Settings`], then [`load()`].

mod error;
#[cfg(feature = "cli")]
mod load;
mod settings;
mod table;
mod values;

pub use error::ConfigError;
#[cfg(feature = "cli")]
pub use load::{
    Given, changed, default_texts, from_environment, from_file, from_flag, from_state_directory,
    load,
};
pub(crate) use settings::GUEST;
pub use settings::{ANY_VHOST, Settings};
pub use table::{Key, SettingSyntax, TABLE, find};
pub use values::{
    ByteSize, HttpListen, ListenAddress, LogFormat, PermissionEntry, QueueType, SaslMechanism,
    Span, SyncSetting, TlsLoginFrom, UserEntry, UserTagsEntry,
};
