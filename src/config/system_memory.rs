//! The memory that this process may use, of which a share such as `40%` is taken.

use std::path::{Path, PathBuf};

/// The directory of control groups.
const GROUPS: &str = "/sys/fs/cgroup";
/// Depth of nested control groups, at most: the system's own bound is far below.
const GROUP_DEPTH_MAX: usize = 256;

/// The memory of this system, or less where a container has a limit, in bytes; none where the
/// system does not tell it.
pub(super) fn total() -> Option<u64> {
    let system = read("/proc/meminfo").and_then(|text| system_bytes(&text))?;
    let group = read("/proc/self/cgroup").unwrap_or_default();
    let bounds = bounds(&group);
    let bounds = bounds.iter().filter_map(|path| group_bytes(&read(path)?));
    Some(bounds.fold(system, u64::min))
}

#[allow(
    clippy::disallowed_methods,
    reason = "this is the loader: what a share is of must be read"
)]
fn read(path: impl AsRef<Path>) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// `MemTotal` of `/proc/meminfo`.
fn system_bytes(text: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// The files with the limits of this process by its `/proc/self/cgroup`: of its own group and of
/// all around it, and of the older version of groups as a container sees it.
fn bounds(group: &str) -> Vec<PathBuf> {
    let own = group.lines().find_map(|line| line.strip_prefix("0::/"));
    let own = Path::new(GROUPS).join(own.unwrap_or_default());
    let around = own.ancestors().take(GROUP_DEPTH_MAX);
    let mut files: Vec<PathBuf> = around
        .take_while(|path| path.starts_with(GROUPS))
        .map(|path| path.join("memory.max"))
        .collect();
    files.push(Path::new(GROUPS).join("memory/memory.limit_in_bytes"));
    files
}

/// A limit in bytes; `max` is none.
fn group_bytes(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_is_that_of_the_system_bounded_by_every_group_around_the_process() {
        let text = "MemTotal:       16384 kB\nMemFree:         1 kB\n";
        assert_eq!(system_bytes(text), Some(16 << 20));
        assert_eq!(system_bytes("MemFree: 1 kB\n"), None);
        let files = bounds("1:name=x:/old\n0::/pod/box\n");
        let expect = [
            "/sys/fs/cgroup/pod/box/memory.max",
            "/sys/fs/cgroup/pod/memory.max",
            "/sys/fs/cgroup/memory.max",
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        ];
        assert_eq!(files, expect.map(PathBuf::from));
        assert_eq!(group_bytes("536870912\n"), Some(512 << 20));
        assert_eq!(group_bytes("max\n"), None);
    }
}
