//! Reads a data directory through the record layer, as a start would, and checks its records.
#![deny(clippy::wildcard_enum_match_arm)]

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use thiserror::Error;

use super::findings::{Cut, Damage, Findings, Queue, Records, Segment, Start, Vhost};
use crate::base::{Lsn, Millis, Name, Now, QueueId, Seed, Timestamp};
use crate::broker::registry::{OWNER, RegistryFact};
use crate::broker::{Body, CoreOptions, Fact, Record, Restoring, TopologyFact};
use crate::record::{self, RecordError};
use crate::store::{Depth, Disk, Inspection, Lost, Restored, StoreError, StoreReport};

/// Queues copied out of a core at once.
const QUEUES_BATCH: usize = 256;

/// Why a directory cannot be examined.
#[derive(Debug, Error)]
pub(super) enum LookError {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It is intact, but of a newer version, which cannot be judged here.
    #[error("it was written by a newer version: {why} (record {record})")]
    Newer { record: u64, why: RecordError },
}

/// Examines a directory; bodies are read if `depth` is everything.
pub(super) fn look<D: Disk>(disk: &D, depth: Depth) -> Result<Findings, LookError> {
    let mut inspection = Inspection::new(disk, depth)?;
    let mut findings = Findings::default();
    let mut vhosts: BTreeMap<Name, VhostReading> = BTreeMap::new();
    let mut newer = None;
    inspection.replay(|restored| {
        let (lsn, payload, in_checkpoint) = match restored {
            Restored::Block { lsn, payload } => (lsn, payload, true),
            Restored::Facts { lsn, payload } => (lsn, payload, false),
            Restored::Stamp(_) => return,
        };
        let read = if in_checkpoint {
            record::decode_block(lsn, payload)
        } else {
            record::decode(lsn, payload)
        };
        match read {
            Ok((owner, record)) if &*owner == OWNER => {
                for fact in &record.facts {
                    forget_deleted(fact, &mut vhosts);
                }
            }
            Ok((name, record)) => {
                let vhost = vhosts.entry(name.clone());
                let vhost = vhost.or_insert_with(|| VhostReading::new(name));
                vhost.take(&record, in_checkpoint);
            }
            Err(why) if why.is_of_newer_version() => {
                let record = lsn.0;
                newer = Some(LookError::Newer { record, why });
            }
            Err(error) => findings.add(Damage::Record {
                record: lsn.0,
                why: error.to_string(),
            }),
        }
    })?;
    if let Some(newer) = newer {
        return Err(newer);
    }
    for (name, vhost) in &mut vhosts {
        vhost.check_queues(&mut findings);
        vhost.check_bodies(&mut inspection, depth, &mut findings)?;
        findings.vhosts.push(describe(name, &vhost.restoring));
    }
    add_report(inspection.report(), &mut findings);
    Ok(findings)
}

/// Forgets the content of a deleted vhost.
fn forget_deleted(fact: &Fact, vhosts: &mut BTreeMap<Name, VhostReading>) {
    if let Fact::Registry(fact) = fact
        && let RegistryFact::VhostDeleted { name } = &**fact
    {
        vhosts.remove(name);
    }
}

/// One vhost while its records are read.
struct VhostReading {
    restoring: Restoring,
    /// Queues that were declared, or deleted after the checkpoint began.
    declared: BTreeSet<QueueId>,
    /// Queues that records refer to, with the first of these records.
    mentioned: BTreeMap<QueueId, Lsn>,
    /// Lengths of bare messages, by the LSNs of their records.
    lengths: BTreeMap<Lsn, usize>,
}

impl VhostReading {
    fn new(name: Name) -> Self {
        // Times do not matter: nothing expires here.
        let now = Now::new(Millis::NEVER, Timestamp(0));
        Self {
            restoring: Restoring::new(CoreOptions::new(name, Seed(0)), now, now.wall, 0),
            declared: BTreeSet::new(),
            mentioned: BTreeMap::new(),
            lengths: BTreeMap::new(),
        }
    }

    fn take(&mut self, record: &Record, in_checkpoint: bool) {
        if in_checkpoint {
            self.restoring.checkpoint(record);
        } else {
            self.restoring.record(record);
        }
        for fact in &record.facts {
            match fact {
                Fact::Inserted {
                    message,
                    body,
                    entries,
                    ..
                } => {
                    for entry in entries {
                        self.mention(entry.queue, record.lsn);
                    }
                    let named = match body {
                        Body::Named => record.lsn,
                        Body::At(lsn) => *lsn,
                        Body::Carried => continue,
                    };
                    self.lengths.insert(named, message.bare_len());
                }
                Fact::Removed { queue, .. }
                | Fact::Returned { queue, .. }
                | Fact::Delayed { queue, .. }
                | Fact::Changed { queue, .. }
                | Fact::DeadPending { queue, .. }
                | Fact::Died { queue, .. }
                | Fact::Purged { queue, .. } => self.mention(*queue, record.lsn),
                Fact::Checkpointed { queue, messages } => {
                    self.mention(*queue, record.lsn);
                    let bodies = messages
                        .iter()
                        .filter(|checkpointed| checkpointed.body > Lsn(0));
                    let lengths = bodies
                        .map(|checkpointed| (checkpointed.body, checkpointed.size_bytes as usize));
                    self.lengths.extend(lengths);
                }
                Fact::Topology(
                    TopologyFact::QueueDeclared { queue, .. }
                    | TopologyFact::QueueDeleted { queue },
                ) => {
                    self.declared.insert(*queue);
                }
                // These do not refer to queues.
                Fact::Topology(
                    TopologyFact::QueueIds { .. }
                    | TopologyFact::ExchangeDeclared(_)
                    | TopologyFact::ExchangeDeleted { .. }
                    | TopologyFact::Bound { .. }
                    | TopologyFact::Unbound { .. }
                    | TopologyFact::PolicySet { .. }
                    | TopologyFact::PolicyDeleted { .. },
                )
                | Fact::VhostDeaths(_)
                | Fact::Redrive(_)
                | Fact::Memo(_)
                | Fact::PublisherLink(_)
                | Fact::ConsumerLink(_)
                | Fact::Registry(_) => {}
            }
        }
    }

    fn mention(&mut self, queue: QueueId, record: Lsn) {
        self.mentioned.entry(queue).or_insert(record);
    }

    fn check_queues(&self, findings: &mut Findings) {
        for (queue, record) in &self.mentioned {
            if !self.declared.contains(queue) {
                findings.add(Damage::Queue {
                    queue: queue.0,
                    record: record.0,
                });
            }
        }
    }

    /// Checks that every record that is referred to exists, and that bodies have the lengths in
    /// their messages.
    fn check_bodies<D: Disk>(
        &mut self,
        inspection: &mut Inspection<D>,
        depth: Depth,
        findings: &mut Findings,
    ) -> Result<(), StoreError> {
        for body in self.restoring.names() {
            let why = if inspection.retain(body) {
                match depth {
                    Depth::Start => None,
                    Depth::Everything => self.wrong(body, inspection.read(body)?),
                }
            } else {
                Some("its bytes are not there")
            };
            if let Some(why) = why {
                findings.start.lost_bodies += 1;
                findings.add(Damage::Body {
                    record: body.0,
                    why,
                });
            }
        }
        Ok(())
    }

    /// What is wrong with the payload that should be this body; none if nothing is.
    fn wrong(&self, body: Lsn, payload: Option<Bytes>) -> Option<&'static str> {
        let Some(payload) = payload else {
            return Some("its bytes cannot be read");
        };
        let Some(length) = self.lengths.get(&body) else {
            return None; // only an envelope is in it
        };
        match record::body_of(&payload) {
            None => Some("there are other bytes"),
            Some(bare) if *length != bare.len() => Some("its bytes have another length"),
            Some(_) => None,
        }
    }
}

fn describe(name: &Name, restoring: &Restoring) -> Vhost {
    let core = restoring.core();
    let mut queues = Vec::new();
    let mut last: Option<Name> = None;
    loop {
        let batch = core.queues_after(last.as_ref(), QUEUES_BATCH);
        let Some(newest) = batch.last() else {
            break;
        };
        last = Some(newest.name.clone());
        queues.extend(batch.into_iter().map(|queue| Queue {
            name: queue.name.to_string(),
            kind: queue.kind,
            messages: queue.messages_ready,
            messages_dead_pending: queue.messages_dead_pending,
            message_bytes: queue.ready_bytes,
        }));
    }
    let policies = [false, true].map(|operator| core.policies().list(operator).count());
    Vhost {
        name: name.to_string(),
        exchanges: core.router().exchanges().count(),
        bindings: core.router().bindings(None, None, None).len(),
        policies: policies.iter().sum(),
        messages: queues.iter().map(|queue| queue.messages).sum(),
        messages_dead_pending: queues.iter().map(|queue| queue.messages_dead_pending).sum(),
        message_bytes: queues.iter().map(|queue| queue.message_bytes).sum(),
        queues,
    }
}

/// Adds the findings of the store itself.
fn add_report(report: StoreReport, findings: &mut Findings) {
    for file in &report.unreadable {
        let file = file.clone();
        findings.add(Damage::Header { file });
    }
    for damage in report.damage {
        let kind = match damage.lost {
            Lost::Stretch => Damage::Stretch,
            Lost::Before => Damage::Missing,
            Lost::Checkpoint => Damage::Checkpoint,
            Lost::Block => Damage::Block,
            Lost::End => Damage::End,
        };
        findings.add(kind(Records {
            told: damage.to_string(),
            file: damage.file,
            from: damage.from,
            to: damage.to,
            after_record: damage.after.0,
            before_record: damage.before.map(|before| before.0),
        }));
    }
    findings.format_version = report.version;
    findings.stopped_in_order = report.closed;
    findings.last_commit_ms = report.stamp.map(|stamp| stamp.0);
    findings.start = Start {
        checkpoint_blocks: report.checkpoint_blocks,
        replays_from_record: report.replay_from.0,
        replays_facts: report.facts,
        cuts: report.cut.map(|cut| Cut {
            file: cut.file,
            offset: cut.offset,
            after_record: cut.after.0,
        }),
        removes: report.leftovers,
        sets_aside: report.unreadable,
        lost_bodies: findings.start.lost_bodies,
    };
    let segments = report.segments.into_iter().map(|segment| Segment {
        file: segment.file,
        first_record: segment.first.0,
        last_record: segment.last.0,
        data_bytes: segment.data_bytes,
        live_bytes: segment.live_bytes,
        live_records: segment.live_records,
        sealed: segment.sealed,
        rewritten: segment.generation,
    });
    findings.segments = segments.collect();
    let segments = &findings.segments;
    findings.data_bytes = segments.iter().map(|segment| segment.data_bytes).sum();
    findings.live_bytes = segments.iter().map(|segment| segment.live_bytes).sum();
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::base::Position;
    use crate::broker::Entry;
    use crate::message::{KeyRule, Message, Route};
    use crate::record::Stored;
    use crate::store::sim_disk::SimDisk;
    use crate::store::{DiskJournal, StoreOptions, Writer, open};

    struct Writing {
        disk: SimDisk,
        journal: DiskJournal<Stored, SimDisk>,
        writer: Writer<Stored, SimDisk>,
    }

    impl Writing {
        fn begin() -> Self {
            let disk = SimDisk::default();
            let options = StoreOptions {
                segment_bytes: 4096,
                ..StoreOptions::default()
            };
            let opened = open(disk.clone(), options, 1, |_| {}).unwrap();
            let (journal, writer) = opened.start();
            let mut writing = Self {
                disk,
                journal,
                writer,
            };
            writing.record(vec![Fact::Topology(TopologyFact::QueueDeclared {
                queue: QueueId(1),
                name: Name::from("q"),
                auto_delete: false,
                arguments: Vec::new(),
            })]);
            writing
        }

        fn stored(facts: Vec<Fact>) -> Stored {
            let (lsn, wall) = (Lsn(0), Timestamp(0));
            let record = Record {
                lsn,
                wall,
                facts: facts.into(),
                named: true,
            };
            Stored::new(Name::from("v"), record)
        }

        fn record(&mut self, facts: Vec<Fact>) -> Lsn {
            let (lsn, _) = self.journal.append(Self::stored(facts));
            self.writer.write(Timestamp(0)).unwrap();
            self.writer.sync().unwrap();
            lsn
        }

        fn check(mut self) -> Findings {
            self.writer.close(Timestamp(9)).unwrap();
            look(&self.disk, Depth::Everything).unwrap()
        }
    }

    fn message(text: &str) -> Arc<Message> {
        let mut bytes = b"\x00\x53\x77\xa1".to_vec();
        bytes.push(u8::try_from(text.len()).unwrap());
        bytes.extend_from_slice(text.as_bytes());
        Arc::new(Message::from_transfer(bytes.into(), KeyRule::Specification).unwrap())
    }

    fn inserted(text: &str, body: Body, queue: u64, position: u64) -> Fact {
        Fact::Inserted {
            message: message(text),
            route: Arc::new(Route {
                exchange: Name::default(),
                keys: Arc::from([Name::from("q")]),
            }),
            body,
            entries: vec![Entry {
                queue: QueueId(queue),
                position: Position(position),
                arrived: Timestamp(0),
                ttl_ms: None,
            }]
            .into(),
        }
    }

    /// What is told of a directory with one good message and this record too.
    #[track_caller]
    fn check(facts: Vec<Fact>, damage: &[&str], messages: u64) {
        let mut writing = Writing::begin();
        writing.record(vec![inserted("good", Body::Named, 1, 1)]);
        writing.record(facts);
        let findings = writing.check();
        let told: Vec<String> = findings.damage.iter().map(Damage::to_string).collect();
        assert_eq!(told, damage);
        assert_eq!(findings.is_damaged(), !damage.is_empty());
        assert_eq!(findings.vhosts[0].messages, messages);
        let (text, json) = (findings.check(), findings.json());
        assert_eq!(text.contains("no damage"), damage.is_empty(), "{text}");
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["damage"].as_array().unwrap().len(), damage.len());
        let queues = json["vhosts"][0]["queues"].as_array().unwrap().iter();
        let in_queues = queues.map(|queue| queue["messages"].as_u64().unwrap());
        assert_eq!(in_queues.sum::<u64>(), messages);
    }

    #[test]
    fn a_directory_whose_records_fit_together_has_no_damage() {
        check(vec![inserted("more", Body::Carried, 1, 2)], &[], 2);
        // The body of the good message has another place too.
        check(vec![inserted("good", Body::At(Lsn(3)), 1, 2)], &[], 2);
    }

    #[test]
    fn a_body_that_is_not_there_is_named() {
        let told = "the message of record 900: its bytes are not there";
        check(vec![inserted("lost", Body::At(Lsn(900)), 1, 2)], &[told], 2);
    }

    #[test]
    fn a_body_of_another_length_is_named() {
        let told = "the message of record 3: its bytes have another length";
        check(
            vec![inserted("long one", Body::At(Lsn(3)), 1, 2)],
            &[told],
            2,
        );
    }

    #[test]
    fn a_record_that_names_no_body_is_named() {
        let told = "the message of record 1: there are other bytes";
        check(vec![inserted("other", Body::At(Lsn(1)), 1, 2)], &[told], 2);
    }

    #[test]
    fn a_queue_whose_declaration_is_lost_is_named_and_keeps_its_messages() {
        let told = "record 5 speaks of queue 7, whose declaration is lost";
        check(vec![inserted("more", Body::Carried, 7, 1)], &[told], 2);
    }

    #[test]
    fn a_queue_that_is_deleted_again_is_no_damage() {
        let deleted = Fact::Topology(TopologyFact::QueueDeleted { queue: QueueId(7) });
        check(vec![inserted("more", Body::Carried, 7, 1), deleted], &[], 1);
    }

    #[test]
    fn a_body_in_pieces_is_read_whole() {
        let mut writing = Writing::begin();
        let bare = message("in pieces").bare_bytes();
        let piece = writing.journal.append_piece(bare.slice(..4)).0;
        let body = writing.journal.append_body([piece].into(), bare.slice(4..));
        writing.record(vec![inserted("in pieces", Body::At(body.0), 1, 1)]);
        let findings = writing.check();
        assert_eq!(findings.check().lines().last(), Some("no damage"));
    }
}
