//! Flags of all managing commands and clients: the broker's address, credentials, output format.
//! One table; each value comes from a flag, then the environment, then a settings file.

use std::path::{Path, PathBuf};

use clap::builder::ValueParser;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, ValueEnum, value_parser};

use super::settings::Settings;
use crate::cli::exit::{Failure, FailureKind};
use crate::cli::output::{Format, Output};

/// The settings file, below the home directory.
const FILE: &str = ".config/coroner/ctl.toml";

/// The name of AMQP's URL in the settings file: managing commands use the one named `url`.
pub(super) const AMQP_URL: &str = "amqp-url";

/// The value that a flag takes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    /// No value: the flag is present or not.
    Nothing,
    /// A text, with this name in the help.
    Text(&'static str),
    /// A port number.
    Port,
    /// A number of seconds.
    Seconds,
    /// A format of the output.
    Format,
}

/// A flag of the table.
struct Flag {
    name: &'static str,
    short: Option<char>,
    alias: Option<&'static str>,
    takes: Takes,
    /// The environment variable with the same meaning, if there is one.
    variable: Option<&'static str>,
    /// Whether the settings file may have the value, under the same name.
    is_in_file: bool,
    help: &'static str,
}

impl Flag {
    const fn text(name: &'static str, shown: &'static str, help: &'static str) -> Self {
        Self {
            name,
            short: None,
            alias: None,
            takes: Takes::Text(shown),
            variable: None,
            is_in_file: false,
            help,
        }
    }

    const fn short(mut self, short: char) -> Self {
        self.short = Some(short);
        self
    }

    const fn alias(mut self, alias: &'static str) -> Self {
        self.alias = Some(alias);
        self
    }

    const fn takes(mut self, takes: Takes) -> Self {
        self.takes = takes;
        self
    }

    const fn variable(mut self, variable: &'static str) -> Self {
        self.variable = Some(variable);
        self
    }

    const fn in_file(mut self) -> Self {
        self.is_in_file = true;
        self
    }

    /// The id in the parser, unlike those of a command's own arguments.
    fn id(&self) -> String {
        format!("ctl-{}", self.name)
    }

    fn argument(&self) -> Arg {
        let argument = Arg::new(self.id())
            .long(self.name)
            .help(self.help)
            .help_heading("Connection and output");
        let argument = match self.short {
            Some(short) => argument.short(short),
            None => argument,
        };
        let argument = match self.alias {
            Some(alias) => argument.visible_alias(alias),
            None => argument,
        };
        let argument = match self.variable {
            Some(variable) => argument
                .env(variable)
                .hide_env_values(self.name == "password"),
            None => argument,
        };
        let (shown, parser): (_, ValueParser) = match self.takes {
            Takes::Nothing => return argument.action(ArgAction::SetTrue),
            Takes::Text(shown) => (shown, value_parser!(String)),
            Takes::Port => ("PORT", value_parser!(u16).into()),
            Takes::Seconds => ("SECONDS", value_parser!(u64).into()),
            Takes::Format => ("FORMAT", value_parser!(Format).into()),
        };
        argument.value_name(shown).value_parser(parser)
    }

    /// The value as it was typed. A variable that is empty says nothing: so stands `VARIABLE=` in the file of a
    /// service.
    fn value(&self, side: &ArgMatches) -> Option<String> {
        let id = self.id();
        if self.takes == Takes::Nothing {
            return side.get_flag(&id).then(String::new);
        }
        let given = side.try_get_raw(&id).ok()??.next()?;
        let is_said = !given.is_empty() || is_typed(side, &id);
        is_said.then(|| given.to_string_lossy().into_owned())
    }
}

/// All flags, in the order of the help.
const FLAGS: &[Flag] = &[
    Flag::text(
        "url",
        "URL",
        "Broker, as a URL [default: this machine, port 15672]",
    )
    .short('U')
    .alias("base-uri")
    .in_file(),
    Flag::text("host", "HOST", "Its host, in place of the URL's").short('H'),
    Flag::text("port", "", "Its port, in place of the URL's")
        .short('P')
        .takes(Takes::Port),
    Flag::text("username", "USERNAME", "User [default: guest]")
        .short('u')
        .alias("user")
        .variable("CORONERCTL_USERNAME")
        .in_file(),
    Flag::text(
        "password",
        "PASSWORD",
        "Password of that user [default: guest]",
    )
    .variable("CORONERCTL_PASSWORD")
    .in_file(),
    Flag::text("vhost", "VHOST", "Virtual host [default: /]")
        .short('p')
        .variable("CORONERCTL_VHOST")
        .in_file(),
    Flag::text(
        "use-tls",
        "",
        "Speaks TLS, as with https:// or amqps:// in the URL",
    )
    .alias("ssl")
    .takes(Takes::Nothing),
    Flag::text(
        "tls-ca-cert-file",
        "FILE",
        "Trusts the authorities in this PEM file, in place of this system's",
    )
    .variable("CORONERCTL_TLS_CA_CERT_FILE")
    .in_file(),
    Flag::text(
        "tls-cert-file",
        "FILE",
        "Shows the broker the certificate in this PEM file",
    )
    .variable("CORONERCTL_TLS_CERT_FILE")
    .in_file(),
    Flag::text("tls-key-file", "FILE", "Its private key, in PEM")
        .variable("CORONERCTL_TLS_KEY_FILE")
        .in_file(),
    Flag::text(
        "insecure",
        "",
        "Takes any certificate: whoever answers is believed to be the broker",
    )
    .short('k')
    .alias("disable-tls-peer-verification")
    .takes(Takes::Nothing),
    Flag::text(
        "timeout",
        "",
        "Seconds to wait for each answer [default: 60]",
    )
    .short('t')
    .takes(Takes::Seconds),
    Flag::text(
        "ctl-config",
        "FILE",
        "Reads url, amqp-url, username, password, vhost and the tls files from this TOML file \
         [default: ~/.config/coroner/ctl.toml, if there is one]",
    )
    .variable("CORONERCTL_CONFIG"),
    Flag::text(
        "format",
        "",
        "Form of what is printed [default: table; of lists tsv where no terminal shows them]",
    )
    .short('f')
    .alias("formatter")
    .takes(Takes::Format),
    Flag::text(
        "quiet",
        "",
        "Prints nothing but what was asked for: no confirmations; lists with tabs",
    )
    .short('q')
    .takes(Takes::Nothing),
    Flag::text("silent", "", "The same without headings")
        .short('s')
        .alias("no-table-headers")
        .takes(Takes::Nothing),
];

/// Values from flags and the environment, by the flag's name.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Flags(Values);

/// Names with their values.
pub(super) type Values = Vec<(&'static str, String)>;

impl Flags {
    /// Adds all flags to a command, behind its own arguments, but for those that it has itself: `graph`
    /// has more formats.
    pub(in crate::cli) fn of(command: Command) -> Command {
        let own: Vec<String> = command
            .get_arguments()
            .filter_map(|argument| argument.get_long().map(ToOwned::to_owned))
            .collect();
        let others = FLAGS
            .iter()
            .filter(|flag| !own.iter().any(|long| long == flag.name));
        command.args(others.map(Flag::argument))
    }

    /// Reads the flags behind a command, and those before it: also those between the words of a group
    /// such as `declare queue`. Of one that is typed twice the last one counts.
    pub(in crate::cli) fn read(before: &ArgMatches, behind: &ArgMatches) -> Self {
        let mut places = vec![before];
        places.extend(std::iter::successors(Some(behind), |matches| {
            Some(matches.subcommand()?.1)
        }));
        let innermost = places.last().copied().unwrap_or(behind);
        let value = |flag: &Flag| {
            let id = flag.id();
            let mut typed = places.iter().rev().filter(|place| is_typed(place, &id));
            let place = typed.next().copied().unwrap_or(innermost);
            Some((flag.name, flag.value(place)?))
        };
        Self(FLAGS.iter().filter_map(value).collect())
    }

    /// Adds all flags to a group of commands and to each of them: shown with these only.
    pub(in crate::cli) fn of_group(group: Command) -> Command {
        let group = Self::of(group.mut_subcommands(Self::of));
        group.mut_args(|arg| {
            let is_flag = arg.get_id().as_str().starts_with("ctl-");
            if is_flag { arg.hide(true) } else { arg }
        })
    }

    /// The name of a flag before the command, if there is one.
    pub(in crate::cli) fn first_given(before: &ArgMatches) -> Option<&'static str> {
        let mut flags = FLAGS.iter();
        let given = flags.find(|flag| is_typed(before, &flag.id()));
        given.map(|flag| flag.name)
    }

    /// Adds values that neither flags nor environment gave: first from the file, then defaults of
    /// `protocol`.
    pub(in crate::cli) fn settle(
        self,
        protocol: super::endpoint::Protocol,
    ) -> Result<Settings, Failure> {
        let file = read_file(self.get("ctl-config").map(Path::new))?;
        Settings::new(protocol, &self.0, &file)
    }

    fn get(&self, name: &str) -> Option<&str> {
        find(&self.0, name)
    }

    /// Format and options of the output.
    pub(in crate::cli) fn output(&self) -> Output {
        // An unknown format was refused when the command line was parsed.
        let format = self.get("format");
        let format = format.map(|text| Format::from_str(text, false).unwrap_or_default());
        let is_silent = self.get("silent").is_some();
        let is_quiet = is_silent || self.get("quiet").is_some();
        Output::new(format, is_quiet, !is_silent)
    }
}

/// The value of a name.
pub(super) fn find<'a>(values: &'a Values, name: &str) -> Option<&'a str> {
    let mut values = values.iter();
    let found = values.find(|(given, _)| *given == name);
    found.map(|(_, value)| value.as_str())
}

fn is_typed(side: &ArgMatches, id: &str) -> bool {
    let is_known = side.try_contains_id(id).is_ok();
    is_known && side.value_source(id) == Some(ValueSource::CommandLine)
}

/// Reads the named file, or the default one if it exists.
fn read_file(named: Option<&Path>) -> Result<Values, Failure> {
    let default_path = || Some(PathBuf::from(std::env::var_os("HOME")?).join(FILE));
    let Some(path) = named.map(ToOwned::to_owned).or_else(default_path) else {
        return Ok(Values::new());
    };
    #[allow(
        clippy::disallowed_methods,
        reason = "the command line reads its own settings"
    )]
    let read = std::fs::read_to_string(&path);
    let text = match read {
        Ok(text) => text,
        Err(_) if named.is_none() => return Ok(Values::new()),
        Err(error) => {
            let what = format!("cannot read {}: {error}", path.display());
            return Err(Failure::new(FailureKind::NotFound, what));
        }
    };
    parse_file(&text).map_err(|why| {
        Failure::usage(format!("settings file {}: {why}", path.display()))
            .advise("it holds lines such as: url = \"http://broker.example:15672\"")
    })
}

fn parse_file(text: &str) -> Result<Values, String> {
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
        // The whole message would show the line, which may have a password.
        error.message().to_owned()
    })?;
    let mut values = Values::new();
    for (name, value) in table {
        let flags = FLAGS.iter().filter(|flag| flag.is_in_file);
        let mut names = flags.map(|flag| flag.name).chain([AMQP_URL]);
        let Some(known) = names.find(|known| *known == name) else {
            return Err(format!("'{name}' is no setting"));
        };
        let toml::Value::String(text) = value else {
            return Err(format!("'{name}' is no text"));
        };
        values.push((known, text));
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::api::{AMQP, HTTP};

    fn settle(words: &[&str], protocol: super::super::endpoint::Protocol) -> Settings {
        let command = Flags::of(Command::new("coroner")).subcommand(Flags::of(Command::new("do")));
        let before = ["coroner", "--ctl-config", "/dev/null"];
        let words = before.iter().chain(words);
        let matches = command.try_get_matches_from(words).unwrap();
        let (_, behind) = matches.subcommand().unwrap();
        Flags::read(&matches, behind).settle(protocol).unwrap()
    }

    #[test]
    fn a_settings_file_is_read_strictly() {
        let file = parse_file("url = \"http://h\"\nvhost = \"v\"").unwrap();
        assert_eq!(find(&file, "url"), Some("http://h"));
        assert_eq!(find(&file, "vhost"), Some("v"));
        let check = |text: &str, why: &str| {
            assert_eq!(parse_file(text).err().unwrap(), why, "{text}");
        };
        check("port = 1", "'port' is no setting");
        check("insecure = true", "'insecure' is no setting");
        check("vhost = 1", "'vhost' is no text");
        assert!(parse_file("password = secret").is_err_and(|why| !why.contains("secret")));
    }

    #[test]
    fn parts_of_a_url_are_replaced_by_their_flags() {
        let settings = settle(
            &[
                "-P",
                "2",
                "do",
                "--url",
                "http://u:w@h:1/rabbit",
                "-u",
                "me",
            ],
            HTTP,
        );
        assert_eq!(settings.endpoint.to_string(), "http://h:2/rabbit");
        assert_eq!((settings.username(), settings.password()), ("me", "w"));
        assert_eq!(settings.vhost(), "/");
    }

    #[test]
    fn tls_can_be_asked_for_without_a_url() {
        let check = |words: &[&str], protocol, url: &str| {
            assert_eq!(settle(words, protocol).endpoint.to_string(), url);
        };
        check(&["do", "--ssl"], HTTP, "https://127.0.0.1:15671");
        check(&["--use-tls", "do", "-H", "h"], AMQP, "amqps://h:5671");
        check(&["do", "--use-tls", "-P", "1"], AMQP, "amqps://127.0.0.1:1");
        check(
            &["do", "--use-tls", "--url", "http://h:80"],
            HTTP,
            "https://h:80",
        );
    }

    #[test]
    fn what_stands_behind_a_command_wins() {
        let settings = settle(&["-u", "a", "-p", "x", "do", "-u", "b"], HTTP);
        assert_eq!((settings.username(), settings.vhost()), ("b", "x"));
    }

    /// `declare --url X queue` was refused, and `declare queue --url X` was not.
    #[test]
    fn flags_stand_before_between_or_behind_the_words_of_a_group() {
        let check = |words: &[&str], url: &str| {
            let group = Flags::of_group(Command::new("declare").subcommand(Command::new("queue")));
            let command = Flags::of(Command::new("coroner")).subcommand(group);
            let before = ["coroner", "--ctl-config", "/dev/null"];
            let words = before.iter().chain(words);
            let matches = command.try_get_matches_from(words).unwrap();
            let (_, behind) = matches.subcommand().unwrap();
            let settings = Flags::read(&matches, behind).settle(HTTP).unwrap();
            assert_eq!(settings.endpoint.to_string(), url);
        };
        let (one, other) = ("http://one:1", "http://other:2");
        check(&["--url", one, "declare", "queue"], one);
        check(&["declare", "--url", one, "queue"], one);
        check(&["declare", "queue", "--url", one], one);
        check(&["--url", other, "declare", "--url", one, "queue"], one);
        check(&["declare", "--url", other, "queue", "--url", one], one);
    }
}
