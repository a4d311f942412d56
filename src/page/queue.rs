//! The page of one queue: groups of dead letters, messages, settings, consumers.

use askama::Template;
use serde_json::Value;

use super::answer::{FromAnswer, read_field};
use super::frame::Frame;
use super::message::Death;
use super::operator::{Form, ShownForms};
use super::queues::QueueRow;
use super::show::{Bytes, Count, Scalar, Span, Text, When, encoded, shell};

/// A part of the page of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tab {
    Groups,
    Messages,
    Settings,
    Consumers,
}

impl Tab {
    /// All parts in the order in which they are shown.
    pub const ALL: [Self; 4] = [
        Self::Groups,
        Self::Messages,
        Self::Settings,
        Self::Consumers,
    ];

    /// Its word in the query.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Groups => "groups",
            Self::Messages => "messages",
            Self::Settings => "settings",
            Self::Consumers => "consumers",
        }
    }

    /// Its name on the page.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Groups => "Groups",
            Self::Messages => "Messages",
            Self::Settings => "Settings",
            Self::Consumers => "Consumers",
        }
    }

    /// The part of a word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tab| tab.as_str() == word)
    }
}

answer! {
    /// A group of dead letters.
    pub struct Group {
        pub key: Text,
        pub label: Text,
        pub count: Count,
        pub share: f64,
        pub oldest: When,
        pub newest: When,
        pub note: Option<Note>,
        pub sample: Vec<Text>,
    }

    /// What somebody wrote on a group.
    pub struct Note {
        pub text: Text,
        pub by: Text,
        pub at: When,
    }
}

impl Group {
    /// How many of a hundred, for the bar.
    pub fn percent(&self) -> String {
        format!("{:.0}", self.share * 100.0)
    }

    /// The text of the note on it, if there is one.
    pub fn noted(&self) -> &str {
        self.note.as_ref().map_or("", |note| note.text.raw())
    }
}

answer! {
    /// What groups leave out.
    #[derive(Copy)]
    pub struct Other {
        pub count: Count,
        pub groups: Count,
    }

    /// The groups of a queue.
    pub struct Groups {
        pub by: Text,
        pub groups: Vec<Group>,
        pub other: Other,
        pub matched: Count,
        pub scanned: Count,
        pub complete: bool,
        pub as_of: When,
    }

    /// A message in a list.
    pub struct Listed {
        pub position: Text,
        pub payload: Text,
        pub payload_bytes: Bytes,
        pub payload_encoding: Text,
        pub exchange: Text,
        pub routing_key: Text,
        pub amqp: ListedAmqp,
    }

    /// The sections of a message in a list.
    pub struct ListedAmqp {
        pub deaths: Vec<Death>,
    }
}

impl Listed {
    /// The latest death.
    pub fn latest(&self) -> Option<&Death> {
        self.amqp.deaths.first()
    }
}

answer! {
    /// Messages of a queue.
    pub struct Messages {
        pub messages: Vec<Listed>,
        pub next: Option<Text>,
    }
}

/// The filter of messages as it stands in the address of the page.
#[derive(Clone, Default, Debug)]
pub struct FilterBar {
    pub state: String,
    /// The parts that are given: name and value.
    pub parts: Vec<(String, Text)>,
}

impl FilterBar {
    /// The parts that fields are there for: name and label.
    pub const FIELDS: [(&'static str, &'static str); 14] = [
        ("group", "Group"),
        ("condition", "Condition"),
        ("queue", "Died in queue"),
        ("container", "Container"),
        ("user", "User"),
        ("exchange", "Exchange"),
        ("routing_key", "Routing key"),
        ("message_id", "Message id"),
        ("cause", "Cause of quarantine"),
        ("selector", "Selector"),
        ("body_contains", "Body contains"),
        ("died_after", "Died after (ms since 1970)"),
        ("died_before", "Died before (ms since 1970)"),
        ("position", "Position"),
    ];
    /// The reasons of a death.
    pub const REASONS: [&'static str; 4] = ["rejected", "expired", "maxlen", "delivery_limit"];
    /// The states of a message.
    pub const STATES: [&'static str; 4] = ["ready", "unacknowledged", "delayed", "dead_pending"];

    /// The value of a part; empty: not given.
    pub fn value(&self, part: &str) -> Text {
        let found = self.parts.iter().find(|(name, _)| name == part);
        found.map_or_else(Text::default, |(_, value)| value.clone())
    }

    /// Whether a part, or the state, has this value.
    pub fn is(&self, part: &str, value: &str) -> bool {
        match part {
            "state" => self.state == value,
            part => self.value(part).raw() == value,
        }
    }

    /// Whether any part is given.
    pub fn is_given(&self) -> bool {
        !self.parts.is_empty()
    }

    /// The parts as a query, with `&` in front of each.
    pub fn query(&self) -> String {
        let mut query = String::new();
        for (name, value) in &self.parts {
            query.extend(["&", name, "=", &value.query()]);
        }
        query
    }

    /// The parts as flags of the commands.
    pub fn flags(&self) -> String {
        let mut flags = String::new();
        for (name, value) in &self.parts {
            let name = if name == "user" {
                "consumer-user"
            } else {
                name
            };
            flags.extend([" --", &name.replace('_', "-"), " ", &value.shell()]);
        }
        flags
    }
}

answer! {
    /// A consumer of a queue.
    pub struct Consumer {
        pub consumer_tag: Text,
        pub active: bool,
        pub activity_status: Text,
        pub ack_required: bool,
        pub priority: i64,
        pub messages_unacknowledged: Count,
        pub channel_details: Channel,
    }

    /// The connection of a consumer.
    pub struct Channel {
        pub connection_name: Text,
        pub user: Text,
        pub peer_host: Text,
    }

    /// An effective setting of a queue: which rule gave it.
    pub struct Setting {
        pub key: Text,
        pub value: Scalar,
        pub rule: Text,
        /// What it beats, with the value that does not count.
        pub beats: Vec<Beaten>,
    }

    /// A value that does not count, with its rule.
    pub struct Beaten {
        pub value: Scalar,
        pub rule: Text,
    }
}

/// A queue with what it has by itself.
#[derive(Clone, Default, Debug)]
pub struct QueueAlone {
    pub row: QueueRow,
    pub consumer_details: Vec<Consumer>,
    pub settings: Vec<Setting>,
}

impl FromAnswer for QueueAlone {
    fn is_kind(answer: &Value) -> bool {
        answer.is_object()
    }

    fn read(&mut self, answer: &mut Value) {
        self.row.read(answer);
        read_field(&mut self.consumer_details, "consumer_details", answer);
        read_field(&mut self.settings, "settings", answer);
    }
}

/// What is shown of a queue.
#[derive(Debug)]
pub enum Part {
    Groups(Groups),
    Messages(Messages),
    Settings,
    Consumers,
    /// The user may not read it: neither groups nor messages.
    Unreadable,
}

/// The page of a queue.
#[derive(Template, Debug)]
#[template(path = "queue.html")]
pub struct QueuePage {
    pub frame: Frame,
    pub queue: QueueAlone,
    pub tab: Tab,
    pub part: Part,
    pub filter: FilterBar,
    pub forms: Vec<Form>,
    /// Words of the fields of deleting, which asks for the name again.
    pub by: String,
}

impl QueuePage {
    /// The forms at the end of the page.
    pub fn shown_forms(&self) -> ShownForms<'_> {
        let (forms, token) = (&self.forms, &self.frame.token);
        ShownForms { forms, token }
    }

    /// The link to a part.
    pub fn to(&self, tab: &Tab) -> String {
        format!("/ui/queue?{}&tab={}", self.queue.row.query(), tab.as_str())
    }

    /// Whether groups are by this.
    pub fn is_by(&self, by: &str) -> bool {
        self.by == by
    }

    /// The link to messages of a group.
    pub fn group(&self, group: &Group) -> String {
        let part = if self.by == "group" {
            "group"
        } else {
            &self.by
        };
        let base = self.to(&Tab::Messages);
        format!("{base}&{part}={}", group.key.query())
    }

    /// Where the form goes that writes a note on a group.
    pub fn note_action(&self, group: &Group) -> String {
        let query = self.queue.row.query();
        format!("/ui/do/set-note?{query}&key={}", group.key.query())
    }

    /// The command that writes a note on a group.
    pub fn note_command(&self, group: &Group) -> String {
        let vhost = vhost_flag(&self.queue.row.vhost);
        let (name, key) = (self.queue.row.name.shell(), group.key.shell());
        format!("coroner set_group_note{vhost} {name} {key} NOTE")
    }

    /// The link to the form that redrives a group.
    pub fn redrive_group(&self, group: &Group) -> String {
        let (vhost, name) = (self.queue.row.vhost.query(), self.queue.row.name.query());
        format!(
            "/ui/redrive/new?vhost={vhost}&source={name}&{}={}",
            self.by,
            group.key.query()
        )
    }

    /// The link to the form that redrives what the filter means.
    pub fn redrive_all(&self) -> String {
        let (vhost, name) = (self.queue.row.vhost.query(), self.queue.row.name.query());
        format!(
            "/ui/redrive/new?vhost={vhost}&source={name}{}",
            self.filter.query()
        )
    }

    /// The link to a message.
    pub fn message(&self, listed: &Listed) -> String {
        let (vhost, name) = (self.queue.row.vhost.query(), self.queue.row.name.query());
        format!(
            "/ui/message?vhost={vhost}&queue={name}&position={}",
            listed.position.query()
        )
    }

    /// The command that shows the same.
    pub fn command(&self) -> String {
        let vhost = vhost_flag(&self.queue.row.vhost);
        let name = self.queue.row.name.shell();
        match self.part {
            Part::Groups(_) => {
                let by = if self.by == "group" {
                    String::new()
                } else {
                    format!(" --by {}", self.by)
                };
                format!(
                    "coroner dead_letter_groups{vhost} {name}{by}{}",
                    self.filter.flags()
                )
            }
            Part::Messages(_) => {
                format!("coroner deaths{vhost} {name}{}", self.filter.flags())
            }
            Part::Consumers => format!("coroner list_consumers{vhost}"),
            Part::Settings | Part::Unreadable => {
                let pattern = shell(&pattern(self.queue.row.name.raw()));
                format!("coroner list_queues{vhost} name policy arguments --name {pattern}")
            }
        }
    }

    /// The query that goes on behind the messages shown.
    pub fn next(&self, from: &Text) -> String {
        let base = self.to(&Tab::Messages);
        format!(
            "{base}&state={}{}&from={}",
            self.filter.state,
            self.filter.query(),
            from.query()
        )
    }

    /// The link to these messages as lines of JSON.
    pub fn export(&self) -> String {
        let query = self.queue.row.query();
        format!(
            "/ui/export?{query}&state={}{}",
            self.filter.state,
            self.filter.query()
        )
    }

    /// JSON as it is shown.
    pub fn pretty(&self, value: &Value) -> String {
        serde_json::to_string_pretty(value).unwrap_or_default()
    }

    /// How long ago something was.
    pub fn ago(&self, when: &When) -> String {
        when.0.map_or_else(String::new, |at| {
            format!("{} ago", Span::between(at, self.frame.now))
        })
    }
}

/// The regular expression that means one name.
fn pattern(name: &str) -> String {
    format!("^{}$", escaped(name))
}

/// A regular expression that has this text in it, and nothing that means more.
pub fn escaped(text: &str) -> String {
    let mut pattern = String::new();
    for char in text.chars() {
        if char.is_ascii_punctuation() {
            pattern.push('\\');
        }
        pattern.push(char);
    }
    pattern
}

/// The flag that names a vhost, unless it is the default one.
pub fn vhost_flag(vhost: &Text) -> String {
    match vhost.raw() {
        "/" => String::new(),
        other => format!(" -p {}", shell(other)),
    }
}

/// The link to the page of a queue.
pub fn queue_link(vhost: &str, queue: &str) -> String {
    format!("/ui/queue?vhost={}&name={}", encoded(vhost), encoded(queue))
}
