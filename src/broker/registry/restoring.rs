//! A broker is rebuilt from the journal's records: its registry and the cores of its vhosts.
#![deny(clippy::wildcard_enum_match_arm)]

use std::collections::BTreeMap;

use super::{OWNER, Registry, RegistryFact, VhostSpec};
use crate::base::Name;
use crate::broker::{Fact, Record, Restoring};

/// Reads records of all owners, in the order of their LSNs.
#[derive(Debug)]
pub struct RestoringAll {
    registry: Registry,
    vhosts: BTreeMap<Name, Restoring>,
    has_registry: bool,
}

/// A record, or a piece of a checkpoint.
#[derive(Debug)]
pub struct Piece {
    /// What it says.
    pub record: Record,
    /// It is a piece of a checkpoint.
    pub in_checkpoint: bool,
}

impl RestoringAll {
    /// Begins with an empty registry.
    pub const fn new(registry: Registry) -> Self {
        Self {
            registry,
            vhosts: BTreeMap::new(),
            has_registry: false,
        }
    }

    /// Applies the facts of one record. `begin` makes what reads a vhost's records.
    pub fn record(&mut self, owner: &Name, piece: Piece, begin: impl FnOnce(&Name) -> Restoring) {
        let Piece {
            record,
            in_checkpoint,
        } = piece;
        if &**owner != OWNER {
            let begin = || begin(owner);
            let vhost = self.vhosts.entry(owner.clone()).or_insert_with(begin);
            if in_checkpoint {
                vhost.checkpoint(&record);
            } else {
                vhost.record(&record);
            }
            return;
        }
        self.has_registry = true;
        for fact in record.facts {
            let Fact::Registry(fact) = fact else {
                continue;
            };
            // What its core did before belongs to nobody, also where a checkpoint shows what a
            // later vhost of that name is like: all records of that one are still to come.
            if let RegistryFact::VhostDeleted { name } = &*fact {
                self.vhosts.remove(name);
            }
            self.registry.apply(*fact);
        }
    }

    /// Whether there was any record of the registry. If not, the directory is new, or damage has
    /// taken the registry as a whole: then it is set up as in a new one.
    pub const fn has_registry(&self) -> bool {
        self.has_registry
    }

    /// What was rebuilt so far, to look at.
    pub const fn registry(&self) -> &Registry {
        &self.registry
    }

    /// What was rebuilt so far of a vhost, to look at.
    pub fn vhost(&self, name: &str) -> Option<&Restoring> {
        self.vhosts.get(name)
    }

    /// All records are read: the registry, and what is in its vhosts. Those without a record of
    /// their own are empty; those whose declaration damage has taken are kept with what is in them,
    /// and are in the registry again by the facts that are returned.
    pub fn finish(self) -> (Registry, BTreeMap<Name, Restoring>, Vec<RegistryFact>) {
        let Self {
            mut registry,
            vhosts,
            ..
        } = self;
        let unknown = vhosts.keys().filter(|name| registry.vhost(name).is_none());
        let facts: Vec<RegistryFact> = unknown
            .map(|name| RegistryFact::VhostSet {
                name: name.clone(),
                spec: VhostSpec::default(),
            })
            .collect();
        for fact in &facts {
            registry.apply(fact.clone());
        }
        (registry, vhosts, facts)
    }
}
