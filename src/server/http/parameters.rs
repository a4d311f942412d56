//! Routes to parameters of vhosts and of the broker. Without plugins these are: operator policies
//! and limits of vhosts, which can be set and removed; policies, which are shown.

use std::sync::Arc;

use serde_json::{Value, json};

use super::api::Call;
use super::aside::aside;
use super::listings::{Objects, listed};
use super::objects::resource_gone;
use super::policies;
use super::reply::Reply;
use super::users::{change, remove};
use super::work::{failed, unless_deleted};
use crate::broker::registry::VhostLimits;
use crate::lint::{PARAMETER, Silence};
use crate::management::http::json::{topology, users};
use crate::management::http::{Failure, Fields, Listing};
use crate::management::{Change, VhostLimit};
use crate::server::Vhost;
use crate::server::shared::Shared;

/// The one name of a vhost's limits.
const LIMITS: &str = "limits";

/// The components that have parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Component {
    Policy,
    OperatorPolicy,
    VhostLimits,
}

impl Component {
    const ALL: [Self; 3] = [Self::Policy, Self::OperatorPolicy, Self::VhostLimits];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Policy => "policy",
            Self::OperatorPolicy => "operator_policy",
            Self::VhostLimits => "vhost-limits",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == word)
    }

    /// The component in the path of a change.
    fn to_change(call: &Call<'_>) -> Result<Self, Failure> {
        let word = call.params.get("component");
        Self::parse(&word).ok_or_else(|| {
            let why = format!("Validation failed\n\ncomponent {word} not found\n");
            Failure::bad_request(why)
        })
    }
}

/// `GET /api/parameters` and below. Without a component RabbitMQ lists all but policies.
pub(super) async fn list(call: &Call<'_>) -> Result<Reply, Failure> {
    let word = call.params.get("component");
    let components: Vec<Component> = match Component::parse(&word) {
        Some(component) => vec![component],
        None if word.is_empty() => vec![Component::OperatorPolicy, Component::VhostLimits],
        None => Vec::new(),
    };
    let wanted = call.params.get("vhost");
    let mut vhosts = call.visible_vhosts();
    vhosts.retain(|vhost| wanted.is_empty() || *vhost.name() == wanted);
    let listing = Listing::parse(&call.query)?;
    let (shared, kept) = (Arc::clone(call.shared), call.kept());
    aside(move || {
        let mut all = Objects::new(&listing, &kept);
        for component in components {
            for vhost in &vhosts {
                all.extend(of_vhost(&shared, component, vhost)?);
            }
        }
        all.reply()
    })
    .await
}

/// The parameters of a component in a vhost.
fn of_vhost(
    shared: &Shared,
    component: Component,
    vhost: &Arc<Vhost>,
) -> Result<Vec<Value>, Failure> {
    let word = component.as_str();
    if component == Component::VhostLimits {
        let registry = shared.node.environment.registry();
        let known = registry.vhost(vhost.name());
        let limits = known.map(|known| users::vhost_limits(known.spec.limits));
        let limits = limits.filter(|limits| !limits.is_empty());
        let parameter = limits.map(|limits| {
            json!({
                "component": word,
                "vhost": &**vhost.name(),
                "name": LIMITS,
                "value": limits,
            })
        });
        return Ok(parameter.into_iter().collect());
    }
    let policies = vhost.look(|core| core.policies().clone());
    let policies = unless_deleted(vhost, policies).map_err(failed)?;
    let policies = policies.unwrap_or_default();
    let policies = policies.list(component == Component::OperatorPolicy);
    let parameters = policies.map(|policy| topology::parameter(word, vhost.name(), policy));
    Ok(parameters.collect())
}

/// `GET /api/parameters/COMPONENT/VHOST/NAME`.
pub(super) fn get(call: &Call<'_>) -> Result<Reply, Failure> {
    let component = Component::parse(&call.params.get("component"));
    let component = component.ok_or_else(Failure::not_found)?;
    let name = call.params.get("name");
    let mut found = of_vhost(call.shared, component, &call.vhost()?)?.into_iter();
    let found = found.find(|parameter| parameter.get("name") == Some(&json!(&*name)));
    found.map(Reply::Json).ok_or_else(Failure::not_found)
}

/// `PUT /api/parameters/COMPONENT/VHOST/NAME`.
pub(super) async fn put(call: &Call<'_>) -> Result<Reply, Failure> {
    let fields = call.fields()?;
    fields.require(&["value"])?;
    let component = Component::to_change(call)?;
    if component == Component::Policy {
        let why = "policies may not be set using this method";
        return Err(Failure::bad_request(why));
    }
    let Some(Value::Object(value)) = fields.get("value") else {
        let why = format!(
            "the value of a parameter of '{}' is an object",
            component.as_str()
        );
        return Err(Failure::bad_request(why));
    };
    let value = Fields::from_map(value.clone());
    if component == Component::OperatorPolicy {
        return policies::put_fields(call, true, &value).await;
    }
    check_limits_name(call)?;
    put_limits(call, &value).await
}

/// `DELETE /api/parameters/COMPONENT/VHOST/NAME`.
pub(super) async fn delete(call: &Call<'_>) -> Result<Reply, Failure> {
    let component = Component::parse(&call.params.get("component"));
    get(call)?;
    match component {
        Some(Component::VhostLimits) => {
            let vhost = call.params.get("vhost");
            remove(call, Change::VhostLimitsDelete { vhost, limit: None }).await
        }
        component => policies::delete(call, component == Some(Component::OperatorPolicy)).await,
    }
}

fn check_limits_name(call: &Call<'_>) -> Result<(), Failure> {
    let name = call.params.get("name");
    if &*name == LIMITS {
        return Ok(());
    }
    let why = format!("limits of vhosts are the parameter '{LIMITS}', not '{name}'");
    Err(Failure::bad_request(why))
}

/// Sets all limits of a vhost: those that are missing, or negative, are removed.
async fn put_limits(call: &Call<'_>, value: &Fields) -> Result<Reply, Failure> {
    let vhost = call.params.get("vhost");
    let given = |name| -> Result<Option<u64>, Failure> {
        Ok(value
            .integer(name)?
            .and_then(|limit| u64::try_from(limit).ok()))
    };
    value.allow(&["max-connections", "max-queues"])?;
    let limits = VhostLimits {
        connections_max: given("max-connections")?,
        queues_max: given("max-queues")?,
    };
    let before = {
        let registry = call.shared.node.environment.registry();
        let known = registry.vhost(&vhost).ok_or_else(Failure::not_found)?;
        known.spec.limits
    };
    let lifted = [
        (
            VhostLimit::Connections,
            before.connections_max,
            limits.connections_max,
        ),
        (VhostLimit::Queues, before.queues_max, limits.queues_max),
    ];
    for (limit, _, _) in lifted
        .iter()
        .filter(|(_, old, new)| old.is_some() && new.is_none())
    {
        let (vhost, limit) = (vhost.clone(), Some(*limit));
        let lift = Change::VhostLimitsDelete { vhost, limit };
        call.admin()
            .change(lift)
            .await
            .map_err(|refusal| resource_gone(refusal.into()))?;
    }
    let is_new = before.connections_max.or(before.queues_max).is_none();
    let put = Change::VhostLimitsPut { vhost, limits };
    call.admin().change(put).await?;
    Ok(Reply::Stored {
        created: is_new,
        warnings: Vec::new(),
    })
}

/// `GET /api/global-parameters`.
pub(super) async fn global_list(call: &Call<'_>) -> Result<Reply, Failure> {
    let registry = call.shared.node.environment.registry();
    let (listing, kept) = (Listing::parse(&call.query)?, call.kept());
    aside(move || {
        let all = registry.global_parameters();
        let all = all.map(|(name, value)| global_json(name, value));
        listed(&listing, &kept, all)
    })
    .await
}

fn global_json(name: &str, value: &str) -> Value {
    let value: Value = serde_json::from_str(value).unwrap_or(Value::Null);
    json!({ "name": name, "value": value })
}

/// `GET /api/global-parameters/NAME`.
pub(super) fn global_get(call: &Call<'_>) -> Result<Reply, Failure> {
    let registry = call.shared.node.environment.registry();
    let name = call.params.get("name");
    let value = registry.global_parameter(&name);
    let value = value.ok_or_else(Failure::not_found)?;
    Ok(Reply::Json(global_json(&name, value)))
}

/// `PUT /api/global-parameters/NAME`. All are kept and exported; none has an effect but `lint`, which
/// silences findings.
pub(super) async fn global_put(call: &Call<'_>) -> Result<Reply, Failure> {
    let fields = call.fields()?;
    fields.require(&["value"])?;
    if let Some(value) = fields
        .get("value")
        .filter(|_| call.params.get("name") == PARAMETER)
    {
        Silence::read(value)?;
    }
    let value = fields.get("value").map(Value::to_string);
    let set = Change::GlobalParameterPut {
        name: call.params.get("name"),
        value: value.unwrap_or_default(),
    };
    change(call, set).await
}

/// `DELETE /api/global-parameters/NAME`.
pub(super) async fn global_delete(call: &Call<'_>) -> Result<Reply, Failure> {
    let name = call.params.get("name");
    remove(call, Change::GlobalParameterDelete { name }).await
}
