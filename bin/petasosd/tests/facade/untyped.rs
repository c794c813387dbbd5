//! A service whose messages are bytes, described by the schema of the typed one.

use std::sync::Arc;

use petasos::rt::{self, MethodKind, ServiceRef};
use petasos::untyped::{Client, Payload, Service};
use petasos::{Loop, Msg, Request, Response, Sender, Server, Status, Streaming};

use crate::managed::{Item, WorkServer};
use crate::support::{Daemon, Worker};

/// The service as its schema describes it.
pub fn described() -> Service {
    let info = rt::Service::info(&WorkServer::new(Worker));
    Service::described(info.module().schema(), info.name()).unwrap()
}

/// The service as two of its methods' names describe it.
pub fn named() -> Service {
    let methods = [("Echo", MethodKind::Unary), ("Chat", MethodKind::Bidirectional)];
    Service::named("managed.Work", &methods).unwrap()
}

/// A client of bytes in this thread's loop.
pub fn client(event_loop: &Loop, server: &Server, service: Service) -> Client {
    Client::new(&event_loop.channel(server.local_address().unwrap()), service)
}

/// A server of bytes on its own thread: it echoes, and fails on empty messages.
pub fn server(daemon: &Daemon, service: Service) -> Result<Server, petasos::StartError> {
    let server = Server::builder().add(Bytes(service)).listen("127.0.0.1:0");
    server.service(daemon.service("bytes")).start()
}

pub fn payload(item: &Msg<Item>) -> Msg<Payload> {
    let bytes = Msg::to_protobuf(item, 0).unwrap().into_buf();
    Payload::from_bytes(&bytes).unwrap()
}

pub fn item_of(payload: &Payload) -> Msg<Item> {
    let bytes = payload.to_bytes().unwrap();
    let limits = petasos_message::DecodeLimits::for_input(bytes.len());
    Msg::from_protobuf(petasos_message::Input::Borrowed(&bytes), &limits).unwrap()
}

struct Bytes(Service);

impl rt::Service for Bytes {
    fn info(&self) -> ServiceRef {
        self.0.info().clone()
    }

    fn methods(self, methods: &mut rt::Methods) {
        let state = Arc::new(());
        for method in self.0.info().methods() {
            match (method.name, method.kind) {
                // A text that is no UTF-8, which bytes can be and an item cannot.
                ("Fail", _) => {
                    methods.unary(method.index, &state, |state, _: Request<Payload>| async move {
                        (state, Payload::from_bytes(b"\x0a\x01\xff").map(Response::new))
                    })
                }
                (_, MethodKind::Unary) => {
                    methods.unary(method.index, &state, |state, request| async move {
                        (state, echo(request))
                    })
                }
                _ => methods.bidirectional(method.index, &state, |state, items, out| async move {
                    (state, echo_all(items, out).await)
                }),
            }
        }
    }
}

fn echo(request: Request<Payload>) -> Result<Response<Payload>, Status> {
    let seen = request.metadata().get("asked").map(str::to_owned);
    let bytes = request.to_bytes()?;
    if bytes.is_empty() {
        return Err(Status::invalid_argument("nothing to echo"));
    }
    let mut response = Response::new(Payload::from_bytes(&bytes)?);
    if let Some(seen) = seen {
        response.metadata_mut().append("seen", &seen).unwrap();
    }
    Ok(response)
}

async fn echo_all(mut items: Streaming<Payload>, mut out: Sender<Payload>) -> Result<(), Status> {
    while let Some(item) = items.message().await? {
        out.send(item).await?;
    }
    Ok(())
}
