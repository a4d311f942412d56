//! Floor 9: the command line. `coroner serve` runs a broker until it is told to stop.
//!
//! Promises: flags come from [`crate::config::TABLE`] alone; errors are one readable line on
//! standard error. Exit codes: 0 done, 1 failed while running, 2 bad usage or configuration, 70 the
//! broker failed itself.

mod bench;
mod serve;
mod store;

use std::process::ExitCode;

use clap::Command;

/// Exit code for bad usage or configuration.
const EXIT_USAGE: u8 = 2;
/// Exit code for what failed while running.
const EXIT_FAILURE: u8 = 1;

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let matches = match command().try_get_matches() {
        Ok(matches) => matches,
        Err(error) => {
            // Help and version come this way too, and go to standard output with code 0.
            let printed = error.print();
            let code = if error.use_stderr() { EXIT_USAGE } else { 0 };
            return if printed.is_ok() {
                ExitCode::from(code)
            } else {
                EXIT_FAILURE.into()
            };
        }
    };
    match matches.subcommand() {
        Some(("bench", matches)) => bench::run(matches),
        Some(("serve", matches)) => serve::run(matches),
        Some(("store", matches)) => store::run(matches),
        _ => ExitCode::from(EXIT_USAGE),
    }
}

/// The whole command line, for parsing and for help.
fn command() -> Command {
    Command::new("coroner")
        .about("An AMQP 1.0 message broker whose subject is dead letters")
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(bench::command())
        .subcommand(serve::command())
        .subcommand(store::command())
}

/// Says on standard error what went wrong.
#[allow(clippy::print_stderr, reason = "the command line talks to people")]
fn complain(error: &dyn std::fmt::Display) {
    eprintln!("coroner: {error}");
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
