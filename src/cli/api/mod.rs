//! The HTTP API as a client: its address, requests, and the meaning of answers.
//!
//! It speaks the API that RabbitMQ's management plugin has, so it manages a RabbitMQ as well.
//! Promises: a refusal becomes a [`Failure`](super::exit::Failure) that names the thing and says
//! what to do; long lists are fetched by page; nothing is retried.
//!
//! Read [`Flags`] first, then [`Settings`], then [`Api`].

mod client;
mod endpoint;
mod flags;
mod path;
mod settings;
pub(super) mod tls;

pub(super) use client::Api;
pub(super) use endpoint::{AMQP, HTTP};
pub(super) use flags::Flags;
pub(super) use path::Path;
pub(super) use settings::Settings;
