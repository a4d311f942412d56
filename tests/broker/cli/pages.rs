//! The commands of the README and of `docs/BACKUP_AND_UPGRADE.md`, run as they stand there and in the
//! order in which they stand there.

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
            "manage" => drop(place.run(&block, &variables)),
            // These need a build, or an installation, and are run by .ci/run.
            "run" | "install" | "go" | "output" | "test" | "first_dead_letter.py" => {}
            other => panic!("'{other}' is run by nobody"),
        }
    }
    let (story, told) = (story.expect("a story"), told.expect("what was told"));
    let (expect, told) = (timeless(&story), timeless(&told));
    assert!(told.ends_with(&expect), "{told:?}");
}

#[test]
fn a_broker_is_backed_up_moved_and_upgraded_as_its_page_says() {
    let place = Place::new("backup");
    let free = || {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.local_addr().expect("bound").to_string()
    };
    let (amqp, http) = (free(), free());
    let variables = [
        ("CORONER_AMQP", &*amqp),
        ("CORONER_HTTP", &*http),
        ("CORONERCTL_URL", &*format!("http://{http}")),
        ("CORONERCTL_AMQP_URL", &*format!("amqp://{amqp}")),
    ];
    let blocks = blocks("docs/BACKUP_AND_UPGRADE.md");
    assert_eq!(blocks.len(), 5);
    // One shell, for its jobs; none of them outlives it.
    let blocks: Vec<String> = blocks.into_iter().map(|(_, block)| block).collect();
    let script = format!(
        "set -m\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{}",
        blocks.join("\n")
    );
    let told = place.run(&script, &variables);
    assert!(told.contains("orders\t1\n"), "{told}");
    assert!(told.contains("body, 10 bytes: to be kept"), "{told}");
    assert!(told.lines().any(|line| line == "to be kept"), "{told}");
}
