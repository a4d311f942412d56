//! The simulated network, and the broker's end of a connection: what the server's task does.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Waker};

use bytes::BytesMut;

use super::machine::Machine;
use crate::access::{Peer, Proof, Proven};
use crate::base::{ConnectionId, Millis, Name, Random};
use crate::node::{Connection, Outbox, Output};
use crate::store::sim_disk::SimDisk;

/// What the system keeps of what a peer does not read, in bytes.
const SOCKET_BYTES: usize = 6_000;

/// See [`Socket::scale`].
const LARGE_SCALE: usize = 16;

/// One direction of a connection.
#[derive(Debug, Default)]
pub(super) struct Pipe {
    /// When they arrive, and bytes.
    pieces: VecDeque<(Millis, Vec<u8>)>,
    bytes: usize,
}

impl Pipe {
    fn room(&self, scale: usize) -> usize {
        (SOCKET_BYTES * scale).saturating_sub(self.bytes)
    }

    pub(super) fn push(&mut self, at: Millis, bytes: &[u8]) {
        if !bytes.is_empty() {
            // Bytes do not overtake each other.
            let last = self.pieces.back().map_or(Millis(0), |(at, _)| *at);
            self.pieces.push_back((at.max(last), bytes.to_vec()));
            self.bytes += bytes.len();
        }
    }

    /// Loses what is behind this many bytes.
    pub(super) fn lose_behind(&mut self, mut bytes: usize) {
        self.bytes = self.bytes.min(bytes);
        self.pieces.retain_mut(|(_, piece)| {
            piece.truncate(bytes);
            bytes -= piece.len();
            !piece.is_empty()
        });
    }

    /// Number of bytes that are on their way.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn has_any(&self, now: Millis) -> bool {
        self.pieces.front().is_some_and(|(at, _)| *at <= now)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    pub(super) fn next(&self) -> Millis {
        self.pieces.front().map_or(Millis::NEVER, |(at, _)| *at)
    }

    /// At most so many bytes of what has arrived.
    pub(super) fn pull(&mut self, now: Millis, at_most: usize) -> Vec<u8> {
        let mut taken = Vec::new();
        while taken.len() < at_most && self.has_any(now) {
            let (at, mut piece) = self.pieces.pop_front().unwrap();
            let rest = piece.split_off(piece.len().min(at_most - taken.len()));
            taken.extend(piece);
            if !rest.is_empty() {
                self.pieces.push_front((at, rest));
            }
        }
        self.bytes -= taken.len();
        taken
    }
}

/// A connection: the broker's end of it, and the way to its client and back.
pub(super) struct Socket {
    pub(super) client: usize,
    connection: Connection<SimDisk>,
    input: BytesMut,
    output: Output,
    /// From the client, and to it.
    pub(super) up: Pipe,
    pub(super) down: Pipe,
    /// The client's end is gone; when the broker sees it.
    pub(super) cut: Option<Millis>,
    /// Nothing is delivered in either direction before this.
    pub(super) stalled: Millis,
    timer: Millis,
    woken: bool,
    /// The broker has left it.
    pub(super) over: bool,
    /// How much more moves at a time than where messages are small.
    pub(super) scale: usize,
}

impl Socket {
    pub(super) fn new(machine: &Machine, number: u64, client: usize) -> Self {
        let outbox = Arc::new(Outbox::default());
        let id = ConnectionId(number);
        let connection = Connection::new(&machine.node, id, Peer::IN_PROCESS, outbox);
        Self {
            client,
            connection,
            input: BytesMut::new(),
            output: Output::default(),
            up: Pipe::default(),
            down: Pipe::default(),
            cut: None,
            stalled: Millis(0),
            timer: Millis(0),
            woken: true,
            over: false,
            scale: if machine.has_large() { LARGE_SCALE } else { 1 },
        }
    }

    /// Whether the broker's task has anything to do: it is woken only then.
    pub(super) fn is_ready(&mut self, now: Millis) -> bool {
        if self.over {
            return false;
        }
        let mut context = Context::from_waker(Waker::noop());
        self.woken |= self.connection.poll_woken(&mut context).is_ready();
        self.woken
            || self.connection.is_heavy()
            || self.timer <= now
            || self.cut.is_some_and(|at| at <= now)
            || self.can_write(now)
            || (self.can_read(now) && self.connection.wants_input())
    }

    fn can_write(&self, now: Millis) -> bool {
        self.output.unwritten() > 0
            && self.stalled <= now
            && (self.down.room(self.scale) > 0 || self.cut.is_some())
    }

    fn can_read(&self, now: Millis) -> bool {
        self.stalled <= now && self.up.has_any(now)
    }

    /// Where it stands, for the report of a failure.
    pub(super) fn describe(&self) -> String {
        let gateway = self.connection.gateway();
        format!(
            "connection of client {}: awaits {:?}, has work {}, {} bytes unwritten, cut {:?}; {}, input {}, up {}",
            self.client,
            gateway.awaits(),
            gateway.has_work(),
            self.output.unwritten(),
            self.cut,
            self.connection.why_unread(),
            self.input.len(),
            self.up.has_any(Millis::NEVER),
        )
    }

    /// When something happens to it without anybody's doing.
    pub(super) fn next_deadline(&self) -> Millis {
        if self.over {
            return Millis::NEVER;
        }
        let cut = self.cut.unwrap_or(Millis::NEVER);
        let moves = self.up.next().min(self.down.next()).max(self.stalled);
        self.timer.min(cut).min(moves)
    }

    /// One round of the broker's task: writes and reads what can be, lets the node work.
    pub(super) fn turn(&mut self, machine: &Machine, random: &mut Random) {
        let now = machine.now();
        self.woken = false;
        while self.can_write(now.mono) {
            let rest = self.output.rest();
            let room = if self.cut.is_some() {
                rest.len()
            } else {
                self.down.room(self.scale)
            };
            let most = rest.len().min(room).min(self.scale * fragment(random));
            if self.cut.is_none() {
                let at = now.mono.plus(random.below(4));
                self.down.push(at, &rest[..most]);
            }
            self.output.advance(most);
            if random.one_in(3) {
                break;
            }
        }
        let may_read = self.can_read(now.mono) && !self.connection.is_heavy();
        if may_read && self.connection.wants_input() {
            let bytes = self.up.pull(now.mono, self.scale * fragment(random));
            self.input.extend_from_slice(&bytes);
        }
        if self.timer <= now.mono {
            self.connection.handle_timeout(now);
        }
        // What the peer closed is seen once what it sent before is read.
        let is_cut = self.cut.is_some_and(|at| at <= now.mono) && !self.can_read(now.mono);
        if is_cut {
            self.connection.last_turn(&mut self.input, &self.output);
        } else {
            self.connection.turn(&mut self.input, &mut self.output);
        }
        if let Some(Proof::Password(credentials)) = self.connection.poll_login() {
            let user = Proven::User(Name::from(&*credentials.user));
            self.connection.handle_login(machine.now(), Ok(user));
            self.woken = true;
        }
        if let Some(fetch) = self.connection.poll_fetch() {
            let piece = machine.store.read_piece(*fetch.body, fetch.piece);
            let (stream, now) = (fetch.stream, machine.now());
            self.connection.handle_fetched(now, stream, piece);
            self.woken = true;
        }
        self.timer = self.connection.next_deadline();
        if is_cut || self.connection.is_over(&self.output) {
            self.connection.disconnect(&self.output);
            while self.connection.go_on_leaving() {}
            self.over = true;
        }
    }
}

/// How much is read or written at a time: often little, so that frames come in pieces.
fn fragment(random: &mut Random) -> usize {
    let most = match random.below(4) {
        0 => 12,
        1 => 200,
        _ => 4096,
    };
    1 + usize::try_from(random.below(most)).unwrap()
}
