//! The log of the process: its form, its level, and the change of its level while it runs.

use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry, fmt, reload};

use super::errors::StartError;
use crate::config::{LogFormat, Settings};

/// Changes what is logged from now on.
#[derive(Clone, Debug)]
pub(super) struct LogControl {
    filter: reload::Handle<EnvFilter, Registry>,
}

impl LogControl {
    /// Starts the log on standard error.
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

    /// Logs what these settings say.
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
        why: error.to_string(),
    })
}
