//! The crash matrix of the whole broker: its records on a disk that is cut off, torn or reordered
//! anywhere. Whatever is found afterwards is a state the core was in, not older than what had been
//! confirmed: every message once for each queue, dead letters in their source or in all targets.
//! (Where a message was over before it was written: a state the core was in without it.)

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use bytes::Bytes;

use super::World;
use crate::base::{Lsn, Millis, Name, Now, Position, QueueId, Seed, Timestamp};
use crate::broker::Renamed;
use crate::broker::{Body, Core, CoreOptions, Fact, Record, Restoring, Snapshot};
use crate::record::{self, Stored, decode};
use crate::sim::{Archive, DurableState, durable_state};
use crate::store::sim_disk::{Crash, Faults, SimDisk};
use crate::store::{
    self, Amended, Appending, DiskJournal, Journal, Maintained, Random, Restored, StoreError,
    Writer, is_spilled,
};

const NOW: Now = Now::new(Millis(10_000_000), Timestamp(1_700_000_000_000));

fn options() -> store::StoreOptions {
    store::StoreOptions {
        device_block_bytes: 512,
        segment_bytes: 16 * 1024,
        rewrite_below_percent: 60,
        ..store::StoreOptions::default()
    }
}

fn restoring() -> Restoring {
    // Small blocks: most of them are as the checkpoint before copied them.
    let options = CoreOptions {
        block_shift: 2,
        ..CoreOptions::new(Name::from("sim"), Seed(1))
    };
    Restoring::new(options, NOW, NOW.wall, u64::MAX)
}

/// A history of the simulator: records, and the bodies let go with each.
fn history(seed: u64, steps: u64) -> Vec<(Record, Vec<Lsn>)> {
    // Bodies are streamed where the records are: see `Life::write_blob`.
    let mut world = World::without_blobs(seed);
    for _ in 0..steps {
        world.step().unwrap();
    }
    world.records
}

/// A journal being written, and the core as it is after each record.
pub(super) struct Life {
    journal: DiskJournal<Stored, SimDisk>,
    writer: Writer<Stored, SimDisk>,
    core: Restoring,
    /// The state after each record, in the order of their LSNs.
    states: Vec<(Lsn, Rc<DurableState>)>,
    /// The states after each record of the same history, as far as a life has come, with all that was
    /// forgotten since. To read them anew in each of very many lives is a third of the time of all.
    told: Rc<RefCell<Vec<Rc<DurableState>>>>,
    archive: Archive,
    /// The journal's name of each record of the simulator.
    names: BTreeMap<Lsn, Lsn>,
    /// The journal's names of bodies that were streamed, by the record of the simulator that
    /// carries them.
    blobs: BTreeMap<Lsn, Lsn>,
    /// Deaths that carry the body of a message that was not written yet.
    taken_over: usize,
    /// Blocks of a checkpoint that were not written again.
    kept: usize,
    /// Records for each commit, about, times three.
    leisure: u64,
    snapshot: Option<Snapshot>,
    random: Random,
    /// Of its own, so that the rest goes as it would without bodies streamed.
    blob_random: Random,
}

impl Life {
    /// Enters a directory; what is restored is the first state.
    pub(super) fn begin(disk: &SimDisk, seed: u64) -> Result<Self, StoreError> {
        let mut core = restoring();
        let mut opened = store::open(disk.clone(), options(), seed, |restored| match restored {
            Restored::Stamp(_) => {}
            Restored::Block { lsn, payload } => {
                core.checkpoint(&decode(lsn, payload).unwrap().1);
            }
            Restored::Facts { lsn, payload } => core.record(&decode(lsn, payload).unwrap().1),
        })?;
        let names = core.names();
        for name in &names {
            assert!(opened.retain(*name), "record {name} is kept");
        }
        let (journal, writer) = opened.start();
        let mut archive = Archive::default();
        for (name, read) in names.iter().zip(journal.read_batch(&names)) {
            archive.add_bytes(*name, read.unwrap());
        }
        let first = durable_state(core.core(), &archive);
        assert!(first.is_whole(), "every message can be read");
        let states = vec![(Lsn(0), Rc::new(first))];
        Ok(Self {
            journal,
            writer,
            core,
            states,
            told: Rc::default(),
            names: BTreeMap::from([(Lsn(0), Lsn(0))]),
            archive,
            blobs: BTreeMap::new(),
            taken_over: 0,
            kept: 0,
            leisure: if seed.is_multiple_of(2) { 8 } else { 60 },
            snapshot: None,
            random: Random(seed),
            blob_random: Random(seed ^ 0xa4ead),
        })
    }

    /// Enters an empty directory, to live through the history of another life once more.
    pub(super) fn again(disk: &SimDisk, seed: u64, life: &Self) -> Result<Self, StoreError> {
        let told = life.told.clone();
        Ok(Self {
            told,
            ..Self::begin(disk, seed)?
        })
    }

    fn append(&mut self, record: &Record, released: &[Lsn]) {
        let mut record = record.clone();
        let blobs = self.write_blob(&record);
        let reservation = self.journal.reserve();
        let lsn = reservation.first();
        self.names.insert(record.lsn, lsn);
        record.lsn = lsn;
        for fact in &mut record.facts {
            if let Fact::Inserted {
                body: Body::At(lsn),
                ..
            }
            | Fact::Changed {
                body: Body::At(lsn),
                ..
            }
            | Fact::Removed { body: lsn, .. } = fact
            {
                *lsn = *self.blobs.get(lsn).unwrap_or_else(|| &self.names[lsn]);
            }
        }
        if let Some((index, name)) = blobs
            && let Some(Fact::Inserted { body, .. }) = record.facts.get_mut(index)
        {
            *body = Body::At(name);
        }
        let bodies = self.let_go(released);
        let before = self.waiting();
        let (renames, _) = self.journal.fill_with(reservation, |appending| {
            let (records, bodies) = (std::iter::once(record.clone()), bodies.into_iter());
            record::append(appending, &Name::from("sim"), records, bodies, lsn)
        });
        for Renamed { from, to, .. } in &renames.renamed {
            let names = self.names.values_mut().filter(|name| *name == from);
            names.for_each(|name| *name = *to);
            for fact in &mut record.facts {
                if let Fact::Inserted { body, .. } = fact
                    && *body == Body::At(*from)
                {
                    *body = Body::Named;
                }
            }
        }
        self.taken_over += renames.renamed.len();
        self.forget_elided(&before);
        self.core.record(&record);
        self.archive.add(&record);
        let state = self.state();
        self.states.push((lsn, state));
    }

    /// The state after the last record.
    fn state(&self) -> Rc<DurableState> {
        let mut told = self.told.borrow_mut();
        if let Some(state) = told.get(self.states.len() - 1) {
            // Read anew now and then: it is the same history.
            if self.states.len().is_multiple_of(64) {
                assert_eq!(**state, durable_state(self.core.core(), &self.archive));
            }
            return state.clone();
        }
        let state = Rc::new(durable_state(self.core.core(), &self.archive));
        told.push(state.clone());
        state
    }

    /// Writes the bodies of some records ahead of them in pieces, and pieces of bodies that never
    /// come. Tells which fact has its body where.
    fn write_blob(&mut self, record: &Record) -> Option<(usize, Lsn)> {
        if self.blob_random.below(8) == 0 {
            let (piece, _) = self.journal.append_piece(Bytes::from_static(b"left alone"));
            if self.blob_random.below(2) == 0 {
                self.journal.release(piece, piece);
            }
        }
        let mut facts = record.facts.iter().enumerate();
        let (index, bare) = facts.find_map(|(index, fact)| match fact {
            Fact::Inserted {
                message,
                body: Body::Named,
                ..
            } => Some((index, message.bare_bytes())),
            _ => None,
        })?;
        if self.blob_random.below(8) > 0 {
            return None;
        }
        let middle = bare.len() / 2;
        let pieces = [bare.slice(..middle / 2), bare.slice(middle / 2..middle)];
        let pieces = pieces.map(|piece| self.journal.append_piece(piece).0);
        let last = bare.slice(middle..);
        let (name, _) = self.journal.append_body(Box::from(pieces), last);
        self.blobs.insert(record.lsn, name);
        self.archive.add_bytes(name, bare);
        Some((index, name))
    }

    /// The names of records that the simulator let go, in the journal, unless what it let go is
    /// there under the name of another.
    fn let_go(&mut self, released: &[Lsn]) -> Vec<Lsn> {
        let mut names = Vec::new();
        for name in released.iter().filter(|name| !is_spilled(**name)) {
            let name = self.names.remove(name).unwrap();
            if !self.names.values().any(|other| *other == name) {
                names.push(name);
            }
        }
        names.extend(released.iter().filter_map(|name| self.blobs.remove(name)));
        names
    }

    /// What waits to be written: the record that each message entered with.
    fn waiting(&self) -> BTreeMap<(QueueId, Position), Lsn> {
        let mut waiting = BTreeMap::new();
        let all = |appending: &mut Appending<'_, Stored>| {
            for (lsn, _) in &self.states {
                appending.amend(*lsn, |stored| {
                    for entry in stored.entries().unwrap_or(&[]) {
                        waiting.insert((entry.queue, entry.position), *lsn);
                    }
                    ((), Amended::Kept)
                });
            }
        };
        self.journal.fill_with(self.journal.reserve(), all);
        waiting
    }

    /// What is not written after all was never there, as far as a crash can show.
    fn forget_elided(&mut self, before: &BTreeMap<(QueueId, Position), Lsn>) {
        let waiting = self.waiting();
        for ((queue, position), lsn) in before {
            if !waiting.contains_key(&(*queue, *position)) {
                let states = self.states.iter_mut().filter(|(of, _)| of >= lsn);
                states.for_each(|(_, state)| Rc::make_mut(state).forget(*queue, *position));
            }
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
        let slice = match &mut self.snapshot {
            Some(snapshot) => core.snapshot_slice(NOW, snapshot),
            None if self.journal.begin_checkpoint() => {
                self.snapshot = Some(core.begin_snapshot(Lsn(0)));
                return;
            }
            None => return,
        };
        let Some(slice) = slice else {
            self.snapshot = None;
            self.journal.end_checkpoint();
            return;
        };
        for copy in slice.kept {
            self.journal.keep_block(copy);
            self.kept += 1;
        }
        let facts = slice.facts;
        if facts.is_empty() {
            return;
        }
        let (lsn, wall) = (Lsn(0), NOW.wall);
        let record = Record {
            lsn,
            wall,
            facts: facts.into(),
            named: true,
        };
        let block = Stored::new(Name::from("sim"), record);
        let (copy, _) = self.journal.append_block(block);
        if let Some(block) = slice.block {
            self.core.note_copied_block(block, copy);
        }
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

    pub(super) fn live(&mut self, history: &[(Record, Vec<Lsn>)]) -> Result<(), StoreError> {
        for (record, released) in history {
            self.append(record, released);
            // Some lives commit seldom: much is over before it is written.
            match self.random.below(self.leisure) {
                0..3 => self.commit()?,
                3..5 => self.checkpoint_slice(),
                _ => {}
            }
        }
        self.commit()
    }

    /// Whether a state is one this life was in, not older than what it confirmed.
    fn allows(&self, found: &DurableState) -> bool {
        let states = self.states.get(self.confirmed()..).unwrap();
        states.iter().any(|(_, state)| **state == *found)
    }

    /// Enters the directory as a crash leaves it; it must hold a state this life allows.
    pub(super) fn check_crash(
        &self,
        disk: &SimDisk,
        crash: Crash,
        seed: u64,
        context: &str,
    ) -> Self {
        let image = disk.crash(crash, &mut Random(seed));
        let next = Self::begin(&image, seed).unwrap();
        let (_, found) = &next.states[0];
        if !self.allows(found) {
            let (_, last) = self.states.last().unwrap();
            panic!("{context}:\n{}", last.differences(found).join("\n"));
        }
        next
    }

    /// The last record of a history that is confirmed, counted from 1; 0 if none is.
    pub(super) fn confirmed(&self) -> usize {
        let durable = self.journal.durable_lsn();
        let confirmed = self.states.iter().rposition(|(lsn, _)| *lsn <= durable);
        confirmed.unwrap_or(0)
    }

    /// Goes on with what was restored, and the records to read messages back from.
    pub(super) fn into_core(self) -> (Core, Archive) {
        (self.core.finish(), self.archive)
    }
}

/// The bytes of a journal behind which crashes are tried: each of them with `CORONER_EVERY_BYTE`, otherwise one in
/// seven, others in lives of another seed. What is cut off within one frame comes to much the same.
fn crash_bytes(written: u64, seed: u64) -> impl Iterator<Item = u64> {
    let step: u8 = super::variable("CORONER_EVERY_BYTE").map_or(7, |_| 1);
    (1 + seed % u64::from(step)..=written).step_by(step.into())
}

/// Lives of a history whose disk is cut off after a byte of the journal, each after another one: that byte, the
/// disk, and how far the life came.
pub(super) fn cut_off(
    seed: u64,
    history: &[(Record, Vec<Lsn>)],
) -> impl Iterator<Item = (u64, SimDisk, Life)> {
    let whole = SimDisk::default();
    let mut first = Life::begin(&whole, seed).unwrap();
    first.live(history).unwrap();
    crash_bytes(whole.bytes_written(), seed).filter_map(move |byte| {
        let disk = SimDisk::default();
        disk.set_faults(Faults {
            off_after_bytes: Some(byte),
            ..Faults::default()
        });
        let mut life = Life::again(&disk, seed, &first).ok()?;
        let _ = life.live(history);
        Some((byte, disk, life))
    })
}

/// What a crash left.
pub(super) struct Left {
    /// Which crash it was.
    pub(super) context: String,
    pub(super) core: Core,
    pub(super) archive: Archive,
    /// The last record that was confirmed before, counted from 1; 0 if none was.
    pub(super) confirmed: usize,
}

/// What is left of a history by crashes of the process and losses of power behind any byte of the journal, in a
/// life that commits often and in one that commits seldom; each is a state that the life allows.
pub(super) fn crashes(history: &[(Record, Vec<Lsn>)]) -> impl Iterator<Item = Left> {
    let lives = [1, 2].into_iter().flat_map(move |seed| {
        cut_off(seed, history).map(move |(byte, disk, life)| (seed, byte, disk, life))
    });
    lives.flat_map(|(seed, byte, disk, life)| {
        [(0, Crash::Process), (1, Crash::Power)].map(|(number, crash)| {
            let context = format!("seed {seed}, byte {byte}, {crash:?}");
            let next = life.check_crash(&disk, crash, byte * 2 + number, &context);
            let (core, archive) = next.into_core();
            Left {
                context,
                core,
                archive,
                confirmed: life.confirmed(),
            }
        })
    })
}

/// All kinds that the core writes outside of checkpoints.
const KINDS: [&str; 18] = [
    "inserted",
    "removed",
    "returned",
    "delayed",
    "changed",
    "dead-pending",
    "purged",
    "died",
    "vhost deaths",
    "queue declared",
    "queue deleted",
    "event numbers",
    "exchange declared",
    "exchange deleted",
    "bound",
    "unbound",
    "policy set",
    "policy deleted",
];

fn cut(
    seed: u64,
    steps: u64,
    every: usize,
    faults: impl Fn(u64) -> Faults,
    end: impl Fn(&SimDisk) -> u64,
) -> (u64, usize) {
    let history = history(seed, steps);
    let whole = SimDisk::default();
    let mut life = Life::begin(&whole, seed).unwrap();
    life.live(&history).unwrap();
    let elided = (life.journal.stats().elided, life.taken_over);
    for at in (1..=end(&whole)).step_by(every) {
        let disk = SimDisk::default();
        disk.set_faults(faults(at));
        let Ok(mut life) = Life::again(&disk, seed, &life) else {
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
    elided
}

#[test]
fn journal_cut_after_any_byte_gives_a_state_that_was_confirmed_or_a_later_one() {
    let faults = |byte| Faults {
        off_after_bytes: Some(byte),
        ..Faults::default()
    };
    cut(1, 20, 1, faults, SimDisk::bytes_written);
    for seed in 2..6 + more_seeds() {
        cut(seed, 60, 197, faults, SimDisk::bytes_written);
    }
}

/// Runs beyond the usual ones: `CORONER_CRASH_SEEDS`.
fn more_seeds() -> u64 {
    super::variable("CORONER_CRASH_SEEDS").unwrap_or(0)
}

/// Steps of the histories that crash at every operation.
const STEPS: u64 = 100;

/// Seeds of histories that have, all together, every kind of fact.
fn seeds() -> BTreeSet<u64> {
    let mut kinds = BTreeSet::new();
    let mut seeds: BTreeSet<u64> = (10..13 + more_seeds()).collect();
    for seed in 10..1_000 {
        let found = kinds_of(seed);
        if seeds.contains(&seed) || !found.is_subset(&kinds) {
            seeds.insert(seed);
            kinds.extend(found);
        }
        if kinds.len() == KINDS.len() {
            break;
        }
    }
    assert_eq!(kinds, BTreeSet::from(KINDS), "every kind of fact crashes");
    seeds
}

fn kinds_of(seed: u64) -> BTreeSet<&'static str> {
    let history = history(seed, STEPS);
    let facts = history.iter().flat_map(|(record, _)| &record.facts);
    facts.map(Fact::kind).collect()
}

#[test]
fn crash_at_any_disk_operation_gives_a_state_that_was_confirmed_or_a_later_one() {
    let faults = |operation| Faults {
        off_at_operation: Some(operation),
        ..Faults::default()
    };
    for seed in seeds() {
        cut(seed, STEPS, 1, faults, SimDisk::operations);
    }
}

#[test]
fn crash_where_much_was_over_before_it_was_written_loses_nothing_else() {
    let faults = |operation| Faults {
        off_at_operation: Some(operation),
        ..Faults::default()
    };
    let (mut elided, mut taken_over) = (0, 0);
    for seed in [1, 11, 12, 15] {
        let more = cut(seed, 600, 1, faults, SimDisk::operations);
        (elided, taken_over) = (elided + more.0, taken_over + more.1);
    }
    // The record of a death stays, with its numbers.
    assert!(elided > 20 && taken_over > 5, "{elided}, {taken_over}");
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
    assert!(life.kept > 0, "what did not change is not written again");
    life.check_crash(&disk, Crash::Power, 3, "after a checkpoint");
}
