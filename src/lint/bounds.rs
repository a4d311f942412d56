//! What a look at a topology may cost.

/// Findings that are told of one vhost, at most; the worst come first.
pub(super) const FINDINGS_MAX: usize = 10_000;
/// Ways by which messages reach one queue that are looked at, at most.
pub(super) const ARRIVALS_MAX: usize = 16;
/// Keys that are tried to find those ways, at most.
pub(super) const KEYS_TRIED_MAX: usize = 64;
/// Exchanges above a queue that are looked at, at most.
pub(super) const SOURCES_MAX: usize = 16;
/// Arrivals of all queues of a vhost that are looked at, at most.
pub(super) const ARRIVALS_IN_ALL_MAX: usize = 200_000;
/// Targets of one death that are followed, at most.
pub(super) const TARGETS_MAX: usize = 64;
/// Findings whose witness is tried, at most.
pub(super) const WITNESSES_MAX: usize = 200;
/// Messages that a witness publishes to fill a queue, at most.
pub(super) const FILLING_MAX: u64 = 1_000;
/// Deliveries that a witness fails, at most.
pub(super) const FAILURES_MAX: u32 = 1_000;
/// Names of one kind that a finding lists, at most.
pub(super) const NAMES_TOLD_MAX: usize = 5;
/// Comparisons of a name with the pattern of a policy, at most.
pub(super) const MATCHES_MAX: usize = 5_000_000;
/// Arrivals that are visited to find loops in one vhost, at most.
pub(super) const LOOP_VISITS_MAX: usize = 5_000_000;
