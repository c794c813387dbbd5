//! What interceptors know of a call, and how it ended.

use core::time::Duration;
use std::sync::Arc;

use petasos_base::Time;
use petasos_call::{Code, Metadata, Status, TraceContext};

use super::{Around, Extensions};
use crate::current::now;
use crate::descriptors::{MethodInfo, ServiceInfo};
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
/// Times are those of this end's clock. What is changed of it after [`Interceptor::call`] is not
/// possible: the call has left, or its handler runs.
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
    pub(super) fn new(
        around: &Arc<Around>,
        method: u16,
        side: Side,
        beside: CallParts,
    ) -> CallInfo {
        let CallParts { metadata, timeout, extensions, origin } = beside;
        let (around, began) = (around.clone(), now());
        CallInfo { around, method, side, metadata, timeout, began, extensions, origin }
    }

    /// Which end this is.
    pub fn side(&self) -> Side {
        self.side
    }

    /// What is known of the service.
    pub fn service_info(&self) -> &'static ServiceInfo {
        self.around.service
    }

    /// The service's full name, `package.Service`.
    pub fn service(&self) -> &'static str {
        self.around.service.name
    }

    /// The method.
    pub fn method(&self) -> &'static MethodInfo {
        &self.around.service.methods[usize::from(self.method)]
    }

    /// What the client sends with the call.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// What the client sends with the call, to be changed: at the client it is sent so, at the
    /// server the handler finds it so. Metadata for all calls of a channel are added later, and not
    /// here.
    pub fn metadata_mut(&mut self) -> &mut Metadata {
        &mut self.metadata
    }

    /// The time that the call had when it began here, if it has a deadline.
    pub fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// What is left of it.
    pub fn time_left(&self) -> Option<Duration> {
        self.timeout.map(|timeout| timeout.saturating_sub(self.elapsed()))
    }

    /// Gives the call less time; more than it has is not given. At a server, this is told to the
    /// handler, and nothing else of it.
    pub fn limit_timeout(&mut self, timeout: Duration) {
        self.timeout = Some(self.timeout.map_or(timeout, |had| had.min(timeout)));
    }

    /// How long the call has been going on here.
    pub fn elapsed(&self) -> Duration {
        Duration::from_nanos(now().nanos_since(self.began))
    }

    /// At a server: who called. `None` once the caller's session is gone. A client does not know
    /// yet which server takes the call.
    pub fn peer(&self) -> Option<Peer> {
        self.origin.peer()
    }

    /// Whether the call is one of gRPC, over HTTP/2.
    pub fn is_grpc(&self) -> bool {
        self.around.calls_grpc || self.origin.is_grpc()
    }

    /// Where the call belongs in a distributed trace, if it does.
    pub fn trace(&self) -> Option<&TraceContext> {
        self.extensions.get()
    }

    /// Says where the call belongs in a distributed trace: at a client this is sent, at a server
    /// the handler finds it.
    pub fn set_trace(&mut self, trace: TraceContext) {
        self.extensions.insert(trace);
    }

    /// What was put beside the call at this end.
    pub fn extensions(&self) -> &Extensions {
        &self.extensions
    }

    /// What is put beside the call at this end, for other interceptors and, at a server, for the
    /// handler ([`Request::extensions`](crate::request::Request::extensions)).
    pub fn extensions_mut(&mut self) -> &mut Extensions {
        &mut self.extensions
    }

    /// What its caller or handler is given of it now.
    pub(super) fn beside(&self) -> CallParts {
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
    /// The code.
    pub fn code(&self) -> Code {
        match self.result {
            Ok(()) => Code::Ok,
            // A server's handler that fails with OK is told as this.
            Err(status) if status.code() == Code::Ok => Code::Unknown,
            Err(status) => status.code(),
        }
    }

    /// What it failed with.
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
