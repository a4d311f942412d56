//! Logins by access tokens, over sockets: mechanisms, rights, the end of a token, and another in its
//! place; where the keys come from.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::certificates::Authority;
use crate::support::RunningBroker;
use crate::support::raw::{
    ANSWER_MAX, ATTACH, CLOSE, Came, DETACH, DISPOSITION, OPEN, Raw, SASL_HEADER, TRANSFER, attach,
    binary, described, frame, map, performative, symbol, text, transfer, ubyte,
};
use crate::support::tokens::{Issuer, JwksFile, claims};

const ALL: &[&str] = &["configure:*/*", "write:*/*", "read:*/*"];

/// A broker that takes tokens of one issuer.
fn broker(issuer: &Issuer, more: &[&str]) -> (RunningBroker, JwksFile) {
    let file = JwksFile::of(issuer);
    let own = file.arguments();
    let mut arguments: Vec<&str> = own.iter().map(String::as_str).collect();
    arguments.extend(more);
    (RunningBroker::start(&arguments), file)
}

fn response(mechanism: &str, token: &str) -> Vec<u8> {
    match mechanism {
        "PLAIN" => format!("\0whoever\0{token}"),
        "OAUTHBEARER" => format!("n,,\u{1}host=localhost\u{1}auth=Bearer {token}\u{1}\u{1}"),
        _ => format!("user=whoever\u{1}auth=Bearer {token}\u{1}\u{1}"),
    }
    .into_bytes()
}

/// A connection with a session, logged in with a token.
fn bearer(port: u16, token: &str) -> Raw {
    let mut raw = Raw::connect(port);
    assert!(raw.log_in_by("XOAUTH2", &response("XOAUTH2", token)));
    raw.open()
}

/// The next close, which must come within the limit.
fn close_within(raw: &mut Raw, limit: Duration) -> Came {
    let begun = Instant::now();
    let close = raw.wait_for(CLOSE);
    assert!(begun.elapsed() < limit, "{:?}", begun.elapsed());
    close
}

/// Sends a request over HTTP with this `authorization`; status and body.
fn http(port: u16, authorization: &str, (method, path): (&str, &str), body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{authorization}\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer)
}

fn by_bearer(token: &str) -> String {
    format!("authorization: Bearer {token}\r\n")
}

// [RFC 4616] [RFC 7628]
#[test]
fn tokens_log_in_by_each_mechanism_that_takes_them() {
    let issuer = Issuer::new("one");
    let (broker, _file) = broker(&issuer, &[]);
    let good = issuer.token("ada", 60.0, ALL);
    // Larger than a frame may be before anything is negotiated where no tokens are taken.
    let mut long = claims("ada", 60.0, ALL);
    long["groups"] = json!(["x".repeat(8_000)]);
    let long = issuer.sign(&long);
    assert!(long.len() > 10_000);
    let stranger = Issuer::new("one").token("ada", 60.0, ALL);
    let late = issuer.token("ada", -1.0, ALL);
    for mechanism in ["PLAIN", "OAUTHBEARER", "XOAUTH2"] {
        for (token, may) in [
            (&good, true),
            (&long, true),
            (&stranger, false),
            (&late, false),
        ] {
            let mut raw = Raw::connect(broker.port);
            let response = response(mechanism, token);
            if mechanism == "OAUTHBEARER" && !may {
                continue; // it is told why first: see below
            }
            assert_eq!(raw.log_in_by(mechanism, &response), may, "{mechanism}");
        }
    }
    let (status, whoami) = http(
        broker.http_port,
        &by_bearer(&issuer.token("ada", 60.0, &["tag:monitoring", "read:*/*"])),
        ("GET", "/api/connections"),
        "",
    );
    assert_eq!(status, 200, "{whoami}");
}

// [RFC 7628 3.2.3]
#[test]
fn a_client_of_oauthbearer_is_told_why_before_the_outcome() {
    let issuer = Issuer::new("one");
    let (broker, _file) = broker(&issuer, &[]);
    let mut raw = Raw::connect(broker.port);
    let late = issuer.token("ada", -1.0, ALL);
    let init = [
        symbol("OAUTHBEARER"),
        binary(&response("OAUTHBEARER", &late)),
    ];
    raw.send(SASL_HEADER);
    let sasl = |code, fields: &[Vec<u8>]| frame(1, 0, &performative(code, fields));
    raw.send(&sasl(0x41, &init));
    let challenge = raw.wait_for(0x42);
    assert!(
        challenge.says(r#""status":"invalid_token""#),
        "{challenge:?}"
    );
    raw.send(&sasl(0x43, &[binary(b"\x01")]));
    let outcome = raw.wait_for(0x44);
    let code = ubyte(1);
    assert!(
        outcome.body.windows(2).any(|part| part == code),
        "{outcome:x?}"
    );
}

// [AMQP 5.3.3.1]
#[test]
fn mechanisms_for_tokens_are_offered_where_tokens_are_taken() {
    let issuer = Issuer::new("one");
    let (taking, _file) = broker(&issuer, &[]);
    let other = RunningBroker::start(&[]);
    for (port, offered) in [(taking.port, true), (other.port, false)] {
        let mut raw = Raw::connect(port);
        raw.send(SASL_HEADER);
        let mechanisms = raw.wait_for(0x40);
        for name in ["OAUTHBEARER", "XOAUTH2"] {
            assert_eq!(mechanisms.says(name), offered, "{name}");
        }
    }
    // There a token is a password like any other, and a wrong one.
    let mut raw = Raw::connect(other.port);
    let token = issuer.token("guest", 60.0, ALL);
    assert!(!raw.log_in_by("PLAIN", &format!("\0guest\0{token}").into_bytes()));
    let request = ("GET", "/api/whoami");
    assert_eq!(
        http(other.http_port, &by_bearer(&token), request, "").0,
        401
    );
    // And a password is a password where tokens are taken.
    let mut raw = Raw::connect(taking.port);
    assert!(raw.log_in_by("PLAIN", b"\0guest\0guest"));
}

// [AMQP 2.7.9]
#[test]
fn rights_end_with_the_token_and_the_connection_is_closed() {
    let issuer = Issuer::new("one");
    let (broker, _file) = broker(&issuer, &[]);
    Raw::declare(broker.port, "q");
    let mut raw = bearer(broker.port, &issuer.token("ada", 2.5, ALL));
    raw.attach_sender(0, "q");
    raw.attach_receiver(1, "q");
    raw.credit(1, 0xffff_fffb, 10);
    raw.publish(0, 0, false, b"in time");
    raw.wait_for(DISPOSITION);
    let close = close_within(&mut raw, Duration::from_secs(10));
    assert!(close.says("amqp:unauthorized-access"), "{close:?}");
    assert!(close.says("the token has expired"), "{close:?}");
    // What comes later is not published, and what was delivered is there for others.
    raw.publish(0, 1, false, b"too late");
    let mut other = Raw::begun(broker.port);
    other.attach_receiver(0, "q");
    other.credit(0, 0xffff_fffb, 10);
    let came = other.wait_for(TRANSFER);
    assert!(came.says("in time"), "{came:?}");
    let more = other.next(Duration::from_millis(300));
    assert!(more.is_none_or(|more| more.code != TRANSFER));
    // The same token does not log in again.
    let request = ("GET", "/api/whoami");
    let late = issuer.token("ada", 0.0, &["tag:management"]);
    assert_eq!(
        http(broker.http_port, &by_bearer(&late), request, "").0,
        401
    );
}

// RabbitMQ 4.1's PUT /auth/tokens.
#[test]
fn a_token_that_is_renewed_in_time_keeps_the_connection() {
    let issuer = Issuer::new("one");
    let (broker, _file) = broker(&issuer, &[]);
    let first = issuer.token("ada", 3.0, ALL);
    let mut raw = bearer(broker.port, &first).manages();
    let renew = |raw: &mut Raw, id, token: &str| {
        raw.manage(id, ("PUT", "/auth/tokens"), &binary(token.as_bytes()))
    };
    let of_bob = renew(&mut raw, 0, &issuer.token("bob", 60.0, ALL));
    assert!(
        of_bob.says("400") && of_bob.says("not of the user"),
        "{of_bob:?}"
    );
    let forged = renew(&mut raw, 1, &Issuer::new("one").token("ada", 60.0, ALL));
    assert!(forged.says("400") && forged.says("signature"), "{forged:?}");
    let renewed = renew(&mut raw, 2, &issuer.token("ada", 60.0, ALL));
    assert!(renewed.says("204"), "{renewed:?}");
    thread::sleep(Duration::from_secs(3));
    let declared = raw.manage(3, ("PUT", "/queues/still-there"), &map(&[]));
    assert!(declared.says("201"), "{declared:?}");
}

// Azure's put-token.
#[test]
fn a_token_that_is_put_to_cbs_in_time_keeps_the_connection() {
    let issuer = Issuer::new("one");
    let (broker, _file) = broker(&issuer, &[]);
    let mut raw = bearer(broker.port, &issuer.token("ada", 3.0, ALL));
    for (handle, receiver) in [(0, false), (1, true)] {
        raw.perform(ATTACH, &attach(handle, receiver, "$cbs"));
        raw.wait_for(ATTACH);
    }
    raw.credit(1, 0xffff_fffb, 10);
    let mut put = |id: u32, token: &str| {
        let pairs = ["operation", "put-token", "type", "jwt"].map(text);
        let request = [
            transfer(0, id, false, false),
            performative(0x73, &[text("id")]),
            described(0x74, &map(&pairs)),
            described(0x77, &text(token)),
        ];
        raw.send(&frame(0, 0, &request.concat()));
        raw.wait_for(TRANSFER)
    };
    let forged = put(0, &Issuer::new("one").token("ada", 60.0, ALL));
    assert!(forged.says("signature is wrong"), "{forged:?}");
    let renewed = put(1, &issuer.token("ada", 60.0, ALL));
    assert!(renewed.says("Accepted"), "{renewed:?}");
    thread::sleep(Duration::from_secs(3));
    let again = put(2, &issuer.token("ada", 60.0, ALL));
    assert!(again.says("Accepted"), "{again:?}");
}

#[test]
fn scopes_decide_what_management_links_and_http_may_do() {
    let issuer = Issuer::new("one");
    let (broker, _file) = broker(&issuer, &[]);
    Raw::declare(broker.port, "orders.eu");
    Raw::declare(broker.port, "bills");
    let scopes = [
        "configure:%2F/orders*",
        "write:%2F/amq.default",
        "read:%2F/orders*",
    ];
    let mut raw = bearer(broker.port, &issuer.token("ada", 60.0, &scopes)).manages();
    let mine = raw.manage(0, ("PUT", "/queues/orders.us"), &map(&[]));
    assert!(mine.says("201"), "{mine:?}");
    let other = raw.manage(1, ("PUT", "/queues/invoices"), &map(&[]));
    assert!(other.says("403"), "{other:?}");
    raw.attach_receiver(5, "bills");
    let refused = raw.wait_for(DETACH);
    assert!(refused.says("amqp:unauthorized-access"), "{refused:?}");
    // Without a scope that names it, a vhost stays closed. [AMQP 2.7.1]
    let mut stranger = Raw::connect(broker.port);
    let token = issuer.token("ada", 60.0, &["read:other/*", "tag:administrator"]);
    assert!(stranger.log_in_by("XOAUTH2", &response("XOAUTH2", &token)));
    stranger.perform(OPEN, &[text("raw")]);
    let close = stranger.wait_for(CLOSE);
    assert!(close.says("may not enter vhost '/'"), "{close:?}");

    let limited =
        by_bearer(&issuer.token("ada", 60.0, &[&scopes[..], &["tag:management"]].concat()));
    let ask =
        |who: &str, method: &str, path: &str| http(broker.http_port, who, (method, path), "{}");
    assert_eq!(ask(&limited, "PUT", "/api/queues/%2F/orders.asia").0, 201);
    assert_eq!(ask(&limited, "PUT", "/api/queues/%2F/invoices").0, 401);
    assert_eq!(ask(&limited, "GET", "/api/users").0, 401);
    let none = by_bearer(&issuer.token("ada", 60.0, &scopes));
    assert_eq!(ask(&none, "GET", "/api/queues").0, 401);
    let administrator = by_bearer(&issuer.token("root", 60.0, &["tag:administrator"]));
    let (status, users) = ask(&administrator, "GET", "/api/users");
    assert!(status == 200 && !users.contains("\"root\""), "{users}");
    let (status, refused) = ask(&administrator, "PUT", "/api/redrives/%2F/r1");
    assert!(
        status == 401 && refused.contains("password"),
        "{status} {refused}"
    );
}

/// The name in a token is its issuer's: it was taken for that of the broker's user.
#[test]
fn a_token_with_the_name_of_a_user_steers_no_redrive_of_that_user() {
    let issuer = Issuer::new("one");
    let (broker, _file) = broker(&issuer, &[]);
    Raw::declare(broker.port, "dead");
    let ask = |who: &str, method: &str, path: &str, body: &str| {
        http(broker.http_port, who, (method, path), body)
    };
    let guest = format!(
        "authorization: Basic {}\r\n",
        STANDARD.encode("guest:guest")
    );
    let put = ask(&guest, "PUT", "/api/redrives/%2F/r1", r#"{"queue":"dead"}"#);
    assert_eq!(put.0, 201, "{}", put.1);
    let scopes = [ALL, &["tag:management"]].concat();
    let namesake = by_bearer(&issuer.token("guest", 60.0, &scopes));
    for (method, path) in [
        ("GET", "/api/redrives/%2F/r1"),
        ("POST", "/api/redrives/%2F/r1/cancel"),
        ("DELETE", "/api/redrives/%2F/r1"),
    ] {
        let (status, answer) = ask(&namesake, method, path, "{}");
        let expected = if method == "GET" { 200 } else { 401 };
        assert_eq!(status, expected, "{method} {path}: {answer}");
    }
}

/// Whoever had an issuer sign the name of a user saw that user's connections, and closed them.
#[test]
fn a_token_and_a_user_of_one_name_neither_see_nor_close_what_is_of_the_other() {
    let issuer = Issuer::new("one");
    let (broker, _file) = broker(&issuer, &[]);
    let ask = |who: &str, method: &str, path: &str, body: &str| {
        http(broker.http_port, who, (method, path), body)
    };
    let basic = |login: &str| format!("authorization: Basic {}\r\n", STANDARD.encode(login));
    let root = basic("guest:guest");
    let made = r#"{"password":"ada","tags":"management"}"#;
    let all = r#"{"configure":".*","write":".*","read":".*"}"#;
    assert_eq!(ask(&root, "PUT", "/api/users/ada", made).0, 201);
    assert_eq!(ask(&root, "PUT", "/api/permissions/%2F/ada", all).0, 201);
    for queue in ["of-user", "of-token"] {
        Raw::declare(broker.port, queue);
    }
    let token = issuer.token("ada", 60.0, &[ALL, &["tag:management"]].concat());
    let mut mine = Raw::connect(broker.port);
    assert!(mine.log_in_by("PLAIN", b"\0ada\0ada"));
    let mut mine = mine.open();
    mine.attach_receiver(0, "of-user");
    let mut its = bearer(broker.port, &token);
    its.attach_receiver(0, "of-token");
    let listed = |who: &str, path: &str| -> Vec<serde_json::Value> {
        let (status, answer) = ask(who, "GET", path, "");
        assert_eq!(status, 200, "{answer}");
        let body = answer.split_once("\r\n\r\n").unwrap().1;
        serde_json::from_str(body).unwrap()
    };
    let name = |connection: &serde_json::Value| connection["name"].as_str().unwrap().to_owned();
    let user = basic("ada:ada");
    let namesake = by_bearer(&token);
    let mut names = Vec::new();
    for (who, queue) in [(&user, "of-user"), (&namesake, "of-token")] {
        let consumers = listed(who, "/api/consumers");
        assert_eq!(consumers.len(), 1, "{queue}: {consumers:?}");
        assert_eq!(consumers[0]["queue"]["name"], queue);
        let connections = listed(who, "/api/connections");
        assert_eq!(connections.len(), 1, "{queue}: {connections:?}");
        names.push(
            name(&connections[0])
                .replace(' ', "%20")
                .replace('>', "%3E"),
        );
    }
    assert_ne!(names[0], names[1]);
    assert_eq!(listed(&root, "/api/consumers").len(), 2);
    for (who, other) in [(&user, &names[1]), (&namesake, &names[0])] {
        for (method, part) in [("GET", ""), ("GET", "/sessions"), ("DELETE", "")] {
            let path = format!("/api/connections/{other}{part}");
            let (status, answer) = ask(who, method, &path, "");
            assert_eq!(status, 401, "{method} {path}: {answer}");
        }
    }
    // Of all with its name a user closes its own.
    let closed = ask(&namesake, "DELETE", "/api/connections/username/ada", "");
    assert_eq!(closed.0, 204, "{}", closed.1);
    its.wait_for(CLOSE);
    let path = format!("/api/connections/{}", names[0]);
    assert_eq!(ask(&user, "GET", &path, "").0, 200);
    assert_eq!(ask(&user, "DELETE", &path, "").0, 204);
    mine.wait_for(CLOSE);
}

#[test]
fn a_token_is_a_password_of_basic_and_logs_in_to_the_page_until_it_ends() {
    let issuer = Issuer::new("one");
    let (broker, _file) = broker(&issuer, &[]);
    let token = issuer.token("ada", 2.5, &["tag:management", "read:*/*"]);
    let basic = STANDARD.encode(format!("whoever:{token}"));
    let basic = format!("authorization: Basic {basic}\r\n");
    let (status, whoami) = http(broker.http_port, &basic, ("GET", "/api/whoami"), "");
    assert_eq!(status, 200);
    assert!(
        whoami.contains("\"ada\"") && whoami.contains("management"),
        "{whoami}"
    );
    let login = json!({ "user": "", "password": token }).to_string();
    let session = ("POST", "/ui/session");
    let (status, began) = http(broker.http_port, "", session, &login);
    assert_eq!(status, 200, "{began}");
    let cookie = began
        .lines()
        .find_map(|line| line.strip_prefix("set-cookie: "))
        .and_then(|cookie| cookie.split(';').next())
        .unwrap()
        .to_owned();
    let cookie = format!("cookie: {cookie}\r\n");
    let shown = ("GET", "/ui/session");
    let (status, shown_body) = http(broker.http_port, &cookie, shown, "");
    assert!(
        status == 200 && shown_body.contains("\"ada\""),
        "{shown_body}"
    );
    thread::sleep(Duration::from_secs(3));
    assert_eq!(http(broker.http_port, &cookie, shown, "").0, 401);
    assert_eq!(
        http(broker.http_port, &basic, ("GET", "/api/whoami"), "").0,
        401
    );
}

/// Guesses with tokens are held back as those with passwords are.
#[test]
fn failed_logins_with_tokens_are_limited() {
    let issuer = Issuer::new("one");
    let (broker, _file) = broker(&issuer, &[]);
    let forged = by_bearer(&Issuer::new("one").token("ada", 60.0, &["tag:management"]));
    let port = broker.http_port;
    let guesses: Vec<_> = (0..15)
        .map(|_| {
            let forged = forged.clone();
            thread::spawn(move || http(port, &forged, ("GET", "/api/whoami"), "").0)
        })
        .collect();
    for guess in guesses {
        assert_eq!(guess.join().unwrap(), 401);
    }
    // Even the right one has to wait now.
    let good = by_bearer(&issuer.token("ada", 60.0, &["tag:management"]));
    assert_eq!(http(port, &good, ("GET", "/api/whoami"), "").0, 401);
    let other = by_bearer(&issuer.token("bob", 60.0, &["tag:management"]));
    assert_eq!(http(port, &other, ("GET", "/api/whoami"), "").0, 200);
}

#[test]
fn keys_in_a_file_are_read_again_for_a_token_with_an_unknown_one_and_at_a_sighup() {
    let (one, two, three) = (Issuer::new("one"), Issuer::new("two"), Issuer::new("three"));
    let (broker, file) = broker(&one, &[]);
    let may = |issuer: &Issuer| {
        let token = by_bearer(&issuer.token("ada", 60.0, &["tag:management"]));
        http(broker.http_port, &token, ("GET", "/api/whoami"), "").0 == 200
    };
    assert!(may(&one) && !may(&two));
    // That was the one look for an unknown key in half a minute.
    file.write(&two.jwks());
    assert!(!may(&two));
    let hangup = |process: u32| {
        let mut kill = Command::new("kill");
        let status = kill.args(["-HUP", &process.to_string()]).status();
        assert!(status.unwrap().success());
    };
    hangup(broker.process_id());
    let deadline = Instant::now() + ANSWER_MAX;
    while !may(&two) {
        assert!(Instant::now() < deadline, "the keys were not loaded");
    }
    assert!(!may(&one), "its key is gone");
    // A file that cannot be used leaves the keys that are in use.
    file.write("{}");
    hangup(broker.process_id());
    thread::sleep(Duration::from_millis(500));
    assert!(may(&two) && !may(&three));
}

/// A server that answers each request with these texts in turn, the last for good; over TLS if it
/// has a certificate.
fn serve(answers: Vec<String>, tls: Option<Arc<ServerConfig>>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        let mut answers = answers.into_iter().peekable();
        let mut last = String::new();
        for stream in listener.incoming() {
            let Ok(stream) = stream else { return };
            last = answers.next().unwrap_or(last);
            let answered = match &tls {
                None => answer(stream, &last),
                Some(config) => {
                    let connection = ServerConnection::new(Arc::clone(config)).unwrap();
                    answer(StreamOwned::new(connection, stream), &last)
                }
            };
            answered.ok(); // the broker may refuse its certificate
        }
    });
    port
}

fn answer(mut stream: impl Read + Write, text: &str) -> std::io::Result<()> {
    let mut request = Vec::new();
    let mut byte = [0];
    while !request.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        request.push(byte[0]);
    }
    write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{text}",
        text.len()
    )?;
    stream.flush()
}

/// Whether a broker with these settings comes to take a token of this issuer.
fn takes(issuer: &Issuer, arguments: &[&str]) -> bool {
    let broker =
        RunningBroker::start(&[arguments, &["--oauth2-resource-server-id=rabbitmq"]].concat());
    let token = by_bearer(&issuer.token("ada", 60.0, &["tag:management"]));
    http(broker.http_port, &token, ("GET", "/api/whoami"), "").0 == 200
}

#[test]
fn keys_are_fetched_from_a_url() {
    let issuer = Issuer::new("one");
    let port = serve(vec![issuer.jwks()], None);
    assert!(takes(
        &issuer,
        &[&format!("--oauth2-jwks=http://127.0.0.1:{port}/jwks")]
    ));
    // The first answer is of no use: the first token has it fetched once more.
    let port = serve(vec!["<html>".to_owned(), issuer.jwks()], None);
    assert!(takes(
        &issuer,
        &[&format!("--oauth2-jwks=http://localhost:{port}/jwks")]
    ));
    let huge = format!("{}{}", issuer.jwks(), " ".repeat(300_000));
    let port = serve(vec![huge], None);
    assert!(!takes(
        &issuer,
        &[&format!("--oauth2-jwks=http://127.0.0.1:{port}/jwks")]
    ));
}

#[test]
fn the_server_of_the_keys_is_verified() {
    let issuer = Issuer::new("one");
    let (authority, stranger) = (Authority::new(), Authority::new());
    let identity = authority.sign("keys", "localhost");
    let provider = tokio_rustls::rustls::crypto::ring::default_provider();
    let builder = ServerConfig::builder_with_provider(Arc::new(provider));
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let chain = vec![CertificateDer::from(identity.certificate.clone())];
    let key = PrivateKeyDer::Pkcs8(identity.key.clone().into());
    let config = builder.with_no_client_auth().with_single_cert(chain, key);
    let port = serve(vec![issuer.jwks()], Some(Arc::new(config.unwrap())));
    let jwks = format!("--oauth2-jwks=https://localhost:{port}/jwks");
    for (trusted, may) in [(&authority, true), (&stranger, false)] {
        let ca = format!("--oauth2-https-ca={}", trusted.file("ca.pem").display());
        assert_eq!(takes(&issuer, &[&jwks, &ca]), may);
    }
    assert!(
        !takes(&issuer, &[&jwks]),
        "the system does not know its authority"
    );
}

#[test]
fn settings_that_take_no_token_are_refused_at_the_start() {
    let issuer = Issuer::new("one");
    let file = JwksFile::of(&issuer);
    let jwks = format!("--oauth2-jwks={}", file.0.display());
    let refused = |arguments: &[&str]| {
        let mut serve = Command::new(env!("CARGO_BIN_EXE_coroner"));
        serve.args([
            "serve",
            "--in-memory",
            "--amqp",
            "127.0.0.1:0",
            "--http",
            "off",
        ]);
        let ended = crate::support::run_to_end(serve.args(arguments), ANSWER_MAX);
        assert_eq!(ended.status.code(), Some(64), "{arguments:?}");
        String::from_utf8_lossy(&ended.stderr).into_owned()
    };
    let id = "--oauth2-resource-server-id=rabbitmq";
    let check = |arguments: &[&str], why: &str| {
        let said = refused(arguments);
        assert!(said.contains(why), "{arguments:?}: {said}");
    };
    check(&[&jwks], "oauth2-resource-server-id");
    check(&[id], "it needs oauth2-jwks");
    check(&["--oauth2-issuer=x"], "it needs oauth2-jwks");
    check(
        &["--oauth2-jwks=http://keys.example/jwks", id],
        "over https",
    );
    check(
        &["--oauth2-jwks=http://127.0.0.1@keys.example/", id],
        "over https",
    );
    check(
        &["--oauth2-jwks=/nowhere/jwks.json", id],
        "/nowhere/jwks.json",
    );
    file.write(r#"{"keys":[]}"#);
    check(&[&jwks, id], "no public key");
}

/// A broker that logs all it can; what it says is kept, in a file that goes with it.
struct Talkative {
    process: Child,
    log: PathBuf,
}

impl Talkative {
    fn start(file: &JwksFile) -> Self {
        let log = file.0.with_extension("log");
        let output = std::fs::File::create(&log).unwrap();
        let process = Command::new(env!("CARGO_BIN_EXE_coroner"))
            .args([
                "serve",
                "--in-memory",
                "--amqp=127.0.0.1:0",
                "--http=127.0.0.1:0",
            ])
            .args(["--log=trace", "--frame-trace", "--event-exchange"])
            .args(file.arguments())
            .stdin(Stdio::null())
            .stdout(output.try_clone().unwrap())
            .stderr(output)
            .spawn()
            .unwrap();
        Self { process, log }
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    fn port(&self, protocol: &str) -> u16 {
        let deadline = Instant::now() + ANSWER_MAX;
        let prefix = format!("listening {protocol} 127.0.0.1:");
        loop {
            let said = self.said();
            let line = said.lines().find_map(|line| line.strip_prefix(&prefix));
            if let Some(port) = line.and_then(|port| port.trim().parse().ok()) {
                return port;
            }
            assert!(Instant::now() < deadline, "{said}");
            thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Talkative {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
        std::fs::remove_file(&self.log).ok();
    }
}

/// What the HTTP API tells to the bearer of a token.
fn answers(port: u16, token: &str) -> String {
    let paths = [
        "/api/whoami",
        "/api/connections",
        "/api/overview",
        "/api/auth/attempts/amqp10",
        "/api/auth/attempts/amqp10/source",
        "/api/definitions",
        "/metrics",
        "/ui/connections",
    ];
    let answer = |path| http(port, &by_bearer(token), ("GET", path), "").1;
    paths.map(answer).concat()
}

#[test]
fn no_token_is_in_logs_and_answers() {
    let issuer = Issuer::new("one");
    let file = JwksFile::of(&issuer);
    let broker = Talkative::start(&file);
    let (amqp, http_port) = (broker.port("amqp"), broker.port("http"));
    let scopes = [ALL, &["tag:administrator"]].concat();
    let good = issuer.token("ada", 60.0, &scopes);
    let other = issuer.token("ada", 70.0, &scopes);
    let bad = [
        Issuer::new("one").token("ada", 60.0, &scopes),
        issuer.token("ada", -1.0, &scopes),
        issuer.token("bob", 60.0, &scopes),
    ];
    for mechanism in ["PLAIN", "XOAUTH2"] {
        Raw::connect(amqp).log_in_by(mechanism, &response(mechanism, &bad[0]));
        Raw::connect(amqp).log_in_by(mechanism, &response(mechanism, &bad[1]));
    }
    let mut raw = bearer(amqp, &good).manages();
    for (id, token) in (0..).zip([&other, &bad[0], &bad[2]]) {
        raw.manage(id, ("PUT", "/auth/tokens"), &binary(token.as_bytes()));
    }
    let mut told = answers(http_port, &good);
    let login = json!({ "user": "", "password": bad[1] }).to_string();
    let (status, answer) = http(http_port, "", ("POST", "/ui/session"), &login);
    assert_eq!(status, 401);
    told += &answer;
    told += &broker.said();
    for logged in ["login refused", "XOAUTH2", "renew token", "\"ada\""] {
        assert!(told.contains(logged), "{logged}: {told}");
    }
    for token in bad.iter().chain([&good, &other]) {
        let (signed, signature) = token.rsplit_once('.').unwrap();
        let (_, claims) = signed.split_once('.').unwrap();
        for part in [signature, claims] {
            let is_told = told.contains(part) || told.contains(&STANDARD.encode(part));
            assert!(!is_told, "a token was told: {told}");
        }
    }
}
