//! Topologies from definitions: a sandbox for each vhost.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use super::report::Silence;
use super::sandbox::Sandbox;
use crate::base::Name;
use crate::broker::arguments::OnUndeliverable;
use crate::management::definitions::{self, ImportStep, Problem};
use crate::management::{Change, Refusal};

/// The global parameter that silences findings.
pub const PARAMETER: &str = "lint";

/// The vhosts of a definitions object.
#[derive(Debug, Default)]
pub struct Topology {
    /// The vhosts with queues, exchanges or policies, by name.
    pub vhosts: BTreeMap<Name, Sandbox>,
    /// The items that could not be looked at.
    pub not_read: Vec<NotRead>,
    /// What the definitions themselves silence.
    pub silences: Vec<Silence>,
}

/// An item of a definitions object that was left out, as an import would leave it out or refuse it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotRead {
    /// The item: `queue 'q' in vhost '/'`.
    pub item: String,
    /// Why it was left out.
    pub why: String,
}

impl Topology {
    /// Reads definitions, of this broker or of a RabbitMQ; of one vhost, if one is named.
    ///
    /// 400: it is not a definitions object, or `lint` in it does not silence as it should.
    pub fn read(
        json: &Json,
        vhost: Option<&Name>,
        undeliverable: OnUndeliverable,
    ) -> Result<Self, Refusal> {
        let mut topology = Self {
            silences: Silence::of_definitions(json)?,
            ..Self::default()
        };
        topology.add(json, vhost, undeliverable)?;
        Ok(topology)
    }

    /// Adds definitions to what was read.
    ///
    /// 400: it is not a definitions object.
    pub fn add(
        &mut self,
        json: &Json,
        vhost: Option<&Name>,
        undeliverable: OnUndeliverable,
    ) -> Result<(), Refusal> {
        for item in definitions::read(json, vhost)? {
            let why = match item.step {
                Ok(ImportStep::Command(vhost, command)) => {
                    let sandbox = self.vhost(&vhost, undeliverable);
                    match sandbox.declare(*command) {
                        Ok(()) => continue,
                        Err(error) => error.to_string(),
                    }
                }
                Ok(ImportStep::Change(Change::VhostPut { name, vhost })) => {
                    let sandbox = self.vhost(&name, undeliverable);
                    sandbox.default_queue_type(vhost.default_queue_type);
                    continue;
                }
                Ok(ImportStep::Change(_)) => continue,
                Err(Problem::Unsupported(why) | Problem::Wrong(why)) => why,
            };
            self.not_read.push(NotRead {
                item: item.what,
                why,
            });
        }
        Ok(())
    }

    fn vhost(&mut self, name: &Name, undeliverable: OnUndeliverable) -> &mut Sandbox {
        let vhosts = self.vhosts.entry(name.clone());
        vhosts.or_insert_with(|| Sandbox::new(name.clone(), undeliverable))
    }
}
