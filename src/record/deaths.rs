//! Numbers of deaths to bytes and back.
//!
//! ```text
//! died          queue: ulong, reason: symbol, deaths: ulong,
//!               outcome: symbol or null, if there is one its cause: symbol or null, deaths with it: ulong,
//!               condition: string or null (empty: all that are not told apart), deaths with it: ulong
//! vhost deaths  list of (reason: symbol, deaths, dead-lettered: ulong),
//!               list of (reason, outcome: symbol, its cause: symbol or null, deaths: ulong), deaths with a condition: ulong,
//!               list of (reason: symbol, sum of times in ms: ulong,
//!                        list of (upper bound in ms: ulong or null, deaths: ulong))
//! ```

use super::RecordError;
use super::decode::{list, reason, ulong};
use super::kind::OfMessage;
use crate::base::{Name, QueueId};
use crate::broker::Fact;
use crate::broker::death_counts::{
    ConditionCount, DeathCount, DeathOutcome, TIME_TO_DEATH_BOUNDS_MS, TimesToDeath, VhostDeaths,
};
use crate::deaths::Reason;
use crate::wire::{Fields, write_null, write_or_null, write_string, write_symbol, write_ulong};

pub(super) fn encode_died(queue: QueueId, count: &DeathCount, out: &mut Vec<u8>) {
    out.push(OfMessage::Died.byte());
    write_ulong(out, queue.0);
    write_symbol(out, count.reason.as_str());
    write_ulong(out, count.dead);
    match count.outcome {
        Some((outcome, count)) => {
            encode_outcome(outcome, out);
            write_ulong(out, count);
        }
        None => write_null(out),
    }
    match &count.condition {
        Some(condition) => {
            write_string(out, condition.name.as_deref().unwrap_or_default());
            write_ulong(out, condition.count);
        }
        None => write_null(out),
    }
}

fn encode_outcome(outcome: DeathOutcome, out: &mut Vec<u8>) {
    let (word, cause) = outcome.words();
    write_symbol(out, word);
    write_or_null(out, cause, write_symbol);
}

fn decode_outcome(word: &str, fields: &mut Fields<'_>) -> Result<DeathOutcome, RecordError> {
    let outcome = DeathOutcome::from_words(word, fields.symbol()?);
    outcome.ok_or(RecordError::Field("outcome"))
}

pub(super) fn decode_died(fields: &mut Fields<'_>) -> Result<Fact, RecordError> {
    let queue = QueueId(ulong(fields, "queue")?);
    let (reason, dead) = (reason(fields)?, ulong(fields, "number of deaths")?);
    let outcome = match fields.symbol()? {
        Some(word) => {
            let outcome = decode_outcome(word, fields)?;
            Some((outcome, ulong(fields, "number of deaths")?))
        }
        None => None,
    };
    let condition = match fields.string()? {
        Some(name) => Some(ConditionCount {
            name: (!name.is_empty()).then(|| Name::from(name)),
            count: ulong(fields, "number of deaths")?,
        }),
        None => None,
    };
    let count = DeathCount {
        reason,
        dead,
        outcome,
        condition,
    };
    Ok(Fact::Died { queue, count })
}

pub(super) fn encode_vhost(deaths: &VhostDeaths, out: &mut Vec<u8>) {
    out.push(OfMessage::VhostDeaths.byte());
    write_ulong(out, Reason::ALL.len() as u64);
    for reason in Reason::ALL {
        write_symbol(out, reason.as_str());
        write_ulong(out, deaths.dead.of(reason));
        write_ulong(out, deaths.dead_lettered.of(reason));
    }
    write_ulong(out, deaths.given_up.len() as u64);
    for (reason, outcome, count) in &deaths.given_up {
        write_symbol(out, reason.as_str());
        encode_outcome(*outcome, out);
        write_ulong(out, *count);
    }
    write_ulong(out, deaths.with_condition);
    write_ulong(out, Reason::ALL.len() as u64);
    for (reason, times) in Reason::ALL.iter().zip(&deaths.times) {
        write_symbol(out, reason.as_str());
        write_ulong(out, times.sum_ms);
        encode_times(times, out);
    }
}

/// Only what is not 0: as a rule a few buckets next to one another.
fn encode_times(times: &TimesToDeath, out: &mut Vec<u8>) {
    let bounds = TIME_TO_DEATH_BOUNDS_MS.iter().map(|bound| Some(*bound));
    let buckets = bounds.chain([None]).zip(times.buckets);
    let told = || buckets.clone().filter(|(_, count)| *count > 0);
    write_ulong(out, told().count() as u64);
    for (bound, count) in told() {
        write_or_null(out, bound, write_ulong);
        write_ulong(out, count);
    }
}

pub(super) fn decode_vhost(fields: &mut Fields<'_>) -> Result<Fact, RecordError> {
    let mut deaths = VhostDeaths::NONE;
    let by_reason = list(fields, |fields| {
        let reason = reason(fields)?;
        let dead = ulong(fields, "number of deaths")?;
        Ok((reason, dead, ulong(fields, "number of deaths")?))
    })?;
    for (reason, dead, dead_lettered) in by_reason {
        deaths.dead.raise(reason, dead);
        deaths.dead_lettered.raise(reason, dead_lettered);
    }
    deaths.given_up = list(fields, |fields| {
        let reason = reason(fields)?;
        let word = fields.symbol()?.ok_or(RecordError::Field("outcome"))?;
        let outcome = decode_outcome(word, fields)?;
        Ok((reason, outcome, ulong(fields, "number of deaths")?))
    })?;
    deaths.with_condition = ulong(fields, "number of deaths")?;
    let times = list(fields, |fields| {
        let reason = reason(fields)?;
        let sum_ms = ulong(fields, "sum of times")?;
        let buckets = list(fields, |fields| {
            Ok((fields.ulong()?, ulong(fields, "number of deaths")?))
        })?;
        Ok((reason, sum_ms, buckets))
    })?;
    for (reason, sum_ms, buckets) in times {
        if let Some(times) = deaths.times_mut(reason) {
            times.sum_ms = sum_ms;
            for (bound, count) in buckets {
                times.add_bucket(bound, count);
            }
        }
    }
    Ok(Fact::VhostDeaths(Box::new(deaths)))
}
