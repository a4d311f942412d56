//! The first page: what died, what needs somebody.

use askama::Template;

use super::frame::Frame;
use super::message::Death;
use super::queue::{Group, queue_link};
use super::queues::{Details, QueueRow};
use super::show::{Count, Rate, Span, Text, When, encoded};

answer! {
    /// The overview's counters.
    pub struct Overview {
        pub message_stats: OverviewStats,
        pub object_totals: Objects,
    }

    /// Counters of all vhosts that the user sees.
    #[derive(Copy)]
    pub struct OverviewStats {
        pub dead: Count,
        pub dead_details: Details,
    }

    /// Numbers of objects.
    #[derive(Copy)]
    pub struct Objects {
        pub queues: Count,
    }
}

/// A group of dead letters in some queue, with one message of it.
#[derive(Clone, Debug)]
pub struct GroupIn {
    pub queue: QueueRow,
    pub group: Group,
    /// The latest death of a message of the group.
    pub death: Option<Death>,
}

impl GroupIn {
    /// How long after its latest death a group still grows, in milliseconds.
    const GROWS_MS: i64 = 10 * 60 * 1_000;

    /// Whether a message of it died lately.
    pub fn grows(&self, now: i64) -> bool {
        self.group
            .newest
            .0
            .is_some_and(|newest| now.saturating_sub(newest) < Self::GROWS_MS)
    }

    /// The link to its messages.
    pub fn link(&self) -> String {
        let base = queue_link(self.queue.vhost.raw(), self.queue.name.raw());
        format!(
            "{base}&tab=messages&group={}",
            encoded(self.group.key.raw())
        )
    }
}

answer! {
    /// A finding of the linter.
    pub struct Finding {
        pub rule: Text,
        pub severity: Text,
        pub vhost: Text,
        pub object: Object,
        pub says: Text,
    }

    /// What a finding is about.
    pub struct Object {
        pub kind: Text,
        pub name: Text,
    }
}

/// Something that needs somebody.
#[derive(Clone, Debug)]
pub struct Need {
    /// How bad it is, as a class of the style sheet: `bad` or `so-so`.
    pub class: &'static str,
    /// The kind of need in a word.
    pub kind: &'static str,
    pub what: Text,
    /// Where to go; none: there is no page for it.
    pub link: Option<String>,
}

/// The first page.
#[derive(Template, Debug)]
#[template(path = "deaths.html")]
pub struct Deaths {
    pub frame: Frame,
    pub deaths: Count,
    pub rate: Rate,
    pub dead_letters: Count,
    pub quarantined: Count,
    pub oldest: When,
    pub needs: Vec<Need>,
    /// Queues with dead letters.
    pub queues: Vec<QueueRow>,
    pub groups: Vec<GroupIn>,
    /// Whether groups were looked for in the largest queues only.
    pub is_partial: bool,
}

impl Deaths {
    /// How long ago something was.
    pub fn ago(&self, when: &When) -> String {
        when.0.map_or_else(
            || "-".to_owned(),
            |at| format!("{} ago", Span::between(at, self.frame.now)),
        )
    }

    /// Whether a message of a group died lately.
    pub fn grows(&self, found: &GroupIn) -> bool {
        found.grows(self.frame.now)
    }

    /// Whether nothing ever died, and nothing dead waits.
    pub fn is_quiet(&self) -> bool {
        self.deaths.is_zero() && self.dead_letters.is_zero() && self.quarantined.is_zero()
    }
}
