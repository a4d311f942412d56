//! The effects of the core for one connection, and the waking of its task.

use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll, Waker};

use crate::base::locks::{RankedMutex, before_waking, rank};
use crate::broker::{Effect, append_effects};

/// The effects for one connection, in the order of the core, and signals to its task. The task
/// takes effects before it sleeps and leaves its waker only when there are none: so it is woken
/// once for each sleep, however many effects come.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    inner: RankedMutex<rank::Outbox, Inner>,
    /// Whether the pager is to wake the task when there is room in memory.
    pub(crate) waits_for_room: AtomicBool,
}

#[derive(Debug, Default)]
struct Inner {
    effects: VecDeque<Effect>,
    /// Whether the task is to run though there are no effects: the broker stops or failed, or more
    /// is durable.
    woken: bool,
    waker: Option<Waker>,
}

impl Outbox {
    /// Appends effects. Returns the task to wake, once no lock is held.
    #[must_use]
    pub(crate) fn push(&self, effects: &mut VecDeque<Effect>) -> Option<Waker> {
        let mut inner = self.inner.lock();
        append_effects(&mut inner.effects, effects);
        inner.waker.take()
    }

    /// Wakes the task without an effect.
    pub(crate) fn wake(&self) {
        before_waking::<rank::Core>();
        let waker = {
            let mut inner = self.inner.lock();
            inner.woken = true;
            inner.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Passes all effects to `take`, which must take them all.
    pub(crate) fn drain(&self, take: impl FnOnce(&mut VecDeque<Effect>)) {
        let mut inner = self.inner.lock();
        if !inner.effects.is_empty() {
            take(&mut inner.effects);
        }
    }

    /// Ready when there are effects, or when the task was woken.
    pub(crate) fn poll_ready(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut inner = self.inner.lock();
        if inner.woken || !inner.effects.is_empty() {
            inner.woken = false;
            return Poll::Ready(());
        }
        match &mut inner.waker {
            Some(waker) => waker.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
        Poll::Pending
    }
}
