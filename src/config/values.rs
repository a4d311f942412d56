//! Types of setting values that are written as text. Each parses from and prints to one form.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::{Serialize, Serializer};

/// `ADDR:PORT` to listen on; port 0 lets the system choose.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListenAddress {
    host: String,
    port: u16,
}

impl ListenAddress {
    /// A port of a host.
    pub fn new(host: &str, port: u16) -> Self {
        let host = host.to_owned();
        Self { host, port }
    }

    /// Host name or address, without the brackets of an IPv6 address.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Port; 0 lets the system choose.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl From<std::net::SocketAddr> for ListenAddress {
    fn from(address: std::net::SocketAddr) -> Self {
        Self {
            host: address.ip().to_string(),
            port: address.port(),
        }
    }
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((host, port)) = text.rsplit_once(':') else {
            return Err("the port is missing".to_owned());
        };
        let port = port
            .parse()
            .map_err(|_| format!("'{port}' is not a port"))?;
        let bare = host
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
            .unwrap_or(host);
        if bare.is_empty() || (bare.contains(':') && bare == host) {
            return Err(format!(
                "'{host}' is not a host (IPv6 addresses go in brackets)"
            ));
        }
        Ok(Self {
            host: bare.to_owned(),
            port,
        })
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// Where HTTP is served: `auto`, `off` or an address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HttpListen {
    /// On [`HttpListen::AUTO`], or nowhere when another process has that address: so that a second
    /// broker can be tried beside a first one.
    Auto,
    /// Nowhere.
    Off,
    /// There; the broker does not start when it cannot.
    At(ListenAddress),
}

impl HttpListen {
    /// What `auto` stands for: the port of RabbitMQ's management, on this machine only.
    pub const AUTO: &'static str = "127.0.0.1:15672";

    /// The address, if there is to be one.
    pub fn address(&self) -> Option<ListenAddress> {
        match self {
            Self::Auto => Self::AUTO.parse().ok(),
            Self::Off => None,
            Self::At(address) => Some(address.clone()),
        }
    }
}

impl FromStr for HttpListen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "off" => Ok(Self::Off),
            address => address.parse().map(Self::At),
        }
    }
}

impl fmt::Display for HttpListen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Off => f.write_str("off"),
            Self::At(address) => address.fmt(f),
        }
    }
}

/// A number of bytes: `131072`, `64KiB`, `16MiB`, `2GiB`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ByteSize(pub u64);

const SIZE_UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (digits, factor) = SIZE_UNITS
            .iter()
            .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)))
            .unwrap_or((text, 1));
        let number: u64 = digits
            .trim_end()
            .parse()
            .map_err(|_| "this is not a number of bytes".to_owned())?;
        number
            .checked_mul(factor)
            .map(Self)
            .ok_or_else(|| "this is too large".to_owned())
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = SIZE_UNITS
            .iter()
            .find(|(_, factor)| self.0 > 0 && self.0.is_multiple_of(*factor));
        match unit {
            Some((name, factor)) => write!(f, "{}{name}", self.0 / factor),
            None => write!(f, "{}", self.0),
        }
    }
}

/// A length of time: `500ms`, `30s`, `5m`; `0` where a setting can be switched off.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Span {
    /// Milliseconds.
    pub ms: u64,
}

impl Span {
    /// A span of whole seconds.
    pub const fn seconds(seconds: u64) -> Self {
        Self { ms: seconds * 1000 }
    }

    /// The same as a standard duration.
    pub const fn duration(self) -> Duration {
        Duration::from_millis(self.ms)
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "0" {
            return Ok(Self { ms: 0 });
        }
        let (digits, factor) = [("ms", 1), ("s", 1000), ("m", 60_000)]
            .iter()
            .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)))
            .ok_or_else(|| "the unit is missing".to_owned())?;
        let number: u64 = digits
            .trim_end()
            .parse()
            .map_err(|_| "this is not a length of time".to_owned())?;
        number
            .checked_mul(factor)
            .map(|ms| Self { ms })
            .ok_or_else(|| "too long".to_owned())
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ms {
            0 => f.write_str("0"),
            ms if ms.is_multiple_of(60_000) => write!(f, "{}m", ms / 60_000),
            ms if ms.is_multiple_of(1000) => write!(f, "{}s", ms / 1000),
            ms => write!(f, "{ms}ms"),
        }
    }
}

/// `NAME:PASSWORD` of a user. Prints its name only.
#[derive(Clone, PartialEq, Eq)]
pub struct UserEntry {
    /// Login name.
    pub name: String,
    /// Password in clear; hashed before it is kept.
    pub password: String,
}

impl FromStr for UserEntry {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None => Err("the ':' between name and password is missing".to_owned()),
            Some(("", _)) => Err("the name is empty".to_owned()),
            Some((_, "")) => Err("the password is empty".to_owned()),
            Some((name, password)) => Ok(Self {
                name: name.to_owned(),
                password: password.to_owned(),
            }),
        }
    }
}

impl fmt::Display for UserEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.name, self.password)
    }
}

impl fmt::Debug for UserEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:***", self.name)
    }
}

/// `USER VHOST CONFIGURE WRITE READ`: what a user may do in a vhost, three regular expressions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PermissionEntry {
    /// Login name.
    pub user: String,
    /// Vhost, or `*` for every vhost.
    pub vhost: String,
    /// Names it may declare and delete.
    pub configure: String,
    /// Names it may write to.
    pub write: String,
    /// Names it may read from.
    pub read: String,
}

impl FromStr for PermissionEntry {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split_whitespace().map(str::to_owned);
        let mut next = || {
            words
                .next()
                .ok_or_else(|| "there are fewer than five words".to_owned())
        };
        let entry = Self {
            user: next()?,
            vhost: next()?,
            configure: next()?,
            write: next()?,
            read: next()?,
        };
        match words.next() {
            Some(extra) => Err(format!("'{extra}' is a sixth word")),
            None => Ok(entry),
        }
    }
}

impl fmt::Display for PermissionEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            user,
            vhost,
            configure,
            write,
            read,
        } = self;
        write!(f, "{user} {vhost} {configure} {write} {read}")
    }
}

/// Declares an enum of words that parses from and prints to exactly these words.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident {
        $($(#[$variant_doc:meta])* $variant:ident = $word:literal),+
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum $name { $($(#[$variant_doc])* $variant),+ }

        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                match text {
                    $($word => Ok(Self::$variant),)+
                    other => Err(format!("there is no '{other}'")),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$variant => $word),+ })
            }
        }
    };
}

words!(
    /// Type of a queue declared without `x-queue-type`.
    QueueType {
        /// Like RabbitMQ's classic queues.
        Classic = "classic",
        /// Like RabbitMQ's quorum queues.
        Quorum = "quorum"
    }
);
words!(
    /// How log lines look.
    LogFormat {
        /// One line of text per event.
        Text = "text",
        /// One JSON object per event and line.
        Json = "json"
    }
);
words!(
    /// When the journal is synced.
    SyncSetting {
        /// Before anything is confirmed.
        Always = "always",
        /// At intervals.
        Interval = "interval",
        /// When the system likes.
        Never = "never"
    }
);

words!(
    /// Where in a client certificate the user's name stands.
    TlsLoginFrom {
        /// The common name of its subject.
        CommonName = "common-name",
        /// The first alternative name of its subject that is a DNS name, a mail address or a URI.
        SubjectAlternativeName = "subject-alternative-name"
    }
);

words!(
    /// A way to log in.
    SaslMechanism {
        /// By client certificate.
        External = "EXTERNAL",
        /// By a proof of the password.
        ScramSha512 = "SCRAM-SHA-512",
        /// By a proof of the password.
        ScramSha256 = "SCRAM-SHA-256",
        /// By the password in clear.
        Plain = "PLAIN",
        /// As the user for strangers.
        Anonymous = "ANONYMOUS"
    }
);

/// Reads and writes these types as text; numbers are taken too where they make sense.
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
    PermissionEntry,
    QueueType,
    LogFormat,
    SyncSetting,
    TlsLoginFrom,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: FromStr<Err = String> + fmt::Display>(text: &str, expect: Result<&str, &str>) {
        let parsed = text.parse::<T>().map(|value| value.to_string());
        assert_eq!(
            parsed,
            expect.map(str::to_owned).map_err(str::to_owned),
            "{text}"
        );
    }

    #[test]
    fn sizes_take_binary_units() {
        check::<ByteSize>("16MiB", Ok("16MiB"));
        check::<ByteSize>("16777216", Ok("16MiB"));
        check::<ByteSize>("1000", Ok("1000"));
        check::<ByteSize>("0", Ok("0"));
        check::<ByteSize>("16MB", Err("this is not a number of bytes"));
        check::<ByteSize>("99999999999GiB", Err("this is too large"));
    }

    #[test]
    fn spans_need_a_unit() {
        check::<Span>("1500ms", Ok("1500ms"));
        check::<Span>("90s", Ok("90s"));
        check::<Span>("120s", Ok("2m"));
        check::<Span>("0", Ok("0"));
        check::<Span>("30", Err("the unit is missing"));
        check::<Span>("fours", Err("this is not a length of time"));
    }

    #[test]
    fn listen_addresses_need_host_and_port() {
        check::<ListenAddress>("127.0.0.1:5672", Ok("127.0.0.1:5672"));
        check::<ListenAddress>("[::1]:0", Ok("[::1]:0"));
        check::<ListenAddress>("localhost", Err("the port is missing"));
        check::<ListenAddress>("localhost:70000", Err("'70000' is not a port"));
        check::<ListenAddress>(
            "::1:5672",
            Err("'::1' is not a host (IPv6 addresses go in brackets)"),
        );
    }

    #[test]
    fn http_is_somewhere_nowhere_or_where_there_is_room() {
        check::<HttpListen>("auto", Ok("auto"));
        check::<HttpListen>("off", Ok("off"));
        check::<HttpListen>("[::]:15672", Ok("[::]:15672"));
        check::<HttpListen>("yes", Err("the port is missing"));
        assert!(HttpListen::Off.address().is_none());
        assert!(HttpListen::Auto.address().is_some());
    }

    #[test]
    fn users_and_permissions_say_what_is_missing() {
        check::<UserEntry>("a:b:c", Ok("a:b:c"));
        check::<UserEntry>("guest", Err("the ':' between name and password is missing"));
        check::<PermissionEntry>("u / ^mine ^mine .*", Ok("u / ^mine ^mine .*"));
        check::<PermissionEntry>("u /", Err("there are fewer than five words"));
    }
}
