//! The broker without server: a node whose connections and commits are moved in one thread and in a
//! fixed order.

use bytes::BytesMut;
use coroner::access::{
    Mechanism, Mechanisms, Peer, Permissions, SECRET_BYTES, Secret, User, UserLimits,
};
use coroner::base::{Name, Now, Seed};
use coroner::broker::registry::{DEFAULT_VHOST, RegistryFact, VhostSpec};
use coroner::broker::{Command, QueueCommand, Reply};
use coroner::deaths::EvidenceLevel;
use coroner::gateway::GatewayOptions;
use coroner::link::{Identity, LinkOptions};
use coroner::message::KeyRule;
use coroner::node::SteppedNode;
use coroner::wire::Value;

use super::memory_disk::MemoryDisk;

const GUEST: &str = "guest";
/// As in the server.
const OUTBOX_BYTES: u64 = 1 << 20;

/// One vhost with its connections.
pub struct Broker {
    node: SteppedNode<MemoryDisk>,
}

impl Broker {
    /// A broker, with a journal or in memory only.
    pub fn new(durable: bool) -> Self {
        let disk = durable.then(MemoryDisk::default);
        let node = SteppedNode::start(disk, options(), &facts());
        let node = node.expect("an empty disk opens");
        Self { node }
    }

    pub fn now(&self) -> Now {
        self.node.now()
    }

    /// A millisecond passes.
    pub fn advance(&self) {
        self.node.advance_ms(1);
    }

    /// What its connections keep, in bytes.
    #[allow(dead_code, reason = "the bench of constants asks")]
    pub fn kept_bytes(&self) -> u64 {
        self.node.kept_bytes()
    }

    /// A new connection; returns its index.
    pub fn accept(&mut self) -> usize {
        self.node.accept(Peer::IN_PROCESS)
    }

    pub fn declare(&mut self, name: &str, arguments: &[(&str, &str)]) {
        let arguments = arguments.iter();
        let arguments =
            arguments.map(|(key, value)| (Name::from(*key), Value::String((*value).to_owned())));
        let reply = self.node.apply(Command::Queue(QueueCommand::Declare {
            connection: None,
            name: Name::from(name),
            durable: true,
            exclusive: false,
            auto_delete: false,
            arguments: arguments.collect(),
        }));
        assert!(
            matches!(reply, Some(Reply::QueueDeclared { .. })),
            "{reply:?}"
        );
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
    broker.node.turn(connection, input, output);
}

/// A commit of the journal's thread.
#[inline(never)]
pub fn counted_commit(broker: &mut Broker) {
    broker.node.commit().expect("memory takes all");
}

/// The vhost, and one user who may do anything.
fn facts() -> [RegistryFact; 3] {
    let (vhost, user) = (Name::from(DEFAULT_VHOST), Name::from(GUEST));
    let everything = Permissions::all().expect("patterns that match everything");
    [
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
    ]
}

fn options() -> GatewayOptions {
    let identity = Identity {
        container_id: "broker".to_owned(),
        ..Identity::default()
    };
    GatewayOptions {
        transaction_bytes_max: 0,
        transaction_timeout_ms: 0,
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
            takes_tokens: false,
        },
        secret: Secret([9; SECRET_BYTES]),
        message_bytes_max: 1 << 24,
        death_evidence: EvidenceLevel::default(),
        key_rule: KeyRule::Specification,
        delivery_times: true,
        link_recovery: true,
        subscriptions: true,
        auto_create: Vec::new(),
        temporary_prefix: "amq.gen-".to_owned(),
        counts_returns: false,
        outbox_bytes: OUTBOX_BYTES,
        seed: Seed(1),
    }
}
