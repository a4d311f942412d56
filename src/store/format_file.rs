//! The file `FORMAT`: part 2 of `docs/STORE_FORMAT.md`.

use super::disk::{Disk, DiskFile, read_all};
use super::error::StoreError;
use super::format::VERSION;

pub(super) const NAME: &str = "FORMAT";
const NEW_NAME: &str = "FORMAT.new";
const FIRST_LINE: &str = "coroner store";

/// Writes the file if it is missing or cannot be read.
pub(super) fn write_if_missing<D: Disk>(disk: &D) -> Result<(), StoreError> {
    if version(disk)?.is_some() {
        return Ok(());
    }
    let file = disk.create(NEW_NAME)?;
    file.write_at(0, format!("{FIRST_LINE}\nversion {VERSION}\n").as_bytes())?;
    file.sync()?;
    disk.rename(NEW_NAME, NAME)?;
    disk.sync_directory()?;
    Ok(())
}

/// The version in the file; none if it is missing or cannot be read.
pub(super) fn version<D: Disk>(disk: &D) -> Result<Option<u32>, StoreError> {
    if !disk.list()?.iter().any(|name| name == NAME) {
        return Ok(None);
    }
    let bytes = read_all(&disk.open(NAME)?)?;
    let text = String::from_utf8_lossy(&bytes);
    let mut lines = text.lines();
    if lines.next() != Some(FIRST_LINE) {
        return Ok(None);
    }
    let version = lines.next().and_then(|line| line.strip_prefix("version "));
    Ok(version.and_then(|number| number.parse().ok()))
}

/// Fails for a version newer than this program's.
pub(super) fn refuse_newer(found: u32) -> Result<(), StoreError> {
    if found > u32::from(VERSION) {
        return Err(StoreError::NewerVersion {
            name: NAME.to_owned(),
            found,
            supported: VERSION.into(),
        });
    }
    Ok(())
}
