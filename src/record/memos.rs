//! Facts about what is remembered for operators to bytes and back.
//!
//! ```text
//! imported          id: string, queue, line: ulong, time: timestamp
//! import forgotten  id: string
//! ```

use super::RecordError;
use super::decode::{name, time, ulong};
use super::kind::OfMemo;
use crate::base::QueueId;
use crate::broker::Fact;
use crate::broker::memo::{ImportMark, MemoFact};
use crate::wire::{Fields, write_string, write_timestamp, write_ulong};

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
    }))
}
