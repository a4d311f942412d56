//! The rules of the core, one claim a test.

mod assignment;
mod cycles;
mod dead_letters;
mod delays;
mod discard;
mod durability;
mod evidence;
mod foresight;
mod histories;
mod lifecycle;
mod limits;
mod memory;
mod outcomes;
mod paging;
mod pieces;
mod policies;
mod quarantine;
mod redrive;
mod redrive_outcome;
mod redrive_steering;
pub(crate) mod scenario;
mod scheduled;
mod selecting;
mod timeouts;
mod times;
mod topology;
mod waiting;
