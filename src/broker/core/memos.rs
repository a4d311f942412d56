//! What a vhost remembers for its operators: how far their imports came, see also
//! [`super::notes`]. [evidence part 11]

use std::collections::BTreeMap;

use super::Core;
use super::notes::Notes;
use super::redrive::since;
use crate::base::limits::{IMPORT_IDLE_MS, IMPORT_KEPT_MS, IMPORTS_KEPT_MAX};
use crate::base::{Lsn, Name, Now, QueueId};
use crate::broker::memo::{GroupNote, ImportLine, ImportMark, MemoFact};
use crate::broker::{Error, Fact, Reply};

/// The memos of a vhost.
#[derive(Debug, Default)]
pub(super) struct Memos {
    imports: BTreeMap<Name, Import>,
    pub(super) notes: Notes,
}

/// How far an import came.
#[derive(Debug)]
struct Import {
    mark: ImportMark,
    /// How far it came with a line whose message a restart keeps, as the journal says.
    kept: Option<ImportMark>,
    /// The record that says so; 0: one that a start has read, or none.
    lsn: Lsn,
}

impl Memos {
    /// The queues that imports went to.
    pub(super) fn imported_to(&self) -> impl Iterator<Item = QueueId> {
        self.imports.values().map(|import| import.mark.queue)
    }

    /// The memos as facts of a checkpoint: those about queues that a start keeps.
    pub(super) fn facts(&self, is_kept: impl Fn(QueueId) -> bool) -> impl Iterator<Item = Fact> {
        let imports = self.kept_imports().filter(|mark| is_kept(mark.queue));
        let imports = imports.cloned().map(MemoFact::Imported);
        let imports = imports.collect::<Vec<_>>().into_iter();
        let notes = self.notes.all().filter(move |note| is_kept(note.queue));
        let notes = notes.map(|note| MemoFact::NoteSet(Box::new(note.clone())));
        imports.chain(notes).map(Fact::Memo)
    }

    fn kept_imports(&self) -> impl Iterator<Item = &ImportMark> {
        let imports = self.imports.values();
        imports.filter_map(|import| import.kept.as_ref())
    }

    /// Applies a fact that was read from the journal.
    pub(super) fn restore(&mut self, fact: &MemoFact) {
        match fact {
            MemoFact::Imported(mark) => {
                // A line whose message died before it was written is told with its death.
                let known = self.imports.get(&mark.id);
                let is_behind = known.is_some_and(|Import { mark: known, .. }| {
                    known.queue == mark.queue && known.line > mark.line
                });
                if !is_behind {
                    let import = Import {
                        mark: mark.clone(),
                        kept: Some(mark.clone()),
                        lsn: Lsn(0),
                    };
                    self.imports.insert(mark.id.clone(), import);
                }
            }
            MemoFact::ImportForgotten { id } => {
                self.imports.remove(id);
            }
            MemoFact::NoteSet(note) => self.notes.set(GroupNote::clone(note)),
            MemoFact::NoteCleared { queue, key } => self.notes.clear(*queue, key),
            MemoFact::EventNumbers { .. } => {} // of the events
        }
    }
}

impl Core {
    /// The imports that are known, by id.
    pub fn imports(&self) -> impl Iterator<Item = &ImportMark> {
        self.memos.imports.values().map(|import| &import.mark)
    }

    /// Those that a restart knows, as it knows them: up to the last line whose message it keeps.
    pub fn kept_imports(&self) -> impl Iterator<Item = &ImportMark> {
        let imports = self.memos.kept_imports();
        imports.filter(|mark| self.is_kept(mark.queue))
    }

    /// Looks up how far an import came, before its lines are sent.
    pub(super) fn import_begin(
        &mut self,
        now: Now,
        queue: &Name,
        id: &Name,
    ) -> Result<Reply, Error> {
        let known = self.find_queue(None, queue)?;
        let queue = known.ok_or_else(|| Self::missing_queue(queue))?;
        self.forget_imports(now);
        self.check_import(now, queue, id)?;
        let known = self.memos.imports.get(id);
        let (behind, lsn) = known.map_or((0, Lsn(0)), |import| (import.mark.line, import.lsn));
        Ok(Reply::ImportBegun { behind, lsn })
    }

    /// The record of a line that is in its queue already, or one behind it; none: it is not there yet.
    pub(super) fn imported_by(
        &mut self,
        now: Now,
        queue: QueueId,
        line: &ImportLine,
    ) -> Result<Option<Lsn>, Error> {
        self.check_import(now, queue, &line.id)?;
        let known = self.memos.imports.get(&line.id);
        let known = known.filter(|import| import.mark.line >= line.line);
        Ok(known.map(|import| import.lsn))
    }

    /// Takes note of a line that was put into its queue, in the record that does so. The journal is
    /// told of one whose message it keeps only: others are to be imported again after a restart.
    pub(super) fn note_imported(
        &mut self,
        now: Now,
        queue: QueueId,
        (line, durable): (ImportLine, bool),
    ) {
        let mark = ImportMark {
            id: line.id,
            queue,
            line: line.line,
            at: now.wall,
        };
        let known = self.memos.imports.remove(&mark.id);
        let (kept, lsn) = if durable {
            let fact = MemoFact::Imported(mark.clone());
            self.recorder.push(Fact::Memo(fact));
            (Some(mark.clone()), self.recorder.lsn())
        } else {
            known.map_or((None, Lsn(0)), |known| (known.kept, known.lsn))
        };
        let import = Import {
            mark: mark.clone(),
            kept,
            lsn,
        };
        self.memos.imports.insert(mark.id, import);
    }

    /// Checks that an id is of this queue, and makes room for it if it is new.
    fn check_import(&mut self, now: Now, queue: QueueId, id: &Name) -> Result<(), Error> {
        if let Some(Import { mark, .. }) = self.memos.imports.get(id) {
            if mark.queue == queue {
                return Ok(());
            }
            if let Some(other) = self.queues.get(&mark.queue) {
                let (id, queue) = (id.clone(), other.name.clone());
                return Err(Error::ImportElsewhere { id, queue });
            }
            self.forget_import(id.clone()); // its queue was deleted
        }
        if self.memos.imports.len() < IMPORTS_KEPT_MAX {
            return Ok(());
        }
        let oldest = self.imports().min_by_key(|mark| mark.at);
        let idle = oldest.filter(|mark| since(now, mark.at) >= IMPORT_IDLE_MS);
        let Some(id) = idle.map(|mark| mark.id.clone()) else {
            return Err(Error::TooManyImports);
        };
        self.forget_import(id);
        Ok(())
    }

    /// Forgets the imports that nobody goes on with.
    fn forget_imports(&mut self, now: Now) {
        let old = self
            .imports()
            .filter(|mark| since(now, mark.at) > IMPORT_KEPT_MS);
        for id in old.map(|mark| mark.id.clone()).collect::<Vec<_>>() {
            self.forget_import(id);
        }
    }

    fn forget_import(&mut self, id: Name) {
        let known = self.memos.imports.remove(&id);
        if known.is_some_and(|import| import.kept.is_some()) {
            let fact = MemoFact::ImportForgotten { id };
            self.recorder.push(Fact::Memo(fact));
        }
    }
}
