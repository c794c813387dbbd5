//! Calls of services that become known at run time.

use petasos_rpc::descriptors::{MethodInfo, MethodKind};
use petasos_rpc::request::Request;

use super::{Payload, Service};
use crate::caller::{ServiceClient, Unary};
use crate::channel::Channel;
use crate::stream::{Opening, Sender, Streaming, Upload};

/// Calls a service through a channel. It is cheap to clone.
#[derive(Clone, Debug)]
pub struct Client {
    service: Service,
    bound: ServiceClient,
}

/// The service has no method with this name and kind. The program's fault; no call was made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the service has no {kind:?} method `{name}`")]
pub struct NoSuchMethod {
    /// The requested name.
    pub name: String,
    /// The requested kind.
    pub kind: MethodKind,
}

/// The two directions of a bidirectional call.
pub type Both = (Sender<Payload>, Streaming<Payload>);

impl Client {
    /// A client for `service` over `channel`.
    pub fn new(channel: &Channel, service: Service) -> Client {
        let bound = channel.bind(service.info());
        Client { service, bound }
    }

    /// The method with this name.
    pub fn method(&self, name: &str) -> Option<MethodInfo<'_>> {
        self.service.info().method_by_name(name)
    }

    /// Calls a unary method. The call has started when this returns.
    ///
    /// # Errors
    /// See [`NoSuchMethod`].
    pub fn unary(
        &self,
        method: &str,
        request: impl Into<Request<Payload>>,
    ) -> Result<Unary<Payload>, NoSuchMethod> {
        let index = self.index(method, MethodKind::Unary)?;
        Ok(self.bound.unary(index, request.into()))
    }

    /// Calls a server-streaming method.
    ///
    /// # Errors
    /// See [`NoSuchMethod`].
    pub fn server_streaming(
        &self,
        method: &str,
        request: impl Into<Request<Payload>>,
    ) -> Result<Opening<Streaming<Payload>>, NoSuchMethod> {
        let index = self.index(method, MethodKind::ServerStreaming)?;
        Ok(self.bound.server_streaming(index, request.into()))
    }

    /// Calls a client-streaming method.
    ///
    /// # Errors
    /// See [`NoSuchMethod`].
    pub fn client_streaming(&self, method: &str) -> Result<Upload<Payload, Payload>, NoSuchMethod> {
        let index = self.index(method, MethodKind::ClientStreaming)?;
        Ok(self.bound.client_streaming(index))
    }

    /// Calls a bidirectional method.
    ///
    /// # Errors
    /// See [`NoSuchMethod`].
    pub fn bidirectional(&self, method: &str) -> Result<Opening<Both>, NoSuchMethod> {
        let index = self.index(method, MethodKind::Bidirectional)?;
        Ok(self.bound.bidirectional(index))
    }

    /// Calls a client-streaming or bidirectional method, and receives the responses as a stream in
    /// both cases.
    ///
    /// # Errors
    /// See [`NoSuchMethod`].
    pub fn open(&self, method: &str) -> Result<Opening<Both>, NoSuchMethod> {
        let index = self.index(method, MethodKind::ClientStreaming);
        let index = index.or_else(|_| self.index(method, MethodKind::Bidirectional))?;
        Ok(self.bound.bidirectional(index))
    }

    fn index(&self, name: &str, kind: MethodKind) -> Result<u16, NoSuchMethod> {
        let found = self.method(name).filter(|method| method.kind == kind);
        found.map(|found| found.index).ok_or_else(|| NoSuchMethod { name: name.to_owned(), kind })
    }
}
