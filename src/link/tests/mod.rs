//! The engine against itself and against peers that send single, even illegal, performatives.

mod hostile;
mod pump;
mod support;
