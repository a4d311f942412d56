//! The resolved settings of a client: address and credentials.

use std::time::Duration;

use super::endpoint::{AMQP, Endpoint, HTTP, Protocol};
use super::flags::{AMQP_URL, Values, find};
use super::tls::TlsFiles;
use crate::cli::exit::Failure;

/// Seconds to wait for an answer, by default.
const TIMEOUT_SECONDS: u64 = 60;

/// Default name and password of a new broker's first user.
const DEFAULT_USER: &str = "guest";

/// The vhost of commands that name none.
const DEFAULT_VHOST: &str = "/";

/// Address, credentials and TLS options.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Settings {
    /// The broker's address.
    pub(in crate::cli) endpoint: Endpoint,
    /// Files and options for TLS.
    pub(in crate::cli) tls: TlsFiles,
    username: Option<String>,
    password: Option<String>,
    vhost: Option<String>,
    /// Time to wait for an answer.
    pub(in crate::cli) timeout: Duration,
}

impl Settings {
    /// Resolves values of the command line and the environment, then those of the file.
    pub(super) fn new(protocol: Protocol, said: &Values, file: &Values) -> Result<Self, Failure> {
        let either = |name: &str| {
            let value = find(said, name).or_else(|| find(file, name));
            value.map(ToOwned::to_owned)
        };
        let set = |variable: &str, in_file: &str| {
            let value = std::env::var(variable).ok();
            let value = value.filter(|value| !value.is_empty());
            value.or_else(|| find(file, in_file).map(ToOwned::to_owned))
        };
        let url = find(said, "url").map(ToOwned::to_owned);
        let amqp = || set("CORONERCTL_AMQP_URL", AMQP_URL).filter(|_| protocol == AMQP);
        let use_tls = find(said, "use-tls").is_some();
        let mut endpoint = if let Some(url) = url.or_else(amqp) {
            Endpoint::parse(protocol, Some(&url), use_tls)?
        } else {
            // That of the HTTP API says on which host the broker is, also to whom speaks AMQP.
            let url = set("CORONERCTL_URL", "url");
            Endpoint::parse(HTTP, url.as_deref(), use_tls)?.spoken(protocol)
        };
        if let Some(host) = find(said, "host") {
            host.clone_into(&mut endpoint.host);
        }
        if let Some(port) = number(said, "port")? {
            endpoint.port = port;
        }
        let (user_in_url, secret_in_url) = endpoint.user.take().unzip();
        let vhost_in_url = endpoint.vhost.take();
        let vhost = find(said, "vhost")
            .map(ToOwned::to_owned)
            .or(vhost_in_url)
            .or_else(|| either("vhost"));
        if let Some(vhost) = &vhost {
            endpoint.enter(vhost);
        }
        let username = find(said, "username").map(ToOwned::to_owned);
        let password = find(said, "password").map(ToOwned::to_owned);
        Ok(Self {
            endpoint,
            tls: TlsFiles {
                authorities: either("tls-ca-cert-file").map(Into::into),
                certificate: either("tls-cert-file").map(Into::into),
                key: either("tls-key-file").map(Into::into),
                trusts_all: find(said, "insecure").is_some(),
            },
            username: username.or(user_in_url).or_else(|| either("username")),
            password: password
                .or_else(|| secret_in_url.flatten())
                .or_else(|| either("password")),
            vhost,
            timeout: Duration::from_secs(number(said, "timeout")?.unwrap_or(TIMEOUT_SECONDS)),
        })
    }

    /// Whether a user name was given.
    pub(in crate::cli) fn names_user(&self) -> bool {
        self.username.is_some()
    }

    /// The user name; default `guest`.
    pub(in crate::cli) fn username(&self) -> &str {
        self.username.as_deref().unwrap_or(DEFAULT_USER)
    }

    /// The user's password; default `guest`.
    pub(in crate::cli) fn password(&self) -> &str {
        self.password.as_deref().unwrap_or(DEFAULT_USER)
    }

    /// Replaces the credentials.
    pub(super) fn log_in_as(&mut self, username: &str, password: &str) {
        self.username = Some(username.to_owned());
        self.password = Some(password.to_owned());
    }

    /// The vhost that was named, if any.
    pub(in crate::cli) fn vhost_given(&self) -> Option<&str> {
        self.vhost.as_deref()
    }

    /// The vhost; default `/`.
    pub(in crate::cli) fn vhost(&self) -> &str {
        self.vhost.as_deref().unwrap_or(DEFAULT_VHOST)
    }
}

fn number<T: std::str::FromStr>(said: &Values, name: &str) -> Result<Option<T>, Failure> {
    let parsed = find(said, name).map(str::parse).transpose();
    parsed.map_err(|_| Failure::usage(format!("--{name} takes a number")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With the URL of an HTTP API only, `publish` went to this machine, with the name and password of another.
    #[test]
    fn who_speaks_amqp_goes_to_the_host_of_the_http_api_if_no_other_is_named() {
        let check = |said: &[(&'static str, &str)], file: &[(&'static str, &str)], url: &str| {
            let values = |pairs: &[(&'static str, &str)]| -> Values {
                let pairs = pairs.iter();
                pairs
                    .map(|(name, text)| (*name, (*text).to_owned()))
                    .collect()
            };
            Settings::new(AMQP, &values(said), &values(file)).inspect(|settings| {
                assert_eq!(settings.endpoint.to_string(), url);
            })
        };
        let api = ("url", "https://me:word@h:444/rabbit");
        let settings = check(&[], &[api], "amqps://h:5671").unwrap();
        assert_eq!((settings.username(), settings.password()), ("me", "word"));
        assert_eq!(settings.vhost_given(), None);
        let amqp = (AMQP_URL, "amqp://other:1/shop");
        let settings = check(&[], &[api, amqp], "amqp://other:1/shop").unwrap();
        assert_eq!(settings.vhost_given(), Some("shop"));
        // Errors showed the vhost of the URL, which was not entered.
        let said = [("vhost", "/"), ("url", "amqp://third/shop")];
        let settings = check(&said, &[api, amqp], "amqp://third:5672/%2F").unwrap();
        assert_eq!(settings.vhost_given(), Some("/"));
        assert!(check(&[api], &[], "").is_err());
    }
}
