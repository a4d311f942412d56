//! The process and the embedded broker, from outside.
#![allow(
    clippy::disallowed_methods,
    reason = "tests start processes and read clocks"
)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use crate::support::RunningBroker;
use coroner::{Broker, Settings};
use fe2o3_amqp::connection::ConnectionHandle;
use fe2o3_amqp::sasl_profile::SaslProfile;
use fe2o3_amqp::types::messaging::Message;
use fe2o3_amqp::{Connection, Receiver, Sender, Session};

fn coroner(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_coroner"))
        .args(arguments)
        .output()
        .unwrap()
}

fn settings() -> Settings {
    let auto_create = vec!["#".to_owned()];
    let amqp = vec!["127.0.0.1:0".parse().unwrap()];
    Settings {
        amqp,
        auto_create,
        in_memory: true,
        ..Settings::default()
    }
}

async fn connect(broker: &Broker) -> ConnectionHandle<()> {
    Connection::builder()
        .container_id("test")
        .sasl_profile(SaslProfile::Plain {
            username: "guest".into(),
            password: "guest".into(),
        })
        .open_with_stream(broker.connect())
        .await
        .unwrap()
}

#[test]
fn bad_setting_is_refused_with_name_value_and_what_is_right() {
    let output = coroner(&["serve", "--max-frame-size", "300"]);
    assert_eq!(output.status.code(), Some(64));
    let text = String::from_utf8_lossy(&output.stderr);
    for part in [
        "max-frame-size",
        "\"300\"",
        "--max-frame-size",
        "512 to 4294967295",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn address_in_use_is_named() {
    let broker = RunningBroker::start(&[]);
    let address = format!("127.0.0.1:{}", broker.port);
    let output = coroner(&["serve", "--amqp", &address]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains(&address), "{text}");
}

/// `coroner serve | true` and `coroner store check DIR | true` panicked: nobody reads what they print.
#[test]
fn output_that_nobody_reads_ends_neither_a_broker_nor_a_check_in_a_panic() {
    let unread = || {
        let (_, writer) = std::io::pipe().unwrap();
        writer
    };
    let data = std::env::temp_dir().join(format!("coroner-unread-{}", std::process::id()));
    let data = data.display().to_string();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    let mut broker = Command::new(env!("CARGO_BIN_EXE_coroner"))
        .args([
            "serve", "--http", "off", "--amqp", &address, "--data", &data,
        ])
        .stdout(unread())
        .stderr(unread())
        .spawn()
        .unwrap();
    let end = Instant::now() + Duration::from_mins(1);
    // The addresses are printed after the sockets are bound: bytes come back only once it serves.
    let hello = loop {
        assert_eq!(broker.try_wait().unwrap(), None, "it ended");
        assert!(Instant::now() < end, "it does not serve");
        if let Ok(mut stream) = std::net::TcpStream::connect(&address) {
            let mut hello = [0; 8];
            stream.write_all(b"AMQP\x03\x01\x00\x00").unwrap();
            stream.read_exact(&mut hello).unwrap();
            break hello;
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    assert_eq!(&hello, b"AMQP\x03\x01\x00\x00");
    assert_eq!(broker.try_wait().unwrap(), None, "it ended");
    broker.kill().unwrap();
    broker.wait().unwrap();
    for command in ["check", "info"] {
        let output = Command::new(env!("CARGO_BIN_EXE_coroner"))
            .args(["store", command, &data])
            .stdout(unread())
            .stderr(std::process::Stdio::piped())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert!(output.stderr.is_empty(), "{output:?}");
    }
    std::fs::remove_dir_all(data).unwrap();
}

/// A misspelled level switched the log off.
#[test]
fn a_misspelled_level_of_the_log_is_refused_with_the_levels() {
    let output = coroner(&[
        "serve",
        "--in-memory",
        "--amqp",
        "127.0.0.1:0",
        "--log",
        "debgu",
    ]);
    assert_eq!(output.status.code(), Some(64));
    let text = String::from_utf8_lossy(&output.stderr);
    for part in [
        "setting 'log'",
        "\"debgu\"",
        "off, error, warn, info, debug, trace",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn help_and_version_go_to_standard_output() {
    for arguments in [&["serve", "--help"][..], &["--version"]] {
        let output = coroner(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert!(
            !output.stdout.is_empty() && output.stderr.is_empty(),
            "{arguments:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_ends_connections_and_then_the_process() {
    let mut broker = RunningBroker::start(&[]);
    let url = format!("amqp://guest:guest@127.0.0.1:{}", broker.port);
    let mut connection = Connection::open("test", url.as_str()).await.unwrap();
    let pid = broker.process_id().to_string();
    assert!(
        Command::new("kill")
            .args(["-TERM", &pid])
            .status()
            .unwrap()
            .success()
    );
    assert!(connection.on_close().await.is_err(), "closed by the broker");
    let end = Instant::now() + Duration::from_mins(1);
    while broker.is_alive() {
        assert!(Instant::now() < end, "it does not end");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn embedded_broker_serves_streams_and_sockets_from_one_core() {
    let broker = Broker::builder()
        .settings(settings())
        .start()
        .await
        .unwrap();
    let mut inside = connect(&broker).await;
    let mut session = Session::begin(&mut inside).await.unwrap();
    let mut sender = Sender::attach(&mut session, "s", "q").await.unwrap();
    sender
        .send(Message::from("m".to_owned()))
        .await
        .unwrap()
        .accepted_or("refused")
        .unwrap();

    let url = format!("amqp://guest:guest@{}", broker.addresses()[0]);
    let mut outside = Connection::open("outside", url.as_str()).await.unwrap();
    let mut session = Session::begin(&mut outside).await.unwrap();
    let mut receiver = Receiver::attach(&mut session, "r", "q").await.unwrap();
    let delivery = receiver.recv::<String>().await.unwrap();
    assert_eq!(delivery.body(), "m");
    receiver.accept(&delivery).await.unwrap();
    assert_eq!(broker.stats().connections, 2);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn broker_that_cannot_be_is_refused() {
    let settings = Settings {
        channel_max: 1,
        node_name: String::new(),
        ..settings()
    };
    let error = Broker::builder()
        .settings(settings)
        .start()
        .await
        .unwrap_err();
    assert_eq!(error.to_string(), "setting 'node-name': it is empty");
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_above_the_limit_are_dropped_and_others_stay() {
    let settings = Settings {
        connections_max: 1,
        ..settings()
    };
    let broker = Broker::builder().settings(settings).start().await.unwrap();
    let mut first = connect(&broker).await;
    let second = Connection::builder()
        .container_id("second")
        .open_with_stream(broker.connect());
    assert!(second.await.is_err());
    assert_eq!(broker.stats().connections_refused, 1);
    assert!(Session::begin(&mut first).await.is_ok());
}
