//! Disk refs: what stays in memory of evicted messages, usually 4 to 8 bytes each.

use std::collections::BTreeMap;

use super::column::Column;
use crate::base::{Lsn, Millis};

/// What the core keeps of a message whose envelope and body are on disk.
#[derive(Clone, Debug)]
pub struct DiskRef {
    /// When it arrived in this queue.
    pub arrived: Millis,
    /// When its own time to live ends, whatever the queue's ttl; [`Millis::NEVER`] without one.
    pub deadline: Millis,
    /// The LSN of the record with its envelope.
    pub envelope: Lsn,
    /// The LSN of the record with its bare bytes; 0: they are with the envelope.
    pub body: Lsn,
    /// Size of its bare message, in bytes.
    pub size_bytes: u32,
    /// Failed deliveries in this queue.
    pub failures: u32,
    /// Requeues in this queue.
    pub acquired: u32,
    /// Whether the journal keeps it.
    pub durable: bool,
    /// The redrive that moved it here and learns what becomes of it; 0: none.
    pub moved_by: u32,
}

/// The disk refs of one block, column by column, as differences to those of the first one. Disk
/// refs that do not fit are kept uncompressed.
#[derive(Debug, Default)]
pub(super) struct DiskRefs {
    /// Base of the LSNs of envelopes.
    envelope: Lsn,
    /// Base of the LSNs of bodies.
    body: Lsn,
    /// Base of the times of arrival.
    arrived: Millis,
    /// The LSN of the piece that was spilled for this block; 0: none.
    spilled: Lsn,
    /// Slots in use.
    len: usize,
    /// Slots expected in all.
    capacity: usize,
    /// For each slot [`BLANK`], [`UNCOMPRESSED`], [`SPILLED`], or [`FIRST_ENVELOPE`] plus the
    /// difference.
    envelopes: Column,
    /// For each slot [`NONE`], [`ENVELOPE`], or [`FIRST_BODY`] plus the difference.
    bodies: Column,
    arrivals_ms: Column,
    /// For each slot [`FOREVER`], or the milliseconds plus 1.
    ttls_ms: Column,
    sizes_bytes: Column,
    moved_by: Column,
    uncompressed: BTreeMap<u16, DiskRef>,
}

/// The slot is empty.
const BLANK: u32 = 0;
/// The disk ref does not fit: it is among the uncompressed ones.
const UNCOMPRESSED: u32 = 1;
/// The envelope is in the piece that was spilled for the block.
const SPILLED: u32 = 2;
/// From this value on: the difference of the envelope's LSN.
const FIRST_ENVELOPE: u32 = 3;
/// There is no body of its own.
const NONE: u32 = 0;
/// The body is in the record of the envelope.
const ENVELOPE: u32 = 1;
/// From this value on: the difference of the body's LSN.
const FIRST_BODY: u32 = 2;
const FOREVER: u32 = 0;

/// One disk ref in its packed form, as the columns have it.
#[derive(Clone, Copy)]
struct Packed {
    envelope: u32,
    body: u32,
    arrived_ms: u32,
    ttl_ms: u32,
    size_bytes: u32,
    moved_by: u32,
}

impl DiskRefs {
    /// No disk refs yet. `spilled` is the LSN of the piece with the block's transient messages.
    pub(super) fn new(spilled: Lsn, capacity: usize) -> Self {
        Self {
            spilled,
            capacity,
            ..Self::default()
        }
    }

    /// Slots in use, empty ones between them included.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) fn get(&self, index: usize) -> Option<DiskRef> {
        if index >= self.len {
            return None;
        }
        match self.envelopes.get(index) {
            BLANK => None,
            UNCOMPRESSED => self.uncompressed.get(&u16::try_from(index).ok()?).cloned(),
            envelope => Some(self.unpack(Packed {
                envelope,
                body: self.bodies.get(index),
                arrived_ms: self.arrivals_ms.get(index),
                ttl_ms: self.ttls_ms.get(index),
                size_bytes: self.sizes_bytes.get(index),
                moved_by: self.moved_by.get(index),
            })),
        }
    }

    /// Puts a disk ref into a slot; skipped slots stay empty.
    pub(super) fn put(&mut self, index: usize, disk_ref: DiskRef) {
        if self.envelope == Lsn(0) && disk_ref.durable {
            self.envelope = disk_ref.envelope;
        }
        if self.body == Lsn(0) {
            self.body = disk_ref.body;
        }
        if self.len == 0 {
            self.arrived = disk_ref.arrived;
        }
        while self.len <= index {
            self.len += 1;
            self.set_envelope(self.len - 1, BLANK);
        }
        let at = u16::try_from(index).unwrap_or(u16::MAX);
        self.uncompressed.remove(&at);
        let Some(packed) = self.pack(&disk_ref) else {
            self.uncompressed.insert(at, disk_ref);
            self.set_envelope(index, UNCOMPRESSED);
            return;
        };
        self.set_envelope(index, packed.envelope);
        let size = (self.len, self.capacity);
        self.bodies.put(index, packed.body, size);
        self.arrivals_ms.put(index, packed.arrived_ms, size);
        self.ttls_ms.put(index, packed.ttl_ms, size);
        self.sizes_bytes.put(index, packed.size_bytes, size);
        self.moved_by.put(index, packed.moved_by, size);
    }

    pub(super) fn take(&mut self, index: usize) -> Option<DiskRef> {
        let disk_ref = self.get(index)?;
        self.uncompressed.remove(&u16::try_from(index).ok()?);
        self.set_envelope(index, BLANK);
        Some(disk_ref)
    }

    fn set_envelope(&mut self, index: usize, envelope: u32) {
        self.envelopes
            .put(index, envelope, (self.len, self.capacity));
    }

    fn pack(&self, disk_ref: &DiskRef) -> Option<Packed> {
        if disk_ref.failures > 0 || disk_ref.acquired > 0 {
            return None;
        }
        let ttl_ms = if disk_ref.deadline == Millis::NEVER {
            FOREVER
        } else {
            let ttl_ms = u32::try_from(disk_ref.deadline.since(disk_ref.arrived)).ok()?;
            ttl_ms.checked_add(1)?
        };
        let envelope = if disk_ref.durable {
            difference(disk_ref.envelope.0, self.envelope.0)?.checked_add(FIRST_ENVELOPE)?
        } else if disk_ref.envelope == self.spilled {
            SPILLED
        } else {
            return None;
        };
        let body = match disk_ref.body {
            Lsn(0) => NONE,
            body if body == disk_ref.envelope => ENVELOPE,
            body => difference(body.0, self.body.0)?.checked_add(FIRST_BODY)?,
        };
        Some(Packed {
            envelope,
            body,
            arrived_ms: difference(disk_ref.arrived.0, self.arrived.0)?,
            ttl_ms,
            size_bytes: disk_ref.size_bytes,
            moved_by: disk_ref.moved_by,
        })
    }

    fn unpack(&self, packed: Packed) -> DiskRef {
        let arrived = Millis(moved(self.arrived.0, packed.arrived_ms));
        let durable = packed.envelope != SPILLED;
        let envelope = if durable {
            Lsn(moved(self.envelope.0, packed.envelope - FIRST_ENVELOPE))
        } else {
            self.spilled
        };
        DiskRef {
            arrived,
            deadline: match packed.ttl_ms {
                FOREVER => Millis::NEVER,
                ttl_ms => arrived.plus((ttl_ms - 1).into()),
            },
            envelope,
            body: match packed.body {
                NONE => Lsn(0),
                ENVELOPE => envelope,
                body => Lsn(moved(self.body.0, body - FIRST_BODY)),
            },
            size_bytes: packed.size_bytes,
            failures: 0,
            acquired: 0,
            durable,
            moved_by: packed.moved_by,
        }
    }
}

/// The signed difference of `value` and `base` as a small number, if it fits.
fn difference(value: u64, base: u64) -> Option<u32> {
    let steps = value.abs_diff(base).checked_mul(2)?;
    u32::try_from(steps)
        .ok()?
        .checked_sub((value < base).into())
}

/// The value at such a difference from `base`.
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

    fn disk_ref() -> DiskRef {
        DiskRef {
            arrived: Millis(1_000),
            deadline: Millis::NEVER,
            envelope: Lsn(500),
            body: Lsn(500),
            size_bytes: 7,
            failures: 0,
            acquired: 0,
            durable: true,
            moved_by: 0,
        }
    }

    fn shown(disk_ref: &DiskRef) -> String {
        format!("{disk_ref:?}")
    }

    #[test]
    fn a_disk_ref_comes_back_as_it_was_put_whether_it_fits_or_not() {
        let far = 1 << 40;
        let cases = [
            disk_ref(),
            DiskRef {
                envelope: Lsn(2),
                body: Lsn(1),
                ..disk_ref()
            },
            DiskRef {
                body: Lsn(0),
                deadline: Millis(1_030),
                ..disk_ref()
            },
            DiskRef {
                envelope: Lsn(far),
                ..disk_ref()
            },
            DiskRef {
                arrived: Millis(far),
                deadline: Millis(far + far),
                ..disk_ref()
            },
            DiskRef {
                failures: 2,
                acquired: 3,
                moved_by: 8,
                ..disk_ref()
            },
            DiskRef {
                moved_by: u32::MAX,
                ..disk_ref()
            },
            DiskRef {
                durable: false,
                envelope: Lsn(1 << 63),
                body: Lsn(0),
                ..disk_ref()
            },
        ];
        let mut disk_refs = DiskRefs::new(Lsn(1 << 63), 0);
        for (number, case) in cases.iter().enumerate() {
            disk_refs.put(2 * number, case.clone());
        }
        for (number, case) in cases.iter().enumerate() {
            assert_eq!(
                disk_refs.get(2 * number).map(|disk_ref| shown(&disk_ref)),
                Some(shown(case))
            );
            assert!(disk_refs.get(2 * number + 1).is_none(), "a gap");
            assert!(disk_refs.take(2 * number).is_some());
            assert!(disk_refs.take(2 * number).is_none(), "it is taken once");
        }
        assert!(disk_refs.uncompressed.is_empty());
    }

    #[test]
    fn disk_refs_of_an_ordinary_block_take_at_most_8_bytes_each() {
        let like_the_first = |number: u64| DiskRef {
            arrived: Millis(1_000 + number / 100),
            envelope: Lsn(500 + number + number / 64),
            body: Lsn(500 + number + number / 64),
            ..disk_ref()
        };
        let a_dead_letter = |number: u64| DiskRef {
            body: Lsn(2 + number),
            size_bytes: 100 + u32::try_from(number).unwrap(),
            ..like_the_first(number)
        };
        let check = |disk_refs_bytes_max: usize, of: &dyn Fn(u64) -> DiskRef| {
            let mut disk_refs = DiskRefs::new(Lsn(0), 512);
            (0u16..512).for_each(|number| disk_refs.put(number.into(), of(number.into())));
            let columns = [
                &disk_refs.envelopes,
                &disk_refs.bodies,
                &disk_refs.arrivals_ms,
                &disk_refs.ttls_ms,
                &disk_refs.sizes_bytes,
                &disk_refs.moved_by,
            ];
            let bytes: usize = columns.iter().map(|column| column.heap_bytes()).sum();
            assert!(bytes <= 512 * disk_refs_bytes_max, "{bytes}");
            for number in 0u16..512 {
                let found = disk_refs
                    .get(number.into())
                    .map(|disk_ref| shown(&disk_ref));
                assert_eq!(found, Some(shown(&of(number.into()))));
            }
        };
        check(4, &like_the_first);
        check(8, &a_dead_letter);
        // All of a block that one redrive moved.
        check(8, &|number| DiskRef {
            moved_by: 70_000,
            ..a_dead_letter(number)
        });
    }
}
