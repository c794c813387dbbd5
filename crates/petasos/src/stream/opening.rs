//! Calls with streams, before they have begun.

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;

use petasos_call::{Metadata, MetadataError, Status};
use petasos_message::Message;

use super::{Encoded, Ends, Sender, Streaming};
use crate::caller::Bound;
use crate::channel::Transport;
use crate::home::streams::Opened;
use crate::request::Request;

/// Encodes the only request of a call: natively or not, behind so many bytes of room.
pub(crate) type First = Box<dyn FnOnce(bool, usize) -> Result<Encoded, Status> + Send>;

/// What goes with a call beside its messages.
#[derive(Debug, Default)]
pub(crate) struct CallHead {
    pub(crate) metadata: Metadata,
    pub(crate) timeout: Option<Duration>,
}

/// What is to be called.
struct Plan {
    service: Bound,
    method: u16,
    head: CallHead,
    /// The only request, after which the caller's half closes.
    first: Option<First>,
}

/// A call with streams that begins when this is awaited: it gives them once a session has taken the
/// call. Whether the server does, the streams tell.
#[must_use = "a call does not begin before it is awaited"]
pub struct Opening<O> {
    stage: Stage,
    make: fn(Ends) -> O,
}

enum Stage {
    Planned(Box<Plan>),
    /// On the way over datagrams.
    Datagrams(Opened),
    /// On the way over HTTP/2.
    #[cfg(feature = "grpc")]
    Grpc(super::grpc::GrpcOpening),
    Over,
}

impl<O> Opening<O> {
    fn new(plan: Plan, make: fn(Ends) -> O) -> Opening<O> {
        Opening { stage: Stage::Planned(Box::new(plan)), make }
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

    /// Has these metadata in place of those it had. Nothing once the call has begun.
    pub fn with_all_metadata(mut self, metadata: Metadata) -> Opening<O> {
        if let Stage::Planned(plan) = &mut self.stage {
            plan.head.metadata = metadata;
        }
        self
    }

    /// Begins the call.
    fn begin(plan: Plan) -> Result<Stage, Status> {
        let Plan { service, method, head, first } = plan;
        match service.transport() {
            Transport::Datagrams(shared) => {
                Opened::begin(&service, shared, method, head, first).map(Stage::Datagrams)
            }
            #[cfg(feature = "grpc")]
            Transport::Grpc(channel) => {
                super::grpc::open(channel, &service, method, head, first).map(Stage::Grpc)
            }
        }
    }
}

impl<O> Future for Opening<O> {
    type Output = Result<O, Status>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        loop {
            let ends = match &mut this.stage {
                Stage::Planned(_) => {
                    let Stage::Planned(plan) = core::mem::replace(&mut this.stage, Stage::Over)
                    else {
                        unreachable!("it was just looked at")
                    };
                    this.stage = Opening::<O>::begin(*plan)?;
                    continue;
                }
                Stage::Datagrams(opened) => ready!(opened.poll(cx)),
                #[cfg(feature = "grpc")]
                Stage::Grpc(opening) => ready!(opening.as_mut().poll(cx)),
                Stage::Over => panic!("a call is not polled once it has begun"),
            };
            this.stage = Stage::Over;
            return Poll::Ready(ends.map(this.make));
        }
    }
}

impl<O> fmt::Debug for Opening<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_planned = matches!(self.stage, Stage::Planned(_));
        f.debug_struct("Opening").field("begun", &!is_planned).finish_non_exhaustive()
    }
}

impl Bound {
    /// Calls the method with this index, whose responses are a stream.
    pub fn server_streaming<Q: Message, P: Message>(
        &self,
        method: u16,
        request: Request<Q>,
    ) -> Opening<Streaming<P>> {
        let (message, metadata, timeout) = request.into_parts();
        let first: First =
            Box::new(move |native, room_bytes| Encoded::new(message, native, room_bytes));
        let head = CallHead { metadata, timeout };
        let plan = Plan { service: self.clone(), method, head, first: Some(first) };
        Opening::new(plan, |ends| Streaming::of_call(ends.source))
    }

    /// Calls the method with this index, whose requests are a stream.
    pub fn client_streaming<Q: Message, P: Message>(&self, method: u16) -> super::Upload<Q, P> {
        super::Upload::new(self.bidirectional(method))
    }

    /// Calls the method with this index, both of whose sides are streams.
    pub fn bidirectional<Q: Message, P: Message>(
        &self,
        method: u16,
    ) -> Opening<(Sender<Q>, Streaming<P>)> {
        let head = CallHead::default();
        let plan = Plan { service: self.clone(), method, head, first: None };
        Opening::new(plan, |ends| (Sender::new(ends.sink), Streaming::of_call(ends.source)))
    }
}
