//! Peers that take nothing of what is written to them.

use crate::base::Millis;
use crate::base::limits::OUTPUT_STALL_MS;

/// Since when a socket has taken nothing, though bytes wait for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Stall {
    since: Option<Millis>,
}

impl Stall {
    /// Notes a try to write: whether the socket took anything, and whether bytes wait now.
    pub(super) fn note(&mut self, took: bool, waits: bool, now: impl FnOnce() -> Millis) {
        if !waits {
            self.since = None;
        } else if took || self.since.is_none() {
            self.since = Some(now());
        }
    }

    /// When the peer is given up. One that takes nothing has as long as one that says nothing: twice
    /// the idle time-out, in milliseconds. Heartbeats alone do not keep a connection open.
    pub(super) fn end(self, idle_time_out_ms: Option<u32>) -> Millis {
        let patience_ms = idle_time_out_ms.map_or(OUTPUT_STALL_MS, |idle| 2 * u64::from(idle));
        self.since
            .map_or(Millis::NEVER, |since| since.plus(patience_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_takes_nothing_for_twice_the_idle_time_is_given_up_and_who_takes_a_little_is_not() {
        let mut stall = Stall::default();
        let at = |ms| move || Millis(ms);
        stall.note(true, false, at(1));
        assert_eq!(stall.end(Some(1_000)), Millis::NEVER, "nothing waits");
        stall.note(false, true, at(10));
        stall.note(false, true, at(500));
        assert_eq!(
            stall.end(Some(1_000)),
            Millis(2_010),
            "from the first try on"
        );
        stall.note(true, true, at(2_000));
        assert_eq!(stall.end(Some(1_000)), Millis(4_000), "it took some");
        assert_eq!(stall.end(None), Millis(2_000 + OUTPUT_STALL_MS));
        stall.note(true, false, at(3_000));
        assert_eq!(stall.end(None), Millis::NEVER, "it took all");
    }
}
