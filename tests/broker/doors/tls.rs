//! TLS listeners, their certificates, and those of clients.

use std::time::{Duration, Instant};

use coroner::config::TlsLoginFrom;
use coroner::{Broker, Settings};
use fe2o3_amqp::connection::{ConnectionHandle, OpenError};
use fe2o3_amqp::sasl_profile::SaslProfile;
use fe2o3_amqp::types::messaging::{Body, Message};
use fe2o3_amqp::{Connection, Receiver, Sender, Session};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::SupportedProtocolVersion;
use tokio_rustls::rustls::version::{TLS12, TLS13};

use super::certificates::{Authority, Identity, pem, server_name};
use super::{settings, start};
use crate::support::raw::{ANSWER_MAX, SASL_HEADER, binary, frame, performative, symbol};

const BOTH: &[&SupportedProtocolVersion] = &[&TLS12, &TLS13];

async fn stream(
    broker: &Broker,
    authority: &Authority,
    identity: Option<&Identity>,
    versions: &[&'static SupportedProtocolVersion],
) -> std::io::Result<TlsStream<TcpStream>> {
    let tcp = TcpStream::connect(broker.amqps_addresses()[0]).await?;
    let connector = authority.connector(identity, versions);
    connector.connect(server_name(), tcp).await
}

async fn login(
    stream: TlsStream<TcpStream>,
    profile: SaslProfile,
) -> Result<ConnectionHandle<()>, OpenError> {
    let builder = Connection::builder().container_id("doors");
    builder.sasl_profile(profile).open_with_stream(stream).await
}

/// Whether EXTERNAL logs in; the fe2o3 client offers it only over streams that it made itself.
async fn external(mut stream: TlsStream<TcpStream>) -> bool {
    let init = performative(0x41, &[symbol("EXTERNAL"), binary(b"")]);
    let bytes = [SASL_HEADER, &frame(1, 0, &init)].concat();
    stream.write_all(&bytes).await.unwrap();
    let mut answer = Vec::new();
    loop {
        let outcome = answer
            .windows(3)
            .position(|part| part == [0x00, 0x53, 0x44]);
        let code = outcome.and_then(|at| answer[at..].windows(2).find(|part| part[0] == 0x50));
        if let Some(code) = code {
            return code[1] == 0;
        }
        let read = stream.read_buf(&mut answer);
        let read = tokio::time::timeout(ANSWER_MAX, read).await;
        assert!(read.unwrap().unwrap() > 0, "closed without an outcome");
    }
}

fn plain(user: &str, password: &str) -> SaslProfile {
    SaslProfile::Plain {
        username: user.into(),
        password: password.into(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_larger_than_a_socket_takes_go_over_both_versions() {
    let authority = Authority::new();
    let broker = start(authority.settings()).await;
    // A queue for each: the client may close before its last acceptance is on its way.
    for (version, queue) in [(&TLS12, "q12"), (&TLS13, "q13")] {
        let stream = stream(&broker, &authority, None, &[version]).await.unwrap();
        let mut connection = login(stream, plain("ada", "lovelace")).await.unwrap();
        let mut session = Session::begin(&mut connection).await.unwrap();
        let mut sender = Sender::attach(&mut session, "s", queue).await.unwrap();
        let mut receiver = Receiver::attach(&mut session, "r", queue).await.unwrap();
        for fill in 0..4_u8 {
            let body = vec![fill; 3 << 20];
            let message = Message::builder().data(body.clone()).build();
            sender
                .send(message)
                .await
                .unwrap()
                .accepted_or("refused")
                .unwrap();
            let delivery = receiver.recv::<Body<()>>().await.unwrap();
            let Body::Data(data) = delivery.body() else {
                panic!("another section");
            };
            let came: Vec<u8> = data.iter().flat_map(|data| data.0.to_vec()).collect();
            assert!(came == body, "{version:?} {fill}");
            receiver.accept(&delivery).await.unwrap();
        }
        connection.close().await.unwrap();
    }
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_certificate_logs_in_its_user_and_nobody_else() {
    let authority = Authority::new();
    let stranger = Authority::new();
    for (from, common, dns) in [
        (TlsLoginFrom::CommonName, "ada", "other.example"),
        (TlsLoginFrom::SubjectAlternativeName, "other", "ada"),
    ] {
        let broker = start(Settings {
            tls_login_from: from,
            ..authority.settings()
        })
        .await;
        let ada = authority.sign(common, dns);
        let connect = stream(&broker, &authority, Some(&ada), BOTH).await.unwrap();
        assert!(external(connect).await, "{from}");

        let nobody = authority.sign("nobody", "nobody");
        let connect = stream(&broker, &authority, Some(&nobody), BOTH)
            .await
            .unwrap();
        assert!(!external(connect).await, "no such user");
        let connect = stream(&broker, &authority, None, BOTH).await.unwrap();
        assert!(!external(connect).await, "no certificate");

        // Signed by somebody whom the broker does not trust: with TLS 1.3 the client learns it late.
        let forged = stranger.sign("ada", "ada");
        let mut connect = stream(&broker, &authority, Some(&forged), &[&TLS13])
            .await
            .unwrap();
        connect.write_all(b"AMQP\x03\x01\x00\x00").await.ok();
        assert!(connect.read_u8().await.is_err(), "a forged certificate");
        broker.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_without_certificate_are_refused_where_one_is_required() {
    let authority = Authority::new();
    let broker = start(Settings {
        tls_client_required: true,
        ..authority.settings()
    })
    .await;
    assert!(stream(&broker, &authority, None, &[&TLS12]).await.is_err());
    let ada = authority.sign("ada", "ada");
    let connect = stream(&broker, &authority, Some(&ada), &[&TLS12])
        .await
        .unwrap();
    login(connect, plain("ada", "lovelace")).await.unwrap();
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn new_files_are_used_and_bad_ones_leave_the_old_ones_in_use() {
    let authority = Authority::new();
    let broker = start(authority.settings()).await;
    let shown = async || {
        let stream = stream(&broker, &authority, None, BOTH).await.unwrap();
        let certificates = stream.get_ref().1.peer_certificates().unwrap();
        certificates[0].to_vec()
    };
    let first = shown().await;
    let second = authority.renew();
    broker.reload_tls().unwrap();
    assert_eq!(shown().await, second);
    assert_ne!(first, second);

    authority.write("key.pem", "no key");
    let error = broker.reload_tls().unwrap_err().to_string();
    assert!(error.contains("key.pem"), "{error}");
    assert_eq!(shown().await, second, "the old ones");

    // The broker looks by itself too.
    let third = authority.renew();
    let end = Instant::now() + ANSWER_MAX;
    while shown().await != third {
        assert!(Instant::now() < end, "changed files are never seen");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_file_is_named_with_what_is_wrong() {
    let authority = Authority::new();
    let other = Authority::new();
    let key = std::fs::read_to_string(other.directory.join("key.pem")).unwrap();
    authority.write("other-key.pem", &key);
    authority.write("empty.pem", "");
    authority.write("rubbish.pem", &pem("CERTIFICATE", b"rubbish"));
    let missing = Some(authority.file("missing.pem"));
    let check = async |change: &dyn Fn(&mut Settings), parts: &[&str]| {
        let mut settings = authority.settings();
        change(&mut settings);
        let error = Broker::builder()
            .settings(settings)
            .start()
            .await
            .unwrap_err();
        for part in parts {
            assert!(error.to_string().contains(part), "{part} in {error}");
        }
    };
    let file = |name| Some(authority.file(name));
    check(
        &|s| s.tls_certificate.clone_from(&missing),
        &["missing.pem", "No such file"],
    )
    .await;
    check(
        &|s| s.tls_certificate = file("empty.pem"),
        &["empty.pem", "no certificate"],
    )
    .await;
    check(
        &|s| s.tls_certificate = file("rubbish.pem"),
        &["rubbish.pem"],
    )
    .await;
    check(
        &|s| s.tls_key = file("empty.pem"),
        &["empty.pem", "no private key"],
    )
    .await;
    check(
        &|s| s.tls_key = file("other-key.pem"),
        &["other-key.pem", "not the key", "cert.pem"],
    )
    .await;
    check(
        &|s| s.tls_client_ca = file("key.pem"),
        &["key.pem", "no certificate"],
    )
    .await;
    check(&|s| s.tls_key = None, &["tls-certificate", "tls-key"]).await;
    check(
        &|s| s.tls_certificate = None,
        &["tls-key", "tls-certificate"],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_does_not_speak_tls_is_gone_after_the_handshake_timeout() {
    let authority = Authority::new();
    let broker = start(Settings {
        handshake_timeout: "500ms".parse().unwrap(),
        ..authority.settings()
    })
    .await;
    let address = broker.amqps_addresses()[0];
    let closed = async |first: &[u8]| {
        let mut silent = TcpStream::connect(address).await.unwrap();
        silent.write_all(first).await.unwrap();
        let mut answer = Vec::new();
        let read = silent.read_to_end(&mut answer);
        tokio::time::timeout(ANSWER_MAX, read).await.is_ok()
    };
    assert!(closed(b"").await, "silent");
    assert!(closed(b"AMQP\x00\x01\x00\x00").await, "AMQP in clear");
    let end = Instant::now() + ANSWER_MAX;
    while broker.stats().connections > 0 {
        assert!(Instant::now() < end, "they are still counted");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_http_api_is_served_over_tls() {
    let authority = Authority::new();
    let broker = start(Settings {
        https: vec!["127.0.0.1:0".parse().unwrap()],
        user_tags: vec!["ada=management".parse().unwrap()],
        ..authority.settings()
    })
    .await;
    let tcp = TcpStream::connect(broker.https_addresses()[0])
        .await
        .unwrap();
    let connector = authority.connector(None, BOTH);
    let mut stream = connector.connect(server_name(), tcp).await.unwrap();
    let request = "GET /api/whoami HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
                   authorization: Basic YWRhOmxvdmVsYWNl\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.contains("\"name\":\"ada\""), "{answer}");
    broker.stop().await;
}

#[tokio::test]
async fn settings_of_tls_need_each_other() {
    let problem = |change: &dyn Fn(&mut Settings)| {
        let mut settings = settings();
        change(&mut settings);
        settings.problem().map(|(name, _)| name)
    };
    let address = || vec!["127.0.0.1:0".parse().unwrap()];
    assert_eq!(problem(&|s| s.amqps = address()), Some("amqps"));
    assert_eq!(problem(&|s| s.https = address()), Some("https"));
    assert_eq!(
        problem(&|s| s.tls_client_required = true),
        Some("tls-client-required")
    );
    assert_eq!(
        problem(&|s| s.tls_client_ca = Some("x".into())),
        Some("tls-client-ca")
    );
    let beside = Settings {
        amqp: vec!["127.0.0.1:1".parse().unwrap(), "[::1]:2".parse().unwrap()],
        tls_certificate: Some("x".into()),
        tls_key: Some("y".into()),
        ..Settings::default()
    };
    let beside: Vec<_> = beside
        .amqps_addresses()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(beside, ["127.0.0.1:5671", "[::1]:5671"]);
}

/// Over TLS a session's cookie is sent over TLS only, and by its prefix nobody else can set it.
#[tokio::test(flavor = "multi_thread")]
async fn the_cookie_of_a_page_is_secure_over_tls() {
    let authority = Authority::new();
    let settings = Settings {
        https: vec!["127.0.0.1:0".parse().unwrap()],
        ..authority.settings()
    };
    let broker = start(settings).await;
    let address = broker.https_addresses()[0];
    let ask = async |request: String| {
        let tcp = TcpStream::connect(address).await.unwrap();
        let connector = authority.connector(None, BOTH);
        let mut stream = connector.connect(server_name(), tcp).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let read = stream.read_to_end(&mut answer);
        tokio::time::timeout(ANSWER_MAX, read).await.unwrap().ok();
        String::from_utf8(answer).unwrap()
    };
    let head = format!("host: localhost:{}\r\nconnection: close", address.port());
    let form = "user=guest&password=guest";
    let kind = "content-type: application/x-www-form-urlencoded";
    let length = form.len();
    let answer = ask(format!(
        "POST /ui/session HTTP/1.1\r\n{head}\r\n{kind}\r\ncontent-length: {length}\r\n\r\n{form}"
    ))
    .await;
    assert!(answer.starts_with("HTTP/1.1 303"), "{answer}");
    let fields = answer.lines().filter_map(|line| line.split_once(": "));
    let mut cookies = fields.filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie"));
    let (_, cookie) = cookies.next().unwrap();
    assert!(cookie.starts_with("__Host-coroner-"), "{cookie}");
    for part in ["; Secure", "; Path=/;", "; HttpOnly", "; SameSite=Strict"] {
        assert!(cookie.contains(part), "{part}: {cookie}");
    }
    assert!(!cookie.contains("Domain"), "{cookie}");
    let (pair, _) = cookie.split_once(';').unwrap();
    let page = ask(format!(
        "GET /ui/ HTTP/1.1\r\n{head}\r\ncookie: {pair}\r\n\r\n"
    ))
    .await;
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
    assert!(page.contains("strict-transport-security: "), "{page}");
    broker.stop().await;
}
