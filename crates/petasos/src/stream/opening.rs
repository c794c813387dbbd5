//! Calls with streams that have not started yet.

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

/// The call that is to be started.
struct Plan {
    service: ServiceClient,
    method: u16,
    head: CallParts,
    /// The only request. The client's half closes after it.
    first: Option<First>,
    /// Where the request finds the interceptors, if there are any.
    hooks: Option<Later>,
    /// The error for a request that is too long.
    refusal: Option<Status>,
}

/// A call with streams, which starts when this is awaited. It returns the streams once a session
/// carries the call. Whether the server accepts the call can be seen from the streams.
#[must_use = "a call does not begin before it is awaited"]
pub struct Opening<O> {
    stage: Stage,
    limits: Limits,
    make: fn(Ends) -> O,
}

enum Stage {
    Planned(Box<Plan>),
    /// Starting over datagrams.
    Datagrams(Opened),
    /// Starting over HTTP/2.
    #[cfg(feature = "grpc")]
    Grpc(super::grpc::GrpcOpening),
    /// Running through interceptors.
    Around(BoxFuture<'static, Result<Ends, Status>>),
    Over,
}

impl<O> Opening<O> {
    fn new(plan: Plan, make: fn(Ends) -> O) -> Opening<O> {
        let limits = plan.service.limits(plan.method);
        Opening { stage: Stage::Planned(Box::new(plan)), limits, make }
    }

    /// Sets the call's timeout. It replaces the remaining time of the call whose handler makes this
    /// call (R10). No effect once the call has started.
    pub fn with_timeout(mut self, timeout: Duration) -> Opening<O> {
        if let Stage::Planned(plan) = &mut self.stage {
            plan.head.timeout = Some(timeout);
        }
        self
    }

    /// Adds an entry to the metadata. No effect once the call has started.
    ///
    /// # Errors
    /// If the key or the value is invalid; see [`MetadataError`].
    pub fn with_metadata(mut self, key: &str, value: &str) -> Result<Opening<O>, MetadataError> {
        if let Stage::Planned(plan) = &mut self.stage {
            plan.head.metadata.append(key, value)?;
        }
        Ok(self)
    }

    /// Compresses requests with this codec instead of the channel's; see
    /// [`Request::with_codec`](crate::Request::with_codec). No effect once the call has started.
    pub fn with_codec(mut self, codec: Codec) -> Opening<O> {
        if let Stage::Planned(plan) = &mut self.stage {
            plan.head.extensions.insert(ChosenCodec(codec));
        }
        self
    }

    /// Makes the call part of a distributed trace. No effect once the call has started.
    pub fn with_trace(mut self, trace: TraceContext) -> Opening<O> {
        if let Stage::Planned(plan) = &mut self.stage {
            plan.head.extensions.insert(trace);
        }
        self
    }

    /// Replaces all metadata. No effect once the call has started.
    pub fn with_all_metadata(mut self, metadata: Metadata) -> Opening<O> {
        if let Stage::Planned(plan) = &mut self.stage {
            plan.head.metadata = metadata;
        }
        self
    }
}

impl Stage {
    /// Starts a call.
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

    /// Starts a call inside its interceptors.
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

    /// Polls for the ends of the started call.
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
    /// Calls the server-streaming method with this index.
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

    /// Calls the bidirectional method with this index.
    pub fn bidirectional<Q: Message, P: Message>(
        &self,
        method: u16,
    ) -> Opening<(Sender<Q>, Streaming<P>)> {
        let (service, head) = (self.clone(), CallParts::default());
        let plan = Plan { service, method, head, first: None, hooks: None, refusal: None };
        Opening::new(plan, Ends::split)
    }
}
