//! Floor 8: tokio: listeners, connection drivers, timers.
