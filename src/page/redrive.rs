//! The pages of redrives: the list, one of them, the form that makes one.

use askama::Template;
use serde_json::Value;

use super::frame::Frame;
use super::queue::{FilterBar, queue_link, vhost_flag};
use super::show::{Count, Rate, Text, When, encoded, shell};

answer! {
    /// What a redrive did.
    #[derive(Copy)]
    pub struct Counts {
        pub matched: Option<Count>,
        pub moved: Count,
        pub skipped_held: Count,
        pub skipped_no_target: Count,
        pub skipped_not_allowed: Count,
        pub skipped_changed: Count,
        pub left: Option<Count>,
    }

    /// What became of the messages that it moved.
    #[derive(Copy)]
    pub struct Outcome {
        pub accepted: Count,
        pub died_again: Count,
        pub outstanding: Count,
        pub gone: Count,
    }

    /// Where it moves them.
    pub struct Goal {
        pub kind: Text,
        pub queue: Text,
        pub exchange: Text,
        pub routing_key: Text,
    }
}

impl Goal {
    /// The goal in words.
    pub fn words(&self) -> String {
        match self.kind.raw() {
            "origin" => "the queue each failed in".to_owned(),
            "first" => "the queue of each first death".to_owned(),
            "original" => "exchange and keys of each first death".to_owned(),
            "discard" => "nowhere: discarded".to_owned(),
            "queue" => format!("queue {}", self.queue),
            _ => format!("exchange {} with key '{}'", self.exchange, self.routing_key),
        }
    }
}

answer! {
    /// Messages moved to one queue.
    pub struct MovedTo {
        pub queue: Text,
        pub moved: Count,
    }

    /// A redrive as the API tells it.
    pub struct Job {
        pub id: Text,
        pub vhost: Text,
        pub queue: Text,
        pub state: Text,
        pub cause: Text,
        pub settled: bool,
        pub by: Text,
        pub note: Text,
        pub created_at: When,
        pub ended_at: When,
        pub rate_now: Rate,
        pub batch: Count,
        pub counts: Counts,
        pub outcome: Outcome,
        pub targets: Vec<MovedTo>,
        pub target: Goal,
        pub filter: Value,
    }
}

impl Job {
    /// The query of its page.
    pub fn query(&self) -> String {
        format!("vhost={}&id={}", self.vhost.query(), self.id.query())
    }

    /// The link to its source.
    pub fn source(&self) -> String {
        queue_link(self.vhost.raw(), self.queue.raw())
    }

    /// Whether it goes on by itself.
    pub fn is_running(&self) -> bool {
        matches!(self.state.raw(), "running" | "waiting")
    }

    /// Whether somebody has to resume it.
    pub fn is_paused(&self) -> bool {
        self.state.raw() == "paused"
    }

    /// Whether it is over.
    pub fn is_over(&self) -> bool {
        !self.is_running() && !self.is_paused()
    }

    /// How it stands, as a class of the style sheet; the word stands beside it.
    pub fn class(&self) -> &'static str {
        match self.state.raw() {
            "stopped" | "failed" => "bad",
            "cancelled" | "paused" | "waiting" => "so-so",
            _ if !self.outcome.died_again.is_zero() => "so-so",
            "completed" if self.settled => "good",
            _ => "plain",
        }
    }

    /// Messages that it took up, for the bar.
    pub fn done(&self) -> u64 {
        let counts = &self.counts;
        counts.moved.0
            + counts.skipped_held.0
            + counts.skipped_no_target.0
            + counts.skipped_not_allowed.0
            + counts.skipped_changed.0
    }

    /// The filter in words.
    pub fn filter_words(&self) -> Text {
        let Some(parts) = self.filter.as_object().filter(|parts| !parts.is_empty()) else {
            return Text::new("all dead letters that were in the queue");
        };
        let parts = parts.iter().map(|(name, value)| format!("{name}: {value}"));
        Text::new(parts.collect::<Vec<_>>().join(", "))
    }

    /// A command on the redrive.
    pub fn tool(&self, command: &str) -> String {
        format!(
            "coroner {command}{} {}",
            vhost_flag(&self.vhost),
            self.id.shell()
        )
    }

    /// The path of an action on it.
    pub fn act(&self, action: &str) -> String {
        format!("/ui/do/{action}?{}", self.query())
    }
}

/// The page of all redrives.
#[derive(Template, Debug)]
#[template(path = "redrives.html")]
pub struct Redrives {
    pub frame: Frame,
    pub jobs: Vec<Job>,
}

/// The page of a redrive.
#[derive(Template, Debug)]
#[template(path = "redrive.html")]
pub struct Redrive {
    pub frame: Frame,
    pub job: Job,
    /// Whether the user made it, or is an administrator.
    pub may_steer: bool,
}

answer! {
    /// A queue that a dry run found.
    pub struct ForeseenTarget {
        pub queue: Text,
        pub messages: Count,
        pub consumers: Count,
        pub room: Option<Count>,
    }

    /// What a dry run would pass, and why.
    #[derive(Copy)]
    pub struct Passed {
        pub held: Count,
        pub no_target: Count,
        pub not_allowed: Count,
        pub same_queue: Count,
    }

    /// What a redrive would do.
    pub struct Forecast {
        pub matched: Count,
        pub scanned: Count,
        pub complete: bool,
        pub targets: Vec<ForeseenTarget>,
        pub discarded: Count,
        pub skipped: Passed,
        pub sample: Vec<Text>,
        pub warnings: Vec<Text>,
    }
}

impl Forecast {
    /// The number of messages that would be moved.
    pub fn moved(&self) -> Count {
        Count(self.targets.iter().map(|target| target.messages.0).sum())
    }

    /// Where they would go, in a few words.
    pub fn to(&self) -> String {
        match self.targets.as_slice() {
            [one] => one.queue.to_string(),
            [one, other] => format!("{} and {}", one.queue, other.queue),
            several => format!("{} queues", several.len()),
        }
    }
}

/// What is asked for in the form, as it stands in its fields.
#[derive(Clone, Default, Debug)]
pub struct Asked {
    pub vhost: Text,
    pub source: Text,
    pub filter: FilterBar,
    pub kind: String,
    pub to_queue: Text,
    pub to_exchange: Text,
    pub key: Text,
    pub rate: Text,
    pub max: Text,
    pub ramp: String,
    pub note: Text,
    pub is_unsafe: bool,
}

impl Asked {
    /// The kinds of targets, with their labels.
    pub const KINDS: [(&'static str, &'static str); 6] = [
        ("origin", "the queue each failed in"),
        ("first", "the queue of each first death"),
        ("original", "exchange and keys of each first death"),
        ("queue", "this queue"),
        ("exchange", "this exchange"),
        ("discard", "nowhere: discard them"),
    ];

    /// Whether this kind of target is asked for.
    pub fn is_kind(&self, kind: &str) -> bool {
        self.kind == kind
    }

    /// Whether this is asked for of batches.
    pub fn is_ramp(&self, ramp: &str) -> bool {
        self.ramp == ramp
    }

    /// Everything that is asked for, as a query: what was previewed is what is made.
    pub fn query(&self) -> String {
        let mut query = format!(
            "vhost={}&source={}",
            self.vhost.query(),
            self.source.query()
        );
        query.push_str(&self.filter.query());
        for (name, value) in [
            ("target", self.kind.as_str()),
            ("to_queue", self.to_queue.raw()),
            ("to_exchange", self.to_exchange.raw()),
            ("key", self.key.raw()),
            ("rate", self.rate.raw()),
            ("max", self.max.raw()),
            ("ramp", self.ramp.as_str()),
            ("note", self.note.raw()),
            ("unsafe", if self.is_unsafe { "true" } else { "" }),
        ] {
            if !value.is_empty() {
                query.push('&');
                query.push_str(name);
                query.push('=');
                query.push_str(&encoded(value));
            }
        }
        query
    }

    /// The command that does the same.
    pub fn command(&self, id: &str) -> String {
        let mut command = format!(
            "coroner redrive{} {}",
            vhost_flag(&self.vhost),
            self.source.shell()
        );
        command.push_str(&self.filter.flags());
        let mut flag = |flag: &str, value: &str| {
            if !value.is_empty() {
                command.push(' ');
                command.push_str(flag);
                command.push(' ');
                command.push_str(&shell(value));
            }
        };
        match self.kind.as_str() {
            "queue" => flag("--to-queue", self.to_queue.raw()),
            "exchange" => {
                flag("--to-exchange", self.to_exchange.raw());
                flag("--to-key", self.key.raw());
            }
            _ => {}
        }
        flag("--rate", self.rate.raw());
        flag("--max", self.max.raw());
        flag("--ramp", &self.ramp);
        flag("--note", self.note.raw());
        flag("--id", id);
        let switch = match self.kind.as_str() {
            "first" => " --to-first",
            "original" => " --to-original",
            "discard" => " --discard",
            _ => "",
        };
        command.push_str(switch);
        if self.is_unsafe {
            command.push_str(" --unsafe");
        }
        command
    }
}

/// The form that makes a redrive, with the dry run of what stands in it.
#[derive(Template, Debug)]
#[template(path = "redrive_new.html")]
pub struct NewRedrive {
    pub frame: Frame,
    pub asked: Asked,
    /// The id that it would have.
    pub id: String,
    pub forecast: Option<Forecast>,
    /// Why there is no dry run.
    pub refused: Option<Text>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_a_command_too() {
        let asked = Asked {
            vhost: Text::new("shop"),
            source: Text::new("orders.dlq"),
            filter: FilterBar {
                state: String::new(),
                parts: vec![("condition".to_owned(), Text::new("app:it's"))],
            },
            kind: "queue".to_owned(),
            to_queue: Text::new("orders new"),
            rate: Text::new("50"),
            ramp: "true".to_owned(),
            ..Asked::default()
        };
        assert_eq!(
            asked.command("fix"),
            "coroner redrive -p shop orders.dlq --condition 'app:it'\\''s' --to-queue 'orders new' \
             --rate 50 --ramp true --id fix"
        );
        assert_eq!(
            asked.query(),
            "vhost=shop&source=orders.dlq&condition=app%3Ait%27s&target=queue&to_queue=orders%20new\
             &rate=50&ramp=true"
        );
    }
}
