//! Reading of passwords: from standard input, without echo on a terminal.

use std::io::{BufRead, IsTerminal, Read, stdin};

use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};

use crate::cli::exit::Failure;

/// Longest password, in bytes.
const BYTES_MAX: u64 = 4096;

/// The given password, otherwise the first line of standard input.
pub(super) fn given_or_read(given: Option<String>, whose: &str) -> Result<String, Failure> {
    let whose = crate::cli::output::printable(whose);
    self::given(given, &format!("Password for user '{whose}': "))
}

/// The same with this prompt on a terminal.
pub(super) fn given(given: Option<String>, question: &str) -> Result<String, Failure> {
    if let Some(password) = given {
        return Ok(password);
    }
    let input = stdin();
    if !input.is_terminal() {
        return first_line();
    }
    crate::cli::ask(question);
    let before = tcgetattr(&input).ok();
    if let Some(mut modes) = before.clone() {
        modes.local_modes -= LocalModes::ECHO;
        tcsetattr(&input, OptionalActions::Flush, &modes).ok();
    }
    let password = first_line();
    if let Some(modes) = before {
        tcsetattr(&input, OptionalActions::Flush, &modes).ok();
        crate::cli::ask("\n");
    }
    password
}

fn first_line() -> Result<String, Failure> {
    let mut line = String::new();
    let read = stdin().lock().take(BYTES_MAX).read_line(&mut line);
    let password = line.trim_end_matches(['\r', '\n']);
    match read {
        Ok(_) if !password.is_empty() => Ok(password.to_owned()),
        Ok(_) => Err(Failure::usage("no password was given")
            .advise("it is the argument behind the user, or the first line of standard input")),
        Err(error) => Err(Failure::usage(format!(
            "the password cannot be read: {error}"
        ))),
    }
}
