//! Every bound of the broker that is not a setting, with its unit and its reason.

/// Deepest nesting of values that is read; deeper ones are refused before any decoding.
pub const VALUE_DEPTH_MAX: usize = 32;
/// Largest frame before `open` was exchanged and during SASL, in bytes.
pub const HANDSHAKE_FRAME_BYTES_MAX: usize = 8 * 1024;
/// Largest frame during SASL where tokens are taken, in bytes: an access token has kilobytes.
pub const SASL_TOKEN_FRAME_BYTES_MAX: usize = 16 * 1024;
/// Smallest max-frame-size a peer may ask for [AMQP 2.4.1], in bytes.
pub const FRAME_BYTES_MIN: u32 = 512;
/// The max-frame-size that the broker announces, in bytes (as RabbitMQ).
pub const FRAME_BYTES_DEFAULT: u32 = 131_072;
/// The channel-max that the broker announces (as RabbitMQ).
pub const CHANNEL_MAX_DEFAULT: u16 = 63;
/// The handle-max that the broker announces (as RabbitMQ).
pub const HANDLE_MAX_DEFAULT: u32 = 255;
/// The incoming window of a session, in transfer frames (as RabbitMQ).
pub const SESSION_INCOMING_WINDOW: u32 = 400;
/// Longest name of a link, in bytes: a connection may have tens of thousands of them.
pub const LINK_NAME_BYTES_MAX: usize = 1024;
/// Longest container-id and hostname of a peer, in bytes.
pub const PEER_NAME_BYTES_MAX: usize = 1024;
/// Values in the properties of a peer, those in lists, maps and arrays counted: they are kept, to be
/// shown, and some take no byte on the wire.
pub const PEER_PROPERTIES_VALUES_MAX: usize = 512;
/// Longest source and target of an attach, in bytes encoded: one with the longest address, the longest
/// selector and other filters fits.
pub const TERMINUS_BYTES_MAX: usize = 32 * 1024;
/// Properties of a link, in bytes encoded.
pub const LINK_PROPERTIES_BYTES_MAX: usize = 4 * 1024;
/// Capabilities of an attach above this are not even read, in bytes encoded: none of them are kept.
pub const ATTACH_IGNORED_BYTES_MAX: usize = 4 * 1024;
/// The map of unsettled deliveries in an attach, in bytes encoded.
pub const UNSETTLED_MAP_BYTES_MAX: usize = 256 * 1024;
/// Links that outlive their connection: of all publishers, and of the consumers of a vhost. [AMQP 3.5.6]
pub const RESUMABLE_LINKS_MAX: usize = 4_096;
/// Such links of the publishers of one user, and of its consumers in a vhost.
pub const RESUMABLE_LINKS_USER_MAX: usize = 1_024;
/// Deliveries of such a link that its publisher has not settled: it gets no credit for more.
pub const RESUMABLE_DELIVERIES_MAX: u32 = 2_048;
/// Deliveries that each such link has credit for whatever the others take.
pub const RESUMABLE_DELIVERIES_MIN: u32 = 16;
/// What the unsettled deliveries of all such links of one user may take, in bytes, and those that they
/// have credit for: each has an equal share, and credit for [`RESUMABLE_DELIVERIES_MIN`] in any case.
pub const RESUMABLE_USER_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Longest time that a link is kept after its connection, in milliseconds; it is told in the answer.
pub const RESUMABLE_TIMEOUT_MAX_MS: u32 = 24 * 3_600_000;
/// Memory of an unsettled delivery of a link that outlives its connection, about, in bytes.
pub const RESUMABLE_DELIVERY_BYTES: u64 = 256;
/// What is kept in memory of a message of which the connection was lost in the middle, in bytes: its publisher
/// resumes it there. A durable message with a large body is in the journal, as far as it has arrived.
pub const RESUMABLE_PARTIAL_BYTES_MAX: usize = 256 * 1024;
/// Sections of such a message that are counted.
pub const RESUMABLE_SECTIONS_MAX: u32 = 1_024;
/// What may be kept of such messages of one user, in memory and in the journal, in bytes.
pub const RESUMABLE_PARTIALS_USER_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// What the attaches of one connection may keep as long as their links live, in bytes: names,
/// addresses and, four times since they are kept compiled, selectors.
pub const LINKS_KEPT_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Memory of a connection beside its buffers, links and names, about, in bytes.
pub const CONNECTION_OVERHEAD_BYTES: u64 = 8 * 1024;
/// Memory of a link beside its texts, about, in bytes.
pub const LINK_OVERHEAD_BYTES: u64 = 912;
/// Longest delivery-tag, in bytes. [AMQP 2.8.7]
pub const DELIVERY_TAG_BYTES_MAX: usize = 32;
/// Deliveries a session may hold unsettled before it gets no more.
pub const UNSETTLED_MAX: u32 = 65_535;
/// Time until a queue of whose messages none was held is looked at again for deliveries that are
/// held for too long, at least, in milliseconds: consumers may ask for timeouts of 1 ms.
pub const CONSUMER_LOOK_IDLE_MS: u64 = 100;
/// Places in queues that the messages of one transaction take, and the dead letters of its outcomes:
/// its commit is one step.
pub const TRANSACTION_ENTRIES_MAX: usize = 2_048;
/// Messages of one queue that are delivered alone, as suspects of a lost connection; what is lost
/// beyond it counts as failed.
pub const SUSPECTS_MAX: usize = 16_384;
/// Message groups of one queue that consumers have, each for itself; groups beyond it share buckets.
pub const MESSAGE_GROUPS_MAX: usize = 65_536;
/// Buckets of one queue for message groups beyond [`MESSAGE_GROUPS_MAX`]; those in one bucket go to one
/// consumer.
pub const MESSAGE_GROUP_BUCKETS: usize = 1_024;
/// Links of a connection up to which all of them are looked at before one of them gets a suspect;
/// with more each is on its own.
pub const ISOLATED_LINKS_MAX: usize = 256;
/// Bytes assigned to one connection and not yet written to its socket; at least one message fits.
pub const OUTBOX_BYTES_MAX: u64 = 1024 * 1024;
/// Bytes of unsettled publishes outstanding per publishing link.
pub const PUBLISH_CREDIT_BYTES: u64 = 4 * 1024 * 1024;
/// Messages of credit per publishing link at most.
pub const PUBLISH_CREDIT_MAX: u32 = 4_096;
/// Delivery-tags of messages on anonymous termini that a connection keeps, to name the one for which a link
/// ends; about 44 bytes each.
pub const ANONYMOUS_TAGS_MAX: usize = 512;
/// Undecided messages that a consumer within the process may have; a slot in memory is kept for
/// each.
pub const EMBEDDED_CREDIT_MAX: u32 = 10_000;
/// Publishes of a publisher within the process that wait for credit; further ones wait until these
/// are sent.
pub const EMBEDDED_WAITING_MAX: usize = 16;
/// Delayed messages that one request makes ready before it waits until that is durable.
pub const RETRIED_UNWRITTEN_MAX: u64 = 4_096;
/// Commands applied under one hold of the core's lock.
pub const BATCH_COMMANDS_MAX: usize = 256;
/// Estimated time of the work under one hold of the core's lock, in nanoseconds; what is left is done
/// in the next hold. See `base::Step` for what counts.
pub const BATCH_NS_MAX: u64 = 200_000;
/// Bytes of a message's application properties (and of its annotations) that selectors and headers
/// exchanges examine. What is behind them counts as absent, see `docs/LIMITS.md`.
pub const PROPERTIES_LOOKED_AT_BYTES: usize = 64 * 1024;
/// Application properties (and annotations) of a message that selectors and headers exchanges look at.
pub const PROPERTIES_LOOKED_AT_MAX: usize = 1024;
/// Deliveries settled by one command at most; each counts as a command of its batch.
pub const SETTLE_RUN_MAX: usize = 64;
/// Messages a consumer gets in one turn at most.
pub const TURN_MESSAGES_MAX: u32 = 64;
/// Messages up to this size are copied once into their own allocation, in bytes.
pub const MESSAGE_COPY_BYTES_MAX: usize = 16 * 1024;
/// Annotations of a message and of a `modified` outcome that are merged, in bytes of encoded pairs
/// together: a message must not grow without end by being requeued, nor hold up the core.
pub const MERGED_ANNOTATIONS_BYTES_MAX: usize = 128 * 1024;
/// Annotations that one `modified` outcome gives to all its messages, in bytes of encoded pairs
/// together: a frame must not become many times its size in the journal. Beyond it messages are
/// requeued without them.
pub const MODIFIED_ANNOTATIONS_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Condition of a `rejected` outcome's error that is kept, in bytes; the rest is cut off.
pub const EVIDENCE_CONDITION_BYTES_MAX: usize = 255;
/// Description of that error, in bytes; one that was cut ends in an ellipsis.
pub const EVIDENCE_DESCRIPTION_BYTES_MAX: usize = 2_048;
/// Info of that error, in bytes of its encoded map; one that was cut has `truncated`.
pub const EVIDENCE_INFO_BYTES_MAX: usize = 4_096;
/// Each name of the consumer that rejects (container, link, user), in bytes.
pub const EVIDENCE_NAME_BYTES_MAX: usize = 256;
/// Evidence of all deaths of a message, in bytes: older deaths lose info first, then description,
/// then all of it.
pub const EVIDENCE_BYTES_MAX: usize = 16 * 1024;
/// Values of one part of a filter of dead letters: each message is compared with them.
pub const FILTER_VALUES_MAX: usize = 256;
/// One value of a filter of dead letters, in bytes: as long as the longest routing key.
pub const FILTER_VALUE_BYTES_MAX: usize = 1_024;
/// All values of a filter of dead letters, in bytes: a redrive keeps them as long as it is known.
pub const FILTER_BYTES_MAX: usize = 64 * 1024;
/// Bytes of a body that a filter looks through.
pub const FILTER_BODY_BYTES_MAX: usize = 1024 * 1024;
/// Text from which the group of a dead letter is worked out, in bytes: as long as the longest
/// description that is kept.
pub const GROUP_TEXT_BYTES_MAX: usize = 2_048;
/// The part of it, without what varies, that makes the group, in characters.
pub const GROUP_TEXT_CHARS_MAX: usize = 512;
/// Bytes of a stack trace in which its top frame is looked for.
pub const STACK_TRACE_BYTES_MAX: usize = 16 * 1024;
/// Bytes of the value that a group of dead letters has in common.
pub const GROUP_KEY_BYTES_MAX: usize = 1_024;
/// Groups that one answer tells apart; messages of others are counted together.
pub const GROUPS_COUNTED_MAX: usize = 5_000;
/// Groups that one answer shows, the largest ones.
pub const GROUPS_SHOWN_MAX: usize = 200;
/// Positions of messages that are shown of a group.
pub const GROUP_SAMPLES_MAX: usize = 5;
/// Messages that one answer about groups looks at.
pub const GROUPS_SCANNED_MAX: u64 = 1_000_000;
/// How long it looks at most, in milliseconds.
pub const GROUPS_SCAN_MS: u64 = 10_000;
/// How long an answer about groups is kept while its queue does not change.
pub const GROUPS_KEPT_MS: u64 = 10_000;
/// Answers about groups that are kept.
pub const GROUPS_KEPT_MAX: usize = 16;
/// Text of a note on a group of dead letters, in bytes.
pub const GROUP_NOTE_BYTES_MAX: usize = 1_024;
/// Notes on groups of one queue: as many as one answer shows groups.
pub const GROUP_NOTES_OF_QUEUE_MAX: usize = 200;
/// Notes on groups of all queues of a vhost.
pub const GROUP_NOTES_MAX: usize = 1_000;
/// How long a note stays when its group is empty, in milliseconds.
pub const GROUP_NOTE_KEPT_MS: u64 = 7 * 24 * 60 * 60 * 1_000;
/// How often it is looked whether the groups with notes are empty, in milliseconds.
pub const GROUP_NOTES_LOOK_MS: u64 = 60 * 60 * 1_000;
/// Messages that one request takes or browses.
pub const BROWSED_MAX: u64 = 10_000;
/// Bytes of bare messages that one request browses, and one more message.
pub const BROWSED_BYTES_MAX: usize = 64 << 20;
/// Messages that a search lists under one hold of the core's lock: sharing each costs little.
pub const SCAN_SLICE: usize = 128;
/// Blocks of a queue without a message in the state that is looked for which one listing passes, under
/// one hold of the core's lock.
pub const BROWSED_BLOCKS_MAX: usize = 1_024;
/// Messages of a queue that consumers hold, or that wait for a target, beyond which it cannot be purged: a purge
/// spares each of them.
pub const PURGE_SPARED_MAX: u64 = 1 << 20;
/// Whole queues that are looked through over HTTP at a time; further requests wait.
pub const HTTP_SCANS_MAX: usize = 4;
/// Exports and imports of messages over HTTP at a time; further ones are refused.
pub const HTTP_STREAMS_MAX: usize = 4;
/// Those of one user at a time: one that takes its time leaves places for others.
pub const HTTP_STREAMS_OF_USER_MAX: usize = 2;
/// Bytes of a bare message of which an exported line shows the beginning.
pub const EXPORT_PREVIEW_BYTES_MAX: usize = 64 * 1024;
/// Bytes of an imported line beside one and two fifths of the largest message: the longest history.
pub const IMPORT_LINE_EXTRA_BYTES: usize = 1024 * 1024;
/// Imported lines that are made durable together.
pub const IMPORT_BATCH_LINES: usize = 256;
/// Bytes of these lines, beside the last.
pub const IMPORT_BATCH_BYTES: usize = 1024 * 1024;
/// Ids of imports of a vhost that are remembered.
pub const IMPORTS_KEPT_MAX: usize = 100;
/// How long one is remembered after its last line, in milliseconds.
pub const IMPORT_KEPT_MS: u64 = 7 * 24 * 60 * 60 * 1_000;
/// How long after its last line one makes room for another, in milliseconds.
pub const IMPORT_IDLE_MS: u64 = 60 * 60 * 1_000;
/// Characters of the id of an import.
pub const IMPORT_ID_BYTES_MAX: usize = 64;
/// How long nothing of an imported body may come, in milliseconds; what comes at
/// `HTTP_BODY_RATE_MIN` or faster gives it that time again.
pub const IMPORT_STALL_MS: u64 = 20_000;
/// Error and annotations of an outcome that are sent back when it is settled, in bytes: a longer
/// one is answered with the bare outcome, since one frame may be about many deliveries and each may
/// need an answer.
pub const ANSWER_BYTES_MAX: usize = 1_024;
/// Default largest message, in bytes (as RabbitMQ).
pub const MESSAGE_BYTES_DEFAULT: u64 = 16_777_216;
/// Bytes of large messages that may be arriving over all connections; one of the largest size
/// always fits. A connection that would exceed it is not read until there is room.
pub const PARTIAL_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// The part of these that one user may have, in percent (at least one message): a user that never
/// finishes its messages leaves room for those of others.
pub const PARTIAL_USER_PERCENT_MAX: usize = 75;
/// Durable messages with bodies above this are written to the journal while they arrive, in bytes.
pub const STREAMING_BYTES_MIN: usize = 256 * 1024;
/// Sections in front of the body of such a message, in bytes: they are kept in memory.
pub const STREAMING_HEAD_BYTES_MAX: usize = 64 * 1024;
/// Time for which an alarm may hold up a large message that has begun to arrive, in milliseconds. It is given
/// up then and its connection is read on: what ends the alarm may stand behind it.
pub const HELD_UP_MS_MAX: u64 = 60_000;
/// Messages that are streamed at the same time in the whole broker; each holds less than 256 KiB.
pub const STREAMING_BODIES_MAX: u32 = 256;
/// Bytes that a connection may have streamed that are not durable; it is not read beyond that.
pub const STREAMING_UNWRITTEN_BYTES_MAX: u64 = 512 * 1024;
/// Bytes of unfinished messages that a connection may hold beside that.
pub const PARTIAL_FREE_BYTES: u64 = 64 * 1024;
/// Messages and outcomes in one transaction: its commit is one step, of some 0.3 us for each.
pub const TRANSACTION_DELIVERIES_MAX: usize = 1_024;
/// Default of the bytes of a transaction, messages and outcomes together, before it is committed.
pub const TRANSACTION_BYTES_DEFAULT: u64 = 64 * 1024 * 1024;
/// What a message or an outcome counts in a transaction beside its own bytes.
pub const TRANSACTION_DELIVERY_BYTES: usize = 256;
/// Transactions of a connection that are not discharged.
pub const TRANSACTIONS_OPEN_MAX: usize = 256;
/// Transactions of a connection that the broker has rolled back by itself and knows the cause of.
pub const TRANSACTIONS_ENDED_MAX: usize = 256;
/// Bytes of all transactions of the broker that are not committed.
pub const TRANSACTIONS_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Bytes of them that one user may have: the rest is for others.
pub const TRANSACTIONS_USER_BYTES_MAX: u64 = 192 * 1024 * 1024;
/// Bytes of a message to the coordinator of transactions.
pub const COORDINATOR_MESSAGE_BYTES_MAX: u64 = 4_096;
/// Messages that a controller may send to the coordinator before it has more credit.
pub const COORDINATOR_CREDIT: u32 = 64;
/// Longest name of a queue or exchange, in bytes: names in RabbitMQ may have 256 through management
/// over AMQP.
pub const NAME_BYTES_MAX: usize = 256;
/// Longest routing key and binding key, in bytes: each is walked under the core's lock for every
/// exchange on its way.
pub const ROUTING_KEY_BYTES_MAX: usize = 1024;
/// Dots in a routing key or binding key: as many as a key of 256 bytes can have, which is more than
/// any key in RabbitMQ. A topic exchange looks at each word with all patterns that match so far.
pub const ROUTING_KEY_DOTS_MAX: usize = 256;
/// Queues that one message is routed to, unless the setting says fewer: it enters all of them in one
/// step and one record, so that it is in all of them after a crash or in none. Also for a dead
/// letter, which is unroutable beyond it.
pub const ROUTED_QUEUES_MAX: u32 = 16_384;
/// Steps of finding these queues: keys, nodes of topic exchanges, bindings and destinations that
/// are examined, those that lead to the same queue again counted. The search is not sliced, and
/// takes 40 to 100 ns for each.
pub const ROUTING_STEPS_MAX: usize = 65_536;
/// Longest address, in bytes: one of an exchange with the longest name and the longest key fits when
/// each byte is percent-encoded.
pub const ADDRESS_BYTES_MAX: usize = 4 * 1024;
/// Longest selector of a consumer, in bytes.
pub const SELECTOR_BYTES_MAX: usize = 16 * 1024;
/// Fields in a property filter of a consumer, as in `RabbitMQ`.
pub const FILTER_FIELDS_MAX: usize = 16;
/// Names and constants in a selector, each string of an IN counted.
pub const SELECTOR_VALUES_MAX: usize = 1024;
/// Characters of a pattern of LIKE in a selector.
pub const LIKE_CHARS_MAX: usize = 256;
/// Keys in the annotation `x-cc` of a message: it is routed by each.
pub const CC_KEYS_MAX: usize = 256;
/// Bytes of the keys in the annotation `x-cc` of a message together.
pub const CC_BYTES_MAX: usize = 64 * 1024;
/// Bytes that one call of the link engine's `poll_transmit` gathers before it stops, so that large
/// messages are encoded only as fast as the socket takes them.
pub const TRANSMIT_BYTES_MAX: usize = 256 * 1024;
/// Bytes of answers (not messages) that wait to be written before the engine stops reading.
pub const CONTROL_BYTES_MAX: usize = 256 * 1024;
/// Messages up to this size are encoded when they are sent, larger ones when the socket takes them.
pub const SEND_AT_ONCE_BYTES_MAX: usize = 16 * 1024;
/// Fragments of messages below this size are gathered, so that they do not keep a read buffer alive: it
/// holds other frames, too, where they are no larger than a read.
pub const FRAGMENT_KEEP_BYTES_MIN: usize = 64 * 1024;
/// Bytes of fragments that are gathered in one piece.
pub const FRAGMENTS_GATHERED_BYTES: usize = 64 * 1024;
/// Messages that arrive in fragments are joined up to this size, in bytes; larger ones stay in parts,
/// so that no step takes long.
pub const MESSAGE_JOIN_BYTES_MAX: usize = 256 * 1024;
/// Shortest idle-time-out of a peer that the broker can keep (RabbitMQ refuses shorter ones too).
pub const IDLE_TIME_OUT_MS_MIN: u32 = 1_000;
/// How long the broker waits for the peer's `close` after its own.
pub const CLOSE_WAIT_MS: u64 = 5_000;
/// How long after a close, of either side, the socket is dropped though the peer has not read what
/// was written: a little more than `CLOSE_WAIT_MS`, so that a peer that only forgets to answer gets
/// the close.
pub const SOCKET_DROP_MS: u64 = 6_000;
/// How long a peer may take nothing of what is written to it while there is no idle time-out; else it has
/// twice that, as one that is silent. It holds messages that others would read.
pub const OUTPUT_STALL_MS: u64 = 60_000;
/// How long bytes are still discarded after a close because of bytes that cannot be read.
pub const DISCARD_MS: u64 = 500;
/// Memory of a waiting message beside its bare bytes, about, in bytes: its slot, its allocation, its
/// index of sections.
pub const MESSAGE_OVERHEAD_BYTES: u64 = 224;
/// Memory of a message's place in the index of those that wait for their time, about, in bytes; it
/// stays when the message is evicted.
pub const DELAYED_OVERHEAD_BYTES: u64 = 96;
/// Memory of a dead letter's place among those that wait for a target, about, in bytes.
pub const PENDING_OVERHEAD_BYTES: u64 = 96;
/// Memory for each queue that such a letter waits for room in, about, in bytes.
pub const PENDING_TARGET_BYTES: u64 = 56;
/// Bare bytes lie in blocks of the allocator that are larger, about by one part in so many: by up to a
/// quarter where they are little more than a block, by 5 % where they are large.
pub const ALLOCATOR_WASTE_PARTS: u64 = 8;
/// Memory of a binding beside its key and arguments, about, in bytes: it is in two trees.
pub const BINDING_OVERHEAD_BYTES: u64 = 208;
/// Memory of an exchange beside its name, arguments and bindings, about, in bytes.
pub const EXCHANGE_OVERHEAD_BYTES: u64 = 528;
/// Memory of an empty queue beside its name and arguments, about, in bytes.
pub const QUEUE_OVERHEAD_BYTES: u64 = 1_536;
/// Memory of a policy beside its name, pattern and definition, about, in bytes.
pub const POLICY_OVERHEAD_BYTES: u64 = 448;
/// Memory of an empty vhost, about, in bytes.
pub const VHOST_OVERHEAD_BYTES: u64 = 7_680;
/// Memory of a user, of permissions and of a parameter beside themselves and their texts, about, in bytes.
pub const REGISTRY_OVERHEAD_BYTES: u64 = 96;
/// Queues looked at under one hold of the core's lock when objects are listed or counted.
pub const LISTING_SLICE: usize = 256;
/// Entries of one message's death history; the oldest beyond these, but the first death's, are folded
/// into totals: what a message writes with each death must not grow with the number of its deaths.
pub const HISTORY_ENTRIES_MAX: usize = 64;
/// Queues whose names are kept of folded entries, so that a loop through them is still found.
pub const HISTORY_FOLDED_QUEUES_MAX: usize = 256;
/// Redrives of one message that it tells of: the latest; `x-opt-redrives` numbers them through.
pub const MESSAGE_REDRIVES_MAX: usize = 8;
/// Redrives of a vhost that are not over: each is work beside that of clients.
pub const REDRIVES_UNFINISHED_MAX: usize = 8;
/// Redrives of a vhost that are over and can still be looked at; the oldest are forgotten.
pub const REDRIVES_FINISHED_MAX: usize = 100;
/// How long those are kept, in milliseconds: 30 days.
pub const REDRIVE_KEPT_MS: u64 = 30 * 24 * 60 * 60 * 1_000;
/// How long a redrive learns what becomes of moved messages after its end, in milliseconds: a day.
pub const REDRIVE_LEARNS_MS: u64 = 24 * 60 * 60 * 1_000;
/// Length of the id of a redrive, in bytes.
pub const REDRIVE_ID_BYTES_MAX: usize = 64;
/// Length of its note, in bytes.
pub const REDRIVE_NOTE_BYTES_MAX: usize = 1_024;
/// Queues whose messages a redrive counts apart; of all further ones one number is kept.
pub const REDRIVE_TARGETS_MAX: usize = 64;
/// Messages a second that a redrive can be limited to, at most.
pub const REDRIVE_RATE_MAX: u64 = 100_000;
/// Messages of the largest batch of a redrive that begins with small ones.
pub const REDRIVE_BATCH_MAX: u64 = 1_024;
/// How long such a redrive waits what becomes of a batch, in milliseconds.
pub const REDRIVE_BATCH_WAIT_MS: u64 = 30_000;
/// Messages that a dry run of a redrive looks at, at most.
pub const REDRIVE_DRY_RUN_MAX: u64 = 1_000_000;
/// How long a dry run looks, in milliseconds.
pub const REDRIVE_DRY_RUN_MS_MAX: u64 = 10_000;
/// Positions of messages that a dry run shows.
pub const REDRIVE_SAMPLE_MAX: usize = 20;
/// Entries of one history as a receiver gets them, in bytes: 64 with the longest names and one key
/// fit, and two with as many CC keys as there may be. More are folded.
pub const HISTORY_ENTRIES_BYTES_MAX: usize = 160 * 1024;
/// Messages in the quarantine of a vhost, by default: the oldest are dropped first.
pub const QUARANTINE_LENGTH_DEFAULT: u64 = 100_000;
/// Bytes of bare messages in the quarantine of a vhost, by default.
pub const QUARANTINE_BYTES_DEFAULT: u64 = 256 * 1024 * 1024;
/// Messages take at most one part in so many of `--memory-limit` before the newest leave memory, also
/// where `--memory-budget` is more: what cannot leave, such as buffers and queues, takes the rest, and
/// the alarm ends.
pub const MEMORY_BUDGET_PART: u64 = 2;
/// Bytes of the body of an HTTP request that only names and sets things.
pub const HTTP_BODY_BYTES_MAX: usize = 64 * 1024;
/// Bytes of the body of an HTTP request that names many things: users to delete together.
pub const HTTP_LIST_BODY_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of the body of an HTTP request that carries a message or definitions (as RabbitMQ).
pub const HTTP_LARGE_BODY_BYTES_MAX: usize = 20_000_000;
/// Bytes of HTTP bodies beyond `HTTP_BODY_BYTES_MAX` each that are held at a time, all together.
pub const HTTP_BODIES_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Bytes of answers that show messages beyond `HTTP_BODY_BYTES_MAX` each, and wait to be written or
/// taken by who asked, all together.
pub const HTTP_ANSWERS_BYTES_MAX: usize = 256 * 1024 * 1024;
/// How long a body waits for room among `HTTP_BODIES_BYTES_MAX` before it is refused.
pub const HTTP_BODY_ROOM_WAIT_MS: u64 = 2_000;
/// A body may take this long, and the time that its bytes need at `HTTP_BODY_RATE_MIN`.
pub const HTTP_BODY_GRACE_MS: u64 = 5_000;
/// The least rate of a body, in bytes a second: a slower sender holds a connection for nothing.
pub const HTTP_BODY_RATE_MIN: u64 = 64 * 1024;
/// Values in the JSON of a request, where an object counts as eight more: about what it takes in memory.
pub const HTTP_JSON_VALUES_MAX: usize = 64 * 1024;
/// The same in definitions: 100,000 queues with their arguments and bindings.
pub const HTTP_DEFINITIONS_VALUES_MAX: usize = 4 * 1024 * 1024;
/// Bytes of a level of the log, with levels by module: each line of the log is compared with all of them.
pub const LOG_LEVEL_BYTES_MAX: usize = 1024;
/// JSON up to this size is read where connections are served, in bytes: it takes about 100 us.
pub const HTTP_READ_AT_ONCE_BYTES_MAX: usize = 8 * 1024;
/// Pieces of HTTP work that take long (listings, large JSON, expressions) and run at a time.
pub const HTTP_ASIDE_MAX: usize = 4;
/// Bytes of the fields of the head of a request, and of its target.
pub const HTTP_HEAD_BYTES_MAX: usize = 64 * 1024;
/// Bytes of a ping, pong or close of a WebSocket [RFC 6455 5.5].
pub const WEBSOCKET_CONTROL_BYTES_MAX: usize = 125;
/// Bytes of one message that goes out by a WebSocket, and of what waits to go out before a peer that
/// only pings is read no further.
pub const WEBSOCKET_BUFFER_BYTES: usize = 64 * 1024;
/// Bytes of the query of a request.
pub const HTTP_QUERY_BYTES_MAX: usize = 8 * 1024;
/// Parameters in a query.
pub const HTTP_QUERY_PARAMETERS_MAX: usize = 64;
/// Fields that `columns` names.
pub const HTTP_COLUMNS_MAX: usize = 128;
/// Names in the path of one field of `columns` or `sort`.
pub const HTTP_COLUMN_DEPTH_MAX: usize = 8;
/// Bytes of a name in the path of a request, decoded: a binding's holds its key and more.
pub const HTTP_PATH_NAME_BYTES_MAX: usize = 4 * 1024;
/// HTTP connections beyond the setting that are served `/health` and nothing else: a health check
/// is answered however many other connections are open.
pub const HTTP_HEALTH_CONNECTIONS_MAX: usize = 16;
/// How long one of these lasts; when there are too many the oldest is closed.
pub const HTTP_HEALTH_CONNECTION_MS: u64 = 5_000;
/// The part of `http-connections-max` that one address may hold, in percent.
pub const HTTP_ADDRESS_PERCENT_MAX: usize = 75;
/// How long a peer may take nothing of an answer, in milliseconds; what it takes at
/// `HTTP_WRITE_RATE_MIN` or faster gives it that time again.
pub const HTTP_WRITE_STALL_MS: u64 = 20_000;
/// The least rate at which an answer is taken, in bytes a second.
pub const HTTP_WRITE_RATE_MIN: u64 = 16 * 1024;
/// Longest token that is looked at, in bytes: its text is parsed before its signature is checked.
pub const TOKEN_BYTES_MAX: usize = 16 * 1024;
/// Scopes of this broker in one token: each is compared with a name at every check.
pub const TOKEN_SCOPES_MAX: usize = 256;
/// Longest user name in a token, in bytes.
pub const TOKEN_USER_BYTES_MAX: usize = 255;
/// How far the clock of who issues tokens may be ahead of ours, in milliseconds: a token is taken so
/// long before its `nbf`. There is no such allowance for its `exp`.
pub const TOKEN_CLOCK_SKEW_MS: i64 = 30_000;
/// Bytes of a set of keys that tokens are checked with (JWKS).
pub const JWKS_BYTES_MAX: usize = 256 * 1024;
/// Keys in such a set that are kept.
pub const JWKS_KEYS_MAX: usize = 64;
/// How long fetching the keys may take in all, in milliseconds.
pub const JWKS_FETCH_MS_MAX: u64 = 5_000;
/// How often the keys are fetched again at most for tokens that name an unknown one, in milliseconds.
pub const JWKS_REFETCH_MS_MIN: u64 = 30_000;
/// Sessions of the page at a time: one more ends the one of its user that was idle longest, or that of
/// all users.
pub const PAGE_SESSIONS_MAX: usize = 1_024;
/// How long a session of the page lasts without a request, in milliseconds.
pub const PAGE_SESSION_IDLE_MS: u64 = 30 * 60 * 1_000;
/// How long a session of the page lasts, whatever happens in it, in milliseconds.
pub const PAGE_SESSION_MS_MAX: u64 = 12 * 60 * 60 * 1_000;
/// Bytes of the body of a message that the page shows.
pub const PAGE_BODY_BYTES_MAX: usize = 64 * 1024;
/// Queues on a page of the page's list.
pub const PAGE_QUEUES_MAX: usize = 50;
/// Findings of the linter that the page shows, at most: the worst.
pub const PAGE_FINDINGS_MAX: usize = 500;
/// Latest events of a broker among which the page looks for those it shows, and the bytes of them.
pub const PAGE_EVENTS_LOOKED_AT: u64 = 1_000;
pub const PAGE_EVENTS_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Messages on a page of the page's list.
pub const PAGE_MESSAGES_MAX: usize = 50;
/// Rows of a table on an operator's page.
pub const PAGE_ROWS_MAX: usize = 200;
/// Queues whose groups the first page shows: those that took most dead letters.
pub const PAGE_GROUPED_QUEUES_MAX: usize = 5;
/// Ready messages of a queue whose groups the first page shows: it is made again every few seconds.
pub const PAGE_GROUPED_MESSAGES_MAX: u64 = 20_000;
/// Bytes of a regular expression that a request looks for names with.
pub const SEARCH_PATTERN_BYTES_MAX: usize = 256;
/// Bytes of a regular expression that is kept: in permissions and policies.
pub const KEPT_PATTERN_BYTES_MAX: usize = 1024;
/// Bytes of a compiled expression; one that repeats large classes has more.
pub const PATTERN_COMPILED_BYTES_MAX: usize = 512 * 1024;
/// The same where a request looks for names: each of many is looked at.
pub const SEARCH_PATTERN_COMPILED_BYTES_MAX: usize = 64 * 1024;
/// Steps back that one match of an expression with look-around may take.
pub const PATTERN_BACKTRACKS_MAX: usize = 10_000;
/// The same in policies, of which each name is matched with many under the core's lock: 20 ns each.
pub const POLICY_PATTERN_BACKTRACKS_MAX: usize = 1_000;
/// Places in the pattern of a policy or permission where characters vary, with repetitions counted out: such a match is
/// in as many states at a time, and takes up to 40 ns for each and each character of the name.
pub const POLICY_PATTERN_PLACES_MAX: usize = 256;
/// The same in one that looks around and does not begin with `^`, so that it is tried from each character of
/// the name on: a match takes 6 ms at most, and is not cut.
pub const POLICY_PATTERN_LOOKING_PLACES_MAX: usize = 64;
/// Steps back of an expression with which a request looks for names.
pub const SEARCH_PATTERN_BACKTRACKS_MAX: usize = 1_000;
/// Lines of the audit log in a second about what one user is granted, and about what it is refused
/// likewise; the rest is counted.
pub const AUDIT_LINES_MAX: u32 = 20;
/// Users that the audit log distinguishes in a second; the others share their lines.
pub const AUDIT_USERS_MAX: usize = 1_024;
/// Characters of a name or a reason in a line of the audit log.
pub const AUDIT_TEXT_CHARS_MAX: usize = 512;
/// Addresses, for each other protocol, of clients that the log has named.
pub const FOREIGN_PEERS_MAX: usize = 256;
/// Conditions of dead letters that one queue tells apart in its counts: what they are is free text.
pub const CONDITIONS_OF_QUEUE_MAX: usize = 20;
/// The same of all queues of a vhost together: each is a series of a metric.
pub const CONDITIONS_OF_VHOST_MAX: usize = 500;
/// Bytes of a condition that is told apart in counts.
pub const CONDITION_NAME_BYTES_MAX: usize = 64;
/// Bytes of a password.
pub const PASSWORD_BYTES_MAX: usize = 4 * 1024;
/// Tags of a user or a vhost; each is at most as long as a name.
pub const TAGS_MAX: usize = 64;
/// Bytes of the description of a vhost.
pub const DESCRIPTION_BYTES_MAX: usize = 4 * 1024;
/// Bytes of the value of a global parameter, as JSON.
pub const PARAMETER_BYTES_MAX: usize = 64 * 1024;
/// Bytes of the definition of a policy: its keys, and its values as AMQP encodes them.
pub const POLICY_BYTES_MAX: usize = 16 * 1024;
/// Vhosts: each has a core of its own.
pub const VHOSTS_MAX: usize = 4_096;
/// Users of the broker.
pub const USERS_MAX: usize = 65_536;
/// Topic permissions in one vhost; of other permissions each user has one there.
pub const PERMISSIONS_MAX: usize = 65_536;
/// Global parameters of the broker.
pub const PARAMETERS_MAX: usize = 1_024;
/// Policies of a vhost, and operator policies likewise: each new queue is compared with all.
pub const POLICIES_MAX: usize = 1_024;
/// Bytes of arguments of what is listed that are copied under one hold of the core's lock.
pub const LISTING_SLICE_BYTES: usize = 64 * 1024;
/// Bindings of a queue among which the one that a message came by is looked for when the message is
/// explained; behind them none is found.
pub const EXPLAIN_BINDINGS_MAX: usize = 64;
/// Arguments of one queue, exchange or binding, in bytes: their texts, and 8 for each name and value.
/// They are copied whenever it is declared, listed or shown.
pub const ARGUMENTS_BYTES_MAX: usize = 32 * 1024;

/// Unknown arguments of one declaration that are compared with known names for typing errors: each
/// with all names, under the lock of the vhost.
pub const MISSPELLED_LOOKED_AT_MAX: usize = 16;
/// Deaths of made-up messages that are followed from one queue to find a cycle without a rejection.
pub const CYCLE_DEATHS_MAX: usize = 32;
/// Bindings of a queue by which such a message is taken to have come, beside the queue's name.
pub const CYCLE_KEYS_MAX: usize = 8;
/// Queues whose dead letters are followed when a policy is set.
pub const CYCLE_QUEUES_MAX: usize = 20_000;
/// Cycles that one policy is warned of.
pub const CYCLE_WARNINGS_MAX: usize = 4;
/// Queues of a cycle that a warning names before it leaves some out.
pub const CYCLE_NAMES_SHOWN_MAX: usize = 8;
/// Time after which the answer to a policy waits no longer for the search for cycles, in
/// milliseconds.
pub const CYCLE_SEARCH_MS: u64 = 1_000;
/// Findings that are told of one vhost, at most; the worst come first.
pub const LINT_FINDINGS_MAX: usize = 10_000;
/// Ways by which messages reach one queue that are looked at, at most.
pub const LINT_ARRIVALS_MAX: usize = 16;
/// Keys that are tried to find those ways, at most.
pub const LINT_KEYS_TRIED_MAX: usize = 64;
/// Keys among those that are made of two patterns, one above a queue and one of its dead-letter exchange,
/// at most.
pub const LINT_KEYS_MET_MAX: usize = 16;
/// Comparisons of words to make those keys, for all queues of a vhost, at most.
pub const LINT_WORDS_COMPARED_MAX: usize = 10_000_000;
/// Exchanges above a queue that are looked at, at most.
pub const LINT_SOURCES_MAX: usize = 16;
/// Exchanges behind a dead-letter exchange that are looked at, at most.
pub const LINT_BEHIND_MAX: usize = 256;
/// Steps from exchange to exchange to find those of all dead-letter exchanges of a vhost, at most.
pub const LINT_BEHIND_STEPS_MAX: usize = 2_000_000;
/// Arrivals of all queues of a vhost that are looked at, at most.
pub const LINT_ARRIVALS_IN_ALL_MAX: usize = 200_000;
/// Queues that messages with tried keys reach, in all, at most.
pub const LINT_ROUTED_MAX: usize = 4_000_000;
/// Targets of one death that are followed, at most.
pub const LINT_TARGETS_MAX: usize = 64;
/// Findings whose witness is tried, at most.
pub const LINT_WITNESSES_MAX: usize = 200;
/// Messages that a witness publishes to fill a queue, at most.
pub const LINT_FILLING_MAX: u64 = 1_000;
/// Deliveries that a witness fails, at most.
pub const LINT_FAILURES_MAX: u32 = 1_000;
/// Names of one kind that a finding lists, at most.
pub const LINT_NAMES_TOLD_MAX: usize = 5;
/// Comparisons of names of queues and exchanges with the patterns of policies, of a vhost, at most.
pub const LINT_MATCHES_MAX: usize = 5_000_000;
/// Arrivals that are visited to find loops in one vhost, at most; as many to tell ways back from others,
/// and as many steps to targets that a graph draws.
pub const LINT_LOOP_VISITS_MAX: usize = 5_000_000;
/// Arrivals behind one queue among which a way back to another is sought, at most.
pub const LINT_WAYS_BACK_MAX: usize = 2_000;
/// Least time between two searches for findings for metrics, in milliseconds; there is none while nothing
/// changes.
pub const LINT_COUNTED_EVERY_MS: u64 = 10_000;
/// The pause behind such a search, in the time that it took: so it takes a fiftieth of a processor.
pub const LINT_COUNTED_SHARE: u64 = 50;
/// Arrows of a graph before it is narrowed to what is shown, at most.
pub const GRAPH_EDGES_KEPT_MAX: usize = 200_000;
/// Nodes of a graph that is shown as a whole, at most: of more, those in which messages died are shown.
pub const GRAPH_ALL_NODES_MAX: usize = 150;
/// Nodes of a graph that are shown, at most.
pub const GRAPH_NODES_MAX: usize = 500;
/// Arrows of a graph that are shown, at most.
pub const GRAPH_EDGES_MAX: usize = 2_000;
/// Deaths between a queue and those around it that a graph may be asked for, at most.
pub const GRAPH_HOPS_MAX: u32 = 16;
/// Bends of all arrows of a drawing, at most: further ones are drawn straight.
pub const GRAPH_BENDS_MAX: usize = 4_000;
/// Keys beside an arrow of a drawing, at most.
pub const GRAPH_KEYS_SHOWN_MAX: usize = 3;
/// Columns of a name in a drawing, at most.
pub const GRAPH_NAME_COLUMNS_MAX: usize = 28;
/// Largest request to `/management`, in bytes: it is decoded as a whole. Announced as max-message-size.
pub const MANAGEMENT_REQUEST_BYTES_MAX: u64 = 64 * 1024;
/// Values in a request to `/management`, those in lists, maps and arrays counted: some take no byte.
pub const MANAGEMENT_VALUES_MAX: usize = 4_096;
/// Largest answer of `/management`, in bytes.
pub const MANAGEMENT_ANSWER_BYTES_MAX: usize = 1024 * 1024;
/// Events of one vhost that are kept; the oldest go.
pub const EVENTS_KEPT_MAX: usize = 10_000;
/// Memory of the kept events of all vhosts, in bytes; the oldest go.
pub const EVENTS_BYTES_MAX: usize = 32 << 20;
/// They take one part of this number of the memory limit at most, if that is less.
pub const EVENTS_MEMORY_PART: u64 = 8;
/// Numbers of events that a vhost reserves in the journal at a time.
pub const EVENT_NUMBERS_RESERVED: u64 = 10_000;
/// Bytes in front of the body of a message, annotations included, that an event keeps; of a message with
/// more it keeps none of them.
pub const EVENT_HEAD_BYTES_MAX: usize = 2 * 1024;
/// Routing keys of its message that an event names; it says how many there were.
pub const EVENT_ROUTING_KEYS_MAX: usize = 16;
/// Longest routing key of an event as a message, in bytes: readers by AMQP 0-9-1 take no longer one.
pub const EVENT_KEY_BYTES_MAX: usize = 255;
/// Queues that an event names as targets; it says how many there were.
pub const EVENT_TARGETS_MAX: usize = 8;
/// Streams of events at a time, of all users.
pub const EVENT_STREAMS_MAX: usize = 64;
/// Streams of events of one user at a time.
pub const EVENT_STREAMS_OF_USER_MAX: usize = 8;
/// Events that a stream may be behind; those before are left out, and it is told how many.
pub const EVENTS_BEHIND_MAX: usize = 1_024;
/// Events that one stream is told in a second; the others of that second are summed up.
pub const EVENTS_OF_SECOND_MAX: usize = 1_000;
/// Interval between two looks for new events of a stream, in milliseconds.
pub const EVENT_LOOK_MS: u64 = 50;
/// Interval between two comments in a stream of events, which keep its connection, in milliseconds.
pub const EVENT_COMMENT_MS: u64 = 15_000;
