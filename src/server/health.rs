//! The health of the broker, for probes, systemd's watchdog, and operators.

use std::time::Duration;

use super::shared::Shared;
use crate::store::StoreState;

/// Time that a vhost's lock may be held before the vhost counts as broken: holds take less than a
/// millisecond.
const ANSWER_MAX: Duration = Duration::from_secs(1);
/// Time in milliseconds after which the thread of the journal counts as hanging if it did not run:
/// it runs every four seconds at least, and a sync may take long on a busy disk.
const JOURNAL_SILENCE_MS_MAX: u64 = 10_000;

impl Shared {
    /// Why the broker does not work, if it does not: a vhost's core that failed or is held for too
    /// long, a journal that failed or whose thread hangs. Blocks, while a vhost is held, up to a
    /// second for each.
    pub(super) fn ailment(&self) -> Option<String> {
        for vhost in self.all_vhosts() {
            let name = vhost.name();
            if vhost.failed() {
                return Some(format!("vhost '{name}' failed"));
            }
            if !vhost.answers_within(ANSWER_MAX) {
                return Some(format!("vhost '{name}' is held for more than a second"));
            }
        }
        let store = self.node.store.as_ref()?;
        if store.state() == StoreState::Poisoned {
            return Some("the journal failed: nothing is confirmed any more".to_owned());
        }
        let silent_ms = self.clock.now().mono.since(store.last_round());
        (silent_ms > JOURNAL_SILENCE_MS_MAX)
            .then(|| format!("the journal's thread has not come round for {silent_ms} ms"))
    }
}
