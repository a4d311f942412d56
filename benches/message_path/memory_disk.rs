//! A disk of memory: a write copies bytes, a sync does nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use coroner::store::{Disk, DiskError, DiskErrorKind, DiskFile, DiskOperation};
use parking_lot::Mutex;

/// Files by name.
#[derive(Debug, Default)]
pub struct MemoryDisk {
    files: Mutex<BTreeMap<String, MemoryFile>>,
}

/// A file: what was written, and how long it is said to be.
#[derive(Clone, Debug, Default)]
pub struct MemoryFile {
    content: Arc<Mutex<Content>>,
}

#[derive(Debug, Default)]
struct Content {
    bytes: Vec<u8>,
    size: usize,
}

fn missing(operation: DiskOperation, name: &str) -> DiskError {
    DiskError {
        operation,
        name: name.to_owned(),
        kind: DiskErrorKind::NotFound,
        message: "no such file".to_owned(),
    }
}

fn place(offset: u64) -> usize {
    usize::try_from(offset).expect("offsets fit into memory")
}

impl Disk for MemoryDisk {
    type File = MemoryFile;

    fn list(&self) -> Result<Vec<String>, DiskError> {
        Ok(self.files.lock().keys().cloned().collect())
    }

    fn create(&self, name: &str) -> Result<MemoryFile, DiskError> {
        let file = MemoryFile::default();
        self.files.lock().insert(name.to_owned(), file.clone());
        Ok(file)
    }

    fn open(&self, name: &str) -> Result<MemoryFile, DiskError> {
        let file = self.files.lock().get(name).cloned();
        file.ok_or_else(|| missing(DiskOperation::Open, name))
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        let mut files = self.files.lock();
        let file = files.remove(from);
        let file = file.ok_or_else(|| missing(DiskOperation::Rename, from))?;
        files.insert(to.to_owned(), file);
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<(), DiskError> {
        self.files.lock().remove(name);
        Ok(())
    }

    fn sync_directory(&self) -> Result<(), DiskError> {
        Ok(())
    }

    fn free_bytes(&self) -> Result<u64, DiskError> {
        Ok(u64::MAX)
    }
}

impl DiskFile for MemoryFile {
    fn size(&self) -> Result<u64, DiskError> {
        Ok(self.content.lock().size as u64)
    }

    fn preallocate(&self, size: u64) -> Result<(), DiskError> {
        let mut content = self.content.lock();
        content.bytes.reserve(place(size));
        content.size = content.size.max(place(size));
        Ok(())
    }

    fn truncate(&self, size: u64) -> Result<(), DiskError> {
        let mut content = self.content.lock();
        content.bytes.truncate(place(size));
        content.size = place(size);
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), DiskError> {
        let (start, end) = (place(offset), place(offset) + bytes.len());
        let mut content = self.content.lock();
        // Journals are written from front to back: nearly always this appends.
        if content.bytes.len() < start {
            content.bytes.resize(start, 0);
        }
        let (over, new) = bytes.split_at(bytes.len().min(content.bytes.len() - start));
        let old = content.bytes.get_mut(start..start + over.len());
        old.expect("it is that long").copy_from_slice(over);
        content.bytes.extend_from_slice(new);
        content.size = content.size.max(end);
        Ok(())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, DiskError> {
        let content = self.content.lock();
        let count = buffer.len().min(content.size.saturating_sub(place(offset)));
        let written = content.bytes.get(place(offset)..).unwrap_or_default();
        let written = written.iter().copied().chain(std::iter::repeat(0));
        let wanted = buffer.iter_mut().take(count);
        wanted.zip(written).for_each(|(byte, new)| *byte = new);
        Ok(count)
    }

    fn drop_cache(&self) {}

    fn sync(&self) -> Result<(), DiskError> {
        Ok(())
    }
}
