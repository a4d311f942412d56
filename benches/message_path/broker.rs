//! The broker without server: what its connection task, its vhost and its journal thread do, in one
//! thread and in a fixed order.

use std::sync::Arc;

use bytes::BytesMut;
use coroner::access::{
    Mechanism, Mechanisms, Peer, Permissions, SECRET_BYTES, Secret, User, UserLimits,
};
use coroner::base::{ConnectionId, HoldBudget, Lsn, Millis, Name, Now, Seed, Timestamp};
use coroner::broker::registry::{DEFAULT_VHOST, Registry, RegistryFact, VhostSpec};
use coroner::broker::{Command, Core, CoreOptions, Effects, QueueCommand, Reply};
use coroner::deaths::EvidenceLevel;
use coroner::gateway::{Environment, Gateway, GatewayOptions};
use coroner::link::{Identity, LinkOptions};
use coroner::message::KeyRule;
use coroner::record::{self, Stored};
use coroner::store::{self, Appending, DiskJournal, Journal, Writer};
use coroner::wire::Value;

use super::memory_disk::MemoryDisk;

const GUEST: &str = "guest";
/// As in the server.
const OUTBOX_BYTES: u64 = 1 << 20;
/// As in the server: what housekeeping may read and write between two commits.
const MAINTAIN_BYTES: usize = 1 << 20;

/// One vhost with its connections.
pub struct Broker {
    pub now: Now,
    core: Core,
    effects: Effects,
    environment: Arc<Environment>,
    gateways: Vec<Gateway>,
    store: Option<Store>,
}

struct Store {
    journal: DiskJournal<Stored, MemoryDisk>,
    writer: Writer<Stored, MemoryDisk>,
}

impl Store {
    fn open() -> Self {
        let options = store::StoreOptions::default();
        let opened = store::open(MemoryDisk::default(), options, 1, |_| {});
        let (journal, writer) = opened.expect("an empty disk opens").start();
        Self { journal, writer }
    }
}

impl Broker {
    /// A broker, with a journal or in memory only.
    pub fn new(durable: bool) -> Self {
        let core = CoreOptions {
            journal: durable,
            ..CoreOptions::new(Name::from(DEFAULT_VHOST), Seed(1))
        };
        Self {
            now: Now::new(Millis(1), Timestamp(0)),
            core: Core::new(core),
            effects: Effects::new(),
            environment: Arc::new(Environment::new(registry(), options())),
            gateways: Vec::new(),
            store: durable.then(Store::open),
        }
    }

    /// A new connection; returns its index.
    pub fn accept(&mut self) -> usize {
        let id = ConnectionId(self.gateways.len() as u64);
        let environment = Arc::clone(&self.environment);
        let gateway = Gateway::new(self.now, id, Peer::IN_PROCESS, environment);
        self.gateways.push(gateway);
        self.gateways.len() - 1
    }

    pub fn declare(&mut self, name: &str, arguments: &[(&str, &str)]) {
        let arguments = arguments.iter();
        let arguments =
            arguments.map(|(key, value)| (Name::from(*key), Value::String((*value).to_owned())));
        let declare = Command::Queue(QueueCommand::Declare {
            connection: None,
            name: Name::from(name),
            durable: true,
            exclusive: false,
            auto_delete: false,
            arguments: arguments.collect(),
        });
        let reply = self.hold(|now, core, effects, _| core.apply(now, declare, effects));
        assert!(matches!(reply, Reply::QueueDeclared { .. }), "{reply:?}");
    }

    fn gateway(&mut self, index: usize) -> &mut Gateway {
        self.gateways.get_mut(index).expect("it was accepted")
    }

    /// One hold of the core's lock: what its records need in the journal, and who gets its effects.
    fn hold<T>(
        &mut self,
        work: impl FnOnce(Now, &mut Core, &mut Effects, &mut [Gateway]) -> T,
    ) -> T {
        let (core, effects) = (&mut self.core, &mut self.effects);
        let reservation = self.store.as_ref().map(|store| store.journal.reserve());
        if let Some(reservation) = &reservation {
            core.resume_at(reservation.first());
        }
        let result = work(self.now, core, effects, &mut self.gateways);
        if let (Some(store), Some(reservation)) = (&self.store, reservation) {
            let last = core.last_lsn();
            let records = effects.records.drain(..);
            let released = effects.released.drain(..);
            let append = |appending: &mut Appending<'_, Stored>| {
                record::append(appending, core.vhost(), records, released, last)
            };
            for name in store.journal.fill_with(reservation, append).0 {
                core.rename_body(name.queue, name.position, name.from, name.to);
            }
        } else {
            effects.records.clear();
            effects.released.clear();
        }
        for (connection, effect) in effects.outgoing.drain(..) {
            let index = usize::try_from(connection.0).expect("an index");
            let gateway = self.gateways.get_mut(index);
            let gateway = gateway.expect("it was accepted");
            gateway.batch().push_effect(effect);
        }
        effects.garbage.clear();
        result
    }

    fn turn(&mut self, index: usize, input: &mut BytesMut, output: &mut Vec<u8>) {
        let now = self.now;
        self.gateway(index).handle_bytes(now, input);
        loop {
            while self.gateway(index).has_work() {
                self.hold(|now, core, effects, gateways| {
                    let gateway = gateways.get_mut(index).expect("it was accepted");
                    gateway
                        .batch()
                        .apply(now, core, effects, HoldBudget::default());
                });
                self.gateway(index).handle_answers(now);
            }
            let store = self.store.as_ref();
            let durable = store.map_or(Lsn(u64::MAX), |store| store.journal.durable_lsn());
            let gateway = self.gateway(index);
            gateway.handle_effects(now, durable, 0);
            gateway.report_room(0);
            if !gateway.has_work() {
                break;
            }
        }
        self.gateway(index).poll_transmit(now, output);
    }

    fn commit(&mut self) {
        let Some(store) = &mut self.store else { return };
        let wrote = store.writer.write(self.now.wall).expect("memory takes all");
        if wrote.unsynced {
            store.writer.sync().expect("memory takes all");
        }
        let maintained = store.writer.maintain(MAINTAIN_BYTES);
        maintained.expect("memory takes all");
    }
}

/// A connection's turn: what came from the client, and what goes to it.
#[inline(never)]
pub fn counted_turn(
    broker: &mut Broker,
    connection: usize,
    input: &mut BytesMut,
    output: &mut Vec<u8>,
) {
    broker.turn(connection, input, output);
}

/// A commit of the journal's thread.
#[inline(never)]
pub fn counted_commit(broker: &mut Broker) {
    broker.commit();
}

fn registry() -> Registry {
    let (vhost, user) = (Name::from(DEFAULT_VHOST), Name::from(GUEST));
    let mut registry = Registry::new(vhost.clone(), [user.clone()]);
    let everything = Permissions::all().expect("patterns that match everything");
    for fact in [
        RegistryFact::VhostSet {
            name: vhost.clone(),
            spec: VhostSpec::default(),
        },
        RegistryFact::UserSet(Box::new(User {
            name: user.clone(),
            password: None,
            tags: Vec::new(),
            loopback_only: true,
            limits: UserLimits::default(),
        })),
        RegistryFact::PermissionsSet {
            vhost,
            user,
            permissions: everything,
        },
    ] {
        registry.apply(fact);
    }
    registry
}

fn options() -> GatewayOptions {
    let identity = Identity {
        container_id: "broker".to_owned(),
        ..Identity::default()
    };
    GatewayOptions {
        link: LinkOptions {
            identity,
            ..LinkOptions::default()
        },
        node: Name::from("broker"),
        anonymous_user: Some(Name::from(GUEST)),
        mechanisms: Mechanisms {
            enabled: Mechanism::ALL.to_vec(),
            plain_without_tls: false,
            has_anonymous: true,
        },
        secret: Secret([9; SECRET_BYTES]),
        message_bytes_max: 1 << 24,
        death_evidence: EvidenceLevel::default(),
        key_rule: KeyRule::Specification,
        auto_create: Vec::new(),
        temporary_prefix: "amq.gen-".to_owned(),
        counts_returns: false,
        outbox_bytes: OUTBOX_BYTES,
        seed: Seed(1),
    }
}
