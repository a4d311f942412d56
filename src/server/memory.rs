//! The memory of this process, as the system counts it.

/// Resident memory of this process in bytes, where the system tells it.
pub(super) fn resident_bytes() -> Option<u64> {
    of_status("VmRSS:")
}

/// Address space of this process in bytes, where the system tells it.
pub(super) fn virtual_bytes() -> Option<u64> {
    of_status("VmSize:")
}

#[allow(
    clippy::disallowed_methods,
    reason = "the system tells it in a file only"
)]
fn of_status(name: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}
