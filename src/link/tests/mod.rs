//! The engine against itself and against peers that send single, even illegal, performatives.

mod dispositions;
mod flow;
mod handshake;
mod hostile;
mod links;
mod parts;
mod pump;
mod runs;
mod support;
mod transactions;
mod transfers;
