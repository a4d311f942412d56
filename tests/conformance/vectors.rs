//! Every scenario of `interop/vectors` and `interop/vectors-more`, in shards that run side by side.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::support::{RunningBroker, repository, run_to_end};

/// Scenarios mostly wait (for expiry, for silence), so shards cost little; each has a virtual
/// host of its own because all scenarios use the same short names.
const SHARDS: usize = 12;

/// The same for scenarios that look at times: a busy machine is late, and a message expires before it
/// was to be taken.
const TIMED_SHARDS: usize = 6;

/// What names a time in a scenario.
const TIMES: [&str; 6] = [
    "x-message-ttl",
    "message-ttl",
    "x-expires",
    "expires",
    "ttl",
    "absolute-expiry-time",
];

/// A shard has about 20 scenarios of one to ten seconds each.
const SHARD_MAX: Duration = Duration::from_mins(20);

#[test]
fn every_vector_agrees_or_differs_as_listed() {
    let (files, expectations) = (scenario_files(), our_expectations());
    judge(&files, &expectations, &["--in-memory"], Topology::Amqp);
}

/// One in eight; `-- --ignored` runs the test of all.
#[test]
fn a_sample_of_the_vectors_agrees_with_its_topology_declared_over_http() {
    let files: Vec<PathBuf> = scenario_files().into_iter().step_by(8).collect();
    let expectations = our_expectations();
    judge(&files, &expectations, &["--in-memory"], Topology::Http);
}

#[test]
#[ignore = "every vector once more: cargo test --test conformance -- --ignored"]
fn every_vector_agrees_with_its_topology_declared_over_http() {
    let (files, expectations) = (scenario_files(), our_expectations());
    judge(&files, &expectations, &["--in-memory"], Topology::Http);
}

#[test]
fn every_vector_agrees_on_a_durable_broker_too() {
    let data = Path::new(env!("CARGO_TARGET_TMPDIR")).join("vectors-data");
    fs::remove_dir_all(&data).ok();
    let data = data.display().to_string();
    // Small checkpoints, so that there are some.
    let store = ["--data", &data, "--checkpoint-after", "100KiB"];
    let (files, expectations) = (scenario_files(), our_expectations());
    judge(&files, &expectations, &store, Topology::Amqp);
}

#[test]
#[ignore = "every vector once more: cargo test --test conformance -- --ignored"]
fn every_vector_agrees_with_all_messages_on_disk() {
    let data = Path::new(env!("CARGO_TARGET_TMPDIR")).join("vectors-paged");
    fs::remove_dir_all(&data).ok();
    let data = data.display().to_string();
    let (files, expectations) = (scenario_files(), our_expectations());
    // One byte: nothing fits.
    let durable = ["--data", &data, "--memory-budget", "1"];
    judge(&files, &expectations, &durable, Topology::Amqp);
    let spilled = ["--in-memory", "--memory-budget", "1"];
    judge(&files, &expectations, &spilled, Topology::Amqp);
}

/// Which scenarios qualify, and where the broker is killed, is said in `interop/restarted`.
#[test]
fn every_durable_vector_agrees_with_kills_between_publish_and_capture() {
    let mut program = Command::new("python3");
    program
        .arg(repository("interop/restarted"))
        .args(["--broker", env!("CARGO_BIN_EXE_coroner"), "--ours"])
        .arg(our_expectations())
        .args(scenario_files());
    let report = report(&mut program);
    let failures: Vec<&str> = report.lines().filter(|line| is_failure(line)).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    let passed = report.lines().filter(|line| is_pass(line)).count();
    assert!(passed > 0, "no scenario ran:\n{report}");
    // How many ran, and by which rule others did not.
    tell(&summary(&report));
}

#[test]
fn every_further_scenario_agrees_or_differs_as_listed() {
    let folder = repository("interop/vectors-more");
    let mut files = json_files(&folder);
    files.retain(|file| !file.ends_with("ours.json"));
    let expectations = Path::new(env!("CARGO_TARGET_TMPDIR")).join("more-expectations");
    let mut program = Command::new("python3");
    program
        .arg(folder.join("expectations.py"))
        .arg(&expectations);
    let output = run_to_end(&mut program, SHARD_MAX);
    assert!(output.status.success(), "{output:?}");
    judge(&files, &expectations, &["--in-memory"], Topology::Amqp);
}

/// How queues, exchanges and bindings are declared; policies always over HTTP.
#[derive(Clone, Copy)]
enum Topology {
    Amqp,
    Http,
}

/// Of all tests one at a time runs scenarios that look at times, and one at a time the others, which mostly
/// wait: so they share the machine without making one another late.
static TIMED_RUN: Mutex<()> = Mutex::new(());
static OTHERS_RUN: Mutex<()> = Mutex::new(());

/// Runs the scenarios against a broker of their own; panics with those that failed.
fn judge(files: &[PathBuf], expectations: &Path, store: &[&str], topology: Topology) {
    let names: Vec<String> = (0..SHARDS).map(|shard| format!("oracle-{shard}")).collect();
    let vhosts = names.iter().flat_map(|name| ["--vhost", name.as_str()]);
    let arguments: Vec<&str> = store.iter().copied().chain(vhosts).collect();
    let mut broker = RunningBroker::start(&arguments);

    let (timed, others): (Vec<&PathBuf>, _) = files.iter().partition(|file| looks_at_times(file));
    let start = |vhost: &str| runner(&broker, vhost, expectations, topology);
    let alone = OTHERS_RUN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut reports = side_by_side(&others, &names, start);
    drop(alone);
    let alone = TIMED_RUN.lock().unwrap_or_else(PoisonError::into_inner);
    reports.extend(in_time(&timed, &names[..TIMED_SHARDS], start));
    drop(alone);

    assert!(broker.is_alive(), "the broker died during the scenarios");
    let passed = reports
        .iter()
        .flat_map(|report| report.lines())
        .filter(|line| is_pass(line));
    let passed = passed.count();
    let failures: Vec<&str> = reports
        .iter()
        .flat_map(|report| report.lines())
        .filter(|line| is_failure(line))
        .collect();
    assert!(
        failures.is_empty(),
        "{passed} scenarios passed; these did not:\n{}",
        failures.join("\n")
    );
    assert!(passed > 0, "no scenario ran:\n{}", reports.join("\n"));
}

fn looks_at_times(file: &Path) -> bool {
    let text = fs::read_to_string(file).expect("a scenario can be read");
    let document: Value = serde_json::from_str(&text).expect("a scenario is JSON");
    let scenario = document["scenario"].to_string();
    let mut times = TIMES.iter().map(|name| format!("\"{name}\""));
    times.any(|name| scenario.contains(&name))
}

/// Runs scenarios that look at times, and those that did not agree, or were not reached, once more, one after
/// another; their reports.
fn in_time(files: &[&PathBuf], vhosts: &[String], start: impl Fn(&str) -> Command) -> Vec<String> {
    let reports = side_by_side(files, vhosts, &start);
    let lines = || reports.iter().flat_map(|report| report.lines());
    let agreed: Vec<&str> = lines().filter_map(agreed_scenario).collect();
    let mut late = files.to_vec();
    late.retain(|file| !agreed.contains(&&*scenario_name(file)));
    if late.is_empty() {
        return reports;
    }
    let names: Vec<String> = late.iter().map(|file| scenario_name(file)).collect();
    tell(&format!(
        "once more, one after another: {}\n",
        names.join(", ")
    ));
    let agreed = lines().filter(|line| agreed_scenario(line).is_some());
    let agreed = agreed.flat_map(|line| [line, "\n"]).collect();
    let mut again = side_by_side(&late, &vhosts[..1], start);
    again.push(agreed);
    again
}

fn scenario_name(file: &Path) -> String {
    let text = fs::read_to_string(file).expect("a scenario can be read");
    let document: Value = serde_json::from_str(&text).expect("a scenario is JSON");
    let name = document["scenario"]["name"].as_str();
    name.expect("a scenario has a name").to_owned()
}

/// The scenario that this line of a report says agrees, or is not for us.
fn agreed_scenario(line: &str) -> Option<&str> {
    let named = line
        .strip_prefix("PASS  ")
        .or_else(|| line.strip_prefix("SKIP  "))?;
    named.split(' ').next()
}

/// Runs scenarios in as many shards as there are virtual hosts; their reports.
fn side_by_side(
    files: &[&PathBuf],
    vhosts: &[String],
    start: impl Fn(&str) -> Command,
) -> Vec<String> {
    thread::scope(|scope| {
        let shards = vhosts.iter().zip(0..files.len());
        let running: Vec<_> = shards
            .map(|(vhost, shard)| {
                let mut command = start(vhost);
                command.args(files.iter().skip(shard).step_by(vhosts.len()));
                scope.spawn(move || report(&mut command))
            })
            .collect();
        let ended = running.into_iter().map(thread::ScopedJoinHandle::join);
        ended.map(|ended| ended.expect("a shard reports")).collect()
    })
}

/// What a shard printed; a shard that ended badly without naming a scenario is a failure too.
fn report(command: &mut Command) -> String {
    let output = run_to_end(command, SHARD_MAX);
    let mut report = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() && !report.lines().any(is_failure) {
        report.push_str("ERROR the runner itself: ");
        report.push_str(&String::from_utf8_lossy(&output.stderr).replace('\n', " | "));
        report.push('\n');
    }
    report
}

#[allow(clippy::print_stdout, reason = "cargo shows it with `--nocapture`")]
fn tell(text: &str) {
    print!("{text}");
}

/// The lines of a report that name no single scenario.
fn summary(report: &str) -> String {
    let lines = report.lines().filter(|line| !is_pass(line));
    lines.flat_map(|line| [line, "\n"]).collect()
}

fn is_pass(line: &str) -> bool {
    line.starts_with("PASS")
}

/// A failed scenario, or one of the indented lines that say what differed.
fn is_failure(line: &str) -> bool {
    line.starts_with("FAIL") || line.starts_with("ERROR") || line.starts_with("        ")
}

fn runner(broker: &RunningBroker, vhost: &str, expectations: &Path, topology: Topology) -> Command {
    let topology = match topology {
        Topology::Amqp => "amqp",
        Topology::Http => "http",
    };
    let mut command = Command::new("python3");
    command
        .arg(vectors().join("runner/runner.py"))
        .args([
            "run",
            "--compare",
            "semantic",
            "--slow",
            "--skip",
            "amqp091",
            "--topology",
            topology,
        ])
        .args(["--http", &format!("http://127.0.0.1:{}", broker.http_port)])
        .args([
            "--port",
            &broker.port.to_string(),
            "--vhost",
            vhost,
            "--ours",
        ])
        .arg(expectations);
    command
}

/// The folder of vectors to judge with.
pub fn vectors() -> PathBuf {
    std::env::var_os("CORONER_VECTORS").map_or_else(|| repository("interop/vectors"), PathBuf::from)
}

pub fn scenario_files() -> Vec<PathBuf> {
    json_files(&vectors())
}

/// The JSON files of a folder, sorted by name.
pub fn json_files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("a folder can be listed").path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "json")
        })
        .collect();
    files.sort();
    files
}

/// What Coroner does instead where it differs on purpose.
fn our_expectations() -> PathBuf {
    vectors().join("ours")
}
