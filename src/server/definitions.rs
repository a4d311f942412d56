//! Definitions of the running broker: out of it as JSON, and into it item by item.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value as Json, json};

use super::admin::Admin;
use super::errors::StartError;
use super::vhost::Vhost;
use crate::base::limits::LISTING_SLICE;
use crate::base::{Lsn, Name};
use crate::broker::Reply;
use crate::broker::binding::Binding;
use crate::management::definitions::{self, Broker, Problem, Step, VhostParts};
use crate::management::{Refusal, Status};

/// Problems that one answer names; all are in the log.
const NAMED_MAX: usize = 100;

/// What an import did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Imported {
    /// Items that were applied.
    pub applied: usize,
    /// What is not supported here, and so was left out.
    pub left_out: Vec<LeftOut>,
}

/// An item, or a part of one, that was left out.
#[derive(Clone, PartialEq, Eq, Debug)]
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
        if let Some(name) = vhost {
            let vhost = self.vhost(name)?;
            return Ok(definitions::vhost(broker, &parts(&vhost)?));
        }
        let vhosts = shared.vhosts.all();
        let all: Result<Vec<VhostParts>, Refusal> = vhosts.iter().map(parts).collect();
        Ok(definitions::broker(broker, &all?))
    }

    /// Imports definitions, of one vhost into one if it is named. What is not supported here is left
    /// out, said in the log and in the answer. What makes no sense refuses the whole before anything
    /// is changed. Ready once all is durable.
    ///
    /// # Errors
    /// 400: it makes no sense; the text names each bad item. Others: an item was refused by what is
    /// there already; the text names it and says what was applied.
    pub async fn import_definitions(
        &self,
        json: &Json,
        vhost: Option<&Name>,
    ) -> Result<Imported, Refusal> {
        let mut imported = Imported::default();
        let (mut steps, mut wrong) = (Vec::new(), Vec::new());
        for item in definitions::read(json, vhost)? {
            match item.step {
                Ok(step) => steps.push((item.what, step)),
                Err(Problem::Wrong(why)) => wrong.push(format!("{}: {why}", item.what)),
                Err(Problem::Unsupported(why)) => {
                    tracing::warn!(item = item.what, why, "definitions: left out");
                    imported.left_out.push(LeftOut {
                        item: item.what,
                        why,
                    });
                }
            }
        }
        if !wrong.is_empty() {
            let count = wrong.len();
            wrong.truncate(NAMED_MAX);
            let named = wrong.join("; ");
            let why = format!("nothing was imported, {count} items are wrong: {named}");
            return Err(Refusal::bad_request(why));
        }
        let (count, mut last) = (steps.len(), Lsn(0));
        let mut refused = None;
        for (what, step) in steps {
            match self.take_step(step).await {
                Ok(lsn) => last = last.max(lsn),
                Err(refusal) => {
                    refused = Some((what, refusal));
                    break;
                }
            }
            imported.applied += 1;
            // Large files leave room for others.
            tokio::task::yield_now().await;
        }
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

    /// Carries out one step; the record to wait for.
    async fn take_step(&self, step: Step) -> Result<Lsn, Refusal> {
        let (vhost, command) = match step {
            Step::Change(change) => return self.begin_change(change).await.map(|(_, lsn)| lsn),
            Step::Command(vhost, command) => (vhost, command),
        };
        let (reply, lsn) = self.with_core(&vhost, |now, core, effects| {
            (core.apply(now, *command, effects), core.topology_lsn())
        })?;
        match reply {
            Reply::Refused(error) => Err(error.into()),
            _ => Ok(lsn),
        }
    }
}

/// Imports a file at the start.
pub(super) async fn load(admin: &Admin, file: &Path) -> Result<(), StartError> {
    let fail = |why: String| StartError::Definitions {
        file: file.display().to_string(),
        why,
    };
    #[allow(
        clippy::disallowed_methods,
        reason = "read once, before anything is served"
    )]
    let text = std::fs::read(file);
    let text = text.map_err(|error| fail(error.to_string()))?;
    let json = serde_json::from_slice(&text);
    let json = json.map_err(|error| fail(format!("not JSON: {error}")))?;
    let imported = admin.import_definitions(&json, None).await;
    imported.map_err(|refusal| fail(refusal.why))?;
    Ok(())
}

/// Copies what is in a vhost, some at a time.
fn parts(vhost: &Arc<Vhost>) -> Result<VhostParts, Refusal> {
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
        parts.queues.extend(slice);
        if is_last {
            break;
        }
    }
    loop {
        let after: Option<Binding> = parts.bindings.last().cloned();
        let slice = vhost.look(|core| {
            let bindings = core.router().bindings_after(after.as_ref());
            bindings.take(LISTING_SLICE).cloned().collect::<Vec<_>>()
        });
        let slice = slice.map_err(failed)?;
        let is_last = slice.len() < LISTING_SLICE;
        parts.bindings.extend(slice);
        if is_last {
            break;
        }
    }
    Ok(parts)
}
