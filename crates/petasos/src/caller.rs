//! Services bound to channels, and unary calls.

mod limited;

use core::fmt;
use core::future::Future;
use core::marker::PhantomData;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std::sync::Arc;

use petasos_base::Time;
use petasos_buf::MsgBuf;
use petasos_call::{Answer, Codec, Encoding, RequestHead, Status};
use petasos_endpoint::Routing;
use petasos_message::{Message, Msg};
use petasos_rpc::codec::{framed, framed_native, read_response, unencodable};
use petasos_rpc::current;
#[cfg(feature = "grpc")]
use petasos_rpc::descriptors::{MethodInfo, ServiceRef};
use petasos_rpc::extensions::Extensions;
use petasos_rpc::intercept::{Around, Intercepted, Scope, Side, around_call};
use petasos_rpc::limits::Limits;
use petasos_rpc::recode::Recode;
#[cfg(feature = "grpc")]
use petasos_rpc::request::with_traceparent;
use petasos_rpc::request::{CallParts, Request, RequestParts as _, Response, request_tail};
use petasos_rpc::settings::{CallSettings, RetryMode, ServiceDefaults};
use petasos_runtime::head::{CallHead, NewCall};
use petasos_runtime::keys::CallKey;
use petasos_runtime::local::{Local, current_with};
use petasos_runtime::remote::RemoteCompletion;
use petasos_runtime::shared::{Command, RemoteCall};
use petasos_runtime::{ChannelShared, send};

use self::limited::Limited;
#[cfg(feature = "grpc")]
use crate::grpc_channel::{GrpcChannel, GrpcHead, GrpcUnary};
use crate::transport::Transport;

/// A service bound to a channel. Clients in generated code wrap one.
#[derive(Clone, Debug)]
pub struct ServiceClient {
    transport: Transport,
    service: u32,
    defaults: Option<Arc<ServiceDefaults>>,
    /// Interceptors, if there are any.
    around: Option<Arc<Around>>,
    /// For services on gRPC channels: the methods' paths, by index.
    #[cfg(feature = "grpc")]
    paths: Option<Arc<[petasos_grpc::MethodPath]>>,
}

impl ServiceClient {
    pub(crate) fn new(
        transport: Transport,
        service: u32,
        defaults: Option<Arc<ServiceDefaults>>,
        around: Option<Arc<Around>>,
    ) -> ServiceClient {
        ServiceClient {
            transport,
            service,
            defaults,
            around,
            #[cfg(feature = "grpc")]
            paths: None,
        }
    }

    /// A service on a gRPC channel.
    #[cfg(feature = "grpc")]
    pub(crate) fn over_grpc(
        transport: Transport,
        service: &ServiceRef,
        defaults: Option<Arc<ServiceDefaults>>,
        around: Option<Arc<Around>>,
    ) -> ServiceClient {
        let path = |method: MethodInfo<'_>| {
            let path = format!("/{}/{}", service.name(), method.name);
            let path = petasos_grpc::MethodPath::new(&path);
            path.expect("protobuf's names can stand in a path")
        };
        let paths = Some(service.methods().map(path).collect());
        ServiceClient { transport, service: 0, defaults, around, paths }
    }

    /// For a service on a gRPC channel: the start of a call of a method, and the method's path.
    #[cfg(feature = "grpc")]
    pub(crate) fn grpc_call(
        &self,
        method: u16,
        mut parts: CallParts,
    ) -> Result<(&petasos_grpc::MethodPath, GrpcHead), Status> {
        let settings = self.settings(method, &mut parts)?;
        let CallSettings { timeout, wait_for_ready, response_bytes_max, .. } = settings;
        let CallParts { metadata, extensions, .. } = parts;
        let metadata = with_traceparent(metadata, &extensions);
        let paths = self.paths.as_ref().expect("services on gRPC channels have paths");
        let Transport::Grpc(channel) = &self.transport else {
            unreachable!("only services on gRPC channels are called so")
        };
        let compression = channel.compression_of(&extensions);
        let receive_bytes_max = response_bytes_max.map(|max| channel.receive_bytes_max(max));
        let client = petasos_grpc::ClientHead { metadata, timeout, compression, receive_bytes_max };
        let head = GrpcHead { client, wait_for_ready };
        Ok((&paths[usize::from(method)], head))
    }

    /// Starts a call over gRPC.
    #[cfg(feature = "grpc")]
    fn begin_grpc<Q: Message, P: Message>(
        &self,
        channel: &GrpcChannel,
        method: u16,
        request: Request<Q>,
    ) -> Result<Stage<P>, Status> {
        let (message, parts) = request.into_parts();
        let (path, head) = self.grpc_call(method, parts)?;
        let image = Msg::to_protobuf(&message, petasos_call::HEAD_BYTES).map_err(unencodable)?;
        let of = (self.defaults.as_ref(), method);
        let call = GrpcUnary::new(channel, path, head, image.into_buf(), of)?;
        Ok(Stage::Grpc(Box::new(call)))
    }

    /// The transport that calls of this service use.
    pub(crate) fn transport(&self) -> &Transport {
        &self.transport
    }

    /// The defaults and policies for this service's methods.
    #[cfg(feature = "grpc")]
    pub(crate) fn defaults(&self) -> Option<&Arc<ServiceDefaults>> {
        self.defaults.as_ref()
    }

    /// The service's index in its channel.
    pub(crate) fn service(&self) -> u32 {
        self.service
    }

    /// The settings for a call of a method; see [`CallSettings::resolve`].
    pub(crate) fn settings(
        &self,
        method: u16,
        parts: &mut CallParts,
    ) -> Result<CallSettings, Status> {
        CallSettings::resolve(self.defaults.as_deref(), method, parts)
    }

    /// The call's timeout: its request's, or what remains for the current call, limited by the
    /// policy.
    fn time_of(&self, method: u16, asked: Option<Duration>) -> Option<Duration> {
        let timeout = asked.or_else(current::time_left);
        let policy = self.defaults.as_ref().map(|defaults| defaults.policy(method));
        policy.map_or(timeout, |policy| policy.timeout(timeout))
    }

    /// The length limits for a method's messages that the transport does not enforce.
    #[inline]
    pub(crate) fn limits(&self, method: u16) -> Limits {
        let defaults = self.defaults.as_ref();
        let limits = defaults.map(|defaults| Limits::of(defaults.policy(method)));
        let limits = limits.unwrap_or_default();
        match self.transport {
            Transport::Datagrams(_) => limits,
            #[cfg(feature = "grpc")]
            Transport::Grpc(_) => Limits { response: None, ..limits },
        }
    }

    /// Whether there are defaults or policies for its methods.
    pub(crate) fn has_defaults(&self) -> bool {
        self.defaults.is_some()
    }

    /// Whether there are interceptors.
    pub(crate) fn is_intercepted(&self) -> bool {
        self.around.is_some()
    }

    /// The interceptor scope of a call, if there are interceptors.
    pub(crate) fn scope(&self, method: u16, mut parts: CallParts) -> Result<Scope, CallParts> {
        let Some(around) = &self.around else { return Err(parts) };
        parts.timeout = self.time_of(method, parts.timeout);
        let timekeeper = self.transport.timekeeper();
        Ok(Scope::new(around, method, Side::Client, parts).timed_by(timekeeper))
    }

    /// Calls the unary method with this index. The call has started when this returns, unless an
    /// interceptor waits: then it starts when the future is polled.
    #[inline]
    pub fn unary<Q: Message, P: Message>(&self, index: u16, request: Request<Q>) -> Unary<P> {
        if self.around.is_some() {
            return self.unary_around(index, request);
        }
        self.unary_alone(index, request)
    }

    /// Calls a unary method through its interceptors.
    #[cold]
    fn unary_around<Q: Message, P: Message>(&self, index: u16, request: Request<Q>) -> Unary<P> {
        let (message, parts) = request.into_parts();
        let scope = self.scope(index, parts);
        let scope = scope.expect("there are interceptors");
        let bound = self.clone();
        let call = async move {
            around_call(scope, message, |request| bound.unary_alone(index, request)).await
        };
        let stage = Stage::Around(Box::new(Intercepted::begin(Box::pin(call))));
        Unary::at(stage)
    }

    #[inline(always)]
    fn unary_alone<Q: Message, P: Message>(&self, index: u16, request: Request<Q>) -> Unary<P> {
        #[allow(irrefutable_let_patterns, reason = "not with gRPC")]
        if let Transport::Datagrams(shared) = &self.transport
            && let Some(local) = current_with(shared.runtime.loop_id)
            && local.deadline() == Time::NEVER
            && self.defaults.is_none()
            && request.is_plain()
        {
            let message = request.into_plain_message();
            return Unary::at(self.begin_plain(local, shared.channel, index, message));
        }
        Unary::at(self.unary_otherwise(index, request))
    }

    /// Starts a call from the loop's thread that carries nothing besides its message.
    #[inline(always)]
    fn begin_plain<Q: Message, P>(
        &self,
        local: &Local,
        channel: u32,
        method: u16,
        request: Msg<Q>,
    ) -> Stage<P> {
        let request = match framed_native(request, RequestHead::PLAIN) {
            Ok(request) => request,
            Err(error) => return Stage::Failed(unencodable(error)),
        };
        let head = || CallHead {
            channel,
            service: self.service,
            method,
            wait_for_ready: false,
            retry_mode: RetryMode::Plain,
            deadline: Time::NEVER,
            recode: Recode::of::<Q>(Codec::IDENTITY),
            routing: Routing::default(),
        };
        Stage::begun(local, local.begin_with(head, request))
    }

    #[inline(never)]
    fn unary_otherwise<Q: Message, P: Message>(&self, index: u16, request: Request<Q>) -> Stage<P> {
        let limits = self.limits(index);
        if !limits.is_any() {
            return self.unary_unlimited(index, request);
        }
        let call = |request| Unary::at(self.unary_unlimited(index, request));
        let limited = Limited::new(limits, request, call);
        limited.map_or_else(Stage::Failed, |call| Stage::Limited(Box::new(call)))
    }

    fn unary_unlimited<Q: Message, P: Message>(&self, index: u16, request: Request<Q>) -> Stage<P> {
        let begun = match &self.transport {
            Transport::Datagrams(shared) => match current_with(shared.runtime.loop_id) {
                Some(local) => self.begin(local, shared.channel, index, request),
                None => self.begin_far(shared, index, request),
            },
            #[cfg(feature = "grpc")]
            Transport::Grpc(channel) => self.begin_grpc(channel, index, request),
        };
        begun.unwrap_or_else(Stage::Failed)
    }

    fn begin<Q: Message, P: Message>(
        &self,
        local: &Local,
        channel: u32,
        method: u16,
        request: Request<Q>,
    ) -> Result<Stage<P>, Status> {
        let (NewCall { mut head, request }, timeout) = self.new_call(channel, method, request)?;
        head.deadline = timeout.map_or(Time::NEVER, |timeout| local.now() + timeout);
        Ok(Stage::begun(local, local.begin_with(|| head, request)))
    }

    /// Starts a call whose loop is on another thread.
    #[cold]
    fn begin_far<Q: Message, P: Message>(
        &self,
        shared: &ChannelShared,
        method: u16,
        request: Request<Q>,
    ) -> Result<Stage<P>, Status> {
        let (call, timeout) = self.new_call(shared.channel, method, request)?;
        let remote = RemoteCompletion::new(shared.thread.clone());
        let call = RemoteCall { call, timeout, remote: remote.clone() };
        shared.runtime.send(Command::Begin(Box::new(call)));
        Ok(Stage::RemoteCompletion(shared.runtime.loop_id, remote))
    }

    /// A call and its timeout. Its deadline is its loop's to set.
    fn new_call<Q: Message>(
        &self,
        channel: u32,
        method: u16,
        request: Request<Q>,
    ) -> Result<(NewCall, Option<Duration>), Status> {
        let (message, mut parts) = request.into_parts();
        let settings = self.settings(method, &mut parts)?;
        let CallSettings { timeout, wait_for_ready, codec, retry_mode, routing, .. } = settings;
        let request = request_bytes(message, &parts.metadata, &parts.extensions)?;
        let head = CallHead {
            channel,
            service: self.service,
            method,
            wait_for_ready,
            retry_mode,
            deadline: Time::NEVER,
            recode: Recode::of::<Q>(codec),
            routing,
        };
        Ok((NewCall { head, request }, timeout))
    }
}

/// R5, R6: a request with its head. The remaining time is filled in when the request is sent.
#[inline]
fn request_bytes<Q: Message>(
    message: Msg<Q>,
    metadata: &petasos_call::Metadata,
    extensions: &Extensions,
) -> Result<MsgBuf, Status> {
    let image = Msg::into_native(message).map_err(unencodable)?;
    let tail = request_tail(metadata, extensions);
    let head = RequestHead {
        encoding: Encoding::Native,
        codec: Codec::IDENTITY,
        answer: Answer { native: true, codec: Codec::IDENTITY },
        has_tail: !tail.is_empty(),
        time_left_us: 0,
    };
    Ok(framed(image, head.to_bytes(), &tail))
}

/// A unary call. It runs whether or not it is polled; dropping it cancels it (R11).
#[must_use = "a call whose future is dropped is cancelled"]
pub struct Unary<P> {
    stage: Stage<P>,
    response: PhantomData<fn() -> P>,
}

/// The state of a call. It is two words long, so that it stays in registers: writing a future piece
/// by piece and then copying it as a whole would cost more than the rest of the call.
enum Stage<P> {
    /// In the call table of the loop with this number.
    Begun(u32, CallKey),
    /// The outcome arrives in a shared cell, because the call was started or polled on another
    /// thread.
    RemoteCompletion(u32, Arc<RemoteCompletion>),
    /// An HTTP/2 stream. It is boxed to keep this enum small.
    #[cfg(feature = "grpc")]
    Grpc(Box<GrpcUnary>),
    /// Running through interceptors.
    Around(Box<Intercepted<P>>),
    /// The response may be longer than its policy allows.
    Limited(Box<Limited<P>>),
    Failed(Status),
    Over,
}

const _: () = assert!(size_of::<Stage<()>>() == 16);

impl<P> Stage<P> {
    #[inline(always)]
    fn begun(local: &Local, at: CallKey) -> Stage<P> {
        Stage::Begun(local.loop_id, at)
    }
}

impl<P> Unary<P> {
    #[inline(always)]
    fn at(stage: Stage<P>) -> Unary<P> {
        Unary { stage, response: PhantomData }
    }
}

impl<P: Message> Future for Unary<P> {
    type Output = Result<Response<P>, Status>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Stage::Begun(loop_id, call) = self.stage
            && let Some(local) = current_with(loop_id)
        {
            let Some(outcome) = local.poll_call(call, cx.waker()) else {
                return Poll::Pending;
            };
            // A call that has started needs no drop.
            core::mem::forget(core::mem::replace(&mut self.stage, Stage::Over));
            return Poll::Ready(match outcome {
                Ok(bytes) => read_response(bytes),
                Err(status) => Err(status),
            });
        }
        self.poll_remote(cx)
    }
}

impl<P: Message> Unary<P> {
    /// Polls a call that is not in this thread's loop.
    #[cold]
    fn poll_remote(&mut self, cx: &mut Context<'_>) -> Poll<Result<Response<P>, Status>> {
        if let Stage::Begun(loop_id, call) = self.stage {
            let remote = RemoteCompletion::new(None);
            send(loop_id, Command::Move { call, remote: remote.clone() });
            self.stage = Stage::RemoteCompletion(loop_id, remote);
        }
        let outcome = match &mut self.stage {
            Stage::RemoteCompletion(_, remote) => match remote.poll(cx.waker()) {
                Some(outcome) => outcome,
                None => return Poll::Pending,
            },
            #[cfg(feature = "grpc")]
            Stage::Grpc(call) => {
                let outcome = core::task::ready!(call.poll(cx));
                self.stage = Stage::Over;
                return Poll::Ready(outcome);
            }
            Stage::Around(call) => {
                let outcome = core::task::ready!(call.poll(cx));
                self.stage = Stage::Over;
                return Poll::Ready(outcome);
            }
            Stage::Limited(call) => {
                let outcome = core::task::ready!(call.poll(cx));
                self.stage = Stage::Over;
                return Poll::Ready(outcome);
            }
            Stage::Failed(status) => Err(status.clone()),
            Stage::Begun(..) | Stage::Over => panic!("a call is not polled once it is over"),
        };
        self.stage = Stage::Over;
        Poll::Ready(outcome.and_then(read_response))
    }
}

impl<P> Unary<P> {
    fn give_up(&mut self) {
        let (loop_id, call) = match core::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Begun(loop_id, call) => (loop_id, call),
            Stage::RemoteCompletion(loop_id, remote) => match remote.give_up() {
                Some(call) => (loop_id, call),
                None => return,
            },
            // Dropping the boxed call cancels it.
            #[cfg(feature = "grpc")]
            Stage::Grpc(_) => return,
            Stage::Around(_) | Stage::Limited(_) | Stage::Failed(_) | Stage::Over => return,
        };
        match current_with(loop_id) {
            Some(local) => local.give_up(call),
            None => send(loop_id, Command::GiveUp(call)),
        }
    }
}

impl<P> Drop for Unary<P> {
    #[inline]
    fn drop(&mut self) {
        if let Stage::Begun(..) | Stage::RemoteCompletion(..) = self.stage {
            self.give_up();
        }
    }
}

impl<P> fmt::Debug for Unary<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_over = matches!(self.stage, Stage::Over);
        f.debug_struct("Unary").field("over", &is_over).finish_non_exhaustive()
    }
}
