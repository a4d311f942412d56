//! Gateways between client engines and a core, all in memory under a fake clock.

mod ahead;
mod attach;
mod consume;
mod dynamic;
mod presettled;
mod publish;
mod rights;
mod support;
mod tokens;
