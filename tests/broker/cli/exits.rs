//! How commands end: exit codes and what they say.

use std::process::Output;

use rstest::rstest;

use super::recorder::{Answer, Recorder};
use super::{coroner, text};
use crate::support::RunningBroker;

const ANSWERS: &[Answer] = &[
    (
        "GET /api/policies/v400",
        400,
        r#"{"error":"bad_request","reason":"no such key: max-lengt"}"#,
    ),
    (
        "GET /api/policies/v401",
        401,
        r#"{"error":"not_authorised","reason":"Login failed"}"#,
    ),
    (
        "GET /api/policies/v403",
        403,
        r#"{"error":"not_authorised","reason":"Not administrator"}"#,
    ),
    (
        "GET /api/policies/v404",
        404,
        r#"{"error":"Object Not Found","reason":"Not Found"}"#,
    ),
    (
        "GET /api/policies/vright",
        401,
        r#"{"error":"not_authorised","reason":"User can not be found in this virtual host"}"#,
    ),
    (
        "GET /api/policies/v%1B%5B31m",
        404,
        r#"{"error":"Object Not Found","reason":"Not Found"}"#,
    ),
    (
        "GET /api/policies/vwhy",
        404,
        r#"{"error":"Object Not Found","reason":"there is no node 'n'"}"#,
    ),
    (
        "POST /api/queues/%2F/other/messages.jsonl",
        409,
        r#"{"error":"conflict","reason":"import 'move' fills queue 'first'"}"#,
    ),
    (
        "POST /api/queues/%2F/gone/messages.jsonl",
        404,
        r#"{"error":"not_found","reason":"queue_not_found"}"#,
    ),
    ("GET /api/policies/v500", 500, "<html>"),
    ("GET /api/policies/v503", 503, r#"{"reason":"stopping"}"#),
    ("GET /api/policies/v302", 302, ""),
    ("GET /api/policies/vtext", 200, "hello"),
    ("GET /api/users/", 404, "{}"),
    ("DELETE /api/users/", 404, "{}"),
    (
        "GET /api/health/checks/alarms",
        503,
        r#"{"status":"failed","reason":"memory"}"#,
    ),
];

fn run(arguments: &[&str]) -> Output {
    let recorder = Recorder::start(ANSWERS);
    coroner(&[arguments, &["--url", &recorder.url]].concat(), "")
}

#[rstest]
#[case(&["list_policies", "-p", "v400"], 65, "no such key: max-lengt")]
#[case(&["list_policies", "-p", "v401"], 77, "--username and --password")]
#[case(&["list_policies", "-p", "v403"], 77, "Not administrator")]
#[case(&["list_policies", "-p", "v404"], 66, "there is no vhost 'v404'")]
#[case(&["list_policies", "-p", "v\u{1b}[31m"], 66, r": there is no vhost 'v\u{1b}[31m'")]
#[case(&["list_policies", "-p", "vright"], 77, ": User can not be found in this virtual host\n  the user may")]
#[case(&["list_policies", "-p", "vwhy"], 66, ": there is no node 'n'\n")]
#[case(&["list_policies", "-p", "v500"], 70, "it failed: <html>")]
#[case(&["list_policies", "-p", ""], 64, "the name of the vhost is empty")]
#[case(&["delete_queue", ""], 64, "the name of the queue is empty")]
#[case(&["delete_user", ""], 64, "the name of the user is empty")]
#[case(&["declare", "queue", "name="], 64, "the name of the queue is empty")]
#[case(&["deaths", "q", "--count", "0"], 64, "invalid value '0' for '--count <COUNT>'")]
#[case(&["set_vhost_limits", "{}"], 65, "names no limit: nothing was set")]
#[case(&["set_user_limits", "u", "{}"], 65, "names no limit: nothing was set")]
#[case(&["import_messages", "gone", "/dev/null"], 66, ": there is no queue 'gone' in vhost '/' (queue_not_found)\n")]
#[case(&["list_policies", "-p", "v503"], 69, "stopping")]
#[case(&["list_policies", "-p", "v302"], 76, "is this the HTTP API of a broker?")]
#[case(&["list_policies", "-p", "vtext"], 76, "not understood")]
#[case(&["delete_user", "nobody"], 67, "there is no user 'nobody'")]
#[case(&["check_alarms"], 65, "memory")]
#[case(&["set_policy", "p", "q", "{"], 65, "the definition is not JSON")]
#[case(&["set_policy", "p", "q", "[]"], 65, "no JSON object")]
#[case(&["set_policy", "p", "q"], 64, "<DEFINITION>")]
#[case(&["set_policy", "p", "q", "{}", "--apply-to", "nothing"], 64, "classic_queues")]
#[case(&["declare", "queue", "durable=true"], 64, "name=... is missing")]
#[case(&["declare", "queue", "name=q", "colour=red"], 64, "keys: name durable")]
#[case(&["declare", "queue", "name=q", "durable=maybe"], 64, "true or false")]
#[case(&["declare", "queue", "name=q", "--name", "p"], 64, "given twice")]
#[case(&["add_user", "new"], 64, "no password was given")]
#[case(&["import_definitions", "/nonexistent/file"], 66, "/nonexistent/file")]
#[case(&["no_such_command"], 64, "unrecognized subcommand")]
fn a_failure_has_its_code_and_says_what_to_do(
    #[case] arguments: &[&str],
    #[case] code: i32,
    #[case] said: &str,
) {
    let output = run(arguments);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    assert!(stderr.contains(said), "{stderr}");
    assert_eq!(
        text(&output.stdout),
        "",
        "nothing but results goes to standard output"
    );
}

/// A refused import said that the same command goes on where it was, which is refused again.
#[test]
fn an_import_that_is_refused_does_not_advise_to_try_it_again() {
    let recorder = Recorder::start(ANSWERS);
    let import = [
        "import_messages",
        "other",
        "-",
        "--id",
        "move",
        "--url",
        &recorder.url,
    ];
    let output = coroner(&import, "{}\n");
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(65), "{told}");
    assert!(
        told.ends_with(": refused: import 'move' fills queue 'first'\n"),
        "{told}"
    );
}

#[test]
fn no_broker_is_69_and_no_answer_is_75() {
    // A port that nobody is given, and one that accepts and says nothing.
    let output = coroner(&["status", "--url", "http://127.0.0.1:1"], "");
    assert_eq!(output.status.code(), Some(69), "{}", text(&output.stderr));
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", silent.local_addr().expect("bound"));
    let output = coroner(&["status", "--url", &url, "--timeout", "1"], "");
    assert_eq!(output.status.code(), Some(75), "{}", text(&output.stderr));
}

#[test]
fn completions_and_man_pages_name_every_command() {
    let help = text(&coroner(&["--help"], "").stdout);
    let commands: Vec<&str> = help
        .lines()
        .skip_while(|line| *line != "Run a broker:")
        .take_while(|line| *line != "Options:")
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next())
        .filter(|name| !name.is_empty())
        .collect();
    assert!(commands.len() > 60, "{commands:?}");
    let man = text(&coroner(&["man"], "").stdout);
    for shell in ["bash", "zsh", "fish"] {
        let completions = text(&coroner(&["completions", shell], "").stdout);
        for command in &commands {
            assert!(completions.contains(command), "{shell}: {command}");
        }
    }
    for command in &commands {
        let named = command.replace('-', "\\-");
        assert!(man.contains(&named), "man: {command}");
    }
    let page = text(&coroner(&["man", "set_policy"], "").stdout);
    assert!(page.contains("apply\\-to"), "{page}");
    let page = text(&coroner(&["man", "declare", "queue"], "").stdout);
    assert!(page.contains("coroner\\-declare\\-queue"), "{page}");
    let folder = std::env::temp_dir().join(format!("coroner-man-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let written = coroner(&["man", "--dir", folder.to_str().expect("text")], "");
    assert!(written.status.success(), "{}", text(&written.stderr));
    for command in commands.iter().chain(&["declare-queue", "store-check"]) {
        let page = folder.join(format!("coroner-{command}.1"));
        assert!(page.is_file(), "{command}");
    }
    std::fs::remove_dir_all(&folder).expect("a folder");
}

#[test]
fn failures_name_the_broker_that_they_are_of() {
    let broker = RunningBroker::start(&[]);
    let url = format!("http://127.0.0.1:{}", broker.http_port);
    let check = |words: &[&str], code: i32, said: &str| {
        let output = coroner(&[words, &["--url", &url]].concat(), "");
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{told}");
        assert!(told.contains(&url) && told.contains(said), "{told}");
    };
    check(
        &["list_queues", "--password", "wrong"],
        77,
        "does not let user 'guest' in",
    );
    check(&["delete_queue", "gone"], 66, "there is no ");
    check(&["list_queues", "-p", "gone"], 66, "there is no ");
    let output = coroner(&["list_queues", "mesages", "--url", &url], "");
    assert_eq!(output.status.code(), Some(64));
    let told = text(&output.stderr);
    assert!(told.contains("did you mean 'messages'?"), "{told}");
}

/// For CI pipelines: the exit code says whether there is a finding as bad as was asked for.
#[test]
fn lint_of_a_file_needs_no_broker_and_ends_as_it_was_asked() {
    let definitions = r#"{"queues": [{"name": "old", "vhost": "/", "durable": true,
        "arguments": {"x-message-ttl": 1000}}], "vhosts": [{"name": "/"}]}"#;
    for (arguments, code, said) in [
        (
            &["lint", "-"][..],
            0,
            "warning DL006 queue old (vhost /): what expires after 1000 ms",
        ),
        (
            &["lint", "-", "--fail-on", "error"],
            0,
            "1 finding (0 errors, 1 warning,",
        ),
        (
            &["lint", "-", "--fail-on", "warning"],
            65,
            "expired in old -> dropped",
        ),
        (&["lint", "-", "--format", "json"], 0, "\"rule\": \"DL006\""),
        (&["lint", "-", "--sarif"], 0, "\"version\": \"2.1.0\""),
        (&["lint", "/nonexistent/file"], 66, ""),
        (&["graph", "-"], 0, "q:old\tdrop\t"),
        (&["graph", "-", "--format", "dot"], 0, "n0 -> n1"),
        (&["graph", "-", "-f", "mermaid"], 0, "flowchart LR"),
        (&["graph", "-", "--format", "svg"], 0, "role=\"img\""),
        (&["graph", "-", "--format", "json"], 0, "\"to\": \"drop\""),
        (&["graph", "-", "--around", "old"], 0, "q:old\tdrop\t"),
        (&["graph", "-", "--around", "young"], 66, ""),
        (&["graph", "-", "-p", "elsewhere"], 66, ""),
        (&["graph", "-", "--hops", "1"], 64, ""),
    ] {
        let output = coroner(arguments, definitions);
        let printed = text(&output.stdout);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {printed}");
        assert!(printed.contains(said), "{arguments:?}: {printed}");
    }
}
