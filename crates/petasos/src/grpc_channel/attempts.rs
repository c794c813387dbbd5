//! Retries and hedges of unary calls over gRPC, as `petasos_runtime` does them over datagrams.
//!
//! A call of a method with a retry or hedging policy is a task of the channel's runtime, and each
//! of its attempts is one as well. Other calls become a task only if the server has certainly not
//! handled their request: the server refused the stream, or announced with GOAWAY that it ignores
//! streams with such a high number. For this case a copy of a short request is kept.
//!
//! Invariant: a task that ends cancels its attempts.

use std::sync::Arc;

use bytes::Bytes;
use petasos_buf::MsgBuf;
use petasos_call::channel::SessionIndex;
use petasos_call::policy::{Fate, Step, Verdict};
use petasos_call::{Failure, Retry, Status};
use petasos_grpc::{Compression, Connection, FrameReader, MethodPath};
use petasos_rpc::request::{More, all_in_status};
use petasos_rpc::settings::{RetryMode, ServiceDefaults, policy_of};
use tokio::task::{JoinError, JoinSet};

use super::retries::{Progress, Retrying, SPARE_BYTES_MAX, copy};
use super::{Begun, GrpcChannel, GrpcHead, Lease};

/// A call that may be sent several times.
pub(crate) struct Tried {
    call: Retrying,
    request: MsgBuf,
}

/// The response of a call, with its metadata.
pub(crate) struct Answer {
    pub(crate) message: Bytes,
    pub(crate) more: More,
}

impl Answer {
    /// Makes the answer from a reader that has read the whole response.
    pub(super) fn new(message: Bytes, reader: &mut FrameReader) -> Answer {
        let (metadata, trailers) = (reader.take_head(), reader.trailers());
        let compressed = Some(reader.compression() != Compression::Identity);
        Answer { message, more: More { metadata, trailers, compressed } }
    }
}

/// The result of an attempt.
struct End {
    outcome: Result<Answer, Status>,
    fate: Fate,
    session: Option<SessionIndex>,
}

/// The attempts of a call.
struct Attempts {
    progress: Progress,
    under_way: JoinSet<End>,
}

impl Tried {
    pub(crate) fn new(
        channel: &GrpcChannel,
        path: &MethodPath,
        head: GrpcHead,
        request: MsgBuf,
        method: (Option<Arc<ServiceDefaults>>, u16),
    ) -> Tried {
        Tried { call: Retrying::new(channel, path, head, method, policy_of), request }
    }

    /// Whether the policy retries or hedges calls of a method.
    pub(crate) fn is_needed(defaults: Option<&ServiceDefaults>, method: u16) -> bool {
        defaults.is_some_and(|defaults| defaults.method(method).retry_mode != RetryMode::Plain)
    }

    /// A copy of the request, unless it is long.
    pub(crate) fn spare(request: &[u8]) -> Option<MsgBuf> {
        (request.len() <= SPARE_BYTES_MAX).then(|| copy(request))
    }

    pub(super) fn runtime(&self) -> tokio::runtime::Handle {
        self.call.runtime().clone()
    }

    /// Sends the call until it has an outcome.
    pub(crate) async fn run(self) -> Result<Answer, Status> {
        let attempts = self.attempts();
        self.go_on(attempts, None).await
    }

    /// Like [`Tried::run`], after an attempt that the server has certainly not handled.
    pub(crate) async fn run_after(
        self,
        status: Status,
        at: SessionIndex,
    ) -> Result<Answer, Status> {
        let mut attempts = self.attempts();
        if self.call.poll(&mut attempts.progress) != Step::Send {
            return Err(status);
        }
        let ended = (Err(&status), Fate::NotRun, Some(at));
        match self.call.verdict(&mut attempts.progress, ended) {
            Verdict::Deliver => Err(status),
            Verdict::Hold => self.go_on(attempts, Some(Err(status))).await,
        }
    }

    fn attempts(&self) -> Attempts {
        Attempts { progress: self.call.progress(), under_way: JoinSet::new() }
    }

    async fn go_on(
        &self,
        mut attempts: Attempts,
        mut held: Option<Result<Answer, Status>>,
    ) -> Result<Answer, Status> {
        loop {
            let wake_at = match self.call.poll(&mut attempts.progress) {
                Step::Send => {
                    self.send(&mut attempts);
                    continue;
                }
                Step::Wait(at) => at,
                Step::GiveUp => return held.expect("an attempt has failed before"),
                Step::Expired => return Err(Failure::Timeout.status()),
            };
            let end = tokio::select! {
                Some(end) = attempts.under_way.join_next() => end.map_err(runtime_gone)?,
                () = self.call.sleep_until(wake_at) => continue,
            };
            let ended = (end.outcome.as_ref().map(|_| ()), end.fate, end.session);
            match self.call.verdict(&mut attempts.progress, ended) {
                Verdict::Deliver => return end.outcome,
                Verdict::Hold => held = Some(end.outcome),
            }
        }
    }

    /// Sends an attempt. If a connection is available at once, it is chosen here, so that the next
    /// attempt can avoid it.
    fn send(&self, attempts: &mut Attempts) {
        let (head, picked) = self.call.next(&mut attempts.progress);
        let Retrying { channel, path, .. } = &self.call;
        let (channel, path, request) = (channel.clone(), path.clone(), copy(&self.request));
        attempts.under_way.spawn(attempt(channel, path, head, request, picked));
    }
}

async fn attempt(
    channel: GrpcChannel,
    path: MethodPath,
    head: GrpcHead,
    request: MsgBuf,
    picked: Option<(Connection, Lease)>,
) -> End {
    let begun = channel.begin_at(picked, path, head, Some(request)).await;
    let Begun { mut reader, lease, .. } = match begun {
        Ok(begun) => begun,
        // If the channel fails, a transparent retry would fail, too.
        Err(status) => return End { outcome: Err(status), fate: Fate::Answered, session: None },
    };
    let session = Some(lease.session());
    match reader.single().await {
        Ok(message) => {
            let answer = Answer::new(message, &mut reader);
            lease.succeeded();
            End { outcome: Ok(answer), fate: Fate::Answered, session }
        }
        Err(status) => {
            let fate = reader.failed_below().map_or(Fate::Answered, Fate::from);
            End { outcome: Err(all_in_status(reader.take_head(), status)), fate, session }
        }
    }
}

/// Whether the server has certainly not handled a call with this failure.
pub(super) fn has_not_run(failed_below: Option<Retry>) -> bool {
    failed_below.is_some_and(|retry| Fate::from(retry) == Fate::NotRun)
}

fn runtime_gone(_: JoinError) -> Status {
    Status::unavailable("the channel's runtime has ended")
}
