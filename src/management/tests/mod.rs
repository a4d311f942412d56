//! Management against the recordings of RabbitMQ 4.0.5, with our differences listed.

mod recordings;
mod typed;
