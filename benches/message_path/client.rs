//! A client whose bytes go straight to the broker and back.

use bytes::{Bytes, BytesMut};
use coroner::link::{
    ClientOptions, ClientSasl, Connection, Event, Identity, LinkHandle, LinkOptions, Sending,
    SessionHandle,
};
use coroner::wire::performative::{
    Attach, DeliveryState, Handle, ReceiverSettleMode, Role, SenderSettleMode, Source, Target,
    TargetArchetype,
};

use super::broker::{Broker, counted_turn};

/// Credit of a consumer, topped up when half is used.
const CREDIT: u32 = 1_000;
/// Turns in which a connection and its link are set up.
const SETUP_TURNS: usize = 8;

/// A connection with one link.
pub struct Client {
    engine: Connection,
    connection: usize,
    link: Option<LinkHandle>,
    /// What a consumer says about each message.
    outcome: DeliveryState,
    input: BytesMut,
    output: Vec<u8>,
    to_broker: BytesMut,
    /// Messages sent and accepted, or delivered.
    pub sent: u64,
    pub accepted: u64,
    pub delivered: u64,
}

impl Client {
    /// A connection that publishes to a queue.
    pub fn producer(broker: &mut Broker, queue: &str) -> Self {
        let mut client = Self::connect(broker);
        let address = format!("/queues/{queue}");
        client.attach(broker, attach(Role::Sender, &address));
        client
    }

    /// A connection that consumes from a queue.
    pub fn consumer(broker: &mut Broker, queue: &str, outcome: DeliveryState) -> Self {
        let mut client = Self::connect(broker);
        client.outcome = outcome;
        let address = format!("/queues/{queue}");
        client.attach(broker, attach(Role::Receiver, &address));
        let link = client.link.expect("it is attached");
        client.engine.set_credit(link, CREDIT);
        client.exchange(broker);
        client
    }

    fn connect(broker: &mut Broker) -> Self {
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
        Self {
            engine: Connection::client(broker.now(), options),
            connection: broker.accept(),
            link: None,
            outcome: DeliveryState::Accepted,
            input: BytesMut::new(),
            output: Vec::new(),
            to_broker: BytesMut::new(),
            sent: 0,
            accepted: 0,
            delivered: 0,
        }
    }

    fn attach(&mut self, broker: &mut Broker, attach: Attach) {
        let turns = |client: &mut Self, broker: &mut Broker| {
            (0..SETUP_TURNS).for_each(|_| client.exchange(broker));
        };
        turns(self, broker);
        let session: SessionHandle = self.engine.begin().expect("it is open");
        turns(self, broker);
        self.link = self.engine.attach(session, attach);
        turns(self, broker);
    }

    /// Sends up to `count` messages, as far as there is credit.
    pub fn send(&mut self, message: &Bytes, count: u64) {
        let link = self.link.expect("it is attached");
        let credit = self.engine.credit(link);
        for token in 0..count.min(credit.into()) {
            let sending = Sending {
                token,
                settled: false,
                message_format: 0,
                prefix: &[],
                tag: None,
                bare: message,
            };
            let sent = self.engine.send(link, sending, || message.clone());
            sent.expect("there is credit");
            self.sent += 1;
        }
    }

    /// Gives the broker what there is, and takes what it says.
    pub fn exchange(&mut self, broker: &mut Broker) {
        self.output.clear();
        self.engine.poll_transmit(broker.now(), &mut self.output);
        self.to_broker.extend_from_slice(&self.output);
        self.output.clear();
        counted_turn(
            broker,
            self.connection,
            &mut self.to_broker,
            &mut self.output,
        );
        self.input.extend_from_slice(&self.output);
        self.engine.handle_bytes(broker.now(), &mut self.input);
        while let Some(event) = self.engine.poll_event() {
            self.handle(event);
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Delivery {
                link, delivery_id, ..
            } => {
                self.delivered += 1;
                let outcome = self.outcome.clone();
                self.engine.settle_received(link, delivery_id, &outcome);
                if self.engine.credit(link) <= CREDIT / 2 {
                    self.engine.set_credit(link, CREDIT);
                }
            }
            Event::Settled { tokens, state, .. } => {
                assert_eq!(state, DeliveryState::Accepted, "a publish");
                self.accepted += tokens.len() as u64;
            }
            Event::Detached { error, .. } | Event::Closed { error } => {
                panic!("the broker ended it: {error:?}");
            }
            _ => {}
        }
    }
}

fn attach(role: Role, address: &str) -> Attach {
    let (mut source, mut target) = (Source::default(), Target::default());
    match role {
        Role::Sender => target.address = Some(address.into()),
        Role::Receiver => source.address = Some(address.into()),
    }
    Attach {
        name: address.to_owned(),
        handle: Handle(0),
        unsettled: None,
        incomplete_unsettled: false,
        initial_delivery_count: matches!(role, Role::Sender).then_some(0),
        role,
        snd_settle_mode: SenderSettleMode::Mixed,
        rcv_settle_mode: ReceiverSettleMode::First,
        source: Some(Box::new(source)),
        target: Some(Box::new(TargetArchetype::Target(target))),
        max_message_size: None,
        offered_capabilities: None,
        properties: None,
    }
}
