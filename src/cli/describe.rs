//! The commands `completions` and `man`: the command line described for shells and for `man`.

use std::path::{Path, PathBuf};

use clap::{ArgMatches, Command, value_parser};
use clap_complete::Shell;

use super::exit::{Failure, FailureKind, written};
use super::manage::described;
use super::output::print;

/// The command `completions`.
pub(super) fn completions_command() -> Command {
    let shell = clap::Arg::new("shell")
        .required(true)
        .value_parser(value_parser!(Shell))
        .help("The shell");
    described(
        Command::new("completions")
            .about("Prints completions for a shell")
            .arg(shell),
        &[
            "completions bash > ~/.local/share/bash-completion/completions/coroner",
            "completions zsh > ~/.zfunc/_coroner",
            "completions fish > ~/.config/fish/completions/coroner.fish",
        ],
    )
}

/// The command `man`.
pub(super) fn man_command() -> Command {
    let command = clap::Arg::new("command")
        .num_args(0..)
        .help("A command, for a page of its own [default: the page of all commands]");
    let folder = clap::Arg::new("dir")
        .long("dir")
        .value_name("DIR")
        .value_parser(value_parser!(PathBuf))
        .conflicts_with("command")
        .help("Writes the pages of all commands into this directory");
    described(
        Command::new("man")
            .about("Prints a man page, or writes all of them")
            .arg(command)
            .arg(folder),
        &[
            "man | man -l -",
            "man declare queue | man -l -",
            "man --dir /usr/local/share/man/man1",
        ],
    )
}

/// Prints completions for a shell.
pub(super) fn completions(matches: &ArgMatches) -> Result<(), Failure> {
    let shell = matches
        .get_one::<Shell>("shell")
        .copied()
        .unwrap_or(Shell::Bash);
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut super::command(), "coroner", &mut text);
    print(&String::from_utf8_lossy(&text))
}

/// Prints a man page, or writes the pages of all commands.
pub(super) fn man(matches: &ArgMatches) -> Result<(), Failure> {
    let mut whole = super::command();
    whole.build();
    if let Some(folder) = matches.get_one::<PathBuf>("dir") {
        return write_pages(&whole, folder);
    }
    let words = matches.get_many::<String>("command").into_iter().flatten();
    let (mut page, mut name) = (&whole, String::from("coroner"));
    for word in words {
        page = page.find_subcommand(word.as_str()).ok_or_else(|| {
            Failure::usage(format!("'{word}' is no command of {name}"))
                .advise("coroner --help lists all commands")
        })?;
        name = format!("{name}-{}", page.get_name());
    }
    print(&String::from_utf8_lossy(&rendered(page, name)?))
}

fn rendered(command: &Command, name: String) -> Result<Vec<u8>, Failure> {
    let mut text = Vec::new();
    let page = command.clone().name(name);
    written(clap_mangen::Man::new(page).render(&mut text))?;
    Ok(text)
}

/// Writes the page of each command, `coroner-declare-queue.1` for example.
fn write_pages(whole: &Command, folder: &Path) -> Result<(), Failure> {
    let mut waiting = vec![(whole, String::from("coroner"))];
    while let Some((command, name)) = waiting.pop() {
        let path = folder.join(format!("{name}.1"));
        let text = rendered(command, name.clone())?;
        #[allow(
            clippy::disallowed_methods,
            reason = "the command line writes what it was asked for"
        )]
        std::fs::write(&path, text).map_err(|error| {
            let path = path.display();
            Failure::new(FailureKind::Output, format!("cannot write {path}: {error}"))
        })?;
        let inside = command
            .get_subcommands()
            .filter(|inner| inner.get_name() != "help");
        waiting.extend(inside.map(|inner| (inner, format!("{name}-{}", inner.get_name()))));
    }
    Ok(())
}
