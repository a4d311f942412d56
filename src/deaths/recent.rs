//! Messages that die alike share one history.

use std::sync::Arc;

use super::{Death, Evidence, History, HistoryFull, Reason};
use crate::base::{Name, Timestamp};

/// One death, as the core sees it happen, without a copy of anything.
#[derive(Clone, Copy, Debug)]
pub struct Dying<'a> {
    /// Queue it dies in.
    pub queue: &'a Name,
    /// The reason of the death.
    pub reason: Reason,
    /// When, on the wall clock.
    pub time: Timestamp,
    /// Exchange it had been published to before this death.
    pub exchange: &'a Name,
    /// Routing keys it had then, CC included.
    pub routing_keys: &'a Arc<[Name]>,
    /// Header ttl it had then, in milliseconds.
    pub ttl: Option<u32>,
    /// The consumer's error and identity.
    pub evidence: Option<&'a Arc<Evidence>>,
}

impl Dying<'_> {
    fn to_death(self) -> Death {
        Death {
            queue: self.queue.clone(),
            reason: self.reason,
            time: self.time,
            exchange: self.exchange.clone(),
            routing_keys: Arc::clone(self.routing_keys),
            ttl: self.ttl,
            evidence: self.evidence.cloned(),
        }
    }

    /// Whether it says the same as another death, by the same allocations: a cheap test that may
    /// say no where the texts are equal.
    fn is_alike(&self, other: &Death) -> bool {
        self.time == other.time
            && self.reason == other.reason
            && self.ttl == other.ttl
            && self.queue.same(&other.queue)
            && self.exchange.same(&other.exchange)
            && Arc::ptr_eq(self.routing_keys, &other.routing_keys)
            && is_same(self.evidence, other.evidence.as_ref())
    }
}

/// The last death of a queue and the history it gave. A consumer that rejects a batch, or a queue
/// whose head expires, makes many that are equal to the last field within a millisecond: those are
/// recorded once and shared.
#[derive(Debug, Default)]
pub struct Recent(Option<Box<Last>>);

#[derive(Debug)]
struct Last {
    previous: Option<Arc<History>>,
    death: Death,
    history: Arc<History>,
}

impl Recent {
    /// [`History::record`], or the history that it gave last time if all is the same.
    pub fn record(
        &mut self,
        previous: Option<&Arc<History>>,
        dying: &Dying<'_>,
    ) -> Result<Arc<History>, HistoryFull> {
        if let Some(last) = &self.0
            && dying.is_alike(&last.death)
            && is_same(previous, last.previous.as_ref())
        {
            return Ok(Arc::clone(&last.history));
        }
        let death = dying.to_death();
        let history = History::record(previous.map(|history| &**history), &death)?;
        let history = Arc::new(history);
        self.0 = Some(Box::new(Last {
            previous: previous.cloned(),
            death,
            history: Arc::clone(&history),
        }));
        Ok(history)
    }
}

/// Whether both are absent or the same allocation.
fn is_same<T>(one: Option<&Arc<T>>, other: Option<&Arc<T>>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        (None, None) => true,
        _ => false,
    }
}
