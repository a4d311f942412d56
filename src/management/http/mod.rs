//! The HTTP API without its sockets: its routes, who may use them, their parameters and answers.
//! RabbitMQ's paths, words and codes.
//!
//! ```text
//!  method, path --> route::find --> Route { endpoint, access, .. } --> the server's glue
//!                                                                        |
//!  bytes  <-- Failure, or one of the shapes of `json` <------------------+
//! ```
//!
//! Read first: [`routes`], [`Endpoint`], [`Failure`].

mod access;
mod audit;
mod event_message;
mod events;
mod failure;
mod fields;
mod filter;
mod openapi;
mod paging;
mod publish;
mod query;
mod redrive;
mod route;
mod shape;
mod source;
mod table;

pub mod json;

pub use access::{Access, Identity, authorization};
pub use event_message::write as write_event;
pub use events::{EventFilter, EventsAsked, Since};
pub use failure::Failure;
pub use fields::{Fields, read_body};
pub use filter::{filter_json, filter_of_json, filter_of_query};
pub use openapi::{description, markdown};
pub use paging::{Frame, Listing, Window};
pub use publish::Publication;
pub use query::Query;
pub(crate) use redrive::dry_run as redrive_dry_run;
pub use redrive::{forecast, redrive, redrive_spec};
pub use route::{Endpoint, Method, Params, Route, RouteMatch, find};
pub use shape::{Answer, Field};
pub use source::{Source, check_content_type};
pub use table::routes;

#[cfg(test)]
mod tests;
