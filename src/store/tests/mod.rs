//! A small world on top of the store: keys with bodies, published, moved and settled, with a model
//! of every state it went through.

mod carried;
mod checkpoint;
mod crash;
mod faults;
mod pieces;
mod small;
mod told;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::random::Random;
use super::sim_disk::{Faults, SimDisk};
use super::*;
use crate::base::{Lsn, Timestamp};

/// The state that facts describe: which key names which body.
type Entries = BTreeMap<u32, Lsn>;

/// Bytes that are a body if they are of a publish.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Raw(Vec<u8>);

impl Payload for Raw {
    fn size_hint(&self) -> usize {
        self.0.len()
    }

    fn body(&self) -> Body {
        if self.0.first() == Some(&b'P') {
            Body::Carried
        } else {
            Body::None
        }
    }

    fn may_be_told(&self) -> bool {
        self.0.first() == Some(&b'T')
    }

    fn is_told_by(&self, next: &Self) -> bool {
        self.may_be_told() && next.may_be_told()
    }

    type Before = ();

    fn encode_after(&self, (): &mut (), out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }
}

/// Keys in one block of a checkpoint.
const BLOCK_KEYS: u32 = 8;

fn options() -> StoreOptions {
    StoreOptions {
        segment_bytes: 4096,
        device_block_bytes: 256,
        rewrite_below_percent: 60,
        ..StoreOptions::default()
    }
}

fn is_segment(name: &str) -> bool {
    prepare::segment_id(name).is_some()
}

struct World {
    disk: SimDisk,
    journal: DiskJournal<Raw, SimDisk>,
    writer: Writer<Raw, SimDisk>,
    recovery: Recovery,
    entries: Entries,
    /// Every record of facts so far, without those withdrawn.
    history: BTreeMap<Lsn, Vec<u8>>,
    /// What each body must read as.
    bodies: BTreeMap<Lsn, Vec<u8>>,
    /// Block of each group of keys in the checkpoint in force, and groups changed since.
    blocks: BTreeMap<u32, Lsn>,
    dirty: BTreeSet<u32>,
    /// Groups a running checkpoint still has to copy.
    to_copy: Option<Vec<u32>>,
    next_key: u32,
    random: Random,
    wall: i64,
}

fn fact(kind: u8, numbers: &[u64]) -> Vec<u8> {
    let mut bytes = vec![kind];
    for number in numbers {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    bytes
}

fn numbers(bytes: &[u8]) -> Vec<u64> {
    let words = bytes.chunks_exact(8);
    words
        .map(|word| u64::from_le_bytes(word.try_into().unwrap()))
        .collect()
}

fn key_of(number: u64) -> u32 {
    u32::try_from(number).unwrap()
}

/// Applies facts; twice is once.
fn apply(entries: &mut Entries, lsn: Lsn, payload: &[u8]) {
    let (kind, rest) = payload.split_first().unwrap();
    match kind {
        b'P' => {
            entries.insert(key_of(numbers(&rest[..8])[0]), lsn);
        }
        b'N' => {
            let n = numbers(rest);
            entries.insert(key_of(n[0]), Lsn(n[1]));
        }
        b'M' => {
            let n = numbers(rest);
            entries.remove(&key_of(n[0]));
            entries.insert(key_of(n[1]), Lsn(n[2]));
        }
        b'S' => {
            entries.remove(&key_of(numbers(rest)[0]));
        }
        _ => panic!("unknown fact {kind}"),
    }
}

fn body_bytes(key: u32, length: usize) -> Vec<u8> {
    let mut random = Random(u64::from(key) + 1);
    let byte = |_| random.draw().to_le_bytes()[0];
    (0..length).map(byte).collect()
}

impl World {
    /// A journal of thirty messages, each in a commit of its own.
    fn filled(disk: &SimDisk) -> Self {
        let mut world = Self::open(disk, options(), 1).unwrap();
        for _ in 0..30 {
            world.publish(100);
            world.commit().unwrap();
        }
        world
    }

    fn open(disk: &SimDisk, options: StoreOptions, seed: u64) -> Result<Self, StoreError> {
        let mut entries = Entries::new();
        let mut blocks = BTreeMap::new();
        let mut keys = vec![0];
        let mut restoring = open(disk.clone(), options, seed, |restored| match restored {
            Restored::Block { lsn, payload } => {
                let n = numbers(payload);
                blocks.insert(key_of(n[0]), lsn);
                for pair in n[1..].chunks(2) {
                    entries.insert(key_of(pair[0]), Lsn(pair[1]));
                    keys.push(key_of(pair[0]));
                }
            }
            Restored::Stamp(_) => {}
            Restored::Facts { lsn, payload } => {
                apply(&mut entries, lsn, payload);
                keys.extend(entries.keys().next_back());
            }
        })?;
        for body in entries.values() {
            restoring.retain(*body);
        }
        let recovery = restoring.recovery().clone();
        let (journal, writer) = restoring.start();
        Ok(Self {
            disk: disk.clone(),
            journal,
            writer,
            recovery,
            entries,
            history: BTreeMap::new(),
            bodies: BTreeMap::new(),
            blocks: BTreeMap::new(),
            dirty: BTreeSet::new(),
            to_copy: None,
            next_key: keys.into_iter().max().unwrap() + 1,
            random: Random(seed),
            wall: 1_000,
        })
    }

    fn record(&mut self, payload: Vec<u8>) -> Lsn {
        let lsn = if self.random.below(2) == 0 {
            self.journal.append(Raw(payload.clone())).0
        } else {
            let reservation = self.journal.reserve();
            let lsn = Lsn(reservation.first().0 + self.random.below(3));
            self.journal
                .fill(reservation, [(lsn, Raw(payload.clone()))]);
            lsn
        };
        apply(&mut self.entries, lsn, &payload);
        self.history.insert(lsn, payload);
        lsn
    }

    /// Takes a record back while it is not written; false when it is too late.
    fn withdraw(&self, lsn: Lsn) -> bool {
        let gone = |appending: &mut Appending<'_, Raw>| {
            let withdrawn = appending.amend(lsn, |_| ((), Amended::Empty));
            withdrawn.is_some()
        };
        self.journal.fill_with(self.journal.reserve(), gone).0
    }

    fn touch(&mut self, key: u32) {
        self.dirty.insert(key / BLOCK_KEYS);
    }

    fn new_key(&mut self) -> u32 {
        self.next_key += 1;
        self.next_key - 1
    }

    fn publish(&mut self, length: usize) -> u32 {
        let key = self.new_key();
        let body = body_bytes(key, length);
        let mut payload = fact(b'P', &[key.into()]);
        payload.extend_from_slice(&body);
        let lsn = self.record(payload.clone());
        self.bodies.insert(lsn, payload);
        self.touch(key);
        key
    }

    /// A streamed body in pieces, then the facts that name it.
    fn publish_large(&mut self, pieces: usize, length: usize) -> u32 {
        let key = self.new_key();
        let body = body_bytes(key, length * (pieces + 1));
        let mut parts: Vec<Bytes> = body.chunks(length).map(Bytes::copy_from_slice).collect();
        let last = parts.pop().unwrap();
        let names: Vec<Lsn> = parts
            .into_iter()
            .map(|part| self.journal.append_piece(part).0)
            .collect();
        let (lsn, _) = self.journal.append_body(names.into(), last);
        self.bodies.insert(lsn, body);
        self.record(fact(b'N', &[key.into(), lsn.0]));
        self.touch(key);
        key
    }

    fn settle(&mut self, key: u32) {
        let Some(body) = self.entries.get(&key).copied() else {
            return;
        };
        self.touch(key);
        let published_here = self.history.get(&body).is_some_and(|p| p[0] == b'P');
        let moved = self
            .history
            .values()
            .any(|p| p[0] == b'M' && numbers(&p[1..])[2] == body.0);
        if published_here && !moved && self.withdraw(body) {
            self.history.remove(&body);
            self.entries.remove(&key);
            return;
        }
        let lsn = self.record(fact(b'S', &[key.into()]));
        self.journal.release(body, lsn);
    }

    fn move_to_new_key(&mut self, key: u32) {
        let Some(body) = self.entries.get(&key).copied() else {
            return;
        };
        let to = self.new_key();
        self.touch(key);
        self.touch(to);
        self.record(fact(b'M', &[key.into(), to.into(), body.0]));
    }

    fn any_key(&mut self) -> Option<u32> {
        let number = self.random.below_usize(self.entries.len());
        self.entries.keys().nth(number).copied()
    }

    fn commit(&mut self) -> Result<(), StoreError> {
        self.wall += 1;
        self.writer.write(Timestamp(self.wall))?;
        self.writer.sync()?;
        Ok(())
    }

    fn begin_checkpoint(&mut self) {
        if self.to_copy.is_none() && self.journal.begin_checkpoint() {
            let groups = self.entries.keys().map(|key| key / BLOCK_KEYS);
            let groups: BTreeSet<u32> = groups.chain(self.blocks.keys().copied()).collect();
            // Groups that appear while it runs lie in the log behind its beginning.
            self.to_copy = Some(groups.into_iter().collect());
        }
    }

    /// Copies one group, or ends the copying.
    fn copy_slice(&mut self) {
        let Some(groups) = &mut self.to_copy else {
            return;
        };
        let Some(group) = groups.pop() else {
            self.to_copy = None;
            self.journal.end_checkpoint();
            return;
        };
        let clean = !self.dirty.contains(&group);
        if let Some(block) = self.blocks.get(&group).filter(|_| clean) {
            self.journal.keep_block(*block);
            return;
        }
        self.dirty.remove(&group);
        let from = group * BLOCK_KEYS;
        let mut content = vec![u64::from(group)];
        for (key, body) in self.entries.range(from..from + BLOCK_KEYS) {
            content.extend([u64::from(*key), body.0]);
        }
        if content.len() == 1 {
            self.blocks.remove(&group);
            return;
        }
        let bytes = content.iter().flat_map(|n| n.to_le_bytes()).collect();
        let (lsn, _) = self.journal.append_block(Raw(bytes));
        self.blocks.insert(group, lsn);
    }

    fn checkpoint(&mut self) -> Result<(), StoreError> {
        self.begin_checkpoint();
        while self.to_copy.is_some() {
            self.copy_slice();
        }
        while self.journal.checkpoint_runs() {
            self.commit()?;
            self.writer.maintain(usize::MAX)?;
        }
        Ok(())
    }

    fn maintain_all(&mut self) -> Result<(), StoreError> {
        while self.writer.maintain(usize::MAX)? == Maintained::More {}
        Ok(())
    }

    /// One random step.
    fn step(&mut self) -> Result<(), StoreError> {
        match self.random.below(20) {
            0..6 => {
                let length = self.random.below_usize(300);
                self.publish(length);
            }
            6 => {
                let pieces = self.random.below_usize(4);
                self.publish_large(pieces, 100);
            }
            7..11 => {
                if let Some(key) = self.any_key() {
                    self.settle(key);
                }
            }
            11..13 => {
                if let Some(key) = self.any_key() {
                    self.move_to_new_key(key);
                }
            }
            13..15 => {
                self.wall += 1;
                self.writer.write(Timestamp(self.wall))?;
            }
            15 => {
                self.writer.sync()?;
            }
            16 => {
                self.begin_checkpoint();
            }
            17 => self.copy_slice(),
            _ => {
                self.writer.maintain(500)?;
            }
        }
        Ok(())
    }

    /// The states that may be found after a crash: of every prefix that holds all that is durable.
    fn is_possible(&self, found: &Entries) -> bool {
        let durable = self.journal.durable_lsn();
        let mut entries = Entries::new();
        let mut possible = false;
        for (lsn, payload) in &self.history {
            if *lsn > durable {
                possible |= entries == *found;
            }
            apply(&mut entries, *lsn, payload);
        }
        possible || entries == *found
    }

    /// Reopens after a crash; the state must be possible and every body whole.
    fn reopen(&self, disk: &SimDisk, context: &str) -> Self {
        let mut next = Self::open(disk, options(), self.random.clone().draw()).unwrap();
        assert_eq!(next.recovery.damage, [], "{context}");
        assert!(
            self.is_possible(&next.entries),
            "{context}: durable {}, found {:?}, last was {:?}\n{:?}",
            self.journal.durable_lsn(),
            next.entries,
            self.entries,
            next.recovery,
        );
        next.check_bodies(&self.bodies, context);
        next.bodies.clone_from(&self.bodies);
        // What is there now is the past that the next crash is judged by.
        for (key, body) in &next.entries {
            let number = next.history.len() as u64;
            let made = fact(b'N', &[(*key).into(), body.0]);
            next.history.insert(Lsn(number), made);
        }
        assert!(
            next.history.len() as u64 <= next.journal.durable_lsn().0 + 1,
            "{context}"
        );
        next
    }

    fn check_bodies(&self, bodies: &BTreeMap<Lsn, Vec<u8>>, context: &str) {
        let lsns: Vec<Lsn> = self.entries.values().copied().collect();
        for (lsn, read) in lsns.iter().zip(self.journal.read_batch(&lsns)) {
            let read = read.unwrap_or_else(|error| panic!("{context}: {error}"));
            assert_eq!(&read[..], &bodies[lsn][..], "{context}: body {lsn}");
        }
    }
}
