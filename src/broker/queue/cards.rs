//! What is known of messages that are out of memory: 4 to 8 bytes each as a rule.

use std::collections::BTreeMap;

use super::column::Column;
use crate::base::{Lsn, Millis};

/// What the core keeps of a message whose envelope and body are on disk.
#[derive(Clone, Debug)]
pub struct Card {
    /// When it arrived in this queue.
    pub arrived: Millis,
    /// Its own end of life, whatever the queue's ttl.
    pub deadline: Millis,
    /// The record in which its envelope stands.
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
}

/// The cards of one block, column by column, as differences to what its first card has. Cards that
/// do not fit are kept apart.
#[derive(Debug, Default)]
pub(super) struct Cards {
    /// What the LSNs of envelopes count from.
    envelope: Lsn,
    /// What the LSNs of bodies count from.
    body: Lsn,
    /// What arrivals count from.
    arrived: Millis,
    /// What was spilled for this block; 0: nothing.
    spilled: Lsn,
    /// Places in use.
    len: usize,
    /// Places that are expected.
    capacity: usize,
    /// One of the marks below, or [`MARKS`] and more.
    envelopes: Column,
    /// [`NONE`], [`ENVELOPE`], or [`BODIES`] and more.
    bodies: Column,
    arrivals_ms: Column,
    /// [`FOREVER`], or one more than the milliseconds.
    ttls_ms: Column,
    sizes_bytes: Column,
    odd: BTreeMap<u16, Card>,
}

/// Nothing is at this place.
const BLANK: u32 = 0;
/// The card does not fit: it is among the odd ones.
const ODD: u32 = 1;
/// The envelope is in the piece that was spilled for the block.
const SPILLED: u32 = 2;
/// From here on differences stand for LSNs of envelopes.
const MARKS: u32 = 3;
/// No body of its own.
const NONE: u32 = 0;
/// The body is in the record of the envelope.
const ENVELOPE: u32 = 1;
/// From here on differences stand for LSNs of bodies.
const BODIES: u32 = 2;
const FOREVER: u32 = 0;

/// One card as its columns have it.
#[derive(Clone, Copy)]
struct Stub {
    envelope: u32,
    body: u32,
    arrived_ms: u32,
    ttl_ms: u32,
    size_bytes: u32,
}

impl Cards {
    /// None yet. `spilled` names the piece with its transient messages.
    pub(super) fn new(spilled: Lsn, capacity: usize) -> Self {
        Self {
            spilled,
            capacity,
            ..Self::default()
        }
    }

    /// Places in use, gone ones between them included.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) fn get(&self, index: usize) -> Option<Card> {
        if index >= self.len {
            return None;
        }
        match self.envelopes.get(index) {
            BLANK => None,
            ODD => self.odd.get(&u16::try_from(index).ok()?).cloned(),
            envelope => Some(self.unpack(Stub {
                envelope,
                body: self.bodies.get(index),
                arrived_ms: self.arrivals_ms.get(index),
                ttl_ms: self.ttls_ms.get(index),
                size_bytes: self.sizes_bytes.get(index),
            })),
        }
    }

    /// Puts a card at a place; those skipped are blank.
    pub(super) fn put(&mut self, index: usize, card: Card) {
        if self.envelope == Lsn(0) && card.durable {
            self.envelope = card.envelope;
        }
        if self.body == Lsn(0) {
            self.body = card.body;
        }
        if self.len == 0 {
            self.arrived = card.arrived;
        }
        while self.len <= index {
            self.len += 1;
            self.mark(self.len - 1, BLANK);
        }
        let at = u16::try_from(index).unwrap_or(u16::MAX);
        self.odd.remove(&at);
        let Some(stub) = self.pack(&card) else {
            self.odd.insert(at, card);
            self.mark(index, ODD);
            return;
        };
        self.mark(index, stub.envelope);
        let size = (self.len, self.capacity);
        self.bodies.put(index, stub.body, size);
        self.arrivals_ms.put(index, stub.arrived_ms, size);
        self.ttls_ms.put(index, stub.ttl_ms, size);
        self.sizes_bytes.put(index, stub.size_bytes, size);
    }

    pub(super) fn take(&mut self, index: usize) -> Option<Card> {
        let card = self.get(index)?;
        self.odd.remove(&u16::try_from(index).ok()?);
        self.mark(index, BLANK);
        Some(card)
    }

    fn mark(&mut self, index: usize, envelope: u32) {
        self.envelopes
            .put(index, envelope, (self.len, self.capacity));
    }

    fn pack(&self, card: &Card) -> Option<Stub> {
        if card.failures > 0 || card.acquired > 0 {
            return None;
        }
        let ttl_ms = if card.deadline == Millis::NEVER {
            FOREVER
        } else {
            let ttl_ms = u32::try_from(card.deadline.since(card.arrived)).ok()?;
            ttl_ms.checked_add(1)?
        };
        let envelope = if card.durable {
            difference(card.envelope.0, self.envelope.0)?.checked_add(MARKS)?
        } else if card.envelope == self.spilled {
            SPILLED
        } else {
            return None;
        };
        let body = match card.body {
            Lsn(0) => NONE,
            body if body == card.envelope => ENVELOPE,
            body => difference(body.0, self.body.0)?.checked_add(BODIES)?,
        };
        Some(Stub {
            envelope,
            body,
            arrived_ms: difference(card.arrived.0, self.arrived.0)?,
            ttl_ms,
            size_bytes: card.size_bytes,
        })
    }

    fn unpack(&self, stub: Stub) -> Card {
        let arrived = Millis(moved(self.arrived.0, stub.arrived_ms));
        let durable = stub.envelope != SPILLED;
        let envelope = if durable {
            Lsn(moved(self.envelope.0, stub.envelope - MARKS))
        } else {
            self.spilled
        };
        Card {
            arrived,
            deadline: match stub.ttl_ms {
                FOREVER => Millis::NEVER,
                ttl_ms => arrived.plus((ttl_ms - 1).into()),
            },
            envelope,
            body: match stub.body {
                NONE => Lsn(0),
                ENVELOPE => envelope,
                body => Lsn(moved(self.body.0, body - BODIES)),
            },
            size_bytes: stub.size_bytes,
            failures: 0,
            acquired: 0,
            durable,
        }
    }
}

/// How far `value` is from `base`, near ones below and above as small numbers.
fn difference(value: u64, base: u64) -> Option<u32> {
    let steps = value.abs_diff(base).checked_mul(2)?;
    u32::try_from(steps)
        .ok()?
        .checked_sub((value < base).into())
}

/// What is so far from `base`.
const fn moved(base: u64, difference: u32) -> u64 {
    let steps = difference.div_ceil(2) as u64;
    if difference.is_multiple_of(2) {
        base.wrapping_add(steps)
    } else {
        base.wrapping_sub(steps)
    }
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
    fn cards_of_a_usual_block_take_at_most_8_bytes_each() {
        let like_the_first = |number: u64| Card {
            arrived: Millis(1_000 + number / 100),
            envelope: Lsn(500 + number + number / 64),
            body: Lsn(500 + number + number / 64),
            ..card()
        };
        let a_dead_letter = |number: u64| Card {
            body: Lsn(2 + number),
            size_bytes: 100 + u32::try_from(number).unwrap(),
            ..like_the_first(number)
        };
        let check = |cards_bytes_max: usize, of: &dyn Fn(u64) -> Card| {
            let mut cards = Cards::new(Lsn(0), 512);
            (0u16..512).for_each(|number| cards.put(number.into(), of(number.into())));
            let columns = [
                &cards.envelopes,
                &cards.bodies,
                &cards.arrivals_ms,
                &cards.ttls_ms,
                &cards.sizes_bytes,
            ];
            let bytes: usize = columns.iter().map(|column| column.heap_bytes()).sum();
            assert!(bytes <= 512 * cards_bytes_max, "{bytes}");
            for number in 0u16..512 {
                let found = cards.get(number.into()).map(|card| shown(&card));
                assert_eq!(found, Some(shown(&of(number.into()))));
            }
        };
        check(4, &like_the_first);
        check(8, &a_dead_letter);
    }
}
