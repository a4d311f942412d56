//! Ways in, and the management node.

use std::sync::Arc;

use coroner::wire::Value as Argument;
use fe2o3_amqp::sasl_profile::{SaslProfile, SaslScramSha256, SaslScramSha512};
use fe2o3_amqp::types::messaging::{Body, Data, Message, Source};
use fe2o3_amqp::types::primitives::{Binary, Value};
use fe2o3_amqp::{Connection, Receiver, Sender};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::common::Result;
use crate::scene::{
    Peer, Scene, accepted, ask, connect, equal, manage, map, receive, refused, send, soon, text,
    value,
};

pub async fn plain(s: &mut Scene) -> Result<()> {
    let wrong = SaslProfile::Plain {
        username: s.setting.user.clone(),
        password: "wrong".to_owned(),
    };
    refused(
        connect(&s.setting, None, wrong).await.map(drop),
        "code: Auth",
    )?;
    let peer = connect(&s.setting, None, s.setting.plain()).await?;
    peer.close().await;
    Ok(())
}

/// Publishes on a connection of its own, and receives on that of the scene.
async fn through(s: &mut Scene, mut peer: Peer) -> Result<()> {
    let queue = s.queue("", &[])?;
    let target = format!("/queues/{queue}");
    let mut sender = soon(Sender::attach(&mut peer.session, "through", target)).await??;
    accepted(send(&mut sender, text("through")).await?)?;
    let observed = value(&s.first(&queue).await?)?;
    peer.close().await;
    equal("body", observed, Value::from("through".to_owned()))
}

pub async fn anonymous(s: &mut Scene) -> Result<()> {
    let peer = connect(&s.setting, None, SaslProfile::Anonymous).await?;
    through(s, peer).await
}

pub async fn scram(s: &mut Scene) -> Result<()> {
    let (user, password) = (s.setting.user.clone(), s.setting.password.clone());
    let wrong = SaslScramSha256::new(user.clone(), "wrong");
    let outcome = connect(&s.setting, None, wrong.into()).await;
    refused(outcome.map(drop), "code: Auth")?;
    let longer = SaslScramSha512::new(user.clone(), password.clone());
    connect(&s.setting, None, longer.into())
        .await?
        .close()
        .await;
    let peer = connect(
        &s.setting,
        None,
        SaslScramSha256::new(user, password).into(),
    )
    .await?;
    through(s, peer).await
}

pub async fn tls(s: &mut Scene) -> Result<()> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&s.setting.ca)?)?;
    let config = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let address = (s.setting.host.as_str(), s.setting.amqps);
    let stream = tokio::net::TcpStream::connect(address).await?;
    let name = ServerName::try_from("localhost")?;
    let stream = soon(TlsConnector::from(Arc::new(config)).connect(name, stream)).await??;
    let opening = Connection::builder()
        .container_id("interop")
        .scheme("amqp")
        .sasl_profile(s.setting.plain())
        .open_with_stream(stream);
    let peer = Peer::begin(soon(opening).await??).await?;
    through(s, peer).await
}

pub async fn no_sasl(s: &mut Scene) -> Result<()> {
    let url = format!("amqp://{}:{}", s.setting.host, s.setting.bare);
    let connection = soon(Connection::open("interop", url.as_str())).await??;
    let peer = Peer::begin(connection).await?;
    through(s, peer).await
}

pub async fn vhost(s: &mut Scene) -> Result<()> {
    let hostname = format!("vhost:{}", s.setting.vhost);
    let mut management = manage(&s.setting, Some(&hostname))?;
    let path = format!("/queues/{}", s.name);
    management.request("PUT", &path, map(&[]))?;
    let mut inside = connect(&s.setting, Some(&hostname), s.setting.plain()).await?;
    let queue = s.name.clone();
    let outside = Source::builder().address(format!("/queues/{queue}"));
    s.refuses(&outside.build(), "NotFound").await?;
    soon(Receiver::attach(
        &mut inside.session,
        "inside",
        path.clone(),
    ))
    .await??;
    ask(&mut management, "DELETE", &path, Argument::Null, "200")?;
    inside.close().await;
    // The broker opens before it closes: the error may meet the session, or the connection after.
    let url = format!("amqp://{}:{}", s.setting.host, s.setting.amqp);
    let opening = Connection::builder()
        .container_id("interop")
        .sasl_profile(s.setting.plain())
        .hostname("vhost:interop-missing");
    match soon(opening.open(url.as_str())).await? {
        Ok(mut connection) => refused(soon(connection.on_close()).await?, "NotFound"),
        Err(error) => refused(Err::<(), _>(error), "NotFound"),
    }
}

pub async fn frames(s: &mut Scene) -> Result<()> {
    let queue = s.queue("", &[])?;
    let url = format!("amqp://{}:{}", s.setting.host, s.setting.amqp);
    let opening = Connection::builder()
        .container_id("interop")
        .sasl_profile(s.setting.plain())
        .max_frame_size(512)
        .open(url.as_str());
    let mut peer = Peer::begin(soon(opening).await??).await?;
    let body: Vec<u8> = b"frames ".iter().copied().cycle().take(20_000).collect();
    let target = format!("/queues/{queue}");
    let mut sender = soon(Sender::attach(&mut peer.session, "out", target.clone())).await??;
    let sent = Message::builder()
        .data(Data(Binary::from(body.clone())))
        .build();
    accepted(soon(sender.send(sent)).await??)?;
    let mut receiver = soon(Receiver::attach(&mut peer.session, "in", target)).await??;
    let arrived = receive(&mut receiver).await?;
    receiver.accept(&arrived).await?;
    let Body::Data(sections) = &arrived.message().body else {
        return Err("no data".into());
    };
    let observed: Vec<u8> = sections.iter().flat_map(|data| data.0.to_vec()).collect();
    peer.close().await;
    equal("body", observed == body, true)
}

fn messages(answer: &Argument) -> Option<u64> {
    answer.get("message_count").and_then(Argument::as_u64)
}

pub async fn declare(s: &mut Scene) -> Result<()> {
    let queue = s.queue("", &[("x-max-length", Argument::Ulong(5))])?;
    let path = format!("/queues/{queue}");
    let limit = |length| {
        map(&[(
            "arguments",
            map(&[("x-max-length", Argument::Ulong(length))]),
        )])
    };
    s.ask("PUT", &path, limit(5), "200")?;
    s.ask("PUT", &path, limit(6), "409")?;
    let info = s.ask("GET", &path, Argument::Null, "200")?;
    equal(
        "name",
        info.get("name").and_then(Argument::as_str),
        Some(queue.as_str()),
    )?;
    equal(
        "type",
        info.get("type").and_then(Argument::as_str),
        Some("classic"),
    )?;
    equal("message_count", messages(&info), Some(0))?;
    let exchange = format!("{queue}-exchange");
    let topic = map(&[("type", Argument::string("topic"))]);
    s.ask("PUT", &format!("/exchanges/{exchange}"), topic, "204")?;
    let binding = map(&[
        ("source", Argument::string(exchange.as_str())),
        ("destination_queue", Argument::string(queue.as_str())),
        ("binding_key", Argument::string("a.#")),
        ("arguments", map(&[])),
    ]);
    s.ask("POST", "/bindings", binding, "204")?;
    let bindings = format!("/bindings?src={exchange}&dstq={queue}&key=a.%23");
    let listed = s.ask("GET", &bindings, Argument::Null, "200")?;
    let [found] = listed.as_elements().unwrap_or_default() else {
        return Err(format!("bindings: {listed:?}").into());
    };
    let location = found.get("location").and_then(Argument::as_str);
    s.ask(
        "DELETE",
        location.ok_or("no location")?,
        Argument::Null,
        "204",
    )?;
    let listed = s.ask("GET", &bindings, Argument::Null, "200")?;
    equal(
        "bindings left",
        listed.as_elements().map(<[_]>::len),
        Some(0),
    )?;
    s.publish(&queue, vec![text("1"), text("2")]).await?;
    let purged = s.ask("DELETE", &format!("{path}/messages"), Argument::Null, "200")?;
    equal("purged", messages(&purged), Some(2))?;
    s.ask(
        "DELETE",
        &format!("/exchanges/{exchange}"),
        Argument::Null,
        "204",
    )?;
    s.ask("DELETE", &path, Argument::Null, "200")?;
    s.ask("GET", &path, Argument::Null, "404").map(drop)
}
