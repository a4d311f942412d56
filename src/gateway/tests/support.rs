//! A broker of one vhost without server: client engines, their gateways, one core.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use parking_lot::{Mutex, MutexGuard};

use crate::access::{
    self, Grant, LoginError, Mechanism, Mechanisms, PasswordHash, Peer, Permissions, Proof, Proven,
    SECRET_BYTES, Secret, TokenError, User, UserLimits,
};
use crate::base::{ConnectionId, HoldBudget, Lsn, Millis, Name, Now, Seed, Timestamp};
use crate::broker::registry::{DEFAULT_VHOST, Registry, RegistryFact, VhostSpec};
use crate::broker::{Command, Core, CoreOptions, Effects, QueueCommand, Reply, TopologyCommand};
use crate::deaths::EvidenceLevel;
use crate::gateway::{Bodies, Environment, Gateway, GatewayOptions};
use crate::link::{
    ClientOptions, ClientSasl, Connection, Event, Identity, LinkHandle, LinkOptions, Sending,
    SessionHandle,
};
use crate::message::KeyRule;
use crate::wire::performative::{
    Attach, DeliveryState, Error, Handle, ReceiverSettleMode, Role, SenderSettleMode, Source,
    Target, TargetArchetype,
};
use crate::wire::{Value, encode_value, write_descriptor};

/// A core and the clients on it.
pub(super) struct Scene {
    pub(super) core: Core,
    pub(super) effects: Effects,
    pub(super) environment: Arc<Environment>,
    pub(super) clients: Vec<Client>,
    pub(super) now: Now,
    /// What is durable.
    pub(super) durable: Lsn,
    /// Where bodies are streamed, if they are.
    pub(super) body_store: Option<Arc<BodyStore>>,
    /// What the core let go.
    pub(super) released: Vec<Lsn>,
    /// What one hold of the core's lock may do.
    pub(super) hold: HoldBudget,
}

/// A journal of bodies only.
#[derive(Debug, Default)]
pub(super) struct BodyStore(Mutex<StoredBodies>);

#[derive(Debug, Default)]
pub(super) struct StoredBodies {
    /// All that was appended: the pieces before, if it is the last, and bytes.
    pub(super) appended: Vec<(Option<Box<[Lsn]>>, Bytes)>,
    pub(super) released: Vec<Lsn>,
    /// The disk has no room.
    pub(super) is_short: bool,
}

/// Far from the core's own.
const BODY_LSN: u64 = 1 << 40;

impl BodyStore {
    pub(super) fn look(&self) -> MutexGuard<'_, StoredBodies> {
        self.0.lock()
    }

    pub(super) fn released(&self) -> Vec<Lsn> {
        self.look().released.clone()
    }

    fn append(&self, pieces: Option<Box<[Lsn]>>, bytes: Bytes) -> Lsn {
        let mut stored = self.look();
        stored.appended.push((pieces, bytes));
        Lsn(BODY_LSN + stored.appended.len() as u64 - 1)
    }

    fn get(&self, lsn: Lsn) -> (Option<Box<[Lsn]>>, Bytes) {
        let index = usize::try_from(lsn.0 - BODY_LSN).unwrap();
        self.look().appended[index].clone()
    }

    /// The bytes of one piece of a body.
    pub(super) fn piece(&self, body: Lsn, number: usize) -> Option<Bytes> {
        let (pieces, last) = self.get(body);
        let pieces = pieces.unwrap();
        match pieces.get(number) {
            Some(piece) => Some(self.get(*piece).1),
            None => (number == pieces.len()).then_some(last),
        }
    }

    /// The names of all pieces that are part of no body.
    pub(super) fn names(&self) -> Vec<Lsn> {
        let count = self.look().appended.len() as u64;
        (BODY_LSN..BODY_LSN + count).map(Lsn).collect()
    }
}

impl Bodies for BodyStore {
    fn append_piece(&self, bytes: Bytes) -> Lsn {
        self.append(None, bytes)
    }

    fn append_body(&self, pieces: Box<[Lsn]>, last: Bytes) -> Arc<Lsn> {
        Arc::new(self.append(Some(pieces), last))
    }

    fn release(&self, name: Lsn) {
        self.look().released.push(name);
    }

    fn is_short(&self) -> bool {
        self.look().is_short
    }
}

/// One client, its gateway and the pipes between them.
pub(super) struct Client {
    pub(super) engine: Connection,
    pub(super) gateway: Gateway,
    pub(super) events: Vec<Event>,
    pub(super) session: Option<SessionHandle>,
    /// The peer does not read: what the gateway writes stays unwritten.
    pub(super) blocked: bool,
    inbound: BytesMut,
    /// The last bytes that the gateway wrote.
    pub(super) written: Vec<u8>,
    outbound: BytesMut,
}

/// Who may do what: `guest` everything, `limited` names that begin with `mine`.
pub(super) fn registry() -> Registry {
    let default = Name::from(DEFAULT_VHOST);
    let mut registry = Registry::new(default.clone(), ["guest", "limited"].map(Name::from));
    for name in [default.clone(), Name::from("closed")] {
        let spec = VhostSpec::default();
        registry.apply(RegistryFact::VhostSet { name, spec });
    }
    for (name, pattern) in [("guest", ".*"), ("limited", "^mine")] {
        let user = Name::from(name);
        registry.apply(RegistryFact::UserSet(Box::new(User {
            name: user.clone(),
            password: Some(PasswordHash::rabbit_sha256([0; 4], name.as_bytes()).into()),
            tags: Vec::new(),
            loopback_only: true,
            limits: UserLimits::default(),
        })));
        registry.apply(RegistryFact::PermissionsSet {
            vhost: default.clone(),
            user,
            permissions: Permissions::new(pattern, pattern, pattern).unwrap(),
        });
    }
    registry
}

/// What the server does with a password or a token, at once: a token says what it grants, as
/// `USER EXPIRES_MS SCOPE ...`.
fn check(environment: &Environment, proof: &Proof) -> Result<Proven, LoginError> {
    let credentials = match proof {
        Proof::Token(token) => return bearer(&token.text),
        Proof::Password(credentials) => credentials,
    };
    access::check_authorization(credentials)?;
    let registry = environment.registry();
    let user = registry.user(&credentials.user);
    let password = user.and_then(|user| user.password.as_ref());
    if !password.is_some_and(|password| password.hash.verify(credentials.password.as_bytes())) {
        return Err(LoginError::Credentials);
    }
    Ok(Proven::User(Name::from(&*credentials.user)))
}

fn bearer(token: &str) -> Result<Proven, LoginError> {
    let mut words = token.split(' ');
    let (Some(user), Some(expires)) = (words.next(), words.next()) else {
        return Err(LoginError::Token(TokenError::Malformed));
    };
    let expires = Timestamp(expires.parse().unwrap());
    let grant = Grant::new(Name::from(user), expires, words).unwrap();
    Ok(Proven::Bearer(Arc::new(grant)))
}

pub(super) fn options() -> GatewayOptions {
    let identity = Identity {
        container_id: "server".to_owned(),
        ..Identity::default()
    };
    GatewayOptions {
        link: LinkOptions {
            identity,
            ..LinkOptions::default()
        },
        node: Name::from("node"),
        anonymous_user: None,
        mechanisms: Mechanisms {
            enabled: Mechanism::ALL.to_vec(),
            plain_without_tls: false,
            has_anonymous: false,
            takes_tokens: true,
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
        auto_create: vec!["auto.#".to_owned()],
        temporary_prefix: "amq.gen-".to_owned(),
        counts_returns: false,
        outbox_bytes: 1 << 20,
        seed: Seed(1),
    }
}

impl Scene {
    pub(super) fn new() -> Self {
        Self::with(options())
    }

    pub(super) fn with(options: GatewayOptions) -> Self {
        Self {
            core: Core::new(CoreOptions::new(Name::from("/"), Seed(1))),
            effects: Effects::new(),
            environment: Arc::new(Environment::new(registry(), options)),
            clients: Vec::new(),
            now: Now::new(Millis(1), Timestamp(0)),
            durable: Lsn(u64::MAX),
            body_store: None,
            released: Vec::new(),
            hold: HoldBudget::default(),
        }
    }

    /// The same, with a journal that bodies are streamed to.
    pub(super) fn with_body_store() -> (Self, Arc<BodyStore>) {
        let body_store = Arc::new(BodyStore::default());
        let bodies: Arc<dyn Bodies> = Arc::<BodyStore>::clone(&body_store);
        let environment = Environment::new(registry(), options()).with_bodies(Some(bodies));
        let scene = Self {
            environment: Arc::new(environment),
            body_store: Some(Arc::clone(&body_store)),
            ..Self::new()
        };
        (scene, body_store)
    }

    /// A client that logged in as `guest` and began a session.
    pub(super) fn client(&mut self) -> usize {
        self.client_as("guest", "guest", None)
    }

    pub(super) fn client_as(
        &mut self,
        user: &str,
        password: &str,
        hostname: Option<&str>,
    ) -> usize {
        self.client_with(
            (user, password),
            hostname,
            LinkOptions::default().max_frame_size,
        )
    }

    /// A client that takes frames of at most so many bytes.
    pub(super) fn client_with(
        &mut self,
        user: (&str, &str),
        hostname: Option<&str>,
        max_frame_size: u32,
    ) -> usize {
        self.client_in("client", user, (hostname, max_frame_size))
    }

    /// A client with this container-id.
    pub(super) fn client_named(&mut self, container: &str) -> usize {
        let frames = LinkOptions::default().max_frame_size;
        self.client_in(container, ("guest", "guest"), (None, frames))
    }

    fn client_in(
        &mut self,
        container: &str,
        (user, password): (&str, &str),
        limits: (Option<&str>, u32),
    ) -> usize {
        let sasl = ClientSasl::plain(user, password);
        let client = self.connect(container, sasl, limits);
        let owner = &mut self.clients[client];
        owner.session = owner.engine.begin();
        self.drive();
        client
    }

    /// A client that logs in like this; it has no session.
    pub(super) fn add_client(
        &mut self,
        sasl: ClientSasl,
        hostname: Option<&str>,
        max_frame_size: u32,
    ) -> usize {
        self.connect("client", sasl, (hostname, max_frame_size))
    }

    fn connect(
        &mut self,
        container: &str,
        sasl: ClientSasl,
        (hostname, max_frame_size): (Option<&str>, u32),
    ) -> usize {
        let identity = Identity {
            container_id: container.to_owned(),
            ..Identity::default()
        };
        let options = ClientOptions {
            sasl: Some(sasl),
            hostname: hostname.map(str::to_owned),
            options: LinkOptions {
                identity,
                max_frame_size,
                ..LinkOptions::default()
            },
        };
        let id = ConnectionId(self.clients.len() as u64 + 1);
        let environment = Arc::clone(&self.environment);
        self.clients.push(Client {
            engine: Connection::client(self.now, options),
            gateway: Gateway::new(self.now, id, Peer::IN_PROCESS, environment),
            events: Vec::new(),
            session: None,
            blocked: false,
            inbound: BytesMut::new(),
            written: Vec::new(),
            outbound: BytesMut::new(),
        });
        let index = self.clients.len() - 1;
        self.drive();
        index
    }

    /// Moves bytes, works and hands out effects until nothing moves.
    pub(super) fn drive(&mut self) {
        for _ in 0..1_000 {
            let mut moved = false;
            for index in 0..self.clients.len() {
                moved |= self.turn(index);
            }
            if !moved {
                return;
            }
        }
        panic!("they never become quiet");
    }

    pub(super) fn turn(&mut self, index: usize) -> bool {
        let mut moved = self.move_out(index);
        let (now, client) = (self.now, &mut self.clients[index]);
        if let Some(proof) = client.gateway.poll_login() {
            let verdict = check(&self.environment, &proof);
            client.gateway.handle_login(now, verdict);
        }
        while self.clients[index].gateway.has_work() {
            moved = true;
            let gateway = &mut self.clients[index].gateway;
            let batch = gateway.batch();
            batch.apply(now, &mut self.core, &mut self.effects, self.hold);
            self.hand_out();
            let client = &mut self.clients[index];
            client.gateway.handle_answers(now);
            client
                .gateway
                .handle_effects(now, self.durable, unwritten(client));
            client.gateway.report_room(unwritten(client));
        }
        let client = &mut self.clients[index];
        client
            .gateway
            .handle_effects(now, self.durable, unwritten(client));
        if client.blocked {
            return moved | client.gateway.has_work();
        }
        let mut out = Vec::new();
        moved |= client.gateway.poll_transmit(now, &mut out);
        while let Some(fetch) = client.gateway.poll_fetch() {
            let body_store = self.body_store.as_ref();
            let piece =
                body_store.and_then(|body_store| body_store.piece(*fetch.body, fetch.piece));
            client.gateway.handle_fetched(now, fetch.stream, piece);
            moved = true;
        }
        client.gateway.report_room(0);
        client.inbound.extend_from_slice(&out);
        if !out.is_empty() {
            client.written = out;
        }
        client.engine.handle_bytes(now, &mut client.inbound);
        while let Some(event) = client.engine.poll_event() {
            moved = true;
            client.events.push(event);
        }
        moved | client.gateway.has_work()
    }

    /// Moves what a client sends to its gateway.
    pub(super) fn move_out(&mut self, index: usize) -> bool {
        let (now, client) = (self.now, &mut self.clients[index]);
        let mut out = Vec::new();
        let moved = client.engine.poll_transmit(now, &mut out);
        client.outbound.extend_from_slice(&out);
        client.gateway.handle_bytes(now, &mut client.outbound);
        moved
    }

    /// Gives each gateway what the core has for it.
    fn hand_out(&mut self) {
        for (id, effect) in self.effects.outgoing.drain(..) {
            let owner = usize::try_from(id.0 - 1).unwrap();
            self.clients[owner].gateway.batch().push_effect(effect);
        }
        self.released.append(&mut self.effects.released);
        self.effects.clear();
    }

    /// Has each gateway look at the registry and the end of its token, as before each turn.
    pub(super) fn follow_registry(&mut self) {
        for client in &mut self.clients {
            client.gateway.handle_registry(self.now);
        }
        self.drive();
    }

    /// Lets time pass; what is due in the core is done and told.
    pub(super) fn pass(&mut self, ms: u64) {
        let passed = i64::try_from(ms).unwrap();
        self.now = Now::new(self.now.mono.plus(ms), Timestamp(self.now.wall.0 + passed));
        self.core.tick(self.now, 1_000, &mut self.effects);
        self.hand_out();
        self.drive();
    }

    /// Asks the core directly.
    pub(super) fn ask(&mut self, command: Command) -> Reply {
        let reply = self.core.apply(self.now, command, &mut self.effects);
        self.hand_out();
        self.drive();
        reply
    }

    /// Tells the core something, and the gateways what came of it; nothing moves.
    pub(super) fn tell(&mut self, command: Command) {
        self.core.apply(self.now, command, &mut self.effects);
        self.hand_out();
        for client in &mut self.clients {
            client.gateway.handle_effects(self.now, self.durable, 0);
        }
    }

    pub(super) fn queue(&mut self, name: &str, arguments: &[(&str, Value)]) {
        let arguments = arguments
            .iter()
            .map(|(key, value)| (Name::from(*key), value.clone()));
        let reply = self.ask(Command::Queue(QueueCommand::Declare {
            connection: None,
            name: Name::from(name),
            durable: true,
            exclusive: false,
            auto_delete: false,
            arguments: arguments.collect(),
        }));
        assert!(matches!(reply, Reply::QueueDeclared { .. }), "{reply:?}");
    }

    pub(super) fn exchange(&mut self, name: &str, internal: bool) {
        let reply = self.ask(Command::Topology(TopologyCommand::ExchangeDeclare {
            name: Name::from(name),
            kind: Name::from("fanout"),
            durable: true,
            auto_delete: false,
            internal,
            arguments: Vec::new(),
        }));
        assert!(matches!(reply, Reply::ExchangeDeclared { .. }), "{reply:?}");
    }

    /// Ready and held messages of a queue.
    pub(super) fn counts(&mut self, queue: &str) -> (u64, u64) {
        match self.ask(Command::Queue(QueueCommand::Get {
            name: Name::from(queue),
        })) {
            Reply::Queue(info) => (info.messages_ready, info.messages_unacknowledged),
            other => panic!("{other:?}"),
        }
    }

    /// Attaches a link and waits for what comes of it: the condition of a refusal.
    pub(super) fn attach(
        &mut self,
        client: usize,
        attach: Attach,
    ) -> (LinkHandle, Result<(), String>) {
        let owner = &mut self.clients[client];
        let link = owner.engine.attach(owner.session.unwrap(), attach).unwrap();
        self.drive();
        let refused = self.detached(client, link);
        (link, refused.map_or(Ok(()), Err))
    }

    /// A link to publish on.
    pub(super) fn publisher(&mut self, client: usize, address: Option<&str>) -> LinkHandle {
        let name = format!("out {address:?}");
        let (link, result) = self.attach(client, sender(&name, address));
        assert_eq!(result, Ok(()), "{address:?}");
        link
    }

    /// A link to consume on, with credit.
    pub(super) fn consumer(&mut self, client: usize, queue: &str, credit: u32) -> LinkHandle {
        let address = format!("/queues/{queue}");
        let (link, result) = self.attach(client, receiver(&format!("in {queue}"), &address));
        assert_eq!(result, Ok(()), "{address}");
        self.clients[client].engine.set_credit(link, credit);
        self.drive();
        link
    }

    /// Publishes a message and waits for its outcome; nothing if none came.
    pub(super) fn publish(
        &mut self,
        client: usize,
        link: LinkHandle,
        message: &[u8],
    ) -> Option<String> {
        self.send(client, link, message);
        self.drive();
        self.outcome(client)
    }

    pub(super) fn send(&mut self, client: usize, link: LinkHandle, message: &[u8]) {
        self.transfer(client, link, message, false);
    }

    /// Sends a message settled.
    pub(super) fn send_settled(&mut self, client: usize, link: LinkHandle, message: &[u8]) {
        self.transfer(client, link, message, true);
        self.drive();
    }

    fn transfer(&mut self, client: usize, link: LinkHandle, message: &[u8], settled: bool) {
        let sending = Sending {
            token: 1,
            settled,
            message_format: 0,
            prefix: &[],
            bare: message,
            tag: None,
        };
        let engine = &mut self.clients[client].engine;
        engine
            .send(link, sending, || Bytes::copy_from_slice(message))
            .unwrap();
    }

    /// The next outcome that a publisher was told, with the condition of a rejection.
    pub(super) fn outcome(&mut self, client: usize) -> Option<String> {
        Some(match self.outcome_state(client)? {
            DeliveryState::Accepted => "accepted".to_owned(),
            DeliveryState::Released => "released".to_owned(),
            DeliveryState::Rejected { error } => {
                format!("rejected {}", condition(error.as_deref()))
            }
            other => format!("{other:?}"),
        })
    }

    /// The next outcome that a publisher was told.
    pub(super) fn outcome_state(&mut self, client: usize) -> Option<DeliveryState> {
        let told = |event: &Event| matches!(event, Event::Outcome { .. } | Event::Settled { .. });
        let state = match self.take(client, told)? {
            Event::Outcome { state, .. } => state,
            Event::Settled {
                link,
                mut tokens,
                state,
            } => {
                tokens.remove(0);
                if !tokens.is_empty() {
                    let state = state.clone();
                    let rest = Event::Settled {
                        link,
                        tokens,
                        state,
                    };
                    self.clients[client].events.insert(0, rest);
                }
                state
            }
            _ => return None,
        };
        Some(state)
    }

    /// The condition a link was detached with.
    pub(super) fn detached(&mut self, client: usize, link: LinkHandle) -> Option<String> {
        let found = self.take(client, |event| match event {
            Event::Detached { link: other, .. } => *other == link,
            _ => false,
        })?;
        let Event::Detached { error, .. } = found else {
            return None;
        };
        Some(condition(error.as_deref()))
    }

    /// Takes the first event of a client that fits.
    pub(super) fn take(&mut self, client: usize, fits: impl Fn(&Event) -> bool) -> Option<Event> {
        let events = &mut self.clients[client].events;
        let index = events.iter().position(fits)?;
        Some(events.remove(index))
    }

    /// All messages a client got, in order: link, delivery-id, bytes.
    pub(super) fn deliveries(
        &mut self,
        client: usize,
    ) -> Vec<(LinkHandle, crate::base::Serial, Bytes)> {
        let mut found = Vec::new();
        self.clients[client].events.retain(|event| match event {
            Event::Delivery {
                link,
                delivery_id,
                payload,
                ..
            } => {
                found.push((*link, *delivery_id, payload.clone().joined()));
                false
            }
            _ => true,
        });
        found
    }
}

fn unwritten(client: &Client) -> u64 {
    // A blocked peer is one whose socket took nothing of much.
    if client.blocked { 1 << 30 } else { 0 }
}

/// The condition of an error, empty without one.
pub(super) fn condition(error: Option<&Error>) -> String {
    error.map_or_else(String::new, |error| error.condition.to_string())
}

/// The attach of a sender to an address.
pub(super) fn sender(name: &str, address: Option<&str>) -> Attach {
    Attach {
        name: name.to_owned(),
        handle: Handle(0),
        role: Role::Sender,
        snd_settle_mode: SenderSettleMode::Mixed,
        rcv_settle_mode: ReceiverSettleMode::First,
        source: Some(Box::new(Source::default())),
        target: Some(Box::new(TargetArchetype::Target(Target {
            address: address.map(Into::into),
            ..Target::default()
        }))),
        unsettled: None,
        incomplete_unsettled: false,
        initial_delivery_count: Some(0),
        max_message_size: None,
        offered_capabilities: None,
        properties: None,
    }
}

/// The attach of a receiver from an address.
pub(super) fn receiver(name: &str, address: &str) -> Attach {
    Attach {
        role: Role::Receiver,
        initial_delivery_count: None,
        source: Some(Box::new(Source {
            address: Some(address.into()),
            ..Source::default()
        })),
        target: Some(Box::new(TargetArchetype::Target(Target::default()))),
        ..sender(name, None)
    }
}

/// A message of one data section.
pub(super) fn message(body: &[u8]) -> Vec<u8> {
    section(0x75, &Value::Binary(Bytes::copy_from_slice(body)))
}

/// An encoded section.
pub(super) fn section(descriptor: u64, value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    write_descriptor(&mut out, descriptor);
    encode_value(value, &mut out);
    out
}

/// A message with a property `to`, and perhaps a `user-id`.
pub(super) fn addressed(to: Option<&str>, user_id: Option<&str>) -> Vec<u8> {
    let user_id = user_id.map_or(Value::Null, |id| {
        Value::Binary(Bytes::copy_from_slice(id.as_bytes()))
    });
    let to = to.map_or(Value::Null, Value::string);
    let mut out = section(0x73, &Value::List(vec![Value::Null, user_id, to]));
    out.extend(message(b"m"));
    out
}
