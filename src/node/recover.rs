//! Recovery: from a data directory to a running journal and the cores in it; used with any disk.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::clock::SharedClock;
use super::committer::Committer;
use super::store::Store;
use crate::base::{Lsn, Name, Now, Timestamp};
use crate::broker::registry::{Piece, Registry, RegistryFact, RestoringAll};
use crate::broker::{Core, CoreOptions, Restoring};
use crate::record::{self, RecordError};
use crate::store::{self, Disk, GroupCommit, Restored};

/// Time without the broker above which it counts as none, in milliseconds: rather a wrong clock
/// than a long holiday.
const DOWN_MAX_MS: u64 = 30 * 24 * 60 * 60 * 1000;

/// The result of recovery: the registry, the cores of all vhosts, and the journal.
#[derive(Debug)]
pub(crate) struct Recovered<D: Disk> {
    pub(crate) cores: Vec<Core>,
    pub(crate) registry: Registry,
    pub(crate) store: Arc<Store<D>>,
    /// The committer of the journal.
    pub(crate) committer: Committer<D>,
    /// Number of segments and of records that were read.
    pub(crate) read: (usize, u64),
}

/// The progress of reading, for those who wait for the start.
#[derive(Debug, Default)]
pub(crate) struct ReadingProgress {
    records: AtomicU64,
    bytes: AtomicU64,
}

impl ReadingProgress {
    fn add(&self, bytes: usize) {
        self.records.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Records read so far, and their bytes.
    pub(crate) fn so_far(&self) -> (u64, u64) {
        let [records, bytes] = [&self.records, &self.bytes];
        (
            records.load(Ordering::Relaxed),
            bytes.load(Ordering::Relaxed),
        )
    }
}

/// How a data directory is recovered.
#[derive(Debug)]
pub(crate) struct RecoveryPlan<O> {
    /// The empty registry that the records are applied to.
    pub(crate) registry: Registry,
    /// Makes the options for the core of a vhost.
    pub(crate) core_options: O,
    pub(crate) store_options: store::StoreOptions,
    pub(crate) group_commit: GroupCommit,
    /// Random number that tells this journal from others.
    pub(crate) seed: u64,
    pub(crate) clock: SharedClock,
    /// Updated with each record that is read.
    pub(crate) progress: Arc<ReadingProgress>,
}

/// Why recovery failed.
#[derive(Debug)]
pub(crate) enum NotRecovered<E> {
    /// The data directory cannot be read, or must not be written to.
    Data(String),
    /// The configured content of the registry is wrong.
    Registry(E),
}

impl<O: Fn(&Name) -> CoreOptions> RecoveryPlan<O> {
    /// Reads what is on a disk and opens its journal. `complete` adds to the registry what has to
    /// be in it, and returns the facts of that; its argument tells whether the registry was empty
    /// before.
    pub(crate) fn recover<D: Disk, E>(
        self,
        disk: D,
        complete: impl FnOnce(Registry, bool) -> Result<(Registry, Vec<RegistryFact>), E>,
    ) -> Result<Recovered<D>, NotRecovered<E>> {
        let Self {
            registry,
            core_options,
            store_options,
            group_commit,
            seed,
            clock,
            progress,
        } = self;
        let now = clock.now();
        let mut reading = RecoveredState {
            now,
            stopped: now.wall,
            restoring: RestoringAll::new(registry),
            newer: None,
            unreadable: 0,
            progress,
        };
        let sync = store_options.sync;
        let read = store::read(disk, |restored| reading.take(restored, &core_options));
        let read = read.map_err(|error| NotRecovered::Data(error.to_string()))?;
        if let Some(why) = reading.refusal() {
            return Err(NotRecovered::Data(why));
        }
        let opened = read.open(store_options, seed);
        let mut opened = opened.map_err(|error| NotRecovered::Data(error.to_string()))?;
        // A deleted vhost or user must not reappear because the record of its deletion is damaged.
        let is_fresh = !reading.restoring.has_registry() && reading.unreadable == 0;
        let (registry, mut restoring, mut facts) = reading.restoring.finish();
        let (registry, missing) = complete(registry, is_fresh).map_err(NotRecovered::Registry)?;
        facts.extend(missing);
        for (name, _) in registry.vhosts() {
            let fresh = || Restoring::new(core_options(name), now, now.wall, DOWN_MAX_MS);
            restoring.entry(name.clone()).or_insert_with(fresh);
        }
        for (name, vhost) in &mut restoring {
            let names = vhost.names().into_iter();
            let lost = names.filter(|name| !opened.retain(*name)).collect();
            drop_lost(name, vhost, &lost);
            tell_broken_filters(name, vhost);
        }
        let read = (opened.recovery().segments, opened.recovery().facts);
        let replayed_bytes = opened.recovery().bytes_read;
        let (journal, writer) = opened.start();
        let cores = restoring.into_values().map(Restoring::finish).collect();
        let store = Store::new(journal, replayed_bytes, now.mono);
        let committer = Committer::new(Arc::clone(&store), writer, (sync, group_commit), clock);
        store.append_registry(now, facts);
        Ok(Recovered {
            cores,
            registry,
            store,
            committer,
            read,
        })
    }
}

/// Registry and vhosts while their records are read.
struct RecoveredState {
    now: Now,
    stopped: Timestamp,
    restoring: RestoringAll,
    /// The first record of a newer version: it must not be thrown away.
    newer: Option<RecordError>,
    unreadable: u64,
    progress: Arc<ReadingProgress>,
}

impl RecoveredState {
    /// Why the start must be refused: it would throw something away.
    fn refusal(&self) -> Option<String> {
        if self.unreadable > 0 {
            let records = self.unreadable;
            tracing::error!(records, "journal records cannot be read and are left out");
        }
        let error = self.newer.as_ref()?;
        Some(format!("it was written by a newer version: {error}"))
    }

    fn take(&mut self, restored: Restored<'_>, options: impl Fn(&Name) -> CoreOptions) {
        let (lsn, payload, in_checkpoint) = match restored {
            Restored::Stamp(stamp) => {
                self.stopped = stamp;
                return;
            }
            Restored::Block { lsn, payload } => (lsn, payload, true),
            Restored::Facts { lsn, payload } => (lsn, payload, false),
        };
        self.progress.add(payload.len());
        let read = if in_checkpoint {
            record::decode_block(lsn, payload)
        } else {
            record::decode(lsn, payload)
        };
        let (owner, record) = match read {
            Ok(read) => read,
            Err(error) if error.is_of_newer_version() => {
                self.newer = Some(error);
                return;
            }
            Err(error) => {
                self.unreadable += 1;
                tracing::error!(lsn = lsn.0, %error, "a journal record cannot be read");
                return;
            }
        };
        let (now, stopped) = (self.now, self.stopped);
        let record = Piece {
            record,
            in_checkpoint,
        };
        self.restoring.record(&owner, record, |name| {
            Restoring::new(options(name), now, stopped, DOWN_MAX_MS)
        });
    }
}

/// Drops messages whose records are missing, and logs which queues lost their declarations.
fn drop_lost(name: &Name, vhost: &mut Restoring, lost: &BTreeSet<Lsn>) {
    let damaged = vhost.discard_lost(lost);
    if damaged > 0 {
        tracing::error!(vhost = %name, damaged, "messages without bytes are dropped");
    }
    for (_, queue, messages) in vhost.orphans() {
        tracing::error!(
            vhost = %name,
            %queue,
            messages,
            "the declaration of a queue is lost: what is left of its messages is in a new one"
        );
    }
}

/// Logs which subscriptions take all messages, since their filters do not compile.
fn tell_broken_filters(name: &Name, vhost: &Restoring) {
    for (queue, (filter, error)) in vhost.broken_filters() {
        tracing::error!(
            vhost = %name,
            %queue,
            filter,
            %error,
            "the filter of a subscription is not valid in this version: the subscription takes all \
             messages until its subscriber attaches with another one, or its queue is deleted"
        );
    }
}

#[cfg(feature = "cli")]
#[cfg(test)]
mod tests {
    use std::io;

    use parking_lot::Mutex;

    use super::*;
    use crate::base::{Millis, QueueId, Seed};
    use crate::broker::{Fact, Record, TopologyFact};
    use crate::wire::Value;

    /// What is logged.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Nobody was told that such a subscription takes all messages.
    #[test]
    fn a_subscription_whose_filter_does_not_compile_is_logged_with_the_reason() {
        let (vhost, now) = (Name::from("/"), Now::new(Millis(1), Timestamp(1)));
        let options = CoreOptions::new(vhost.clone(), Seed(3));
        let mut restoring = Restoring::new(options, now, now.wall, 0);
        let argument = Name::from("x-subscription-selector");
        let declared = TopologyFact::QueueDeclared {
            queue: QueueId(1),
            name: Name::from("amq.subscription.ada.news"),
            auto_delete: false,
            arguments: vec![(argument, Value::string("JMSType ="))],
        };
        restoring.record(&Record {
            lsn: Lsn(1),
            wall: now.wall,
            facts: [Fact::Topology(declared)].into_iter().collect(),
            named: false,
        });
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(move || writer.clone());
        tracing::subscriber::with_default(subscriber.finish(), || {
            tell_broken_filters(&vhost, &restoring);
        });
        let told = String::from_utf8(log.0.lock().clone()).unwrap();
        for part in [
            " ERROR ",
            "queue=amq.subscription.ada.news",
            "filter=\"selector\"",
            "error=",
        ] {
            assert!(told.contains(part), "{part}: {told}");
        }
    }
}
