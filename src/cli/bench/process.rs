//! CPU time and memory of a process, from /proc.

/// Clock ticks of /proc a second: fixed for user space on Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// A process as /proc sees it at one moment.
#[derive(Clone, Copy, Default)]
pub(super) struct Process {
    /// User and system time of all its threads, in seconds.
    pub(super) cpu_seconds: f64,
    /// Resident memory, in KiB.
    pub(super) rss_kib: u64,
    /// Highest resident memory so far, in KiB.
    pub(super) rss_peak_kib: u64,
}

impl Process {
    /// Reads process `pid`, or this one; none where /proc does not have it.
    pub(super) fn read(pid: Option<u32>) -> Option<Self> {
        let folder = pid.map_or_else(|| "/proc/self".to_owned(), |pid| format!("/proc/{pid}"));
        let stat = read(&format!("{folder}/stat"))?;
        let status = read(&format!("{folder}/status"))?;
        // The name in parentheses may hold anything; utime and stime are fields 14 and 15.
        let (_, fields) = stat.rsplit_once(')')?;
        let ticks = fields.split_whitespace().skip(11).take(2);
        let ticks: f64 = ticks.filter_map(|field| field.parse::<f64>().ok()).sum();
        let size = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key));
            line.and_then(|line| line.split_whitespace().next()?.parse().ok())
                .unwrap_or(0)
        };
        Some(Self {
            cpu_seconds: ticks / TICKS_PER_SECOND,
            rss_kib: size("VmRSS:"),
            rss_peak_kib: size("VmHWM:"),
        })
    }
}

#[allow(clippy::disallowed_methods, reason = "a measuring tool reads /proc")]
fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()
}
