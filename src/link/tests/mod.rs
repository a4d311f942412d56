//! The engine against itself and against peers that send single, even illegal, performatives.

mod handshake;
mod hostile;
mod links;
mod pump;
mod support;
mod transfers;
