//! The sending half of a stream, shared by the writer and by code that may end the call.
//!
//! `h2` keeps one waker for a stream's sending half, but two tasks may wait: the writer for
//! capacity, the call's task for a reset. So both wakers are in [`Wakers`], which is what `h2`
//! gets. It does not refer to a stream, because a stream that is never woken again must not keep
//! itself alive.
//!
//! Invariant: once the half is `Over` it stays so, with the code that ended it first.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Wake as _, Waker};

use h2::server::SendResponse;
use h2::{Reason, SendStream};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use petasos_call::{Code, Metadata, Status};

use crate::compress::Compression;
use crate::failure;
use crate::headers::{self, put_status};
use crate::payload::Payload;
use crate::wakers::Wakers;

pub(crate) struct SendHalf {
    half: Mutex<Half>,
    /// Made when a task first waits: most calls are answered before that.
    wakers: OnceLock<Arc<Wakers>>,
}

struct Half {
    state: State,
    /// Whether the writer waits for capacity, so that sent bytes are still buffered.
    is_blocked: bool,
    /// At a server: metadata to be sent with the status.
    trailers: Metadata,
}

enum State {
    /// At a server: no headers have been sent. With the headers that every response has.
    Unanswered(SendResponse<Payload>, HeaderMap),
    Open(SendStream<Payload>),
    /// At a client: everything has been sent. Kept so that the stream can be reset.
    Closed(SendStream<Payload>),
    Over(Code),
}

/// The two that may wait.
#[derive(Clone, Copy)]
pub(crate) enum Waiter {
    Writer = 0,
    Task = 1,
}

/// Nothing panics while it holds one of these locks, except for bugs in `h2`.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SendHalf {
    /// At a server: a stream without a response. `headers` go before all others of the response.
    pub(crate) fn unanswered(respond: SendResponse<Payload>, headers: HeaderMap) -> Arc<SendHalf> {
        SendHalf::new(State::Unanswered(respond, headers))
    }

    /// At a client: a stream whose headers have been sent.
    pub(crate) fn open(stream: SendStream<Payload>) -> Arc<SendHalf> {
        SendHalf::new(State::Open(stream))
    }

    fn new(state: State) -> Arc<SendHalf> {
        let half = Mutex::new(Half { state, is_blocked: false, trailers: Metadata::new() });
        Arc::new(SendHalf { half, wakers: OnceLock::new() })
    }

    /// Sends a response's headers, unless they have been sent.
    pub(crate) fn head(&self, metadata: &Metadata) {
        lock(&self.half).head(metadata);
    }

    /// Waits until less than the limit is buffered for the peer.
    pub(crate) fn poll_capacity(&self, cx: &mut Context<'_>) -> Poll<Result<(), Status>> {
        let waker = self.waker(Waiter::Writer, cx);
        let mut half = lock(&self.half);
        half.head(&Metadata::new());
        let poll = half.poll_capacity(&mut Context::from_waker(&waker));
        half.is_blocked = poll.is_pending();
        poll
    }

    /// Queues a message, for which there was capacity.
    pub(crate) fn send(&self, payload: Payload) -> Result<(), Status> {
        let mut half = lock(&self.half);
        let State::Open(stream) = &mut half.state else { return Err(half.refusal()) };
        stream.send_data(payload, false).map_err(|error| half.fail(&error))
    }

    /// Adds the messages' compression to a response's headers. Returns false if these have been
    /// sent.
    pub(crate) fn name_compression(&self, compression: Compression) -> bool {
        let mut half = lock(&self.half);
        let State::Unanswered(_, headers) = &mut half.state else { return false };
        let name = HeaderValue::from_static(compression.name());
        headers.insert(headers::ENCODING, name);
        true
    }

    /// At a client: sends the last bytes and closes the half.
    pub(crate) fn close(&self, last: Payload) {
        let mut half = lock(&self.half);
        let state = std::mem::replace(&mut half.state, State::Over(Code::Internal));
        half.state = match state {
            State::Open(mut stream) => {
                // Fails if the stream is over; its reader notices that.
                let _ = stream.send_data(last, true);
                State::Closed(stream)
            }
            other => other,
        };
    }

    /// At a server: ends the call with a status, after the messages that were sent.
    pub(crate) fn end(&self, status: &Status, trailers: &Metadata) {
        lock(&self.half).end(status, trailers);
        self.wake();
    }

    /// At a server: keeps metadata to be sent with the status.
    pub(crate) fn keep_trailers(&self, trailers: Metadata) {
        lock(&self.half).trailers = trailers;
    }

    /// Like [`SendHalf::end`], with a status that is only made if the call is not over.
    pub(crate) fn end_unless_over(&self, status: impl FnOnce() -> Status) {
        let is_over = matches!(lock(&self.half).state, State::Over(_));
        if !is_over {
            self.end(&status(), &Metadata::new());
        }
    }

    /// At a server: answers with one message and OK, without waiting for capacity.
    pub(crate) fn finish(&self, metadata: &Metadata, payload: Payload, trailers: &Metadata) {
        let mut half = lock(&self.half);
        half.head(metadata);
        // This can only fail if the stream is over.
        if let State::Open(mut stream) = half.take(Code::Ok) {
            let mut headers = HeaderMap::new();
            put_status(&mut headers, &Status::ok(), trailers);
            let _ = stream.send_data(payload, false);
            let _ = stream.send_trailers(headers);
        }
        drop(half);
        self.wake();
    }

    /// At a server: ends the call with a status now. If the client does not read them, buffered
    /// messages are dropped, and the status with them.
    pub(crate) fn end_now(&self, status: &Status) {
        let is_blocked = lock(&self.half).is_blocked;
        match is_blocked {
            true => self.reset(Reason::CANCEL, status.code()),
            false => self.end(status, &Metadata::new()),
        }
    }

    /// Resets the stream.
    pub(crate) fn reset(&self, reason: Reason, code: Code) {
        let mut half = lock(&self.half);
        match half.take(code) {
            State::Unanswered(mut respond, _) => respond.send_reset(reason),
            State::Open(mut stream) | State::Closed(mut stream) => stream.send_reset(reason),
            State::Over(_) => return,
        }
        drop(half);
        self.wake();
    }

    /// Ready when the peer has reset the stream, or the connection has failed.
    pub(crate) fn poll_reset(&self, cx: &mut Context<'_>) -> Poll<()> {
        let waker = self.waker(Waiter::Task, cx);
        let mut cx = Context::from_waker(&waker);
        let mut half = lock(&self.half);
        let poll = match &mut half.state {
            State::Unanswered(respond, _) => respond.poll_reset(&mut cx),
            State::Open(stream) | State::Closed(stream) => stream.poll_reset(&mut cx),
            State::Over(_) => return Poll::Pending,
        };
        let Poll::Ready(outcome) = poll else { return Poll::Pending };
        half.state = State::Over(outcome.map_or(Code::Unavailable, |_| Code::Cancelled));
        drop(half);
        self.wake();
        Poll::Ready(())
    }

    /// Registers a waiting task, and returns the waker for `h2`.
    fn waker(&self, waiter: Waiter, cx: &Context<'_>) -> Waker {
        self.wakers.get_or_init(Arc::default).wait(waiter as usize, cx)
    }

    /// Wakes all waiting tasks.
    fn wake(&self) {
        if let Some(wakers) = self.wakers.get() {
            wakers.clone().wake();
        }
    }
}

impl Half {
    fn take(&mut self, code: Code) -> State {
        match self.state {
            State::Over(first) => State::Over(first),
            _ => std::mem::replace(&mut self.state, State::Over(code)),
        }
    }

    fn head(&mut self, metadata: &Metadata) {
        let State::Unanswered(respond, headers) = &mut self.state else { return };
        let mut headers = std::mem::take(headers);
        headers::put_metadata(&mut headers, metadata);
        self.state = match respond.send_response(response(headers), false) {
            Ok(stream) => State::Open(stream),
            Err(error) => State::Over(failure::from_h2(&error).code()),
        };
    }

    fn poll_capacity(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Status>> {
        let State::Open(stream) = &mut self.state else { return Poll::Ready(Err(self.refusal())) };
        stream.reserve_capacity(1);
        while stream.capacity() == 0 {
            let error = match stream.poll_capacity(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(_))) => continue,
                Poll::Ready(Some(Err(error))) => error,
                Poll::Ready(None) => match stream.poll_reset(cx) {
                    // The stream was reset after the response, or the connection ended with all of
                    // its calls. `h2` does not say which; the reader knows the call's status.
                    Poll::Ready(Ok(Reason::NO_ERROR)) => {
                        let status = Status::unavailable("the server takes no more of the call");
                        self.state = State::Over(status.code());
                        return Poll::Ready(Err(status));
                    }
                    Poll::Ready(Ok(reason)) => reason.into(),
                    Poll::Ready(Err(error)) => error,
                    Poll::Pending => Reason::CANCEL.into(),
                },
            };
            return Poll::Ready(Err(self.fail(&error)));
        }
        Poll::Ready(Ok(()))
    }

    fn end(&mut self, status: &Status, trailers: &Metadata) {
        // This can only fail if the stream is over.
        match self.take(status.code()) {
            State::Unanswered(mut respond, mut headers) => {
                headers::put_metadata(&mut headers, &self.trailers);
                put_status(&mut headers, status, trailers);
                let _ = respond.send_response(response(headers), true);
            }
            State::Open(mut stream) => {
                let mut headers = HeaderMap::new();
                headers::put_metadata(&mut headers, &self.trailers);
                put_status(&mut headers, status, trailers);
                let _ = stream.send_trailers(headers);
            }
            State::Closed(_) | State::Over(_) => {}
        }
    }

    fn fail(&mut self, error: &h2::Error) -> Status {
        let status = failure::from_h2(error);
        self.state = State::Over(status.code());
        status
    }

    /// Why nothing can be sent.
    fn refusal(&self) -> Status {
        match self.state {
            State::Over(Code::Ok) => Status::internal("nothing can be sent after the status"),
            State::Over(code) => Status::new(code, "the call is over"),
            _ => Status::internal("nothing can be sent after the end"),
        }
    }
}

fn response(headers: HeaderMap) -> Response<()> {
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::OK;
    *response.headers_mut() = headers;
    response
}
