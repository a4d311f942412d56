//! Elision: a message that is settled before its record was written is not written.
//!
//! ```text
//!  waiting | inserted q,1 | inserted q,2 |      now: removed q,1         -> both are left out
//!          | inserted q,2 |                     now: removed q,2,
//!                                                    inserted dead,1 @q,2 -> the death carries the body
//! ```
//!
//! What says of a message that it is somewhere (a line that was imported, a delivery that was accepted) goes
//! with its body into the record of its death: else it would be true before the message is safe there.
//!
//! Nothing is lost by it: the elided records had not been confirmed, and are confirmed with their
//! LSN only, when there is nothing of them to keep any more.
//!
//! Consecutive removals of written messages become one record, that of the first: each needs a few bytes then.

#[cfg(test)]
#[allow(
    clippy::wildcard_enum_match_arm,
    reason = "what a test leaves out is not lost"
)]
mod tests;

use super::encode::Stored;
use crate::base::{Lsn, Name, Position, QueueId, Timestamp};
use crate::broker::memo::MemoFact;
use crate::broker::publisher_link::{KeptDelivery, PublisherLinkFact};
use crate::broker::{Body, Entry, Fact, Facts, Record, Renamed, Renames};
use crate::store::{Amended, Appending};

/// Removals in one record, at most: a few kilobytes.
const REMOVED_MAX: usize = 256;

/// Appends the records of a batch, without those that need not be written, and releases the bodies
/// in `released`. `last` is the last LSN of the batch. Returns what became of bodies that are elsewhere
/// now.
pub fn append(
    appending: &mut Appending<'_, Stored>,
    vhost: &Name,
    records: impl Iterator<Item = Record>,
    released: impl Iterator<Item = Lsn>,
    last: Lsn,
) -> Renames {
    let mut elision = Elision {
        appending,
        vhost,
        removed: None,
        moved: Vec::new(),
        gone: Vec::new(),
        renamed: Vec::new(),
    };
    for mut record in records {
        elision.appending.count_payload(carried_bytes(&record));
        elision.shorten(&mut record);
        elision.push(record);
    }
    elision.push_removed();
    elision.gone.sort_unstable();
    let mut kept = Vec::new();
    for name in released {
        if elision.gone.binary_search(&name).is_ok() {
            continue;
        }
        // The core does not know yet that messages have their bodies there.
        if elision.renamed.iter().any(|renamed| renamed.to == name) {
            kept.push(name);
        } else {
            elision.appending.release(name, last);
        }
    }
    Renames {
        renamed: elision.renamed,
        kept,
    }
}

/// The LSN of an earlier record's body that an insertion refers to.
const fn named_elsewhere(fact: &Fact) -> Option<Lsn> {
    if let Fact::Inserted {
        body: Body::At(body),
        ..
    } = fact
    {
        Some(*body)
    } else {
        None
    }
}

/// The only insertion of a record and the body that it names, unless there are several, or the record
/// brings a body itself.
fn sole_insertion(record: &Record) -> Option<(usize, Lsn)> {
    let mut inserted = None;
    for (index, fact) in record.facts.iter().enumerate() {
        match fact {
            Fact::Inserted {
                body: Body::Named, ..
            } => return None,
            Fact::Inserted {
                body: Body::At(body),
                message,
                ..
            } => {
                if inserted.is_some() || message.is_hollow() {
                    return None;
                }
                inserted = Some((index, *body));
            }
            Fact::Inserted { .. }
            | Fact::Removed { .. }
            | Fact::Returned { .. }
            | Fact::Delayed { .. }
            | Fact::Changed { .. }
            | Fact::DeadPending { .. }
            | Fact::Checkpointed { .. }
            | Fact::Purged { .. }
            | Fact::Died { .. }
            | Fact::VhostDeaths(_)
            | Fact::Redrive(_)
            | Fact::Memo(_)
            | Fact::PublisherLink(_)
            | Fact::ConsumerLink(_)
            | Fact::Topology(_)
            | Fact::Registry(_) => {}
        }
    }
    inserted
}

const fn is_removal(fact: &Fact) -> bool {
    matches!(fact, Fact::Removed { .. })
}

/// Bytes of the bare messages in a record.
fn carried_bytes(record: &Record) -> u64 {
    let carried = record.facts.iter().map(|fact| match fact {
        Fact::Inserted { message, body, .. } => match body {
            Body::Named | Body::Carried => message.bare_len() as u64,
            Body::At(_) => 0,
        },
        Fact::Removed { .. }
        | Fact::Returned { .. }
        | Fact::Delayed { .. }
        | Fact::Changed { .. }
        | Fact::DeadPending { .. }
        | Fact::Checkpointed { .. }
        | Fact::Purged { .. }
        | Fact::Died { .. }
        | Fact::VhostDeaths(_)
        | Fact::Redrive(_)
        | Fact::Memo(_)
        | Fact::PublisherLink(_)
        | Fact::ConsumerLink(_)
        | Fact::Topology(_)
        | Fact::Registry(_) => 0,
    });
    carried.sum()
}

struct Elision<'a, 'b> {
    appending: &'a mut Appending<'b, Stored>,
    vhost: &'a Name,
    /// The removals collected last.
    removed: Option<Removed>,
    /// Old and new LSNs of bodies that deaths of this batch moved.
    moved: Vec<(Lsn, Lsn)>,
    /// LSNs of elided bodies.
    gone: Vec<Lsn>,
    renamed: Vec<Renamed>,
}

/// Removals that follow one another in a record.
struct Removed {
    /// The LSN of the first one, which the record gets: with that of another one, those before it could be
    /// confirmed while the record has no room.
    lsn: Lsn,
    /// The LSN of the last one.
    last: Lsn,
    wall: Timestamp,
    places: Vec<(QueueId, Position)>,
}

impl Elision<'_, '_> {
    /// Appends what is left of a record.
    fn push(&mut self, record: Record) {
        let (lsn, wall) = (record.lsn, record.wall);
        if record.facts.is_empty() {
            self.push_removed();
            self.appending.skip(lsn);
            return;
        }
        if !record.facts.iter().all(is_removal) {
            self.push_removed();
            let stored = Stored::new(self.vhost.clone(), record);
            self.appending.push(lsn, stored);
            return;
        }
        let goes_on = |run: &Removed| run.wall == wall && run.places.len() < REMOVED_MAX;
        if !self.removed.as_ref().is_some_and(goes_on) {
            self.push_removed();
        }
        let run = self.removed.get_or_insert_with(|| Removed {
            lsn,
            last: lsn,
            wall,
            places: Vec::new(),
        });
        run.last = lsn;
        run.places
            .extend(record.facts.iter().filter_map(|fact| match fact {
                Fact::Removed {
                    queue, position, ..
                } => Some((*queue, *position)),
                // The caller checked: there are only removals.
                Fact::Inserted { .. }
                | Fact::Returned { .. }
                | Fact::Delayed { .. }
                | Fact::Changed { .. }
                | Fact::DeadPending { .. }
                | Fact::Checkpointed { .. }
                | Fact::Purged { .. }
                | Fact::Died { .. }
                | Fact::VhostDeaths(_)
                | Fact::Redrive(_)
                | Fact::Memo(_)
                | Fact::PublisherLink(_)
                | Fact::ConsumerLink(_)
                | Fact::Topology(_)
                | Fact::Registry(_) => None,
            }));
    }

    /// Ends the current record of removals.
    fn push_removed(&mut self) {
        if let Some(run) = self.removed.take() {
            let stored = Stored::removed(self.vhost.clone(), run.wall, run.places);
            self.appending.push(run.lsn, stored);
            self.appending.use_up_to(run.last);
        }
    }

    /// The current LSN of a body.
    fn name(&self, body: Lsn) -> Lsn {
        // An LSN assigned here can only be replaced by a later one.
        self.moved.iter().fold(
            body,
            |name, (from, to)| if name == *from { *to } else { name },
        )
    }

    /// Whether messages have their envelopes in a waiting record.
    fn is_kept(&mut self, name: Lsn, record: &Record) -> bool {
        if name == record.lsn {
            let facts = &record.facts;
            let holds = |fact: &Fact| matches!(fact, Fact::Inserted { .. } | Fact::Changed { .. });
            return record.named && facts.iter().any(holds);
        }
        let kept = self
            .appending
            .amend(name, |stored| (stored.is_kept(), Amended::Kept));
        kept.unwrap_or(false)
    }

    /// Removes facts from a record that need not be written.
    fn shorten(&mut self, record: &mut Record) {
        // As a rule the records that it refers to are written: then there is nothing to leave out, and
        // nothing that it names was moved.
        let waits = |body: Lsn| body >= record.lsn || self.appending.is_open(body);
        let touches = |fact: &Fact| match fact {
            Fact::Removed { body, .. } => *body > Lsn(0) && waits(*body),
            Fact::Inserted { body, .. } => matches!(body, Body::At(body) if waits(*body)),
            Fact::Changed { body, .. } => matches!(body, Body::At(_)) && !self.moved.is_empty(),
            Fact::Returned { .. }
            | Fact::Delayed { .. }
            | Fact::DeadPending { .. }
            | Fact::Checkpointed { .. }
            | Fact::Purged { .. }
            | Fact::Died { .. }
            | Fact::VhostDeaths(_)
            | Fact::Redrive(_)
            | Fact::Memo(_)
            | Fact::PublisherLink(_)
            | Fact::ConsumerLink(_)
            | Fact::Topology(_)
            | Fact::Registry(_) => false,
        };
        if !record.facts.iter().any(touches) {
            return;
        }
        self.rename(record);
        self.take_over(record);
        // A dead letter may have died again at once, and wait for a target: it is told anew then.
        self.rename(record);
        let named = record.facts.iter().filter_map(named_elsewhere);
        for body in named.collect::<Vec<_>>() {
            self.appending.amend(body, |stored| {
                stored.is_named = true;
                ((), Amended::Kept)
            });
        }
        self.strike(record);
    }

    /// Replaces LSNs of bodies by their current ones.
    fn rename(&mut self, record: &mut Record) {
        if self.moved.is_empty() {
            return;
        }
        for fact in &mut record.facts {
            match fact {
                Fact::Removed { body, .. } => *body = self.name(*body),
                Fact::Inserted {
                    body: Body::At(body),
                    entries,
                    ..
                } => {
                    let (from, to) = (*body, self.name(*body));
                    *body = to;
                    if from != to {
                        self.renamed.extend(entries.iter().map(|entry| Renamed {
                            queue: entry.queue,
                            position: entry.position,
                            from,
                            to,
                        }));
                    }
                }
                Fact::Changed {
                    body: Body::At(body),
                    queue,
                    position,
                    ..
                } => {
                    let (from, to) = (*body, self.name(*body));
                    *body = to;
                    let (queue, position) = (*queue, *position);
                    if from != to {
                        self.renamed.push(Renamed {
                            queue,
                            position,
                            from,
                            to,
                        });
                    }
                }
                Fact::Inserted { .. }
                | Fact::Returned { .. }
                | Fact::Delayed { .. }
                | Fact::Changed { .. }
                | Fact::DeadPending { .. }
                | Fact::Checkpointed { .. }
                | Fact::Purged { .. }
                | Fact::Died { .. }
                | Fact::VhostDeaths(_)
                | Fact::Redrive(_)
                | Fact::Memo(_)
                | Fact::PublisherLink(_)
                | Fact::ConsumerLink(_)
                | Fact::Topology(_)
                | Fact::Registry(_) => {}
            }
        }
    }

    /// Moves the body of a message that is not written yet into the record of its death, which
    /// names it from now on.
    fn take_over(&mut self, record: &mut Record) {
        let Some((index, from)) = sole_insertion(record) else {
            return;
        };
        let undone = |fact: &Fact| matches!(fact, Fact::Removed { body, .. } if *body == from);
        let Some(removed) = record.facts.iter().position(undone) else {
            return;
        };
        let Some(&Fact::Removed {
            queue, position, ..
        }) = record.facts.get(removed)
        else {
            return;
        };
        let struck = self.appending.amend(from, |stored| {
            let is_sole = stored.entries().is_some_and(|entries| entries.len() == 1);
            if is_sole {
                stored.move_out(queue, position)
            } else {
                ((Struck::Nothing, Facts::new()), Amended::Kept)
            }
        });
        let Some((Struck::Body, following)) = struck else {
            return;
        };
        let to = record.lsn;
        if let Some(Fact::Inserted { body, entries, .. }) = record.facts.get_mut(index) {
            *body = Body::Named;
            self.renamed.extend(entries.iter().map(|entry| Renamed {
                queue: entry.queue,
                position: entry.position,
                from,
                to,
            }));
        }
        record.facts.remove(removed);
        record.facts.extend(following);
        self.appending.carry(from, to);
        self.moved.push((from, to));
    }

    /// Removes removals together with the insertions that they undo.
    fn strike(&mut self, record: &mut Record) {
        let names_itself = record.facts.iter().any(|fact| {
            matches!(fact, Fact::Inserted { body: Body::At(body), .. } if *body == record.lsn)
        });
        // What takes the place of a message that is removed has to be there when that is not any more.
        let replaces = !record.facts.iter().all(is_removal);
        let mut index = 0;
        while let Some(fact) = record.facts.get(index) {
            let Fact::Removed {
                queue,
                position,
                body,
            } = *fact
            else {
                index += 1;
                continue;
            };
            let struck = if body == record.lsn && names_itself {
                Struck::Nothing
            } else if body == record.lsn {
                strike(&mut record.facts, queue, position)
            } else if replaces {
                let move_out = |stored: &mut Stored| stored.move_out(queue, position);
                let moved = self.appending.amend(body, move_out);
                let (struck, following) = moved.unwrap_or_default();
                if struck != Struck::Nothing {
                    self.appending.carry(body, record.lsn);
                }
                record.facts.extend(following);
                struck
            } else {
                let strike = |stored: &mut Stored| stored.strike(queue, position);
                let struck = self.appending.amend(body, strike);
                struck.unwrap_or(Struck::Nothing)
            };
            if struck == Struck::Body && !self.is_kept(body, record) {
                self.gone.push(body);
            }
            if struck == Struck::Nothing {
                index += 1;
            } else {
                let undoes = |fact: &Fact| {
                    matches!(fact, Fact::Removed { queue: q, position: p, .. }
                        if (*q, *p) == (queue, position))
                };
                record.facts.retain(|fact| !undoes(fact));
                index = 0;
            }
        }
    }
}

/// The result of removing a position from an insertion.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Struck {
    #[default]
    Nothing,
    /// One of several positions was removed.
    Entry,
    /// The last position was removed, and the body with it.
    Body,
}

impl Stored {
    /// The positions at which the message entered whose body this record names.
    pub fn entries(&self) -> Option<&[Entry]> {
        self.facts().iter().find_map(|fact| {
            if let Fact::Inserted {
                body: Body::Named,
                entries,
                ..
            } = fact
            {
                Some(&entries[..])
            } else {
                None
            }
        })
    }

    /// Removes one position from the insertion of its named body, unless others refer to the body.
    fn strike(&mut self, queue: QueueId, position: Position) -> (Struck, Amended) {
        if self.is_named {
            return (Struck::Nothing, Amended::Kept);
        }
        let struck = self.change(|facts| strike(facts, queue, position));
        struck.unwrap_or((Struck::Nothing, Amended::Kept))
    }
}

impl Stored {
    /// Removes one position, as [`Stored::strike`] does, of a message that is in another record from now on:
    /// with its body go the facts that say of the message that it is somewhere.
    fn move_out(&mut self, queue: QueueId, position: Position) -> ((Struck, Facts), Amended) {
        if self.facts().iter().any(needs_its_message) {
            return ((Struck::Nothing, Facts::new()), Amended::Kept);
        }
        let is_told = self.facts().iter().any(follows_its_message);
        if is_told && self.entries().is_some_and(|entries| entries.len() > 1) {
            // That the message is somewhere is true here, of all of its copies.
            return ((Struck::Nothing, Facts::new()), Amended::Kept);
        }
        let (struck, amended) = self.strike(queue, position);
        if !is_told || struck != Struck::Body {
            return ((struck, Facts::new()), amended);
        }
        let taken = self.change(|facts| {
            let all = std::mem::take(facts).into_iter();
            let (following, rest) = all.partition(follows_its_message);
            *facts = rest;
            following
        });
        match taken {
            Some((following, amended)) => ((struck, following), amended),
            None => ((struck, Facts::new()), amended),
        }
    }
}

/// Whether a fact is true only with what its record inserts, so that the insertion cannot go to a later record,
/// which may not become durable: that the message left another place, how far an import came (a later line says
/// that of this one, too), and which deliveries were settled before (their tags may be in use again).
fn needs_its_message(fact: &Fact) -> bool {
    let settles = |decided: &KeptDelivery| !decided.settled.is_empty();
    is_removal(fact)
        || matches!(fact, Fact::Memo(MemoFact::Imported(_)))
        || matches!(fact, Fact::PublisherLink(PublisherLinkFact::Decided(decided)) if settles(decided))
}

/// Whether a fact says of a message that its record inserts that it is somewhere.
const fn follows_its_message(fact: &Fact) -> bool {
    match fact {
        Fact::PublisherLink(PublisherLinkFact::Decided(_)) => true,
        Fact::Inserted { .. }
        | Fact::Removed { .. }
        | Fact::Returned { .. }
        | Fact::Delayed { .. }
        | Fact::Changed { .. }
        | Fact::DeadPending { .. }
        | Fact::Checkpointed { .. }
        | Fact::Purged { .. }
        | Fact::Died { .. }
        | Fact::VhostDeaths(_)
        | Fact::Redrive(_)
        | Fact::Memo(
            MemoFact::Imported(_)
            | MemoFact::ImportForgotten { .. }
            | MemoFact::NoteSet(_)
            | MemoFact::NoteCleared { .. }
            | MemoFact::EventNumbers { .. },
        )
        | Fact::PublisherLink(
            PublisherLinkFact::Kept { .. } | PublisherLinkFact::Forgotten { .. },
        )
        | Fact::ConsumerLink(_)
        | Fact::Topology(_)
        | Fact::Registry(_) => false,
    }
}

fn strike(facts: &mut Facts, queue: QueueId, position: Position) -> Struck {
    for index in 0..facts.len() {
        let Some(Fact::Inserted {
            body: Body::Named,
            entries,
            message,
            ..
        }) = facts.get_mut(index)
        else {
            continue;
        };
        let place = entries
            .iter()
            .position(|entry| (entry.queue, entry.position) == (queue, position));
        let Some(place) = place else {
            return Struck::Nothing;
        };
        if place == 0 && entries.len() > 1 && message.outstanding_job().is_some() {
            // The first copy is the one of which a redrive learns: another would be taken for it.
            return Struck::Nothing;
        }
        entries.remove(place);
        let struck = if entries.is_empty() {
            facts.remove(index);
            Struck::Body
        } else {
            Struck::Entry
        };
        // What was to wait is not there any more.
        let waits = |fact: &Fact| {
            matches!(fact, Fact::Delayed { queue: q, position: p, .. }
                if (*q, *p) == (queue, position))
        };
        facts.retain(|fact| !waits(fact));
        return struck;
    }
    Struck::Nothing
}
