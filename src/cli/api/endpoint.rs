//! The address of a broker: the parts of a URL, for HTTP and for AMQP.

use std::fmt;

use crate::base::Name;
use crate::cli::exit::Failure;

/// The schemes and ports of a protocol's URLs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::cli) struct Protocol {
    /// Scheme and port without TLS.
    plain: (&'static str, u16),
    /// Scheme and port with TLS.
    secure: (&'static str, u16),
}

/// The protocol of the HTTP API.
pub(in crate::cli) const HTTP: Protocol = Protocol {
    plain: ("http", 15_672),
    secure: ("https", 15_671),
};

/// The protocol AMQP 1.0.
pub(in crate::cli) const AMQP: Protocol = Protocol {
    plain: ("amqp", 5_672),
    secure: ("amqps", 5_671),
};

/// The address of this machine.
const LOCAL: &str = "127.0.0.1";

/// A URL in parts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::cli) struct Endpoint {
    protocol: Protocol,
    /// Whether TLS is used.
    pub(in crate::cli) is_secure: bool,
    /// Host name or address; an IPv6 address in brackets.
    pub(in crate::cli) host: String,
    /// The TCP port.
    pub(in crate::cli) port: u16,
    /// The path behind the port, without a slash at its end.
    path: String,
    /// The vhost that the path of an AMQP URL names, decoded; none: it names none.
    pub(in crate::cli) vhost: Option<String>,
    /// User name and password in the URL, decoded.
    pub(in crate::cli) user: Option<(String, Option<String>)>,
}

impl Endpoint {
    /// Parses `SCHEME://[USER[:PASSWORD]@]HOST[:PORT][/PATH]`; without a text, the default on this
    /// machine. With `use_tls` it uses TLS whatever the scheme is. The path of an AMQP URL is the name of
    /// a vhost, as in those of RabbitMQ's clients.
    pub(in crate::cli) fn parse(
        protocol: Protocol,
        text: Option<&str>,
        use_tls: bool,
    ) -> Result<Self, Failure> {
        let text = text.unwrap_or(LOCAL);
        let (plain, secure) = (protocol.plain.0, protocol.secure.0);
        let wrong = |why: &str| protocol.wrong(why);
        let (scheme, rest) = text.split_once("://").unwrap_or((plain, text));
        let is_secure = match scheme {
            _ if scheme == plain => use_tls,
            _ if scheme == secure => true,
            _ => {
                let why = format!("begins with '{scheme}:', not with '{plain}:' or '{secure}:'");
                return Err(wrong(&why));
            }
        };
        if rest.contains(['?', '#']) {
            let why =
                "has a '?' or '#': it takes neither (in a user or password they are %3F and %23)";
            return Err(wrong(why));
        }
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (user, address) = match authority.rsplit_once('@') {
            Some((user, address)) => (Some(user), address),
            None => (None, authority),
        };
        let (host, port) = match address.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
            _ => (address, None),
        };
        let port = match port.map(str::parse) {
            None => protocol.port(is_secure),
            Some(Ok(port)) => port,
            Some(Err(_)) => return Err(wrong("has a port that is no number from 1 to 65535")),
        };
        if host.is_empty() {
            return Err(wrong("names no host"));
        }
        let path = path.trim_end_matches('/');
        let vhost = match path.strip_prefix('/') {
            Some(name) if protocol == AMQP => Some(protocol.vhost(name)?),
            _ => None,
        };
        Ok(Self {
            protocol,
            is_secure,
            host: host.to_owned(),
            port,
            path: path.to_owned(),
            vhost,
            user: user.map(|user| protocol.user(user)).transpose()?,
        })
    }

    /// Shows this vhost as the one that is entered, where the URL would name it.
    pub(super) fn enter(&mut self, vhost: &str) {
        if self.protocol == AMQP {
            self.path = format!("/{}", Name::from(vhost).percent_encoded());
        }
    }

    /// Where a protocol is spoken on the same host: another one at its own port, and with TLS if this uses
    /// it.
    pub(in crate::cli) fn spoken(self, protocol: Protocol) -> Self {
        if self.protocol == protocol {
            return self;
        }
        Self {
            protocol,
            port: protocol.port(self.is_secure),
            path: String::new(),
            vhost: None,
            ..self
        }
    }
}

impl Protocol {
    /// The port unless another one is given.
    const fn port(self, is_secure: bool) -> u16 {
        if is_secure {
            self.secure.1
        } else {
            self.plain.1
        }
    }

    /// The failure for a URL, which is not shown: it may have a password.
    fn wrong(self, why: &str) -> Failure {
        let (plain, secure) = (self.plain.0, self.secure.0);
        Failure::usage(format!("the URL of the broker {why}")).advise(format!(
            "it looks like {plain}://127.0.0.1:{} or {secure}://broker.example",
            self.plain.1
        ))
    }

    /// Decodes `USER[:PASSWORD]`.
    fn user(self, text: &str) -> Result<(String, Option<String>), Failure> {
        let (name, password) = match text.split_once(':') {
            Some((name, password)) => (name, Some(password)),
            None => (text, None),
        };
        let decoded = |text: &str| {
            let name = Name::percent_decoded(text).map(|name| name.to_string());
            name.ok_or_else(|| self.wrong("has a user or password that is not percent-encoded"))
        };
        Ok((decoded(name)?, password.map(decoded).transpose()?))
    }

    /// Decodes the name of a vhost.
    fn vhost(self, segment: &str) -> Result<String, Failure> {
        if segment.contains('/') {
            let why =
                "has more behind its host than the name of a vhost (with %2F for a slash in it)";
            return Err(self.wrong(why));
        }
        let name = Name::percent_decoded(segment).map(|name| name.to_string());
        name.ok_or_else(|| self.wrong("has a vhost that is not percent-encoded"))
    }
}

impl fmt::Display for Endpoint {
    /// Without user name and password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, _) = if self.is_secure {
            self.protocol.secure
        } else {
            self.protocol.plain
        };
        write!(f, "{scheme}://{}:{}{}", self.host, self.port, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        let check = |protocol, text: &str, shown: &str, user: Option<(&str, Option<&str>)>| {
            let endpoint = Endpoint::parse(protocol, Some(text), false).unwrap();
            assert_eq!(endpoint.to_string(), shown);
            let observed = endpoint.user.as_ref();
            let observed = observed.map(|(name, word)| (name.as_str(), word.as_deref()));
            assert_eq!(observed, user);
        };
        check(HTTP, "http://h:1/", "http://h:1", None);
        check(HTTP, "h", "http://h:15672", None);
        check(HTTP, "https://h/rabbit/", "https://h:15671/rabbit", None);
        check(HTTP, "http://[::1]:80", "http://[::1]:80", None);
        check(HTTP, "http://[::1]", "http://[::1]:15672", None);
        check(AMQP, "amqps://h", "amqps://h:5671", None);
        check(AMQP, "amqp://u@h", "amqp://h:5672", Some(("u", None)));
        check(
            AMQP,
            "amqp://u%2F:p%40:x@h",
            "amqp://h:5672",
            Some(("u/", Some("p@:x"))),
        );
    }

    #[test]
    fn a_url_that_is_none_is_refused_without_showing_it() {
        for text in [
            "ftp://guest:secret@h",
            "http://",
            "http://h:99999",
            "http://u:%zz@h",
        ] {
            let failure = Endpoint::parse(HTTP, Some(text), false).unwrap_err();
            assert_eq!(failure.kind.code(), 64);
            assert!(!failure.to_string().contains("secret"), "{failure}");
        }
    }

    /// What stood behind the host of an AMQP URL was not looked at: messages went to the vhost `/`.
    #[test]
    fn what_stands_behind_the_host_is_a_vhost_or_is_refused() {
        let vhost = |text: &str| Endpoint::parse(AMQP, Some(text), false).unwrap().vhost;
        assert_eq!(vhost("amqp://h"), None);
        assert_eq!(vhost("amqp://h:1/"), None);
        assert_eq!(vhost("amqp://h/shop").as_deref(), Some("shop"));
        assert_eq!(vhost("amqps://u:w@h/%2F").as_deref(), Some("/"));
        let check = |protocol, text: &str, why: &str| {
            let failure = Endpoint::parse(protocol, Some(text), false).unwrap_err();
            assert_eq!(failure.kind.code(), 64);
            assert!(failure.to_string().contains(why), "{text}: {failure}");
        };
        check(AMQP, "amqp://h/a/b", "more behind its host");
        check(AMQP, "amqp://h/%zz", "a vhost that is not percent-encoded");
        check(AMQP, "amqp://h?heartbeat=5", "a '?' or '#'");
        check(
            AMQP,
            "http://h:15672",
            "begins with 'http:', not with 'amqp:'",
        );
        check(HTTP, "http://h/rabbit?a=b", "a '?' or '#'");
        // By the rules of URLs this is the host `h`.
        check(HTTP, "http://h?x=y@other", "a '?' or '#'");
        check(HTTP, "amqp://h", "begins with 'amqp:', not with 'http:'");
    }
}
