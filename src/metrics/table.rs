//! The table of all metrics: their names, help texts and labels.

/// The type of a metric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MetricKind {
    /// It only rises while the process lives.
    Counter,
    /// It rises and falls.
    Gauge,
    /// It counts values in buckets, with a sum.
    Histogram,
}

impl MetricKind {
    /// The type's word in the text format.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// Where a metric is exposed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// At `/metrics` and `/metrics/per-object`.
    Everywhere,
    /// At `/metrics` for each vhost, at `/metrics/per-object` for each queue too.
    QueueLabelPerObject,
    /// At `/metrics/per-object` only.
    PerObject,
}

/// One metric of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Metric {
    /// The name in the text format.
    pub name: &'static str,
    /// The metric's type.
    pub kind: MetricKind,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// Where it is exposed.
    pub scope: Scope,
    /// The help text.
    pub help: &'static str,
}

/// Declares each metric as a constant, and the table of all.
macro_rules! metrics {
    ($($constant:ident = $kind:ident $name:literal $labels:tt $scope:ident $help:literal;)+) => {
        $(
            #[doc = $help]
            pub const $constant: Metric = Metric {
                name: $name,
                kind: MetricKind::$kind,
                labels: &$labels,
                scope: Scope::$scope,
                help: $help,
            };
        )+
        /// All metrics, in the order in which they are written.
        pub const TABLE: &[Metric] = &[$($constant),+];
    };
}

metrics! {
    BUILD_INFO = Gauge "coroner_build_info" ["version"] Everywhere
        "Always 1; the label is the version of this broker.";
    UPTIME = Gauge "coroner_uptime_seconds" [] Everywhere
        "Seconds since the broker started.";
    RESIDENT = Gauge "process_resident_memory_bytes" [] Everywhere
        "Memory of the process that is in use, as the system counts it.";
    VIRTUAL = Gauge "process_virtual_memory_bytes" [] Everywhere
        "Address space of the process.";
    PROCESSOR = Counter "process_cpu_seconds_total" [] Everywhere
        "Time of processors that the process took.";
    STARTED = Gauge "process_start_time_seconds" [] Everywhere
        "When the broker started, in seconds since 1970.";
    OPEN_FILES = Gauge "process_open_fds" [] Everywhere
        "Files and sockets that are open.";
    OPEN_FILES_MAX = Gauge "process_max_fds" [] Everywhere
        "Files and sockets that may be open.";
    MEMORY_USED = Gauge "coroner_memory_used_bytes" [] Everywhere
        "Memory that messages and connections take, about: what the memory alarm looks at.";
    MEMORY_LIMIT = Gauge "coroner_memory_limit_bytes" [] Everywhere
        "The setting memory-limit: above it publishers are stopped.";
    MEMORY_BUDGET = Gauge "coroner_memory_budget_bytes" [] Everywhere
        "The setting memory-budget, or half of memory-limit if less: above it messages leave memory.";
    DISK_FREE = Gauge "coroner_disk_free_bytes" [] Everywhere
        "Bytes free on the disk of the data directory, if there is one.";
    DISK_FREE_LIMIT = Gauge "coroner_disk_free_limit_bytes" [] Everywhere
        "The setting disk-free-limit: below it publishers are stopped.";
    CONNECTIONS = Gauge "coroner_connections" [] Everywhere
        "Connections open now, logged in or not.";
    CONNECTIONS_OPENED = Counter "coroner_connections_opened_total" [] Everywhere
        "Connections that were taken.";
    CONNECTIONS_REFUSED = Counter "coroner_connections_refused_total" [] Everywhere
        "Connections that were dropped because there were too many.";
    LOGINS = Counter "coroner_logins_total" ["mechanism", "outcome"] Everywhere
        "Attempts to log in, by the SASL mechanism (Basic: over HTTP) and what became of them: \
         accepted, refused, or limited (refused unseen: too many had failed before, or too many \
         passwords waited to be checked).";
    PASSWORDS_HASHED = Counter "coroner_passwords_hashed_total" [] Everywhere
        "Passwords that took an Argon2id hash, about 20 ms of a processor each: every wrong one, and \
         a right one about once a minute.";
    LINKS = Gauge "coroner_links" ["role"] Everywhere
        "Links attached now: publisher, consumer, or management (each half of a pair, and links of transactions).";
    INVARIANTS_BROKEN = Counter "coroner_invariants_broken_total" [] Everywhere
        "Times that something was seen which cannot happen: a defect of the broker. The log says the \
         place, once for each; the vhost fails where going on could lose or double a message.";
    ALARM = Gauge "coroner_alarm" ["cause"] Everywhere
        "1 while publishers get no credit for this cause: memory, disk or journal.";
    VHOST_UP = Gauge "coroner_vhost_up" ["vhost"] Everywhere
        "1 while the vhost works, 0 once its core failed.";
    VHOST_CONNECTIONS = Gauge "coroner_vhost_connections" ["vhost"] Everywhere
        "Connections in the vhost now.";
    SESSIONS = Gauge "coroner_sessions" ["vhost"] Everywhere
        "Sessions in the vhost now.";
    QUEUES = Gauge "coroner_queues" ["vhost"] Everywhere
        "Queues in the vhost now.";
    PUBLISHED = Counter "coroner_messages_published_total" ["vhost"] Everywhere
        "Messages that came from publishers.";
    PUBLISH_OUTCOMES = Counter "coroner_publish_outcomes_total" ["vhost", "outcome"] Everywhere
        "What became of them: accepted, unheard (accepted, and no subscriber of a topic wanted it), \
         released (no queue was reached) or rejected (a queue was full).";
    DELIVERED = Counter "coroner_messages_delivered_total" ["vhost"] Everywhere
        "Deliveries to consumers.";
    DELIVERY_OUTCOMES = Counter "coroner_delivery_outcomes_total" ["vhost", "outcome"] Everywhere
        "What consumers said of them: accepted, released, rejected, modified, or nothing since they \
         were sent settled (presettled).";
    EVENTS_MISSED = Counter "coroner_events_missed_total" [] Everywhere
        "Events that streams of `/api/events` were not told: they were too far behind, or came after a \
         restart (counted as one).";
    CONSUMER_TIMEOUTS = Counter "coroner_consumer_timeouts_total" ["vhost", "queue"] Everywhere
        "Deliveries that consumers held for too long, by the queue that has the message back.";
    MESSAGES = Gauge "coroner_queue_messages" ["vhost", "state"] QueueLabelPerObject
        "Messages in queues now: ready, held by consumers, delayed (until it is their time), or \
         dead_pending (dead letters that wait for a target).";
    DEAD_LETTER_MESSAGES = Gauge "coroner_dead_letter_queue_messages" ["vhost", "queue", "state"] Everywhere
        "Messages now in each queue that took a dead letter since the broker started, and in \
         amq.quarantine: ready, held, delayed, or dead_pending.";
    READY_BYTES = Gauge "coroner_queue_ready_bytes" ["vhost"] QueueLabelPerObject
        "Bytes of the bare messages that are ready.";
    CONSUMERS = Gauge "coroner_queue_consumers" ["vhost"] QueueLabelPerObject
        "Consumers of queues now.";
    MESSAGE_MEMORY = Gauge "coroner_message_memory_bytes" ["vhost"] Everywhere
        "Memory that messages take, about; a message in several queues counts in each.";
    QUEUE_DELIVERED = Counter "coroner_queue_delivered_total" ["vhost"] PerObject
        "Deliveries to the consumers of a queue.";
    DEAD_LETTERS = Counter "coroner_dead_letters_total" ["vhost", "queue", "reason", "outcome"]
        Everywhere
        "Deaths by the queue in which a message died, the reason (rejected, expired, maxlen, \
         delivery_limit) and what became of it: dead_lettered (at least one queue took it), \
         quarantined (kept in amq.quarantine) or dropped.";
    CONDITIONS = Counter "coroner_dead_letter_conditions_total" ["vhost", "queue", "condition"] Everywhere
        "Deaths by the condition that the consumer gave, 20 of a queue and 500 of a vhost; other holds \
         the rest, and what is not [A-Za-z0-9:._-]{1,64}.";
    TIME_TO_DEATH = Histogram "coroner_time_to_death_seconds" ["vhost", "reason"] Everywhere
        "How long messages that died had been in the queue in which they did.";
    OLDEST = Gauge "coroner_oldest_message_seconds" ["vhost"] QueueLabelPerObject
        "How long the oldest message has been in its queue; 0 if there is none.";
    LINT_FINDINGS = Gauge "coroner_lint_findings" ["vhost", "rule"] Everywhere
        "Findings of coroner lint that are not silenced, by the number of their rule; looked for when the \
         metrics are read, if the topology changed, but for a fiftieth of the time at most: 10 s old, or \
         50 times the time that the search took.";
    REDRIVEN = Counter "coroner_redrive_messages_total" ["vhost", "outcome"] Everywhere
        "Messages of redrives: moved, skipped or discarded; and of those moved, accepted by a consumer \
         or died_again.";
    DROPPED = Counter "coroner_messages_dropped_total" ["vhost", "reason", "cause"] Everywhere
        "Messages that were dropped, by the reason of their death (none: they did not die) and the \
         cause of the drop.";
    COPIES_REFUSED = Counter "coroner_dead_letter_copies_refused_total" ["vhost"] Everywhere
        "Copies of dead letters that a full queue refused while others took theirs.";
    ANNOTATIONS_IGNORED = Counter "coroner_annotations_ignored_total" ["vhost"] Everywhere
        "Outcomes modified whose annotations were ignored: a message keeps at most 128 KiB of them.";
    LOCK_HOLD = Histogram "coroner_lock_hold_seconds" ["vhost"] Everywhere
        "How long the vhost was held for a batch of commands.";
    JOURNAL_STATE = Gauge "coroner_journal_state" ["state"] Everywhere
        "1 for the state the journal is in: open, full (no room on the disk) or poisoned (a write or \
         sync failed: nothing is confirmed any more).";
    JOURNAL_PAYLOAD = Counter "coroner_journal_payload_bytes_total" [] Everywhere
        "Bytes of messages that the journal took in, those included that were settled before they were \
         written.";
    JOURNAL_WRITTEN = Counter "coroner_journal_written_bytes_total" [] Everywhere
        "Bytes that the device wrote for them and all that belongs to them, in whole blocks of 4 KiB.";
    JOURNAL_REWRITTEN = Counter "coroner_journal_rewritten_bytes_total" [] Everywhere
        "Bytes written again to make segments compact.";
    JOURNAL_RECORDS = Counter "coroner_journal_records_total" [] Everywhere
        "Records written.";
    JOURNAL_ELIDED = Counter "coroner_journal_records_elided_total" [] Everywhere
        "Records that were settled before they were written.";
    JOURNAL_COMMITS = Counter "coroner_journal_commits_total" [] Everywhere
        "Commits written.";
    JOURNAL_SYNC = Histogram "coroner_journal_sync_seconds" [] Everywhere
        "How long syncs took.";
    JOURNAL_CHECKPOINTS = Counter "coroner_journal_checkpoints_total" [] Everywhere
        "Checkpoints completed.";
    JOURNAL_DAMAGED = Counter "coroner_journal_damaged_records_total" [] Everywhere
        "Records that could not be read back.";
    JOURNAL_SEGMENTS = Gauge "coroner_journal_segments" [] Everywhere
        "Segments with records now.";
    JOURNAL_SEGMENT_BYTES = Gauge "coroner_journal_segment_bytes" [] Everywhere
        "Bytes in them.";
    JOURNAL_LIVE = Gauge "coroner_journal_live_bytes" [] Everywhere
        "How many of those are still needed, about.";
    JOURNAL_WAITING = Gauge "coroner_journal_waiting_bytes" [] Everywhere
        "Bytes of records that wait to be written, about.";
}
