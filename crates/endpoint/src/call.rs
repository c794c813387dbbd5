//! Calls as the application sees them: settings, completions, errors.

use core::fmt;
use core::time::Duration;

use petasos_base::Time;
use petasos_buf::MsgBuf;
use petasos_proto::CallOptions;
use petasos_wire::{Encoding, RejectCode};

use crate::handler::Payload;
use crate::sessions::SessionId;

/// A call that is over.
#[derive(Debug)]
pub struct Completion<'a> {
    /// The tag that the caller passed.
    pub tag: u64,
    /// The session of the call.
    pub session: SessionId,
    /// The request's buffer, returned by the call. Pass it to [`crate::Context::free`] or use it
    /// again.
    pub request: MsgBuf,
    /// The response, or why there is none. A response of several packets is in a buffer of the
    /// endpoint's pool: pass that to [`crate::Context::free`].
    pub result: Result<Payload<'a>, CallError>,
}

/// The name of a call, with which it can be cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CallId {
    pub(crate) session: SessionId,
    pub(crate) number: u64,
}

impl CallId {
    /// The call's session.
    #[inline(always)]
    pub fn session(self) -> SessionId {
        self.session
    }

    /// The call's number in its session ([`SessionId::call`]).
    #[inline(always)]
    pub fn number(self) -> u64 {
        self.number
    }
}

impl SessionId {
    /// The call of this session with a number from [`CallId::number`].
    #[inline(always)]
    pub fn call(self, number: u64) -> CallId {
        CallId { session: self, number }
    }
}

/// Optional settings of one call.
#[derive(Clone, Copy, Debug, Default)]
pub struct CallSettings {
    /// The call fails if it has not been answered within this time, with a resolution of a
    /// millisecond. With `None` it waits for as long as the peer lives.
    pub timeout: Option<Duration>,
    /// The longest response that is accepted, in bytes; `None` for the session's limit.
    pub response_bytes_max: Option<u32>,
    /// How the request's bytes are encoded.
    pub encoding: Encoding,
}

impl CallSettings {
    /// The options of a call with `settings`, or with the defaults.
    #[inline(always)]
    pub(crate) fn of_call(
        settings: Option<&CallSettings>,
        method: u16,
        request_bytes: usize,
        now: Time,
    ) -> CallOptions {
        let settings = settings.copied().unwrap_or_default();
        CallOptions {
            method,
            encoding: settings.encoding,
            request_bytes: request_bytes as u32,
            response_bytes_max: settings.response_bytes_max.unwrap_or(u32::MAX),
            timeout_at: settings.timeout.map_or(Time::NEVER, |timeout| now + timeout),
        }
    }
}

/// Why a call failed. [`CallError::retry_is_safe`] says whether it can be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallError {
    /// The call's timeout has passed. The handler may have run.
    Timeout,
    /// The caller cancelled the call. The handler may have run.
    Cancelled,
    /// The peer's process is gone or unreachable. The handler may have run.
    PeerFailed,
    /// The session was closed, by this side or by the peer. The handler may have run.
    SessionClosed,
    /// The session ended, for one of these reasons, before a packet of the request was sent. It has
    /// not run.
    NotSent,
    /// The server has no handler for the method. The caller's fault.
    UnknownMethod,
    /// The request is longer than the server accepts. The caller's fault.
    RequestTooLarge,
    /// The response is longer than this call accepts. The handler has run.
    ResponseTooLarge,
    /// The server had no memory or worker for the request, and did not run it.
    Overloaded,
    /// The server is shutting down, and did not run the request.
    Draining,
    /// The handler panicked. It may have run in part. The server's fault.
    HandlerFailed,
    /// The handler declined to answer.
    Declined,
    /// This side had no memory for the response. The handler has run.
    OutOfMemory,
    /// The server gave a reason that this version does not know. Or it was a worker of a group, the
    /// request may run more than once, and its reason says nothing of other workers that may have
    /// run it.
    RejectedOtherwise,
    /// A worker or router of a group could not take the request just now. It has not run.
    Again,
    /// The queue of a group's router is full, or this client's share of it. The request has not
    /// run: an early rejection, before its deadline.
    QueueFull,
    /// The call's deadline passed while the request waited in a group's router or at its worker.
    Expired,
    /// A group has no worker that may take the request.
    NoWorker,
    /// A group's router does not know the policy of the call. The caller's fault.
    UnknownPolicy,
}

impl CallError {
    /// Whether the request certainly has not run, so that sending it again cannot run it twice.
    pub const fn retry_is_safe(self) -> bool {
        matches!(
            self,
            CallError::NotSent
                | CallError::UnknownMethod
                | CallError::RequestTooLarge
                | CallError::Overloaded
                | CallError::Draining
                | CallError::Again
                | CallError::QueueFull
                | CallError::Expired
                | CallError::NoWorker
                | CallError::UnknownPolicy
        )
    }

    pub(crate) fn from_reject(code: Option<RejectCode>) -> CallError {
        match code {
            Some(RejectCode::UnknownMethod) => CallError::UnknownMethod,
            Some(RejectCode::TooLarge) => CallError::RequestTooLarge,
            Some(RejectCode::Overloaded) => CallError::Overloaded,
            Some(RejectCode::Draining) => CallError::Draining,
            Some(RejectCode::HandlerFailed) => CallError::HandlerFailed,
            Some(RejectCode::Declined) => CallError::Declined,
            Some(RejectCode::Again) => CallError::Again,
            Some(RejectCode::QueueFull) => CallError::QueueFull,
            Some(RejectCode::Expired) => CallError::Expired,
            Some(RejectCode::NoWorker) => CallError::NoWorker,
            Some(RejectCode::UnknownPolicy) => CallError::UnknownPolicy,
            _ => CallError::RejectedOtherwise,
        }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CallError::Timeout => "the call timed out; its handler may still be running",
            CallError::Cancelled => "the call was cancelled",
            CallError::PeerFailed => "the peer is gone or unreachable",
            CallError::SessionClosed => "the session was closed",
            CallError::NotSent => "the session ended before the call was sent",
            CallError::UnknownMethod => "the server has no handler for this method",
            CallError::RequestTooLarge => "the request is longer than the server takes",
            CallError::ResponseTooLarge => "the response is longer than the call takes",
            CallError::Overloaded => "the server has no room for the request now; retry later",
            CallError::Draining => "the server is shutting down; retry elsewhere",
            CallError::HandlerFailed => "the handler panicked on the server",
            CallError::Declined => "the handler declined to answer",
            CallError::OutOfMemory => "no memory for the response",
            CallError::RejectedOtherwise => "the server rejected the request for an unknown reason",
            CallError::Again => "no worker could take the request just now; send it again",
            CallError::QueueFull => "the group's queue is full; retry later",
            CallError::Expired => "the call's deadline passed before its request ran",
            CallError::NoWorker => "the group has no worker that may take the request",
            CallError::UnknownPolicy => "the group's router does not know the call's policy",
        })
    }
}

impl std::error::Error for CallError {}

/// Why a call was not started. Nothing was sent, so a retry is always safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EnqueueError {
    /// The session no longer exists. Open another.
    NoSuchSession,
    /// The session is still being set up. Wait until it is ready.
    NotReady,
    /// The session's peer failed. Open another once the peer is back.
    SessionFailed,
    /// The request is longer than the session allows. The caller's fault.
    TooLarge {
        /// The limit in bytes.
        bytes_max: u32,
    },
    /// Too many calls are already waiting on the session. Slow down.
    BacklogFull {
        /// The limit.
        calls_max: u32,
    },
    /// Too many bytes of requests are already in progress on the endpoint. Slow down.
    TooManyBytes {
        /// The limit.
        bytes_max: usize,
    },
}

impl fmt::Display for EnqueueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EnqueueError::NoSuchSession => write!(f, "the session does not exist"),
            EnqueueError::NotReady => write!(f, "the session is still being set up"),
            EnqueueError::SessionFailed => write!(f, "the session's peer has failed"),
            EnqueueError::TooLarge { bytes_max } => {
                write!(f, "the request is longer than the session's {bytes_max} bytes")
            }
            EnqueueError::BacklogFull { calls_max } => {
                write!(f, "{calls_max} calls are waiting on the session already")
            }
            EnqueueError::TooManyBytes { bytes_max } => {
                write!(f, "requests of {bytes_max} bytes are in progress already")
            }
        }
    }
}

impl std::error::Error for EnqueueError {}

/// A call that was not started, with the request's buffer.
#[derive(Debug)]
pub struct Refused {
    /// The buffer, unchanged.
    pub request: MsgBuf,
    /// The reason.
    pub error: EnqueueError,
}

/// The buffer in which a response of several packets is assembled. Never empty while a call has it.
pub(crate) type ResponseBox = Box<Option<MsgBuf>>;

/// Boxes that calls have returned, for reuse.
#[derive(Default)]
pub(crate) struct ResponseBoxes(Vec<ResponseBox>);

/// The most boxes that are kept: as many as the long responses that an endpoint usually has under
/// way.
const BOXES_KEPT_MAX: usize = 256;

impl ResponseBoxes {
    /// A box with `buf` in it.
    pub(crate) fn put(&mut self, buf: MsgBuf) -> ResponseBox {
        let mut response = self.0.pop().unwrap_or_default();
        *response = Some(buf);
        response
    }

    /// Takes the buffer out of the box, which is kept.
    pub(crate) fn take(&mut self, mut response: ResponseBox) -> MsgBuf {
        let buf = response.take().expect("a pulled response has a buffer");
        if self.0.len() < BOXES_KEPT_MAX {
            self.0.push(response);
        }
        buf
    }
}
