//! The page with what happened lately.

use askama::Template;

use super::frame::Frame;
use super::show::Text;

/// The types of events, as the API has them.
pub const TYPES: [&str; 7] = [
    "death",
    "dead-lettered",
    "dropped",
    "quarantined",
    "redriven",
    "redrive",
    "consumer-timeout",
];

/// The page with the latest events, newest first.
#[derive(Template, Debug)]
#[template(path = "events.html")]
pub struct EventsPage {
    pub frame: Frame,
    /// Only those of this type, of this queue; empty: all.
    pub kind: Text,
    pub queue: Text,
    pub events: Vec<EventRow>,
}

impl EventsPage {
    /// The command that shows the same.
    pub fn command(&self) -> String {
        let mut command = "coroner events --follow".to_owned();
        for (flag, value) in [("--type", &self.kind), ("--queue", &self.queue)] {
            if !value.is_empty() {
                command = format!("{command} {flag} {}", value.shell());
            }
        }
        command
    }
}

answer! {
    /// An event as the API tells it.
    pub struct EventRow {
        pub kind: Text = "type",
        pub time: Text,
        pub subject: Text,
        pub data: EventData,
    }

    /// What is told of an event, as far as the page shows it.
    pub struct EventData {
        pub vhost: Text,
        pub queue: Text,
        pub reason: Text,
        pub outcome: Text,
        pub cause: Text,
        pub state: Text,
        pub redrive: Text,
        pub targets: Vec<Text>,
        pub error: EventError,
    }

    /// What the consumer said.
    pub struct EventError {
        pub condition: Text,
        pub description: Text,
    }
}

impl EventRow {
    /// Its type without what is the same for all.
    pub fn word(&self) -> &str {
        let word = self.kind.raw();
        let word = word.strip_prefix("coroner.").unwrap_or(word);
        word.strip_suffix(".v1").unwrap_or(word)
    }

    /// Where its queue is shown.
    pub fn link(&self) -> String {
        let (vhost, queue) = (self.data.vhost.query(), self.data.queue.query());
        format!("/ui/queue?vhost={vhost}&name={queue}")
    }
}
