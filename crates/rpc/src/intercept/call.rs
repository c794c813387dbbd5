//! What interceptors can see of a call and of its outcome.

use core::time::Duration;
use std::sync::Arc;

use petasos_base::Time;
use petasos_call::{Code, Metadata, Status, TraceContext};

use super::{Around, Extensions};
use crate::current::now;
use crate::descriptors::{MethodInfo, ServiceRef};
use crate::origin::Origin;
use crate::peer::Peer;
use crate::request::CallParts;

/// Which end of a call this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// It makes the call.
    Client,
    /// It answers.
    Server,
}

/// A call, as its interceptors see it.
///
/// Times are those of this end's clock. The call can only be changed in [`Interceptor::call`]:
/// after that it has been sent, or its handler runs.
///
/// [`Interceptor::call`]: super::Interceptor::call
#[derive(Debug)]
pub struct CallInfo {
    around: Arc<Around>,
    method: u16,
    side: Side,
    metadata: Metadata,
    timeout: Option<Duration>,
    began: Time,
    extensions: Extensions,
    origin: Origin,
}

impl CallInfo {
    pub(super) fn new(around: &Arc<Around>, method: u16, side: Side, parts: CallParts) -> CallInfo {
        let CallParts { metadata, timeout, extensions, origin } = parts;
        let (around, began) = (around.clone(), now());
        CallInfo { around, method, side, metadata, timeout, began, extensions, origin }
    }

    /// The end at which the interceptor runs.
    pub fn side(&self) -> Side {
        self.side
    }

    /// The service's descriptor.
    pub fn service_info(&self) -> &ServiceRef {
        &self.around.service
    }

    /// The service's full name, `package.Service`.
    pub fn service(&self) -> &str {
        self.around.service.name()
    }

    /// The method.
    pub fn method(&self) -> MethodInfo<'_> {
        self.around.service.method(self.method)
    }

    /// The metadata that the client sends with the call.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The metadata that the client sends with the call, mutable. At the client the changed
    /// metadata are sent; at the server the handler gets them. A channel's metadata for all its
    /// calls are added later, and are not in here.
    pub fn metadata_mut(&mut self) -> &mut Metadata {
        &mut self.metadata
    }

    /// The time that the call had left when it began at this end, if it has a deadline.
    pub fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// The time that the call has left now, if it has a deadline.
    pub fn time_left(&self) -> Option<Duration> {
        self.timeout.map(|timeout| timeout.saturating_sub(self.elapsed()))
    }

    /// Shortens the call's timeout; a longer one has no effect. At a server, the handler is told
    /// the new timeout, but it has no other effect.
    pub fn limit_timeout(&mut self, timeout: Duration) {
        self.timeout = Some(self.timeout.map_or(timeout, |had| had.min(timeout)));
    }

    /// The time since the call began at this end.
    pub fn elapsed(&self) -> Duration {
        Duration::from_nanos(now().nanos_since(self.began))
    }

    /// At a server: the client. `None` once the client's session is gone, and always at a client,
    /// which does not know yet which server will take the call.
    pub fn peer(&self) -> Option<Peer> {
        self.origin.peer()
    }

    /// Whether the call is a gRPC call, over HTTP/2.
    pub fn is_grpc(&self) -> bool {
        self.around.calls_grpc || self.origin.is_grpc()
    }

    /// The call's place in a distributed trace, if it has one.
    pub fn trace(&self) -> Option<&TraceContext> {
        self.extensions.get()
    }

    /// Sets the call's place in a distributed trace. At a client this is sent, at a server the
    /// handler gets it.
    pub fn set_trace(&mut self, trace: TraceContext) {
        self.extensions.insert(trace);
    }

    /// The call's extensions at this end.
    pub fn extensions(&self) -> &Extensions {
        &self.extensions
    }

    /// The call's extensions at this end, mutable: for other interceptors and, at a server, for the
    /// handler ([`Request::extensions`](crate::request::Request::extensions)).
    pub fn extensions_mut(&mut self) -> &mut Extensions {
        &mut self.extensions
    }

    /// The parts that the caller or the handler gets.
    pub(super) fn parts(&self) -> CallParts {
        CallParts {
            metadata: self.metadata.clone(),
            timeout: self.timeout,
            extensions: self.extensions.clone(),
            origin: self.origin.clone(),
        }
    }
}

/// How a call ended.
#[derive(Clone, Copy, Debug)]
pub struct Outcome<'a> {
    pub(super) result: Result<(), &'a Status>,
    pub(super) metadata: &'a Metadata,
    pub(super) trailers: &'a Metadata,
}

impl<'a> Outcome<'a> {
    /// The status code.
    pub fn code(&self) -> Code {
        match self.result {
            Ok(()) => Code::Ok,
            // A server's handler that fails with OK counts as this.
            Err(status) if status.code() == Code::Ok => Code::Unknown,
            Err(status) => status.code(),
        }
    }

    /// The status, if the call failed.
    pub fn status(&self) -> Option<&'a Status> {
        self.result.err()
    }

    /// The server's initial metadata, as far as this end knows them.
    pub fn metadata(&self) -> &'a Metadata {
        self.metadata
    }

    /// The server's trailing metadata; those of its status, if the call failed.
    pub fn trailers(&self) -> &'a Metadata {
        self.trailers
    }
}
