//! From a data directory to a running journal and the cores that were in it.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::BrokerDisk;
use super::Store;
use super::clock::SystemClock;
use super::errors::StartError;
use super::setup;
use crate::base::{Lsn, Name, Now, Seed, Timestamp};
use crate::broker::registry::{Piece, Registry, RegistryFact, RestoringAll};
use crate::broker::{Core, Options, Restoring};
use crate::config::Settings;
use crate::node::committer::Committer;
use crate::record::{self, RecordError};
use crate::store::{self, Missing, Restored};

/// Time spent down above this counts as none: rather a wrong clock than a long holiday.
const DOWN_MAX_MS: u64 = 30 * 24 * 60 * 60 * 1000;
/// What a start gives: the registry and the cores of all its vhosts, and the journal unless all
/// lives in memory.
pub(super) struct Recovered {
    pub(super) cores: Vec<Core>,
    pub(super) registry: Registry,
    pub(super) store: Option<Arc<Store>>,
    /// What commits to it.
    pub(super) committer: Option<Committer<BrokerDisk>>,
}

/// Makes registry and cores, out of the data directory if there is to be one; what the settings
/// name is in them.
pub(super) fn recover(
    settings: &Settings,
    seed: Seed,
    clock: SystemClock,
) -> Result<Recovered, StartError> {
    let options = |name: &Name| setup::core_options(settings, name, seed);
    let registry = setup::registry(settings);
    let Some(directory) = settings.data_directory() else {
        let (registry, _) = complete(settings, registry, true)?;
        let cores = registry.vhosts().map(|(name, _)| Core::new(options(name)));
        return Ok(Recovered {
            cores: cores.collect(),
            registry,
            store: None,
            committer: None,
        });
    };
    let fail = |why: &dyn std::fmt::Display| StartError::Data {
        directory: directory.display().to_string(),
        why: why.to_string(),
    };
    let disk = BrokerDisk::enter(directory, Missing::Create).map_err(|error| fail(&error))?;
    let now = clock.now();
    let mut reading = Reading {
        now,
        stopped: now.wall,
        restoring: RestoringAll::new(registry),
        newer: None,
        unreadable: 0,
    };
    let store_options = setup::store_options(settings);
    let sync = store_options.sync;
    let read = store::read(disk, |restored| reading.take(restored, options));
    let read = read.map_err(|error| fail(&error))?;
    if let Some(why) = reading.refusal() {
        return Err(fail(&why));
    }
    let opened = read.open(store_options, setup::seed().0);
    let mut opened = opened.map_err(|error| fail(&error))?;
    // A guest that was deleted does not come back because the record of it is damaged.
    let is_fresh = !reading.restoring.has_registry() && reading.unreadable == 0;
    let (registry, mut restoring, mut facts) = reading.restoring.finish();
    let (registry, missing) = complete(settings, registry, is_fresh)?;
    facts.extend(missing);
    for (name, _) in registry.vhosts() {
        let fresh = || Restoring::new(options(name), now, now.wall, DOWN_MAX_MS);
        restoring.entry(name.clone()).or_insert_with(fresh);
    }
    for (name, vhost) in &mut restoring {
        let names = vhost.names().into_iter();
        let lost = names.filter(|name| !opened.retain(*name)).collect();
        drop_lost(name, vhost, &lost);
    }
    let (segments, replayed) = (opened.recovery().segments, opened.recovery().facts);
    let replayed_bytes = opened.recovery().bytes_read;
    tracing::info!(directory = %directory.display(), segments, facts = replayed, "journal opened");
    let (journal, writer) = opened.start();
    let cores = restoring.into_values().map(Restoring::finish).collect();
    let pace = setup::commit_pace(settings);
    let store = Store::new(journal, replayed_bytes, now.mono);
    let committer = Committer::new(Arc::clone(&store), writer, (sync, pace), Arc::new(clock));
    store.append_registry(now, facts);
    Ok(Recovered {
        cores,
        registry,
        store: Some(store),
        committer: Some(committer),
    })
}

/// Adds what the settings name; also gives the facts of that.
fn complete(
    settings: &Settings,
    mut registry: Registry,
    is_fresh: bool,
) -> Result<(Registry, Vec<RegistryFact>), StartError> {
    let facts = setup::missing(settings, &registry, is_fresh)?;
    for fact in &facts {
        registry.apply(fact.clone());
    }
    Ok((registry, facts))
}

/// Registry and vhosts while their records are read.
struct Reading {
    now: Now,
    stopped: Timestamp,
    restoring: RestoringAll,
    /// What a newer version wrote: it is not to be thrown away.
    newer: Option<RecordError>,
    unreadable: u64,
}

impl Reading {
    /// Why there must be no start: it would throw something away.
    fn refusal(&self) -> Option<String> {
        if self.unreadable > 0 {
            let records = self.unreadable;
            tracing::error!(records, "journal records cannot be read and are left out");
        }
        let error = self.newer.as_ref()?;
        Some(format!("it was written by a newer version: {error}"))
    }

    fn take(&mut self, restored: Restored<'_>, options: impl Fn(&Name) -> Options) {
        let (lsn, payload, in_checkpoint) = match restored {
            Restored::Stamp(stamp) => {
                self.stopped = stamp;
                return;
            }
            Restored::Block { lsn, payload } => (lsn, payload, true),
            Restored::Facts { lsn, payload } => (lsn, payload, false),
        };
        let read = if in_checkpoint {
            record::decode_block(lsn, payload)
        } else {
            record::decode(lsn, payload)
        };
        let (owner, record) = match read {
            Ok(read) => read,
            Err(error) if error.is_of_newer_version() => {
                self.newer = Some(error);
                return;
            }
            Err(error) => {
                self.unreadable += 1;
                tracing::error!(lsn = lsn.0, %error, "a journal record cannot be read");
                return;
            }
        };
        let (now, stopped) = (self.now, self.stopped);
        let record = Piece {
            record,
            in_checkpoint,
        };
        self.restoring.record(&owner, record, |name| {
            Restoring::new(options(name), now, stopped, DOWN_MAX_MS)
        });
    }
}

/// Drops the messages whose records are not there, and tells which queues lost their declarations.
fn drop_lost(name: &Name, vhost: &mut Restoring, lost: &BTreeSet<Lsn>) {
    let damaged = vhost.lose(lost);
    if damaged > 0 {
        tracing::error!(vhost = %name, damaged, "messages without bytes are dropped");
    }
    for (_, queue, messages) in vhost.orphans() {
        tracing::error!(
            vhost = %name,
            %queue,
            messages,
            "the declaration of a queue is lost: what is left of its messages is in a new one"
        );
    }
}
