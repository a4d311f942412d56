//! An explanation in words.

use std::fmt::Write;

use serde_json::Value;

use crate::cli::deaths::local_time;
use crate::cli::output::{pick, printable};

/// Tells an explanation in the JSON of the API.
pub(super) fn tell(explained: &Value) -> String {
    let story = Story {
        as_of: integer(explained, "as_of").unwrap_or(0),
        explained,
    };
    let mut text = String::new();
    section(&mut text, "life", &story.life());
    section(&mut text, "now", &[story.now()]);
    section(&mut text, "next", &story.next());
    text
}

/// Adds lines behind a word; later ones are indented likewise.
fn section(text: &mut String, word: &str, lines: &[String]) {
    for (index, line) in lines.iter().enumerate() {
        let word = if index == 0 { word } else { "" };
        let _ = writeln!(text, "{word:<8}{line}");
    }
}

fn text<'a>(value: &'a Value, path: &str) -> Option<&'a str> {
    pick(value, path).and_then(Value::as_str)
}

fn integer(value: &Value, path: &str) -> Option<i64> {
    pick(value, path).and_then(Value::as_i64)
}

fn list<'a>(value: &'a Value, path: &str) -> &'a [Value] {
    let list = pick(value, path).and_then(Value::as_array);
    list.map_or(&[], Vec::as_slice)
}

/// A name, in quotes where it would be misread.
fn named(name: &str) -> String {
    let is_plain = !name.is_empty() && !name.contains([' ', '\'', ',', ';']);
    if is_plain {
        printable(name)
    } else {
        format!("'{}'", printable(name))
    }
}

fn exchange(name: &str) -> String {
    match name {
        "" => "the default exchange".to_owned(),
        name => format!("exchange {}", named(name)),
    }
}

fn keys(value: &Value, path: &str) -> String {
    let keys = list(value, path).iter().filter_map(Value::as_str);
    let keys: Vec<_> = keys.map(|key| format!("'{}'", printable(key))).collect();
    match keys.len() {
        1 => format!("key {}", keys.join("")),
        _ => format!("keys {}", keys.join(", ")),
    }
}

/// A number with its digits in groups of three.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn counted(number: u64, one: &str, many: &str) -> String {
    match number {
        0 => format!("no {one}"),
        1 => format!("1 {one}"),
        number => format!("{} {many}", grouped(number)),
    }
}

/// A duration in its two largest units.
fn duration(ms: i64) -> String {
    const UNITS: [(i64, &str); 4] = [
        (86_400_000, "d"),
        (3_600_000, "h"),
        (60_000, "min"),
        (1_000, "s"),
    ];
    let mut units = UNITS.iter().skip_while(|(unit, _)| ms < *unit);
    let Some((large, name)) = units.next() else {
        return format!("{} ms", ms.max(0));
    };
    let rest = units.next().map(|(small, name)| (ms % large / small, name));
    match rest.filter(|(count, _)| *count > 0 && *large > 60_000) {
        Some((count, small)) => format!("{} {name} {count} {small}", ms / large),
        None => format!("{} {name}", ms / large),
    }
}

/// Sentences up to this length are told again rather than referred to.
const SHORT: usize = 20;

/// An explanation, and the moment for which it holds.
struct Story<'a> {
    as_of: i64,
    explained: &'a Value,
}

impl Story<'_> {
    fn ago(&self, time: i64) -> String {
        format!("{} ago", duration(self.as_of.saturating_sub(time)))
    }

    /// What happened to it. That it entered the queue where it is stands in `now`.
    fn life(&self) -> Vec<String> {
        let steps = list(self.explained, "life");
        let here = steps
            .iter()
            .rposition(|step| text(step, "what") == Some("entered"));
        let has_died = steps.iter().any(|step| text(step, "what") == Some("died"));
        let mut lines = Vec::new();
        for (index, step) in steps.iter().enumerate() {
            let place = named(text(step, "where").unwrap_or_default());
            match text(step, "what") {
                Some("published") => lines.push(format!(
                    "published to {} with {}",
                    exchange(text(step, "where").unwrap_or_default()),
                    keys(step, "routing_keys")
                )),
                Some("entered") if has_died && Some(index) == here => {}
                Some("entered") => {
                    let way = text(step, "rule").and_then(|rule| rule.strip_prefix("binding "));
                    let way = way.map(|key| format!(" by binding '{}'", printable(key)));
                    let entered = format!("; came to {place}{}", way.unwrap_or_default());
                    if let Some(line) = lines.last_mut() {
                        line.push_str(&entered);
                    }
                }
                Some(what) => lines.extend(self.event(what, &place, step)),
                None => {}
            }
        }
        lines
    }

    /// A death, a redrive or a failed delivery: what, and by whom.
    fn event(&self, what: &str, place: &str, step: &Value) -> Vec<String> {
        let count = pick(step, "count").and_then(Value::as_u64).unwrap_or(1);
        let at = integer(step, "at")
            .map(|at| self.ago(at))
            .unwrap_or_default();
        if what == "folded" {
            let deaths = counted(count, "further death", "further deaths");
            return vec![format!(
                "{deaths} until {at}, of which only numbers are kept"
            )];
        }
        if what == "redriven" {
            return redriven(place, &at, step);
        }
        let why = printable(text(step, "why").unwrap_or("for no known reason"));
        let times = match count {
            0 | 1 => format!(" ({why}), {at}"),
            count => format!(" {} times ({why}), last {at}", grouped(count)),
        };
        let condition = text(step, "error.condition").map(printable);
        let description = text(step, "error.description");
        let description = description.map(|said| format!("\"{}\"", printable(said)));
        let error: Vec<_> = [condition, description].into_iter().flatten().collect();
        let error = if error.is_empty() {
            String::new()
        } else {
            format!(": {}", error.join(" "))
        };
        let what = match what {
            "timed_out" => "held for too long",
            other => other,
        };
        let mut lines = vec![format!("{what} in {place}{times}{error}")];
        let by = pick(step, "by")
            .and_then(culprit)
            .map(|by| format!("by {by}"));
        let rule = text(step, "rule").map(|rule| format!("sent on by {}", printable(rule)));
        let who: Vec<_> = [by, rule].into_iter().flatten().collect();
        if !who.is_empty() {
            lines.push(format!("  {}", who.join("; ")));
        }
        lines
    }

    fn now(&self) -> String {
        let now = self.explained.get("now").cloned().unwrap_or_default();
        let number = |path| pick(&now, path).and_then(Value::as_u64).unwrap_or(0);
        let since = integer(&now, "since").unwrap_or(self.as_of);
        let queue = named(text(&now, "queue").unwrap_or_default());
        let since = duration(self.as_of - since);
        let mut parts = vec![format!("in {queue} for {since}")];
        match text(&now, "state") {
            Some("unacknowledged") => {
                let by = pick(&now, "held_by").and_then(culprit);
                let by = by.unwrap_or_else(|| "a consumer".to_owned());
                parts.push(format!("held by {by}"));
            }
            Some("dead_pending") => parts.push("dead, waits for a target".to_owned()),
            Some("delayed") => {
                let until = integer(&now, "delayed_until").unwrap_or(self.as_of);
                let left = duration(until - self.as_of);
                parts.push(format!("delayed until {}, in {left}", local_time(until)));
            }
            _ => {
                let ahead = grouped(number("ahead"));
                parts = vec![format!("in {queue} for {since}, {ahead} before it")];
                parts.push(counted(number("consumers"), "consumer", "consumers"));
            }
        }
        let failures = number("failures");
        if failures > 0 {
            parts.push(counted(failures, "failed delivery", "failed deliveries"));
        }
        if let Some(expires_at) = integer(&now, "expires_at") {
            let rule = match text(&now, "rule") {
                Some("message") => "its own ttl".to_owned(),
                rule => printable(rule.unwrap_or_default()),
            };
            let left = expires_at - self.as_of;
            let when = if left <= 0 {
                "expired".to_owned()
            } else {
                format!("expires in {}", duration(left))
            };
            parts.push(format!("{when} ({rule})"));
        }
        parts.join("; ")
    }

    fn next(&self) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        let mut told: Vec<(&str, String)> = Vec::new();
        for step in list(self.explained, "next") {
            let (verdict, sentence) = self.sentence(step);
            let event = text(step, "if").unwrap_or_default();
            let before = told.iter().rposition(|(_, before)| *before == sentence);
            let same = before.and_then(|before| {
                let is_last = before + 1 == told.len();
                let (event, _) = told.get(before)?;
                Some(if is_last {
                    "the same".to_owned()
                } else {
                    format!("as {event}")
                })
            });
            let same = same.filter(|_| sentence.len() > SHORT);
            let tells = same.as_ref().unwrap_or(&sentence);
            let reason = text(step, "then.reason").filter(|_| event == "failed");
            let dies = reason.map(|reason| format!("dies ({reason}), "));
            let dropped = if verdict == "dropped" {
                "dropped: "
            } else {
                ""
            };
            lines.push(format!(
                "{event:<12}{}{dropped}{tells}",
                dies.unwrap_or_default()
            ));
            told.push((event, sentence));
        }
        lines
    }

    /// The verdict, and a sentence on what becomes of it.
    fn sentence<'a>(&self, step: &'a Value) -> (&'a str, String) {
        let verdict = text(step, "then.verdict").unwrap_or_default();
        let sentence = match verdict {
            "gone" => "leaves for good".to_owned(),
            "requeued" => self.requeued(),
            "dead_lettered" | "moved" => dead_lettered(step),
            "skipped" => self.skipped(step),
            "waiting" => waiting(step),
            "dead_pending" => format!(
                "stays here, dead, until there is room: {}",
                self.stuck(step)
            ),
            "quarantined" => format!("to amq.quarantine: {}", self.stuck(step)) + &chosen(step),
            _ => self.stuck(step) + &chosen(step),
        };
        (verdict, sentence)
    }

    fn requeued(&self) -> String {
        let failures = pick(self.explained, "now.failures").and_then(Value::as_u64);
        let settings = pick(self.explained, "now.settings");
        let limit = settings.and_then(|settings| settings.get("delivery-limit"));
        let limit = limit.and_then(|limit| {
            let rule = printable(text(limit, "rule")?);
            Some((text(limit, "value")?.parse::<u64>().ok()?, rule))
        });
        let mut text = "back to its place".to_owned();
        if let Some((limit, rule)) = limit {
            let failure = grouped(failures.unwrap_or(0) + 1);
            let _ = write!(text, "; failure {failure} of {} ({rule})", grouped(limit));
        }
        text
    }

    /// Why a redrive leaves it where it is.
    fn skipped(&self, step: &Value) -> String {
        let origin = |why| skipped(step, why).join("");
        let queue = text(self.explained, "now.queue").map(named);
        let queue = queue.unwrap_or_default();
        match text(step, "then.cause") {
            Some("no_target") => format!("stays: there is no queue {}", origin("gone")),
            Some("same_queue") => "stays: it failed in this queue".to_owned(),
            Some("not_allowed") => format!(
                "stays: it needs the right to write to the default exchange, and {} to be as \
                 durable as {queue}",
                origin("not_allowed")
            ),
            _ => match text(self.explained, "now.state") {
                Some("unacknowledged") => "stays: a consumer holds it".to_owned(),
                Some("delayed") => "stays: it waits for its time".to_owned(),
                _ => "stays: it waits for a target of its own".to_owned(),
            },
        }
    }

    /// Why no queue takes it.
    fn stuck(&self, step: &Value) -> String {
        let queue = text(self.explained, "now.queue")
            .map(named)
            .unwrap_or_default();
        let way = text(step, "then.way.exchange")
            .map(exchange)
            .unwrap_or_default();
        let cause = text(step, "then.cause");
        match cause {
            Some("no_dead_letter_exchange") => format!("{queue} has no dead-letter exchange"),
            Some("pending_abandoned") => format!("{queue} has no dead-letter exchange any more"),
            Some("exchange_missing") => format!("there is no {way}"),
            Some("unroutable") => {
                format!(
                    "{way} leads to no queue with {}",
                    keys(step, "then.way.keys")
                )
            }
            Some("target_full") | None => {
                let full = skipped(step, "full");
                match full.is_empty() {
                    true => format!("{way} leads to no queue"),
                    false if full.len() > 1 => format!("{} are full", full.join(" and ")),
                    false => format!("{} is full", full.join("")),
                }
            }
            Some("cycle") => {
                let cycle = skipped(step, "cycle").join(" and ");
                format!("it came from {cycle} and would go round in a circle")
            }
            Some("history_full") => "it died in more queues than a history can name".to_owned(),
            Some("quarantine_full") if text(step, "if") == Some("maxlen") => {
                "pushed out of the quarantine by later ones".to_owned()
            }
            Some("quarantine_full") => "it is larger than the quarantine".to_owned(),
            Some(other) => printable(other),
        }
    }
}

/// The rule that chose between the quarantine and a drop, unless it is the default.
fn chosen(step: &Value) -> String {
    let rule = text(step, "rule").filter(|rule| *rule != "default");
    rule.map_or_else(String::new, |rule| format!(" ({})", printable(rule)))
}

/// The names of queues that are passed over for this reason.
fn skipped(step: &Value, why: &str) -> Vec<String> {
    let skipped = list(step, "then.skipped").iter();
    let skipped = skipped.filter(|skipped| text(skipped, "why") == Some(why));
    skipped
        .filter_map(|skipped| text(skipped, "queue").map(named))
        .collect()
}

/// A redrive: where to, by whom, which job.
fn redriven(place: &str, at: &str, step: &Value) -> Vec<String> {
    let from = text(step, "from").map(named).unwrap_or_default();
    let by = text(step, "by.user").filter(|user| !user.is_empty());
    let by = by.map_or_else(|| "the program".to_owned(), printable);
    let job = printable(text(step, "job").unwrap_or_default());
    let deaths = pick(step, "deaths").and_then(Value::as_u64).unwrap_or(0);
    let deaths = counted(deaths, "death", "deaths");
    vec![
        format!("redriven from {from} to {place} after {deaths}, {at}"),
        format!("  by {by}, job {job}"),
    ]
}

/// What a redrive waits for.
fn waiting(step: &Value) -> String {
    match text(step, "then.cause") {
        Some("alarm") => "waits until no alarm stands".to_owned(),
        _ => format!(
            "waits until {} has room",
            skipped(step, "full").join(" and ")
        ),
    }
}

fn dead_lettered(step: &Value) -> String {
    let targets: Vec<_> = list(step, "then.targets").iter().map(target).collect();
    let mut parts = match targets.len() {
        0 => vec!["leaves: the queues that it waited for are gone".to_owned()],
        _ => vec![format!("to {}", targets.join("; to "))],
    };
    let waits = pick(step, "then.waits") == Some(&Value::Bool(true));
    let full = skipped(step, "full");
    if !full.is_empty() {
        let full = full.join(" and ");
        parts.push(if waits {
            format!("stays here, dead, until {full} has room")
        } else {
            format!("not to {full}, which is full")
        });
    }
    let cycle = skipped(step, "cycle");
    if !cycle.is_empty() {
        let cycle = cycle.join(" and ");
        parts.push(format!("not to {cycle}, from which it came (a circle)"));
    }
    let rule = text(step, "rule").map(|rule| format!(" ({})", printable(rule)));
    parts.join("; ") + &rule.unwrap_or_default()
}

fn target(target: &Value) -> String {
    let number = |path| pick(target, path).and_then(Value::as_u64);
    let queue = named(text(target, "queue").unwrap_or_default());
    let consumers = counted(number("consumers").unwrap_or(0), "consumer", "consumers");
    let messages = number("messages").unwrap_or(0);
    let there = match messages {
        0 => "empty".to_owned(),
        messages => format!("{} there", counted(messages, "message", "messages")),
    };
    let places = match number("max_length") {
        Some(max) => format!("{} of {} places taken", grouped(messages), grouped(max)),
        None => there,
    };
    if pick(target, "dies") == Some(&Value::Bool(true)) {
        return format!("{queue}, which is full and dead-letters it at once (maxlen)");
    }
    format!("{queue}: {consumers}, {places}")
}

/// Who a consumer is, in words.
fn culprit(by: &Value) -> Option<String> {
    let names = [
        ("container", ""),
        ("link", "link "),
        ("user", "user "),
        ("address", "from "),
    ];
    let names = names.into_iter().filter_map(|(key, before)| {
        let name = by.get(key)?.as_str()?;
        Some(format!("{before}{}", printable(name)))
    });
    let names: Vec<_> = names.collect();
    (!names.is_empty()).then(|| names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_two_units_at_most_and_numbers_are_grouped() {
        let ms = |text: &str| text.to_owned();
        assert_eq!(duration(0), ms("0 ms"));
        assert_eq!(duration(999), ms("999 ms"));
        assert_eq!(duration(61_000), ms("1 min"));
        assert_eq!(duration(3_600_000 + 240_000), ms("1 h 4 min"));
        assert_eq!(duration(6 * 86_400_000 + 23 * 3_600_000), ms("6 d 23 h"));
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(grouped(100), "100");
    }
}
