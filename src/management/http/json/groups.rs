//! JSON of groups of dead letters.

use serde_json::{Value, json};

use super::put;
use crate::base::{Position, Timestamp};
use crate::broker::memo::GroupNote;
use crate::search::{By, Counted, Group};

/// How far a queue was looked through for an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scanned {
    /// What messages were grouped by.
    pub by: By,
    /// Messages that were looked at.
    pub scanned: u64,
    /// Where it would go on; none: the queue is through.
    pub next: Option<Position>,
    /// Wall-clock time at which it began.
    pub as_of: Timestamp,
}

/// The JSON of groups: those that are shown and `other` add up to `matched`.
pub fn groups(counted: &Counted, scanned: &Scanned) -> Value {
    let groups = counted.groups.iter();
    let groups: Vec<Value> = groups.map(|it| group(it, counted.count)).collect();
    json!({
        "by": scanned.by.as_str(),
        "groups": groups,
        "other": { "count": counted.other_count, "groups": counted.other_groups },
        "matched": counted.count,
        "scanned": scanned.scanned,
        "complete": scanned.next.is_none(),
        "next": scanned.next.map(position),
        "as_of": scanned.as_of.0,
    })
}

/// A position in an answer: a text, since it may be beyond the integers that JSON has in every
/// language.
pub fn position(position: Position) -> Value {
    json!(position.to_string())
}

/// Puts a note into the group that it is on, if that is shown.
pub fn add_note(groups: &mut Value, note: &GroupNote) {
    if groups.get("by").and_then(Value::as_str) != Some(By::Group.as_str()) {
        return;
    }
    let shown = groups.get_mut("groups").and_then(Value::as_array_mut);
    let has_key = |group: &&mut Value| group.get("key").and_then(Value::as_str) == Some(&note.key);
    if let Some(group) = shown.and_then(|groups| groups.iter_mut().find(has_key)) {
        let (text, by) = (&*note.text, &*note.by);
        put(
            group,
            "note",
            json!({ "text": text, "by": by, "at": note.at.0 }),
        );
    }
}

fn group(group: &Group, all: u64) -> Value {
    #[allow(
        clippy::cast_precision_loss,
        reason = "a share is read to a few digits"
    )]
    let share = group.count as f64 / all.max(1) as f64;
    let time = |time: Option<Timestamp>| time.map(|time| time.0);
    json!({
        "key": group.key,
        "label": group.label,
        "count": group.count,
        "share": share,
        "oldest": time(group.oldest),
        "newest": time(group.newest),
        "note": null,
        "sample": group.sample.iter().copied().map(position).collect::<Vec<_>>(),
    })
}
