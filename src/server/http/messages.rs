//! Routes to messages: publish, get, browse.

use std::sync::Arc;

use serde_json::{Value, json};

use super::answer::Answer;
use super::api::Call;
use super::aside::aside;
use super::objects::exchange_name;
use super::reply::Reply;
use super::rights::require;
use super::scan::may_ask_for_users;
use super::visitor::Visitor;
use super::work::{failed, refused};
use crate::access::{DEFAULT_EXCHANGE_NAME, Right};
use crate::base::limits::{BROWSED_BYTES_MAX, BROWSED_MAX};
use crate::base::{Lsn, Name, Position};
use crate::broker::queue::MessageState;
use crate::broker::{Error, ObjectKind, Outcome, PublishOutcome};
use crate::deaths::Viewer;
use crate::management::http::json::groups;
use crate::management::http::json::message::{self, PayloadEncoding, Showing, Shown};
use crate::management::http::{Failure, Fields, Publication, Query, filter_of_query};
use crate::management::{QueueBody, Refusal, STATES, state_of_word};
use crate::message::{KeyRule, Message, MessageError, Route};
use crate::node::ShownMessage;
use crate::server::Store;
use crate::server::scan::whole;

/// The queue that the aliveness test declares and publishes to.
const ALIVENESS_QUEUE: &str = "aliveness-test";
/// Time to live of its message, in milliseconds.
const ALIVENESS_TTL_MS: u64 = 60_000;
/// Messages that it takes until it finds its own, at most.
const ALIVENESS_TAKEN_MAX: u64 = 256;
/// Messages that one request browses by default.
const BROWSE_COUNT: u64 = 50;
/// The parameters of a request that browses, beside the filter.
const BROWSE_PARAMETERS: &[&str] = &["count", "from", "state", "encoding", "truncate"];

/// `POST /api/exchanges/VHOST/NAME/publish`.
pub(super) async fn publish(call: &Call<'_>) -> Result<Reply, Failure> {
    let known = ["properties", "routing_key", "payload", "payload_encoding"];
    let fields = call.fields_such_as(&known)?;
    let exchange = exchange_name(call, "name");
    let registry = call.shared.node.environment.registry();
    let vhost = call.params.get("vhost");
    let options = &call.shared.node.environment.options;
    let (bytes_max, key_rule) = (options.message_bytes_max, options.key_rule);
    let delivery_times = options.delivery_times;
    // Of a large message this takes long.
    let (routing_key, message) = aside(move || compose(&fields, bytes_max, key_rule)).await?;
    check_user_id(call, &message)?;
    let mut keys = vec![routing_key];
    let bad = |error: MessageError| Failure::bad_request(error.to_string());
    let directions = message.directions();
    keys.extend(directions.cc().map_err(bad)?);
    let delivery_time = if delivery_times {
        directions.delivery_time().map_err(bad)?
    } else {
        None
    };
    let route = Arc::new(Route {
        exchange,
        keys: keys.into(),
    });
    let topics = call.identity.topics(&registry, &vhost);
    let topic = topics.and_then(|topics| topics.get(&route.exchange));
    let forbidden = topic.and_then(|topic| topic.first_forbidden(&route.keys));
    let visitor = Visitor::enter(call)?;
    let outcome = visitor
        .publish(route, message, (forbidden, delivery_time))
        .await?;
    match outcome {
        PublishOutcome::Accepted => Ok(Reply::Json(json!({ "routed": true }))),
        PublishOutcome::Unroutable => Ok(Reply::Json(json!({ "routed": false }))),
        PublishOutcome::NoExchange { .. } => Err(Failure {
            status: 404,
            error: "not_found",
            reason: "exchange_not_found".to_owned(),
        }),
        PublishOutcome::Forbidden { key, .. } => Err(Failure::bad_request(format!(
            "403 ACCESS_REFUSED - write access to topic '{key}' refused for user '{}'",
            call.identity.name,
        ))),
        PublishOutcome::Internal { .. } => Err(Failure::bad_request(
            "403 ACCESS_REFUSED - the exchange is internal",
        )),
        PublishOutcome::TooManyQueues(why) => Err(Failure::bad_request(why.to_string())),
        PublishOutcome::QueueFull { queue } => Err(Failure::bad_request(format!(
            "queue '{queue}' is full and refused the message"
        ))),
    }
}

/// The message that the fields describe, and its key.
fn compose(fields: &Fields, bytes_max: u64, key_rule: KeyRule) -> Result<(Name, Message), Failure> {
    let publication = Publication::of(fields)?;
    if publication.payload.len() as u64 > bytes_max {
        let why = format!("the message has more than {bytes_max} bytes");
        return Err(Failure::bad_request(why));
    }
    let message = Message::from_transfer(publication.payload.into(), key_rule)
        .map_err(|error| Failure::bad_request(error.to_string()))?;
    Ok((publication.routing_key, message))
}

/// Checks that the user may publish to the exchange in the path.
pub(super) fn may_publish(call: &Call<'_>) -> Result<(), Failure> {
    let exchange = exchange_name(call, "name");
    let registry = call.shared.node.environment.registry();
    let vhost = call.params.get("vhost");
    if !call.identity.enters(&registry, &vhost) {
        let reason = "User not authorised to access virtual host";
        return Err(Failure::not_authorised(reason));
    }
    if call.permissions().allow(Right::Write, &exchange) {
        return Ok(());
    }
    let user = &call.identity.name;
    let exchange = if exchange.is_empty() {
        DEFAULT_EXCHANGE_NAME
    } else {
        &*exchange
    };
    Err(Failure::bad_request(format!(
        "403 ACCESS_REFUSED - write access to exchange '{exchange}' in vhost '{vhost}' refused for \
         user '{user}'"
    )))
}

/// Checks that the user may read the queue in the path.
pub(super) fn may_read(call: &Call<'_>) -> Result<(), Failure> {
    let name = call.params.get("name");
    if call.permissions().allow(Right::Read, &name) {
        return Ok(());
    }
    Err(Failure::not_authorised(format!(
        "ACCESS_REFUSED - read access to queue '{name}' in vhost '{}' refused for user '{}'",
        call.params.get("vhost"),
        call.identity.name,
    )))
}

fn check_user_id(call: &Call<'_>, message: &Message) -> Result<(), Failure> {
    let Some(user_id) = message.user_id() else {
        return Ok(());
    };
    if call.identity.may_send_as(user_id) {
        return Ok(());
    }
    let claimed = String::from_utf8_lossy(user_id);
    let user = &call.identity.name;
    Err(Failure::bad_request(format!(
        "the property 'user_id' is '{claimed}', but the user is '{user}'"
    )))
}

/// `GET /api/aliveness-test/VHOST`: a message passes through a queue that stays (as RabbitMQ). It
/// requires the permissions to declare the queue, to publish to it and to read it; other messages
/// that it finds there are requeued.
pub(super) async fn aliveness(call: &Call<'_>) -> Result<Reply, Failure> {
    let name = Name::from(ALIVENESS_QUEUE);
    require(
        call,
        Right::Write,
        ObjectKind::Exchange,
        DEFAULT_EXCHANGE_NAME,
    )?;
    require(call, Right::Read, ObjectKind::Queue, &name)?;
    let body = QueueBody {
        durable: false,
        exclusive: false,
        auto_delete: false,
        arguments: Vec::new(),
    };
    call.declare((ObjectKind::Queue, &name), |operations| {
        Ok(((), operations.declare_queue(&name, body)?.lsn))
    })
    .await?;
    let visitor = Visitor::enter(call)?;
    let message = json!({
        // The message of an interrupted test expires.
        "properties": { "message_id": visitor.unique_name(), "expiration": ALIVENESS_TTL_MS },
        "routing_key": ALIVENESS_QUEUE,
        "payload": "test_message",
        "payload_encoding": "string",
    });
    let options = &call.shared.node.environment.options;
    let fields = Fields::of_body(Some(message))?;
    let (key, message) = compose(&fields, options.message_bytes_max, options.key_rule)?;
    let own = message.bare_bytes();
    let route = Arc::new(Route {
        exchange: Name::default(),
        keys: [key].into(),
    });
    let published = visitor.publish(route, message, (None, None)).await?;
    let taken = visitor.take(&name, ALIVENESS_TAKEN_MAX).await?;
    let (own, others): (Vec<_>, Vec<_>) = taken
        .into_iter()
        .partition(|delivery| delivery.message.bare() == &*own);
    visitor.settle(&others, &Outcome::Released).await?;
    visitor.settle(&own, &Outcome::Accepted).await?;
    if published == PublishOutcome::Accepted && !own.is_empty() {
        return Ok(Reply::Json(json!({ "status": "ok" })));
    }
    Err(Failure::unavailable("the message did not come through"))
}

/// `POST /api/queues/VHOST/NAME/get`.
pub(super) async fn get(call: &Call<'_>) -> Result<Reply, Failure> {
    let fields = call.fields_such_as(&["ackmode", "count", "encoding", "truncate"])?;
    fields.require(&["ackmode", "count", "encoding"])?;
    let outcome = match fields.text("ackmode")?.unwrap_or_default() {
        "ack_requeue_false" => Outcome::Accepted,
        "ack_requeue_true" | "reject_requeue_true" => Outcome::Released,
        "reject_requeue_false" => Outcome::Rejected { evidence: None },
        _ => {
            return Err(Failure::bad_request(
                "the field 'ackmode' must be one of ack_requeue_true, ack_requeue_false, \
                 reject_requeue_true, reject_requeue_false",
            ));
        }
    };
    let showing = showing(fields.text("encoding")?, fields.integer("truncate")?)?;
    let count = fields.integer("count")?.unwrap_or_default();
    let count = u64::try_from(count)
        .map_err(|_| Failure::bad_request("the field 'count' must not be negative"))?;
    let name = readable_queue(call)?;
    let visitor = Visitor::enter(call)?;
    let taken = visitor.take(&name, count.min(BROWSED_MAX)).await?;
    let for_good = matches!(outcome, Outcome::Accepted);
    call.shared.gets.count(taken.len(), for_good);
    let left = call.vhost()?.look(|core| {
        let queue = core.queue(&name);
        queue.map_or(0, |queue| queue.messages.ready())
    });
    let left = left.map_err(failed)?;
    let taken = Arc::new(taken);
    let (deliveries, store) = (Arc::clone(&taken), call.shared.node.store.clone());
    let identity = call.identity.clone();
    let mut answer = Answer::new(call.shared.node.alarms.connections());
    // Before they are settled: a message that cannot be read is not lost.
    let messages = aside(move || {
        let total = deliveries.len() as u64;
        let behind = (1..).map(|index: u64| left + total.saturating_sub(index));
        let mut comma = "[";
        for (delivery, behind) in deliveries.iter().zip(behind) {
            let message = whole(store.as_deref(), &delivery.message)?;
            let shown = Shown {
                message: &message,
                route: &delivery.route,
                delivery_count: delivery.delivery_count,
                failures: delivery.failures,
                acquired: delivery.acquired,
                redelivered: delivery.acquired > 0,
                viewer: identity.viewer(),
            };
            let mut json = message::message(&shown, showing);
            if let Value::Object(fields) = &mut json {
                fields.insert("message_count".to_owned(), json!(behind));
            }
            answer.write(&comma)?;
            answer.write(&json)?;
            comma = ",";
        }
        answer.write(if deliveries.is_empty() { &"[]" } else { &"]" })?;
        Ok(answer)
    })
    .await?;
    visitor.settle(&taken, &outcome).await?;
    Ok(Reply::Roomy(messages))
}

/// `GET /api/queues/VHOST/NAME/messages`: browses without changing anything.
pub(super) async fn browse(call: &Call<'_>) -> Result<Reply, Failure> {
    let query = &call.query;
    let filter = filter_of_query(query, BROWSE_PARAMETERS)?;
    let showing = showing(
        query.get("encoding").or(Some("auto")),
        number(query, "truncate")?,
    )?;
    let place = (wanted_state(query)?, position(query, "from")?);
    let count = unsigned(query, "count", BROWSE_COUNT)?.min(BROWSED_MAX);
    may_ask_for_users(call, &filter)?;
    let name = readable_queue(call)?;
    let mut scan = call.scan(name, place, filter)?;
    let (store, identity) = (call.shared.node.store.clone(), call.identity.clone());
    let mut answer = Answer::new(call.shared.node.alarms.connections());
    aside(move || {
        let (mut items, mut bytes) = (0, 0);
        answer.write(&"{\"messages\":[")?;
        'scan: while items < count && scan.scanned() < BROWSED_MAX {
            let wanted = usize::try_from(count - items).unwrap_or(usize::MAX);
            let Some(found) = scan.slice(wanted)? else {
                break;
            };
            for seen in &found {
                bytes += seen.message.bare_len();
                if items > 0 {
                    answer.write(&",")?;
                }
                let shown = shown(store.as_deref(), seen, (showing, identity.viewer()))?;
                answer.write(&shown)?;
                items += 1;
                if bytes >= BROWSED_BYTES_MAX {
                    scan.go_back(Position(seen.position.0 + 1));
                    break 'scan;
                }
            }
        }
        let next = json!(scan.next().map(groups::position));
        answer.write(&format_args!("],\"next\":{next}}}"))?;
        Ok(Reply::Roomy(answer))
    })
    .await
}

/// `DELETE /api/queues/VHOST/NAME/messages/POSITION`: discards one ready message.
pub(super) async fn discard(call: &Call<'_>) -> Result<Reply, Failure> {
    let name = readable_queue(call)?;
    let given = call.params.get("position");
    let position: u64 = given.parse().map_err(|_| {
        let given: String = given.chars().take(64).collect();
        Failure::bad_request(format!("the position '{given}' must be a number from 0 on"))
    })?;
    let done = call.operate(|operations| {
        Ok(match operations.discard(&name, Position(position)) {
            Ok(lsn) => (Ok(()), lsn),
            Err(refusal) => (Err(refusal), Lsn(0)),
        })
    });
    done.await?.map_err(refused)?;
    Ok(Reply::Done)
}

/// `POST /api/queues/VHOST/NAME/retry`: makes delayed messages ready now.
pub(super) async fn retry(call: &Call<'_>) -> Result<Reply, Failure> {
    let name = readable_queue(call)?;
    let fields = call.fields()?;
    fields.allow(&["count"])?;
    let count = fields.integer("count")?.map(u64::try_from).transpose();
    let count =
        count.map_err(|_| Failure::bad_request("the field 'count' must not be negative"))?;
    let vhost = call.params.get("vhost");
    let retried = call.admin().retry_delayed(&vhost, &name, count).await?;
    Ok(Reply::Json(json!({ "retried": retried })))
}

/// The state of the messages to browse.
pub(super) fn wanted_state(query: &Query) -> Result<MessageState, Failure> {
    let state = state_of_word(query.get("state").unwrap_or("ready"));
    state.ok_or_else(|| {
        let known = STATES.map(|(_, word)| word).join(", ");
        Failure::bad_request(format!("the parameter 'state' must be one of {known}"))
    })
}

fn shown(
    store: Option<&Store>,
    seen: &ShownMessage,
    (showing, viewer): (Showing, Viewer<'_>),
) -> Result<Value, Failure> {
    let message = whole(store, &seen.message)?;
    let shown = Shown {
        message: &message,
        route: &seen.route,
        delivery_count: seen.message.carried_delivery_count() + seen.failures,
        failures: seen.failures,
        acquired: seen.acquired,
        redelivered: seen.acquired > 0,
        viewer,
    };
    let mut json = message::message(&shown, showing);
    if let Value::Object(fields) = &mut json {
        fields.insert("position".to_owned(), groups::position(seen.position));
    }
    Ok(json)
}

/// The queue in the path, if the user may read it and it is not exclusive to a connection.
pub(super) fn readable_queue(call: &Call<'_>) -> Result<Name, Failure> {
    may_read(call)?;
    let name = call.params.get("name");
    let known = call
        .vhost()?
        .look(|core| core.queue(&name).map(|queue| queue.exclusive.is_some()));
    match known.map_err(failed)? {
        Some(false) => Ok(name),
        Some(true) => {
            let vhost = call.params.get("vhost");
            Err(Refusal::from(Error::Locked { name, vhost }).into())
        }
        None => Err(Failure {
            status: 404,
            error: "not_found",
            reason: "queue_not_found".to_owned(),
        }),
    }
}

/// A position in a query, 0 unless given.
pub(super) fn position(query: &Query, name: &str) -> Result<Position, Failure> {
    unsigned(query, name, 0).map(Position)
}

fn unsigned(query: &Query, name: &str, default: u64) -> Result<u64, Failure> {
    let parsed = query.get(name).map(str::parse).transpose();
    let parsed: Option<u64> = parsed.map_err(|_| {
        Failure::bad_request(format!("the parameter '{name}' must be a number from 0 on"))
    })?;
    Ok(parsed.unwrap_or(default))
}

fn number(query: &Query, name: &str) -> Result<Option<i64>, Failure> {
    let parsed = query.get(name).map(str::parse).transpose();
    parsed.map_err(|_| Failure::bad_request(format!("the parameter '{name}' must be a number")))
}

fn showing(encoding: Option<&str>, truncate: Option<i64>) -> Result<Showing, Failure> {
    let encoding = match encoding {
        Some("auto") => PayloadEncoding::Auto,
        Some("base64") => PayloadEncoding::Base64,
        _ => {
            let why = "Unsupported encoding. Please use auto or base64.";
            return Err(Failure::bad_request(why));
        }
    };
    let truncate = truncate.map(usize::try_from).transpose();
    let negative = |_| Failure::bad_request("the field 'truncate' must not be negative");
    Ok(Showing {
        encoding,
        truncate: truncate.map_err(negative)?,
    })
}
