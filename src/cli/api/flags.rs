//! Where the broker is and who we are: flags, then the environment, then a settings file.

use std::path::PathBuf;
use std::time::Duration;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args};

use super::endpoint::{AMQP, Endpoint, Protocol};
use crate::cli::exit::{Failure, Kind};
use crate::cli::output::Format;

/// Seconds to wait for an answer unless told otherwise.
const TIMEOUT_SECONDS: u64 = 60;

/// Name and password of a broker's first user.
const DEFAULT_USER: &str = "guest";

/// The vhost of commands that name none.
const DEFAULT_VHOST: &str = "/";

/// The settings file, below the home directory.
const FILE: &str = ".config/coroner/ctl.toml";

// No documentation comment: it would replace what each command says of itself.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Connection and output")]
pub(in crate::cli) struct Flags {
    /// Broker, as a URL [default: this machine, port 15672]
    #[arg(
        id = "ctl-url",
        short = 'U',
        long = "url",
        visible_alias = "base-uri",
        value_name = "URL"
    )]
    url: Option<String>,
    /// Its host, in place of the URL's
    #[arg(id = "ctl-host", short = 'H', long = "host", value_name = "HOST")]
    host: Option<String>,
    /// Its port, in place of the URL's
    #[arg(id = "ctl-port", short = 'P', long = "port", value_name = "PORT")]
    port: Option<u16>,
    /// User [default: guest]
    #[arg(
        id = "ctl-username",
        short = 'u',
        long = "username",
        visible_alias = "user",
        env = "CORONERCTL_USERNAME",
        value_name = "USERNAME"
    )]
    username: Option<String>,
    /// Password of that user [default: guest]
    #[arg(
        id = "ctl-password",
        long = "password",
        env = "CORONERCTL_PASSWORD",
        hide_env_values = true,
        value_name = "PASSWORD"
    )]
    password: Option<String>,
    /// Virtual host [default: /]
    #[arg(
        id = "ctl-vhost",
        short = 'p',
        long = "vhost",
        env = "CORONERCTL_VHOST",
        value_name = "VHOST"
    )]
    vhost: Option<String>,
    /// Seconds to wait for each answer [default: 60]
    #[arg(
        id = "ctl-timeout",
        short = 't',
        long = "timeout",
        value_name = "SECONDS"
    )]
    timeout: Option<u64>,
    /// Reads url, amqp-url, username, password and vhost from this TOML file [default:
    /// ~/.config/coroner/ctl.toml, if there is one]
    #[arg(
        id = "ctl-file",
        long = "ctl-config",
        value_name = "FILE",
        env = "CORONERCTL_CONFIG"
    )]
    file: Option<PathBuf>,
    /// Form of what is printed [default: table]
    #[arg(
        id = "ctl-format",
        short = 'f',
        long = "format",
        visible_alias = "formatter",
        value_enum,
        value_name = "FORMAT"
    )]
    format: Option<Format>,
    /// Prints nothing but what was asked for: no headings, no confirmations
    #[arg(id = "ctl-quiet", short = 'q', long = "quiet")]
    quiet: bool,
}

impl Flags {
    /// Reads what stands behind a command, and what stands before it.
    pub(in crate::cli) fn read(before: &ArgMatches, behind: &ArgMatches) -> Self {
        let side = |id: &str| {
            let typed = |side: &ArgMatches| side.value_source(id) == Some(ValueSource::CommandLine);
            if typed(before) && !typed(behind) {
                before
            } else {
                behind
            }
        };
        let text = |id: &str| side(id).get_one::<String>(id).cloned();
        Self {
            url: text("ctl-url"),
            host: text("ctl-host"),
            port: side("ctl-port").get_one("ctl-port").copied(),
            username: text("ctl-username"),
            password: text("ctl-password"),
            vhost: text("ctl-vhost"),
            timeout: side("ctl-timeout").get_one("ctl-timeout").copied(),
            file: side("ctl-file").get_one("ctl-file").cloned(),
            format: side("ctl-format").get_one("ctl-format").copied(),
            quiet: before.get_flag("ctl-quiet") || behind.get_flag("ctl-quiet"),
        }
    }

    /// The name of a flag that stands before the command, if one does.
    pub(in crate::cli) fn first_given(before: &ArgMatches) -> Option<String> {
        let typed =
            |id: &&clap::Id| before.value_source(id.as_str()) == Some(ValueSource::CommandLine);
        before
            .ids()
            .filter(|id| id.as_str() != "Flags")
            .find(typed)
            .map(ToString::to_string)
    }

    /// Fills in what neither flags nor environment said: first from the file, then from what
    /// `protocol` takes for granted.
    pub(in crate::cli) fn settle(self, protocol: Protocol) -> Result<Settings, Failure> {
        let file = File::read(self.file.as_deref())?;
        let (variable, in_file) = if protocol == AMQP {
            ("CORONERCTL_AMQP_URL", file.amqp_url)
        } else {
            ("CORONERCTL_URL", file.url)
        };
        let url = self
            .url
            .or_else(|| std::env::var(variable).ok())
            .or(in_file);
        let mut endpoint = Endpoint::parse(protocol, url.as_deref())?;
        if let Some(host) = self.host {
            endpoint.host = host;
        }
        if let Some(port) = self.port {
            endpoint.port = port;
        }
        let (in_url, secret_in_url) = endpoint.user.take().unzip();
        let secret_in_url: Option<String> = secret_in_url.flatten();
        let or_default = || DEFAULT_USER.to_owned();
        Ok(Settings {
            endpoint,
            username: self
                .username
                .or(in_url)
                .or(file.username)
                .unwrap_or_else(or_default),
            password: self
                .password
                .or(secret_in_url)
                .or(file.password)
                .unwrap_or_else(or_default),
            vhost: self.vhost.or(file.vhost),
            timeout: Duration::from_secs(self.timeout.unwrap_or(TIMEOUT_SECONDS)),
        })
    }

    /// How to print.
    pub(in crate::cli) fn format(&self) -> Format {
        self.format.unwrap_or_default()
    }

    /// Whether to print only what was asked for.
    pub(in crate::cli) fn is_quiet(&self) -> bool {
        self.quiet
    }
}

/// Where the broker is and who we are, settled.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Settings {
    /// Where.
    pub(in crate::cli) endpoint: Endpoint,
    /// User name.
    pub(in crate::cli) username: String,
    /// Its password.
    pub(in crate::cli) password: String,
    /// The vhost somebody named.
    vhost: Option<String>,
    /// How long to wait for an answer.
    pub(in crate::cli) timeout: Duration,
}

impl Settings {
    /// The vhost that was named.
    pub(in crate::cli) fn vhost_given(&self) -> Option<&str> {
        self.vhost.as_deref()
    }

    /// The vhost, `/` unless one was named.
    pub(in crate::cli) fn vhost(&self) -> &str {
        self.vhost.as_deref().unwrap_or(DEFAULT_VHOST)
    }
}

/// The settings file.
#[derive(Default)]
struct File {
    url: Option<String>,
    amqp_url: Option<String>,
    username: Option<String>,
    password: Option<String>,
    vhost: Option<String>,
}

impl File {
    /// Reads the file that was named, or the usual one if it is there.
    fn read(named: Option<&std::path::Path>) -> Result<Self, Failure> {
        let usual = || Some(PathBuf::from(std::env::var_os("HOME")?).join(FILE));
        let Some(path) = named.map(ToOwned::to_owned).or_else(usual) else {
            return Ok(Self::default());
        };
        #[allow(
            clippy::disallowed_methods,
            reason = "the command line reads its own settings"
        )]
        let read = std::fs::read_to_string(&path);
        let text = match read {
            Ok(text) => text,
            Err(_) if named.is_none() => return Ok(Self::default()),
            Err(error) => {
                let what = format!("cannot read {}: {error}", path.display());
                return Err(Failure::new(Kind::NotFound, what));
            }
        };
        Self::parse(&text).map_err(|why| {
            Failure::usage(format!("settings file {}: {why}", path.display()))
                .advise("it holds lines such as: url = \"http://broker.example:15672\"")
        })
    }

    fn parse(text: &str) -> Result<Self, String> {
        let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
            // The whole message would show the line, and a password may stand in it.
            error.message().to_owned()
        })?;
        let mut file = Self::default();
        for (name, value) in table {
            let slot = match name.as_str() {
                "url" => &mut file.url,
                "amqp-url" => &mut file.amqp_url,
                "username" => &mut file.username,
                "password" => &mut file.password,
                "vhost" => &mut file.vhost,
                _ => return Err(format!("'{name}' is no setting")),
            };
            let toml::Value::String(text) = value else {
                return Err(format!("'{name}' is no text"));
            };
            *slot = Some(text);
        }
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::api::HTTP;

    #[test]
    fn a_settings_file_is_read_strictly() {
        let file = File::parse("url = \"http://h\"\nvhost = \"v\"").unwrap();
        assert_eq!(file.url.as_deref(), Some("http://h"));
        assert_eq!(file.vhost.as_deref(), Some("v"));
        let check = |text: &str, why: &str| {
            assert_eq!(File::parse(text).err().unwrap(), why, "{text}");
        };
        check("port = 1", "'port' is no setting");
        check("vhost = 1", "'vhost' is no text");
        assert!(File::parse("password = secret").is_err_and(|why| !why.contains("secret")));
    }

    #[test]
    fn parts_of_a_url_are_replaced_by_their_flags() {
        let flags = Flags {
            url: Some("http://u:w@h:1/rabbit".to_owned()),
            port: Some(2),
            username: Some("me".to_owned()),
            file: Some("/dev/null".into()),
            ..Flags::default()
        };
        let settings = flags.settle(HTTP).unwrap();
        assert_eq!(settings.endpoint.to_string(), "http://h:2/rabbit");
        assert_eq!(
            (settings.username.as_str(), settings.password.as_str()),
            ("me", "w")
        );
        assert_eq!(settings.vhost(), "/");
    }
}
