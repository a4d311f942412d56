//! A message with its death history, read from JSON and told in words.

use std::fmt::Write;

use chrono::{Local, TimeZone};
use serde_json::{Map, Value, json};

use super::body::Body;
use super::redrives::Redrives;
use crate::cli::output::{pick, printable, whole_number};

/// Milliseconds in a second.
const SECOND_MS: i64 = 1000;

/// One entry of a history: a queue, a reason, a count.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::cli) struct Death {
    pub(in crate::cli) queue: String,
    pub(in crate::cli) reason: String,
    count: u64,
    /// Time of the first death, in milliseconds since 1970; older brokers do not give it.
    first_ms: Option<i64>,
    /// Time of the latest death, in milliseconds since 1970.
    last_ms: Option<i64>,
    exchange: String,
    routing_keys: Vec<String>,
    ttl_ms: Option<u64>,
    /// The consumer's error and identity, and the dead-letter rule, as in the API.
    error: Value,
    by: Value,
    rule: Option<String>,
    pub(in crate::cli) condition: Option<String>,
}

impl Death {
    /// Reads a history, newest first: `x-opt-deaths`, the API's `deaths` or AMQP 0-9-1's `x-death`.
    pub(in crate::cli) fn read_all(history: &Value) -> Vec<Self> {
        let entries = history.as_array().into_iter().flatten();
        entries.filter_map(Self::read).collect()
    }

    fn read(entry: &Value) -> Option<Self> {
        let field = |names: &[&str]| names.iter().find_map(|name| entry.get(*name));
        let text = |name: &str| entry.get(name)?.as_str().map(str::to_owned);
        let time = |names: &[&str]| field(names).and_then(Value::as_i64);
        // AMQP 0-9-1 has the first death only, in seconds.
        let old = time(&["time"]).map(|seconds| seconds.saturating_mul(SECOND_MS));
        let keys = field(&["routing-keys", "routing_keys"]).and_then(Value::as_array);
        let ttl = field(&["ttl", "original-expiration"]);
        let first_ms = time(&["first-time", "first_time"]).or(old);
        let count = entry.get("count").and_then(Value::as_u64).unwrap_or(1);
        Some(Self {
            queue: text("queue")?,
            reason: text("reason")?,
            count,
            first_ms,
            last_ms: time(&["last-time", "last_time"]).or_else(|| first_ms.filter(|_| count == 1)),
            exchange: text("exchange").unwrap_or_default(),
            routing_keys: keys
                .into_iter()
                .flatten()
                .filter_map(|key| key.as_str().map(str::to_owned))
                .collect(),
            condition: pick(entry, "error.condition")
                .and_then(Value::as_str)
                .map(str::to_owned),
            ttl_ms: ttl.and_then(|ttl| ttl.as_u64().or_else(|| ttl.as_str()?.parse().ok())),
            error: entry.get("error").cloned().unwrap_or_default(),
            by: entry.get("by").cloned().unwrap_or_default(),
            rule: text("rule"),
        })
    }

    fn json(&self) -> Value {
        json!({
            "queue": self.queue,
            "reason": self.reason,
            "count": self.count,
            "first_time": self.first_ms.map(local_time),
            "last_time": self.last_ms.map(local_time),
            "first_time_ms": self.first_ms,
            "last_time_ms": self.last_ms,
            "exchange": self.exchange,
            "routing_keys": self.routing_keys,
            "ttl_ms": self.ttl_ms,
            "error": self.error,
            "by": self.by,
            "rule": self.rule,
        })
    }

    /// The consumer's error and identity, a line each.
    fn evidence(&self) -> Vec<String> {
        evidence(&self.error, &self.by, self.rule.as_deref())
    }

    fn sentence(&self) -> String {
        let mut text = format!(
            "died in {}: {}",
            named(&self.queue),
            printable(&self.reason)
        );
        let times = [self.first_ms, self.last_ms].map(|time| time.map(local_time));
        match (self.count, times) {
            (1, [Some(first), _]) => text.extend([" at ", &first]),
            (1, _) => {}
            (count, [first, last]) => {
                let _ = write!(text, " {count} times");
                if let Some(first) = first {
                    text.extend([", first at ", &first]);
                }
                if let Some(last) = last {
                    text.extend([", last at ", &last]);
                }
            }
        }
        if let Some(ttl_ms) = self.ttl_ms {
            let _ = write!(text, ", with a ttl of {ttl_ms} ms");
        }
        text
    }
}

/// The consumer's error and identity, a line each.
fn evidence(error: &Value, by: &Value, rule: Option<&str>) -> Vec<String> {
    let said = |name: &str| Some(printable(error.get(name)?.as_str()?));
    let quoted = said("description").map(|text| format!("\"{text}\""));
    let said = [said("condition"), quoted];
    let said: Vec<_> = said.into_iter().flatten().collect();
    let names = [
        ("container", ""),
        ("link", "link "),
        ("user", "user "),
        ("address", "from "),
    ];
    let name = |(key, before)| {
        let name = by.get(key)?.as_str()?;
        Some(format!("{before}{}", printable(name)))
    };
    let by: Vec<_> = names.into_iter().filter_map(name).collect();
    let by = (!by.is_empty()).then(|| format!("by {}", by.join(", ")));
    let rule = rule.map(|rule| format!("sent here by {}", printable(rule)));
    let who: Vec<_> = [by, rule].into_iter().flatten().collect();
    let lines = [said.join(" "), who.join("; ")];
    lines.into_iter().filter(|line| !line.is_empty()).collect()
}

/// The latest failed delivery of a message that waits, as in the API.
#[derive(Clone, PartialEq, Debug)]
struct LastFailure(Value);

impl LastFailure {
    fn json(&self) -> Value {
        let mut json = self.0.clone();
        let at = json.get("at").and_then(Value::as_i64);
        if let Some(fields) = json.as_object_mut() {
            fields.insert("at".to_owned(), at.map(local_time).into());
            fields.insert("at_ms".to_owned(), at.into());
        }
        json
    }

    /// The failure as a sentence, then the consumer's error and identity.
    fn lines(&self) -> (String, Vec<String>) {
        let text = |name: &str| self.0.get(name).and_then(Value::as_str);
        let at = self.0.get("at").and_then(Value::as_i64).map(local_time);
        let how = printable(text("how").unwrap_or("failed"));
        let sentence = format!("failed here last at {}: {how}", at.unwrap_or_default());
        let [error, by] = ["error", "by"].map(|name| self.0.get(name).cloned().unwrap_or_default());
        (sentence, evidence(&error, &by, None))
    }
}

/// Totals of the entries for which a history had no room.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::cli) struct Folded {
    entries: u64,
    deaths: u64,
    until_ms: i64,
}

impl Folded {
    /// Reads `x-opt-deaths-folded` or the API's `deaths_folded`.
    pub(in crate::cli) fn read(folded: &Value) -> Option<Self> {
        Some(Self {
            entries: folded.get("entries")?.as_u64()?,
            deaths: folded.get("deaths")?.as_u64()?,
            until_ms: folded.get("until")?.as_i64()?,
        })
    }

    /// The number of deaths, the oldest first, that precede the folded ones: at most the very first
    /// one, which is never folded.
    fn place(&self, deaths: &[Death]) -> usize {
        let oldest = deaths.last().and_then(|death| death.last_ms);
        usize::from(oldest.is_some_and(|time| time <= self.until_ms))
    }

    fn json(&self) -> Value {
        json!({
            "entries": self.entries,
            "deaths": self.deaths,
            "until": local_time(self.until_ms),
            "until_ms": self.until_ms,
        })
    }

    fn sentence(&self) -> String {
        let (entries, deaths) = (self.entries, self.deaths);
        let until = local_time(self.until_ms);
        format!(
            "then {deaths} deaths until {until}, {entries} entries of a history that was too long"
        )
    }
}

/// Why a message is in the quarantine, and the queues of its cycle, if it was one.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Quarantined {
    cause: String,
    path: Vec<String>,
}

impl Quarantined {
    /// Reads the API's `quarantine`.
    fn read(quarantine: &Value) -> Option<Self> {
        let path = quarantine.get("path").and_then(Value::as_array);
        let queues = path.into_iter().flatten();
        Some(Self {
            cause: quarantine.get("cause")?.as_str()?.to_owned(),
            path: queues
                .filter_map(|queue| queue.as_str().map(str::to_owned))
                .collect(),
        })
    }

    fn json(&self) -> Value {
        json!({ "cause": self.cause, "path": self.path })
    }

    /// A sentence about what failed, given the route of the message.
    fn sentence(&self, exchange: &str, routing_key: &str) -> String {
        let cause = printable(&self.cause);
        let to = match exchange {
            "" => "the default exchange".to_owned(),
            name => format!("exchange {}", named(name)),
        };
        let key = printable(routing_key);
        let mut text = format!("quarantined: {cause}, sent to {to} with routing key '{key}'");
        if !self.path.is_empty() {
            let path: Vec<_> = self.path.iter().map(|queue| named(queue)).collect();
            text.extend([", in a circle: ", &path.join(" --> ")]);
        }
        text
    }
}

/// Draws a history: `orders --rejected x3--> retry --expired--> orders.dlq`.
pub(in crate::cli) fn journey(deaths: &[Death], folded: Option<&Folded>, queue: &str) -> String {
    let mut text = String::new();
    for (place, death) in deaths.iter().rev().enumerate() {
        if let Some(folded) = folded.filter(|folded| folded.place(deaths) == place) {
            let _ = write!(text, "({} deaths) --> ", folded.deaths);
        }
        let times = if death.count == 1 {
            String::new()
        } else {
            format!(" x{}", death.count)
        };
        let (queue, reason) = (named(&death.queue), printable(&death.reason));
        let _ = write!(text, "{queue} --{reason}{times}--> ");
    }
    text + &named(queue)
}

/// The first death. Entries are newest first, so of equal times the last one counts.
fn oldest(deaths: &[Death]) -> Option<&Death> {
    deaths.iter().rev().min_by_key(|death| death.first_ms)
}

/// A time in the local time zone, with its offset from UTC.
pub(in crate::cli) fn local_time(ms: i64) -> String {
    let time = Local.timestamp_millis_opt(ms).single();
    time.map_or_else(
        || format!("{ms} ms"),
        |time| time.format("%Y-%m-%d %H:%M:%S%.3f %:z").to_string(),
    )
}

/// A name, in quotes where it would be misread.
pub(super) fn named(name: &str) -> String {
    let is_plain = !name.is_empty() && !name.contains([' ', '\'', '>']);
    if is_plain {
        printable(name)
    } else {
        format!("'{}'", printable(name))
    }
}

/// The columns of the table.
pub(super) const COLUMNS: [&str; 11] = [
    "position",
    "journey",
    "queue",
    "reason",
    "condition",
    "time",
    "deaths",
    "exchange",
    "routing_key",
    "body_bytes",
    "body",
];

/// A message of a queue.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Letter {
    deaths: Vec<Death>,
    folded: Option<Folded>,
    last_failure: Option<LastFailure>,
    redrives: Option<Redrives>,
    quarantined: Option<Quarantined>,
    exchange: String,
    routing_key: String,
    redelivered: bool,
    body_bytes: u64,
    body: Body,
    /// Its position in its queue, where the broker gives it.
    position: Option<u64>,
    properties: Map<String, Value>,
    application_properties: Map<String, Value>,
}

impl Letter {
    /// Reads a message in the API's JSON.
    pub(super) fn read(message: &Value) -> Self {
        let text = |path: &str| {
            pick(message, path)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let object = |path: &str| {
            let found = pick(message, path).and_then(Value::as_object).cloned();
            found.filter(|fields| !fields.is_empty())
        };
        let deaths = pick(message, "amqp.deaths")
            .filter(|deaths| deaths.is_array())
            .or_else(|| pick(message, "properties.headers.x-death"));
        let mut headers = object("properties.headers").unwrap_or_default();
        headers.retain(|name, _| !is_of_deaths(name));
        let mut plain = object("properties").unwrap_or_default();
        plain.remove("headers");
        Self {
            deaths: deaths.map(Death::read_all).unwrap_or_default(),
            folded: pick(message, "amqp.deaths_folded").and_then(Folded::read),
            last_failure: message.get("last_failure").cloned().map(LastFailure),
            redrives: pick(message, "amqp.message_annotations.x-opt-redrives")
                .and_then(Redrives::read),
            quarantined: pick(message, "amqp.quarantine").and_then(Quarantined::read),
            exchange: text("exchange").to_owned(),
            routing_key: text("routing_key").to_owned(),
            redelivered: pick(message, "redelivered") == Some(&Value::Bool(true)),
            body_bytes: pick(message, "payload_bytes")
                .and_then(Value::as_u64)
                .unwrap_or(0),
            body: Body::read(message),
            position: pick(message, "position").and_then(whole_number),
            properties: object("amqp.properties").unwrap_or(plain),
            application_properties: match message.get("amqp") {
                Some(_) => object("amqp.application_properties").unwrap_or_default(),
                None => headers,
            },
        }
    }

    /// The exchange and the routing keys it was published with, as far as its history has them.
    fn published(&self) -> (&str, String) {
        let first = oldest(&self.deaths);
        first.map_or_else(
            || (self.exchange.as_str(), self.routing_key.clone()),
            |death| (death.exchange.as_str(), death.routing_keys.join("', '")),
        )
    }

    /// The message as an object for programs.
    pub(super) fn json(&self, queue: &str) -> Value {
        let first = oldest(&self.deaths);
        let published = first.map_or_else(
            || json!({"exchange": self.exchange, "routing_keys": [self.routing_key]}),
            |death| json!({"exchange": death.exchange, "routing_keys": death.routing_keys}),
        );
        json!({
            "queue": queue,
            "journey": journey(&self.deaths, self.folded.as_ref(), queue),
            "published": published,
            "deaths": self.deaths.iter().map(Death::json).collect::<Vec<_>>(),
            "deaths_folded": self.folded.as_ref().map(Folded::json),
            "last_failure": self.last_failure.as_ref().map(LastFailure::json),
            "redrives": self.redrives.as_ref().map(Redrives::json),
            "quarantine": self.quarantined.as_ref().map(Quarantined::json),
            "exchange": self.exchange,
            "routing_key": self.routing_key,
            "redelivered": self.redelivered,
            "properties": self.properties,
            "application_properties": self.application_properties,
            "body_bytes": self.body_bytes,
            "body": self.body.value(),
            "body_encoding": self.body.encoding(),
            "body_type": self.body.kind(),
            "position": self.position,
        })
    }

    /// The message as a row of a table, see [`COLUMNS`].
    pub(super) fn row(&self, queue: &str) -> Value {
        let (exchange, keys) = self.published();
        let latest = self.latest();
        let deaths: u64 = self.deaths.iter().map(|death| death.count).sum();
        json!({
            "position": self.position,
            "journey": journey(&self.deaths, self.folded.as_ref(), queue),
            "queue": latest.map(|death| &death.queue),
            "reason": latest.map(|death| &death.reason),
            "condition": latest.and_then(|death| death.condition.as_ref()),
            "time": latest.and_then(|death| death.last_ms).map(local_time),
            "deaths": deaths + self.folded.as_ref().map_or(0, |folded| folded.deaths),
            "exchange": exchange,
            "routing_key": keys,
            "body_bytes": self.body_bytes,
            "body": self.body.value(),
        })
    }

    /// Its position in its queue, where the broker gives it.
    pub(super) const fn position(&self) -> Option<u64> {
        self.position
    }

    /// The position behind the message.
    pub(super) fn behind(&self) -> Option<u64> {
        self.position?.checked_add(1)
    }

    /// Its latest death; of several with one time the first in its history, which has the newest first.
    pub(super) fn latest(&self) -> Option<&Death> {
        self.deaths.iter().reduce(|latest, death| {
            if death.last_ms > latest.last_ms {
                death
            } else {
                latest
            }
        })
    }

    /// The message with its history in words, with at most `body_max` bytes of its body.
    /// `number` counts the messages that are shown; `place` is its position, to be told beside it (else
    /// it is told last: `explain` and `discard_message` ask for it).
    pub(super) fn story(
        &self,
        (number, place): (usize, Option<u64>),
        queue: &str,
        body_max: u64,
    ) -> String {
        let mut lines = Lines(String::new());
        let beside = place.map(|place| format!(" at position {place}"));
        lines.add(&format!(
            "message {number}{}: {}",
            beside.unwrap_or_default(),
            journey(&self.deaths, self.folded.as_ref(), queue)
        ));
        let (exchange, keys) = self.published();
        let exchange = match exchange {
            "" => "the default exchange".to_owned(),
            name => format!("exchange {}", named(name)),
        };
        lines.add(&format!(
            "  published to {exchange} with routing key '{}'",
            printable(&keys)
        ));
        for (place, death) in self.deaths.iter().rev().enumerate() {
            let folded = self.folded.as_ref();
            if let Some(folded) = folded.filter(|folded| folded.place(&self.deaths) == place) {
                lines.add(&format!("  {}", folded.sentence()));
            }
            lines.add(&format!("  {}", death.sentence()));
            for line in death.evidence() {
                lines.add(&format!("    {line}"));
            }
        }
        if self.deaths.is_empty() {
            lines.add("  never died");
        }
        if let Some(redrives) = &self.redrives {
            lines.add(&format!("  {}", redrives.sentence()));
        }
        if let Some(failure) = &self.last_failure {
            let (sentence, evidence) = failure.lines();
            lines.add(&format!("  {sentence}"));
            for line in evidence {
                lines.add(&format!("    {line}"));
            }
        }
        if let Some(why) = &self.quarantined {
            let sentence = why.sentence(&self.exchange, &self.routing_key);
            lines.add(&format!("  {sentence}"));
        }
        for (what, which) in [
            ("properties", &self.properties),
            ("application properties", &self.application_properties),
        ] {
            if !which.is_empty() {
                lines.add(&format!("  {what}: {}", fields(which)));
            }
        }
        lines.add(&format!(
            "  body, {}",
            self.body.in_words(self.body_bytes, body_max)
        ));
        if let Some(position) = self.position.filter(|_| place.is_none()) {
            lines.add(&format!("  at position {position}"));
        }
        lines.0
    }
}

/// `name=value` of each.
fn fields(fields: &Map<String, Value>) -> String {
    let pair = |(name, value): (&String, &Value)| match value {
        Value::String(text) => format!("{}={}", printable(name), printable(text)),
        other => format!("{}={}", printable(name), printable(&other.to_string())),
    };
    fields.iter().map(pair).collect::<Vec<_>>().join(" ")
}

/// Whether an annotation is one that the words replace.
fn is_of_deaths(name: &str) -> bool {
    ["x-death", "x-opt-deaths", "x-opt-deaths-folded"].contains(&name)
        || name.starts_with("x-first-death-")
        || name.starts_with("x-last-death-")
}

struct Lines(String);

impl Lines {
    fn add(&mut self, line: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "{line}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::dead_letters::FilterFlags;

    fn letter() -> Letter {
        Letter::read(&json!({
            "payload_bytes": 5, "payload": "he\u{1b}lo", "payload_encoding": "string",
            "exchange": "my-dlx", "routing_key": "orders", "redelivered": true,
            "properties": {"message_id": "m", "headers": {
                "h": 1,
                "x-first-death-queue": "orders",
                "x-death": [
                    {"queue": "retry later", "reason": "expired", "count": 1, "time": 20,
                     "exchange": "x", "routing-keys": ["orders"], "original-expiration": "60000"},
                    {"queue": "orders", "reason": "rejected", "count": 3, "time": 10,
                     "exchange": "", "routing-keys": ["orders"]},
                ],
            }},
        }))
    }

    #[test]
    fn a_history_is_drawn_from_the_oldest_death_to_the_queue() {
        let drawn = journey(&letter().deaths, None, "orders.dlq");
        assert_eq!(
            drawn,
            "orders --rejected x3--> 'retry later' --expired--> orders.dlq"
        );
        assert_eq!(journey(&[], None, "q"), "q");
    }

    #[test]
    fn the_story_tells_each_death_and_what_the_message_carries() {
        let story = letter().story((1, None), "orders.dlq", 200);
        let expected = [
            "message 1: orders --rejected x3--> 'retry later' --expired--> orders.dlq",
            "  published to the default exchange with routing key 'orders'",
            &format!(
                "  died in orders: rejected 3 times, first at {}",
                local_time(10_000)
            ),
            &format!(
                "  died in 'retry later': expired at {}, with a ttl of 60000 ms",
                local_time(20_000)
            ),
            "  properties: message_id=m",
            "  application properties: h=1",
            "  body, 5 bytes: he\\u{1b}lo",
        ];
        assert_eq!(story.lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn the_story_of_a_quarantined_message_ends_in_what_failed() {
        let told = |quarantine: Value| {
            let letter = Letter::read(&json!({
                "exchange": "dlx", "routing_key": "k",
                "amqp": {"deaths": [{"queue": "q", "reason": "expired", "count": 1}],
                         "quarantine": quarantine},
            }));
            let story = letter.story((1, None), "amq.quarantine", 0);
            story.lines().nth(3).unwrap().to_owned()
        };
        assert_eq!(
            told(json!({"cause": "exchange_missing", "path": []})),
            "  quarantined: exchange_missing, sent to exchange dlx with routing key 'k'"
        );
        assert_eq!(
            told(json!({"cause": "cycle", "path": ["a", "b c", "a"]})),
            "  quarantined: cycle, sent to exchange dlx with routing key 'k', in a circle: \
             a --> 'b c' --> a"
        );
    }

    #[test]
    fn both_times_are_told_where_the_broker_knows_them() {
        let history = json!([{
            "queue": "q", "reason": "maxlen", "count": 2,
            "first-time": 1000, "last-time": 2500, "exchange": "x", "routing-keys": [],
        }]);
        let [death] = Death::read_all(&history).try_into().unwrap();
        let (first, last) = (local_time(1000), local_time(2500));
        assert_eq!(
            death.sentence(),
            format!("died in q: maxlen 2 times, first at {first}, last at {last}")
        );
        let offset = first.rsplit(' ').next().unwrap();
        assert!(offset.starts_with(['+', '-']), "{first}");
    }

    #[test]
    fn what_the_consumer_said_and_who_it_was_stand_below_the_death() {
        let mut entry = json!({
            "queue": "q", "reason": "rejected", "count": 1, "exchange": "", "routing_keys": ["q"],
            "error": {"condition": "app:schema", "description": "no price", "info": null},
            "by": {"how": "rejected", "container": "billing", "link": "in", "user": "me",
                   "address": "10.0.3.7:51234"},
            "rule": "policy DLX",
        });
        let [death] = Death::read_all(&json!([entry])).try_into().unwrap();
        assert_eq!(
            death.evidence(),
            [
                "app:schema \"no price\"",
                "by billing, link in, user me, from 10.0.3.7:51234; sent here by policy DLX"
            ]
        );
        assert_eq!(death.json()["error"]["condition"], "app:schema");
        for key in ["error", "by"] {
            entry.as_object_mut().unwrap().remove(key);
        }
        let [death] = Death::read_all(&json!([entry])).try_into().unwrap();
        assert_eq!(death.evidence(), ["sent here by policy DLX"]);
    }

    #[test]
    fn a_message_that_failed_and_waits_tells_when_why_and_who() {
        let letter = Letter::read(
            &json!({"exchange": "", "routing_key": "q", "last_failure": {
                "at": 4_000, "how": "failed",
                "error": {"condition": "app:busy", "description": "try later", "info": null},
                "by": {"how": "failed", "container": "billing", "link": "in"},
            }}),
        );
        let story = letter.story((1, None), "q", 200);
        let lines: Vec<_> = story.lines().collect();
        let expected = [
            &*format!("  failed here last at {}: failed", local_time(4_000)),
            "    app:busy \"try later\"",
            "    by billing, link in",
        ];
        assert_eq!(lines[3..6], expected, "{story}");
        assert_eq!(letter.json("q")["last_failure"]["at_ms"], 4_000);
        assert_eq!(letter.json("q")["last_failure"]["at"], local_time(4_000));
    }

    #[test]
    fn deaths_that_were_folded_are_told_behind_the_first_one() {
        let entry = |queue: &str, ms: i64| {
            json!({
                "queue": queue, "reason": "expired", "count": 1, "first_time": ms, "last_time": ms,
                "exchange": "x", "routing_keys": ["k"],
            })
        };
        let letter = Letter::read(&json!({"amqp": {
            "deaths": [entry("late", 9_000), entry("first", 1_000)],
            "deaths_folded": {"entries": 6, "deaths": 600, "until": 5_000},
        }}));
        let story = letter.story((1, None), "q", 200);
        let lines: Vec<_> = story.lines().collect();
        assert_eq!(
            lines[0],
            "message 1: first --expired--> (600 deaths) --> late --expired--> q"
        );
        let until = local_time(5_000);
        assert!(lines[2].starts_with("  died in first: expired"), "{story}");
        assert_eq!(
            lines[3],
            format!("  then 600 deaths until {until}, 6 entries of a history that was too long")
        );
        assert_eq!(letter.json("q")["deaths_folded"]["deaths"], 600);
    }

    #[test]
    fn the_latest_death_is_the_one_that_is_looked_at() {
        let died = |queue: &str, reason: &str, condition: Option<&str>| {
            json!({"queue": queue, "reason": reason, "by": {"user": "u"},
                "error": {"condition": condition, "description": "no such item"}})
        };
        let letter = Letter::read(&json!({"position": 7, "amqp": {"deaths": [
            died("retry", "expired", None),
            died("orders", "rejected", Some("app:bad")),
        ]}}));
        assert_eq!(letter.latest().map(|death| &*death.queue), Some("retry"));
        // Those that were taken from a RabbitMQ are looked through here.
        let check = |flags: &[&str], expect: bool| {
            let only = FilterFlags::of(flags);
            assert_eq!(only.means(letter.latest()), expect, "{flags:?}");
            assert!(only.is_any() && !only.asks_for_more(), "{flags:?}");
        };
        check(&["--reason", "expired"], true);
        check(&["--reason", "expired", "--queue", "retry"], true);
        check(&["--reason", "maxlen", "--reason", "expired"], true);
        check(&["--reason", "rejected"], false);
        check(&["--queue", "orders"], false);
        check(&["--condition", "app:bad"], false);
        assert!(FilterFlags::of(&["--group", "1:9c2e41aa"]).asks_for_more());
        let story = letter.story((1, None), "q", 200);
        let said = "    app:bad \"no such item\"\n    by user u\n";
        assert!(story.contains(said), "{story}");
        assert_eq!(letter.row("q")["deaths"], 2);
        assert_eq!(letter.json("q")["deaths"][1]["by"]["user"], "u");
        assert_eq!(letter.json("q")["position"], 7);
    }

    #[test]
    fn a_message_that_never_died_says_so() {
        let message = json!({"exchange": "x", "routing_key": "k", "payload_bytes": 0});
        let story = Letter::read(&message).story((2, None), "q", 200);
        assert_eq!(
            story,
            "message 2: q\n  published to exchange x with routing key 'k'\n  never died\n  body, 0 bytes\n"
        );
    }
}
