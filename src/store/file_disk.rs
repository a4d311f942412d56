//! The real disk. No other file of the store calls the file system.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{FallocateFlags, OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

use super::disk::{Disk, DiskFile};
use super::error::{DiskError, DiskErrorKind, DiskOperation};
use super::load::DAMAGED_SUFFIX;
use super::prepare::segment_id;
use super::{durable_lsn_file, format_file};

/// A data directory, locked for as long as this value lives.
#[derive(Debug)]
pub struct FileDisk {
    directory: PathBuf,
    /// An open handle of the directory, by which its entries are synced.
    handle: File,
    _lock: Option<DirectoryLock>,
}

/// The lock on a data directory. A process that is killed releases it too.
#[derive(Debug)]
struct DirectoryLock(File);

impl Drop for DirectoryLock {
    /// Released by name, not by closing the file: a program that another thread is just starting has
    /// inherited the open file, and keeps what is locked through it until it runs.
    fn drop(&mut self) {
        if let Err(error) = self.0.unlock() {
            tracing::warn!(%error, "a data directory stays locked until its lock file is closed");
        }
    }
}

/// Whether a missing data directory is created.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Missing {
    /// Create it, with its parents.
    Create,
    /// Fail with [`DiskErrorKind::NotFound`], and write nothing.
    Refuse,
}

impl FileDisk {
    /// Opens a data directory and locks it. Fails with [`DiskErrorKind::InUse`] when another
    /// process holds the lock, [`DiskErrorKind::Denied`] when it cannot be written.
    pub fn enter(directory: &Path, missing: Missing) -> Result<Self, DiskError> {
        let fail = |error: &io::Error| {
            failure(
                DiskOperation::Enter,
                &directory.display().to_string(),
                error,
            )
        };
        if missing == Missing::Create {
            let mut builder = fs::DirBuilder::new();
            let builder = builder.recursive(true).mode(DIRECTORY_MODE);
            builder.create(directory).map_err(|error| fail(&error))?;
        }
        let handle = open_directory(directory).map_err(|error| fail(&error))?;
        let opened = OpenOptions::new()
            .read(true)
            .write(true)
            .create(missing == Missing::Create)
            .mode(FILE_MODE)
            .truncate(false)
            .open(directory.join(LOCK_NAME));
        let lock = match opened {
            Ok(lock) => lock,
            // Every broker makes one: nobody uses the directory, a copy perhaps, and nothing is
            // written into it.
            Err(error) if missing == Missing::Refuse && error.kind() == io::ErrorKind::NotFound => {
                return Ok(Self {
                    directory: directory.to_owned(),
                    handle,
                    _lock: None,
                });
            }
            Err(error) => return Err(fail(&error)),
        };
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(DiskError {
                    operation: DiskOperation::Enter,
                    name: directory.display().to_string(),
                    kind: DiskErrorKind::InUse,
                    message: "in use by another process".to_owned(),
                });
            }
            Err(TryLockError::Error(error)) => return Err(fail(&error)),
        }
        Ok(Self {
            directory: directory.to_owned(),
            handle,
            _lock: Some(DirectoryLock(lock)),
        })
    }

    /// Opens a directory that others use too, for files without a name of their own.
    pub fn visit(directory: &Path) -> Result<Self, DiskError> {
        let name = directory.display().to_string();
        let handle = open_directory(directory)
            .map_err(|error| failure(DiskOperation::Enter, &name, &error))?;
        Ok(Self {
            directory: directory.to_owned(),
            handle,
            _lock: None,
        })
    }

    fn file(&self, name: &str, create: bool) -> io::Result<StoreFile> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(create)
            .mode(FILE_MODE)
            .truncate(create)
            .open(self.directory.join(name))?;
        Ok(StoreFile::new(name, file))
    }
}

/// Whether a directory has a file of a store, be it damaged.
pub fn has_store(directory: &Path) -> Result<bool, DiskError> {
    let fail = |error: io::Error| {
        let name = directory.display().to_string();
        failure(DiskOperation::Enter, &name, &error)
    };
    for entry in fs::read_dir(directory).map_err(fail)? {
        let name = entry.map_err(fail)?.file_name();
        let name = name.to_string_lossy();
        let name = name.strip_suffix(DAMAGED_SUFFIX).unwrap_or(&name);
        if [format_file::NAME, durable_lsn_file::NAME].contains(&name) || segment_id(name).is_some()
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Removes the rights of everybody but the owner that an earlier version, or a umask, gave on a
/// data directory and the files in it; returns on how many. Other kinds of entries are left alone.
///
/// [`DiskErrorKind::Denied`] when they belong to another user.
pub fn keep_private(directory: &Path) -> Result<usize, DiskError> {
    let fail = |error: io::Error| {
        let name = directory.display().to_string();
        failure(DiskOperation::Enter, &name, &error)
    };
    let mut tightened = usize::from(tighten(directory, DIRECTORY_MODE).map_err(fail)?);
    for entry in fs::read_dir(directory).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        if entry.file_type().map_err(fail)?.is_file() {
            tightened += usize::from(tighten(&entry.path(), FILE_MODE).map_err(fail)?);
        }
    }
    Ok(tightened)
}

/// Removes those rights; returns whether there were any.
fn tighten(path: &Path, mode: u32) -> io::Result<bool> {
    let mut permissions = fs::metadata(path)?.permissions();
    if permissions.mode() & OTHERS == 0 {
        return Ok(false);
    }
    permissions.set_mode(mode);
    fs::set_permissions(path, permissions)?;
    Ok(true)
}

impl Disk for FileDisk {
    type File = StoreFile;

    fn list(&self) -> Result<Vec<String>, DiskError> {
        let fail = |error: io::Error| failure(DiskOperation::List, "data directory", &error);
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.directory).map_err(fail)? {
            // A name that is not UTF-8 is not of the store.
            if let Ok(name) = entry.map_err(fail)?.file_name().into_string() {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn create(&self, name: &str) -> Result<StoreFile, DiskError> {
        self.file(name, true)
            .map_err(|error| failure(DiskOperation::Create, name, &error))
    }

    fn open(&self, name: &str) -> Result<StoreFile, DiskError> {
        self.file(name, false)
            .map_err(|error| failure(DiskOperation::Open, name, &error))
    }

    fn open_direct(&self, name: &str) -> Result<StoreFile, DiskError> {
        let mut options = OpenOptions::new();
        let options = options.write(true).custom_flags(DIRECT);
        let file = options
            .open(self.directory.join(name))
            .map_err(|error| failure(DiskOperation::Open, name, &error))?;
        let file = StoreFile::new(name, file);
        file.is_direct.store(true, Ordering::Relaxed);
        Ok(file)
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        fs::rename(self.directory.join(from), self.directory.join(to))
            .map_err(|error| failure(DiskOperation::Rename, from, &error))
    }

    fn remove(&self, name: &str) -> Result<(), DiskError> {
        fs::remove_file(self.directory.join(name))
            .map_err(|error| failure(DiskOperation::Remove, name, &error))
    }

    fn sync_directory(&self) -> Result<(), DiskError> {
        self.handle
            .sync_all()
            .map_err(|error| failure(DiskOperation::SyncDirectory, "data directory", &error))
    }

    fn free_bytes(&self) -> Result<u64, DiskError> {
        let figures = rustix::fs::fstatvfs(&self.handle)
            .map_err(|errno| failure(DiskOperation::Enter, "file system", &errno.into()))?;
        Ok(figures.f_bavail.saturating_mul(figures.f_frsize))
    }
}

/// A file of a [`FileDisk`].
#[derive(Debug)]
pub struct StoreFile {
    name: String,
    file: File,
    /// Whether writes bypass the system's cache.
    is_direct: AtomicBool,
}

impl StoreFile {
    fn new(name: &str, file: File) -> Self {
        Self {
            name: name.to_owned(),
            file,
            is_direct: AtomicBool::new(false),
        }
    }

    /// Makes further writes go through the system's cache.
    fn give_up_direct(&self) -> io::Result<()> {
        let flags = fcntl_getfl(&self.file)?;
        fcntl_setfl(&self.file, flags.difference(OFlags::DIRECT))?;
        Ok(())
    }

    fn fail(&self, operation: DiskOperation, error: &io::Error) -> DiskError {
        failure(operation, &self.name, error)
    }
}

impl DiskFile for StoreFile {
    fn size(&self) -> Result<u64, DiskError> {
        let metadata = self
            .file
            .metadata()
            .map_err(|error| self.fail(DiskOperation::Read, &error))?;
        Ok(metadata.len())
    }

    fn preallocate(&self, size: u64) -> Result<(), DiskError> {
        let reserved = rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, size);
        match reserved {
            Ok(()) => Ok(()),
            // Some file systems cannot reserve; writing zeros does the same, slower.
            Err(Errno::OPNOTSUPP) => write_zeros(&self.file, size)
                .map_err(|error| self.fail(DiskOperation::Preallocate, &error)),
            Err(errno) => Err(self.fail(DiskOperation::Preallocate, &errno.into())),
        }
    }

    fn truncate(&self, size: u64) -> Result<(), DiskError> {
        self.file
            .set_len(size)
            .map_err(|error| self.fail(DiskOperation::Truncate, &error))
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), DiskError> {
        let mut written = self.file.write_all_at(bytes, offset);
        // Some file systems open a file for direct writes and then refuse them, or want larger
        // blocks.
        if let Err(error) = &written
            && matches!(
                error.kind(),
                io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported
            )
            && self.is_direct.swap(false, Ordering::Relaxed)
        {
            written = self
                .give_up_direct()
                .and_then(|()| self.file.write_all_at(bytes, offset));
        }
        written.map_err(|error| self.fail(DiskOperation::Write, &error))
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, DiskError> {
        let mut read = 0;
        while let Some(rest) = buffer.get_mut(read..)
            && !rest.is_empty()
        {
            match self.file.read_at(rest, offset + read as u64) {
                Ok(0) => break,
                Ok(count) => read += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.fail(DiskOperation::Read, &error)),
            }
        }
        Ok(read)
    }

    fn drop_cache(&self) {
        // Only advice: if it is not taken, that costs time, no more.
        let _ = rustix::fs::fadvise(&self.file, 0, None, rustix::fs::Advice::DontNeed);
    }

    fn sync(&self) -> Result<(), DiskError> {
        self.file
            .sync_data()
            .map_err(|error| self.fail(DiskOperation::Sync, &error))
    }
}

/// The flag of direct writes.
const DIRECT: i32 = OFlags::DIRECT.bits().cast_signed();
const LOCK_NAME: &str = "LOCK";
/// Bodies, password hashes and keys are in the directory: only the owner has rights.
const DIRECTORY_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
/// The permission bits of everybody but the owner.
const OTHERS: u32 = 0o077;

#[allow(
    clippy::disallowed_methods,
    reason = "this is the store's disk, where the ban points to"
)]
fn open_directory(directory: &Path) -> io::Result<File> {
    File::open(directory)
}

fn write_zeros(file: &File, size: u64) -> io::Result<()> {
    let zeros = vec![0; 64 * 1024];
    let mut offset = 0;
    while offset < size {
        let step = (size - offset).min(zeros.len() as u64);
        let count = usize::try_from(step).unwrap_or(zeros.len());
        file.write_all_at(zeros.get(..count).unwrap_or(&zeros), offset)?;
        offset += step;
    }
    Ok(())
}

fn failure(operation: DiskOperation, name: &str, error: &io::Error) -> DiskError {
    let kind = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => DiskErrorKind::Full,
        io::ErrorKind::NotFound => DiskErrorKind::NotFound,
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            DiskErrorKind::Denied
        }
        _ => DiskErrorKind::Failed,
    };
    DiskError {
        operation,
        name: name.to_owned(),
        kind,
        message: error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::outgoing::Outgoing;

    #[test]
    #[allow(clippy::disallowed_methods, reason = "a test makes its files")]
    fn a_copy_without_a_lock_is_looked_at_and_gets_none() {
        let directory = std::env::temp_dir().join(format!("coroner-copy-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        assert_eq!(has_store(&directory), Ok(false));
        let files = [
            "FORMAT",
            "DURABLE",
            "0000000000000001.seg",
            "0000000000000001.seg.damaged",
        ];
        for name in files {
            fs::write(directory.join(name), "").unwrap();
            assert_eq!(has_store(&directory), Ok(true), "{name}");
            let disk = FileDisk::enter(&directory, Missing::Refuse).unwrap();
            assert_eq!(disk.list().unwrap(), [name]);
            fs::remove_file(directory.join(name)).unwrap();
        }
        fs::remove_dir_all(&directory).unwrap();
        assert!(has_store(&directory).is_err());
    }

    #[test]
    fn a_directory_in_use_is_refused() {
        let directory = std::env::temp_dir().join(format!("coroner-lock-{}", std::process::id()));
        let first = FileDisk::enter(&directory, Missing::Create).unwrap();
        let second = FileDisk::enter(&directory, Missing::Refuse).unwrap_err();
        assert_eq!(second.kind, DiskErrorKind::InUse);
        drop(first);
        FileDisk::enter(&directory, Missing::Refuse).unwrap();
        fs::remove_dir_all(&directory).unwrap();
        let gone = FileDisk::enter(&directory, Missing::Refuse).unwrap_err();
        assert_eq!(gone.kind, DiskErrorKind::NotFound);
    }

    #[test]
    #[allow(clippy::used_underscore_binding, reason = "held for its end, but here")]
    fn a_directory_is_free_at_once_although_a_starting_program_has_inherited_its_lock() {
        let name = format!("coroner-inherited-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let first = FileDisk::enter(&directory, Missing::Create).unwrap();
        let inherited = first._lock.as_ref().unwrap().0.try_clone().unwrap();
        drop(first);
        let second = FileDisk::enter(&directory, Missing::Refuse).unwrap();
        drop(inherited);
        let third = FileDisk::enter(&directory, Missing::Refuse).unwrap_err();
        assert_eq!(third.kind, DiskErrorKind::InUse);
        drop(second);
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn nobody_but_the_owner_reads_a_data_directory() {
        let directory = std::env::temp_dir().join(format!("coroner-mode-{}", std::process::id()));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let disk = FileDisk::enter(&directory, Missing::Create).unwrap();
        disk.create("file").unwrap();
        let inside = [LOCK_NAME, "file"].map(|name| directory.join(name));
        assert_eq!(mode(&directory), 0o700);
        assert_eq!(inside.each_ref().map(|path| mode(path)), [0o600; 2]);
        assert_eq!(keep_private(&directory).unwrap(), 0);
        // As versions before left it: 0755 and 0644.
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(&inside[1], fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(keep_private(&directory).unwrap(), 2);
        assert_eq!(mode(&directory), 0o700);
        assert_eq!(mode(&inside[1]), 0o600);
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn direct_writes_are_there_and_what_cannot_be_direct_is_written_all_the_same() {
        let directory = std::env::temp_dir().join(format!("coroner-direct-{}", std::process::id()));
        let disk = FileDisk::enter(&directory, Missing::Create).unwrap();
        let file = disk.create("file").unwrap();
        let direct = disk.open_direct("file").or_else(|_| disk.open("file"));
        let direct = direct.unwrap();
        let mut out = Outgoing::new(4096);
        for (piece, end) in [([1; 3_000], 3_000), ([2; 3_000], 6_000)] {
            out.extend(&piece);
            let (offset, bytes) = out.blocks(usize::MAX);
            direct.write_at(offset as u64, bytes).unwrap();
            out.wrote(end);
        }
        direct.write_at(6_000, &[3; 100]).unwrap();
        file.sync().unwrap();
        let mut found = vec![0; 8_192];
        assert_eq!(file.read_at(0, &mut found).unwrap(), 8_192);
        let expect = [vec![1; 3_000], vec![2; 3_000], vec![3; 100], vec![0; 2_092]];
        assert_eq!(found, expect.concat());
        fs::remove_dir_all(&directory).unwrap();
    }
}
