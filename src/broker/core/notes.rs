//! Notes of operators on groups of dead letters: kept until nobody finds a message of the group for a
//! week. [evidence part 8]

use std::collections::BTreeMap;

use super::Core;
use super::redrive::since;
use crate::base::limits::{GROUP_NOTE_KEPT_MS, GROUP_NOTES_MAX, GROUP_NOTES_OF_QUEUE_MAX};
use crate::base::{Name, Now, QueueId};
use crate::broker::memo::{GroupNote, MemoFact};
use crate::broker::{Error, Fact, Reply};

/// The notes of a vhost, by queue and group.
#[derive(Debug, Default)]
pub(super) struct Notes(BTreeMap<QueueId, BTreeMap<Name, GroupNote>>);

impl Notes {
    pub(super) fn all(&self) -> impl Iterator<Item = &GroupNote> {
        self.0.values().flat_map(BTreeMap::values)
    }

    fn get(&self, queue: QueueId, key: &Name) -> Option<&GroupNote> {
        self.0.get(&queue)?.get(key)
    }

    pub(super) fn set(&mut self, note: GroupNote) {
        let notes = self.0.entry(note.queue).or_default();
        notes.insert(note.key.clone(), note);
    }

    pub(super) fn clear(&mut self, queue: QueueId, key: &Name) {
        if let Some(notes) = self.0.get_mut(&queue) {
            notes.remove(key);
            if notes.is_empty() {
                self.0.remove(&queue);
            }
        }
    }

    /// Forgets the notes of a queue that was deleted: the journal knows by its deletion.
    pub(super) fn forget_queue(&mut self, queue: QueueId) {
        self.0.remove(&queue);
    }
}

impl Core {
    /// The notes on groups of dead letters, by queue and group.
    pub fn notes(&self) -> impl Iterator<Item = &GroupNote> {
        self.memos.notes.all()
    }

    /// The notes on groups of one queue.
    pub fn notes_of(&self, queue: QueueId) -> impl Iterator<Item = &GroupNote> {
        let notes = self.memos.notes.0.get(&queue);
        notes.into_iter().flat_map(BTreeMap::values)
    }

    /// Queues with notes on their groups, up to `count` behind `after`.
    pub fn queues_with_notes(&self, after: Option<QueueId>, count: usize) -> Vec<(QueueId, Name)> {
        let notes = &self.memos.notes.0;
        let behind = after.map_or(QueueId(0), |id| QueueId(id.0 + 1));
        let queues = notes.range(behind..).take(count);
        let named = queues.filter_map(|(id, _)| Some((*id, self.queues.get(id)?.name.clone())));
        named.collect()
    }

    /// Writes a note, or removes it if there is no text.
    pub(super) fn note_group(
        &mut self,
        now: Now,
        (name, key): (Name, Name),
        note: Option<(Name, Name)>,
    ) -> Result<Reply, Error> {
        let id = self
            .find_queue(None, &name)?
            .ok_or_else(|| Self::missing_queue(&name))?;
        let is_known = self.memos.notes.get(id, &key).is_some();
        match note {
            Some((text, by)) => {
                if !is_known {
                    self.check_room_for_note(id)?;
                }
                self.set_note(GroupNote {
                    queue: id,
                    key,
                    text,
                    by,
                    at: now.wall,
                    empty_since: None,
                });
                let lsn = self.recorder.topology();
                let created = !is_known;
                Ok(Reply::NoteSet { created, lsn })
            }
            None if is_known => {
                self.clear_note(id, &key);
                let lsn = self.recorder.topology();
                Ok(Reply::Done { lsn })
            }
            None => Err(Error::NoNote { queue: name, key }),
        }
    }

    fn check_room_for_note(&self, queue: QueueId) -> Result<(), Error> {
        let (place, max) = if self.notes_of(queue).count() >= GROUP_NOTES_OF_QUEUE_MAX {
            ("queue", GROUP_NOTES_OF_QUEUE_MAX)
        } else if self.notes().count() >= GROUP_NOTES_MAX {
            ("vhost", GROUP_NOTES_MAX)
        } else {
            return Ok(());
        };
        Err(Error::TooManyNotes { place, max })
    }

    /// Takes note of which groups with notes have messages, and forgets the notes on those that were
    /// empty for long.
    pub(super) fn notes_seen(
        &mut self,
        now: Now,
        queue: QueueId,
        (present, absent): (&[Name], &[Name]),
    ) {
        for (keys, is_empty) in [(present, false), (absent, true)] {
            for key in keys {
                let Some(note) = self.memos.notes.get(queue, key) else {
                    continue; // cleared since, or with its queue
                };
                match (note.empty_since, is_empty) {
                    (Some(empty), true) if since(now, empty) >= GROUP_NOTE_KEPT_MS => {
                        self.clear_note(queue, key);
                    }
                    (None, true) | (Some(_), false) => {
                        let mut note = note.clone();
                        note.empty_since = is_empty.then_some(now.wall);
                        self.set_note(note);
                    }
                    (Some(_), true) | (None, false) => {}
                }
            }
        }
    }

    fn set_note(&mut self, note: GroupNote) {
        if self.is_kept(note.queue) {
            let fact = MemoFact::NoteSet(Box::new(note.clone()));
            self.recorder.push(Fact::Memo(fact));
        }
        self.memos.notes.set(note);
    }

    fn clear_note(&mut self, queue: QueueId, key: &Name) {
        if self.is_kept(queue) {
            let key = key.clone();
            let fact = MemoFact::NoteCleared { queue, key };
            self.recorder.push(Fact::Memo(fact));
        }
        self.memos.notes.clear(queue, key);
    }

    /// Whether a queue outlives a restart, and its notes with it.
    pub(super) fn is_kept(&self, queue: QueueId) -> bool {
        self.queues.get(&queue).is_some_and(|queue| queue.durable)
    }
}
