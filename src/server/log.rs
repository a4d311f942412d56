//! The log of the process: its format, its level, and the change of its level while it runs.

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry, fmt, reload};

use super::errors::{Cause, StartError};
use crate::base::nearest;
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

/// Characters of a wrong word that an error repeats, at most.
const WORD_CHARS_MAX: usize = 64;

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
        // A line that cannot be written would be told on standard error, which panics without one.
        let lines = lines.log_internal_errors(false);
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
        let filter = read(level).map_err(BadLevel::Wrong)?;
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

/// Reads a level, or levels by module with commas between them; the text says what is wrong.
fn read(text: &str) -> Result<EnvFilter, String> {
    let parts = text.split(',').map(|part| {
        let (module, word) = match part.rsplit_once('=') {
            Some((module, word)) => (Some(module.trim()), word.trim()),
            None => (None, part.trim()),
        };
        let other = OTHER_WORDS.iter().find(|(other, _)| *other == word);
        let level = other.map_or(word, |(_, ours)| ours);
        // An unknown word would be taken for the name of a module, and everything else not logged.
        if level.is_empty() || level.parse::<LevelFilter>().is_err() {
            return Err(wrong_level(word));
        }
        Ok(match module {
            Some(module) => format!("{module}={level}"),
            None => level.to_owned(),
        })
    });
    let parts = parts.collect::<Result<Vec<_>, _>>()?;
    EnvFilter::try_new(parts.join(",")).map_err(|error| error.to_string())
}

fn wrong_level(word: &str) -> String {
    let shown: String = word.chars().take(WORD_CHARS_MAX).collect();
    let others = OTHER_WORDS.map(|(word, _)| word);
    let meant = nearest(&word.to_lowercase(), LEVELS.into_iter().chain(others));
    let meant = meant.map_or_else(String::new, |meant| format!("; did you mean '{meant}'?"));
    format!(
        "'{}' is none of the levels {}{meant}",
        shown.escape_debug(),
        LEVELS.join(", ")
    )
}

fn filter(settings: &Settings) -> Result<EnvFilter, StartError> {
    let log = &settings.log;
    let filter = if settings.frame_trace {
        format!("{log},coroner::frames=trace")
    } else {
        log.clone()
    };
    read(&filter).map_err(|why| StartError::LogFilter {
        filter: log.clone(),
        why: Cause::new(why),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `--log debgu` was the name of a module that logs all, so nothing else was logged at all.
    #[test]
    fn a_word_that_is_no_level_is_refused_with_the_levels() {
        for (text, word) in [
            ("debgu", "'debgu'"),
            ("coroner", "'coroner'"),
            ("", "''"),
            ("info,", "''"),
            ("info,coroner::server=debgu", "'debgu'"),
            ("coroner::server=", "''"),
            ("debgu\n", "'debgu'"),
        ] {
            let refused = read(text).expect_err(text);
            let expect =
                format!("{word} is none of the levels off, error, warn, info, debug, trace");
            assert!(refused.starts_with(&expect), "{text}: {refused}");
        }
        let meant = |text: &str| read(text).unwrap_err();
        assert!(meant("debgug").ends_with("; did you mean 'debug'?"));
        assert!(meant("Warnign").ends_with("; did you mean 'warning'?"));
        assert!(meant("coroner").ends_with("trace"));
    }

    #[test]
    fn levels_are_words_of_both_brokers_alone_or_by_module() {
        for (text, shown) in [
            ("info", "info"),
            ("INFO", "info"),
            ("warning", "warn"),
            ("none", "off"),
            (" debug", "debug"),
            ("warn,coroner::server=debug", "coroner::server=debug,warn"),
            ("coroner::frames=trace", "coroner::frames=trace"),
        ] {
            assert_eq!(
                read(text).map(|filter| filter.to_string()),
                Ok(shown.to_owned())
            );
        }
    }
}
