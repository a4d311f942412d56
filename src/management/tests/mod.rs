//! Management against the recordings of RabbitMQ 4.0.5, the rights it needs, and garbage.

mod recordings;
mod rights;
mod typed;
