//! JSON of the explanation of a message.

use serde_json::{Value as Json, json};

use super::put;
use crate::management::{Culprit, Explanation, LifeStep, NextStep, TargetQueue, Whereabouts};

/// The JSON of an explanation.
pub fn explanation(explanation: &Explanation) -> Json {
    json!({
        "as_of": explanation.as_of,
        "life": explanation.life.iter().map(life).collect::<Json>(),
        "now": now(&explanation.now),
        "next": explanation.next.iter().map(next).collect::<Json>(),
    })
}

fn life(step: &LifeStep) -> Json {
    let mut json = json!({
        "at": step.at,
        "what": step.what,
        "where": step.place,
        "why": step.why,
        "rule": step.rule,
        "by": step.by.as_ref().map(culprit),
    });
    if step.what == "published" {
        put(&mut json, "routing_keys", json!(step.routing_keys));
    }
    if matches!(step.what, "died" | "folded" | "failed") {
        put(&mut json, "count", json!(step.count));
    }
    for (name, value) in [("from", &step.from), ("job", &step.job)] {
        if let Some(value) = value {
            put(&mut json, name, json!(value));
        }
    }
    if step.deaths.is_some() {
        put(&mut json, "deaths", json!(step.deaths));
    }
    if step.first_at.is_some() {
        put(&mut json, "first_at", json!(step.first_at));
    }
    if step.condition.is_some() || step.description.is_some() {
        let error = json!({ "condition": step.condition, "description": step.description });
        put(&mut json, "error", error);
    }
    json
}

fn culprit(culprit: &Culprit) -> Json {
    let mut json = json!({
        "container": culprit.container,
        "link": culprit.link,
    });
    let further = [
        ("how", culprit.how),
        ("user", culprit.user.as_deref()),
        ("address", culprit.address.as_deref()),
    ];
    for (name, value) in further {
        if let Some(value) = value {
            put(&mut json, name, json!(value));
        }
    }
    json
}

fn now(now: &Whereabouts) -> Json {
    let settings = now.settings.iter().map(|setting| {
        let traced = json!({ "value": setting.value, "rule": setting.rule });
        (setting.key.to_owned(), traced)
    });
    json!({
        "queue": now.queue,
        "position": now.position.to_string(),
        "state": now.state,
        "since": now.since,
        "delayed_until": now.delayed_until,
        "ahead": now.ahead,
        "failures": now.failures,
        "consumers": now.consumers,
        "expires_at": now.expires_at,
        "rule": now.rule,
        "held_by": now.held_by.as_ref().map(culprit),
        "settings": Json::Object(settings.collect()),
    })
}

fn next(step: &NextStep) -> Json {
    let way = step
        .exchange
        .as_ref()
        .map(|exchange| json!({ "exchange": exchange, "keys": step.routing_keys }));
    let skipped = step.skipped.iter();
    let skipped: Json = skipped
        .map(|(queue, why)| json!({ "queue": queue, "why": why }))
        .collect();
    json!({
        "if": step.event,
        "then": {
            "verdict": step.verdict,
            "reason": step.reason,
            "cause": step.cause,
            "waits": step.waits,
            "targets": step.targets.iter().map(target).collect::<Json>(),
            "way": way,
            "skipped": skipped,
        },
        "rule": step.rule,
    })
}

fn target(target: &TargetQueue) -> Json {
    json!({
        "queue": target.queue,
        "consumers": target.consumers,
        "messages": target.messages,
        "max_length": target.max_length,
        "dies": target.dies,
    })
}
