//! Performatives off the hot path, by `serde_amqp`.
