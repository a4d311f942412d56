//! Which events a request asks for. [evidence part 10]

use super::failure::Failure;
use super::query::Query;
use crate::broker::event::{EventType, VhostEvent};
use crate::deaths::Reason;

/// The parameters of the route.
const PARAMETERS: [&str; 6] = ["vhost", "type", "queue", "reason", "since", "follow"];

/// The events that a request asks for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EventFilter {
    /// Of this vhost only.
    pub vhost: Option<String>,
    /// Of this type only: a death that ends in a drop is one of both.
    pub kind: Option<EventType>,
    /// Of this queue only.
    pub queue: Option<String>,
    /// Of deaths for this reason only.
    pub reason: Option<Reason>,
}

/// Where a stream begins, and whether it goes on.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EventsAsked {
    /// Which events are told.
    pub filter: EventFilter,
    /// Behind the event of this id; none: now, or with all that are kept.
    pub since: Option<Since>,
    /// Whether lines go on with what happens from now on.
    pub follow: bool,
}

/// The id of an event, or its number alone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Since {
    /// Which start of the broker it is of, as 16 hexadecimal digits; none: only a number was given.
    pub origin: Option<String>,
    /// The number of the event.
    pub number: u64,
}

impl Since {
    /// Reads the id of an event, or a number.
    pub fn read(name: &str, text: &str) -> Result<Self, Failure> {
        let (origin, digits) = match text.rsplit_once('-') {
            Some((origin, digits)) => (Some(origin.to_owned()), digits),
            None => (None, text),
        };
        let number = digits.parse().map_err(|_| {
            let shown: String = text.chars().take(64).collect();
            let shown = shown.escape_debug();
            let why = format!("'{name}' must be the id of an event or its number, not '{shown}'");
            Failure::bad_request(why)
        })?;
        Ok(Self { origin, number })
    }
}

impl EventsAsked {
    /// Reads the parameters of a query; `last`: the header Last-Event-ID, which counts for more.
    pub fn read(query: &Query, last: Option<&str>) -> Result<Self, Failure> {
        for (name, _) in query.pairs() {
            if !PARAMETERS.contains(&name) {
                let name: String = name.chars().take(64).collect();
                let known = PARAMETERS.join(", ");
                return Err(Failure::bad_request(format!(
                    "the parameter '{name}' is not known; known are {known}"
                )));
            }
        }
        let text = |name| query.get(name).filter(|text| !text.is_empty());
        let kind = text("type").map(|word| {
            let words = EventType::ALL.map(EventType::as_str);
            EventType::from_word(word).ok_or_else(|| one_of("type", &words))
        });
        let reason = text("reason").map(|word| {
            let words = Reason::ALL.map(Reason::as_str);
            let known = Reason::ALL.into_iter().find(|known| known.as_str() == word);
            known.ok_or_else(|| one_of("reason", &words))
        });
        let last = last.filter(|text| !text.is_empty());
        let since = last.map(|id| Since::read("Last-Event-ID", id));
        let since = since.or_else(|| text("since").map(|id| Since::read("since", id)));
        Ok(Self {
            filter: EventFilter {
                vhost: text("vhost").map(str::to_owned),
                kind: kind.transpose()?,
                queue: text("queue").map(str::to_owned),
                reason: reason.transpose()?,
            },
            since: since.transpose()?,
            follow: query.flag("follow")?,
        })
    }
}

fn one_of(name: &str, words: &[&str]) -> Failure {
    let words = words.join(", ");
    Failure::bad_request(format!("the parameter '{name}' must be one of {words}"))
}

impl EventFilter {
    /// Whether an event is asked for; of its vhost the caller takes care.
    pub fn is_met(&self, event: &VhostEvent) -> bool {
        self.kind.is_none_or(|kind| event.types().contains(&kind))
            && self
                .queue
                .as_ref()
                .is_none_or(|queue| *event.queue == **queue)
            && self
                .reason
                .is_none_or(|reason| event.reason() == Some(reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str, last: Option<&str>) -> Result<EventsAsked, String> {
        let query = Query::parse(query).unwrap();
        EventsAsked::read(&query, last).map_err(|failure| failure.reason)
    }

    #[test]
    fn ids_end_in_numbers_and_the_header_counts_for_more() {
        let number = |asked: EventsAsked| asked.since.map(|since| since.number);
        assert_eq!(read("since=7", None).map(number), Ok(Some(7)));
        assert_eq!(read("since=0af-7", None).map(number), Ok(Some(7)));
        assert_eq!(read("since=7", Some("0af-9")).map(number), Ok(Some(9)));
        assert_eq!(read("", Some("")).map(number), Ok(None));
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for (query, last, named) in [
            ("since=x\n", None, "'since'"),
            ("", Some("7-"), "'Last-Event-ID'"),
            ("since=18446744073709551616", None, "'since'"),
            ("type=deaths", None, "'type' must be one of death, "),
            ("reason=bored", None, "'reason'"),
            ("follow=1", None, "'follow'"),
            ("queues=q", None, "'queues' is not known"),
        ] {
            let refused = read(query, last).expect_err(query);
            assert!(refused.contains(named), "{query}: {refused}");
        }
    }
}
