//! Definitions of the running broker: out of it as JSON, and into it item by item.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value as Json, json};
use tokio::sync::oneshot;

use super::Vhost;
use super::admin::{self, Admin, internal};
use super::errors::{Cause, StartError};
use crate::base::limits::LISTING_SLICE;
use crate::base::{Charge, Gauge, Lsn, Name};
use crate::broker::binding::Binding;
use crate::broker::registry::{Import, RegistryFact};
use crate::broker::router::BindingsOf;
use crate::broker::{Command, Declared, Reply};
use crate::config::GUEST;
use crate::management::definitions::{self, Broker, ImportStep, Problem, VhostParts};
use crate::management::http::json::reading::memory_bytes;
use crate::management::{Refusal, Status};

/// Problems that one answer names; all are in the log.
const NAMED_MAX: usize = 100;

/// What an import did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Imported {
    /// Items that were applied.
    pub applied: usize,
    /// What is not supported here, and so was left out.
    pub left_out: Vec<LeftOut>,
    /// What was taken and probably does not do what was meant.
    pub warnings: Vec<String>,
}

/// An item, or a part of one, that was left out.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct LeftOut {
    /// Which.
    pub item: String,
    /// Why.
    pub why: String,
}

impl Imported {
    /// For an answer.
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
    /// The definitions of the broker, or of one vhost, in RabbitMQ's form. Looks at some objects at
    /// a time; takes long on a large broker, so call it where nobody waits.
    ///
    /// # Errors
    /// 404: no such vhost. 500: a vhost failed.
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

    /// Imports definitions, of one vhost into one if it is named. What is not supported here is left
    /// out, said in the log and in the answer. What makes no sense refuses the whole before anything
    /// is changed. Once begun it goes to its end, also if the future is dropped; what a crash cuts off
    /// the next start carries out. Ready once all is durable.
    ///
    /// # Errors
    /// 400: it makes no sense; the text names each bad item. Others: an item was refused by what is
    /// there already; the text names it and says what was applied.
    pub async fn import_definitions(
        &self,
        json: &Json,
        vhost: Option<&Name>,
    ) -> Result<Imported, Refusal> {
        self.import(json.clone(), vhost.cloned()).await
    }

    /// The same. Reading a large file takes long: that is done beside what is served.
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
            // Who asked may be gone.
            let _ = done.send(admin.carry_out(plan, Some(import)).await);
        });
        let stopped = |_| internal("the broker stopped before all was imported".to_owned());
        imported.await.map_err(stopped)?
    }

    /// Carries out all steps; writes the import down first, unless that was done.
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
            // Large files leave room for others.
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

    /// Carries out one step; the record to wait for, and what it declared if there is something to warn of:
    /// that may come with the items that follow.
    async fn take_step(&self, step: ImportStep) -> Result<(Lsn, Option<Doubtful>), Refusal> {
        let (vhost, command) = match step {
            ImportStep::Change(change) => {
                return self.begin_change(change).await.map(|(_, lsn)| (lsn, None));
            }
            ImportStep::Command(vhost, command) => (vhost, command),
        };
        let declared = Declared::of(&command);
        let (reply, lsn) = self.begin_unwarned(&vhost, *command).await?;
        match reply {
            Reply::Refused(error) => Err(error.into()),
            Reply::QueueDeclared { warnings, .. }
            | Reply::ExchangeDeclared { warnings, .. }
            | Reply::PolicySet { warnings, .. }
                if !warnings.is_empty() =>
            {
                Ok((lsn, declared.map(|declared| (vhost, declared))))
            }
            _ => Ok((lsn, None)),
        }
    }

    /// What is to be warned of once all is there: in the log, and the first of it for the answer.
    async fn judge(&self, doubtful: &[(String, Name, Declared)]) -> Vec<String> {
        let mut told = Vec::new();
        for (what, vhost, declared) in doubtful {
            let Ok(vhost) = self.vhost(vhost) else {
                continue; // deleted meanwhile
            };
            let warnings = vhost.look(|core| core.warnings_of(declared));
            for warning in warnings.unwrap_or_default() {
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

/// What an item declared in a vhost, about which there may be something to say.
type Doubtful = (Name, Declared);

/// What an import is to do.
struct Plan {
    /// What each step is for, and the step.
    steps: Vec<(String, ImportStep)>,
    left_out: Vec<LeftOut>,
    /// Its memory, until all is carried out.
    _kept: Charge,
}

/// What a step of a plan takes beside its texts and arguments, about, in bytes: it is in a list that may be
/// half empty, and most are commands.
const STEP_BYTES: usize =
    size_of::<(String, ImportStep)>() * 3 / 2 + size_of::<Command>() + NAMES_BYTES;
/// Its names and what it is called in an answer.
const NAMES_BYTES: usize = 256;
/// So many times more memory do texts and arguments take in the JSON of a file, where objects are trees.
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

/// Does what takes long beside what is served.
async fn beside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(internal("reading the definitions failed".to_owned())))
}

/// The same with hashes where passwords stand in clear, and whether there were any: the journal never
/// has them in clear.
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

/// Carries out what a crash cut off, then imports the file that the settings name.
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

/// Carries out what a crash cut off. What is refused now is said in the log: it is no reason not to
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

/// The file of definitions that the settings name, read before anything is begun.
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

    /// It names users: then nobody expects another one beside them, unless it says what `guest` may do.
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

    /// Imports it.
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

/// What an object takes until it is written, about, in bytes: its names and arguments are shared.
const EXPORTED_BYTES: usize = 512;

/// Copies what is in a vhost, some at a time.
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
