//! The snippets of `docs/clients/fe2o3-amqp.md`.

use fe2o3_amqp::sasl_profile::SaslProfile;
use fe2o3_amqp::session::SessionHandle;
use fe2o3_amqp::types::definitions::{AmqpError, Error, Fields};
use fe2o3_amqp::types::messaging::annotations::AnnotationKey;
use fe2o3_amqp::types::messaging::{Body, Header, Message, Outcome};
use fe2o3_amqp::types::primitives::{Symbol, Value};
use fe2o3_amqp::{Connection, Receiver, Sender, Session};

use crate::common::Result;
use crate::scene::{Scene, equal, soon, to};

pub async fn page(s: &mut Scene) -> Result<()> {
    let dead = s.queue("-dead", &[])?;
    let queue = s.queue("", &to(&dead))?;
    let address = format!("{}:{}", s.setting.host, s.setting.amqp);
    soon(publish(&address, &queue)).await??;
    soon(reject(&mut s.peer.session, &queue)).await??;
    s.until_count(&dead, 1).await?;
    let observed = soon(history(&mut s.peer.session, &dead)).await??;
    equal(
        "history",
        observed,
        [format!("{queue} rejected 1")].to_vec(),
    )
}

async fn publish(address: &str, queue: &str) -> Result<()> {
    let mut connection = Connection::builder()
        .container_id("shop")
        .sasl_profile(SaslProfile::Plain {
            username: "guest".to_owned(),
            password: "guest".to_owned(),
        })
        .hostname("vhost:/") // or vhost:NAME
        .open(format!("amqp://{address}").as_str())
        .await?;
    let mut session = Session::begin(&mut connection).await?;
    let target = format!("/queues/{queue}");
    let mut sender = Sender::attach(&mut session, "publisher", target).await?;
    let message = Message::builder()
        .header(Header {
            durable: true,
            ..Header::default()
        })
        .value("order".to_owned())
        .build();
    match sender.send(message).await? {
        Outcome::Accepted(_) => {}
        other => return Err(format!("not accepted: {other:?}").into()), // released, rejected
    }
    sender.close().await?;
    session.end().await?;
    connection.close().await?;
    Ok(())
}

async fn reject(session: &mut SessionHandle<()>, queue: &str) -> Result<()> {
    let source = format!("/queues/{queue}");
    let mut receiver = Receiver::attach(session, "consumer", source).await?;
    let delivery = receiver.recv::<Body<Value>>().await?;
    let why = Error::new(AmqpError::DecodeError, "cannot be read".to_owned(), None);
    receiver.reject(&delivery, why).await?; // or accept, release, modify
    receiver.close().await?;
    Ok(())
}

async fn history(session: &mut SessionHandle<()>, dead: &str) -> Result<Vec<String>> {
    let mut properties = Fields::new();
    let list = Value::Symbol(Symbol::from("list"));
    properties.insert(Symbol::from("x-opt-deaths-encoding"), list);
    let mut receiver = Receiver::builder()
        .name("reader")
        .source(format!("/queues/{dead}"))
        .properties(properties)
        .attach(session)
        .await?;
    let delivery = receiver.recv::<Body<Value>>().await?;
    receiver.accept(&delivery).await?;
    receiver.close().await?;
    let annotations = delivery.message().message_annotations.as_ref();
    let deaths = annotations.and_then(|map| map.0.get(&"x-opt-deaths" as &dyn AnnotationKey));
    let Some(Value::List(deaths)) = deaths else {
        return Err("no history".into());
    };
    let field = |death: &Value, name: &str| match death {
        Value::Map(map) => match map.get(&Value::Symbol(Symbol::from(name))) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Symbol(symbol)) => symbol.0.clone(),
            Some(Value::Ulong(number)) => number.to_string(),
            other => format!("{other:?}"),
        },
        other => format!("{other:?}"),
    };
    // the newest death first
    let told = deaths.iter().map(|death| {
        let [queue, reason, count] = ["queue", "reason", "count"].map(|name| field(death, name));
        format!("{queue} {reason} {count}")
    });
    Ok(told.collect())
}
