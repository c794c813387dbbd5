//! Failures below the application, and whether a call may be retried after them.

use crate::{Code, Status};

/// A failure below the application, before or instead of a response (R12).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// Not sent: there is no session, or it has failed.
    NotConnected,
    /// Not sent, or rejected: the request is too long.
    RequestTooLarge,
    /// The response is longer than the call allows. The handler has run.
    ResponseTooLarge,
    /// Not sent: the caller has too many calls or bytes under way.
    TooMuch,
    /// The deadline has passed.
    Timeout,
    /// The caller cancelled the call.
    Cancelled,
    /// The peer failed, the session was closed, or the endpoint is gone.
    Lost,
    /// Rejected: no such method.
    UnknownMethod,
    /// Rejected: overloaded.
    Overloaded,
    /// Rejected: draining.
    Draining,
    /// Rejected: the handler failed.
    HandlerFailed,
    /// Rejected by the handler, or for a reason that is unknown here.
    Declined,
    /// The caller had no memory for the response.
    OutOfMemory,
    /// A worker of a group is gone, or the router that was asked, and the method may run more than
    /// once.
    WorkerLost,
    /// Rejected: no worker of the group could take it just now.
    NoWorker,
    /// Rejected early: the queue of the group's router is full, or the caller's share of it.
    QueueFull,
    /// Rejected: the deadline passed before the handler ran.
    Expired,
    /// Rejected: the group's router does not know how the call is to be routed.
    UnknownPolicy,
}

/// Whether a failed call may be retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Retry {
    /// No: it would fail again, or nobody waits for it.
    Never,
    /// The call may have run. The method's policy decides, and only if the method is idempotent or
    /// the policy names the status.
    Policy,
    /// The call has certainly not run. This retry does not count as an attempt.
    Safe,
    /// Like [`Retry::Safe`], but this server would not accept the call.
    Elsewhere,
}

impl Failure {
    /// The status code for the application.
    pub const fn code(self) -> Code {
        match self {
            Failure::NotConnected
            | Failure::Lost
            | Failure::Draining
            | Failure::WorkerLost
            | Failure::NoWorker => Code::Unavailable,
            Failure::RequestTooLarge
            | Failure::ResponseTooLarge
            | Failure::TooMuch
            | Failure::Overloaded
            | Failure::OutOfMemory
            | Failure::QueueFull => Code::ResourceExhausted,
            Failure::Timeout | Failure::Expired => Code::DeadlineExceeded,
            Failure::Cancelled => Code::Cancelled,
            Failure::UnknownMethod => Code::Unimplemented,
            Failure::HandlerFailed | Failure::UnknownPolicy => Code::Internal,
            Failure::Declined => Code::Unknown,
        }
    }

    /// Whether the call may be retried.
    pub const fn retry(self) -> Retry {
        match self {
            Failure::RequestTooLarge
            | Failure::ResponseTooLarge
            | Failure::Cancelled
            | Failure::UnknownMethod
            | Failure::Expired
            | Failure::UnknownPolicy => Retry::Never,
            Failure::NotConnected
            | Failure::TooMuch
            | Failure::Overloaded
            | Failure::NoWorker
            | Failure::QueueFull => Retry::Safe,
            Failure::Draining => Retry::Elsewhere,
            Failure::Timeout
            | Failure::Lost
            | Failure::WorkerLost
            | Failure::HandlerFailed
            | Failure::Declined
            | Failure::OutOfMemory => Retry::Policy,
        }
    }

    /// The status for the application.
    pub fn status(self) -> Status {
        Status::new(self.code(), self.text())
    }

    const fn text(self) -> &'static str {
        match self {
            Failure::NotConnected => "no session to the server",
            Failure::RequestTooLarge => "the request is longer than the server takes",
            Failure::ResponseTooLarge => "the response is longer than the call takes",
            Failure::TooMuch => "too many calls or bytes are under way at the caller",
            Failure::Timeout => "the deadline has passed",
            Failure::Cancelled => "the caller gave up",
            Failure::Lost => "the server or the session is gone",
            Failure::UnknownMethod => "the server has no such method",
            Failure::Overloaded => "the server has no room for the request",
            Failure::Draining => "the server is shutting down",
            Failure::HandlerFailed => "the handler failed",
            Failure::Declined => "the server rejected the request",
            Failure::OutOfMemory => "no memory for the response",
            Failure::WorkerLost => "the worker of the group is gone",
            Failure::NoWorker => "no worker of the group could take the request",
            Failure::QueueFull => "the queue of the group's router is full",
            Failure::Expired => "the deadline has passed before the request ran",
            Failure::UnknownPolicy => "the group's router does not know the call's policy",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r12_each_failure_has_the_status_and_the_retry_of_the_table() {
        let table = [
            (Failure::NotConnected, Code::Unavailable, Retry::Safe),
            (Failure::RequestTooLarge, Code::ResourceExhausted, Retry::Never),
            (Failure::ResponseTooLarge, Code::ResourceExhausted, Retry::Never),
            (Failure::TooMuch, Code::ResourceExhausted, Retry::Safe),
            (Failure::Timeout, Code::DeadlineExceeded, Retry::Policy),
            (Failure::Cancelled, Code::Cancelled, Retry::Never),
            (Failure::Lost, Code::Unavailable, Retry::Policy),
            (Failure::UnknownMethod, Code::Unimplemented, Retry::Never),
            (Failure::Overloaded, Code::ResourceExhausted, Retry::Safe),
            (Failure::Draining, Code::Unavailable, Retry::Elsewhere),
            (Failure::HandlerFailed, Code::Internal, Retry::Policy),
            (Failure::Declined, Code::Unknown, Retry::Policy),
            (Failure::OutOfMemory, Code::ResourceExhausted, Retry::Policy),
            (Failure::WorkerLost, Code::Unavailable, Retry::Policy),
            (Failure::NoWorker, Code::Unavailable, Retry::Safe),
            (Failure::QueueFull, Code::ResourceExhausted, Retry::Safe),
            (Failure::Expired, Code::DeadlineExceeded, Retry::Never),
            (Failure::UnknownPolicy, Code::Internal, Retry::Never),
        ];
        for (failure, code, retry) in table {
            assert_eq!((failure.status().code(), failure.retry()), (code, retry), "{failure:?}");
            assert_ne!(failure.status().message(), "");
        }
    }
}
