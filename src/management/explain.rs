//! The explanation of one message: its life so far, where it is, and what would happen next.
//! [evidence part 7]

use crate::base::{Millis, Now};
use crate::broker::arguments::OnUndeliverable;
use crate::broker::policy::EffectiveSettings;
use crate::broker::queue::MessageState;
use crate::broker::{Becomes, Content, Event, Explained, Foresight, Origins};
use crate::deaths::{Entry, Evidence, How, Reason, Redrives, Viewer};
use crate::message::Message;

/// What there is to tell about one message at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Explanation {
    /// The moment, in milliseconds since 1970: what was foreseen may have changed since.
    pub as_of: i64,
    /// What happened to the message, oldest first, as far as it is known.
    pub life: Vec<LifeStep>,
    /// Where it is.
    pub now: Whereabouts,
    /// What may happen to it next.
    pub next: Vec<NextStep>,
}

/// Something that happened to a message.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct LifeStep {
    /// When, in milliseconds since 1970: of several times the last; none: not known.
    pub at: Option<i64>,
    /// The first of several times, in milliseconds since 1970.
    pub first_at: Option<i64>,
    /// `published`, `entered`, `died`, `folded`, `redriven` or `failed`.
    pub what: &'static str,
    /// The queue; of `published` the exchange; of `redriven` the queue or exchange that it was sent
    /// to.
    pub place: String,
    /// The queue that it was moved from, of `redriven`.
    pub from: Option<String>,
    /// The id of the job, of `redriven`.
    pub job: Option<String>,
    /// Deaths until then, of `redriven`.
    pub deaths: Option<u64>,
    /// The routing keys, of `published`.
    pub routing_keys: Vec<String>,
    /// The reason of a death, or how a delivery failed.
    pub why: Option<&'static str>,
    /// How many times.
    pub count: u64,
    /// The rule by which: of `died` what set the dead-letter exchange, of `entered` the binding that
    /// leads there now.
    pub rule: Option<String>,
    /// The condition that the consumer gave.
    pub condition: Option<String>,
    /// The description that the consumer gave.
    pub description: Option<String>,
    /// The consumer that caused it; of `redriven` the user that made the job.
    pub by: Option<Culprit>,
}

/// A consumer, as far as whoever asks may know it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Culprit {
    /// What it did, such as `rejected` or `connection-lost`; none: it still holds the message.
    pub how: Option<&'static str>,
    /// Container id of its connection.
    pub container: Option<String>,
    /// The name of its link.
    pub link: Option<String>,
    /// The user it logged in as.
    pub user: Option<String>,
    /// The address of its connection.
    pub address: Option<String>,
}

/// Where a message is.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Whereabouts {
    /// The queue it is in.
    pub queue: String,
    /// Its position in the queue.
    pub position: u64,
    /// `ready`, `unacknowledged`, `delayed` or `dead_pending`.
    pub state: &'static str,
    /// When it entered the queue, in milliseconds since 1970.
    pub since: i64,
    /// Until when it is delayed, in milliseconds since 1970; none: it is not.
    pub delayed_until: Option<i64>,
    /// Ready messages that are served before it.
    pub ahead: u64,
    /// Failed deliveries in this queue.
    pub failures: u32,
    /// Number of the queue's consumers.
    pub consumers: u64,
    /// When it expires, in milliseconds since 1970; none: never.
    pub expires_at: Option<i64>,
    /// The rule by which it expires: `message` is its own time to live.
    pub rule: Option<String>,
    /// The consumer that holds it.
    pub held_by: Option<Culprit>,
    /// The settings of the queue that decide about it, with the rule that gave each.
    pub settings: Vec<TracedSetting>,
}

/// A setting of a queue, and where it comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct TracedSetting {
    /// The policy key, such as `dead-letter-exchange`.
    pub key: &'static str,
    /// The value, as text.
    pub value: String,
    /// `argument`, `policy NAME`, `operator-policy NAME`, or `default`.
    pub rule: String,
}

/// Something that may happen to a message, and what would become of it.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct NextStep {
    /// `accepted`, `rejected`, `failed`, `expired`, `maxlen`, `retried` or `redriven` (to the queue
    /// in which it failed last).
    pub event: &'static str,
    /// `gone`, `requeued`, `dead_lettered`, `dead_pending`, `quarantined` or `dropped`; of
    /// `redriven` `moved`, `skipped` or `waiting`.
    pub verdict: &'static str,
    /// The reason of its death; none: it does not die.
    pub reason: Option<&'static str>,
    /// Why it is quarantined, dropped or not moved; none if it is none of these.
    pub cause: Option<&'static str>,
    /// Whether it stays in its queue, dead, until there is a target with room.
    pub waits: bool,
    /// The exchange that its dead letter is sent to; none: it is sent nowhere.
    pub exchange: Option<String>,
    /// The routing keys that it is sent with.
    pub routing_keys: Vec<String>,
    /// The queues that it enters.
    pub targets: Vec<TargetQueue>,
    /// The queues that are passed over: name (none: deleted), and `cycle`, `full` or `gone`; of
    /// `redriven` also `same_queue` or `not_allowed`.
    pub skipped: Vec<(Option<String>, &'static str)>,
    /// The rule that decides: what set the dead-letter exchange, or the delivery limit.
    pub rule: Option<String>,
}

/// A queue that a message would enter.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct TargetQueue {
    /// The queue's name.
    pub queue: String,
    /// Number of its consumers; none: the queue does not exist yet.
    pub consumers: Option<u64>,
    /// Number of its ready messages.
    pub messages: Option<u64>,
    /// Limit of ready messages; none: unlimited.
    pub max_length: Option<u64>,
    /// Whether the message dies there at once, since the queue is full.
    pub dies: bool,
}

impl Explanation {
    /// The explanation for somebody who may see what this viewer may; none if the bytes of the
    /// message are not there. Matches policies with the queue's name: not for use under a lock.
    pub fn of(explained: &Explained, viewer: Viewer<'_>) -> Option<Self> {
        let Content::Here(message, _) = &explained.content else {
            return None;
        };
        let name = &explained.queue.name;
        let of = |operator| {
            let queue_type = explained.arguments.queue_type;
            explained.policies.of_queue(operator, name, queue_type)
        };
        let origins = Origins::of(&explained.arguments, of(false), of(true));
        let next = explained.next.iter();
        let step = |(event, foresight): &(_, _)| {
            let step = step(explained, &origins, event, foresight);
            match event {
                Event::Redriven(_) => with_origin(step, message),
                _ => step,
            }
        };
        Some(Self {
            as_of: explained.as_of.wall.0,
            life: life(explained, message, viewer),
            now: whereabouts(explained, &origins, viewer),
            next: next.map(step).collect(),
        })
    }
}

fn text(name: &crate::base::Name) -> String {
    name.to_string()
}

fn texts(names: &[crate::base::Name]) -> Vec<String> {
    names.iter().map(text).collect()
}

/// A monotonic time as milliseconds since 1970, by the clocks of that moment.
fn wall(now: Now, time: Millis) -> i64 {
    let (time, mono) = (i64::try_from(time.0), i64::try_from(now.mono.0));
    let ahead = time.unwrap_or(i64::MAX).saturating_sub(mono.unwrap_or(0));
    now.wall.0.saturating_add(ahead)
}

fn life(explained: &Explained, message: &Message, viewer: Viewer<'_>) -> Vec<LifeStep> {
    let Content::Here(_, route) = &explained.content else {
        return Vec::new();
    };
    let mut life = Vec::new();
    let (route, entered) = match &explained.published {
        Some((route, queue, binding)) => (route, Some((queue, binding))),
        None => (&**route, None),
    };
    life.push(LifeStep {
        what: "published",
        place: text(&route.exchange),
        routing_keys: texts(&route.keys),
        count: 1,
        ..LifeStep::default()
    });
    if let Some((queue, binding)) = entered {
        life.push(LifeStep {
            what: "entered",
            place: text(queue),
            rule: binding.as_ref().map(|key| format!("binding {key}")),
            count: 1,
            ..LifeStep::default()
        });
    }
    if let Some(history) = message.history() {
        let deaths = history.entries().iter().rev();
        let mut deaths: Vec<LifeStep> = deaths.map(|entry| death(entry, viewer)).collect();
        if let Some(folded) = history.folded() {
            let until = folded.until().0;
            // The first death is never folded.
            let place = usize::from(deaths.first().is_some_and(|first| first.at <= Some(until)));
            let folded = LifeStep {
                at: Some(until),
                what: "folded",
                count: folded.deaths(),
                ..LifeStep::default()
            };
            deaths.insert(place, folded);
        }
        if let Some(redrives) = message.redrives() {
            tell_redrives(&mut deaths, redrives);
        }
        life.append(&mut deaths);
    }
    life.push(LifeStep {
        at: Some(wall(explained.as_of, explained.arrived)),
        what: "entered",
        place: text(&explained.queue.name),
        rule: (explained.entered_by.as_ref()).map(|key| format!("binding {key}")),
        count: 1,
        ..LifeStep::default()
    });
    if let Some(failure) = message.last_failure() {
        let how = failure.evidence.how;
        let (what, count) = match how {
            Some(How::ConsumerTimeout) => ("timed_out", 1),
            _ => ("failed", explained.failures.into()),
        };
        life.push(LifeStep {
            at: Some(failure.at.0),
            what,
            place: text(&explained.queue.name),
            why: how.map(How::as_str),
            count,
            ..by_evidence(&failure.evidence, viewer)
        });
    }
    life
}

/// Puts the redrives of a message among its deaths, by time.
fn tell_redrives(deaths: &mut Vec<LifeStep>, redrives: &Redrives) {
    let mut place = 0;
    for redrive in redrives.list().iter().rev() {
        let at = Some(redrive.time.0);
        let before = deaths.iter().rposition(|step| step.at <= at);
        place = place.max(before.map_or(0, |before| before + 1));
        let by = Culprit {
            user: Some(text(&redrive.by)),
            ..Culprit::default()
        };
        let step = LifeStep {
            at,
            what: "redriven",
            place: text(&redrive.to),
            from: Some(text(&redrive.from)),
            job: Some(text(&redrive.job)),
            deaths: Some(redrive.deaths),
            count: 1,
            by: Some(by),
            ..LifeStep::default()
        };
        deaths.insert(place, step);
        place += 1;
    }
}

fn death(entry: &Entry, viewer: Viewer<'_>) -> LifeStep {
    let evidence = entry.evidence.as_ref();
    LifeStep {
        at: Some(entry.last_time.0),
        first_at: Some(entry.first_time.0),
        what: "died",
        place: text(&entry.queue),
        why: Some(entry.reason.as_str()),
        count: entry.count,
        rule: evidence.and_then(|evidence| evidence.rule.as_ref().map(text)),
        ..evidence.map_or_else(LifeStep::default, |evidence| by_evidence(evidence, viewer))
    }
}

/// What evidence tells: the consumer's error and identity.
fn by_evidence(evidence: &Evidence, viewer: Viewer<'_>) -> LifeStep {
    let (condition, description) = evidence.shown();
    LifeStep {
        condition: condition.as_ref().map(text),
        description: description.as_ref().map(text),
        by: evidence.how.map(|_| culprit(evidence, viewer)),
        ..LifeStep::default()
    }
}

/// The consumer: names of users and addresses only for viewers who may see them.
fn culprit(evidence: &Evidence, viewer: Viewer<'_>) -> Culprit {
    let may = viewer.may_see(evidence);
    Culprit {
        how: evidence.how.map(How::as_str),
        container: evidence.container.as_ref().map(text),
        link: evidence.link.as_ref().map(text),
        user: evidence.user.as_ref().filter(|_| may).map(text),
        address: evidence.address.as_ref().filter(|_| may).map(text),
    }
}

fn whereabouts(explained: &Explained, origins: &Origins, viewer: Viewer<'_>) -> Whereabouts {
    let rule = match explained.deadline {
        None => None,
        Some(_) if explained.is_deadline_own => Some("message".to_owned()),
        Some(_) => Some(rule(origins, |settings| settings.message_ttl_ms)),
    };
    Whereabouts {
        queue: text(&explained.queue.name),
        position: explained.position.0,
        state: match explained.state {
            MessageState::Ready => "ready",
            MessageState::Held => "unacknowledged",
            MessageState::Dying => "dead_pending",
            MessageState::Delayed => "delayed",
        },
        since: wall(explained.as_of, explained.arrived),
        delayed_until: explained.delayed_until.map(|until| until.0),
        ahead: explained.ahead,
        failures: explained.failures,
        consumers: explained.queue.consumers,
        expires_at: (explained.deadline).map(|deadline| wall(explained.as_of, deadline)),
        rule,
        held_by: (explained.holder.as_ref()).map(|evidence| culprit(evidence, viewer)),
        settings: settings(explained, origins),
    }
}

/// The rule that gave a value, in words.
fn rule<T: PartialEq>(origins: &Origins, value: impl Fn(&EffectiveSettings) -> T) -> String {
    let rule = origins.rule_of(value);
    rule.map_or_else(|| "default".to_owned(), |rule| text(&rule.words()))
}

/// The settings that decide what becomes of the messages of a queue, but those that are not set.
fn settings(explained: &Explained, origins: &Origins) -> Vec<TracedSetting> {
    let settings = &explained.settings;
    let by = |value: &dyn Fn(&EffectiveSettings) -> Option<u64>| rule(origins, value);
    let choice = settings.on_undeliverable.unwrap_or(explained.undeliverable);
    let number = |value: Option<u64>| value.map(|value| value.to_string());
    let exchange_rule = settings.dead_letter_rule.as_ref();
    let has_exchange = settings.dead_letter_exchange.is_some();
    let all = [
        (
            "dead-letter-exchange",
            settings.dead_letter_exchange.as_ref().map(text),
            exchange_rule.map_or_else(String::new, |rule| text(&rule.words())),
        ),
        (
            "dead-letter-routing-key",
            settings.dead_letter_routing_key.as_ref().map(text),
            rule(origins, |settings| settings.dead_letter_routing_key.clone()),
        ),
        (
            "dead-letter-strategy",
            has_exchange.then(|| settings.dead_letter_strategy.as_str().to_owned()),
            rule(origins, |settings| settings.dead_letter_strategy),
        ),
        (
            "on-undeliverable",
            (has_exchange || choice == OnUndeliverable::Quarantine)
                .then(|| choice.as_str().to_owned()),
            rule(origins, |settings| settings.on_undeliverable),
        ),
        (
            "delivery-limit",
            number(settings.delivery_limit.map(u64::from)),
            by(&|settings| settings.delivery_limit.map(u64::from)),
        ),
        (
            "message-ttl",
            number(settings.message_ttl_ms),
            by(&|settings| settings.message_ttl_ms),
        ),
        (
            "max-length",
            number(settings.max_length),
            by(&|settings| settings.max_length),
        ),
        (
            "max-length-bytes",
            number(settings.max_length_bytes),
            by(&|settings| settings.max_length_bytes),
        ),
    ];
    let set = all.into_iter().filter_map(|(key, value, rule)| {
        let value = value?;
        Some(TracedSetting { key, value, rule })
    });
    set.collect()
}

fn step(
    explained: &Explained,
    origins: &Origins,
    event: &Event,
    foresight: &Foresight,
) -> NextStep {
    let settings = &explained.settings;
    let sent_by = settings.dead_letter_rule.as_ref();
    let rule = match foresight.becomes {
        Becomes::Gone | Becomes::Moved | Becomes::NotMoved(_) => None,
        Becomes::Requeued => settings
            .delivery_limit
            .map(|_| rule(origins, |settings| settings.delivery_limit)),
        Becomes::DeadLettered | Becomes::DeadPending => sent_by.map(|rule| text(&rule.words())),
        Becomes::Quarantined(_) | Becomes::Dropped(_) => {
            let has_choice = settings.keeps_dead();
            has_choice.then(|| rule(origins, |settings| settings.on_undeliverable))
        }
    };
    let targets = foresight.targets.iter().map(|target| {
        let queue = target.id.and_then(|id| explained.queues.get(&id));
        TargetQueue {
            queue: text(&target.queue),
            consumers: queue.map(|queue| queue.consumers),
            messages: queue.map(|queue| queue.ready),
            max_length: queue.and_then(|queue| queue.max_length),
            dies: target.dies,
        }
    });
    let skipped = foresight.skipped.iter().map(|(id, why)| {
        let queue = explained.queues.get(id);
        (queue.map(|queue| text(&queue.name)), why.as_str())
    });
    let way = foresight.way.as_ref();
    NextStep {
        event: match event {
            Event::Accepted => "accepted",
            Event::Rejected { .. } => "rejected",
            Event::Returned { .. } => "failed",
            Event::Dies(reason) => reason.as_str(),
            Event::Retried => "retried",
            Event::Redriven(_) => "redriven",
        },
        verdict: foresight.becomes.as_str(),
        reason: foresight.reason.map(Reason::as_str),
        cause: foresight.becomes.cause(),
        waits: foresight.waits,
        exchange: way.map(|way| text(&way.exchange)),
        routing_keys: way.map_or_else(Vec::new, |way| texts(&way.keys)),
        targets: targets.collect(),
        skipped: skipped.collect(),
        rule,
    }
}

/// Names the queue in which a message failed last, where that is why a redrive passes it.
fn with_origin(step: NextStep, message: &Message) -> NextStep {
    let why = match step.cause {
        Some("no_target") => "gone",
        Some(why @ ("same_queue" | "not_allowed")) => why,
        _ => return step,
    };
    let origin = message.history().map(|history| &history.origin().queue);
    let skipped = vec![(origin.map(text), why)];
    NextStep { skipped, ..step }
}
