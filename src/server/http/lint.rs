//! Routes to the linter: a copy of the topology is looked at, on a thread that may block.

use serde_json::Value;

use super::api::Call;
use super::aside::aside;
use super::reply::Reply;
use crate::base::{Gauge, Name};
use crate::broker::arguments::OnUndeliverable;
use crate::config::UndeliverableSetting;
use crate::lint::{Report, Silence, Target, Topology};
use crate::management::http::json::reading::memory_bytes;
use crate::management::http::{Endpoint, Failure};
use crate::server::admin::Admin;

/// Memory of a topology in a core, in that of its definitions as JSON.
const CORE_OF_JSON: u64 = 2;

/// What is to be looked at.
struct Wanted {
    admin: Admin,
    kept: Gauge,
    vhosts: Vec<Name>,
    /// Definitions that are added to the only vhost.
    more: Option<Value>,
    target: Target,
    undeliverable: OnUndeliverable,
}

/// `GET /api/lint`, `GET /api/lint/VHOST` and `POST /api/lint/VHOST`.
pub(super) async fn lint(call: &Call<'_>, endpoint: Endpoint) -> Result<Reply, Failure> {
    let target = match call.query.get("for") {
        None | Some("coroner") => Target::Coroner,
        Some("rabbitmq") => Target::Rabbitmq,
        Some(_) => {
            let why = "the parameter 'for' must be coroner or rabbitmq";
            return Err(Failure::bad_request(why));
        }
    };
    let unknown = call.query.pairs().find(|(name, _)| *name != "for");
    if let Some((name, _)) = unknown {
        let why = format!("the parameter '{name}' is not known; known is for");
        return Err(Failure::bad_request(why));
    }
    let vhosts = if endpoint == Endpoint::Lint {
        let visible = call.visible_vhosts().into_iter();
        visible.map(|vhost| vhost.name().clone()).collect()
    } else {
        vec![call.params.get("vhost")]
    };
    let here = match call.shared.settings.undeliverable() {
        UndeliverableSetting::Drop => OnUndeliverable::Drop,
        UndeliverableSetting::Quarantine => OnUndeliverable::Quarantine,
    };
    let wanted = Wanted {
        admin: call.admin(),
        kept: call.kept(),
        vhosts,
        more: call.take_body(),
        target,
        undeliverable: match target {
            Target::Coroner => here,
            Target::Rabbitmq => OnUndeliverable::Drop,
        },
    };
    aside(move || wanted.report()).await
}

impl Wanted {
    fn report(self) -> Result<Reply, Failure> {
        let registry = self.admin.registry();
        let silences = match registry.global_parameter(crate::lint::PARAMETER) {
            Some(value) => {
                let value = serde_json::from_str(value).unwrap_or_default();
                Silence::read(&value)?
            }
            None => Vec::new(),
        };
        let mut all = Report::default();
        for vhost in &self.vhosts {
            let exported = match self.admin.export_definitions(Some(vhost)) {
                Ok(exported) => exported,
                // It was deleted meanwhile.
                Err(_) if self.vhosts.len() > 1 => continue,
                Err(refusal) => return Err(refusal.into()),
            };
            let bytes = memory_bytes(&exported) + self.more.as_ref().map_or(0, memory_bytes);
            let _counted = self.kept.charge(bytes * (1 + CORE_OF_JSON));
            let mut topology = Topology::read(&exported, Some(vhost), self.undeliverable)?;
            if let Some(more) = &self.more {
                topology.add(more, Some(vhost), self.undeliverable)?;
            }
            topology.silences.clone_from(&silences);
            all.join(Report::of(&mut topology, self.target));
        }
        Ok(Reply::Json(all.to_json()))
    }
}
