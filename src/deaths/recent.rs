//! Sharing of one history among messages that die alike.

use std::sync::Arc;

use super::{Death, Evidence, History, HistoryFull, Reason};
use crate::base::{Name, Timestamp};

/// One death, by reference: what [`Death`] has, without copies.
#[derive(Clone, Copy, Debug)]
pub struct Dying<'a> {
    /// The queue it dies in.
    pub queue: &'a Name,
    /// The reason of the death.
    pub reason: Reason,
    /// Wall-clock time of the death.
    pub time: Timestamp,
    /// The exchange it had been published to before this death.
    pub exchange: &'a Name,
    /// The routing keys it had then, CC included.
    pub routing_keys: &'a Arc<[Name]>,
    /// The header ttl it had then, in milliseconds; none if it had none.
    pub ttl: Option<u32>,
    /// The consumer's error and identity; none if there is nothing to tell.
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

    /// Whether it is the same as another death, compared by allocation: a cheap test that may be
    /// false for equal texts.
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

/// The last death of a queue and the resulting history. A consumer that rejects a batch, or a queue
/// whose head expires, makes many equal deaths within a millisecond: those are recorded once and
/// shared.
#[derive(Debug, Default)]
pub struct Recent(Option<Box<Last>>);

#[derive(Debug)]
struct Last {
    previous: Option<Arc<History>>,
    death: Death,
    history: Arc<History>,
}

impl Recent {
    /// [`History::record`], or the last history if previous history and death are the same.
    #[inline]
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
        self.record_another(previous, dying)
    }

    fn record_another(
        &mut self,
        previous: Option<&Arc<History>>,
        dying: &Dying<'_>,
    ) -> Result<Arc<History>, HistoryFull> {
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
