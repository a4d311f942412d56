//! What became of the witnesses: each is published, and dies as it is told, in the sandbox.

use super::finding::{Finding, Witness};
use super::sandbox::Sandbox;
use crate::base::Name;
use crate::base::limits::LINT_WITNESSES_MAX;
use crate::broker::DropCause;
use crate::broker::names::QUARANTINE;
use crate::deaths::Reason;

/// Tries the witnesses of the findings, the worst first.
pub(super) fn testify(sandbox: &mut Sandbox, findings: &mut [Finding]) {
    let witnesses = findings
        .iter_mut()
        .filter_map(|finding| finding.witness.as_mut());
    for witness in witnesses.take(LINT_WITNESSES_MAX) {
        witness.outcome = outcome(sandbox, witness);
        sandbox.clear();
    }
}

/// What became of it; none: it could not be made to die so in reasonable time.
fn outcome(sandbox: &mut Sandbox, witness: &Witness) -> Option<String> {
    sandbox.clear();
    if !sandbox.publish(&witness.exchange, &witness.key) {
        return None;
    }
    let mut last = None;
    for (queue, reason) in &witness.deaths {
        // Copies of it elsewhere would die, too.
        sandbox.keep_only(queue);
        let before = dropped(sandbox, queue);
        if !sandbox.die(queue, *reason) {
            return None;
        }
        last = Some((queue, *reason, before));
    }
    let (queue, last_reason, before) = last?;
    let after = dropped(sandbox, queue);
    let lost = DropCause::ALL
        .into_iter()
        .zip(before.into_iter().zip(after));
    let lost = lost.filter(|(_, (before, after))| after > before);
    if let Some((cause, _)) = lost.into_iter().next() {
        return Some(format!("dropped ({})", cause.as_str()));
    }
    let core = sandbox.core();
    if core
        .queue(queue)
        .is_some_and(|queue| !queue.pending.is_empty())
    {
        return Some(format!("waits in {queue}"));
    }
    if core
        .queue(QUARANTINE)
        .is_some_and(|queue| queue.messages.live() > 0)
    {
        return Some(format!("kept in {QUARANTINE}"));
    }
    // What pushed it out is still there.
    let is_filled = |name: &Name| last_reason == Reason::Maxlen && name == queue;
    let holds = core.queues();
    let holds = holds.filter(|queue| queue.messages.live() > 0 && !is_filled(&queue.name));
    let holds: Vec<&str> = holds.map(|queue| &*queue.name).collect();
    Some(format!("in {}", holds.join(", ")))
}

fn dropped(sandbox: &Sandbox, queue: &Name) -> Vec<u64> {
    let queue = sandbox.core().queue(queue);
    let of = |cause| queue.map_or(0, |queue| queue.counters.drops.of(cause));
    DropCause::ALL.into_iter().map(of).collect()
}
