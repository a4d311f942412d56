//! Evidence of deaths: the consumer's error, its identity, and the rule that set the dead-letter
//! exchange. Bounded, since every death keeps it and every record of a death carries it. [evidence
//! part 2]

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use super::Entry;
use crate::base::limits::{
    EVIDENCE_BYTES_MAX, EVIDENCE_CONDITION_BYTES_MAX, EVIDENCE_DESCRIPTION_BYTES_MAX,
    EVIDENCE_INFO_BYTES_MAX, EVIDENCE_NAME_BYTES_MAX,
};
use crate::base::{Account, Gauge, Name};
use crate::wire::{Reader, Value, begin_map, decode_value, end, write_bool, write_symbol};

/// How a delivery failed. [evidence part 2]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum How {
    /// The consumer rejected it. [AMQP 3.4.2]
    Rejected,
    /// The consumer settled it as `modified` with undeliverable-here. [AMQP 3.4.5]
    UndeliverableHere,
    /// The consumer settled it as `modified` with delivery-failed, once too often. [AMQP 3.4.5]
    Failed,
    /// The session ended with the delivery unsettled, once too often. [AMQP 2.5.6]
    SessionEnded,
    /// The connection ended with the delivery unsettled, once too often.
    ConnectionLost,
    /// The consumer held the delivery for too long.
    ConsumerTimeout,
}

impl How {
    /// All of them, in the order of declaration.
    pub const ALL: [Self; 6] = [
        Self::Rejected,
        Self::UndeliverableHere,
        Self::Failed,
        Self::SessionEnded,
        Self::ConnectionLost,
        Self::ConsumerTimeout,
    ];

    /// The word for it on the wire, in the journal and over HTTP.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rejected => "rejected",
            Self::UndeliverableHere => "undeliverable-here",
            Self::Failed => "failed",
            Self::SessionEnded => "session-ended",
            Self::ConnectionLost => "connection-lost",
            Self::ConsumerTimeout => "consumer-timeout",
        }
    }

    /// The one that a word names, if any.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|how| how.as_str() == word)
    }
}

/// The error of a consumer that rejects, and its identity. [dead-lettering part 10]
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Evidence {
    /// `rejected.error.condition`; none if no error was given.
    pub condition: Option<Name>,
    /// `rejected.error.description`, cut to its bound.
    pub description: Option<Name>,
    /// `rejected.error.info`, the encoded map, cut to its bound.
    pub info: Option<Bytes>,
    /// Container id of the consumer's connection.
    pub container: Option<Name>,
    /// Name of the consumer's link.
    pub link: Option<Name>,
    /// User of the consumer's connection.
    pub user: Option<Name>,
    /// Whether that is the bearer of a token, and not the user of the registry with that name.
    pub by_token: bool,
    /// How the delivery failed; none if the message died without a failed delivery.
    pub how: Option<How>,
    /// Address of the consumer's connection, as `ip:port`.
    pub address: Option<Name>,
    /// The rule that set the dead-letter exchange: `argument`, `policy NAME` or `operator-policy
    /// NAME`.
    pub rule: Option<Name>,
    /// The gauge that its memory is charged to.
    pub account: Account,
}

/// Shows everything except the account of its memory, which says nothing about the death. A login by token is
/// shown where there was one: histories from before it was told apart show as they did.
#[allow(
    clippy::missing_fields_in_debug,
    reason = "where its memory is counted is no part of what it says"
)]
impl fmt::Debug for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Evidence");
        shown
            .field("condition", &self.condition)
            .field("description", &self.description)
            .field("info", &self.info)
            .field("container", &self.container)
            .field("link", &self.link)
            .field("user", &self.user);
        if self.by_token {
            shown.field("by_token", &true);
        }
        shown
            .field("how", &self.how.map(How::as_str))
            .field("address", &self.address)
            .field("rule", &self.rule)
            .finish()
    }
}

/// The condition with which Azure's clients reject, whatever the reason.
const DEAD_LETTER: &str = "com.microsoft:dead-letter";
/// The keys in `info` in which they give the reason.
const DEAD_LETTER_REASON: &str = "DeadLetterReason";
const DEAD_LETTER_DESCRIPTION: &str = "DeadLetterErrorDescription";
/// The end of a description that was cut: an ellipsis.
const CUT: &str = "\u{2026}";
/// The annotation of `modified` in which clients that cannot give an error put a condition.
const CATEGORY: &str = "x-opt-dead-letter-category";
const REASON: &str = "x-opt-dead-letter-reason";
/// The key in `info` that says that pairs were left out.
const TRUNCATED: &str = "truncated";
/// Bytes of a map in front of its pairs, and of the pair that says that others were left out.
const MAP_BYTES: usize = 9;
const TRUNCATED_BYTES: usize = 2 + TRUNCATED.len() + 1;
/// Estimated memory of evidence without its texts, in bytes.
const OVERHEAD_BYTES: usize = 192;

impl Evidence {
    /// The identity of a consumer, each name cut to `limits::EVIDENCE_NAME_BYTES_MAX`.
    pub fn of_consumer(
        container: &Name,
        link: &str,
        user: Option<&Name>,
        address: Option<&str>,
    ) -> Self {
        let text = |text| Name::from(cut(text, EVIDENCE_NAME_BYTES_MAX));
        Self {
            container: Some(cut_name(container)),
            link: Some(text(link)),
            user: user.map(cut_name),
            how: Some(How::Rejected),
            address: address.map(text),
            ..Self::default()
        }
    }

    /// The same consumer with another failure and the annotations of `modified`:
    /// `x-opt-dead-letter-category` is the condition, `x-opt-dead-letter-reason` the description.
    #[must_use]
    pub fn with_annotations(&self, how: How, annotations: Option<&Bytes>) -> Self {
        let mut failed = Self {
            how: Some(how),
            condition: None,
            description: None,
            info: None,
            ..self.clone()
        };
        let pairs = annotations.and_then(|map| Reader::new(map).map().ok());
        for pair in pairs.into_iter().flatten().flatten() {
            let key = decode_value(pair.key);
            let Some(key) = key.as_ref().ok().and_then(|(key, _)| key.as_str()) else {
                continue;
            };
            let value = || decode_value(pair.value).ok().map(|(value, _)| value);
            match key {
                CATEGORY => {
                    failed.condition = value().as_ref().and_then(Value::as_str).map(cut_condition);
                }
                REASON => {
                    failed.description = value()
                        .as_ref()
                        .and_then(Value::as_str)
                        .map(cut_description);
                }
                _ => {}
            }
        }
        failed
    }

    /// The evidence of a death, if there is any, with the rule that set the dead-letter exchange,
    /// which is cut like a name.
    pub fn with_rule(given: Option<&Self>, rule: &Name) -> Self {
        let rule = Some(cut_name(rule));
        Self {
            rule,
            ..given.cloned().unwrap_or_default()
        }
    }

    /// The same consumer with the error that it gave, cut to its bounds. An empty condition is none.
    #[must_use]
    pub fn with_error(
        &self,
        condition: &str,
        description: Option<&str>,
        info: Option<&Bytes>,
    ) -> Self {
        Self {
            condition: (!condition.is_empty()).then(|| cut_condition(condition)),
            description: description.map(cut_description),
            info: info.and_then(cut_info),
            ..self.clone()
        }
    }

    /// Condition and description for listings: as they were sent, but of
    /// `com.microsoft:dead-letter` the `DeadLetterReason` and `DeadLetterErrorDescription` in its
    /// info.
    pub fn shown(&self) -> (Option<Name>, Option<Name>) {
        let mut shown = (self.condition.clone(), self.description.clone());
        if self.condition.as_deref() != Some(DEAD_LETTER) {
            return shown;
        }
        let pairs = self
            .info
            .as_ref()
            .and_then(|map| Reader::new(map).map().ok());
        for pair in pairs.into_iter().flatten().flatten() {
            let [key, value] = [pair.key, pair.value].map(|it| decode_value(it).ok());
            let (Some((key, _)), Some((value, _))) = (key, value) else {
                continue;
            };
            match (key.as_str(), value.as_str()) {
                (Some(DEAD_LETTER_REASON), Some(text)) => shown.0 = Some(Name::from(text)),
                (Some(DEAD_LETTER_DESCRIPTION), Some(text)) => shown.1 = Some(Name::from(text)),
                _ => {}
            }
        }
        shown
    }

    /// Bytes of all its texts.
    pub fn bytes(&self) -> usize {
        let names = [
            &self.condition,
            &self.description,
            &self.container,
            &self.link,
            &self.user,
            &self.address,
            &self.rule,
        ];
        let names = names.into_iter().flatten();
        let names: usize = names.map(|name| name.as_str().len()).sum();
        let how = self.how.map_or(0, |how| how.as_str().len());
        names + how + self.info.as_ref().map_or(0, Bytes::len)
    }

    /// Charges its memory to the gauge, once for all that share it.
    pub(super) fn charge(&self, gauge: &Gauge) {
        self.account
            .open(gauge, || (self.bytes() + OVERHEAD_BYTES) as u64);
    }
}

/// Keeps the evidence of all entries together below `limits::EVIDENCE_BYTES_MAX`: older entries
/// lose `info` first, then the description, then all of it.
pub(super) fn bound(entries: &mut [Arc<Entry>]) {
    let bytes = |entry: &Arc<Entry>| entry.evidence.as_ref().map_or(0, |it| it.bytes());
    let mut left: usize = entries.iter().map(bytes).sum();
    for step in [without_info, without_description, without_all] {
        for entry in entries.iter_mut().skip(1).rev() {
            if left <= EVIDENCE_BYTES_MAX {
                return;
            }
            if let Some(evidence) = &entry.evidence
                && let Some(less) = step(evidence)
            {
                left -= bytes(entry);
                Arc::make_mut(entry).evidence = less;
                left += bytes(entry);
            }
        }
    }
}

/// The reduced evidence; the outer none means that it has nothing of that kind to lose.
type Less = Option<Option<Arc<Evidence>>>;

fn without_info(evidence: &Arc<Evidence>) -> Less {
    evidence.info.as_ref()?;
    let info = None;
    Some(Some(Arc::new(Evidence {
        info,
        ..(**evidence).clone()
    })))
}

fn without_description(evidence: &Arc<Evidence>) -> Less {
    evidence.description.as_ref()?;
    let description = None;
    Some(Some(Arc::new(Evidence {
        description,
        ..(**evidence).clone()
    })))
}

#[allow(clippy::unnecessary_wraps, reason = "one of three of this type")]
fn without_all(_: &Arc<Evidence>) -> Less {
    Some(None)
}

/// The beginning of a text, cut at a character, of at most this many bytes.
fn cut(text: &str, bytes_max: usize) -> &str {
    let end = text.floor_char_boundary(bytes_max);
    text.get(..end).unwrap_or_default()
}

/// A name cut to its bound; the allocation is shared if it is short enough.
fn cut_name(name: &Name) -> Name {
    let kept = cut(name, EVIDENCE_NAME_BYTES_MAX);
    if kept.len() == name.len() {
        name.clone()
    } else {
        Name::from(kept)
    }
}

fn cut_condition(text: &str) -> Name {
    Name::from(cut(text, EVIDENCE_CONDITION_BYTES_MAX))
}

fn cut_description(text: &str) -> Name {
    if text.len() <= EVIDENCE_DESCRIPTION_BYTES_MAX {
        return Name::from(text);
    }
    let kept = cut(text, EVIDENCE_DESCRIPTION_BYTES_MAX - CUT.len());
    Name::from([kept, CUT].concat())
}

/// An encoded map within its bound: if it is too long, its pairs in order up to the first that does
/// not fit, and one that says so. None if it is not a map.
fn cut_info(info: &Bytes) -> Option<Bytes> {
    if info.len() <= EVIDENCE_INFO_BYTES_MAX {
        return Some(info.clone());
    }
    let mut out = Vec::with_capacity(EVIDENCE_INFO_BYTES_MAX);
    let map = begin_map(&mut out);
    let (mut count, mut length) = (2, MAP_BYTES + TRUNCATED_BYTES);
    for pair in Reader::new(info).map().ok()?.flatten() {
        length += pair.key.len() + pair.value.len();
        if length > EVIDENCE_INFO_BYTES_MAX {
            break;
        }
        out.extend_from_slice(pair.key);
        out.extend_from_slice(pair.value);
        count += 2;
    }
    write_symbol(&mut out, TRUNCATED);
    write_bool(&mut out, true);
    end(&mut out, map, count);
    Some(Bytes::from(out))
}
