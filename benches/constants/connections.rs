//! Connections and their links.

use bytes::BytesMut;
use coroner::base::limits::{CONNECTION_OVERHEAD_BYTES, LINK_OVERHEAD_BYTES};
use coroner::link::{ClientOptions, ClientSasl, Connection, Identity, LinkOptions};
use coroner::wire::performative::{
    Attach, Handle, ReceiverSettleMode, Role, SenderSettleMode, Source, Target, TargetArchetype,
};

use super::broker::{Broker, counted_turn};
use super::compare;

/// Turns in which a connection, its session and its links are set up.
const SETUP_TURNS: usize = 8;
/// Links of a session.
const SESSION_LINKS: u64 = 200;

pub fn measure() {
    compare(
        ("CONNECTION_OVERHEAD_BYTES", CONNECTION_OVERHEAD_BYTES),
        "connections with a session",
        4_000,
        |count| {
            let mut broker = broker();
            let before = broker.kept_bytes();
            let inputs: Vec<BytesMut> = (0..count).map(|_| connect(&mut broker, 0)).collect();
            let counted = broker.kept_bytes() - before;
            ((broker, inputs), counted)
        },
    );
    compare(
        ("LINK_OVERHEAD_BYTES", LINK_OVERHEAD_BYTES),
        "links that publish, 200 on a connection",
        100 * SESSION_LINKS,
        |count| {
            let mut broker = broker();
            let connections = count / SESSION_LINKS;
            let before = broker.kept_bytes();
            let inputs: Vec<BytesMut> = (0..connections)
                .map(|_| connect(&mut broker, SESSION_LINKS))
                .collect();
            let counted = broker.kept_bytes() - before;
            ((broker, inputs), counted)
        },
    );
}

fn broker() -> Broker {
    let mut broker = Broker::new(false);
    broker.declare("work", &[]);
    broker
}

/// A connection of a client that is forgotten afterwards; what the broker reads it with.
fn connect(broker: &mut Broker, links: u64) -> BytesMut {
    let identity = Identity {
        container_id: "client".to_owned(),
        ..Identity::default()
    };
    let options = ClientOptions {
        sasl: Some(ClientSasl::anonymous()),
        hostname: None,
        options: LinkOptions {
            identity,
            ..LinkOptions::default()
        },
    };
    let mut engine = Connection::client(broker.now(), options);
    let connection = broker.accept();
    let mut input = BytesMut::new();
    let mut turns = |engine: &mut Connection, broker: &mut Broker| {
        for _ in 0..SETUP_TURNS {
            let (mut there, mut back) = (Vec::new(), Vec::new());
            engine.poll_transmit(broker.now(), &mut there);
            input.extend_from_slice(&there);
            counted_turn(broker, connection, &mut input, &mut back);
            engine.handle_bytes(broker.now(), &mut BytesMut::from(&back[..]));
            while engine.poll_event().is_some() {}
        }
    };
    turns(&mut engine, broker);
    let session = engine.begin().expect("it is open");
    turns(&mut engine, broker);
    for number in 0..links {
        engine.attach(session, attach(number));
    }
    turns(&mut engine, broker);
    input
}

fn attach(number: u64) -> Attach {
    let target = Target {
        address: Some("/queues/work".into()),
        ..Target::default()
    };
    Attach {
        name: format!("link-{number}"),
        handle: Handle(0),
        unsettled: None,
        incomplete_unsettled: false,
        initial_delivery_count: Some(0),
        role: Role::Sender,
        snd_settle_mode: SenderSettleMode::Mixed,
        rcv_settle_mode: ReceiverSettleMode::First,
        source: Some(Box::new(Source::default())),
        target: Some(Box::new(TargetArchetype::Target(target))),
        max_message_size: None,
        offered_capabilities: None,
        properties: None,
    }
}
