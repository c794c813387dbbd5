//! Calls of gRPC clients, as futures of the port's thread.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use petasos::grpc::{BoxFuture, FrameReader, FrameWriter, Peer, Routes, ServerCall};
use petasos::message::buffer;
use petasos::rt::{MethodKind, ServiceRef};
use petasos::{Metadata, ServeError, Status};

use super::super::known::Known;
use super::super::mail::{Begun, Inbox, Item, Port, Said, along};
use super::super::relayed::Caller;
use super::super::rooms::{Room, Rooms};
use super::super::serving::Leaves;
use super::about::About;
use super::{INCOMING_MAX, INCOMING_OF_ONE_MAX};

/// So long the request of a unary call may take to come in.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes before a message for its frame.
const ROOM_BYTES: usize = petasos::grpc::HEAD_BYTES;

/// Brings calls to the transport.
pub struct Front {
    inbox: Arc<Inbox>,
    rooms: Rooms,
    /// Services that applications serve, or have served.
    known: Mutex<HashMap<Arc<str>, Arc<Known>>>,
    about: About,
    /// Connections are encrypted.
    is_sealed: bool,
}

impl Front {
    /// A front that knows nothing yet.
    ///
    /// # Errors
    /// See [`ServeError`].
    pub fn new(inbox: Arc<Inbox>, is_sealed: bool) -> Result<Front, ServeError> {
        let rooms = Rooms::new(INCOMING_MAX, INCOMING_OF_ONE_MAX);
        Ok(Front { inbox, rooms, known: Mutex::default(), about: About::new()?, is_sealed })
    }

    /// Lets clients call these services. Of those without a descriptor, which nobody serves now,
    /// calls end with `UNAVAILABLE`.
    pub fn publish<'a>(&self, all: impl Iterator<Item = (&'a Arc<Known>, Option<ServiceRef>)>) {
        let all: Vec<_> = all.collect();
        let known = all.iter().map(|(known, _)| (known.name.clone(), (*known).clone())).collect();
        self.about.publish(all);
        *self.known() = known;
    }

    /// The names of the service and the method of a path, and the method's kind.
    fn method(&self, path: &str) -> Option<(Arc<str>, Arc<str>, MethodKind)> {
        let (service, method) = path.strip_prefix('/')?.split_once('/')?;
        let known = self.known();
        let known = known.get(service)?;
        let (method, kind) = known.method(method)?;
        Some((known.name.clone(), method, kind))
    }

    fn known(&self) -> MutexGuard<'_, HashMap<Arc<str>, Arc<Known>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who calls, as policies know it.
    fn caller(&self, peer: &Peer) -> Caller {
        let proved = peer.identity.as_ref().and_then(|identity| identity.names.first());
        let is_proved = proved.is_some();
        let address = || peer.address.ip().to_canonical().to_string();
        let name = proved.cloned().unwrap_or_else(address);
        Caller { name, is_proved, is_sealed: self.is_sealed }
    }
}

impl Routes for Front {
    fn serve(&self, path: &str, call: ServerCall) -> BoxFuture<'static, ()> {
        let Caller { name: peer, is_proved, is_sealed } = self.caller(&call.peer);
        let Some(room) = self.rooms.take(&peer.as_str().into()) else {
            return refuse(call, Status::resource_exhausted("too many calls are under way"));
        };
        if let Some(about) = self.about.routes(path) {
            let served = about.serve(path, call);
            return Box::pin(async move {
                served.await;
                drop(room);
            });
        }
        let Some((service, method, kind)) = self.method(path) else {
            return refuse(call, Status::unimplemented("no application serves this"));
        };
        let message = None;
        let ServerCall { metadata, timeout, requests, responses, .. } = call;
        let begun =
            Begun { service, method, message, metadata, timeout, peer, is_proved, is_sealed };
        let came = Came { inbox: self.inbox.clone(), begun, room };
        match kind {
            MethodKind::Unary => Box::pin(came.unary(requests, responses)),
            _ => Box::pin(came.streams(requests, responses)),
        }
    }
}

fn refuse(call: ServerCall, status: Status) -> BoxFuture<'static, ()> {
    call.responses.end(status, Metadata::new());
    Box::pin(core::future::ready(()))
}

/// A call that has come in.
struct Came {
    inbox: Arc<Inbox>,
    begun: Begun,
    room: Room,
}

impl Came {
    async fn unary(self, mut requests: FrameReader, responses: FrameWriter) {
        match self.answered(&mut requests).await {
            Ok(Answer { message, metadata, trailers }) => {
                let mut buffer = buffer(ROOM_BYTES + message.len());
                buffer.as_mut_slice()[ROOM_BYTES..].copy_from_slice(&message);
                responses.finish(&metadata, buffer, &trailers);
            }
            Err(status) => responses.end(status, Metadata::new()),
        }
    }

    async fn answered(self, requests: &mut FrameReader) -> Result<Answer, Status> {
        let Came { inbox, begun, room } = self;
        let slow = |_| Status::deadline_exceeded("the request did not come in time");
        let message = tokio::time::timeout(REQUEST_TIMEOUT, requests.single()).await;
        let message = Some(message.map_err(slow)??.to_vec());
        let call = Leaves::begin(&inbox, Begun { message, ..begun }, Some(room));
        loop {
            let Item::End { result, metadata, trailers } = call.port.next(&inbox).await else {
                // A unary call has nothing else.
                continue;
            };
            let message = result?.ok_or_else(|| Status::internal("there is no response"))?;
            return Ok(Answer { message, metadata, trailers });
        }
    }

    async fn streams(self, requests: FrameReader, mut responses: FrameWriter) {
        let Came { inbox, begun, room } = self;
        let end = responses.split();
        let call = Leaves::begin(&inbox, begun, Some(room));
        let upload = upload(&call.port, &inbox, requests);
        let served = along(upload, download(&call.port, &inbox, responses)).await;
        end.end(&served.err().unwrap_or_else(Status::ok));
    }
}

struct Answer {
    message: Vec<u8>,
    metadata: Metadata,
    trailers: Metadata,
}

/// Messages of the client, until it has closed its half.
///
/// # Errors
/// The client has given the call up, or broken a rule.
async fn upload(port: &Arc<Port>, inbox: &Inbox, mut from: FrameReader) -> Result<(), Status> {
    while let Some(message) = from.next().await? {
        port.send(inbox, message.to_vec()).await;
    }
    inbox.say(Said::Closed(port.clone()));
    Ok(())
}

async fn download(port: &Arc<Port>, inbox: &Inbox, mut to: FrameWriter) -> Result<(), Status> {
    loop {
        match port.next(inbox).await {
            Item::Message(bytes) => {
                let mut message = buffer(ROOM_BYTES + bytes.len());
                message.as_mut_slice()[ROOM_BYTES..].copy_from_slice(&bytes);
                to.send(message).await?;
            }
            Item::Head(metadata) => to.head(metadata),
            Item::Close => {}
            Item::End { result, trailers, .. } => {
                to.keep_trailers(trailers);
                return result.map(|_| ());
            }
        }
    }
}
