//! Routes to single queues, exchanges and bindings, and to their changes.

use super::api::Call;
use super::aside::aside;
use super::listings::{each_binding, each_implied, listed};
use super::reply::Reply;
use super::work::failed;
use crate::base::Name;
use crate::broker::binding::Binding;
use crate::broker::router::BindingsOf;
use crate::broker::{Destination, ObjectKind};
use crate::management::http::json::stats::ExchangeCounts;
use crate::management::http::json::topology;
use crate::management::http::{Failure, Listing};
use crate::management::samples;
use crate::management::{BindingBody, DeleteIf, ExchangeBody, QueueBody, Refusal};

/// The name of the default exchange in the API.
const DEFAULT_EXCHANGE: &str = "amq.default";

/// The exchange in a path.
pub(super) fn exchange_name(call: &Call<'_>, param: &str) -> Name {
    let name = call.params.get(param);
    if name == DEFAULT_EXCHANGE {
        return Name::from("");
    }
    name
}

/// `PUT /api/queues/VHOST/NAME`.
pub(super) async fn put_queue(call: &Call<'_>) -> Result<Reply, Failure> {
    let fields = call.fields_such_as(&["durable", "auto_delete", "exclusive", "arguments"])?;
    let body = QueueBody {
        durable: fields.flag("durable", false)?,
        // A queue cannot be exclusive to a connection that ends with the answer.
        exclusive: false,
        auto_delete: fields.flag("auto_delete", false)?,
        arguments: fields.arguments("arguments")?,
    };
    let name = call.params.get("name");
    let stored = call.declare((ObjectKind::Queue, &name), |operations| {
        let declared = operations.declare_queue(&name, body)?;
        Ok(((declared.created, declared.warnings), declared.lsn))
    });
    let (created, warnings) = stored.await?;
    Ok(Reply::Stored { created, warnings })
}

/// `DELETE /api/queues/VHOST/NAME`.
pub(super) async fn delete_queue(call: &Call<'_>) -> Result<Reply, Failure> {
    let name = call.params.get("name");
    call.query.refuse_mistyped(&["if-unused", "if-empty"])?;
    let only = DeleteIf {
        unused: call.query.flag("if-unused")?,
        empty: call.query.flag("if-empty")?,
    };
    call.operate(|operations| {
        operations.queue(&name)?;
        let (_, lsn) = operations.delete_queue(&name, only)?;
        Ok(((), lsn))
    })
    .await
    .map_err(resource_gone)?;
    Ok(Reply::Done)
}

/// `DELETE /api/queues/VHOST/NAME/contents`.
pub(super) async fn purge_queue(call: &Call<'_>) -> Result<Reply, Failure> {
    let name = call.params.get("name");
    call.operate(|operations| {
        operations.queue(&name)?;
        let (_, lsn) = operations.purge_queue(&name)?;
        Ok(((), lsn))
    })
    .await
    .map_err(resource_gone)?;
    Ok(Reply::Done)
}

/// `GET /api/exchanges/VHOST/NAME`.
pub(super) fn exchange(call: &Call<'_>) -> Result<Reply, Failure> {
    let (listing, vhost) = (Listing::parse(&call.query)?, call.vhost()?);
    let name = exchange_name(call, "name");
    let seen = vhost.look(|core| {
        let router = core.router();
        let exchange = router.exchange_named(&name)?;
        let counted = ExchangeCounts {
            counts: samples::of_exchange(router.passed(exchange)),
            rates: vhost.rates.last().exchanges.of(&exchange.id),
        };
        Some((exchange.spec.clone(), core.policies().clone(), counted))
    });
    let (spec, policies, counted) = seen.map_err(failed)?.ok_or_else(Failure::not_found)?;
    let policy = policies.of_exchange(&name).map(|policy| &*policy.name);
    let described = topology::exchange(vhost.name(), &spec, policy);
    let described = topology::exchange_counted(described, counted);
    let alone = topology::exchange_alone(described);
    Ok(Reply::Json(listing.project(alone)))
}

/// `PUT /api/exchanges/VHOST/NAME`.
pub(super) async fn put_exchange(call: &Call<'_>) -> Result<Reply, Failure> {
    let known = ["type", "durable", "auto_delete", "internal", "arguments"];
    let fields = call.fields_such_as(&known)?;
    let body = ExchangeBody {
        kind: Name::from(fields.text("type")?.unwrap_or("direct")),
        durable: fields.flag("durable", false)?,
        auto_delete: fields.flag("auto_delete", false)?,
        internal: fields.flag("internal", false)?,
        arguments: fields.arguments("arguments")?,
    };
    let name = exchange_name(call, "name");
    let stored = call.declare((ObjectKind::Exchange, &name), |operations| {
        let declared = operations.declare_exchange(&name, body)?;
        Ok(((declared.created, declared.warnings), declared.lsn))
    });
    let (created, warnings) = stored.await?;
    Ok(Reply::Stored { created, warnings })
}

/// `DELETE /api/exchanges/VHOST/NAME`.
pub(super) async fn delete_exchange(call: &Call<'_>) -> Result<Reply, Failure> {
    let name = exchange_name(call, "name");
    call.query.refuse_mistyped(&["if-unused"])?;
    let only = DeleteIf {
        unused: call.query.flag("if-unused")?,
        empty: false,
    };
    call.operate(|operations| {
        if operations.core.router().exchange_named(&name).is_none() {
            return Err(Refusal::not_found(""));
        }
        let lsn = operations.delete_exchange(&name, only)?;
        Ok(((), lsn))
    })
    .await
    .map_err(resource_gone)?;
    Ok(Reply::Done)
}

/// The answer for a missing object of the path: RabbitMQ has one for all of these.
pub(super) fn resource_gone(failure: Failure) -> Failure {
    if failure.status == 404 {
        return Failure::not_found();
    }
    failure
}

/// `GET /api/bindings/VHOST/e/SOURCE/q/DESTINATION` and its variants.
pub(super) async fn bindings_between(call: &Call<'_>) -> Result<Reply, Failure> {
    list(call, Some(source(call)), Some(destination(call)?)).await
}

/// `GET /api/queues/VHOST/NAME/bindings`.
pub(super) async fn bindings_to_queue(call: &Call<'_>) -> Result<Reply, Failure> {
    let name = call.params.get("name");
    let known = call.vhost()?.look(|core| core.queue(&name).is_some());
    require(known.map_err(failed)?)?;
    list(call, None, Some(Destination::Queue(name))).await
}

/// `GET /api/exchanges/VHOST/NAME/bindings/source`.
pub(super) async fn bindings_from(call: &Call<'_>) -> Result<Reply, Failure> {
    let name = exchange_name(call, "name");
    require_exchange(call, &name)?;
    list(call, Some(name), None).await
}

/// `GET /api/exchanges/VHOST/NAME/bindings/destination`.
pub(super) async fn bindings_to(call: &Call<'_>) -> Result<Reply, Failure> {
    let name = exchange_name(call, "name");
    require_exchange(call, &name)?;
    list(call, None, Some(Destination::Exchange(name))).await
}

fn require_exchange(call: &Call<'_>, name: &str) -> Result<(), Failure> {
    let known = call
        .vhost()?
        .look(|core| core.router().exchange_named(name).is_some());
    require(known.map_err(failed)?)
}

fn require(known: bool) -> Result<(), Failure> {
    if known {
        return Ok(());
    }
    Err(Failure::not_found())
}

async fn list(
    call: &Call<'_>,
    source: Option<Name>,
    destination: Option<Destination>,
) -> Result<Reply, Failure> {
    let listing = Listing::parse(&call.query)?;
    let of = BindingsOf {
        source,
        destination,
        key: None,
    };
    let found = find_bindings(call, of).await?;
    let (vhost, kept) = (call.params.get("vhost"), call.kept());
    aside(move || {
        let found = found.iter();
        let found = found.map(|binding| topology::binding(&vhost, binding));
        listed(&listing, &kept, found)
    })
    .await
}

/// The source exchange in the path.
pub(super) fn source(call: &Call<'_>) -> Name {
    exchange_name(call, "source")
}

/// The destination in the path; its type is a letter in the path (as RabbitMQ).
pub(super) fn destination(call: &Call<'_>) -> Result<Destination, Failure> {
    let name = call.params.get("destination");
    match &*call.params.get("type") {
        "q" => Ok(Destination::Queue(name)),
        "e" => Ok(Destination::Exchange(name)),
        _ => Err(Failure::not_found()),
    }
}

async fn find_bindings(call: &Call<'_>, of: BindingsOf) -> Result<Vec<Binding>, Failure> {
    let vhost = call.vhost()?;
    aside(move || {
        let mut found = Vec::new();
        let of_default = of.source.as_ref().is_none_or(|source| source.is_empty());
        if of_default && of.destination.is_none() {
            let added = each_implied(&vhost, |binding| found.push(binding.clone()));
            added.map_err(failed)?;
        } else if of.source.is_none() {
            let implied = BindingsOf {
                source: Some(Name::default()),
                ..of.clone()
            };
            let added = each_binding(&vhost, &implied, |binding| found.push(binding.clone()));
            added.map_err(failed)?;
        }
        let added = each_binding(&vhost, &of, |binding| found.push(binding.clone()));
        added.map_err(failed)?;
        Ok(found)
    })
    .await
}

/// `POST /api/bindings/VHOST/e/SOURCE/q/DESTINATION` and its variants.
pub(super) async fn bind(call: &Call<'_>) -> Result<Reply, Failure> {
    let fields = call.fields_such_as(&["routing_key", "arguments"])?;
    let body = BindingBody {
        source: source(call),
        destination: destination(call)?,
        key: Name::from(fields.text("routing_key")?.unwrap_or_default()),
        arguments: fields.arguments("arguments")?,
    };
    let binding = Binding::new(&body.source, &body.destination, &body.key, &body.arguments);
    call.operate(|operations| Ok(((), operations.bind(body)?)))
        .await?;
    let destination = call.params.get("destination").percent_encoded();
    let key = Name::from(topology::properties_key(&binding)).percent_encoded();
    Ok(Reply::CreatedAt(format!("{destination}/{key}")))
}

/// The binding whose properties key is in the path: the key is a part of it, so only bindings with
/// that key are examined.
async fn find_binding(call: &Call<'_>) -> Result<Binding, Failure> {
    let props = call.params.get("props");
    let key = topology::key_of(&props).ok_or_else(Failure::not_found)?;
    let of = BindingsOf {
        source: Some(source(call)),
        destination: Some(destination(call)?),
        key: Some(key),
    };
    let mut found = find_bindings(call, of).await?.into_iter();
    found
        .find(|binding| topology::properties_key(binding) == *props)
        .ok_or_else(Failure::not_found)
}

/// `GET .../PROPS`.
pub(super) async fn binding(call: &Call<'_>) -> Result<Reply, Failure> {
    let found = find_binding(call).await?;
    let vhost = call.params.get("vhost");
    Ok(Reply::Json(topology::binding(&vhost, &found)))
}

/// `DELETE .../PROPS`.
pub(super) async fn unbind(call: &Call<'_>) -> Result<Reply, Failure> {
    let found = find_binding(call).await?;
    call.operate(|operations| Ok(((), operations.unbind_exactly(found)?)))
        .await?;
    Ok(Reply::Done)
}
