//! The commands of the README, of `docs/BACKUP_AND_UPGRADE.md`, of the cookbook in `docs/OPERATING.md` and of
//! `docs/COMING_FROM_RABBITMQ.md`, run as they stand there and in the order in which they stand there.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::text;
use crate::support::{RunningBroker, repository, run_to_end};

/// How long the commands of a page may take, which take seconds on a quiet machine.
const PAGE_MAX: Duration = Duration::from_mins(3);

/// The marked blocks of a page in their order: the mark and the text.
fn blocks(page: &str) -> Vec<(String, String)> {
    let page = std::fs::read_to_string(repository(page)).expect("the page is there");
    let parts = page.split("<!-- ci: ").skip(1);
    let block = |part: &str| {
        let (mark, rest) = part.split_once(" -->\n```")?;
        let (_, rest) = rest.split_once('\n')?;
        let (block, _) = rest.split_once("```\n")?;
        Some((mark.to_owned(), block.to_owned()))
    };
    parts.map(|part| block(part).expect("a block")).collect()
}

/// A folder to run in, which goes with it; `coroner` in it is the binary under test.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("coroner-{name}-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("bin")).expect("a folder");
        let binary = folder.join("bin/coroner");
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_coroner"), binary).expect("a link");
        Self(folder)
    }

    /// Runs a script here, with these variables.
    fn run(&self, script: &str, variables: &[(&str, &str)]) -> String {
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{path}", Path::new(&self.0).join("bin").display());
        let mut command = Command::new("bash");
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("CORONER") {
                command.env_remove(name);
            }
        }
        command
            .args(["-euo", "pipefail", "-c", script])
            .current_dir(&self.0)
            .env("PATH", path)
            .env("HOME", &self.0)
            .env("TZ", "UTC")
            .envs(variables.iter().copied());
        let output = run_to_end(&mut command, PAGE_MAX);
        let (out, error) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{script}\n{out}\n{error}");
        out
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

/// A story without its times, process ids and ports.
fn timeless(story: &str) -> Vec<String> {
    let line = |line: &str| match line.split_once(" at 20") {
        Some((before, _)) => before.to_owned(),
        // Who it was: a process and its port.
        None if line.starts_with("    by ") => {
            line.chars().filter(|c| !c.is_ascii_digit()).collect()
        }
        None => line.to_owned(),
    };
    story.lines().map(line).collect()
}

/// A command and an example gave one queue different arguments, so that whoever followed the text from
/// its beginning to its end was refused.
#[test]
fn the_readme_works_from_its_beginning_to_its_end() {
    let broker = RunningBroker::start(&[]);
    let place = Place::new("readme");
    let http = format!("http://127.0.0.1:{}", broker.http_port);
    let amqp = format!("amqp://127.0.0.1:{}", broker.port);
    let variables = [("CORONERCTL_URL", &*http), ("CORONERCTL_AMQP_URL", &*amqp)];
    let (mut story, mut told) = (None, None);
    for (mark, block) in blocks("README.md") {
        match mark.as_str() {
            "story" => story = Some(block),
            "deaths" => told = Some(place.run(&block, &variables)),
            "redrive" | "manage" => drop(place.run(&block, &variables)),
            // These need a build, or an installation, and are run by .ci/run.
            "run" | "install" | "go" | "output" | "test" | "first_dead_letter.py" => {}
            other => panic!("'{other}' is run by nobody"),
        }
    }
    let (story, told) = (story.expect("a story"), told.expect("what was told"));
    let (expect, told) = (timeless(&story), timeless(&told));
    assert!(told.ends_with(&expect), "{told:?}");
}

/// Variables for a page whose commands start brokers themselves: addresses that are free.
struct Addresses {
    amqp: String,
    http: String,
    url: String,
    amqp_url: String,
}

impl Addresses {
    fn free() -> Self {
        let free = || {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
            listener.local_addr().expect("bound").to_string()
        };
        let (amqp, http) = (free(), free());
        Self {
            url: format!("http://{http}"),
            amqp_url: format!("amqp://{amqp}"),
            amqp,
            http,
        }
    }

    fn variables(&self) -> [(&str, &str); 4] {
        [
            ("CORONER_AMQP", &self.amqp),
            ("CORONER_HTTP", &self.http),
            ("CORONERCTL_URL", &self.url),
            ("CORONERCTL_AMQP_URL", &self.amqp_url),
        ]
    }
}

/// Runs a page in one shell, for its jobs, of which none outlives it: what comes first, then the blocks, with
/// `mark NAME` in front of each.
fn run_page(place: &Place, first: &str, page: &str, last: &str) -> String {
    let addresses = Addresses::free();
    let blocks = blocks(page).into_iter();
    let blocks: Vec<String> = blocks
        .map(|(name, block)| format!("echo 'mark {name}'\n{block}"))
        .collect();
    let script = format!(
        "set -m\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{first}\n{}\n{last}",
        blocks.join("\n")
    );
    place.run(&script, &addresses.variables())
}

/// What a page printed behind this mark.
fn printed<'a>(told: &'a str, name: &str) -> &'a str {
    let (_, behind) = told
        .split_once(&format!("mark {name}\n"))
        .expect("it was run");
    behind.split("mark ").next().unwrap_or_default()
}

/// The cookbook was prose: nobody knew whether its commands work.
#[test]
fn the_cookbook_works_from_its_beginning_to_its_end() {
    let place = Place::new("cookbook");
    let first = r#"
DATA=$PWD/data
coroner serve --data "$DATA" &
until coroner check_running >started 2>&1; do sleep 0.2; done
coroner declare queue name=orders.dlq -q
to_dead='{"x-dead-letter-exchange":"","x-dead-letter-routing-key":"orders.dlq"}'
coroner declare queue name=orders "arguments=$to_dead" -q
coroner publish --queue orders --durable 'bad order' -q
coroner consume orders --count 1 --outcome reject --condition app:bad-order --quiet
coroner publish --queue orders --durable 'late order' -q
coroner consume orders --count 1 --outcome reject --quiet
coroner add_user alice before -q
# In a shell of its own: `$!` stays the broker, as on the page.
(
  (coroner consume orders --wait 120 --quiet >held 2>&1 || echo "ended with $?" >>held) &
)
until [ "$(coroner list_consumers queue_name -s)" = orders ]; do sleep 0.2; done
"#;
    // Who was closed has ended; the broker that was started last is asked.
    let last = "until grep -q 'ended with' held; do sleep 0.2; done\n\
                coroner authenticate_user guest 'a new one'\n\
                coroner list_users -s --username rescue --password a-secret\ncat report.txt held";
    let told = run_page(&place, first, "docs/OPERATING.md", last);
    let letters = printed(&told, "dead letters");
    assert!(letters.contains("orders.dlq\t2\t"), "{letters}");
    assert_eq!(
        letters.matches("orders --rejected--> orders.dlq").count(),
        3,
        "{letters}"
    );
    let csv = std::fs::read_to_string(place.0.join("dead-letters.csv")).expect("a file");
    assert_eq!(csv.lines().count(), 3, "{csv}");
    assert!(
        printed(&told, "waiting").contains("orders\t0\t0\t1"),
        "{told}"
    );
    assert!(printed(&told, "alarms").contains("no alarms"), "{told}");
    let connections = printed(&told, "connections");
    assert!(
        connections.contains("\tguest\t127.0.0.1\t"),
        "{connections}"
    );
    assert!(
        told.contains("maintenance"),
        "the consumer was told why: {told}"
    );
    assert!(told.contains("ended with "), "and ended: {told}");
    assert!(told.contains("== queues"), "a report: {told}");
    assert!(told.contains("rescue\tadministrator\n"), "{told}");
}

/// In place of a RabbitMQ stands what it exported, and a broker that takes back what it is given.
#[test]
fn who_comes_from_rabbitmq_and_goes_back_finds_the_commands_of_the_page_working() {
    let place = Place::new("rabbitmq");
    let old = RunningBroker::start(&[]);
    let exported = repository("tests/fixtures/definitions/rabbitmq-4.0.5.json");
    let ctl = format!(
        "#!/bin/sh\ncase \"$1\" in\nexport_definitions) cp '{}' \"$2\" ;;\n\
         import_definitions) exec coroner \"$@\" --url http://127.0.0.1:{} ;;\n*) exit 64 ;;\nesac\n",
        exported.display(),
        old.http_port
    );
    let path = place.0.join("bin/rabbitmqctl");
    std::fs::write(&path, ctl).expect("a program");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&path, mode).expect("it may be run");
    let first = "coroner serve --in-memory --max-message-size 123456 &\n\
                 until coroner check_running >started 2>&1; do sleep 0.2; done\n\
                 coroner add_user alice before -q";
    let last = format!(
        "echo 'mark moved'\ncoroner list_queues -p definitions-a name -s\n\
         coroner authenticate_user alice 'the password'\n\
         coroner list_queues -p definitions-a name -s --url http://127.0.0.1:{}",
        old.http_port
    );
    let told = run_page(&place, first, "docs/COMING_FROM_RABBITMQ.md", &last);
    let taken = printed(&told, "definitions");
    assert!(
        taken.contains("not supported") && taken.contains("queue 'events'"),
        "{taken}"
    );
    assert!(
        printed(&told, "commands").contains("TTL\t^short\t"),
        "{told}"
    );
    assert!(printed(&told, "commands").contains("123456"), "{told}");
    let moved = printed(&told, "moved");
    assert_eq!(
        moved.matches("work\n").count(),
        2,
        "here, and back there: {moved}"
    );
    // Who has no tag was said to have the wrong password.
    assert!(moved.contains("user 'alice' may log in"), "{moved}");
}

#[test]
fn the_page_of_rabbitmqs_users_names_settings_and_metrics_that_there_are() {
    let page = std::fs::read_to_string(repository("docs/COMING_FROM_RABBITMQ.md")).expect("a page");
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    let (mut settings, mut metrics) = (0, 0);
    for row in rows {
        let ours = row.split(" | ").nth(1).expect("two columns");
        let (theirs, ours) = (row, ours.split('`').skip(1).step_by(2));
        for word in ours {
            let name = word.split([' ', '{', '=']).next().unwrap_or_default();
            if theirs.starts_with("| `rabbitmq_") {
                let known = coroner::metrics::TABLE
                    .iter()
                    .any(|metric| metric.name == name);
                assert!(known, "{row}");
                metrics += 1;
            } else {
                assert!(coroner::config::find(name).is_some(), "{row}");
                settings += 1;
            }
        }
    }
    assert!(settings > 12 && metrics > 5, "{settings} {metrics}");
}

#[test]
fn a_broker_is_backed_up_moved_and_upgraded_as_its_page_says() {
    let place = Place::new("backup");
    assert_eq!(blocks("docs/BACKUP_AND_UPGRADE.md").len(), 5);
    let told = run_page(&place, "", "docs/BACKUP_AND_UPGRADE.md", "");
    assert!(told.contains("orders\t1\n"), "{told}");
    assert!(told.contains("body, 10 bytes: to be kept"), "{told}");
    assert!(told.lines().any(|line| line == "to be kept"), "{told}");
}
