//! Addresses to listen on.

use std::fmt;
use std::str::FromStr;

/// `ADDR:PORT` to listen on; port 0 lets the system choose.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListenAddress {
    host: String,
    port: u16,
}

impl ListenAddress {
    /// An address from a host and a port.
    pub fn new(host: &str, port: u16) -> Self {
        let host = host.to_owned();
        Self { host, port }
    }

    /// The host name or address, without the brackets of an IPv6 address.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port; 0 lets the system choose.
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

/// The address for HTTP: `auto`, `off` or an address.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum HttpListen {
    /// [`HttpListen::AUTO`], or none when another process has that address: so that a second broker
    /// can be tried beside a first one.
    Auto,
    /// No address: HTTP is not served.
    Off,
    /// This address; the broker does not start when it cannot be bound.
    At(ListenAddress),
}

impl HttpListen {
    /// What `auto` stands for: the port of RabbitMQ's management, on this machine only.
    pub const AUTO: &'static str = "127.0.0.1:15672";

    /// The address to bind, if there is one.
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
