//! Dead letters with their histories, and what a restart keeps.

use std::time::{Duration, Instant, SystemTime};

use coroner::wire::Value as Argument;
use fe2o3_amqp::link::receiver::CreditMode;
use fe2o3_amqp::types::messaging::annotations::AnnotationKey;
use fe2o3_amqp::types::messaging::{
    ApplicationProperties, Header, MessageAnnotations, MessageId, Modified, Properties,
};
use fe2o3_amqp::types::primitives::{Array, OrderedMap, Symbol, Value};

use crate::common::Result;
use crate::scene::{Letter, Scene, equal, receive, text, to, value};

const AUTO: CreditMode = CreditMode::Auto(10);

fn dear(header: Header) -> Letter {
    let mut letter = text("dear");
    letter.header = Some(header);
    letter.properties = Some(Properties {
        message_id: Some(MessageId::String("letter".to_owned())),
        subject: Some("greeting".to_owned()),
        ..Properties::default()
    });
    letter.application_properties =
        Some(ApplicationProperties::builder().insert("n", 7_i64).build());
    letter
}

fn unchanged(observed: &Letter) -> Result<()> {
    let sent = dear(Header::default());
    equal("properties", &observed.properties, &sent.properties)?;
    let properties = &observed.application_properties;
    equal(
        "application properties",
        properties,
        &sent.application_properties,
    )?;
    equal("body", &observed.body, &sent.body)
}

/// One entry of `x-opt-deaths`.
#[derive(Clone, Copy)]
struct Death<'a> {
    queue: &'a str,
    reason: &'a str,
    count: u64,
    ttl: Option<u32>,
}

impl<'a> Death<'a> {
    fn once(queue: &'a str, reason: &'a str) -> Self {
        Self {
            queue,
            reason,
            count: 1,
            ttl: None,
        }
    }
}

/// Checks the whole of it: entries newest first, and the first death.
fn history(letter: &Letter, first: Death<'_>, entries: &[Death<'_>]) -> Result<()> {
    let annotations = letter
        .message_annotations
        .as_ref()
        .ok_or("no annotations")?;
    let last = entries.first().copied().ok_or("no entry expected")?;
    for (when, expected) in [("first", first), ("last", last)] {
        let fields = [
            ("queue", expected.queue),
            ("reason", expected.reason),
            ("exchange", ""),
        ];
        for (what, value) in fields {
            let name = format!("x-{when}-death-{what}");
            let observed = annotation(annotations, &name);
            equal(&name, observed, Some(&Value::String(value.to_owned())))?;
        }
    }
    let Some(Value::List(observed)) = annotation(annotations, "x-opt-deaths") else {
        return Err("x-opt-deaths is no list".into());
    };
    equal("entries", observed.len(), entries.len())?;
    for (observed, expected) in observed.iter().zip(entries) {
        let Value::Map(observed) = observed else {
            return Err(format!("entry {observed:?}").into());
        };
        entry(observed, *expected)?;
    }
    Ok(())
}

/// Field by field and type by type.
fn entry(observed: &OrderedMap<Value, Value>, expected: Death<'_>) -> Result<()> {
    let string = |text: &str| Value::String(text.to_owned());
    let keys = Value::Array(Array(vec![string(expected.queue)]));
    let mut fields = vec![
        ("queue", string(expected.queue)),
        ("reason", Value::Symbol(Symbol::from(expected.reason))),
        ("count", Value::Ulong(expected.count)),
        ("exchange", string("")),
        ("routing-keys", keys),
    ];
    fields.extend(expected.ttl.map(|ttl| ("ttl", Value::Uint(ttl))));
    for (name, value) in &fields {
        equal(name, field(observed, name), Some(value))?;
    }
    equal("number of fields", observed.len(), fields.len() + 2)?;
    let times = (field(observed, "first-time"), field(observed, "last-time"));
    let (Some(Value::Timestamp(first)), Some(Value::Timestamp(last))) = times else {
        return Err(format!("times {times:?}").into());
    };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    let age_ms = i64::try_from(now.as_millis())? - last.milliseconds();
    equal("last-time is now", (-5_000..60_000).contains(&age_ms), true)?;
    equal(
        "times in order",
        first.milliseconds() <= last.milliseconds(),
        true,
    )
}

fn field<'a>(entry: &'a OrderedMap<Value, Value>, name: &str) -> Option<&'a Value> {
    entry.get(&Value::Symbol(Symbol::from(name)))
}

fn annotation<'a>(annotations: &'a MessageAnnotations, name: &str) -> Option<&'a Value> {
    annotations.0.get(&name as &dyn AnnotationKey)
}

/// A queue with these arguments, and one for its dead letters.
fn pair(s: &mut Scene, more: &[(&str, Argument)]) -> Result<(String, String)> {
    let dead = s.queue("-dead", &[])?;
    let queue = s.queue("", &[&to(&dead)[..], more].concat())?;
    Ok((queue, dead))
}

async fn reject_first(s: &mut Scene, queue: &str) -> Result<Letter> {
    let mut receiver = s.receiver(queue, AUTO).await?;
    let arrived = receive(&mut receiver).await?;
    receiver.reject(&arrived, None).await?;
    receiver.close().await?;
    Ok(arrived.into_message())
}

pub async fn rejected(s: &mut Scene) -> Result<()> {
    let last = s.queue("-last", &[])?;
    let dead = s.queue("-dead", &to(&last))?;
    let queue = s.queue("", &to(&dead))?;
    let header = Header {
        ttl: Some(60_000),
        ..Header::default()
    };
    s.publish(&queue, vec![dear(header)]).await?;
    reject_first(s, &queue).await?;
    let once = Death {
        ttl: Some(60_000),
        ..Death::once(&queue, "rejected")
    };
    let letter = reject_first(s, &dead).await?;
    unchanged(&letter)?;
    equal(
        "ttl",
        letter.header.as_ref().and_then(|header| header.ttl),
        None,
    )?;
    history(&letter, once, &[once])?;
    let letter = s.first(&last).await?;
    unchanged(&letter)?;
    history(&letter, once, &[Death::once(&dead, "rejected"), once])
}

pub async fn expired(s: &mut Scene) -> Result<()> {
    let (queue, dead) = pair(s, &[("x-message-ttl", Argument::Ulong(100))])?;
    let mut receiver = s.receiver(&dead, AUTO).await?;
    let begun = Instant::now();
    s.publish(&queue, vec![dear(Header::default())]).await?;
    let arrived = receive(&mut receiver).await?;
    receiver.accept(&arrived).await?;
    equal("within 5 s", begun.elapsed() < Duration::from_secs(5), true)?;
    unchanged(arrived.message())?;
    let once = Death::once(&queue, "expired");
    history(arrived.message(), once, &[once])
}

pub async fn maxlen(s: &mut Scene) -> Result<()> {
    let (queue, dead) = pair(s, &[("x-max-length", Argument::Ulong(1))])?;
    s.publish(&queue, vec![dear(Header::default()), text("second")])
        .await?;
    let letter = s.first(&dead).await?;
    unchanged(&letter)?;
    let once = Death::once(&queue, "maxlen");
    history(&letter, once, &[once])?;
    equal("left in the queue", s.count(&queue)?, 1)
}

pub async fn delivery_limit(s: &mut Scene) -> Result<()> {
    let quorum = ("x-queue-type", Argument::string("quorum"));
    let (queue, dead) = pair(s, &[quorum, ("x-delivery-limit", Argument::Ulong(1))])?;
    s.publish(&queue, vec![dear(Header::default())]).await?;
    let mut receiver = s.receiver(&queue, AUTO).await?;
    for count in 0..2 {
        let arrived = receive(&mut receiver).await?;
        let header = arrived.message().header.as_ref();
        equal(
            "delivery-count",
            header.map_or(0, |header| header.delivery_count),
            count,
        )?;
        let failed = Modified {
            delivery_failed: Some(true),
            undeliverable_here: None,
            message_annotations: None,
        };
        receiver.modify(&arrived, failed).await?;
    }
    let letter = s.first(&dead).await?;
    unchanged(&letter)?;
    let once = Death::once(&queue, "delivery_limit");
    history(&letter, once, &[once])
}

pub async fn cycle(s: &mut Scene) -> Result<()> {
    let to_itself = ("x-dead-letter-exchange", Argument::string(""));
    let ttl = ("x-message-ttl", Argument::Ulong(50));
    let alone = s.queue("-alone", &[to_itself.clone(), ttl])?;
    s.publish(&alone, vec![dear(Header::default())]).await?;
    s.until_count(&alone, 0).await?;
    let queue = s.queue("-rejected", &[to_itself])?;
    s.publish(&queue, vec![dear(Header::default())]).await?;
    let mut receiver = s.receiver(&queue, AUTO).await?;
    for _ in 0..2 {
        let arrived = receive(&mut receiver).await?;
        receiver.reject(&arrived, None).await?;
    }
    let arrived = receive(&mut receiver).await?;
    receiver.accept(&arrived).await?;
    let twice = Death {
        count: 2,
        ..Death::once(&queue, "rejected")
    };
    history(arrived.message(), twice, &[twice])
}

pub async fn restart(s: &mut Scene) -> Result<()> {
    let quorum_type = ("x-queue-type", Argument::string("quorum"));
    let classic = s.queue("-classic", &[])?;
    let quorum = s.queue("-quorum", std::slice::from_ref(&quorum_type))?;
    let (queue, dead) = pair(s, &[quorum_type])?;
    let durable = || Header {
        durable: true,
        ..Header::default()
    };
    s.publish(&queue, vec![dear(durable())]).await?;
    reject_first(s, &queue).await?;
    s.until_count(&dead, 1).await?;
    // What is confirmed now makes all before it safe, the rejection too.
    let mut kept = text("kept");
    kept.header = Some(durable());
    s.publish(&classic, vec![kept, text("lost")]).await?;
    s.publish(&quorum, vec![text("quorum")]).await?;
    s.restart().await?;
    for name in [&classic, &quorum, &dead] {
        equal(name, s.count(name)?, 1)?;
    }
    equal(
        "classic",
        value(&s.first(&classic).await?)?,
        Value::String("kept".to_owned()),
    )?;
    equal(
        "quorum",
        value(&s.first(&quorum).await?)?,
        Value::String("quorum".to_owned()),
    )?;
    let letter = s.first(&dead).await?;
    unchanged(&letter)?;
    let once = Death::once(&queue, "rejected");
    history(&letter, once, &[once])
}
