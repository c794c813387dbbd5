//! A unary call over gRPC: one request, one response.

use core::pin::Pin;
use core::task::{Context, Poll, ready};

use bytes::Bytes;
use petasos_buf::MsgBuf;
use petasos_call::Status;
use petasos_grpc::MethodPath;
use petasos_message::Message;
use tokio::task::JoinHandle;

use super::{Begun, GrpcChannel, GrpcHead};
use crate::codec::decode_protobuf;
use crate::request::Response;
use crate::stream::all_in_status;

/// A unary call. It runs whether or not it is polled; dropping it gives it up.
pub(crate) struct GrpcUnary {
    stage: Stage,
    /// The response, until nothing follows it.
    message: Option<Bytes>,
}

enum Stage {
    /// A task of the runtime waits for a server that takes it.
    Beginning(JoinHandle<Result<Begun, Status>>),
    Begun(Box<Begun>),
    Over,
}

impl GrpcUnary {
    /// Begins a call with this request.
    pub(crate) fn new(
        channel: &GrpcChannel,
        path: &MethodPath,
        head: GrpcHead,
        request: MsgBuf,
    ) -> Result<GrpcUnary, Status> {
        let stage = match channel.try_begin(path, head, request) {
            Ok(begun) => Stage::Begun(Box::new(begun?)),
            Err((head, request)) => {
                let begun = channel.clone().begin(path.clone(), head, Some(request));
                Stage::Beginning(channel.runtime().spawn(begun))
            }
        };
        Ok(GrpcUnary { stage, message: None })
    }

    /// The call's outcome.
    pub(crate) fn poll<P: Message>(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Response<P>, Status>> {
        let outcome = ready!(self.poll_bytes(cx));
        let stage = core::mem::replace(&mut self.stage, Stage::Over);
        let Stage::Begun(mut begun) = stage else {
            return Poll::Ready(Err(outcome.expect_err("only calls that begin are answered")));
        };
        let (head, trailers) = (begun.reader.take_head(), begun.reader.trailers());
        Poll::Ready(match outcome {
            Ok(bytes) => {
                begun.lease.succeeded();
                decode_protobuf(bytes).map(|message| Response::received(message, head, trailers))
            }
            Err(status) => Err(all_in_status(head, status)),
        })
    }

    fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, Status>> {
        loop {
            let begun = match &mut self.stage {
                Stage::Begun(begun) => begun,
                Stage::Beginning(task) => {
                    let ended = |_| Err(Status::unavailable("the channel's runtime has ended"));
                    match ready!(Pin::new(task).poll(cx)).unwrap_or_else(ended) {
                        Ok(begun) => self.stage = Stage::Begun(Box::new(begun)),
                        Err(status) => {
                            self.stage = Stage::Over;
                            return Poll::Ready(Err(status));
                        }
                    }
                    continue;
                }
                Stage::Over => panic!("a call is not polled once it is over"),
            };
            let next = ready!(begun.reader.poll_next(cx))?;
            let text = match (next, self.message.take()) {
                (Some(message), None) => {
                    self.message = Some(message);
                    continue;
                }
                (None, Some(message)) => return Poll::Ready(Ok(message)),
                (None, None) => "there is no message",
                (Some(_), Some(_)) => "there is more than one message",
            };
            return Poll::Ready(Err(Status::unimplemented(text)));
        }
    }
}

impl core::fmt::Debug for GrpcUnary {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("GrpcUnary").finish_non_exhaustive()
    }
}

impl Drop for GrpcUnary {
    fn drop(&mut self) {
        if let Stage::Beginning(task) = &self.stage {
            task.abort();
        }
    }
}
