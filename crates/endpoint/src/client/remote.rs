//! The client for any thread.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use petasos_buf::MsgBuf;

use crate::call::{CallSettings, ClientError, EnqueueError, Response};
use crate::endpoint::Endpoint;
use crate::error::{ConnectAndWaitError, ConnectError};
use crate::mail::{Mail, RemoteCall};
use crate::mailbox::{Mailbox, PostError};
use crate::promise::{Awaited, promise};
use crate::sessions::SessionId;

/// Letters that may wait for an endpoint before its clients are told to slow down.
const WAITING_MAX: usize = 65_536;

/// A handle to an endpoint that runs on another thread. Clones are equal; all are `Send` and
/// `Sync`.
///
/// Each call is a letter to the endpoint's mailbox, which wakes its loop if it sleeps; the loop
/// has to turn for anything to happen.
#[derive(Clone)]
pub struct Client {
    mailbox: Arc<Mailbox<Mail>>,
}

impl<S> Endpoint<S> {
    /// A handle for other threads.
    ///
    /// # Errors
    /// The system's, if it gives no descriptor for the endpoint's mailbox.
    pub fn client(&mut self) -> io::Result<Client> {
        Ok(Client { mailbox: self.cx.core.outside.open_mailbox()? })
    }
}

impl Client {
    /// Calls `method` with `request` (a [`MsgBuf`], or a slice, which is copied).
    pub fn call(&self, session: SessionId, method: u16, request: impl Into<MsgBuf>) -> CallFuture {
        self.call_with(session, method, request, CallSettings::default())
    }

    /// [`Client::call`] with a timeout and other settings of the one call.
    pub fn call_with(
        &self,
        session: SessionId,
        method: u16,
        request: impl Into<MsgBuf>,
        settings: CallSettings,
    ) -> CallFuture {
        let (call, future) = prepare(&self.mailbox, session, method, request.into(), settings);
        if let Err(PostError::Full(Mail::Call(call))) =
            self.mailbox.post_bounded(Mail::Call(call), WAITING_MAX)
        {
            let error = EnqueueError::BacklogFull { calls_max: WAITING_MAX as u32 };
            call.promise.keep(Err(ClientError::NotStarted(error)));
        }
        future
    }

    /// Opens a session to the process at `server`: see [`Endpoint::connect`]. Dropping the future
    /// does not stop the set-up.
    pub fn connect(&self, server: SocketAddr) -> SessionFuture {
        let (promise, awaited) = promise();
        // If the endpoint is gone, the letter comes back and breaks its promise.
        let _ = self.mailbox.post(Mail::Open { server, promise });
        SessionFuture { awaited }
    }

    /// Makes the endpoint's loop turn, and so ask the condition of its [`Endpoint::run`] again:
    /// for conditions that other threads change.
    pub fn wake(&self) {
        self.mailbox.wake();
    }

    /// Closes a session for good, as [`Endpoint::close_session`] does.
    pub fn close(&self, session: SessionId) {
        // If the endpoint is gone, so is the session.
        let _ = self.mailbox.post(Mail::Close { session });
    }
}

impl core::fmt::Debug for Client {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

/// A call with a fresh id, and the future of its response.
pub(super) fn prepare(
    mailbox: &Arc<Mailbox<Mail>>,
    session: SessionId,
    method: u16,
    request: MsgBuf,
    settings: CallSettings,
) -> (Box<RemoteCall>, CallFuture) {
    let id = mailbox.number();
    let (promise, awaited) = promise();
    let call = RemoteCall { id, session, method, request, settings, promise };
    let future = CallFuture { id, awaited, mailbox: Some(mailbox.clone()) };
    (Box::new(call), future)
}

/// The response of an async call. Dropping it cancels the call.
#[must_use = "dropping the future cancels the call"]
pub struct CallFuture {
    id: u64,
    awaited: Awaited<Response>,
    /// Where to cancel; `None` once the call is over.
    mailbox: Option<Arc<Mailbox<Mail>>>,
}

impl Future for CallFuture {
    type Output = Result<MsgBuf, ClientError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = self.awaited.poll(context);
        if polled.is_ready() {
            self.mailbox = None;
        }
        polled.map(|response| response.unwrap_or(Err(ClientError::EndpointGone)))
    }
}

impl Drop for CallFuture {
    fn drop(&mut self) {
        if let Some(mailbox) = &self.mailbox {
            // If the endpoint is gone, so is the call.
            let _ = mailbox.post(Mail::Cancel { call: self.id });
        }
    }
}

/// The outcome of [`Client::connect`].
#[must_use = "the session is known to its future only"]
pub struct SessionFuture {
    awaited: Awaited<Result<SessionId, ConnectAndWaitError>>,
}

impl Future for SessionFuture {
    type Output = Result<SessionId, ConnectAndWaitError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let gone = || Err(ConnectAndWaitError::NotBegun(ConnectError::NotAttached));
        self.awaited.poll(context).map(|outcome| outcome.unwrap_or_else(gone))
    }
}
