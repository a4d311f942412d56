//! Transactions of the simulated clients, and what must be true of each: all of it happens or nothing, and
//! nothing before it is discharged. [AMQP 4]

use std::collections::BTreeMap;

use super::client::{Client, Event, Role};
use super::codec::{self, Outcome, State};
use super::ledger::{Known, Ledger, Present};
use super::trial::Fault;
use super::world::World;

/// Transactions that a client has open at most.
const OPEN: usize = 3;

/// A message to the coordinator that is not answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Control {
    Declare,
    Discharge { transaction: u64, fails: bool },
}

/// How far a transaction is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Open,
    /// Its commit was asked for, and nothing is known of that.
    Asked,
    /// Some of it was seen: all of it has happened.
    Seen,
    Committed,
    RolledBack,
}

/// One transaction.
#[derive(Clone, Debug)]
pub(super) struct Transaction {
    stage: Stage,
    posts: Vec<u64>,
    /// What consumers accepted in it.
    accepted: Vec<u64>,
}

/// What the coordinator's answer says.
pub(super) fn answered(control: Control, state: &State) -> Result<Event, String> {
    match (control, state) {
        (Control::Declare, State::Declared(id)) => Ok(Event::Declared { id: id.clone() }),
        (Control::Discharge { transaction, fails }, State::Outcome(Outcome::Accepted)) => {
            let commits = !fails;
            Ok(Event::Discharged {
                transaction,
                commits,
            })
        }
        // It timed out, or its link did.
        (Control::Discharge { transaction, .. }, State::Outcome(Outcome::Rejected)) => {
            Ok(Event::Discharged {
                transaction,
                commits: false,
            })
        }
        other => Err(format!("the coordinator answers {other:?}")),
    }
}

impl Client {
    /// Sends a message to the coordinator, if there is a link to it with credit.
    fn control(&mut self, handle: u32, control: Control, payload: &[u8]) {
        if !self.may_send(handle, payload.len()) {
            return;
        }
        let id = self.transfer(handle, 0, payload, &codec::Sent::default());
        if let Some(session) = &mut self.session {
            session.sent.remove(&id);
            session.controls.insert(id, control);
        }
    }

    fn discharge(&mut self, handle: u32, at: usize, fails: bool) -> Option<u64> {
        let payload = codec::discharge(&self.transactions.get(at)?.0, fails);
        if !self.may_send(handle, payload.len()) {
            return None;
        }
        let (_, transaction) = self.transactions.remove(at);
        let control = Control::Discharge { transaction, fails };
        self.control(handle, control, &payload);
        Some(transaction)
    }
}

impl World {
    /// A client declares a transaction or discharges one.
    pub(super) fn transact(&mut self, client: usize) {
        let handles = self.handles(client, |role| *role == Role::Coordinator);
        let Some(handle) = handles.first().copied() else {
            if !self.quiet {
                self.clients[client].attach(Role::Coordinator, "", false, 0);
            }
            return;
        };
        let open = self.clients[client].transactions.len();
        let declares = !self.quiet && open < OPEN && (open == 0 || self.random.one_in(2));
        if declares {
            let payload = codec::declare();
            self.clients[client].control(handle, Control::Declare, &payload);
        } else if open > 0 {
            let at = usize::try_from(self.random.below(open as u64)).unwrap();
            let fails = !self.quiet && self.random.one_in(4);
            if let Some(transaction) = self.clients[client].discharge(handle, at, fails) {
                self.note(&format!(
                    "client {client} discharges {transaction}, fail {fails}"
                ));
                if !fails {
                    self.ledger.ask(transaction);
                }
            }
        }
    }

    /// The transaction that a client does something in, if it does.
    pub(super) fn pick_transaction(&mut self, client: usize) -> Option<(Vec<u8>, u64)> {
        if !self.trial.has(Fault::Transactions) || self.quiet {
            return None;
        }
        if self
            .handles(client, |role| *role == Role::Coordinator)
            .is_empty()
        {
            return None; // its link is being detached, and they with it
        }
        let open = self.clients[client].transactions.clone();
        let picked = self.random.pick(&open).cloned();
        picked.filter(|_| self.random.one_in(2))
    }

    /// The open transactions of a client can only be rolled back from now on.
    pub(super) fn abandon(&mut self, client: usize) {
        for (_, transaction) in std::mem::take(&mut self.clients[client].transactions) {
            self.ledger.roll_back(transaction);
        }
    }
}

impl Ledger {
    pub(super) fn declare(&mut self) -> u64 {
        let number = self.transactions.len() as u64 + 1;
        let transaction = Transaction {
            stage: Stage::Open,
            posts: Vec::new(),
            accepted: Vec::new(),
        };
        self.transactions.insert(number, transaction);
        number
    }

    /// A message is published in a transaction.
    pub(super) fn post(&mut self, transaction: u64, message: u64) {
        if let Some(of) = self.transactions.get_mut(&transaction) {
            of.posts.push(message);
            self.posted.insert(message, transaction);
        }
    }

    /// A consumer settles a delivery in a transaction.
    pub(super) fn retire(&mut self, transaction: u64, message: u64, outcome: &Outcome) {
        if let Some(of) = self.transactions.get_mut(&transaction)
            && *outcome == Outcome::Accepted
        {
            of.accepted.push(message);
        }
    }

    fn ask(&mut self, transaction: u64) {
        if let Some(of) = self.transactions.get_mut(&transaction) {
            of.stage = Stage::Asked;
        }
    }

    fn roll_back(&mut self, transaction: u64) {
        let Some(of) = self.transactions.get_mut(&transaction) else {
            return;
        };
        of.stage = Stage::RolledBack;
        for message in std::mem::take(&mut of.accepted) {
            if let Some(known) = self.messages.get_mut(&message) {
                known.may_go -= 1;
            }
        }
    }

    /// The coordinator answered a discharge.
    pub(super) fn discharged(&mut self, transaction: u64, commits: bool) -> Result<(), String> {
        let of = self.transactions.get_mut(&transaction);
        let of = of.ok_or("a transaction that was never declared")?;
        match (of.stage, commits) {
            (Stage::Asked | Stage::Seen, true) => {
                of.stage = Stage::Committed;
                for message in std::mem::take(&mut of.posts) {
                    self.tell(message, Outcome::Accepted)?;
                }
                Ok(())
            }
            (Stage::Open | Stage::Asked | Stage::RolledBack, false) => {
                self.roll_back(transaction);
                Ok(())
            }
            (stage, _) => Err(format!(
                "transaction {transaction} is {stage:?}, and commits is {commits}"
            )),
        }
    }

    /// A message was seen: if it was published in a transaction, that is committed.
    pub(super) fn see(&mut self, message: u64) -> Result<(), String> {
        let Some(transaction) = self.posted.get(&message) else {
            return Ok(());
        };
        let Some(of) = self.transactions.get_mut(transaction) else {
            return Ok(());
        };
        match of.stage {
            Stage::Committed | Stage::Seen => {}
            Stage::Asked => {
                of.stage = Stage::Seen;
                for post in &of.posts {
                    if let Some(known) = self.messages.get_mut(post) {
                        known.seen = true;
                    }
                }
            }
            Stage::Open | Stage::RolledBack => {
                return Err(format!(
                    "[AMQP 4.4.1] message {message} is there, and transaction {transaction} is {:?}",
                    of.stage
                ));
            }
        }
        Ok(())
    }

    /// After a start there is all of a transaction or nothing, if nothing is known of its commit.
    pub(super) fn check_halves(&mut self, before: &Present, after: &Present) -> Result<(), String> {
        for (number, of) in &mut self.transactions {
            if !matches!(of.stage, Stage::Asked | Stage::Seen) {
                continue;
            }
            let durable = |post: &&u64| self.messages.get(post).is_some_and(Known::is_durable);
            let posts: Vec<u64> = of.posts.iter().filter(durable).copied().collect();
            let is_there = |post: &u64| after.contains_key(post);
            let is_lost = |post: &u64| {
                let may_go = self
                    .messages
                    .get(post)
                    .is_some_and(|known| known.may_go > 0);
                before.contains_key(post) && !is_there(post) && !may_go
            };
            let (there, lost) = (
                posts.iter().any(is_there),
                posts.iter().find(|it| is_lost(it)),
            );
            if let (true, Some(lost)) = (there, lost) {
                return Err(format!(
                    "[AMQP 4.3] half of transaction {number} is there: {posts:?} without {lost}"
                ));
            }
            // What is not there now does not come any more, nor does the rest.
            of.stage = if there { Stage::Seen } else { Stage::Asked };
        }
        Ok(())
    }
}

/// The transactions of a world, and the messages that were published in them.
pub(super) type Transactions = BTreeMap<u64, Transaction>;
