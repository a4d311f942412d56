//! Management against the recordings of RabbitMQ 4.0.5, the rights it needs, its warnings, and garbage.

mod bounds;
mod recordings;
mod rights;
mod typed;
mod warnings;
