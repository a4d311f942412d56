//! The command line over TLS: the real binary, for `https://` and `amqps://` alike.

use std::process::{Command, Output};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use coroner::{Broker, Settings};
use rcgen::CertificateParams;

use super::certificates::{Authority, pem};
use super::start;

/// A broker with certificates for `localhost`, and files of clients beside them.
struct Bench {
    authority: Authority,
    broker: Broker,
}

impl Bench {
    async fn start(change: impl FnOnce(&Authority, &mut Settings)) -> Self {
        let authority = Authority::new();
        for (name, user) in [("ada", "ada"), ("nobody", "nobody")] {
            let identity = authority.sign(user, "client.example");
            let certificate = pem("CERTIFICATE", &identity.certificate);
            authority.write(&format!("{name}.pem"), &certificate);
            authority.write(&format!("{name}.key"), &pem("PRIVATE KEY", &identity.key));
        }
        let local = "127.0.0.1:0".parse().unwrap();
        let mut settings = Settings {
            https: vec![local],
            http: "127.0.0.1:0".parse().unwrap(),
            ..authority.settings()
        };
        change(&authority, &mut settings);
        Self {
            broker: start(settings).await,
            authority,
        }
    }

    /// The ports of HTTPS, AMQPS, and HTTP and AMQP without TLS.
    fn ports(&self) -> [u16; 4] {
        [
            self.broker.https_addresses()[0].port(),
            self.broker.amqps_addresses()[0].port(),
            self.broker.http_address().unwrap().port(),
            self.broker.addresses()[0].port(),
        ]
    }

    /// Runs `coroner`; words that end with `.pem` or `.key` are files of the authority.
    async fn run(&self, line: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_coroner"));
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("CORONER") {
                command.env_remove(name);
            }
        }
        command.env("HOME", "/nonexistent");
        for word in line.split_whitespace() {
            if matches!(word.rsplit_once('.'), Some((_, "pem" | "key"))) {
                command.arg(self.authority.file(word));
            } else {
                command.arg(word);
            }
        }
        let ended = tokio::task::spawn_blocking(move || command.output());
        ended.await.unwrap().unwrap()
    }

    async fn check(&self, line: &str, code: i32, said: &str) {
        let output = self.run(line).await;
        let (out, err) = (&output.stdout, &output.stderr);
        let text = format!(
            "{}{}",
            String::from_utf8_lossy(out),
            String::from_utf8_lossy(err)
        );
        assert_eq!(output.status.code(), Some(code), "{line}: {text}");
        assert!(text.contains(said), "{line}: {text}");
    }
}

const CA: &str = "--tls-ca-cert-file ca.pem";
const ADA: &str = "--tls-cert-file ada.pem --tls-key-file ada.key";
const NOBODY: &str = "--tls-cert-file nobody.pem --tls-key-file nobody.key";

#[tokio::test(flavor = "multi_thread")]
async fn commands_trust_a_broker_for_its_authority_and_its_name() {
    let bench = Bench::start(|_, _| {}).await;
    let [https, amqps, http, amqp] = bench.ports();
    for (command, secure, port, plain) in [
        ("list_vhosts", "https", https, http),
        ("ping", "amqps", amqps, amqp),
    ] {
        let check = async |arguments: &str, code, said: &str| {
            bench
                .check(&format!("{command} {arguments}"), code, said)
                .await;
        };
        let url = format!("--url {secure}://localhost:{port}");
        let by_address = format!("--url {secure}://127.0.0.1:{port}");
        check(&format!("{url} {CA}"), 0, "").await;
        check(&format!("--use-tls -H localhost -P {port} {CA}"), 0, "").await;
        check(&url, 69, "signed by an authority that is not known here").await;
        check(&url, 69, "--tls-ca-cert-file").await;
        check(&format!("{by_address} {CA}"), 69, "not for '127.0.0.1'").await;
        check(&format!("{by_address} --insecure"), 0, "").await;
        check(&format!("{url} --disable-tls-peer-verification"), 0, "").await;
        let silent = format!("--url {secure}://localhost:{plain} {CA}");
        check(&silent, 69, "does not speak TLS").await;
        check(&format!("{url} --tls-ca-cert-file no.pem"), 66, "no.pem").await;
        check(
            &format!("{url} --tls-ca-cert-file ada.key"),
            65,
            "BEGIN CERTIFICATE",
        )
        .await;
        check(
            &format!("{url} {CA} --tls-cert-file ada.pem"),
            64,
            "--tls-key-file",
        )
        .await;
        let unfit = format!("{url} {CA} --tls-cert-file ada.pem --tls-key-file nobody.key");
        check(&unfit, 65, "do not fit").await;
        check(&format!("{url} {CA} -u ada --password wrong"), 77, "'ada'").await;
    }
    bench.broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_out_of_their_time_and_of_authorities_are_named() {
    let dated = |from, until| {
        move |parameters: &mut CertificateParams| {
            parameters.not_before = rcgen::date_time_ymd(from, 1, 1);
            parameters.not_after = rcgen::date_time_ymd(until, 1, 1);
        }
    };
    for (said, from, until) in [("has expired", 2001, 2002), ("not valid yet", 2900, 2901)] {
        let bench = Bench::start(|authority, _| {
            authority.renew_with(dated(from, until));
        })
        .await;
        let [https, amqps, ..] = bench.ports();
        let manage = format!("status --url https://localhost:{https} {CA}");
        bench.check(&manage, 69, said).await;
        let ping = format!("ping --url amqps://localhost:{amqps} {CA}");
        bench.check(&ping, 69, said).await;
        bench.broker.stop().await;
    }
    let bench = Bench::start(|authority, _| authority.renew_by_itself()).await;
    let [_, amqps, ..] = bench.ports();
    let ping = format!("ping --url amqps://localhost:{amqps} --tls-ca-cert-file cert.pem");
    bench.check(&ping, 69, "that of an authority").await;
    bench.broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_that_end_soon_are_told_before() {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let in_ten_days = since + Duration::from_hours(240);
    let ends_soon = |parameters: &mut CertificateParams| {
        parameters.not_after = rcgen::date_time_ymd(1970, 1, 1) + in_ten_days;
    };
    let bench = Bench::start(|authority, _| {
        authority.renew_with(ends_soon);
    })
    .await;
    let [https, amqps, ..] = bench.ports();
    let ask = format!("check_certificate_expiration --url https://localhost:{https} {CA}");
    bench
        .check(
            &format!("{ask} --within 9 --unit days"),
            0,
            "no certificate ends",
        )
        .await;
    bench
        .check(
            &format!("{ask} --within 1 --unit weeks"),
            0,
            "no certificate ends",
        )
        .await;
    for soon in [
        "--within 11 --unit DAYS",
        "--within 2 --unit weeks",
        "--unit months",
        "",
    ] {
        bench
            .check(&format!("{ask} {soon}"), 65, "Certificates expiring")
            .await;
    }
    // Which listeners, which file, when.
    let pem = format!(
        "at port {amqps}: {} ends on 20",
        bench.authority.file("cert.pem").display()
    );
    bench.check(&ask, 65, &pem).await;
    bench
        .check(&format!("{ask} --unit hours"), 65, "Supported units")
        .await;
    let secure = format!("check_protocol_listener --url https://localhost:{https} {CA}");
    bench.check(&format!("{secure} amqps"), 0, "").await;
    bench
        .check(&format!("{secure} amqp091"), 65, "No active listener")
        .await;
    // Once they are replaced, all is well.
    bench.authority.renew();
    bench.broker.reload_tls().unwrap();
    bench.check(&ask, 0, "no certificate ends").await;
    let ping = format!("ping --url amqps://localhost:{amqps} {CA}");
    bench.check(&ping, 0, "").await;
    bench.broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_logs_a_client_in() {
    let bench = Bench::start(|_, _| {}).await;
    let [https, amqps, _, amqp] = bench.ports();
    let url = format!("--url amqps://localhost:{amqps} {CA}");
    bench
        .check(&format!("ping {url} {ADA}"), 0, "answers")
        .await;
    bench
        .check(&format!("publish {url} {ADA} --address q body"), 0, "")
        .await;
    bench
        .check(
            &format!("consume {url} {ADA} --address q --count 1 --wait 60"),
            0,
            "body",
        )
        .await;
    let refused = "does not let in whom the certificate names";
    bench
        .check(&format!("ping {url} {NOBODY}"), 77, refused)
        .await;
    // Who names a user logs in with the password; who asks for a mechanism gets it.
    bench
        .check(
            &format!("ping {url} {NOBODY} -u ada --password lovelace"),
            0,
            "",
        )
        .await;
    let plain = format!("ping {url} {ADA} --sasl-mechanism plain -u ada --password no");
    bench.check(&plain, 77, "'ada'").await;
    let bare = format!("ping --url amqp://127.0.0.1:{amqp} --sasl-mechanism EXTERNAL");
    bench.check(&bare, 77, "does not offer EXTERNAL, but").await;
    let anonymous = format!("ping --url amqp://127.0.0.1:{amqp} --sasl-mechanism anonymous");
    bench.check(&anonymous, 0, "answers").await;
    // HTTP knows passwords only; a certificate is shown all the same.
    let manage = format!("list_vhosts --url https://localhost:{https} {CA} {ADA}");
    bench.check(&manage, 0, "").await;
    bench.broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_wants_a_certificate_is_told_apart_from_one_that_is_away() {
    let bench = Bench::start(|_, settings| settings.tls_client_required = true).await;
    let [https, amqps, ..] = bench.ports();
    for line in [
        format!("list_vhosts --url https://localhost:{https}"),
        format!("ping --url amqps://localhost:{amqps}"),
    ] {
        bench
            .check(&format!("{line} {CA}"), 69, "it may want a certificate")
            .await;
        bench.check(&format!("{line} {CA} {ADA}"), 0, "").await;
    }
    bench.broker.stop().await;
}
