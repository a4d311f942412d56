//! Gateways between client engines and a core, all in memory under a fake clock.

mod attach;
mod bearers;
mod browsing;
mod consume;
mod dynamic;
mod echoes;
mod evidence;
mod filters;
mod groups;
mod pieces;
mod presettled;
mod publish;
mod recovery;
mod rights;
mod streaming_body;
mod subscriptions;
mod support;
mod tokens;
