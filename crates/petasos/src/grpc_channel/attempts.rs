//! Calls over gRPC that are sent more than once, as `petasos_runtime` does over datagrams.
//!
//! A call of a method with a retry or hedging policy is a task of the channel's runtime, and so is
//! each of its attempts. Other calls become one only when their request has certainly not been
//! handled: its stream was refused, or lies above those that a server that goes away still takes.
//! For that a copy of a short request is kept.
//!
//! Invariant: a task that ends takes its attempts along.

use core::future::pending;
use core::time::Duration;
use std::sync::Arc;

use bytes::Bytes;
use petasos_base::Time;
use petasos_buf::MsgBuf;
use petasos_call::channel::{Avoid, CallOptions, SessionIndex};
use petasos_call::policy::{AttemptEnd, CallPlan, Fate, Pushback, Step, Verdict};
use petasos_call::{Code, Failure, PREVIOUS_ATTEMPTS, Retry, Status};
use petasos_grpc::{Compression, Connection, FrameReader, MethodPath};
use petasos_rpc::request::{More, all_in_status};
use petasos_rpc::settings::{RetryMode, ServiceDefaults, policy_of};
use tokio::task::{JoinError, JoinSet};

use super::{Begun, GrpcChannel, GrpcHead, Lease, State};

/// Longer requests are kept only for methods with a policy, in bytes.
const SPARE_BYTES_MAX: usize = 16 << 10;

/// A call that may be sent again.
pub(crate) struct Tried {
    channel: GrpcChannel,
    path: MethodPath,
    head: GrpcHead,
    request: MsgBuf,
    defaults: Option<Arc<ServiceDefaults>>,
    method: u16,
    deadline: Time,
}

/// What a call has brought.
pub(crate) struct Answer {
    pub(crate) message: Bytes,
    pub(crate) more: More,
}

impl Answer {
    /// What a reader that is through has brought.
    pub(super) fn new(message: Bytes, reader: &mut FrameReader) -> Answer {
        let (metadata, trailers) = (reader.take_head(), reader.trailers());
        let compressed = Some(reader.compression() != Compression::Identity);
        Answer { message, more: More { metadata, trailers, compressed } }
    }
}

/// How an attempt has ended.
struct End {
    outcome: Result<Answer, Status>,
    fate: Fate,
    session: Option<SessionIndex>,
}

/// The attempts of a call.
struct Attempts {
    plan: CallPlan,
    under_way: JoinSet<End>,
    avoid: Avoid,
    /// A server has refused it before.
    refused: bool,
}

impl Tried {
    pub(crate) fn new(
        channel: &GrpcChannel,
        path: &MethodPath,
        head: GrpcHead,
        request: MsgBuf,
        (defaults, method): (Option<Arc<ServiceDefaults>>, u16),
    ) -> Tried {
        let deadline = super::options(&head, channel.inner.now()).deadline;
        let (channel, path) = (channel.clone(), path.clone());
        Tried { channel, path, head, request, defaults, method, deadline }
    }

    /// Whether all attempts of calls of a method may be followed by others.
    pub(crate) fn is_needed(defaults: Option<&ServiceDefaults>, method: u16) -> bool {
        defaults.is_some_and(|defaults| defaults.method(method).retry_mode != RetryMode::Plain)
    }

    /// The request once more, unless it is long.
    pub(crate) fn spare(request: &[u8]) -> Option<MsgBuf> {
        (request.len() <= SPARE_BYTES_MAX).then(|| copy(request))
    }

    pub(super) fn runtime(&self) -> tokio::runtime::Handle {
        self.channel.runtime().clone()
    }

    /// Sends it until it has an outcome.
    pub(crate) async fn run(self) -> Result<Answer, Status> {
        let attempts = self.attempts();
        self.go_on(attempts, None).await
    }

    /// Likewise, after an attempt that certainly has not run.
    pub(crate) async fn run_after(
        self,
        status: Status,
        at: SessionIndex,
    ) -> Result<Answer, Status> {
        let mut attempts = self.attempts();
        if self.poll(&mut attempts.plan) != Step::Send {
            return Err(status);
        }
        let end = End { outcome: Err(status), fate: Fate::NotRun, session: Some(at) };
        let held = match self.verdict(&mut attempts, &end) {
            Verdict::Deliver => return end.outcome,
            Verdict::Hold => end.outcome,
        };
        self.go_on(attempts, Some(held)).await
    }

    fn attempts(&self) -> Attempts {
        let defaults = self.defaults.as_ref();
        let of_method = defaults.map(|defaults| defaults.method(self.method));
        let is_idempotent = of_method.is_some_and(|of_method| of_method.is_idempotent);
        let plan = CallPlan::new(is_idempotent, self.deadline, self.channel.inner.now());
        Attempts { plan, under_way: JoinSet::new(), avoid: Avoid::NOTHING, refused: false }
    }

    async fn go_on(
        &self,
        mut attempts: Attempts,
        mut held: Option<Result<Answer, Status>>,
    ) -> Result<Answer, Status> {
        loop {
            let wake_at = match self.poll(&mut attempts.plan) {
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
                () = self.sleep_until(wake_at) => continue,
            };
            match self.verdict(&mut attempts, &end) {
                Verdict::Deliver => return end.outcome,
                Verdict::Hold => held = Some(end.outcome),
            }
        }
    }

    fn poll(&self, plan: &mut CallPlan) -> Step {
        let policy = policy_of(self.defaults.as_deref(), self.method);
        plan.poll(policy, &self.channel.inner.lock().budget, self.channel.inner.now())
    }

    fn verdict(&self, attempts: &mut Attempts, end: &End) -> Verdict {
        let (code, pushback) = match &end.outcome {
            Ok(_) => (Code::Ok, Pushback::Unsaid),
            Err(status) => (status.code(), Pushback::of(status.metadata())),
        };
        // Once elsewhere, at once; a server that refuses all is spared.
        let fate = match end.fate {
            Fate::NotRun if attempts.refused => Fate::Unknown,
            fate => fate,
        };
        attempts.refused |= fate == Fate::NotRun;
        end.session.into_iter().for_each(|session| attempts.avoid.add(session));
        let policy = policy_of(self.defaults.as_deref(), self.method);
        let now = self.channel.inner.now();
        let State { budget, rng, .. } = &mut *self.channel.inner.lock();
        attempts.plan.handle_end(policy, AttemptEnd { code, fate, pushback }, budget, now, rng)
    }

    /// Sends an attempt. Its connection is chosen here, if that needs no waiting, so that the next
    /// attempt knows it.
    fn send(&self, attempts: &mut Attempts) {
        let inner = &self.channel.inner;
        let mut head = self.head.clone();
        let previous = attempts.plan.attempts() - 1;
        if previous > 0 {
            head.client.metadata.remove(PREVIOUS_ATTEMPTS);
            let noted = head.client.metadata.append(PREVIOUS_ATTEMPTS, &previous.to_string());
            noted.expect("it may be");
        }
        if self.deadline != Time::NEVER {
            let left = self.deadline.nanos_since(inner.now());
            head.client.timeout = Some(Duration::from_nanos(left));
        }
        let options = CallOptions {
            wait_for_ready: head.wait_for_ready,
            deadline: self.deadline,
            avoid: attempts.avoid,
        };
        let picked = inner.lock().pick_now(options, inner);
        if let Some((_, lease)) = &picked {
            attempts.avoid.add(lease.session());
        }
        let (channel, path, request) =
            (self.channel.clone(), self.path.clone(), copy(&self.request));
        attempts.under_way.spawn(attempt(channel, path, head, request, picked));
    }

    async fn sleep_until(&self, at: Time) {
        match at {
            Time::NEVER => pending().await,
            at => {
                let left = at.nanos_since(self.channel.inner.now());
                tokio::time::sleep(Duration::from_nanos(left)).await;
            }
        }
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
        // A channel that fails would fail a transparent retry as well.
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

/// Whether a call that failed so has certainly not run.
pub(super) fn has_not_run(failed_below: Option<Retry>) -> bool {
    failed_below.is_some_and(|retry| Fate::from(retry) == Fate::NotRun)
}

fn runtime_gone(_: JoinError) -> Status {
    Status::unavailable("the channel's runtime has ended")
}

fn copy(request: &[u8]) -> MsgBuf {
    let mut copy = petasos_message::buffer(request.len());
    copy.as_mut_slice().copy_from_slice(request);
    copy
}
