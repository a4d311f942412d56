//! The log of the process: its format, its level, and the change of its level while it runs.

use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry, fmt, reload};

use super::errors::{Cause, StartError};
use crate::config::{LogFormat, Settings};

/// RabbitMQ's words for levels with other names here.
const OTHER_WORDS: [(&str, &str); 4] = [
    ("warning", "warn"),
    ("critical", "error"),
    ("none", "off"),
    ("notice", "info"),
];
/// The levels, from no lines to all.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Why a level cannot be set.
#[derive(Debug)]
pub(super) enum BadLevel {
    /// It is not a level; the text says why.
    Wrong(String),
    /// The log of this process belongs to the program that embeds the broker.
    Foreign,
}

/// Changes the level of the log.
#[derive(Clone, Debug)]
pub(super) struct LogControl {
    filter: reload::Handle<EnvFilter, Registry>,
}

impl LogControl {
    /// Starts logging to standard error.
    pub(super) fn start(settings: &Settings) -> Result<Self, StartError> {
        let (filter, handle) = reload::Layer::new(filter(settings)?);
        let log = tracing_subscriber::registry().with(filter);
        let lines = fmt::layer().with_writer(std::io::stderr).with_ansi(false);
        // A second broker in one process keeps the first one's log.
        let _ = match settings.log_format {
            LogFormat::Text => log.with(lines).try_init(),
            LogFormat::Json => log.with(lines.json().flatten_event(true)).try_init(),
        };
        Ok(Self { filter: handle })
    }

    /// The current level.
    pub(super) fn level(&self) -> Option<String> {
        self.filter.with_current(ToString::to_string).ok()
    }

    /// Sets the level, or levels by module, until the settings of the log change or the broker
    /// ends. Returns the level as it is then.
    pub(super) fn set(&self, level: &str) -> Result<String, BadLevel> {
        let other = OTHER_WORDS.iter().find(|(word, _)| *word == level);
        let level = other.map_or(level, |(_, ours)| ours);
        // An unknown word would be taken for the name of a module.
        let parts = level.split(',').map(|part| part.rsplit('=').next());
        if let Some(word) = parts.flatten().find(|word| !LEVELS.contains(&word.trim())) {
            let levels = LEVELS.join(", ");
            return Err(BadLevel::Wrong(format!(
                "'{word}' is none of the levels {levels}"
            )));
        }
        let filter =
            EnvFilter::try_new(level).map_err(|error| BadLevel::Wrong(error.to_string()))?;
        self.filter.reload(filter).map_err(|_| BadLevel::Foreign)?;
        self.level().ok_or(BadLevel::Foreign)
    }

    /// Sets the level that these settings say.
    pub(super) fn follow(&self, settings: &Settings) -> Result<(), StartError> {
        let filter = filter(settings)?;
        if self.filter.reload(filter).is_err() {
            tracing::warn!("the log of this process belongs to another broker: it stays as it is");
        }
        Ok(())
    }
}

fn filter(settings: &Settings) -> Result<EnvFilter, StartError> {
    let filter = if settings.frame_trace {
        format!("{},coroner::frames=trace", settings.log)
    } else {
        settings.log.clone()
    };
    EnvFilter::try_new(&filter).map_err(|error| StartError::LogFilter {
        filter,
        why: Cause::new(error),
    })
}
