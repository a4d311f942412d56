//! The handle of a connection, by which other tasks describe and close it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::sync::oneshot;

use crate::access::Peer;
use crate::base::locks::{RankedMutex, rank};
use crate::base::{ConnectionId, Timestamp};
use crate::gateway::{ConnectionInfo, SessionInfo};
use crate::node::Outbox;

/// What other tasks can see of one connection, and their requests to it.
#[derive(Debug)]
pub(super) struct ConnectionHandle {
    pub(super) id: ConnectionId,
    pub(super) peer: Peer,
    pub(super) connected_at: Timestamp,
    pub(super) outbox: Arc<Outbox>,
    local: Option<SocketAddr>,
    info: OnceLock<ConnectionInfo>,
    /// Whether there is a request; checked in every turn.
    wanted: AtomicBool,
    wants: RankedMutex<rank::ConnectionWants, Wants>,
    /// Whether it was closed, and ends once its peer has read the close.
    pub(super) closing: AtomicBool,
    /// Octets read so far; `sent` and the number of sessions follow.
    pub(super) received: AtomicU64,
    pub(super) sent: AtomicU64,
    pub(super) sessions: AtomicU32,
}

/// Requests of other tasks to a connection.
#[derive(Debug, Default)]
pub(super) struct Wants {
    /// Tasks that wait for a description of its sessions.
    pub(super) sessions: Vec<oneshot::Sender<Vec<SessionInfo>>>,
    /// The reason for which it is to be closed; none: it is not.
    pub(super) close: Option<String>,
}

impl ConnectionHandle {
    pub(super) fn new(
        id: ConnectionId,
        (peer, local): (Peer, Option<SocketAddr>),
        connected_at: Timestamp,
    ) -> Self {
        Self {
            id,
            peer,
            connected_at,
            outbox: Arc::default(),
            local,
            info: OnceLock::new(),
            wanted: AtomicBool::new(false),
            wants: RankedMutex::default(),
            closing: AtomicBool::new(false),
            received: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            sessions: AtomicU32::new(0),
        }
    }

    /// The address that it connected to.
    pub(super) fn local(&self) -> SocketAddr {
        self.local.unwrap_or(Peer::IN_PROCESS.address)
    }

    /// The connection's name: both addresses (as RabbitMQ); without a socket, its number.
    pub(super) fn name(&self) -> String {
        match self.local {
            Some(local) => format!("{} -> {local}", self.peer.address),
            None => format!("in-process {}", self.id.0),
        }
    }

    /// Its state in RabbitMQ's words.
    pub(super) fn state(&self) -> &'static str {
        if self.closing.load(Ordering::Relaxed) {
            "closing"
        } else if self.info.get().is_some() {
            "running"
        } else {
            "opening"
        }
    }

    /// Its description, once it is open.
    pub(super) fn info(&self) -> Option<&ConnectionInfo> {
        self.info.get()
    }

    /// Sets the description, now that it is open.
    pub(super) fn set_info(&self, info: ConnectionInfo) {
        let _ = self.info.set(info);
    }

    /// Asks for a description of its sessions.
    pub(super) fn ask_sessions(&self) -> oneshot::Receiver<Vec<SessionInfo>> {
        let (answer, asked) = oneshot::channel();
        self.wants.lock().sessions.push(answer);
        self.wake();
        asked
    }

    /// Asks it to close, with this reason.
    pub(super) fn ask_to_close(&self, why: String) {
        self.wants.lock().close = Some(why);
        self.wake();
    }

    fn wake(&self) {
        self.wanted.store(true, Ordering::Release);
        self.outbox.wake();
    }

    /// Takes the requests, if there are any.
    pub(super) fn take_wants(&self) -> Option<Wants> {
        if !self.wanted.load(Ordering::Relaxed) || !self.wanted.swap(false, Ordering::Acquire) {
            return None;
        }
        Some(std::mem::take(&mut *self.wants.lock()))
    }
}
