//! What a consumer says when it rejects stays with the dead letter, to the last type.

use fe2o3_amqp::Receiver;
use fe2o3_amqp::link::receiver::CreditMode;
use fe2o3_amqp::types::definitions::{Error, ErrorCondition, Fields};
use fe2o3_amqp::types::messaging::annotations::AnnotationKey;
use fe2o3_amqp::types::messaging::{Header, Modified, Source};
use fe2o3_amqp::types::primitives::{
    Array, Binary, Dec32, Dec64, Dec128, OrderedMap, Symbol, Timestamp, Uuid, Value,
};
use serde_amqp::described::Described;
use serde_amqp::descriptor::Descriptor;

use crate::common::Result;
use crate::scene::{Letter, Scene, equal, receive, text, to};

const CONDITION: &str = "app:schema";
const WHY: &str = "no price, gr\u{fc}\u{df}e";

type Entry = OrderedMap<Value, Value>;

/// A value of every type.
fn info() -> Fields {
    let mut map = OrderedMap::new();
    map.insert(Value::from("a".to_owned()), Value::Long(1));
    let values = [
        Value::Null,
        Value::Bool(true),
        Value::Ubyte(u8::MAX),
        Value::Ushort(u16::MAX),
        Value::Uint(u32::MAX),
        Value::Ulong(u64::MAX),
        Value::Byte(i8::MIN),
        Value::Short(i16::MIN),
        Value::Int(i32::MIN),
        Value::Long(i64::MIN),
        Value::from(1.5_f32),
        Value::from(2.5_f64),
        Value::Decimal32(Dec32::from([0x22, 0x50, 0, 1])),
        Value::Decimal64(Dec64::from([0x22, 0x38, 0, 0, 0, 0, 0, 1])),
        Value::Decimal128(Dec128::from([0x22; 16])),
        Value::Char('\u{1f980}'),
        Value::Timestamp(Timestamp::from_milliseconds(1_700_000_000_123)),
        Value::Uuid(Uuid::from([7; 16])),
        Value::Binary(Binary::from(vec![0, 255])),
        string(WHY),
        symbol("sym"),
        Value::List(vec![Value::Long(1), Value::List(vec![Value::Null])]),
        Value::Map(map),
        Value::Array(Array(vec![Value::Int(1), Value::Int(2)])),
        Value::Described(Box::new(Described {
            descriptor: Descriptor::Name(Symbol::from("app:thing")),
            value: Value::Long(1),
        })),
    ];
    let mut info = Fields::new();
    for (at, value) in values.into_iter().enumerate() {
        info.insert(Symbol::from(format!("v{at}")), value);
    }
    info
}

fn string(text: &str) -> Value {
    Value::String(text.to_owned())
}

fn symbol(text: &str) -> Value {
    Value::Symbol(Symbol::from(text))
}

/// A receiver that asks for all that is known of each death.
async fn full(s: &mut Scene, queue: &str) -> Result<Receiver> {
    let source = Source::builder().address(format!("/queues/{queue}"));
    let evidence = ("x-opt-death-evidence", symbol("full"));
    s.attach_with(source.build(), CreditMode::Auto(1), &[evidence])
        .await
}

fn of<'a>(entry: &'a Entry, key: &str) -> Option<&'a Value> {
    entry.get(&symbol(key))
}

fn map_of<'a>(entry: &'a Entry, key: &str) -> Result<&'a Entry> {
    match of(entry, key) {
        Some(Value::Map(map)) => Ok(map),
        other => Err(format!("{key} is {other:?}").into()),
    }
}

/// Who caused a death; of the address nobody knows the port before.
fn by(entry: &Entry, how: &str, link: &str, user: &str) -> Result<()> {
    let by = map_of(entry, "by")?;
    equal("how", of(by, "how"), Some(&symbol(how)))?;
    equal("container", of(by, "container"), Some(&string("interop")))?;
    equal("link", of(by, "link"), Some(&string(link)))?;
    equal("user", of(by, "user"), Some(&string(user)))?;
    match of(by, "address") {
        Some(Value::String(address)) if address.starts_with("127.0.0.1:") => Ok(()),
        other => Err(format!("address {other:?}").into()),
    }
}

fn reason(entry: &Entry, condition: &str, why: &str, info: Option<&Fields>) -> Result<()> {
    equal(
        "condition",
        of(entry, "error-condition"),
        Some(&symbol(condition)),
    )?;
    equal(
        "description",
        of(entry, "error-description"),
        Some(&string(why)),
    )?;
    let Some(info) = info else {
        return equal("an info", of(entry, "error-info"), None);
    };
    let observed = map_of(entry, "error-info")?;
    equal("values of the info", observed.len(), info.len())?;
    for (key, value) in info {
        equal(key.as_str(), of(observed, key.as_str()), Some(value))?;
    }
    Ok(())
}

fn last_death(letter: &Letter, condition: &str, why: &str) -> Result<()> {
    let annotations = letter.message_annotations.as_ref();
    let of =
        |name: &str| annotations.and_then(|all| all.0.get(&name as &dyn AnnotationKey).cloned());
    equal(
        "condition",
        of("x-opt-last-death-condition"),
        Some(symbol(condition)),
    )?;
    equal(
        "description",
        of("x-opt-last-death-description"),
        Some(string(why)),
    )
}

fn entries(letter: &Letter) -> Result<Vec<Entry>> {
    let annotations = letter.message_annotations.as_ref();
    let deaths =
        annotations.and_then(|all| all.0.get(&"x-opt-deaths" as &dyn AnnotationKey).cloned());
    let Some(Value::List(deaths)) = deaths else {
        return Err(format!("x-opt-deaths is {deaths:?}").into());
    };
    let maps = deaths.into_iter().map(|death| match death {
        Value::Map(map) => Ok(map),
        other => Err(format!("entry {other:?}").into()),
    });
    maps.collect()
}

fn durable(body: &str) -> Letter {
    let mut letter = text(body);
    letter.header = Some(Header {
        durable: true,
        ..Header::default()
    });
    letter
}

pub async fn evidence(s: &mut Scene) -> Result<()> {
    let last = s.queue("-last", &[])?;
    let dead = s.queue("-dead", &to(&last))?;
    let queue = s.queue("", &to(&dead))?;
    let safe = s.queue("-safe", &[])?;
    let user = s.setting.user.clone();
    s.publish(&queue, vec![durable("order")]).await?;
    let mut receiver = full(s, &queue).await?;
    let first_link = receiver.name().to_owned();
    let arrived = receive(&mut receiver).await?;
    let condition = ErrorCondition::Custom(Symbol::from(CONDITION));
    let error = Error::new(condition, WHY.to_owned(), info());
    receiver.reject(&arrived, error).await?;
    s.until_count(&dead, 1).await?;
    // What is confirmed now makes all before it safe, the rejection too.
    s.publish(&safe, vec![durable("safe")]).await?;
    s.restart().await?;

    let mut reader = full(s, &dead).await?;
    let second_link = reader.name().to_owned();
    let letter = receive(&mut reader).await?;
    last_death(letter.message(), CONDITION, WHY)?;
    let told = entries(letter.message())?;
    let [entry] = told.as_slice() else {
        return Err(format!("entries: {told:?}").into());
    };
    reason(entry, CONDITION, WHY, Some(&info()))?;
    by(entry, "rejected", &first_link, &user)?;
    let mut why = Fields::new();
    why.insert(
        Symbol::from("x-opt-dead-letter-category"),
        string("app:again"),
    );
    why.insert(
        Symbol::from("x-opt-dead-letter-reason"),
        string("once more"),
    );
    let discard = Modified {
        delivery_failed: None,
        undeliverable_here: Some(true),
        message_annotations: Some(why),
    };
    reader.modify(&letter, discard).await?;

    let mut receiver = full(s, &last).await?;
    let letter = receive(&mut receiver).await?;
    last_death(letter.message(), "app:again", "once more")?;
    let told = entries(letter.message())?;
    let [again, before] = told.as_slice() else {
        return Err(format!("entries: {told:?}").into());
    };
    reason(again, "app:again", "once more", None)?;
    by(again, "undeliverable-here", &second_link, &user)?;
    reason(before, CONDITION, WHY, Some(&info()))?;
    by(before, "rejected", &first_link, &user)
}
