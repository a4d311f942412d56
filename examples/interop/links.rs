//! Outcomes, credit, and links that are refused or ended.

use coroner::wire::Value as Argument;
use fe2o3_amqp::Receiver;
use fe2o3_amqp::Sender;
use fe2o3_amqp::link::receiver::CreditMode;
use fe2o3_amqp::types::definitions::{AmqpError, Error, Fields, SenderSettleMode};
use fe2o3_amqp::types::messaging::annotations::AnnotationKey;
use fe2o3_amqp::types::messaging::{
    ApplicationProperties, MessageId, Modified, Outcome, Properties, Source, Target,
};
use fe2o3_amqp::types::primitives::{Symbol, Value};
use serde_amqp::described::Described;
use serde_amqp::descriptor::Descriptor;

use crate::common::Result;
use crate::scene::{
    Arrived, Letter, Scene, accepted, connect, equal, letter, map, nothing, receive, refused, send,
    soon, text, to, value,
};

const AUTO: CreditMode = CreditMode::Auto(10);

fn numbered(count: i64) -> Vec<Letter> {
    (0..count).map(letter).collect()
}

fn string(text: &str) -> Value {
    Value::String(text.to_owned())
}

/// The next message of a queue, once the outcome before it has arrived.
async fn comes(
    s: &mut Scene,
    receiver: &mut Receiver,
    expected: (&str, u32, bool),
) -> Result<Arrived> {
    let queue = s.name.clone();
    s.count(&queue)?;
    receiver.set_credit(1).await?;
    let arrived = receive(receiver).await?;
    let header = arrived.message().header.clone().unwrap_or_default();
    let observed = (
        value(arrived.message())?,
        header.delivery_count,
        header.first_acquirer,
    );
    equal(
        "message",
        observed,
        (string(expected.0), expected.1, expected.2),
    )?;
    Ok(arrived)
}

pub async fn outcomes(s: &mut Scene) -> Result<()> {
    let dead = s.queue("-dead", &[])?;
    let queue = s.queue("", &to(&dead))?;
    let names = [
        "accepted",
        "released",
        "modified",
        "rejected",
        "undeliverable",
    ];
    s.publish(&queue, names.map(text).to_vec()).await?;
    let mut receiver = s.receiver(&queue, CreditMode::Manual).await?;
    let arrived = comes(s, &mut receiver, ("accepted", 0, true)).await?;
    receiver.accept(&arrived).await?;
    let arrived = comes(s, &mut receiver, ("released", 0, true)).await?;
    receiver.release(&arrived).await?;
    let arrived = comes(s, &mut receiver, ("released", 0, false)).await?;
    receiver.accept(&arrived).await?;
    let arrived = comes(s, &mut receiver, ("modified", 0, true)).await?;
    let mut note = Fields::new();
    note.insert(Symbol::from("x-opt-note"), string("seen"));
    let mut modified = Modified {
        delivery_failed: Some(true),
        undeliverable_here: None,
        message_annotations: Some(note),
    };
    receiver.modify(&arrived, modified.clone()).await?;
    let arrived = comes(s, &mut receiver, ("modified", 1, false)).await?;
    let annotations = arrived
        .message()
        .message_annotations
        .as_ref()
        .ok_or("no annotations")?;
    let observed = annotations.0.get(&"x-opt-note" as &dyn AnnotationKey);
    equal("annotation", observed, Some(&string("seen")))?;
    receiver.accept(&arrived).await?;
    let arrived = comes(s, &mut receiver, ("rejected", 0, true)).await?;
    let error = Error::new(AmqpError::DecodeError, "cannot be read".to_owned(), None);
    receiver.reject(&arrived, error).await?;
    let arrived = comes(s, &mut receiver, ("undeliverable", 0, true)).await?;
    modified.delivery_failed = None;
    modified.undeliverable_here = Some(true);
    receiver.modify(&arrived, modified).await?;
    for name in ["rejected", "undeliverable"] {
        equal("dead letter", value(&s.first(&dead).await?)?, string(name))?;
    }
    s.until_count(&queue, 0).await
}

pub async fn refusals(s: &mut Scene) -> Result<()> {
    let exchange = format!("/exchanges/{}-exchange", s.name);
    let direct = map(&[("type", Argument::string("direct"))]);
    s.ask("PUT", &exchange, direct, "204")?;
    let mut nowhere = s.sender(&format!("{exchange}/nowhere")).await?;
    let outcome = send(&mut nowhere, text("x")).await?;
    equal("released", matches!(outcome, Outcome::Released(_)), true)?;
    s.ask("DELETE", &exchange, Argument::Null, "204")?;
    let full = [
        ("x-max-length", Argument::Ulong(1)),
        ("x-overflow", Argument::string("reject-publish")),
    ];
    let queue = s.queue("", &full)?;
    let mut sender = s.sender(&format!("/queues/{queue}")).await?;
    accepted(send(&mut sender, text("x")).await?)?;
    let Outcome::Rejected(rejected) = send(&mut sender, text("x")).await? else {
        return Err("a full queue does not reject".into());
    };
    let error = rejected.error.ok_or("no error")?;
    equal(
        "condition",
        error.condition,
        AmqpError::ResourceLimitExceeded.into(),
    )?;
    let info = error.info.ok_or("no info")?;
    equal(
        "queue",
        info.get(&Symbol::from("queue")),
        Some(&string(&queue)),
    )?;
    let reason = Value::Symbol(Symbol::from("maxlen"));
    equal("reason", info.get(&Symbol::from("reason")), Some(&reason))
}

pub async fn credit(s: &mut Scene) -> Result<()> {
    let queue = s.queue("", &[])?;
    s.publish(&queue, numbered(5)).await?;
    let mut receiver = s.receiver(&queue, CreditMode::Manual).await?;
    nothing(&mut receiver).await?;
    receiver.set_credit(2).await?;
    let first = [receive(&mut receiver).await?, receive(&mut receiver).await?];
    nothing(&mut receiver).await?;
    for arrived in &first {
        receiver.accept(arrived).await?;
    }
    receiver.set_credit(3).await?;
    for n in 2..5 {
        let arrived = receive(&mut receiver).await?;
        equal("body", value(arrived.message())?, Value::Long(n))?;
        receiver.accept(&arrived).await?;
    }
    s.publish(&queue, numbered(1)).await?;
    nothing(&mut receiver).await
}

pub async fn drain(s: &mut Scene) -> Result<()> {
    let queue = s.queue("", &[])?;
    s.publish(&queue, numbered(3)).await?;
    let mut receiver = s.receiver(&queue, CreditMode::Manual).await?;
    receiver.set_credit(10).await?;
    receiver.drain().await?;
    for n in 0..3 {
        let arrived = receive(&mut receiver).await?;
        equal("body", value(arrived.message())?, Value::Long(n))?;
        receiver.accept(&arrived).await?;
    }
    s.publish(&queue, vec![text("late")]).await?;
    // The credit is 0 at the broker. The client goes on counting what the drain took, and takes the
    // messages off the delivery-count that the drain set: any later credit of it is too much.
    nothing(&mut receiver).await
}

pub async fn presettled(s: &mut Scene) -> Result<()> {
    let queue = s.queue("", &[])?;
    let name = s.link_name();
    let attaching = Sender::builder()
        .name(name)
        .target(format!("/queues/{queue}"))
        .sender_settle_mode(SenderSettleMode::Settled)
        .attach(&mut s.peer.session);
    let mut sender = soon(attaching).await??;
    send(&mut sender, text("settled")).await?;
    s.until_count(&queue, 1).await?;
    let name = s.link_name();
    let attaching = Receiver::builder()
        .name(name)
        .source(format!("/queues/{queue}"))
        .sender_settle_mode(SenderSettleMode::Settled)
        .attach(&mut s.peer.session);
    let mut receiver = soon(attaching).await??;
    equal(
        "body",
        value(receive(&mut receiver).await?.message())?,
        string("settled"),
    )?;
    soon(receiver.close()).await??;
    s.until_count(&queue, 0).await
}

pub async fn anonymous_terminus(s: &mut Scene) -> Result<()> {
    let (one, two) = (s.queue("-one", &[])?, s.queue("-two", &[])?);
    let bound = s.queue("-bound", &[])?;
    let exchange = format!("{}-exchange", s.name);
    let node = format!("/exchanges/{exchange}");
    s.ask(
        "PUT",
        &node,
        map(&[("type", Argument::string("fanout"))]),
        "204",
    )?;
    let binding = map(&[
        ("source", Argument::string(exchange.as_str())),
        ("destination_queue", Argument::string(bound.as_str())),
        ("binding_key", Argument::string("")),
        ("arguments", map(&[])),
    ]);
    s.ask("POST", "/bindings", binding, "204")?;
    let name = s.link_name();
    let attaching = Sender::builder()
        .name(name)
        .target(Target::default())
        .attach(&mut s.peer.session);
    let mut sender = soon(attaching).await??;
    for to in [
        format!("/queues/{one}"),
        format!("/queues/{two}"),
        node.clone(),
    ] {
        let mut letter = text("to");
        letter.properties = Some(Properties {
            to: Some(to),
            ..Properties::default()
        });
        accepted(send(&mut sender, letter).await?)?;
    }
    for queue in [&one, &two, &bound] {
        equal(queue, s.count(queue)?, 1)?;
    }
    let outcome = send(&mut sender, text("to nobody")).await?;
    equal("rejected", matches!(outcome, Outcome::Rejected(_)), true)?;
    s.ask("DELETE", &node, Argument::Null, "204").map(drop)
}

pub async fn attach_refused(s: &mut Scene) -> Result<()> {
    let queue = s.queue("", &[])?;
    let missing = Source::builder().address("/queues/interop-missing").build();
    s.refuses(&missing, "NotFound").await?;
    let bad = Source::builder().address("/nonsense/x").build();
    s.refuses(&bad, "InvalidField").await?;
    let alone = exclusive(s, &queue).await?;
    let locked = Source::builder().address(format!("/queues/{queue}"));
    s.refuses(&locked.build(), "ResourceLocked").await?;
    soon(alone.close()).await??;
    s.publish(&queue, vec![text("the session lives")]).await?;
    equal(
        "body",
        value(&s.first(&queue).await?)?,
        string("the session lives"),
    )
}

/// A consumer that wants the queue for itself.
async fn exclusive(s: &mut Scene, queue: &str) -> Result<Receiver> {
    let mut properties = Fields::new();
    properties.insert(Symbol::from("exclusive"), Value::Bool(true));
    let attaching = Receiver::builder()
        .name(s.link_name())
        .source(format!("/queues/{queue}"))
        .properties(properties)
        .attach(&mut s.peer.session);
    Ok(soon(attaching).await??)
}

pub async fn deleted(s: &mut Scene) -> Result<()> {
    let queue = s.queue("", &[])?;
    let mut receiver = s.receiver(&queue, AUTO).await?;
    s.ask("DELETE", &format!("/queues/{queue}"), Argument::Null, "200")?;
    let outcome = soon(receiver.recv::<Value>()).await?;
    refused(outcome, "ResourceDeleted")
}

pub async fn dynamic(s: &mut Scene) -> Result<()> {
    let source = Source::builder().dynamic(true).build();
    let mut receiver = s.attach(source, AUTO).await?;
    let address = receiver
        .source()
        .as_ref()
        .and_then(|source| source.address.clone());
    let address = address.ok_or("no address")?;
    let mut other = connect(&s.setting, None, s.setting.plain()).await?;
    let attaching = Sender::attach(&mut other.session, "answers", address.clone());
    let mut sender = soon(attaching).await??;
    accepted(send(&mut sender, text("answer")).await?)?;
    let arrived = receive(&mut receiver).await?;
    equal("body", value(arrived.message())?, string("answer"))?;
    receiver.accept(&arrived).await?;
    soon(sender.close()).await??;
    soon(receiver.close()).await??;
    let gone = soon(Sender::attach(&mut other.session, "gone", address)).await?;
    other.close().await;
    refused(gone, "NotFound")
}

pub async fn selector(s: &mut Scene) -> Result<()> {
    let queue = s.queue("", &[])?;
    let colours = ["red", "blue", "red", "green", "red", "blue"];
    let letters = (0..).zip(colours).map(|(id, colour)| {
        let mut letter = text(colour);
        letter.properties = Some(Properties {
            message_id: Some(MessageId::Ulong(id)),
            ..Properties::default()
        });
        let properties = ApplicationProperties::builder().insert("colour", colour.to_owned());
        letter.application_properties = Some(properties.build());
        letter
    });
    s.publish(&queue, letters.collect()).await?;
    let filter = Described {
        descriptor: Descriptor::Name(Symbol::from("apache.org:selector-filter:string")),
        value: string("colour = 'red'"),
    };
    let source = Source::builder()
        .address(format!("/queues/{queue}"))
        .add_to_filter("apache.org:selector-filter:string", filter);
    let mut red = s.attach(source.build(), AUTO).await?;
    for id in [0, 2, 4] {
        let arrived = receive(&mut red).await?;
        let properties = arrived.message().properties.as_ref();
        let observed = properties.and_then(|properties| properties.message_id.clone());
        equal("message-id", observed, Some(MessageId::Ulong(id)))?;
        red.accept(&arrived).await?;
    }
    nothing(&mut red).await?;
    let mut rest = s.receiver(&queue, AUTO).await?;
    for colour in ["blue", "green", "blue"] {
        let arrived = receive(&mut rest).await?;
        equal("the rest", value(arrived.message())?, string(colour))?;
        rest.accept(&arrived).await?;
    }
    Ok(())
}
