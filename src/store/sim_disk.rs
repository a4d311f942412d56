//! A simulated disk: written data, synced data, and a crash in between.
//!
//! ```text
//!  write_at --> live image + list of unsynced changes --sync--> durable image
//!  create, rename, remove --> live names --sync_directory--> durable names
//!
//!  crash(Process) = live image, live names           (kill -9: the system still has it all)
//!  crash(Power)   = durable image + any part of the unsynced changes, each whole, lost, cut or
//!                   torn, and for each name either the durable or the live meaning
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::disk::{Disk, DiskFile};
use super::error::{DiskError, DiskErrorKind, DiskOperation};
use super::random::Random;

/// The kind of a crash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Crash {
    /// The process died: everything it wrote is there.
    Process,
    /// The power failed: only synced data is certain to be there.
    Power,
}

/// Faults to inject. Operations are counted from 1; reads are not counted.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// The operation of this number fails, in this way.
    pub fail_operation: Option<(u64, DiskErrorKind)>,
    /// The disk fails from the operation of this number on.
    pub off_at_operation: Option<u64>,
    /// The disk fails once this many bytes were written, in the middle of a write.
    pub off_after_bytes: Option<u64>,
    /// Bytes that all files together may take.
    pub capacity_bytes: Option<u64>,
}

/// A directory in memory. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct SimDisk {
    shared: Arc<Mutex<SimDiskState>>,
}

/// A file of a [`SimDisk`].
#[derive(Debug)]
pub struct SimFile {
    shared: Arc<Mutex<SimDiskState>>,
    inode: usize,
    name: String,
}

#[derive(Clone, Debug, Default)]
struct SimDiskState {
    inodes: Vec<Inode>,
    live: BTreeMap<String, usize>,
    durable: BTreeMap<String, usize>,
    faults: Faults,
    operations: u64,
    bytes_written: u64,
    off: bool,
}

#[derive(Clone, Debug, Default)]
struct Inode {
    live: Vec<u8>,
    durable: Vec<u8>,
    unsynced: Vec<Change>,
}

#[derive(Clone, Debug)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Size(usize),
}

impl SimDisk {
    /// Sets the faults to inject from now on; counts begin anew.
    pub fn set_faults(&self, faults: Faults) {
        let mut state = self.shared.lock();
        state.faults = faults;
        state.operations = 0;
        state.bytes_written = 0;
    }

    /// Number of operations since the faults were set.
    pub fn operations(&self) -> u64 {
        self.shared.lock().operations
    }

    /// Whether the disk failed for good: other faults do not bring it back.
    pub fn is_off(&self) -> bool {
        self.shared.lock().off
    }

    /// Bytes written since the faults were set.
    pub fn bytes_written(&self) -> u64 {
        self.shared.lock().bytes_written
    }

    /// A copy of the disk as it is found after a crash now.
    #[must_use]
    pub fn crash(&self, crash: Crash, random: &mut Random) -> Self {
        let state = self.shared.lock();
        let mut after = SimDiskState::default();
        for inode in &state.inodes {
            let image = match crash {
                Crash::Process => inode.live.clone(),
                Crash::Power => inode.surviving(random),
            };
            after.inodes.push(Inode {
                durable: image.clone(),
                live: image,
                unsynced: Vec::new(),
            });
        }
        after.live = match crash {
            Crash::Process => state.live.clone(),
            Crash::Power => state.surviving_names(random),
        };
        after.durable = after.live.clone();
        Self {
            shared: Arc::new(Mutex::new(after)),
        }
    }

    /// Changes one byte of a file, unnoticed by its users: a decaying disk.
    pub fn damage(&self, name: &str, offset: usize, mask: u8) {
        let mut state = self.shared.lock();
        let Some(inode) = state.live.get(name).copied() else {
            return;
        };
        if let Some(inode) = state.inodes.get_mut(inode) {
            for image in [&mut inode.live, &mut inode.durable] {
                if let Some(byte) = image.get_mut(offset) {
                    *byte ^= mask;
                }
            }
        }
    }

    /// The files by name, with their current content.
    pub fn files(&self) -> Vec<(String, Vec<u8>)> {
        let state = self.shared.lock();
        let content = |inode: &usize| {
            let inode = state.inodes.get(*inode);
            inode.map(|inode| inode.live.clone()).unwrap_or_default()
        };
        state
            .live
            .iter()
            .map(|(name, inode)| (name.clone(), content(inode)))
            .collect()
    }

    /// Adds a synced file.
    pub fn put(&self, name: &str, content: &[u8]) {
        let mut state = self.shared.lock();
        let inode = state.inodes.len();
        state.inodes.push(Inode {
            live: content.to_vec(),
            durable: content.to_vec(),
            unsynced: Vec::new(),
        });
        state.live.insert(name.to_owned(), inode);
        state.durable.insert(name.to_owned(), inode);
    }
}

impl Disk for SimDisk {
    type File = SimFile;

    fn list(&self) -> Result<Vec<String>, DiskError> {
        Ok(self.shared.lock().live.keys().cloned().collect())
    }

    fn create(&self, name: &str) -> Result<SimFile, DiskError> {
        let mut state = self.shared.lock();
        state.operation(DiskOperation::Create, name)?;
        let inode = state.inodes.len();
        state.inodes.push(Inode::default());
        state.live.insert(name.to_owned(), inode);
        Ok(self.handle(inode, name))
    }

    fn open(&self, name: &str) -> Result<SimFile, DiskError> {
        let state = self.shared.lock();
        match state.live.get(name) {
            Some(inode) => Ok(self.handle(*inode, name)),
            None => Err(failure(DiskOperation::Open, name, DiskErrorKind::NotFound)),
        }
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        let mut state = self.shared.lock();
        state.operation(DiskOperation::Rename, from)?;
        let Some(inode) = state.live.remove(from) else {
            return Err(failure(
                DiskOperation::Rename,
                from,
                DiskErrorKind::NotFound,
            ));
        };
        state.live.insert(to.to_owned(), inode);
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<(), DiskError> {
        let mut state = self.shared.lock();
        state.operation(DiskOperation::Remove, name)?;
        match state.live.remove(name) {
            Some(_) => Ok(()),
            None => Err(failure(
                DiskOperation::Remove,
                name,
                DiskErrorKind::NotFound,
            )),
        }
    }

    fn sync_directory(&self) -> Result<(), DiskError> {
        let mut state = self.shared.lock();
        state.operation(DiskOperation::SyncDirectory, "directory")?;
        state.durable = state.live.clone();
        Ok(())
    }

    fn free_bytes(&self) -> Result<u64, DiskError> {
        let state = self.shared.lock();
        let capacity_bytes = state.faults.capacity_bytes.unwrap_or(u64::MAX);
        Ok(capacity_bytes.saturating_sub(state.bytes_used()))
    }
}

impl SimDisk {
    fn handle(&self, inode: usize, name: &str) -> SimFile {
        SimFile {
            shared: Arc::clone(&self.shared),
            inode,
            name: name.to_owned(),
        }
    }
}

impl DiskFile for SimFile {
    fn size(&self) -> Result<u64, DiskError> {
        let state = self.shared.lock();
        Ok(state
            .inodes
            .get(self.inode)
            .map_or(0, |inode| inode.live.len() as u64))
    }

    fn preallocate(&self, size: u64) -> Result<(), DiskError> {
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        let mut state = self.shared.lock();
        state.operation(DiskOperation::Preallocate, &self.name)?;
        let before = state
            .inodes
            .get(self.inode)
            .map_or(0, |inode| inode.live.len());
        let room = state.faults.capacity_bytes.unwrap_or(u64::MAX);
        let growth = size.saturating_sub(before) as u64;
        if state.bytes_used().saturating_add(growth) > room {
            return Err(failure(
                DiskOperation::Preallocate,
                &self.name,
                DiskErrorKind::Full,
            ));
        }
        state.change(self.inode, Change::Size(size.max(before)));
        Ok(())
    }

    fn truncate(&self, size: u64) -> Result<(), DiskError> {
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        let mut state = self.shared.lock();
        state.operation(DiskOperation::Truncate, &self.name)?;
        state.change(self.inode, Change::Size(size));
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), DiskError> {
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        let mut state = self.shared.lock();
        state.operation(DiskOperation::Write, &self.name)?;
        let allowed = match state.faults.off_after_bytes {
            Some(limit) => limit.saturating_sub(state.bytes_written),
            None => u64::MAX,
        };
        let allowed = usize::try_from(allowed).unwrap_or(usize::MAX);
        let written = bytes.get(..allowed).unwrap_or(bytes);
        state.bytes_written += written.len() as u64;
        let change = Change::Write {
            offset,
            bytes: written.to_vec(),
        };
        state.change(self.inode, change);
        if written.len() < bytes.len() {
            state.off = true;
            return Err(failure(
                DiskOperation::Write,
                &self.name,
                DiskErrorKind::Failed,
            ));
        }
        Ok(())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, DiskError> {
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        let state = self.shared.lock();
        let inode = state.inodes.get(self.inode);
        let rest = inode
            .and_then(|inode| inode.live.get(offset..))
            .unwrap_or(&[]);
        let read = rest.len().min(buffer.len());
        if let (Some(to), Some(from)) = (buffer.get_mut(..read), rest.get(..read)) {
            to.copy_from_slice(from);
        }
        Ok(read)
    }

    fn drop_cache(&self) {}

    fn sync(&self) -> Result<(), DiskError> {
        let mut state = self.shared.lock();
        state.operation(DiskOperation::Sync, &self.name)?;
        if let Some(inode) = state.inodes.get_mut(self.inode) {
            for change in std::mem::take(&mut inode.unsynced) {
                change.apply(&mut inode.durable);
            }
        }
        Ok(())
    }
}

impl SimDiskState {
    /// Counts an operation and makes it fail if it should.
    fn operation(&mut self, operation: DiskOperation, name: &str) -> Result<(), DiskError> {
        self.operations += 1;
        if self
            .faults
            .off_at_operation
            .is_some_and(|at| self.operations >= at)
        {
            self.off = true;
        }
        if self.off {
            return Err(failure(operation, name, DiskErrorKind::Failed));
        }
        match self.faults.fail_operation {
            Some((at, kind)) if at == self.operations => Err(failure(operation, name, kind)),
            _ => Ok(()),
        }
    }

    fn bytes_used(&self) -> u64 {
        let sizes = self.live.values().filter_map(|inode| {
            let inode = self.inodes.get(*inode)?;
            Some(inode.live.len() as u64)
        });
        sizes.sum()
    }

    fn change(&mut self, inode: usize, change: Change) {
        if let Some(inode) = self.inodes.get_mut(inode) {
            change.apply(&mut inode.live);
            inode.unsynced.push(change);
        }
    }

    fn surviving_names(&self, random: &mut Random) -> BTreeMap<String, usize> {
        let mut names: Vec<&String> = self.live.keys().chain(self.durable.keys()).collect();
        names.sort();
        names.dedup();
        let mut after = BTreeMap::new();
        for name in names {
            let side = if random.below(2) == 0 {
                &self.live
            } else {
                &self.durable
            };
            if let Some(inode) = side.get(name) {
                after.insert(name.clone(), *inode);
            }
        }
        after
    }
}

impl Inode {
    /// The durable image with some of the unsynced changes.
    fn surviving(&self, random: &mut Random) -> Vec<u8> {
        let mut image = self.durable.clone();
        for change in &self.unsynced {
            match change {
                Change::Size(_) => {
                    if random.below(2) == 0 {
                        change.apply(&mut image);
                    }
                }
                Change::Write { offset, bytes } => {
                    for (at, part) in torn(bytes, random) {
                        let part = Change::Write {
                            offset: offset + at,
                            bytes: part.to_vec(),
                        };
                        part.apply(&mut image);
                    }
                }
            }
        }
        image
    }
}

/// The parts of a write that reached the device.
fn torn<'a>(bytes: &'a [u8], random: &mut Random) -> Vec<(usize, &'a [u8])> {
    match random.below(4) {
        0 => Vec::new(),
        1 => vec![(0, bytes)],
        2 => {
            let cut = random.below_usize(bytes.len() + 1);
            vec![(0, bytes.get(..cut).unwrap_or(bytes))]
        }
        _ => {
            let sector = match random.below(4) {
                0 => 1,
                1 => 16,
                2 => 512,
                _ => 4096,
            };
            let sectors = bytes.chunks(sector).enumerate();
            let kept = sectors.filter(|_| random.below(2) == 0);
            kept.map(|(index, part)| (index * sector, part)).collect()
        }
    }
}

impl Change {
    fn apply(&self, image: &mut Vec<u8>) {
        match self {
            Self::Size(size) if *size < image.len() => image.truncate(*size),
            Self::Size(size) => lengthen(image, *size),
            Self::Write { offset, bytes } => {
                let end = offset + bytes.len();
                if image.len() < end {
                    lengthen(image, end);
                }
                if let Some(place) = image.get_mut(*offset..end) {
                    place.copy_from_slice(bytes);
                }
            }
        }
    }
}

/// With zeros, not one by one: unoptimised, that was much of the time of whole suites.
fn lengthen(image: &mut Vec<u8>, size: usize) {
    image.extend_from_slice(&vec![0; size.saturating_sub(image.len())]);
}

fn failure(operation: DiskOperation, name: &str, kind: DiskErrorKind) -> DiskError {
    DiskError {
        operation,
        name: name.to_owned(),
        kind,
        message: "simulated".to_owned(),
    }
}
