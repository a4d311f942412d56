//! A WebSocket as a stream of bytes: what the peer sends in binary messages is read, what is written goes
//! out as binary messages [AMQP-WSB 2.3: messages and AMQP frames need not end together].

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::codec::{self, CloseCode, Decoder, Read};
use crate::base::limits::WEBSOCKET_BUFFER_BYTES;

/// See the documentation of the module. Pings are answered, and a close is, while it is read.
#[derive(Debug)]
pub(super) struct WebSocket<S> {
    stream: S,
    decoder: Decoder,
    /// What was read and not decoded yet.
    input: BytesMut,
    /// Frames that the stream did not take yet.
    output: BytesMut,
    /// Whether a close is among them, or was sent.
    closed: bool,
    /// Whether the peer sends no more, or what it sent is not understood.
    ended: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> WebSocket<S> {
    pub(super) fn new(stream: S) -> Self {
        Self {
            stream,
            decoder: Decoder::default(),
            input: BytesMut::new(),
            output: BytesMut::new(),
            closed: false,
            ended: false,
        }
    }

    /// Hands frames to the stream; ready when it took all.
    fn poll_drain(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.output.is_empty() {
            let taken = ready!(Pin::new(&mut self.stream).poll_write(context, &self.output))?;
            if taken == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.output.advance(taken);
        }
        // An idle connection keeps no buffer.
        self.output = BytesMut::new();
        Poll::Ready(Ok(()))
    }

    /// Closes it, unless that was done.
    fn close(&mut self, code: CloseCode, why: &str) {
        if !std::mem::replace(&mut self.closed, true) {
            codec::write_close(code, why, &mut self.output);
        }
    }

    /// Reads more from the stream into the input; ready when there is some, or an end.
    fn poll_fill(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let before = self.input.len();
        let mut piece = [0; READ_BYTES];
        let mut buffer = ReadBuf::new(&mut piece);
        ready!(Pin::new(&mut self.stream).poll_read(context, &mut buffer))?;
        self.input.extend_from_slice(buffer.filled());
        self.ended |= self.input.len() == before;
        Poll::Ready(Ok(()))
    }
}

/// Bytes of one read of the stream.
const READ_BYTES: usize = 8 * 1024;

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for WebSocket<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if buffer.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        while !this.ended {
            let output = buffer.initialize_unfilled();
            match this.decoder.read(&mut this.input, output) {
                Read::Data(count) => {
                    buffer.advance(count);
                    return Poll::Ready(Ok(()));
                }
                Read::Ping(payload) => codec::write_pong(&payload, &mut this.output),
                Read::Close => {
                    this.close(CloseCode::Normal, "");
                    this.ended = true;
                }
                Read::Broken(code, why) => {
                    tracing::debug!(why, "a WebSocket is closed");
                    this.close(code, why);
                    this.ended = true;
                }
                Read::Incomplete => {
                    // A peer that pings and reads nothing waits for itself.
                    if this.output.len() > WEBSOCKET_BUFFER_BYTES {
                        ready!(this.poll_drain(context))?;
                    }
                    if this.input.is_empty() {
                        this.input = BytesMut::new();
                    }
                    match this.poll_fill(context) {
                        Poll::Ready(filled) => filled?,
                        Poll::Pending => {
                            // Pongs go out, whether there is anything else to write or not.
                            let _ = this.poll_drain(context)?;
                            return Poll::Pending;
                        }
                    }
                }
            }
        }
        let _ = this.poll_drain(context)?;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for WebSocket<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_drain(context))?;
        if self.closed {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let taken = bytes.get(..WEBSOCKET_BUFFER_BYTES).unwrap_or(bytes);
        codec::write_binary(taken, &mut self.output);
        // What the stream does not take now, it takes at the next write or flush.
        let _ = self.poll_drain(context)?;
        Poll::Ready(Ok(taken.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_drain(context))?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.close(CloseCode::Normal, "");
        ready!(self.poll_drain(context))?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    const PING: &[u8] = &[0x89, 0x81, 0, 0, 0, 0, b'?'];

    #[tokio::test]
    async fn a_ping_is_answered_though_nothing_else_is_written() {
        let (near, mut far) = tokio::io::duplex(64);
        let mut socket = WebSocket::new(near);
        let mut buffer = [0; 8];
        let asks = async {
            far.write_all(PING).await.unwrap();
            let mut pong = [0; 3];
            far.read_exact(&mut pong).await.unwrap();
            assert_eq!(&pong, &[0x8a, 1, b'?']);
            far.write_all(&[0x82, 0x82, 0, 0, 0, 0, 1, 2])
                .await
                .unwrap();
        };
        let (read, ()) = tokio::join!(socket.read(&mut buffer), asks);
        assert_eq!((read.unwrap(), &buffer[..2]), (2, [1, 2].as_slice()));
    }

    #[tokio::test]
    async fn a_text_message_ends_it_with_the_code_for_it() {
        let (near, mut far) = tokio::io::duplex(256);
        let mut socket = WebSocket::new(near);
        far.write_all(&[0x81, 0x81, 0, 0, 0, 0, b'x'])
            .await
            .unwrap();
        assert_eq!(socket.read(&mut [0; 8]).await.unwrap(), 0, "an end");
        socket.shutdown().await.unwrap();
        let mut close = Vec::new();
        far.read_to_end(&mut close).await.unwrap();
        assert_eq!(
            close.get(..4),
            Some([0x88, close[1], 0x03, 0xeb].as_slice())
        );
        assert!(socket.write_all(b"late").await.is_err());
    }

    #[tokio::test]
    async fn a_peer_that_pings_and_reads_nothing_is_read_no_more() {
        const PINGS: usize = 100_000;
        let (near, mut far) = tokio::io::duplex(64);
        let mut socket = WebSocket::new(near);
        let pings = PING.repeat(PINGS);
        let mut buffer = [0; 8];
        let limit = std::time::Duration::from_millis(200);
        let both = async { tokio::join!(socket.read(&mut buffer), far.write_all(&pings)) };
        assert!(tokio::time::timeout(limit, both).await.is_err());
        assert!(socket.output.capacity() < 4 * WEBSOCKET_BUFFER_BYTES);
    }

    #[tokio::test]
    async fn bytes_go_both_ways_through_a_narrow_pipe() {
        let (near, far) = tokio::io::duplex(100);
        let (mut from, mut to) = tokio::io::split(WebSocket::new(near));
        let (mut peer_from, mut peer_to) = tokio::io::split(far);
        let sent: Vec<u8> = (0..=u8::MAX).cycle().take(200_000).collect();
        let writes = async {
            to.write_all(&sent).await.unwrap();
            to.shutdown().await.unwrap();
        };
        let peer_reads = async {
            let mut bytes = Vec::new();
            peer_from.read_to_end(&mut bytes).await.unwrap();
            bytes
        };
        let peer_writes = async {
            for chunk in sent.chunks(1_000) {
                let mut frame = vec![0x82, 0xfe];
                frame.extend_from_slice(&u16::try_from(chunk.len()).unwrap().to_be_bytes());
                frame.extend_from_slice(&[0; 4]);
                frame.extend_from_slice(chunk);
                peer_to.write_all(&frame).await.unwrap();
            }
            peer_to.write_all(&[0x88, 0x80, 0, 0, 0, 0]).await.unwrap();
        };
        let reads = async {
            let mut bytes = Vec::new();
            from.read_to_end(&mut bytes).await.unwrap();
            bytes
        };
        let ((), received, (), read) = tokio::join!(writes, peer_reads, peer_writes, reads);
        assert!(received.len() > sent.len());
        assert_eq!(read, sent);
    }
}
