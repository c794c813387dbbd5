//! Services of this host's applications, as other hosts call them.

use std::sync::Arc;

use petasos::rt::{self, MethodKind, ServiceRef};
use petasos::untyped::{Payload, Service};
use petasos::{Peer, Request, Response, Sender, Status, Streaming};

use super::known::Known;
use super::mail::{Begun, Inbox, Item, Port, Said, along};
use super::relayed::Caller;
use super::rooms::Room;

/// A service that some application of this host serves.
pub struct Served {
    pub service: Service,
    /// Its names, which its handlers use: they keep no schema.
    pub known: Arc<Known>,
    pub inbox: Arc<Inbox>,
    /// Of its methods' requests, by the methods' indexes.
    pub tokens: Vec<u64>,
}

impl rt::Service for Served {
    fn info(&self) -> ServiceRef {
        self.service.info().clone()
    }

    fn methods(self, methods: &mut rt::Methods) {
        for method in self.service.info().methods() {
            if method.kind == MethodKind::Unary {
                // The loop has neither workers nor interceptors: all requests are events.
                let call = |inbox: Arc<Inbox>, _: Request<Payload>| async {
                    let elsewhere = Status::internal("a request that is no event");
                    (inbox, Err::<Response<Payload>, _>(elsewhere))
                };
                let token = self.tokens[usize::from(method.index)];
                methods.relayed(method.index, token, &self.inbox, call);
            } else {
                let of = Of { known: self.known.clone(), method: method.index };
                let call = move |inbox: Arc<Inbox>, requests, responses| {
                    let of = of.clone();
                    async move {
                        let done = of.streams(&inbox, requests, responses).await;
                        (inbox, done)
                    }
                };
                methods.bidirectional(method.index, &self.inbox, call);
            }
        }
    }
}

/// A method of a service.
#[derive(Clone)]
struct Of {
    known: Arc<Known>,
    /// Its index.
    method: u16,
}

/// Says that a call's future is gone.
pub struct Leaves<'a> {
    pub port: Arc<Port>,
    inbox: &'a Inbox,
}

impl<'a> Leaves<'a> {
    /// Says that a call has begun, in a place of its own if calls like it have places.
    pub fn begin(inbox: &'a Inbox, begun: Begun, room: Option<Room>) -> Leaves<'a> {
        let port = room.map_or_else(|| Port::new(None), |room| Port::in_room(None, room));
        inbox.say(Said::Begun(port.clone(), Box::new(begun)));
        Leaves { port, inbox }
    }
}

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        self.inbox.say(Said::Left(self.port.clone()));
    }
}

impl Of {
    async fn streams(
        self,
        inbox: &Inbox,
        requests: Streaming<Payload>,
        responses: Sender<Payload>,
    ) -> Result<(), Status> {
        let (timeout, metadata) = (requests.timeout(), requests.metadata().clone());
        let begun = Begun { metadata, timeout, ..self.begun(requests.peer()) };
        let call = Leaves::begin(inbox, begun, None);
        along(upload(&call.port, inbox, requests), download(&call.port, inbox, responses)).await
    }

    fn begun(&self, peer: Option<Peer>) -> Begun {
        let Caller { name: peer, is_proved, is_sealed } = Caller::of(peer);
        let (service, method) = self.known.names(self.method);
        let (message, timeout) = (None, None);
        let metadata = Default::default();
        Begun { service, method, message, metadata, timeout, peer, is_proved, is_sealed }
    }
}

/// Messages of the caller, until it has closed its half.
///
/// # Errors
/// The caller has given the call up, or broken a rule.
async fn upload(
    port: &Arc<Port>,
    inbox: &Inbox,
    mut from: Streaming<Payload>,
) -> Result<(), Status> {
    while let Some(message) = from.message().await? {
        port.send(inbox, message.to_bytes()?).await;
    }
    inbox.say(Said::Closed(port.clone()));
    Ok(())
}

async fn download(port: &Arc<Port>, inbox: &Inbox, mut to: Sender<Payload>) -> Result<(), Status> {
    loop {
        match port.next(inbox).await {
            Item::Message(bytes) => to.send(Payload::from_bytes(&bytes)?).await?,
            Item::Head(metadata) => {
                *to.metadata_mut() = metadata;
                to.send_metadata();
            }
            Item::Close => {}
            Item::End { result, trailers, .. } => {
                *to.trailers_mut() = trailers;
                return result.map(|_| ());
            }
        }
    }
}
