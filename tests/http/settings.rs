//! Users of the settings and of a definitions file: who is what over HTTP.

use crate::api::Api;
use crate::support::RunningBroker;

/// The tags of a user as the broker tells them; nothing where HTTP is closed to it.
fn tags(broker: &RunningBroker, user: &str) -> Option<String> {
    let (status, answer) = Api { broker }.send_as(user, "GET", "/api/whoami", "");
    let json: serde_json::Value = serde_json::from_str(&answer).expect("JSON");
    (status == 200).then(|| json["tags"].to_string())
}

const USERS: [&str; 4] = ["--user", "ada:ada", "--user", "bob:bob"];

/// All users of the settings were administrators, so that one call undid `--permission`.
#[test]
fn only_the_first_user_of_the_settings_is_administrator() {
    let broker = RunningBroker::start(&USERS);
    assert_eq!(
        tags(&broker, "ada").as_deref(),
        Some(r#"["administrator"]"#)
    );
    assert_eq!(tags(&broker, "bob"), None);
    assert_eq!(tags(&broker, "guest"), None);
}

#[test]
fn a_user_that_is_restricted_by_the_settings_is_no_administrator() {
    let restricted = [&USERS[..], &["--permission", "ada / ^a ^a ^a"]].concat();
    let broker = RunningBroker::start(&restricted);
    assert_eq!(tags(&broker, "ada"), None);
    let rights = r#"{"configure": ".*", "write": ".*", "read": ".*"}"#;
    let api = Api { broker: &broker };
    let (status, told) = api.send_as("ada", "PUT", "/api/permissions/%2F/ada", rights);
    assert_eq!(status, 401, "{told}");
}

#[test]
fn tags_are_given_by_name_and_then_to_nobody_else() {
    let tagged = [&USERS[..], &["--user-tags", "bob=monitoring,policymaker"]].concat();
    let broker = RunningBroker::start(&tagged);
    assert_eq!(tags(&broker, "ada"), None);
    let both = r#"["monitoring","policymaker"]"#;
    assert_eq!(tags(&broker, "bob").as_deref(), Some(both));
}

/// Beside the users of a definitions file there was a guest with a password that everybody knows.
#[test]
fn a_first_start_with_users_in_its_definitions_makes_no_guest() {
    let folder = tempfile("definitions-users");
    let file = folder.join("definitions.json");
    let ada = r#"{"users": [{"name": "ada", "password": "ada", "tags": "administrator"}]}"#;
    std::fs::write(&file, ada).expect("a file");
    let broker = RunningBroker::start(&["--definitions", file.to_str().expect("text")]);
    assert_eq!(
        tags(&broker, "ada").as_deref(),
        Some(r#"["administrator"]"#)
    );
    assert_eq!(tags(&broker, "guest"), None);
    std::fs::write(&file, r#"{"queues": []}"#).expect("a file");
    let broker = RunningBroker::start(&["--definitions", file.to_str().expect("text")]);
    assert_eq!(
        tags(&broker, "guest").as_deref(),
        Some(r#"["administrator"]"#)
    );
    std::fs::remove_dir_all(folder).expect("a folder");
}

fn tempfile(name: &str) -> std::path::PathBuf {
    let folder = std::env::temp_dir().join(format!("coroner-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}
