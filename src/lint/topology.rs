//! Topologies from definitions: a sandbox for each vhost.

use std::collections::{BTreeMap, BTreeSet};

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

/// An item of a definitions object that was left out, as an import would leave it out or refuse it; or a
/// part of a vhost that it takes too long to look at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotRead {
    /// The item: `queue 'q' in vhost '/'`.
    pub item: String,
    /// Why it was left out.
    pub why: String,
}

/// What becomes of items of kinds that this broker does not have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unknown {
    /// They exist, as in the broker that exported them: nothing is claimed of them, nor of a name that they
    /// have that it is missing.
    Exist,
    /// They do not exist, as after an import.
    LeftOut,
}

impl Topology {
    /// Reads definitions, of this broker or of a RabbitMQ, as they stand; of one vhost, if one is named.
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
        topology.add(json, vhost, undeliverable, Unknown::Exist)?;
        Ok(topology)
    }

    /// The vhosts that have an object among these definitions.
    ///
    /// 400: it is not a definitions object.
    pub fn vhosts_of(json: &Json, vhost: Option<&Name>) -> Result<BTreeSet<Name>, Refusal> {
        let items = definitions::read(json, vhost)?.into_iter();
        let named = items.filter_map(|item| match item.step {
            Ok(ImportStep::Command(vhost, _)) => Some(vhost),
            Ok(ImportStep::Change(_)) | Err(_) => item.stand_in.map(|stand_in| stand_in.vhost),
        });
        Ok(named.collect())
    }

    /// Sets the type of queues that are declared without one in a vhost.
    pub fn default_queue_type(
        &mut self,
        vhost: &Name,
        kind: Option<Name>,
        undeliverable: OnUndeliverable,
    ) {
        self.vhost(vhost, undeliverable).default_queue_type(kind);
    }

    /// Adds definitions to what was read.
    ///
    /// 400: it is not a definitions object.
    pub fn add(
        &mut self,
        json: &Json,
        vhost: Option<&Name>,
        undeliverable: OnUndeliverable,
        unknown: Unknown,
    ) -> Result<(), Refusal> {
        for item in definitions::read(json, vhost)? {
            if let Some(stand_in) = item.stand_in
                && unknown == Unknown::Exist
            {
                let sandbox = self.vhost(&stand_in.vhost, undeliverable);
                sandbox.stand_in(*stand_in);
            }
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
                    // What an import does not name stays as it is.
                    if vhost.default_queue_type.is_some() {
                        sandbox.default_queue_type(vhost.default_queue_type);
                    }
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
