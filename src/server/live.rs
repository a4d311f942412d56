//! Settings that take effect when a SIGHUP reloads them.

use super::setup;
use super::shared::Shared;
use crate::config::{self, Settings};

/// The names of these settings, which are read from `Shared::live`.
pub(super) const KEYS: &[&str] = &[
    "collect-statistics-interval",
    "connections-max",
    "consumer-timeout",
    "disk-free-limit",
    "idle-timeout",
    "memory-budget",
    "memory-limit",
    "metrics-queues-max",
    "on-undeliverable",
    "quarantine-max-bytes",
    "quarantine-max-length",
    "shutdown-timeout",
    "stats-interval",
];

/// Applies the settings that changed; returns their names.
pub(super) fn follow(shared: &Shared, old: &Settings, new: &Settings) -> Vec<&'static str> {
    let changed = config::changed(old, new);
    let mut taken: Vec<_> = KEYS
        .iter()
        .copied()
        .filter(|key| changed.contains(key))
        .collect();
    let mut live = new.clone();
    // It chooses among defaults, and changes at the next start only.
    live.strict = shared.settings.strict;
    // Without a budget there is no place for evicted messages: that is decided at the start.
    if shared.settings.memory_budget.0 == 0 || new.memory_budget.0 == 0 {
        live.memory_budget = shared.settings.memory_budget;
        taken.retain(|key| *key != "memory-budget");
    }
    shared.node.pager.set_budget(live.budget_in_force());
    let idle = setup::idle_time_out_ms(&live);
    shared.node.environment.set_idle_time_out_ms(idle);
    let undeliverable = setup::undeliverable(&live);
    shared.node.vhosts.set_undeliverable(undeliverable);
    shared
        .node
        .vhosts
        .set_consumer_timeout(live.consumer_timeout.ms);
    *shared.live.write() = live;
    for setting in &taken {
        tracing::info!(setting, "this setting holds from now on");
    }
    let of_budget = ["memory-budget", "memory-limit"];
    if taken.iter().any(|key| of_budget.contains(key)) {
        let live = shared.live.read().clone();
        setup::tell_budget(&live);
    }
    taken
}
