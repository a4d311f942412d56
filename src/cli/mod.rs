//! Layer 11: the command line. `coroner serve` runs a broker; the other commands manage one, send
//! to and receive from one, measure one, or inspect the data of a stopped one.
//!
//! Promises: errors are readable, on standard error, and say what to do; exit codes are those of
//! `sysexits.h`. Flags of `serve` come from [`crate::config::TABLE`] alone, those of the managing
//! commands from the table of `manage`.

mod api;
mod bench;
#[cfg(feature = "client")]
mod client;
mod dead_letters;
mod deaths;
mod describe;
mod events;
mod exit;
mod explain;
mod graph;
mod help;
mod lint;
mod manage;
mod output;
mod serve;
mod store;

use std::io::Write;
use std::process::ExitCode;

use clap::Command;

use api::Flags;
use exit::Failure;

/// Exit code for a failure while running.
const EXIT_FAILURE: u8 = 1;
/// Exit code for bad usage or configuration.
const EXIT_USAGE: u8 = 64;

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    // A broker runs for long: it should not keep the definitions of the other commands in memory.
    let serves = std::env::args_os()
        .nth(1)
        .is_some_and(|word| word == "serve");
    let command = if serves {
        root().subcommand(serve::command())
    } else {
        command()
    };
    let matches = match command.try_get_matches() {
        Ok(matches) => matches,
        Err(error) => {
            // Help and version take this path too, and are printed on standard output with code 0.
            let printed = error.print();
            let code = if error.use_stderr() { EXIT_USAGE } else { 0 };
            return if printed.is_ok() {
                ExitCode::from(code)
            } else {
                EXIT_FAILURE.into()
            };
        }
    };
    let Some((name, behind)) = matches.subcommand() else {
        return EXIT_USAGE.into();
    };
    if serves {
        return serve::run(behind);
    }
    let ended = manage::run(name, &matches, behind);
    #[cfg(feature = "client")]
    let ended = ended.or_else(|| client::run(name, &matches, behind));
    if let Some(ended) = ended {
        return end(ended);
    }
    if let Some(flag) = Flags::first_given(&matches) {
        return end(Err(Failure::usage(format!(
            "'{name}' takes no --{flag} in front of it"
        ))
        .advise(format!("coroner {name} --help lists what it takes"))));
    }
    match name {
        "bench" => bench::run(behind),
        "serve" => serve::run(behind),
        "store" => store::run(behind),
        "completions" => end(describe::completions(behind)),
        "man" => end(describe::man(behind)),
        _ => EXIT_USAGE.into(),
    }
}

/// The exit code for the result of a command; a failure is printed first.
fn end(ended: Result<(), Failure>) -> ExitCode {
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            complain(&failure);
            failure.exit_code()
        }
    }
}

/// The command line without its commands.
fn root() -> Command {
    Command::new("coroner")
        .about("An AMQP 1.0 message broker whose subject is dead letters")
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .arg_required_else_help(true)
}

/// The whole command line, for parsing and for help.
fn command() -> Command {
    // Also accepted in front of a command, as in rabbitmqadmin; shown with each command.
    let command = Flags::of(root())
        .mut_args(|arg| arg.hide(true))
        .subcommand(serve::command())
        .subcommands(manage::commands());
    #[cfg(feature = "client")]
    let command = command.subcommands(client::commands());
    let command = command
        .subcommand(bench::command())
        .subcommand(store::command())
        .subcommand(describe::completions_command())
        .subcommand(describe::man_command())
        .after_help(format!(
            "The managing commands speak to the HTTP API of a Coroner or a RabbitMQ (--url, or \
             CORONERCTL_URL, CORONERCTL_USERNAME, CORONERCTL_PASSWORD, CORONERCTL_VHOST). Each \
             name may be written with underscores or dashes.\n\n{}",
            exit::help()
        ));
    let template = help::template(&command);
    command.help_template(template)
}

/// Prints an error on standard error, without what would steer a terminal: errors repeat names.
/// Nobody may be reading it: the exit code says it too.
fn complain(error: &dyn std::fmt::Display) {
    let error = output::printable_lines(&error.to_string());
    let _ = writeln!(std::io::stderr(), "coroner: {error}");
}

/// Prints a warning on standard error: something was done that will probably not do what was meant.
fn warn(text: &str) {
    complain(&format_args!("warning: {text}"));
}

/// Prints a prompt on standard error, without ending the line, and without what would steer a terminal.
fn ask(question: &str) {
    let question = output::printable_lines(question);
    let _ = write!(std::io::stderr(), "{question}");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `bench` was told as "What to send where", the description of its options.
    #[test]
    fn a_command_says_what_it_does_and_not_what_its_options_are() {
        let all = command();
        let bench = all.find_subcommand("bench").expect("a command");
        let about = bench.get_about().expect("a description").to_string();
        assert_eq!(about, "Loads a broker over AMQP 1.0 and measures it");
    }

    #[test]
    fn command_line_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn every_setting_has_a_flag_in_the_help() {
        let help = serve::command().render_long_help().to_string();
        for key in crate::config::TABLE {
            assert!(help.contains(&format!("--{}", key.name)), "{}", key.name);
            assert!(help.contains(&key.variable()), "{}", key.variable());
        }
        assert!(help.contains("[default: 127.0.0.1:5672]"), "{help}");
    }

    #[test]
    fn every_command_and_every_argument_says_what_it_is() {
        let mut whole = command();
        whole.build();
        let mut waiting = vec![(String::new(), &whole)];
        while let Some((path, command)) = waiting.pop() {
            assert!(command.get_about().is_some(), "{path} says nothing");
            for argument in command.get_arguments() {
                let help = argument.get_help().map(ToString::to_string);
                let name = argument.get_id();
                assert!(
                    help.is_some_and(|help| !help.is_empty()),
                    "{path}: {name} has no help"
                );
            }
            waiting.extend(command.get_subcommands().map(|inner| {
                let path = format!("{path} {}", inner.get_name());
                (path, inner)
            }));
        }
    }

    #[test]
    fn examples_in_the_help_are_understood() {
        let whole = command();
        let mut tried = 0;
        let mut waiting: Vec<&Command> = whole.get_subcommands().collect();
        while let Some(inner) = waiting.pop() {
            waiting.extend(inner.get_subcommands());
            let help = inner
                .get_after_help()
                .map(ToString::to_string)
                .unwrap_or_default();
            for line in help.lines().filter(|line| line.starts_with("  coroner ")) {
                let words = shell_words(line.trim());
                let parsed = command().try_get_matches_from(&words);
                assert!(parsed.is_ok(), "{line}: {:?}", parsed.err());
                tried += 1;
            }
        }
        assert!(tried > 90, "only {tried} examples");
    }

    /// The words of a command line, up to a pipe or a redirection.
    fn shell_words(line: &str) -> Vec<String> {
        let mut words = vec![String::new()];
        let mut quote = None;
        for character in line.chars() {
            match (quote, character) {
                (None, '<' | '>' | '|' | '&') => {
                    words.pop();
                    break;
                }
                (None, '\'' | '"') => quote = Some(character),
                (Some(open), character) if open == character => quote = None,
                (None, ' ') => words.push(String::new()),
                (_, character) => {
                    if let Some(word) = words.last_mut() {
                        word.push(character);
                    }
                }
            }
        }
        words
    }
}
