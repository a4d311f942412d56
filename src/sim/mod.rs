//! Layer 10: a seeded simulator: random topologies and commands against the core, an explicit clock,
//! a naive model of the same rules, and a core rebuilt from the facts after every step.
//!
//! Promises: one seed gives one run; a failure has its seed and its last commands. Never: no clock,
//! no thread, no access to the core except by its public interface.
//!
//! Read first: [`World`], [`Model`].

mod check;
mod durable;
mod foresight;
mod model;
mod model_death;
mod model_serve;
mod paging;
mod plan;
mod redriven;
mod told;
mod world;

#[cfg(test)]
mod tests;

pub use durable::{Archive, DurableState, durable_state};
pub use foresight::Foreseen;
pub use model::Model;
pub use world::{Failure, World};

pub use crate::base::Random;
