//! Data directories of every released store format stay readable: part 9 of `docs/STORE_FORMAT.md`.
//!
//! Each folder under `tests/fixtures/store-vN` is a data directory, with `EXPECTED` beside its
//! files: what is restored from it. They are written once per format, by the ignored test below,
//! and never again.

#![allow(clippy::disallowed_methods, reason = "tests read and write files")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

#[path = "support/fixtures.rs"]
mod fixtures;

use std::collections::BTreeMap;
use std::fs;

use coroner::base::{Lsn, Timestamp};
use coroner::store::sim_disk::SimDisk;
use coroner::store::{
    Body, Disk, DiskJournal, FileDisk, Journal, Missing, Options, Payload, Recovery, Restored,
    Writer, open,
};
use fixtures::{fixture, fixtures_of, load, save};

/// Facts of the fixtures: `P` key text (a body), `N` key LSN (names one), `S` key (settled).
struct Fact(Vec<u8>);

impl Payload for Fact {
    fn size_hint(&self) -> usize {
        self.0.len()
    }

    fn body(&self) -> Body {
        match self.0.first() {
            Some(b'P') => Body::Carried,
            _ => Body::None,
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }
}

type Entries = BTreeMap<u64, Lsn>;

struct Opened<D: Disk> {
    journal: DiskJournal<Fact, D>,
    writer: Writer<Fact, D>,
    entries: Entries,
    recovery: Recovery,
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().unwrap())
}

fn fact(kind: u8, key: u64, rest: &[u8]) -> Fact {
    let mut bytes = vec![kind];
    bytes.extend_from_slice(&key.to_le_bytes());
    bytes.extend_from_slice(rest);
    Fact(bytes)
}

fn apply(entries: &mut Entries, lsn: Lsn, payload: &[u8]) {
    let key = number(&payload[1..]);
    match payload[0] {
        b'P' => drop(entries.insert(key, lsn)),
        b'N' => drop(entries.insert(key, Lsn(number(&payload[9..])))),
        b'S' => drop(entries.remove(&key)),
        other => panic!("unknown fact {other}"),
    }
}

fn open_store<D: Disk>(disk: D) -> Opened<D> {
    let options = Options {
        segment_bytes: 4096,
        ..Options::default()
    };
    let mut entries = Entries::new();
    let mut restoring = open(disk, options, 1, |restored| match restored {
        Restored::Stamp(_) => {}
        Restored::Block { payload, .. } => {
            for pair in payload.chunks(16) {
                entries.insert(number(pair), Lsn(number(&pair[8..])));
            }
        }
        Restored::Facts { lsn, payload } => apply(&mut entries, lsn, payload),
    })
    .unwrap();
    for body in entries.values() {
        restoring.retain(*body);
    }
    let recovery = restoring.recovery().clone();
    let (journal, writer) = restoring.start();
    Opened {
        journal,
        writer,
        entries,
        recovery,
    }
}

impl<D: Disk> Opened<D> {
    fn commit(&mut self) {
        self.writer.write(Timestamp(1_700_000_000_000)).unwrap();
        self.writer.sync().unwrap();
    }

    fn publish(&mut self, key: u64) {
        let (lsn, _) = self.journal.append(fact(b'P', key, text(key).as_bytes()));
        self.entries.insert(key, lsn);
    }

    fn settle(&mut self, key: u64) {
        let (lsn, _) = self.journal.append(fact(b'S', key, &[]));
        let body = self.entries.remove(&key).unwrap();
        self.journal.release(body, lsn);
    }

    fn publish_in_pieces(&mut self, key: u64) {
        let text = text(key).into_bytes();
        let (first, rest) = text.split_at(10);
        let (second, last) = rest.split_at(10);
        let pieces = [first, second].map(|p| self.journal.append_piece(p.to_vec().into()).0);
        let (body, _) = self
            .journal
            .append_body(pieces.into(), last.to_vec().into());
        self.journal.append(fact(b'N', key, &body.0.to_le_bytes()));
        self.entries.insert(key, body);
    }

    fn checkpoint(&mut self) {
        assert!(self.journal.begin_checkpoint());
        let pairs = self.entries.iter().flat_map(|(key, body)| [*key, body.0]);
        let block = pairs.flat_map(u64::to_le_bytes).collect();
        self.journal.append_block(Fact(block));
        self.journal.end_checkpoint();
        while self.journal.checkpoint_runs() {
            self.commit();
            self.writer.maintain(usize::MAX).unwrap();
        }
        for _ in 0..20 {
            self.writer.maintain(usize::MAX).unwrap();
        }
    }

    /// What is in it as text: keys and bodies, damage and cut.
    fn describe(&self) -> String {
        let mut lines = Vec::new();
        for (key, body) in &self.entries {
            let bytes = self.journal.read_batch(&[*body]).pop().unwrap();
            let shown = match bytes {
                Ok(bytes) => {
                    let own = bytes.strip_prefix(b"P").and_then(|rest| rest.get(8..));
                    String::from_utf8_lossy(own.unwrap_or(&bytes)).into_owned()
                }
                Err(error) => error.to_string(),
            };
            lines.push(format!("{key}: {shown}"));
        }
        lines.push(format!("damage: {}", self.recovery.damage.len()));
        lines.push(format!("cut: {}", self.recovery.cut.is_some()));
        lines.push(format!("closed: {}", self.recovery.closed));
        lines.join("\n") + "\n"
    }
}

fn text(key: u64) -> String {
    format!("the body of message {key}, ").repeat(4)
}

#[test]
fn every_released_format_is_read_and_can_be_gone_on_with() {
    let folders = fixtures_of("store");
    assert!(folders.len() >= 4, "found {folders:?}");
    for folder in folders {
        let (disk, expected) = load(&folder);
        let mut opened = open_store(disk.clone());
        assert_eq!(opened.describe(), expected, "{}", folder.display());
        opened.publish(1_000);
        opened.checkpoint();
        let again = open_store(disk);
        assert_eq!(again.entries, opened.entries, "{}", folder.display());
    }
}

#[test]
fn a_real_directory_is_read_the_same() {
    let source = fixture("store-v1/rewritten");
    let name = format!("coroner-fixture-{}", std::process::id());
    let directory = std::env::temp_dir().join(name);
    fs::create_dir_all(&directory).unwrap();
    for entry in fs::read_dir(&source).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, directory.join(path.file_name().unwrap())).unwrap();
    }
    let expected = load(&source).1;
    let mut opened = open_store(FileDisk::enter(&directory, Missing::Refuse).unwrap());
    assert_eq!(opened.describe(), expected);
    let spilled = opened.journal.spill(b"beyond the budget").unwrap();
    assert_eq!(opened.journal.read(spilled).unwrap(), "beyond the budget");
    opened.publish(1_000);
    opened.writer.close(Timestamp(5)).unwrap();
    let entries = opened.entries.clone();
    drop(opened);
    let again = open_store(FileDisk::enter(&directory, Missing::Refuse).unwrap());
    assert_eq!(again.entries, entries);
    assert!(again.recovery.closed);
    drop(again);
    fs::remove_dir_all(&directory).unwrap();
}

#[test]
#[ignore = "writes the fixtures of the current format; run once per format, before its release"]
fn write_the_fixtures() {
    let save = |name: &str, disk: &SimDisk| {
        save(&format!("store-v1/{name}"), disk, |disk| {
            open_store(disk).describe()
        });
    };
    let filled = |count: u64| {
        let disk = SimDisk::default();
        let mut opened = open_store(disk.clone());
        for key in 0..count {
            opened.publish(key);
            if key % 3 == 2 {
                opened.settle(key - 1);
            }
            opened.commit();
        }
        (disk, opened)
    };
    let (disk, mut opened) = filled(10);
    opened.publish_in_pieces(500);
    opened.writer.close(Timestamp(1_700_000_000_001)).unwrap();
    save("closed", &disk);

    let (disk, mut opened) = filled(40);
    opened.publish_in_pieces(500);
    opened.checkpoint();
    for key in (0..40).filter(|key| key % 9 != 0) {
        if opened.entries.contains_key(&key) {
            opened.settle(key);
        }
    }
    opened.commit();
    opened.checkpoint();
    opened.publish(41);
    opened.commit();
    assert!(opened.journal.stats().segments_rewritten > 0);
    save("rewritten", &disk);

    let (disk, mut opened) = filled(8);
    opened.publish(50);
    opened.commit();
    let (file, content) = disk.files().remove(0);
    let used = content.iter().rposition(|byte| *byte != 0).unwrap();
    disk.damage(&file, used - 60, 0xff);
    save("torn", &disk);

    let (disk, _) = filled(8);
    disk.damage(&file, 100, 0xff);
    save("damaged", &disk);
}
