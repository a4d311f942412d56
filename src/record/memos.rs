//! Facts about what is remembered for operators to bytes and back.
//!
//! ```text
//! imported          id: string, queue, line: ulong, time: timestamp
//! import forgotten  id: string
//! note set          queue: ulong, group, text, user: string, time, empty since: timestamp or null
//! note cleared      queue: ulong, group: string
//! event numbers     below: ulong
//! ```

use super::RecordError;
use super::decode::{name, time, ulong};
use super::kind::OfMemo;
use crate::base::{QueueId, Timestamp};
use crate::broker::Fact;
use crate::broker::memo::{GroupNote, ImportMark, MemoFact};
use crate::wire::{Fields, write_or_null, write_string, write_timestamp, write_ulong};

pub(super) fn encode(fact: &MemoFact, out: &mut Vec<u8>) {
    match fact {
        MemoFact::Imported(mark) => {
            out.push(OfMemo::Imported.byte());
            write_string(out, &mark.id);
            write_ulong(out, mark.queue.0);
            write_ulong(out, mark.line);
            write_timestamp(out, mark.at.0);
        }
        MemoFact::ImportForgotten { id } => {
            out.push(OfMemo::ImportForgotten.byte());
            write_string(out, id);
        }
        MemoFact::NoteSet(note) => {
            out.push(OfMemo::NoteSet.byte());
            write_ulong(out, note.queue.0);
            for text in [&note.key, &note.text, &note.by] {
                write_string(out, text);
            }
            write_timestamp(out, note.at.0);
            let empty_since = note.empty_since.map(|since| since.0);
            write_or_null(out, empty_since, write_timestamp);
        }
        MemoFact::NoteCleared { queue, key } => {
            out.push(OfMemo::NoteCleared.byte());
            write_ulong(out, queue.0);
            write_string(out, key);
        }
        MemoFact::EventNumbers { below } => {
            out.push(OfMemo::EventNumbers.byte());
            write_ulong(out, *below);
        }
    }
}

pub(super) fn decode(kind: OfMemo, fields: &mut Fields<'_>) -> Result<Fact, RecordError> {
    Ok(Fact::Memo(match kind {
        OfMemo::Imported => MemoFact::Imported(ImportMark {
            id: name(fields, "id of an import")?,
            queue: QueueId(ulong(fields, "queue of an import")?),
            line: ulong(fields, "line of an import")?,
            at: time(fields)?,
        }),
        OfMemo::ImportForgotten => MemoFact::ImportForgotten {
            id: name(fields, "id of an import")?,
        },
        OfMemo::NoteSet => MemoFact::NoteSet(Box::new(GroupNote {
            queue: QueueId(ulong(fields, "queue of a note")?),
            key: name(fields, "group of a note")?,
            text: name(fields, "text of a note")?,
            by: name(fields, "user of a note")?,
            at: time(fields)?,
            empty_since: fields.timestamp()?.map(Timestamp),
        })),
        OfMemo::NoteCleared => MemoFact::NoteCleared {
            queue: QueueId(ulong(fields, "queue of a note")?),
            key: name(fields, "group of a note")?,
        },
        OfMemo::EventNumbers => MemoFact::EventNumbers {
            below: ulong(fields, "numbers of events")?,
        },
    }))
}
