//! The broker as a service: notifications to systemd, and SIGHUP.

use std::sync::Arc;

use sd_notify::NotifyState;
use tokio::signal::unix::Signal;

use super::live;
use super::log::LogControl;
use super::shared::Shared;
use crate::config::{self, ConfigError, Settings};

/// Notifies systemd, if it asks for that.
pub(super) fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "cannot tell systemd");
    }
}

/// Notifies systemd's watchdog, if it has one, twice in its interval, as long as the broker works.
pub(super) async fn feed_watchdog(shared: Arc<Shared>) {
    let Some(limit) = sd_notify::watchdog_enabled() else {
        return;
    };
    loop {
        let asked = Arc::clone(&shared);
        match tokio::task::spawn_blocking(move || asked.ailment()).await {
            Ok(None) => tell(&[NotifyState::Watchdog]),
            Ok(Some(why)) => tracing::error!(why, "the watchdog is not fed"),
            Err(_) => return,
        }
        tokio::time::sleep(limit / 2).await;
    }
}

/// Reloads the settings at each SIGHUP and applies those that can change while the broker runs.
pub(super) async fn follow_settings(
    mut hangup: Signal,
    shared: Arc<Shared>,
    log: LogControl,
    mut current: Settings,
    load: impl Fn() -> Result<Settings, ConfigError>,
) {
    while hangup.recv().await.is_some() {
        match NotifyState::monotonic_usec_now() {
            Ok(now) => tell(&[NotifyState::Reloading, now]),
            Err(_) => tell(&[NotifyState::Reloading]),
        }
        match load() {
            Ok(settings) => {
                follow(&shared, &log, &current, &settings);
                current = settings;
            }
            Err(error) => tracing::error!(%error, "settings not loaded: all stay as they are"),
        }
        tell(&[NotifyState::Ready]);
    }
}

fn follow(shared: &Shared, log: &LogControl, old: &Settings, new: &Settings) {
    let changed = config::changed(old, new);
    let touches = |keys: &[&str]| changed.iter().any(|name| keys.contains(name));
    if touches(&LOG_KEYS) {
        match log.follow(new) {
            Ok(()) => tracing::info!(log = new.log, "the log follows the settings"),
            Err(error) => tracing::error!(%error, "the log stays as it is"),
        }
    }
    if touches(&ACCESS_KEYS) {
        match shared.follow_access(new) {
            Ok(changes) => tracing::info!(changes, "vhosts, users and permissions were loaded"),
            Err(error) => tracing::error!(%error, "vhosts, users and permissions stay as they are"),
        }
    }
    if let Some(tls) = &shared.tls {
        match tls.reload() {
            Ok(()) => tracing::info!("the files for TLS were loaded"),
            Err(error) => tracing::error!(%error, "the files for TLS that are in use stay"),
        }
    }
    let logins = shared.logins.clone();
    shared.spawn(async move { logins.reload_keys().await });
    let live = live::follow(shared, old, new);
    for setting in changed
        .iter()
        .filter(|name| !touches_at_once(name) && !live.contains(name))
    {
        tracing::warn!(setting, "this setting changes at the next start only");
    }
    tracing::info!(changed = changed.len(), "settings loaded");
}

fn touches_at_once(name: &str) -> bool {
    LOG_KEYS.contains(&name) || ACCESS_KEYS.contains(&name)
}

/// Settings of the log, which can change while the broker runs.
const LOG_KEYS: [&str; 2] = ["frame-trace", "log"];
/// Settings of vhosts, users and permissions that can change. Objects that they no longer name
/// stay.
const ACCESS_KEYS: [&str; 4] = ["loopback-user", "permission", "user", "vhost"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_at_once_are_settings() {
        for name in LOG_KEYS.iter().chain(&ACCESS_KEYS).chain(live::KEYS) {
            assert!(config::find(name).is_some(), "{name}");
        }
    }
}
