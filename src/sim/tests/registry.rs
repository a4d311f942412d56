//! The crash matrix of the registry and of vhosts that come and go: whatever is found afterwards is
//! a state that was confirmed or a later one, and no vhost has what another of its name had.

use std::collections::BTreeMap;

use crate::access::{Permissions, User, UserLimits};
use crate::base::{Lsn, Millis, Name, Now, QueueId, Seed, Timestamp};
use crate::broker::registry::{OWNER, Piece, Registry, RegistryFact, RestoringAll, VhostSpec};
use crate::broker::{CoreOptions, Fact, Record, Restoring, TopologyFact};
use crate::record::{Stored, decode};
use crate::store::sim_disk::{Crash, Faults, SimDisk};
use crate::store::{self, DiskJournal, Journal, Maintained, Random, Restored, StoreError, Writer};

const NOW: Now = Now::new(Millis(10_000_000), Timestamp(1_700_000_000_000));
const STEPS: u64 = 60;
const VHOSTS: [&str; 2] = ["v", "w"];
const USERS: [&str; 2] = ["ada", "bob"];

/// The registry, and the queues of each vhost.
type RegistryState = (Vec<RegistryFact>, BTreeMap<Name, Vec<Name>>);

fn options() -> store::StoreOptions {
    store::StoreOptions {
        device_block_bytes: 512,
        segment_bytes: 8 * 1024,
        rewrite_below_percent: 60,
        ..store::StoreOptions::default()
    }
}

fn stored(owner: &str, facts: Vec<Fact>) -> Stored {
    let record = Record {
        lsn: Lsn(0),
        wall: NOW.wall,
        facts: facts.into(),
        named: false,
    };
    Stored::new(Name::from(owner), record)
}

/// A journal being written, and the broker as it is after each record.
struct Life {
    journal: DiskJournal<Stored, SimDisk>,
    writer: Writer<Stored, SimDisk>,
    registry: Registry,
    /// Queues that were declared, by vhost; the next id of each.
    queues: BTreeMap<Name, (u64, Vec<Name>)>,
    states: Vec<(Lsn, RegistryState)>,
    random: Random,
}

impl Life {
    fn begin(disk: &SimDisk, seed: u64) -> Result<Self, StoreError> {
        let registry = Registry::new(Name::from("/"), []);
        let mut restoring = RestoringAll::new(registry);
        let opened = store::open(disk.clone(), options(), seed, |restored| {
            let (in_checkpoint, lsn, payload) = match restored {
                Restored::Stamp(_) => return,
                Restored::Block { lsn, payload } => (true, lsn, payload),
                Restored::Facts { lsn, payload } => (false, lsn, payload),
            };
            let (owner, record) = decode(lsn, payload).unwrap();
            let piece = Piece {
                record,
                in_checkpoint,
            };
            restoring.record(&owner, piece, |name| {
                let options = CoreOptions::new(name.clone(), Seed(1));
                Restoring::new(options, NOW, NOW.wall, u64::MAX)
            });
        })?;
        let (journal, writer) = opened.start();
        let (registry, vhosts, _) = restoring.finish();
        let queues = vhosts.into_iter().map(|(name, vhost)| {
            let core = vhost.finish();
            let names: Vec<Name> = core.queues().map(|queue| queue.name.clone()).collect();
            (name, (100, names))
        });
        let mut life = Self {
            journal,
            writer,
            registry,
            queues: queues.collect(),
            states: Vec::new(),
            random: Random(seed),
        };
        life.states.push((Lsn(0), life.state()));
        Ok(life)
    }

    fn state(&self) -> RegistryState {
        let queues = self.queues.iter();
        let queues = queues.filter(|(_, (_, names))| !names.is_empty());
        let queues = queues.map(|(vhost, (_, names))| (vhost.clone(), names.clone()));
        (self.registry.facts(), queues.collect())
    }

    fn append(&mut self, owner: &str, facts: Vec<Fact>) {
        let (lsn, _) = self.journal.append(stored(owner, facts));
        self.states.push((lsn, self.state()));
    }

    fn change(&mut self, fact: RegistryFact) {
        if let RegistryFact::VhostDeleted { name } = &fact {
            self.queues.remove(name);
        }
        self.registry.apply(fact.clone());
        self.append(OWNER, vec![Fact::Registry(Box::new(fact))]);
    }

    /// One thing that an operator or a client does.
    fn act(&mut self) {
        let vhost = Name::from(VHOSTS[usize::from(self.random.below(2) == 0)]);
        let user = Name::from(USERS[usize::from(self.random.below(2) == 0)]);
        match self.random.below(9) {
            0 => self.change(RegistryFact::VhostDeleted { name: vhost }),
            1 => self.change(RegistryFact::UserDeleted { name: user }),
            2 | 3 => {
                let description = self.random.below(100).to_string();
                let spec = VhostSpec {
                    description,
                    ..VhostSpec::default()
                };
                self.change(RegistryFact::VhostSet { name: vhost, spec });
            }
            4 => self.change(RegistryFact::UserSet(Box::new(User {
                name: user,
                password: None,
                tags: Vec::new(),
                loopback_only: false,
                limits: UserLimits::default(),
            }))),
            5 => self.change(RegistryFact::PermissionsSet {
                vhost,
                user,
                permissions: Permissions::none(),
            }),
            _ if self.registry.vhost(&vhost).is_some() => self.declare(&vhost),
            _ => {}
        }
    }

    /// Declares a queue with an id that a vhost of this name may have given before.
    fn declare(&mut self, vhost: &Name) {
        let (next, names) = self.queues.entry(vhost.clone()).or_insert((1, Vec::new()));
        let name = Name::from(format!("q{:03}-{}", *next, self.states.len()));
        let queue = QueueId(*next);
        *next += 1;
        names.push(name.clone());
        let declared = Fact::Topology(TopologyFact::QueueDeclared {
            queue,
            name,
            auto_delete: false,
            arguments: Vec::new(),
        });
        self.append(vhost, vec![declared]);
    }

    /// A checkpoint, whole or given up in between.
    fn checkpoint(&mut self) -> Result<(), StoreError> {
        if !self.journal.begin_checkpoint() {
            return Ok(());
        }
        // What happens before the registry is copied is replayed over it.
        self.act();
        let facts = self.registry.facts().into_iter();
        let facts = facts.map(Box::new).map(Fact::Registry).collect();
        self.block(OWNER, facts);
        self.act();
        for (vhost, (_, names)) in self.queues.clone() {
            let facts = names.into_iter().map(|name| {
                Fact::Topology(TopologyFact::QueueDeclared {
                    queue: QueueId(name[1..4].parse().unwrap()),
                    name,
                    auto_delete: false,
                    arguments: Vec::new(),
                })
            });
            self.block(&vhost, facts.collect());
            self.act();
        }
        self.journal.end_checkpoint();
        self.commit()
    }

    fn block(&self, owner: &str, facts: Vec<Fact>) {
        self.journal.append_block(stored(owner, facts));
    }

    fn commit(&mut self) -> Result<(), StoreError> {
        self.writer.write(NOW.wall)?;
        if self.random.below(4) > 0 {
            self.writer.sync()?;
        }
        while self.writer.maintain(4_000)? == Maintained::More && self.random.below(3) > 0 {}
        Ok(())
    }

    fn live(&mut self, steps: u64) -> Result<(), StoreError> {
        for _ in 0..steps {
            self.act();
            match self.random.below(8) {
                0..4 => self.commit()?,
                4 => self.checkpoint()?,
                _ => {}
            }
        }
        self.commit()
    }

    fn allows(&self, found: &RegistryState) -> bool {
        let durable = self.journal.durable_lsn();
        let confirmed = self.states.iter().rposition(|(lsn, _)| *lsn <= durable);
        let states = &self.states[confirmed.unwrap_or(0)..];
        states.iter().any(|(_, state)| state == found)
    }
}

#[test]
fn registry_and_vhosts_after_a_crash_are_as_confirmed_or_later() {
    for seed in 1..12 {
        let whole = SimDisk::default();
        Life::begin(&whole, seed).unwrap().live(STEPS).unwrap();
        for operation in 1..=whole.operations() {
            let disk = SimDisk::default();
            disk.set_faults(Faults {
                off_at_operation: Some(operation),
                ..Faults::default()
            });
            let Ok(mut life) = Life::begin(&disk, seed) else {
                continue;
            };
            // The disk goes off somewhere in it.
            let _ = life.live(STEPS);
            for (number, crash) in [Crash::Process, Crash::Power].into_iter().enumerate() {
                let image = disk.crash(crash, &mut Random(operation * 2 + number as u64));
                let next = Life::begin(&image, seed).unwrap();
                let (_, found) = &next.states[0];
                let last = &life.states[life.states.len() - 1];
                assert!(
                    life.allows(found),
                    "seed {seed}, off at {operation}, {crash:?}:\n{found:?}\nlast {last:?}"
                );
            }
        }
    }
}
