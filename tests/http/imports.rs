//! Imports that are sent again with their id: each line once. [evidence part 11]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::api::Api;
use crate::folder::Folder;
use crate::support::{RunningBroker, run_to_end};

const PATIENCE: Duration = Duration::from_mins(2);
/// Lines of the file that is imported while the broker is killed.
const MANY: u64 = 30_000;
/// Bytes of each body in it.
const BODY_BYTES: usize = 200;

/// A line of a durable message with this text.
fn line(text: &str) -> String {
    let mut bare = vec![0x00, 0x53, 0x75, 0xb0];
    bare.extend(u32::try_from(text.len()).expect("a length").to_be_bytes());
    bare.extend(text.as_bytes());
    let line = json!({
        "v": 1, "exchange": "", "routing_keys": ["work"],
        "header": {"durable": true, "priority": null, "ttl": null, "delivery_count": 0},
        "annotations": null, "bare": STANDARD.encode(bare),
    });
    format!("{line}\n")
}

fn lines(numbers: std::ops::RangeInclusive<u64>) -> String {
    numbers.map(|number| line(&number.to_string())).collect()
}

const PATH: &str = "/api/queues/%2F/dead/messages.jsonl";

fn import(api: &Api<'_>, headers: &str, body: &str) -> (u16, Value) {
    let (status, answer) = api.send_with("guest", ("POST", PATH), headers, body);
    (status, serde_json::from_str(&answer).unwrap_or(Value::Null))
}

/// The texts in a queue, in their order. An import whose connection is cut keeps its place until the broker sees
/// that.
fn texts(api: &Api<'_>) -> Vec<String> {
    let deadline = Instant::now() + PATIENCE;
    let (status, exported) = loop {
        let (status, exported) = api.send("GET", PATH, "");
        if status != 429 || Instant::now() > deadline {
            break (status, exported);
        }
        thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(status, 200);
    let lines = exported.lines();
    let text = |line: &str| {
        let line: Value = serde_json::from_str(line).expect("an object");
        line["preview"].as_str().expect("a text").to_owned()
    };
    lines.map(text).collect()
}

impl Api<'_> {
    fn messages(&self) -> u64 {
        let queue = self.get("/api/queues/%2F/dead");
        queue["messages"].as_u64().expect("a count")
    }
}

fn done(imported: u64, skipped: u64) -> (u16, Value) {
    (200, json!({"imported": imported, "skipped": skipped}))
}

#[test]
fn an_import_that_is_sent_again_goes_on_behind_what_is_there() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    api.put("/api/queues/%2F/dead", &json!({"durable": true}));
    let id = "import-id: move-2026.11\r\n";
    // A bad line ends it, and those before stay; mended in its place, it goes on with it.
    let bad = format!("{}\n{{\n{}", lines(1..=3), lines(5..=6));
    let (status, answer) = import(&api, id, &bad);
    assert_eq!(status, 400, "{answer}");
    assert_eq!(
        (&answer["line"], &answer["imported"], &answer["skipped"]),
        (&json!(5), &json!(3), &json!(0))
    );
    let whole = format!("{}\n{}", lines(1..=3), lines(4..=6));
    assert_eq!(import(&api, id, &whole), done(3, 3));
    // It is over, and sent again it changes nothing.
    assert_eq!(import(&api, id, &whole), done(0, 6));
    assert_eq!(texts(&api), ["1", "2", "3", "4", "5", "6"]);

    // In portions, which say with which line they begin.
    let portion = |first: u64, body: &str| {
        let headers = format!("import-id: portions\r\nimport-line: {first}\r\n");
        import(&api, &headers, body)
    };
    assert_eq!(portion(1, &lines(7..=8)), done(2, 0));
    assert_eq!(portion(3, &lines(9..=9)), done(1, 0));
    assert_eq!(portion(3, &lines(9..=10)), done(1, 1));
    let (status, answer) = portion(5, "{\n");
    assert_eq!((status, &answer["line"]), (400, &json!(5)), "{answer}");

    // Without an id nothing is remembered.
    assert_eq!(import(&api, "", &lines(11..=11)), done(1, 0));
    assert_eq!(import(&api, "", &lines(11..=11)), done(1, 0));
    assert_eq!(texts(&api).len(), 12);
}

#[test]
fn what_is_wrong_with_the_id_of_an_import_is_said() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    api.put("/api/queues/%2F/dead", &json!({"durable": true}));
    api.put("/api/queues/%2F/other", &json!({"durable": true}));
    let check = |headers: &str, expected: u16, says: &str| {
        let (status, answer) = import(&api, headers, &lines(1..=1));
        let reason = answer["reason"].as_str().unwrap_or_default();
        assert_eq!(status, expected, "{headers}: {answer}");
        assert!(reason.contains(says), "{reason}");
    };
    check("import-id: a b\r\n", 400, "1 to 64 characters");
    check("import-id:\r\n", 400, "1 to 64 characters");
    check(
        &format!("import-id: {}\r\n", "x".repeat(65)),
        400,
        "1 to 64 characters",
    );
    check("import-line: 0\r\n", 400, "Import-Line");
    check("import-line: x\r\n", 400, "Import-Line");
    assert!(texts(&api).is_empty());

    let other = "/api/queues/%2F/other/messages.jsonl";
    let sent = api.send_with("guest", ("POST", other), "import-id: a\r\n", &lines(1..=1));
    assert_eq!(sent.0, 200);
    check("import-id: a\r\n", 409, "import 'a' fills queue 'other'");
}

#[test]
fn a_connection_that_is_cut_doubles_no_line() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    api.put("/api/queues/%2F/dead", &json!({"durable": true}));
    let body = lines(1..=2_000);
    let login = STANDARD.encode("guest:guest");
    let mut kept = 0;
    for share in [3, 2] {
        let mut stream = TcpStream::connect(("127.0.0.1", broker.http_port)).expect("HTTP");
        let head = format!(
            "POST {PATH} HTTP/1.1\r\nhost: localhost\r\nauthorization: Basic {login}\r\n\
             import-id: cut\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).expect("a head");
        let part = &body.as_bytes()[..body.len() / share];
        stream.write_all(part).expect("a part of the body");
        // Some of it is there before the connection goes.
        let deadline = Instant::now() + PATIENCE;
        while texts(&api).len() <= kept {
            assert!(Instant::now() < deadline, "nothing is imported");
            thread::sleep(Duration::from_millis(20));
        }
        drop(stream);
        kept = texts(&api).len();
        assert!(kept > 0 && kept < 2_000, "{kept}");
    }
    let (status, answer) = import(&api, "import-id: cut\r\n", &body);
    let number = |name: &str| answer[name].as_u64().expect("a number");
    assert_eq!(
        (status, number("imported") + number("skipped")),
        (200, 2_000)
    );
    let all: Vec<String> = (1..=2_000).map(|number: u64| number.to_string()).collect();
    assert_eq!(texts(&api), all);
}

/// An export kept its place for a moment behind the end of its answer: whoever asked for the next one at once was told
/// that too many run.
#[test]
fn exports_one_after_the_other_need_one_place() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    api.put("/api/queues/%2F/dead", &json!({"durable": true}));
    assert_eq!(import(&api, "", &lines(1..=50)), done(50, 0));
    // The other place of the user.
    let login = STANDARD.encode("guest:guest");
    let mut other = TcpStream::connect(("127.0.0.1", broker.http_port)).expect("HTTP");
    let head = format!(
        "POST {PATH} HTTP/1.1\r\nhost: localhost\r\nauthorization: Basic {login}\r\n\
         content-length: 1000000\r\n\r\n{}",
        lines(51..=700)
    );
    other
        .write_all(head.as_bytes())
        .expect("a part of an import");
    let deadline = Instant::now() + PATIENCE;
    while api.messages() <= 50 {
        assert!(Instant::now() < deadline, "nothing is imported");
        thread::sleep(Duration::from_millis(20));
    }
    for _ in 0..200 {
        assert!(texts(&api).len() > 50);
    }
}

/// One user held all places with imports that did not go on: nobody could export or import then.
#[test]
fn a_user_has_two_exports_and_imports_and_another_one_still_gets_a_place() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    api.put("/api/queues/%2F/dead", &json!({"durable": true}));
    let login = STANDARD.encode("guest:guest");
    let begin = || {
        let mut stream = TcpStream::connect(("127.0.0.1", broker.http_port)).expect("HTTP");
        let head = format!(
            "POST {PATH} HTTP/1.1\r\nhost: localhost\r\nauthorization: Basic {login}\r\n\
             content-length: 1000000\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).expect("a head");
        stream
    };
    let held = [begin(), begin()];
    let deadline = Instant::now() + PATIENCE;
    let why = loop {
        let (status, answer) = import(&api, "", &lines(1..=1));
        if status == 429 {
            break answer["reason"].as_str().expect("a reason").to_owned();
        }
        assert!(Instant::now() < deadline, "the places are not taken");
        thread::sleep(Duration::from_millis(20));
    };
    assert!(
        why.contains("the user has 2 exports and imports open"),
        "{why}"
    );
    let user = json!({"password": "ann", "tags": "administrator"});
    api.put("/api/users/ann", &user);
    let rights = json!({"configure": ".*", "write": ".*", "read": ".*"});
    api.put("/api/permissions/%2F/ann", &rights);
    assert_eq!(api.send_as("ann", "GET", PATH, "").0, 200);
    drop(held);
}

/// Wherever it is cut, all lines that are whole are imported, once; the line that is not is named.
#[test]
fn a_file_that_is_cut_at_any_byte_goes_on_when_it_is_sent_again() {
    const LINES: u64 = 120;
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    api.put("/api/queues/%2F/dead", &json!({"durable": true}));
    let texts_of = |numbers: std::ops::RangeInclusive<u64>| {
        let text = |number: u64| {
            // Some lines are longer than what is read at a time.
            let bytes = usize::try_from(number * number * 37 % 60_000).expect("a length");
            format!("{number} {:.<bytes$}", "")
        };
        numbers.map(text).collect::<Vec<_>>()
    };
    let body: String = texts_of(1..=LINES).iter().map(|text| line(text)).collect();
    let (mut known, mut wrong) = (0, 0);
    let mut random = 7_u64;
    for _ in 0..12 {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let cut = usize::try_from(random >> 33).expect("an index") % body.len();
        let part = &body[..cut];
        let whole = |line: &&str| serde_json::from_str::<Value>(line).is_ok();
        let lines = part.lines().count() as u64;
        let complete = part.lines().filter(whole).count() as u64;
        let (status, answer) = import(&api, "import-id: cut\r\n", part);
        if complete < lines && lines > known {
            assert_eq!((status, &answer["line"]), (400, &json!(lines)), "{answer}");
            wrong += 1;
        } else {
            assert_eq!(status, 200, "{answer}");
        }
        known = known.max(complete);
        assert_eq!(api.messages(), known, "cut at byte {cut}");
    }
    assert!(
        wrong > 2 && known < LINES,
        "{wrong} of the cuts are in a new line"
    );
    assert_eq!(
        import(&api, "import-id: cut\r\n", &body),
        done(LINES - known, known)
    );
    let begin = |text: &String| text.chars().take(200).collect::<String>();
    let expected: Vec<String> = texts_of(1..=LINES).iter().map(begin).collect();
    assert_eq!(texts(&api), expected);
}

/// `coroner import_messages dead FILE --id move`.
fn command(broker: &RunningBroker, file: &str) -> Command {
    let url = format!("http://127.0.0.1:{}", broker.http_port);
    let mut command = Command::new(env!("CARGO_BIN_EXE_coroner"));
    command.args([
        "import_messages",
        "dead",
        file,
        "--id",
        "move",
        "--url",
        &url,
    ]);
    command
}

#[test]
fn a_file_that_is_imported_over_kills_of_the_broker_is_there_once() {
    let folder = Folder::new("imports");
    let (data, file) = (folder.path("data"), folder.path("orders.jsonl"));
    let mut content = String::new();
    for number in 1..=MANY {
        let mut text = number.to_string();
        let _ = write!(text, "{:.>1$}", "", BODY_BYTES - text.len());
        content.push_str(&line(&text));
    }
    std::fs::write(&file, &content).expect("a file");
    let arguments = ["--data", &data];
    let mut broker = RunningBroker::start(&arguments);
    Api { broker: &broker }.put("/api/queues/%2F/dead", &json!({"durable": true}));
    let (mut kills, mut reached) = (0, Vec::new());
    while kills < 5 {
        let mut importing = command(&broker, &file);
        let quiet = importing.stdout(Stdio::null()).stderr(Stdio::null());
        let mut importing = quiet.spawn().expect("the binary starts");
        let before = reached.last().copied().unwrap_or(0);
        let more = || Api { broker: &broker }.messages() > before + 1_000;
        let deadline = Instant::now() + PATIENCE;
        while importing.try_wait().expect("a child").is_none() && !more() {
            assert!(Instant::now() < deadline, "nothing is imported");
        }
        drop(broker); // killed
        let status = importing.wait().expect("it ends");
        broker = RunningBroker::start(&arguments);
        let api = Api { broker: &broker };
        reached.push(api.messages());
        kills += 1;
        if status.success() {
            break;
        }
    }
    let in_the_middle = reached
        .iter()
        .filter(|there| (1..MANY).contains(there))
        .count();
    assert!(in_the_middle > 0, "no kill came in the middle: {reached:?}");
    let output = run_to_end(&mut command(&broker, &file), PATIENCE);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let api = Api { broker: &broker };
    let texts = texts(&api);
    assert_eq!(texts.len() as u64, MANY, "after {reached:?}");
    let once: BTreeSet<&String> = texts.iter().collect();
    assert_eq!(once.len() as u64, MANY, "each line once");
    let again = run_to_end(&mut command(&broker, &file), PATIENCE);
    let said = String::from_utf8(again.stdout).expect("text");
    assert!(
        said.starts_with("0 messages were put into queue 'dead'; 30000 were"),
        "{said}"
    );
}
