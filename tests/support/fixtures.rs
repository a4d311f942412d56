//! Data directories that released versions wrote, kept below `tests/fixtures` with what each must
//! give in a file `EXPECTED`.

use std::fs;
use std::path::{Path, PathBuf};

use coroner::store::sim_disk::SimDisk;

const EXPECTED: &str = "EXPECTED";

/// One of them, by its path below `tests/fixtures`.
pub fn fixture(path: &str) -> PathBuf {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    fixtures.join(path)
}

/// All of a kind (`store`, `records`, `registry`), of every version, in order.
pub fn fixtures_of(kind: &str) -> Vec<PathBuf> {
    let prefix = format!("{kind}-v");
    let mut versions = folders(&fixture(""));
    versions.retain(|version| {
        let name = version.file_name().unwrap().to_str().unwrap();
        name.starts_with(&prefix)
    });
    let mut found: Vec<PathBuf> = versions
        .iter()
        .flat_map(|version| folders(version))
        .collect();
    found.sort();
    assert!(found.len() >= 2, "found {found:?}");
    found
}

fn folders(below: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(below).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.is_dir()).collect()
}

/// The files of a fixture on a simulated disk, and what it must give.
pub fn load(folder: &Path) -> (SimDisk, String) {
    let disk = SimDisk::default();
    let mut expected = String::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if name == EXPECTED {
            expected = fs::read_to_string(&path).unwrap();
        } else {
            disk.put(&name, &fs::read(&path).unwrap());
        }
    }
    (disk, expected)
}

/// Keeps what is on a disk as a fixture; `describe` says what it gives when it is read.
pub fn save(path: &str, disk: &SimDisk, describe: impl FnOnce(SimDisk) -> String) {
    let folder = fixture(path);
    fs::create_dir_all(&folder).unwrap();
    for (file, content) in disk.files() {
        fs::write(folder.join(file), content).unwrap();
    }
    let expected = describe(load(&folder).0);
    fs::write(folder.join(EXPECTED), expected).unwrap();
}
