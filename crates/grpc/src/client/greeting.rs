//! Notices when a server begins to speak HTTP/2.
//!
//! A system accepts connections on behalf of a server that may never serve them: one that shuts
//! down, or hangs, or a proxy whose own server is gone. Calls on such a connection would fail, and
//! nobody could tell whether they have run. So a connection counts as open only when the server's
//! SETTINGS have arrived, which HTTP/2 sends first (RFC 9113, 3.4). `h2` does not report them, so
//! [`Greeted`] sits between `h2` and the stream.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;

use crate::frames::{Frames, SETTINGS};

/// A stream that says when its first bytes are those of SETTINGS.
pub(super) struct Greeted<T> {
    stream: T,
    frames: Frames,
    /// `None` once it is known what came first.
    greeting: Option<oneshot::Sender<()>>,
}

impl<T> Greeted<T> {
    /// The receiver fails if the stream ends, or begins with anything else.
    pub(super) fn new(stream: T) -> (Greeted<T>, oneshot::Receiver<()>) {
        let (greeting, greeted) = oneshot::channel();
        (Greeted { stream, frames: Frames::new(0), greeting: Some(greeting) }, greeted)
    }

    fn note(&mut self, bytes: &[u8]) {
        if self.greeting.is_none() {
            return;
        }
        self.frames.pass(bytes, |head| {
            if let Some(greeting) = self.greeting.take()
                && head.kind == SETTINGS
            {
                // Fails if nobody waits for the connection any more.
                let _ = greeting.send(());
            }
        });
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Greeted<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        self.note(&buf.filled()[before..]);
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Greeted<T> {
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
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot::error::TryRecvError;

    use super::*;

    fn after(pieces: &[&[u8]]) -> Result<(), TryRecvError> {
        let (mut stream, mut greeted) = Greeted::new(());
        pieces.iter().for_each(|piece| stream.note(piece));
        greeted.try_recv()
    }

    #[test]
    fn settings_greet_and_nothing_else_does() {
        let settings = [0, 0, 6, SETTINGS, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 9];
        assert_eq!(after(&[&settings]), Ok(()));
        assert_eq!(after(&[&settings[..3], &settings[3..8], &settings[8..]]), Ok(()));
        assert_eq!(after(&[&settings[..8]]), Err(TryRecvError::Empty));
        assert_eq!(after(&[b"HTTP/1.1 400 Bad Request\r\n"]), Err(TryRecvError::Closed));
        assert_eq!(after(&[b"HTTP/1.1 ", &settings]), Err(TryRecvError::Closed));
    }
}
