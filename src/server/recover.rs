//! Recovery at the start: from the settings to the registry, the cores and the journal.

use std::path::Path;
use std::sync::Arc;

use super::BrokerDisk;
use super::Store;
use super::clock::SystemClock;
use super::errors::{Cause, StartError};
use super::{progress, setup};
use crate::base::{Gauge, Name, Seed};
use crate::broker::Core;
use crate::broker::registry::{Registry, RegistryFact};
use crate::config::Settings;
use crate::node::committer::Committer;
use crate::node::recover::{NotRecovered, ReadingProgress, RecoveryPlan};
use crate::store::{self, Missing};

/// The result of recovery: the registry, the cores of all vhosts, and the journal unless everything
/// is in memory.
pub(super) struct Recovered {
    pub(super) cores: Vec<Core>,
    pub(super) registry: Registry,
    pub(super) store: Option<Arc<Store>>,
    /// The committer of the journal; none without one.
    pub(super) committer: Option<Committer<BrokerDisk>>,
}

/// Recovers registry and cores, from the data directory if there is one, and adds what the settings
/// name; a new broker whose definitions have users gets no `guest`.
pub(super) fn recover(
    settings: &Settings,
    brings_users: bool,
    seed: Seed,
    (clock, kept): (SystemClock, &Gauge),
) -> Result<Recovered, StartError> {
    let options = |name: &Name| setup::core_options(settings, name, (seed, kept));
    let registry = setup::registry(settings);
    let Some(directory) = settings.data_directory() else {
        let (registry, _) = complete(settings, brings_users, registry, true)?;
        let cores = registry.vhosts().map(|(name, _)| Core::new(options(name)));
        return Ok(Recovered {
            cores: cores.collect(),
            registry,
            store: None,
            committer: None,
        });
    };
    let fail = |why: Cause| StartError::Data {
        directory: directory.display().to_string(),
        why,
    };
    let disk =
        BrokerDisk::enter(directory, Missing::Create).map_err(|error| fail(Cause::new(error)))?;
    let progress = Arc::new(ReadingProgress::default());
    let telling = progress::tell(Arc::clone(&progress));
    let entry = RecoveryPlan {
        registry,
        core_options: options,
        store_options: setup::store_options(settings),
        group_commit: setup::group_commit(settings),
        seed: setup::seed().0,
        clock: Arc::new(clock),
        progress: Arc::clone(&progress),
    };
    let complete = |registry, is_fresh| complete(settings, brings_users, registry, is_fresh);
    let recovered = entry.recover(disk, complete).map_err(|error| match error {
        NotRecovered::Data(why) => fail(Cause::new(why)),
        NotRecovered::Registry(error) => error,
    })?;
    drop(telling);
    // A directory that cannot be used is left as it is.
    keep_private(directory);
    let (segments, facts) = recovered.read;
    tracing::info!(directory = %directory.display(), segments, facts, "journal opened");
    Ok(Recovered {
        cores: recovered.cores,
        registry: recovered.registry,
        store: Some(recovered.store),
        committer: Some(recovered.committer),
    })
}

/// Makes the directory accessible to its owner only and logs that; if that fails (it belongs to
/// another user), logs a warning.
fn keep_private(directory: &Path) {
    let tightened = store::keep_private(directory);
    let directory = directory.display();
    match tightened {
        Ok(0) => {}
        Ok(count) => tracing::warn!(
            %directory, count,
            "others had rights in the data directory: it is 0700 now, its files 0600"
        ),
        Err(error) => tracing::warn!(
            %directory, %error,
            "others may have rights in the data directory, which cannot be taken from them"
        ),
    }
}

/// Adds what the settings name; also returns the facts for it.
fn complete(
    settings: &Settings,
    brings_users: bool,
    mut registry: Registry,
    is_fresh: bool,
) -> Result<(Registry, Vec<RegistryFact>), StartError> {
    let facts = setup::missing(settings, &registry, is_fresh, is_fresh && !brings_users)?;
    for fact in &facts {
        registry.apply(fact.clone());
    }
    Ok((registry, facts))
}
