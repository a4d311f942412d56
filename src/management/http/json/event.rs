//! JSON of events: the structured form of `CloudEvents` 1.0. [evidence part 10]

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value as Json, json};

use super::message::{by, error, keys};
use super::put;
use crate::base::limits::EVENT_ROUTING_KEYS_MAX;
use crate::base::{Name, Timestamp};
use crate::broker::DropCause;
use crate::broker::death_counts::DeathOutcome;
use crate::broker::event::{EventKind, EventMessage, EventTargets, RedriveNews, VhostEvent};
use crate::broker::redrive::RedriveCause;
use crate::deaths::{Entry, Evidence, Viewer};
use crate::search::{Fingerprint, message_id_text, property_text};
use crate::wire::{PropertyField, Value};

/// The version of `CloudEvents`.
const SPEC_VERSION: &str = "1.0";
/// What stays as it is in a part of a path. [RFC 3986 2.3]
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');
/// The application property with the context of a trace.
const TRACE_PARENT: &str = "traceparent";

/// Whoever is told of an event.
#[derive(Clone, Copy, Debug)]
pub struct EventViewer<'a> {
    /// Whose identities it sees.
    pub viewer: Viewer<'a>,
    /// Whether it may read the queue of the event: else it sees neither error nor consumer.
    pub may_read: bool,
}

/// The id of an event, which ends in its number.
pub fn event_id(origin: u64, number: u64) -> String {
    format!("{origin:016x}-{number}")
}

/// An event of a vhost.
pub fn event(vhost: &str, origin: u64, event: &VhostEvent, viewer: EventViewer<'_>) -> Json {
    let source = format!("/vhosts/{}/queues/{}", part(vhost), part(&event.queue));
    let mut json = json!({
        "specversion": SPEC_VERSION,
        "type": format!("coroner.{}.v1", event.first_type().as_str()),
        "source": source,
        "id": event_id(origin, event.number),
        "time": time(event.time),
        "datacontenttype": "application/json",
        "data": data(vhost, event, viewer),
    });
    let about = event.message.as_ref();
    let message = about.and_then(|about| about.message.as_deref());
    let id = message.and_then(|message| message.property(PropertyField::MessageId));
    if let Some(Value::String(id)) = id {
        put(&mut json, "subject", json!(id));
    }
    json
}

/// What a stream says of itself: `gap` or `summary`.
pub fn stream_event(word: &str, id: &str, now: Timestamp, data: &Json) -> Json {
    json!({
        "specversion": SPEC_VERSION,
        "type": format!("coroner.{word}.v1"),
        "source": "/api/events",
        "id": format!("{word}-{id}"),
        "time": time(now),
        "datacontenttype": "application/json",
        "data": data,
    })
}

fn part(name: &str) -> String {
    utf8_percent_encode(name, UNRESERVED).to_string()
}

/// A time as RFC 3339 writes it, in UTC. Years count from March, so that the day that some have more is
/// their last.
fn time(at: Timestamp) -> String {
    const DAY_MS: i64 = 86_400_000;
    const ERA_DAYS: i64 = 146_097; // of 400 years, which repeat
    let (days, ms) = (at.0.div_euclid(DAY_MS), at.0.rem_euclid(DAY_MS));
    let days = days + 719_468; // since the first of March of the year 0
    let (era, day) = (days.div_euclid(ERA_DAYS), days.rem_euclid(ERA_DAYS));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (year, month) = if month < 10 {
        (era * 400 + year, month + 3)
    } else {
        (era * 400 + year + 1, month - 9)
    };
    let (hour, minute) = (ms / 3_600_000, ms / 60_000 % 60);
    let (second, ms) = (ms / 1_000 % 60, ms % 1_000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

/// The data of an event, never the body of a message.
pub fn data(vhost: &str, event: &VhostEvent, viewer: EventViewer<'_>) -> Json {
    let mut data = json!({ "vhost": vhost, "queue": &*event.queue });
    match &event.kind {
        EventKind::Death {
            outcome, targets, ..
        } => {
            let word = outcome.map_or("waiting", |outcome| outcome.words().0);
            put(&mut data, "outcome", json!(word));
            put_targets(&mut data, targets);
        }
        EventKind::DeadLettered { targets, .. } => put_targets(&mut data, targets),
        EventKind::Dropped { messages, .. } => put(&mut data, "messages", json!(messages)),
        EventKind::Quarantined { .. } => {}
        EventKind::Redriven { job, by, targets } => {
            put(&mut data, "redrive", json!(&**job));
            put_user(&mut data, by, viewer);
            put_targets(&mut data, targets);
        }
        EventKind::Redrive(news) => put_news(&mut data, news, viewer),
        EventKind::ConsumerTimeout { timeout_ms } => {
            put(&mut data, "timeout_ms", json!(timeout_ms));
        }
    }
    if let Some(reason) = event.reason() {
        put(&mut data, "reason", json!(reason.as_str()));
    }
    if let Some(cause) = event.cause() {
        put(&mut data, "cause", json!(cause.as_str()));
    }
    if let Some(about) = &event.message {
        put_message(&mut data, event, about, viewer);
    }
    data
}

fn put_targets(data: &mut Json, targets: &EventTargets) {
    put(data, "targets", keys(&targets.names));
    let left_out = targets.count as usize - targets.names.len();
    if left_out > 0 {
        put(data, "targets_left_out", json!(left_out));
    }
}

/// Who made a redrive: a user of the registry, as bearers of tokens make none.
fn put_user(data: &mut Json, user: &str, viewer: EventViewer<'_>) {
    let is_own = viewer.viewer.is_user(user, false);
    if viewer.may_read && (is_own || viewer.viewer.is_monitor()) {
        put(data, "by", json!({ "user": user }));
    }
}

fn put_news(data: &mut Json, news: &RedriveNews, viewer: EventViewer<'_>) {
    put(data, "redrive", json!(&*news.id));
    put_user(data, &news.by, viewer);
    put(data, "state", json!(news.state.as_str()));
    put(data, "cause", json!(news.cause.map(RedriveCause::as_str)));
    put(data, "moved", json!(news.counts.moved));
    put(data, "accepted", json!(news.outcome.accepted));
    put(data, "died_again", json!(news.outcome.died_again));
}

fn put_message(data: &mut Json, event: &VhostEvent, about: &EventMessage, viewer: EventViewer<'_>) {
    put(data, "position", json!(about.position.0));
    put(data, "size_bytes", json!(about.size_bytes));
    put(data, "age_ms", json!(about.age_ms));
    let evidence = match about.entry(&event.queue, event.reason()) {
        Some(entry) => {
            put_entry(data, about, entry);
            entry.evidence.as_deref()
        }
        None => put_unwritten(data, event, about),
    };
    if let Some(evidence) = evidence {
        put_evidence(data, evidence, viewer);
    }
    let Some(message) = &about.message else {
        return;
    };
    let correlation = property_text(message, PropertyField::CorrelationId);
    let trace = message.application_property(TRACE_PARENT);
    for (name, text) in [
        ("message_id", message_id_text(message)),
        ("correlation_id", correlation),
        (
            TRACE_PARENT,
            trace.as_ref().and_then(Value::as_str).map(str::to_owned),
        ),
    ] {
        if let Some(text) = text {
            put(data, name, json!(text));
        }
    }
}

fn put_keys(data: &mut Json, routing_keys: &[Name]) {
    let (named, left_out) = routing_keys
        .split_at_checked(EVENT_ROUTING_KEYS_MAX)
        .unwrap_or((routing_keys, &[]));
    put(data, "routing_keys", keys(named));
    if !left_out.is_empty() {
        put(data, "routing_keys_left_out", json!(left_out.len()));
    }
}

/// What the history of a dead letter says of its latest death.
fn put_entry(data: &mut Json, about: &EventMessage, entry: &Entry) {
    let exchange = about
        .history
        .as_ref()
        .map(|history| history.last().exchange);
    put(data, "count", json!(entry.count));
    put(data, "exchange", json!(exchange.map(|name| &**name)));
    put_keys(data, &entry.routing_keys);
    let group = Fingerprint::of_death(entry, about.message.as_deref());
    put(data, "group", json!(group.key));
}

/// The same of a message whose death is in no history.
fn put_unwritten<'a>(
    data: &mut Json,
    event: &VhostEvent,
    about: &'a EventMessage,
) -> Option<&'a Evidence> {
    let unwritten = about.unwritten.as_ref()?;
    let route = &unwritten.route;
    put(data, "exchange", json!(&*route.exchange));
    put_keys(data, &route.keys);
    if let EventKind::Death { reason, .. } = &event.kind {
        let known = about.history.as_ref();
        let entries = known.map_or(&[][..], |history| history.entries());
        let mut entries = entries.iter();
        let before = entries.find(|entry| entry.queue == event.queue && entry.reason == *reason);
        let count = before.map_or(1, |entry| entry.count + 1);
        put(data, "count", json!(count));
        let entry = Entry {
            queue: event.queue.clone(),
            reason: *reason,
            count,
            first_time: event.time,
            last_time: event.time,
            exchange: route.exchange.clone(),
            routing_keys: route.keys.clone(),
            ttl: None,
            evidence: unwritten.evidence.clone(),
        };
        let group = Fingerprint::of_death(&entry, about.message.as_deref());
        put(data, "group", json!(group.key));
    }
    unwritten.evidence.as_deref()
}

fn put_evidence(data: &mut Json, evidence: &Evidence, viewer: EventViewer<'_>) {
    if let Some(rule) = &evidence.rule {
        put(data, "rule", json!(&**rule));
    }
    if !viewer.may_read {
        return;
    }
    if let Some(error) = error(evidence) {
        put(data, "error", error);
    }
    if let Some(how) = evidence.how {
        put(data, "by", by(evidence, how, viewer.viewer));
    }
}

/// Where a message went that was in a queue, as its last event says.
pub fn whereabouts(event: &VhostEvent) -> String {
    let at = time(event.time);
    let to = event.targets().map_or_else(String::new, |targets| {
        let names: Vec<String> = targets
            .names
            .iter()
            .map(|name| format!("'{name}'"))
            .collect();
        let left_out = targets.count as usize - targets.names.len();
        let more = if left_out > 0 {
            format!(" and {left_out} more")
        } else {
            String::new()
        };
        format!("{}{more}", names.join(", "))
    });
    let dropped = |cause: DropCause| format!("dropped ({}): {}", cause.as_str(), cause.meaning());
    match &event.kind {
        EventKind::Death {
            reason, outcome, ..
        } => {
            let reason = reason.as_str();
            let became = match outcome {
                Some(DeathOutcome::DeadLettered) => format!("went to {to}"),
                Some(DeathOutcome::Dropped(cause)) => format!("was {}", dropped(*cause)),
                Some(DeathOutcome::Quarantined(cause)) => {
                    format!("went to the quarantine ({})", cause.as_str())
                }
                None => "waited for a target".to_owned(),
            };
            format!("it died at {at} ({reason}), and {became}")
        }
        EventKind::DeadLettered { reason, .. } => {
            let reason = reason.as_str();
            format!("it had died ({reason}) and waited; at {at} it went to {to}")
        }
        EventKind::Dropped { cause, .. } => format!("at {at} it was {}", dropped(*cause)),
        EventKind::Quarantined { cause, .. } => {
            let cause = cause.as_str();
            format!("it had died and waited; at {at} it went to the quarantine ({cause})")
        }
        EventKind::Redriven { job, .. } => {
            format!("at {at} the redrive '{job}' moved it to {to}")
        }
        EventKind::ConsumerTimeout { .. } => {
            format!("at {at} its consumer had held it for too long; it was settled since")
        }
        EventKind::Redrive(_) => String::new(),
    }
}

/// Counts of events, by type, reason or cause, and queue.
pub fn summary(
    counts: impl IntoIterator<Item = ((&'static str, Option<&'static str>), u64)>,
) -> Json {
    let mut types: Map<String, Json> = Map::new();
    for ((kind, word), count) in counts {
        let of_type = types.entry(kind).or_insert_with(|| json!({}));
        put(of_type, word.unwrap_or("all"), json!(count));
    }
    Json::Object(types)
}

#[cfg(test)]
mod tests {
    use super::time;
    use crate::base::Timestamp;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (951_868_800_000, "2000-03-01T00:00:00.000Z"),
            (1_709_164_800_000, "2024-02-29T00:00:00.000Z"),
            (1_767_225_599_001, "2025-12-31T23:59:59.001Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(time(Timestamp(ms)), text);
        }
    }
}
