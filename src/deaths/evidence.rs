//! What is known of a death: what a consumer said when it rejected, who it was, what sent the message
//! on: bounded, since every death keeps it and every record of a death carries it. [evidence part 2]

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

/// In which way a delivery failed. [evidence part 2]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum How {
    /// The consumer rejected it. [AMQP 3.4.2]
    Rejected,
    /// The consumer said `modified` with undeliverable-here. [AMQP 3.4.5]
    UndeliverableHere,
    /// The consumer said `modified` with delivery-failed, once too often. [AMQP 3.4.5]
    Failed,
    /// The session ended with the delivery unsettled, once too often. [AMQP 2.5.6]
    SessionEnded,
    /// The connection ended with the delivery unsettled, once too often.
    ConnectionLost,
    /// The consumer held the delivery for too long.
    ConsumerTimeout,
}

impl How {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Rejected,
        Self::UndeliverableHere,
        Self::Failed,
        Self::SessionEnded,
        Self::ConnectionLost,
        Self::ConsumerTimeout,
    ];

    /// The word on the wire, in the journal and over HTTP.
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

    /// The way of that word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|how| how.as_str() == word)
    }
}

/// What a consumer said when it rejected, and who it was. [dead-lettering part 10]
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Evidence {
    /// `rejected.error.condition`.
    pub condition: Option<Name>,
    /// `rejected.error.description`.
    pub description: Option<Name>,
    /// `rejected.error.info`, the encoded map as received.
    pub info: Option<Bytes>,
    /// Container id of the consumer's connection.
    pub container: Option<Name>,
    /// Name of its link.
    pub link: Option<Name>,
    /// Its user.
    pub user: Option<Name>,
    /// In which way the delivery failed; nothing where none did.
    pub how: Option<How>,
    /// Where its connection came from, `ip:port`.
    pub address: Option<Name>,
    /// What named the dead-letter exchange: `argument`, `policy NAME` or `operator-policy NAME`.
    pub rule: Option<Name>,
    /// Where its memory is counted.
    pub account: Account,
}

/// What it says, however it is counted.
#[allow(
    clippy::missing_fields_in_debug,
    reason = "where its memory is counted is no part of what it says"
)]
impl fmt::Debug for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Evidence")
            .field("condition", &self.condition)
            .field("description", &self.description)
            .field("info", &self.info)
            .field("container", &self.container)
            .field("link", &self.link)
            .field("user", &self.user)
            .field("how", &self.how.map(How::as_str))
            .field("address", &self.address)
            .field("rule", &self.rule)
            .finish()
    }
}

/// The condition with which Azure's clients reject, whatever is wrong.
const DEAD_LETTER: &str = "com.microsoft:dead-letter";
/// Where they say what is wrong: in the info.
const DEAD_LETTER_REASON: &str = "DeadLetterReason";
const DEAD_LETTER_DESCRIPTION: &str = "DeadLetterErrorDescription";
/// In what a description ends that was cut: an ellipsis.
const CUT: &str = "\u{2026}";
/// What clients that cannot give an error put into the annotations of `modified`.
const CATEGORY: &str = "x-opt-dead-letter-category";
const REASON: &str = "x-opt-dead-letter-reason";
/// The key that tells that pairs of `info` were left out.
const TRUNCATED: &str = "truncated";
/// Bytes of a map before its pairs, and of the pair that tells of others that were left out.
const MAP_BYTES: usize = 9;
const TRUNCATED_BYTES: usize = 2 + TRUNCATED.len() + 1;
/// Memory of one beside its texts, about, in bytes.
const OVERHEAD_BYTES: usize = 192;

impl Evidence {
    /// Who a consumer is that rejects, each name cut to `limits::EVIDENCE_NAME_BYTES_MAX`.
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

    /// The same consumer, failing in another way, with what it said in the annotations of
    /// `modified`: `x-opt-dead-letter-category` stands for a condition, `x-opt-dead-letter-reason`
    /// for a description.
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

    /// What was given of a death, if anything, and what sent the message on, cut as names are.
    pub fn with_rule(given: Option<&Self>, rule: &Name) -> Self {
        let rule = Some(cut_name(rule));
        Self {
            rule,
            ..given.cloned().unwrap_or_default()
        }
    }

    /// The same consumer with the error that it gave, as much of it as is kept.
    #[must_use]
    pub fn with_error(
        &self,
        condition: &str,
        description: Option<&str>,
        info: Option<&Bytes>,
    ) -> Self {
        Self {
            condition: Some(cut_condition(condition)),
            description: description.map(cut_description),
            info: info.and_then(cut_info),
            ..self.clone()
        }
    }

    /// Condition and description as lists show them: as they were sent, but of `com.microsoft:dead-letter`
    /// what stands in its info as `DeadLetterReason` and `DeadLetterErrorDescription`.
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

    /// Bytes of all that it says.
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

    /// Counts its memory, once for all that share it.
    pub(super) fn charge(&self, gauge: &Gauge) {
        self.account
            .open(gauge, || (self.bytes() + OVERHEAD_BYTES) as u64);
    }
}

/// Keeps the evidence of all entries together below `limits::EVIDENCE_BYTES_MAX`: older ones lose
/// info first, then description, at last all.
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

/// What is left of evidence; nothing where it had none of that.
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

/// The beginning of a text, so many bytes at most, cut at a character.
fn cut(text: &str, bytes_max: usize) -> &str {
    let end = text.floor_char_boundary(bytes_max);
    text.get(..end).unwrap_or_default()
}

/// A name, shared where it is short enough.
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

/// An encoded map; if it is too long its pairs in order up to the first that does not fit, and one
/// that says so. Nothing if it is no map.
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
