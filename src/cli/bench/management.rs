//! Declaring and deleting the queues of a run through `/management`, as any client would.

use super::BenchError;
use super::codec::{
    Fields, Item, Performative, code, described, text, write_frame, write_performative,
};
use super::connection::{
    ConnectTarget, Connection, INCOMING_WINDOW, Link, OUTGOING_WINDOW, unexpected,
};

/// Handle of the request link, and of the answer link.
const REQUESTS: u32 = 0;
const ANSWERS: u32 = 1;

/// A queue to declare.
pub(super) struct QueueSpec<'a> {
    pub(super) name: String,
    /// The argument `x-queue-type`.
    pub(super) queue_type: &'a str,
    pub(super) durable: bool,
    /// The queue that dead letters go to, through the default exchange.
    pub(super) dead_letter_queue: Option<String>,
    /// Whether dead letters are moved at least once.
    pub(super) at_least_once: bool,
}

/// A connection with the management pair attached.
pub(super) struct Management {
    connection: Connection,
    requests: u32,
    /// The answer link's delivery-count before the first answer.
    first_delivery_count: u32,
}

impl Management {
    pub(super) fn open(peer: &ConnectTarget) -> Result<Self, BenchError> {
        let mut connection = Connection::open(peer, "coroner-bench-management")?;
        let mut first_delivery_count = 0;
        for (handle, receiver) in [(REQUESTS, false), (ANSWERS, true)] {
            first_delivery_count = connection.attach(&Link {
                name: "management",
                handle,
                receiver,
                address: "/management",
                settled: true,
                paired: true,
            })?;
        }
        Ok(Self {
            connection,
            requests: 0,
            first_delivery_count,
        })
    }

    /// Declares a new queue: an existing one is deleted first with its messages.
    pub(super) fn declare(&mut self, queue: &QueueSpec<'_>) -> Result<(), BenchError> {
        self.delete(&queue.name)?;
        let mut arguments = vec![(Item::Text("x-queue-type"), Item::Text(queue.queue_type))];
        if let Some(target) = &queue.dead_letter_queue {
            arguments.push((Item::Text("x-dead-letter-exchange"), Item::Text("")));
            arguments.push((Item::Text("x-dead-letter-routing-key"), Item::Text(target)));
            if queue.at_least_once {
                let strategy = Item::Text("at-least-once");
                arguments.push((Item::Text("x-dead-letter-strategy"), strategy));
                // RabbitMQ requires it.
                arguments.push((Item::Text("x-overflow"), Item::Text("reject-publish")));
            }
        }
        let body = Item::Map(vec![
            (Item::Text("durable"), Item::Bool(queue.durable)),
            (Item::Text("arguments"), Item::Map(arguments)),
        ]);
        self.request("PUT", &format!("/queues/{}", queue.name), body)
    }

    /// Deletes a queue, if it exists.
    pub(super) fn delete(&mut self, name: &str) -> Result<(), BenchError> {
        self.request("DELETE", &format!("/queues/{name}"), Item::Null)
    }

    /// One credit for the answer to request `number`: each earlier answer was one transfer.
    fn credit(&self, number: u32) -> Vec<Item<'static>> {
        vec![
            Item::Uint(self.connection.first_transfer_id.wrapping_add(number)),
            Item::Uint(INCOMING_WINDOW),
            Item::Uint(number),
            Item::Uint(OUTGOING_WINDOW),
            Item::Uint(ANSWERS),
            Item::Uint(self.first_delivery_count.wrapping_add(number)),
            Item::Uint(1),
        ]
    }

    fn request(&mut self, method: &str, path: &str, body: Item<'_>) -> Result<(), BenchError> {
        let number = self.requests;
        self.requests += 1;
        let credit = self.credit(number);
        let output = self.connection.output();
        write_performative(output, 0, code::FLOW, credit);
        write_frame(output, 0, |out| {
            let tag = number.to_be_bytes();
            let transfer = vec![
                Item::Uint(REQUESTS),
                Item::Uint(number),
                Item::Binary(&tag),
                Item::Uint(0),
                Item::Bool(true),
            ];
            Item::Described(code::TRANSFER, transfer).write(out);
            let id = format!("bench-{number}");
            let properties = vec![
                Item::Text(&id),
                Item::Null,
                Item::Text(path),
                Item::Text(method),
                Item::Text("$me"),
            ];
            Item::Described(code::PROPERTIES, properties).write(out);
            Item::Section(code::VALUE, Box::new(body)).write(out);
        });
        self.connection.flush_all()?;
        loop {
            let status = self.connection.answer(|frame| match frame.code {
                code::TRANSFER => Ok(Some(status(frame))),
                code::FLOW => Ok(None),
                _ => Err(unexpected(frame)),
            })??;
            match status {
                None => {}
                Some(status) if status.starts_with('2') => return Ok(()),
                Some(status) => {
                    let why = format!("{method} {path}: {status}");
                    return Err(BenchError::Refused {
                        what: "a management request",
                        why,
                    });
                }
            }
        }
    }
}

/// The subject of the answer's properties, which is its first section.
fn status(answer: &Performative<'_>) -> String {
    let properties = described(Some(answer.payload)).unwrap_or_default();
    let subject = Fields::of_list(properties).field(3);
    text(subject)
        .unwrap_or("an answer without a status")
        .to_owned()
}
