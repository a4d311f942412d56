//! The stream of an HTTP connection: a peer that does not read its answers is disconnected.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use crate::base::limits::{HTTP_WRITE_RATE_MIN, HTTP_WRITE_STALL_MS};

/// Lets a peer take its time: the connection is no longer one of HTTP, and has rules of its own.
#[derive(Clone, Debug, Default)]
pub(in crate::server) struct Lifted(Arc<AtomicBool>);

impl Lifted {
    pub(in crate::server) fn lift(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A stream whose peer may block writing for a bounded time only. What it reads gives it time
/// again, so that one that reads at [`HTTP_WRITE_RATE_MIN`] is never disconnected.
#[derive(Debug)]
pub(super) struct Paced<S> {
    stream: S,
    /// Time that the peer may still block.
    patience: Duration,
    patience_max: Duration,
    /// Since when it blocks, and the end of its time.
    waiting: Option<(Instant, Pin<Box<Sleep>>)>,
    lifted: Lifted,
}

impl<S> Paced<S> {
    pub(super) const fn new(stream: S, lifted: Lifted) -> Self {
        let patience = Duration::from_millis(HTTP_WRITE_STALL_MS);
        Self::with_patience(stream, patience, lifted)
    }

    const fn with_patience(stream: S, patience: Duration, lifted: Lifted) -> Self {
        Self {
            stream,
            patience,
            patience_max: patience,
            waiting: None,
            lifted,
        }
    }

    /// Notes that the peer took this many bytes.
    fn went_on(&mut self, bytes: usize) {
        if let Some((since, _)) = self.waiting.take() {
            self.patience = self.patience.saturating_sub(now() - since);
        }
        let earned = Duration::from_millis(bytes as u64 * 1_000 / HTTP_WRITE_RATE_MIN);
        self.patience = self.patience.saturating_add(earned);
        self.patience = self.patience.min(self.patience_max);
    }

    /// Waits for a blocking peer: an error once its time is over.
    fn wait<T>(&mut self, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if self.lifted.0.load(Ordering::Relaxed) {
            self.waiting = None;
            return Poll::Pending;
        }
        let patience = self.patience;
        let begin = || {
            let since = now();
            (since, Box::pin(tokio::time::sleep_until(since + patience)))
        };
        let (_, over) = self.waiting.get_or_insert_with(begin);
        ready!(over.as_mut().poll(context));
        let why = "the peer does not take its answer";
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, why)))
    }
}

#[allow(clippy::disallowed_methods, reason = "a deadline of a socket")]
fn now() -> Instant {
    Instant::now()
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match Pin::new(&mut self.stream).poll_write(context, bytes) {
            Poll::Ready(Ok(written)) => {
                self.went_on(written);
                Poll::Ready(Ok(written))
            }
            Poll::Ready(error) => Poll::Ready(error),
            Poll::Pending => self.wait(context),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.stream).poll_flush(context) {
            Poll::Ready(flushed) => Poll::Ready(flushed),
            Poll::Pending => self.wait(context),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.stream).poll_shutdown(context) {
            Poll::Ready(shut) => Poll::Ready(shut),
            Poll::Pending => self.wait(context),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// 256 peers that never read held all connections for good.
    #[tokio::test]
    async fn who_takes_nothing_is_let_go_and_who_takes_slowly_is_not() {
        const PIECE: usize = 1024;
        const PIECES: usize = 50;
        let (near, mut far) = tokio::io::duplex(PIECE);
        let mut paced = Paced::with_patience(near, Duration::from_millis(500), Lifted::default());
        let answer = vec![0; PIECE * PIECES];
        let takes = async {
            let mut piece = vec![0; PIECE];
            for _ in 0..PIECES {
                // Altogether twice as long as patience, each less than a piece earns.
                tokio::time::sleep(Duration::from_millis(20)).await;
                far.read_exact(&mut piece).await.unwrap();
            }
        };
        let (written, ()) = tokio::join!(paced.write_all(&answer), takes);
        written.unwrap();
        let refused = paced.write_all(&answer).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::TimedOut);
    }
}
