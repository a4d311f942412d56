//! A durable broker that is killed and started again.
#![allow(
    clippy::disallowed_methods,
    reason = "tests start processes and use directories"
)]
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::support::raw::{self, Raw};
use crate::support::{RunningBroker, repository, run_to_end};
use coroner::base::Timestamp;
use coroner::store::{self, Body, FileDisk, Missing, Payload};

/// The short form of `interop/torture`; the long one has 200 kills and more.
const KILLS: &str = "12";
const TORTURE_MAX: Duration = Duration::from_mins(15);
const RESTART_MAX: Duration = Duration::from_mins(10);

/// A data directory of its own for each test, empty at first.
fn directory(name: &str) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::remove_dir_all(&directory).ok();
    directory
}

fn run(script: &str, arguments: &[&str], limit: Duration) {
    let binary = env!("CARGO_BIN_EXE_coroner");
    let mut command = Command::new("python3");
    command.arg(repository("interop").join(script));
    command.args(["--broker", binary]).args(arguments);
    let output = run_to_end(&mut command, limit);
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
}

#[test]
fn what_was_accepted_survives_kills_and_restarts_exactly_once() {
    run("torture", &["--kills", KILLS], TORTURE_MAX);
}

#[test]
fn a_restart_brings_back_what_is_durable_and_nothing_else() {
    run("restart", &[], RESTART_MAX);
}

#[test]
fn what_was_confirmed_holds_when_the_broker_is_killed_in_that_moment() {
    run("killed", &[], RESTART_MAX);
}

#[test]
fn administration_that_a_kill_interrupts_was_done_or_was_not() {
    run("interrupted", &["--trials", "6"], TORTURE_MAX);
}

/// Who died of what, counted, beside the dead letters that there are; `interop/counted` says how.
#[test]
fn each_death_is_counted_once_whatever_moment_a_kill_comes_in() {
    run("counted", &["--kills", "20"], TORTURE_MAX);
}

/// The short form of `interop/redriven`.
#[test]
fn a_redrive_under_kills_brings_each_message_back_once() {
    let short = ["--messages", "3000", "--rate", "1000"];
    run("redriven", &short, TORTURE_MAX);
}

/// A restart leaves on disk what a checkpoint names. Without a budget, which keeps all in memory, nothing was
/// there that reads it back: consumers got none of it, and a look showed none.
#[test]
fn what_a_checkpoint_left_on_disk_is_delivered_without_a_memory_budget_too() {
    const MESSAGES: u32 = 200;
    let data = directory("no-budget").display().to_string();
    let settings = [
        "--data",
        &data,
        "--memory-budget=0",
        "--checkpoint-after=4KiB",
    ];
    let broker = RunningBroker::start(&settings);
    Raw::declare(broker.port, "kept");
    let mut raw = Raw::begun(broker.port);
    raw.attach_sender(0, "kept");
    raw.wait_for(raw::FLOW);
    let header = raw::performative(0x70, &[raw::truth(true)]);
    for id in 0..MESSAGES {
        let body = raw::described(0x75, &raw::binary(&id.to_be_bytes()));
        let message = [raw::transfer(0, id, false, false), header.clone(), body].concat();
        raw.send(&raw::frame(0, 0, &message));
        raw.wait_for(raw::DISPOSITION);
    }
    drop(broker);
    let broker = RunningBroker::start(&settings);
    let mut raw = Raw::begun(broker.port);
    raw.attach_receiver(0, "kept");
    raw.credit(0, 0xffff_fffb, MESSAGES);
    for id in 0..MESSAGES {
        let came = raw.wait_for(raw::TRANSFER);
        assert!(came.body.ends_with(&id.to_be_bytes()), "{id}: {came:x?}");
    }
}

/// Sends a message on handle 0, in as many frames as it takes.
fn send(raw: &mut Raw, id: u32, message: &[u8]) {
    let mut pieces = message.chunks(100_000).peekable();
    while let Some(piece) = pieces.next() {
        let transfer = raw::transfer(0, id, false, pieces.peek().is_some());
        raw.send(&raw::frame(0, 0, &[&transfer, piece].concat()));
    }
}

fn is_accepted(came: &raw::Came) -> bool {
    came.body.windows(3).any(|part| part == [0x00, 0x53, 0x24])
}

/// Queues that `amq.fanout` goes to, and `work`, whose dead letters go there.
fn declare_dead_queues(port: u16, count: usize) {
    let mut manager = Raw::managing(port, "guest");
    let mut id = 0;
    let mut ask = |method, path: &str, body: &[Vec<u8>]| {
        let answer = manager.manage(id, (method, path), &raw::map(body));
        assert!(answer.says("20"), "{path}: {answer:?}");
        id += 1;
    };
    for number in 0..count {
        let name = format!("dead-{number}");
        ask("PUT", &format!("/queues/{name}"), &[]);
        let texts = [
            "source",
            "amq.fanout",
            "destination_queue",
            &name,
            "binding_key",
            "",
        ];
        let mut body: Vec<Vec<u8>> = texts.map(raw::text).into();
        body.extend([raw::text("arguments"), raw::map(&[])]);
        ask("POST", "/bindings", &body);
    }
    let exchange = ["x-dead-letter-exchange", "amq.fanout"].map(raw::text);
    let body = [raw::text("arguments"), raw::map(&exchange)];
    ask("PUT", "/queues/work", &body);
}

/// A message with 15 MB of keys made a record larger than a segment, which poisoned the journal, and again
/// after each start. So did an error with much info about a message that died into many queues.
#[test]
fn what_would_make_a_record_larger_than_a_segment_does_not_poison_the_journal() {
    const DEAD_QUEUES: usize = 100;
    let data = directory("large-records").display().to_string();
    let settings = ["--data", &data, "--segment-size=1MiB"];
    let durable = raw::performative(0x70, &[raw::truth(true)]);
    let body = |bytes| raw::described(0x75, &raw::binary(&vec![b'.'; bytes]));
    let broker = RunningBroker::start(&settings);
    declare_dead_queues(broker.port, DEAD_QUEUES);
    let sender = |port| {
        let mut raw = Raw::begun(port);
        raw.attach_sender(0, "work");
        raw.wait_for(raw::FLOW);
        raw
    };
    let mut raw = sender(broker.port);
    let keys = vec![raw::text(&"k".repeat(250)); 55_000];
    let keys = raw::map(&[raw::symbol("x-cc"), raw::list(&keys)]);
    let annotated = [durable.clone(), raw::described(0x72, &keys), body(4)].concat();
    send(&mut raw, 0, &annotated);
    assert!(raw.wait_for(raw::DETACH).says("amqp:invalid-field"));
    // A body that is larger than a segment is no misfortune at all.
    let mut raw = sender(broker.port);
    send(&mut raw, 0, &[durable.clone(), body(3_000_000)].concat());
    assert!(is_accepted(&raw.wait_for(raw::DISPOSITION)));

    let mut consumer = Raw::begun(broker.port);
    consumer.attach_receiver(0, "work");
    consumer.credit(0, 0xffff_fffb, 1);
    consumer.wait_for(raw::TRANSFER);
    let info = (0..500).flat_map(|pair| {
        let key = format!("key-{pair}");
        [raw::symbol(&key), raw::text(&"i".repeat(200))]
    });
    let info = raw::map(&info.collect::<Vec<_>>());
    let error = [
        raw::symbol("app:large"),
        raw::text(&"d".repeat(9_000)),
        info,
    ];
    let rejected = raw::performative(0x25, &[raw::performative(0x1d, &error)]);
    let [first, yes] = [raw::uint(0), raw::truth(true)];
    let fields = [
        yes.clone(),
        first.clone(),
        first,
        raw::truth(false),
        rejected,
    ];
    consumer.perform(raw::DISPOSITION, &fields);
    consumer.wait_for(raw::DISPOSITION);

    let there = |port| {
        for number in [0, DEAD_QUEUES - 1] {
            let mut raw = Raw::begun(port);
            raw.attach_receiver(0, &format!("dead-{number}"));
            raw.credit(0, 0xffff_fffb, 1);
            assert!(raw.wait_for(raw::TRANSFER).says("app:large"));
        }
        let mut raw = sender(port);
        send(&mut raw, 0, &[durable.clone(), body(10)].concat());
        let outcome = raw.wait_for(raw::DISPOSITION);
        assert!(is_accepted(&outcome), "the journal goes on: {outcome:?}");
    };
    there(broker.port);
    drop(broker);
    there(RunningBroker::start(&settings).port);
}

#[test]
fn a_damaged_journal_costs_what_was_damaged_and_never_the_start() {
    run("damaged", &[], TORTURE_MAX);
}

#[test]
fn a_data_directory_in_use_is_refused_with_its_name() {
    let directory = directory("in-use");
    let data = directory.display().to_string();
    let _broker = RunningBroker::start(&["--data", &data]);
    let output = run_to_end(
        Command::new(env!("CARGO_BIN_EXE_coroner")).args([
            "serve",
            "--amqp",
            "127.0.0.1:0",
            "--data",
            &data,
        ]),
        RESTART_MAX,
    );
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains(&data) && text.contains("in use"), "{text}");
}

/// All that lies in a directory.
fn content(directory: &Path) -> Vec<(PathBuf, Option<Vec<u8>>)> {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return Vec::new();
    };
    let mut content: Vec<_> = entries
        .map(|entry| entry.expect("an entry").path())
        .map(|path| (path.clone(), std::fs::read(path).ok()))
        .collect();
    content.sort();
    content
}

/// A payload of a version that is still to come.
struct Newer(&'static [u8]);

impl Payload for Newer {
    fn size_hint(&self) -> usize {
        1
    }

    fn body(&self) -> Body {
        Body::None
    }

    type Before = ();

    fn encode_after(&self, (): &mut (), out: &mut Vec<u8>) {
        out.extend_from_slice(self.0);
    }
}

/// A journal with such a record, its last segment open and with a torn tail, as a crash leaves it.
fn write_newer(directory: &Path, record: &'static [u8]) {
    std::fs::create_dir_all(directory).expect("a directory");
    let disk = FileDisk::enter(directory, Missing::Create).expect("a disk");
    let opened = store::open(disk, store::StoreOptions::default(), 1, |_| {}).expect("a journal");
    let (journal, mut writer) = opened.start();
    journal.append(Newer(record));
    writer.write(Timestamp(1)).expect("it is written");
    writer.sync().expect("it is synced");
    drop((journal, writer));
    let segment = directory.join("0000000000000001.seg");
    let mut bytes = std::fs::read(&segment).expect("a segment");
    let end = bytes.iter().rposition(|byte| *byte != 0).expect("records") + 1;
    bytes.truncate(end.next_multiple_of(8));
    bytes.extend_from_slice(b"torn");
    std::fs::write(&segment, bytes).expect("a segment");
}

/// Nothing of this needs a user who may not write: root runs tests too.
#[test]
fn data_that_cannot_be_used_is_refused_with_its_name_and_left_as_it_is() {
    let directory = directory("refused");
    std::fs::create_dir_all(directory.join("no-lock/LOCK")).expect("directories");
    std::fs::create_dir_all(directory.join("newer")).expect("a directory");
    let file = |name: &str, text: &str| {
        std::fs::write(directory.join(name), text).expect("a file can be written");
    };
    file("file", "no directory");
    file("no-lock/0000000000000001.seg", "");
    file("newer/FORMAT", "coroner store\nversion 2\n");
    file("newer/LOCK", "");
    file("newer/0000000000000001.seg", "of another time");
    write_newer(&directory.join("newer-record"), b"\x02");
    // A fact of the vhost v, of a kind that is kept for transactions.
    let transaction = b"\x01\xa1\x01v\x83\0\0\0\0\0\0\0\0\x10";
    write_newer(&directory.join("newer-fact"), transaction);
    let used = directory.join("used");
    let _broker = RunningBroker::start(&["--data", &used.display().to_string()]);
    for (name, parts) in [
        ("file", &["cannot enter", "file"][..]),
        (
            "file/below",
            &["cannot enter", "file/below", "Not a directory"],
        ),
        ("no-lock", &["cannot enter", "no-lock"]),
        ("newer", &["newer", "store format 2", "up to 1"]),
        (
            "newer-record",
            &[
                "newer-record",
                "written by a newer version",
                "unknown version 2",
            ],
        ),
        (
            "newer-fact",
            &[
                "newer-fact",
                "written by a newer version",
                "unknown fact 16",
            ],
        ),
        ("used", &["used", "in use"]),
    ] {
        let data = directory.join(name);
        let before = content(&data);
        let data_name = data.display().to_string();
        let listen = ["--amqp", "127.0.0.1:0", "--http", "off", "--data"];
        for command in [
            &[&["serve"], &listen[..]].concat()[..],
            &["store", "check"],
            &["store", "info"],
        ] {
            let mut program = Command::new(env!("CARGO_BIN_EXE_coroner"));
            let program = program.args(command).arg(&data_name);
            let output = run_to_end(program, RESTART_MAX);
            assert_eq!(output.status.code(), Some(1), "{command:?} {name}");
            let text = String::from_utf8_lossy(&output.stderr);
            let says = |part: &&str| text.contains(*part);
            assert!(parts.iter().all(says), "{command:?} {name}: {text}");
            assert!(text.contains(&data_name), "{command:?} {name}: {text}");
            assert_eq!(text.lines().count(), 1, "{text}");
            // What is in use goes on being written.
            if name != "used" {
                assert_eq!(content(&data), before, "{command:?} {name}");
            }
        }
    }
}

#[test]
fn a_vhost_that_is_not_configured_any_more_is_there_all_the_same() {
    let data = directory("vhosts").display().to_string();
    run(
        "restart",
        &["--data", &data, "--vhost", "other"],
        RESTART_MAX,
    );
    drop(RunningBroker::start(&["--data", &data]));
    let mut info = Command::new(env!("CARGO_BIN_EXE_coroner"));
    let info = run_to_end(info.args(["store", "info", &data]), RESTART_MAX);
    let text = String::from_utf8_lossy(&info.stdout);
    assert!(text.contains("vhost other"), "{text}");
}

/// Any directory passed for an undamaged store, and a file LOCK was left in it.
#[test]
fn a_directory_without_a_store_is_said_to_have_none_and_left_as_it_is() {
    let directory = directory("no-store");
    std::fs::create_dir_all(&directory).expect("a directory");
    std::fs::write(directory.join("letter.txt"), "mine").expect("a file");
    let before = content(&directory);
    let data = directory.display().to_string();
    for command in ["check", "info"] {
        let mut program = Command::new(env!("CARGO_BIN_EXE_coroner"));
        let output = run_to_end(program.args(["store", command, &data]), RESTART_MAX);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains("there is no store in it"), "{text}");
        assert!(text.contains(&data), "{text}");
        assert_eq!(content(&directory), before, "{command}");
    }
}

#[test]
fn a_stopped_directory_is_looked_at_and_damage_is_found() {
    let directory = directory("looked-at");
    let data = directory.display().to_string();
    run("restart", &["--data", &data], RESTART_MAX);
    let store = |command: &str| {
        let mut program = Command::new(env!("CARGO_BIN_EXE_coroner"));
        run_to_end(program.args(["store", command, &data]), RESTART_MAX)
    };
    let info = String::from_utf8_lossy(&store("info").stdout).into_owned();
    assert!(
        info.contains("queue quorum: 2 messages, 0 dead letters"),
        "{info}"
    );
    let check = store("check");
    assert_eq!(check.status.code(), Some(0), "{check:?}");
    assert!(String::from_utf8_lossy(&check.stdout).contains("no damage"));

    let first = std::fs::read_dir(&directory).expect("a directory");
    let mut segments: Vec<PathBuf> = first.map(|entry| entry.expect("an entry").path()).collect();
    segments.retain(|path| path.extension().is_some_and(|kind| kind == "seg"));
    segments.sort();
    let mut bytes = std::fs::read(&segments[0]).expect("a segment");
    bytes[200] ^= 1;
    std::fs::write(&segments[0], bytes).expect("a segment can be written");
    let check = store("check");
    assert_eq!(check.status.code(), Some(65), "{check:?}");
    assert!(String::from_utf8_lossy(&check.stdout).contains("damage: "));
}

#[test]
fn without_a_word_about_it_data_goes_to_the_state_directory_of_the_user() {
    let state = directory("state");
    std::fs::create_dir_all(&state).expect("a directory");
    let expected = state.join("coroner-data");
    let serve = |home: Option<&PathBuf>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_coroner"));
        command.args(["serve", "--amqp", "127.0.0.1:0", "--http", "127.0.0.1:0"]);
        command.env_remove("HOME").env_remove("XDG_STATE_HOME");
        if let Some(home) = home {
            command.env("XDG_STATE_HOME", home);
        }
        command
    };
    let _holds_it = RunningBroker::start(&["--data", &expected.display().to_string()]);
    for (home, parts) in [
        (Some(&state), ["coroner-data", "in use", "--in-memory"]),
        (None, ["XDG_STATE_HOME", "--data DIR", "--in-memory"]),
    ] {
        let output = run_to_end(&mut serve(home), RESTART_MAX);
        assert!(!output.status.success());
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    }
}
