//! Setting values as text, for files and environment.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::{Serialize, Serializer};

use super::{
    ByteSize, DeathEvidence, HttpListen, ListenAddress, LogFormat, PermissionEntry, QueueType,
    SaslMechanism, Span, SyncSetting, TlsLoginFrom, UiSetting, UndeliverableSetting, UserEntry,
    UserTagsEntry,
};

/// Implements reading and writing these types as text; numbers are accepted too where they make
/// sense.
macro_rules! as_text {
    ($($name:ident),+) => {$(
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(AsText).and_then(|text| {
                    text.parse().map_err(de::Error::custom)
                })
            }
        }
    )+};
}
as_text!(
    ListenAddress,
    HttpListen,
    ByteSize,
    Span,
    UserEntry,
    UserTagsEntry,
    PermissionEntry,
    QueueType,
    DeathEvidence,
    LogFormat,
    SyncSetting,
    TlsLoginFrom,
    UiSetting,
    UndeliverableSetting,
    SaslMechanism
);

struct AsText;

impl Visitor<'_> for AsText {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<String, E> {
        Ok(number.to_string())
    }
}
