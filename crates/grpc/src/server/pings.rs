//! Detects clients that ping too often (gRPC's proposal A8), by watching their bytes.
//!
//! `h2` answers pings by itself and does not report them. So [`Watched`] sits between `h2` and the
//! stream and reads the frame headers in both directions; [`Strikes`] evaluates what it has seen.
//!
//! If that closes a client's connection, the client is told the reason as text (`too_many_pings`),
//! and gRPC's clients then ping less often. `h2` cannot put a text into its GOAWAY. So after
//! [`Seen::end`] its frames are dropped, and a GOAWAY that is made here precedes the end of the
//! stream.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Duration, Instant};

use crate::config::PingLimit;
use crate::frames::{DATA, Frames, GOAWAY, HEADERS, PING};

/// How many needless pings a client may send.
const STRIKES_MAX: u32 = 2;
/// The shortest time between pings of a client without calls, if it must not ping then: the same as
/// for TCP's keepalive probes.
const WITHOUT_CALLS: Duration = Duration::from_secs(2 * 60 * 60);

/// Bytes of the preface that a client sends before its frames.
const PREFACE_BYTES: usize = 24;
const ACK: u8 = 1;
const ENHANCE_YOUR_CALM: u32 = 11;
const WHY: &[u8] = b"too_many_pings";

/// The frames seen since this was last taken.
#[derive(Default)]
struct Passed {
    pings: u32,
    /// Whether headers or data were sent to the client.
    has_answered: bool,
    stream_last: u32,
    is_ending: bool,
}

/// What a [`Watched`] stream has seen, for the task that drives the connection.
#[derive(Clone, Default)]
pub(super) struct Seen(Arc<Mutex<Passed>>);

impl Seen {
    /// The number of pings from the client, and whether anything was sent to it, since the last
    /// call.
    fn take(&self) -> (u32, bool) {
        let passed = &mut *self.lock();
        match core::mem::take(&mut passed.pings) {
            0 => (0, false),
            pings => (pings, core::mem::take(&mut passed.has_answered)),
        }
    }

    /// Says that the connection is being closed because of the client's pings.
    pub(super) fn end(&self) {
        self.lock().is_ending = true;
    }

    fn lock(&self) -> MutexGuard<'_, Passed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts a client's needless pings.
pub(super) struct Strikes {
    limit: PingLimit,
    last: Option<Instant>,
    strikes: u32,
}

impl Strikes {
    pub(super) fn new(limit: PingLimit) -> Strikes {
        Strikes { limit, last: None, strikes: 0 }
    }

    /// Whether the client has sent too many pings. Call it whenever frames may have passed.
    pub(super) fn are_too_many(&mut self, seen: &Seen, has_calls: impl Fn() -> bool) -> bool {
        let (pings, has_answered) = seen.take();
        if pings == 0 {
            return false;
        }
        let may = has_calls() || self.limit.without_calls;
        self.count(pings, has_answered, may, Instant::now())
    }

    fn count(&mut self, pings: u32, has_answered: bool, may: bool, now: Instant) -> bool {
        let interval = if may { self.limit.interval_min } else { WITHOUT_CALLS };
        let earlier = self.last.replace(now);
        // Clients ping after data to measure their bandwidth; that is harmless.
        let mut free = u32::from(has_answered);
        if has_answered {
            self.strikes = 0;
        } else if earlier.is_none_or(|last| now.duration_since(last) >= interval) {
            free = 1;
        }
        self.strikes = self.strikes.saturating_add(pings.saturating_sub(free));
        self.strikes > STRIKES_MAX
    }
}

/// A stream whose frames are watched.
pub(super) struct Watched<T> {
    stream: T,
    seen: Seen,
    input: Frames,
    output: Frames,
    /// The final GOAWAY, and how much of it is written.
    farewell: Option<(Vec<u8>, usize)>,
}

impl<T> Watched<T> {
    pub(super) fn new(stream: T, seen: Seen) -> Watched<T> {
        let (input, output) = (Frames::new(PREFACE_BYTES), Frames::new(0));
        Watched { stream, seen, input, output, farewell: None }
    }

    fn read(&mut self, bytes: &[u8]) {
        let (mut pings, mut stream_last) = (0, 0);
        self.input.pass(bytes, |head| match head.kind {
            PING if head.flags & ACK == 0 => pings += 1,
            HEADERS => stream_last = head.stream.max(stream_last),
            _ => {}
        });
        if (pings, stream_last) != (0, 0) {
            let passed = &mut *self.seen.lock();
            passed.pings += pings;
            passed.stream_last = stream_last.max(passed.stream_last);
        }
    }

    fn wrote(&mut self, bytes: &[u8]) {
        let mut has_answered = false;
        self.output.pass(bytes, |head| has_answered |= matches!(head.kind, DATA | HEADERS));
        if has_answered {
            self.seen.lock().has_answered = true;
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Watched<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        self.read(&buf.filled()[before..]);
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Watched<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.seen.lock().is_ending {
            match self.output.missing() {
                0 => return Poll::Ready(Ok(buf.len())),
                missing => buf = &buf[..missing.min(buf.len())],
            }
        }
        let count = ready!(Pin::new(&mut self.stream).poll_write(cx, buf))?;
        self.wrote(&buf[..count]);
        Poll::Ready(Ok(count))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.seen.lock().is_ending {
            let first = bufs.iter().find(|buf| !buf.is_empty());
            return self.poll_write(cx, first.map_or(&[], |buf| buf));
        }
        let count = ready!(Pin::new(&mut self.stream).poll_write_vectored(cx, bufs))?;
        let mut left = count;
        for buf in bufs {
            let written = left.min(buf.len());
            self.wrote(&buf[..written]);
            left -= written;
        }
        Poll::Ready(Ok(count))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let (is_ending, stream_last) = {
            let passed = this.seen.lock();
            (passed.is_ending, passed.stream_last)
        };
        if is_ending && this.output.missing() == 0 {
            let (words, written) = this.farewell.get_or_insert_with(|| (go_away(stream_last), 0));
            while *written < words.len() {
                let writing = Pin::new(&mut this.stream).poll_write(cx, &words[*written..]);
                match ready!(writing)? {
                    0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                    count => *written += count,
                }
            }
        }
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// A GOAWAY that gives the reason.
fn go_away(stream_last: u32) -> Vec<u8> {
    let mut frame = vec![0, 0, (8 + WHY.len()) as u8, GOAWAY, 0, 0, 0, 0, 0];
    frame.extend(stream_last.to_be_bytes());
    frame.extend(ENHANCE_YOUR_CALM.to_be_bytes());
    frame.extend(WHY);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_needless_pings_count() {
        let interval_min = Duration::from_secs(10);
        let mut strikes = Strikes::new(PingLimit { interval_min, without_calls: false });
        let mut now = Instant::now();
        let mut count = |after: u64, pings, has_answered, may| {
            now += Duration::from_secs(after);
            strikes.count(pings, has_answered, may, now)
        };
        assert!(!count(0, 1, false, true), "the first");
        assert!(!count(10, 1, false, true), "in time");
        assert!(!count(9, 1, false, true) && !count(10, 1, false, false), "two strikes");
        assert!(!count(0, 1, true, true), "data have been sent, and all is forgiven");
        assert!(!count(7200, 1, false, false), "a client without calls, in time");
        assert!(!count(7199, 2, false, false) && count(1, 1, false, false), "three strikes");
    }
}
