//! Notes on groups of dead letters: for programs that embed the broker, and the look whether a group
//! is empty, after which its note is forgotten. [evidence part 8]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::admin::{Admin, internal};
use super::clock::SystemClock;
use super::scan::{Scan, ScanError};
use super::shared::Shared;
use super::{Store, Vhost};
use crate::base::limits::{GROUP_NOTES_LOOK_MS, GROUPS_SCAN_MS, GROUPS_SCANNED_MAX, SCAN_SLICE};
use crate::base::{Name, Position, QueueId};
use crate::broker::queue::MessageState;
use crate::broker::{Command, QueueCommand, Reply, UpkeepCommand};
use crate::management::{Refusal, check_group_note};
use crate::search::{DeathFilter, Fingerprint};

/// Time from the start to the first look.
const FIRST_LOOK: Duration = Duration::from_mins(1);
/// Queues whose names are listed under one hold of the core's lock.
const QUEUES_SLICE: usize = 64;

impl Admin {
    /// Writes a note on a group of dead letters, of at most 1,024 bytes, in place of one that is
    /// there. True: there was none. A group is named by the key that [`Admin::groups`] tells; its
    /// note is kept until the group is empty for seven days.
    ///
    /// Errors: 400: the key is not one of groups by `Group`, or the text is empty or too long. 404:
    /// there is no such vhost or queue. 429: there are 200 notes in the queue, or 1,000 in the
    /// vhost. 500: the vhost or the journal failed.
    pub async fn set_group_note(
        &self,
        vhost: &str,
        queue: &str,
        key: &str,
        text: &str,
    ) -> Result<bool, Refusal> {
        self.note_group((vhost, queue, key), Some((text, ""))).await
    }

    /// Removes a note on a group of dead letters.
    ///
    /// Errors: 404: there is no such vhost, queue or note. 500: the vhost or the journal failed.
    pub async fn clear_group_note(
        &self,
        vhost: &str,
        queue: &str,
        key: &str,
    ) -> Result<(), Refusal> {
        self.note_group((vhost, queue, key), None).await.map(drop)
    }

    /// The same for a user: the text and the user's name; none: it is removed.
    pub(super) async fn note_group(
        &self,
        (vhost, queue, key): (&str, &str, &str),
        note: Option<(&str, &str)>,
    ) -> Result<bool, Refusal> {
        check_group_note(key, note.map(|(text, _)| text))?;
        let command = QueueCommand::NoteGroup {
            name: Name::from(queue),
            key: Name::from(key),
            note: note.map(|(text, by)| (Name::from(text), Name::from(by))),
        };
        match self.apply(vhost, Command::Queue(command)).await? {
            Reply::NoteSet { created, .. } => Ok(created),
            Reply::Done { .. } => Ok(false),
            _ => Err(internal("the core gave no answer".to_owned())),
        }
    }
}

/// Looks again and again whether the groups with notes are empty, until the broker ends.
pub(super) async fn look(shared: Arc<Shared>) {
    let mut wait = FIRST_LOOK;
    loop {
        tokio::time::sleep(wait).await;
        wait = Duration::from_millis(GROUP_NOTES_LOOK_MS);
        for vhost in shared.all_vhosts() {
            let (store, clock) = (shared.node.store.clone(), shared.clock);
            let looked =
                tokio::task::spawn_blocking(move || look_through((&vhost, store.as_ref()), clock));
            if let Ok(Err(error)) = looked.await {
                tracing::warn!(%error, "notes on groups are kept: whether these are empty is not known");
            }
        }
    }
}

/// Looks through the queues of a vhost that have notes.
pub(super) fn look_through(
    (vhost, store): (&Arc<Vhost>, Option<&Arc<Store>>),
    clock: SystemClock,
) -> Result<(), ScanError> {
    let mut after = None;
    loop {
        let queues = vhost.look(|core| core.queues_with_notes(after, QUEUES_SLICE));
        let queues = queues.map_err(|_| ScanError::VhostFailed)?;
        let Some((last, _)) = queues.last() else {
            return Ok(());
        };
        after = Some(*last);
        for (id, name) in queues {
            look_for_groups((vhost, store), (id, name), clock)?;
        }
    }
}

/// Tells the core which groups with notes a queue has messages of. Where there are too many to look
/// at all of them, those that were not found are not known to be empty.
fn look_for_groups(
    (vhost, store): (&Arc<Vhost>, Option<&Arc<Store>>),
    (id, name): (QueueId, Name),
    clock: SystemClock,
) -> Result<(), ScanError> {
    let keys = vhost
        .look(|core| -> Vec<Name> { core.notes_of(id).map(|note| note.key.clone()).collect() });
    let mut absent: BTreeSet<Name> = keys
        .map_err(|_| ScanError::VhostFailed)?
        .into_iter()
        .collect();
    let mut present = Vec::new();
    let (mut scanned, mut is_through) = (0, true);
    let until = clock.now().mono.plus(GROUPS_SCAN_MS);
    'states: for state in MessageState::ALL {
        let from = (Arc::clone(vhost), store.cloned());
        let place = (state, Position(0));
        let mut scan = Scan::new(from, name.clone(), place, DeathFilter::default());
        while let Some(found) = scan.slice(SCAN_SLICE)? {
            for seen in &found {
                let key = Fingerprint::of(&seen.message).key;
                present.extend(absent.take(&*key));
            }
            if absent.is_empty() {
                break 'states;
            }
            if scanned + scan.scanned() >= GROUPS_SCANNED_MAX || clock.now().mono >= until {
                is_through = false;
                break 'states;
            }
        }
        scanned += scan.scanned();
    }
    let absent = if is_through { absent } else { BTreeSet::new() };
    let command = Command::Upkeep(UpkeepCommand::NotesSeen {
        queue: id,
        present,
        absent: absent.into_iter().collect(),
    });
    let told = vhost.work(|now, core, effects| core.apply(now, command, effects));
    told.map(drop).map_err(|_| ScanError::VhostFailed)
}
