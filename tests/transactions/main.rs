//! Transactions against the real binary, performative by performative. [AMQP 4]
#![allow(
    clippy::disallowed_methods,
    reason = "tests open sockets and read clocks"
)]
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

#[path = "../support/mod.rs"]
mod support;

mod controller;
mod limits;
mod posting;
mod retirement;

use std::time::{Duration, Instant};

use bytes::Bytes;
use coroner::wire::Value;
use coroner::wire::performative::{
    Attach, Control, DeliveryState, Disposition, Performative, Role, Symbol, TargetArchetype,
    decode,
};
use support::RunningBroker;
use support::raw::{self, Came, Raw};

/// Handles of the links that [`Peer`] attaches.
const CONTROLLER: u32 = 0;
const SENDER: u32 = 1;
const RECEIVER: u32 = 2;

/// How long nothing comes that must not come.
const SILENCE: Duration = Duration::from_millis(300);

/// The capabilities that every coordinator of the broker offers.
const OFFERED: [&str; 3] = [
    "amqp:local-transactions",
    "amqp:multi-txns-per-ssn",
    "amqp:multi-ssns-per-txn",
];

const COORDINATOR: u8 = 0x30;
const TRANSACTIONAL: u8 = 0x34;
const UNKNOWN: &str = "amqp:transaction:unknown-id";
const ROLLBACK: &str = "amqp:transaction:rollback";

/// A broker with a queue `q`, and a client with a controller's link.
struct Peer {
    raw: Raw,
    /// The next delivery-id.
    next: u32,
    /// Frames that came and were not looked at yet.
    came: Vec<Came>,
}

impl Peer {
    /// With a controller's link, and a sender to `q`.
    fn new(broker: &RunningBroker) -> Self {
        Raw::declare(broker.port, "q");
        let mut raw = Raw::begun(broker.port);
        attach_controller(&mut raw, CONTROLLER, &[]);
        raw.attach_sender(SENDER, "q");
        Self {
            raw,
            next: 0,
            came: Vec::new(),
        }
    }

    /// Sends a transfer with this state on a link; returns its delivery-id.
    fn transfer(&mut self, handle: u32, settled: bool, state: Option<&[u8]>, bare: &[u8]) -> u32 {
        let id = self.next;
        self.next += 1;
        let fields = transfer_fields(handle, id, settled, false, state);
        let frame = [raw::performative(raw::TRANSFER, &fields), bare.to_vec()];
        self.raw.send(&raw::frame(0, 0, &frame.concat()));
        id
    }

    /// Asks the coordinator; returns the delivery-id.
    fn ask(&mut self, control: &Control) -> u32 {
        let mut message = Vec::new();
        control.write(&mut message);
        self.transfer(CONTROLLER, false, None, &message)
    }

    /// Begins a transaction: its id.
    fn declare(&mut self) -> Bytes {
        let id = self.ask(&Control::Declare {
            has_global_id: false,
        });
        match self.answer(id) {
            DeliveryState::Declared { txn_id } => txn_id,
            other => panic!("{other:?}"),
        }
    }

    fn discharge(&mut self, txn_id: &Bytes, fail: bool) -> DeliveryState {
        let txn_id = txn_id.clone();
        let id = self.ask(&Control::Discharge { txn_id, fail });
        self.answer(id)
    }

    fn commit(&mut self, txn_id: &Bytes) {
        assert_eq!(self.discharge(txn_id, false), DeliveryState::Accepted);
    }

    fn roll_back(&mut self, txn_id: &Bytes) {
        assert_eq!(self.discharge(txn_id, true), DeliveryState::Accepted);
    }

    /// Publishes a message to `q` in a transaction, and takes the provisional outcome.
    fn post(&mut self, txn_id: &Bytes, body: &[u8]) {
        let id = self.transfer(SENDER, false, Some(&provisional(txn_id, None)), &data(body));
        let outcome = self.answer(id);
        assert_eq!(outcome, in_transaction(txn_id, &DeliveryState::Accepted));
    }

    /// Attaches a receiver from `q` and gives it credit.
    fn receive(&mut self, credit: u32) {
        self.raw.attach_receiver(RECEIVER, "q");
        self.raw.credit(RECEIVER, 0xffff_fffb, credit);
    }

    /// The next message that comes: its delivery-id, and all of it.
    fn message(&mut self) -> (u32, Vec<u8>) {
        let came = self.frame(raw::TRANSFER, |_| true);
        let (performative, used) = decode(&came.body).expect("a transfer");
        let Performative::Transfer(transfer) = performative else {
            panic!("{performative:?}");
        };
        let id = transfer.delivery_id.expect("one frame").0;
        (id, came.body[used..].to_vec())
    }

    /// Whether a message comes soon.
    fn has_message(&mut self) -> bool {
        while let Some(came) = self.raw.next(SILENCE) {
            self.came.push(came);
        }
        self.came.iter().any(|came| came.code == raw::TRANSFER)
    }

    /// Takes the first frame with this performative that fits.
    fn frame(&mut self, code: u8, fits: impl Fn(&Came) -> bool) -> Came {
        let fits = |came: &Came| came.code == code && fits(came);
        let deadline = Instant::now() + raw::ANSWER_MAX;
        loop {
            if let Some(index) = self.came.iter().position(fits) {
                return self.came.remove(index);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match self.raw.next(left) {
                Some(came) => self.came.push(came),
                None => panic!("no {code:#04x} came, only {:x?}", self.came),
            }
        }
    }

    /// Says the outcome of a delivery in a transaction.
    fn retire(&mut self, (first, last): (u32, u32), settled: bool, state: &[u8]) {
        let fields = [
            raw::truth(true),
            raw::uint(first),
            raw::uint(last),
            raw::truth(settled),
            state.to_vec(),
        ];
        self.raw.perform(raw::DISPOSITION, &fields);
    }

    /// Says and settles an outcome without a transaction.
    fn settle(&mut self, id: u32, state: u8) {
        self.retire((id, id), true, &raw::described(state, &[0x45]));
    }

    /// The state that a delivery of this peer's gets; its broker has settled it.
    fn answer(&mut self, id: u32) -> DeliveryState {
        let (settled, state) = self.disposition(&Role::Receiver, id);
        assert!(settled);
        state.expect("an outcome")
    }

    /// Waits for a disposition about a delivery.
    fn disposition(&mut self, role: &Role, id: u32) -> (bool, Option<DeliveryState>) {
        let fits = |came: &Came| {
            let found = disposition(came);
            found.role == *role && (found.first.0..=found.last.0).contains(&id)
        };
        // One disposition may be about several deliveries that are waited for one by one.
        let came = self.frame(raw::DISPOSITION, fits);
        let found = disposition(&came);
        if found.first != found.last {
            self.came.insert(0, came);
        }
        (found.settled, found.state)
    }

    /// Waits for the detach of a link, which has to name this error, and answers it.
    fn detached(&mut self, handle: u32, condition: &str) {
        let came = self.frame(raw::DETACH, |_| true);
        assert!(came.says(condition), "{condition}: {came:x?}");
        let Ok((Performative::Detach(detach), _)) = decode(&came.body) else {
            panic!("{came:?}");
        };
        assert_eq!(detach.handle.0, handle);
        self.detach(handle);
    }

    fn detach(&mut self, handle: u32) {
        let fields = [raw::uint(handle), raw::truth(true)];
        self.raw.perform(raw::DETACH, &fields);
    }
}

/// Number of ready messages in `q`, asked on a connection of its own.
fn ready(broker: &RunningBroker) -> u64 {
    let mut raw = Raw::managing(broker.port, "guest");
    let answer = raw.manage(0, ("GET", "/queues/q"), &raw::null());
    let (_, used) = decode(&answer.body).expect("a transfer");
    let message = &answer.body[used..];
    let body = coroner::wire::walk(message).and_then(|index| index.read_value_body(message));
    let Ok(Some(Value::Map(pairs))) = body else {
        panic!("{body:?}");
    };
    let mut pairs = pairs.iter();
    let count = pairs.find(|(key, _)| *key == Value::string("message_count"));
    count
        .and_then(|(_, count)| count.as_u64())
        .expect("a number")
}

/// The error condition of a rejection.
fn rejection(state: &DeliveryState) -> &str {
    match state {
        DeliveryState::Rejected { error: Some(error) } => error.condition.as_str(),
        other => panic!("{other:?}"),
    }
}

fn disposition(came: &Came) -> Disposition {
    match decode(&came.body) {
        Ok((Performative::Disposition(disposition), _)) => disposition,
        other => panic!("{other:?}"),
    }
}

/// Attaches a controller that can take these outcomes (none: it does not say).
fn attach_controller(raw: &mut Raw, handle: u32, outcomes: &[&str]) -> Attach {
    let mut fields = raw::attach(handle, false, "");
    if !outcomes.is_empty() {
        let mut source = vec![raw::null(); 9];
        source.push(symbols(outcomes));
        fields[5] = raw::described(0x28, &raw::list(&source));
    }
    let wanted = symbols(&OFFERED[..1]);
    fields[6] = raw::described(COORDINATOR, &raw::list(&[wanted]));
    raw.perform(raw::ATTACH, &fields);
    let came = raw.wait_for(raw::ATTACH);
    match decode(&came.body) {
        Ok((Performative::Attach(attach, _), _)) => *attach,
        other => panic!("{other:?}"),
    }
}

/// An array of symbols.
fn symbols(names: &[&str]) -> Vec<u8> {
    let mut body = u32::try_from(names.len())
        .expect("few")
        .to_be_bytes()
        .to_vec();
    body.push(0xa3);
    for name in names {
        body.push(u8::try_from(name.len()).expect("a short name"));
        body.extend_from_slice(name.as_bytes());
    }
    let size = u32::try_from(body.len()).expect("few").to_be_bytes();
    [&[0xf0], &size[..], &body].concat()
}

/// What the coordinator offers in its answer.
fn offered(attach: &Attach) -> Vec<&str> {
    match attach.target.as_deref() {
        Some(TargetArchetype::Coordinator {
            capabilities: Some(capabilities),
        }) => capabilities.iter().map(Symbol::as_str).collect(),
        other => panic!("{other:?}"),
    }
}

/// The fields of a transfer.
fn transfer_fields(
    handle: u32,
    id: u32,
    settled: bool,
    more: bool,
    state: Option<&[u8]>,
) -> Vec<Vec<u8>> {
    vec![
        raw::uint(handle),
        raw::uint(id),
        raw::binary(&id.to_be_bytes()),
        raw::uint(0),
        raw::truth(settled),
        raw::truth(more),
        raw::null(),
        state.map_or_else(raw::null, <[u8]>::to_vec),
    ]
}

/// An encoded transactional-state, with an outcome of no fields or without one.
fn provisional(txn_id: &[u8], outcome: Option<u8>) -> Vec<u8> {
    let mut fields = vec![raw::binary(txn_id)];
    fields.extend(outcome.map(|code| raw::described(code, &[0x45])));
    raw::performative(TRANSACTIONAL, &fields)
}

/// The state of a delivery in a transaction.
fn in_transaction(txn_id: &Bytes, outcome: &DeliveryState) -> DeliveryState {
    let mut encoded = Vec::new();
    outcome.write(&mut encoded);
    DeliveryState::Transactional {
        txn_id: txn_id.clone(),
        outcome: Some(encoded.into()),
    }
}

/// A message of one data section.
fn data(body: &[u8]) -> Vec<u8> {
    raw::described(0x75, &raw::binary(body))
}

/// A durable one.
fn durable(body: &[u8]) -> Vec<u8> {
    let header = raw::performative(0x70, &[raw::truth(true)]);
    [header, data(body)].concat()
}

const ACCEPTED: u8 = 0x24;
const RELEASED: u8 = 0x26;
