//! Definitions of the running broker: export to JSON, and import item by item.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value as Json, json};
use tokio::sync::oneshot;

use super::admin::{self, Admin, internal};
use super::errors::{Cause, StartError};
use super::{Vhost, cycles};
use crate::base::limits::LISTING_SLICE;
use crate::base::{Charge, Gauge, Lsn, Name};
use crate::broker::binding::Binding;
use crate::broker::registry::{Import, RegistryFact};
use crate::broker::router::BindingsOf;
use crate::broker::{Command, Declared, QueueCommand, Reply, TopologyCommand};
use crate::config::GUEST;
use crate::management::definitions::{self, Broker, ImportStep, Problem, VhostParts};
use crate::management::http::json::reading::memory_bytes;
use crate::management::{Refusal, Status};

/// Problems that one answer names, at most; all are in the log.
const NAMED_MAX: usize = 100;

/// The result of an import.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Imported {
    /// Number of items that were applied.
    pub applied: usize,
    /// Items that are not supported, and so were left out.
    pub left_out: Vec<LeftOut>,
    /// Warnings about items that were applied and probably do not do what was meant.
    pub warnings: Vec<String>,
}

/// An item, or a part of one, that was left out.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct LeftOut {
    /// The item, for example `queue 'q' in vhost '/'`.
    pub item: String,
    /// Why it was left out.
    pub why: String,
}

impl Imported {
    /// The result as the JSON of an answer.
    pub fn to_json(&self) -> Json {
        let left_out = self.left_out.iter().take(NAMED_MAX);
        let left_out = left_out.map(|left| json!({ "item": left.item, "reason": left.why }));
        json!({
            "applied": self.applied,
            "not_supported_count": self.left_out.len(),
            "not_supported": left_out.collect::<Vec<_>>(),
            "warnings": self.warnings.iter().take(NAMED_MAX).collect::<Vec<_>>(),
        })
    }
}

impl Admin {
    /// The definitions of the broker, or of one vhost, in RabbitMQ's format. Reads some objects at
    /// a time; takes long on a large broker, so it should be called on a thread that may block.
    ///
    /// 404: there is no such vhost. 500: a vhost failed.
    pub fn export_definitions(&self, vhost: Option<&str>) -> Result<Json, Refusal> {
        let shared = self.shared();
        let registry = self.registry();
        let kind = shared.settings.default_queue_type.to_string();
        let broker = Broker {
            registry: &registry,
            node: &shared.settings.node_name,
            version: env!("CARGO_PKG_VERSION"),
            default_queue_type: &kind,
        };
        let mut kept = shared.node.alarms.connections().charge(0);
        if let Some(name) = vhost {
            let vhost = self.vhost(name)?;
            return Ok(definitions::vhost(broker, &parts(&vhost, &mut kept)?));
        }
        let vhosts = shared.node.vhosts.all();
        let all: Result<Vec<VhostParts>, Refusal> =
            vhosts.iter().map(|vhost| parts(vhost, &mut kept)).collect();
        Ok(definitions::broker(broker, &all?))
    }

    /// Imports definitions, of one vhost into one if it is named. Unsupported items are left out,
    /// with a line in the log and in the answer. An invalid item refuses the whole before anything
    /// is changed. Once begun it is completed, also if the future is dropped; after a crash the
    /// next start completes it. Ready once all is durable.
    ///
    /// 400: it is invalid; the text names each invalid item. Others: an item contradicts existing
    /// objects; the text names it and says what was applied.
    pub async fn import_definitions(
        &self,
        json: &Json,
        vhost: Option<&Name>,
    ) -> Result<Imported, Refusal> {
        self.import(json.clone(), vhost.cloned()).await
    }

    /// The same. A large file takes long to parse: that is done on a thread that may block.
    pub(super) async fn import(
        &self,
        json: Json,
        vhost: Option<Name>,
    ) -> Result<Imported, Refusal> {
        let within = vhost.clone();
        let kept = self.shared().node.alarms.connections().clone();
        let (json, kept, mut plan) = beside(move || {
            let plan = Plan::new(&json, within.as_ref(), &kept)?;
            Ok((json, kept, plan))
        })
        .await?;
        let (json, is_changed) = with_hashes(json).await?;
        let within = vhost.clone();
        let (hashed, text) = beside(move || {
            let hashed = is_changed.then(|| Plan::new(&json, within.as_ref(), &kept));
            Ok((hashed.transpose()?, json.to_string()))
        })
        .await?;
        if let Some(hashed) = hashed {
            plan = hashed;
        }
        for left in &plan.left_out {
            tracing::warn!(item = left.item, why = left.why, "definitions: left out");
        }
        let import = Import {
            vhost,
            text: Arc::new(text.into_bytes()),
        };
        let (admin, (done, imported)) = (self.clone(), oneshot::channel());
        self.shared().spawn(async move {
            // The caller may have gone away.
            let _ = done.send(admin.carry_out(plan, Some(import)).await);
        });
        let stopped = |_| internal("the broker stopped before all was imported".to_owned());
        imported.await.map_err(stopped)?
    }

    /// Carries out all steps; records the import first, unless that was done.
    async fn carry_out(&self, plan: Plan, import: Option<Import>) -> Result<Imported, Refusal> {
        let shared = self.shared();
        let one_at_a_time = shared.imports.lock().await;
        let is_kept = shared.node.store.is_some();
        if let Some(import) = import.filter(|_| is_kept) {
            shared.note_import(import.facts());
        }
        let count = plan.steps.len();
        let mut imported = Imported {
            applied: 0,
            left_out: plan.left_out,
            warnings: Vec::new(),
        };
        let (mut last, mut refused) = (Lsn(0), None);
        let mut doubtful = Vec::new();
        for (what, step) in plan.steps {
            match self.take_step(step).await {
                Ok((lsn, doubt)) => {
                    last = last.max(lsn);
                    doubtful.extend(doubt.map(|(vhost, declared)| (what, vhost, declared)));
                }
                Err(refusal) => {
                    refused = Some((what, refusal));
                    break;
                }
            }
            imported.applied += 1;
            // Large files let other tasks run in between.
            tokio::task::yield_now().await;
        }
        if is_kept {
            last = shared.note_import(vec![RegistryFact::ImportEnded]);
        }
        imported.warnings = self.judge(&doubtful).await;
        drop(one_at_a_time);
        self.durable(last).await?;
        let applied = imported.applied;
        if let Some((what, refusal)) = refused {
            return Err(Refusal {
                status: refusal.status,
                why: format!(
                    "{what}: {}; the {applied} items before it were applied, the {} behind it not",
                    refusal.why,
                    count - applied - 1
                ),
            });
        }
        tracing::info!(
            applied,
            left_out = imported.left_out.len(),
            "definitions imported"
        );
        Ok(imported)
    }

    /// Carries out one step; returns the record to wait for, and the declared object if it may need
    /// a warning: the items that follow may make that needless.
    async fn take_step(&self, step: ImportStep) -> Result<(Lsn, Option<Doubtful>), Refusal> {
        let (vhost, command) = match step {
            ImportStep::Change(change) => {
                return self.begin_change(change).await.map(|(_, lsn)| (lsn, None));
            }
            ImportStep::Command(vhost, command) => (vhost, command),
        };
        let declared = Declared::of(&command);
        let may_close_a_cycle = may_close_a_cycle(&command);
        let (reply, lsn) = self.begin_unwarned(&vhost, *command).await?;
        match reply {
            Reply::Refused(error) => Err(error.into()),
            Reply::QueueDeclared { warnings, .. }
            | Reply::ExchangeDeclared { warnings, .. }
            | Reply::PolicySet { warnings, .. }
                if may_close_a_cycle || !warnings.is_empty() =>
            {
                Ok((lsn, declared.map(|declared| (vhost, declared))))
            }
            _ => Ok((lsn, None)),
        }
    }

    /// The warnings that apply once everything is imported: all in the log, the first of them for
    /// the answer.
    async fn judge(&self, doubtful: &[(String, Name, Declared)]) -> Vec<String> {
        let (mut told, mut end) = (Vec::new(), None);
        for (what, vhost, declared) in doubtful {
            let Ok(vhost) = self.vhost(vhost) else {
                continue; // deleted meanwhile
            };
            let warnings = vhost.look(|core| core.warnings_of(declared));
            let mut warnings = warnings.unwrap_or_default();
            if let Declared::Policy { operator, name } = declared {
                let end = *end.get_or_insert_with(|| cycles::search_end(&vhost));
                warnings.extend(cycles::closed_by((*operator, name), &vhost, end).await);
            }
            for warning in warnings {
                tracing::warn!(item = what, "{warning}");
                if told.len() < NAMED_MAX {
                    told.push(format!("{what}: {warning}"));
                }
            }
            tokio::task::yield_now().await;
        }
        told
    }
}

/// Whether items that follow may close a cycle of dead letters with what this command declares.
fn may_close_a_cycle(command: &Command) -> bool {
    match command {
        Command::Queue(QueueCommand::Declare { arguments, .. }) => {
            let mut names = arguments.iter().map(|(name, _)| &**name);
            names.any(|name| name == "x-dead-letter-exchange")
        }
        Command::Topology(TopologyCommand::PolicySet { policy, .. }) => policy.may_close_a_cycle(),
        _ => false,
    }
}

/// An object that an item declared in a vhost, which may need a warning.
type Doubtful = (Name, Declared);

/// The steps of an import.
struct Plan {
    /// The name of each item, and its step.
    steps: Vec<(String, ImportStep)>,
    left_out: Vec<LeftOut>,
    /// The charge for its memory, until all is carried out.
    _kept: Charge,
}

/// Estimated memory of a step of a plan without its texts and arguments, in bytes: it is in a list
/// that may be half empty, and most steps are commands.
const STEP_BYTES: usize =
    size_of::<(String, ImportStep)>() * 3 / 2 + size_of::<Command>() + NAMES_BYTES;
/// Estimated memory of its names and of its name in an answer, in bytes.
const NAMES_BYTES: usize = 256;
/// Factor of the memory that texts and arguments take in the JSON of a file, where objects are
/// trees.
const JSON_PARTS: u64 = 4;

impl Plan {
    fn new(json: &Json, vhost: Option<&Name>, gauge: &Gauge) -> Result<Self, Refusal> {
        let (mut steps, mut left_out, mut wrong) = (Vec::new(), Vec::new(), Vec::new());
        let items = definitions::read(json, vhost)?;
        let kept = (items.len() * STEP_BYTES) as u64 + memory_bytes(json) / JSON_PARTS;
        let kept = gauge.charge(kept);
        for item in items {
            match item.step {
                Ok(step) => steps.push((item.what, step)),
                Err(Problem::Wrong(why)) => wrong.push(format!("{}: {why}", item.what)),
                Err(Problem::Unsupported(why)) => left_out.push(LeftOut {
                    item: item.what,
                    why,
                }),
            }
        }
        if wrong.is_empty() {
            return Ok(Self {
                steps,
                left_out,
                _kept: kept,
            });
        }
        let count = wrong.len();
        wrong.truncate(NAMED_MAX);
        let named = wrong.join("; ");
        let why = format!("nothing was imported, {count} items are wrong: {named}");
        Err(Refusal::bad_request(why))
    }
}

/// Runs long work on a thread that may block.
async fn beside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(internal("reading the definitions failed".to_owned())))
}

/// The same with hashes for passwords in clear, and whether there were any: the journal never has
/// them in clear.
async fn with_hashes(mut json: Json) -> Result<(Json, bool), Refusal> {
    let mut is_changed = false;
    let users = json.get_mut("users").and_then(Json::as_array_mut);
    for user in users.into_iter().flatten().filter_map(Json::as_object_mut) {
        if let Some(Json::String(password)) = user.get("password") {
            let (hash, algorithm) = admin::hash(password.clone()).await?.to_text();
            user.remove("password");
            user.insert("password_hash".to_owned(), hash.into());
            user.insert("hashing_algorithm".to_owned(), algorithm.into());
            is_changed = true;
        }
    }
    Ok((json, is_changed))
}

/// Completes an import that a crash interrupted, then imports the file that the settings name.
pub(super) async fn import_at_start(
    admin: &Admin,
    file: Option<DefinitionsFile>,
) -> Result<(), StartError> {
    finish_interrupted(admin).await;
    match file {
        Some(file) => file.load(admin).await,
        None => Ok(()),
    }
}

/// Completes an import that a crash interrupted. A refusal is only logged: it does not prevent the
/// start.
async fn finish_interrupted(admin: &Admin) {
    let Some(import) = admin.registry().import().cloned() else {
        return;
    };
    tracing::warn!("an import of definitions was cut off: it is carried out now");
    let read = serde_json::from_slice(&import.text);
    let read = read.map_err(|error| Refusal::bad_request(error.to_string()));
    let kept = admin.shared().node.alarms.connections();
    let plan = read.and_then(|json| Plan::new(&json, import.vhost.as_ref(), kept));
    let imported = match plan {
        Ok(plan) => admin.carry_out(plan, None).await.map(|_| ()),
        Err(refusal) => {
            admin.shared().note_import(vec![RegistryFact::ImportEnded]);
            Err(refusal)
        }
    };
    if let Err(refusal) = imported {
        tracing::error!(why = refusal.why, "not all of it could be imported");
    }
}

/// The definitions file that the settings name, read before anything is started.
pub(super) struct DefinitionsFile {
    file: PathBuf,
    json: Json,
}

impl DefinitionsFile {
    pub(super) fn read(file: &Path) -> Result<Self, StartError> {
        #[allow(
            clippy::disallowed_methods,
            reason = "read once, before anything is served"
        )]
        let text = std::fs::read(file);
        let text = text.map_err(|error| cannot_load(file, error))?;
        let json = serde_json::from_slice(&text);
        let json = json.map_err(|error| cannot_load(file, format!("not JSON: {error}")))?;
        let file = file.to_owned();
        Ok(Self { file, json })
    }

    /// Whether it defines users: then no `guest` is added, unless the file defines that user's
    /// rights.
    pub(super) fn has_users(&self) -> bool {
        let entries = |list| {
            self.json
                .get(list)
                .and_then(Json::as_array)
                .into_iter()
                .flatten()
        };
        let is_guest = |entry: &Json| entry.get("user").is_some_and(|user| user == GUEST);
        entries("users").next().is_some() && !entries("permissions").any(is_guest)
    }

    /// Imports the file.
    async fn load(&self, admin: &Admin) -> Result<(), StartError> {
        let imported = admin.import_definitions(&self.json, None).await;
        imported.map_err(|refusal| cannot_load(&self.file, refusal.why))?;
        Ok(())
    }
}

fn cannot_load(
    file: &Path,
    why: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> StartError {
    StartError::Definitions {
        file: file.display().to_string(),
        why: Cause::new(why),
    }
}

/// Estimated memory of an object until it is written, in bytes: its names and arguments are shared.
const EXPORTED_BYTES: usize = 512;

/// Copies the content of a vhost, some objects at a time.
fn parts(vhost: &Arc<Vhost>, kept: &mut Charge) -> Result<VhostParts, Refusal> {
    let failed = |_| Refusal {
        status: Status::InternalError,
        why: format!("the vhost '{}' failed", vhost.name()),
    };
    let mut parts = VhostParts {
        name: vhost.name().clone(),
        policies: vhost.look(|core| core.policies().clone()).map_err(failed)?,
        ..VhostParts::default()
    };
    loop {
        let after = parts.exchanges.last().map(|spec| spec.name.clone());
        let slice = vhost.look(|core| {
            let exchanges = core.router().exchanges_after(after.as_ref());
            let specs = exchanges.map(|exchange| exchange.spec.clone());
            specs.take(LISTING_SLICE).collect::<Vec<_>>()
        });
        let slice = slice.map_err(failed)?;
        let is_last = slice.len() < LISTING_SLICE;
        kept.grow((slice.len() * EXPORTED_BYTES) as u64);
        parts.exchanges.extend(slice);
        if is_last {
            break;
        }
    }
    loop {
        let after = parts.queues.last().map(|queue| queue.name.clone());
        let slice = vhost.look(|core| core.queues_after(after.as_ref(), LISTING_SLICE));
        let slice = slice.map_err(failed)?;
        let is_last = slice.len() < LISTING_SLICE;
        kept.grow((slice.len() * EXPORTED_BYTES) as u64);
        parts.queues.extend(slice);
        if is_last {
            break;
        }
    }
    let mut after: Option<Binding> = None;
    loop {
        let of = BindingsOf::default();
        let slice = vhost.look(|core| core.router().bindings_slice(&of, after.as_ref()));
        let slice = slice.map_err(failed)?;
        kept.grow((slice.found.len() * EXPORTED_BYTES) as u64);
        parts.bindings.extend(slice.found);
        after = slice.after;
        if after.is_none() {
            break;
        }
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many queues in one file, which are all the same one: what is left of them is small.
    const ITEMS: usize = 20_000;

    /// The text of a file was counted, and what was read out of it, but not the list of what is to be done.
    #[tokio::test]
    async fn the_plan_of_an_import_counts_as_memory_until_it_is_carried_out() {
        let broker = crate::server::Broker::builder().start().await.unwrap();
        let admin = broker.admin();
        let kept = admin.shared().node.alarms.connections().clone();
        let queue = json!({
            "name": "q",
            "vhost": "/",
            "durable": true,
            "auto_delete": false,
            "arguments": { "x-max-length": 5 },
        });
        let definitions = json!({ "queues": vec![queue; ITEMS] });
        // Another import is under way.
        let other = admin.shared().imports.lock().await;
        let before = kept.bytes();
        let import = admin.import_definitions(&definitions, None);
        let mut import = std::pin::pin!(import);
        let counted = std::future::poll_fn(|context| {
            let done = import.as_mut().poll(context);
            assert!(done.is_pending(), "it waits for the other one");
            let counted = kept.bytes() - before;
            if counted > 0 {
                return std::task::Poll::Ready(counted);
            }
            context.waker().wake_by_ref();
            std::task::Poll::Pending
        });
        let counted = counted.await;
        let each = counted / ITEMS as u64;
        assert!((500..2_000).contains(&each), "{each} bytes for each");
        drop(other);
        let imported = import.await.unwrap();
        assert_eq!(imported.applied, ITEMS);
        let left = kept.bytes() - before;
        assert!(left < 8 * 1024, "{left} bytes for one queue");
    }
}
