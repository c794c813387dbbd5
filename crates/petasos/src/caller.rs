//! Services bound to channels, and unary calls.

mod begun;

use core::fmt;
use core::future::Future;
use core::marker::PhantomData;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std::sync::Arc;

use petasos_base::Time;
use petasos_buf::MsgBuf;
use petasos_call::policy::MethodPolicy;
use petasos_call::{Answer, Codec, Encoding, Failure, Metadata, RequestHead, Status};
use petasos_message::{Message, Msg};

use self::begun::Begun;
use crate::channel::{Channel, ChannelShared, ServiceDefaults, Transport, sooner};
use crate::codec::{framed, framed_native, read_response, unencodable};
use crate::compression::ChosenCodec;
use crate::home::away::{At, Away};
use crate::home::calls::{CallHead, NewCall, Tries};
use crate::home::local::{Local, at_home, here};
use crate::home::post;
use crate::home::shared::{FarCall, Letter};
use crate::intercept::{Around, Beside, Extensions, Intercepted, Scope, Side, around_call};
use crate::limits::{Limited, Limits};
use crate::recode::Recode;
use crate::request::{Request, Response, request_tail};
#[cfg(feature = "grpc")]
use crate::rt::{MethodInfo, ServiceInfo};
use crate::server::workers;
use crate::timer::Timekeeper;

/// A service on a channel: what clients of generated code hold.
#[derive(Clone, Debug)]
pub struct Bound {
    channel: Channel,
    service: u32,
    defaults: Option<Arc<ServiceDefaults>>,
    /// Interceptors, if there are any.
    around: Option<Arc<Around>>,
    /// Over gRPC: the methods' paths, by index.
    #[cfg(feature = "grpc")]
    paths: Option<Arc<[petasos_grpc::MethodPath]>>,
}

impl Bound {
    pub(crate) fn new(
        channel: Channel,
        service: u32,
        defaults: Option<Arc<ServiceDefaults>>,
        around: Option<Arc<Around>>,
    ) -> Bound {
        Bound {
            channel,
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
        channel: Channel,
        info: &'static ServiceInfo,
        defaults: Option<Arc<ServiceDefaults>>,
        around: Option<Arc<Around>>,
    ) -> Bound {
        let path = |method: &MethodInfo| {
            let path = petasos_grpc::MethodPath::new(&format!("/{}/{}", info.name, method.name));
            path.expect("protobuf's names can stand in a path")
        };
        let paths = Some(info.methods.iter().map(path).collect());
        Bound { channel, service: 0, defaults, around, paths }
    }

    /// Over gRPC: what a call of a method begins with, and its path.
    #[cfg(feature = "grpc")]
    pub(crate) fn grpc_call(
        &self,
        method: u16,
        beside: Beside,
    ) -> Result<(&petasos_grpc::MethodPath, crate::channel::grpc::GrpcHead), Status> {
        let Beside { metadata, timeout, extensions, .. } = beside;
        let mut metadata = crate::request::with_traceparent(metadata, &extensions);
        let mut timeout = timeout.or_else(inherited);
        let (mut wait_for_ready, mut response_bytes_max) = (false, None);
        if let Some(defaults) = &self.defaults {
            let policy = &defaults.apply(method, &mut metadata).policy;
            (wait_for_ready, response_bytes_max) =
                (policy.wait_for_ready, policy.response_bytes_max);
            timeout = policy.timeout(timeout);
        }
        if timeout.is_some_and(|timeout| timeout.is_zero()) {
            return Err(Failure::Timeout.status());
        }
        let paths = self.paths.as_ref().expect("services on gRPC channels have paths");
        let Transport::Grpc(channel) = &self.channel.transport else {
            unreachable!("only services on gRPC channels are called so")
        };
        let compression = channel.compression_of(&extensions);
        let receive_bytes_max = response_bytes_max.map(|max| channel.receive_bytes_max(max));
        let client = petasos_grpc::ClientHead { metadata, timeout, compression, receive_bytes_max };
        let head = crate::channel::grpc::GrpcHead { client, wait_for_ready };
        Ok((&paths[usize::from(method)], head))
    }

    /// Begins a call over gRPC.
    #[cfg(feature = "grpc")]
    fn begin_grpc<Q: Message, P: Message>(
        &self,
        channel: &crate::channel::grpc::GrpcChannel,
        method: u16,
        request: Request<Q>,
    ) -> Result<Stage<P>, Status> {
        let (message, beside) = request.apart();
        let (path, head) = self.grpc_call(method, beside)?;
        let image = Msg::to_protobuf(&message, petasos_call::HEAD_BYTES).map_err(unencodable)?;
        let of = (self.defaults.as_ref(), method);
        let call = crate::channel::grpc::GrpcUnary::new(channel, path, head, image.into_buf(), of)?;
        Ok(Stage::Grpc(Box::new(call)))
    }

    /// What it is called over.
    pub(crate) fn transport(&self) -> &Transport {
        &self.channel.transport
    }

    /// The service's place in its channel.
    pub(crate) fn service(&self) -> u32 {
        self.service
    }

    /// What applies to a call of a method, with the metadata of all calls added to its own, and
    /// what its messages are to be compressed with.
    pub(crate) fn apply(
        &self,
        method: u16,
        metadata: &mut Metadata,
    ) -> Option<(&MethodPolicy, Codec)> {
        let defaults = self.defaults.as_ref()?;
        Some((&defaults.apply(method, metadata).policy, defaults.codec))
    }

    /// The time that a call has, if its request says so much.
    fn time_of(&self, method: u16, asked: Option<Duration>) -> Option<Duration> {
        let timeout = asked.or_else(inherited);
        let policy = self.defaults.as_ref().map(|defaults| defaults.policy(method));
        policy.map_or(timeout, |policy| policy.timeout(timeout))
    }

    /// How long a method's messages may be, as far as its transport does not see to it.
    #[inline]
    pub(crate) fn limits(&self, method: u16) -> Limits {
        let defaults = self.defaults.as_ref();
        let limits = defaults.map(|defaults| Limits::of(defaults.policy(method)));
        let limits = limits.unwrap_or_default();
        match self.channel.transport {
            Transport::Datagrams(_) => limits,
            #[cfg(feature = "grpc")]
            Transport::Grpc(_) => Limits { response: None, ..limits },
        }
    }

    /// Whether there are interceptors.
    pub(crate) fn is_intercepted(&self) -> bool {
        self.around.is_some()
    }

    /// What goes around a call, if anything does.
    pub(crate) fn scope(&self, method: u16, mut beside: Beside) -> Result<Scope, Beside> {
        let Some(around) = &self.around else { return Err(beside) };
        beside.timeout = self.time_of(method, beside.timeout);
        let timekeeper = Timekeeper::of(&self.channel.transport);
        Ok(Scope::new(around, method, Side::Client, beside).timed_by(timekeeper))
    }

    /// Calls the unary method with this index. The call is under way when this returns, unless an
    /// interceptor waits: then it begins when it is polled.
    #[inline]
    pub fn unary<Q: Message, P: Message>(&self, index: u16, request: Request<Q>) -> Unary<P> {
        if self.around.is_some() {
            return self.unary_around(index, request);
        }
        self.unary_alone(index, request)
    }

    /// Calls a unary method by way of interceptors.
    #[cold]
    fn unary_around<Q: Message, P: Message>(&self, index: u16, request: Request<Q>) -> Unary<P> {
        let (message, beside) = request.apart();
        let scope = self.scope(index, beside);
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
        if let Transport::Datagrams(shared) = &self.channel.transport
            && let Some(local) = at_home(shared.home.home)
            && local.deadline() == Time::NEVER
            && self.defaults.is_none()
            && request.is_plain()
        {
            let message = request.into_plain_message();
            return Unary::at(self.begin_plain(local, shared.channel, index, message));
        }
        Unary::at(self.unary_otherwise(index, request))
    }

    /// A call at home with nothing beside its message.
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
            tries: Tries::Plain,
            deadline: Time::NEVER,
            recode: Recode::of::<Q>(Codec::IDENTITY),
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
        let limited = limits.unary(request, call);
        limited.map_or_else(Stage::Failed, |call| Stage::Limited(Box::new(call)))
    }

    fn unary_unlimited<Q: Message, P: Message>(&self, index: u16, request: Request<Q>) -> Stage<P> {
        let begun = match &self.channel.transport {
            Transport::Datagrams(shared) => match at_home(shared.home.home) {
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
        let (message, beside) = request.apart();
        let Beside { mut metadata, timeout, extensions, .. } = beside;
        let mut deadline = match timeout {
            Some(timeout) => local.now() + timeout,
            None => local.deadline(),
        };
        let (mut wait_for_ready, mut codec, mut tries) = Default::default();
        if let Some(defaults) = &self.defaults {
            let applied = defaults.apply(method, &mut metadata);
            let policy = &applied.policy;
            (wait_for_ready, codec, tries) = (policy.wait_for_ready, defaults.codec, applied.tries);
            deadline = sooner(deadline, local.now(), policy.timeout);
        }
        let codec = ChosenCodec::or(&extensions, codec);
        if deadline != Time::NEVER && deadline <= local.now() {
            return Err(Failure::Timeout.status());
        }
        let request = request_bytes(message, &metadata, &extensions)?;
        let (service, recode) = (self.service, Recode::of::<Q>(codec));
        let head = CallHead { channel, service, method, wait_for_ready, tries, deadline, recode };
        Ok(Stage::begun(local, local.begin_with(|| head, request)))
    }

    /// Begins a call whose loop is on another thread.
    #[cold]
    fn begin_far<Q: Message, P: Message>(
        &self,
        shared: &ChannelShared,
        method: u16,
        request: Request<Q>,
    ) -> Result<Stage<P>, Status> {
        let (message, beside) = request.apart();
        let Beside { mut metadata, timeout, extensions, .. } = beside;
        let mut timeout = timeout.or_else(inherited);
        let (mut wait_for_ready, mut codec, mut tries) = Default::default();
        if let Some(defaults) = &self.defaults {
            let applied = defaults.apply(method, &mut metadata);
            let policy = &applied.policy;
            (wait_for_ready, codec, tries) = (policy.wait_for_ready, defaults.codec, applied.tries);
            timeout = policy.timeout(timeout);
        }
        let codec = ChosenCodec::or(&extensions, codec);
        if timeout.is_some_and(|timeout| timeout.is_zero()) {
            return Err(Failure::Timeout.status());
        }
        let request = request_bytes(message, &metadata, &extensions)?;
        let (channel, service, deadline) = (shared.channel, self.service, Time::NEVER);
        let recode = Recode::of::<Q>(codec);
        let head = CallHead { channel, service, method, wait_for_ready, tries, deadline, recode };
        let away = Away::new(shared.thread.clone());
        let call = FarCall { call: NewCall { head, request }, timeout, away: away.clone() };
        shared.home.post(Letter::Begin(Box::new(call)));
        Ok(Stage::Away(shared.home.home, away))
    }
}

/// What is left of the call in whose handler this runs (R10), on another loop or a worker.
pub(crate) fn inherited() -> Option<Duration> {
    let Some(local) = here() else { return workers::time_left() };
    let deadline = local.deadline();
    (deadline != Time::NEVER).then(|| deadline - local.now())
}

/// R5, R6: a request with its head; the time left is put in when it is sent.
#[inline]
fn request_bytes<Q: Message>(
    message: Msg<Q>,
    metadata: &Metadata,
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

/// Where a call is. Two words, so that they stay in registers: to write a future piece by piece and
/// to copy it as a whole at once costs more than all else of it.
enum Stage<P> {
    /// In the table of the loop of this number.
    Begun(u32, Begun),
    /// Its outcome comes to a cell, since it was begun or polled on another thread.
    Away(u32, Arc<Away>),
    /// A stream of HTTP/2. In a box, so that other calls are short.
    #[cfg(feature = "grpc")]
    Grpc(Box<crate::channel::grpc::GrpcUnary>),
    /// Within interceptors.
    Around(Box<Intercepted<P>>),
    /// Its response may be too long for its policy.
    Limited(Box<Limited<P>>),
    Failed(Status),
    Over,
}

const _: () = assert!(size_of::<Stage<()>>() == 16);

impl<P> Stage<P> {
    #[inline(always)]
    fn begun(local: &Local, at: At) -> Stage<P> {
        Stage::Begun(local.home, Begun::new(at))
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
        if let Stage::Begun(home, begun) = self.stage
            && let Some(local) = at_home(home)
        {
            let Some(outcome) = local.poll_call(begun.at(), cx.waker()) else {
                return Poll::Pending;
            };
            // What was begun has nothing to be dropped.
            core::mem::forget(core::mem::replace(&mut self.stage, Stage::Over));
            return Poll::Ready(match outcome {
                Ok(bytes) => read_response(bytes),
                Err(status) => Err(status),
            });
        }
        self.poll_away(cx)
    }
}

impl<P: Message> Unary<P> {
    /// Polls what is not in this thread's loop.
    #[cold]
    fn poll_away(&mut self, cx: &mut Context<'_>) -> Poll<Result<Response<P>, Status>> {
        if let Stage::Begun(home, begun) = self.stage {
            let away = Away::new(None);
            post(home, Letter::Move { at: begun.at(), away: away.clone() });
            self.stage = Stage::Away(home, away);
        }
        let outcome = match &mut self.stage {
            Stage::Away(_, away) => match away.poll(cx.waker()) {
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
        let (home, at) = match core::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Begun(home, begun) => (home, begun.at()),
            Stage::Away(home, away) => match away.give_up() {
                Some(at) => (home, at),
                None => return,
            },
            // Dropping it gives it up.
            #[cfg(feature = "grpc")]
            Stage::Grpc(_) => return,
            Stage::Around(_) | Stage::Limited(_) | Stage::Failed(_) | Stage::Over => return,
        };
        match at_home(home) {
            Some(local) => local.give_up(at),
            None => post(home, Letter::GiveUp(at)),
        }
    }
}

impl<P> Drop for Unary<P> {
    #[inline]
    fn drop(&mut self) {
        if let Stage::Begun(..) | Stage::Away(..) = self.stage {
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
