//! Calls to gRPC servers, as futures of the facade's runtime.

use std::sync::Arc;
use std::time::Duration;

use petasos::untyped::Payload;
use petasos::{Request, ServiceClient, Status};
use petasos_service::Outgoing;

use super::super::mail::{Inbox, Port};
use super::super::{Handle, encoded, outgoing};
use super::Grpc;

/// A call that is about to leave, and how long it may take.
pub struct Call {
    pub outgoing: Outgoing,
    pub timeout: Option<Duration>,
}

impl Grpc {
    /// Begins a call.
    ///
    /// # Errors
    /// Nothing was sent, and why.
    pub fn begin(&self, call: Call, client: &ServiceClient) -> Result<Handle, Status> {
        let Call { mut outgoing, timeout } = call;
        let full = || Status::resource_exhausted("too many calls to gRPC servers are under way");
        let room = self.leaving.take(&outgoing.caller).ok_or_else(full)?;
        let failed = |error| Status::unavailable(format!("no thread for gRPC: {error}"));
        let runtime = petasos::background_runtime().map_err(failed)?;
        let message = outgoing.message.take().map(|message| encoded(&message)).transpose()?;
        let port = Port::in_room(Some(outgoing.call), room);
        let handle = Handle::Future(port.clone());
        let (client, inbox) = (client.clone(), self.inbox.clone());
        let left = Left { method: outgoing.method, metadata: outgoing.metadata, timeout };
        match message {
            Some(message) => drop(runtime.spawn(unary(left, client, message, (port, inbox)))),
            None => drop(runtime.spawn(streams(left, client, (port, inbox)))),
        }
        Ok(handle)
    }
}

/// What is said of a call that leaves, beside its message.
struct Left {
    method: u16,
    metadata: petasos::Metadata,
    timeout: Option<Duration>,
}

async fn unary(
    left: Left,
    client: ServiceClient,
    message: Vec<u8>,
    (port, inbox): (Arc<Port>, Arc<Inbox>),
) {
    let message = match Payload::from_bytes(&message) {
        Ok(message) => message,
        Err(status) => return outgoing::fail(port, &inbox, status),
    };
    let mut request = Request::new(message);
    *request.metadata_mut() = left.metadata;
    if let Some(timeout) = left.timeout {
        request = request.with_timeout(timeout);
    }
    let call = client.unary::<Payload, Payload>(left.method, request);
    outgoing::unary(port, inbox, call).await;
}

async fn streams(left: Left, client: ServiceClient, (port, inbox): (Arc<Port>, Arc<Inbox>)) {
    let opening = client.bidirectional::<Payload, Payload>(left.method);
    let mut opening = opening.with_all_metadata(left.metadata);
    if let Some(timeout) = left.timeout {
        opening = opening.with_timeout(timeout);
    }
    outgoing::streams(port, inbox, opening).await;
}
