//! What happens to a gRPC call after each attempt. Unary calls and streams share this code.

use core::future::pending;
use core::time::Duration;
use std::sync::Arc;

use petasos_base::Time;
use petasos_buf::MsgBuf;
use petasos_call::channel::{Avoid, CallOptions, SessionIndex};
use petasos_call::policy::{AttemptEnd, CallPlan, Fate, MethodPolicy, Pushback, Step, Verdict};
use petasos_call::{Code, Failure, PREVIOUS_ATTEMPTS, Status};
use petasos_grpc::{Connection, MethodPath};
use petasos_rpc::settings::{PolicyOf, ServiceDefaults};
use tokio::runtime::Handle;

use super::{Begun, GrpcChannel, GrpcHead, Lease, State};

/// Unary methods without a policy keep only requests up to this length, in bytes.
pub(crate) const SPARE_BYTES_MAX: usize = 16 << 10;

/// The parts that all attempts of a call share.
pub(crate) struct Retrying {
    pub(super) channel: GrpcChannel,
    pub(super) path: MethodPath,
    head: GrpcHead,
    method: (Option<Arc<ServiceDefaults>>, u16),
    policy_of: PolicyOf,
    deadline: Time,
}

/// The attempts of a call so far.
pub(crate) struct Progress {
    plan: CallPlan,
    avoid: Avoid,
    /// A server has refused the call before.
    refused: bool,
}

/// The result of an attempt, and the session that it used.
pub(crate) type Ended<'a> = (Result<(), &'a Status>, Fate, Option<SessionIndex>);

impl Retrying {
    pub(crate) fn new(
        channel: &GrpcChannel,
        path: &MethodPath,
        head: GrpcHead,
        method: (Option<Arc<ServiceDefaults>>, u16),
        policy_of: PolicyOf,
    ) -> Retrying {
        let deadline = super::options(&head, channel.inner.now()).deadline;
        let (channel, path) = (channel.clone(), path.clone());
        Retrying { channel, path, head, method, policy_of, deadline }
    }

    /// The progress of a call that was not sent yet.
    pub(crate) fn progress(&self) -> Progress {
        let (defaults, method) = &self.method;
        let of_method = defaults.as_ref().map(|defaults| defaults.method(*method));
        let is_idempotent = of_method.is_some_and(|of_method| of_method.is_idempotent);
        let plan = CallPlan::new(is_idempotent, self.deadline, self.channel.inner.now());
        let plan = plan.waiting(self.head.wait_for_ready);
        Progress { plan, avoid: Avoid::NOTHING, refused: false }
    }

    pub(crate) fn runtime(&self) -> &Handle {
        self.channel.runtime()
    }

    pub(crate) fn policy(&self) -> &MethodPolicy {
        let (defaults, method) = &self.method;
        (self.policy_of)(defaults.as_deref(), *method)
    }

    pub(super) fn poll(&self, progress: &mut Progress) -> Step {
        let inner = &self.channel.inner;
        progress.plan.poll(self.policy(), &inner.lock().budget, inner.now())
    }

    /// Decides what follows the end of an attempt.
    pub(crate) fn verdict(
        &self,
        progress: &mut Progress,
        (outcome, fate, session): Ended<'_>,
    ) -> Verdict {
        let (code, pushback) = match outcome {
            Ok(()) => (Code::Ok, Pushback::Unsaid),
            Err(status) => (status.code(), Pushback::of(status.metadata())),
        };
        // Retry one refused attempt elsewhere at once. A second refusal counts as a failure, so
        // that a server that refuses everything is not flooded.
        let fate = match fate {
            Fate::NotRun if progress.refused => Fate::Unknown,
            fate => fate,
        };
        progress.refused |= fate == Fate::NotRun;
        session.into_iter().for_each(|session| progress.avoid.add(session));
        let now = self.channel.inner.now();
        let State { budget, rng, .. } = &mut *self.channel.inner.lock();
        let end = AttemptEnd { code, fate, pushback };
        progress.plan.handle_end(self.policy(), end, budget, now, rng)
    }

    /// The parts for the next attempt. If a connection is available at once, it is chosen here, so
    /// that the attempt after this one can avoid it.
    pub(super) fn next(&self, progress: &mut Progress) -> (GrpcHead, Option<(Connection, Lease)>) {
        let inner = &self.channel.inner;
        let mut head = self.head.clone();
        let previous = progress.plan.attempts() - 1;
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
            avoid: progress.avoid,
        };
        let picked = inner.lock().pick_now(options, inner);
        if let Some((_, lease)) = &picked {
            progress.avoid.add(lease.session());
        }
        (head, picked)
    }

    /// Starts the next attempt of a stream when it is due.
    pub(crate) async fn begin(&self, progress: &mut Progress) -> Result<Begun, Status> {
        loop {
            match self.poll(progress) {
                Step::Send => {}
                Step::Wait(at) => {
                    self.sleep_until(at).await;
                    continue;
                }
                Step::GiveUp | Step::Expired => return Err(Failure::Timeout.status()),
            }
            let (head, picked) = self.next(progress);
            let begun = self.channel.clone().begin_at(picked, self.path.clone(), head, None).await;
            let Err(status) = begun else { return begun };
            // If the channel fails, a transparent retry would fail, too.
            let ended = (Err(&status), Fate::Answered, None);
            if self.verdict(progress, ended) == Verdict::Deliver {
                return Err(status);
            }
        }
    }

    pub(super) async fn sleep_until(&self, at: Time) {
        match at {
            Time::NEVER => pending().await,
            at => {
                let left = at.nanos_since(self.channel.inner.now());
                tokio::time::sleep(Duration::from_nanos(left)).await;
            }
        }
    }
}

/// A copy of the request.
pub(crate) fn copy(request: &[u8]) -> MsgBuf {
    let mut copy = petasos_message::buffer(request.len());
    copy.as_mut_slice().copy_from_slice(request);
    copy
}
