//! Administration of a running broker: its registry and the cores of its vhosts, for the HTTP API,
//! for definitions, and for programs that embed it.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use super::Vhost;
use super::errors::StartError;
use super::setup;
use super::shared::Shared;
use crate::access::Password;
use crate::base::limits::RETRIED_UNWRITTEN_MAX;
use crate::base::{Lsn, Meter, Name, Now, Position};
use crate::broker::Asked;
use crate::broker::redrive::RedriveRights;
use crate::broker::registry::{Registry, RegistryError, RegistryFact};
use crate::broker::{Command, Core, Effects, LogEvent, QueueCommand, Reply};
use crate::config::Settings;
use crate::deaths::Viewer;
use crate::management::{Change, Explanation, Refusal, Status};
use crate::node::Outbox;
use crate::store::StoreState;

/// Interval at which a waiter for the journal checks whether it failed.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// Longest wait before declared objects are shown although they are not durable: an operator of a
/// disk that does not answer needs to see something.
const SHOW_AFTER: Duration = Duration::from_secs(5);

/// Administers a running broker. Cheap to clone. Checks no rights: that is for who asks.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use coroner::{Broker, Status, Value};
///
/// let broker = Broker::builder().start().await?;
/// let admin = broker.admin();
/// let limit = [("x-max-length", Value::Ulong(1_000))];
/// admin.declare_queue("/", "jobs", &limit).await?;
/// admin.declare_exchange("/", "work", "topic", &[]).await?;
/// admin.bind_queue("/", ("work", "garden.#"), "jobs", &[]).await?;
///
/// let refused = admin.declare_queue("/", "jobs", &[]).await;
/// assert_eq!(refused.expect_err("it has a limit").status, Status::Conflict);
/// # broker.stop().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Admin {
    shared: Arc<Shared>,
}

impl std::fmt::Debug for Admin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Admin").finish_non_exhaustive()
    }
}

impl Admin {
    pub(super) const fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// The current vhosts, users and permissions.
    #[doc(hidden)]
    pub fn registry(&self) -> Arc<Registry> {
        self.shared.node.environment.registry()
    }

    /// Number of connections that are open in a vhost.
    #[doc(hidden)]
    pub fn connections_in(&self, vhost: &str) -> u64 {
        self.shared.node.environment.connections_in(vhost)
    }

    /// Makes one change, all of it or nothing. Ready once it is durable; returns whether something
    /// new was created.
    ///
    /// # Errors
    /// 400, 404: nothing was changed. 500: the journal failed, and it is not known to be durable.
    #[doc(hidden)]
    pub async fn change(&self, change: Change) -> Result<bool, Refusal> {
        let (created, lsn) = self.begin_change(change).await?;
        self.shared.wait_until_durable(lsn).await?;
        Ok(created)
    }

    /// Makes a change; returns whether something was created, and the record to wait for before the
    /// answer.
    pub(super) async fn begin_change(&self, change: Change) -> Result<(bool, Lsn), Refusal> {
        let hashed = match change.clear_password().map(str::to_owned) {
            Some(password) => Some(hash(password).await?),
            None => None,
        };
        if !matches!(
            change,
            Change::PermissionsPut { .. } | Change::TopicPermissionsPut { .. }
        ) {
            return self.shared.change(change, hashed);
        }
        // Regular expressions are compiled, which takes some milliseconds.
        let shared = Arc::clone(&self.shared);
        let changed = tokio::task::spawn_blocking(move || shared.change(change, hashed)).await;
        changed.unwrap_or_else(|_| Err(internal("compiling an expression failed".to_owned())))
    }

    /// Explains a message of a queue: its life so far, where it is, and what would become of it if
    /// one thing or the other happened. Changes nothing.
    ///
    /// Errors: 404: there is no such vhost, queue or message. 500: the vhost failed, or the message
    /// cannot be read.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use coroner::{Broker, Value};
    ///
    /// let broker = Broker::builder().start().await?;
    /// let admin = broker.admin();
    /// let to = |name: &str| Value::String(name.to_owned());
    /// let dead = [
    ///     ("x-dead-letter-exchange", to("")),
    ///     ("x-dead-letter-routing-key", to("failed")),
    /// ];
    /// admin.declare_queue("/", "jobs", &dead).await?;
    /// broker.publisher("/queues/jobs").open().await?.publish("cut the hedge").await?;
    ///
    /// // Nobody declared the queue for failed jobs.
    /// let explained = admin.explain("/", "jobs", 0).await?;
    /// let rejected = explained.next.iter().find(|step| step.event == "rejected").unwrap();
    /// assert_eq!((rejected.verdict, rejected.cause), ("quarantined", Some("unroutable")));
    ///
    /// admin.declare_queue("/", "failed", &[]).await?;
    /// let explained = admin.explain("/", "jobs", 0).await?;
    /// let rejected = explained.next.iter().find(|step| step.event == "rejected").unwrap();
    /// assert_eq!((rejected.verdict, &*rejected.targets[0].queue), ("dead_lettered", "failed"));
    /// # broker.stop().await;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn explain(
        &self,
        vhost: &str,
        queue: &str,
        position: u64,
    ) -> Result<Explanation, Refusal> {
        let (core, queue, vhost) = (self.vhost(vhost)?, queue.to_owned(), vhost.to_owned());
        let explained = tokio::task::spawn_blocking(move || {
            let rights = RedriveRights::all();
            let asked = Asked {
                error: None,
                redriver: rights.as_ref(),
            };
            let explained = core.explain((&queue, Position(position)), asked);
            let explained = explained.map_err(|_| failed(&vhost))?;
            let Some(explained) = explained else {
                let why = format!("queue '{queue}' has no message at position {position}");
                let status = Status::NotFound;
                return Err(Refusal { status, why });
            };
            let told = Explanation::of(&explained, Viewer::Monitor);
            let unreadable = || internal("the message cannot be read".to_owned());
            told.ok_or_else(unreadable)
        });
        let broke = |_| Err(internal("explaining failed".to_owned()));
        explained.await.unwrap_or_else(broke)
    }

    /// Makes messages of a queue ready that wait for their time, those due first: `count` of them, or
    /// all that wait now. Returns their number.
    ///
    /// Errors: 404: there is no such vhost or queue. 500: the vhost or the journal failed.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use coroner::{Broker, Message, Value};
    ///
    /// let broker = Broker::builder().start().await?;
    /// let admin = broker.admin();
    /// admin.declare_queue("/", "jobs", &[]).await?;
    /// let tomorrow = Message::new("cut the hedge")
    ///     .annotation("x-opt-delivery-delay", Value::Ulong(24 * 3_600_000));
    /// broker.publisher("/queues/jobs").open().await?.publish(tomorrow).await?;
    ///
    /// assert_eq!(admin.retry_delayed("/", "jobs", None).await?, 1);
    /// let mut consumer = broker.consumer("/queues/jobs").open().await?;
    /// let delivery = consumer.next().await.expect("it is ready now");
    /// assert_eq!(delivery.body(), b"cut the hedge");
    /// # broker.stop().await;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn retry_delayed(
        &self,
        vhost: &str,
        queue: &str,
        count: Option<u64>,
    ) -> Result<u64, Refusal> {
        let waiting = self.with_core(vhost, |_, core, _| {
            let queue = core.queue(queue);
            queue.map(|queue| queue.messages.delayed().usage().messages)
        })?;
        let count = count.unwrap_or(u64::MAX).min(waiting.unwrap_or(1));
        let mut retried = 0;
        loop {
            let command = Command::Queue(QueueCommand::Retry {
                connection: None,
                name: Name::from(queue),
                count: count - retried,
            });
            let (reply, _) = self.begin_command(vhost, command).await?;
            let (messages, lsn) = match reply {
                Reply::Retried { messages, lsn } => (messages, lsn),
                Reply::Refused(error) => return Err(error.into()),
                _ => return Err(internal("the core gave no answer".to_owned())),
            };
            let before = retried;
            retried += messages;
            let is_over = messages == 0 || retried >= count;
            // What waits for the disk in memory is bounded.
            if is_over || before / RETRIED_UNWRITTEN_MAX < retried / RETRIED_UNWRITTEN_MAX {
                self.shared.wait_until_durable(lsn).await?;
            }
            if is_over {
                return Ok(retried);
            }
            tokio::task::yield_now().await;
        }
    }

    pub(super) const fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(super) fn vhost(&self, name: &str) -> Result<Arc<Vhost>, Refusal> {
        self.shared
            .node
            .vhosts
            .get(name)
            .ok_or_else(|| no_vhost(name))
    }

    /// Carries out one command in a vhost's core. Ready once its reply is durable.
    ///
    /// What the core refuses. 404: there is no such vhost. 500: the vhost or the journal failed.
    #[doc(hidden)]
    pub async fn apply(&self, vhost: &str, command: Command) -> Result<Reply, Refusal> {
        let (reply, lsn) = self.begin_command(vhost, command).await?;
        self.shared.wait_until_durable(lsn).await?;
        match reply {
            Reply::Refused(error) => Err(error.into()),
            reply => Ok(reply),
        }
    }

    /// The same; returns the core's reply, and the record to wait for. The policies of a declared
    /// object are searched first, in slices.
    pub(super) async fn begin_command(
        &self,
        vhost: &str,
        command: Command,
    ) -> Result<(Reply, Lsn), Refusal> {
        self.begin(vhost, command, true).await
    }

    /// The same without logging the warnings of the reply.
    pub(super) async fn begin_unwarned(
        &self,
        vhost: &str,
        command: Command,
    ) -> Result<(Reply, Lsn), Refusal> {
        self.begin(vhost, command, false).await
    }

    async fn begin(
        &self,
        vhost: &str,
        command: Command,
        warns: bool,
    ) -> Result<(Reply, Lsn), Refusal> {
        let (mut command, mut begun) = (Some(command), None);
        loop {
            let replied = self.with_core(vhost, |now, core, effects| {
                effects.meter = Meter::default();
                if let Some(declared) = command.as_ref().and_then(Command::declares)
                    && !core.match_policies(declared, &mut begun, &mut effects.meter)
                {
                    return None;
                }
                let reply = core.apply(now, command.take()?, effects);
                let is_warning = |event: &LogEvent| matches!(event, LogEvent::Warned { .. });
                effects.log.retain(|event| warns || !is_warning(event));
                Some((reply, core.topology_lsn()))
            })?;
            if let Some(replied) = replied {
                return Ok(replied);
            }
            tokio::task::yield_now().await;
        }
    }

    /// Works on a vhost's core under its lock, so briefly: at most 200 us. An answer about it has
    /// to wait for [`Core::topology_lsn`], see [`Admin::durable`].
    ///
    /// 404: there is no such vhost. 500: it failed.
    #[doc(hidden)]
    pub fn with_core<T>(
        &self,
        vhost: &str,
        work: impl FnOnce(Now, &mut Core, &mut Effects) -> T,
    ) -> Result<T, Refusal> {
        self.vhost(vhost)?.work(work).map_err(|_| failed(vhost))
    }

    /// Ready once everything up to an LSN is as safe as the sync policy promises.
    ///
    /// # Errors
    /// 500: the journal failed: it is not known to be durable.
    #[doc(hidden)]
    pub async fn durable(&self, lsn: Lsn) -> Result<(), Refusal> {
        self.shared.wait_until_durable(lsn).await
    }
}

/// Hashes a password on a thread that may block.
pub(super) async fn hash(password: String) -> Result<Password, Refusal> {
    let hashed = tokio::task::spawn_blocking(move || setup::hash(&password)).await;
    hashed.map_err(|_| internal("hashing a password failed".to_owned()))
}

fn no_vhost(name: &str) -> Refusal {
    let name = Name::from(name);
    RegistryError::NoVhost { name }.into()
}

pub(super) fn failed(vhost: &str) -> Refusal {
    internal(format!("the vhost '{vhost}' failed"))
}

pub(super) const fn internal(why: String) -> Refusal {
    Refusal {
        status: Status::InternalError,
        why,
    }
}

/// Changes of the registry.
impl Shared {
    /// Applies a change; returns whether something was created, and the record to wait for.
    fn change(&self, change: Change, hashed: Option<Password>) -> Result<(bool, Lsn), Refusal> {
        let one_at_a_time = self.node.changes.lock();
        let planned = change.plan(&self.node.environment.registry(), hashed)?;
        let gone = planned.facts.iter().any(|fact| {
            matches!(
                fact,
                RegistryFact::UserDeleted { .. } | RegistryFact::VhostDeleted { .. }
            )
        });
        let lsn = self.commit(planned.facts);
        drop(one_at_a_time);
        if gone {
            self.wake_all();
        }
        // Also for a change that found nothing to do: the state it found may not be durable yet.
        let declared = self
            .node
            .store
            .as_ref()
            .map_or(Lsn(0), |store| store.declared());
        Ok((planned.created, lsn.max(declared)))
    }

    /// Ready once all declarations are durable, so that no answer shows what a crash undoes. False
    /// if that takes longer than [`SHOW_AFTER`] or will never be.
    pub(super) async fn declared_is_durable(&self) -> bool {
        let Some(store) = &self.node.store else {
            return true;
        };
        let waited = self.wait_until_durable(store.declared());
        tokio::time::timeout(SHOW_AFTER, waited)
            .await
            .is_ok_and(|durable| durable.is_ok())
    }

    /// Adds what the settings name and the registry does not have, or has otherwise; returns the
    /// number of changes.
    pub(super) fn follow_access(&self, settings: &Settings) -> Result<usize, StartError> {
        let one_at_a_time = self.node.changes.lock();
        let facts = setup::missing(settings, &self.node.environment.registry(), false, false)?;
        let count = facts.len();
        self.commit(facts);
        drop(one_at_a_time);
        Ok(count)
    }

    /// Records what an import is about to do, or that it has ended; returns the record to wait for.
    pub(super) fn note_import(&self, facts: Vec<RegistryFact>) -> Lsn {
        let one_at_a_time = self.node.changes.lock();
        let lsn = self.commit(facts);
        drop(one_at_a_time);
        lsn
    }

    /// Appends facts to the journal and applies them; returns the record to wait for. To be called
    /// with [`Node::changes`] locked.
    ///
    /// [`Node::changes`]: crate::node::Node::changes
    fn commit(&self, facts: Vec<RegistryFact>) -> Lsn {
        let committed = self.node.commit(facts);
        for vhost in committed.started {
            self.run_vhost(vhost);
        }
        for vhost in committed.deleted {
            self.spawn(dissolve(vhost, committed.lsn));
        }
        committed.lsn
    }

    /// Ready once a record is as safe as the sync policy promises.
    async fn wait_until_durable(&self, lsn: Lsn) -> Result<(), Refusal> {
        let Some(store) = &self.node.store else {
            return Ok(());
        };
        if store.durable() >= lsn {
            return Ok(());
        }
        let outbox = Arc::new(Outbox::default());
        store.wake_when_durable(lsn, &outbox);
        while store.durable() < lsn {
            if store.state() == StoreState::Poisoned {
                return Err(poisoned());
            }
            let woken = poll_fn(|context| outbox.poll_ready(context));
            // A store that fails wakes no waiters.
            let _ = tokio::time::timeout(LOOK_AGAIN, woken).await;
        }
        Ok(())
    }
}

/// Frees the content of a deleted vhost, in slices.
async fn dissolve(vhost: Arc<Vhost>, deleted_by: Lsn) {
    while vhost.dissolve(deleted_by) {
        tokio::task::yield_now().await;
    }
    tracing::info!(vhost = %vhost.name(), "vhost deleted");
}

fn poisoned() -> Refusal {
    Refusal {
        status: Status::InternalError,
        why: "the journal failed: it is not known whether this is durable".to_owned(),
    }
}
