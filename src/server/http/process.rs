//! Routes to the process: its settings and its log.

#[cfg(feature = "cli")]
use serde_json::json;

use super::api::Call;
use super::reply::Reply;
#[cfg(feature = "cli")]
use crate::base::limits::LOG_LEVEL_BYTES_MAX;
use crate::management::http::Failure;
#[cfg(feature = "cli")]
use crate::server::log::{BadLevel, LogControl};

/// Why there is no level of the log in an embedded broker.
const EMBEDDED: &str = "the log belongs to the program that embeds this broker";

/// `GET /api/environment`: the current settings, those changed by a SIGHUP included.
#[cfg(feature = "cli")]
#[allow(clippy::unnecessary_wraps, reason = "without the feature it fails")]
pub(super) fn environment(call: &Call<'_>) -> Result<Reply, Failure> {
    let settings = crate::config::shown(&call.shared.live.read());
    Ok(Reply::Json(json!({ "settings": settings })))
}

/// `GET /api/environment` without the table of settings: those of an embedding program are in its
/// code.
#[cfg(not(feature = "cli"))]
pub(super) fn environment(_: &Call<'_>) -> Result<Reply, Failure> {
    Err(Failure::bad_request(
        "the settings are those of the program that embeds this broker",
    ))
}

/// `GET /api/log-level`.
#[cfg(feature = "cli")]
pub(super) fn log_level(call: &Call<'_>) -> Result<Reply, Failure> {
    let level = call.shared.log.get().and_then(LogControl::level);
    let level = level.ok_or_else(|| Failure::bad_request(EMBEDDED))?;
    Ok(Reply::Json(json!({ "level": level })))
}

/// `PUT /api/log-level`.
#[cfg(feature = "cli")]
pub(super) fn put_log_level(call: &Call<'_>) -> Result<Reply, Failure> {
    let fields = call.fields()?;
    fields.require(&["level"])?;
    fields.allow(&["level"])?;
    let level = fields.text("level")?.unwrap_or_default();
    if level.len() > LOG_LEVEL_BYTES_MAX {
        let why = format!("the field 'level' has at most {LOG_LEVEL_BYTES_MAX} bytes");
        return Err(Failure::bad_request(why));
    }
    let log = call.shared.log.get();
    let log = log.ok_or_else(|| Failure::bad_request(EMBEDDED))?;
    match log.set(level) {
        Ok(level) => {
            tracing::info!(level, "the log follows the HTTP API");
            Ok(Reply::Stored {
                created: false,
                warnings: Vec::new(),
            })
        }
        Err(BadLevel::Wrong(why)) => Err(Failure::bad_request(format!("the field 'level': {why}"))),
        Err(BadLevel::Foreign) => Err(Failure::bad_request(EMBEDDED)),
    }
}

/// `GET /api/log-level` in an embedded broker.
#[cfg(not(feature = "cli"))]
pub(super) fn log_level(_: &Call<'_>) -> Result<Reply, Failure> {
    Err(Failure::bad_request(EMBEDDED))
}

/// `PUT /api/log-level` in an embedded broker.
#[cfg(not(feature = "cli"))]
pub(super) fn put_log_level(_: &Call<'_>) -> Result<Reply, Failure> {
    Err(Failure::bad_request(EMBEDDED))
}
