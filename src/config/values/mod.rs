//! Types of setting values that are written as text. Each parses from and prints to one form.

mod address;
mod entry;
mod quantity;
#[cfg(feature = "cli")]
mod text;
mod word;

#[cfg(test)]
mod tests;

pub use address::{HttpListen, ListenAddress};
pub use entry::{PermissionEntry, UserEntry, UserTagsEntry};
pub use quantity::{ByteSize, Span};
pub use word::{
    DeathEvidence, LogFormat, QueueType, SaslMechanism, SyncSetting, TlsLoginFrom, UiSetting,
    UndeliverableSetting,
};
