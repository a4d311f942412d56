//! Who gets in, and how: TLS, certificates, SASL, passwords; our own commands among them.
#![allow(
    clippy::disallowed_methods,
    reason = "tests start processes and read clocks"
)]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod certificates;
mod commands;
mod containers;
mod counts;
mod logins;
mod passwords;
mod scram;
mod tls;
mod tokens;

use coroner::{Broker, Settings};

/// Settings of a broker in memory on a free port, with a user `ada`, password `lovelace`.
pub fn settings() -> Settings {
    Settings {
        amqp: vec!["127.0.0.1:0".parse().unwrap()],
        http: "off".parse().unwrap(),
        in_memory: true,
        auto_create: vec!["#".to_owned()],
        user: vec![
            "guest:guest".parse().unwrap(),
            "ada:lovelace".parse().unwrap(),
        ],
        ..Settings::default()
    }
}

/// Starts a broker.
pub async fn start(settings: Settings) -> Broker {
    Broker::builder().settings(settings).start().await.unwrap()
}
