//! fe2o3-amqp (Rust) through the scenarios of `interop/SCENARIOS.md`.
//!
//! `interop SETTING.json [SCENARIO ...]`, called by `interop/matrix`.
#![allow(
    clippy::disallowed_methods,
    clippy::large_futures,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "an example prints, reads files, looks at the clock and runs one future at a time"
)]

#[path = "../common/mod.rs"]
mod common;
mod connections;
mod deaths;
mod evidence;
mod links;
mod messages;
mod scene;

use std::process::ExitCode;
use std::time::Duration;

use common::Result;
use scene::{Scene, Setting, Skipped};

const SCENARIO_MAX: Duration = Duration::from_mins(1);

const SCENARIOS: [&str; 30] = [
    "plain",
    "anonymous",
    "scram",
    "tls",
    "external",
    "no-sasl",
    "vhost",
    "frames",
    "declare",
    "sections",
    "types",
    "bodies",
    "large",
    "outcomes",
    "refusals",
    "credit",
    "drain",
    "presettled",
    "anonymous-terminus",
    "attach-refused",
    "deleted",
    "dynamic",
    "selector",
    "rejected",
    "expired",
    "maxlen",
    "delivery-limit",
    "cycle",
    "evidence",
    "restart",
];

#[tokio::main]
async fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let setting = match arguments.next().map(|path| Setting::read(&path)) {
        Some(Ok(setting)) => setting,
        Some(Err(error)) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
        None => {
            eprintln!("usage: interop SETTING.json [SCENARIO ...]");
            return ExitCode::FAILURE;
        }
    };
    let mut wanted: Vec<String> = arguments.collect();
    if wanted.is_empty() {
        wanted.extend(SCENARIOS.map(str::to_owned));
    }
    let mut status = ExitCode::SUCCESS;
    for name in wanted {
        match run(&setting, &name).await {
            Ok(()) => println!("ok {name}"),
            Err(error) if error.is::<Skipped>() => println!("skip {name} {error}"),
            Err(error) => {
                println!("fail {name} {}", error.to_string().replace('\n', " "));
                status = ExitCode::FAILURE;
            }
        }
    }
    status
}

async fn run(setting: &Setting, name: &str) -> Result<()> {
    let mut scene = Scene::open(setting, name).await?;
    let outcome = tokio::time::timeout(SCENARIO_MAX, scenario(&mut scene, name)).await;
    scene.close().await;
    outcome.map_err(|_| format!("still running after {SCENARIO_MAX:?}"))?
}

async fn scenario(s: &mut Scene, name: &str) -> Result<()> {
    match name {
        "plain" => connections::plain(s).await,
        "anonymous" => connections::anonymous(s).await,
        "scram" => connections::scram(s).await,
        "tls" => connections::tls(s).await,
        "external" => scene::skip(
            "fe2o3-amqp 0.18.4 takes EXTERNAL only over its own TLS, whose feature rustls brings a \
             second crypto provider into every build with it",
        ),
        "no-sasl" => connections::no_sasl(s).await,
        "vhost" => connections::vhost(s).await,
        "frames" => connections::frames(s).await,
        "declare" => connections::declare(s).await,
        "sections" => messages::sections(s).await,
        "types" => messages::types(s).await,
        "bodies" => messages::bodies(s).await,
        "large" => messages::large(s).await,
        "outcomes" => links::outcomes(s).await,
        "refusals" => links::refusals(s).await,
        "credit" => links::credit(s).await,
        "drain" => links::drain(s).await,
        "presettled" => links::presettled(s).await,
        "anonymous-terminus" => links::anonymous_terminus(s).await,
        "attach-refused" => links::attach_refused(s).await,
        "deleted" => links::deleted(s).await,
        "dynamic" => links::dynamic(s).await,
        "selector" => links::selector(s).await,
        "rejected" => deaths::rejected(s).await,
        "expired" => deaths::expired(s).await,
        "maxlen" => deaths::maxlen(s).await,
        "delivery-limit" => deaths::delivery_limit(s).await,
        "cycle" => deaths::cycle(s).await,
        "restart" => deaths::restart(s).await,
        "evidence" => evidence::evidence(s).await,
        _ => Err("no such scenario".into()),
    }
}
