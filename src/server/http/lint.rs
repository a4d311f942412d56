//! Routes to the linter: a copy of the topology is looked at, on a thread that may block.

use serde_json::Value;

use super::api::Call;
use super::aside::aside;
use super::reply::Reply;
use crate::base::Name;
use crate::broker::arguments::OnUndeliverable;
use crate::lint::{NotRead, Report, Target, Unknown};
use crate::management::http::{Endpoint, Failure};
use crate::server::admin::Admin;

/// What is to be looked at.
struct Wanted {
    admin: Admin,
    vhosts: Vec<Name>,
    /// Definitions that are added to the only vhost, or to those that they name if there is none.
    more: Option<Value>,
    target: Target,
    undeliverable: OnUndeliverable,
}

/// `GET` and `POST` of `/api/lint` and `/api/lint/VHOST`.
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
    let vhosts = match endpoint {
        Endpoint::Lint => {
            let visible = call.visible_vhosts().into_iter();
            visible.map(|vhost| vhost.name().clone()).collect()
        }
        Endpoint::LintAllDefinitions => Vec::new(),
        _ => vec![call.params.get("vhost")],
    };
    let admin = call.admin();
    let undeliverable = match target {
        Target::Coroner => admin.undeliverable(),
        Target::Rabbitmq => OnUndeliverable::Drop,
    };
    let wanted = Wanted {
        admin,
        vhosts,
        more: call.take_body(),
        target,
        undeliverable,
    };
    aside(move || wanted.report()).await
}

impl Wanted {
    fn report(self) -> Result<Reply, Failure> {
        let mut all = Report::default();
        let silences = self.admin.silences().unwrap_or_else(|refusal| {
            all.not_read.push(NotRead {
                item: "the global parameter 'lint'".to_owned(),
                why: refusal.why,
            });
            Vec::new()
        });
        if let Some(more) = &self.more {
            let unknown = match self.target {
                Target::Coroner => Unknown::LeftOut,
                Target::Rabbitmq => Unknown::Exist,
            };
            let after = (self.undeliverable, unknown);
            let vhost = self.vhosts.first();
            let mut copied = self.admin.topology_after(more, vhost, after)?;
            all.join(Report::of(&mut copied.topology, self.target));
            return Ok(Reply::Json(all.to_json()));
        }
        for vhost in &self.vhosts {
            let copied = self.admin.copy_topology(vhost, self.undeliverable);
            let mut copied = match copied {
                Ok(copied) => copied,
                // It was deleted meanwhile.
                Err(_) if self.vhosts.len() > 1 => continue,
                Err(refusal) => return Err(refusal.into()),
            };
            copied.topology.silences.clone_from(&silences);
            all.join(Report::of(&mut copied.topology, self.target));
        }
        Ok(Reply::Json(all.to_json()))
    }
}
