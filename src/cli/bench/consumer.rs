//! A consuming connection: gives credit, takes deliveries, settles them in ranges.

use clap::ValueEnum;

use super::BenchError;
use super::codec::{Item, Performative, code, truth, uint, write_performative};
use super::connection::{
    ConnectTarget, Connection, INCOMING_WINDOW, Link, OUTGOING_WINDOW, unexpected,
};
use super::tally::Tally;
use super::template::{Life, stamp};

/// What a consumer does with a delivery.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(super) enum SettleWith {
    /// accepted
    Accept,
    /// rejected
    Reject,
    /// released: the message comes again
    Release,
    /// modified with delivery-failed: the message comes again
    Modified,
    /// No outcome: kept until the connection drops at the end of the run
    Hold,
}

/// The error that a consumer gives with each rejection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub(super) enum RejectWith {
    /// No error
    #[default]
    None,
    /// The same condition and description each time
    Error,
    /// A description of its own each time, in a frame of its own
    Own,
}

impl SettleWith {
    /// Whether the message leaves this consumer's queue with it.
    pub(super) fn is_final(self) -> bool {
        matches!(self, Self::Accept | Self::Reject | Self::Hold)
    }
}

/// The behaviour of a consumer.
#[derive(Clone)]
pub(super) struct Manner {
    pub(super) credit: u32,
    /// Whether deliveries are sent settled.
    pub(super) settled: bool,
    /// Outcomes of consecutive deliveries, over and over; not empty.
    pub(super) outcomes: Vec<SettleWith>,
    /// The error of rejections.
    pub(super) reject_with: RejectWith,
    /// Whether a final outcome here is what the run counts.
    pub(super) counts: bool,
    /// The time to live of messages that are counted once they are dead.
    pub(super) life: Option<Life>,
    /// Number of confirmed messages that the consumer stays behind.
    pub(super) behind: u64,
}

/// One connection with one receiving link.
pub(super) struct Consumer {
    pub(super) connection: Connection,
    link: ConsumerLink,
}

struct ConsumerLink {
    manner: Manner,
    next_transfer: u32,
    delivery_count: u32,
    credit_left: u32,
    /// Number of deliveries received.
    delivered: u64,
    /// Index of the next outcome.
    turn: usize,
    /// The delivery that is arriving in several transfers.
    partial: Option<u32>,
    /// Deliveries of one outcome that are not settled yet.
    range: Option<(u32, u32, SettleWith)>,
}

impl Consumer {
    /// Connects, attaches to the queue at this address and gives the first credit.
    pub(super) fn attach(
        peer: &ConnectTarget,
        address: &str,
        manner: Manner,
    ) -> Result<Self, BenchError> {
        let mut connection = Connection::open(peer, "coroner-bench-consumer")?;
        let delivery_count = connection.attach(&Link {
            name: "consumer",
            handle: 0,
            receiver: true,
            address,
            settled: manner.settled,
            paired: false,
        })?;
        let mut link = ConsumerLink {
            manner,
            next_transfer: connection.first_transfer_id,
            delivery_count,
            credit_left: 0,
            delivered: 0,
            turn: 0,
            partial: None,
            range: None,
        };
        link.top_up(0, connection.output());
        Ok(Self { connection, link })
    }

    /// Grants the credit that new confirmations, or the end of publishing, allow.
    pub(super) fn follow(&mut self, tally: &Tally, published: bool) {
        let Self { connection, link } = self;
        if link.manner.behind == 0 {
            return;
        }
        if published {
            link.manner.behind = 0;
        }
        link.top_up(tally.confirmed, connection.output());
    }

    /// Reads once, takes and settles deliveries, and tops the credit up.
    pub(super) fn read(&mut self, tally: &mut Tally) -> Result<(), BenchError> {
        let Self { connection, link } = self;
        let came = connection.read_frames(|frame, output| match frame.code {
            code::TRANSFER => link.handle_transfer(frame, output, tally),
            code::FLOW | code::DISPOSITION => Ok(()),
            _ => Err(unexpected(frame)),
        })?;
        if came {
            link.settle_range(connection.output());
            // A consumer that holds its deliveries gets no more than its first credit.
            if link.manner.outcomes != [SettleWith::Hold] {
                link.top_up(tally.confirmed, connection.output());
            }
        }
        Ok(())
    }
}

impl ConsumerLink {
    fn handle_transfer(
        &mut self,
        transfer: &Performative<'_>,
        output: &mut Vec<u8>,
        tally: &mut Tally,
    ) -> Result<(), BenchError> {
        self.next_transfer = self.next_transfer.wrapping_add(1);
        let mut fields = transfer.fields.clone();
        let id = uint(fields.nth(1)).or(self.partial);
        let settled = truth(fields.nth(2));
        let id = id.ok_or(BenchError::Malformed("a transfer without a delivery-id"))?;
        if truth(fields.next()) {
            self.partial = Some(id);
            return Ok(());
        }
        self.partial = None;
        self.delivery_count = self.delivery_count.wrapping_add(1);
        self.credit_left = self.credit_left.saturating_sub(1);
        self.delivered += 1;
        tally.delivered += 1;
        let outcome = self.next_outcome();
        if !settled {
            self.extend_range(id, outcome, output);
        }
        if self.manner.counts && (settled || outcome.is_final()) {
            let sent = stamp(transfer.payload, tally.run);
            let life = self.manner.life;
            tally.finish(sent.map(|sent| life.map_or(sent, |life| life.due_nanos(sent))));
        }
        Ok(())
    }

    fn next_outcome(&mut self) -> SettleWith {
        let outcome = self
            .manner
            .outcomes
            .get(self.turn)
            .copied()
            .unwrap_or(SettleWith::Accept);
        self.turn = if self.turn + 1 < self.manner.outcomes.len() {
            self.turn + 1
        } else {
            0
        };
        outcome
    }

    fn extend_range(&mut self, id: u32, outcome: SettleWith, output: &mut Vec<u8>) {
        let alone = outcome == SettleWith::Reject && self.manner.reject_with == RejectWith::Own;
        if let Some((_, last, same)) = &mut self.range
            && *same == outcome
            && !alone
            && last.wrapping_add(1) == id
        {
            *last = id;
            return;
        }
        self.settle_range(output);
        self.range = Some((id, id, outcome));
    }

    fn settle_range(&mut self, output: &mut Vec<u8>) {
        let Some((first, last, outcome)) = self.range.take() else {
            return;
        };
        let description = match self.manner.reject_with {
            RejectWith::None => None,
            RejectWith::Error => Some("the bench refuses every message".to_owned()),
            RejectWith::Own => Some(format!("the bench refuses delivery {first}")),
        };
        let state = match outcome {
            SettleWith::Hold => return,
            SettleWith::Accept => Item::Described(code::ACCEPTED, Vec::new()),
            SettleWith::Reject => Item::Described(code::REJECTED, error(description.as_deref())),
            SettleWith::Release => Item::Described(code::RELEASED, Vec::new()),
            SettleWith::Modified => Item::Described(code::MODIFIED, vec![Item::Bool(true)]),
        };
        let fields = vec![
            Item::Bool(true),
            Item::Uint(first),
            Item::Uint(last),
            Item::Bool(true),
            state,
        ];
        write_performative(output, 0, code::DISPOSITION, fields);
    }

    /// Grants more credit; `confirmed`: messages so far.
    fn top_up(&mut self, confirmed: u64, output: &mut Vec<u8>) {
        if self.credit_left > self.manner.credit / 2 {
            return;
        }
        let credit = self.allowed(confirmed);
        if credit <= self.credit_left {
            return;
        }
        self.credit_left = credit;
        let flow = vec![
            Item::Uint(self.next_transfer),
            Item::Uint(INCOMING_WINDOW),
            Item::Uint(0),
            Item::Uint(OUTGOING_WINDOW),
            Item::Uint(0),
            Item::Uint(self.delivery_count),
            Item::Uint(self.credit_left),
        ];
        write_performative(output, 0, code::FLOW, flow);
    }
    /// The credit that keeps it as far behind as it should stay.
    fn allowed(&self, confirmed: u64) -> u32 {
        let Manner { credit, behind, .. } = self.manner;
        if behind == 0 {
            return credit;
        }
        let beyond = confirmed.saturating_sub(behind + self.delivered);
        // At least half of it, so that flows stay few.
        if beyond < u64::from(credit / 2) {
            return 0;
        }
        u32::try_from(beyond).unwrap_or(credit).min(credit)
    }
}

/// The fields of `rejected`: its error, if there is a description. [AMQP 2.8.14]
fn error(description: Option<&str>) -> Vec<Item<'_>> {
    let fields = |text| vec![Item::Symbol("bench:refused"), Item::Text(text)];
    let error = description.map(|text| Item::Described(code::ERROR, fields(text)));
    error.into_iter().collect()
}
