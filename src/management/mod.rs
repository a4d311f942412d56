//! Layer 7: management of one vhost: typed operations and the AMQP node `/management`; the HTTP API
//! without sockets.
//!
//! Promises: every request that is a message gets one answer, a refusal with a text that says why;
//! permissions are checked before anything is changed. Never: no links, no credit (the gateway's),
//! no sockets, no clock.
//!
//! Read first: [`Prepared`], [`Operations`], `http`.

mod administration;
mod answer;
mod body;
mod bounds;
#[cfg(feature = "http")]
pub mod definitions;
mod explain;
mod group_note;
mod happening;
#[cfg(feature = "http")]
pub mod http;
mod looking;
pub mod minute;
mod node;
mod operations;
mod path;
mod put_token;
pub mod rates;
mod redriving;
mod refusal;
pub mod samples;
pub(crate) mod token;

pub use administration::{
    Change, NewPassword, Planned, UserChange, UserLimit, VhostChange, VhostLimit,
};
pub use body::{BindingBody, ExchangeBody, QueueBody};
pub use explain::{
    Culprit, Explanation, LifeStep, NextStep, TargetQueue, TracedSetting, Whereabouts,
};
pub(crate) use group_note::check_group_note;
pub use happening::Happening;
pub use looking::{DeathGroup, DeathGroupNote, DeathGroups, LookRequest};
pub(crate) use looking::{STATES, state_of_word};
#[cfg(test)]
pub use node::handle;
pub use node::{Answer, Audited, Caller, Outcome, Prepared, Progress, RequestError};
pub use operations::{DeclaredQueue, DeleteIf, Operations};
pub use path::{BindingPath, BindingsQuery};
pub use put_token::PutToken;
pub(crate) use redriving::{
    DryRunPlace, check_id, check_note, check_redrive_id, rate_milli, share_ppm,
};
pub use redriving::{RedriveForecast, RedriveGoal, RedriveRequest, RedriveStatus};
pub use refusal::{Refusal, Status};

#[cfg(test)]
mod tests;
