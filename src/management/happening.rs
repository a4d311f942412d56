//! Events as a program that embeds the broker is told of them. [evidence part 10]

use crate::base::Name;
use crate::broker::DropCause;
use crate::broker::death_counts::DeathOutcome;
use crate::broker::event::{EventKind, VhostEvent};
use crate::broker::redrive::RedriveCause;
use crate::deaths::Reason;
use crate::search::message_id_text;

/// Something that happened in a vhost, see `Admin::events`. Its words are those of `GET /api/events`.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Happening {
    /// Its number: rising in a vhost, across restarts.
    pub number: u64,
    /// Milliseconds since 1970.
    pub time: i64,
    /// The vhost of that queue.
    pub vhost: String,
    /// The queue that it happened in.
    pub queue: String,
    /// What it is: `death`, `dead-lettered`, `dropped`, `quarantined`, `redriven`, `redrive`,
    /// `consumer-timeout`.
    pub kind: &'static str,
    /// Why the message died, if it did.
    pub reason: Option<&'static str>,
    /// What became of a dead letter: `dead_lettered`, `dropped`, `quarantined` or `waiting`.
    pub outcome: Option<&'static str>,
    /// Why it was dropped or quarantined; of a redrive, why it is in its state.
    pub cause: Option<&'static str>,
    /// Messages: as a rule 1, more if several were dropped together, 0 of a redrive as a whole.
    pub messages: u64,
    /// The queues that took the message, the first of them.
    pub targets: Vec<String>,
    /// The position of the message in its queue; none: it concerns several, or none.
    pub position: Option<u64>,
    /// The message-id; none: there is none, or it is not in memory.
    pub message_id: Option<String>,
    /// The condition of the error that the consumer gave.
    pub condition: Option<String>,
    /// The id of the redrive.
    pub redrive: Option<String>,
    /// The state of the redrive from now on.
    pub state: Option<&'static str>,
    /// Events in front of this one that were not told: they were not kept any more.
    pub missed: u64,
}

impl Happening {
    /// An event of a vhost, and how many are missing in front of it.
    pub(crate) fn of(vhost: &Name, event: &VhostEvent, missed: u64) -> Self {
        let about = event.message.as_ref();
        let message = about.and_then(|about| about.message.as_deref());
        let entry = about.and_then(|about| about.entry(&event.queue, event.reason()));
        let unwritten = about.and_then(|about| about.unwritten.as_ref());
        let evidence = match entry {
            Some(entry) => entry.evidence.as_deref(),
            None => unwritten.and_then(|unwritten| unwritten.evidence.as_deref()),
        };
        let mut told = Self {
            number: event.number,
            time: event.time.0,
            vhost: vhost.to_string(),
            queue: event.queue.to_string(),
            kind: event.first_type().as_str(),
            reason: event.reason().map(Reason::as_str),
            outcome: None,
            cause: event.cause().map(DropCause::as_str),
            messages: 1,
            targets: event.targets().map_or_else(Vec::new, |targets| {
                targets.names.iter().map(Name::to_string).collect()
            }),
            position: about.map(|about| about.position.0),
            message_id: message.and_then(message_id_text),
            condition: evidence.and_then(|it| it.shown().0.map(|name| name.to_string())),
            redrive: None,
            state: None,
            missed,
        };
        match &event.kind {
            EventKind::Death { outcome, .. } => {
                let word = |outcome: DeathOutcome| outcome.words().0;
                told.outcome = Some(outcome.map_or("waiting", word));
            }
            EventKind::Dropped { messages, .. } => told.messages = *messages,
            EventKind::Redriven { job, .. } => told.redrive = Some(job.to_string()),
            EventKind::Redrive(news) => {
                told.messages = 0;
                told.redrive = Some(news.id.to_string());
                told.state = Some(news.state.as_str());
                told.cause = news.cause.map(RedriveCause::as_str);
            }
            EventKind::DeadLettered { .. }
            | EventKind::Quarantined { .. }
            | EventKind::ConsumerTimeout { .. } => {}
        }
        told
    }
}
