//! Closes a connection such that its client can read what was sent last.
//!
//! If a socket is closed while the client still sends, the system resets the connection, and the
//! client may lose the GOAWAY that says which calls were not taken. So after the last byte,
//! [`Lingering`] reads and drops what comes until the client closes the connection too, for a
//! bounded time and number of bytes.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::life::FAREWELL;

/// The most bytes that are read and dropped: more than clients have on their way.
const BYTES_MAX: usize = 4 << 20;

/// A stream whose shutdown waits for the client's.
pub(super) struct Lingering<T> {
    stream: T,
    /// Once the last byte has been sent.
    linger: Option<Linger>,
}

struct Linger {
    timer: Pin<Box<Sleep>>,
    bytes: usize,
}

impl<T> Lingering<T> {
    pub(super) fn new(stream: T) -> Lingering<T> {
        Lingering { stream, linger: None }
    }
}

impl Linger {
    fn new() -> Linger {
        Linger { timer: Box::pin(sleep(FAREWELL)), bytes: 0 }
    }

    /// Ready when the client has closed the connection, or has had its time.
    fn poll<T: AsyncRead + Unpin>(&mut self, stream: &mut T, cx: &mut Context<'_>) -> Poll<()> {
        let mut space = [0; 4096];
        while self.timer.as_mut().poll(cx).is_pending() && self.bytes < BYTES_MAX {
            let mut buf = ReadBuf::new(&mut space);
            match ready!(Pin::new(&mut *stream).poll_read(cx, &mut buf)) {
                Ok(()) if !buf.filled().is_empty() => self.bytes += buf.filled().len(),
                _ => break,
            }
        }
        Poll::Ready(())
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Lingering<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Lingering<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.linger.is_none() {
            ready!(Pin::new(&mut this.stream).poll_shutdown(cx))?;
        }
        let linger = this.linger.get_or_insert_with(Linger::new);
        linger.poll(&mut this.stream, cx).map(Ok)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::time::{Instant, timeout};

    use super::*;

    fn ends() -> (Lingering<DuplexStream>, DuplexStream) {
        let (server, client) = duplex(64 << 10);
        (Lingering::new(server), client)
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_sends_meanwhile_reads_the_last_bytes() {
        let (mut server, mut client) = ends();
        server.write_all(b"bye").await.expect("there is room");
        let closing = tokio::spawn(async move { server.shutdown().await });
        client.write_all(&[7; 200_000]).await.expect("the server drops it");
        let mut last = Vec::new();
        client.read_to_end(&mut last).await.expect("the server has ended it");
        assert_eq!(last, b"bye");
        assert!(!closing.is_finished());
        drop(client);
        closing.await.expect("it does not panic").expect("the client has closed it");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_stays_has_a_second() {
        let (mut server, _client) = ends();
        let start = Instant::now();
        timeout(2 * FAREWELL, server.shutdown()).await.expect("in time").expect("it ends");
        assert!(start.elapsed() >= FAREWELL);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_floods_ends_it_earlier() {
        let (mut server, mut client) = ends();
        let flood = tokio::spawn(async move {
            let mut bytes = 0;
            while let Ok(count) = client.write(&[7; 60_000]).await {
                bytes += count;
            }
            bytes
        });
        let start = Instant::now();
        server.shutdown().await.expect("it ends");
        assert!(start.elapsed() < Duration::from_millis(100));
        drop(server);
        assert!(flood.await.expect("it does not panic") < BYTES_MAX + (256 << 10));
    }
}
