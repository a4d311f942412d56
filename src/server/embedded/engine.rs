//! The task of a publisher or consumer: the engine of a client over a stream in memory.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWrite, DuplexStream};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Sleep;

use super::delivery::Settlement;
use super::{AmqpError, Delivery, LinkError, Outcome};
use crate::access::Peer;
use crate::base::{Millis, Serial, uncount};
use crate::link::{
    ClientOptions, Connection, Event, Identity, LinkHandle, LinkOptions, Sending, Unsendable,
};
use crate::server::Broker;
use crate::server::shared::Shared;
use crate::wire::performative::{
    Attach, DeliveryState, Error, Handle, ReceiverSettleMode, Role, SenderSettleMode, Source,
    Target, TargetArchetype,
};

/// A request of a publisher to its task.
#[derive(Debug)]
pub(super) enum Command {
    /// Publishes a message.
    Publish {
        /// The encoded message.
        message: Bytes,
        /// Receives the outcome.
        outcome: oneshot::Sender<Result<Outcome, LinkError>>,
    },
}

/// The channels of messages to a consumer, and of its decisions back.
pub(super) struct Deliveries {
    pub(super) out: mpsc::Sender<Result<Delivery, LinkError>>,
    pub(super) settle: mpsc::UnboundedSender<Settlement>,
    /// The consumer's decisions; bounded by the credit.
    pub(super) settled: mpsc::UnboundedReceiver<Settlement>,
}

/// The link to be opened.
pub(super) struct End {
    pub(super) role: Role,
    pub(super) address: Option<String>,
    pub(super) credit: u32,
}

impl End {
    /// Opens a link in a task of its own; ready when the broker has accepted it.
    pub(super) async fn open(
        self,
        broker: &Broker,
        vhost: &str,
        commands: mpsc::Receiver<Command>,
        deliveries: Option<Deliveries>,
    ) -> Result<(), LinkError> {
        let shared = Arc::clone(broker.shared());
        let stream = broker.connect_as(Peer::EMBEDDER);
        let identity = Identity {
            container_id: "embedder".to_owned(),
            ..Identity::default()
        };
        let client = ClientOptions {
            sasl: None,
            hostname: Some(format!("vhost:{vhost}")),
            options: LinkOptions {
                identity,
                idle_time_out_ms: None,
                ..LinkOptions::default()
            },
        };
        let now = shared.clock.now();
        let (opened, ready) = oneshot::channel();
        let engine = Engine {
            link: Connection::client(now, client),
            sleep: Box::pin(tokio::time::sleep_until(shared.clock.instant(now.mono))),
            armed: now.mono,
            shared: Arc::clone(&shared),
            end: self,
            stream,
            input: BytesMut::new(),
            output: Vec::new(),
            written: 0,
            handle: None,
            opened: Some(opened),
            commands,
            publishes: BTreeMap::new(),
            next_token: 0,
            deliveries,
            undecided: 0,
        };
        shared.spawn(engine.run());
        ready.await.unwrap_or(Err(LinkError::Stopped))
    }
}

struct Engine {
    shared: Arc<Shared>,
    end: End,
    link: Connection,
    stream: DuplexStream,
    input: BytesMut,
    output: Vec<u8>,
    written: usize,
    sleep: Pin<Box<Sleep>>,
    /// The deadline that `sleep` is set for.
    armed: Millis,
    handle: Option<LinkHandle>,
    /// Receives whether the link was accepted, until the broker has decided.
    opened: Option<oneshot::Sender<Result<(), LinkError>>>,
    commands: mpsc::Receiver<Command>,
    /// Receivers of outcomes, by token.
    publishes: BTreeMap<u64, oneshot::Sender<Result<Outcome, LinkError>>>,
    next_token: u64,
    deliveries: Option<Deliveries>,
    /// Number of deliveries that the consumer has not decided on.
    undecided: u32,
}

impl Engine {
    async fn run(mut self) {
        while poll_fn(|context| self.poll(context)).await {}
        self.fail(&LinkError::Stopped);
    }

    /// Does what is possible; ready when there was any progress. False: it has ended.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<bool> {
        let mut progress = self.poll_commands(context) | self.poll_settled(context);
        let Some(written) = self.poll_write(context) else {
            return Poll::Ready(false);
        };
        progress |= written;
        if self.link.is_closed() && self.output.is_empty() {
            return Poll::Ready(false);
        }
        if self.link.wants_input() {
            match pin!(self.stream.read_buf(&mut self.input)).poll(context) {
                Poll::Ready(Ok(count)) if count > 0 => {
                    self.handle_bytes();
                    progress = true;
                }
                Poll::Ready(_) => return Poll::Ready(false),
                Poll::Pending => {}
            }
        }
        let due = self.link.next_deadline().unwrap_or(Millis::NEVER);
        if due < self.armed || self.sleep.is_elapsed() {
            self.armed = due;
            let at = self.shared.clock.instant(due);
            self.sleep.as_mut().reset(at);
        }
        if self.sleep.as_mut().poll(context).is_ready() {
            self.link.handle_timeout(self.shared.clock.now());
            self.handle_events();
            progress = true;
        }
        if progress {
            Poll::Ready(true)
        } else {
            Poll::Pending
        }
    }

    /// Writes the engine's output; returns whether anything was written, none if the stream is
    /// closed.
    fn poll_write(&mut self, context: &mut Context<'_>) -> Option<bool> {
        let mut progress = false;
        loop {
            if self.written == self.output.len() {
                self.output.clear();
                self.written = 0;
                let now = self.shared.clock.now();
                self.link.poll_transmit(now, &mut self.output);
            }
            let rest = self.output.get(self.written..).unwrap_or_default();
            if rest.is_empty() {
                return Some(progress);
            }
            match Pin::new(&mut self.stream).poll_write(context, rest) {
                Poll::Ready(Ok(count)) if count > 0 => {
                    self.written += count;
                    progress = true;
                }
                Poll::Ready(_) => return None,
                Poll::Pending => return Some(progress),
            }
        }
    }

    /// Takes as many publishes as there is credit for. When all publishers are dropped, it ends.
    fn poll_commands(&mut self, context: &mut Context<'_>) -> bool {
        if self.link.is_closing() {
            return false;
        }
        let credit = self.handle.map_or(0, |handle| self.link.credit(handle));
        if self.end.role == Role::Sender && self.opened.is_none() && credit == 0 {
            return false;
        }
        match self.commands.poll_recv(context) {
            Poll::Ready(Some(Command::Publish { message, outcome })) => {
                self.publish(&message, outcome);
            }
            Poll::Ready(None) if self.publishes.is_empty() => {
                self.link.close(self.shared.clock.now(), None);
            }
            Poll::Ready(None) | Poll::Pending => return false,
        }
        true
    }

    fn publish(&mut self, message: &Bytes, outcome: oneshot::Sender<Result<Outcome, LinkError>>) {
        let Some(handle) = self.handle else { return };
        let token = self.next_token;
        let sending = Sending {
            token,
            settled: false,
            message_format: 0,
            prefix: &[],
            bare: message,
            tag: None,
        };
        let bytes = message.len() as u64;
        match self.link.send(handle, sending, || message.clone()) {
            Ok(()) => {
                self.next_token += 1;
                self.publishes.insert(token, outcome);
            }
            Err(Unsendable::TooLarge { max_bytes }) => {
                let _ = outcome.send(Err(LinkError::TooLarge { bytes, max_bytes }));
            }
            // There was credit, so the link has ended; the publisher is told of that.
            Err(_) => {
                let _ = outcome.send(Err(LinkError::Stopped));
            }
        }
    }

    /// Passes on the consumer's decisions, and gives as much credit.
    fn poll_settled(&mut self, context: &mut Context<'_>) -> bool {
        let (Some(deliveries), Some(handle)) = (&mut self.deliveries, self.handle) else {
            return false;
        };
        let mut progress = false;
        while let Poll::Ready(Some(settlement)) = deliveries.settled.poll_recv(context) {
            let Settlement { id, state } = settlement;
            self.link.settle_received(handle, id, &state);
            uncount!(self.undecided, 1, "a delivery that is decided was counted");
            progress = true;
        }
        if progress {
            self.link
                .set_credit(handle, self.end.credit.saturating_sub(self.undecided));
        }
        progress
    }

    fn handle_bytes(&mut self) {
        let now = self.shared.clock.now();
        self.link.handle_bytes(now, &mut self.input);
        self.handle_events();
    }

    fn handle_events(&mut self) {
        while let Some(event) = self.link.poll_event() {
            match event {
                Event::Opened(_) => {
                    self.link.begin();
                }
                Event::SessionBegun { session } => {
                    self.handle = self.link.attach(session, self.end.attach());
                }
                Event::AttachAnswered { link, attach } => {
                    let is_refused = match self.end.role {
                        Role::Sender => attach.target.is_none(),
                        Role::Receiver => attach.source.is_none(),
                    };
                    if !is_refused {
                        self.begin(link);
                    }
                }
                Event::Delivery {
                    delivery_id,
                    payload,
                    ..
                } => self.deliver(delivery_id, &payload.joined()),
                Event::Settled { tokens, state, .. } => {
                    for token in tokens {
                        self.tell(token, &state);
                    }
                }
                Event::Outcome {
                    link,
                    token,
                    delivery_id,
                    state,
                } => {
                    self.link.settle_sent(link, delivery_id, &state);
                    self.tell(token, &state);
                }
                Event::Detached { error, .. } | Event::SessionEnded { error, .. } => {
                    self.end_with(error.as_deref());
                }
                Event::Closed { error } => self.end_with(error.as_deref()),
                _ => {}
            }
        }
    }

    /// Continues after the broker accepted the link.
    fn begin(&mut self, link: LinkHandle) {
        if self.end.role == Role::Receiver {
            self.link.set_credit(link, self.end.credit);
        }
        if let Some(opened) = self.opened.take() {
            let _ = opened.send(Ok(()));
        }
    }

    fn deliver(&mut self, delivery_id: Serial, payload: &Bytes) {
        let Some(deliveries) = &self.deliveries else {
            return;
        };
        self.undecided += 1;
        let settle = deliveries.settle.clone();
        if let Some(delivery) = Delivery::read(payload, delivery_id, settle) {
            // There is room for as many as there was credit for. A delivery that nobody takes is
            // dropped, and so requeued.
            drop(deliveries.out.try_send(Ok(delivery)));
        } else {
            let state = DeliveryState::Rejected { error: None };
            let id = delivery_id;
            let settlement = Settlement { id, state };
            let _ = deliveries.settle.send(settlement);
        }
    }

    fn tell(&mut self, token: u64, state: &DeliveryState) {
        if let Some(outcome) = self.publishes.remove(&token) {
            // The publisher may have stopped waiting.
            let _ = outcome.send(Ok(Outcome::of(state)));
        }
    }

    /// Ends with the error of a detached link.
    fn end_with(&mut self, error: Option<&Error>) {
        let refused = self.opened.is_some();
        let why = match error.map(AmqpError::of) {
            None => LinkError::Stopped,
            Some(error) if refused => LinkError::Refused(error),
            Some(error) => LinkError::Ended(error),
        };
        self.fail(&why);
        self.link.close(self.shared.clock.now(), None);
    }

    /// Tells all waiting callers why it ended; the first reason counts.
    fn fail(&mut self, why: &LinkError) {
        if let Some(opened) = self.opened.take() {
            let _ = opened.send(Err(why.clone()));
        }
        for (_, outcome) in std::mem::take(&mut self.publishes) {
            let _ = outcome.send(Err(why.clone()));
        }
        if let Some(deliveries) = self.deliveries.take() {
            let _ = deliveries.out.try_send(Err(why.clone()));
        }
        self.commands.close();
        while let Ok(Command::Publish { outcome, .. }) = self.commands.try_recv() {
            let _ = outcome.send(Err(why.clone()));
        }
    }
}

impl End {
    fn attach(&self) -> Attach {
        let (mut source, mut target) = (Source::default(), Target::default());
        match self.role {
            Role::Sender => target.address.clone_from(&self.address),
            Role::Receiver => source.address.clone_from(&self.address),
        }
        Attach {
            name: "embedder".to_owned(),
            handle: Handle(0),
            role: self.role.clone(),
            snd_settle_mode: SenderSettleMode::Unsettled,
            rcv_settle_mode: ReceiverSettleMode::First,
            source: Some(Box::new(source)),
            target: Some(Box::new(TargetArchetype::Target(target))),
            unsettled: None,
            incomplete_unsettled: false,
            initial_delivery_count: None,
            max_message_size: None,
            offered_capabilities: None,
            properties: None,
        }
    }
}
