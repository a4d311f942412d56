//! File descriptors: how many the process may open, and how many of these connections may use.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::config::Settings;

/// Divisor: the share of all descriptors that AMQP connections may not use, but not more than
/// [`SPARE_MAX`]: for segments of the journal, HTTP, listeners, files that are reloaded.
const SPARE_SHARE: u64 = 4;
const SPARE_MAX: u64 = 2_048;
/// Divisor: the share of these that HTTP may use.
const HTTP_SHARE: u64 = 2;

/// Raises the limit of open files to the most that the system allows; the default is lower for the
/// sake of programs that use `select`. To be called once, before anything is opened.
pub(super) fn raise_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return;
    }
    let raised = Rlimit {
        current: maximum,
        maximum,
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "the limit of open files cannot be raised");
    }
}

/// Number of open files and sockets, and the limit, where the system tells them.
#[allow(
    clippy::disallowed_methods,
    reason = "the system tells it in a directory only"
)]
pub(super) fn open_files() -> (Option<u64>, Option<u64>) {
    let open = std::fs::read_dir("/proc/self/fd").ok();
    // The directory is open itself while it is read.
    let open = open.map(|open| (open.count() as u64).saturating_sub(1));
    (open, getrlimit(Resource::Nofile).current)
}

/// The settings with no more connections than there are descriptors for: existing connections, the
/// journal and HTTP go on when too many clients connect.
pub(super) fn fit(settings: Settings) -> Settings {
    // None: there is no limit.
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let wanted = settings.connections_max;
    let settings = fit_into(settings, limit);
    if settings.connections_max < wanted {
        let connections_max = settings.connections_max;
        tracing::warn!(
            limit,
            connections_max,
            wanted,
            "too few open files are allowed for connections-max: raise the hard limit \
             (LimitNOFILE of systemd, ulimit -n)"
        );
    }
    settings
}

fn fit_into(mut settings: Settings, limit: u64) -> Settings {
    let spare = (limit / SPARE_SHARE).min(SPARE_MAX);
    let at_most = |count: u32, limit: u64| {
        let limit = u32::try_from(limit).unwrap_or(u32::MAX);
        count.min(limit.max(1))
    };
    settings.connections_max = at_most(settings.connections_max, limit - spare);
    settings.http_connections_max = at_most(settings.http_connections_max, spare / HTTP_SHARE);
    settings
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::enough(1_048_576, 10_000, 256)]
    #[case::ordinary_soft_limit(1_024, 768, 128)]
    #[case::just_enough(12_048, 10_000, 256)]
    #[case::one_too_few(12_047, 9_999, 256)]
    #[case::hardly_any(4, 3, 1)]
    #[case::none(0, 1, 1)]
    fn connections_leave_descriptors_for_journal_and_http(
        #[case] limit: u64,
        #[case] connections: u32,
        #[case] http: u32,
    ) {
        let fitted = fit_into(Settings::default(), limit);
        let fitted = (fitted.connections_max, fitted.http_connections_max);
        assert_eq!(fitted, (connections, http));
    }
}
