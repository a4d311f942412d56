//! The crash matrix of the whole broker: its records on a disk that is cut off, torn or reordered
//! anywhere. Whatever is found afterwards is a state the core was in, not older than what had been
//! confirmed: every message once for each queue, dead letters in their source or in all targets.

use std::collections::BTreeMap;

use super::World;
use crate::base::{Lsn, Millis, Name, Now, Seed, Timestamp};
use crate::broker::{Body, Fact, Options, Record, Restoring, Snapshot};
use crate::record::{Stored, body_of, decode};
use crate::sim::{DurableState, durable_state};
use crate::store::sim_disk::{Crash, Faults, SimDisk};
use crate::store::{self, DiskJournal, Journal, Maintained, Random, Restored, StoreError, Writer};

const NOW: Now = Now::new(Millis(10_000_000), Timestamp(1_700_000_000_000));

fn options() -> store::Options {
    store::Options {
        segment_bytes: 16 * 1024,
        rewrite_below_percent: 60,
        ..store::Options::default()
    }
}

fn restoring() -> Restoring {
    let options = Options::new(Name::from("sim"), Seed(1));
    Restoring::new(options, NOW, NOW.wall, u64::MAX)
}

/// A history of the simulator: records, and the bodies let go with each.
fn history(seed: u64, steps: u64) -> Vec<(Record, Vec<Lsn>)> {
    let mut world = World::new(seed);
    for _ in 0..steps {
        world.step().unwrap();
    }
    world.records
}

/// A journal being written, and the core as it is after each record.
struct Life {
    journal: DiskJournal<Stored, SimDisk>,
    writer: Writer<Stored, SimDisk>,
    core: Restoring,
    /// The state after each record, in the order of their LSNs.
    states: Vec<(Lsn, DurableState)>,
    /// The journal's name of each body the simulator named.
    names: BTreeMap<Lsn, Lsn>,
    snapshot: Option<Snapshot>,
    random: Random,
}

impl Life {
    /// Enters a directory; what is restored is the first state.
    fn begin(disk: &SimDisk, seed: u64) -> Result<Self, StoreError> {
        let mut core = restoring();
        let mut opened = store::open(disk.clone(), options(), seed, |restored| {
            let (Restored::Block { lsn, payload } | Restored::Facts { lsn, payload }) = restored
            else {
                return;
            };
            let (_, record) = decode(lsn, payload).unwrap();
            core.record(&record);
        })?;
        for body in core.bodies() {
            assert!(opened.retain(body), "body {body} is kept");
        }
        let (journal, writer) = opened.start();
        let missing = core.missing();
        for (lsn, read) in missing.iter().zip(journal.read_batch(&missing)) {
            let body = body_of(&read.unwrap()).unwrap();
            assert_eq!(core.fill(*lsn, Some(&body)), 0, "body {lsn} is whole");
        }
        let states = vec![(Lsn(0), durable_state(core.core()))];
        Ok(Self {
            journal,
            writer,
            core,
            states,
            names: BTreeMap::new(),
            snapshot: None,
            random: Random(seed),
        })
    }

    fn append(&mut self, record: &Record, released: &[Lsn]) {
        let reservation = self.journal.reserve();
        let mut record = record.clone();
        self.names.insert(record.lsn, reservation.first());
        record.lsn = reservation.first();
        for fact in &mut record.facts {
            if let Fact::Inserted {
                body: Body::At(lsn),
                ..
            } = fact
            {
                *lsn = self.names[lsn];
            }
        }
        self.core.record(&record);
        self.states
            .push((record.lsn, durable_state(self.core.core())));
        let after = record.lsn;
        let stored = Stored::new(Name::from("sim"), record);
        self.journal.fill(reservation, [(after, stored)]);
        for body in released {
            self.journal.release(self.names[body], after);
        }
    }

    fn commit(&mut self) -> Result<(), StoreError> {
        self.writer.write(NOW.wall)?;
        if self.random.below(4) > 0 {
            self.writer.sync()?;
        }
        while self.writer.maintain(4_000)? == Maintained::More && self.random.below(3) > 0 {}
        Ok(())
    }

    fn checkpoint_slice(&mut self) {
        let core = self.core.core();
        let facts = match &mut self.snapshot {
            Some(snapshot) => core.snapshot_slice(NOW, snapshot),
            None if self.journal.begin_checkpoint() => {
                let (snapshot, facts) = core.begin_snapshot();
                self.snapshot = Some(snapshot);
                Some(facts)
            }
            None => return,
        };
        let Some(facts) = facts else {
            self.snapshot = None;
            self.journal.end_checkpoint();
            return;
        };
        let (lsn, wall) = (Lsn(0), NOW.wall);
        let block = Stored::new(Name::from("sim"), Record { lsn, wall, facts });
        self.journal.append_block(block);
    }

    fn finish_checkpoint(&mut self) {
        while self.snapshot.is_some() {
            self.checkpoint_slice();
        }
        while self.journal.checkpoint_runs() {
            self.writer.write(NOW.wall).unwrap();
            self.writer.sync().unwrap();
            self.writer.maintain(usize::MAX).unwrap();
        }
    }

    fn live(&mut self, history: &[(Record, Vec<Lsn>)]) -> Result<(), StoreError> {
        for (record, released) in history {
            self.append(record, released);
            match self.random.below(8) {
                0..3 => self.commit()?,
                3..5 => self.checkpoint_slice(),
                _ => {}
            }
        }
        self.commit()
    }

    /// Whether a state is one this life was in, not older than what it confirmed.
    fn allows(&self, found: &DurableState) -> bool {
        let durable = self.journal.durable_lsn();
        let confirmed = self.states.iter().rposition(|(lsn, _)| *lsn <= durable);
        let states = self.states.get(confirmed.unwrap_or(0)..).unwrap();
        states.iter().any(|(_, state)| state == found)
    }

    fn check_crash(&self, disk: &SimDisk, crash: Crash, seed: u64, context: &str) {
        let image = disk.crash(crash, &mut Random(seed));
        let next = Self::begin(&image, seed).unwrap();
        let (_, found) = &next.states[0];
        if !self.allows(found) {
            let (_, last) = self.states.last().unwrap();
            panic!("{context}:\n{}", last.differences(found).join("\n"));
        }
    }
}

fn cut(
    seed: u64,
    steps: u64,
    every: usize,
    faults: impl Fn(u64) -> Faults,
    end: impl Fn(&SimDisk) -> u64,
) {
    let history = history(seed, steps);
    let whole = SimDisk::default();
    Life::begin(&whole, seed).unwrap().live(&history).unwrap();
    for at in (1..=end(&whole)).step_by(every) {
        let disk = SimDisk::default();
        disk.set_faults(faults(at));
        let Ok(mut life) = Life::begin(&disk, seed) else {
            continue;
        };
        // The disk goes off somewhere in it.
        let _ = life.live(&history);
        for (number, crash) in [Crash::Process, Crash::Power, Crash::Power]
            .iter()
            .enumerate()
        {
            let context = format!("seed {seed}, cut at {at}, {crash:?} {number}");
            life.check_crash(&disk, *crash, at * 3 + number as u64, &context);
        }
    }
}

#[test]
fn journal_cut_after_any_byte_gives_a_state_that_was_confirmed_or_a_later_one() {
    let faults = |byte| Faults {
        off_after_bytes: Some(byte),
        ..Faults::default()
    };
    cut(1, 20, 1, faults, SimDisk::bytes_written);
    for seed in 2..6 {
        cut(seed, 60, 197, faults, SimDisk::bytes_written);
    }
}

#[test]
fn crash_at_any_disk_operation_gives_a_state_that_was_confirmed_or_a_later_one() {
    let faults = |operation| Faults {
        off_at_operation: Some(operation),
        ..Faults::default()
    };
    for seed in 10..13 {
        cut(seed, 100, 1, faults, SimDisk::operations);
    }
}

#[test]
fn checkpoints_replace_the_history_they_cover() {
    let history = history(7, 150);
    let disk = SimDisk::default();
    let mut life = Life::begin(&disk, 7).unwrap();
    life.live(&history).unwrap();
    // One may be under way, begun before the end.
    life.finish_checkpoint();
    life.checkpoint_slice();
    life.finish_checkpoint();
    let mut facts = 0;
    store::open::<Stored, _>(disk.clone(), options(), 1, |restored| {
        facts += u64::from(matches!(restored, Restored::Facts { .. }));
    })
    .unwrap();
    assert_eq!(facts, 0, "nothing is replayed");
    life.check_crash(&disk, Crash::Power, 3, "after a checkpoint");
}
