//! The pages of redrives.

use serde_json::{Map, Value, json};

use super::messages::{filter, new_id};
use super::visit::Visit;
use crate::management::http::{Failure, Method};
use crate::page::answer::FromAnswer;
use crate::page::frame::Place;
use crate::page::queues::Paged;
use crate::page::redrive::{Asked, Forecast, Job, NewRedrive, Redrive, Redrives};
use crate::page::show::Text;

/// `/ui/redrives`.
pub(super) async fn list(visit: &Visit<'_>) -> Result<Redrives, Failure> {
    let query = "page=1&page_size=500&sort=created_at&sort_reverse=true";
    let jobs = Paged::<Job>::of(visit.get("/api/redrives", query).await?);
    Ok(Redrives {
        frame: visit.frame("Redrives", Place::Redrives),
        jobs: jobs.items,
    })
}

/// `/ui/redrive`.
pub(super) async fn one(visit: &Visit<'_>) -> Result<Redrive, Failure> {
    let path = job_path(&visit.text("vhost"), &visit.text("id"));
    let job = Job::of(visit.get(&path, "").await?);
    let identity = visit.identity();
    Ok(Redrive {
        frame: visit.frame(&format!("Redrive {}", job.id), Place::Redrives),
        may_steer: identity.is_administrator() || identity.is_user(job.by.raw(), false),
        job,
    })
}

/// The path of a redrive in the API.
pub(super) fn job_path(vhost: &Text, id: &Text) -> String {
    format!("/api/redrives/{}/{}", vhost.query(), id.query())
}

/// `/ui/redrive/new`: with the dry run of what is asked for.
pub(super) async fn new(visit: &Visit<'_>) -> Result<NewRedrive, Failure> {
    let asked = asked(visit)?;
    let path = format!("/api/redrives/{}/dry-run", asked.vhost.query());
    let foreseen = match body(&asked) {
        Ok(body) => visit.send(Method::Post, &path, Some(body)).await,
        Err(failure) => Err(failure),
    };
    let (forecast, refused) = match foreseen {
        Ok(forecast) => (Some(Forecast::of(forecast)), None),
        Err(failure) if failure.status < 500 => (None, Some(Text::new(failure.reason))),
        Err(failure) => return Err(failure),
    };
    Ok(NewRedrive {
        frame: visit.frame(&format!("Redrive from {}", asked.source), Place::Redrives),
        asked,
        id: new_id(),
        forecast,
        refused,
    })
}

/// What the query asks for.
pub(super) fn asked(visit: &Visit<'_>) -> Result<Asked, Failure> {
    let kind = visit.query.get("target").filter(|kind| !kind.is_empty());
    Ok(Asked {
        vhost: visit.text("vhost"),
        source: visit.text("source"),
        filter: filter(visit),
        kind: kind.unwrap_or("origin").to_owned(),
        to_queue: visit.text("to_queue"),
        to_exchange: visit.text("to_exchange"),
        key: visit.text("key"),
        rate: visit.text("rate"),
        max: visit.text("max"),
        ramp: visit.query.get("ramp").unwrap_or_default().to_owned(),
        note: visit.text("note"),
        is_unsafe: visit.query.flag("unsafe")?,
    })
}

/// The body of the request that it is.
pub(super) fn body(asked: &Asked) -> Result<Value, Failure> {
    let mut target = Map::new();
    put(&mut target, "kind", asked.kind.as_str());
    match asked.kind.as_str() {
        "queue" => put(&mut target, "queue", asked.to_queue.raw()),
        "exchange" => {
            put(&mut target, "exchange", asked.to_exchange.raw());
            put(&mut target, "routing_key", asked.key.raw());
        }
        _ => {}
    }
    let mut filter: Map<String, Value> = Map::new();
    for (part, value) in &asked.filter.parts {
        let values = filter.entry(part.clone()).or_insert_with(|| json!([]));
        if let Value::Array(values) = values {
            values.push(json!(value.raw()));
        }
    }
    // These take one value, no list.
    for part in [
        "selector",
        "body_contains",
        "redriven",
        "died_after",
        "died_before",
    ] {
        if let Some(value) = filter.get_mut(part) {
            let one = value.get(0).cloned().unwrap_or_default();
            *value = one;
        }
    }
    let mut body = Map::new();
    put(&mut body, "queue", asked.source.raw());
    put(&mut body, "target", target);
    put(&mut body, "filter", filter);
    for (name, value) in [("rate", &asked.rate), ("max", &asked.max)] {
        if !value.is_empty() {
            put(&mut body, name, number(name, value.raw())?);
        }
    }
    if !asked.ramp.is_empty() {
        put(&mut body, "ramp", asked.ramp == "true");
    }
    if !asked.note.is_empty() {
        put(&mut body, "note", asked.note.raw());
    }
    if asked.is_unsafe {
        put(&mut body, "unsafe", true);
    }
    Ok(Value::Object(body))
}

fn put(fields: &mut Map<String, Value>, name: &str, value: impl Into<Value>) {
    fields.insert(name.to_owned(), value.into());
}

/// A number of a field.
pub(super) fn number(name: &str, text: &str) -> Result<Value, Failure> {
    let whole = text.trim().parse::<u64>().map(Value::from);
    let number = whole.or_else(|_| text.trim().parse::<f64>().map(Value::from));
    number.map_err(|_| {
        let text: String = text.chars().take(64).collect();
        Failure::bad_request(format!("the field '{name}' must be a number, not '{text}'"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::management::http::{Fields, redrive_spec};
    use crate::page::queue::FilterBar;

    #[test]
    fn what_the_form_asks_for_is_what_the_route_takes() {
        let part = |name: &str, value: &str| (name.to_owned(), Text::new(value));
        let asked = Asked {
            source: Text::new("dlq"),
            filter: FilterBar {
                state: "ready".to_owned(),
                parts: vec![
                    part("condition", "app:a"),
                    part("condition", "app:b"),
                    part("position", "18446744073709551615"),
                    part("body_contains", "x"),
                    part("redriven", "true"),
                ],
            },
            kind: "exchange".to_owned(),
            to_exchange: Text::new("shop"),
            key: Text::new("k"),
            rate: Text::new("0.5"),
            max: Text::new("7"),
            ramp: "false".to_owned(),
            ..Asked::default()
        };
        let body = body(&asked).unwrap();
        let spec = redrive_spec(&Fields::of_body(Some(body)).unwrap()).unwrap();
        assert_eq!(
            (spec.rate_milli, spec.max, spec.ramp),
            (Some(500), Some(7), Some(false))
        );
        let filter = crate::management::http::filter_json(&spec.filter.unwrap());
        assert_eq!(filter["condition"], json!(["app:a", "app:b"]));
        assert_eq!(filter["position"], json!(["18446744073709551615"]));
        let wrong = Asked {
            rate: Text::new("fast"),
            ..Asked::default()
        };
        assert!(super::body(&wrong).unwrap_err().reason.contains("'rate'"));
    }
}
