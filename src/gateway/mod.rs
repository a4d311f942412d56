//! Floor 7: one connection between the link engine and the core: link events become commands,
//! effects become link calls. Sans-IO.
//!
//! Promises: every answer a peer sees beyond the protocol itself is decided here or in the core.
//! Never: no IO, no clock, no lock held across a call of the link engine.

mod address;
mod pattern;
