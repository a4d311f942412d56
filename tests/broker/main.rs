//! The real binary, the embedded broker and the commands, from outside: one program, since each links
//! the whole library.

#[path = "../support/mod.rs"]
mod support;

mod administration;
mod audit;
mod cli;
mod doors;
mod durability;
mod large_messages;
mod operating;
mod recovery;
mod serving;
