//! When a connection ends: at shutdown, at its greatest age, when it has been idle, or because of
//! its client's pings.
//!
//! Before it ends, a connection *leaves*: its client is told to begin no calls (GOAWAY), and the
//! connection closes after the last of them. `h2` waits for the client's acknowledgement, which a
//! live client sends at once. If there is none, the connection is closed [`FAREWELL`] after its
//! last call.

use std::hash::BuildHasher;
use std::pin::Pin;
use std::task::{Context, Poll};

use h2::server::{Connection, SendResponse};
use h2::{Reason, RecvStream};
use http::Request;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Duration, Instant, Sleep, sleep_until};

use super::pings::{Seen, Strikes};
use crate::payload::Payload;
use crate::{BoxFuture, Drain, GrpcConfig, keepalive};

/// How long a peer may take to read that its connection ends.
pub(super) const FAREWELL: Duration = Duration::from_secs(1);

/// An event on a connection.
#[allow(clippy::large_enum_variant, reason = "a call is the common one, and is moved only once")]
pub(super) enum Event {
    Call(Request<RecvStream>, SendResponse<Payload>),
    /// It must be closed, with all calls that still run.
    Part(Reason),
    /// It has ended, or its peer is gone.
    Over(Option<h2::Error>),
}

/// Decides when a connection ends.
pub(super) struct Life {
    gone: BoxFuture<'static, ()>,
    drained: Option<BoxFuture<'static, Instant>>,
    idle_timeout: Option<Duration>,
    age_grace: Option<Duration>,
    /// When the client is told to leave because of the connection's age; `None` once it was told.
    age_end: Option<Instant>,
    /// While the connection leaves: when calls that still run are ended, if ever.
    leaving: Option<Option<Instant>>,
    /// Since when there have been no calls, if there is an idle timeout.
    idle_since: Option<Instant>,
    /// Never later than the next due time. It may fire early.
    timer: Option<Pin<Box<Sleep>>>,
    seen: Seen,
    strikes: Option<Strikes>,
}

impl Life {
    /// For a connection that has just begun.
    pub(super) fn new<T>(
        config: &GrpcConfig,
        drain: &Drain,
        seen: Seen,
        connection: &mut Connection<T, Payload>,
    ) -> Life
    where
        T: AsyncRead + AsyncWrite + Unpin,
    {
        let always = || true;
        let gone = keepalive::watch(connection.ping_pong(), config.keepalive, always);
        let age_end = config.age_max.and_then(|age| Instant::now().checked_add(spread(age)));
        Life {
            gone: Box::pin(gone),
            drained: Some(Box::pin(drain.clone().started())),
            idle_timeout: config.idle_timeout,
            age_grace: config.age_grace,
            age_end,
            leaving: None,
            idle_since: None,
            timer: None,
            seen,
            strikes: config.ping_limit.map(Strikes::new),
        }
    }

    /// Waits for the next event.
    pub(super) fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        connection: &mut Connection<T, Payload>,
    ) -> Poll<Event>
    where
        T: AsyncRead + AsyncWrite + Unpin,
    {
        if self.gone.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Event::Over(None));
        }
        if let Some(drained) = &mut self.drained
            && let Poll::Ready(end) = drained.as_mut().poll(cx)
        {
            self.drained = None;
            self.leave(connection, Some(end));
        }
        match connection.poll_accept(cx) {
            Poll::Ready(Some(Ok((request, respond)))) => {
                return Poll::Ready(Event::Call(request, respond));
            }
            Poll::Ready(Some(Err(error))) => return Poll::Ready(Event::Over(Some(error))),
            Poll::Ready(None) => return Poll::Ready(Event::Over(None)),
            Poll::Pending => {}
        }
        if let Some(strikes) = &mut self.strikes
            && strikes.are_too_many(&self.seen, || connection.has_streams())
        {
            self.seen.end();
            return Poll::Ready(Event::Part(Reason::ENHANCE_YOUR_CALM));
        }
        self.poll_times(cx, connection)
    }

    fn poll_times<T>(
        &mut self,
        cx: &mut Context<'_>,
        connection: &mut Connection<T, Payload>,
    ) -> Poll<Event>
    where
        T: AsyncRead + AsyncWrite + Unpin,
    {
        self.note_idle(connection);
        while let Some(due) = self.due() {
            if due > Instant::now() {
                if self.wait_for(due, cx).is_pending() {
                    return Poll::Pending;
                }
                continue;
            }
            if self.leaving.is_some() {
                return Poll::Ready(Event::Part(Reason::NO_ERROR));
            }
            let is_old = self.age_end.is_some_and(|end| end <= due);
            let grace = self.age_grace.filter(|_| is_old);
            self.leave(connection, grace.and_then(|grace| Instant::now().checked_add(grace)));
            self.note_idle(connection);
            // `h2` sends what it has queued only when it is polled, and nothing else would poll it.
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// Tells the client to begin no calls. Calls that still run at `end` are ended.
    fn leave<T>(&mut self, connection: &mut Connection<T, Payload>, end: Option<Instant>)
    where
        T: AsyncRead + AsyncWrite + Unpin,
    {
        self.age_end = None;
        let earlier = self.leaving.flatten();
        let end = earlier.into_iter().chain(end).min();
        if self.leaving.replace(end).is_none() {
            connection.graceful_shutdown();
        }
    }

    fn note_idle<T>(&mut self, connection: &Connection<T, Payload>)
    where
        T: AsyncRead + AsyncWrite + Unpin,
    {
        if self.idle_timeout.is_none() && self.leaving.is_none() {
            return;
        }
        match connection.has_streams() {
            true => self.idle_since = None,
            false => drop(self.idle_since.get_or_insert_with(Instant::now)),
        }
    }

    /// The next due time.
    fn due(&self) -> Option<Instant> {
        let (patience, end) = match self.leaving {
            None => (self.idle_timeout, self.age_end),
            Some(end) => (Some(FAREWELL), end),
        };
        let idle = self.idle_since.zip(patience);
        let idle = idle.and_then(|(since, patience)| since.checked_add(patience));
        idle.into_iter().chain(end).min()
    }

    /// Ready at `due` or before.
    fn wait_for(&mut self, due: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(due)));
        // A timer that fires too early is kept, since calls come and go more often than it fires.
        if timer.deadline() > due || timer.is_elapsed() {
            timer.as_mut().reset(due);
        }
        timer.as_mut().poll(cx)
    }
}

/// Varies `age` by up to a tenth, so that connections that began together do not end together.
fn spread(age: Duration) -> Duration {
    let random = std::hash::RandomState::new().hash_one(age) as f64 / u64::MAX as f64;
    Duration::try_from_secs_f64(age.as_secs_f64() * (0.9 + 0.2 * random)).unwrap_or(age)
}
