//! Clients that declare and delete queues through the management node, and what must be true of them.

use std::collections::BTreeSet;

use super::client::Role;
use super::codec::{self, Sent};
use super::trial::Fault;
use super::world::World;

/// Queues that clients of one world declare at most.
const QUEUES: usize = 40;
/// Requests about other queues have no number of their own: their answers say nothing that must last.
const OTHER: u64 = u64::MAX;

/// What is known of a queue that a client declared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Known {
    /// No answer yet: it may be there.
    DeclareSent,
    /// The broker said that it is there.
    Declared,
    /// No answer yet: it may be gone.
    DeleteSent,
    /// The broker said that it is gone.
    Deleted,
}

/// Queues that clients declared, each under a name of its own.
#[derive(Debug, Default)]
pub(super) struct Managed(Vec<Known>);

fn name_of(number: usize) -> String {
    format!("managed-{number}")
}

impl Managed {
    /// An answer came. A request for queue n has the number 2n, or 2n + 1 if it deletes.
    fn answer(&mut self, request: u64, status: &str) -> Result<(), String> {
        if request == OTHER {
            return match status {
                "200" | "201" | "204" | "404" | "409" => Ok(()),
                _ => Err(format!("a request about a queue was answered {status}")),
            };
        }
        let queue = usize::try_from(request / 2).unwrap();
        let known = self.0.get_mut(queue).ok_or("an answer to no request")?;
        let (expected, next) = match *known {
            Known::DeclareSent if request.is_multiple_of(2) => ("201", Known::Declared),
            Known::DeleteSent if !request.is_multiple_of(2) => ("200", Known::Deleted),
            _ => return Err(format!("request {request} is answered twice")),
        };
        if status != expected {
            let name = name_of(queue);
            return Err(format!("{name} is {known:?}, and the answer is {status}"));
        }
        *known = next;
        Ok(())
    }

    /// What was answered lasts, whatever happened since.
    pub(super) fn check(&self, queues: &BTreeSet<String>) -> Result<(), String> {
        for (number, known) in self.0.iter().enumerate() {
            let name = name_of(number);
            match (*known, queues.contains(&name)) {
                (Known::Declared, false) => {
                    return Err(format!("{name} was declared, and is gone"));
                }
                (Known::Deleted, true) => return Err(format!("{name} was deleted, and is there")),
                _ => {}
            }
        }
        Ok(())
    }

    /// How many requests were answered.
    pub(super) fn answered(&self) -> u64 {
        let answers = |known: &Known| match known {
            Known::DeclareSent => 0,
            Known::Declared | Known::DeleteSent => 1,
            Known::Deleted => 2,
        };
        self.0.iter().map(answers).sum()
    }
}

impl World {
    pub(super) fn take_answer(&mut self, request: u64, status: &str) -> Result<(), String> {
        self.managed.answer(request, status)
    }

    /// A client asks the management node for something, or attaches to it.
    pub(super) fn manage(&mut self, client: usize) {
        let handles = self.handles(client, |role| *role == Role::Requests);
        let Some(handle) = handles.first().copied() else {
            self.clients[client].attach_pair();
            return;
        };
        if !self.has_answering_half(client) || !self.clients[client].may_send(handle, 200) {
            return;
        }
        let declared: Vec<usize> = (0..self.managed.0.len())
            .filter(|number| self.managed.0[*number] == Known::Declared)
            .collect();
        let (id, method, path) = match self.random.below(6) {
            0 if self.trial.has(Fault::Queues) => {
                let names = self.topology.names();
                let queue = self.random.pick(&names).unwrap();
                let path = if self.random.one_in(2) {
                    format!("/queues/{queue}")
                } else {
                    format!("/queues/{queue}/messages")
                };
                (OTHER, "DELETE", path)
            }
            1 | 2 if !declared.is_empty() => {
                let number = *self.random.pick(&declared).unwrap();
                self.managed.0[number] = Known::DeleteSent;
                let path = format!("/queues/{}", name_of(number));
                (2 * number as u64 + 1, "DELETE", path)
            }
            _ if self.managed.0.len() < QUEUES => {
                let number = self.managed.0.len();
                self.managed.0.push(Known::DeclareSent);
                let path = format!("/queues/{}", name_of(number));
                (2 * number as u64, "PUT", path)
            }
            _ => return,
        };
        self.note(&format!("client {client} asks for {method} {path}"));
        let payload = codec::request(id, method, &path);
        let sent = Sent {
            settled: true,
            ..Sent::default()
        };
        self.clients[client].send(handle, id, &payload, &sent);
    }

    /// An answer can come: requests without credit for theirs are not sent.
    fn has_answering_half(&mut self, client: usize) -> bool {
        let handles = self.handles(client, |role| *role == Role::Answers);
        let Some(handle) = handles.first().copied() else {
            return false;
        };
        let session = self.clients[client].session.as_ref().unwrap();
        let link = &session.links[&handle];
        let left = link.limit.wrapping_sub(link.count);
        if link.attached && left < 10 {
            self.clients[client].credit(handle, 20, false);
        }
        left > 2
    }
}
