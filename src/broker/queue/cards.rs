//! What is known of messages that are out of memory: about 20 bytes each.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::base::{Lsn, Millis};
use crate::message::{Message, Route};

/// What the core keeps of a message whose envelope and body are on disk.
#[derive(Clone, Debug)]
pub struct Card {
    /// When it arrived in this queue.
    pub arrived: Millis,
    /// Its own end of life, whatever the queue's ttl.
    pub deadline: Millis,
    /// The record in which its envelope stands; 0: nowhere.
    pub envelope: Lsn,
    /// The record that names its bare bytes; 0: they stand with the envelope.
    pub body: Lsn,
    /// Bytes of its bare message.
    pub size_bytes: u32,
    /// Failed deliveries in this queue.
    pub failures: u32,
    /// Returns in this queue.
    pub acquired: u32,
    /// The journal knows it.
    pub durable: bool,
    /// Its envelope, if that stands in no record that can be read alone.
    pub kept: Option<Arc<Kept>>,
}

/// An envelope that stays in memory, and how the message came.
#[derive(Clone, Debug)]
pub struct Kept {
    /// The message, hollow if its bare bytes are in the journal.
    pub message: Arc<Message>,
    /// Exchange and keys it came by.
    pub route: Arc<Route>,
}

/// A card in 20 bytes, as differences to the bases of its block.
#[derive(Clone, Copy, Debug)]
struct Stub {
    /// Or one of the marks below.
    envelope: i32,
    /// Or [`NONE`].
    body: i32,
    arrived_ms: i32,
    /// Or [`FOREVER`].
    ttl_ms: u32,
    size_bytes: u32,
}

/// Nothing is at this place.
const BLANK: i32 = i32::MIN;
/// The card does not fit: it is among the odd ones.
const ODD: i32 = i32::MIN + 1;
/// The envelope is in the piece that was spilled for the block.
const SPILLED: i32 = i32::MIN + 2;
/// Differences below this one are marks.
const LEAST: i32 = i32::MIN + 16;
/// No body of its own.
const NONE: i32 = i32::MIN;
const FOREVER: u32 = u32::MAX;

/// The cards of one block.
#[derive(Debug, Default)]
pub(super) struct Cards {
    /// What the LSNs of the stubs count from.
    lsn: Lsn,
    /// What their arrivals count from.
    arrived: Millis,
    /// What was spilled for this block; 0: nothing.
    spilled: Lsn,
    stubs: Vec<Stub>,
    odd: BTreeMap<u16, Card>,
}

impl Cards {
    /// None yet. `spilled` names the piece with its transient messages.
    pub(super) fn new(spilled: Lsn, capacity: usize) -> Self {
        Self {
            spilled,
            stubs: Vec::with_capacity(capacity),
            ..Self::default()
        }
    }

    /// Places in use, gone ones between them included.
    pub(super) fn len(&self) -> usize {
        self.stubs.len()
    }

    pub(super) fn get(&self, index: usize) -> Option<Card> {
        let stub = self.stubs.get(index)?;
        match stub.envelope {
            BLANK => None,
            ODD => self.odd.get(&u16::try_from(index).ok()?).cloned(),
            _ => Some(self.unpack(stub)),
        }
    }

    /// Puts a card at a place; those skipped are blank.
    pub(super) fn put(&mut self, index: usize, card: Card) {
        if self.lsn == Lsn(0) && card.durable {
            self.lsn = card.envelope;
        }
        if self.stubs.is_empty() {
            self.arrived = card.arrived;
        }
        let blank = Stub {
            envelope: BLANK,
            body: NONE,
            arrived_ms: 0,
            ttl_ms: FOREVER,
            size_bytes: 0,
        };
        while self.stubs.len() <= index {
            self.stubs.push(blank);
        }
        let at = u16::try_from(index).unwrap_or(u16::MAX);
        self.odd.remove(&at);
        let stub = self.pack(&card).unwrap_or_else(|| {
            self.odd.insert(at, card);
            Stub {
                envelope: ODD,
                ..blank
            }
        });
        if let Some(place) = self.stubs.get_mut(index) {
            *place = stub;
        }
    }

    pub(super) fn take(&mut self, index: usize) -> Option<Card> {
        let card = self.get(index)?;
        self.odd.remove(&u16::try_from(index).ok()?);
        if let Some(stub) = self.stubs.get_mut(index) {
            stub.envelope = BLANK;
        }
        Some(card)
    }

    fn pack(&self, card: &Card) -> Option<Stub> {
        if card.kept.is_some() || card.failures > 0 || card.acquired > 0 {
            return None;
        }
        let ttl_ms = if card.deadline == Millis::NEVER {
            FOREVER
        } else {
            let ttl_ms = u32::try_from(card.deadline.since(card.arrived)).ok()?;
            Some(ttl_ms).filter(|ttl_ms| *ttl_ms != FOREVER)?
        };
        let envelope = if card.durable {
            difference(card.envelope.0, self.lsn.0)?
        } else if card.envelope == self.spilled {
            SPILLED
        } else {
            return None;
        };
        let body = match card.body {
            Lsn(0) => NONE,
            body => difference(body.0, self.lsn.0)?,
        };
        Some(Stub {
            envelope,
            body,
            arrived_ms: difference(card.arrived.0, self.arrived.0)?,
            ttl_ms,
            size_bytes: card.size_bytes,
        })
    }

    fn unpack(&self, stub: &Stub) -> Card {
        let lsn = |difference: i32| Lsn(self.lsn.0.wrapping_add_signed(difference.into()));
        let arrived = Millis(self.arrived.0.wrapping_add_signed(stub.arrived_ms.into()));
        let durable = stub.envelope != SPILLED;
        Card {
            arrived,
            deadline: if stub.ttl_ms == FOREVER {
                Millis::NEVER
            } else {
                arrived.plus(stub.ttl_ms.into())
            },
            envelope: if durable {
                lsn(stub.envelope)
            } else {
                self.spilled
            },
            body: if stub.body == NONE {
                Lsn(0)
            } else {
                lsn(stub.body)
            },
            size_bytes: stub.size_bytes,
            failures: 0,
            acquired: 0,
            durable,
            kept: None,
        }
    }
}

/// How far `value` is from `base`, if that is no mark.
fn difference(value: u64, base: u64) -> Option<i32> {
    let difference = i64::try_from(i128::from(value) - i128::from(base)).ok()?;
    i32::try_from(difference)
        .ok()
        .filter(|difference| *difference >= LEAST)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card() -> Card {
        Card {
            arrived: Millis(1_000),
            deadline: Millis::NEVER,
            envelope: Lsn(500),
            body: Lsn(500),
            size_bytes: 7,
            failures: 0,
            acquired: 0,
            durable: true,
            kept: None,
        }
    }

    fn shown(card: &Card) -> String {
        format!("{card:?}")
    }

    #[test]
    fn a_card_comes_back_as_it_was_put_whether_it_fits_or_not() {
        let far = 1 << 40;
        let cases = [
            card(),
            Card {
                envelope: Lsn(2),
                body: Lsn(1),
                ..card()
            },
            Card {
                body: Lsn(0),
                deadline: Millis(1_030),
                ..card()
            },
            Card {
                envelope: Lsn(far),
                ..card()
            },
            Card {
                arrived: Millis(far),
                deadline: Millis(far + far),
                ..card()
            },
            Card {
                failures: 2,
                acquired: 3,
                ..card()
            },
            Card {
                durable: false,
                envelope: Lsn(1 << 63),
                body: Lsn(0),
                ..card()
            },
        ];
        let mut cards = Cards::new(Lsn(1 << 63), 0);
        for (number, case) in cases.iter().enumerate() {
            cards.put(2 * number, case.clone());
        }
        for (number, case) in cases.iter().enumerate() {
            assert_eq!(
                cards.get(2 * number).map(|card| shown(&card)),
                Some(shown(case))
            );
            assert!(cards.get(2 * number + 1).is_none(), "a gap");
            assert!(cards.take(2 * number).is_some());
            assert!(cards.take(2 * number).is_none(), "it is taken once");
        }
        assert!(cards.odd.is_empty());
    }

    #[test]
    fn a_card_takes_20_bytes() {
        assert_eq!(size_of::<Stub>(), 20);
    }
}
