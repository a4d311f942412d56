//! `completions` and `man`: the command line described for shells and for `man`.

use clap::{ArgMatches, Command, value_parser};
use clap_complete::Shell;

use super::exit::{Failure, written};
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
        .help("A command, for a page of its own [default: the page of all commands]");
    described(
        Command::new("man").about("Prints a man page").arg(command),
        &["man | man -l -", "man set_policy | man -l -"],
    )
}

/// Prints completions.
pub(super) fn completions(matches: &ArgMatches) -> Result<(), Failure> {
    let shell = matches
        .get_one::<Shell>("shell")
        .copied()
        .unwrap_or(Shell::Bash);
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut super::command(), "coroner", &mut text);
    print(&String::from_utf8_lossy(&text))
}

/// Prints a man page.
pub(super) fn man(matches: &ArgMatches) -> Result<(), Failure> {
    let mut whole = super::command();
    whole.build();
    let page = match matches.get_one::<String>("command") {
        None => whole,
        Some(name) => {
            let found = whole.find_subcommand(name.as_str()).cloned();
            let command = found.ok_or_else(|| {
                Failure::usage(format!("'{name}' is no command"))
                    .advise("coroner --help lists all commands")
            })?;
            let name = format!("coroner-{}", command.get_name());
            command.name(name)
        }
    };
    let mut text = Vec::new();
    let rendered = clap_mangen::Man::new(page).render(&mut text);
    written(rendered)?;
    print(&String::from_utf8_lossy(&text))
}
