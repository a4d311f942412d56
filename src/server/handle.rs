//! Where others ask a connection for what it is, or ask it to go.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::sync::oneshot;

use crate::access::Peer;
use crate::base::locks::{RankedMutex, rank};
use crate::base::{ConnectionId, Timestamp};
use crate::gateway::{ConnectionInfo, SessionInfo};
use crate::node::Outbox;

/// What others see of one connection, and where they ask it for something.
#[derive(Debug)]
pub(super) struct ConnectionHandle {
    pub(super) id: ConnectionId,
    pub(super) peer: Peer,
    pub(super) connected_at: Timestamp,
    pub(super) outbox: Arc<Outbox>,
    local: Option<SocketAddr>,
    info: OnceLock<ConnectionInfo>,
    /// Somebody wants something; looked at in every turn.
    wanted: AtomicBool,
    wants: RankedMutex<rank::ConnectionWants, Wants>,
    /// It was closed, and goes once its peer has read so.
    pub(super) closing: AtomicBool,
    /// Octets read and written, and sessions open.
    pub(super) received: AtomicU64,
    pub(super) sent: AtomicU64,
    pub(super) sessions: AtomicU32,
}

/// What others want.
#[derive(Debug, Default)]
pub(super) struct Wants {
    /// To be told of its sessions.
    pub(super) sessions: Vec<oneshot::Sender<Vec<SessionInfo>>>,
    /// That it goes, and why.
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

    /// Where it came in.
    pub(super) fn local(&self) -> SocketAddr {
        self.local.unwrap_or(Peer::IN_PROCESS.address)
    }

    /// Its name: both addresses (as RabbitMQ); without a socket, its number.
    pub(super) fn name(&self) -> String {
        match self.local {
            Some(local) => format!("{} -> {local}", self.peer.address),
            None => format!("in-process {}", self.id.0),
        }
    }

    /// What state it is in, as RabbitMQ calls it.
    pub(super) fn state(&self) -> &'static str {
        if self.closing.load(Ordering::Relaxed) {
            "closing"
        } else if self.info.get().is_some() {
            "running"
        } else {
            "opening"
        }
    }

    /// What it is, once it is open.
    pub(super) fn info(&self) -> Option<&ConnectionInfo> {
        self.info.get()
    }

    /// It is open.
    pub(super) fn set_info(&self, info: ConnectionInfo) {
        let _ = self.info.set(info);
    }

    /// Asks for its sessions.
    pub(super) fn ask_sessions(&self) -> oneshot::Receiver<Vec<SessionInfo>> {
        let (answer, asked) = oneshot::channel();
        self.wants.lock().sessions.push(answer);
        self.wake();
        asked
    }

    /// Asks it to go.
    pub(super) fn ask_to_close(&self, why: String) {
        self.wants.lock().close = Some(why);
        self.wake();
    }

    fn wake(&self) {
        self.wanted.store(true, Ordering::Release);
        self.outbox.wake();
    }

    /// What others want, if anything.
    pub(super) fn take_wants(&self) -> Option<Wants> {
        if !self.wanted.load(Ordering::Relaxed) || !self.wanted.swap(false, Ordering::Acquire) {
            return None;
        }
        Some(std::mem::take(&mut *self.wants.lock()))
    }
}
