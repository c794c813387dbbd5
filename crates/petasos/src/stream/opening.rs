//! Calls with streams, before they have begun.

use core::fmt;
use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;

use petasos_call::{Codec, Metadata, MetadataError, Status, TraceContext};
use petasos_message::Message;
use petasos_rpc::codec::{Encoded, First};
use petasos_rpc::compression::ChosenCodec;
use petasos_rpc::intercept::{BoxFuture, Later, around_opening};
use petasos_rpc::limits::{self, Limits};
use petasos_rpc::request::{CallParts, Request, RequestParts as _};
use petasos_runtime::stream_handle::Opened;

use super::{Ends, Sender, Sink, Source, Streaming};
use crate::caller::ServiceClient;
use crate::transport::Transport;

/// What is to be called.
struct Plan {
    service: ServiceClient,
    method: u16,
    head: CallParts,
    /// The only request, after which the caller's half closes.
    first: Option<First>,
    /// Where that looks for interceptors, if there are any.
    hooks: Option<Later>,
    /// What the only request is refused with, if it is too long.
    refusal: Option<Status>,
}

/// A call with streams that begins when this is awaited: it gives them once a session has taken the
/// call. Whether the server does, the streams tell.
#[must_use = "a call does not begin before it is awaited"]
pub struct Opening<O> {
    stage: Stage,
    limits: Limits,
    make: fn(Ends) -> O,
}

enum Stage {
    Planned(Box<Plan>),
    /// On the way over datagrams.
    Datagrams(Opened),
    /// On the way over HTTP/2.
    #[cfg(feature = "grpc")]
    Grpc(super::grpc::GrpcOpening),
    /// Within interceptors.
    Around(BoxFuture<'static, Result<Ends, Status>>),
    Over,
}

impl<O> Opening<O> {
    fn new(plan: Plan, make: fn(Ends) -> O) -> Opening<O> {
        let limits = plan.service.limits(plan.method);
        Opening { stage: Stage::Planned(Box::new(plan)), limits, make }
    }

    /// Lets the call take no longer than `timeout`, in place of what is left of the call in whose
    /// handler it is made (R10). Nothing once the call has begun.
    pub fn with_timeout(mut self, timeout: Duration) -> Opening<O> {
        if let Stage::Planned(plan) = &mut self.stage {
            plan.head.timeout = Some(timeout);
        }
        self
    }

    /// Adds an entry to the metadata. Nothing once the call has begun.
    ///
    /// # Errors
    /// If key or value may not be; see [`MetadataError`].
    pub fn with_metadata(mut self, key: &str, value: &str) -> Result<Opening<O>, MetadataError> {
        if let Stage::Planned(plan) = &mut self.stage {
            plan.head.metadata.append(key, value)?;
        }
        Ok(self)
    }

    /// Compresses requests with this codec in place of the channel's; see
    /// [`Request::with_codec`](crate::Request::with_codec). Nothing once the call has begun.
    pub fn with_codec(mut self, codec: Codec) -> Opening<O> {
        if let Stage::Planned(plan) = &mut self.stage {
            plan.head.extensions.insert(ChosenCodec(codec));
        }
        self
    }

    /// Makes the call part of a distributed trace. Nothing once the call has begun.
    pub fn with_trace(mut self, trace: TraceContext) -> Opening<O> {
        if let Stage::Planned(plan) = &mut self.stage {
            plan.head.extensions.insert(trace);
        }
        self
    }

    /// Has these metadata in place of those it had. Nothing once the call has begun.
    pub fn with_all_metadata(mut self, metadata: Metadata) -> Opening<O> {
        if let Stage::Planned(plan) = &mut self.stage {
            plan.head.metadata = metadata;
        }
        self
    }
}

impl Stage {
    /// Begins a call.
    fn begin(mut plan: Plan) -> Result<Stage, Status> {
        let head = core::mem::take(&mut plan.head);
        match plan.service.scope(plan.method, head) {
            Ok(scope) => {
                let hooks = plan.hooks.take();
                let opening = around_opening(scope, hooks, move |head| async move {
                    let mut stage = Stage::begin_alone(Plan { head, ..plan })?;
                    poll_fn(|cx| stage.poll(cx)).await
                });
                Ok(Stage::Around(Box::pin(async {
                    let (ends, watched) = opening.await?;
                    Ok(Ends { watched: Some(watched), ..ends })
                })))
            }
            Err(head) => Stage::begin_alone(Plan { head, ..plan }),
        }
    }

    /// Begins a call within its interceptors.
    fn begin_alone(plan: Plan) -> Result<Stage, Status> {
        let Plan { service, method, head, first, refusal, .. } = plan;
        refusal.map_or(Ok(()), Err)?;
        match service.transport() {
            Transport::Datagrams(shared) => {
                let mut parts = head;
                let settings = service.settings(method, &mut parts)?;
                let method = (service.service(), method);
                let opened = Opened::begin(shared, method, parts, settings, first);
                Ok(Stage::Datagrams(opened))
            }
            #[cfg(feature = "grpc")]
            Transport::Grpc(channel) => {
                super::grpc::open(channel, &service, method, head, first).map(Stage::Grpc)
            }
        }
    }

    /// The ends of a call that has begun.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Ends, Status>> {
        match self {
            Stage::Datagrams(opened) => opened.poll(cx).map_ok(|[reader, writer]| {
                Ends::new(Sink::Datagrams(writer), Source::Datagrams(reader))
            }),
            #[cfg(feature = "grpc")]
            Stage::Grpc(opening) => opening.as_mut().poll(cx),
            Stage::Around(opening) => opening.as_mut().poll(cx),
            Stage::Planned(_) | Stage::Over => panic!("a call is not polled once it has begun"),
        }
    }
}

impl<O> Future for Opening<O> {
    type Output = Result<O, Status>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if matches!(this.stage, Stage::Planned(_))
            && let Stage::Planned(plan) = core::mem::replace(&mut this.stage, Stage::Over)
        {
            this.stage = Stage::begin(*plan)?;
        }
        let ends = ready!(this.stage.poll(cx));
        this.stage = Stage::Over;
        Poll::Ready(ends.map(|ends| (this.make)(Ends { limits: this.limits, ..ends })))
    }
}

impl<O> fmt::Debug for Opening<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_planned = matches!(self.stage, Stage::Planned(_));
        f.debug_struct("Opening").field("begun", &!is_planned).finish_non_exhaustive()
    }
}

impl ServiceClient {
    /// Calls the method with this index, whose responses are a stream.
    pub fn server_streaming<Q: Message, P: Message>(
        &self,
        method: u16,
        request: Request<Q>,
    ) -> Opening<Streaming<P>> {
        let (message, head) = request.into_parts();
        let hooks = self.is_intercepted().then(Later::default);
        let seen = hooks.clone();
        let refusal = limits::check("request", &message, self.limits(method).request).err();
        let first: First = Box::new(move |native, room_bytes| {
            if let Some(tap) = seen.as_ref().and_then(|seen| seen.get()) {
                tap.message(&message)?;
            }
            Encoded::new(message, native, room_bytes)
        });
        let (service, first) = (self.clone(), Some(first));
        let plan = Plan { service, method, head, first, hooks, refusal };
        Opening::new(plan, |ends| ends.split::<Q, P>().1)
    }

    /// Calls the method with this index, both of whose sides are streams.
    pub fn bidirectional<Q: Message, P: Message>(
        &self,
        method: u16,
    ) -> Opening<(Sender<Q>, Streaming<P>)> {
        let (service, head) = (self.clone(), CallParts::default());
        let plan = Plan { service, method, head, first: None, hooks: None, refusal: None };
        Opening::new(plan, Ends::split)
    }
}
