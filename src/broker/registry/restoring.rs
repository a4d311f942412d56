//! Rebuilding a broker from the journal's records: its registry and the cores of its vhosts.
#![deny(clippy::wildcard_enum_match_arm)]

use std::collections::BTreeMap;

use super::{OWNER, Registry, RegistryFact, VhostSpec};
use crate::base::Name;
use crate::broker::{Fact, Record, Restoring};

/// Applies records of all vhosts and of the registry, in the order of their LSNs.
#[derive(Debug)]
pub struct RestoringAll {
    registry: Registry,
    vhosts: BTreeMap<Name, Restoring>,
    has_registry: bool,
}

/// A record, from the log or from a checkpoint.
#[derive(Debug)]
pub struct Piece {
    /// The record with its facts.
    pub record: Record,
    /// Whether it is from a checkpoint.
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

    /// Applies the facts of one record. `begin` makes the [`Restoring`] of a vhost.
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
            // Earlier records of its core are of no vhost any more, also where a checkpoint shows
            // the settings of a later vhost of that name: all records of that one are still to
            // come.
            if let RegistryFact::VhostDeleted { name } = &*fact {
                self.vhosts.remove(name);
            }
            self.registry.apply(*fact);
        }
    }

    /// Whether there was any record of the registry. If not, the directory is new, or damage has
    /// destroyed the whole registry: then it is set up as in a new one.
    pub const fn has_registry(&self) -> bool {
        self.has_registry
    }

    /// The registry as rebuilt so far, read-only.
    pub const fn registry(&self) -> &Registry {
        &self.registry
    }

    /// A vhost as rebuilt so far, read-only.
    pub fn vhost(&self, name: &str) -> Option<&Restoring> {
        self.vhosts.get(name)
    }

    /// The registry and its vhosts, once all records are applied. Vhosts without a record of their
    /// own are empty; those whose declaration was lost to damage are kept with their content, and
    /// are added to the registry again by the facts that are returned.
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
