//! Exit codes that scripts can use, and failures that say what to do.
//!
//! The codes are those of `sysexits.h`, as rabbitmqctl uses them.

use std::fmt;
use std::process::ExitCode;

/// The kind of a failure. Each has one exit code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FailureKind {
    /// The command ran and did not succeed: a broker that could not start, messages that are
    /// missing.
    Failed,
    /// The command line or a setting is wrong (`EX_USAGE`).
    Usage,
    /// The input does not fit the broker's objects: refused by the broker, or not readable
    /// (`EX_DATAERR`).
    Data,
    /// The named object does not exist: a queue, a policy, a file (`EX_NOINPUT`).
    NotFound,
    /// There is no such user (`EX_NOUSER`).
    NoUser,
    /// The broker cannot be reached, or is not in service (`EX_UNAVAILABLE`).
    Unavailable,
    /// The broker or this program failed (`EX_SOFTWARE`).
    Software,
    /// A file could not be written, or the reader of the output went away (`EX_IOERR`).
    Output,
    /// No answer in time; trying again may help (`EX_TEMPFAIL`).
    Timeout,
    /// The answer is unknown to this program (`EX_PROTOCOL`).
    Protocol,
    /// User name, password or permissions do not suffice (`EX_NOPERM`).
    NoPermission,
}

/// Every kind with its code and its text in `--help`.
pub(super) const KINDS: &[(FailureKind, u8, &str)] = &[
    (
        FailureKind::Failed,
        1,
        "failed while running (serve, bench, store)",
    ),
    (
        FailureKind::Usage,
        64,
        "the command line or a setting is wrong",
    ),
    (
        FailureKind::Data,
        65,
        "what was given is refused or cannot be read, or a check did not pass",
    ),
    (FailureKind::NotFound, 66, "what was named does not exist"),
    (FailureKind::NoUser, 67, "the user does not exist"),
    (
        FailureKind::Unavailable,
        69,
        "the broker cannot be reached, is not trusted, or is not in service",
    ),
    (FailureKind::Software, 70, "the broker failed"),
    (
        FailureKind::Output,
        74,
        "a file or the output could not be written",
    ),
    (FailureKind::Timeout, 75, "no answer in time"),
    (FailureKind::Protocol, 76, "the answer was not understood"),
    (
        FailureKind::NoPermission,
        77,
        "user name, password or permissions are not enough",
    ),
];

impl FailureKind {
    /// The exit code of the process.
    pub(super) fn code(self) -> u8 {
        let found = KINDS.iter().find(|(kind, ..)| *kind == self);
        found.map_or(1, |(_, code, _)| *code)
    }
}

/// The table of exit codes for `--help`.
pub(super) fn help() -> String {
    let lines = KINDS
        .iter()
        .map(|(_, code, meaning)| format!("\n  {code:>2}  {meaning}"));
    format!("Exit codes:\n   0  done{}", lines.collect::<String>())
}

/// Why a command failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Failure {
    /// The kind, which decides the exit code.
    pub(super) kind: FailureKind,
    /// What went wrong, in one sentence.
    what: String,
    /// What can be done about it, if anything.
    advice: Option<String>,
}

impl Failure {
    /// A failure of this kind.
    pub(super) fn new(kind: FailureKind, what: impl Into<String>) -> Self {
        Self {
            kind,
            what: what.into(),
            advice: None,
        }
    }

    /// Whether its text has this word.
    pub(super) fn says(&self, word: &str) -> bool {
        self.what.contains(word)
    }

    /// A failure because the command line is invalid.
    pub(super) fn usage(what: impl Into<String>) -> Self {
        Self::new(FailureKind::Usage, what)
    }

    /// The same, with advice.
    pub(super) fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }

    /// The exit code of a process that ends with it.
    pub(super) fn exit_code(&self) -> ExitCode {
        self.kind.code().into()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        match &self.advice {
            Some(advice) => write!(f, "\n  {advice}"),
            None => Ok(()),
        }
    }
}

/// The result of writing output: a reader that went away, as `head` does, is not a failure.
pub(super) fn written(result: std::io::Result<()>) -> Result<(), Failure> {
    match result {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(Failure::new(
            FailureKind::Output,
            format!("the output cannot be written: {error}"),
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_code_of_its_own() {
        let mut codes: Vec<u8> = KINDS.iter().map(|(kind, ..)| kind.code()).collect();
        let listed: Vec<u8> = KINDS.iter().map(|(_, code, _)| *code).collect();
        assert_eq!(codes, listed);
        codes.dedup();
        assert_eq!(codes.len(), KINDS.len());
    }
}
