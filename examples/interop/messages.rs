//! What goes out comes back.

use fe2o3_amqp::link::receiver::CreditMode;
use fe2o3_amqp::types::messaging::{
    AmqpSequence, ApplicationProperties, Body, Data, Footer, Header, Message, MessageAnnotations,
    MessageId, Priority, Properties,
};
use fe2o3_amqp::types::primitives::{
    Array, Binary, Dec32, Dec64, Dec128, OrderedMap, SimpleValue, Symbol, Timestamp, Uuid, Value,
};
use serde_amqp::described::Described;
use serde_amqp::descriptor::Descriptor;

use crate::common::Result;
use crate::scene::{Letter, Scene, accepted, equal, letter, receive, soon, text};

async fn round_trip(s: &mut Scene, suffix: &str, sent: Letter) -> Result<Letter> {
    let queue = s.queue(suffix, &[])?;
    s.publish(&queue, vec![sent]).await?;
    s.first(&queue).await
}

pub async fn sections(s: &mut Scene) -> Result<()> {
    let note = Value::from("note".to_owned());
    let list = Value::List(vec![Value::Long(1), Value::from("two".to_owned())]);
    let mut annotations = MessageAnnotations::default();
    annotations
        .0
        .insert(Symbol::from("x-opt-text").into(), note.clone());
    annotations
        .0
        .insert(Symbol::from("x-opt-list").into(), list);
    let mut footer = Footer::default();
    footer.0.insert(Symbol::from("x-opt-end").into(), note);
    let mut sent = text("body");
    sent.header = Some(Header {
        durable: true,
        priority: Priority(7),
        ttl: Some(600_000),
        ..Header::default()
    });
    sent.message_annotations = Some(annotations.clone());
    sent.footer = Some(footer);
    sent.application_properties = Some(
        ApplicationProperties::builder()
            .insert("n", 7_i64)
            .insert("s", "text".to_owned())
            .build(),
    );
    sent.properties = Some(Properties {
        message_id: Some(MessageId::String("id-1".to_owned())),
        user_id: Some(Binary::from(s.setting.user.clone().into_bytes())),
        to: Some("/somewhere".to_owned()),
        subject: Some("subject".to_owned()),
        reply_to: Some("/answers".to_owned()),
        correlation_id: Some(MessageId::Ulong(7)),
        content_type: Some(Symbol::from("text/plain")),
        content_encoding: Some(Symbol::from("gzip")),
        absolute_expiry_time: Some(Timestamp::from_milliseconds(4_102_444_800_000)),
        creation_time: Some(Timestamp::from_milliseconds(1_700_000_000_000)),
        group_id: Some("group".to_owned()),
        group_sequence: Some(3),
        reply_to_group_id: Some("answers".to_owned()),
    });
    let received = round_trip(s, "", sent.clone()).await?;
    let header = received.header.as_ref().ok_or("no header")?;
    equal("durable", header.durable, true)?;
    equal("priority", header.priority.0, 7)?;
    equal("ttl", header.ttl, Some(600_000))?;
    let observed = received
        .message_annotations
        .as_ref()
        .ok_or("no annotations")?;
    for (key, expected) in &annotations.0 {
        equal("annotation", observed.0.get(key), Some(expected))?;
    }
    equal("properties", &received.properties, &sent.properties)?;
    let properties = &received.application_properties;
    equal(
        "application properties",
        properties,
        &sent.application_properties,
    )?;
    equal("body", &received.body, &sent.body)?;
    equal("footer", &received.footer, &sent.footer)
}

macro_rules! simple {
    ($kind:ident) => {
        vec![
            $kind::Null,
            $kind::Bool(true),
            $kind::Ubyte(u8::MAX),
            $kind::Ushort(u16::MAX),
            $kind::Uint(u32::MAX),
            $kind::Ulong(u64::MAX),
            $kind::Byte(i8::MIN),
            $kind::Short(i16::MIN),
            $kind::Int(i32::MIN),
            $kind::Long(i64::MIN),
            $kind::from(1.5_f32),
            $kind::from(2.5_f64),
            $kind::Decimal32(Dec32::from([0x22, 0x50, 0, 1])),
            $kind::Decimal64(Dec64::from([0x22, 0x38, 0, 0, 0, 0, 0, 1])),
            $kind::Decimal128(Dec128::from([0x22; 16])),
            $kind::Char('\u{1f980}'),
            $kind::Timestamp(Timestamp::from_milliseconds(1_700_000_000_123)),
            $kind::Uuid(Uuid::from([7; 16])),
            $kind::Binary(Binary::from(vec![0, 255])),
            $kind::String("gr\u{fc}\u{df}e".to_owned()),
            $kind::Symbol(Symbol::from("sym")),
        ]
    };
}

pub async fn types(s: &mut Scene) -> Result<()> {
    let mut body: Vec<Value> = simple!(Value);
    body.push(Value::List(vec![
        Value::Long(1),
        Value::List(vec![Value::Null]),
    ]));
    let mut entries = OrderedMap::new();
    entries.insert(Value::from("a".to_owned()), Value::Long(1));
    body.push(Value::Map(entries));
    body.push(Value::Array(Array(vec![Value::Int(1), Value::Int(2)])));
    body.push(Value::Described(Box::new(Described {
        descriptor: Descriptor::Name(Symbol::from("app:thing")),
        value: Value::Long(1),
    })));
    let mut sent = letter(Value::List(body));
    let mut properties = ApplicationProperties::default();
    let simple: Vec<SimpleValue> = simple!(SimpleValue);
    for (at, value) in simple.into_iter().enumerate() {
        properties.0.insert(format!("p{at}"), value);
    }
    sent.application_properties = Some(properties);
    let received = round_trip(s, "", sent.clone()).await?;
    let observed = &received.application_properties;
    equal(
        "application properties",
        observed,
        &sent.application_properties,
    )?;
    equal("body", &received.body, &sent.body)
}

pub async fn bodies(s: &mut Scene) -> Result<()> {
    let data = |bytes: &[u8]| Data(Binary::from(bytes.to_vec()));
    let sequences = vec![
        AmqpSequence(vec![Value::Long(1)]),
        AmqpSequence(vec![Value::Long(2), Value::from("three".to_owned())]),
    ];
    let bodies = [
        Body::Data(vec![data(b"one"), data(b"two"), data(b"three")].into()),
        Body::Data(vec![data(b"")].into()),
        Body::Sequence(sequences.into()),
        text("one").body,
    ];
    for (at, body) in bodies.into_iter().enumerate() {
        let mut sent = text("");
        sent.body = body.clone();
        let received = round_trip(s, &format!("-{at}"), sent).await?;
        equal("body", received.body, body)?;
    }
    Ok(())
}

pub async fn large(s: &mut Scene) -> Result<()> {
    let queue = s.queue("", &[])?;
    let pattern = b"a large body ".iter().copied().cycle();
    let body: Vec<u8> = pattern.take(10 * 1024 * 1024).collect();
    let mut sender = s.sender(&format!("/queues/{queue}")).await?;
    let sent = Message::builder()
        .data(Data(Binary::from(body.clone())))
        .build();
    accepted(soon(sender.send(sent)).await??)?;
    let mut receiver = s.receiver(&queue, CreditMode::Auto(1)).await?;
    let arrived = receive(&mut receiver).await?;
    let Body::Data(sections) = &arrived.message().body else {
        return Err("no data".into());
    };
    let observed: Vec<u8> = sections.iter().flat_map(|data| data.0.to_vec()).collect();
    receiver.accept(&arrived).await?;
    equal("body", observed == body, true)
}
