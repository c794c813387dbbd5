//! Unary calls and handlers for a program that passes messages on without types of its own: a
//! proxy, or a service of its host.
//!
//! Nothing here is a future. Calls that are begun by [`Loop::relay`], and requests of methods that
//! are served by [`Methods::relayed`], become events, which the program takes between the turns of
//! its loop. Messages are framed bytes (R5 to R9 of the specification of calls): in protobuf's
//! encoding, or, of services [with images](crate::untyped::Service::with_images), native ones as
//! both ends agree (R4).

use core::time::Duration;
use std::future::Future;
use std::ops::Range;
use std::sync::Arc;

use petasos_base::Time;
use petasos_buf::MsgBuf;
pub use petasos_call::Encoding;
use petasos_call::{
    Answer, Code, Codec, Failure, Malformed, Metadata, RequestHead, ResponseHead, Status,
    read_tail, split,
};
use petasos_endpoint::Routing;
pub use petasos_endpoint::ServerSessionId;
use petasos_message::{Image, Message};
use petasos_rpc::codec::framed;
use petasos_rpc::extensions::Extensions;
use petasos_rpc::recode::Recode;
use petasos_rpc::request::{Request, Response, TAIL_BYTES_LIMIT, request_tail};
use petasos_rpc::settings::RetryMode;
use petasos_runtime::dispatcher::LocalMethod;
use petasos_runtime::head::CallHead;
pub use petasos_runtime::keys::CallKey;
use petasos_runtime::local::current;
use petasos_runtime::relay::Relayed;
pub use petasos_runtime::relay::{Arrived, Event, Reply, RequestName};
pub use petasos_runtime::remote::Outcome;

use crate::Loop;
use crate::caller::ServiceClient;
use crate::handler::{AnyMethod, Methods, Serving, unary};
use crate::transport::Transport;

/// A unary call that is passed on.
#[derive(Debug)]
pub struct RelayedCall<'a> {
    /// The method's index in its service.
    pub method: u16,
    /// The encoding of the request. A native one is an image of the method's type, of a service
    /// [with images](crate::untyped::Service::with_images).
    pub encoding: Encoding,
    /// The request, behind [`ROOM_BYTES`](petasos_message::ROOM_BYTES).
    pub message: Image,
    /// What is sent with it.
    pub metadata: &'a Metadata,
    /// How long the call may take, if that is limited.
    pub timeout: Option<Duration>,
}

impl ServiceClient {
    /// Whether calls of this client can be passed on by [`Loop::relay`] of this thread's loop:
    /// those over datagrams, without interceptors and defaults.
    pub fn is_relayed(&self) -> bool {
        self.relay_channel().is_some()
    }

    fn relay_channel(&self) -> Option<u32> {
        #[allow(irrefutable_let_patterns, reason = "not with gRPC")]
        let Transport::Datagrams(shared) = self.transport() else { return None };
        let is_here = current().is_some_and(|local| local.loop_id == shared.runtime.loop_id);
        let is_plain = !self.is_intercepted() && !self.has_defaults();
        (is_here && is_plain).then_some(shared.channel)
    }
}

impl Loop {
    /// Begins a call. Its outcome is an [`Event::Done`] with this tag; or, of a native request that
    /// its server does not take, [`Event::Returned`].
    ///
    /// # Errors
    /// The timeout is zero, so that nothing is sent.
    ///
    /// # Panics
    /// If the client [cannot be used so](ServiceClient::is_relayed).
    pub fn relay(
        &self,
        client: &ServiceClient,
        call: RelayedCall<'_>,
        tag: u64,
    ) -> Result<CallKey, Status> {
        let channel = client.relay_channel().expect("the client's calls can be relayed");
        let RelayedCall { method, encoding, message, metadata, timeout } = call;
        if timeout.is_some_and(|timeout| timeout.is_zero()) {
            return Err(Failure::Timeout.status());
        }
        let tail = request_tail(metadata, &Extensions::new());
        let is_native = encoding == Encoding::Native;
        let head = RequestHead {
            encoding,
            codec: Codec::IDENTITY,
            answer: Answer { native: is_native, codec: Codec::IDENTITY },
            has_tail: !tail.is_empty(),
            // Filled in when it is sent.
            time_left_us: 0,
        };
        let request = framed(message, head.to_bytes(), &tail);
        let runtime = self.runtime();
        let now = || current().expect("the client's loop is this thread's").now();
        let head = CallHead {
            channel,
            service: client.service(),
            method,
            wait_for_ready: false,
            retry_mode: RetryMode::Plain,
            deadline: timeout.map_or(Time::NEVER, |timeout| now() + timeout),
            routing: Routing::default(),
            recode: if is_native { Recode::by_caller() } else { Recode::none() },
        };
        Ok(runtime.relay(head, request, tag))
    }

    /// Gives up a call that was begun by [`Loop::relay`].
    pub fn give_up_relayed(&self, call: CallKey) {
        self.runtime().give_up_relayed(call);
    }

    /// Answers a request of a relayed method. Nothing happens if nobody waits any more.
    pub fn reply(&self, request: RequestName, reply: Reply) {
        self.runtime().reply(request, reply);
    }

    /// The next event of relayed calls and requests.
    pub fn next_event(&self) -> Option<Event> {
        self.runtime().next_event()
    }

    /// Whether [`Loop::next_event`] has something.
    pub fn has_events(&self) -> bool {
        self.runtime().has_events()
    }
}

/// What has come in with a message.
#[derive(Debug)]
pub struct Received {
    /// How the message is encoded.
    pub encoding: Encoding,
    /// The message, in the bytes that have come in. A native one was not checked.
    pub body: Range<usize>,
    /// Initial metadata.
    pub metadata: Metadata,
    /// Trailing metadata of a response.
    pub trailers: Metadata,
}

/// Reads a request.
///
/// # Errors
/// The request breaks a rule (R13): its sender's fault.
pub fn read_request(arrived: &Arrived) -> Result<Received, Status> {
    let Arrived { bytes, head, .. } = arrived;
    framed_request(bytes, head)
}

/// Reads a request that [came back](Event::Returned).
///
/// # Errors
/// None, of a request that has come back.
pub fn read_returned(request: &[u8]) -> Result<Received, Status> {
    let head = request.first_chunk().ok_or(Malformed::TooShort)?;
    framed_request(request, &RequestHead::parse(*head)?)
}

fn framed_request(bytes: &[u8], head: &RequestHead) -> Result<Received, Status> {
    let (body, tail) = split(bytes, head.has_tail)?;
    let metadata = read_tail(tail, TAIL_BYTES_LIMIT)?.initial;
    let encoding = message_encoding(head.encoding)?;
    Ok(Received { encoding, body, metadata, trailers: Metadata::new() })
}

/// Reads the response of a call that was begun by [`Loop::relay`].
///
/// # Errors
/// The status with which the call has ended, if that is not OK; or the response breaks a rule.
pub fn read_response(bytes: &MsgBuf) -> Result<Received, Status> {
    let head = bytes.first_chunk().ok_or(Malformed::TooShort)?;
    let head = ResponseHead::parse(*head)?;
    let (body, tail) = split(bytes, head.has_tail)?;
    let parts = read_tail(tail, TAIL_BYTES_LIMIT)?;
    if head.code != Code::Ok {
        return Err(parts.into_status(head.code).0);
    }
    let encoding = message_encoding(head.encoding)?;
    let (metadata, trailers) = (parts.initial, parts.trailing);
    Ok(Received { encoding, body, metadata, trailers })
}

fn message_encoding(encoding: Encoding) -> Result<Encoding, Status> {
    match encoding {
        Encoding::Native | Encoding::Protobuf => Ok(encoding),
        _ => Err(Status::internal("the message has no encoding")),
    }
}

/// A method whose requests over datagrams are events.
struct OrRelayed<M> {
    /// For those that come another way.
    otherwise: M,
    token: u64,
}

impl<M: AnyMethod> AnyMethod for OrRelayed<M> {
    fn local(&self, serving: Serving<'_>) -> Box<dyn LocalMethod> {
        match serving {
            Serving { kind, workers: None, hooks: None, .. } => {
                Box::new(Relayed::new(kind, self.token))
            }
            serving => self.otherwise.local(serving),
        }
    }

    #[cfg(feature = "grpc")]
    fn serve(
        &self,
        call: petasos_grpc::ServerCall,
        caller: crate::handler::grpc::Caller,
        hooks: Option<petasos_rpc::intercept::Hooks>,
    ) -> petasos_grpc::BoxFuture<'static, ()> {
        self.otherwise.serve(call, caller, hooks)
    }
}

impl Methods {
    /// Adds the unary method with this index. Its requests become events with this token if they
    /// come over datagrams, to a loop without interceptors and workers. For others, `call` runs
    /// its handler, as for [`Methods::unary`].
    pub fn relayed<T, Q, P, F>(
        &mut self,
        index: u16,
        token: u64,
        service: &Arc<T>,
        call: impl Fn(Arc<T>, Request<Q>) -> F + Clone + Send + Sync + 'static,
    ) where
        T: Send + Sync + 'static,
        Q: Message,
        P: Message,
        F: Future<Output = (Arc<T>, Result<Response<P>, Status>)> + Send + 'static,
    {
        let otherwise = unary::Unary::new(service.clone(), call);
        self.add(index, Box::new(OrRelayed { otherwise, token }));
    }
}
