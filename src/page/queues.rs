//! The page of all queues.

use askama::Template;
use serde_json::Value;

use super::answer::{FromAnswer, read_field};
use super::frame::Frame;
use super::queue::escaped;
use super::show::{Bytes, Count, Rate, Text, shell};

answer! {
    /// Deaths by their reason.
    #[derive(Copy)]
    pub struct ByReason {
        pub rejected: Count,
        pub expired: Count,
        pub maxlen: Count,
        pub delivery_limit: Count,
    }
}

impl ByReason {
    /// Each reason with deaths.
    pub fn given(&self) -> Vec<(&'static str, Count)> {
        let all = [
            ("rejected", self.rejected),
            ("expired", self.expired),
            ("maxlen", self.maxlen),
            ("delivery_limit", self.delivery_limit),
        ];
        all.into_iter()
            .filter(|(_, count)| !count.is_zero())
            .collect()
    }
}

answer! {
    /// What was counted of dead letters in a queue.
    pub struct DeadLetters {
        pub deaths: ByReason,
        pub taken: Count,
    }

    /// Where dead letters of a queue are sent, and by which rule.
    pub struct DeadLetterTo {
        pub exchange: Text,
        pub routing_key: Option<Text>,
        pub rule: Text,
    }
}

impl DeadLetterTo {
    /// Exchange and key in words.
    pub fn words(&self) -> Text {
        let exchange = match self.exchange.raw() {
            "" => "the default exchange",
            name => name,
        };
        Text::new(match &self.routing_key {
            Some(key) => format!("{exchange} with '{}'", key.raw()),
            None => exchange.to_owned(),
        })
    }
}

answer! {
    /// A rate of an answer.
    #[derive(Copy)]
    pub struct Details {
        pub rate: Rate,
    }

    /// Counts and rates of a queue.
    #[derive(Copy)]
    pub struct QueueStats {
        pub publish_details: Details,
        pub deliver_get_details: Details,
        pub ack_details: Details,
        pub dead_details: Details,
    }

    /// A queue as it is listed.
    pub struct QueueRow {
        pub name: Text,
        pub vhost: Text,
        pub kind: Text = "type",
        pub durable: bool,
        pub exclusive: bool,
        pub auto_delete: bool,
        pub messages: Count,
        pub messages_ready: Count,
        pub messages_unacknowledged: Count,
        pub messages_delayed: Count,
        pub messages_dead_pending: Count,
        pub message_bytes: Bytes,
        pub memory: Bytes,
        pub consumers: Count,
        pub dead_letters: DeadLetters,
        /// Where its dead letters are sent; none: nowhere.
        pub dead_letter_to: Option<DeadLetterTo>,
        pub message_stats: QueueStats,
        pub policy: Text,
        pub operator_policy: Text,
        pub arguments: Value,
        pub effective_policy_definition: Value,
        /// The rules that the linter found it to break; the page's, not the API's.
        pub rules: Vec<Text>,
    }
}

impl QueueRow {
    /// The link to what the linter found: the graph around the queue.
    pub fn findings(&self) -> String {
        let (vhost, name) = (self.vhost.query(), self.name.query());
        format!("/ui/graph?vhost={vhost}&around={name}")
    }

    /// The query of its page.
    pub fn query(&self) -> String {
        format!("vhost={}&name={}", self.vhost.query(), self.name.query())
    }

    /// Deaths in the last minute, at the rate of now.
    pub const fn deaths_a_minute(&self) -> Rate {
        self.message_stats.dead_details.rate.a_minute()
    }
}

/// A page of a listing.
#[derive(Clone, Default, Debug)]
pub struct Paged<T> {
    pub items: Vec<T>,
    pub page: u64,
    pub page_count: u64,
    pub filtered_count: Count,
    pub total_count: Count,
}

impl<T: FromAnswer> FromAnswer for Paged<T> {
    fn is_kind(answer: &Value) -> bool {
        answer.is_object()
    }

    fn read(&mut self, answer: &mut Value) {
        read_field(&mut self.items, "items", answer);
        read_field(&mut self.page, "page", answer);
        read_field(&mut self.page_count, "page_count", answer);
        read_field(&mut self.filtered_count, "filtered_count", answer);
        read_field(&mut self.total_count, "total_count", answer);
    }
}

impl<T> Paged<T> {
    /// The page before this one.
    pub const fn before(&self) -> Option<u64> {
        if self.page > 1 {
            Some(self.page - 1)
        } else {
            None
        }
    }

    /// The page behind this one.
    pub const fn behind(&self) -> Option<u64> {
        if self.page < self.page_count {
            Some(self.page + 1)
        } else {
            None
        }
    }
}

/// How a listing is searched and sorted.
#[derive(Clone, Default, Debug)]
pub struct Search {
    pub path: &'static str,
    pub vhost: Text,
    pub vhosts: Vec<Text>,
    pub name: Text,
    pub sort: String,
    pub is_descending: bool,
}

impl Search {
    /// The link to this listing, sorted by a column, or the other way round if it is already.
    pub fn by(&self, column: &str) -> String {
        let is_same = self.sort == column;
        let descending = if is_same {
            !self.is_descending
        } else {
            column != "name"
        };
        format!("{}&sort={column}&sort_reverse={descending}", self.base())
    }

    /// The link to another page of it.
    pub fn page(&self, page: u64) -> String {
        let (sort, descending) = (&self.sort, self.is_descending);
        format!(
            "{}&sort={sort}&sort_reverse={descending}&page={page}",
            self.base()
        )
    }

    /// What a screen reader is told of a column.
    pub fn order(&self, column: &str) -> &'static str {
        match (self.sort == column, self.is_descending) {
            (true, true) => "descending",
            (true, false) => "ascending",
            (false, _) => "none",
        }
    }

    fn base(&self) -> String {
        let (vhost, name) = (self.vhost.query(), self.name.query());
        format!("{}?vhost={vhost}&search={name}", self.path)
    }
}

/// The page of all queues.
#[derive(Template, Debug)]
#[template(path = "queues.html")]
pub struct Queues {
    pub frame: Frame,
    pub search: Search,
    pub queues: Paged<QueueRow>,
}

impl Queues {
    /// The command that lists the same.
    pub fn command(&self) -> String {
        let Search { vhost, name, .. } = &self.search;
        let mut command = vec!["coroner list_queues".to_owned()];
        // Without it the command lists those of all vhosts, as the page does.
        if !vhost.is_empty() {
            command.push(format!("-p {}", vhost.shell()));
        }
        if !name.is_empty() {
            command.push(format!("--name {}", shell(&escaped(name.raw()))));
        }
        command.join(" ")
    }

    /// The link to the page of the list before this one.
    pub fn before(&self) -> Option<String> {
        self.queues.before().map(|page| self.search.page(page))
    }

    /// The link to the page of the list behind this one.
    pub fn behind(&self) -> Option<String> {
        self.queues.behind().map(|page| self.search.page(page))
    }

    /// The columns that can be sorted by: field, heading, whether it is a number.
    pub const fn columns(&self) -> [(&'static str, &'static str, bool); 8] {
        [
            ("name", "Queue", false),
            ("type", "Type", false),
            ("messages_ready", "Ready", true),
            ("messages_unacknowledged", "Held", true),
            ("messages_delayed", "Delayed", true),
            ("messages_dead_pending", "Dead pending", true),
            ("consumers", "Consumers", true),
            ("message_stats.dead_details.rate", "Deaths a minute", true),
        ]
    }
}
