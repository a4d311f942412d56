//! Whole brokers, simulated: nodes on a faulty disk, clients of another make on a faulty network, one
//! clock and one thread. A seed says what happens; what must be true of every broker is checked.
//!
//! ```text
//!  Client --bytes--> Socket (pipes, cuts) --> node::Connection --> Machine (node, SimDisk, committer,
//!     ^                                                             pager, checkpoints, timers)
//!     |  Event                                                           |
//!     v                                                                  v  looks at every queue
//!   World: what happens next ------------------------------------> Ledger: conservation, histories
//! ```

mod act;
mod client;
mod codec;
mod ledger;
mod machine;
mod managing;
mod network;
mod payload;
mod plants;
mod points;
mod redriving;
mod resuming;
mod run;
mod session;
mod topology;
mod transacting;
mod trial;
mod world;
