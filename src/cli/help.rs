//! The commands of `coroner --help`, in groups.

use clap::Command;

/// A group: its heading, and names or beginnings of names of its commands. A command belongs to the
/// first group that matches; those that match none are in the last one.
const GROUPS: &[(&str, &[&str])] = &[
    ("Run a broker", &["serve"]),
    (
        "Messages and dead letters",
        &[
            "publish",
            "consume",
            "deaths",
            "events",
            "explain",
            "lint",
            "graph",
            "dead_letter_groups",
            "set_group_note",
            "clear_group_note",
            "discard_message",
            "retry_delayed",
            "export_messages",
            "import_messages",
            "redrive",
            "redrive_status",
            "pause_redrive",
            "resume_redrive",
            "cancel_redrive",
            "list_redrives",
            "get",
            "ping",
        ],
    ),
    (
        "Queues, exchanges, bindings",
        &[
            "declare",
            "delete",
            "purge",
            "purge_queue",
            "delete_queue",
            "list",
            "list_queues",
            "list_exchanges",
            "list_bindings",
            "list_consumers",
        ],
    ),
    (
        "Policies and parameters",
        &[
            "set_policy",
            "clear_policy",
            "list_policies",
            "set_operator_policy",
            "clear_operator_policy",
            "list_operator_policies",
            "set_parameter",
            "clear_parameter",
            "list_parameters",
            "set_global_parameter",
            "clear_global_parameter",
            "list_global_parameters",
        ],
    ),
    (
        "Users, permissions, vhosts, limits",
        &[
            "add_user",
            "delete_user",
            "change_password",
            "clear_password",
            "authenticate_user",
            "set_user_tags",
            "hash_password",
            "list_users",
            "set_permissions",
            "clear_permissions",
            "list_permissions",
            "list_user_permissions",
            "set_topic_permissions",
            "clear_topic_permissions",
            "list_topic_permissions",
            "list_user_topic_permissions",
            "add_vhost",
            "delete_vhost",
            "list_vhosts",
            "set_vhost_limits",
            "clear_vhost_limits",
            "list_vhost_limits",
            "set_user_limits",
            "clear_user_limits",
            "list_user_limits",
        ],
    ),
    (
        "Connections",
        &[
            "list_connections",
            "list_sessions",
            "close_connection",
            "close_all_connections",
            "close_all_user_connections",
        ],
    ),
    (
        "Definitions",
        &["definitions", "export_definitions", "import_definitions"],
    ),
    (
        "State and checks",
        &[
            "status",
            "overview",
            "whoami",
            "version",
            "environment",
            "set_log_level",
            "report",
            "health",
            "check_running",
            "check_alarms",
            "check_local_alarms",
            "check_port_listener",
            "check_protocol_listener",
            "check_certificate_expiration",
            "check_virtual_hosts",
        ],
    ),
    ("Measure, look into data, describe", &[]),
];
/// Spaces in front of a command, and between a command and its description.
const INDENT: usize = 2;

/// A template for the help of a command whose subcommands are shown in groups.
pub(super) fn template(command: &Command) -> String {
    let width = command
        .get_subcommands()
        .map(|inner| inner.get_name().len())
        .max()
        .unwrap_or(0);
    let mut text = String::from("{about-with-newline}\n{usage-heading} {usage}\n");
    for (at, (heading, _)) in GROUPS.iter().enumerate() {
        let inside = command
            .get_subcommands()
            .filter(|inner| group_of(inner.get_name()) == at);
        let lines: Vec<String> = inside
            .map(|inner| {
                let about = inner.get_about().map(ToString::to_string);
                let (name, about) = (inner.get_name(), about.unwrap_or_default());
                format!("{:INDENT$}{name:width$}{:INDENT$}{about}\n", "", "")
            })
            .collect();
        if !lines.is_empty() {
            text.extend(["\n", heading, ":\n", &lines.concat()]);
        }
    }
    text + "\nOptions:\n{options}{after-help}"
}

fn group_of(name: &str) -> usize {
    let named = GROUPS.iter().position(|(_, names)| names.contains(&name));
    named.unwrap_or(GROUPS.len().saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_stands_once_in_the_help_and_every_name_of_a_group_is_a_command() {
        let whole = crate::cli::command();
        let help = template(&whole);
        let names: Vec<&str> = whole.get_subcommands().map(Command::get_name).collect();
        for name in &names {
            let stands = help.lines().filter(|line| {
                line.starts_with("  ") && line.split_whitespace().next() == Some(name)
            });
            assert_eq!(stands.count(), 1, "{name}");
        }
        for (heading, named) in GROUPS {
            for name in *named {
                let is_client = ["publish", "consume", "ping"].contains(name);
                let is_known = names.contains(name) || is_client && !cfg!(feature = "client");
                assert!(is_known, "{heading}: {name}");
            }
        }
        let rest = names
            .iter()
            .filter(|name| group_of(name) == GROUPS.len() - 1);
        let rest: Vec<_> = rest.collect();
        assert_eq!(rest, [&"bench", &"store", &"completions", &"man"]);
    }
}
