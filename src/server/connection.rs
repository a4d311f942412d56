//! The task of one connection: reads, has gateway and core work, writes.

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

use super::BrokerDisk;
use super::handle::ConnectionHandle;
use super::shared::Shared;
use super::stall::Stall;
use crate::access::{LoginError, Proven};
use crate::base::limits::SOCKET_DROP_MS;
use crate::base::{Millis, Now};
use crate::node::{Connection, Output};

/// Bytes of one read: the minimum, so that idle connections take little memory, and the maximum, to
/// which it grows while reads fill it.
const READ_BYTES_MIN: usize = 4 * 1024;
const READ_BYTES_MAX: usize = 64 * 1024;
/// Bytes of one read while larger frames arrive: whole frames, so that the beginning of one need
/// not move to a larger buffer.
const READ_FRAME_BYTES_MAX: usize = 256 * 1024;
/// Bytes that a connection reads and writes before others have a turn. No more than one large read:
/// a publisher with longer turns gets ahead of the consumers of its queue, and the waiting messages
/// leave the processor's cache, and have to be written, before their turn comes.
const TURN_BYTES: usize = READ_BYTES_MAX;
/// How soon after a large read or write its buffer is looked at in an alarm, in milliseconds.
const ALARM_LOOK_MS: u64 = 1_000;
/// Time that a peer has to read a close before the socket is dropped, if it does not close its
/// side.
const LINGER: Duration = Duration::from_millis(500);

/// The check of a password or a token that is under way.
type Check = Pin<Box<dyn Future<Output = Result<Proven, LoginError>> + Send>>;
/// The reading of a piece of a message; none: it could not be read.
type PieceRead = JoinHandle<Option<Bytes>>;

/// One connection. A turn: write the output and read the input, have gateway and core work, collect
/// the output; sleep only when none of this made progress.
pub(super) struct Driver<R, W> {
    shared: Arc<Shared>,
    connection: Connection<BrokerDisk>,
    handle: Arc<ConnectionHandle>,
    reader: R,
    writer: W,
    input: BytesMut,
    /// Size of the next read, in bytes.
    read_bytes: usize,
    output: Output,
    /// Whether the writer has bytes that the socket did not take yet.
    unflushed: bool,
    /// Since when the socket takes nothing.
    stall: Stall,
    /// Most bytes that one read or write has moved since the last timer.
    largest_move: usize,
    /// Bytes read and written since other connections had a turn.
    moved_bytes: usize,
    /// The check of a password that is under way; none: there is none.
    login: Option<Check>,
    sleep: Pin<Box<Sleep>>,
    /// The deadline that `sleep` is set for.
    armed: Millis,
    /// When the socket is dropped, whatever the peer has read by then: set once the connection is
    /// closing.
    drop_at: Option<Millis>,
    /// The number of the stream whose piece is being read, and the reading.
    reading: Option<(u64, PieceRead)>,
}

/// The progress made while waiting in a turn.
#[derive(Clone, Copy, Default)]
struct Woken {
    progress: bool,
    timeout: bool,
    /// Whether the peer's side is closed, or the socket is broken.
    disconnected: bool,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Driver<R, W> {
    pub(super) fn new(
        shared: Arc<Shared>,
        handle: Arc<ConnectionHandle>,
        (reader, writer): (R, W),
    ) -> Self {
        let now = shared.clock.now();
        Self {
            connection: Connection::new(
                &shared.node,
                handle.id,
                handle.peer.clone(),
                Arc::clone(&handle.outbox),
            ),
            sleep: Box::pin(tokio::time::sleep_until(shared.clock.instant(now.mono))),
            armed: now.mono,
            shared,
            handle,
            reader,
            writer,
            input: BytesMut::new(),
            read_bytes: READ_BYTES_MIN,
            output: Output::default(),
            unflushed: false,
            stall: Stall::default(),
            largest_move: 0,
            moved_bytes: 0,
            login: None,
            drop_at: None,
            reading: None,
        }
    }

    /// Serves the connection until it ends.
    pub(super) async fn run(mut self) {
        loop {
            self.turn();
            if !self.unflushed && self.connection.is_over(&self.output) {
                self.disconnect().await;
                self.linger().await;
                return;
            }
            if self.is_overdue() {
                // A peer that does not read never takes the close: waiting for it would last
                // forever.
                self.disconnect().await;
                return;
            }
            if self.connection.is_heavy() {
                tokio::task::yield_now().await;
                continue;
            }
            self.arm();
            self.let_others_in().await;
            let woken = poll_fn(|context| self.poll_io(context)).await;
            if woken.timeout {
                self.handle_timeout();
            }
            if woken.disconnected {
                self.connection.last_turn(&mut self.input, &self.output);
                self.disconnect().await;
                return;
            }
        }
    }

    /// Handles the timers that are due. A peer that takes nothing of its output is closed, and so
    /// gone [`SOCKET_DROP_MS`] later: what it holds goes to consumers that read.
    fn handle_timeout(&mut self) {
        let now = self.shared.clock.now();
        self.connection.handle_timeout(now);
        if self.stall_end() <= now.mono {
            self.drop_at = Some(now.mono.plus(SOCKET_DROP_MS));
            self.connection.close(now, super::errors::takes_nothing());
        }
        self.release_buffers();
    }

    /// Frees the buffers that a burst enlarged, once nothing large has moved from one timer to the next:
    /// many peers that each sent or read something large once would keep as much for good.
    fn release_buffers(&mut self) {
        let largest = std::mem::take(&mut self.largest_move);
        if largest >= READ_BYTES_MIN || self.buffers_bytes() <= 2 * READ_BYTES_MIN {
            return;
        }
        if self.input.is_empty() {
            self.input = BytesMut::new();
            self.read_bytes = READ_BYTES_MIN;
        }
        self.output.release();
        self.connection.count_kept(&self.input, &self.output);
    }

    fn buffers_bytes(&self) -> usize {
        self.input.capacity() + self.output.capacity()
    }

    /// When it is closed because its peer takes nothing; never once it is closing.
    fn stall_end(&self) -> Millis {
        if self.drop_at.is_some() {
            return Millis::NEVER;
        }
        let environment = &self.shared.node.environment;
        self.stall.end(environment.idle_time_out_ms())
    }

    /// Whether it is closing and the peer has had its time to read the close.
    fn is_overdue(&mut self) -> bool {
        if self.drop_at.is_none() && !self.connection.gateway().is_closing() {
            return false;
        }
        let now = self.shared.clock.now().mono;
        let drop_at = *self.drop_at.get_or_insert_with(|| now.plus(SOCKET_DROP_MS));
        self.handle.closing.store(true, Ordering::Relaxed);
        drop_at <= now
    }

    /// Requeues the deliveries of this connection, in slices; other connections have turns
    /// meanwhile.
    async fn disconnect(&mut self) {
        self.connection.disconnect(&self.output);
        while self.connection.go_on_leaving() {
            tokio::task::yield_now().await;
        }
    }

    /// Yields the thread after each piece of input or output: otherwise the sockets of waiting
    /// connections would not even be polled.
    async fn let_others_in(&mut self) {
        if self.moved_bytes >= TURN_BYTES {
            self.moved_bytes = 0;
            tokio::task::yield_now().await;
        }
    }

    /// Begins to read a piece that a message needs to be sent on.
    fn fetch(&mut self) {
        if let Some(fetch) = self.connection.poll_fetch()
            && let Some(store) = self.shared.node.store.clone()
        {
            let stream = fetch.stream;
            let read = move || store.read_piece(*fetch.body, fetch.piece);
            self.reading = Some((stream, tokio::task::spawn_blocking(read)));
        }
    }

    /// Serves requests of other tasks to this connection.
    fn serve_handle(&mut self, now: Now) {
        let Some(wants) = self.handle.take_wants() else {
            return;
        };
        for asker in wants.sessions {
            // The asking task may have ended meanwhile.
            let _ = asker.send(self.connection.gateway().sessions());
        }
        if let Some(why) = wants.close {
            let error = super::errors::closed_by_operator(&why);
            self.connection.close(now, error);
        }
    }

    /// Has the node handle the input, and collects the output.
    fn turn(&mut self) {
        let now = self.shared.clock.now();
        if self.shared.is_stopping() {
            self.connection.close(now, super::errors::stopping());
        }
        self.serve_handle(now);
        self.connection.turn(&mut self.input, &mut self.output);
        if self.handle.info().is_none()
            && let Some(info) = self.connection.gateway().info()
        {
            self.handle.set_info(info.clone());
        }
        if let Some(proof) = self.connection.poll_login() {
            let way = self.connection.gateway().login_way();
            let (logins, peer) = (self.shared.logins.clone(), self.handle.peer.clone());
            self.login = Some(Box::pin(
                async move { logins.login(proof, peer, way).await },
            ));
        }
        self.fetch();
    }

    /// Sets the timer if it would fire too late; one that fires early is set again.
    fn arm(&mut self) {
        let mut due = self.connection.next_deadline();
        let is_in_alarm = self.connection.gateway().is_in_alarm();
        if is_in_alarm && self.buffers_bytes() > 2 * READ_BYTES_MIN {
            due = due.min(self.shared.clock.now().mono.plus(ALARM_LOOK_MS));
        }
        let due = self
            .drop_at
            .map_or(due, |at| due.min(at))
            .min(self.stall_end());
        if due < self.armed || self.sleep.is_elapsed() {
            self.armed = due;
            self.sleep.as_mut().reset(self.shared.clock.instant(due));
        }
    }

    /// Writes and reads what is possible without waiting; ready when there was any progress.
    fn poll_io(&mut self, context: &mut Context<'_>) -> Poll<Woken> {
        let mut woken = Woken::default();
        self.poll_write(context, &mut woken);
        if self.connection.wants_input() {
            self.poll_read(context, &mut woken);
        }
        woken.progress |= self.poll_login(context);
        woken.progress |= self.poll_reading(context);
        woken.progress |= self.connection.poll_woken(context).is_ready();
        if self.sleep.as_mut().poll(context).is_ready() {
            woken.timeout = true;
        }
        if woken.progress || woken.timeout || woken.disconnected {
            Poll::Ready(woken)
        } else {
            Poll::Pending
        }
    }

    /// Passes the verdict on a password to the gateway, if there is one.
    fn poll_login(&mut self, context: &mut Context<'_>) -> bool {
        let verdict = self
            .login
            .as_mut()
            .map(|login| login.as_mut().poll(context));
        let Some(Poll::Ready(verdict)) = verdict else {
            return false;
        };
        self.login = None;
        self.connection
            .handle_login(self.shared.clock.now(), verdict);
        true
    }

    /// Passes a piece that was read to the gateway, if there is one.
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
        self.connection
            .handle_fetched(now, stream, read.ok().flatten());
        true
    }

    fn poll_write(&mut self, context: &mut Context<'_>, woken: &mut Woken) {
        while self.output.unwritten() > 0 {
            match Pin::new(&mut self.writer).poll_write(context, self.output.rest()) {
                Poll::Ready(Ok(count)) if count > 0 => {
                    self.output.advance(count);
                    self.moved_bytes += count;
                    self.largest_move = self.largest_move.max(count);
                    self.unflushed = true;
                    count_bytes(&self.handle.sent, count);
                    woken.progress = true;
                }
                Poll::Ready(_) => {
                    woken.disconnected = true;
                    return;
                }
                Poll::Pending => break,
            }
        }
        // A TLS stream keeps the bytes that the socket does not take.
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
        let waits = self.output.unwritten() > 0 || self.unflushed;
        let clock = &self.shared.clock;
        self.stall.note(woken.progress, waits, || clock.now().mono);
    }

    /// Reserves capacity for the next read, and returns its size. Where reads are large and a
    /// larger frame has begun, it is the rest of that: the next frame then begins in a buffer of
    /// its own, and none has to move to another.
    fn make_room(&mut self) -> usize {
        let mut room = self.read_bytes;
        if self.read_bytes >= READ_BYTES_MAX
            && let Some(frame_bytes) = self.connection.gateway().frame_bytes(&self.input)
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
                self.largest_move = self.largest_move.max(count);
                count_bytes(&self.handle.received, count);
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

    /// Shuts the write side down and waits a moment for the peer's: closing a socket with unread
    /// input would make the system drop what the peer has not read yet.
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
