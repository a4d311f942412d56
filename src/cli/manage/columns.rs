//! The columns of a list: those of rabbitmqctl, those of the API, and no others.

use serde_json::Value;

use crate::base::nearest;
use crate::cli::exit::Failure;
use crate::cli::output::{Column, pick};

/// Columns of rabbitmqctl and fields of the API that not every object has: a queue without a policy
/// has no `policy`, one without traffic has no `message_stats`. By list.
const MAY_BE_ABSENT: &[(&str, &[&str])] = &[
    (
        "list_queues",
        &[
            "arguments",
            "auto_delete",
            "consumer_capacity",
            "consumer_timeout",
            "consumer_utilisation",
            "consumers",
            "dead_letters",
            "delayed_retry",
            "disk_reads",
            "disk_writes",
            "durable",
            "effective_policy_definition",
            "exclusive",
            "exclusive_consumer_pid",
            "exclusive_consumer_tag",
            "head_message_timestamp",
            "last_delayed_at",
            "leader",
            "members",
            "memory",
            "message_bytes",
            "message_bytes_persistent",
            "message_bytes_ram",
            "message_bytes_ready",
            "message_bytes_unacknowledged",
            "message_groups",
            "message_stats",
            "messages",
            "messages_delayed",
            "messages_details",
            "messages_persistent",
            "messages_ram",
            "messages_ready",
            "messages_ready_details",
            "messages_ready_ram",
            "messages_suspect",
            "messages_unacknowledged",
            "messages_unacknowledged_details",
            "messages_unacknowledged_ram",
            "name",
            "next_delayed_at",
            "online",
            "operator_policy",
            "owner_pid",
            "owner_pid_details",
            "pid",
            "policy",
            "single_active_consumer_tag",
            "slave_pids",
            "state",
            "synchronised_slave_pids",
            "type",
            "vhost",
        ],
    ),
    (
        "list_exchanges",
        &[
            "arguments",
            "auto_delete",
            "durable",
            "internal",
            "message_stats",
            "name",
            "policy",
            "type",
            "vhost",
        ],
    ),
    (
        "list_connections",
        &[
            "SSL",
            "auth_mechanism",
            "channel_max",
            "channels",
            "client_properties",
            "connected_at",
            "container_id",
            "frame_max",
            "garbage_collection",
            "host",
            "name",
            "node",
            "peer_cert_issuer",
            "peer_cert_subject",
            "peer_cert_validity",
            "peer_host",
            "peer_port",
            "pid",
            "port",
            "protocol",
            "recv_cnt",
            "recv_oct",
            "recv_oct_details",
            "send_cnt",
            "send_oct",
            "send_oct_details",
            "send_pend",
            "ssl",
            "ssl_cipher",
            "ssl_hash",
            "ssl_key_exchange",
            "ssl_protocol",
            "state",
            "timeout",
            "type",
            "user",
            "user_provided_name",
            "vhost",
        ],
    ),
    (
        "list_consumers",
        &[
            "ack_required",
            "active",
            "activity_status",
            "arguments",
            "channel_pid",
            "consumer_tag",
            "exclusive",
            "prefetch_count",
            "queue_name",
            "user",
        ],
    ),
];

/// The columns of a list that its objects had.
pub(super) struct Seen<'a> {
    list: &'static str,
    defaults: &'static [&'static str],
    columns: &'a [Column],
    fields: Vec<bool>,
    any: bool,
    /// The fields of one object, for the error text.
    names: Vec<String>,
}

impl<'a> Seen<'a> {
    pub(super) fn new(
        list: &'static str,
        defaults: &'static [&'static str],
        columns: &'a [Column],
    ) -> Self {
        Self {
            list,
            defaults,
            columns,
            fields: vec![false; columns.len()],
            any: false,
            names: Vec::new(),
        }
    }

    /// Notes the fields of an object as the broker gave it.
    pub(super) fn look(&mut self, object: &Value) {
        for (is_seen, column) in self.fields.iter_mut().zip(self.columns) {
            *is_seen = *is_seen || pick(object, &column.path).is_some();
        }
        if !self.any {
            let names = object.as_object().into_iter().flatten();
            self.names = names.map(|(name, _)| name.clone()).collect();
        }
        self.any = true;
    }

    /// Refuses an unknown column.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let listed = MAY_BE_ABSENT.iter().find(|(list, _)| *list == self.list);
        let listed = listed.map_or(&[][..], |(_, columns)| *columns);
        let known = || {
            let names = self.names.iter().map(String::as_str);
            listed.iter().chain(self.defaults).copied().chain(names)
        };
        for (is_seen, column) in self.fields.iter().zip(self.columns) {
            // A part of an object may be absent while there is nothing in it.
            let name = column.shown.split('.').next().unwrap_or_default();
            if *is_seen || known().any(|known| known == name) {
                continue;
            }
            let meant = nearest(name, known());
            // An empty list does not show the fields of its objects.
            if !self.any && meant.is_none() {
                continue;
            }
            let failure = Failure::usage(format!("{} has no column '{}'", self.list, column.shown));
            if let Some(meant) = meant {
                return Err(failure.advise(format!("did you mean '{meant}'?")));
            }
            let mut all: Vec<&str> = known().collect();
            all.sort_unstable();
            all.dedup();
            return Err(failure.advise(format!("there are: {}", all.join(" "))));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // A mistyped column was printed empty, and a script compared nothing with nothing.
    #[test]
    fn a_column_that_no_object_has_is_refused_with_the_one_that_was_meant() {
        let check = |objects: &[Value], column: &str, expect: Option<&str>| {
            let columns = [Column {
                shown: column.to_owned(),
                path: column.to_owned(),
            }];
            let mut seen = Seen::new("list_queues", &["name"], &columns);
            for object in objects {
                seen.look(object);
            }
            let told = seen.check().err().map(|failure| failure.to_string());
            assert_eq!(told.is_some(), expect.is_some(), "{column}: {told:?}");
            let (told, expect) = (told.unwrap_or_default(), expect.unwrap_or_default());
            assert!(told.contains(expect), "{told}");
        };
        let queues = [json!({"name": "q", "ours": 1})];
        check(&queues, "mesages", Some("did you mean 'messages'?"));
        check(&queues, "colour", Some("there are: arguments"));
        for known in ["messages", "policy", "ours", "message_stats.publish"] {
            check(&queues, known, None);
        }
        check(&[], "mesages", Some("did you mean 'messages'?"));
        check(&[], "a_field_of_another_version", None);
    }
}
