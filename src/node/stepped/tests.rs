use bytes::{Bytes, BytesMut};

use super::SteppedNode;
use crate::access::{
    Mechanism, Mechanisms, Peer, Permissions, SECRET_BYTES, Secret, User, UserLimits,
};
use crate::base::limits::HELD_UP_MS_MAX;
use crate::base::{Name, Seed};
use crate::broker::registry::{DEFAULT_VHOST, RegistryFact, VhostSpec};
use crate::broker::{Command, QueueCommand, Reply};
use crate::deaths::EvidenceLevel;
use crate::gateway::GatewayOptions;
use crate::link::{
    ClientOptions, ClientSasl, Connection, Event, Identity, LinkHandle, LinkOptions, Sending,
    SessionHandle,
};
use crate::message::KeyRule;
use crate::node::partials::Arriving;
use crate::store::sim_disk::SimDisk;
use crate::wire::performative::{
    Attach, Handle, ReceiverSettleMode, Role, SenderSettleMode, Source, Target, TargetArchetype,
};

const GUEST: &str = "guest";
/// Turns in which what was sent has been answered.
const TURNS: usize = 8;

fn facts() -> [RegistryFact; 3] {
    let (vhost, user) = (Name::from(DEFAULT_VHOST), Name::from(GUEST));
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
            permissions: Permissions::all().unwrap(),
        },
    ]
}

fn identified(container_id: &str) -> LinkOptions {
    LinkOptions {
        identity: Identity {
            container_id: container_id.to_owned(),
            ..Identity::default()
        },
        max_frame_size: 16_384,
        ..LinkOptions::default()
    }
}

fn options() -> GatewayOptions {
    GatewayOptions {
        link: identified("broker"),
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
        subscriptions: true,
        link_recovery: true,
        transaction_timeout_ms: 60_000,
        transaction_bytes_max: 1 << 20,
        auto_create: Vec::new(),
        temporary_prefix: "amq.gen-".to_owned(),
        counts_returns: false,
        outbox_bytes: 1 << 20,
        seed: Seed(1),
    }
}

/// A broker in memory with one connection of one client.
struct Pair {
    node: SteppedNode<SimDisk>,
    client: Connection,
    connection: usize,
    input: BytesMut,
    events: Vec<Event>,
}

impl Pair {
    fn new(queue: &str) -> Self {
        let mut node = SteppedNode::start(None, options(), &facts()).unwrap();
        let reply = node.apply(Command::Queue(QueueCommand::Declare {
            connection: None,
            name: Name::from(queue),
            durable: true,
            exclusive: false,
            auto_delete: false,
            arguments: Vec::default(),
        }));
        assert!(matches!(reply, Some(Reply::QueueDeclared { .. })));
        let connection = node.accept(Peer::IN_PROCESS);
        let options = ClientOptions {
            sasl: Some(ClientSasl::anonymous()),
            hostname: None,
            options: identified("client"),
        };
        Self {
            client: Connection::client(node.now(), options),
            node,
            connection,
            input: BytesMut::new(),
            events: Vec::new(),
        }
    }

    /// What the client has to say.
    fn said(&mut self) -> Vec<u8> {
        let mut said = Vec::new();
        self.client.poll_transmit(self.node.now(), &mut said);
        said
    }

    /// Gives the broker these bytes, and the client what comes back.
    fn hear(&mut self, said: &[u8]) {
        self.input.extend_from_slice(said);
        let mut heard = Vec::new();
        self.node.turn(self.connection, &mut self.input, &mut heard);
        let mut heard = BytesMut::from(&heard[..]);
        self.client.handle_bytes(self.node.now(), &mut heard);
        while let Some(event) = self.client.poll_event() {
            self.events.push(event);
        }
    }

    fn exchange(&mut self) {
        for _ in 0..TURNS {
            let said = self.said();
            self.hear(&said);
        }
    }

    fn begin(&mut self) -> SessionHandle {
        self.exchange();
        let session = self.client.begin().unwrap();
        self.exchange();
        session
    }

    /// Sends a message of 300,000 bytes, in an application-data section.
    fn send_large(&mut self, link: LinkHandle) {
        let mut message = vec![0x00, 0x53, 0x75, 0xb0];
        message.extend(300_000_u32.to_be_bytes());
        message.resize(message.len() + 300_000, b'm');
        let message = Bytes::from(message);
        let sending = Sending {
            token: 1,
            settled: false,
            message_format: 0,
            prefix: &[],
            bare: &message,
            tag: None,
        };
        let sent = self.client.send(link, sending, || message.clone());
        sent.unwrap();
    }

    fn set_alarm(&self) {
        self.node.node.vhosts.set_alarm(true);
        self.node.node.partials.set_arriving(Arriving::Stopped);
    }

    /// Whether the broker reads on, at this time.
    fn is_read(&mut self) -> bool {
        let now = self.node.now();
        let (connection, _) = &mut self.node.connections[self.connection];
        if connection.next_deadline() <= now.mono {
            connection.handle_timeout(now);
        }
        connection.wants_input()
    }

    fn why_unread(&self) -> String {
        let (connection, _) = &self.node.connections[self.connection];
        connection.why_unread()
    }
}

fn attach(role: Role, queue: &str) -> Attach {
    let address = Some(format!("/queues/{queue}"));
    let sends = role == Role::Sender;
    let (source, target) = match role {
        Role::Sender => (None, address),
        Role::Receiver => (address, None),
    };
    Attach {
        name: format!("{role:?}"),
        handle: Handle(0),
        role,
        snd_settle_mode: SenderSettleMode::Mixed,
        rcv_settle_mode: ReceiverSettleMode::First,
        source: Some(Box::new(Source {
            address: source,
            ..Source::default()
        })),
        target: Some(Box::new(TargetArchetype::Target(Target {
            address: target,
            ..Target::default()
        }))),
        unsettled: None,
        incomplete_unsettled: false,
        initial_delivery_count: sends.then_some(0),
        max_message_size: None,
        offered_capabilities: None,
        properties: None,
    }
}

/// A client published a large message and attached its consumers behind it. An alarm of what lay in the queues
/// kept the message from being read on, nobody else consumed, and the alarm stood for good.
#[test]
fn a_large_message_that_an_alarm_holds_up_is_given_up_and_what_follows_it_is_read() {
    let mut pair = Pair::new("large");
    let session = pair.begin();
    let link = pair.client.attach(session, attach(Role::Sender, "large"));
    pair.exchange();
    let link = link.unwrap();
    assert!(pair.client.credit(link) > 0);

    pair.send_large(link);
    // Half of it has arrived when the alarm begins.
    let mut said = pair.said();
    let consumer = pair.client.attach(session, attach(Role::Receiver, "large"));
    assert!(consumer.is_some());
    said.extend(pair.said());
    let (before, after) = said.split_at(150_000);
    pair.set_alarm();
    pair.hear(before);
    assert!(!pair.is_read(), "{}", pair.why_unread());

    pair.node.advance_ms(HELD_UP_MS_MAX - 1);
    assert!(!pair.is_read());
    pair.node.advance_ms(1);
    assert!(pair.is_read());
    pair.events.clear();
    pair.hear(after);
    pair.exchange();
    let told = format!("{:?}", pair.events);
    assert!(told.contains("held up a large message for 60 s"), "{told}");
    assert!(told.contains("AttachAnswered"), "{told}");
}

/// Fifty consumers went at once, and each encoded what those before it had given back; nobody else was served
/// meanwhile.
#[test]
fn what_a_consumer_is_given_when_its_peer_is_gone_is_not_encoded() {
    let mut pair = Pair::new("large");
    let session = pair.begin();
    let publisher = pair.client.attach(session, attach(Role::Sender, "large"));
    let consumer = pair.client.attach(session, attach(Role::Receiver, "large"));
    pair.exchange();
    pair.send_large(publisher.unwrap());
    pair.exchange();

    pair.client.set_credit(consumer.unwrap(), 1);
    let said = pair.said();
    pair.input.extend_from_slice(&said);
    let (connection, output) = &mut pair.node.connections[pair.connection];
    connection.last_turn(&mut pair.input, output);
    assert!(pair.input.is_empty(), "it was read");
    assert_eq!(output.unwritten(), 0);
    connection.turn(&mut pair.input, output);
    assert!(output.unwritten() > 200_000, "it would have been");
}
