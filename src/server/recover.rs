//! From the settings to the registry, the cores and the journal that a broker begins with.

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
/// name is in them; a fresh broker whose definitions bring users gets no `guest` beside them.
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
    // What cannot be used is left as it is.
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

/// Makes the directory the owner's only and says so; who cannot (it belongs to somebody else) is told.
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

/// Adds what the settings name; also gives the facts of that.
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
