//! The task of one connection: reads, lets gateway and core work, writes.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::task::JoinHandle;
use tokio::time::Sleep;

use super::Vhost;
use super::desk::Desk;
use super::shared::Shared;
use crate::access::{LoginError, LoginWay, Mechanism};
use crate::base::limits::PARTIAL_FREE_BYTES;
use crate::base::{Lsn, Millis, Name, Now};
use crate::gateway::{Fetch, Gateway, Written};
use crate::node::Outbox;
use crate::node::partials::{self, Permit};

/// How passwords come that a connection has checked.
const PLAIN: LoginWay = LoginWay::Sasl(Mechanism::Plain);
/// Bytes of one read: the least, so that idle connections take little memory, and the most, to
/// which it grows while reads fill it.
const READ_BYTES_MIN: usize = 4 * 1024;
const READ_BYTES_MAX: usize = 64 * 1024;
/// Bytes of one read while frames arrive that are larger than that: whole frames, so that what is there
/// of one need not move to a larger buffer.
const READ_FRAME_BYTES_MAX: usize = 256 * 1024;
/// Bytes that a connection reads and writes before others have their turn. No more than one large read:
/// a publisher that stays longer gets ahead of the consumers of its queue, and what waits there is no
/// more in the processor's cache, and has to be written, when its turn comes.
const TURN_BYTES: usize = READ_BYTES_MAX;
/// A peer that does not close its side after our close gets this long to read it.
const LINGER: Duration = Duration::from_millis(500);
/// A write buffer that a burst made larger than this is given back, in bytes.
const WRITE_BYTES_KEPT: usize = 256 * 1024;
/// How long not to look whether the journal has caught up when nobody says so, in milliseconds.
const JOURNAL_LOOK_MS: u64 = 50;

/// A password that is being checked.
type Check = Pin<Box<dyn Future<Output = Result<Name, LoginError>> + Send>>;
/// A piece of a message that is being read back; none: it could not be.
type Reading = JoinHandle<Option<Bytes>>;

/// One connection. A turn: write what is there and read what has come, let gateway and core work,
/// collect the output; sleep only when nothing of this got on.
pub(super) struct Driver<R, W> {
    shared: Arc<Shared>,
    gateway: Gateway,
    outbox: Arc<Outbox>,
    desk: Arc<Desk>,
    vhost: Option<Arc<Vhost>>,
    reader: R,
    writer: W,
    input: BytesMut,
    /// Bytes of the next read.
    read_bytes: usize,
    output: Vec<u8>,
    /// Bytes of `output` that are written.
    written: usize,
    /// The writer has bytes that the socket did not take yet.
    unflushed: bool,
    /// Bytes read and written since others had their turn.
    moved_bytes: usize,
    /// The check of a password that is under way.
    login: Option<Check>,
    sleep: Pin<Box<Sleep>>,
    /// For when `sleep` is set.
    armed: Millis,
    closing: bool,
    /// What the journal was asked to call us for.
    awaited: Lsn,
    /// Too much waits for the journal to read more.
    waits_for_journal: bool,
    /// What the journal was asked to call us for then.
    awaited_commit: Lsn,
    /// A piece of a message that is to be read back, once it is written.
    fetch: Option<Fetch>,
    /// The reading of one, and for which message.
    reading: Option<(u64, Reading)>,
    /// To hold more than a little of unfinished messages, and until when it may be kept.
    permit: Option<(Permit, Millis)>,
}

/// What a turn's waiting brought.
#[derive(Clone, Copy, Default)]
struct Woken {
    progress: bool,
    timeout: bool,
    /// The peer's side is closed, or the socket is broken.
    disconnected: bool,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Driver<R, W> {
    pub(super) fn new(shared: Arc<Shared>, desk: Arc<Desk>, (reader, writer): (R, W)) -> Self {
        let now = shared.clock.now();
        Self {
            gateway: Gateway::new(
                now,
                desk.id,
                desk.peer.clone(),
                Arc::clone(&shared.environment),
            ),
            sleep: Box::pin(tokio::time::sleep_until(shared.clock.instant(now.mono))),
            armed: now.mono,
            shared,
            outbox: Arc::clone(&desk.outbox),
            desk,
            vhost: None,
            reader,
            writer,
            input: BytesMut::new(),
            read_bytes: READ_BYTES_MIN,
            output: Vec::new(),
            written: 0,
            unflushed: false,
            moved_bytes: 0,
            login: None,
            closing: false,
            fetch: None,
            reading: None,
            permit: None,
            awaited: Lsn(0),
            waits_for_journal: false,
            awaited_commit: Lsn(0),
        }
    }

    /// Serves the connection until it is over.
    pub(super) async fn run(mut self) {
        loop {
            self.turn();
            if self.unwritten() == 0 && !self.unflushed && self.gateway.is_closed() {
                self.leave();
                self.linger().await;
                return;
            }
            self.arm();
            self.let_others_in().await;
            let woken = poll_fn(|context| self.poll_io(context)).await;
            if woken.timeout {
                self.handle_timeout();
            }
            if woken.disconnected {
                self.turn();
                self.leave();
                return;
            }
        }
    }

    /// Gives the thread to other connections after each piece of what arrives or leaves: the sockets of
    /// those that wait are not even looked at before.
    async fn let_others_in(&mut self) {
        if self.moved_bytes >= TURN_BYTES {
            self.moved_bytes = 0;
            tokio::task::yield_now().await;
        }
    }

    fn handle_timeout(&mut self) {
        let now = self.shared.clock.now();
        let lacks_permit =
            self.permit.is_none() && self.gateway.partial_bytes() > PARTIAL_FREE_BYTES;
        if lacks_permit || self.waits_for_disk() || self.waits_for_journal {
            self.gateway.note_unread(now);
        }
        if let Some((_, until)) = &mut self.permit
            && *until <= now.mono
        {
            *until = now.mono.plus(partials::KEEP_MS);
            if self.shared.partials.is_short() {
                self.gateway
                    .close(now, Some(super::errors::unfinished_message()));
            }
        }
        self.gateway.handle_timeout(now);
    }

    /// Has this connection called when the first answer that waits for the journal may go.
    fn wait_for_durable(&mut self) {
        let fetch = self.fetch.as_ref().map(|fetch| *fetch.body);
        if let Some(vhost) = &self.vhost
            && let Some(lsn) = self.gateway.awaits().into_iter().chain(fetch).min()
            && lsn != self.awaited
        {
            self.awaited = lsn;
            vhost.call_when_durable(lsn, &self.outbox);
        }
    }

    /// Whether what arrives is written ahead faster than the disk takes it. Not while there are
    /// consumers: what they settle makes room.
    fn waits_for_disk(&self) -> bool {
        (self.gateway.is_ahead_of_disk() || self.gateway.is_ahead_in_alarm())
            && !self.gateway.is_consuming()
    }

    /// Begins to read what a message needs to be sent on, unless that is not written yet.
    fn fetch(&mut self, durable: Lsn) {
        if self.reading.is_some() {
            return;
        }
        self.fetch = self.fetch.take().or_else(|| self.gateway.poll_fetch());
        let Some(fetch) = self.fetch.take_if(|fetch| *fetch.body <= durable) else {
            return;
        };
        if let Some(store) = self.shared.store.clone() {
            let stream = fetch.stream;
            let read = move || store.read_piece(*fetch.body, fetch.piece);
            self.reading = Some((stream, tokio::task::spawn_blocking(read)));
        }
    }

    /// Whether the socket should be read: not before there is a permit for what has begun to arrive.
    fn may_read(&mut self) -> bool {
        if self.waits_for_disk() || self.waits_for_journal {
            return false;
        }
        if self.gateway.partial_bytes() <= PARTIAL_FREE_BYTES {
            self.permit = None;
        } else if self.permit.is_none() {
            let (shared, id) = (&self.shared, self.gateway.id());
            let permit = shared
                .partials
                .take(id, &self.outbox, self.gateway.is_consuming());
            let until = shared.clock.now().mono.plus(partials::KEEP_MS);
            self.permit = permit.map(|permit| (permit, until));
            return self.permit.is_some() && self.gateway.wants_input();
        }
        self.gateway.wants_input()
    }

    /// Tells and does what others want of this connection.
    fn serve_desk(&mut self, now: Now) {
        let Some(wants) = self.desk.take_wants() else {
            return;
        };
        for asker in wants.sessions {
            // Who has gone meanwhile need not know.
            let _ = asker.send(self.gateway.sessions());
        }
        if let Some(why) = wants.close
            && !self.closing
        {
            self.closing = true;
            self.gateway
                .close(now, Some(super::errors::closed_by_operator(&why)));
        }
    }

    /// Lets gateway and core work on what has come, and collects the output.
    fn turn(&mut self) {
        let now = self.shared.clock.now();
        self.gateway.handle_registry(now);
        self.gateway
            .set_crowded(self.shared.is_crowded(&self.outbox));
        if self.shared.is_stopping() && !self.closing {
            self.closing = true;
            self.gateway.close(now, Some(super::errors::stopping()));
        }
        self.serve_desk(now);
        if !self.input.is_empty() {
            self.gateway.handle_bytes(now, &mut self.input);
        }
        if let Some(credentials) = self.gateway.poll_login() {
            let (logins, peer) = (self.shared.logins.clone(), self.gateway.peer().clone());
            self.login = Some(Box::pin(async move {
                logins.login(credentials, peer, PLAIN).await
            }));
        }
        loop {
            self.work();
            let unwritten = self.unwritten();
            self.outbox
                .drain(|effects| self.gateway.push_effects(effects));
            let durable = self.vhost.as_ref().map_or(Lsn(0), |vhost| vhost.durable());
            self.gateway.handle_effects(now, durable, unwritten);
            self.gateway.report_room(unwritten);
            if !self.gateway.has_work() {
                break;
            }
        }
        // An answer may have let the engine read on.
        if !self.input.is_empty() && self.gateway.wants_input() {
            self.gateway.handle_bytes(now, &mut self.input);
            self.work();
        }
        if self.unwritten() == 0 {
            self.output.clear();
            self.output.shrink_to(WRITE_BYTES_KEPT);
            self.written = 0;
            self.gateway.poll_transmit(now, &mut self.output);
        }
        let durable = self.vhost.as_ref().map_or(Lsn(0), |vhost| vhost.durable());
        self.fetch(durable);
        self.wait_for_durable();
        let gateway = &self.gateway;
        self.waits_for_journal = self.shared.is_journal_behind(
            || gateway.is_consuming(),
            (&self.outbox, &mut self.awaited_commit),
        );
    }

    /// Does the gateway's work under the core's lock and hands it the answers.
    fn work(&mut self) {
        while self.gateway.has_work() {
            if self.vhost.is_none() {
                self.enter();
            }
            let now = self.shared.clock.now();
            let Some(vhost) = &self.vhost else {
                self.gateway.handle_vhost_deleted(now);
                return;
            };
            if vhost.run(&mut self.gateway, &self.outbox).is_err() {
                if vhost.is_deleted() {
                    self.gateway.handle_vhost_deleted(now);
                } else {
                    self.gateway.fail(now);
                }
                self.closing = true;
                self.vhost = None;
                return;
            }
            let now = self.shared.clock.now();
            self.gateway.handle_answers(now);
        }
    }

    fn enter(&mut self) {
        let name = self.gateway.vhost();
        self.vhost = name.and_then(|name| self.shared.vhosts.get(name));
        if let Some(info) = self.gateway.info() {
            self.desk.set_info(info.clone());
        }
        if let Some(vhost) = &self.vhost {
            vhost.enter(self.gateway.id(), Arc::clone(&self.outbox));
        }
    }

    /// Gives back to the core what it lent to this connection.
    fn leave(&mut self) {
        let written = match (self.written, self.unwritten()) {
            (_, 0) => Written::All,
            (0, _) => Written::Nothing,
            _ => Written::Part,
        };
        self.gateway.handle_disconnect(written);
        self.work();
        if let Some(vhost) = self.vhost.take() {
            vhost.leave(self.gateway.id());
        }
    }

    fn unwritten(&self) -> u64 {
        (self.output.len() - self.written) as u64
    }

    /// Sets the timer when it would ring too late; one that rings early is set again.
    fn arm(&mut self) {
        let due = self.gateway.next_deadline().unwrap_or(Millis::NEVER);
        let due = self
            .permit
            .as_ref()
            .map_or(due, |(_, until)| due.min(*until));
        let due = if self.waits_for_journal {
            due.min(self.shared.clock.now().mono.plus(JOURNAL_LOOK_MS))
        } else {
            due
        };
        if due < self.armed || self.sleep.is_elapsed() {
            self.armed = due;
            self.sleep.as_mut().reset(self.shared.clock.instant(due));
        }
    }

    /// Writes and reads what can be without waiting; ready when anything got on.
    fn poll_io(&mut self, context: &mut Context<'_>) -> Poll<Woken> {
        let mut woken = Woken::default();
        self.poll_write(context, &mut woken);
        if self.may_read() {
            self.poll_read(context, &mut woken);
        }
        woken.progress |= self.poll_login(context);
        woken.progress |= self.poll_reading(context);
        woken.progress |= self.outbox.poll_ready(context).is_ready();
        if self.sleep.as_mut().poll(context).is_ready() {
            woken.timeout = true;
        }
        if woken.progress || woken.timeout || woken.disconnected {
            Poll::Ready(woken)
        } else {
            Poll::Pending
        }
    }

    /// Hands the gateway the verdict about a password, if there is one.
    fn poll_login(&mut self, context: &mut Context<'_>) -> bool {
        let verdict = self
            .login
            .as_mut()
            .map(|login| login.as_mut().poll(context));
        let Some(Poll::Ready(verdict)) = verdict else {
            return false;
        };
        self.login = None;
        self.gateway.handle_login(self.shared.clock.now(), verdict);
        true
    }

    /// Hands the gateway a piece that was read, if there is one.
    fn poll_reading(&mut self, context: &mut Context<'_>) -> bool {
        let Some((stream, reading)) = &mut self.reading else {
            return false;
        };
        let stream = *stream;
        let Poll::Ready(read) = pin!(reading).poll(context) else {
            return false;
        };
        self.reading = None;
        let now = self.shared.clock.now();
        self.gateway
            .handle_fetched(now, stream, read.ok().flatten());
        true
    }

    fn poll_write(&mut self, context: &mut Context<'_>, woken: &mut Woken) {
        while let Some(rest) = self
            .output
            .get(self.written..)
            .filter(|rest| !rest.is_empty())
        {
            match Pin::new(&mut self.writer).poll_write(context, rest) {
                Poll::Ready(Ok(count)) if count > 0 => {
                    self.written += count;
                    self.moved_bytes += count;
                    self.unflushed = true;
                    count_bytes(&self.desk.sent, count);
                    woken.progress = true;
                }
                Poll::Ready(_) => {
                    woken.disconnected = true;
                    return;
                }
                Poll::Pending => break,
            }
        }
        // A TLS stream keeps what the socket does not take.
        if self.unflushed {
            match Pin::new(&mut self.writer).poll_flush(context) {
                Poll::Ready(Ok(())) => {
                    self.unflushed = false;
                    woken.progress = true;
                }
                Poll::Ready(Err(_)) => woken.disconnected = true,
                Poll::Pending => {}
            }
        }
    }

    /// Makes room for the next read, and says how much. Where reads are large and a larger frame has
    /// begun, it is the rest of that: the next frame then begins in a buffer of its own, and none has to
    /// move to another.
    fn make_room(&mut self) -> usize {
        let mut room = self.read_bytes;
        if self.read_bytes >= READ_BYTES_MAX
            && let Some(frame_bytes) = self.gateway.frame_bytes(&self.input)
            && frame_bytes > READ_BYTES_MAX
        {
            self.read_bytes = frame_bytes.min(READ_FRAME_BYTES_MAX);
            room = frame_bytes.saturating_sub(self.input.len());
            room = room.clamp(1, READ_FRAME_BYTES_MAX);
        }
        self.input.reserve(room);
        room
    }

    fn poll_read(&mut self, context: &mut Context<'_>, woken: &mut Woken) {
        let room = self.make_room();
        match pin!(self.reader.read_buf(&mut self.input)).poll(context) {
            Poll::Ready(Ok(count)) if count > 0 => {
                woken.progress = true;
                self.moved_bytes += count;
                count_bytes(&self.desk.received, count);
                if count >= room {
                    let more = (self.read_bytes * 4).min(READ_BYTES_MAX);
                    self.read_bytes = self.read_bytes.max(more);
                } else if count < room / 4 {
                    self.read_bytes = (self.read_bytes / 2).max(READ_BYTES_MIN);
                }
            }
            Poll::Ready(_) => woken.disconnected = true,
            Poll::Pending => {}
        }
    }

    /// Ends our side and waits a moment for the peer's: closing a socket with unread input would
    /// make the system drop what the peer has not read yet.
    async fn linger(&mut self) {
        let gone = async {
            let _ = self.writer.shutdown().await;
            loop {
                self.input.clear();
                self.input.reserve(READ_BYTES_MIN);
                match self.reader.read_buf(&mut self.input).await {
                    Ok(count) if count > 0 => {}
                    _ => return,
                }
            }
        };
        let _ = tokio::time::timeout(LINGER, gone).await;
    }
}

fn count_bytes(counter: &AtomicU64, count: usize) {
    counter.fetch_add(count as u64, Ordering::Relaxed);
}
