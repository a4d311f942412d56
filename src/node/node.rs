//! The node itself: what its connections, vhosts and the journal share.

use std::sync::Arc;

use super::alarm::{Board, Watch};
use super::clock::SharedClock;
use super::events::Events;
use super::pager::{Pager, SpillTarget};
use super::partials::Partials;
use super::store::Store;
use super::vhost::Vhost;
use super::vhosts::Vhosts;
use crate::access::{Password, Tag};
use crate::base::locks::{RankedMutex, rank};
use crate::base::{Gauge, Lsn, Name, Signal};
use crate::broker::redrive::{RedriveCommand, RedriveRights};
use crate::broker::registry::{Registry, RegistryFact, Rights};
use crate::broker::{Command, Core, CoreOptions, PublisherCommand, UpkeepCommand};
use crate::gateway::{Bodies, Environment};
use crate::store::Disk;

/// A broker without sockets, threads and clocks: the server runs it, and so does the simulator.
#[derive(Debug)]
pub(crate) struct Node<D: Disk> {
    pub(crate) clock: SharedClock,
    /// The registry, and what gateways share.
    pub(crate) environment: Arc<Environment>,
    pub(crate) vhosts: Arc<Vhosts<D>>,
    /// The journal; none: messages live in memory only.
    pub(crate) store: Option<Arc<Store<D>>>,
    pub(crate) pager: Arc<Pager<D>>,
    /// The bound on incomplete incoming messages.
    pub(crate) partials: Arc<Partials>,
    /// The alarms, which stop publishers.
    pub(crate) alarms: Arc<Board>,
    /// Signalled when the core of a vhost fails.
    pub(crate) failure: Arc<Signal>,
    /// Options of the cores of vhosts, apart from the name.
    pub(crate) core_options: CoreOptions,
    /// The type of queues that are declared without `x-queue-type`.
    pub(crate) default_queue_type: Name,
    /// What happened lately in the vhosts.
    pub(crate) events: Events,
    /// Held while the registry is changed.
    pub(crate) changes: RankedMutex<rank::RegistryChange, ()>,
}

/// What a node is made of.
#[derive(Debug)]
pub(crate) struct NodeParts<D: Disk> {
    pub(crate) clock: SharedClock,
    pub(crate) environment: Environment,
    /// The journal, if there is one.
    pub(crate) store: Option<Arc<Store<D>>>,
    /// Where messages go that memory has no room for.
    pub(crate) spill_target: SpillTarget<D>,
    pub(crate) memory_budget_bytes: u64,
    /// The largest message that is taken, in bytes.
    pub(crate) message_bytes_max: u64,
    /// What counts that is no message.
    pub(crate) kept: Gauge,
    pub(crate) core_options: CoreOptions,
    pub(crate) default_queue_type: Name,
}

/// What a change of the registry came to.
#[derive(Debug)]
#[must_use]
pub(crate) struct Committed<D: Disk> {
    /// The record to wait for; 0: none.
    pub(crate) lsn: Lsn,
    /// New vhosts: the caller has to drive their timers.
    pub(crate) started: Vec<Arc<Vhost<D>>>,
    /// Deleted vhosts: the caller has to free their content.
    pub(crate) deleted: Vec<Arc<Vhost<D>>>,
}

impl<D: Disk> Node<D> {
    /// A node without vhosts.
    pub(crate) fn new(parts: NodeParts<D>) -> Self {
        let bodies = parts.store.clone().map(|store| store as Arc<dyn Bodies>);
        let pager = Pager::new(parts.spill_target, parts.memory_budget_bytes);
        Self {
            clock: parts.clock,
            environment: Arc::new(parts.environment.with_bodies(bodies)),
            vhosts: Arc::default(),
            store: parts.store,
            pager: Arc::new(pager),
            partials: Arc::new(Partials::new(parts.message_bytes_max)),
            alarms: Arc::new(Board::counting(parts.kept)),
            failure: Arc::default(),
            events: Events::new(parts.core_options.events.clone()),
            core_options: parts.core_options,
            default_queue_type: parts.default_queue_type,
            changes: RankedMutex::default(),
        }
    }

    /// Makes a core part of the broker. Somebody has to fire what is due in it.
    pub(crate) fn start_vhost(&self, mut core: Core) -> Arc<Vhost<D>> {
        let events = self.events.ring(&mut core);
        let now = self.clock.now().mono;
        let forgotten = self.environment.restore_links(now, &core);
        let (clock, failure) = (Arc::clone(&self.clock), Arc::clone(&self.failure));
        let (store, pager) = (self.store.clone(), Arc::clone(&self.pager));
        let seed = self.core_options.seed;
        let context = (seed, clock, failure);
        let vhost = Arc::new(Vhost::new(core, (store, pager, events), context));
        self.vhosts.add(&vhost, self.settings_of(vhost.name()));
        self.tell_redrive_rights(&vhost);
        for link in forgotten {
            forget_link(&vhost, link);
        }
        vhost
    }

    /// Forgets the links whose time is over that outlived their connections. To be called now and then.
    pub(crate) fn expire_links(&self) {
        for (vhost, link) in self.environment.expire_links(self.clock.now().mono) {
            if let Some(vhost) = self.vhosts.get(&vhost) {
                forget_link(&vhost, link);
            }
        }
    }

    /// Tells a vhost what the users of its redrives may do now.
    pub(crate) fn tell_redrive_rights(&self, vhost: &Vhost<D>) {
        let Ok(users) = vhost.look(Core::redrive_users) else {
            return; // a failed vhost reports that itself
        };
        let registry = self.environment.registry();
        for user in users {
            let rights = redrive_rights(&registry, vhost.name(), &user);
            // A failed vhost reports that itself.
            let _ = vhost.command(Command::Redrive(RedriveCommand::Rights { user, rights }));
        }
    }

    /// The registry's settings for a vhost, as a command for its core.
    fn settings_of(&self, vhost: &Name) -> Option<Command> {
        let registry = self.environment.registry();
        let spec = &registry.vhost(vhost)?.spec;
        let default = || self.default_queue_type.clone();
        Some(Command::Upkeep(UpkeepCommand::VhostSettings {
            queues_max: spec.limits.queues_max,
            default_queue_type: Some(spec.default_queue_type.clone().unwrap_or_else(default)),
        }))
    }

    /// Appends facts to the journal and applies them. To be called with [`Node::changes`] locked.
    pub(crate) fn commit(&self, facts: Vec<RegistryFact>) -> Committed<D> {
        let mut deleted = Vec::new();
        for fact in &facts {
            if let RegistryFact::VhostDeleted { name } = fact
                && let Some(vhost) = self.vhosts.get(name)
            {
                // Before the record of the deletion, which must follow all records of the vhost.
                vhost.delete();
                self.vhosts.remove(name);
                self.events.forget(name);
                deleted.push(vhost);
            }
        }
        warn_of_hashes(&self.environment.registry(), &facts);
        let now = self.clock.now();
        let store = self.store.as_ref();
        let lsn = store.map_or(Lsn(0), |store| store.append_registry(now, facts.clone()));
        self.environment.change_registry(facts.iter().cloned());
        let mut started = Vec::new();
        let mut gone = Vec::new();
        for fact in facts {
            if let RegistryFact::UserDeleted { name } = &fact {
                gone.push(name.clone());
            }
            if let RegistryFact::VhostSet { name, .. } = fact {
                match self.vhosts.get(&name) {
                    Some(vhost) => {
                        if let Some(settings) = self.settings_of(&name) {
                            // A failed vhost reports that itself.
                            let _ = vhost.command(settings);
                        }
                    }
                    None => started.push(self.start_vhost(Core::new(self.core_options(&name)))),
                }
            }
        }
        for vhost in self.vhosts.all() {
            self.tell_redrive_rights(&vhost);
            for user in &gone {
                let user = user.clone();
                // A failed vhost reports that itself.
                let _ = vhost.command(Command::Upkeep(UpkeepCommand::UserDeleted { user }));
            }
        }
        Committed {
            lsn,
            started,
            deleted,
        }
    }

    /// The options for the core of this vhost.
    fn core_options(&self, vhost: &Name) -> CoreOptions {
        CoreOptions {
            vhost: vhost.clone(),
            ..self.core_options.clone()
        }
    }

    /// The watch over its memory and disk.
    pub(crate) fn watch(&self) -> Watch<D> {
        Watch {
            events: self.events.bound(),
            board: Arc::clone(&self.alarms),
            vhosts: Arc::clone(&self.vhosts),
            partials: Arc::clone(&self.partials),
            store: self.store.clone(),
        }
    }

    /// Copies the registry into the running checkpoint.
    pub(crate) fn copy_registry(&self, store: &Store<D>) {
        let one_at_a_time = self.changes.lock();
        store.append_registry_block(self.clock.now(), self.environment.registry().facts());
        drop(one_at_a_time);
    }
}

/// Lets the journal forget a publisher's link.
fn forget_link<D: Disk>(vhost: &Vhost<D>, link: u64) {
    // A failed vhost reports that itself.
    let _ = vhost.command(Command::Publisher(PublisherCommand::Forget { link }));
}

/// What a user may do in a vhost; none: it does not exist, or may not enter. The program that embeds
/// the broker, which has no name, may do everything.
pub(crate) fn redrive_rights(
    registry: &Registry,
    vhost: &Name,
    user: &Name,
) -> Option<RedriveRights> {
    if user.is_empty() {
        return RedriveRights::all();
    }
    let is_monitor = registry
        .user(user)?
        .tags
        .iter()
        .any(|tag| matches!(tag, Tag::Monitoring | Tag::Administrator));
    let Rights {
        permissions,
        topics,
    } = registry.rights(vhost, user, None)?;
    Some(RedriveRights {
        permissions,
        topics,
        users_by_token: (!is_monitor).then_some(false),
    })
}

/// Warns in the log of users whose password is set as a hash that SCRAM cannot use.
fn warn_of_hashes(registry: &Registry, facts: &[RegistryFact]) {
    for fact in facts {
        let RegistryFact::UserSet(user) = fact else {
            continue;
        };
        let before = registry.user(&user.name);
        let is_new = before.is_none_or(|before| before.password != user.password);
        let no_keys = |password: &Password| password.scram.is_none();
        if is_new && user.password.as_ref().is_some_and(no_keys) {
            let user = &user.name;
            tracing::warn!(%user, "set by a hash of RabbitMQ's: no SCRAM until it is set anew");
        }
    }
}
