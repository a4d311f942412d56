//! Facts about redrives to bytes and back.
//!
//! ```text
//! set        job: ulong, id, by: string, what is asked for, source: queue, list of ends (ulong), cursor: ulong,
//!            state: symbol, cause: symbol or null, made: timestamp, ended: timestamp or null,
//!            counts, outcome, list of targets, batch, left of it: ulong
//! moved      job, cursor: ulong, counts, list of targets, batch, left of it: ulong
//! learned    job: ulong, target: string, settled in it: ulong, outcome
//! ended      job: ulong, state: symbol, cause: symbol or null, time: timestamp
//! forgotten  job: ulong
//! numbers    next: ulong
//!
//! what is asked for   queue: string, filter: map of its parts, or null, target: symbol, its queue or exchange, its key: string or null,
//!                     rate in thousandths a second, max: ulong or null, ramp: boolean or null,
//!                     deaths to stop at: ulong or null, their share in millionths: uint or null,
//!                     note: string or null, unsafe: boolean
//! counts              matched: ulong or null, moved, skipped as held, for no target, as not allowed, as changed: ulong
//! outcome             accepted, died again, gone: ulong
//! target              queue: string, moved, followed, settled: ulong
//! ```

use std::sync::Arc;

use super::RecordError;
use super::decode::{flag, list, name, time, ulong};
use super::kind::OfRedrive;
use crate::base::{Name, Position, QueueId, Timestamp};
use crate::broker::Fact;
use crate::broker::redrive::{
    RedriveCause, RedriveCounts, RedriveFact, RedriveJob, RedriveOutcome, RedriveProgress,
    RedriveSpec, RedriveState, RedriveStop, RedriveTarget, RedrivenTo,
};
use crate::search::DeathFilter;
use crate::wire::{
    Fields, Value, encode_value, write_bool, write_null, write_or_null, write_string, write_symbol,
    write_timestamp, write_uint, write_ulong,
};

pub(super) fn encode(fact: &RedriveFact, out: &mut Vec<u8>) {
    match fact {
        RedriveFact::Set(job) => {
            out.push(OfRedrive::Set.byte());
            encode_job(job, out);
        }
        RedriveFact::Moved(progress) => {
            out.push(OfRedrive::Moved.byte());
            write_ulong(out, progress.job);
            write_ulong(out, progress.cursor.0);
            encode_counts(&progress.counts, out);
            encode_targets(&progress.targets, out);
            write_ulong(out, progress.batch);
            write_ulong(out, progress.batch_left);
        }
        RedriveFact::Learned {
            job,
            settled: (target, settled),
            outcome,
        } => {
            out.push(OfRedrive::Learned.byte());
            write_ulong(out, *job);
            write_string(out, target);
            write_ulong(out, *settled);
            encode_outcome(outcome, out);
        }
        RedriveFact::Ended {
            job,
            state,
            cause,
            at,
        } => {
            out.push(OfRedrive::Ended.byte());
            write_ulong(out, *job);
            encode_state(*state, *cause, out);
            write_timestamp(out, at.0);
        }
        RedriveFact::Forgotten { job } => {
            out.push(OfRedrive::Forgotten.byte());
            write_ulong(out, *job);
        }
        RedriveFact::Numbers { next } => {
            out.push(OfRedrive::Numbers.byte());
            write_ulong(out, *next);
        }
    }
}

fn encode_job(job: &RedriveJob, out: &mut Vec<u8>) {
    write_ulong(out, job.number);
    write_string(out, &job.id);
    write_string(out, &job.by);
    encode_spec(&job.spec, out);
    write_ulong(out, job.source.0);
    write_ulong(out, job.ends.len() as u64);
    for end in &job.ends {
        write_ulong(out, end.0);
    }
    write_ulong(out, job.cursor.0);
    encode_state(job.state, job.cause, out);
    write_timestamp(out, job.created_at.0);
    write_or_null(out, job.ended_at.map(|at| at.0), write_timestamp);
    encode_counts(&job.counts, out);
    encode_outcome(&job.outcome, out);
    encode_targets(&job.targets, out);
    write_ulong(out, job.batch);
    write_ulong(out, job.batch_left);
}

fn encode_spec(spec: &RedriveSpec, out: &mut Vec<u8>) {
    write_string(out, &spec.queue);
    match &spec.filter {
        Some(filter) => encode_value(&filter.value(), out),
        None => write_null(out),
    }
    write_symbol(out, spec.target.kind());
    match &spec.target {
        RedriveTarget::Queue(queue) => {
            write_string(out, queue);
            write_null(out);
        }
        RedriveTarget::Exchange {
            exchange,
            routing_key,
        } => {
            write_string(out, exchange);
            write_string(out, routing_key);
        }
        RedriveTarget::Origin
        | RedriveTarget::First
        | RedriveTarget::Original
        | RedriveTarget::Discard => {
            write_null(out);
            write_null(out);
        }
    }
    write_or_null(out, spec.rate_milli, write_ulong);
    write_or_null(out, spec.max, write_ulong);
    write_or_null(out, spec.ramp, write_bool);
    write_or_null(out, spec.stop.map(|stop| stop.deaths), write_ulong);
    write_or_null(out, spec.stop.map(|stop| stop.share_ppm), write_uint);
    write_or_null(out, spec.note.as_deref(), write_string);
    write_bool(out, spec.is_unsafe);
}

fn encode_state(state: RedriveState, cause: Option<RedriveCause>, out: &mut Vec<u8>) {
    write_symbol(out, state.as_str());
    write_or_null(out, cause.map(RedriveCause::as_str), write_symbol);
}

fn encode_counts(counts: &RedriveCounts, out: &mut Vec<u8>) {
    write_or_null(out, counts.matched, write_ulong);
    for count in [
        counts.moved,
        counts.skipped_held,
        counts.skipped_no_target,
        counts.skipped_not_allowed,
        counts.skipped_changed,
    ] {
        write_ulong(out, count);
    }
}

fn encode_outcome(outcome: &RedriveOutcome, out: &mut Vec<u8>) {
    for count in [outcome.accepted, outcome.died_again, outcome.gone] {
        write_ulong(out, count);
    }
}

fn encode_targets(targets: &[RedrivenTo], out: &mut Vec<u8>) {
    write_ulong(out, targets.len() as u64);
    for to in targets {
        write_string(out, &to.queue);
        for count in [to.moved, to.followed, to.settled] {
            write_ulong(out, count);
        }
    }
}

pub(super) fn decode(kind: OfRedrive, fields: &mut Fields<'_>) -> Result<Fact, RecordError> {
    let fact = match kind {
        OfRedrive::Set => RedriveFact::Set(Box::new(decode_job(fields)?)),
        OfRedrive::Moved => RedriveFact::Moved(Box::new(RedriveProgress {
            job: ulong(fields, "job")?,
            cursor: Position(ulong(fields, "cursor")?),
            counts: decode_counts(fields)?,
            targets: list(fields, decode_target)?,
            batch: ulong(fields, "batch")?,
            batch_left: ulong(fields, "batch")?,
        })),
        OfRedrive::Learned => RedriveFact::Learned {
            job: ulong(fields, "job")?,
            settled: (name(fields, "target")?, ulong(fields, "settled messages")?),
            outcome: decode_outcome(fields)?,
        },
        OfRedrive::Ended => {
            let job = ulong(fields, "job")?;
            let (state, cause) = decode_state(fields)?;
            let at = time(fields)?;
            RedriveFact::Ended {
                job,
                state,
                cause,
                at,
            }
        }
        OfRedrive::Forgotten => RedriveFact::Forgotten {
            job: ulong(fields, "job")?,
        },
        OfRedrive::Numbers => RedriveFact::Numbers {
            next: ulong(fields, "number of the next job")?,
        },
    };
    Ok(Fact::Redrive(fact))
}

fn decode_job(fields: &mut Fields<'_>) -> Result<RedriveJob, RecordError> {
    let number = ulong(fields, "job")?;
    let (id, by) = (name(fields, "id")?, name(fields, "user")?);
    let spec = decode_spec(fields)?;
    let source = QueueId(ulong(fields, "queue")?);
    let ends = list(fields, |fields| ulong(fields, "end").map(Position))?;
    let cursor = Position(ulong(fields, "cursor")?);
    let (state, cause) = decode_state(fields)?;
    Ok(RedriveJob {
        number,
        id,
        by,
        spec,
        source,
        ends,
        cursor,
        state,
        cause,
        created_at: time(fields)?,
        ended_at: fields.timestamp()?.map(Timestamp),
        counts: decode_counts(fields)?,
        outcome: decode_outcome(fields)?,
        targets: list(fields, decode_target)?,
        batch: ulong(fields, "batch")?,
        batch_left: ulong(fields, "batch")?,
    })
}

fn decode_spec(fields: &mut Fields<'_>) -> Result<RedriveSpec, RecordError> {
    let queue = name(fields, "queue name")?;
    let filter = match fields.value()? {
        None | Some(Value::Null) => None,
        Some(value) => {
            let filter = DeathFilter::of_value(&value);
            Some(Arc::new(filter.map_err(|_| RecordError::Field("filter"))?))
        }
    };
    let kind = fields.symbol()?.map(str::to_owned);
    let (to, key) = (
        fields.string()?.map(Name::from),
        fields.string()?.map(Name::from),
    );
    let target = match (kind.as_deref(), to, key) {
        (Some("origin"), None, None) => RedriveTarget::Origin,
        (Some("first"), None, None) => RedriveTarget::First,
        (Some("original"), None, None) => RedriveTarget::Original,
        (Some("discard"), None, None) => RedriveTarget::Discard,
        (Some("queue"), Some(queue), None) => RedriveTarget::Queue(queue),
        (Some("exchange"), Some(exchange), Some(routing_key)) => RedriveTarget::Exchange {
            exchange,
            routing_key,
        },
        _ => return Err(RecordError::Field("target")),
    };
    let (rate_milli, max, ramp) = (fields.ulong()?, fields.ulong()?, fields.bool()?);
    let stop = match (fields.ulong()?, fields.uint()?) {
        (Some(deaths), Some(share_ppm)) => Some(RedriveStop { deaths, share_ppm }),
        (None, None) => None,
        _ => return Err(RecordError::Field("stop")),
    };
    Ok(RedriveSpec {
        queue,
        filter,
        target,
        rate_milli,
        max,
        ramp,
        stop,
        note: fields.string()?.map(Name::from),
        is_unsafe: flag(fields)?,
    })
}

fn decode_state(
    fields: &mut Fields<'_>,
) -> Result<(RedriveState, Option<RedriveCause>), RecordError> {
    let state = fields.symbol()?.and_then(RedriveState::from_word);
    let cause = |word| RedriveCause::from_word(word).ok_or(RecordError::Field("cause"));
    Ok((
        state.ok_or(RecordError::Field("state"))?,
        fields.symbol()?.map(cause).transpose()?,
    ))
}

fn decode_counts(fields: &mut Fields<'_>) -> Result<RedriveCounts, RecordError> {
    let matched = fields.ulong()?;
    let mut count = || ulong(fields, "number of messages");
    Ok(RedriveCounts {
        matched,
        moved: count()?,
        skipped_held: count()?,
        skipped_no_target: count()?,
        skipped_not_allowed: count()?,
        skipped_changed: count()?,
    })
}

fn decode_outcome(fields: &mut Fields<'_>) -> Result<RedriveOutcome, RecordError> {
    let mut count = || ulong(fields, "number of messages");
    Ok(RedriveOutcome {
        accepted: count()?,
        died_again: count()?,
        gone: count()?,
    })
}

fn decode_target(fields: &mut Fields<'_>) -> Result<RedrivenTo, RecordError> {
    Ok(RedrivenTo {
        queue: name(fields, "target")?,
        moved: ulong(fields, "number of messages")?,
        followed: ulong(fields, "number of messages")?,
        settled: ulong(fields, "number of messages")?,
    })
}
