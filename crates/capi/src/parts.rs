//! The two directions of a call as futures, for callers and handlers.
//!
//! Invariants: `sending` is `Opening` exactly while `receiving` is `OpeningBoth`. A message is
//! queued only while none is being sent.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use petasos::untyped::{Both, Payload};
use petasos::{Metadata, Msg, Opening, Response, Sender, Status, Streaming, Unary};

/// Polls for a message, or for the end, which is `None`.
pub(crate) type Received = Poll<Result<Option<Msg<Payload>>, Status>>;

type Sent = (Sender<Payload>, Result<(), Status>);

/// The receiving direction.
pub(crate) enum Receiving {
    Unary(Unary<Payload>),
    OpeningOne(Opening<Streaming<Payload>>),
    OpeningBoth(Opening<Both>),
    Stream(Streaming<Payload>),
    /// The only message, which has arrived.
    One(Msg<Payload>),
    Over(Result<(), Status>),
}

/// The sending direction.
pub(crate) enum Sending {
    Opening,
    Idle(Sender<Payload>),
    /// A message is being sent.
    Busy(Pin<Box<dyn Future<Output = Sent> + Send>>),
    /// A handler's only response, once it is set.
    One(Option<Msg<Payload>>),
    Over(Result<(), Status>),
}

/// Both directions.
pub(crate) struct Parts {
    pub(crate) receiving: Receiving,
    pub(crate) sending: Sending,
    queued: Option<Msg<Payload>>,
    closing: bool,
    /// The received metadata: for a caller, those of the server; for a handler, those of the
    /// caller.
    pub(crate) metadata: Metadata,
    pub(crate) trailers: Metadata,
    /// A handler's initial metadata, if they are sent with the only response.
    pub(crate) head: Metadata,
}

impl Parts {
    pub(crate) fn new(receiving: Receiving, sending: Sending) -> Parts {
        let (metadata, trailers, head) = Default::default();
        Parts { receiving, sending, queued: None, closing: false, metadata, trailers, head }
    }

    /// Polls for the next message.
    pub(crate) fn poll_receive(&mut self, cx: &mut Context<'_>) -> Received {
        ready!(self.poll_begun(cx));
        if let Receiving::Stream(stream) = &mut self.receiving {
            let message = ready!(stream.poll_message(cx));
            if let Ok(Some(message)) = message {
                return Poll::Ready(Ok(Some(message)));
            }
            self.metadata = stream.metadata().clone();
            self.trailers = stream.trailers().cloned().unwrap_or_default();
            self.receiving = Receiving::Over(message.map(|_| ()));
        }
        if let Receiving::Over(end) = &self.receiving {
            return Poll::Ready(end.clone().map(|()| None));
        }
        match core::mem::replace(&mut self.receiving, Receiving::Over(Ok(()))) {
            Receiving::One(message) => Poll::Ready(Ok(Some(message))),
            _ => unreachable!("it has begun, and all else was looked at"),
        }
    }

    /// Polls until the call has started; a unary call, until it is over.
    fn poll_begun(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.receiving {
            Receiving::Unary(call) => {
                let response = ready!(Pin::new(call).poll(cx));
                self.answered(response);
            }
            Receiving::OpeningOne(call) => {
                self.receiving = match ready!(Pin::new(call).poll(cx)) {
                    Ok(stream) => Receiving::Stream(stream),
                    Err(status) => Receiving::Over(Err(status)),
                };
            }
            Receiving::OpeningBoth(call) => {
                (self.receiving, self.sending) = match ready!(Pin::new(call).poll(cx)) {
                    Ok((sender, stream)) => (Receiving::Stream(stream), Sending::Idle(sender)),
                    Err(status) => {
                        (Receiving::Over(Err(status.clone())), Sending::Over(Err(status)))
                    }
                };
                if self.closing {
                    // It was closed before it started. Queued messages are sent first.
                    self.close();
                }
            }
            _ => {}
        }
        Poll::Ready(())
    }

    fn answered(&mut self, response: Result<Response<Payload>, Status>) {
        self.receiving = match response {
            Ok(response) => {
                self.metadata = response.metadata().clone();
                self.trailers = response.trailers().clone();
                Receiving::One(response.into_message())
            }
            Err(status) => Receiving::Over(Err(status)),
        };
    }

    /// Queues a message. [`Parts::poll_sent`] sends it.
    pub(crate) fn send(&mut self, message: Msg<Payload>) -> Result<(), Status> {
        if self.queued.is_some() || matches!(self.sending, Sending::Busy(_)) {
            return Err(Status::failed_precondition("the message before is still under way"));
        }
        match &mut self.sending {
            _ if self.closing => Err(Status::failed_precondition("sending is closed")),
            Sending::Over(Ok(())) => Err(Status::failed_precondition("there is nothing to send")),
            Sending::Over(Err(status)) => Err(status.clone()),
            Sending::One(Some(_)) => Err(Status::failed_precondition("there is one response")),
            Sending::One(place) => {
                *place = Some(message);
                Ok(())
            }
            _ => {
                self.queued = Some(message);
                Ok(())
            }
        }
    }

    /// Closes the sending direction after the current message.
    pub(crate) fn close(&mut self) {
        self.closing = true;
        if self.queued.is_none() && matches!(self.sending, Sending::Idle(_)) {
            self.sending = Sending::Over(Ok(()));
        }
    }

    /// Polls until the current message has left.
    pub(crate) fn poll_sent(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Status>> {
        loop {
            match &mut self.sending {
                Sending::Opening => ready!(self.poll_begun(cx)),
                Sending::Busy(sent) => {
                    let (sender, result) = ready!(sent.as_mut().poll(cx));
                    self.sending = match result {
                        Ok(()) => Sending::Idle(sender),
                        Err(status) => Sending::Over(Err(status)),
                    };
                }
                Sending::Idle(_) => {
                    let Some(message) = self.queued.take() else {
                        if self.closing {
                            self.sending = Sending::Over(Ok(()));
                        }
                        return Poll::Ready(Ok(()));
                    };
                    self.begin_send(message);
                }
                Sending::One(_) => return Poll::Ready(Ok(())),
                Sending::Over(end) => return Poll::Ready(end.clone()),
            }
        }
    }

    fn begin_send(&mut self, message: Msg<Payload>) {
        let idle = core::mem::replace(&mut self.sending, Sending::Over(Ok(())));
        let Sending::Idle(mut sender) = idle else { unreachable!("only idle ones begin") };
        self.sending = Sending::Busy(Box::pin(async move {
            let result = sender.send(message).await;
            (sender, result)
        }));
    }

    /// Whether a message is being sent.
    pub(crate) fn is_sending(&self) -> bool {
        self.queued.is_some() || matches!(self.sending, Sending::Busy(_))
    }

    /// Polls until the initial metadata have arrived, and returns them.
    pub(crate) fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<Metadata, Status>> {
        ready!(self.poll_begun(cx));
        match &mut self.receiving {
            Receiving::Stream(stream) => {
                let head = core::pin::pin!(stream.head());
                Poll::Ready(ready!(head.poll(cx)).cloned())
            }
            Receiving::Over(Err(status)) => Poll::Ready(Err(status.clone())),
            _ => Poll::Ready(Ok(self.metadata.clone())),
        }
    }

    /// Cancels the call.
    pub(crate) fn cancel(&mut self) {
        let gave_up = || Status::cancelled("the call was given up here");
        if !matches!(self.receiving, Receiving::Over(_)) {
            self.receiving = Receiving::Over(Err(gave_up()));
        }
        self.queued = None;
        self.sending = Sending::Over(Err(gave_up()));
    }
}
