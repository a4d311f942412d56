//! Redrives in the API: what is asked for, and how a job is shown. [evidence part 6]

use std::sync::Arc;

use serde_json::{Value as Json, json};

use super::failure::Failure;
use super::fields::Fields;
use super::filter::{filter_json, filter_of_json};
use crate::base::{Name, check_routing_key};
use crate::broker::redrive::{RedriveCause, RedriveJob, RedriveSpec, RedriveStop, RedriveTarget};
use crate::management::{DryRunPlace, RedriveForecast, check_note, rate_milli, share_ppm};

/// The fields of a body.
const FIELDS: [&str; 9] = [
    "queue", "filter", "target", "rate", "max", "ramp", "stop", "note", "unsafe",
];
/// The kinds of targets, for the text of a refusal.
const KINDS: &str = "origin, first, original, queue, exchange, discard";

/// What the body of a dry run asks for, and where it begins.
pub(crate) fn dry_run(fields: &Fields) -> Result<(RedriveSpec, DryRunPlace), Failure> {
    let allowed: Vec<&str> = FIELDS.into_iter().chain(["from"]).collect();
    fields.allow(&allowed)?;
    let from = fields.text("from")?.map(DryRunPlace::parse).transpose()?;
    Ok((spec(fields)?, from.unwrap_or(DryRunPlace::BEGIN)))
}

/// What the body of a request asks for.
pub fn redrive_spec(fields: &Fields) -> Result<RedriveSpec, Failure> {
    fields.allow(&FIELDS)?;
    spec(fields)
}

fn spec(fields: &Fields) -> Result<RedriveSpec, Failure> {
    fields.require(&["queue"])?;
    let note = fields.text("note")?;
    check_note(note.unwrap_or_default())?;
    Ok(RedriveSpec {
        queue: Name::from(fields.text("queue")?.unwrap_or_default()),
        filter: match fields.get("filter") {
            None => None,
            Some(filter) => Some(filter_of_json(filter)?)
                .filter(|filter| !filter.is_empty())
                .map(Arc::new),
        },
        target: target(fields)?,
        rate_milli: rate(fields)?,
        max: unsigned(fields, "max")?,
        ramp: match fields.get("ramp") {
            None => None,
            Some(_) => Some(fields.flag("ramp", false)?),
        },
        stop: stop(fields)?,
        note: note.filter(|note| !note.trim().is_empty()).map(Name::from),
        is_unsafe: fields.flag("unsafe", false)?,
    })
}

fn target(fields: &Fields) -> Result<RedriveTarget, Failure> {
    let given = match fields.get("target") {
        None => return Ok(RedriveTarget::Origin),
        Some(Json::Object(given)) => Fields::from_map(given.clone()),
        Some(_) => {
            return Err(Failure::bad_request(format!(
                "the field 'target' must be an object with a field 'kind': one of {KINDS}"
            )));
        }
    };
    let text = |name: &str| -> Result<Name, Failure> {
        let text = given.text(name)?.map(Name::from);
        text.ok_or_else(|| {
            Failure::bad_request(format!("the field 'target' lacks a field '{name}'"))
        })
    };
    let allowed: &[&str] = match given.text("kind")? {
        Some("queue") => &["kind", "queue"],
        Some("exchange") => &["kind", "exchange", "routing_key"],
        _ => &["kind"],
    };
    given.allow(allowed)?;
    match given.text("kind")? {
        Some("origin") => Ok(RedriveTarget::Origin),
        Some("first") => Ok(RedriveTarget::First),
        Some("original") => Ok(RedriveTarget::Original),
        Some("discard") => Ok(RedriveTarget::Discard),
        Some("queue") => Ok(RedriveTarget::Queue(text("queue")?)),
        Some("exchange") => {
            let routing_key = given.text("routing_key")?.unwrap_or_default();
            check_routing_key(routing_key)
                .map_err(|why| Failure::bad_request(format!("the field 'routing_key': {why}")))?;
            let exchange = text("exchange")?;
            let is_default = exchange == "amq.default";
            Ok(RedriveTarget::Exchange {
                exchange: if is_default {
                    Name::default()
                } else {
                    exchange
                },
                routing_key: Name::from(routing_key),
            })
        }
        _ => Err(Failure::bad_request(format!(
            "the field 'kind' of the target must be one of {KINDS}"
        ))),
    }
}

fn rate(fields: &Fields) -> Result<Option<u64>, Failure> {
    let Some(given) = fields.get("rate") else {
        return Ok(None);
    };
    Ok(Some(rate_milli(given.as_f64())?))
}

fn stop(fields: &Fields) -> Result<Option<RedriveStop>, Failure> {
    let given = match fields.given("stop") {
        None => return Ok(Some(RedriveStop::DEFAULT)),
        Some(Json::Null) => return Ok(None),
        Some(Json::Object(given)) => Fields::from_map(given.clone()),
        Some(_) => {
            return Err(Failure::bad_request(
                "the field 'stop' must be null, or an object with 'deaths' and 'share'",
            ));
        }
    };
    given.allow(&["deaths", "share"])?;
    let deaths = unsigned(&given, "deaths")?.unwrap_or(RedriveStop::DEFAULT.deaths);
    let share_ppm = match given.get("share") {
        None => RedriveStop::DEFAULT.share_ppm,
        Some(share) => share_ppm(share.as_f64())?,
    };
    Ok(Some(RedriveStop { deaths, share_ppm }))
}

fn unsigned(fields: &Fields, name: &str) -> Result<Option<u64>, Failure> {
    let given = fields.integer(name)?.map(u64::try_from).transpose();
    given.map_err(|_| Failure::bad_request(format!("the field '{name}' must not be negative")))
}

/// The JSON of a job that moves so many thousandths of a message a second now.
pub fn redrive(vhost: &str, (job, now_milli): (&RedriveJob, u64)) -> Json {
    let (counts, outcome, spec) = (&job.counts, &job.outcome, &job.spec);
    let targets = job.targets.iter().filter(|to| !to.is_rest());
    let targets = targets.map(|to| json!({ "queue": &*to.queue, "moved": to.moved }));
    let rest = job.targets.iter().find(|to| to.is_rest());
    json!({
        "id": &*job.id,
        "vhost": vhost,
        "queue": &*spec.queue,
        "state": job.state.as_str(),
        "cause": job.cause.map(RedriveCause::as_str),
        "settled": job.state.is_over() && job.outstanding() == 0,
        "by": &*job.by,
        "note": spec.note.as_deref(),
        "created_at": job.created_at.0,
        "ended_at": job.ended_at.map(|at| at.0),
        "rate_now": per_second(now_milli),
        "batch": job.batch,
        "counts": {
            "matched": counts.matched,
            "moved": counts.moved,
            "skipped_held": counts.skipped_held,
            "skipped_no_target": counts.skipped_no_target,
            "skipped_not_allowed": counts.skipped_not_allowed,
            "skipped_changed": counts.skipped_changed,
            "left": counts.left(),
        },
        "outcome": {
            "accepted": outcome.accepted,
            "died_again": outcome.died_again,
            "outstanding": job.outstanding(),
            "gone": outcome.gone,
        },
        "targets": targets.collect::<Vec<_>>(),
        "filter": spec.filter.as_ref().map_or_else(|| json!({}), |filter| filter_json(filter)),
        "further_targets_moved": rest.map_or(0, |to| to.moved),
        "target": target_json(&spec.target),
        "rate": spec.rate_milli.map(per_second),
        "max": spec.max,
        "ramp": spec.ramp,
        "stop": spec.stop.map(|stop| json!({
            "deaths": stop.deaths,
            "share": f64::from(stop.share_ppm) / 1_000_000.0,
        })),
        "unsafe": spec.is_unsafe,
    })
}

/// The JSON of what a redrive would do.
pub fn forecast(forecast: &RedriveForecast) -> Json {
    let targets = forecast.targets.iter().map(|goal| {
        json!({
            "queue": goal.queue,
            "messages": goal.messages,
            "consumers": goal.consumers,
            "room": goal.room,
            "durable": goal.durable,
        })
    });
    let sample = forecast.sample.iter().map(u64::to_string);
    json!({
        "matched": forecast.matched,
        "scanned": forecast.scanned,
        "complete": forecast.is_complete,
        "next": forecast.next,
        "targets": targets.collect::<Vec<_>>(),
        "discarded": forecast.discarded,
        "skipped": {
            "held": forecast.held,
            "no_target": forecast.no_target,
            "not_allowed": forecast.not_allowed,
            "same_queue": forecast.same_queue,
        },
        "left": forecast.left,
        "sample": sample.collect::<Vec<_>>(),
        "warnings": forecast.warnings,
    })
}

#[allow(clippy::cast_precision_loss, reason = "rates are small numbers")]
fn per_second(rate_milli: u64) -> f64 {
    rate_milli as f64 / 1_000.0
}

fn target_json(target: &RedriveTarget) -> Json {
    let mut json = json!({ "kind": target.kind() });
    match target {
        RedriveTarget::Queue(queue) => super::json::put(&mut json, "queue", json!(&**queue)),
        RedriveTarget::Exchange {
            exchange,
            routing_key,
        } => {
            super::json::put(&mut json, "exchange", json!(&**exchange));
            super::json::put(&mut json, "routing_key", json!(&**routing_key));
        }
        RedriveTarget::Origin
        | RedriveTarget::First
        | RedriveTarget::Original
        | RedriveTarget::Discard => {}
    }
    json
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(body: &str) -> Result<RedriveSpec, String> {
        let fields = Fields::parse(body.as_bytes()).unwrap();
        redrive_spec(&fields).map_err(|failure| failure.reason)
    }

    #[test]
    fn what_is_not_said_is_as_documented() {
        let spec = asked(r#"{"queue": "dlq"}"#).unwrap();
        let expected = RedriveSpec {
            queue: Name::from("dlq"),
            filter: None,
            target: RedriveTarget::Origin,
            rate_milli: None,
            max: None,
            ramp: None,
            stop: Some(RedriveStop {
                deaths: 3,
                share_ppm: 100_000,
            }),
            note: None,
            is_unsafe: false,
        };
        assert_eq!(spec, expected);
        assert_eq!(asked(r#"{"queue": "q", "stop": null}"#).unwrap().stop, None);
        let rated = asked(r#"{"queue": "q", "rate": 0.1, "max": 7, "ramp": true}"#).unwrap();
        let limits = (rated.rate_milli, rated.max, rated.ramp);
        assert_eq!(limits, (Some(100), Some(7), Some(true)));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (body, says) in [
            ("{}", "key_missing,queue"),
            (r#"{"queue": 1}"#, "'queue'"),
            (r#"{"queue": "q", "filter": {"colour": "red"}}"#, "colour"),
            (
                r#"{"queue": "q", "colour": "red"}"#,
                "'colour' is not known",
            ),
            (r#"{"queue": "q", "rate": 0}"#, "0.1 to 100000"),
            (r#"{"queue": "q", "rate": 100001}"#, "0.1 to 100000"),
            (r#"{"queue": "q", "rate": "fast"}"#, "'rate'"),
            (r#"{"queue": "q", "max": -1}"#, "'max' must not be negative"),
            (r#"{"queue": "q", "target": "origin"}"#, "'target'"),
            (r#"{"queue": "q", "target": {"kind": "moon"}}"#, "discard"),
            (r#"{"queue": "q", "target": {"kind": "queue"}}"#, "'queue'"),
            (
                r#"{"queue": "q", "target": {"kind": "first", "queue": "x"}}"#,
                "'queue' is not known",
            ),
            (r#"{"queue": "q", "stop": 3}"#, "'stop'"),
            (r#"{"queue": "q", "stop": {"share": 2}}"#, "'share'"),
            (r#"{"queue": "q", "ramp": "perhaps"}"#, "'ramp'"),
        ] {
            let why = asked(body).unwrap_err();
            assert!(why.contains(says), "{body}: {why}");
        }
        let note = format!(r#"{{"queue": "q", "note": "{}"}}"#, "n".repeat(1_025));
        assert!(asked(&note).unwrap_err().contains("1024"));
    }
}
