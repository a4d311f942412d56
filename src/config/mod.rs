//! Layer 1: typed settings, their defaults and their checks; the loader that layers file,
//! environment and flags.
//!
//! Promises: every setting has one name ([`TABLE`]), one default ([`Settings::default`]) and can
//! be given by flag (`--max-frame-size`), environment (`CORONER_MAX_FRAME_SIZE`) and TOML file
//! (`max-frame-size = ...`), the first of these that names it winning; a bad or unknown one is
//! refused (an unknown variable is warned of: others put variables there, too) with its name, its value, where it was given and what would be right. Never: no effect
//! beyond reading the files it is told to read, and how much memory there is.
//!
//! Read first: [`Settings`], then [`load()`].

#[cfg(feature = "cli")]
mod environment;
mod error;
#[cfg(feature = "cli")]
mod load;
#[cfg(all(test, feature = "cli"))]
mod sample_tests;
mod settings;
#[cfg(feature = "cli")]
mod system_memory;
mod table;
mod values;

#[cfg(feature = "cli")]
pub use environment::{Environment, from_environment};
pub use error::ConfigError;
#[cfg(feature = "cli")]
pub use load::{
    Given, changed, default_texts, from_file, from_flag, from_state_directory, load, shown,
};
pub(crate) use settings::GUEST;
pub use settings::{ANY_VHOST, Settings};
pub use table::{HEADINGS, Key, SettingSyntax, TABLE, find};
pub use values::{
    ByteSize, DeathEvidence, HttpListen, ListenAddress, LogFormat, PermissionEntry, QueueType,
    SaslMechanism, Span, SyncSetting, TlsLoginFrom, UiSetting, UndeliverableSetting, UserEntry,
    UserTagsEntry,
};
