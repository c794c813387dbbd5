//! A unary call over gRPC: one request, one response.

use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::sync::Arc;

use bytes::Bytes;
use petasos_buf::MsgBuf;
use petasos_call::Status;
use petasos_grpc::MethodPath;
use petasos_message::Message;
use petasos_rpc::codec::decode_protobuf;
use petasos_rpc::request::all_in_status;
use petasos_rpc::request::{Response, ResponseParts as _};
use petasos_rpc::settings::ServiceDefaults;
use tokio::task::JoinHandle;

use super::attempts::{Answer, Tried, has_not_run};
use super::{Begun, GrpcChannel, GrpcHead};

/// A unary call. It runs whether or not it is polled; dropping it cancels it.
pub(crate) struct GrpcUnary {
    stage: Stage,
    /// To retry the call on another connection, if the server has certainly not handled it.
    again: Option<Box<Tried>>,
    /// The response message, kept until the response has ended.
    message: Option<Bytes>,
}

enum Stage {
    /// A task of the runtime waits for an available server.
    Beginning(JoinHandle<Result<Begun, Status>>),
    Begun(Box<Begun>),
    /// A task of the runtime sends the call, possibly several times.
    Tried(JoinHandle<Result<Answer, Status>>),
    Over,
}

impl GrpcUnary {
    /// Starts a call of a method with this request.
    pub(crate) fn new(
        channel: &GrpcChannel,
        path: &MethodPath,
        head: GrpcHead,
        request: MsgBuf,
        (defaults, method): (Option<&Arc<ServiceDefaults>>, u16),
    ) -> Result<GrpcUnary, Status> {
        let of =
            |request, head| Tried::new(channel, path, head, request, (defaults.cloned(), method));
        if Tried::is_needed(defaults.map(|defaults| &**defaults), method) {
            let running = channel.runtime().spawn(of(request, head).run());
            return Ok(GrpcUnary { stage: Stage::Tried(running), again: None, message: None });
        }
        let again = Tried::spare(&request).map(|spare| Box::new(of(spare, head.clone())));
        let stage = match channel.try_begin(path, head, request) {
            Ok(begun) => Stage::Begun(Box::new(begun?)),
            Err((head, request)) => {
                let begun = channel.clone().begin(path.clone(), head, Some(request));
                Stage::Beginning(channel.runtime().spawn(begun))
            }
        };
        Ok(GrpcUnary { stage, again, message: None })
    }

    /// Polls the outcome of the call.
    pub(crate) fn poll<P: Message>(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Response<P>, Status>> {
        let outcome = match self.poll_tried(cx) {
            None => ready!(self.poll_bytes(cx)),
            Some(tried) => return tried.map(read),
        };
        if let (Err(status), Stage::Begun(begun)) = (&outcome, &self.stage)
            && has_not_run(begun.reader.failed_below())
            && let Some(again) = self.again.take()
        {
            let at = begun.lease.session();
            let runtime = again.runtime();
            self.stage = Stage::Tried(runtime.spawn(again.run_after(status.clone(), at)));
            let tried = self.poll_tried(cx).expect("it has just begun");
            return tried.map(read);
        }
        let stage = core::mem::replace(&mut self.stage, Stage::Over);
        let Stage::Begun(mut begun) = stage else {
            return Poll::Ready(Err(outcome.expect_err("only calls that begin are answered")));
        };
        Poll::Ready(match outcome {
            Ok(bytes) => {
                let answer = Answer::new(bytes, &mut begun.reader);
                begun.lease.succeeded();
                read(Ok(answer))
            }
            Err(status) => Err(all_in_status(begun.reader.take_head(), status)),
        })
    }

    /// The outcome of a call that a task sends; `None` if no task does.
    fn poll_tried(&mut self, cx: &mut Context<'_>) -> Option<Poll<Result<Answer, Status>>> {
        let Stage::Tried(task) = &mut self.stage else { return None };
        let ended = |_| Err(Status::unavailable("the channel's runtime has ended"));
        let outcome = Pin::new(task).poll(cx).map(|outcome| outcome.unwrap_or_else(ended));
        if outcome.is_ready() {
            self.stage = Stage::Over;
        }
        Some(outcome)
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
                Stage::Tried(_) | Stage::Over => panic!("a call is not polled once it is over"),
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

fn read<P: Message>(outcome: Result<Answer, Status>) -> Result<Response<P>, Status> {
    let Answer { message, more } = outcome?;
    decode_protobuf(message).map(|message| Response::received(message, more))
}

impl core::fmt::Debug for GrpcUnary {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("GrpcUnary").finish_non_exhaustive()
    }
}

impl Drop for GrpcUnary {
    fn drop(&mut self) {
        match &self.stage {
            Stage::Beginning(task) => task.abort(),
            Stage::Tried(task) => task.abort(),
            Stage::Begun(_) | Stage::Over => {}
        }
    }
}
